//! Workers: starting them, ending them, and telling who is to blame when one is stuck.

use super::modules::{ModuleId, State};
use super::{ORDER_GRACE, Pool, Run, SlotId, Unfit, World};
use crate::slot::Order;
use node_core::{BlobId, EngineReply, RunId, Time};
use sandbox::{End, Limit, Outcome};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

pub(super) struct Slot {
    pub(super) phase: Phase,
    /// Start of the phase, or the last answer within it.
    pub(super) since: Time,
    pub(super) knows: BTreeSet<ModuleId>,
    /// The whole snapshot that lies ready in it, for a task that will come.
    pub(super) holds: Option<BlobId>,
}

pub(super) enum Phase {
    Starting,
    Preparing(ModuleId),
    /// Tasks that it was given and has not answered, in order; idle if there are none.
    Running(VecDeque<RunId>),
}

impl Phase {
    pub(super) fn idle() -> Phase {
        Phase::Running(VecDeque::new())
    }
}

impl Slot {
    fn new(now: Time) -> Slot {
        Slot { phase: Phase::Starting, since: now, knows: BTreeSet::new(), holds: None }
    }

    /// The run that it is at, as far as it has told.
    pub(super) fn first(&self) -> Option<RunId> {
        match &self.phase {
            Phase::Running(held) => held.front().copied(),
            _ => None,
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        matches!(&self.phase, Phase::Running(held) if held.is_empty())
    }
}

/// A Worker that is not ready by then will not be: its script did not load.
const START_LIMIT: Duration = Duration::from_secs(30);

/// Checking and compiling takes tens of seconds for the largest programs seen.
pub(super) const PREPARE_LIMIT: Duration = Duration::from_secs(120);

/// Between attempts to start Workers once one broke before it was ready; doubles.
const RESPAWN_FIRST: Duration = Duration::from_millis(250);
const RESPAWN_MOST: Duration = Duration::from_secs(30);

/// Workers in a row that broke before they were ready, after which runs are given back to be
/// placed elsewhere until one starts.
const MAX_FAILURES: u32 = 3;

impl Pool {
    pub(super) fn slot_deadline(&self, slot: &Slot) -> Option<Time> {
        match &slot.phase {
            Phase::Starting => Some(slot.since + START_LIMIT),
            Phase::Preparing(_) => Some(slot.since + PREPARE_LIMIT),
            Phase::Running(held) => {
                let held = held.iter().filter_map(|id| Some((id, self.runs.get(id)?)));
                held.flat_map(|(id, run)| [self.time_up(slot, *id, run), run.killed].into_iter().flatten())
                    .min()
            }
        }
    }

    /// When a run has had its time.
    fn time_up(&self, slot: &Slot, id: RunId, run: &Run) -> Option<Time> {
        // A slot that listens tells at once when it is at the next run.
        let listens = self.immobile(&id).is_none();
        if run.paused.is_some() || listens && slot.first() != Some(id) {
            return None;
        }
        let limit = run.task.limits.time_us.saturating_mul(100) / u64::from(self.share);
        Some(run.over.unwrap_or(slot.since + Duration::from_micros(limit)))
    }

    /// Brings the number of Workers to what is wanted, and work to those that have room.
    pub fn settle(&mut self, now: Time, world: &mut impl World) {
        self.refuse(world);
        while self.slots.len() > self.wanted {
            let spare =
                self.slots.iter().rev().find(|(_, s)| s.is_idle() || matches!(s.phase, Phase::Starting));
            let Some(id) = spare.map(|(id, _)| *id) else { break };
            self.slots.remove(&id);
            world.terminate(id);
        }
        while self.slots.len() < self.wanted && now >= self.spawn_after {
            let id = SlotId(self.next_slot);
            self.next_slot = self.next_slot.wrapping_add(1);
            self.slots.insert(id, Slot::new(now));
            world.spawn(id);
            if self.share < 100 {
                world.share(id, self.share);
            }
        }
        let hopeless = self.failures >= MAX_FAILURES;
        if hopeless && self.slots.values().all(|slot| matches!(slot.phase, Phase::Starting)) {
            self.give_up(world);
        }
        self.fill(now, world);
    }

    /// A slot went past its deadline.
    pub(super) fn overdue(&mut self, now: Time, id: SlotId, world: &mut impl World) {
        let Some(slot) = self.slots.get(&id) else { return };
        let Phase::Running(held) = &slot.phase else {
            let words = match slot.phase {
                Phase::Starting => "its script did not start within 30 s",
                _ => "preparing a program took more than 120 s",
            };
            return self.failed(now, id, words, world);
        };
        if held.iter().any(|run| self.runs.get(run).is_some_and(|r| r.killed.is_some_and(|at| at <= now))) {
            return self.replace(id, world);
        }
        if let Some(run) = slot.first().filter(|run| self.immobile(run).is_none())
            && let Some(entry) = self.runs.get_mut(&run).filter(|entry| entry.over.is_none())
        {
            entry.over = Some(now + ORDER_GRACE);
            return world.order(id, run, Order::TimeUp);
        }
        if let [run] = held.iter().copied().collect::<Vec<_>>()[..] {
            let ran = now.since(slot.since);
            self.end(id, world);
            if let Some(entry) = self.runs.remove(&run) {
                self.left(entry.module);
                let end = End::LimitReached(Limit::TimeUs(entry.task.limits.time_us));
                let outcome = Outcome { cpu_us: ran.as_micros() as u64, ..Outcome::of(end) };
                world.reply(EngineReply::Ended { run, outcome });
            }
            return;
        }
        // Any of them may be the one: those before it ended and could not say so yet.
        for run in self.end(id, world) {
            self.again(run, true, world);
        }
    }

    /// A slot broke.
    pub(super) fn failed(&mut self, now: Time, id: SlotId, error: &str, world: &mut impl World) {
        let Some(slot) = self.slots.get(&id) else { return };
        match slot.phase {
            Phase::Starting => {
                self.end(id, world);
                self.failures = self.failures.saturating_add(1);
                let wait = RESPAWN_FIRST.saturating_mul(1 << self.failures.min(8)).min(RESPAWN_MOST);
                self.spawn_after = now + wait;
                self.failure = error.to_owned();
            }
            Phase::Preparing(module) => {
                self.end(id, world);
                let Some(entry) = self.modules.get_mut(module) else { return };
                entry.state = State::New;
                entry.crashes += 1;
                if entry.crashes >= super::MAX_CRASHES {
                    // Remembered: the program's next units do not cost a Worker each. A tab cannot tell
                    // whether the program or its machine is to blame, so this is no refusal.
                    let error = format!("the browser could not prepare the program: {error}");
                    entry.state = State::Unfit(Unfit::Broken(error));
                }
            }
            Phase::Running(_) => {
                let held = self.end(id, world);
                if let [run] = held[..] {
                    if let Some(entry) = self.runs.get(&run) {
                        self.left(entry.module);
                    }
                    self.crashed(run, error, world);
                } else {
                    held.into_iter().for_each(|run| self.again(run, true, world));
                }
            }
        }
    }

    /// Ends a slot through no fault of what it holds.
    pub(super) fn replace(&mut self, id: SlotId, world: &mut impl World) {
        for run in self.end(id, world) {
            self.again(run, false, world);
        }
    }

    /// Terminates a Worker; what it held is the caller's to see to.
    fn end(&mut self, id: SlotId, world: &mut impl World) -> Vec<RunId> {
        let Some(slot) = self.slots.remove(&id) else { return Vec::new() };
        world.terminate(id);
        match slot.phase {
            Phase::Running(held) => held.into(),
            Phase::Preparing(module) => {
                self.modules.set(module, State::New);
                Vec::new()
            }
            Phase::Starting => Vec::new(),
        }
    }

    /// Queues a run again that was in a slot.
    fn again(&mut self, run: RunId, alone: bool, world: &mut impl World) {
        let Some(entry) = self.runs.get_mut(&run) else { return };
        entry.alone |= alone;
        let module = entry.module;
        self.left(module);
        self.back(run, world);
    }

    /// A run of this module is no longer in a slot, or no longer paused.
    pub(super) fn left(&mut self, module: ModuleId) {
        if let Some(module) = self.modules.get_mut(module) {
            module.in_flight = module.in_flight.saturating_sub(1);
        }
    }
}
