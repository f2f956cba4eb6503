//! A gateway that is the relay of its guests.

use crate::circle::RingId;
use crate::ids::NodeId;
use crate::ledger::{self, ToBank};
use crate::node::Node;
use crate::node::config::Config;
use crate::node::host::Host;
use crate::node::notes::{Note, Reply};
use crate::node::table::Service;
use crate::overlay::guests::Message;
use crate::overlay::guests::relay::{Command, Event, Relay};
use crate::protocol::Input;
use crate::ticket::ServiceId;
use crate::wire::Framed;

impl Framed for Message {
    fn service(&self) -> ServiceId {
        match self {
            Message::ToRelay(_) => ServiceId::Relay,
            Message::ToGuest(_) => ServiceId::Guest,
        }
    }
}

impl Service for Relay {
    const ID: ServiceId = ServiceId::Relay;
    const NAME: &'static str = "relay";
    type Beside = ();

    fn open(config: &Config) -> Option<Self> {
        config.gateway.then(Relay::default)
    }

    fn on_note(node: &mut Node, note: &Note<'_>, _: &mut dyn Host) {
        match *note {
            Note::Up(up) => node.relay_met(up.peer),
            Note::Dialable { peer, .. } => node.relay_met(peer),
            Note::Down(_) | Note::Unreachable(_) => node.ended::<Self>(note),
            Note::Me(me) => node.tell::<Self>(Command::Me(Some(me))),
            Note::Guest => node.tell::<Self>(Command::Me(None)),
            _ => {}
        }
    }

    fn on_reply(node: &mut Node, number: u64, reply: Reply, _: &mut dyn Host) {
        if let Reply::Located(found) = reply {
            let owner = found.ok().map(|found| found.owner.contact);
            node.tell::<Self>(Command::Found { number, owner });
        }
    }

    fn on_event(node: &mut Node, event: Event, host: &mut dyn Host) {
        match event {
            Event::Lookup { number, key } => {
                node.look_up(ServiceId::Relay.ticket(number), RingId::NODES, key, host);
            }
            Event::Balance(leave) => {
                if let Some(bank) = node.bank() {
                    node.send(bank, ledger::Message::ToBank(ToBank::Balance(leave)), host);
                }
            }
            Event::Chosen(guest) => {
                node.count_guest(guest);
                node.fit_guest(guest);
            }
            Event::Load(guest) => node.fit_guest(guest),
        }
    }
}

impl Node {
    /// A peer has introduced itself, or says whether it can be dialled. Until others have dialled it, it is a guest:
    /// it learns which of both it is within 10 s or so, and this gateway may go before.
    fn relay_met(&mut self, peer: NodeId) {
        match self.peers().get(peer).map(|known| (known.gateway, known.dialable.contact())) {
            Some((false, None)) => self.tell::<Relay>(Command::Guest(peer)),
            Some((true, Some(_))) => self.tell::<Relay>(Command::Gateway),
            _ => self.give::<Relay>(Input::Down(peer)),
        }
    }
}
