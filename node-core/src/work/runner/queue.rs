//! Units come in, get their blobs, and go to the engine in order.

use super::declined::Declined;
use super::terms::{FAILED, REFUSED_FOR};
use super::{Event, Job, Runner, Ticket, Timer, Unit, UnitState, left};
use crate::content::NotFetched;
use crate::engine::{EngineTask, RunId, SealKey, SnapshotRef, ThreadTask};
use crate::ids::{JobId, NodeId, UnitId};
use crate::money::Price;
use crate::progress::KEEPERS;
use crate::protocol::Cx;
use crate::time::Time;
use crate::work::message::{Batch, Cause, Lease, ToOwner, UnitGrant};
use crate::work::spec::{Template, Threads, UnitSpec};
use sandbox::swarm::Thread;
use std::sync::Arc;

impl Runner {
    pub(super) fn granted(
        &mut self,
        owner: NodeId,
        lease: Lease,
        batches: Vec<Batch>,
        cx: &mut Cx<'_, Self>,
    ) {
        // Only an owner that found this node was offered anything: a gateway, or whom the ring chose.
        if !self.owners.contains_key(&owner) {
            self.owner_up(owner, cx);
        }
        let Some(owner_state) = self.owners.get_mut(&owner) else { return };
        if lease > owner_state.lease {
            owner_state.lease = lease;
            owner_state.grants = 0;
        }
        owner_state.grants += 1;
        // Units within the credit are taken, whatever has come from others meanwhile.
        let mut covered = owner_state.promised.saturating_sub(owner_state.received);
        let units = batches.iter().map(|batch| batch.units.len()).sum::<usize>();
        owner_state.received += units as u64;
        if owner_state.units == 0 {
            cx.set_timer(Timer::Heartbeat(owner), self.config.timing.heartbeat);
        }
        self.arrived(owner, units);
        let (mut declined, mut others) = (Vec::new(), Vec::new());
        for batch in batches {
            let id = batch.job;
            let units = || batch.units.iter().map(|u| UnitId { job: id, index: u.index });
            if self.slots == 0 || self.is_closed() {
                declined.extend(units());
                continue;
            }
            let is_thread = batch.template.threads.is_some();
            let reason = (is_thread && !self.config.runs_threads).then_some(Declined::NoThreads);
            let reason =
                reason.or_else(|| self.another_job(&batch)).or_else(|| self.weigh(&batch, None).err());
            let reason = reason.or_else(|| match self.price_of(owner, &batch, cx) {
                Ok(price) => self.terms.rejects(owner, cx.me, &batch.template, price),
                Err(why) => Some(why),
            });
            if let Some(reason) = reason {
                let (units, cause, reason) = (units().collect(), reason.cause(), reason.to_string());
                Self::to_owner(owner, ToOwner::Decline { lease, units, cause, reason }, cx);
                if cause == Cause::Node {
                    self.turn_away(owner, REFUSED_FOR, cx);
                }
                continue;
            }
            let job = self.jobs.entry(id).or_insert_with(|| Job {
                name: batch.name,
                template: Arc::new(batch.template),
                sweep_first: batch.sweep_first,
                keepers: Vec::new(),
                ticket: 0,
                here: false,
                units: 0,
            });
            job.keepers = batch.keepers;
            job.keepers.truncate(KEEPERS);
            if job.ticket == 0 {
                let blobs = job.template.blobs();
                let ticket = self.ticket(Ticket::Job(id));
                if let Some(job) = self.jobs.get_mut(&id) {
                    job.ticket = ticket;
                }
                cx.emit(Event::Fetch { ticket, blobs, from: owner });
            }
            for grant in batch.units {
                let unit = UnitId { job: id, index: grant.index };
                let is_covered = covered > 0;
                covered = covered.saturating_sub(1);
                if !is_covered && self.units.len() >= self.config.limits.held_units as usize {
                    declined.push(unit);
                    continue;
                }
                // In a network that fell apart two may own it; it is none of this one's losses.
                if self.units.get(&unit).is_some_and(|here| here.owner != owner) {
                    others.push(unit);
                    continue;
                }
                let again = left::Again::of(&grant);
                if self.is_ahead(unit, &grant) {
                    self.take_anew(owner, lease, unit, grant, cx);
                } else if self.units.contains_key(&unit) {
                    self.given_again(unit, lease, grant, cx);
                } else {
                    self.take(owner, lease, unit, grant, cx);
                }
                self.has_origin(unit, batch.origin);
                self.left_again(unit, again, cx);
            }
            if self.jobs.get(&id).is_some_and(|job| job.units == 0) {
                self.drop_job(id, cx);
            }
        }
        if !declined.is_empty() {
            let reason = if self.is_closed() || self.slots == 0 { Declined::NoSlots } else { Declined::Full };
            let (cause, reason) = (reason.cause(), reason.to_string());
            Self::to_owner(owner, ToOwner::Decline { lease, units: declined, cause, reason }, cx);
        }
        if !others.is_empty() {
            Self::to_owner(owner, ToOwner::OfAnother { lease, units: others }, cx);
        }
        Self::changed(cx);
    }

    /// Why this is not the job that is known by its id. Units of two owners may be of one job, and then they
    /// run what the first of them said: an owner must not have others' units run something else.
    pub(super) fn another_job(&self, batch: &Batch) -> Option<Declined> {
        let known = self.jobs.get(&batch.job)?;
        let same = *known.template == batch.template && known.sweep_first == batch.sweep_first;
        (!same).then_some(Declined::OtherJob)
    }

    pub(super) fn take(
        &mut self,
        owner: NodeId,
        lease: Lease,
        id: UnitId,
        grant: UnitGrant,
        cx: &mut Cx<'_, Self>,
    ) {
        let price = self.use_up(owner, &grant, cx.me);
        let UnitGrant { attempt, proof, spec, key, resume, keeper, choices, .. } = grant;
        let blobs = spec.as_ref().map(UnitSpec::blobs).unwrap_or_default();
        let ticket = (!blobs.is_empty()).then(|| self.ticket(Ticket::Unit(id)));
        let unit = Unit {
            owner,
            lease,
            attempt,
            proof,
            spec,
            ticket,
            key,
            price,
            paused: false,
            resume: None,
            progress: None,
            keeper,
            delegated: None,
            choices,
            state: UnitState::Fetching,
        };
        self.units.insert(id, unit);
        if let Some(job) = self.jobs.get_mut(&id.job) {
            job.units += 1;
        }
        if let Some(owner_state) = self.owners.get_mut(&owner) {
            owner_state.units += 1;
            owner_state.gifts += u32::from(price == Price(0));
        }
        match resume {
            Some(resume) => self.fetch_resume(id, resume, cx),
            None => self.has_come(id, cx),
        }
        match ticket {
            Some(ticket) => cx.emit(Event::Fetch { ticket, blobs, from: owner }),
            None => self.make_ready(id, cx.now),
        }
    }

    /// Queues the unit if all it needs is here.
    pub(super) fn make_ready(&mut self, id: UnitId, now: Time) {
        let job_here = self.jobs.get(&id.job).is_some_and(|job| job.here);
        let Some(unit) = self.units.get_mut(&id) else { return };
        let own_here = unit.ticket.is_none_or(|ticket| !self.tickets.contains_key(&ticket));
        let resume_here = unit.resume.as_ref().is_none_or(|(_, ticket)| !self.tickets.contains_key(ticket));
        if job_here && own_here && resume_here && matches!(unit.state, UnitState::Fetching) {
            unit.state = UnitState::Ready { since: now };
            self.ready.push(id, unit.price);
        }
    }

    pub(super) fn answered(&mut self, ticket: u64, result: Result<(), NotFetched>, cx: &mut Cx<'_, Self>) {
        let Some(what) = self.tickets.get(&ticket) else { return };
        let Some(result) = Self::settled(what, result) else { return self.ask_later(ticket, cx) };
        let Some(what) = self.tickets.remove(&ticket) else { return };
        match (what, result) {
            (Ticket::Job(id), Ok(())) => {
                let Some(job) = self.jobs.get_mut(&id) else { return };
                job.here = true;
                let units: Vec<UnitId> = self.units_of(id).collect();
                units.into_iter().for_each(|unit| self.make_ready(unit, cx.now));
            }
            (Ticket::Job(id), Err(error)) => {
                let units: Vec<UnitId> = self.units_of(id).collect();
                self.give_back(
                    units,
                    &format!("it could not get the job's content: {error}"),
                    Cause::Failed,
                    cx,
                );
            }
            (Ticket::Unit(id), Ok(())) => self.make_ready(id, cx.now),
            (Ticket::Unit(id), Err(error)) => {
                self.give_back(
                    vec![id],
                    &format!("it could not get the unit's input: {error}"),
                    Cause::Failed,
                    cx,
                );
            }
            (Ticket::Coming(id), result) => self.came_ahead(id, ticket, result, cx),
            (Ticket::Left(id), result) => self.left_came(id, result, cx),
            (Ticket::Resume(id), result) => self.resume_came(id, ticket, result, cx),
            (Ticket::Snapshot(id, fresh), stored) => {
                self.snapshot_kept(id, *fresh, ticket, stored, cx);
            }
            (Ticket::Outputs(id, result), stored) => {
                self.outputs_kept(id, *result, stored, ticket, cx);
            }
        }
    }

    pub(super) fn units_of(&self, job: JobId) -> impl Iterator<Item = UnitId> + '_ {
        let range = UnitId { job, index: 0 }..=UnitId { job, index: u32::MAX };
        self.units.range(range).map(|(id, _)| *id)
    }

    /// Hands units that have not ended back to their owners.
    pub(super) fn give_back(&mut self, ids: Vec<UnitId>, reason: &str, cause: Cause, cx: &mut Cx<'_, Self>) {
        let mut by_lease: std::collections::BTreeMap<(NodeId, Lease), Vec<UnitId>> = Default::default();
        for id in ids {
            let Some(unit) = self.units.get(&id) else { continue };
            if matches!(unit.state, UnitState::Ended | UnitState::Suspended) {
                continue;
            }
            by_lease.entry((unit.owner, unit.lease)).or_default().push(id);
            self.remove(id, cx);
        }
        for ((owner, lease), units) in by_lease {
            Self::to_owner(owner, ToOwner::Decline { lease, units, cause, reason: reason.into() }, cx);
            if cause == Cause::Failed {
                self.turn_away(owner, FAILED, cx);
            }
        }
    }

    /// Forgets a unit, whatever it is doing.
    pub(super) fn remove(&mut self, id: UnitId, cx: &mut Cx<'_, Self>) {
        let Some(unit) = self.units.remove(&id) else { return };
        self.leave_nothing(id, cx);
        match unit.state {
            UnitState::Running { run, .. } => {
                self.runs.remove(&run);
                cx.emit(Event::Kill { run });
            }
            UnitState::Ready { .. } => self.ready.remove(id, unit.price),
            UnitState::Fetching | UnitState::Suspended | UnitState::Ended => {}
        }
        self.release_snapshots(unit.resume, unit.progress, cx);
        if let Some(ticket) = unit.ticket {
            self.tickets.remove(&ticket);
            cx.emit(Event::Release { ticket });
        }
        let mut last = false;
        if let Some(owner_state) = self.owners.get_mut(&unit.owner) {
            owner_state.units -= 1;
            owner_state.gifts -= u32::from(unit.price == Price(0));
            owner_state.suspended -= u32::from(matches!(unit.state, UnitState::Suspended));
            last = owner_state.units == 0;
        }
        if last {
            self.linger(unit.owner, cx);
        }
        if let Some(job) = self.jobs.get_mut(&id.job) {
            job.units -= 1;
            if job.units == 0 {
                self.drop_job(id.job, cx);
            }
        }
        Self::changed(cx);
    }

    fn drop_job(&mut self, id: JobId, cx: &mut Cx<'_, Self>) {
        if let Some(job) = self.jobs.remove(&id) {
            self.tickets.remove(&job.ticket);
            cx.emit(Event::Release { ticket: job.ticket });
        }
    }

    pub(super) fn revoked(&mut self, from: NodeId, job: JobId, cx: &mut Cx<'_, Self>) {
        let units: Vec<UnitId> = self
            .units_of(job)
            .filter(|id| self.units.get(id).is_some_and(|unit| unit.owner == from))
            .collect();
        for id in units {
            // A result may be under way; the owner acknowledges it and forgets it.
            if !matches!(self.units.get(&id).map(|unit| &unit.state), Some(UnitState::Ended)) {
                self.remove(id, cx);
            }
        }
    }

    pub(super) fn set_slots(&mut self, slots: u32, cx: &mut Cx<'_, Self>) {
        if slots != self.slots {
            self.slots = slots;
            self.draining = false;
            cx.emit(Event::Slots(slots));
            if slots == 0 {
                let waiting = self.ready.all();
                self.give_back(waiting, "it gives no slots now", Cause::Node, cx);
            }
            Self::changed(cx);
        }
    }

    /// Keeps the engine supplied.
    pub(super) fn dispatch(&mut self, cx: &mut Cx<'_, Self>) {
        let depth = self.pace.engine_depth(self.slots);
        while self.runs.len() < depth {
            let run = RunId(self.next);
            let Some(id) = self.next_ready(run, depth) else { break };
            self.next += 1;
            let (Some(unit), Some(job)) = (self.units.get_mut(&id), self.jobs.get(&id.job)) else { continue };
            unit.state = UnitState::Running { run, since: cx.now };
            self.runs.insert(run, id);
            let from = unit.resume.as_ref().map(|(resume, _)| resume.checkpoint.snapshot);
            let spec = unit.spec.as_ref();
            let task = task_of(&job.template, spec, job.sweep_first, id.index, unit.key, from);
            let thread = job.template.threads.map(|Threads { workers }| ThreadTask {
                thread: Thread { number: id.index, workers },
                choices: std::mem::take(&mut unit.choices),
            });
            let task = Box::new(EngineTask { thread, ..task });
            let (paused, every) = (unit.paused, job.template.checkpoint.duration());
            cx.emit(Event::Run { run, task });
            if paused {
                cx.emit(Event::Pause { run, paused });
            }
            if let Some(every) = every {
                Self::due_after(every, cx);
            }
        }
    }
}

/// The engine's task for a unit.
pub(super) fn task_of(
    template: &Template,
    spec: Option<&UnitSpec>,
    sweep_first: Option<u64>,
    index: u32,
    key: SealKey,
    from: Option<SnapshotRef>,
) -> EngineTask {
    let own = spec.and_then(|s| s.arguments.as_ref());
    let arguments = match (own, sweep_first) {
        (Some(own), _) => own.clone(),
        (None, None) => template.arguments.clone(),
        (None, Some(first)) => {
            let number = first.wrapping_add(u64::from(index)).to_string();
            template.arguments.iter().map(|a| a.replace("{}", &number)).collect()
        }
    };
    let mut files = template.files.clone();
    files.extend(spec.iter().flat_map(|s| s.files.iter().cloned()));
    // A program gives units of one index the same randomness, in every job that repeats it.
    let program = template.program.id.0;
    let seed = u64::from_le_bytes(std::array::from_fn(|i| program[i])).wrapping_add(u64::from(index));
    EngineTask {
        program: template.program.id,
        arguments,
        environment: template.environment.clone(),
        stdin: spec.and_then(|s| s.stdin.clone()).unwrap_or_else(|| template.stdin.clone()),
        files,
        limits: template.limits,
        seed,
        bit_exact: template.bit_exact,
        key,
        from,
        thread: None,
    }
}
