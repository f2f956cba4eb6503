//! A bank on a disk, asked directly.

use crate::ledger::disk::Disk;
use bytes::Bytes;
use node_core::contract::{Goods, Order, Outcome, Sale, Term};
use node_core::disk::Failed;
use node_core::goods::Kind;
use node_core::keys::{Secret, Signed};
use node_core::ledger::bank::{Bank, Command, Event, NotInvited, Timer};
use node_core::ledger::books::Rules;
use node_core::ledger::{Message, PURPOSE, Page, ToBank, ToClient};
use node_core::money::{Micro, Price};
use node_core::protocol::{Effect, Input, Machine, Rng};
use node_core::{JobId, NodeId, Table, Time, UnitId, Write};
use std::collections::VecDeque;
use std::sync::LazyLock;

pub(crate) const BANK: NodeId = NodeId([0xba; 32]);
pub(crate) const DAY_MS: u64 = 24 * 3600 * 1000;

/// Keys are made once: it takes a while.
fn keys() -> &'static [(Secret, NodeId)] {
    static KEYS: LazyLock<Vec<(Secret, NodeId)>> = LazyLock::new(|| {
        let key = |n| Secret::from_bytes(&[n; 32]);
        (0..32).map(|n| (key(n), key(n).node())).collect()
    });
    &KEYS
}

pub(crate) fn secret(n: u8) -> Secret {
    keys()[usize::from(n)].0.clone()
}

pub(crate) fn node(n: u8) -> NodeId {
    keys()[usize::from(n)].1
}

pub(crate) fn sale(n: u32) -> Sale {
    Sale { unit: UnitId { job: JobId([1; 16]), index: n }, number: 0, kind: Kind::Cycles }
}

pub(crate) fn cycles(to: NodeId, price: u64) -> Term {
    Term { to, goods: Goods::Cycles, price: Price(price), fees: vec![] }
}

/// Signed orders as the wire has them: anybody can build them.
pub(crate) fn orders(secret: &Secret, bank: NodeId, orders: &[(u64, Order)]) -> Signed {
    let body = rmp_serde::to_vec(&(bank, orders)).unwrap();
    Signed::new(secret, PURPOSE, body.into())
}

pub(crate) struct Desk {
    rules: Rules,
    machine: Machine<Bank>,
    pub(crate) disk: Disk,
    pub(crate) commits: VecDeque<(u64, Vec<Write>)>,
    pub(crate) said: Vec<(NodeId, ToClient)>,
    pub(crate) faults: Vec<String>,
    pub(crate) troubles: Vec<String>,
    pub(crate) invited: Vec<Result<[u8; 16], NotInvited>>,
    pub(crate) ready: bool,
    /// Commits wait until they are let through.
    pub(crate) slow: bool,
    /// Commits fail, as on a full disk, once they are let through.
    pub(crate) full: bool,
    now: Time,
    /// Time that the driver tells; 0 if it was never set.
    clock: u64,
    lives: u8,
    numbers: [u64; 256],
}

impl Desk {
    pub(crate) fn open(rules: Rules) -> Desk {
        let mut desk = Desk {
            machine: Machine::new(Bank::new(rules.clone()), Rng::from_seed([0; 32])),
            rules,
            disk: Disk::default(),
            commits: VecDeque::new(),
            said: vec![],
            faults: vec![],
            troubles: vec![],
            invited: vec![],
            ready: false,
            slow: false,
            full: false,
            now: Time(0),
            clock: 1,
            lives: 0,
            numbers: [0; 256],
        };
        desk.restart();
        desk
    }

    pub(crate) fn books(&self) -> &node_core::ledger::books::Books {
        self.machine.state().books()
    }

    /// The machine stops, and starts again with what was durable, and its driver's clock.
    pub(crate) fn restart(&mut self) {
        self.stop();
        self.command(Command::WallClock(self.clock));
        self.read_books();
    }

    pub(crate) fn stop(&mut self) {
        self.lives = self.lives.wrapping_add(1);
        self.machine = Machine::new(Bank::new(self.rules.clone()), Rng::from_seed([self.lives; 32]));
        self.commits.clear();
        self.ready = false;
    }

    pub(crate) fn read_books(&mut self) {
        let mut after = Vec::new();
        loop {
            let entries = self.disk.scan(Table::Ledger, &after, 1000);
            let last = entries.last().map(|(key, _)| key.clone());
            self.command(Command::Restore(entries));
            match last {
                Some(last) => after = last,
                None => break,
            }
        }
    }

    pub(crate) fn command(&mut self, command: Command) {
        if let Command::WallClock(ms) = command {
            self.clock = ms;
        }
        self.input(Input::Command(command));
    }

    pub(crate) fn hear(&mut self, from: NodeId, message: ToBank) {
        self.input(Input::Message { from, message: Message::ToBank(message) });
    }

    pub(crate) fn input(&mut self, input: Input<Message, Timer, Command>) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            for effect in self.machine.step(BANK, self.now, input) {
                match effect {
                    Effect::Send { to, message: Message::ToClient(message) } => self.said.push((to, message)),
                    Effect::Send { .. } => panic!("the bank talks to clients"),
                    Effect::Emit(Event::Ready) => self.ready = true,
                    Effect::Emit(Event::Commit { ticket, writes }) => {
                        self.commits.push_back((ticket, writes))
                    }
                    Effect::Emit(Event::Read { ticket, after, limit }) => {
                        let entries = Ok(self.disk.scan(Table::Statements, &after, limit as usize));
                        inputs.push_back(Input::Command(Command::Read { ticket, entries }));
                    }
                    Effect::Emit(Event::Invited { made, .. }) => self.invited.push(made),
                    Effect::Fault { fault, .. } => self.faults.push(fault),
                    Effect::Trouble(trouble) => self.troubles.push(trouble),
                    Effect::Reach(_) | Effect::Hold(_) | Effect::Release(_) | Effect::Forward { .. } => {}
                }
            }
            assert!(self.commits.len() <= 1, "one commit at a time");
            if !self.slow
                && let Some(answer) = self.written()
            {
                inputs.push_back(Input::Command(answer));
            }
        }
    }

    fn written(&mut self) -> Option<Command> {
        let (ticket, writes) = self.commits.pop_front()?;
        if self.full {
            let result = Err(Failed("no space left on device".into()));
            return Some(Command::Answered { ticket, result });
        }
        self.disk.apply(&writes);
        Some(Command::Answered { ticket, result: Ok(()) })
    }

    /// The disk has written what it was given.
    pub(crate) fn write(&mut self) {
        if let Some(answer) = self.written() {
            self.command(answer);
        }
    }

    pub(crate) fn wait(&mut self, seconds: u64) {
        self.now = Time(self.now.0 + seconds * 1_000_000);
        while let Some(timer) = self.machine.due(self.now) {
            self.input(Input::Timer(timer));
        }
    }

    /// A node's order under its next number, and what the bank says.
    pub(crate) fn order(&mut self, by: u8, order: Order) -> Outcome {
        self.numbers[usize::from(by)] += 1;
        self.order_as(by, self.numbers[usize::from(by)], order)
    }

    pub(crate) fn order_as(&mut self, by: u8, number: u64, order: Order) -> Outcome {
        let signed = orders(&secret(by), BANK, &[(number, order)]);
        self.send(node(by), signed).expect("an answer")
    }

    pub(crate) fn send(&mut self, from: NodeId, signed: Signed) -> Option<Outcome> {
        self.said.clear();
        self.hear(from, ToBank::Orders(signed));
        match self.said.pop()? {
            (_, ToClient::Outcomes(outcomes)) => outcomes.first().map(|(_, outcome)| *outcome),
            other => panic!("{other:?}"),
        }
    }

    /// Gives a node credit by an invite.
    pub(crate) fn endow(&mut self, to: u8, amount: u64) {
        self.command(Command::Invite { number: 1, amount: Micro(amount) });
        let code = self.invited.pop().unwrap().unwrap();
        assert_eq!(self.order(to, Order::Redeem { code }), Ok(()));
    }

    pub(crate) fn has(&self, of: u8) -> u64 {
        self.books().balance(node(of)).0
    }

    pub(crate) fn statement(&mut self, of: u8, from: u64, limit: u32) -> Page {
        self.said.clear();
        self.hear(node(of), ToBank::Statement { number: 1, from, limit });
        match self.said.pop() {
            Some((_, ToClient::Statement { page, .. })) => page,
            other => panic!("{other:?}"),
        }
    }

    /// The books, their replay from the statements, and the books read anew from the disk are one.
    pub(crate) fn audit(&mut self, nodes: impl IntoIterator<Item = NodeId>) {
        assert_eq!(self.books().sum(), 0);
        let nodes: Vec<NodeId> = nodes.into_iter().collect();
        let balances = |desk: &Desk| nodes.iter().map(|n| desk.books().balance(*n)).collect::<Vec<_>>();
        let before = balances(self);
        for (node, balance) in nodes.iter().zip(&before) {
            let replayed = self.disk.replay.get(node).copied().unwrap_or(0);
            assert_eq!(i128::from(balance.0), replayed, "{node:?}: the balance and its replay");
        }
        self.restart();
        assert!(self.ready, "{:?}", self.troubles);
        assert_eq!(balances(self), before, "after a restart");
        assert_eq!(self.books().sum(), 0);
        let all: i128 = self.disk.replay.values().sum::<i128>() + self.disk.held.values().sum::<i128>();
        assert_eq!(all, self.disk.minted, "what the mint gave is in accounts and holds");
    }
}

/// A message's bytes with another length of body, signed all the same.
pub(crate) fn signed_bytes(secret: &Secret, bytes: Vec<u8>) -> Signed {
    Signed::new(secret, PURPOSE, Bytes::from(bytes))
}
