//! Money among the other machines: this node's own purse, and the books if it is the bank.

use super::Node;
use super::alarms::Part;
use super::config::BankPart;
use super::host::{Host, NodeEvent};
use super::message;
use super::route;
use super::storage::scanned;
use crate::contract::{Order, Outcome, Refusal};
use crate::discovery::cheapest;
use crate::disk::{Answer, Asked, StorageRequest, Table, What};
use crate::files;
use crate::goods::Kind;
use crate::ids::NodeId;
use crate::keys::Signed;
use crate::ledger::Message;
use crate::ledger::bank::{self, Bank};
use crate::ledger::books::Books;
use crate::ledger::client::{self, Client};
use crate::money::Micro;
use crate::overlay::swarm::Swarm;
use crate::protocol::{Input, InputOf, Machine, Rng};
use crate::ticket::{ServiceId, Ticket};
use crate::time::Time;
use crate::work::owner;

/// A node's part of its swarm's money.
pub(super) struct Money {
    purse: Machine<Client>,
    /// The swarm's bank, if it is this node.
    bank: Option<Machine<Bank>>,
    /// The bank's node id, once it is known.
    at: Option<NodeId>,
}

#[derive(Debug)]
pub(super) enum Step {
    Purse(InputOf<Client>),
    Bank(InputOf<Bank>),
}

impl Step {
    pub(super) fn machine(&self) -> &'static str {
        match self {
            Step::Purse(_) => "purse",
            Step::Bank(_) => "bank",
        }
    }
}

impl Money {
    pub(super) fn new(part: &BankPart, retry: std::time::Duration, seed: &[u8; 32]) -> Box<Money> {
        let bank = |rules| Bank::new(rules).signing(part.secret.clone());
        let bank = part.rules.clone().map(|rules| Machine::new(bank(rules), Rng::fork(seed, "bank")));
        Box::new(Money {
            purse: Machine::new(Client::new(part.secret.clone(), retry), Rng::fork(seed, "purse")),
            bank,
            at: part.bank,
        })
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        let bank = self.bank.as_ref().and_then(|bank| bank.deadline());
        [self.purse.deadline(), bank].into_iter().flatten().min()
    }

    pub(super) fn due(&mut self, now: Time) -> Option<Step> {
        let purse = self.purse.due(now).map(|t| Step::Purse(Input::Timer(t)));
        purse.or_else(|| self.bank.as_mut()?.due(now).map(|t| Step::Bank(Input::Timer(t))))
    }
}

impl Node {
    /// The swarm's bank, as far as this node knows; none if it has no money.
    pub fn bank(&self) -> Option<NodeId> {
        self.money.as_ref()?.at
    }

    /// The books of the swarm, if this node is its bank.
    pub fn books(&self) -> Option<&Books> {
        self.money.as_ref()?.bank.as_ref().map(|bank| bank.state().books())
    }

    /// Orders of this node that the bank has not answered yet.
    pub fn orders_pending(&self) -> usize {
        self.money.as_ref().map_or(0, |money| money.purse.state().pending())
    }

    fn money_step(&mut self, step: Step) {
        if self.money.is_some() {
            self.steps.push_back(route::Step::Money(step));
        }
    }

    fn tell_purse(&mut self, command: client::Command) {
        self.money_step(Step::Purse(Input::Command(command)));
    }

    fn tell_bank(&mut self, command: bank::Command) {
        if self.is_bank() {
            self.money_step(Step::Bank(Input::Command(command)));
        }
    }

    fn is_bank(&self) -> bool {
        self.money.as_ref().is_some_and(|money| money.bank.is_some())
    }

    pub(super) fn open_bank(&mut self, host: &mut impl Host) {
        let Some(money) = &mut self.money else { return };
        if money.bank.is_some() {
            money.at = Some(self.me);
            self.sell_by_receipts_of(self.me);
            self.scan(ServiceId::Bank, Table::Ledger, None, host);
        } else if let Some(bank) = money.at {
            self.know_bank(bank);
        }
    }

    /// Another node keeps the books. Gateways stay connected to it: their buyers order at any time, and
    /// their guests ask for balances by way of them.
    fn know_bank(&mut self, bank: NodeId) {
        if bank != self.me {
            self.tell_purse(client::Command::Bank { bank, stays: self.config.gateway });
        }
    }

    /// A peer has told which node the bank is.
    pub(super) fn bank_learnt(&mut self, swarm: &Swarm) {
        let (Some(money), Some(bank)) = (&mut self.money, swarm.bank) else { return };
        if money.at.is_some() {
            return;
        }
        money.at = Some(bank);
        self.know_bank(bank);
        if self.neighbours.state().knows(bank) {
            self.bank_met(bank);
        }
    }

    pub(super) fn bank_clock(&mut self, ms: u64) {
        self.tell_bank(bank::Command::WallClock(ms));
    }

    /// A peer has introduced itself.
    pub(super) fn bank_met(&mut self, peer: NodeId) {
        if self.bank() == Some(peer) {
            self.sell_by_receipts_of(peer);
            self.tell_purse(client::Command::BankUp(peer));
        }
    }

    pub(super) fn bank_lost(&mut self, peer: NodeId) {
        self.money_step(Step::Purse(Input::Down(peer)));
    }

    pub(super) fn money_message(&mut self, from: NodeId, message: Message, host: &mut impl Host) {
        match message {
            Message::ToBank(_) if self.is_bank() => {
                self.money_step(Step::Bank(Input::Message { from, message }));
            }
            // It goes by what this node was once set to, which now keeps no books: it waits.
            Message::ToBank(_) if self.bank().is_none_or(|bank| bank == self.me) => {}
            Message::ToBank(_) => self.fault(from, "took this node for a bank".into(), host),
            Message::ToClient(_) => self.money_step(Step::Purse(Input::Message { from, message })),
        }
    }

    /// The driver's.
    pub(super) fn order(&mut self, number: u64, order: Order, host: &mut impl Host) {
        match self.money.is_some() {
            true => {
                self.tell_purse(client::Command::Order { ticket: ServiceId::Driver.ticket(number), order })
            }
            false => {
                host.event(NodeEvent::Ordered { number, outcome: Err(Refusal::NoAccount) });
            }
        }
    }

    pub(super) fn order_of_finder(&mut self, ticket: u64, order: Order) {
        self.tell_purse(client::Command::Order { ticket: ServiceId::Cheapest.ticket(ticket), order });
    }

    pub(super) fn order_of_owner(&mut self, ticket: u64, order: Order) {
        self.tell_purse(client::Command::Order { ticket: ServiceId::Owner.ticket(ticket), order });
    }

    pub(super) fn order_of_files(&mut self, ticket: u64, order: Order) {
        self.tell_purse(client::Command::Order { ticket: ServiceId::Files.ticket(ticket), order });
    }

    pub(super) fn ask_statement(&mut self, number: u64, of: NodeId, from: u64, limit: u32) {
        match of == self.me {
            true => self.tell_purse(client::Command::Statement { number, from, limit }),
            false => self.tell_bank(bank::Command::Statement { number, of, from, limit }),
        }
    }

    pub(super) fn invite(&mut self, number: u64, amount: Micro, host: &mut impl Host) {
        match self.is_bank() {
            true => self.tell_bank(bank::Command::Invite { number, amount }),
            false => {
                let made = Err("this node is not the bank of its swarm; its operator makes invites".into());
                host.event(NodeEvent::Invited { number, made });
            }
        }
    }

    /// Passes replies of storage to the bank.
    pub(super) fn books_stored(
        &mut self,
        asked: Asked,
        result: Result<Answer, String>,
        host: &mut impl Host,
    ) {
        let Asked { what, number: ticket, .. } = asked;
        match (what, result) {
            (What::Commit, result) => {
                if result.is_ok() {
                    host.event(NodeEvent::CreditChanged);
                }
                self.tell_bank(bank::Command::Answered { ticket, result: result.map(drop) });
            }
            (What::Read, result) => {
                let entries = result.map(Answer::entries);
                self.tell_bank(bank::Command::Read { ticket, entries });
            }
            (What::Scan(table), Ok(answer)) => {
                let (entries, more) = scanned(answer);
                if !entries.is_empty() {
                    self.tell_bank(bank::Command::Restore(entries));
                }
                match more {
                    Some(after) => self.scan(ServiceId::Bank, table, Some(after), host),
                    None => self.tell_bank(bank::Command::Restore(Vec::new())),
                }
            }
            (What::Scan(_), Err(error)) => host.event(NodeEvent::Trouble {
                what: format!("the bank's books cannot be read, so it stays closed: {error}"),
            }),
        }
    }

    pub(super) fn money_input(&mut self, step: Step, host: &mut impl Host) {
        let (now, me) = (self.now, self.me);
        let Some(money) = &mut self.money else { return };
        match step {
            Step::Purse(input) => {
                let effects = money.purse.step(me, now, input);
                self.follow(ServiceId::Purse, effects, message::Message::Ledger, Node::of_purse, host);
            }
            Step::Bank(input) => {
                let Some(bank) = &mut money.bank else { return };
                let effects = bank.step(me, now, input);
                self.follow(ServiceId::Bank, effects, message::Message::Ledger, Node::of_bank, host);
            }
        }
        let deadline = self.money.as_ref().and_then(|money| money.deadline());
        self.alarms.set(Part::Money, deadline);
    }

    fn of_purse(&mut self, event: client::Event, host: &mut impl Host) {
        use client::Event;
        match event {
            Event::Holding(held) => {
                let (of_files, of_jobs) = held.into_iter().partition(|it| it.sale.kind == Kind::Files);
                self.tell_files(files::owner::Command::Holding(of_files));
                self.push(route::Step::Owner, owner::Command::Holding(of_jobs));
            }
            Event::Open => {}
            Event::Seek(bank) => self.locate_bank(bank),
            Event::Answered { ticket, outcome, receipt } => self.ordered(ticket, outcome, receipt, host),
            Event::Full { ticket } => self.ordered(ticket, Err(Refusal::Full), None, host),
            Event::Statement { number, page } => host.event(NodeEvent::Statement { number, page }),
            Event::Balance { of, balance } => self.guest_balance(of, balance),
        }
    }

    fn ordered(&mut self, ticket: Ticket, outcome: Outcome, receipt: Option<Signed>, host: &mut impl Host) {
        let Ticket { of, number } = ticket;
        if outcome.is_ok() {
            host.event(NodeEvent::CreditChanged);
        }
        match of {
            ServiceId::Cheapest => {
                self.tell_cheapest(cheapest::Command::Ordered { ticket: number, outcome, receipt });
            }
            ServiceId::Files => {
                self.tell_files(files::owner::Command::Ordered { ticket: number, outcome, receipt });
            }
            ServiceId::Owner => {
                self.push(route::Step::Owner, owner::Command::Settled { ticket: number, outcome });
            }
            _ => host.event(NodeEvent::Ordered { number, outcome }),
        }
    }

    fn of_bank(&mut self, event: bank::Event, host: &mut impl Host) {
        use bank::Event;
        match event {
            Event::Ready => {
                let me = self.me;
                self.tell_purse(client::Command::BankUp(me));
            }
            Event::Commit { ticket, writes } => {
                host.storage(StorageRequest::Commit {
                    token: Asked { of: ServiceId::Bank, what: What::Commit, number: ticket }.token(),
                    writes,
                });
            }
            Event::Read { ticket, after, limit } => {
                let token = Asked { of: ServiceId::Bank, what: What::Read, number: ticket }.token();
                let table = Table::Statements;
                host.storage(StorageRequest::Scan { token, table, after: Some(after), limit });
            }
            Event::Invited { number, made } => host.event(NodeEvent::Invited { number, made }),
        }
    }
}
