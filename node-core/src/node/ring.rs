//! The ring beside the tree, among the other machines. Neither knows of the other: what both need
//! is connections, and those are counted here.

use super::Node;
use super::alarms::Part;
use super::host::{Host, NodeEvent};
use super::overlays::{self, Overlays};
use super::route;
use crate::ids::NodeId;
use crate::overlay::contact::Contact;
use crate::overlay::neighbours;
use crate::overlay::ring::{Command, Event, MemberId, Mode, Point, Ring, RingConfig, RingId, RingView};
use crate::protocol::{Effect, Input, InputOf, Machine, Rng};
use crate::wire::Message;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The lookup of the bank; no other's number.
const OF_BANK: u64 = u64::MAX;

/// A node's part of the ring, if its swarm has one.
pub(super) struct Circle {
    pub(super) ring: Machine<Ring>,
    /// Whose connections are to last for the ring, and for the tree.
    held: BTreeSet<NodeId>,
    held_by_tree: BTreeSet<NodeId>,
}

impl Circle {
    pub(super) fn new(config: Arc<RingConfig>, seed: &[u8; 32]) -> Box<Circle> {
        let ring = Machine::new(Ring::new(config), Rng::fork(seed, "ring"));
        Box::new(Circle { ring, held: BTreeSet::new(), held_by_tree: BTreeSet::new() })
    }

    /// Whether nobody on the ring counts on this node any more.
    pub(super) fn is_left(&self) -> bool {
        self.ring.state().view().members().next().is_none()
    }
}

impl Overlays {
    fn is_held(&self, peer: NodeId) -> bool {
        let circle = self.circle.as_ref();
        circle.is_some_and(|circle| circle.held.contains(&peer) || circle.held_by_tree.contains(&peer))
    }

    /// The tree counts on this connection, or does not any more.
    pub(super) fn held_by_tree(&mut self, peer: NodeId, held: bool) {
        let Some(circle) = &mut self.circle else { return };
        match held {
            true => circle.held_by_tree.insert(peer),
            false => circle.held_by_tree.remove(&peer),
        };
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
        for effect in effects {
            match effect {
                Effect::Send { to, message } => self.send(to, Message::Ring(message), host),
                Effect::Emit(event) => self.of_ring(event, host),
            }
        }
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
        self.ring_command(Command::Lookup { number, ring: RingId::NODES, key, mode: Mode::Iterative });
    }

    /// Looks for the bank, to connect to it: it is the owner of its own place on the ring.
    pub(super) fn locate_bank(&mut self, bank: NodeId) {
        let (ring, key) = (RingId::NODES, Point::of_node(bank));
        self.ring_command(Command::Lookup { number: OF_BANK, ring, key, mode: Mode::Recursive });
    }

    fn bank_located(&mut self, number: u64, found: Option<Contact>, host: &mut impl Host) -> bool {
        if number != OF_BANK {
            return false;
        }
        if let Some(contact) = found.filter(|contact| self.bank() == Some(contact.id)) {
            self.reach(contact, false, host);
        }
        true
    }

    fn of_ring(&mut self, event: Event, host: &mut impl Host) {
        self.ring_told(&event);
        self.records_told(&event);
        self.ring_told_wards(&event);
        self.ring_left(&event);
        match event {
            Event::Reach(contact) => self.reach(contact, true, host),
            Event::Hold(contact) => {
                if let Some(circle) = &mut self.overlays.circle {
                    circle.held.insert(contact.id);
                }
                self.keep(contact, host);
            }
            Event::Release(peer) => {
                if let Some(circle) = &mut self.overlays.circle {
                    circle.held.remove(&peer);
                }
                self.let_go(peer);
            }
            Event::Found { number, ref found }
                if self.bank_located(number, Some(found.owner.contact), host) => {}
            Event::Failed { number, .. } if self.bank_located(number, None, host) => {}
            Event::Found { number, found } if self.ward_located(number, Some(&found)) => {}
            Event::Failed { number, .. } if self.ward_located(number, None) => {}
            Event::Found { number, found } if self.record_located(number, Some(&found)) => {}
            Event::Failed { number, .. } if self.record_located(number, None) => {}
            Event::Found { number, found } if self.located(number, Some(&found)) => {}
            Event::Failed { number, .. } if self.located(number, None) => {}
            Event::Found { number, found } => host.event(NodeEvent::Located { number, found: Ok(found) }),
            Event::Failed { number, why } => host.event(NodeEvent::Located { number, found: Err(why) }),
            Event::Fault { peer, fault } => self.fault(peer, fault, host),
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

    /// Connects to a peer on which an overlay counts.
    pub(super) fn keep(&mut self, contact: Contact, host: &mut impl Host) {
        self.dials.needed(contact.id);
        self.push(route::Step::Neighbours, neighbours::Command::Spare(contact.id, false));
        self.reach(contact, false, host);
    }

    /// An overlay does not count on a connection any more.
    pub(super) fn let_go(&mut self, peer: NodeId) {
        if !self.overlays.is_held(peer) {
            self.push(route::Step::Neighbours, neighbours::Command::Spare(peer, true));
        }
    }
}
