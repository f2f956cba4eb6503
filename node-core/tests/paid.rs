//! Paid work and gifts of a runner: the machine alone, on one slot, with an owner and a bank that say what
//! the story has them say.

use node_core::content::{BlobRef, Data};
use node_core::contract::{Receipt, Sale};
use node_core::goods::Kind;
use node_core::ids::{BlobId, JobId, NodeId, UnitId};
use node_core::keys::{Secret, Signed};
use node_core::money::Price;
use node_core::protocol::{Effect, Input, Machine, Rng};
use node_core::trust::policy::Policy;
use node_core::work::message::{Batch, Message, ToOwner, ToRunner, UnitGrant};
use node_core::work::runner::{Command, Event, Runner};
use node_core::work::spec::{CheckpointEvery, OnLoss, Template};
use node_core::{Config, RunId, SealKey, Time};
use sandbox::Limits;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

const ME: NodeId = NodeId([1; 32]);
const OWNER: NodeId = NodeId([2; 32]);
const PAID: JobId = JobId([3; 16]);
const GIFTS: JobId = JobId([4; 16]);
const FUEL: u64 = 1_000_000;
const SECOND: Duration = Duration::from_secs(1);
/// A short unit: many of them wait no longer than a node keeps them waiting.
const TICK: Duration = Duration::from_millis(5);

struct Desk {
    runner: Machine<Runner>,
    now: Time,
    /// At the engine, in order; whether a gift.
    queue: VecDeque<(RunId, bool)>,
    declined: Vec<String>,
    spare: u32,
}

impl Desk {
    fn new(policy: Policy, slots: u32) -> Desk {
        let config = Config { slots, ..Config::default() };
        let runner = Machine::new(Runner::new(config.runner()), Rng::from_seed([0; 32]));
        let now = Time(1_000_000);
        let mut desk = Desk { runner, now, queue: VecDeque::new(), declined: Vec::new(), spare: 0 };
        desk.tell(Command::Terms { memory_bytes: 1 << 30, policy: Arc::new(policy) });
        desk.tell(Command::OwnerUp(OWNER));
        desk
    }

    fn tell(&mut self, command: Command) {
        self.step(Input::Command(command));
    }

    fn hear(&mut self, message: ToRunner) {
        self.step(Input::Message { from: OWNER, message: Message::ToRunner(message) });
    }

    fn step(&mut self, input: node_core::protocol::InputOf<Runner>) {
        for effect in self.runner.step(ME, self.now, input) {
            match effect {
                Effect::Emit(Event::Fetch { ticket, .. }) => {
                    self.tell(Command::Answered { ticket, result: Ok(()) });
                }
                Effect::Emit(Event::Run { run, task }) => {
                    self.queue.push_back((run, task.arguments[0] == "gift"));
                }
                Effect::Emit(Event::Spare { slots, .. }) => self.spare = slots,
                Effect::Send { message: Message::ToOwner(ToOwner::Report { seq, .. }), .. } => {
                    self.hear(ToRunner::Ack { seq });
                }
                Effect::Send { message: Message::ToOwner(ToOwner::Decline { reason, .. }), .. } => {
                    self.declined.push(reason);
                }
                _ => {}
            }
        }
    }

    fn wait(&mut self, time: Duration) {
        self.now = self.now + time;
        while let Some(timer) = self.runner.due(self.now) {
            self.step(Input::Timer(timer));
        }
    }

    /// The engine ends what it has had longest, after this time; whether that was a gift.
    fn run(&mut self, takes: impl Fn(bool) -> Duration) -> bool {
        let (run, gift) = self.queue.pop_front().expect("something runs");
        self.wait(takes(gift));
        self.tell(Command::Ended { run, outcome: simulator::ended(0) });
        gift
    }

    fn grant(&mut self, lease: u64, job: JobId, units: Vec<UnitGrant>) {
        let word = if job == GIFTS { "gift" } else { "paid" };
        let template = Template {
            program: BlobRef { id: BlobId([5; 32]), len: 7 },
            arguments: vec![word.into()],
            environment: vec![],
            stdin: Data::EMPTY,
            files: vec![],
            limits: Limits { fuel: FUEL, ..Limits::default() },
            bit_exact: false,
            checkpoint: CheckpointEvery::NEVER,
            on_loss: OnLoss::default(),
            threads: None,
        };
        let keepers = Vec::new();
        let batch =
            Batch { job, name: "n".into(), template, sweep_first: None, keepers, units, origin: None };
        self.hear(ToRunner::Grant { lease, batches: vec![batch] });
    }
}

fn unit(index: u32, price: u64, receipt: Option<Signed>) -> UnitGrant {
    let key = SealKey([0; 32]);
    UnitGrant {
        index,
        attempt: 1,
        proof: Default::default(),
        spec: None,
        key,
        resume: None,
        price: Price(price),
        receipt,
        keeper: None,
        choices: Vec::new(),
    }
}

fn bank() -> Secret {
    Secret::from_bytes(&[9; 32])
}

fn receipt(index: u32, price: u64) -> Receipt {
    let sale = Sale { unit: UnitId { job: PAID, index }, number: 1, kind: Kind::Cycles };
    Receipt { owner: OWNER, sale, to: ME, price: Price(price), fuel: FUEL, space: Vec::new() }
}

/// Many of both kinds wait; of the first so many that have ended, how many were gifts.
fn gifts_of(policy: Policy, ended: u32, takes: impl Fn(bool) -> Duration) -> u32 {
    let mut desk = Desk::new(policy, 1);
    desk.grant(1, GIFTS, (0..ended).map(|index| unit(index, 0, None)).collect());
    desk.tell(Command::Sold { owner: OWNER, slots: 100, price: Price(5) });
    for index in 0..ended.min(100) {
        desk.grant(1, PAID, vec![unit(index, 5, None)]);
    }
    (0..ended).filter(|_| desk.run(&takes)).count() as u32
}

#[test]
fn paid_work_goes_first_and_gifts_have_their_share_of_the_time() {
    let policy = |share| Policy { gift_share_pct: share, ..Policy::default() };
    let same = |_| TICK;
    // The unit that was at the engine when the first paid unit came is a gift.
    assert!(gifts_of(policy(0.0), 60, same) <= 2);
    let quarter = gifts_of(policy(25.0), 80, same);
    assert!((18..=24).contains(&quarter), "{quarter} of 80");
    // Gifts that take ten times as long are fewer.
    let long = gifts_of(policy(25.0), 60, |gift| if gift { 10 * TICK } else { TICK });
    assert!((2..=5).contains(&long), "{long} of 60");
    assert!(gifts_of(policy(100.0), 60, same) >= 58);
}

#[test]
fn what_is_kept_for_gifts_is_not_sold_and_gifts_beyond_it_give_way() {
    let mut desk = Desk::new(Policy { gift_share_pct: 25.0, ..Policy::default() }, 8);
    assert_eq!(desk.spare, 6, "two of eight are kept");
    desk.grant(1, GIFTS, (0..5).map(|index| unit(index, 0, None)).collect());
    assert_eq!(desk.spare, 3, "five are busy for nobody knows how long");
    desk.run(|_| SECOND);
    assert_eq!(desk.spare, 6, "they end within seconds, so that all but two can be sold");
    desk.tell(Command::Sold { owner: OWNER, slots: 6, price: Price(5) });
    assert_eq!(desk.spare, 0);
}

#[test]
fn who_says_that_it_pays_and_has_put_nothing_aside_gets_nothing() {
    let good = receipt(0, 5);
    let stranger = Secret::from_bytes(&[8; 32]);
    let cases: Vec<(&str, u64, Option<Signed>)> = vec![
        ("brings no receipt", 5, None),
        ("brings no receipt", 5, Some(good.sign(&stranger))),
        ("another sale", 5, Some(receipt(1, 5).sign(&bank()))),
        ("another sale", 5, Some(Receipt { to: OWNER, ..good.clone() }.sign(&bank()))),
        ("another sale", 5, Some(Receipt { owner: ME, ..good.clone() }.sign(&bank()))),
        ("another sale", 5, Some(receipt(0, 4).sign(&bank()))),
        ("less than this unit may use", 5, Some(Receipt { fuel: FUEL - 1, ..good.clone() }.sign(&bank()))),
        // It holds what it says, but that is not what it bought at.
        ("sold at another price", 4, Some(receipt(0, 4).sign(&bank()))),
        ("sold at another price", 6, Some(receipt(0, 6).sign(&bank()))),
    ];
    for (words, price, signed) in cases {
        let mut desk = Desk::new(Policy::default(), 1);
        desk.tell(Command::Bank(bank().node()));
        desk.tell(Command::Sold { owner: OWNER, slots: 1, price: Price(5) });
        desk.grant(1, PAID, vec![unit(0, price, signed)]);
        assert_eq!(desk.queue.len(), 0, "{words}");
        assert!(desk.declined.len() == 1 && desk.declined[0].contains(words), "{words}: {:?}", desk.declined);
        // Nothing of it was used up: the honest one runs.
        desk.grant(1, PAID, vec![unit(0, 5, Some(good.sign(&bank())))]);
        assert_eq!(desk.queue.len(), 1, "{words}");
    }
}

#[test]
fn a_receipt_counts_for_one_run() {
    let mut desk = Desk::new(Policy::default(), 1);
    desk.tell(Command::Bank(bank().node()));
    let signed = receipt(0, 5).sign(&bank());
    desk.tell(Command::Sold { owner: OWNER, slots: 2, price: Price(5) });
    desk.grant(1, PAID, vec![unit(0, 5, Some(signed.clone()))]);
    // The wire says it twice: it is here.
    desk.grant(1, PAID, vec![unit(0, 5, Some(signed.clone()))]);
    assert_eq!((desk.queue.len(), desk.declined.len()), (1, 0));
    desk.run(|_| SECOND);
    desk.wait(SECOND);
    desk.grant(1, PAID, vec![unit(0, 5, Some(signed))]);
    assert_eq!(desk.queue.len(), 0);
    assert!(desk.declined[0].contains("has come for that sale before"), "{:?}", desk.declined);
}

#[test]
fn a_price_that_nobody_paid_is_none_where_there_is_no_bank() {
    let mut desk = Desk::new(Policy { marginal_cost: 5, min_price: 5, ..Policy::default() }, 1);
    desk.grant(1, PAID, vec![unit(0, 500, None)]);
    assert!(desk.queue.is_empty() && desk.declined[0].contains("takes 5 µcr"), "{:?}", desk.declined);
}
