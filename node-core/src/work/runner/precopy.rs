//! Units that will come: what they need is brought here, and to the engine's hand, while they still
//! run elsewhere.

use super::declined::Declined;
use super::moving::SOURCES_MAX;
use super::queue::task_of;
use super::weight::Weight;
use super::{Event, Runner, Ticket, Timer};
use crate::address::Address;
use crate::content::{BlobRef, NotFetched};
use crate::engine::{EngineTask, RunId, SnapshotRef};
use crate::ids::{NodeId, UnitId};
use crate::protocol::Cx;
use crate::time::Time;
use crate::work::message::{Batch, ToOwner};
use sandbox::End;
use std::time::Duration;

/// Units that are got ready for at a time. Our choice: what an owner moves to one node by hand; each
/// may weigh as much as a task's memory.
pub(super) const COMING_MAX: usize = 16;

/// How long a unit is waited for. Our choice: twice what its owner waits for each of the two halves
/// of a move.
const COMING_FOR: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Coming {
    owner: NodeId,
    /// Ticket of the job's content.
    content: u64,
    /// Ticket of the snapshot.
    snapshot: u64,
    pub(super) weight: Weight,
    /// For the engine, until it was asked.
    task: Option<Box<EngineTask>>,
    /// The engine was asked under this number and has not answered.
    run: Option<RunId>,
    until: Time,
}

impl Runner {
    pub(super) fn prepare(
        &mut self,
        owner: NodeId,
        batch: Batch,
        whole: BlobRef,
        mut sources: Vec<Address>,
        cx: &mut Cx<'_, Self>,
    ) {
        // Each of them is dialled.
        sources.truncate(SOURCES_MAX);
        let priced = self.price_of(owner, &batch, cx);
        let weighed = self.weigh(&batch, Some(&whole));
        let heavy = self.another_job(&batch).or_else(|| weighed.as_ref().err().copied());
        let Batch { job, template, sweep_first, units, .. } = batch;
        let [grant] = &units[..] else { return };
        let unit = UnitId { job, index: grant.index };
        let why_not = match () {
            () if !self.owners.contains_key(&owner) => return,
            () if self.slots == 0 || self.is_closed() => Some(Declined::NoSlots),
            () if self.coming.get(&unit).is_some_and(|coming| coming.owner != owner) => {
                Some(Declined::OtherOwner)
            }
            () if heavy.is_some() => heavy,
            () if self.coming.len() >= COMING_MAX && !self.coming.contains_key(&unit) => Some(Declined::Busy),
            () => priced.map_or_else(Some, |price| self.terms.rejects(owner, cx.me, &template, price)),
        };
        if let Some(why) = why_not {
            let error = Some(why.to_string());
            return Self::to_owner(owner, ToOwner::Prepared { unit, error, unreached: false }, cx);
        }
        self.has_come(unit, cx);
        let mut blobs = template.blobs();
        blobs.extend(grant.spec.iter().flat_map(|spec| spec.blobs()));
        let (content, snapshot) = (self.ticket(Ticket::Coming(unit)), self.ticket(Ticket::Coming(unit)));
        // Its root is not known here: reading it proves that it is one state and no other.
        let from = SnapshotRef { blob: whole, base: None, root: [0; 32], fuel: 0 };
        let task = task_of(&template, grant.spec.as_ref(), sweep_first, grant.index, grant.key, Some(from));
        let (task, until, weight) = (Some(Box::new(task)), cx.now + COMING_FOR, weighed.unwrap_or_default());
        self.coming.insert(unit, Coming { owner, content, snapshot, weight, task, run: None, until });
        cx.set_timer_by(Timer::Coming, COMING_FOR);
        cx.emit(Event::Fetch { ticket: content, blobs, from: owner });
        cx.emit(Event::FetchSnapshot { ticket: snapshot, blobs: vec![whole], from: sources });
    }

    pub(super) fn came_ahead(
        &mut self,
        unit: UnitId,
        ticket: u64,
        result: Result<(), NotFetched>,
        cx: &mut Cx<'_, Self>,
    ) {
        let Some(coming) = self.coming.get_mut(&unit) else { return };
        let waits = [coming.content, coming.snapshot].iter().any(|ticket| self.tickets.contains_key(ticket));
        let owner = coming.owner;
        match result {
            Ok(()) if waits => {}
            Ok(()) if self.runs.len() < self.slots as usize => {
                let run = RunId(self.next);
                self.next += 1;
                if let Some(task) = coming.task.take() {
                    coming.run = Some(run);
                    cx.emit(Event::Prepare { run, task });
                }
            }
            // Its slot has something else to do yet.
            Ok(()) => Self::to_owner(owner, ToOwner::Prepared { unit, error: None, unreached: false }, cx),
            Err(error) => {
                // Other content comes from the owner alone.
                let unreached = ticket == coming.snapshot && error.is_no_answer();
                self.has_come(unit, cx);
                let error = Some(error.to_string());
                Self::to_owner(owner, ToOwner::Prepared { unit, error, unreached }, cx);
            }
        }
    }

    /// The engine has what a unit needs that will come, or goes without; or it `refuses`.
    pub(super) fn at_hand(&mut self, run: RunId, refuses: Option<&End>, cx: &mut Cx<'_, Self>) {
        let mut all = self.coming.iter_mut();
        let Some((unit, coming)) = all.find(|(_, coming)| coming.run == Some(run)) else { return };
        coming.run = None;
        let (owner, unit) = (coming.owner, *unit);
        let error = refuses.map(End::to_string);
        if error.is_some() {
            self.has_come(unit, cx);
        }
        Self::to_owner(owner, ToOwner::Prepared { unit, error, unreached: false }, cx);
    }

    /// It is here with tickets of its own, or is not waited for any longer.
    pub(super) fn has_come(&mut self, unit: UnitId, cx: &mut Cx<'_, Self>) {
        let Some(Coming { content, snapshot, run, .. }) = self.coming.remove(&unit) else { return };
        if let Some(run) = run {
            cx.emit(Event::Kill { run });
        }
        self.tickets.remove(&content);
        self.tickets.remove(&snapshot);
        cx.emit(Event::Release { ticket: content });
        cx.emit(Event::ReleaseSnapshot { ticket: snapshot });
    }

    /// Its owner has changed its mind.
    pub(super) fn will_not_come(&mut self, owner: NodeId, unit: UnitId, cx: &mut Cx<'_, Self>) {
        if self.coming.get(&unit).is_some_and(|coming| coming.owner == owner) {
            self.has_come(unit, cx);
        }
    }

    pub(super) fn not_come(&mut self, cx: &mut Cx<'_, Self>) {
        let late = self.coming.iter().filter(|(_, coming)| coming.until <= cx.now);
        let late: Vec<UnitId> = late.map(|(unit, _)| *unit).collect();
        late.into_iter().for_each(|unit| self.has_come(unit, cx));
        if let Some(next) = self.coming.values().map(|coming| coming.until).min() {
            cx.set_timer(Timer::Coming, next.since(cx.now));
        }
    }
}
