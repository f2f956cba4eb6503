//! Programs that were asked for, what is known of each, and which runs wait for it.

use super::Unfit;
use crate::slot::Form;
use node_core::RunId;
use std::collections::{BTreeMap, BTreeSet};

/// A program in one [`Form`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ModuleId(pub u32);

/// Compiled modules kept. Our choice: a page's memory holds this many of a megabyte each
/// without being noticed, and more programs at once are rare.
pub const MAX_MODULES: usize = 8;

pub(super) enum State {
    /// No slot has looked at it.
    New,
    Preparing,
    Ready,
    Unfit(Unfit),
}

pub(super) struct Module {
    pub(super) form: Form,
    pub(super) state: State,
    /// Why its tasks cannot be suspended, if so; known once it is ready.
    pub(super) immobile: Option<String>,
    /// Mean duration of its runs, microseconds; 0 until one has ended.
    pub(super) mean_us: u64,
    /// Workers that broke while they prepared it.
    pub(super) crashes: u8,
    queue: BTreeSet<(u64, RunId)>,
    /// Runs in slots, and paused ones that are in none.
    pub(super) in_flight: usize,
    used: u64,
}

#[derive(Default)]
pub(super) struct Modules {
    by_id: BTreeMap<ModuleId, Module>,
    ids: BTreeMap<Form, ModuleId>,
    next: u32,
    uses: u64,
    waiting: usize,
}

impl Modules {
    pub(super) fn get(&self, id: ModuleId) -> Option<&Module> {
        self.by_id.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: ModuleId) -> Option<&mut Module> {
        self.by_id.get_mut(&id)
    }

    /// The module for a program, new if it was not asked for lately, and what was dropped to
    /// make room for it.
    pub(super) fn intern(&mut self, form: Form) -> (ModuleId, Vec<ModuleId>) {
        self.uses += 1;
        if let Some(id) = self.ids.get(&form) {
            if let Some(module) = self.by_id.get_mut(id) {
                module.used = self.uses;
            }
            return (*id, Vec::new());
        }
        let mut dropped = Vec::new();
        while self.by_id.len() >= MAX_MODULES {
            // Those in use stay, even if that makes too many: runs are bounded anyway.
            let idle = self.by_id.iter().filter(|(_, m)| {
                m.queue.is_empty() && m.in_flight == 0 && !matches!(m.state, State::Preparing)
            });
            let Some(oldest) = idle.min_by_key(|(_, m)| m.used).map(|(id, _)| *id) else { break };
            if let Some(module) = self.by_id.remove(&oldest) {
                self.ids.remove(&module.form);
            }
            dropped.push(oldest);
        }
        let id = ModuleId(self.next);
        self.next += 1;
        self.ids.insert(form, id);
        self.by_id.insert(
            id,
            Module {
                form,
                state: State::New,
                immobile: None,
                mean_us: 0,
                crashes: 0,
                queue: BTreeSet::new(),
                in_flight: 0,
                used: self.uses,
            },
        );
        (id, dropped)
    }

    pub(super) fn set(&mut self, id: ModuleId, state: State) {
        if let Some(module) = self.by_id.get_mut(&id) {
            module.state = state;
        }
    }

    /// A run of the module took this long.
    pub(super) fn took(&mut self, id: ModuleId, us: u64) {
        if let Some(module) = self.by_id.get_mut(&id) {
            // Browsers round their clocks up to 100 µs either way, so a run can seem to take
            // no time at all.
            let us = us.clamp(20, 1 << 40);
            module.mean_us = if module.mean_us == 0 { us } else { (7 * module.mean_us + us) / 8 };
        }
    }

    pub(super) fn queue(&mut self, id: ModuleId, order: u64, run: RunId) {
        if let Some(module) = self.by_id.get_mut(&id) {
            self.waiting += usize::from(module.queue.insert((order, run)));
        }
    }

    /// Whether it had been waiting.
    pub(super) fn unqueue(&mut self, id: ModuleId, order: u64, run: RunId) -> bool {
        let was = self.by_id.get_mut(&id).is_some_and(|m| m.queue.remove(&(order, run)));
        self.waiting -= usize::from(was);
        was
    }

    /// Runs that wait, for whatever module.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// The ready module whose run has waited longest, and that run.
    pub(super) fn first_ready(&self) -> Option<(ModuleId, RunId)> {
        self.first(|state| matches!(state, State::Ready))
    }

    /// The module that no slot has looked at whose run has waited longest, and that run.
    pub(super) fn first_new(&self) -> Option<(ModuleId, RunId)> {
        self.first(|state| matches!(state, State::New))
    }

    fn first(&self, wanted: impl Fn(&State) -> bool) -> Option<(ModuleId, RunId)> {
        let heads = self.by_id.iter().filter(|(_, m)| wanted(&m.state));
        let heads = heads.filter_map(|(id, m)| m.queue.first().map(|(order, run)| (*order, *id, *run)));
        heads.min().map(|(_, id, run)| (id, run))
    }

    /// The run of this module that has waited longest.
    pub(super) fn peek(&self, id: ModuleId) -> Option<RunId> {
        self.by_id.get(&id)?.queue.first().map(|(_, run)| *run)
    }

    pub(super) fn pop(&mut self, id: ModuleId) -> Option<RunId> {
        let (_, run) = self.by_id.get_mut(&id)?.queue.pop_first()?;
        self.waiting -= 1;
        Some(run)
    }

    /// All runs that wait for this module.
    pub(super) fn drain(&mut self, id: ModuleId) -> Vec<RunId> {
        std::iter::from_fn(|| self.pop(id)).collect()
    }

    /// All runs that wait.
    pub(super) fn take_all(&mut self) -> Vec<RunId> {
        let ids: Vec<ModuleId> = self.by_id.keys().copied().collect();
        ids.into_iter().flat_map(|id| self.drain(id)).collect()
    }

    /// Runs that wait for a module that cannot run here, with the reason.
    pub(super) fn take_unfit(&mut self) -> Vec<(RunId, Unfit)> {
        let unfit = self.by_id.iter().filter(|(_, m)| !m.queue.is_empty());
        let unfit: Vec<(ModuleId, Unfit)> = unfit
            .filter_map(|(id, m)| match &m.state {
                State::Unfit(why) => Some((*id, why.clone())),
                _ => None,
            })
            .collect();
        let mut runs = Vec::new();
        for (id, why) in unfit {
            runs.extend(self.drain(id).into_iter().map(|run| (run, why.clone())));
        }
        runs
    }
}
