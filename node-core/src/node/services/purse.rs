//! The bank's client of this node.

use crate::circle::{Point, RingId};
use crate::contract::Refusal;
use crate::files::owner as files;
use crate::goods::Kind;
use crate::ids::NodeId;
use crate::ledger::Message;
use crate::ledger::bank::{self, Bank};
use crate::ledger::client::{Client, Command, Event};
use crate::node::Node;
use crate::node::config::Config;
use crate::node::host::{self, Host, NodeEvent};
use crate::node::notes::{Note, Reply};
use crate::node::table::Service;
use crate::overlay::guests::relay;
use crate::overlay::swarm::Swarm;
use crate::ticket::ServiceId;
use crate::wire::Framed;
use crate::work::owner as jobs;

impl Framed for Message {
    fn service(&self) -> ServiceId {
        match self {
            Message::ToBank(_) => ServiceId::Bank,
            Message::ToClient(_) => ServiceId::Purse,
        }
    }
}

impl Service for Client {
    const ID: ServiceId = ServiceId::Purse;
    const NAME: &'static str = "purse";
    /// The bank's node id, once it is known.
    type Beside = Option<NodeId>;

    fn open(config: &Config) -> Option<Self> {
        config.bank.as_ref().map(|part| Client::new(part.secret.clone(), config.timing.retry))
    }

    fn start(node: &mut Node, host: &mut dyn Host) {
        let Some(part) = &node.config.bank else { return };
        match part.bank {
            _ if part.rules.is_some() => {
                let me = node.me;
                node.bank_is(me);
                node.note(Note::Bank(me), host);
            }
            Some(bank) => {
                node.bank_is(bank);
                node.know_bank(bank);
            }
            None => {}
        }
    }

    fn on_note(node: &mut Node, note: &Note<'_>, host: &mut dyn Host) {
        match *note {
            Note::Up(up) => node.bank_met(up.peer, host),
            Note::Down(_) | Note::Unreachable(_) => node.ended::<Self>(note),
            Note::Learnt(swarm) => node.bank_learnt(swarm, host),
            _ => {}
        }
    }

    fn on_command(node: &mut Node, command: host::Command, _: &mut dyn Host) {
        match command {
            host::Command::Order { number, order } => {
                node.tell::<Self>(Command::Order { ticket: ServiceId::Driver.ticket(number), order });
            }
            host::Command::Statement { number, of, from, limit } if of == node.me => {
                node.tell::<Self>(Command::Statement { number, from, limit });
            }
            host::Command::Statement { number, of, from, limit } => {
                node.tell::<Bank>(bank::Command::Statement { number, of, from, limit });
            }
            _ => {}
        }
    }

    /// The bank was looked up: it is the owner of its own place on the ring.
    fn on_reply(node: &mut Node, _: u64, reply: Reply, host: &mut dyn Host) {
        if let Reply::Located(Ok(found)) = reply
            && node.bank() == Some(found.owner.contact.id)
        {
            node.reach(found.owner.contact, false, host);
        }
    }

    fn on_event(node: &mut Node, event: Event, host: &mut dyn Host) {
        match event {
            Event::Holding(held) => {
                let (of_files, of_jobs) = held.into_iter().partition(|it| it.sale.kind == Kind::Files);
                node.tell::<files::Owner>(files::Command::Holding(of_files));
                node.tell::<jobs::Owner>(jobs::Command::Holding(of_jobs));
            }
            Event::Open => {}
            Event::Seek(bank) => {
                let ticket = ServiceId::Purse.ticket(0);
                node.look_up(ticket, RingId::NODES, Point::of_node(bank), host);
            }
            Event::Answered { ticket, outcome, receipt } => {
                if outcome.is_ok() {
                    host.event(NodeEvent::CreditChanged);
                }
                node.answer(ticket, Reply::Ordered { outcome, receipt }, host);
            }
            Event::Full { ticket } => {
                let (outcome, receipt) = (Err(Refusal::Full), None);
                node.answer(ticket, Reply::Ordered { outcome, receipt }, host);
            }
            Event::Statement { number, page } => host.event(NodeEvent::Statement { number, page }),
            Event::Balance { of, balance } => {
                node.tell::<relay::Relay>(relay::Command::Balance { of, balance });
            }
        }
    }
}

impl Node {
    /// The swarm's bank, as far as this node knows; none if it has no money.
    pub fn bank(&self) -> Option<NodeId> {
        *self.beside::<Client>()?
    }

    /// Orders of this node that the bank has not answered yet.
    pub fn orders_pending(&self) -> usize {
        self.state::<Client>().map_or(0, Client::pending)
    }

    fn bank_is(&mut self, bank: NodeId) {
        if let Some(at) = self.beside_mut::<Client>() {
            *at = Some(bank);
        }
    }

    /// Another node keeps the books. Gateways stay connected to it: their buyers order at any time, and
    /// their guests ask for balances by way of them.
    fn know_bank(&mut self, bank: NodeId) {
        if bank != self.me {
            self.tell::<Client>(Command::Bank { bank, stays: self.config.gateway });
        }
    }

    /// A peer has told which node the bank is.
    fn bank_learnt(&mut self, swarm: &Swarm, host: &mut dyn Host) {
        if let (None, Some(bank)) = (self.bank(), swarm.bank) {
            self.bank_is(bank);
            self.know_bank(bank);
            if self.peers().knows(bank) {
                self.bank_met(bank, host);
            }
        }
    }

    /// A peer has introduced itself.
    fn bank_met(&mut self, peer: NodeId, host: &mut dyn Host) {
        if self.bank() == Some(peer) {
            self.note(Note::Bank(peer), host);
            self.tell::<Client>(Command::BankUp(peer));
        }
    }
}
