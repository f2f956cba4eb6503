//! The ring beside the tree. Neither knows of the other: what both need is connections, and the node counts
//! those.

use crate::address::Contact;
use crate::circle::{Point, RingId};
use crate::ids::NodeId;
use crate::node::Node;
use crate::node::config::Config;
use crate::node::host::{self, Host, NodeEvent};
use crate::node::notes::{Note, Reply};
use crate::node::table::Service;
use crate::overlay::ring::{Command, Event, Failure, Message, Mode, Ring, RingView};
use crate::protocol::Input;
use crate::replicas::Keys;
use crate::ticket::{ServiceId, Ticket};
use crate::wire::Framed;

impl Framed for Message {
    fn service(&self) -> ServiceId {
        ServiceId::Ring
    }
}

impl Service for Ring {
    const ID: ServiceId = ServiceId::Ring;
    const NAME: &'static str = "ring";
    type Beside = ();

    fn open(config: &Config) -> Option<Self> {
        config.ring.clone().map(Ring::new)
    }

    fn on_note(node: &mut Node, note: &Note<'_>, _: &mut dyn Host) {
        match *note {
            Note::Up(up) => node.give::<Self>(Input::Up(up.peer)),
            Note::Down(_) | Note::Unreachable(_) => node.ended::<Self>(note),
            _ => {}
        }
    }

    fn on_command(node: &mut Node, command: host::Command, _: &mut dyn Host) {
        if let host::Command::Locate { number, key } = command {
            let ticket = ServiceId::Driver.ticket(number);
            node.tell::<Self>(Command::Lookup { ticket, ring: RingId::NODES, key, mode: Mode::Iterative });
        }
    }

    fn on_event(node: &mut Node, event: Event, host: &mut dyn Host) {
        node.note(Note::Ring(&event), host);
        if let Some(keys) = keys_of(&event) {
            node.note(Note::Keys(&keys), host);
        }
        match event {
            Event::Found { ticket, found } => node.answer(ticket, Reply::Located(Ok(found)), host),
            Event::Failed { ticket, why } => node.answer(ticket, Reply::Located(Err(why)), host),
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

/// Changes of the keys that this node owns as a node: its markets have rings of their own.
fn keys_of(event: &Event) -> Option<Keys> {
    Some(match event {
        Event::Gained { member, range, from } if member.ring == RingId::NODES => {
            Keys::Gained { range: *range, from: *from }
        }
        Event::Lost { member, range, to } if member.ring == RingId::NODES => {
            Keys::Lost { range: *range, to: *to }
        }
        Event::Successors { member, list } if member.ring == RingId::NODES => {
            Keys::Successors(list.iter().map(|peer| peer.contact).collect())
        }
        _ => return None,
    })
}

impl Node {
    /// Where this node is on the ring; none if its swarm has no ring.
    pub fn ring(&self) -> Option<RingView<'_>> {
        self.state::<Ring>().map(Ring::view)
    }

    /// A lookup for a service of this node. Without a ring nobody owns anything.
    pub(super) fn look_up(&mut self, by: Ticket, ring: RingId, key: Point, host: &mut dyn Host) {
        match self.has::<Ring>() {
            true => self.tell::<Ring>(Command::Lookup { ticket: by, ring, key, mode: Mode::Recursive }),
            false => self.answer(by, Reply::Located(Err(Failure::Nobody)), host),
        }
    }

    /// Nodes that may be members of a market's ring.
    pub(super) fn know_ring(&mut self, ring: RingId, via: &[Contact], host: &mut dyn Host) {
        let via = self.enter_by(via, host);
        self.tell::<Ring>(Command::Know { ring, via, anchors: false });
    }

    /// Connects to the members by which a ring is entered, since none of them may be a neighbour; their ids.
    pub(super) fn enter_by(&mut self, via: &[Contact], host: &mut dyn Host) -> Vec<NodeId> {
        via.iter().for_each(|contact| self.reach(*contact, true, host));
        via.iter().map(|contact| contact.id).collect()
    }
}
