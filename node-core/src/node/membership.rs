//! The place of a node in its swarm: one that peers have reached takes its places in tree, ring and markets;
//! one that nobody reaches any more leaves them in order, and is a guest.

use super::Node;
use super::host::{Host, NodeEvent};
use super::notes::Note;
use super::services::tree::is_in_tree;
use crate::address::{Contact, Dialable};
use crate::circle::{MemberId, RingId};
use crate::ids::NodeId;
use crate::overlay::dialback::{DialBack, Standing};
use crate::overlay::neighbours::{self, Neighbours};
use crate::overlay::ring::{self, Ring};
use crate::overlay::tree::{self, Tree};

/// Peers to ask for tree and ring. Our choice: one of them will be in both.
const VIA: usize = 8;

/// Where this node stands among members.
#[derive(Debug, Default)]
pub(super) struct Membership {
    /// Where peers reach this node.
    reached: Option<Contact>,
    /// Where peers reach this member, which knows the swarm's settings too; `None` at a guest.
    contact: Option<Contact>,
    /// Whether the tree was left.
    pub(super) left: bool,
    /// Whether this node takes no place any more, since it goes away.
    ended: bool,
}

impl Node {
    fn membership(&self) -> Option<&Membership> {
        self.beside::<DialBack>()
    }

    /// Where others dial this node; none of a guest.
    pub(super) fn contact(&self) -> Option<Contact> {
        self.membership()?.contact
    }

    /// Whether nobody in the tree or on the ring counts on this node any more.
    pub(super) fn is_left(&self) -> bool {
        let Some(it) = self.membership() else { return true };
        (it.left || !is_in_tree(self)) && self.has_left_the_ring()
    }

    fn has_left_the_ring(&self) -> bool {
        self.state::<Ring>().is_none_or(|ring| ring.view().members().next().is_none())
    }

    /// The tree was left. It counts only if this node has not become a member again meanwhile.
    pub(super) fn tree_left(&mut self) {
        if let Some(it) = self.beside_mut::<DialBack>() {
            it.left = it.contact.is_none() || it.ended;
        }
    }

    /// Leaves for good.
    pub(super) fn end(&mut self) {
        if let Some(it) = self.beside_mut::<DialBack>() {
            it.ended = true;
        }
        self.leave();
    }

    fn leave(&mut self) {
        self.tell::<Tree>(tree::Command::Leave);
        self.leave_ring();
    }

    fn leave_ring(&mut self) {
        self.tell::<Ring>(ring::Command::Leave(MemberId::of_node(self.me)));
    }

    /// This node can be dialled at `me`: it takes its place.
    fn join_ring(&mut self, me: Contact, via: Vec<NodeId>) {
        self.tell::<Ring>(ring::Command::Join { member: MemberId::of_node(me.id), me, via });
    }

    pub(super) fn stands(&mut self, standing: Standing, host: &mut dyn Host) {
        self.tell::<Neighbours>(neighbours::Command::Dialable(standing.dialable()));
        let member = if let Standing::Member(me) = standing { Some(me) } else { None };
        if let Some(it) = self.beside_mut::<DialBack>() {
            it.reached = member;
        }
        match member {
            Some(_) => self.enter(host),
            None => self.become_guest(host),
        }
        self.note(Note::Standing, host);
        host.event(NodeEvent::Standing(standing));
        host.event(NodeEvent::NodesChanged);
    }

    /// Takes its place in tree, ring and markets, once peers reach it and it knows how the swarm is set.
    pub(super) fn enter(&mut self, host: &mut dyn Host) {
        let reached = self.membership().and_then(|it| it.reached);
        if let Some(me) = reached.filter(|_| self.knows_settings()) {
            self.become_member(me, host);
        }
    }

    fn knows_settings(&self) -> bool {
        let swarm = self.swarm();
        let trades = self.config.market.is_some();
        let is_shaped = swarm.degree.is_some() && swarm.matchmaking.is_some();
        is_shaped && (!trades || swarm.scheme.is_some() && swarm.pricing.is_some())
    }

    fn become_member(&mut self, me: Contact, host: &mut dyn Host) {
        let Some(it) = self.beside_mut::<DialBack>() else { return };
        let before = it.contact.replace(me);
        if it.ended || before == Some(me) {
            return;
        }
        it.left = false;
        let via = self.ways();
        self.note(Note::Me(me), host);
        // A member that has moved gives up its old place first; `ring_left` has it join again.
        match self.has_left_the_ring() {
            true => self.join_ring(me, via.clone()),
            false => self.leave_ring(),
        }
        self.tell::<Tree>(tree::Command::Join { me, via });
    }

    fn become_guest(&mut self, host: &mut dyn Host) {
        let Some(it) = self.beside_mut::<DialBack>() else { return };
        if it.contact.take().is_none() || it.ended {
            return;
        }
        self.leave();
        self.note(Note::Guest, host);
    }

    /// The place on the ring is given up. A node that has moved takes its new one.
    pub(super) fn ring_left(&mut self, event: &ring::Event) {
        let ring::Event::Left(member) = event else { return };
        if let Some(it) = self.membership()
            && let Some(me) = it.contact
            && *member == MemberId::of_node(self.me)
            && !it.ended
        {
            self.join_ring(me, self.ways());
        }
    }

    /// Peers through which this node takes its place: none for a gateway where a swarm begins.
    fn ways(&self) -> Vec<NodeId> {
        match (self.config.gateway, self.config.founds) {
            (true, true) => Vec::new(),
            // Its workers may be here already, and know no more than it did.
            (true, false) => {
                let gateways = self.peers().all().filter(|(_, hello, _)| hello.gateway);
                gateways.take(VIA).map(|(id, ..)| id).collect()
            }
            (false, _) => self.via(),
        }
    }

    /// Tells tree and ring through whom they can be found, when that may be somebody else by now.
    pub(super) fn know_ways(&mut self, gateway: bool) {
        let via = self.via();
        if gateway || self.config.gateway || via.len() == 1 {
            // If gateways began several rings, that of the lowest id counts.
            let lower = |id: &NodeId| !self.config.gateway || *id < self.me;
            let anchors = gateway && via.iter().all(lower);
            self.tell::<Ring>(ring::Command::Know { ring: RingId::NODES, via: via.clone(), anchors });
            self.tell::<Tree>(tree::Command::Via(via));
        }
    }

    /// Peers through which the tree can be found: gateways, or, when none is here or this node
    /// is one and comes back after a while, others that can be in it.
    fn via(&self) -> Vec<NodeId> {
        // A gateway that nobody has dialled back yet will be in the tree soon.
        let can_be = |dialable: Dialable, gateway| match dialable {
            Dialable::At(_) => true,
            Dialable::Unknown => gateway,
            Dialable::No => false,
        };
        let peers = || self.peers().all().filter(|(_, it, _)| can_be(it.dialable, it.gateway));
        let some =
            |peers: &mut dyn Iterator<Item = (NodeId, _, _)>| peers.take(VIA).map(|(id, ..)| id).collect();
        // A gateway has too many peers to look at all of them whenever one comes.
        let gateways: Vec<NodeId> = match self.config.gateway {
            true => Vec::new(),
            false => some(&mut peers().filter(|(_, hello, _)| hello.gateway)),
        };
        if gateways.is_empty() { some(&mut peers()) } else { gateways }
    }
}
