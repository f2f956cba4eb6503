//! Units that wait for a slot too long: another node may have one free, so they go back to their owner.
//!
//! A queue is for short units. A node that finds a long unit before them learns it only by waiting.

use super::{Runner, Timer, UnitState};
use crate::engine::RunId;
use crate::ids::{NodeId, UnitId};
use crate::money::Price;
use crate::protocol::Cx;
use crate::time::Time;
use crate::work::SHORT;
use crate::work::message::{Lease, ToOwner};
use std::collections::BTreeMap;
use std::time::Duration;

/// A unit that has waited so long for a slot is handed back. Our choice: four times as long as a
/// queue of short units lasts, and twice the longest of them.
const PATIENCE: Duration = SHORT.saturating_mul(2);

impl Runner {
    /// Sees to it that what waits is looked at in time.
    pub(super) fn watch_queue(&mut self, cx: &mut Cx<'_, Self>) {
        let waits = !self.ready.is_empty() || self.runs.len() > self.slots as usize;
        if waits && !cx.timer_is_set(Timer::Waiting) {
            cx.set_timer(Timer::Waiting, PATIENCE);
        }
    }

    /// Units that wait behind others, here and in the engine, and since when. A place that was
    /// bought is kept.
    fn waiting(&self) -> impl Iterator<Item = (UnitId, Time, Option<RunId>)> + '_ {
        let here = self.ready.gifts().filter_map(|id| match self.units.get(&id)?.state {
            UnitState::Ready { since } => Some((id, since, None)),
            _ => None,
        });
        // Engines begin their runs in order.
        let behind = self.runs.iter().skip(self.slots as usize).filter_map(|(run, id)| {
            let unit = self.units.get(id).filter(|unit| unit.price == Price(0))?;
            match unit.state {
                UnitState::Running { since, .. } => Some((*id, since, Some(*run))),
                _ => None,
            }
        });
        here.chain(behind)
    }

    /// Hands back what has waited for too long.
    pub(super) fn waited(&mut self, cx: &mut Cx<'_, Self>) {
        let long = |since: Time| cx.now.since(since) >= PATIENCE;
        let (late, rest): (Vec<_>, Vec<_>) = self.waiting().partition(|(_, since, _)| long(*since));
        if let Some(first) = rest.iter().map(|(_, since, _)| *since).min() {
            cx.set_timer(Timer::Waiting, (first + PATIENCE).since(cx.now));
        }
        if late.is_empty() {
            return;
        }
        // Their owner gets no credit for the same units again before a slot is free.
        self.pace.waited(PATIENCE);
        let mut by_lease: BTreeMap<(NodeId, Lease), Vec<UnitId>> = BTreeMap::new();
        for (id, _, run) in late {
            let Some(unit) = self.units.get(&id) else { continue };
            if run.is_some() {
                self.stop(id, cx);
            } else {
                by_lease.entry((unit.owner, unit.lease)).or_default().push(id);
                self.remove(id, cx);
            }
        }
        for ((owner, lease), units) in by_lease {
            Self::to_owner(owner, ToOwner::NotBegun { lease, units }, cx);
        }
    }
}
