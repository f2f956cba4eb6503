//! The tree and the finder on it, among the other machines.

use super::Node;
use super::alarms::Part;
use super::config::Config;
use super::elsewhere::Gateways;
use super::files::{self, Filing};
use super::host::{Host, NodeEvent};
use super::market::{self, Trade};
use super::ring::Circle;
use super::route;
use super::stall::Stall;
use crate::address::{Contact, Dialable, Ip};
use crate::discovery::connected;
use crate::discovery::nearest::{self, BranchView, Load, Nearest};
use crate::finding::{Found, Query, Queue};
use crate::ids::NodeId;
use crate::market::host::Host as Hosting;
use crate::market::seller::Seller;
use crate::node::message::Message;
use crate::overlay::dialback::DialBack;
use crate::overlay::neighbours;
use crate::overlay::ring::Ring;
use crate::overlay::swarm::Swarm;
use crate::overlay::tree::{self, Tree, TreeView};
use crate::protocol::{Input, InputOf, Machine, Rng};
use crate::records::Records;
use crate::ticket::{ServiceId, Ticket};
use crate::time::Time;
use crate::work::{owner, runner};
use std::collections::BTreeMap;
use std::time::Duration;

/// Peers to ask for the tree. Our choice: one of them will be in it.
const VIA: usize = 8;

/// After a search for more that found nothing, the owner's next looks ask only the nodes at hand for
/// so long. Our choice: short beside a person's patience; an owner of short units looks 100 times a
/// second.
const MORE_AGAIN: Duration = Duration::from_millis(500);

/// A search under way.
pub(super) struct Search {
    query: Query,
    /// Reason for the submitter if nothing is found: why the nodes at hand take nothing.
    shortage: Option<String>,
}

/// The machines of a node that others can depend on.
pub(super) struct Overlays {
    tree: Machine<Tree>,
    nearest: Machine<Nearest>,
    pub(super) circle: Option<Box<Circle>>,
    pub(super) trade: Option<Box<Trade>>,
    pub(super) records: Option<Box<Machine<Records>>>,
    pub(super) filing: Option<Box<Filing>>,
    pub(super) dialback: Machine<DialBack>,
    /// Where peers reach this node.
    pub(super) reached: Option<Contact>,
    /// Where peers reach this member, which knows the swarm's settings too; `None` at a guest.
    pub(super) contact: Option<Contact>,
    /// Where there may be room, while the gateway that this node knows is full.
    pub(super) gateways: Gateways,
    /// Searches in the tree for the owner.
    asked: BTreeMap<Ticket, Search>,
    /// When the swarm is searched again for more than the nodes at hand give.
    more_at: Time,
    /// Whether the tree was left.
    pub(super) left: bool,
    /// Whether this node takes no place any more, since it goes away.
    pub(super) ended: bool,
}

#[derive(Debug)]
pub(super) enum Step {
    DialBack(InputOf<DialBack>),
    Tree(InputOf<Tree>),
    Nearest(InputOf<Nearest>),
    Ring(InputOf<Ring>),
    Market(market::Step),
    Seller(InputOf<Seller>),
    Hosting(InputOf<Hosting>),
    Records(InputOf<Records>),
    Files(files::Step),
}

impl Step {
    pub(super) fn machine(&self) -> &'static str {
        match self {
            Step::DialBack(_) => "dial-back",
            Step::Tree(_) => "tree",
            Step::Nearest(_) => "finder in the tree",
            Step::Ring(_) => "ring",
            Step::Market(step) => step.machine(),
            Step::Seller(_) => "seller",
            Step::Hosting(_) => "host of guests",
            Step::Records(_) => "records",
            Step::Files(step) => step.machine(),
        }
    }
}

impl Overlays {
    pub(super) fn new(config: &Config, seed: &[u8; 32]) -> Overlays {
        let rng = |part| Rng::fork(seed, part);
        Overlays {
            tree: Machine::new(Tree::new(config.tree.clone()), rng("tree")),
            nearest: Machine::new(Nearest::new(config.nearest.clone()), rng("nearest")),
            trade: config.market.as_ref().map(|part| Trade::new(part, seed)),
            records: config.records.as_ref().map(|part| super::records::start(part, seed)),
            filing: config.files.as_ref().map(|config| Filing::new(config, seed)),
            circle: config.ring.clone().map(|config| Circle::new(config, seed)),
            dialback: super::dialback::start(config, seed),
            reached: None,
            contact: None,
            gateways: Gateways::default(),
            asked: BTreeMap::new(),
            more_at: Time::ZERO,
            left: false,
            ended: false,
        }
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        let ring = self.circle.as_ref().and_then(|circle| circle.ring.deadline());
        let trade = self.trade.as_ref().and_then(|trade| trade.deadline());
        let records = self.records.as_ref().and_then(|records| records.deadline());
        let filing = self.filing.as_ref().and_then(|filing| filing.deadline());
        let dialback = self.dialback.deadline();
        let overlays = [self.tree.deadline(), self.nearest.deadline(), dialback, ring];
        let all = overlays.into_iter().chain([trade, records, filing]);
        all.flatten().min()
    }

    pub(super) fn due(&mut self, now: Time) -> Option<Step> {
        let tree = self.tree.due(now).map(|t| Step::Tree(Input::Timer(t)));
        tree.or_else(|| self.nearest.due(now).map(|t| Step::Nearest(Input::Timer(t))))
            .or_else(|| self.dialback.due(now).map(|t| Step::DialBack(Input::Timer(t))))
            .or_else(|| self.circle.as_mut()?.ring.due(now).map(|t| Step::Ring(Input::Timer(t))))
            .or_else(|| self.trade.as_mut()?.due(now))
            .or_else(|| self.records.as_mut()?.due(now).map(|t| Step::Records(Input::Timer(t))))
            .or_else(|| self.filing.as_mut()?.due(now).map(Step::Files))
    }

    pub(super) fn stall(&self) -> Option<&Stall> {
        self.trade.as_ref().map(|trade| &trade.stall)
    }

    pub(super) fn stall_mut(&mut self) -> Option<&mut Stall> {
        self.trade.as_mut().map(|trade| &mut trade.stall)
    }

    /// Whether nobody in the tree or on the ring counts on this node any more.
    pub(super) fn is_left(&self) -> bool {
        let tree = self.left || !self.tree.state().view().joined();
        tree && self.circle.as_ref().is_none_or(|circle| circle.is_left())
    }
}

/// Whether it is a search for more than the nodes at hand gave, whose owner was answered already.
fn is_for_more(ticket: &Ticket) -> bool {
    ticket.of == ServiceId::Nearest
}

impl Node {
    /// Where this node is in the tree, and whom it knows there.
    pub fn tree(&self) -> TreeView<'_> {
        self.overlays.tree.state().view()
    }

    /// Free slots here and in the branches that this node knows.
    pub fn branch(&self) -> BranchView {
        self.overlays.nearest.state().view()
    }

    pub(super) fn tree_command(&mut self, command: tree::Command) {
        self.steps.push_back(route::Step::Overlay(Step::Tree(Input::Command(command))));
    }

    pub(super) fn nearest_command(&mut self, command: nearest::Command) {
        self.steps.push_back(route::Step::Overlay(Step::Nearest(Input::Command(command))));
    }

    pub(super) fn overlay(&mut self, step: Step, host: &mut impl Host) {
        let now = self.now;
        match step {
            Step::DialBack(input) => self.dialback_input(input, host),
            Step::Ring(input) => self.ring_input(input, host),
            Step::Market(step) => self.market_step(step, host),
            Step::Seller(input) => self.seller_input(input, host),
            Step::Hosting(input) => self.hosting_input(input, host),
            Step::Records(input) => self.records_input(input, host),
            Step::Files(step) => self.files_step(step, host),
            Step::Tree(input) => {
                let effects = self.overlays.tree.step(self.me, now, input);
                self.alarms.set(Part::Overlays, self.overlays.deadline());
                self.follow(ServiceId::Tree, effects, Message::Tree, Node::of_tree, host);
            }
            Step::Nearest(input) => {
                let effects = self.overlays.nearest.step(self.me, now, input);
                self.alarms.set(Part::Overlays, self.overlays.deadline());
                self.follow(ServiceId::Nearest, effects, Message::Nearest, Node::of_nearest, host);
            }
        }
    }

    /// Leaves for good.
    pub(super) fn end(&mut self) {
        self.overlays.ended = true;
        self.leave();
    }

    pub(super) fn leave(&mut self) {
        self.tree_command(tree::Command::Leave);
        self.leave_ring();
    }

    pub(super) fn refused(&mut self, node: NodeId) {
        self.nearest_command(nearest::Command::Refused { node });
    }

    pub(super) fn reserve_at(&mut self, node: NodeId, slots: u32) {
        self.nearest_command(nearest::Command::Reserve { node, slots });
    }

    /// A node has raised this owner's credit itself: what it declined before counts no longer.
    pub(super) fn welcome(&mut self, node: NodeId) {
        if self.overlays.nearest.state().has_shunned(node) {
            self.nearest_command(nearest::Command::Welcome { node });
        }
    }

    /// A peer has introduced itself. It is seen at `ip` by this node, which it sees at `seen`.
    pub(super) fn met(
        &mut self,
        peer: NodeId,
        (gateway, joined): (bool, bool),
        seen: (Option<Ip>, Option<Ip>),
        dialable: Dialable,
    ) {
        self.steps.push_back(route::Step::Overlay(Step::Tree(Input::Up(peer))));
        self.steps.push_back(route::Step::Overlay(Step::Nearest(Input::Up(peer))));
        self.ring_peer(peer, true);
        self.bank_met(peer);
        self.records_peer(peer, true);
        self.known_as(peer, dialable);
        self.dialback_met(peer, (gateway, joined), seen, dialable);
        self.know_ways(gateway);
    }

    /// Tells tree and ring through whom they can be found, when that may be somebody else by now.
    pub(super) fn know_ways(&mut self, gateway: bool) {
        let via = self.via();
        if gateway || self.config.gateway || via.len() == 1 {
            self.ring_known(via.clone(), gateway);
            self.tree_command(tree::Command::Via(via));
        }
    }

    pub(super) fn gateways(&self) -> Vec<NodeId> {
        let gateways = self.neighbours.state().all().filter(|(_, hello, _)| hello.gateway);
        gateways.take(VIA).map(|(id, ..)| id).collect()
    }

    pub(super) fn knows_settings(&self) -> bool {
        let swarm = self.swarm();
        let trades = self.config.market.is_some();
        swarm.degree.is_some() && (!trades || swarm.scheme.is_some() && swarm.pricing.is_some())
    }

    pub(super) fn settings_learnt(&mut self, swarm: &Swarm) {
        if let Some(degree) = swarm.degree {
            self.tree_command(tree::Command::Degree(degree));
        }
        self.market_learnt();
        self.bank_learnt(swarm);
        self.enter();
    }

    /// Peers through which the tree can be found: gateways, or, when none is here or this node
    /// is one and comes back after a while, others that can be in it.
    pub(super) fn via(&self) -> Vec<NodeId> {
        // A gateway that nobody has dialled back yet will be in the tree soon.
        let can_be = |dialable: Dialable, gateway| match dialable {
            Dialable::At(_) => true,
            Dialable::Unknown => gateway,
            Dialable::No => false,
        };
        let peers = || self.neighbours.state().all().filter(|(_, it, _)| can_be(it.dialable, it.gateway));
        let some =
            |peers: &mut dyn Iterator<Item = (NodeId, _, _)>| peers.take(VIA).map(|(id, ..)| id).collect();
        // A gateway has too many peers to look at all of them whenever one comes.
        let gateways: Vec<NodeId> = match self.config.gateway {
            true => Vec::new(),
            false => some(&mut peers().filter(|(_, hello, _)| hello.gateway)),
        };
        if gateways.is_empty() { some(&mut peers()) } else { gateways }
    }

    pub(super) fn lost(&mut self, peer: NodeId) {
        self.nearest_command(nearest::Command::Guest { guest: peer, load: None });
        self.steps.push_back(route::Step::Overlay(Step::Tree(Input::Down(peer))));
        self.steps.push_back(route::Step::Overlay(Step::Nearest(Input::Down(peer))));
        self.ring_peer(peer, false);
        self.market_lost(peer);
        self.bank_lost(peer);
        self.records_peer(peer, false);
        self.files_down(peer);
        self.dialback_lost(peer);
    }

    /// Connects to a peer unless that is done or under way.
    pub(super) fn reach(&mut self, contact: Contact, spare: bool, host: &mut impl Host) {
        let peer = contact.id;
        let own = self.overlays.contact.is_some_and(|me| (me.ip, me.port) == (contact.ip, contact.port));
        if own && peer != self.me && !self.neighbours.state().is_connected(peer) {
            // A guest of this node that has gone.
            return self.lost(peer);
        }
        if peer == self.me || self.dials.is_under_way(peer) || self.neighbours.state().is_connected(peer) {
            return;
        }
        let own = self.overlays.contact.map(|me| me.ip.scope());
        let nearest = self.neighbours.state().nearest().into_iter().chain(own).min();
        if self.dials.begin(contact, spare, nearest, self.now) {
            host.dial(contact);
        } else {
            self.lost(peer);
        }
    }

    fn of_tree(&mut self, event: tree::Event, host: &mut impl Host) {
        use tree::Event;
        match event {
            Event::Placed(placement) => {
                // Some of them were connected for another reason before.
                let around = placement.parent.iter().chain(&placement.children).chain(&placement.peers);
                for contact in around {
                    self.holds.hold(ServiceId::Tree, contact.id);
                    self.push(route::Step::Neighbours, neighbours::Command::Spare(contact.id, false));
                }
                self.push(route::Step::Runner, runner::Command::Findable(placement.joined));
                self.nearest_command(nearest::Command::Placed(*placement));
                host.event(NodeEvent::NodesChanged);
            }
            Event::Left => {
                // Since it was told to leave, it may have come back.
                self.overlays.left = self.overlays.contact.is_none() || self.overlays.ended;
                self.push(route::Step::Runner, runner::Command::Findable(false));
            }
        }
    }

    fn of_nearest(&mut self, event: nearest::Event, host: &mut impl Host) {
        use nearest::Event;
        match event {
            Event::Reserved { for_owner, slots, until, hops } => {
                host.event(NodeEvent::Reserved { owner: for_owner.id, slots, hops });
                self.push(
                    route::Step::Runner,
                    runner::Command::Reserved { owner: for_owner.id, slots, until },
                );
            }
            Event::Released { owner, slots } => {
                self.push(route::Step::Runner, runner::Command::Released { owner, slots });
            }
            Event::Found(Found { ticket, places, shortage }) if ticket.of == ServiceId::Driver => {
                host.event(NodeEvent::Found { number: ticket.number, places, shortage });
            }
            Event::Found(found) => self.found(found, host),
            Event::Changed => host.event(NodeEvent::NodesChanged),
        }
    }

    /// Asks for slots without a job behind it.
    pub(super) fn find(&mut self, query: Query, _: &mut impl Host) {
        self.nearest_command(nearest::Command::Find(query));
    }

    /// Gives an owner the places at nodes at hand at once. Only if these are not enough, the swarm is asked:
    /// for an owner that got nothing, or for more.
    pub(super) fn of_connected(&mut self, found: Found, missing: Option<Query>) {
        match missing.filter(|query| query.swarm) {
            Some(query) if found.places.is_empty() => self.search(query, found.shortage),
            Some(query) => {
                let already = self.overlays.asked.keys().any(is_for_more);
                if !already && self.now >= self.overlays.more_at {
                    let ticket = ServiceId::Nearest.ticket(query.ticket.number);
                    self.search(Query { ticket, ..query }, None);
                }
                self.push(route::Step::Owner, owner::Command::Found(found));
            }
            None => self.push(route::Step::Owner, owner::Command::Found(found)),
        }
    }

    fn search(&mut self, query: Query, shortage: Option<String>) {
        self.overlays.asked.insert(query.ticket, Search { query: query.clone(), shortage });
        self.nearest_command(nearest::Command::Find(query));
    }

    /// Dials the nodes that were found, and offers them to the owner as soon as they are connected.
    fn found(&mut self, found: Found, host: &mut impl Host) {
        let Some(Search { query, shortage }) = self.overlays.asked.remove(&found.ticket) else {
            return;
        };
        let for_more = is_for_more(&found.ticket);
        if for_more {
            let pause = if found.places.is_empty() { MORE_AGAIN } else { Duration::ZERO };
            self.overlays.more_at = self.now + pause;
        } else if found.places.is_empty() && query.queue == Queue::No {
            // No slot is free anywhere that is known.
            let query = Query { queue: Queue::One, swarm: false, ..query };
            return self.push(route::Step::Finder, connected::Command::Find(query));
        }
        let shortage = shortage.filter(|_| found.places.is_empty());
        for place in &found.places {
            if let Some(contact) = place.contact.filter(|contact| contact.id == place.node) {
                self.reach(contact, true, host);
            }
            let promise = connected::Promise { slots: place.units, memory_bytes: query.needs.memory_bytes };
            let here = self.neighbours.state().knows(place.node);
            self.push(route::Step::Finder, connected::Command::Promised { node: place.node, promise, here });
        }
        if !for_more {
            // The places become offers; the owner is told why there are not more.
            self.push(
                route::Step::Owner,
                owner::Command::Found(Found { places: Vec::new(), shortage, ..found }),
            );
        }
    }

    /// Counts the slots of a guest in this host's branch.
    pub(super) fn hosted(&mut self, node: NodeId) {
        let Some(hello) = self.neighbours.state().get(node) else { return };
        if hello.dialable != Dialable::No || node == self.me {
            return;
        }
        let platform = hello.platform;
        let load = self.finder.state().offer_of(node).map(|offer| Load {
            slots: offer.slots,
            busy: vec![(self.me, offer.slots.saturating_sub(offer.free))],
            power: self.config.power,
            memory_bytes: offer.memory_bytes,
            platform,
        });
        self.nearest_command(nearest::Command::Guest { guest: node, load });
    }

    pub(super) fn of_load(&mut self, slots: u32, busy: Vec<(NodeId, u32)>) {
        let load = Load {
            slots,
            busy,
            power: self.config.power,
            memory_bytes: self.config.memory_bytes,
            platform: self.config.platform,
        };
        self.nearest_command(nearest::Command::Load(load));
    }
}
