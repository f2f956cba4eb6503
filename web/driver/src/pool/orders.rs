//! Orders of the node about a run that it gave: a snapshot, a pause, its end.

use super::slots::Phase;
use super::{KILL_GRACE, ORDER_GRACE, Pool, Slot, SlotId, World};
use crate::slot::Order;
use node_core::{EngineReply, NoSnapshot, RunId, Taken, Time};

impl Pool {
    pub(super) fn is_paused(&self, run: &RunId) -> bool {
        self.runs.get(run).is_some_and(|entry| entry.paused.is_some())
    }

    /// Why a run's program cannot be suspended, if so.
    pub(super) fn immobile(&self, run: &RunId) -> Option<&String> {
        self.modules.get(self.runs.get(run)?.module)?.immobile.as_ref()
    }

    pub(super) fn kill(&mut self, now: Time, run: RunId, world: &mut impl World) {
        let grace = if self.immobile(&run).is_some() { KILL_GRACE } else { ORDER_GRACE };
        let Some(entry) = self.runs.get_mut(&run) else { return };
        match entry.slot {
            Some(slot) if entry.killed.is_none() => {
                entry.killed = Some(now + grace);
                world.order(slot, run, Order::Kill);
            }
            Some(_) => {}
            None => self.withdraw(run),
        }
    }

    /// A run that no slot has is over.
    fn withdraw(&mut self, run: RunId) {
        let Some(entry) = self.runs.remove(&run) else { return };
        if !self.modules.unqueue(entry.module, entry.order, run) {
            self.left(entry.module);
        }
    }

    pub(super) fn snapshot(&mut self, run: RunId, stop: bool, world: &mut impl World) {
        let immobile = self.immobile(&run).cloned();
        let Some(entry) = self.runs.get_mut(&run).filter(|entry| entry.killed.is_none()) else { return };
        match (entry.slot, immobile) {
            (None, _) => {
                if stop {
                    self.withdraw(run);
                }
                world.reply(EngineReply::Snapshot { run, taken: Err(NoSnapshot::NotBegun), stopped: stop });
            }
            (Some(_), Some(why)) => {
                let taken = Err(NoSnapshot::Immobile(why));
                world.reply(EngineReply::Snapshot { run, taken, stopped: false });
            }
            (Some(slot), None) => {
                entry.asked.push_back(stop);
                world.order(slot, run, Order::Snapshot { stop });
            }
        }
    }

    pub(super) fn pause(&mut self, now: Time, run: RunId, paused: bool, world: &mut impl World) {
        let Some(entry) = self.runs.get_mut(&run).filter(|e| e.paused.is_some() != paused) else { return };
        let since = std::mem::replace(&mut entry.paused, paused.then_some(now));
        let (module, order) = (entry.module, entry.order);
        match (entry.slot, since) {
            (Some(slot), since) => {
                // The time for which the run was paused is not its own.
                let first = self.slots.get_mut(&slot).filter(|slot| slot.first() == Some(run));
                if let (Some(slot), Some(since)) = (first, since) {
                    slot.since = slot.since + now.since(since.max(slot.since));
                }
                world.order(slot, run, Order::Pause(paused));
            }
            (None, None) => {
                if self.modules.unqueue(module, order, run) {
                    self.parked(module);
                }
            }
            (None, Some(_)) => {
                self.left(module);
                self.modules.queue(module, order, run);
            }
        }
    }

    pub(super) fn snapped(
        &mut self,
        now: Time,
        id: SlotId,
        run: RunId,
        taken: Result<Taken, NoSnapshot>,
        stopped: bool,
        world: &mut impl World,
    ) {
        let Some(entry) = self.runs.get_mut(&run).filter(|entry| entry.slot == Some(id)) else { return };
        if entry.asked.pop_front().is_none() {
            return self.failed(now, id, "it took a snapshot that nobody asked for", world);
        }
        let killed = entry.killed.is_some();
        if stopped {
            let module = entry.module;
            self.unhold(now, id, run);
            self.left(module);
            self.runs.remove(&run);
        }
        if !killed {
            world.reply(EngineReply::Snapshot { run, taken, stopped });
        }
    }

    /// A slot dropped a run, or gives it back.
    pub(super) fn gone(&mut self, now: Time, id: SlotId, run: RunId, world: &mut impl World) {
        let Some(entry) = self.runs.get(&run).filter(|entry| entry.slot == Some(id)) else { return };
        let module = entry.module;
        self.unhold(now, id, run);
        self.left(module);
        self.back(run, world);
    }

    fn unhold(&mut self, now: Time, id: SlotId, run: RunId) {
        let Some(Slot { phase: Phase::Running(held), since, .. }) = self.slots.get_mut(&id) else { return };
        if held.front() == Some(&run) {
            *since = now;
        }
        held.retain(|other| *other != run);
    }

    /// No slot has the run any more, and it was not answered: it is where it began.
    pub(super) fn back(&mut self, run: RunId, world: &mut impl World) {
        let Some(entry) = self.runs.get_mut(&run) else { return };
        if entry.killed.is_some() {
            self.runs.remove(&run);
            return;
        }
        entry.slot = None;
        entry.over = None;
        let (module, order, paused) = (entry.module, entry.order, entry.paused.is_some());
        while let Some(stop) = self.runs.get_mut(&run).and_then(|entry| entry.asked.pop_front()) {
            world.reply(EngineReply::Snapshot { run, taken: Err(NoSnapshot::NotBegun), stopped: stop });
            if stop {
                self.runs.remove(&run);
                return;
            }
        }
        if paused {
            self.parked(module);
        } else {
            self.modules.queue(module, order, run);
        }
    }

    /// A run of this module waits in no queue.
    fn parked(&mut self, module: super::ModuleId) {
        if let Some(module) = self.modules.get_mut(module) {
            module.in_flight += 1;
        }
    }

    /// Lets slots compute this many percent of the time.
    pub fn set_share(&mut self, percent: u32, world: &mut impl World) {
        self.share = percent.clamp(1, 100);
        self.slots.keys().for_each(|id| world.share(*id, self.share));
    }
}
