//! A gateway among its guests: what they sell goes through it.

use crate::address::Dialable;
use crate::circle::RingId;
use crate::ids::NodeId;
use crate::ledger::{self, ToBank};
use crate::market;
use crate::market::guest::{AtHost, Message};
use crate::market::host::{Command, Event, Host as Hosting};
use crate::node::Node;
use crate::node::config::Config;
use crate::node::host::Host;
use crate::node::notes::{Note, Reply};
use crate::node::table::Service;
use crate::protocol::Input;
use crate::ticket::ServiceId;
use crate::wire::{self, Framed, WireError};
use std::any::Any;

impl Framed for Message {
    fn service(&self) -> ServiceId {
        match self {
            Message::ToHost(_) => ServiceId::Hosting,
            Message::ToGuest(_) => ServiceId::Seller,
        }
    }
}

impl Service for Hosting {
    const ID: ServiceId = ServiceId::Hosting;
    const NAME: &'static str = "hosting";
    type Beside = ();

    fn open(config: &Config) -> Option<Self> {
        let part = config.market.as_ref().filter(|_| config.gateway)?;
        Some(Hosting::new(part.config.clone()))
    }

    fn on_note(node: &mut Node, note: &Note<'_>, _: &mut dyn Host) {
        match *note {
            Note::Up(up) => node.hosting_met(up.peer),
            Note::Dialable { peer, .. } => node.hosting_met(peer),
            Note::Down(_) | Note::Unreachable(_) => node.ended::<Self>(note),
            Note::Me(me) => node.tell::<Self>(Command::Me(me)),
            Note::Learnt(_) => node.rules().into_iter().for_each(|it| node.tell::<Self>(Command::Rules(it))),
            _ => {}
        }
    }

    fn receive(node: &mut Node, from: NodeId, body: &[u8], host: &mut dyn Host) -> Result<(), WireError> {
        match wire::read(body)? {
            AtHost::ToHost(what) => Self::deliver(node, from, Message::ToHost(what), host),
            AtHost::ForGuest { guest, what } => {
                node.tell::<Self>(Command::ForGuest { from, guest, what: *what });
            }
        }
        Ok(())
    }

    /// Messages of the market owner and the buyer of this node.
    fn from_self(node: &mut Node, message: Box<dyn Any + Send>, _: &mut dyn Host) {
        let message = message.downcast().map(|message| *message);
        if let Ok(market::Message::ForGuest { guest, what }) = message {
            node.tell::<Self>(Command::ForGuest { from: node.me, guest, what: *what });
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
                node.look_up(ServiceId::Hosting.ticket(number), RingId::NODES, key, host);
            }
            Event::Say { to, message } => node.send(to, message, host),
            Event::Balance(leave) => {
                if let Some(bank) = node.bank() {
                    node.send(bank, ledger::Message::ToBank(ToBank::Balance(leave)), host);
                }
            }
        }
    }
}

impl Node {
    /// A peer has introduced itself, or says whether it can be dialled.
    fn hosting_met(&mut self, peer: NodeId) {
        match self.peers().get(peer) {
            Some(known) if known.dialable == Dialable::No && !known.gateway => {
                self.tell::<Hosting>(Command::Guest(peer));
            }
            _ => self.give::<Hosting>(Input::Down(peer)),
        }
    }
}
