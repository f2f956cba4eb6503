//! `bench ledger`: settlements a second, each durable before it is answered.
//!
//! A bank on a data folder of its own and owners that settle units, in this process: signing,
//! checking, the books and the disk are real, the wire between them is not. Afterwards the books are read
//! anew from the disk; their sum must be zero, and the seller must have been paid for each unit.

use super::{home, median, report, rounded};
use crate::cli::args::BenchCommon;
use crate::cli::failure::Failure;
use crate::cli::progress::say;
use crate::storage::Storage;
use node_core::contract::{Goods, Order, Sale, Term};
use node_core::goods::Kind;
use node_core::keys::Secret;
use node_core::ledger::Message;
use node_core::ledger::bank::{self, Bank};
use node_core::ledger::books::Rules;
use node_core::ledger::client::{self, Client};
use node_core::money::{Micro, Price};
use node_core::protocol::{Effect, Input, InputOf, Machine, Rng};
use node_core::ticket::ServiceId;
use node_core::{JobId, NodeId, StorageReply, StorageRequest, Table, Time, Token, UnitId};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Some seconds at the rate that is aimed at.
const SETTLEMENTS: u32 = 50_000;
const RUNS: u32 = 3;
/// Gateways that settle at the same time.
const OWNERS: u32 = 4;
const FUEL: u64 = Price::PER;
const PRICE: u64 = 30;
const SELLER: NodeId = NodeId([2; 32]);
const BANK: NodeId = NodeId([1; 32]);

pub(super) fn run(settlements: Option<u32>, common: &BenchCommon) -> Result<u8, Failure> {
    let settlements = settlements.unwrap_or(SETTLEMENTS).max(OWNERS).next_multiple_of(OWNERS);
    let (mut rates, mut sum) = (Vec::new(), 0);
    for run in 1..=common.runs.unwrap_or(RUNS) {
        let home = home()?;
        let mut desk = Desk::open(home.path())?;
        desk.endow(settlements)?;
        desk.order(settlements, |sale, owner| Order::Hold {
            sale,
            payer: owner,
            fuel: FUEL,
            terms: vec![Term { to: SELLER, goods: Goods::Cycles, price: Price(PRICE), fees: vec![] }],
        })?;
        let began = Instant::now();
        desk.order(settlements, |sale, _| Order::Settle { sale, used: vec![FUEL] })?;
        rates.push(f64::from(settlements) / began.elapsed().as_secs_f64());
        drop(desk);
        let desk = Desk::open(home.path())?;
        let books = desk.bank.state().books();
        sum += books.sum();
        if books.balance(SELLER).0 != u64::from(settlements) * PRICE {
            return Err(Failure::failed(format!(
                "the seller of {settlements} units has {} credits on the disk",
                books.balance(SELLER)
            )));
        }
        if !common.json {
            say(&format!("run {run}: {:.0} settlements a second", rates[rates.len() - 1]));
        }
    }
    report(
        &[
            ("settlements", settlements.into()),
            ("settlements_per_s", rounded(median(rates), 0)),
            ("sum", i64::try_from(sum).unwrap_or(i64::MAX).into()),
        ],
        common,
    )
}

/// The bank with its disk, and its clients.
struct Desk {
    bank: Machine<Bank>,
    owners: Vec<(NodeId, Machine<Client>)>,
    storage: Storage,
    replies: Receiver<StorageReply>,
    /// Requests that storage has not answered yet.
    asked: u32,
    wire: VecDeque<(NodeId, NodeId, Message)>,
    now: Time,
    code: Option<[u8; 16]>,
    open: u32,
    answered: u32,
    trouble: Option<String>,
}

impl Desk {
    fn open(dir: &Path) -> Result<Desk, Failure> {
        let (sender, replies) = channel();
        let storage = Storage::open(dir, move |reply| drop(sender.send(reply)))
            .map_err(|e| Failure::failed(e.to_string()))?;
        let owner = |n: u32| {
            let secret = Secret::from_bytes(&[n as u8 + 1; 32]);
            let client = Client::new(secret.clone(), Duration::from_secs(3));
            (secret.node(), Machine::new(client, Rng::from_seed([n as u8; 32])))
        };
        let secret = Secret::from_bytes(&[255; 32]);
        let mut desk = Desk {
            bank: Machine::new(Bank::new(Rules::default()).signing(secret), Rng::from_seed([0; 32])),
            owners: (0..OWNERS).map(owner).collect(),
            storage,
            replies,
            asked: 0,
            wire: VecDeque::new(),
            now: Time::ZERO,
            code: None,
            open: 0,
            answered: 0,
            trouble: None,
        };
        desk.restore()?;
        Ok(desk)
    }

    fn restore(&mut self) -> Result<(), Failure> {
        let mut after = None;
        loop {
            let token = Token(0);
            let limit = 1000;
            self.storage.request(StorageRequest::Scan { token, table: Table::Ledger, after, limit });
            let entries = match self.replies.recv() {
                Ok(StorageReply::Entries { entries, .. }) => entries,
                other => return Err(Failure::failed(format!("the ledger could not be read: {other:?}"))),
            };
            let last = entries.last().map(|(key, _)| key.clone());
            self.tell_bank(Input::Command(bank::Command::Restore(entries)));
            match last {
                Some(last) => after = Some(last),
                None => break,
            }
        }
        self.tell_bank(Input::Command(bank::Command::WallClock(1)));
        self.fine()
    }

    fn fine(&mut self) -> Result<(), Failure> {
        self.trouble.take().map_or(Ok(()), |trouble| Err(Failure::failed(trouble)))
    }

    /// Gives each owner what its units cost, by an invite.
    fn endow(&mut self, settlements: u32) -> Result<(), Failure> {
        let amount = Micro(u64::from(settlements / OWNERS) * PRICE);
        for owner in 0..self.owners.len() {
            self.tell_client(owner, Input::Command(client::Command::BankUp(BANK)));
        }
        self.until(|desk| desk.open == OWNERS)?;
        for owner in 0..self.owners.len() {
            self.tell_bank(Input::Command(bank::Command::Invite { number: 0, amount }));
            self.until(|desk| desk.code.is_some())?;
            let code = self.code.take().unwrap_or_default();
            let order = Order::Redeem { code };
            self.tell_client(
                owner,
                Input::Command(client::Command::Order { ticket: ServiceId::Driver.ticket(0), order }),
            );
        }
        self.until(|desk| desk.answered == OWNERS)
    }

    /// One order for each unit, and all their answers.
    fn order(&mut self, units: u32, order: impl Fn(Sale, NodeId) -> Order) -> Result<(), Failure> {
        self.answered = 0;
        for n in 0..units {
            let at = (n % OWNERS) as usize;
            let unit = UnitId { job: JobId([at as u8; 16]), index: n };
            let order = order(Sale { unit, number: 0, kind: Kind::Cycles }, self.owners[at].0);
            self.tell_client(
                at,
                Input::Command(client::Command::Order { ticket: ServiceId::Driver.ticket(n.into()), order }),
            );
            self.deliver();
        }
        self.until(|desk| desk.answered == units)
    }

    fn until(&mut self, done: impl Fn(&Desk) -> bool) -> Result<(), Failure> {
        loop {
            self.deliver();
            self.fine()?;
            if done(self) {
                return Ok(());
            }
            if self.asked > 0 {
                match self.replies.recv() {
                    Ok(reply) => self.stored(reply),
                    Err(_) => return Err(Failure::failed("the storage has stopped")),
                }
                continue;
            }
            // Nothing is under way but what a client gathers: it need not wait for more.
            let deadline = self.owners.iter().filter_map(|(_, client)| client.deadline()).min();
            let Some(deadline) = deadline else {
                return Err(Failure::failed("the bank has stopped answering; please report this"));
            };
            self.now = self.now.max(deadline);
            for at in 0..self.owners.len() {
                while let Some(timer) = self.owners[at].1.due(self.now) {
                    self.tell_client(at, Input::Timer(timer));
                }
            }
        }
    }

    /// All that is on the wire, and what storage has answered meanwhile.
    fn deliver(&mut self) {
        loop {
            while let Ok(reply) = self.replies.try_recv() {
                self.stored(reply);
            }
            let Some((from, to, message)) = self.wire.pop_front() else { return };
            match self.owners.iter().position(|(owner, _)| *owner == to) {
                Some(at) => self.tell_client(at, Input::Message { from, message }),
                None => self.tell_bank(Input::Message { from, message }),
            }
        }
    }

    fn stored(&mut self, reply: StorageReply) {
        self.asked -= 1;
        let (ticket, result) = match reply {
            StorageReply::Done { token } => (token.0, Ok(())),
            StorageReply::Failed { token, error } => (token.0, Err(error)),
            // Only commits are asked for while the bank is open.
            StorageReply::Entries { .. } | StorageReply::Blob { .. } => return,
        };
        self.tell_bank(Input::Command(bank::Command::Answered { ticket, result }));
    }

    fn tell_bank(&mut self, input: InputOf<Bank>) {
        for effect in self.bank.step(BANK, self.now, input) {
            match effect {
                Effect::Send { to, message } => self.wire.push_back((BANK, to, message)),
                Effect::Emit(bank::Event::Commit { ticket, writes }) => {
                    self.asked += 1;
                    self.storage.request(StorageRequest::Commit { token: Token(ticket), writes });
                }
                Effect::Emit(bank::Event::Invited { made: Ok(code), .. }) => self.code = Some(code),
                Effect::Emit(bank::Event::Invited { made: Err(why), .. }) => {
                    self.trouble = Some(why.to_string());
                }
                Effect::Trouble(why) => self.trouble = Some(why),
                Effect::Fault { fault, .. } => self.trouble = Some(fault),
                // Nobody asks for a statement here.
                Effect::Emit(bank::Event::Ready | bank::Event::Read { .. })
                | Effect::Reach(_)
                | Effect::Hold(_)
                | Effect::Release(_)
                | Effect::Forward { .. } => {}
            }
        }
    }

    fn tell_client(&mut self, at: usize, input: InputOf<Client>) {
        let Some((me, client)) = self.owners.get_mut(at) else { return };
        for effect in client.step(*me, self.now, input) {
            match effect {
                Effect::Send { to, message } => self.wire.push_back((*me, to, message)),
                Effect::Emit(client::Event::Open) => self.open += 1,
                Effect::Emit(client::Event::Answered { outcome: Ok(()), .. }) => self.answered += 1,
                Effect::Emit(client::Event::Answered { outcome: Err(refusal), .. }) => {
                    self.trouble = Some(refusal.to_string());
                }
                Effect::Emit(client::Event::Full { .. }) => {
                    self.trouble = Some("too many orders for one client; take fewer settlements".into());
                }
                Effect::Emit(
                    client::Event::Holding(_)
                    | client::Event::Seek(_)
                    | client::Event::Statement { .. }
                    | client::Event::Balance { .. },
                )
                | Effect::Fault { .. }
                | Effect::Forward { .. }
                | Effect::Reach(_)
                | Effect::Hold(_)
                | Effect::Release(_)
                | Effect::Trouble(_) => {}
            }
        }
    }
}
