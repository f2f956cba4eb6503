//! Checkpoints of what runs here: taken when they are due, one under way a unit, and offered to
//! the keepers, who pull them.

use super::{Event, Runner, Ticket, Timer, Unit, UnitState};
use crate::address::Address;
use crate::content::{BlobRef, NotFetched};
use crate::engine::{NoSnapshot, RunId, SnapshotRef, Taken};
use crate::ids::{BlobId, JobId, NodeId, UnitId};
use crate::progress::{Checkpoint, KEEPERS, Made, Version};
use crate::protocol::Cx;
use crate::time::Time;
use crate::work::message::{Keep, ToKeeper, ToOwner};
use crate::work::runner::interval::Interval;
use sandbox::swarm::Marks;
use std::collections::BTreeMap;
use std::time::Duration;

/// Times that a keeper is asked, without any answer, before another is looked for.
const TRIES: u8 = 3;

/// Checkpoints of a unit that were taken here.
#[derive(Debug)]
pub(super) struct Progress {
    /// Number of the last snapshot.
    number: u32,
    /// The engine was asked for one.
    asked: bool,
    /// One is on its way to the disk.
    storing: bool,
    /// It is to stop as soon as the engine has answered.
    pub(super) stop: bool,
    /// It was to stop, and cannot.
    pub(super) immobile: bool,
    /// When it began, or when the last was taken.
    last: Time,
    interval: Interval,
    /// The last whole one, and its ticket.
    base: Option<(BlobRef, u64)>,
    newest: Option<Newest>,
}

#[derive(Debug)]
struct Newest {
    checkpoint: Checkpoint,
    marks: Option<Box<Marks>>,
    ticket: u64,
    at: Time,
    kept: Vec<NodeId>,
    /// Keepers that have not said that they have it, and how often they were asked.
    waiting: Vec<(NodeId, u8)>,
    /// The owner has written it down.
    recorded: bool,
}

/// A snapshot on its way to the disk.
#[derive(Debug)]
pub(super) struct Fresh {
    checkpoint: Checkpoint,
    marks: Option<Box<Marks>>,
    at: Time,
    stopped: bool,
}

impl Progress {
    fn new(every: Duration, since: Time) -> Progress {
        Progress {
            number: 0,
            asked: false,
            storing: false,
            stop: false,
            immobile: false,
            last: since,
            interval: Interval::new(every),
            base: None,
            newest: None,
        }
    }

    /// Whether one is under way.
    fn is_busy(&self) -> bool {
        self.asked || self.storing || self.newest.as_ref().is_some_and(|newest| !newest.waiting.is_empty())
    }

    pub(super) fn newest(&self) -> Option<Checkpoint> {
        self.newest.as_ref().map(|newest| newest.checkpoint)
    }

    /// It goes on here after it had stopped.
    pub(super) fn again(&mut self, now: Time) {
        (self.asked, self.storing, self.stop, self.last) = (false, false, false, now);
    }

    fn tickets(&self) -> impl Iterator<Item = u64> {
        [self.base.map(|(_, ticket)| ticket), self.newest.as_ref().map(|newest| newest.ticket)]
            .into_iter()
            .flatten()
    }
}

impl Unit {
    fn progress(&mut self, every: Duration, since: Time) -> &mut Progress {
        self.progress.get_or_insert_with(|| Box::new(Progress::new(every, since)))
    }

    pub(super) fn made(&self, unit: UnitId) -> Option<Made> {
        let newest = self.progress.as_ref()?.newest.as_ref()?;
        let kept = newest.kept.clone();
        let marks = newest.marks.clone();
        Some(Made { unit, checkpoint: newest.checkpoint, began: self.began(), kept, marks })
    }

    /// The whole snapshot of that name that the engine may refer to.
    fn base(&self, id: BlobId) -> Option<BlobRef> {
        let last = self.progress.as_ref().and_then(|progress| progress.base).map(|(blob, _)| blob);
        let first = self.resume.as_ref().map(|(resume, _)| {
            let snapshot = resume.checkpoint.snapshot;
            snapshot.base.unwrap_or(snapshot.blob)
        });
        last.into_iter().chain(first).find(|blob| blob.id == id)
    }
}

impl Runner {
    /// A unit has just begun.
    pub(super) fn due_after(every: Duration, cx: &mut Cx<'_, Self>) {
        let due = Interval::new(every).next(cx.now);
        cx.set_timer_by(Timer::Snapshots, due.since(cx.now));
    }

    pub(super) fn look_for_due(&mut self, cx: &mut Cx<'_, Self>) {
        let mut first: Option<Time> = None;
        for (run, id) in &self.runs {
            let Some(unit) = self.units.get_mut(id) else { continue };
            let every = self.jobs.get(&id.job).and_then(|job| job.template.checkpoint.duration());
            let (UnitState::Running { since, .. }, Some(every)) = (&unit.state, every) else { continue };
            let due = match &unit.progress {
                Some(progress) if progress.is_busy() => continue,
                Some(progress) => progress.interval.next(progress.last),
                None => Interval::new(every).next(*since),
            };
            if due <= cx.now && !unit.paused {
                let since = *since;
                unit.progress(every, since).asked = true;
                cx.emit(Event::Snapshot { run: *run, stop: false });
            } else {
                // A paused unit makes no progress that could be lost.
                let due = if unit.paused { cx.now + every } else { due };
                first = Some(first.map_or(due, |first| first.min(due)));
            }
        }
        if let Some(first) = first {
            cx.set_timer_by(Timer::Snapshots, first.since(cx.now));
        }
    }

    /// The owner wants a checkpoint before its time.
    pub(super) fn checkpoint_now(&mut self, from: NodeId, id: UnitId, cx: &mut Cx<'_, Self>) {
        let every = self.jobs.get(&id.job).and_then(|job| job.template.checkpoint.duration());
        let unit = self.units.get_mut(&id).filter(|unit| unit.owner == from && !unit.paused);
        let (Some(unit), Some(every)) = (unit, every) else { return };
        let UnitState::Running { run, since } = unit.state else { return };
        let progress = unit.progress(every, since);
        if !progress.is_busy() {
            progress.asked = true;
            cx.emit(Event::Snapshot { run, stop: false });
        }
    }

    /// The engine is to stop the run and say where it stands.
    pub(super) fn stop(&mut self, id: UnitId, cx: &mut Cx<'_, Self>) {
        let Some(unit) = self.units.get_mut(&id) else { return };
        let UnitState::Running { run, since } = unit.state else { return };
        let every = self.jobs.get(&id.job).and_then(|job| job.template.checkpoint.duration());
        let progress = unit.progress(every.unwrap_or_default(), since);
        progress.stop = true;
        if !progress.asked {
            progress.asked = true;
            cx.emit(Event::Snapshot { run, stop: true });
        }
    }

    pub(super) fn snapshot(
        &mut self,
        run: RunId,
        taken: Result<Taken, NoSnapshot>,
        stopped: bool,
        cx: &mut Cx<'_, Self>,
    ) {
        let Some(id) = self.runs.get(&run).copied() else { return };
        let Some(unit) = self.units.get_mut(&id) else { return };
        if stopped {
            self.runs.remove(&run);
            unit.state = UnitState::Suspended;
            if let Some(owner_state) = self.owners.get_mut(&unit.owner) {
                owner_state.suspended += 1;
            }
            Self::changed(cx);
        }
        let Some(progress) = unit.progress.as_mut() else { return };
        progress.asked = false;
        progress.last = cx.now;
        match taken {
            Ok(taken) => self.taken(id, taken, stopped, cx),
            Err(NoSnapshot::NotBegun) => {
                if stopped {
                    self.suspended(id, cx);
                }
            }
            Err(NoSnapshot::Immobile(reason)) => {
                // It may do it later, but it is not asked all the time.
                progress.interval.refused();
                progress.immobile = true;
                if stopped {
                    self.suspended(id, cx);
                } else if std::mem::take(&mut progress.stop) {
                    return self.immobile(id, reason, cx);
                }
            }
        }
        if !stopped {
            if self.units.get(&id).and_then(|unit| unit.progress.as_ref()).is_some_and(|p| p.stop) {
                self.stop(id, cx);
            }
            cx.set_timer_by(Timer::Snapshots, Duration::ZERO);
        }
    }

    fn taken(&mut self, id: UnitId, taken: Taken, stopped: bool, cx: &mut Cx<'_, Self>) {
        let Some(unit) = self.units.get_mut(&id) else { return };
        let base = taken.base.map(|base| unit.base(base));
        if base == Some(None) {
            cx.trouble(format!("a snapshot of {id} is relative to one that is not known"));
            return if stopped {
                self.suspended(id, cx)
            };
        }
        let attempt = unit.attempt;
        let Some(progress) = unit.progress.as_mut() else { return };
        progress.number += 1;
        progress.storing = true;
        progress.interval.taken(Duration::from_micros(taken.pause_us), taken.blob.len);
        let snapshot =
            SnapshotRef { blob: taken.blob, base: base.flatten(), root: taken.root, fuel: taken.fuel };
        let version = Version { attempt, number: progress.number };
        let (checkpoint, marks) = (Checkpoint { version, snapshot }, taken.marks.map(Box::new));
        let fresh = Fresh { checkpoint, marks, at: cx.now, stopped };
        let ticket = self.ticket(Ticket::Snapshot(id, Box::new(fresh)));
        cx.emit(Event::KeepSnapshot { ticket, blob: taken.blob, bytes: taken.bytes });
    }

    /// The snapshot is on this node's disk, or not.
    pub(super) fn snapshot_kept(
        &mut self,
        id: UnitId,
        fresh: Fresh,
        ticket: u64,
        stored: Result<(), NotFetched>,
        cx: &mut Cx<'_, Self>,
    ) {
        let Some(progress) = self.units.get_mut(&id).and_then(|unit| unit.progress.as_mut()) else {
            return cx.emit(Event::ReleaseSnapshot { ticket });
        };
        progress.storing = false;
        if let Err(error) = stored {
            cx.trouble(format!("a snapshot of {id} could not be stored: {error}"));
        } else {
            let before: Vec<u64> = progress.tickets().collect();
            let Fresh { checkpoint, marks, at, .. } = fresh;
            if checkpoint.snapshot.base.is_none() {
                progress.base = Some((checkpoint.snapshot.blob, ticket));
            }
            let (kept, waiting) = (Vec::new(), Vec::new());
            progress.newest = Some(Newest { checkpoint, marks, ticket, at, kept, waiting, recorded: false });
            let after: Vec<u64> = progress.tickets().collect();
            let mut spare: Vec<u64> = before.into_iter().filter(|old| !after.contains(old)).collect();
            spare.dedup();
            spare.into_iter().for_each(|ticket| cx.emit(Event::ReleaseSnapshot { ticket }));
            self.leave(id, cx);
            self.offer_to_keepers(id, cx);
            self.tell_unkept(id, cx);
            self.ask_for_keepers(id, cx);
        }
        if fresh.stopped {
            self.suspended(id, cx);
        }
        cx.set_timer_by(Timer::Snapshots, Duration::ZERO);
    }

    /// Others need what a checkpoint of a thread covers, also where nobody keeps it.
    fn tell_unkept(&self, id: UnitId, cx: &mut Cx<'_, Self>) {
        let Some(unit) = self.units.get(&id) else { return };
        let newest = unit.progress.as_ref().and_then(|progress| progress.newest.as_ref());
        let alone = newest.is_some_and(|newest| newest.waiting.is_empty() && newest.marks.is_some());
        if let Some(made) = unit.made(id).filter(|_| alone) {
            Self::to_owner(unit.owner, ToOwner::Checkpoints { made: vec![made] }, cx);
        }
    }

    /// Tells those keepers of the newest checkpoint that do not know of it.
    fn offer_to_keepers(&mut self, id: UnitId, cx: &mut Cx<'_, Self>) {
        let (Some(unit), Some(job)) = (self.units.get_mut(&id), self.jobs.get(&id.job)) else { return };
        let (owner, origin) = (unit.owner, unit.origin());
        let keepers = keepers_of(unit.keeper, &job.keepers);
        let Some(newest) = unit.progress.as_mut().and_then(|progress| progress.newest.as_mut()) else {
            return;
        };
        for keeper in &keepers {
            let known = newest.waiting.iter().any(|(waiting, _)| *waiting == keeper.id);
            if !known && !newest.kept.contains(&keeper.id) && keeper.id != cx.me {
                newest.waiting.push((keeper.id, 0));
                Self::ask_keeper(id, (owner, origin), newest, keeper, cx);
            }
        }
    }

    /// Each checkpoint is a chance to have enough keepers again.
    fn ask_for_keepers(&self, id: UnitId, cx: &mut Cx<'_, Self>) {
        let (Some(unit), Some(job)) = (self.units.get(&id), self.jobs.get(&id.job)) else { return };
        if job.keepers.len() < KEEPERS {
            Self::to_owner(unit.owner, ToOwner::NeedKeepers { job: id.job, lost: Vec::new() }, cx);
        }
    }

    fn ask_keeper(
        unit: UnitId,
        (owner, origin): (NodeId, NodeId),
        newest: &Newest,
        keeper: &Address,
        cx: &mut Cx<'_, Self>,
    ) {
        cx.reach(*keeper);
        let Checkpoint { version, .. } = newest.checkpoint;
        let keep = Keep { unit, owner, origin, version, parts: newest.checkpoint.parts(), relayed: false };
        Self::to_keeper(keeper.id, ToKeeper::Keep(keep), cx);
        cx.set_timer_by(Timer::Keepers, RETRY);
    }

    fn newest_mut(&mut self, id: UnitId, version: Version) -> Option<&mut Newest> {
        let progress = self.units.get_mut(&id)?.progress.as_mut()?;
        progress.newest.as_mut().filter(|newest| newest.checkpoint.version == version)
    }

    pub(super) fn kept(&mut self, from: NodeId, id: UnitId, version: Version, cx: &mut Cx<'_, Self>) {
        let Some(newest) = self.newest_mut(id, version) else { return };
        let before = newest.waiting.len();
        newest.waiting.retain(|(keeper, _)| *keeper != from);
        if newest.waiting.len() == before {
            return;
        }
        newest.kept.push(from);
        newest.recorded = false;
        let (settled, took) = (newest.waiting.is_empty(), cx.now.since(newest.at));
        let Some(unit) = self.units.get_mut(&id) else { return };
        if settled && let Some(progress) = unit.progress.as_mut() {
            progress.interval.kept(took);
            cx.set_timer_by(Timer::Snapshots, Duration::ZERO);
        }
        if let Some(made) = unit.made(id) {
            Self::to_owner(unit.owner, ToOwner::Checkpoints { made: vec![made] }, cx);
        }
    }

    pub(super) fn keeping(&mut self, from: NodeId, id: UnitId, version: Version) {
        if let Some(newest) = self.newest_mut(id, version)
            && let Some((_, tries)) = newest.waiting.iter_mut().find(|(keeper, _)| *keeper == from)
        {
            *tries = 0;
        }
    }

    pub(super) fn keep_refused(
        &mut self,
        from: NodeId,
        id: UnitId,
        version: Version,
        reason: &str,
        cx: &mut Cx<'_, Self>,
    ) {
        let asked = self
            .newest_mut(id, version)
            .is_some_and(|newest| newest.waiting.iter().any(|(keeper, _)| *keeper == from));
        if asked {
            self.keeper_lost(from, id.job, reason, cx);
        }
    }

    /// A keeper of the job's units is of no use: the owner is to name another.
    fn keeper_lost(&mut self, keeper: NodeId, id: JobId, reason: &str, cx: &mut Cx<'_, Self>) {
        let units: Vec<UnitId> = self.units_of(id).collect();
        let (mut owner, mut without) = (None, Vec::new());
        for id in units {
            let Some(unit) = self.units.get_mut(&id) else { continue };
            owner = Some(unit.owner);
            if unit.keeper.take_if(|own| own.id == keeper).is_some() {
                without.push(id);
            }
            if let Some(newest) = unit.progress.as_mut().and_then(|progress| progress.newest.as_mut()) {
                newest.waiting.retain(|(waiting, _)| *waiting != keeper);
            }
        }
        if let Some(job) = self.jobs.get_mut(&id) {
            job.keepers.retain(|source| source.id != keeper);
        }
        // The others' turn.
        without.into_iter().for_each(|unit| self.offer_to_keepers(unit, cx));
        if let Some(owner) = owner {
            let mut reason = reason.to_owned();
            reason.truncate(
                (0..=200.min(reason.len())).rev().find(|i| reason.is_char_boundary(*i)).unwrap_or(0),
            );
            Self::to_owner(owner, ToOwner::NeedKeepers { job: id, lost: vec![(keeper, reason)] }, cx);
        }
        cx.set_timer_by(Timer::Snapshots, Duration::ZERO);
    }

    /// Its connection broke. Once is no reason to give it up: it may be a spare one that was
    /// closed.
    pub(super) fn keeper_down(&mut self, peer: NodeId, cx: &mut Cx<'_, Self>) {
        self.ask_again(Some(peer), TRIES - 1, cx);
    }

    pub(super) fn ask_keepers_again(&mut self, cx: &mut Cx<'_, Self>) {
        self.ask_again(None, 1, cx);
    }

    /// Asks keepers, or this one, again, unless that was done often enough.
    fn ask_again(&mut self, only: Option<NodeId>, tries: u8, cx: &mut Cx<'_, Self>) {
        let mut lost: BTreeMap<(JobId, NodeId), ()> = BTreeMap::new();
        for (id, unit) in &mut self.units {
            let (whose, own) = ((unit.owner, unit.origin()), unit.keeper);
            let Some(newest) = unit.progress.as_mut().and_then(|progress| progress.newest.as_mut()) else {
                continue;
            };
            let mut again = Vec::new();
            for (keeper, tried) in &mut newest.waiting {
                if only.is_none_or(|only| only == *keeper) {
                    *tried += tries;
                    match *tried < TRIES {
                        true => again.push(*keeper),
                        false => drop(lost.insert((id.job, *keeper), ())),
                    }
                }
            }
            let Some(job) = self.jobs.get(&id.job) else { continue };
            let keepers = keepers_of(own, &job.keepers);
            for keeper in keepers.iter().filter(|keeper| again.contains(&keeper.id)) {
                Self::ask_keeper(*id, whose, newest, keeper, cx);
            }
        }
        for (job, keeper) in lost.into_keys() {
            self.keeper_lost(keeper, job, "it does not answer", cx);
        }
    }

    /// The owner has named keepers anew.
    pub(super) fn keepers(&mut self, from: NodeId, id: JobId, keepers: Vec<Address>, cx: &mut Cx<'_, Self>) {
        let units: Vec<UnitId> =
            self.units_of(id).filter(|unit| self.units.get(unit).is_some_and(|u| u.owner == from)).collect();
        let Some(job) = self.jobs.get_mut(&id).filter(|job| !units.is_empty() && job.keepers != keepers)
        else {
            return;
        };
        job.keepers = keepers;
        job.keepers.truncate(KEEPERS);
        units.into_iter().for_each(|unit| self.offer_to_keepers(unit, cx));
    }

    pub(super) fn recorded(&mut self, from: NodeId, units: &[(UnitId, Version)]) {
        for (id, version) in units {
            let its = self.units.get(id).is_some_and(|unit| unit.owner == from);
            if let Some(newest) = self.newest_mut(*id, *version).filter(|_| its) {
                newest.recorded = true;
            }
        }
    }

    /// Repeats what the owner has not said to have written down.
    pub(super) fn tell_unrecorded(&mut self, owner: NodeId, cx: &mut Cx<'_, Self>) {
        let mut made = Vec::new();
        for id in self.runs.values() {
            let Some(unit) = self.units.get(id).filter(|unit| unit.owner == owner) else { continue };
            let newest = unit.progress.as_ref().and_then(|progress| progress.newest.as_ref());
            if newest.is_some_and(|newest| !newest.recorded && !newest.kept.is_empty()) {
                made.extend(unit.made(*id));
            }
        }
        if !made.is_empty() {
            Self::to_owner(owner, ToOwner::Checkpoints { made }, cx);
        }
        let waits = |unit: &Unit| unit.owner == owner && matches!(unit.state, UnitState::Suspended);
        for (id, unit) in self.units.iter().filter(|(_, unit)| waits(unit)) {
            if let Some(made) = unit.made(*id) {
                let (lease, attempt, unit) = (unit.lease, unit.attempt, *id);
                Self::to_owner(owner, ToOwner::Suspended { lease, attempt, unit, made: Some(made) }, cx);
            }
        }
    }

    /// The unit goes, and with it what lies here for it.
    pub(super) fn release_snapshots(
        &mut self,
        resume: Option<(Box<crate::progress::Resume>, u64)>,
        progress: Option<Box<Progress>>,
        cx: &mut Cx<'_, Self>,
    ) {
        let taken = progress.iter().flat_map(|progress| progress.tickets());
        let mut tickets: Vec<u64> = resume.map(|(_, ticket)| ticket).into_iter().chain(taken).collect();
        tickets.dedup();
        for ticket in tickets {
            self.tickets.remove(&ticket);
            cx.emit(Event::ReleaseSnapshot { ticket });
        }
    }
}

/// A unit's own, and of the job's as many as there should be beside it.
fn keepers_of(own: Option<Address>, all: &[Address]) -> Vec<Address> {
    let others = all.iter().copied().filter(|other| own.is_none_or(|own| own.id != other.id));
    own.into_iter().chain(others).take(KEEPERS).collect()
}

/// Between two words to a keeper that does not answer. Our choice: as between requests for chunks.
const RETRY: Duration = Duration::from_secs(3);
