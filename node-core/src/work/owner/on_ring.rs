//! Units whose owner the ring names, as the owner does what delegation asks for (`work/delegation`).

use super::coming::Unfit;
use super::job::Job;
use super::{Event, Owner, Pending, Timer};
use crate::content::{BlobRef, NotFetched};
use crate::disk::Write;
use crate::engine::NotRunnable;
use crate::ids::{JobId, NodeId, UnitId};
use crate::money::Micro;
use crate::protocol::Cx;
use crate::work::book::{Back, Placement, State};
use crate::work::delegated;
use crate::work::delegation::{self, ATTEMPTS_MAX, Act, Adopted, Delegation, OfRing, View};
use crate::work::message::{Cause, Lease, Message, Report, ToRunner};
use crate::work::rows;
use bytes::Bytes;
use std::collections::BTreeSet;

impl Owner {
    /// Whether this node takes part at all.
    pub(super) fn has_delegated(&self) -> bool {
        self.config.limits.delegated_units > 0
    }

    /// Has delegation do something, and does what it asks for.
    pub(super) fn delegate<R>(
        &mut self,
        cx: &mut Cx<'_, Self>,
        with: impl FnOnce(&mut Delegation, &View<'_>) -> R,
    ) -> R {
        let view = View {
            me: cx.me,
            now: cx.now,
            ready: self.ready,
            jobs: &self.jobs,
            book: &self.book,
            peers: cx.peers,
            limits: &self.config.limits,
        };
        let done = with(&mut self.delegation, &view);
        for act in self.delegation.acts() {
            self.perform(act, cx);
        }
        done
    }

    fn perform(&mut self, act: Act, cx: &mut Cx<'_, Self>) {
        match act {
            Act::Say(to, message) => {
                cx.reach(to);
                cx.send(to.id, Message::Delegated(message));
            }
            Act::Tell(to, message) => {
                cx.reach(to);
                Self::to_runner(to.id, message, cx);
            }
            Act::Reach(to) => cx.reach(to),
            Act::Fault(from, why) => cx.fault(from, why),
            Act::Trouble(what) => cx.trouble(what),
            Act::Locate { number, key } => cx.emit(Event::Locate { number, key }),
            Act::Adopt(adopted) => self.adopt(*adopted),
            Act::Leave(unit) => {
                self.moves.forget(unit);
                self.jobs.get_mut(&unit.job).into_iter().for_each(|job| job.drop_unit(unit.index));
                self.book.remove(unit);
                self.want_less(unit.job, cx);
            }
            Act::Drop(job) => {
                self.book.forget(job);
                self.want_less(job, cx);
                self.jobs.remove(&job);
                self.active.remove(&job);
                self.changed.remove(&job);
            }
            Act::Recall(unit) => {
                for Placement { runner, .. } in self.book.take_all(unit) {
                    Self::to_runner(runner, ToRunner::Forget { units: vec![unit] }, cx);
                }
                self.drop_record(unit, cx);
            }
            Act::ComeBack(unit) => self.book.come_back(unit),
            Act::Progress { unit, attempts, record } => {
                self.book.attempted(unit, attempts);
                if let Some((job, record)) = self.jobs.get_mut(&unit.job).zip(record) {
                    job.records.insert(unit.index, record);
                    self.write_record(unit, cx);
                }
            }
            Act::Wait(unit) => self.wait_for(unit, self.config.timing.lease, cx),
            Act::Write(unit) => self.write_record(unit, cx),
            Act::Touch(job) => self.touch(job, cx),
            Act::Look => self.look(cx),
            Act::Short(job, why) => {
                self.jobs.get_mut(&job).into_iter().for_each(|job| job.shortage = Some(why.clone()));
            }
            Act::Fetch { job, blobs, from } => {
                let ticket = self.ticket(Pending::Content(job, blobs.clone()));
                cx.emit(Event::FetchPassing { ticket, blobs: blobs.into_iter().collect(), from });
                self.delegate(cx, |it, _| it.asked(job, ticket));
            }
            Act::Keep(unit) => self.keep_end(unit, cx),
            Act::Release(ticket) => {
                self.pending.remove(&ticket);
                cx.emit(Event::ReleasePassing { ticket });
            }
            Act::Inspect(id) => {
                let Some(job) = self.jobs.get(&id) else { return };
                let template = &job.spec.template;
                let (program, memory_bytes) = (template.program.id, template.limits.memory_bytes);
                let ticket = self.ticket(Pending::DelegatedProgram(id));
                cx.emit(Event::Inspect { ticket, program, memory_bytes });
            }
            Act::Next(next) => self.delegate(cx, |it, view| it.go_on(next, view)),
        }
    }

    /// The unit of another gateway is this node's to place from now on.
    fn adopt(&mut self, adopted: Adopted) {
        let Adopted { unit, part, described, attempts, record, held } = adopted;
        if let Some(part) = part {
            self.jobs.entry(unit.job).or_insert_with(|| Job::of_another(part));
        }
        let Some(job) = self.jobs.get_mut(&unit.job) else { return };
        self.book.add(unit, attempts);
        job.records.extend(record.map(|record| (unit.index, record)));
        if let Some(foreign) = &mut job.foreign {
            foreign.units.insert(unit.index, described);
        }
        if let Some(why) = held {
            self.book.hold(unit, why, false);
        }
    }

    /// Keeps the outputs of a unit that has ended here.
    fn keep_end(&mut self, unit: UnitId, cx: &mut Cx<'_, Self>) {
        let Some(end) = self.delegation.end(unit) else { return };
        let blobs: Vec<BlobRef> = end.result.blobs().collect();
        let from = vec![end.result.runner];
        if !blobs.is_empty() {
            let ticket = self.ticket(Pending::Kept);
            cx.emit(Event::FetchPassing { ticket, blobs, from });
            self.delegate(cx, |it, _| it.kept(unit, ticket));
        }
    }

    fn wake(&self, cx: &mut Cx<'_, Self>) {
        cx.set_timer_by(Timer::Delegated, delegation::TICK);
    }

    pub(super) fn of_ring(&mut self, told: OfRing, cx: &mut Cx<'_, Self>) {
        self.delegate(cx, |it, view| it.of_ring(told, view));
        self.wake(cx);
    }

    pub(super) fn of_delegated(&mut self, from: NodeId, message: delegated::Message, cx: &mut Cx<'_, Self>) {
        if !self.is_ready() || !self.has_delegated() {
            // All of it is said again.
            return;
        }
        match message {
            delegated::Message::Results(results) => self.delegated_results(from, results, cx),
            message => self.delegate(cx, |it, view| it.on_message(from, message, view)),
        }
        self.wake(cx);
    }

    /// Time to see what is due.
    pub(super) fn look_after_delegated(&mut self, cx: &mut Cx<'_, Self>) {
        if !self.is_ready() || !self.has_delegated() {
            return;
        }
        if self.delegate(cx, |it, view| it.concerns_ring(view)) {
            self.wake(cx);
            self.delegate(cx, |it, view| it.look_after(view));
        }
    }

    pub(super) fn content_here(
        &mut self,
        job: JobId,
        asked: (u64, BTreeSet<BlobRef>),
        result: Result<(), NotFetched>,
        cx: &mut Cx<'_, Self>,
    ) {
        self.delegate(cx, |it, view| it.content_here(job, asked, result, view.now));
    }

    /// The program of another gateway's units can run, or why not: they are held then, and their origin is told.
    pub(super) fn looked_into(&mut self, id: JobId, result: Result<(), NotRunnable>, cx: &mut Cx<'_, Self>) {
        if !self.delegation.looked_into(id, result.is_ok(), cx.now) {
            return;
        }
        if let Some(job) = self.jobs.get_mut(&id) {
            job.refusals.unfit = result.err().map(|why| why.to_string());
        }
        self.release_refused(id, cx);
        self.touch(id, cx);
        self.look(cx);
    }

    /// The runner has these units from another owner: this node came to own them before it was told where
    /// they run. It claims them under a new epoch.
    pub(super) fn of_another(
        &mut self,
        from: NodeId,
        lease: Lease,
        units: Vec<UnitId>,
        cx: &mut Cx<'_, Self>,
    ) {
        if self.leases.get(&from).is_none_or(|held| held.lease() != lease) {
            return;
        }
        let units = units.into_iter().filter(|unit| self.book.is_granted(*unit, from));
        let (ring, others): (Vec<_>, Vec<_>) =
            units.partition(|unit| self.delegation.origin_of(*unit, cx.me).is_some());
        if !others.is_empty() {
            self.declined(from, lease, others, (Cause::Job, "it runs this for another owner"), cx);
        }
        self.units_back(from, &ring, Back::Unharmed, cx);
        let runner = super::nodes::address(from, cx.peers);
        for unit in ring {
            self.delegate(cx, |it, view| it.claim_anew(unit, runner, view));
        }
    }

    /// How units ended that others own.
    fn delegated_results(&mut self, from: NodeId, results: Vec<Report>, cx: &mut Cx<'_, Self>) {
        let (mut over, mut good) = (Vec::new(), Vec::new());
        for mut report in results {
            let unit = report.unit;
            match self.check_report(&report) {
                // Unknown, or over: the owner need not keep it.
                Ok(()) | Err(Unfit::Over) => {}
                Err(Unfit::NotGranted) => {
                    // It may have a copy, and the result, from a liar, and is not to blame. It need not keep them.
                    over.push(unit);
                    continue;
                }
                Err(Unfit::Fault(why)) => {
                    cx.fault(from, format!("brought a result of {unit}: {why}"));
                    continue;
                }
            }
            // A job that is not on the ring has no other owner, and who ran a unit reports it itself.
            let ours = |job: &&mut Job| job.is_active() && job.is_on_ring();
            let job = self.jobs.get_mut(&unit.job).filter(ours);
            let Some((job, state)) = job.zip(self.book.state(unit)) else {
                over.push(unit);
                continue;
            };
            match state {
                State::Done | State::Failed => {
                    job.duplicates += 1;
                    over.push(unit);
                }
                State::Storing => {}
                // It stays as it is until the content is here.
                _ => {
                    // Units on the ring buy nothing.
                    report.result.paid = Micro::ZERO;
                    report.result.attempts = report.result.attempts.min(ATTEMPTS_MAX);
                    if report.result.journey.is_none() {
                        // The unit's last owner may have known of no checkpoint.
                        report.result.journey = self.journey_of(&report, cx);
                    }
                    good.push(report);
                }
            }
        }
        self.delegate(cx, |it, _| it.tell_over(from, over));
        self.take_results(from, good, cx);
    }

    /// The result of a unit of another gateway's job is durable here: it goes to the origin.
    pub(super) fn delegated_ended(&mut self, report: &Report, cx: &mut Cx<'_, Self>) {
        self.delegate(cx, |it, view| it.ended(report, view));
        self.wake(cx);
    }

    /// Rows to write for a unit whose record changed.
    pub(super) fn rows_of(&mut self, unit: UnitId, cx: &mut Cx<'_, Self>) -> Vec<Write> {
        if self.jobs.get(&unit.job).is_some_and(Job::is_own) {
            return vec![rows::unit_write(unit, self.record(unit))];
        }
        self.delegate(cx, |it, view| it.rows(unit, view))
    }

    /// Row to write for a unit that has ended.
    pub(super) fn row_of_result(&self, report: &Report) -> Write {
        match self.jobs.get(&report.unit.job) {
            Some(job) if job.is_own() => rows::result_write(report.unit, &report.result),
            _ => delegation::end_write(report.unit, Some(report)),
        }
    }

    /// Entries of the table of delegated units.
    pub(super) fn restore_delegated(&mut self, entries: &[(Vec<u8>, Bytes)], cx: &mut Cx<'_, Self>) {
        self.delegate(cx, |it, view| it.restore(entries, view));
    }
}
