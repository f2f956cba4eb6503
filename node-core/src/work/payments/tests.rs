//! Purchases over random lives of a job's units: no sale is settled twice or forgotten, and a job never binds
//! more than it may cost.

use super::*;
use crate::contract::{Goods, Refusal, Term};
use crate::finding::Missed;
use crate::goods::Kind;
use crate::money::Price;
use crate::protocol::Rng;
use crate::work::spec::{Find, OwnedBy, Terms, Units};
use sandbox::{End, Limits};

const JOB: JobId = JobId([1; 16]);
const UNITS: u32 = 6;
/// Fuel of a unit.
const FUEL: u64 = 1_000_000_000;

fn spec(most: u64, most_job: Option<u64>) -> JobSpec {
    let program = crate::content::BlobRef { id: crate::ids::BlobId([3; 32]), len: 10 };
    JobSpec {
        name: "bought".into(),
        template: Template {
            program,
            arguments: Vec::new(),
            environment: Vec::new(),
            stdin: crate::content::Data::Inline(Default::default()),
            files: Vec::new(),
            limits: Limits { fuel: FUEL, ..Limits::default() },
            bit_exact: false,
            checkpoint: crate::work::spec::CheckpointEvery::NEVER,
            on_loss: Default::default(),
            threads: None,
        },
        units: Units::Sweep { first: 0, count: UNITS },
        priority: 0,
        max_retries: 0,
        find: Find::Cheapest(Terms {
            max_price: Micro(most),
            max_price_job: most_job.map(Micro),
            min_speed: 0,
        }),
        owner: OwnedBy::Gateway,
        requires: Default::default(),
    }
}

fn seller(number: u8) -> Address {
    Address::here(NodeId([number; 32]))
}

fn report(unit: UnitId, runner: NodeId, fuel: u64) -> Report {
    let nothing = || crate::content::Data::Inline(Default::default());
    Report {
        unit,
        attempt: 1,
        proof: Default::default(),
        began: 0,
        result: UnitResult {
            end: End::Exited(0),
            stdout: nothing(),
            stderr: nothing(),
            files: Vec::new(),
            cpu_us: 1,
            runner,
            attempts: 1,
            fuel,
            journey: None,
            paid: Micro::ZERO,
        },
    }
}

/// One job's units that are bought for, run and end.
struct Life {
    payments: Payments,
    book: Book,
    spec: JobSpec,
    /// Sales that the bank holds credit for, and how often each was ordered to be settled.
    bought: BTreeMap<Sale, u32>,
    /// Asked for and not answered.
    wished: Vec<(Sale, Purchase)>,
    now: Time,
}

impl Life {
    fn new(spec: JobSpec) -> Life {
        let (mut payments, mut book) = (Payments::default(), Book::default());
        payments.begin(JOB, &spec);
        book.begin(JOB, UNITS, 1, State::Waiting);
        Life { payments, book, spec, bought: BTreeMap::new(), wished: Vec::new(), now: Time(1) }
    }

    fn wish(&mut self) {
        self.now = self.now + Duration::from_secs(12);
        let none = BTreeMap::new();
        let wish = self.payments.wish(JOB, &self.spec, &none, &mut self.book, self.now);
        for sale in wish.iter().flat_map(|wish| &wish.sales) {
            assert_eq!(self.book.state(sale.unit), Some(State::Away), "no other place is sought for it");
        }
        let wish = wish.as_ref();
        self.wished.extend(wish.into_iter().flat_map(|wish| wish.sales.iter().map(|s| (*s, wish.clone()))));
    }

    fn answer(&mut self, rng: &mut Rng) {
        if self.wished.is_empty() {
            return;
        }
        let (sale, wish) = self.wished.swap_remove(rng.below(self.wished.len() as u64) as usize);
        // The dearest that is taken.
        let price = Price::within(wish.most, wish.fuel);
        let by = seller(rng.below(4) as u8 + 1);
        let term = Term { to: by.id, goods: Goods::Cycles, price, fees: Vec::new() };
        let held = term.most(wish.fuel).unwrap_or_default();
        assert!(held <= wish.most, "the market sells no dearer");
        let held_in_vain = rng.below(8) == 0;
        let place = match rng.below(4) {
            _ if held_in_vain => Err(Missed { why: "it was sold".into(), named: true, held: true }),
            0 => Err(Missed { why: "none".into(), named: rng.below(2) == 0, held: false }),
            _ => Ok(PurchasedSlot { seller: by, term, fuel: wish.fuel, held, receipt: None, storage: None }),
        };
        if place.is_ok() || held_in_vain {
            self.bought.insert(sale, 0);
        }
        let stands = self.book.unit(sale.unit);
        let none = BTreeMap::new();
        if let Some(outcome) = self.payments.bought(Bought { sale, place }, stands, &none, self.now) {
            self.book.end_wait(sale.unit);
            if let Ok(sold) = outcome {
                self.book.place(sale.unit, sold.seller.id);
            }
        }
    }

    /// The unit ends where it is, or comes back from there.
    fn leave(&mut self, index: u32, ends: bool, rng: &mut Rng) {
        let unit = UnitId { job: JOB, index };
        let Some(runner) = self.book.runner(unit) else { return };
        if !ends {
            self.book.take(unit, runner);
            return;
        }
        let mut report = report(unit, runner, rng.below(FUEL * 2));
        self.payments.price(&mut report);
        if rng.below(3) == 0 {
            // The disk is full.
            self.payments.not_priced(unit);
            return;
        }
        self.book.end(unit, None);
        self.payments.count(JOB, report.result.paid);
        self.payments.settle_result(unit, self.now);
    }

    fn act(&mut self, rng: &mut Rng) {
        for act in self.payments.acts() {
            let Act::Settle(sale, _) = act else { continue };
            let full = rng.below(4) == 0;
            let outcome = if full { Err(Refusal::Full) } else { Ok(()) };
            let settled = self.payments.settled(sale, outcome);
            assert_eq!(settled == Settled::Later, full);
            if !full {
                *self.bought.get_mut(&sale).expect("only what was bought is settled") += 1;
            }
        }
    }

    fn check(&self) {
        let deals = self.payments.of(JOB).expect("it buys");
        let bound = deals.paid.plus(deals.held).unwrap_or(Micro::MAX);
        assert!(bound <= deals.most, "{bound} is bound or paid, and {} is the most", deals.most);
        assert!(self.bought.values().all(|times| *times <= 1), "each sale is settled once");
    }
}

#[test]
fn each_sale_is_settled_once_and_no_more_is_bound_than_the_job_may_cost() {
    for seed in 0..200 {
        let mut rng = Rng::from_seed([seed; 32]);
        let most = 1_000 + rng.below(1_000_000);
        let most_job = (rng.below(2) == 0).then(|| most + rng.below(most * 4));
        let mut life = Life::new(spec(most, most_job));
        for _ in 0..200 {
            match rng.below(5) {
                0 => life.wish(),
                1 | 2 => life.answer(&mut rng),
                3 => life.leave(rng.below(u64::from(UNITS)) as u32, rng.below(2) == 0, &mut rng),
                _ => life.act(&mut rng),
            }
            life.check();
        }
        while !life.wished.is_empty() {
            life.answer(&mut rng);
        }
        life.payments.settle_all(JOB, &BTreeMap::new());
        for _ in 0..50 {
            life.payments.again();
            life.act(&mut rng);
        }
        assert!(life.bought.values().all(|times| *times == 1), "seed {seed}: none is left at the bank");
        assert_eq!(life.payments.of(JOB).map(|deals| deals.held), Some(Micro::ZERO), "seed {seed}");
    }
}

#[test]
fn what_the_bank_holds_of_an_earlier_life_is_given_back_unless_it_was_written_down() {
    let mut payments = Payments::default();
    payments.begin(JOB, &spec(1_000, None));
    let sale = |index| Sale { unit: UnitId { job: JOB, index }, number: 1, kind: Kind::Cycles };
    let holding = |index| Holding { sale: sale(index), payer: seller(9).id, amount: Micro(10) };
    let term = Term { to: seller(1).id, goods: Goods::Cycles, price: Price(1), fees: Vec::new() };
    let place =
        Place { term, held: Micro(10), from: 0, fuel: FUEL, used: None, receipt: None, storage: None };
    let deal = Deal { before: Micro::ZERO, sales: 1, attempts: 3, place: Some(place) };
    assert_eq!(payments.restore(sale(0).unit, deal, false), Some((3, true)));
    payments.bank_holds(vec![holding(0), holding(1)]);
    assert_eq!(payments.acts(), [Act::Settle(sale(1), sale(1).settle(&[]))]);
    payments.bank_holds(vec![holding(1)]);
    assert_eq!(payments.acts(), [], "it is being given back");
}
