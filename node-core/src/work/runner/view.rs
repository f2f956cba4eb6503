//! The donor's view of the runner.

use super::{Runner, UnitState};
use crate::time::Time;
use crate::work::view::WorkView;

/// Current units shown at most; more than any machine has slots on one screen.
const CURRENT_MAX: usize = 64;

impl Runner {
    /// Slots that are given now.
    pub fn slots(&self) -> u32 {
        if self.terms.withheld { 0 } else { self.slots }
    }

    /// Whether nothing is held any more, not even a result: the node can end.
    pub fn is_empty(&self) -> bool {
        self.units.is_empty()
    }

    pub fn work(&self, now: Time) -> WorkView {
        let current = self
            .runs
            .values()
            .take(CURRENT_MAX.min(self.slots.max(1) as usize))
            .filter_map(|id| {
                let UnitState::Running { since, .. } = self.units.get(id)?.state else { return None };
                let name = self.jobs.get(&id.job).map(|job| job.name.clone()).unwrap_or_default();
                Some((id.job, name, id.index, now.since(since).as_micros() as u64))
            })
            .collect();
        let waiting =
            self.units.values().filter(|u| matches!(u.state, UnitState::Fetching | UnitState::Ready { .. }));
        WorkView {
            slots: self.slots(),
            busy: self.busy(),
            queued: waiting.count() as u32,
            units_done: self.totals.done,
            units_failed: self.totals.failed,
            cpu_us: self.totals.cpu_us,
            current,
            gateways: self.owners.iter().filter(|(_, l)| l.connected).map(|(id, _)| *id).collect(),
            idle_reason: None,
        }
    }
}
