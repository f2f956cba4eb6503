//! Random requests to a pool whose Workers obey, in their own time, or break: every run is
//! answered once.

use super::*;
use node_core::SealKey;
use node_core::content::BlobRef;
use node_core::content::Data;
use sandbox::Limits;

/// A Worker as `web/task` is, in short.
#[derive(Default)]
struct Worker {
    ready: bool,
    inbox: VecDeque<Told>,
    runs: VecDeque<u64>,
    begun: bool,
    paused: bool,
}

enum Told {
    Prepare(ModuleId),
    Run(Vec<u64>),
    Order(u64, Order),
}

#[derive(Default)]
struct Fakes {
    workers: BTreeMap<SlotId, Worker>,
    replies: Vec<EngineReply>,
}

impl World for Fakes {
    fn blob(&self, _: &BlobId) -> Option<Bytes> {
        Some(Bytes::new())
    }
    fn spawn(&mut self, slot: SlotId) {
        self.workers.insert(slot, Worker::default());
    }
    fn terminate(&mut self, slot: SlotId) {
        assert!(self.workers.remove(&slot).is_some(), "a Worker is ended once");
    }
    fn prepare(&mut self, slot: SlotId, module: ModuleId, _: Bytes, _: &Form) {
        self.tell(slot, Told::Prepare(module));
    }
    fn teach(&mut self, _: SlotId, _: ModuleId) {}
    fn run(&mut self, slot: SlotId, _: ModuleId, tasks: &[Job]) {
        self.tell(slot, Told::Run(tasks.iter().map(|job| job.run).collect()));
    }
    fn order(&mut self, slot: SlotId, run: RunId, order: Order) {
        self.tell(slot, Told::Order(run.0, order));
    }
    fn share(&mut self, _: SlotId, _: u32) {}
    fn forget(&mut self, _: ModuleId, _: &[SlotId]) {}
    fn reply(&mut self, reply: EngineReply) {
        self.replies.push(reply);
    }
}

impl Fakes {
    fn tell(&mut self, slot: SlotId, told: Told) {
        self.workers.get_mut(&slot).expect("a living Worker").inbox.push_back(told);
    }
}

impl Worker {
    /// Does something, and says something about it.
    fn step(&mut self) -> Option<Said> {
        if !self.ready {
            self.ready = true;
            return Some(Said::Ready);
        }
        match self.inbox.pop_front() {
            Some(Told::Prepare(module)) => Some(Said::Prepared { module, result: Ok(None) }),
            Some(Told::Run(runs)) => {
                self.runs.extend(runs);
                None
            }
            Some(Told::Order(run, order)) => self.obey(run, order),
            None if self.paused || self.runs.is_empty() => None,
            None if !self.begun => {
                self.begun = true;
                None
            }
            None => {
                self.leave(0);
                Some(Said::Answers(vec![Answer::Ended(Outcome::of(End::Exited(0)))]))
            }
        }
    }

    fn leave(&mut self, at: usize) {
        self.runs.remove(at);
        if at == 0 {
            (self.begun, self.paused) = (false, false);
        }
    }

    fn obey(&mut self, run: u64, order: Order) -> Option<Said> {
        let at = self.runs.iter().position(|other| *other == run)?;
        let begun = at == 0 && self.begun;
        match order {
            Order::Snapshot { stop } => {
                if stop {
                    self.leave(at);
                }
                let some = Taken {
                    blob: BlobRef::of(&[]),
                    bytes: Bytes::new(),
                    base: None,
                    root: [0; 32],
                    fuel: 1,
                    pause_us: 1,
                    marks: None,
                };
                let taken = if begun { Ok(some) } else { Err(NoSnapshot::NotBegun) };
                Some(Said::Snapshot { run: RunId(run), taken, stopped: stop })
            }
            Order::Pause(true) if begun => {
                self.paused = true;
                Some(Said::Gone(self.runs.drain(1..).map(RunId).collect()))
            }
            Order::Pause(false) => {
                self.paused &= !begun;
                None
            }
            Order::Pause(true) | Order::Kill => {
                self.leave(at);
                Some(Said::Gone(vec![RunId(run)]))
            }
            Order::TimeUp => {
                assert!(begun);
                self.leave(at);
                Some(Said::Answers(vec![Answer::Ended(Outcome::of(End::Exited(1)))]))
            }
        }
    }
}

/// State of a run as known from outside.
#[derive(Default)]
struct Known {
    killed: bool,
    over: bool,
    asked: u32,
    paused: bool,
}

struct Chaos {
    random: u64,
    pool: Pool,
    world: Fakes,
    now: Time,
    runs: BTreeMap<u64, Known>,
}

impl Chaos {
    fn random(&mut self, n: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % n
    }

    fn request(&mut self, request: EngineRequest) {
        self.pool.request(self.now, request, &mut self.world);
        self.settle();
    }

    fn settle(&mut self) {
        self.pool.settle(self.now, &mut self.world);
        for reply in std::mem::take(&mut self.world.replies) {
            let (run, over) = match &reply {
                EngineReply::Snapshot { run, stopped, .. } => (*run, *stopped),
                EngineReply::Resumed { run } | EngineReply::Said { run, .. } => (*run, false),
                EngineReply::Ended { run, .. }
                | EngineReply::Broken { run, .. }
                | EngineReply::Prepared { run } => (*run, true),
                EngineReply::Inspected { .. } => panic!("nobody asked for that"),
            };
            let known = self.runs.get_mut(&run.0).expect("a run that was given");
            assert!(!known.over && !known.killed, "{reply:?} comes after the end");
            if matches!(reply, EngineReply::Snapshot { .. }) {
                known.asked = known.asked.checked_sub(1).expect("nobody asked for that");
            }
            known.over = over;
        }
    }

    fn ask(&mut self) {
        let run = self.random(self.runs.len() as u64 + 1);
        let some = RunId(run);
        match self.random(12) {
            0..5 => {
                let run = self.runs.len() as u64;
                self.runs.insert(run, Known::default());
                let task = EngineTask {
                    program: BlobId([self.random(2) as u8; 32]),
                    arguments: Vec::new(),
                    environment: Vec::new(),
                    stdin: Data::EMPTY,
                    files: Vec::new(),
                    limits: Limits::default(),
                    seed: 0,
                    bit_exact: false,
                    key: SealKey::default(),
                    from: None,
                    thread: None,
                };
                self.request(EngineRequest::Run { run: RunId(run), task });
            }
            5 => {
                let n = 1 + self.random(3) as u32;
                self.request(EngineRequest::Slots(n));
            }
            6..8 => {
                let stop = self.random(2) == 0;
                if let Some(known) = self.runs.get_mut(&run).filter(|known| !known.over && !known.killed) {
                    known.asked += 1;
                }
                self.request(EngineRequest::Snapshot { run: some, stop });
            }
            8..11 => {
                let paused = self.random(2) == 0;
                if let Some(known) = self.runs.get_mut(&run) {
                    known.paused = paused;
                }
                self.request(EngineRequest::Pause { run: some, paused });
            }
            _ => {
                if let Some(known) = self.runs.get_mut(&run) {
                    known.killed |= !known.over;
                }
                self.request(EngineRequest::Kill { run: some });
            }
        }
    }

    /// Some Worker does something, or breaks.
    fn step(&mut self, breaks: bool) {
        let ids: Vec<SlotId> = self.world.workers.keys().copied().collect();
        if !ids.is_empty() {
            let id = ids[self.random(ids.len() as u64) as usize];
            let said = match self.random(200) {
                0 if breaks => Some(Said::Failed("chaos".into())),
                1 if breaks => Some(Said::Spent),
                _ => self.world.workers.get_mut(&id).and_then(Worker::step),
            };
            if let Some(said) = said {
                self.pool.said(self.now, id, said, &mut self.world);
            }
        }
        self.now = self.now + Duration::from_micros(self.random(2_000));
        if self.pool.deadline().is_some_and(|at| at <= self.now) {
            self.pool.wake(self.now, &mut self.world);
        }
        self.settle();
    }
}

#[test]
fn whatever_is_asked_and_whoever_breaks_every_run_is_answered_once() {
    for seed in 1..300 {
        let (pool, world) = (Pool::default(), Fakes::default());
        let mut c = Chaos { random: seed, pool, world, now: Time::ZERO, runs: BTreeMap::new() };
        for _ in 0..300 {
            c.ask();
            (0..c.random(12)).for_each(|_| c.step(true));
        }
        c.request(EngineRequest::Slots(2));
        let paused: Vec<u64> = c.runs.iter().filter(|(_, known)| known.paused).map(|(run, _)| *run).collect();
        for run in paused {
            c.request(EngineRequest::Pause { run: RunId(run), paused: false });
        }
        let mut steps = 0;
        while !c.pool.is_empty() {
            c.step(false);
            steps += 1;
            assert!(steps < 1_000_000, "seed {seed}: {} runs are left", c.pool.len());
        }
        for (run, known) in &c.runs {
            assert!(known.over || known.killed, "seed {seed}: run {run} was not answered");
        }
    }
}
