//! Leases: one a runner. Silence ends it, and its units, which the book knows, are placed elsewhere.

use super::{Event, Owner, Timer};
use crate::ids::{JobId, NodeId, UnitId};
use crate::protocol::Cx;
use crate::work::book::Back;
use crate::work::message::{Lease, ToRunner};
use crate::work::spec::OnLoss;
use std::collections::BTreeSet;

/// Characters of a runner's reason that are kept.
pub(super) const REASON_MAX: usize = 300;

/// The lease of one runner.
#[derive(Debug)]
pub(super) struct Held {
    lease: Lease,
    /// Grants sent under the lease.
    grants: u64,
    /// Reports from it on their way to the disk, by sequence number.
    pub(super) reports: BTreeSet<u64>,
    /// It has listed its units before it saw the last grant: the number it had seen.
    behind: Option<u64>,
}

impl Held {
    pub(super) fn lease(&self) -> Lease {
        self.lease
    }

    /// The number of the next grant under the lease.
    pub(super) fn granted(&mut self) -> Lease {
        // A runner says how many it has seen.
        self.grants = self.grants.saturating_add(1);
        self.lease
    }
}

impl Owner {
    /// The lease of `runner`, begun now if it has none.
    pub(super) fn lease_of(&mut self, runner: NodeId, cx: &mut Cx<'_, Self>) -> &mut Held {
        // Numbers grow across restarts of the owner as long as its wall clock does.
        let next = self.next_lease.max(self.wall_now(cx.now));
        // A runner without units sends no heartbeat: its time begins with its first unit.
        if self.book.granted_count(runner) == 0 {
            cx.set_timer(Timer::Lease(runner), self.config.timing.lease);
        }
        self.leases.entry(runner).or_insert_with(|| {
            self.next_lease = next + 1;
            Held { lease: next, grants: 0, reports: BTreeSet::new(), behind: None }
        })
    }

    pub(super) fn runner_up(&mut self, runner: NodeId) {
        // The wire was cut: what was on it will not come any more.
        if let Some(held) = self.leases.get_mut(&runner) {
            held.behind = Some(u64::MAX);
        }
    }

    pub(super) fn runner_down(&mut self, runner: NodeId, cx: &mut Cx<'_, Self>) {
        if let Some(held) = self.leases.get_mut(&runner) {
            held.reports.clear();
            cx.set_timer(Timer::Lease(runner), self.config.timing.grace);
        }
    }

    /// Content comes from the node. On a slow line its heartbeats wait behind that.
    pub(super) fn heard(&mut self, node: NodeId, cx: &mut Cx<'_, Self>) {
        // After the wire was cut, only a list of its units tells that it still has them.
        if self.leases.get(&node).is_some_and(|held| held.behind != Some(u64::MAX)) {
            cx.set_timer(Timer::Lease(node), self.config.timing.lease);
        }
    }

    pub(super) fn heartbeat(
        &mut self,
        from: NodeId,
        lease: Lease,
        grants: u64,
        units: Option<Vec<(JobId, Vec<u32>)>>,
        cx: &mut Cx<'_, Self>,
    ) {
        let patience = self.config.timing.lease;
        let Some(held) = self.leases.get_mut(&from).filter(|held| held.lease == lease) else {
            return Self::to_runner(from, ToRunner::LeaseOver { lease }, cx);
        };
        cx.set_timer(Timer::Lease(from), patience);
        let Some(list) = units else { return };
        // A grant may be on its way; only if it stays away from one list to the next, or the
        // wire was cut in between, has it been lost.
        if grants != held.grants && held.behind != Some(u64::MAX) && held.behind != Some(grants) {
            held.behind = Some(grants);
            return;
        }
        held.behind = None;
        held.grants = grants;
        let listed: BTreeSet<UnitId> = list
            .into_iter()
            .flat_map(|(job, indices)| indices.into_iter().map(move |index| UnitId { job, index }))
            .collect();
        let missing: Vec<UnitId> = self.book.granted(from).filter(|unit| !listed.contains(unit)).collect();
        self.units_back(from, &missing, Back::Unharmed, cx);
    }

    pub(super) fn declined(
        &mut self,
        from: NodeId,
        lease: Lease,
        units: Vec<UnitId>,
        (reason, tried): (&str, bool),
        cx: &mut Cx<'_, Self>,
    ) {
        let Some(units) = self.held_of(from, lease, units) else { return };
        cx.emit(Event::Declined { node: from });
        let mut why: String = reason.chars().take(REASON_MAX).collect();
        why = format!("{} declined: {why}", from.short());
        for unit in &units {
            if let Some(job) = self.jobs.get_mut(&unit.job) {
                job.shortage = Some(why.clone());
            }
        }
        let failed: BTreeSet<JobId> = units.iter().filter(|_| tried).map(|unit| unit.job).collect();
        for id in failed {
            if let Some(job) = self.jobs.get_mut(&id) {
                job.avoided.failed(from, &why, cx.now);
            }
        }
        for unit in &units {
            self.fail_move(*unit, &format!("{why}; it goes on where there is room"), cx);
        }
        // A unit that breaks every engine it meets is held in the end.
        let back = if tried { Back::Failed(&why) } else { Back::Unharmed };
        self.units_back(from, &units, back, cx);
    }

    /// Those of the units that the runner holds under this lease. `None` if it is another lease by now.
    fn held_of(&self, from: NodeId, lease: Lease, units: Vec<UnitId>) -> Option<Vec<UnitId>> {
        self.leases.get(&from).filter(|held| held.lease == lease)?;
        Some(units.into_iter().filter(|unit| self.book.is_granted(*unit, from)).collect())
    }

    /// Units that found no free slot at their runner. Nobody is to blame.
    pub(super) fn not_begun(
        &mut self,
        from: NodeId,
        lease: Lease,
        units: Vec<UnitId>,
        cx: &mut Cx<'_, Self>,
    ) {
        let Some(units) = self.held_of(from, lease, units) else { return };
        for unit in &units {
            self.fail_move(*unit, "it had not begun; it begins where a slot is free", cx);
        }
        self.units_back(from, &units, Back::Unharmed, cx);
    }

    pub(super) fn lease_lost(&mut self, runner: NodeId, why: &str, cx: &mut Cx<'_, Self>) {
        let Some(held) = self.leases.remove(&runner) else { return };
        cx.cancel_timer(Timer::Lease(runner));
        let units: Vec<UnitId> = self.book.granted(runner).collect();
        if units.is_empty() {
            return;
        }
        Self::to_runner(runner, ToRunner::LeaseOver { lease: held.lease }, cx);
        let why = format!("{} {why}", runner.short());
        for unit in &units {
            self.count_lost(*unit, cx);
            self.fail_move(*unit, &format!("{why}; it goes on from its newest checkpoint"), cx);
        }
        let jobs: BTreeSet<JobId> = units.iter().map(|unit| unit.job).collect();
        for unit in units {
            self.book.put_back(unit, runner, Back::Lost(&why), super::MAX_LOSSES);
            let on_loss = self.jobs.get(&unit.job).map(|job| job.spec.template.on_loss);
            if let Some(OnLoss::Wait(us)) = on_loss {
                self.wait_for(unit, std::time::Duration::from_micros(us), cx);
            }
        }
        for id in jobs {
            if let Some(job) = self.jobs.get_mut(&id) {
                job.shortage = Some(format!("{why}; its units are placed again"));
            }
            self.touch(id, cx);
        }
        self.look(cx);
    }

    /// Takes units from a living runner's lease and lets them wait again.
    pub(super) fn units_back(
        &mut self,
        runner: NodeId,
        units: &[UnitId],
        back: Back<'_>,
        cx: &mut Cx<'_, Self>,
    ) {
        let mut jobs = BTreeSet::new();
        for unit in units {
            if self.book.is_granted(*unit, runner) {
                self.book.put_back(*unit, runner, back, super::MAX_LOSSES);
                jobs.insert(unit.job);
            }
        }
        let any = !jobs.is_empty();
        jobs.into_iter().for_each(|id| self.touch(id, cx));
        if any {
            // Not at once: who just declined would be the first to be found again.
            cx.set_timer_by(Timer::Look, std::time::Duration::from_millis(100));
        }
    }
}
