//! Results come in: proven, checked, fetched whole, made durable, counted once, acknowledged.
//!
//! A unit stays as it is until the content of a result is here: a runner that names content and never sends it
//! must not take the unit from others. Of several results on their way the first counts whose content has come.

use super::coming::{Admission, Arrived, OnTheWay, REPORTS_MAX, Standing, Unfit, refusal_of};
use super::job::Job;
use super::{Event, Owner, Pending, Timer, nodes};
use crate::content::{BlobRef, FetchError, NotFetched};
use crate::disk;
use crate::ids::{JobId, NodeId, UnitId};
use crate::money::Micro;
use crate::progress::Journey;
use crate::protocol::Cx;
use crate::time::on_a_slow_line;
use crate::work::book::{Back, Placement, State, Units};
use crate::work::bounds::check_result;
use crate::work::message::{Report, ToRunner};
use crate::work::spec::UnitResult;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The content of a unit's result may fail to come so often before the unit runs elsewhere. Our choice: a line that
/// was cut twice.
const UNSENT_MAX: u8 = 3;

/// A unit that nobody runs waits so long at most for a result whose content is on its way. Our choice: an output of
/// 8 MiB on the slowest line.
const CONTENT: Duration = Duration::from_secs(120);

impl Owner {
    pub(super) fn report(&mut self, from: NodeId, seq: u64, reports: Vec<Report>, cx: &mut Cx<'_, Self>) {
        match self.admit(from, seq, &reports) {
            Admission::Given => {}
            Admission::Repeated => return,
            Admission::NoRoom => return Self::to_runner(from, ToRunner::NotWritten { seq }, cx),
        }
        let mut results = Vec::with_capacity(reports.len());
        let (mut again, mut late, mut seen) = (false, BTreeSet::new(), BTreeSet::new());
        let mut late_room = None;
        for mut report in reports {
            let unit = report.unit;
            // A runner that was given a unit again may report both attempts.
            if !seen.insert((unit, report.attempt)) {
                cx.fault(from, format!("reported {unit} twice at once"));
                continue;
            }
            // No runner knows these of its unit.
            (report.result.runner, report.result.journey, report.result.paid) = (from, None, Micro::ZERO);
            if let Err(unfit) = self.check_report(&report) {
                if let Some(fault) = unfit.fault() {
                    self.not_a_result(from, unit, fault, cx);
                }
                continue;
            }
            match self.standing(&report, cx) {
                Standing::Late => {
                    if self.delegation.end(unit).is_none() && !late.contains(&unit) {
                        let units = self.config.limits.delegated_units;
                        let room =
                            *late_room.get_or_insert_with(|| self.delegation.room_for_late(from, units));
                        match late.len() < room {
                            true => {
                                late.insert(unit);
                                results.push(report);
                            }
                            // Its runner keeps it, and brings it again.
                            false => again = true,
                        }
                    }
                }
                Standing::Over => {}
                Standing::Ended => self.repeated(unit),
                // Should that one be lost, this one counts.
                Standing::Storing => again = true,
                Standing::Tried => self.failed(from, &report, cx),
                // Late, from a lost lease: as good as any.
                Standing::Open => {
                    self.expect_content(from, &report, cx);
                    results.push(report);
                }
            }
        }
        if !self.active.is_empty() {
            cx.set_timer_by(Timer::Look, super::LOOK_ON);
        }
        self.bring(Arrived { from, seq, results, entrusted: false, ticket: None, again, taken: vec![] }, cx);
    }

    fn standing(&self, report: &Report, cx: &Cx<'_, Self>) -> Standing {
        if self.is_late(report.unit) {
            return Standing::Late;
        }
        let job = self.jobs.get(&report.unit.job).filter(|job| job.is_active());
        let Some((job, stands)) = job.zip(self.book.unit(report.unit)) else {
            return Standing::Over;
        };
        // Nobody else is made to look into a program that may run nowhere.
        let is_final = report.result.end.is_success()
            || refusal_of(report).is_some()
                && !self.may_run_elsewhere(report.result.runner, report.unit.job, cx);
        let tried = !is_final && u32::from(stands.failures) < job.spec.max_retries;
        match stands.state {
            State::Done | State::Failed => Standing::Ended,
            State::Storing => Standing::Storing,
            _ if tried => Standing::Tried,
            State::Waiting | State::Held | State::Placed | State::Away | State::Elsewhere => Standing::Open,
        }
    }

    /// The unit has ended before.
    fn repeated(&mut self, unit: UnitId) {
        if let Some(job) = self.jobs.get_mut(&unit.job) {
            job.duplicates += 1;
        }
    }

    /// The unit ended badly, and is tried again. Nothing of what it left is needed.
    fn failed(&mut self, from: NodeId, report: &Report, cx: &mut Cx<'_, Self>) {
        let id = report.unit.job;
        if self.book.unit(report.unit).is_some_and(|unit| unit.failed_attempt >= report.attempt) {
            // Each placement fails once.
            return self.repeated(report.unit);
        }
        self.book.retry(report.unit, from, report.attempt);
        let is_placed = self.book.runner(report.unit).is_some();
        if refusal_of(report).is_none() && !is_placed {
            // From where it was, it would only fail again. A later placement goes on.
            self.drop_record(report.unit, cx);
        }
        self.look_at_program(report, cx);
        self.touch(id, cx);
    }

    /// A unit has shown that its program runs, or one more node has refused it.
    fn look_at_program(&mut self, report: &Report, cx: &mut Cx<'_, Self>) {
        match refusal_of(report) {
            Some(why) => self.refused_by(report.result.runner, report.unit.job, why, cx),
            None => self.has_run(report.unit.job, cx),
        }
    }

    /// Whether the sender, which is the result's runner, was granted the unit, and the result is within the
    /// job's bounds.
    pub(super) fn check_report(&self, report: &Report) -> Result<(), Unfit> {
        let UnitId { job: id, index } = report.unit;
        let (grants, template, attempts) = if self.is_late(report.unit) {
            let owned = self.jobs.get(&id).map(|job| &job.spec.template);
            self.delegation.copy_of(report.unit, owned).ok_or(Unfit::Over)?
        } else {
            let job = self.jobs.get(&id).filter(|job| job.is_active()).ok_or(Unfit::Over)?;
            let no_unit = || Unfit::Fault(format!("the job has {} units", self.book.len(id)));
            let stands = self.book.unit(report.unit).ok_or_else(no_unit)?;
            (job.grants(index), &job.spec.template, stands.attempts)
        };
        if !grants.accepts(report.result.runner, report.attempt, report.proof) {
            return Err(Unfit::NotGranted);
        }
        let files = || self.files_of(report.unit);
        check_result(template, files, attempts.max(report.attempt), &report.result)
            .map_err(|why| Unfit::Fault(format!("the result {why}")))
    }

    /// Bytes of the files that the unit was given.
    fn files_of(&self, unit: UnitId) -> u64 {
        let Some(job) = self.jobs.get(&unit.job) else { return 0 };
        let own = job.unit_spec(unit.index).unwrap_or_default().files;
        let all = job.spec.template.files.iter().chain(&own);
        all.map(|file| file.data.len()).fold(0, u64::saturating_add)
    }

    /// A report that is none. If its sender holds the unit, the unit runs elsewhere.
    fn not_a_result(&mut self, from: NodeId, unit: UnitId, why: String, cx: &mut Cx<'_, Self>) {
        cx.fault(from, format!("reported {unit}: {why}"));
        if self.is_placed(unit, from) {
            // The unit is not to blame; the finder leaves its runner alone for a while.
            cx.emit(Event::Declined { node: from });
            self.units_back(from, &[unit], Back::Unharmed, cx);
        }
    }

    /// Results of units that others own, brought by one of those, which repeats them until they are over.
    pub(super) fn take_results(&mut self, from: NodeId, mut results: Vec<Report>, cx: &mut Cx<'_, Self>) {
        let comes = |job: &Job, index| job.coming.get(&index) == Some(&from);
        results.retain(|report| {
            let UnitId { job, index } = report.unit;
            self.jobs.get(&job).is_none_or(|job| !comes(job, index))
        });
        let mut seen = BTreeSet::new();
        results.retain(|report| seen.insert(report.unit));
        let blobs = results.iter().map(|report| report.result.blobs().count()).sum();
        if !results.is_empty() && self.on_the_way(from).has_room_for(blobs) {
            for report in &results {
                self.expect_content(from, report, cx);
            }
            let (seq, again, taken) = (0, false, Vec::new());
            self.bring(Arrived { from, seq, results, entrusted: true, ticket: None, again, taken }, cx);
        }
    }

    /// Whether it is the result of a unit that this node owned once and another owns now.
    fn is_late(&self, unit: UnitId) -> bool {
        self.delegation.has_copy(unit) && self.book.unit(unit).is_none()
    }

    /// The way to this result, unless its runner did it all and no checkpoint is known.
    pub(super) fn journey_of(&self, report: &Report, cx: &Cx<'_, Self>) -> Option<Box<Journey>> {
        let record = self.record(report.unit).or_else(|| self.delegation.copied_record(report.unit));
        if record.is_none() && report.began == 0 {
            return None;
        }
        let UnitResult { runner, fuel, .. } = report.result;
        let mut journey = record.map(|record| record.journey.clone()).unwrap_or_default();
        let platform = nodes::platform(runner, cx.peers);
        journey.ran(runner, platform, report.began, fuel);
        Some(Box::new(journey))
    }

    /// The content of these results is here. Those count whose units are still open; they are written down,
    /// and whoever has such a unit now is too late.
    fn claim_results(&mut self, arrived: &mut Arrived, cx: &mut Cx<'_, Self>) {
        let mut over = Vec::new();
        for mut report in std::mem::take(&mut arrived.results) {
            let unit = report.unit;
            match self.standing(&report, cx) {
                Standing::Late if arrived.entrusted => continue,
                Standing::Late if self.delegation.end(report.unit).is_some() => continue,
                Standing::Late => {}
                Standing::Over => {
                    over.push(report.unit);
                    continue;
                }
                Standing::Ended => {
                    self.repeated(report.unit);
                    over.push(report.unit);
                    continue;
                }
                Standing::Storing => {
                    arrived.again = true;
                    continue;
                }
                Standing::Tried | Standing::Open => {
                    let taken = self.book.store(unit);
                    arrived.taken.extend(taken.into_iter().map(|placement| (unit, placement)));
                    if let Some(stands) = self.book.unit(unit).filter(|_| !arrived.entrusted) {
                        report.result.attempts = stands.attempts;
                    }
                    self.look_at_program(&report, cx);
                    self.touch(unit.job, cx);
                }
            }
            if !arrived.entrusted {
                report.result.journey = self.journey_of(&report, cx);
            }
            self.payments.price(&mut report);
            arrived.results.push(report);
        }
        if arrived.entrusted {
            self.delegate(cx, |it, _| it.tell_over(arrived.from, over));
        }
    }

    pub(super) fn write_results(&mut self, mut arrived: Arrived, cx: &mut Cx<'_, Self>) {
        self.claim_results(&mut arrived, cx);
        if arrived.results.is_empty() {
            return self.acknowledge(&arrived, cx);
        }
        let writes = arrived.results.iter().flat_map(|r| {
            let deal = self.payments.row(r.unit);
            std::iter::once(self.row_of_result(r)).chain(deal)
        });
        let writes = writes.collect();
        let ticket = self.ticket(Pending::Results(arrived));
        cx.emit(Event::Commit { ticket, writes });
    }

    pub(super) fn results_written(
        &mut self,
        arrived: Arrived,
        result: Result<(), disk::Failed>,
        cx: &mut Cx<'_, Self>,
    ) {
        if let Err(error) = result {
            cx.trouble(format!("results could not be written and stay with their runner: {error}"));
            return self.not_written(arrived, &error.0, cx);
        }
        let mut jobs: BTreeSet<JobId> = BTreeSet::new();
        let mut content: BTreeMap<JobId, BTreeSet<BlobRef>> = BTreeMap::new();
        for report in &arrived.results {
            let is_late = self.is_late(report.unit);
            let job = self.jobs.get(&report.unit.job).filter(|job| !is_late && job.is_active());
            let Some(job) = job else {
                match is_late {
                    true => self.delegated_ended(report, cx),
                    // It was over while this was written: no row stays.
                    false => self.write_record(report.unit, cx),
                }
                continue;
            };
            let is_delegated = !job.is_own();
            self.end_unit(report.unit, &report.result);
            self.thread_ended(report.unit, &report.result, cx);
            if is_delegated {
                self.delegated_ended(report, cx);
                self.touch(report.unit.job, cx);
                continue;
            }
            jobs.insert(report.unit.job);
            content.entry(report.unit.job).or_default().extend(report.result.blobs());
            self.delegate(cx, |it, _| it.out_over(arrived.from, report.unit));
            self.payments.settle_result(report.unit, cx.now);
            self.drop_record(report.unit, cx);
            self.fail_move(report.unit, "it ended before it could be moved", cx);
        }
        content.into_iter().for_each(|(id, blobs)| self.keep_content(id, blobs, cx));
        for id in jobs {
            self.jobs.get_mut(&id).into_iter().for_each(|job| job.not_kept = None);
            self.touch(id, cx);
            if self.first_has_ended(id) || self.book.units(id).is_some_and(Units::all_ended) {
                self.finish(id, false, cx);
            }
            self.buy_later(id, cx);
        }
        self.acknowledge(&arrived, cx);
    }

    fn acknowledge(&mut self, arrived: &Arrived, cx: &mut Cx<'_, Self>) {
        if let Some(ticket) = arrived.ticket {
            cx.emit(Event::ReleasePassing { ticket });
        }
        if arrived.entrusted {
            let units = arrived.results.iter().map(|report| report.unit).collect();
            return self.delegate(cx, |it, _| it.tell_over(arrived.from, units));
        }
        if let Some(held) = self.leases.get_mut(&arrived.from) {
            held.reports.remove(&arrived.seq);
        }
        let seq = arrived.seq;
        let answer = if arrived.again { ToRunner::NotWritten { seq } } else { ToRunner::Ack { seq } };
        Self::to_runner(arrived.from, answer, cx);
    }

    /// The units are again as if nothing had come; their runners keep the results and repeat them, and if one is
    /// gone its units run elsewhere.
    fn not_written(&mut self, arrived: Arrived, error: &str, cx: &mut Cx<'_, Self>) {
        for report in &arrived.results {
            self.payments.not_priced(report.unit);
            // Back to where it was, which need not be where this result is from.
            let taken = arrived.taken.iter().filter(|(unit, _)| *unit == report.unit).map(|(_, at)| *at);
            let taken: Vec<Placement> = taken.filter(|at| self.leases.contains_key(&at.runner)).collect();
            let UnitId { job, index } = report.unit;
            if self.jobs.get(&job).is_some_and(Job::is_active) {
                let on_ring = self.delegation.origin(job).is_some_and(|ring| ring.is_out(index));
                let nobody = if on_ring { State::Elsewhere } else { State::Waiting };
                for at in &taken {
                    self.lease_of(at.runner, cx);
                }
                self.book.not_stored(report.unit, &taken, nobody);
            }
            self.not_kept(report.unit, error, cx);
        }
        self.again(&arrived, cx);
    }

    pub(super) fn not_kept(&mut self, unit: UnitId, error: &str, cx: &mut Cx<'_, Self>) {
        if let Some(job) = self.jobs.get_mut(&unit.job).filter(|job| job.is_active()) {
            job.not_kept = Some(format!("a result could not be kept: {error}"));
            self.touch(unit.job, cx);
        }
    }

    /// The report is to come again.
    pub(super) fn again(&mut self, arrived: &Arrived, cx: &mut Cx<'_, Self>) {
        if let Some(ticket) = arrived.ticket {
            cx.emit(Event::ReleasePassing { ticket });
        }
        if let Some(held) = self.leases.get_mut(&arrived.from) {
            held.reports.remove(&arrived.seq);
        }
        if !arrived.entrusted {
            Self::to_runner(arrived.from, ToRunner::NotWritten { seq: arrived.seq }, cx);
        }
    }

    pub(super) fn admit(&mut self, from: NodeId, seq: u64, reports: &[Report]) -> Admission {
        if self.leases.get(&from).is_some_and(|held| held.reports.contains(&seq)) {
            return Admission::Repeated;
        }
        let blobs = reports.iter().map(|report| report.result.blobs().count()).sum();
        let held = self.leases.get(&from).map(|held| held.reports.len());
        let has_room = match held {
            // All that are on their way are known without a look.
            Some(reports) if blobs == 0 => reports < REPORTS_MAX,
            _ => self.on_the_way(from).has_room_for(blobs),
        };
        if !self.is_ready() || !has_room {
            return Admission::NoRoom;
        }
        // Late results need no lease.
        if let Some(held) = self.leases.get_mut(&from) {
            held.reports.insert(seq);
        }
        Admission::Given
    }

    pub(super) fn on_the_way(&self, from: NodeId) -> OnTheWay {
        let mut on_the_way = OnTheWay::default();
        for pending in self.pending.values() {
            match pending {
                Pending::ResultBlobs(arrived) if arrived.from == from => {
                    let blobs = arrived.results.iter().map(|report| report.result.blobs().count());
                    on_the_way.blobs += blobs.sum::<usize>();
                    on_the_way.reports += 1;
                }
                Pending::Results(arrived) if arrived.from == from => on_the_way.reports += 1,
                _ => {}
            }
        }
        on_the_way
    }

    pub(super) fn bring(&mut self, arrived: Arrived, cx: &mut Cx<'_, Self>) {
        let from = arrived.from;
        let blobs: BTreeSet<BlobRef> = arrived.results.iter().flat_map(|r| r.result.blobs()).collect();
        if blobs.is_empty() {
            self.write_results(arrived, cx);
        } else {
            let ticket = self.ticket(Pending::ResultBlobs(arrived));
            // It stays only if the result comes to count: of a report that names ten blobs and lacks the last,
            // none does.
            let blobs = blobs.into_iter().collect();
            cx.emit(Event::FetchPassing { ticket, blobs, from: vec![from] });
        }
    }

    /// The unit's content is on its way. A unit that nobody runs waits for that, once for each attempt and not
    /// for long: whoever sends nothing must not keep it from others.
    pub(super) fn expect_content(&mut self, from: NodeId, report: &Report, cx: &mut Cx<'_, Self>) {
        let mut bytes = report.result.blobs().map(|blob| blob.len).peekable();
        let UnitId { job: id, index } = report.unit;
        let Some(job) = self.jobs.get_mut(&id).filter(|_| bytes.peek().is_some()) else { return };
        job.coming.insert(index, from);
        let idle = matches!(self.book.state(report.unit), Some(State::Waiting | State::Away));
        if idle && self.book.awaited(report.unit, report.attempt) {
            let bytes = bytes.fold(0, u64::saturating_add);
            let time = self.config.timing.lease + on_a_slow_line(bytes);
            self.wait_for_content(report.unit, time.min(CONTENT), cx);
            self.touch(id, cx);
        }
    }

    pub(super) fn result_blobs(
        &mut self,
        mut arrived: Arrived,
        ticket: u64,
        result: Result<(), NotFetched>,
        cx: &mut Cx<'_, Self>,
    ) {
        arrived.ticket = Some(ticket);
        for report in &arrived.results {
            self.content_over(arrived.from, report.unit);
        }
        match result {
            Ok(()) => self.write_results(arrived, cx),
            Err(error) => self.without_content(arrived, &error, cx),
        }
    }

    /// The content of these results is not all to be had. Units whose content has failed to come several times run
    /// elsewhere, and the other results count without theirs.
    fn without_content(&mut self, mut arrived: Arrived, error: &NotFetched, cx: &mut Cx<'_, Self>) {
        let from = arrived.from;
        let why = error.to_string();
        arrived.results.iter().for_each(|report| self.not_kept(report.unit, &why, cx));
        if arrived.entrusted {
            return self.again(&arrived, cx);
        }
        let lacks = |report: &&Report| report.result.blobs().any(|blob| blob.id == error.blob);
        // Two attempts of one unit count once.
        let lacking: BTreeSet<UnitId> =
            arrived.results.iter().filter(lacks).map(|report| report.unit).collect();
        // Others may have said that they have it, too, so that one refusal need not be the runner's. Nobody waits for
        // a unit that runs elsewhere by now.
        let elsewhere = |unit: &UnitId| !matches!(self.state_of(*unit), Some(State::Waiting | State::Away));
        let elsewhere: BTreeSet<UnitId> = lacking.iter().copied().filter(elsewhere).collect();
        let book = &mut self.book;
        let mut is_given_up = |unit: &UnitId| {
            if matches!(error.why, FetchError::NotStored(_)) {
                return false;
            }
            let times = book.content_failed(*unit, from);
            times >= UNSENT_MAX || (times == 0 && !error.is_no_answer() && elsewhere.contains(unit))
        };
        let given_up: BTreeSet<UnitId> = lacking.into_iter().filter(|unit| is_given_up(unit)).collect();
        if given_up.is_empty() {
            return self.again(&arrived, cx);
        }
        arrived.results.retain(|report| !given_up.contains(&report.unit));
        self.not_sent(from, given_up.into_iter().collect(), &why, cx);
        self.bring(arrived, cx);
    }

    /// The runner does not send what these units left: they run elsewhere.
    fn not_sent(&mut self, from: NodeId, units: Vec<UnitId>, why: &str, cx: &mut Cx<'_, Self>) {
        let units: Vec<UnitId> = units.into_iter().filter(|unit| self.is_placed(*unit, from)).collect();
        if units.is_empty() {
            return;
        }
        let why = format!("{} does not send what a unit left: {why}", from.short());
        cx.emit(Event::Declined { node: from });
        for unit in &units {
            if let Some(job) = self.jobs.get_mut(&unit.job) {
                job.avoided.failed(from, &why, cx.now);
                job.shortage = Some(why.clone());
            }
            self.fail_move(*unit, &why, cx);
        }
        self.units_back(from, &units, Back::Failed(&why), cx);
    }

    /// The content that `from` was to send of the unit is here, or does not come.
    fn content_over(&mut self, from: NodeId, unit: UnitId) {
        if let Some(job) = self.jobs.get_mut(&unit.job)
            && job.coming.get(&unit.index) == Some(&from)
        {
            job.coming.remove(&unit.index);
        }
    }

    /// The ticket is released when the job is forgotten, where that matters.
    pub(super) fn note_ticket(&mut self, id: JobId, ticket: u64) {
        if let Some(job) = self.jobs.get_mut(&id).filter(|_| self.config.pins) {
            job.kept.push(ticket);
        }
    }

    /// A job's results refer to these, which came on the way: they stay.
    pub(super) fn keep_content(&mut self, id: JobId, blobs: BTreeSet<BlobRef>, cx: &mut Cx<'_, Self>) {
        if !blobs.is_empty() {
            let ticket = self.ticket(Pending::Kept);
            self.note_ticket(id, ticket);
            cx.emit(Event::Fetch { ticket, blobs: blobs.into_iter().collect(), from: cx.me });
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
}
