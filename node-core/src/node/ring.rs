//! The ring beside the tree, among the other machines. Neither knows of the other: what both need
//! is connections, and those are counted here.

use super::Node;
use super::alarms::Part;
use super::host::{Host, NodeEvent};
use super::overlays::{self};
use super::route;
use crate::address::Contact;
use crate::circle::{Located, MemberId, Point, RingId};
use crate::ids::NodeId;
use crate::node::message::Message;
use crate::overlay::ring::{Command, Event, Failure, Mode, Ring, RingConfig, RingView};
use crate::protocol::{Input, InputOf, Machine, Rng};
use crate::records;
use crate::ticket::{ServiceId, Ticket};
use crate::work::owner::delegation::OfRing;
use std::sync::Arc;

/// A node's part of the ring, if its swarm has one.
pub(super) struct Circle {
    pub(super) ring: Machine<Ring>,
}

impl Circle {
    pub(super) fn new(config: Arc<RingConfig>, seed: &[u8; 32]) -> Box<Circle> {
        let ring = Machine::new(Ring::new(config), Rng::fork(seed, "ring"));
        Box::new(Circle { ring })
    }

    /// Whether nobody on the ring counts on this node any more.
    pub(super) fn is_left(&self) -> bool {
        self.ring.state().view().members().next().is_none()
    }
}

impl Node {
    /// Where this node is on the ring; none if its swarm has no ring.
    pub fn ring(&self) -> Option<RingView<'_>> {
        self.overlays.circle.as_ref().map(|circle| circle.ring.state().view())
    }

    fn ring_step(&mut self, input: InputOf<Ring>) {
        if self.overlays.circle.is_some() {
            self.steps.push_back(route::Step::Overlay(overlays::Step::Ring(input)));
        }
    }

    pub(super) fn ring_input(&mut self, input: InputOf<Ring>, host: &mut impl Host) {
        let (now, me) = (self.now, self.me);
        let Some(circle) = &mut self.overlays.circle else { return };
        let effects = circle.ring.step(me, now, input);
        self.alarms.set(Part::Overlays, self.overlays.deadline());
        self.follow(ServiceId::Ring, effects, Message::Ring, Node::of_ring, host);
    }

    /// This node can be dialled at `me`: it takes its place.
    pub(super) fn join_ring(&mut self, me: Contact, via: Vec<NodeId>) {
        self.ring_command(Command::Join { member: MemberId::of_node(me.id), me, via });
    }

    /// A market of this node takes its place on the ring of markets.
    pub(super) fn join_market(&mut self, member: MemberId, via: Vec<NodeId>) {
        if let Some(me) = self.overlays.contact {
            self.ring_command(Command::Join { member, me, via });
        }
    }

    pub(super) fn ring_command(&mut self, command: Command) {
        self.ring_step(Input::Command(command));
    }

    /// Peers that may be on the ring are connected. Of two gateways the one of the lower id is where
    /// the ring is.
    pub(super) fn ring_known(&mut self, via: Vec<NodeId>, gateways: bool) {
        let lower = |id: &NodeId| !self.config.gateway || *id < self.me;
        let anchors = gateways && via.iter().all(lower);
        self.ring_command(Command::Know { ring: RingId::NODES, via, anchors });
    }

    pub(super) fn leave_ring(&mut self) {
        self.ring_command(Command::Leave(MemberId::of_node(self.me)));
    }

    pub(super) fn ring_peer(&mut self, peer: NodeId, up: bool) {
        self.ring_step(if up { Input::Up(peer) } else { Input::Down(peer) });
    }

    /// Asks for the owner of a key. Without a ring nobody is.
    pub(super) fn locate(&mut self, number: u64, key: Point, host: &mut impl Host) {
        if self.overlays.circle.is_none() {
            let found = Err(crate::overlay::ring::Failure::Nobody);
            return host.event(NodeEvent::Located { number, found });
        }
        self.ring_command(Command::Lookup {
            ticket: ServiceId::Driver.ticket(number),
            ring: RingId::NODES,
            key,
            mode: Mode::Iterative,
        });
    }

    /// Looks for the bank, to connect to it: it is the owner of its own place on the ring.
    pub(super) fn locate_bank(&mut self, bank: NodeId) {
        self.look_up(ServiceId::Purse.ticket(0), RingId::NODES, Point::of_node(bank));
    }

    fn bank_located(&mut self, found: Option<Contact>, host: &mut impl Host) {
        if let Some(contact) = found.filter(|contact| self.bank() == Some(contact.id)) {
            self.reach(contact, false, host);
        }
    }

    /// A lookup for a service of this node.
    pub(super) fn look_up(&mut self, ticket: Ticket, ring: RingId, key: Point) {
        self.ring_command(Command::Lookup { ticket, ring, key, mode: Mode::Recursive });
    }

    /// A lookup has ended: whoever asked is told.
    fn looked_up(&mut self, ticket: Ticket, found: Result<Located, Failure>, host: &mut impl Host) {
        let Ticket { of, number } = ticket;
        let located = found.as_ref().ok().cloned();
        match of {
            ServiceId::Driver => host.event(NodeEvent::Located { number, found }),
            ServiceId::Purse => self.bank_located(located.map(|found| found.owner.contact), host),
            ServiceId::Owner => self.delegated_told(OfRing::Located { number, found: located }),
            ServiceId::Records => self.records_command(records::Command::Located { number, found: located }),
            of => self.market_located(of, number, located),
        }
    }

    fn of_ring(&mut self, event: Event, host: &mut impl Host) {
        self.ring_told(&event);
        self.records_told(&event);
        self.ring_told_delegation(&event);
        self.ring_left(&event);
        match event {
            Event::Found { ticket, found } => self.looked_up(ticket, Ok(found), host),
            Event::Failed { ticket, why } => self.looked_up(ticket, Err(why), host),
            Event::Gained { .. }
            | Event::Lost { .. }
            | Event::Joined(_)
            | Event::Left(_)
            | Event::Successors { .. } => host.event(NodeEvent::NodesChanged),
            // A market tries again by itself.
            Event::Refused { member, .. } if member.ring != RingId::NODES => {}
            Event::Refused { why, .. } => {
                let what = format!("this node gets no place on the ring: {why}");
                host.event(NodeEvent::Trouble { what });
            }
        }
    }
}
