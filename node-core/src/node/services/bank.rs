//! The books of the swarm, at the node that is its bank.

use crate::disk::{self, Answer, Asked, StorageRequest, Table, What};
use crate::ledger::bank::{Bank, Command, Event};
use crate::ledger::books::Books;
use crate::ledger::client::{self, Client};
use crate::node::Node;
use crate::node::config::Config;
use crate::node::host::{self, Host, NodeEvent};
use crate::node::notes::Note;
use crate::node::storage::{commit, scan, scanned};
use crate::node::table::Service;
use crate::ticket::ServiceId;

impl Service for Bank {
    const ID: ServiceId = ServiceId::Bank;
    const NAME: &'static str = "bank";
    type Beside = ();

    fn open(config: &Config) -> Option<Self> {
        let part = config.bank.as_ref()?;
        part.rules.clone().map(|rules| Bank::new(rules).signing(part.secret.clone()))
    }

    fn start(_: &mut Node, host: &mut dyn Host) {
        scan(ServiceId::Bank, Table::Ledger, None, host);
    }

    fn on_note(node: &mut Node, note: &Note<'_>, _: &mut dyn Host) {
        if let Note::Clock(ms) = *note {
            node.tell::<Self>(Command::WallClock(ms));
        }
    }

    fn on_command(node: &mut Node, command: host::Command, _: &mut dyn Host) {
        if let host::Command::Invite { number, amount } = command {
            node.tell::<Self>(Command::Invite { number, amount });
        }
    }

    fn on_stored(node: &mut Node, asked: Asked, result: Result<Answer, disk::Failed>, host: &mut dyn Host) {
        let ticket = asked.number;
        match (asked.what, result) {
            (What::Commit, result) => {
                if result.is_ok() {
                    host.event(NodeEvent::CreditChanged);
                }
                node.tell::<Self>(Command::Answered { ticket, result: result.map(drop) });
            }
            (What::Read, result) => {
                let entries = result.map(Answer::entries);
                node.tell::<Self>(Command::Read { ticket, entries });
            }
            (What::Scan(table), Ok(answer)) => {
                let (entries, more) = scanned(answer);
                if !entries.is_empty() {
                    node.tell::<Self>(Command::Restore(entries));
                }
                match more {
                    Some(after) => scan(ServiceId::Bank, table, Some(after), host),
                    None => node.tell::<Self>(Command::Restore(Vec::new())),
                }
            }
            (What::Scan(_), Err(error)) => host.event(NodeEvent::Trouble {
                what: format!("the bank's books cannot be read, so it stays closed: {error}"),
            }),
        }
    }

    fn on_event(node: &mut Node, event: Event, host: &mut dyn Host) {
        match event {
            Event::Ready => node.tell::<Client>(client::Command::BankUp(node.me)),
            Event::Commit { ticket, writes } => commit(ServiceId::Bank.ticket(ticket), writes, host),
            Event::Read { ticket, after, limit } => {
                let token = Asked { of: ServiceId::Bank, what: What::Read, number: ticket }.token();
                let table = Table::Statements;
                host.storage(StorageRequest::Scan { token, table, after: Some(after), limit });
            }
            Event::Invited { number, made } => host.event(NodeEvent::Invited { number, made }),
        }
    }
}

impl Node {
    /// The books of the swarm, if this node is its bank.
    pub fn books(&self) -> Option<&Books> {
        self.state::<Bank>().map(Bank::books)
    }
}
