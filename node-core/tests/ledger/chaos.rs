//! Orders drawn at random, while messages are repeated and reordered, and the bank's machine stops
//! between any two commits. First safety; then the faults stop, and everything must be answered.

use crate::ledger::support::*;
use node_core::contract::{Fee, Goods, Holding, Order, Outcome, Refusal, Term};
use node_core::goods::Kind;
use node_core::keys::Signed;
use node_core::ledger::bank::Command;
use node_core::ledger::books::Rules;
use node_core::ledger::{COMMONS, ORDERS, ToBank, ToClient, WINDOW};
use node_core::money::Micro;
use node_core::protocol::Rng;
use node_core::{JobId, NodeId, UnitId};
use std::collections::BTreeMap;

const OWNERS: u8 = 6;
const SELLERS: u8 = 20;

#[test]
fn whatever_is_lost_repeated_or_late_the_sum_is_zero_and_each_account_is_its_replay() {
    for seed in 0..4 {
        let run = Chaos::run(seed, 10_000, 2);
        assert!(run.crashes > 5 && run.done > 3000, "a tame run: {} crashes, {} done", run.crashes, run.done);
    }
}

#[test]
#[ignore = "seconds in release, minutes otherwise"]
fn a_million_orders() {
    let run = Chaos::run(99, 1_000_000, 20);
    println!(
        "{} orders ({} repeated), {} carried out, {} refused; {} crashes, {} commits",
        run.orders, run.repeated, run.done, run.refused, run.crashes, run.commits
    );
}

struct Owner {
    id: u8,
    next: u64,
    unanswered: BTreeMap<u64, Order>,
    answers: BTreeMap<u64, Outcome>,
    /// Units of it that something may be held for, and the terms.
    open: Vec<(u32, Vec<Term>)>,
    units: u32,
}

struct Chaos {
    rng: Rng,
    /// Between crashes, in forties of steps.
    calm: u64,
    desk: Desk,
    owners: Vec<Owner>,
    /// Messages that may come again.
    seen: Vec<Signed>,
    day: u64,
    orders: u64,
    repeated: u64,
    done: u64,
    refused: u64,
    crashes: u64,
    commits: u64,
}

impl Chaos {
    fn run(seed: u8, orders: u64, calm: u64) -> Chaos {
        println!("seed {seed}");
        let rules = Rules { stewards: [node(1)].into(), lines: 1000, ..Rules::default() };
        let mut chaos = Chaos {
            rng: Rng::from_seed([seed; 32]),
            calm,
            desk: Desk::open(rules),
            owners: Vec::new(),
            seen: Vec::new(),
            day: 20_000,
            orders: 0,
            repeated: 0,
            done: 0,
            refused: 0,
            crashes: 0,
            commits: 0,
        };
        for id in 1..=OWNERS {
            chaos.desk.endow(id, 1 << 40);
            let (unanswered, answers) = (BTreeMap::new(), BTreeMap::new());
            chaos.owners.push(Owner { id, next: 2, unanswered, answers, open: Vec::new(), units: 0 });
        }
        chaos.desk.slow = true;
        while chaos.orders < orders {
            chaos.step();
        }
        chaos.settle_down();
        chaos
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.rng.below(bound)
    }

    fn step(&mut self) {
        match self.below(40) {
            0 if !self.seen.is_empty() => {
                let old = self.below(self.seen.len() as u64) as usize;
                let signed = self.seen[old].clone();
                self.repeated += 1;
                self.desk.hear(signed.by, ToBank::Orders(signed));
            }
            1 if self.below(8) == 0 => {
                self.day += self.rng.below(3);
                self.desk.command(Command::WallClock(self.day * DAY_MS));
            }
            2 if self.below(self.calm) == 0 => self.crash(),
            3..=6 => self.send(),
            _ => self.write(),
        }
        self.hear();
    }

    fn write(&mut self) {
        self.commits += u64::from(!self.desk.commits.is_empty());
        self.desk.write();
    }

    fn crash(&mut self) {
        self.crashes += 1;
        // The disk may have had it, though nobody was told.
        if self.below(2) == 0
            && let Some((_, writes)) = self.desk.commits.pop_front()
        {
            self.desk.disk.apply(&writes);
        }
        self.desk.said.clear();
        self.desk.restart();
        assert!(self.desk.ready, "{:?}", self.desk.troubles);
        assert_eq!(self.desk.books().sum(), 0);
        self.desk.books().check();
    }

    /// An owner's new orders, or those that were not answered; sometimes only some, and backwards.
    fn send(&mut self) {
        let at = self.below(self.owners.len() as u64) as usize;
        let already = self.owners[at].next;
        for _ in 0..1 + self.below(ORDERS as u64) {
            let owner = &self.owners[at];
            let first = owner.unanswered.keys().next().copied().unwrap_or(owner.next);
            if owner.next - first >= WINDOW {
                break;
            }
            let order = self.draw(at);
            let owner = &mut self.owners[at];
            owner.unanswered.insert(owner.next, order);
            owner.next += 1;
            self.orders += 1;
        }
        let from = match self.below(4) {
            0 => 0,
            1 => already + self.rng.below(ORDERS as u64 / 4),
            _ => already,
        };
        let unanswered = self.owners[at].unanswered.range(from..);
        let mut all: Vec<(u64, Order)> = unanswered.map(|(number, order)| (*number, order.clone())).collect();
        if self.below(4) == 0 {
            all.reverse();
        }
        for batch in all.chunks(ORDERS) {
            let signed = orders(&secret(self.owners[at].id), BANK, batch);
            if self.seen.len() < 64 {
                self.seen.push(signed.clone());
            } else {
                let old = self.rng.below(64) as usize;
                self.seen[old] = signed.clone();
            }
            self.desk.hear(node(self.owners[at].id), ToBank::Orders(signed));
        }
    }

    fn term(&mut self) -> Term {
        let to = node(1 + self.rng.below(SELLERS.into()) as u8);
        let goods = match self.rng.below(4) {
            0 => Goods::Space { most: self.rng.below(1 << 32) },
            _ => Goods::Cycles,
        };
        let fee = |rng: &mut Rng| Fee { to: node(1 + rng.below(3) as u8), amount: Micro(rng.below(50)) };
        let fees = (0..self.rng.below(3)).map(|_| fee(&mut self.rng)).collect();
        Term { goods, fees, ..cycles(to, self.rng.below(300)) }
    }

    fn draw(&mut self, at: usize) -> Order {
        let id = self.owners[at].id;
        let job = JobId([id; 16]);
        let name =
            |index| node_core::contract::Sale { unit: UnitId { job, index }, number: 0, kind: Kind::Cycles };
        let payer = match self.below(10) {
            0 => COMMONS,
            1 => node(1 + self.rng.below(OWNERS.into()) as u8),
            _ => node(id),
        };
        match self.below(20) {
            0 => Order::Begin,
            1 => Order::Transfer { to: node(9), amount: Micro(self.rng.u64()) },
            2 | 3 => {
                let to = node(1 + self.rng.below(SELLERS.into()) as u8);
                Order::Transfer { to, amount: Micro(self.rng.below(20_000)) }
            }
            4 => {
                let owner = 1 + self.rng.below(OWNERS.into()) as u8;
                Order::Allow {
                    owner: node(owner),
                    job: JobId([owner; 16]),
                    most: Micro(self.rng.below(9000)),
                }
            }
            5 if !self.owners[at].open.is_empty() => {
                let which = self.below(self.owners[at].open.len() as u64) as usize;
                let more = self.term();
                let (index, terms) = &mut self.owners[at].open[which];
                terms.push(more);
                Order::Hold { sale: name(*index), payer, fuel: 1 << 33, terms: terms.clone() }
            }
            6..=12 if !self.owners[at].open.is_empty() => {
                let which = self.below(self.owners[at].open.len() as u64) as usize;
                let (index, terms) = self.owners[at].open.swap_remove(which);
                let used = terms.iter().map(|_| self.rng.below(1 << 32)).collect();
                Order::Settle { sale: name(index), used }
            }
            13 => Order::Settle { sale: name(self.rng.below(2000) as u32), used: vec![1] },
            _ => {
                let terms: Vec<Term> = (0..1 + self.below(2)).map(|_| self.term()).collect();
                let owner = &mut self.owners[at];
                owner.units += 1;
                owner.open.push((owner.units, terms.clone()));
                Order::Hold { sale: name(owner.units), payer, fuel: 1 << 33, terms }
            }
        }
    }

    fn hear(&mut self) {
        for (to, message) in std::mem::take(&mut self.desk.said) {
            let ToClient::Outcomes(outcomes) = message else { panic!("{message:?}") };
            let owner = self.owners.iter_mut().find(|owner| node(owner.id) == to).expect("an owner");
            for (number, outcome) in outcomes {
                if owner.unanswered.remove(&number).is_some() {
                    owner.answers.insert(number, outcome);
                    self.done += u64::from(outcome.is_ok());
                    self.refused += u64::from(outcome.is_err());
                } else {
                    // A repeated order gets the outcome that it got before, or `TooLate`.
                    let same = owner.answers.get(&number) == Some(&outcome);
                    assert!(same || outcome == Err(Refusal::TooLate), "{number} became {outcome:?}");
                }
            }
        }
    }

    fn settle_down(&mut self) {
        for at in 0..self.owners.len() {
            let batch: Vec<(u64, Order)> =
                self.owners[at].unanswered.iter().map(|(number, order)| (*number, order.clone())).collect();
            for batch in batch.chunks(ORDERS) {
                let signed = orders(&secret(self.owners[at].id), BANK, batch);
                self.desk.hear(node(self.owners[at].id), ToBank::Orders(signed));
                self.drain();
            }
            assert!(self.owners[at].unanswered.is_empty(), "every order is answered in the end");
            assert!(self.owners[at].answers.values().all(|answer| {
                !matches!(answer, Err(Refusal::TooLate | Refusal::TooEarly | Refusal::NumberTaken))
            }));
        }
        self.drain();
        let mut held = std::mem::take(&mut self.desk.disk.held);
        held.retain(|_, amount| *amount != 0);
        let mut listed: BTreeMap<UnitId, i128> = BTreeMap::new();
        for owner in 1..=OWNERS {
            for holding in self.holdings(node(owner)) {
                if holding.amount > Micro::ZERO {
                    *listed.entry(holding.sale.unit).or_default() += i128::from(holding.amount.0);
                }
            }
        }
        assert_eq!(listed, held, "what is held for each unit is what went in and did not come out");
        self.desk.disk.held = held;
        self.desk.slow = false;
        self.desk.audit((0..=SELLERS).map(node).chain([COMMONS]));
    }

    fn drain(&mut self) {
        while !self.desk.commits.is_empty() {
            self.write();
        }
        self.hear();
    }

    fn holdings(&mut self, owner: NodeId) -> Vec<Holding> {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            self.desk.hear(owner, ToBank::Holdings { after });
            match self.desk.said.pop() {
                Some((_, ToClient::Holdings(page))) if page.is_empty() => return all,
                Some((_, ToClient::Holdings(page))) => {
                    after = page.last().map(|holding| holding.sale);
                    all.extend(page);
                }
                other => panic!("{other:?}"),
            }
        }
    }
}
