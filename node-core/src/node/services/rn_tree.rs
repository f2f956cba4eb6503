//! The tree that knows what nodes can do. It stands on the ring, which says what this node owns and who owns what lies
//! above.

use crate::circle::{Place, RingId};
use crate::discovery::fitting::{self, Fitting};
use crate::node::Node;
use crate::node::config::Config;
use crate::node::host::Host;
use crate::node::notes::{Note, Reply};
use crate::node::table::Service;
use crate::overlay::rn_tree::{Command, Event, Message, RnTree};
use crate::protocol::Input;
use crate::requires::Matchmaking;
use crate::ticket::ServiceId;
use crate::wire::Framed;

impl Framed for Message {
    fn service(&self) -> ServiceId {
        ServiceId::RnTree
    }
}

impl Service for RnTree {
    const ID: ServiceId = ServiceId::RnTree;
    const NAME: &'static str = "rendezvous tree";
    type Beside = ();

    fn open(config: &Config) -> Option<Self> {
        config.may_match_by(Matchmaking::RnTree).then(RnTree::default)
    }

    fn on_note(node: &mut Node, note: &Note<'_>, _: &mut dyn Host) {
        match *note {
            Note::Up(up) => node.give::<Self>(Input::Up(up.peer)),
            Note::Down(_) | Note::Unreachable(_) => node.ended::<Self>(note),
            Note::Ring(_) => node.tell::<Self>(Command::Place(node.place_on_ring())),
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
                node.look_up(ServiceId::RnTree.ticket(number), RingId::NODES, key, host);
            }
            Event::Nodes(nodes) => node.tell::<Fitting>(fitting::Command::Nodes(nodes)),
            Event::Found { ticket, found, visited } => {
                node.answer(ticket, Reply::Capable { found, visited }, host);
            }
        }
    }
}

impl Node {
    /// Its place in the tree that knows what nodes can do; none if its swarm has none.
    pub fn rn_tree(&self) -> Option<&RnTree> {
        self.state()
    }

    pub(super) fn place_on_ring(&self) -> Option<Place> {
        let mut members = self.ring()?.members();
        let member = members.find(|member| member.id().ring == RingId::NODES && member.joined())?;
        Some(Place { contact: member.contact(), range: member.range()? })
    }
}
