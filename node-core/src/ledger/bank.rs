//! The bank: keeps the books of a swarm for everybody, durably.
//!
//! All orders that arrive while a commit is on its way to the disk make up the next one, and
//! nothing is answered before it is durable. One commit is under way at a time: if it fails it is
//! tried again, together with what came meanwhile, so the disk never has a later change without
//! an earlier one.

use super::books::{Books, Rules};
use super::message::Body;
use super::{BODY, Line, Message, ORDERS, PURPOSE, Page, ToBank, ToClient};
use crate::contract::{Order, Outcome, Receipt, Refusal};
use crate::disk::{self, Write};
use crate::ids::NodeId;
use crate::keys::{Secret, Signed};
use crate::money::Micro;
use crate::protocol::{Cx, Input, InputOf, Protocol};
use crate::time::Wall;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::time::Duration;

/// Characters that are said of bad orders: the decoder quotes what the peer wrote. Our choice: a line of a log.
const SAID: usize = 200;

/// Orders and questions that may wait for the next commit. Further ones are dropped; clients
/// repeat them. Our choice: some seconds' worth.
const WAITING: usize = 64;

/// Until a commit that failed is tried again. Our choice: an eye-blink for who frees a full disk.
const AGAIN: Duration = Duration::from_secs(1);

/// Lines in one answer. Our choice: 100 KB.
const LINES: u32 = 1000;

/// Holdings in one answer. Our choice: the same.
const HOLDINGS: usize = 1000;

/// Statements that are being read at a time; further questions are dropped.
const READING: usize = 256;

#[derive(Debug)]
pub struct Bank {
    books: Books,
    /// With which it signs receipts; a bank without gives none.
    secret: Option<Secret>,
    /// All books are read, and add up.
    read: bool,
    /// None until it is told.
    wall: Option<Wall>,
    /// Answers nobody before.
    open: bool,
    /// Not all that was kept could be read.
    damaged: bool,
    /// Answers that wait for the next commit.
    waiting: Vec<Answer>,
    committing: Option<Committing>,
    reading: BTreeMap<u64, Reading>,
    next_ticket: u64,
}

/// To be said once what was done before it is durable.
#[derive(Debug)]
struct Answer {
    to: NodeId,
    what: What,
}

#[derive(Debug)]
enum What {
    Say(ToClient),
    /// Its lines are read first.
    Statement {
        number: u64,
        page: Page,
        limit: u32,
    },
    Invited {
        number: u64,
        code: [u8; 16],
    },
}

#[derive(Debug)]
struct Committing {
    ticket: u64,
    writes: Vec<Write>,
    answers: Vec<Answer>,
}

#[derive(Debug)]
struct Reading {
    to: NodeId,
    number: u64,
    page: Page,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    Again,
}

#[derive(Clone, Debug)]
pub enum Command {
    /// Entries of the table `Ledger`, in key order; an empty list ends it.
    Restore(Vec<(Vec<u8>, Bytes)>),
    /// Answers [`Event::Commit`].
    Answered { ticket: u64, result: Result<(), disk::Failed> },
    /// Answers [`Event::Read`], in key order.
    Read { ticket: u64, entries: Result<Vec<(Vec<u8>, Bytes)>, disk::Failed> },
    /// The operator's: new credit for whoever shows a code first. Answered by [`Event::Invited`]
    /// with the same number.
    Invite { number: u64, amount: Micro },
    /// The operator's: lines of anybody's statement, to this node's own purse.
    Statement { number: u64, of: NodeId, from: u64, limit: u32 },
    /// Milliseconds since 1970; 0: a clock that was never set.
    WallClock(u64),
}

#[derive(Clone, Debug)]
pub enum Event {
    /// All that was kept from an earlier life has been read, and the time is known.
    Ready,
    Commit {
        ticket: u64,
        writes: Vec<Write>,
    },
    /// Scan the table `Statements`.
    Read {
        ticket: u64,
        after: Vec<u8>,
        limit: u32,
    },
    /// The code is durable; or why there is none.
    Invited {
        number: u64,
        made: Result<[u8; 16], NotInvited>,
    },
}

/// Why the bank's operator gets no invite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotInvited {
    #[error("this node is not the bank of its swarm; its operator makes invites")]
    NotBank,
    #[error("the bank is not open yet: it reads its books, or waits for the time; try again")]
    Closed,
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// Why orders of a peer are not looked at: a fault of the peer, in words that follow its name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum BadOrders {
    #[error("sent {0} bytes of orders; {BODY} are allowed")]
    Long(usize),
    #[error("sent orders that {} has not signed", .0.short())]
    Forged(NodeId),
    /// The decoder's words, shortened: it quotes the peer.
    #[error("signed what are no orders: {0}")]
    Unreadable(String),
    #[error("sent orders for the bank {}", .0.short())]
    OtherBank(NodeId),
    #[error("sent {0} orders at once; {ORDERS} are allowed")]
    Many(usize),
}

impl Protocol for Bank {
    type Message = Message;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, input: InputOf<Self>, cx: &mut Cx<'_, Self>) {
        match input {
            Input::Message { from, message: Message::ToBank(message) } => self.heard(from, message, cx),
            Input::Command(Command::Restore(entries)) => self.restore(&entries, cx),
            Input::Command(Command::Answered { ticket, result }) => self.answered(ticket, result, cx),
            Input::Command(Command::Read { ticket, entries }) => self.read(ticket, entries, cx),
            Input::Command(Command::Invite { number, amount }) => self.invite(number, amount, cx),
            Input::Command(Command::Statement { number, of, from, limit }) => {
                if self.open && self.waiting.len() < WAITING {
                    self.statement(cx.me, number, of, from, limit);
                    self.commit(cx);
                }
            }
            Input::Command(Command::WallClock(0)) => {}
            Input::Command(Command::WallClock(ms)) => {
                self.wall.get_or_insert_default().told(ms, cx.now);
                self.look_at_the_clock(cx);
            }
            Input::Timer(Timer::Again) => self.commit_again(cx),
            // The route gives a bank nothing else.
            Input::Message { .. } | Input::Up(_) | Input::Down(_) | Input::Unreachable(_) => {}
        }
    }

    fn check_invariants(&self) {
        if self.open {
            self.books.check();
        }
    }
}

impl Bank {
    pub fn new(rules: Rules) -> Bank {
        Bank {
            books: Books::new(rules),
            secret: None,
            read: false,
            wall: None,
            open: false,
            damaged: false,
            waiting: Vec::new(),
            committing: None,
            reading: BTreeMap::new(),
            next_ticket: 1,
        }
    }

    /// Gives the bank the node's key.
    pub fn signing(self, secret: Secret) -> Bank {
        Bank { secret: Some(secret), ..self }
    }

    pub fn books(&self) -> &Books {
        &self.books
    }

    fn ticket(&mut self) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        ticket
    }

    fn restore(&mut self, entries: &[(Vec<u8>, Bytes)], cx: &mut Cx<'_, Self>) {
        if !self.books.restore(entries) {
            self.damaged = true;
            cx.trouble("a row of the ledger cannot be read, so the bank stays closed; was it written by a newer version?"
                    .into());
        }
        if !entries.is_empty() || self.damaged {
            return;
        }
        if self.books.balances() {
            self.read = true;
            return self.look_at_the_clock(cx);
        }
        cx.trouble(
            "the ledger on the disk does not add up to zero, so the bank stays closed; put a copy of it back"
                .into(),
        );
    }

    /// Opens the bank when it knows both. Without its books it does not know the last day, and the
    /// commons would have its part twice; without the time, what is held would be over as soon as that
    /// is known.
    fn look_at_the_clock(&mut self, cx: &mut Cx<'_, Self>) {
        let Some(wall) = self.wall.as_ref().filter(|_| self.read) else { return };
        self.books.tell_time(wall.now(cx.now));
        if !std::mem::replace(&mut self.open, true) {
            cx.emit(Event::Ready);
        }
        self.commit(cx);
    }

    fn heard(&mut self, from: NodeId, message: ToBank, cx: &mut Cx<'_, Self>) {
        // Not answered, so it comes again.
        let its = self.waiting.iter().filter(|answer| answer.to == from).count();
        if !self.open || self.waiting.len() >= WAITING || its >= WAITING / 4 {
            return;
        }
        let what = match message {
            ToBank::Orders(signed) => match open(&signed, cx.me) {
                Ok(body) => {
                    let outcomes = self.orders(signed.by, &body);
                    if outcomes.iter().any(|(_, outcome)| *outcome == Err(Refusal::NoInvite)) && from != cx.me
                    {
                        // Ten of these end the connection: codes are not guessed by the thousand.
                        let fault = "showed a code of an invite that nobody waits with".into();
                        cx.fault(from, fault);
                    }
                    let receipts = self.receipts(signed.by, &body, &outcomes);
                    if !receipts.is_empty() {
                        let what = What::Say(ToClient::Receipts(receipts));
                        self.waiting.push(Answer { to: from, what });
                    }
                    What::Say(ToClient::Outcomes(outcomes))
                }
                Err(bad) => return cx.fault(from, bad.to_string()),
            },
            ToBank::Stand => What::Say(ToClient::Stands { next: self.books.next(from) }),
            ToBank::Holdings { after } => {
                What::Say(ToClient::Holdings(self.books.holdings(from, after, HOLDINGS)))
            }
            ToBank::Statement { number, from: first, limit } => {
                self.statement(from, number, from, first, limit);
                return self.commit(cx);
            }
            ToBank::Balance(leave) => match super::reads(&leave) {
                Some(of) => What::Say(ToClient::Balance { of, balance: self.books.balance(of) }),
                None => {
                    let fault = format!("asked for the account of {} without its leave", leave.by.short());
                    return cx.fault(from, fault);
                }
            },
        };
        self.waiting.push(Answer { to: from, what });
        self.commit(cx);
    }

    fn statement(&mut self, to: NodeId, number: u64, of: NodeId, first: u64, limit: u32) {
        let limit = limit.min(LINES);
        let what = What::Statement { number, page: self.books.page(of, first, limit), limit };
        self.waiting.push(Answer { to, what });
    }

    fn orders(&mut self, by: NodeId, body: &Body) -> Vec<(u64, Outcome)> {
        let mut wrong = false;
        let mut carry_out = |(number, order): &(u64, Order)| {
            // One wrong code a message: others in it are not looked at.
            if wrong && matches!(order, Order::Redeem { .. }) {
                return (*number, Err(Refusal::Full));
            }
            let outcome = self.books.carry_out(by, *number, order);
            wrong |= outcome == Err(Refusal::NoInvite);
            (*number, outcome)
        };
        body.orders.iter().map(&mut carry_out).collect()
    }

    /// For the sellers of what the bank has just put aside.
    fn receipts(&self, by: NodeId, body: &Body, outcomes: &[(u64, Outcome)]) -> Vec<(u64, Signed)> {
        let Some(secret) = &self.secret else { return Vec::new() };
        let done = body.orders.iter().zip(outcomes).filter(|(_, (_, outcome))| outcome.is_ok());
        let held = done.filter(|((_, order), _)| match order {
            Order::Hold { sale, .. } => self.books.holds(by, *sale),
            _ => false,
        });
        held.filter_map(|((number, order), _)| Some((*number, Receipt::of(by, order)?.sign(secret))))
            .collect()
    }

    fn invite(&mut self, number: u64, amount: Micro, cx: &mut Cx<'_, Self>) {
        if !self.open {
            return cx.emit(Event::Invited { number, made: Err(NotInvited::Closed) });
        }
        let mut code = [0; 16];
        for word in code.chunks_exact_mut(8) {
            word.copy_from_slice(&cx.rng.u64().to_le_bytes());
        }
        match self.books.invite(&code, amount) {
            Ok(()) => {
                self.waiting.push(Answer { to: cx.me, what: What::Invited { number, code } });
                self.commit(cx);
            }
            Err(refusal) => cx.emit(Event::Invited { number, made: Err(refusal.into()) }),
        }
    }

    /// Commits what has changed, unless a commit is under way: then its end does.
    fn commit(&mut self, cx: &mut Cx<'_, Self>) {
        if self.committing.is_some() {
            return;
        }
        let writes = self.books.take_writes();
        let answers = std::mem::take(&mut self.waiting);
        if writes.is_empty() {
            return answers.into_iter().for_each(|answer| self.say(answer, cx));
        }
        let ticket = self.ticket();
        cx.emit(Event::Commit { ticket, writes: writes.clone() });
        self.committing = Some(Committing { ticket, writes, answers });
    }

    fn answered(&mut self, ticket: u64, result: Result<(), disk::Failed>, cx: &mut Cx<'_, Self>) {
        let Some(committing) = self.committing.take_if(|committing| committing.ticket == ticket) else {
            return;
        };
        if let Err(error) = result {
            cx.trouble(format!(
                "the ledger could not be written, and the bank answers nobody until it can: {error}"
            ));
            self.committing = Some(committing);
            return cx.set_timer(Timer::Again, AGAIN);
        }
        committing.answers.into_iter().for_each(|answer| self.say(answer, cx));
        self.commit(cx);
    }

    fn commit_again(&mut self, cx: &mut Cx<'_, Self>) {
        let Some(mut committing) = self.committing.take() else { return };
        committing.writes.extend(self.books.take_writes());
        committing.answers.append(&mut self.waiting);
        committing.ticket = self.ticket();
        cx.emit(Event::Commit { ticket: committing.ticket, writes: committing.writes.clone() });
        self.committing = Some(committing);
    }

    fn say(&mut self, answer: Answer, cx: &mut Cx<'_, Self>) {
        let Answer { to, what } = answer;
        match what {
            What::Say(message) => cx.send(to, Message::ToClient(message)),
            What::Invited { number, code } => cx.emit(Event::Invited { number, made: Ok(code) }),
            What::Statement { number, page, limit } if limit == 0 || page.first >= page.all => {
                cx.send(to, Message::ToClient(ToClient::Statement { number, page }));
            }
            What::Statement { number, page, limit } => {
                if self.reading.len() < READING {
                    let ticket = self.ticket();
                    let after = super::books::before_line(page.of, page.first);
                    cx.emit(Event::Read { ticket, after, limit });
                    self.reading.insert(ticket, Reading { to, number, page });
                }
            }
        }
    }

    fn read(
        &mut self,
        ticket: u64,
        entries: Result<Vec<(Vec<u8>, Bytes)>, disk::Failed>,
        cx: &mut Cx<'_, Self>,
    ) {
        let Some(Reading { to, number, mut page }) = self.reading.remove(&ticket) else { return };
        match entries {
            Ok(entries) => {
                let of = page.of;
                let line = |(key, value): &(Vec<u8>, Bytes)| super::books::line_of(of, key, value);
                let lines: Vec<(u64, Line)> = entries.iter().map_while(line).collect();
                // Meanwhile the oldest may have gone, and newer ones come: the page is of one moment.
                page.first = lines.first().map_or(page.first, |(number, _)| *number);
                let lines = lines.into_iter().take_while(|(number, _)| *number < page.all);
                page.lines = lines.map(|(_, line)| line).collect();
                cx.send(to, Message::ToClient(ToClient::Statement { number, page }));
            }
            Err(error) => cx.trouble(format!("a statement could not be read: {error}")),
        }
    }
}

/// Body of orders that are signed, for this bank.
fn open(signed: &Signed, me: NodeId) -> Result<Body, BadOrders> {
    if signed.body.len() > BODY {
        return Err(BadOrders::Long(signed.body.len()));
    }
    let Some(bytes) = signed.open(PURPOSE) else {
        return Err(BadOrders::Forged(signed.by));
    };
    let unreadable = |error: sandbox::unpack::Unreadable| {
        BadOrders::Unreadable(error.to_string().chars().take(SAID).collect())
    };
    let body: Body = sandbox::unpack::from_slice(bytes).map_err(unreadable)?;
    match body {
        Body { bank, .. } if bank != me => Err(BadOrders::OtherBank(bank)),
        Body { orders, .. } if orders.len() > ORDERS => Err(BadOrders::Many(orders.len())),
        body => Ok(body),
    }
}
