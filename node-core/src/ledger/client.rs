//! The client: brings a node's orders to the bank, each until it is answered.
//!
//! Nothing of it is durable. What was under way when a node stopped is found again at the bank: in
//! a new life the first order makes all earlier ones too late, and then the bank lists what it
//! still holds ([`Event::Holding`]). An owner whose record has a result for a sale in that list
//! settles it again; a sale that is not in the list was settled.
//!
//! While the bank is down orders wait here, in order, up to a bound.

use super::message::Body;
use super::{BODY, Message, ORDERS, PURPOSE, Page, ToBank, ToClient, WINDOW};
use crate::contract::{Holding, Order, Outcome, Refusal, Sale};
use crate::ids::NodeId;
use crate::keys::{Secret, Signed};
use crate::money::Micro;
use crate::protocol::{Cx, Input, InputOf, Protocol};
use crate::ticket::Ticket;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Orders that may wait; more are handed back. Our choice: a day of the bank's at one a second, 20 MB
/// at most of them.
const WAITING: usize = 100_000;

/// How long an order waits for company, so that one signature does for many. Our choice: what
/// placing a unit does not feel.
const GATHER: Duration = Duration::from_millis(20);

/// Between two searches for a bank that is not connected. Our choice: a lookup on the ring and a dial.
const SEEK: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct Client {
    secret: Secret,
    retry: Duration,
    /// The bank while it is connected.
    bank: Option<NodeId>,
    /// The bank, connected or not, once it is known.
    known: Option<NodeId>,
    /// Whether to stay connected to the bank while nothing is to be said to it.
    stays: bool,
    phase: Phase,
    /// Not numbered yet, with the caller's names for them.
    waiting: VecDeque<(Ticket, Order)>,
    /// Numbered, and not answered.
    under_way: BTreeMap<u64, (Ticket, Order)>,
    /// Receipts that the bank has signed already, by the order's number.
    receipts: BTreeMap<u64, Signed>,
    /// Sales with a hold under way: their settlement must not overtake it.
    holding: BTreeSet<Sale>,
    next: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The bank is to say which numbers are used.
    Asking,
    /// The first order, under this number.
    Beginning(u64),
    /// The bank lists what it holds, above this.
    Listing(Option<Sale>),
    Open,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    Gather,
    Retry,
    /// The bank may still not be connected.
    Seek,
}

#[derive(Clone, Debug)]
pub enum Command {
    /// This other node is the bank, connected or not. With `stays` the connection is to last.
    Bank { bank: NodeId, stays: bool },
    /// The bank is connected, or is this node.
    BankUp(NodeId),
    /// The ticket comes back with the answer.
    Order { ticket: Ticket, order: Order },
    /// Answered by [`Event::Statement`] if the bank is there; not repeated.
    Statement { number: u64, from: u64, limit: u32 },
}

#[derive(Clone, Debug)]
pub enum Event {
    /// Holds that an earlier life of this node ordered; all of them come before [`Event::Open`].
    Holding(Vec<Holding>),
    /// The bank is needed and not connected: find it and connect to it.
    Seek(NodeId),
    /// Orders are sent from now on.
    Open,
    Answered {
        ticket: Ticket,
        outcome: Outcome,
        /// Receipt of a hold: the bank's word for the seller, if it gives one.
        receipt: Option<Signed>,
    },
    /// Too many orders wait; try again when some are answered.
    Full {
        ticket: Ticket,
    },
    Statement {
        number: u64,
        page: Page,
    },
    /// Balance of another node, which has given leave.
    Balance {
        of: NodeId,
        balance: Micro,
    },
}

impl Protocol for Client {
    type Message = Message;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, input: InputOf<Self>, cx: &mut Cx<'_, Self>) {
        match input {
            Input::Message { from, message: Message::ToClient(message) } if self.bank == Some(from) => {
                self.heard(message, cx);
            }
            Input::Command(Command::Bank { bank, stays }) => {
                (self.known, self.stays) = (Some(bank), stays);
                self.seek(cx);
            }
            Input::Command(Command::BankUp(bank)) => {
                self.bank = Some(bank);
                cx.cancel_timer(Timer::Seek);
                self.again(cx);
            }
            Input::Down(peer) | Input::Unreachable(peer) => {
                if self.bank == Some(peer) {
                    self.bank = None;
                    cx.cancel_timer(Timer::Retry);
                    self.seek(cx);
                }
            }
            Input::Command(Command::Order { ticket, order }) => self.order(ticket, order, cx),
            Input::Command(Command::Statement { number, from, limit }) => {
                self.to_bank(ToBank::Statement { number, from, limit }, cx);
            }
            Input::Timer(Timer::Gather) => self.send_new(cx),
            Input::Timer(Timer::Retry) => self.again(cx),
            Input::Timer(Timer::Seek) => self.seek(cx),
            // From who is not the bank, or nothing that the route gives a client.
            Input::Message { .. } | Input::Up(_) => {}
        }
    }

    fn check_invariants(&self) {
        assert!(self.waiting.len() <= WAITING, "the queue is bounded");
        assert!(
            self.receipts.keys().all(|number| self.under_way.contains_key(number)),
            "receipts are bounded"
        );
        let span = self.next.saturating_sub(self.under_way.keys().next().copied().unwrap_or(self.next));
        assert!(span <= WINDOW, "the bank remembers every number under way");
    }
}

impl Client {
    pub fn new(secret: Secret, retry: Duration) -> Client {
        Client {
            secret,
            retry,
            bank: None,
            known: None,
            stays: false,
            phase: Phase::Asking,
            waiting: VecDeque::new(),
            under_way: BTreeMap::new(),
            receipts: BTreeMap::new(),
            holding: BTreeSet::new(),
            next: 0,
        }
    }

    /// Orders that were not answered yet.
    pub fn pending(&self) -> usize {
        self.waiting.len() + self.under_way.len()
    }

    fn to_bank(&self, message: ToBank, cx: &mut Cx<'_, Self>) {
        if let Some(bank) = self.bank {
            cx.send(bank, Message::ToBank(message));
        }
    }

    /// Has the bank found, if it is needed and away.
    fn seek(&self, cx: &mut Cx<'_, Self>) {
        let Some(bank) = self.known.filter(|_| self.bank.is_none()) else { return };
        if self.stays || self.pending() > 0 {
            cx.emit(Event::Seek(bank));
            cx.set_timer(Timer::Seek, SEEK);
        }
    }

    fn order(&mut self, ticket: Ticket, order: Order, cx: &mut Cx<'_, Self>) {
        if self.waiting.len() >= WAITING {
            return cx.emit(Event::Full { ticket });
        }
        self.waiting.push_back((ticket, order));
        if self.bank.is_none() && !cx.timer_is_set(Timer::Seek) {
            self.seek(cx);
        }
        if self.phase != Phase::Open {
            return;
        }
        match self.waiting.len() >= ORDERS {
            true => self.send_new(cx),
            false => cx.set_timer_by(Timer::Gather, GATHER),
        }
    }

    /// Says again what was not answered.
    fn again(&mut self, cx: &mut Cx<'_, Self>) {
        match self.phase {
            Phase::Asking => self.to_bank(ToBank::Stand, cx),
            Phase::Beginning(number) => self.send(vec![(number, Order::Begin)], cx),
            Phase::Listing(after) => self.to_bank(ToBank::Holdings { after }, cx),
            Phase::Open => {
                let orders = self.under_way.iter().map(|(number, (_, order))| (*number, order.clone()));
                self.send(orders.collect(), cx);
                self.send_new(cx);
            }
        }
        let idle = self.phase == Phase::Open && self.under_way.is_empty();
        if self.bank.is_some() && !idle {
            cx.set_timer(Timer::Retry, self.retry);
        }
    }

    fn go_to(&mut self, phase: Phase, cx: &mut Cx<'_, Self>) {
        self.phase = phase;
        self.again(cx);
    }

    fn heard(&mut self, message: ToClient, cx: &mut Cx<'_, Self>) {
        match (message, self.phase) {
            (ToClient::Stands { next }, Phase::Asking) => {
                // Orders that an earlier life has on their way have lower numbers, and are out of the window
                // at once.
                let number = next.saturating_add(WINDOW);
                self.next = number.saturating_add(1);
                self.go_to(Phase::Beginning(number), cx);
            }
            (ToClient::Outcomes(outcomes), Phase::Beginning(number)) => {
                match outcomes.into_iter().find(|(of, _)| *of == number).map(|(_, outcome)| outcome) {
                    // Somebody was faster with the same key, such as an earlier life of this node.
                    Some(Err(Refusal::TooLate | Refusal::TooEarly | Refusal::NumberTaken)) => {
                        self.go_to(Phase::Asking, cx);
                    }
                    // Without an account there is nothing to begin behind.
                    Some(_) => self.go_to(Phase::Listing(None), cx),
                    None => {}
                }
            }
            (ToClient::Holdings(holdings), Phase::Listing(after)) => match holdings.last() {
                None => {
                    cx.emit(Event::Open);
                    self.go_to(Phase::Open, cx);
                }
                // One that was repeated may be answered twice.
                Some(last) if after.is_none_or(|after| holdings[0].sale > after) => {
                    let last = last.sale;
                    cx.emit(Event::Holding(holdings));
                    self.go_to(Phase::Listing(Some(last)), cx);
                }
                Some(_) => {}
            },
            (ToClient::Outcomes(outcomes), Phase::Open) => {
                outcomes.into_iter().for_each(|(number, outcome)| self.outcome(number, outcome, cx));
                self.send_new(cx);
            }
            (ToClient::Receipts(receipts), Phase::Open) => {
                let known = receipts.into_iter().filter(|(number, _)| self.under_way.contains_key(number));
                self.receipts.extend(known);
            }
            (ToClient::Statement { number, page }, _) => cx.emit(Event::Statement { number, page }),
            (ToClient::Balance { of, balance }, _) => cx.emit(Event::Balance { of, balance }),
            // A late answer to what was asked in another phase.
            _ => {}
        }
    }

    fn outcome(&mut self, number: u64, outcome: Outcome, cx: &mut Cx<'_, Self>) {
        let Some((ticket, order)) = self.under_way.remove(&number) else { return };
        let receipt = self.receipts.remove(&number);
        if let (Order::Hold { .. }, Some(sale)) = (&order, order.sale()) {
            self.holding.remove(&sale);
        }
        match outcome {
            // Under this number the bank did something else: it goes under a new one.
            Err(Refusal::NumberTaken) => self.waiting.push_front((ticket, order)),
            outcome => cx.emit(Event::Answered { ticket, outcome, receipt }),
        }
    }

    /// Numbers and sends what waits, as far as the window goes.
    fn send_new(&mut self, cx: &mut Cx<'_, Self>) {
        if self.phase != Phase::Open || self.bank.is_none() {
            return;
        }
        let mut new = Vec::new();
        while let Some((_, order)) = self.waiting.front() {
            let first = self.under_way.keys().next().copied().unwrap_or(self.next);
            let overtakes = order.sale().is_some_and(|sale| self.holding.contains(&sale));
            if overtakes || self.next.saturating_sub(first) >= WINDOW {
                break;
            }
            let Some((ticket, order)) = self.waiting.pop_front() else { break };
            if let (Order::Hold { .. }, Some(sale)) = (&order, order.sale()) {
                self.holding.insert(sale);
            }
            new.push((self.next, order.clone()));
            self.under_way.insert(self.next, (ticket, order));
            self.next = self.next.saturating_add(1);
        }
        if !new.is_empty() {
            self.send(new, cx);
            cx.set_timer_by(Timer::Retry, self.retry);
        }
    }

    /// Signs and sends, in as many messages as it takes.
    fn send(&self, orders: Vec<(u64, Order)>, cx: &mut Cx<'_, Self>) {
        let Some(bank) = self.bank else { return };
        let (mut batch, mut size) = (Vec::new(), 0);
        for (number, order) in orders {
            // An order that the bank refuses to read would hold up the rest: it goes alone and is refused.
            let more = order.size() + 16;
            if !batch.is_empty() && (batch.len() >= ORDERS || size + more > BODY - 64) {
                self.send_batch(bank, std::mem::take(&mut batch), cx);
                size = 0;
            }
            size += more;
            batch.push((number, order));
        }
        if !batch.is_empty() {
            self.send_batch(bank, batch, cx);
        }
    }

    fn send_batch(&self, bank: NodeId, orders: Vec<(u64, Order)>, cx: &mut Cx<'_, Self>) {
        // Only types without maps or unsized sequences; rmp cannot fail on them.
        let body = rmp_serde::to_vec(&Body { bank, orders }).map(Bytes::from).unwrap_or_default();
        let signed = Signed::new(&self.secret, PURPOSE, body);
        cx.send(bank, Message::ToBank(ToBank::Orders(signed)));
    }
}
