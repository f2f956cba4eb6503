//! Stories of a pool and Workers that do as they are told, or do not.

use super::*;
use node_core::SealKey;
use node_core::content::{BlobRef, Data};
use sandbox::{Limit, Limits};

/// The Workers, and everything that was asked of them.
#[derive(Default)]
pub(super) struct Fake {
    pub(super) blobs: BTreeMap<BlobId, Bytes>,
    pub(super) log: Vec<String>,
    /// Tasks in each living Worker, by their first argument.
    workers: BTreeMap<SlotId, Vec<String>>,
    pub(super) replies: Vec<(u64, String)>,
    /// The last that was sent to any of them.
    pub(super) sent: Option<Job>,
}

impl World for Fake {
    fn blob(&self, id: &BlobId) -> Option<Bytes> {
        self.blobs.get(id).cloned()
    }
    fn spawn(&mut self, slot: SlotId) {
        self.log.push(format!("spawn {}", slot.0));
        self.workers.insert(slot, Vec::new());
    }
    fn terminate(&mut self, slot: SlotId) {
        self.log.push(format!("end {}", slot.0));
        assert!(self.workers.remove(&slot).is_some(), "a Worker is ended once");
    }
    fn prepare(&mut self, slot: SlotId, module: ModuleId, _: Bytes, _: &Form) {
        self.log.push(format!("prepare {} in {}", module.0, slot.0));
    }
    fn teach(&mut self, slot: SlotId, module: ModuleId) {
        self.log.push(format!("teach {} to {}", module.0, slot.0));
    }
    fn run(&mut self, slot: SlotId, _: ModuleId, tasks: &[Job]) {
        let held = self.workers.get_mut(&slot).expect("a living Worker");
        self.sent = tasks.last().cloned();
        held.extend(tasks.iter().map(|job| job.task.arguments[0].clone()));
    }
    fn order(&mut self, slot: SlotId, run: RunId, order: Order) {
        assert!(self.workers.contains_key(&slot), "a living Worker");
        self.log.push(format!("{order:?} {} in {}", run.0, slot.0));
    }
    fn share(&mut self, slot: SlotId, percent: u32) {
        self.log.push(format!("{percent} % for {}", slot.0));
    }
    fn forget(&mut self, module: ModuleId, slots: &[SlotId]) {
        self.log.push(format!("forget {} in {:?}", module.0, slots.iter().map(|s| s.0).collect::<Vec<_>>()));
    }
    fn reply(&mut self, reply: EngineReply) {
        self.replies.push(match reply {
            EngineReply::Ended { run, outcome } => (run.0, outcome.end.to_string()),
            EngineReply::Broken { run, error } => (run.0, format!("broken: {error}")),
            EngineReply::Prepared { run } => (run.0, "prepared".into()),
            EngineReply::Resumed { run } => (run.0, "goes on".into()),
            EngineReply::Said { run, .. } => (run.0, "said something".into()),
            EngineReply::Inspected { number, result } => (number, format!("{result:?}")),
            EngineReply::Snapshot { run, taken, stopped } => {
                let taken = taken.map(|taken| taken.fuel);
                (run.0, format!("{taken:?}{}", if stopped { ", stopped" } else { "" }))
            }
        });
    }
}

impl Fake {
    pub(super) fn drop_run(&mut self, slot: u32, run: u64) {
        let held = self.workers.get_mut(&SlotId(slot)).expect("a living Worker");
        held.retain(|held| *held != run.to_string());
    }
}

/// A pool whose clock and Workers the story moves.
pub(super) struct Story {
    pub(super) pool: Pool,
    pub(super) world: Fake,
    pub(super) now: Time,
}

pub(super) fn program(n: u8) -> BlobId {
    BlobId([n; 32])
}

impl Story {
    /// `slots` Workers, ready, and programs 1 to 20 in storage.
    pub(super) fn new(slots: u32) -> Story {
        let mut story = Story { pool: Pool::default(), world: Fake::default(), now: Time::ZERO };
        for n in 1..=20 {
            story.world.blobs.insert(program(n), Bytes::from_static(b"wasm"));
        }
        story.slots(slots);
        for id in 0..slots {
            story.say(id, Said::Ready);
        }
        story.world.log.clear();
        story
    }

    pub(super) fn request(&mut self, request: EngineRequest) {
        self.pool.request(self.now, request, &mut self.world);
        self.pool.settle(self.now, &mut self.world);
    }

    pub(super) fn slots(&mut self, n: u32) {
        self.request(EngineRequest::Slots(n));
    }

    /// Run number `run`, of program `n`.
    pub(super) fn task(run: u64, n: u8) -> EngineTask {
        EngineTask {
            program: program(n),
            arguments: vec![run.to_string()],
            environment: Vec::new(),
            stdin: Data::EMPTY,
            files: Vec::new(),
            limits: Limits { time_us: 10_000_000, ..Limits::default() },
            seed: 0,
            bit_exact: false,
            key: SealKey::default(),
            from: None,
            thread: None,
        }
    }

    pub(super) fn run_with(&mut self, run: u64, n: u8, change: impl FnOnce(&mut EngineTask)) {
        let mut task = Story::task(run, n);
        change(&mut task);
        self.request(EngineRequest::Run { run: RunId(run), task });
    }

    pub(super) fn run(&mut self, runs: impl IntoIterator<Item = u64>) {
        runs.into_iter().for_each(|run| self.run_with(run, 1, |_| ()));
    }

    pub(super) fn kill(&mut self, run: u64) {
        self.request(EngineRequest::Kill { run: RunId(run) });
    }

    pub(super) fn snapshot(&mut self, run: u64, stop: bool) {
        self.request(EngineRequest::Snapshot { run: RunId(run), stop });
    }

    pub(super) fn pause(&mut self, run: u64, paused: bool) {
        self.request(EngineRequest::Pause { run: RunId(run), paused });
    }

    /// The Worker gives a snapshot.
    pub(super) fn taken(&mut self, slot: u32, run: u64, fuel: u64, stopped: bool) {
        if stopped {
            self.world.drop_run(slot, run);
        }
        let taken = Ok(Taken {
            blob: BlobRef::of(&[]),
            bytes: Bytes::new(),
            base: None,
            root: [0; 32],
            fuel,
            pause_us: 1,
            marks: None,
        });
        self.say(slot, Said::Snapshot { run: RunId(run), taken, stopped });
    }

    /// The Worker dropped runs.
    pub(super) fn gone(&mut self, slot: u32, runs: &[u64]) {
        runs.iter().for_each(|run| self.world.drop_run(slot, *run));
        self.say(slot, Said::Gone(runs.iter().copied().map(RunId).collect()));
    }

    pub(super) fn say(&mut self, slot: u32, said: Said) {
        self.pool.said(self.now, SlotId(slot), said, &mut self.world);
        self.pool.settle(self.now, &mut self.world);
    }

    /// The Worker has compiled a program that cannot be suspended.
    pub(super) fn prepared(&mut self, slot: u32, module: u32) {
        self.say(slot, Said::Prepared { module: ModuleId(module), result: Ok(Some("it is old".into())) });
    }

    /// The Worker has compiled a program that can be.
    pub(super) fn mobile(&mut self, slot: u32, module: u32) {
        self.say(slot, Said::Prepared { module: ModuleId(module), result: Ok(None) });
    }

    /// The Worker answers its first `n` tasks, each of which took `us`.
    pub(super) fn answer(&mut self, slot: u32, n: usize, us: u64) {
        self.world.workers.get_mut(&SlotId(slot)).expect("a living Worker").drain(..n);
        let answer = Answer::Ended(Outcome { cpu_us: us, ..Outcome::of(End::Exited(0)) });
        self.say(slot, Said::Answers(vec![answer; n]));
    }

    /// Time passes, and the pool is woken when it wants to be.
    pub(super) fn after(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now = self.pool.deadline().unwrap_or(end).clamp(self.now + Duration::from_micros(1), end);
            self.wake();
        }
    }

    /// Time passes, and nobody runs in it.
    pub(super) fn asleep(&mut self, time: Duration) {
        self.now = self.now + time;
        self.wake();
    }

    pub(super) fn wake(&mut self) {
        self.pool.wake(self.now, &mut self.world);
        self.pool.settle(self.now, &mut self.world);
    }

    pub(super) fn held(&self, slot: u32) -> Vec<&str> {
        self.world.workers[&SlotId(slot)].iter().map(String::as_str).collect()
    }

    /// Every Worker answers everything until nothing is left.
    pub(super) fn finish(&mut self, us: u64) {
        while !self.pool.is_empty() {
            let ids: Vec<(u32, usize)> = self.world.workers.iter().map(|(id, h)| (id.0, h.len())).collect();
            assert!(ids.iter().any(|(_, n)| *n > 0), "the pool holds runs and no Worker has any");
            ids.into_iter().filter(|(_, n)| *n > 0).for_each(|(id, n)| self.answer(id, n, us));
        }
    }
}

#[test]
fn a_program_is_prepared_once_and_taught_to_the_other_slot() {
    let mut s = Story::new(2);
    s.run(1..=2);
    assert_eq!(s.world.log, ["prepare 0 in 0"]);
    s.prepared(0, 0);
    assert_eq!(s.world.log[1..], ["teach 0 to 1"]);
    assert_eq!((s.held(0), s.held(1)), (vec!["1"], vec!["2"]));
    s.finish(10);
    assert_eq!(s.world.replies.len(), 2);
}

#[test]
fn a_program_that_cannot_run_here_ends_its_units_with_the_reason() {
    let mut s = Story::new(1);
    s.run(1..=2);
    let why = Unfit::Refused("it imports env.print".into());
    s.say(0, Said::Prepared { module: ModuleId(0), result: Err(why) });
    s.run([3]);
    let refused = |run| (run, "refused: it imports env.print".to_owned());
    assert_eq!(s.world.replies, [refused(1), refused(2), refused(3)]);
    s.run_with(4, 2, |_| ());
    let why = Unfit::Broken("no SIMD".into());
    s.say(0, Said::Prepared { module: ModuleId(1), result: Err(why) });
    assert_eq!(s.world.replies[3..], [(4, "broken: no SIMD".to_owned())]);
    assert!(s.pool.is_empty());
}

#[test]
fn short_tasks_are_sent_ahead_and_long_ones_are_not() {
    let mut s = Story::new(2);
    s.run(0..1000);
    s.prepared(0, 0);
    assert_eq!((s.held(0).len(), s.held(1).len()), (1, 1), "nothing is known of their duration yet");
    s.answer(0, 1, 100);
    s.answer(1, 1, 100);
    assert_eq!((s.held(0).len(), s.held(1).len()), (128, 127));
    s.answer(0, 40, 100);
    assert_eq!(s.held(0).len(), 88, "topped up only when half is done, to send fewer messages");
    s.answer(0, 40, 100);
    assert_eq!(s.held(0).len(), 128);
    for _ in 0..20 {
        s.answer(1, 1, 60_000);
    }
    s.finish(60_000);
    assert_eq!(s.world.replies.len(), 1000);

    let mut s = Story::new(2);
    s.run(0..100);
    s.prepared(0, 0);
    s.answer(0, 1, 60_000);
    s.answer(1, 1, 60_000);
    assert_eq!((s.held(0).len(), s.held(1).len()), (1, 1));
}

#[test]
fn the_last_tasks_are_shared_evenly() {
    let mut s = Story::new(2);
    s.run(0..12);
    s.prepared(0, 0);
    s.answer(0, 1, 100);
    s.answer(1, 1, 100);
    assert_eq!((s.held(0).len(), s.held(1).len()), (6, 4));
}

#[test]
fn a_task_that_never_returns_ends_with_its_worker_and_harms_no_other() {
    let mut s = Story::new(1);
    s.run(1..=3);
    s.prepared(0, 0);
    s.after(Duration::from_micros(9_999_999));
    assert_eq!(s.world.log, ["prepare 0 in 0"]);
    s.after(Duration::from_micros(1));
    assert_eq!(s.world.log, ["prepare 0 in 0", "end 0", "spawn 1"]);
    let words = End::LimitReached(Limit::TimeUs(10_000_000)).to_string();
    assert_eq!(s.world.replies, [(1, words)]);
    s.say(1, Said::Ready);
    assert_eq!(s.world.log[3..], ["teach 0 to 1"], "what was compiled stays compiled");
    assert_eq!(s.held(1), ["2"]);
    s.finish(10);
    assert_eq!(s.world.replies.len(), 3);
}

#[test]
fn a_night_in_which_the_machine_slept_is_no_tasks_time() {
    let mut s = Story::new(1);
    s.run([1]);
    s.prepared(0, 0);
    s.after(Duration::from_secs(4));
    s.asleep(Duration::from_secs(8 * 3600));
    s.after(Duration::from_secs(5));
    assert!(s.world.replies.is_empty());
    s.after(Duration::from_secs(1));
    assert!(s.world.replies[0].1.contains("longer than its limit"), "{:?}", s.world.replies);
}

#[test]
fn when_several_were_unanswered_each_gets_a_worker_of_its_own_before_it_is_blamed() {
    let mut s = Story::new(1);
    s.run(0..5);
    s.prepared(0, 0);
    s.answer(0, 1, 1000);
    assert_eq!(s.held(0), ["1", "2", "3", "4"]);
    s.answer(0, 1, 1000);
    // 2 ended but was not answered yet; 3 never returns.
    s.after(Duration::from_secs(10));
    s.say(1, Said::Ready);
    assert_eq!(s.held(1), ["2"]);
    s.answer(1, 1, 1000);
    assert_eq!(s.held(1), ["3"]);
    s.after(Duration::from_secs(10));
    s.say(2, Said::Ready);
    assert_eq!(s.held(2), ["4"]);
    s.finish(1000);
    let ends: Vec<(u64, bool)> =
        s.world.replies.iter().map(|(run, end)| (*run, end.contains("longer"))).collect();
    assert_eq!(ends, [(0, false), (1, false), (2, false), (3, true), (4, false)]);
}

#[test]
fn a_killed_run_that_waits_is_gone_and_a_running_one_takes_its_worker_along() {
    let mut s = Story::new(1);
    s.run(1..=3);
    s.prepared(0, 0);
    s.kill(2);
    s.kill(1);
    s.kill(99);
    assert_eq!(s.pool.deadline(), Some(Time(50_000)));
    s.after(Duration::from_millis(50));
    assert_eq!(s.world.log[1..], ["Kill 1 in 0", "end 0", "spawn 1"]);
    s.say(1, Said::Ready);
    assert_eq!(s.held(1), ["3"]);
    s.finish(10);
    assert_eq!(s.world.replies, [(3, "exited with code 0".to_owned())]);
}

#[test]
fn a_killed_run_that_ends_in_time_costs_no_worker() {
    let mut s = Story::new(1);
    s.run([1]);
    s.prepared(0, 0);
    s.kill(1);
    s.answer(0, 1, 10);
    s.after(Duration::from_secs(1));
    assert_eq!(s.world.log, ["prepare 0 in 0", "Kill 1 in 0"]);
    assert!(s.world.replies.is_empty() && s.pool.is_empty());
}

#[test]
fn fewer_slots_let_what_runs_go_on_and_start_nothing_new() {
    let mut s = Story::new(3);
    s.run(1..=6);
    s.prepared(0, 0);
    s.slots(1);
    assert!(s.world.log.iter().all(|l| !l.starts_with("end")));
    s.answer(2, 1, 60_000);
    assert_eq!(s.world.log.last().unwrap(), "end 2");
    s.answer(0, 1, 60_000);
    assert_eq!(s.world.log.last().unwrap(), "end 0");
    s.answer(1, 1, 60_000);
    assert_eq!(s.held(1), ["4"]);
    s.slots(0);
    s.answer(1, 1, 60_000);
    assert!(s.world.workers.is_empty());
    assert_eq!(s.pool.len(), 2, "the rest waits for a slot");
}

#[test]
fn a_slot_that_is_no_longer_wanted_gets_no_more_of_short_tasks_either() {
    let mut s = Story::new(2);
    s.run(0..500);
    s.prepared(0, 0);
    s.answer(0, 1, 100);
    s.answer(1, 1, 100);
    s.slots(1);
    s.answer(1, 100, 100);
    assert_eq!(s.held(1).len(), 27);
    s.answer(1, 27, 100);
    assert_eq!(s.world.log.last().unwrap(), "end 1");
    s.finish(100);
}

#[test]
fn a_worker_that_breaks_is_replaced_and_its_run_tried_once_more() {
    let mut s = Story::new(1);
    s.run(1..=2);
    s.prepared(0, 0);
    s.say(0, Said::Failed("out of memory".into()));
    s.say(1, Said::Ready);
    assert_eq!(s.held(1), ["1"]);
    s.say(1, Said::Failed("out of memory".into()));
    s.say(2, Said::Ready);
    assert_eq!(s.world.replies, [(1, "broken: out of memory".to_owned())]);
    assert_eq!(s.held(2), ["2"]);
    s.say(2, Said::Answers(vec![Answer::Broken("no memory".into())]));
    s.say(2, Said::Answers(vec![Answer::Broken("no memory".into())]));
    assert_eq!(s.world.replies[1..], [(2, "broken: no memory".to_owned())]);
    assert!(s.pool.is_empty());
}

#[test]
fn a_spent_worker_is_replaced_without_blame() {
    let mut s = Story::new(1);
    s.run(0..5);
    s.prepared(0, 0);
    s.answer(0, 1, 1000);
    s.answer(0, 1, 1000);
    s.say(0, Said::Spent);
    s.say(1, Said::Ready);
    assert_eq!(s.held(1), ["2", "3", "4"]);
    s.say(0, Said::Answers(vec![Answer::Broken("late".into())]));
    s.finish(10);
    assert!(s.world.replies.iter().all(|(_, end)| end == "exited with code 0"));
}

#[test]
fn where_no_worker_starts_the_units_go_back_and_attempts_become_rare() {
    let mut s = Story::new(0);
    s.run(1..=2);
    s.slots(1);
    for attempt in 0..6 {
        s.say(attempt, Said::Failed("404".into()));
        let at = s.pool.deadline().expect("another attempt");
        let wait = at.since(s.now);
        assert!(wait >= Duration::from_millis(250) && wait <= Duration::from_secs(30), "{wait:?}");
        s.after(wait);
    }
    let given_back = "broken: no task Worker starts in this browser: 404".to_owned();
    assert_eq!(s.world.replies, [(1, given_back.clone()), (2, given_back)]);
    s.run([9]);
    assert_eq!(s.world.replies.pop().unwrap().0, 9, "at once");
    s.say(6, Said::Ready);
    s.run([3]);
    assert_eq!(s.world.log.last().unwrap(), "prepare 0 in 6");
    s.slots(2);
    s.say(7, Said::Failed("404".into()));
    let wait = s.pool.deadline().expect("another attempt").since(s.now);
    assert_eq!(wait, Duration::from_millis(500), "one that started ends the row of failures");
}

#[test]
fn a_program_that_breaks_workers_while_prepared_is_given_back() {
    let mut s = Story::new(1);
    s.run([1]);
    s.after(Duration::from_secs(120));
    s.say(1, Said::Ready);
    assert_eq!(s.world.log.last().unwrap(), "prepare 0 in 1");
    s.say(1, Said::Failed("out of memory".into()));
    assert_eq!(
        s.world.replies,
        [(1, "broken: the browser could not prepare the program: out of memory".to_owned())]
    );
    s.say(2, Said::Ready);
    let log = s.world.log.len();
    s.run([2]);
    assert_eq!(s.world.replies[1], (2, s.world.replies[0].1.clone()), "without another Worker's end");
    assert!(!s.world.log[log..].iter().any(|line| line.starts_with("prepare")), "{:?}", s.world.log);
    s.run_with(3, 2, |_| ());
    assert_eq!(s.world.log.last().unwrap(), "prepare 1 in 2", "another program is tried");
}

#[test]
fn content_that_is_not_here_breaks_only_what_needs_it() {
    let mut s = Story::new(1);
    s.run_with(1, 99, |_| ());
    s.run([2]);
    s.prepared(0, 1);
    s.answer(0, 1, 10);
    s.run_with(3, 1, |task| task.stdin = Data::Blob(BlobRef { id: program(77), len: 5 }));
    s.run_with(4, 1, |task| task.stdin = Data::Blob(BlobRef { id: program(2), len: 4 }));
    s.finish(10);
    let broken: Vec<u64> =
        s.world.replies.iter().filter(|(_, e)| e.contains("storage")).map(|r| r.0).collect();
    assert_eq!(broken, [1, 3]);
    assert_eq!(s.world.replies.len(), 4);
}

#[test]
fn compiled_modules_are_bounded_and_the_oldest_goes_first() {
    let mut s = Story::new(1);
    for n in 1..=10_u8 {
        s.run_with(u64::from(n), n, |_| ());
        s.prepared(0, u32::from(n) - 1);
        s.answer(0, 1, 10);
    }
    let forgotten: Vec<&String> = s.world.log.iter().filter(|l| l.starts_with("forget")).collect();
    assert_eq!(forgotten, ["forget 0 in [0]", "forget 1 in [0]"]);
}

#[test]
fn units_start_in_the_order_in_which_they_came_whatever_their_program() {
    let mut s = Story::new(1);
    s.run_with(1, 1, |_| ());
    s.run_with(2, 2, |_| ());
    s.run_with(3, 1, |_| ());
    s.prepared(0, 0);
    s.prepared(0, 1);
    let mut order = Vec::new();
    while !s.pool.is_empty() {
        order.extend(s.held(0).into_iter().map(str::to_owned));
        let n = s.held(0).len();
        s.answer(0, n, 60_000);
        if s.held(0).is_empty() && !s.pool.is_empty() {
            s.prepared(0, 1);
        }
    }
    assert_eq!(order, ["1", "2", "3"]);
}

#[test]
fn a_slot_that_answers_too_much_is_not_believed_again() {
    let mut s = Story::new(1);
    s.run([1]);
    s.prepared(0, 0);
    let answer = Answer::Ended(Outcome::of(End::Exited(0)));
    s.say(0, Said::Answers(vec![answer; 2]));
    assert_eq!(s.world.log.last().unwrap(), "spawn 1");
    assert_eq!(s.world.replies.len(), 1);
}
