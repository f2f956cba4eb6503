//! The finder that knows the nodes at hand.

use crate::discovery::connected::{Connected, Event};
use crate::finding::Offer;
use crate::node::Node;
use crate::node::config::Config;
use crate::node::host::{Host, NodeEvent};
use crate::node::notes::Note;
use crate::node::table::Service;
use crate::protocol::Input;
use crate::ticket::ServiceId;
use crate::wire::Framed;

impl Framed for Offer {
    fn service(&self) -> ServiceId {
        ServiceId::Connected
    }
}

impl Service for Connected {
    const ID: ServiceId = ServiceId::Connected;
    const NAME: &'static str = "finder";
    type Beside = ();

    fn open(_: &Config) -> Option<Self> {
        Some(Connected::default())
    }

    fn start(node: &mut Node, _: &mut dyn Host) {
        node.give::<Self>(Input::Up(node.me));
    }

    fn on_note(node: &mut Node, note: &Note<'_>, _: &mut dyn Host) {
        match *note {
            Note::Up(up) => node.give::<Self>(Input::Up(up.peer)),
            Note::Down(_) | Note::Unreachable(_) => node.ended::<Self>(note),
            _ => {}
        }
    }

    fn on_event(node: &mut Node, event: Event, host: &mut dyn Host) {
        match event {
            Event::Found(found, missing) => {
                // Only if the nodes at hand are not enough, the swarm is asked.
                let missing = missing.filter(|query| query.swarm);
                node.answer_or_search(found, missing, host);
            }
            Event::Room(node_id) => node.note(Note::Room(node_id), host),
            Event::Reserve(node_id, slots) => node.note(Note::Reserve { node: node_id, slots }, host),
            Event::Changed(nodes) => {
                node.note(Note::Offers(&nodes), host);
                host.event(NodeEvent::NodesChanged);
            }
        }
    }
}
