//! The space that knows what nodes can do. It stands on the ring, where nodes find it.

use crate::circle::RingId;
use crate::discovery::fitting::{self, Fitting};
use crate::node::Node;
use crate::node::config::Config;
use crate::node::host::Host;
use crate::node::notes::{Note, Reply};
use crate::node::table::Service;
use crate::overlay::can::{Can, Command, Event, Message};
use crate::protocol::Input;
use crate::requires::Matchmaking;
use crate::ticket::ServiceId;
use crate::wire::Framed;

impl Framed for Message {
    fn service(&self) -> ServiceId {
        ServiceId::Can
    }
}

impl Service for Can {
    const ID: ServiceId = ServiceId::Can;
    const NAME: &'static str = "CAN";
    type Beside = ();

    fn open(config: &Config) -> Option<Self> {
        config.may_match_by(Matchmaking::Can).then(Can::default)
    }

    fn on_note(node: &mut Node, note: &Note<'_>, _: &mut dyn Host) {
        match *note {
            Note::Unreachable(peer) => node.give::<Self>(Input::Unreachable(peer)),
            Note::Ring(_) => {
                let place = node.place_on_ring();
                node.tell::<Self>(Command::Ring(place));
            }
            Note::Load { .. } | Note::Able => node.tell::<Self>(Command::Own(node.capability_given())),
            _ => {}
        }
    }

    fn on_reply(node: &mut Node, number: u64, reply: Reply, _: &mut dyn Host) {
        if let Reply::Located(found) = reply {
            let owner = found.ok().map(|found| found.owner.contact);
            node.tell::<Self>(Command::Located { number, owner });
        }
    }

    fn on_event(node: &mut Node, event: Event, host: &mut dyn Host) {
        match event {
            Event::Lookup { number, key } => {
                node.look_up(ServiceId::Can.ticket(number), RingId::NODES, key, host);
            }
            Event::Nodes(nodes) => node.tell::<Fitting>(fitting::Command::Nodes(nodes)),
            Event::Found { ticket, found, visited } => {
                node.answer(ticket, Reply::Capable { found, visited }, host);
            }
            Event::Placed { ticket, at, visited } => {
                let found = at.into_iter().collect();
                node.answer(ticket, Reply::Capable { found, visited }, host);
            }
            Event::Steal { by, capability } => {
                node.tell::<Fitting>(fitting::Command::Steal { by, capability });
            }
            Event::Owned { .. } => {}
        }
    }
}

impl Node {
    /// Its place in the space that knows what nodes can do; none if its swarm has none.
    pub fn can(&self) -> Option<&Can> {
        self.state()
    }
}
