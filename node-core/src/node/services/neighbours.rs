//! The neighbours: their events are notes for all others.

use crate::discovery::connected::Connected;
use crate::ids::NodeId;
use crate::node::Node;
use crate::node::config::Config;
use crate::node::host::{Host, NodeEvent};
use crate::node::notes::{Note, Up};
use crate::node::table::{Seated, Service, Stepped};
use crate::overlay::neighbours::{Command, Event, Message, Neighbours};
use crate::protocol::{Input, InputOf};
use crate::ticket::ServiceId;
use crate::wire::Framed;

impl Framed for Message {
    fn service(&self) -> ServiceId {
        ServiceId::Neighbours
    }
}

impl Service for Neighbours {
    const ID: ServiceId = ServiceId::Neighbours;
    const NAME: &'static str = "neighbours";
    type Beside = ();

    /// It is no part of the table.
    fn open(_: &Config) -> Option<Self> {
        None
    }

    fn step(node: &mut Node, input: InputOf<Self>) -> Option<Stepped<Self>> {
        let machine = &mut node.neighbours.machine;
        // It has its peers in itself.
        Some((machine.step(node.me, node.now, input), machine.deadline()))
    }

    fn seated(node: &Node) -> Option<&Seated<Self>> {
        Some(&node.neighbours)
    }

    fn seated_mut(node: &mut Node) -> Option<&mut Seated<Self>> {
        Some(&mut node.neighbours)
    }

    fn deliver(node: &mut Node, from: NodeId, message: Message, _: &mut dyn Host) {
        if matches!(message, Message::Hello(_)) {
            node.make_way(from);
        }
        node.give::<Self>(Input::Message { from, message });
    }

    fn on_event(node: &mut Node, event: Event, host: &mut dyn Host) {
        match event {
            Event::Up { peer, gateway, joined, ip, seen, dialable } => {
                node.note(Note::Up(Up { peer, gateway, joined, ip, seen, dialable }), host);
                host.event(NodeEvent::NodesChanged);
            }
            Event::Dialable { peer, dialable } => {
                node.note(Note::Dialable { peer, dialable }, host);
                host.event(NodeEvent::NodesChanged);
            }
            Event::Down { peer } => {
                node.note(Note::Down(peer), host);
                node.try_next_gateway(peer, host);
                host.event(NodeEvent::NodesChanged);
            }
            Event::Full { peer, gateways } => {
                node.sent_elsewhere(peer, &gateways, host);
                host.event(NodeEvent::Full { peer, gateways });
            }
            Event::Learnt(swarm) => node.learnt(swarm, host),
            Event::Close { peer, reason } => host.disconnect(peer, &reason),
            Event::Rejected { peer, reason } => host.event(NodeEvent::Rejected { peer, reason }),
        }
    }
}

impl Node {
    /// If there is room for a guest only in the place of another, an idle one goes before one that works.
    fn make_way(&mut self, to: NodeId) {
        let guests = self.neighbours.machine.state().in_the_way_of(to);
        let offer = |guest: &NodeId| self.state::<Connected>()?.offer_of(*guest);
        let idle = guests.iter().find(|guest| offer(guest).is_none_or(|offer| offer.free >= offer.slots));
        if let Some(guest) = idle.or(guests.first()).copied() {
            self.tell::<Neighbours>(Command::Yields { guest, to });
        }
    }
}
