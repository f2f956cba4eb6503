//! Jobs come in: from a client, or from the disk after a restart.

use super::job::{Job, Phase, weight_of};
use super::{Event, Owner, Pending};
use crate::content::BlobRef;
use crate::ids::{JobId, NodeId, UnitId};
use crate::protocol::Cx;
use crate::work::book::Units;
use crate::work::message::{ToClient, ToRunner};
use crate::work::rows::{self, EndRecord, JobRecord};
use crate::work::spec::{JobSpec, OwnedBy, UnitResult};
use crate::work::submission;
use bytes::Bytes;
use sandbox::End;

/// Jobs of another node that are looked into at once. Our choice: a check takes seconds at worst, and the
/// operator's own jobs find room.
const ACCEPTING: usize = 16;

/// Placements of a unit at a time.
const ONE: u8 = 1;

impl Owner {
    pub(super) fn submit(&mut self, client: NodeId, id: JobId, spec: JobSpec, cx: &mut Cx<'_, Self>) {
        let refuse = |reason: String, cx: &mut Cx<'_, Self>| {
            cx.send(client, super::Message::ToClient(ToClient::Refused { job: id, reason }));
        };
        if let Err(reason) = self.check_client(client, &spec, cx.me) {
            return refuse(reason, cx);
        }
        if let Some(job) = self.jobs.get(&id) {
            match job.phase {
                _ if job.spec != spec => {
                    refuse("another job has this id already; submit again under a new one".into(), cx);
                }
                Phase::Accepting => {}
                _ => cx.send(client, super::Message::ToClient(ToClient::Accepted { job: id })),
            }
            return;
        }
        if !self.config.gateway {
            return refuse("this node owns no jobs; submit to a gateway".into(), cx);
        }
        if !self.is_ready() {
            return refuse("the gateway is still reading its records; try again in a moment".into(), cx);
        }
        if let Err(reason) = self.check_spec(&spec) {
            return refuse(reason, cx);
        }
        let accepting = |job: &&Job| job.client == client && job.phase == Phase::Accepting;
        if client != cx.me && self.jobs.values().filter(accepting).count() >= ACCEPTING {
            return refuse(format!("{ACCEPTING} of your jobs are being looked into; try in a moment"), cx);
        }
        if let Err(reason) = self.make_room(&spec, cx) {
            return refuse(reason, cx);
        }
        let blobs: Vec<BlobRef> = spec.blobs().into_iter().collect();
        let mut secret = [0; 32];
        for word in secret.chunks_exact_mut(8) {
            word.copy_from_slice(&cx.rng.u64().to_le_bytes());
        }
        let submitted_ms = self.wall_now(cx.now);
        self.keep_job(id, Job::new(spec, client, submitted_ms, secret));
        let ticket = self.ticket(Pending::JobBlobs(id));
        cx.emit(Event::Fetch { ticket, blobs, from: client });
    }

    fn check_spec(&self, spec: &JobSpec) -> Result<(), String> {
        submission::check(spec, &self.config.limits).map_err(|unfit| unfit.to_string())?;
        if spec.owner == OwnedBy::Ring {
            if !self.has_delegated() {
                return Err("this gateway is on no ring that could own the units; leave `owner` out".into());
            }
            if spec.find.terms().is_some() {
                return Err("a job that buys its places is owned by its gateway, which has the budget; \
                            use owner = \"ring\" without a price, or leave `owner` out"
                    .into());
            }
        }
        Ok(())
    }

    /// Whether this client may give jobs to this node: the node itself, and whom its operator let in. Each
    /// pays from its own account, so that only the node itself gives it jobs that buy.
    fn check_client(&self, client: NodeId, spec: &JobSpec, me: NodeId) -> Result<(), String> {
        if client == me {
            return Ok(());
        }
        if !self.config.submitters.contains(&client) {
            return Err(format!(
                "this gateway takes no jobs from {client}; submit through its page or API, or ask its \
                 operator to start it with --submitter {client}"
            ));
        }
        if spec.find.terms().is_some() {
            return Err(
                "a job that buys its places is paid by the gateway that takes it; submit it at a gateway \
                        of your own, whose account pays"
                    .into(),
            );
        }
        Ok(())
    }

    pub(super) fn blobs_here(&mut self, id: JobId, result: Result<(), String>, cx: &mut Cx<'_, Self>) {
        let Some(job) = self.jobs.get(&id).filter(|j| j.phase == Phase::Accepting) else { return };
        let (program, memory_bytes) = (job.spec.template.program.id, job.spec.template.limits.memory_bytes);
        match result {
            // The node's own API has looked into it already.
            Ok(()) if job.client == cx.me => self.inspected(id, Ok(()), cx),
            Ok(()) => {
                let ticket = self.ticket(Pending::JobProgram(id));
                cx.emit(Event::Inspect { ticket, program, memory_bytes });
            }
            Err(reason) => self.refuse_accepting(id, reason, cx),
        }
    }

    /// Its program can run, or why not.
    pub(super) fn inspected(&mut self, id: JobId, result: Result<(), String>, cx: &mut Cx<'_, Self>) {
        let Some(job) = self.jobs.get(&id).filter(|j| j.phase == Phase::Accepting) else { return };
        match result {
            Ok(()) => {
                let record = JobRecord {
                    spec: job.spec.clone(),
                    client: job.client,
                    submitted_ms: job.submitted_ms,
                    secret: job.secret,
                };
                let ticket = self.ticket(Pending::JobRecord(id));
                cx.emit(Event::Commit { ticket, writes: vec![rows::job_write(id, &record)] });
            }
            Err(reason) => self.refuse_accepting(id, reason, cx),
        }
    }

    pub(super) fn record_written(&mut self, id: JobId, result: Result<(), String>, cx: &mut Cx<'_, Self>) {
        if let Err(error) = result {
            return self.refuse_accepting(id, format!("the gateway could not write it down: {error}"), cx);
        }
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if job.phase == Phase::Accepting {
            job.phase = Phase::Active;
            self.tell_client(id, ToClient::Accepted { job: id }, cx);
            self.touch(id, cx);
            self.look(cx);
            self.look_after_delegated(cx);
        }
    }

    fn refuse_accepting(&mut self, id: JobId, reason: String, cx: &mut Cx<'_, Self>) {
        self.tell_client(id, ToClient::Refused { job: id, reason }, cx);
        self.jobs.remove(&id);
        self.delegation.forget(id);
        self.book.forget(id);
        self.payments.forget(id);
    }

    /// One more job; its units stand in the book.
    pub(super) fn keep_job(&mut self, id: JobId, job: Job) {
        self.book.begin(id, job.spec.units.count(), ONE, job.first_state());
        if job.is_on_ring() {
            self.delegation.begin(id);
        }
        self.payments.begin(id, &job.spec);
        self.jobs.insert(id, job);
    }

    /// Makes room for a job by forgetting those that ended first; none is forgotten if that does not suffice.
    /// Units of other gateways have bounds of their own.
    fn make_room(&mut self, spec: &JobSpec, cx: &mut Cx<'_, Self>) -> Result<(), String> {
        let (bounds, new) = (&self.config.limits, weight_of(spec));
        let (jobs, bytes) = self.held(|job| !matches!(job.phase, Phase::Over { .. }));
        if jobs >= bounds.jobs {
            return Err(format!("the gateway has {jobs} unfinished jobs, its bound; try later"));
        }
        if bytes.saturating_add(new) > bounds.jobs_bytes {
            let (needs, most) = (new >> 10, bounds.jobs_bytes >> 20);
            return Err(format!(
                "the job needs {needs} KiB of the gateway's memory, which keeps {most} MiB for all jobs and \
                 has not as much left; wait until others have ended, or cancel some"
            ));
        }
        let (mut jobs, mut bytes) = self.held(|_| true);
        while jobs >= self.config.limits.jobs || bytes.saturating_add(new) > self.config.limits.jobs_bytes {
            let Some(forgotten) = self.forget_oldest(cx) else { break };
            (jobs, bytes) = (jobs - 1, bytes.saturating_sub(forgotten));
        }
        Ok(())
    }

    /// How many of this node's own jobs there are, and bytes of memory that they take.
    fn held(&self, which: impl Fn(&Job) -> bool) -> (usize, u64) {
        let own = self.jobs.values().filter(|job| job.is_own() && which(job));
        own.fold((0, 0), |(jobs, bytes), job| (jobs + 1, bytes.saturating_add(job.weight)))
    }

    /// Forgets the job that ended first; how many bytes of memory it took.
    fn forget_oldest(&mut self, cx: &mut Cx<'_, Self>) -> Option<u64> {
        let oldest = self
            .jobs
            .iter()
            .filter(|(_, job)| matches!(job.phase, Phase::Over { .. }))
            .min_by_key(|(id, job)| (job.ended_ms, **id))
            .map(|(id, _)| *id);
        let id = oldest?;
        let job = self.jobs.remove(&id)?;
        let drop_key = |mut write: super::Write| {
            write.value = None;
            write
        };
        let record =
            JobRecord { spec: job.spec.clone(), client: job.client, submitted_ms: 0, secret: [0; 32] };
        let mut writes = vec![
            drop_key(rows::job_write(id, &record)),
            drop_key(rows::end_write(id, &EndRecord { cancelled: false, ended_ms: 0 })),
        ];
        let units = self.book.units(id).into_iter().flat_map(|units| units.iter());
        let ended = units.filter(|(_, unit)| unit.state.has_ended());
        writes.extend(ended.map(|(index, _)| super::Write {
            table: crate::disk::Table::Results,
            key: rows::unit_key(UnitId { job: id, index }),
            value: None,
        }));
        self.book.forget(id);
        self.delegation.forget(id);
        self.payments.forget(id);
        let ticket = self.ticket(Pending::End);
        cx.emit(Event::Commit { ticket, writes });
        Some(job.weight)
    }

    pub(super) fn cancel(&mut self, from: NodeId, id: JobId, cx: &mut Cx<'_, Self>) {
        let Some(job) = self.jobs.get(&id) else { return };
        if !job.is_own() || (job.client != from && from != cx.me) {
            cx.fault(from, format!("asked to cancel {id:?}, which is not its job"));
        } else if job.is_active() {
            self.finish(id, true, cx);
        }
    }

    /// The job is over, one way or the other.
    pub(super) fn finish(&mut self, id: JobId, cancelled: bool, cx: &mut Cx<'_, Self>) {
        let now_ms = self.wall_now(cx.now);
        let Some(job) = self.jobs.get_mut(&id) else { return };
        // The wall clock may have been set back meanwhile.
        let ended_ms = now_ms.max(job.submitted_ms);
        job.phase = Phase::Over { cancelled };
        job.ended_ms = Some(ended_ms);
        self.payments.settle_all(id, &job.records);
        let ticket = self.ticket(Pending::End);
        let write = rows::end_write(id, &EndRecord { cancelled, ended_ms });
        cx.emit(Event::Commit { ticket, writes: vec![write] });
        self.active.remove(&id);
        self.changed.remove(&id);
        self.delegate(cx, |it, _| it.recall(id));
        self.drop_records(id, cx);
        for runner in self.book.recall(id) {
            Self::to_runner(runner, ToRunner::Revoke { job: id }, cx);
        }
        self.tell_client(id, ToClient::Ended { job: id }, cx);
        cx.emit(Event::JobEnded(id));
    }

    pub(super) fn restore_jobs(&mut self, entries: Vec<(Vec<u8>, Bytes)>, cx: &mut Cx<'_, Self>) {
        for (key, value) in entries {
            let known = match rows::job_key(&key) {
                Some((id, false)) => rmp_serde::from_slice(&value).is_ok_and(|record: JobRecord| {
                    let mut job = Job::new(record.spec, record.client, record.submitted_ms, record.secret);
                    (job.phase, job.restored) = (Phase::Active, true);
                    self.keep_job(id, job);
                    true
                }),
                Some((id, true)) => rmp_serde::from_slice(&value).is_ok_and(|end: EndRecord| {
                    if let Some(job) = self.jobs.get_mut(&id) {
                        job.phase = Phase::Over { cancelled: end.cancelled };
                        job.ended_ms = Some(end.ended_ms);
                    }
                    true
                }),
                None => false,
            };
            if !known {
                let what =
                    "a job's record cannot be read and is left as it is; was it written by a newer version?";
                cx.trouble(what.into());
            }
        }
    }

    pub(super) fn restore_results(&mut self, entries: Vec<(Vec<u8>, Bytes)>, cx: &mut Cx<'_, Self>) {
        for (key, value) in &entries {
            let Some(unit) = rows::unit_of(key) else { continue };
            if !self.jobs.contains_key(&unit.job) {
                continue;
            }
            match rmp_serde::from_slice::<UnitResult>(value) {
                Ok(result) => self.restore_result(unit, &result),
                Err(_) => cx.trouble(format!("the result of {unit} cannot be read; the unit runs again")),
            }
        }
    }

    /// From the disk, at start: the unit had ended before.
    fn restore_result(&mut self, unit: UnitId, result: &UnitResult) {
        if self.book.state(unit).is_some_and(|state| !state.has_ended()) {
            self.book.attempted(unit, result.attempts);
            if let Some(job) = self.jobs.get_mut(&unit.job) {
                job.refusals.runs |= !matches!(result.end, End::Refused(_));
            }
            self.end_unit(unit, result);
        }
    }

    /// The result is durable.
    pub(super) fn end_unit(&mut self, unit: UnitId, result: &UnitResult) {
        let failure = (!result.end.is_success()).then(|| result.end.to_string());
        self.book.end(unit, failure);
        if let Some(job) = self.jobs.get_mut(&unit.job) {
            job.count(unit.index, result);
        }
        self.payments.count(unit.job, result.paid);
    }

    pub(super) fn restore_checkpoints(&mut self, entries: Vec<(Vec<u8>, Bytes)>, cx: &mut Cx<'_, Self>) {
        for (key, value) in &entries {
            if let Some(unit) = rows::unit_of(key) {
                self.restore_record(unit, value, cx);
            }
        }
        if !entries.is_empty() {
            return;
        }
        self.ready = true;
        cx.emit(Event::Ready);
        let ids: Vec<JobId> = self.jobs.keys().copied().collect();
        for id in ids {
            let job = &self.jobs[&id];
            if job.is_active() && self.book.units(id).is_some_and(Units::all_ended) {
                // The crash came between the last result and the end record.
                self.finish(id, false, cx);
            } else {
                self.touch(id, cx);
            }
        }
        self.flush_records(cx);
        self.settle_ended();
        self.look(cx);
        self.look_after_delegated(cx);
    }
}
