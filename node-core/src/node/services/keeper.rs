//! Keeps checkpoints of units that run elsewhere.

use crate::ids::NodeId;
use crate::node::Node;
use crate::node::config::Config;
use crate::node::host::Host;
use crate::node::notes::{Note, Reply};
use crate::node::table::Service;
use crate::protocol::Input;
use crate::store::{self, Asker, Store, Ticket};
use crate::ticket::ServiceId;
use crate::work::keeper::{Command, Event, Keeper};
use crate::work::owner::Owner;

impl Service for Keeper {
    const ID: ServiceId = ServiceId::Keeper;
    const NAME: &'static str = "keeper";
    type Beside = ();

    fn open(config: &Config) -> Option<Self> {
        Some(Keeper::new(config.keeper()))
    }

    fn start(node: &mut Node, _: &mut dyn Host) {
        if node.has::<Owner>() {
            node.tell::<Self>(Command::OwnerUp(node.me));
        }
    }

    fn on_note(node: &mut Node, note: &Note<'_>, _: &mut dyn Host) {
        match *note {
            Note::Up(up) if up.gateway || node.keeps_for(up.peer) => {
                node.tell::<Self>(Command::OwnerUp(up.peer));
            }
            Note::Down(peer) => node.give::<Self>(Input::Down(peer)),
            _ => {}
        }
    }

    fn on_reply(node: &mut Node, ticket: u64, reply: Reply, _: &mut dyn Host) {
        if let Reply::Fetched(result) = reply {
            node.tell::<Self>(Command::Answered { ticket, result });
        }
    }

    fn on_event(node: &mut Node, event: Event, _: &mut dyn Host) {
        let fetch = |number| Ticket { of: Asker::Keeper, number };
        match event {
            Event::Fetch { ticket, blobs, from } => {
                node.tell::<Store>(store::Command::Fetch { ticket: fetch(ticket), blobs, from: vec![from] });
            }
            Event::Release { ticket } => {
                node.tell::<Store>(store::Command::Release { ticket: fetch(ticket) });
            }
            Event::Room(bytes) => node.sell_checkpoints(bytes),
        }
    }
}

impl Node {
    /// Whether it keeps something of this owner's, which need not be a gateway.
    fn keeps_for(&self, owner: NodeId) -> bool {
        self.state::<Keeper>().is_some_and(|keeper| keeper.keeps_for(owner))
    }

    /// Units of others whose checkpoints this node keeps, and bytes of them.
    pub fn kept(&self) -> (usize, u64) {
        self.state::<Keeper>().map(Keeper::load).unwrap_or_default()
    }
}
