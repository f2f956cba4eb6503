//! Units on the move: suspended for others, resumed from what others suspended, and found again
//! after a lease was lost.

use super::{Event, Runner, Ticket, Timer, Unit, UnitState};
use crate::content::NotFetched;
use crate::engine::RunId;
use crate::ids::{JobId, NodeId, UnitId};
use crate::money::Price;
use crate::progress::{Checkpoint, Resume};
use crate::protocol::Cx;
use crate::work::message::{Cause, Lease, Returned, ToOwner, UnitGrant};
use std::collections::BTreeSet;
use std::time::Duration;

/// Units in one question. Our choice: 300 bytes each fill a third of a frame.
const RETURNED_MAX: usize = 1000;

/// Nodes that are asked for a checkpoint; an owner names fewer.
pub(super) const SOURCES_MAX: usize = 16;

/// Attempts of a unit after which it makes no more room. Our choice: three moves are enough, and nodes may have been lost,
/// too.
const ATTEMPTS: u32 = 4;

/// Time for which its slot is kept. Our choice: to suspend it, and to claim the job that it makes room for.
const ROOM: Duration = Duration::from_secs(10);

impl Runner {
    /// The owner wants the unit elsewhere.
    pub(super) fn suspend_for(&mut self, from: NodeId, id: UnitId, cx: &mut Cx<'_, Self>) {
        let Some(unit) = self.units.get(&id).filter(|unit| unit.owner == from) else { return };
        match unit.state {
            UnitState::Running { .. } => self.stop(id, cx),
            UnitState::Fetching | UnitState::Ready { .. } | UnitState::Suspended => self.suspended(id, cx),
            // Its result is on the way.
            UnitState::Ended => {}
        }
    }

    /// Says that the unit does not run here any more, and where it stands.
    pub(super) fn suspended(&mut self, id: UnitId, cx: &mut Cx<'_, Self>) {
        let Some(unit) = self.units.get(&id) else { return };
        let (owner, lease, attempt, made) = (unit.owner, unit.lease, unit.attempt, unit.made(id));
        let nothing = made.is_none();
        Self::to_owner(owner, ToOwner::Suspended { lease, attempt, unit: id, made }, cx);
        if nothing {
            self.remove(id, cx);
        }
    }

    pub(super) fn immobile(&mut self, id: UnitId, reason: String, cx: &mut Cx<'_, Self>) {
        if let Some(why) = self.hands_on() {
            return self.give_back(vec![id], why, Cause::Node, cx);
        }
        let Some(owner) = self.units.get(&id).map(|unit| unit.owner) else { return };
        Self::to_owner(owner, ToOwner::Immobile { unit: id, reason }, cx);
    }

    pub(super) fn pause(&mut self, from: NodeId, id: UnitId, paused: bool, cx: &mut Cx<'_, Self>) {
        let Some(unit) = self.units.get_mut(&id).filter(|unit| unit.owner == from) else { return };
        if unit.paused != paused {
            unit.paused = paused;
            if let UnitState::Running { run, .. } = unit.state {
                cx.emit(Event::Pause { run, paused });
            }
            Self::changed(cx);
        }
    }

    /// They are in good hands elsewhere.
    pub(super) fn forget_units(&mut self, from: NodeId, units: &[UnitId], cx: &mut Cx<'_, Self>) {
        for id in units {
            let known = self.units.get(id).filter(|unit| unit.owner == from);
            // The result of a unit that has ended is on the way; the owner acknowledges it.
            if known.is_some_and(|unit| !matches!(unit.state, UnitState::Ended)) {
                self.remove(*id, cx);
            }
            self.left_unwanted(from, *id, cx);
        }
    }

    pub(super) fn fetch_resume(&mut self, id: UnitId, mut resume: Box<Resume>, cx: &mut Cx<'_, Self>) {
        let ticket = self.ticket(Ticket::Resume(id));
        resume.sources.truncate(SOURCES_MAX);
        let (blobs, from) = (resume.checkpoint.parts(), resume.sources.clone());
        let Some(unit) = self.units.get_mut(&id) else { return };
        let old = unit.resume.replace((resume, ticket));
        cx.emit(Event::FetchSnapshot { ticket, blobs, from });
        self.release_snapshots(old, None, cx);
    }

    pub(super) fn resume_came(
        &mut self,
        id: UnitId,
        ticket: u64,
        result: Result<(), NotFetched>,
        cx: &mut Cx<'_, Self>,
    ) {
        let Some(unit) = self.units.get(&id) else { return };
        if unit.resume.as_ref().is_none_or(|(_, of)| *of != ticket) {
            return;
        }
        let owner = unit.owner;
        self.has_come(id, cx);
        match result {
            Ok(()) => {
                Self::to_owner(owner, ToOwner::Resumed { unit: id }, cx);
                self.make_ready(id, cx.now);
            }
            Err(error) => {
                let reason = format!("it could not get the checkpoint: {error}");
                self.give_up_resuming(id, &reason, error.is_no_answer(), cx);
            }
        }
    }

    /// The engine has the unit's state.
    pub(super) fn running(&mut self, run: RunId, cx: &mut Cx<'_, Self>) {
        let Some(id) = self.runs.get(&run).copied() else { return };
        if let Some(unit) = self.units.get(&id) {
            Self::to_owner(unit.owner, ToOwner::Running { unit: id }, cx);
        }
    }

    /// The unit cannot go on from what it was given, if it was given anything: says so, and whether.
    pub(super) fn unusable(&mut self, id: UnitId, reason: &str, cx: &mut Cx<'_, Self>) -> bool {
        self.give_up_resuming(id, reason, false, cx)
    }

    /// `unreached`: no source of it could be reached.
    fn give_up_resuming(&mut self, id: UnitId, reason: &str, unreached: bool, cx: &mut Cx<'_, Self>) -> bool {
        let Some(unit) = self.units.get(&id) else { return false };
        let Some((resume, _)) = &unit.resume else { return false };
        let (lease, version, reason) = (unit.lease, resume.checkpoint.version, reason.to_owned());
        // A disk may have gone bad: another try gets it from others.
        let blobs = resume.checkpoint.parts().into_iter().map(|blob| blob.id).collect();
        cx.emit(Event::Check { blobs });
        Self::to_owner(unit.owner, ToOwner::Unusable { lease, unit: id, version, reason, unreached }, cx);
        self.remove(id, cx);
        true
    }

    /// Whether the unit has come further elsewhere than here.
    pub(super) fn is_ahead(&self, id: UnitId, grant: &UnitGrant) -> bool {
        let (Some(unit), Some(resume)) = (self.units.get(&id), &grant.resume) else { return false };
        let newest = unit.progress.as_ref().and_then(|progress| progress.newest());
        let here = newest.map_or(unit.began(), |newest| newest.snapshot.fuel);
        let Checkpoint { version, snapshot } = resume.checkpoint;
        !matches!(unit.state, UnitState::Ended) && version.attempt > unit.attempt && snapshot.fuel > here
    }

    /// Drops the unit's state here: the unit goes on from what was granted.
    pub(super) fn take_anew(
        &mut self,
        owner: NodeId,
        lease: Lease,
        id: UnitId,
        grant: UnitGrant,
        cx: &mut Cx<'_, Self>,
    ) {
        // The job stays, even if this is its last unit.
        let stay = |runner: &mut Self, more: bool| {
            if let Some(job) = runner.jobs.get_mut(&id.job) {
                job.units = if more { job.units + 1 } else { job.units - 1 };
            }
        };
        stay(self, true);
        self.remove(id, cx);
        stay(self, false);
        self.take(owner, lease, id, grant, cx);
    }

    /// A unit that is here was given again, after a lease that was lost: the work goes on.
    pub(super) fn given_again(&mut self, id: UnitId, lease: Lease, grant: UnitGrant, cx: &mut Cx<'_, Self>) {
        let Some(unit) = self.units.get_mut(&id) else { return };
        (unit.lease, unit.attempt, unit.proof, unit.keeper) =
            (lease, grant.attempt, grant.proof, grant.keeper);
        if let UnitState::Running { run, .. } = unit.state {
            return self.say_again_in(run, id, cx);
        }
        if !matches!(unit.state, UnitState::Suspended) {
            return;
        }
        (unit.state, unit.choices) = (UnitState::Fetching, grant.choices);
        if let Some(owner_state) = self.owners.get_mut(&unit.owner) {
            owner_state.suspended -= 1;
        }
        let newest = unit.progress.as_mut().and_then(|progress| {
            progress.again(cx.now);
            progress.newest()
        });
        match newest {
            Some(checkpoint) => {
                let resume = Resume { checkpoint, sources: Vec::new() };
                self.fetch_resume(id, Box::new(resume), cx);
            }
            None => self.make_ready(id, cx.now),
        }
    }

    /// A lease is over, and this node was perhaps only cut off, or began anew: asks where its units
    /// are wanted.
    pub(super) fn ask_after(&mut self, owner: NodeId, lease: Lease, cx: &mut Cx<'_, Self>) {
        let its = self.units.iter().filter(|(_, unit)| unit.owner == owner && unit.lease <= lease);
        let held = its.filter(|(_, u)| matches!(u.state, UnitState::Running { .. } | UnitState::Suspended));
        let held = held.map(|(id, unit)| {
            let made = unit.made(*id);
            Returned { unit: *id, attempt: unit.attempt, proof: unit.proof, made }
        });
        let units: Vec<_> = held.chain(self.left_for(owner)).collect();
        for units in units.chunks(RETURNED_MAX) {
            Self::to_owner(owner, ToOwner::Returned { units: units.to_vec() }, cx);
        }
    }

    /// Hands on the unit that began last: most of it is left, as far as anybody knows. Bought places are their buyers', and
    /// a unit that has been at many nodes has moved enough.
    pub(super) fn make_room(&mut self, stay: &BTreeSet<JobId>, cx: &mut Cx<'_, Self>) {
        let here: u32 = self.owners.values().map(|owner_state| owner_state.unfinished()).sum();
        // Others wait here for a slot, and would have it.
        let is_crowded = here > self.slots;
        let progress =
            |unit: &Unit| unit.progress.as_ref().map(|it| (it.stop, it.immobile)).unwrap_or_default();
        let is_stopping = |unit: &Unit| matches!(unit.state, UnitState::Running { .. }) && progress(unit).0;
        let frees_one = self.engaged.has_room(cx.now) || self.units.values().any(is_stopping);
        if self.hands_on().is_some() || is_crowded || frees_one {
            return;
        }
        let may_go = |id: &UnitId, unit: &Unit| {
            let is_gift = unit.price == Price(0) && !unit.paused && unit.attempt <= ATTEMPTS;
            is_gift && !progress(unit).1 && !stay.contains(&id.job)
        };
        let begun = self.units.iter().filter_map(|(id, unit)| match unit.state {
            UnitState::Running { since, .. } if may_go(id, unit) => Some((since, *id)),
            _ => None,
        });
        if let Some((_, unit)) = begun.max() {
            // Nobody gets the slot but who claims it for a job, not even the unit's own owner.
            self.engaged.room = Some(cx.now + ROOM);
            cx.set_timer_by(Timer::Disengage(cx.me), ROOM + Duration::from_millis(1));
            self.stop(unit, cx);
        }
    }

    /// Suspends everything and takes no more. Results stay until they are acknowledged.
    pub(super) fn drain(&mut self, cx: &mut Cx<'_, Self>) {
        self.draining = true;
        self.hand_on(cx);
    }

    /// Whether what is here goes elsewhere, and why.
    fn hands_on(&self) -> Option<&'static str> {
        match (self.draining, self.terms.withheld) {
            (true, _) => Some("it is going away"),
            (false, true) => Some("its donor gives nothing now"),
            (false, false) => None,
        }
    }

    pub(super) fn hand_on(&mut self, cx: &mut Cx<'_, Self>) {
        let Some(why) = self.hands_on() else { return };
        let running = |id: &UnitId| {
            self.units.get(id).is_some_and(|unit| matches!(unit.state, UnitState::Running { .. }))
        };
        let (running, rest): (Vec<UnitId>, Vec<UnitId>) = self.units.keys().copied().partition(running);
        self.give_back(rest, why, Cause::Node, cx);
        if !self.units.is_empty() {
            cx.set_timer(Timer::Drained, self.config.timing.drain);
        }
        running.into_iter().for_each(|id| self.stop(id, cx));
    }

    /// The time for handing on is over.
    pub(super) fn drained(&mut self, cx: &mut Cx<'_, Self>) {
        let Some(why) = self.hands_on() else { return };
        let all: Vec<UnitId> = self.units.keys().copied().collect();
        self.give_back(all.clone(), why, Cause::Node, cx);
        if !self.draining {
            // A node that stays keeps what is suspended for whoever takes it, perhaps itself.
            return;
        }
        let stuck =
            |id: &UnitId| self.units.get(id).is_some_and(|unit| matches!(unit.state, UnitState::Suspended));
        let stuck: Vec<UnitId> = all.into_iter().filter(stuck).collect();
        stuck.into_iter().for_each(|id| self.remove_and_leave(id, cx));
    }
}
