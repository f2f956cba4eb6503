//! State of a runner for each owner that it works for: the lease, and results on their way.

use super::flights::Outbox;
use super::{Runner, Timer, UnitState};
use crate::finding::Offer;
use crate::ids::{JobId, NodeId, UnitId};
use crate::protocol::Cx;
use crate::time::Time;
use crate::work::message::{Lease, ToOwner};
use std::collections::BTreeMap;
use std::time::Duration;

/// Every so many heartbeats list all units. Our choice: a list is 4 bytes a unit.
const LIST_EVERY: u32 = 5;

/// How long results are kept for an owner that is away. Our choice: a gateway is mended
/// within a morning.
const KEEP_RESULTS: Duration = Duration::from_secs(4 * 3600);

#[derive(Debug, Default)]
pub(super) struct OwnerState {
    pub(super) connected: bool,
    /// The newest lease under which units came; 0 before the first.
    pub(super) lease: Lease,
    /// Grants received under it.
    pub(super) grants: u64,
    /// Units received since it was connected.
    pub(super) received: u64,
    /// Units that it may place here in all since then, as it was told last.
    pub(super) credit: u64,
    /// The most that it was ever told: what it places within that is taken.
    pub(super) promised: u64,
    /// The last offer sent to it since it was connected.
    pub(super) offered: Option<Offer>,
    /// A unit of its was against this node's terms, or failed here; it is offered nothing for a while.
    pub(super) refused: bool,
    /// A node that others find works for this owner until then, though it has no unit of it.
    pub(super) lingers: Time,
    /// Units of the owner that are here, ended ones included.
    pub(super) units: u32,
    /// Gifts among the owner's units: nobody pays for them.
    pub(super) gifts: u32,
    /// Units of the owner that are stopped and wait to be forgotten: they take no slot.
    pub(super) suspended: u32,
    /// Finished units that are not acknowledged.
    pub(super) outbox: Outbox,
    beats: u32,
}

impl OwnerState {
    /// Units that have a slot or want one.
    pub(super) fn unfinished(&self) -> u32 {
        self.units.saturating_sub(self.suspended + self.outbox.len() as u32)
    }
}

impl Runner {
    pub(super) fn owner_up(&mut self, owner: NodeId, cx: &mut Cx<'_, Self>) {
        let owner_state = self.owners.entry(owner).or_default();
        owner_state.connected = true;
        (owner_state.received, owner_state.credit, owner_state.promised) = (0, 0, 0);
        owner_state.offered = None;
        cx.cancel_timer(Timer::Forget(owner));
        if owner_state.units > 0 {
            owner_state.beats = LIST_EVERY - 1;
            self.beat(owner, cx);
        }
        self.say_again(owner, cx);
        self.report_all(owner, cx);
        self.ask_after(owner, 0, cx);
    }

    pub(super) fn owner_down(&mut self, owner: NodeId, cx: &mut Cx<'_, Self>) {
        let Some(owner_state) = self.owners.get_mut(&owner) else { return };
        owner_state.connected = false;
        cx.cancel_timer(Timer::Heartbeat(owner));
        cx.cancel_timer(Timer::Retry(owner));
        if owner_state.units == 0 {
            self.owners.remove(&owner);
        } else {
            cx.set_timer(Timer::Forget(owner), KEEP_RESULTS);
        }
    }

    /// Keeps the lease alive, as long as there is anything under it.
    pub(super) fn beat(&mut self, owner: NodeId, cx: &mut Cx<'_, Self>) {
        let Some(owner_state) = self.owners.get_mut(&owner) else { return };
        if !owner_state.connected || owner_state.units == 0 {
            return;
        }
        owner_state.beats = (owner_state.beats + 1) % LIST_EVERY;
        let (lease, grants, list) = (owner_state.lease, owner_state.grants, owner_state.beats == 0);
        let units = list.then(|| {
            let mut jobs: BTreeMap<JobId, Vec<u32>> = BTreeMap::new();
            for (id, _) in self.units.iter().filter(|(_, unit)| unit.owner == owner) {
                jobs.entry(id.job).or_default().push(id.index);
            }
            jobs.into_iter().collect()
        });
        Self::to_owner(owner, ToOwner::Heartbeat { lease, grants, units }, cx);
        self.tell_unrecorded(owner, cx);
        cx.set_timer(Timer::Heartbeat(owner), self.config.timing.heartbeat);
    }

    /// The owner has placed the lease's units elsewhere, or will. What runs goes on until the owner
    /// has said where it is wanted. What has ended is reported.
    pub(super) fn lease_over(&mut self, owner: NodeId, lease: Lease, cx: &mut Cx<'_, Self>) {
        let over: Vec<UnitId> = self
            .units
            .iter()
            .filter(|(_, unit)| unit.owner == owner && unit.lease <= lease)
            .filter(|(_, unit)| matches!(unit.state, UnitState::Fetching | UnitState::Ready { .. }))
            .map(|(id, _)| *id)
            .collect();
        over.into_iter().for_each(|id| self.remove(id, cx));
        self.ask_after(owner, lease, cx);
    }

    pub(super) fn forget(&mut self, owner: NodeId, cx: &mut Cx<'_, Self>) {
        let its: Vec<UnitId> =
            self.units.iter().filter(|(_, u)| u.owner == owner).map(|(id, _)| *id).collect();
        its.into_iter().for_each(|id| self.remove(id, cx));
        if self.owners.get(&owner).is_some_and(|owner_state| !owner_state.connected) {
            self.owners.remove(&owner);
        }
    }
}
