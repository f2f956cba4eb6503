//! Dial-back among the other machines: a node that peers have reached takes its places in tree, ring
//! and markets; one that nobody reaches any more leaves them in order, and is a guest.

use super::Node;
use super::alarms::Part;
use super::config::Config;
use super::host::{Host, NodeEvent};
use super::overlays;
use super::route;
use crate::address::{Contact, Dialable, Ip};
use crate::circle::MemberId;
use crate::discovery::nearest;
use crate::ids::NodeId;
use crate::market::seller;
use crate::node::message::Message;
use crate::overlay::dialback::{Command, DialBack, Event, Listening, Met, Standing};
use crate::overlay::neighbours;
use crate::overlay::ring;
use crate::overlay::tree;
use crate::platform::Platform;
use crate::protocol::{Input, InputOf, Machine, Rng};
use crate::ticket::ServiceId;
use crate::work::owner::delegation::OfRing;

pub(super) fn start(config: &Config, seed: &[u8; 32]) -> Machine<DialBack> {
    let Config { port, loopback_only, first_ip, gateway, .. } = *config;
    let listening = Listening { port, loopback_only, first: first_ip, gateway };
    Machine::new(DialBack::new(listening), Rng::fork(seed, "dial back"))
}

impl Node {
    /// Whether this node is a member or a guest, and why.
    pub fn standing(&self) -> Standing {
        self.overlays.dialback.state().standing()
    }

    /// Where others dial this node; none of a guest.
    pub(super) fn contact(&self) -> Option<Contact> {
        self.overlays.contact
    }

    fn dialback_step(&mut self, input: InputOf<DialBack>) {
        self.steps.push_back(route::Step::Overlay(overlays::Step::DialBack(input)));
    }

    pub(super) fn dialback_met(
        &mut self,
        peer: NodeId,
        (gateway, joined): (bool, bool),
        (ip, seen): (Option<Ip>, Option<Ip>),
        dialable: Dialable,
    ) {
        let platform = self.neighbours.state().get(peer).map(|known| known.platform);
        let dials = platform == Some(Platform::Native);
        self.dialback_step(Input::Command(Command::Met(Met {
            peer,
            ip,
            seen,
            dials,
            gateway,
            joined,
            dialable,
        })));
    }

    pub(super) fn dialback_lost(&mut self, peer: NodeId) {
        self.dialback_step(Input::Down(peer));
    }

    pub(super) fn probed(&mut self, number: u64, reached: bool) {
        self.dialback_step(Input::Command(Command::Probed { number, reached }));
    }

    pub(super) fn dialback_input(&mut self, input: InputOf<DialBack>, host: &mut impl Host) {
        let effects = self.overlays.dialback.step(self.me, self.now, input);
        self.alarms.set(Part::Overlays, self.overlays.deadline());
        self.follow(ServiceId::DialBack, effects, Message::DialBack, Node::of_dialback, host);
    }

    fn of_dialback(&mut self, event: Event, host: &mut impl Host) {
        match event {
            Event::Probe { number, contact } => host.probe(number, contact),
            Event::Standing(standing) => self.stands(standing, host),
        }
    }

    pub(super) fn dialback_start(&mut self) {
        self.dialback_step(Input::Command(Command::Start));
    }

    fn stands(&mut self, standing: Standing, host: &mut impl Host) {
        self.push(route::Step::Neighbours, neighbours::Command::Dialable(standing.dialable()));
        match standing {
            Standing::Member(me) => {
                self.overlays.reached = Some(me);
                self.enter();
            }
            Standing::Guest(_) | Standing::Unknown => self.become_guest(),
        }
        self.space_of_standing();
        host.event(NodeEvent::Standing(standing));
        host.event(NodeEvent::NodesChanged);
    }

    /// Takes its place in tree, ring and markets, once peers reach it and it knows how the swarm is set.
    pub(super) fn enter(&mut self) {
        if let Some(me) = self.overlays.reached.filter(|_| self.knows_settings()) {
            self.become_member(me);
        }
    }

    /// Peers through which this node takes its place: none for a gateway where a swarm begins.
    fn ways(&self) -> Vec<NodeId> {
        match (self.config.gateway, self.config.founds) {
            (true, true) => Vec::new(),
            // Its workers may be here already, and know no more than it did.
            (true, false) => self.gateways(),
            (false, _) => self.via(),
        }
    }

    fn become_member(&mut self, me: Contact) {
        let before = self.overlays.contact.replace(me);
        if self.overlays.ended || before == Some(me) {
            return;
        }
        self.sell_for_oneself();
        self.nearest_command(nearest::Command::Me(me));
        let via = self.ways();
        self.market_me(me);
        self.delegated_told(OfRing::Me(me));
        self.files_me(me);
        self.overlays.left = false;
        // From another address it is another member, and the ring hears first that the old one leaves.
        match self.overlays.circle.as_ref().is_some_and(|circle| !circle.is_left()) {
            true => self.leave_ring(),
            false => self.join_ring(me, via.clone()),
        }
        self.tree_command(tree::Command::Join { me, via });
    }

    fn become_guest(&mut self) {
        self.overlays.reached = None;
        if self.overlays.contact.take().is_none() || self.overlays.ended {
            return;
        }
        self.leave();
        // Its host will welcome it.
        self.tell_seller(seller::Command::Alone);
    }

    /// The place on the ring is given up. A node that has moved takes its new one.
    pub(super) fn ring_left(&mut self, event: &ring::Event) {
        let ring::Event::Left(member) = event else { return };
        if let Some(me) = self.overlays.contact
            && *member == MemberId::of_node(self.me)
            && !self.overlays.ended
        {
            self.join_ring(me, self.ways());
        }
    }

    /// A peer says that it can be dialled from now on, or not any more.
    pub(super) fn dialable(&mut self, peer: NodeId, dialable: Dialable) {
        self.dialback_step(Input::Command(Command::Dialable { peer, dialable }));
        self.known_as(peer, dialable);
        match dialable {
            Dialable::No => self.hosted(peer),
            Dialable::At(_) | Dialable::Unknown => {
                self.nearest_command(nearest::Command::Guest { guest: peer, load: None });
            }
        }
        let gateway = self.neighbours.state().get(peer).is_some_and(|known| known.gateway);
        self.know_ways(gateway);
    }

    /// Notes whether a peer is a guest or a member.
    pub(super) fn known_as(&mut self, peer: NodeId, dialable: Dialable) {
        self.hosting_met(peer);
        self.files_met(peer, dialable.contact());
    }
}
