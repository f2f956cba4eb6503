//! The engine of a browser node, without the browser: which Worker runs which task.
//!
//! A slot is a Worker. It is told compiled modules once and then tasks, several at a time
//! when they are short, and answers them in order. Most tasks run in slices, and in between
//! their Worker listens to orders. A program that cannot be suspended keeps it busy to its end:
//! that is ended by terminating the Worker, as is one that does not obey in time, and whatever
//! else it held runs again in another.
//!
//! Contract: every `Run` is answered exactly once unless it is killed, the snapshot that ends a
//! run being its answer; `Kill` is never answered. Each `Snapshot` is answered once if its run
//! does not end first; should its Worker break, the run is where it began again, and that is the
//! answer. A paused run keeps its Worker if it has begun, and waits for none if it has not. Feed [`Pool::request`], [`Pool::said`] and, at [`Pool::deadline`] or at any
//! other time, [`Pool::wake`]; then, once for all that came together so that tasks travel
//! together too, [`Pool::settle`]. While tasks run there is a deadline each second: a longer
//! gap means that the page was frozen or the machine slept, and is no task's time. Memory is bounded by [`MAX_RUNS`] and [`MAX_MODULES`].

mod batch;
#[cfg(test)]
mod chaos_tests;
mod modules;
#[cfg(test)]
mod moving_tests;
mod orders;
mod slots;
#[cfg(test)]
mod tests;

use crate::slot::{Answer, Form, Job, Order};
use bytes::Bytes;
use modules::{Modules, State};
use node_core::engine::NotRunnable;
use node_core::{BlobId, EngineReply, EngineRequest, EngineTask, NoSnapshot, RunId, Taken, Time};
use sandbox::{End, Outcome};
use slots::{PREPARE_LIMIT, Phase, Slot};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

pub use modules::{MAX_MODULES, ModuleId};

/// Runs that the pool holds. Our choice: eight times what a node takes on at once.
pub const MAX_RUNS: usize = 16_384;

/// Slots that a person can ask for. Our choice: above any machine's processors.
pub const MAX_SLOTS: u32 = 256;

/// A Worker. The number is never used again, so that late words of an ended one are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SlotId(pub u32);

/// Storage and Workers that the pool acts on. Calls must not call back.
pub trait World {
    /// A blob in the node's storage.
    fn blob(&self, id: &BlobId) -> Option<Bytes>;
    /// Starts a Worker; it will say [`Said::Ready`].
    fn spawn(&mut self, slot: SlotId);
    /// Ends it in whatever it does.
    fn terminate(&mut self, slot: SlotId);
    /// Has a slot check and compile a program; answered by [`Said::Prepared`].
    fn prepare(&mut self, slot: SlotId, module: ModuleId, program: Bytes, form: &Form);
    /// Gives a slot a module that was prepared (by whichever slot).
    fn teach(&mut self, slot: SlotId, module: ModuleId);
    /// Queues tasks in a slot; answered by [`Said::Answers`], in order, in any portions.
    fn run(&mut self, slot: SlotId, module: ModuleId, tasks: &[Job]);
    /// Asks something of a slot about a run that it was given.
    fn order(&mut self, slot: SlotId, run: RunId, order: Order);
    /// Lets a slot compute this many percent of the time.
    fn share(&mut self, slot: SlotId, percent: u32);
    /// Nobody will ask for this module again; `slots` know it.
    fn forget(&mut self, module: ModuleId, slots: &[SlotId]);
    fn reply(&mut self, reply: EngineReply);
}

/// Message of a slot.
#[derive(Clone, Debug)]
pub enum Said {
    Ready,
    /// The module is compiled, and why its tasks cannot be suspended, if they cannot; or it is
    /// not one that can run here.
    Prepared {
        module: ModuleId,
        result: Result<Option<String>, Unfit>,
    },
    Answers(Vec<Answer>),
    /// The answer to [`Order::Snapshot`]; `stopped`: the slot no longer has it.
    Snapshot {
        run: RunId,
        taken: Result<Taken, NoSnapshot>,
        stopped: bool,
    },
    /// It goes on from the snapshot that came with it.
    Resumed(RunId),
    /// The slot no longer has these runs, and gave no answer to them: they were killed, or had
    /// not begun when one before them was paused.
    Gone(Vec<RunId>),
    /// It is no longer fit for use and has answered what it could.
    Spent,
    /// It broke, and why.
    Failed(String),
}

/// Why a program does not run here, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// It runs nowhere.
    Refused(String),
    /// This browser cannot do it.
    Broken(String),
}

struct Run {
    task: EngineTask,
    /// It will come: its slot is to have what it goes on from.
    ahead: bool,
    module: ModuleId,
    /// Runs start in this order, also after they had to be run again.
    order: u64,
    /// Its Worker ended while it and others were unanswered: give it a Worker of its own, so
    /// that a second time there is no doubt.
    alone: bool,
    /// Workers that broke under it alone.
    crashes: u8,
    /// Nobody wants it: its Worker is terminated at this time unless it is through by then.
    killed: Option<Time>,
    /// The slot that has it.
    slot: Option<SlotId>,
    /// Since then. One that no slot has is in no queue either.
    paused: Option<Time>,
    /// Snapshots that its slot was asked for, each with whether to stop then.
    asked: VecDeque<bool>,
    /// It was told that its time is up: its Worker is terminated at this time.
    over: Option<Time>,
}

impl Run {
    /// The whole snapshot that it goes on from, or from what is relative to it.
    fn whole(&self) -> Option<BlobId> {
        self.task.from.map(|from| from.base.unwrap_or(from.blob).id)
    }
}

/// Workers that broke under one run before it is given back.
const MAX_CRASHES: u8 = 2;

/// A killed run that cannot be suspended is left this long: most end by themselves, and a new
/// Worker costs as much.
const KILL_GRACE: Duration = Duration::from_millis(50);

/// Time for a Worker to obey an order. A run in slices obeys within two of them; a Worker that is
/// silent for longer writes down a large snapshot, or is stuck between two polls.
const ORDER_GRACE: Duration = Duration::from_millis(500);

pub struct Pool {
    wanted: usize,
    slots: BTreeMap<SlotId, Slot>,
    modules: Modules,
    runs: BTreeMap<RunId, Run>,
    next_slot: u32,
    next_order: u64,
    /// Workers in a row that broke before they were ready.
    failures: u32,
    /// Error of the last of these Workers.
    failure: String,
    /// No Worker is started before.
    spawn_after: Time,
    /// When the pool last looked at the clock.
    seen: Time,
    /// Percent of the time that slots may compute.
    share: u32,
}

impl Default for Pool {
    fn default() -> Pool {
        Pool {
            wanted: 0,
            slots: BTreeMap::new(),
            modules: Modules::default(),
            runs: BTreeMap::new(),
            next_slot: 0,
            next_order: 0,
            failures: 0,
            failure: String::new(),
            spawn_after: Time::ZERO,
            seen: Time::ZERO,
            share: 100,
        }
    }
}

/// How often it looks while Workers have something to do.
const LOOK: Duration = Duration::from_secs(1);

/// A gap that only a frozen page or a sleeping machine makes.
const ASLEEP: Duration = Duration::from_secs(5);

impl Pool {
    /// Takes a request of the node.
    pub fn request(&mut self, now: Time, request: EngineRequest, world: &mut impl World) {
        self.look(now);
        match request {
            EngineRequest::Run { run, task } => self.enqueue(run, task, false, world),
            EngineRequest::Prepare { run, task } => self.prepare(run, task, world),
            EngineRequest::Kill { run } => self.kill(now, run, world),
            EngineRequest::Snapshot { run, stop } => self.snapshot(run, stop, world),
            EngineRequest::Pause { run, paused } => self.pause(now, run, paused, world),
            // No run here is a thread.
            EngineRequest::Letters { .. } => {}
            EngineRequest::Inspect { number, .. } => {
                // Pages take no jobs of others, and check their own before they submit them.
                let result =
                    Err(NotRunnable::Unchecked("a page checks none of others; submit to a gateway".into()));
                world.reply(EngineReply::Inspected { number, result });
            }
            EngineRequest::Slots(n) => self.wanted = n.min(MAX_SLOTS) as usize,
        }
    }

    /// Takes a message of a slot. Messages of slots that were ended are ignored.
    pub fn said(&mut self, now: Time, id: SlotId, said: Said, world: &mut impl World) {
        self.look(now);
        let Some(slot) = self.slots.get_mut(&id) else { return };
        match said {
            Said::Ready => {
                if matches!(slot.phase, Phase::Starting) {
                    slot.phase = Phase::idle();
                    slot.since = now;
                    self.failures = 0;
                }
            }
            Said::Prepared { module, result } => self.prepared(now, id, module, result),
            Said::Answers(answers) => self.answered(now, id, answers, world),
            Said::Snapshot { run, taken, stopped } => self.snapped(now, id, run, taken, stopped, world),
            // A late word on a run that somebody killed is none.
            Said::Resumed(run) => {
                if self.runs.get(&run).is_some_and(|entry| entry.slot == Some(id) && entry.killed.is_none()) {
                    world.reply(EngineReply::Resumed { run });
                }
            }
            Said::Gone(runs) => runs.into_iter().for_each(|run| self.gone(now, id, run, world)),
            Said::Spent => self.replace(id, world),
            Said::Failed(error) => self.failed(now, id, &error, world),
        }
    }

    /// Checks all deadlines.
    pub fn wake(&mut self, now: Time, world: &mut impl World) {
        self.look(now);
        let due: Vec<SlotId> = self
            .slots
            .iter()
            .filter(|(_, slot)| self.slot_deadline(slot).is_some_and(|at| at <= now))
            .map(|(id, _)| *id)
            .collect();
        for id in due {
            self.overdue(now, id, world);
        }
    }

    /// When [`Pool::wake`] has something to do.
    pub fn deadline(&self) -> Option<Time> {
        let respawn = (self.slots.len() < self.wanted).then_some(self.spawn_after);
        let slots = self.slots.values().filter_map(|slot| self.slot_deadline(slot)).min();
        let slots = slots.map(|at| at.min(self.seen + LOOK));
        slots.into_iter().chain(respawn).min()
    }

    /// Takes a gap in which nothing ran out of everybody's time.
    fn look(&mut self, now: Time) {
        let gap = now.since(self.seen);
        self.seen = now;
        if gap >= ASLEEP {
            self.slots.values_mut().for_each(|slot| slot.since = slot.since + gap);
        }
    }

    /// Runs that are in the pool, killed ones included that a Worker still holds.
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Has an idle slot get ready for a task that will come; if there is none, that is all.
    fn prepare(&mut self, run: RunId, mut task: EngineTask, world: &mut impl World) {
        if !self.slots.values().take(self.wanted).any(Slot::is_idle) {
            return world.reply(EngineReply::Prepared { run });
        }
        // It is this browser's time, not the task's.
        task.limits.time_us = PREPARE_LIMIT.as_micros() as u64;
        self.enqueue(run, task, true, world);
    }

    fn enqueue(&mut self, run: RunId, task: EngineTask, ahead: bool, world: &mut impl World) {
        if self.runs.len() >= MAX_RUNS || self.runs.contains_key(&run) {
            let error = format!("the browser's engine holds {MAX_RUNS} runs already, or {run:?} itself");
            world.reply(EngineReply::Broken { run, error });
            return;
        }
        let form =
            Form { program: task.program, memory_bytes: task.limits.memory_bytes, bit_exact: task.bit_exact };
        let (module, dropped) = self.modules.intern(form);
        for module in dropped {
            let knowers =
                self.slots.iter_mut().filter_map(|(id, slot)| slot.knows.remove(&module).then_some(*id));
            let knowers: Vec<SlotId> = knowers.collect();
            world.forget(module, &knowers);
        }
        let order = self.next_order;
        self.next_order += 1;
        self.modules.queue(module, order, run);
        let entry = Run {
            task,
            ahead,
            module,
            order,
            alone: false,
            crashes: 0,
            killed: None,
            slot: None,
            paused: None,
            asked: VecDeque::new(),
            over: None,
        };
        self.runs.insert(run, entry);
    }

    fn prepared(&mut self, now: Time, id: SlotId, module: ModuleId, result: Result<Option<String>, Unfit>) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        if !matches!(slot.phase, Phase::Preparing(m) if m == module) {
            return;
        }
        slot.phase = Phase::idle();
        slot.since = now;
        match result {
            Ok(immobile) => {
                // It compiled the module, so it has it.
                slot.knows.insert(module);
                self.modules.set(module, State::Ready);
                if let Some(module) = self.modules.get_mut(module) {
                    module.immobile = immobile;
                }
            }
            Err(why) => self.modules.set(module, State::Unfit(why)),
        }
    }

    /// Answers what waits for a module that cannot run.
    fn refuse(&mut self, world: &mut impl World) {
        for (run, why) in self.modules.take_unfit() {
            self.runs.remove(&run);
            world.reply(match why {
                Unfit::Refused(reason) => {
                    EngineReply::Ended { run, outcome: Outcome::of(End::Refused(reason)) }
                }
                Unfit::Broken(error) => EngineReply::Broken { run, error },
            });
        }
    }

    fn answered(&mut self, now: Time, id: SlotId, answers: Vec<Answer>, world: &mut impl World) {
        for answer in answers {
            let Some(Slot { phase: Phase::Running(held), since, holds, .. }) = self.slots.get_mut(&id) else {
                return;
            };
            let Some(run) = held.pop_front() else {
                return self.failed(now, id, "it answered a task that it was not given", world);
            };
            *since = now;
            let Some(entry) = self.runs.get(&run) else { continue };
            let (module, killed) = (entry.module, entry.killed.is_some());
            if answer == Answer::Prepared {
                // Unless something else was sent after it.
                *holds = entry.whole().filter(|_| held.is_empty());
            }
            self.left(module);
            match answer {
                _ if killed => {
                    self.runs.remove(&run);
                }
                Answer::Unusable(error) => {
                    self.runs.remove(&run);
                    world.reply(EngineReply::Broken { run, error });
                }
                Answer::Prepared => {
                    self.runs.remove(&run);
                    world.reply(EngineReply::Prepared { run });
                }
                Answer::Ended(outcome) => {
                    self.modules.took(module, outcome.cpu_us);
                    self.runs.remove(&run);
                    world.reply(EngineReply::Ended { run, outcome });
                }
                Answer::Broken(error) => self.crashed(run, &error, world),
            }
        }
    }

    /// A Worker broke under this run and no other: it runs again, but not for ever.
    fn crashed(&mut self, run: RunId, error: &str, world: &mut impl World) {
        let Some(entry) = self.runs.get_mut(&run) else { return };
        entry.crashes += 1;
        entry.alone = true;
        if entry.crashes >= MAX_CRASHES && entry.killed.is_none() {
            self.runs.remove(&run);
            world.reply(EngineReply::Broken { run, error: error.to_owned() });
        } else {
            self.back(run, world);
        }
    }

    /// Gives everything that waits back, because no Worker starts.
    fn give_up(&mut self, world: &mut impl World) {
        for run in self.modules.take_all() {
            self.runs.remove(&run);
            let error = format!("no task Worker starts in this browser: {}", self.failure);
            world.reply(EngineReply::Broken { run, error });
        }
    }
}
