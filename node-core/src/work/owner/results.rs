//! Results come in: proven, checked, fetched whole, made durable, counted once, acknowledged.

use super::job::{Back, SlotState};
use super::{Event, Owner, Pending, Timer};
use crate::content::BlobRef;
use crate::ids::{JobId, NodeId, UnitId};
use crate::money::Micro;
use crate::platform::Platform;
use crate::progress::Journey;
use crate::protocol::Cx;
use crate::work::bounds::check_result;
use crate::work::message::{Report, ToRunner};
use crate::work::spec::UnitResult;

use sandbox::End;
use std::collections::BTreeSet;

/// Reports of one runner that may be on their way to the disk at once.
const REPORTS_MAX: usize = 8;

/// A report that has been looked through.
#[derive(Debug)]
pub(super) struct Arrived {
    from: NodeId,
    seq: u64,
    /// Those that count.
    results: Vec<Report>,
    /// From who owned them on the ring, and not from their runner.
    entrusted: bool,
    /// Under which their outputs came.
    ticket: Option<u64>,
    /// Another result of one of its units is being stored: the report has to come again.
    again: bool,
}

/// Why a report does not count.
pub(super) enum Unfit {
    /// The unit is not this node's any more.
    Over,
    Fault(String),
}

impl Owner {
    pub(super) fn report(&mut self, from: NodeId, seq: u64, reports: Vec<Report>, cx: &mut Cx<'_, Self>) {
        if !self.is_ready() {
            return Self::to_runner(from, ToRunner::NotWritten { seq }, cx);
        }
        if let Some(held) = self.leases.get_mut(&from) {
            if held.reports.len() >= REPORTS_MAX && !held.reports.contains(&seq) {
                return Self::to_runner(from, ToRunner::NotWritten { seq }, cx);
            }
            if !held.reports.insert(seq) {
                // On its way already.
                return;
            }
        }
        // Late results need no lease.
        if !self.leases.contains_key(&from) && self.on_their_way(from) >= REPORTS_MAX {
            return Self::to_runner(from, ToRunner::NotWritten { seq }, cx);
        }
        let mut results = Vec::with_capacity(reports.len());
        let (mut again, mut late) = (false, BTreeSet::new());
        for mut report in reports {
            let UnitId { job: id, index } = report.unit;
            // No runner knows these of its unit.
            (report.result.runner, report.result.journey, report.result.paid) = (from, None, Micro::ZERO);
            match self.check_report(&report) {
                Ok(()) => {}
                Err(Unfit::Over) => continue,
                Err(Unfit::Fault(fault)) => {
                    self.not_a_result(from, report.unit, fault, cx);
                    continue;
                }
            }
            if self.is_late(report.unit) {
                if late.insert(report.unit) {
                    report.result.journey = self.journey_of(&report);
                    results.push(report);
                }
                continue;
            }
            let may_run_elsewhere = self.may_run_elsewhere(from, id);
            let Some(job) = self.jobs.get_mut(&id) else { continue };
            let Some(slot) = job.slot(index) else { continue };
            if slot.state == SlotState::Storing {
                // Should that one be lost, this one counts.
                again = true;
                continue;
            }
            if let Some(held) = self.leases.get_mut(&from) {
                held.remove(report.unit);
            }
            match slot.state {
                SlotState::Done | SlotState::Failed | SlotState::Storing => {
                    job.duplicates += 1;
                    continue;
                }
                // Late, from a lost lease: as good as any. Whoever has it now is too late.
                SlotState::Waiting
                | SlotState::Held
                | SlotState::Placed
                | SlotState::Away
                | SlotState::Elsewhere => {}
            }
            let refused = match &report.result.end {
                End::Refused(why) => Some(why.clone()),
                _ => None,
            };
            // Nobody else is made to look into a program that may run nowhere.
            let is_final = report.result.end.is_success() || refused.is_some() && !may_run_elsewhere;
            if !is_final && u32::from(slot.failures) < job.spec.max_retries {
                if slot.failed_attempt >= report.attempt {
                    // Each placement fails once.
                    job.duplicates += 1;
                    continue;
                }
                self.drop_placement(report.unit);
                if let Some(job) = self.jobs.get_mut(&id) {
                    job.retry(index, report.attempt);
                }
                match &refused {
                    Some(why) => self.refused_by(from, id, why, cx),
                    None => {
                        // From where it was, it would only fail again.
                        self.drop_record(report.unit, cx);
                        self.has_run(id, cx);
                    }
                }
                self.touch(id, cx);
                continue;
            }
            job.storing(index);
            self.drop_placement(report.unit);
            match &refused {
                Some(why) => self.refused_by(from, id, why, cx),
                None => self.has_run(id, cx),
            }
            report.result.attempts = slot.attempts;
            report.result.journey = self.journey_of(&report);
            self.price(&mut report);
            results.push(report);
            self.touch(id, cx);
        }
        if !self.active.is_empty() {
            cx.set_timer_by(Timer::Look, super::LOOK_ON);
        }
        self.bring(Arrived { from, seq, results, entrusted: false, ticket: None, again }, cx);
    }

    fn on_their_way(&self, from: NodeId) -> usize {
        let of = |pending: &&Pending| match pending {
            Pending::ResultBlobs(arrived) | Pending::Results(arrived) => arrived.from == from,
            _ => false,
        };
        self.pending.values().filter(of).count()
    }

    /// Whether the sender, which is the result's runner, was granted the unit, and the result is within the
    /// job's bounds.
    pub(super) fn check_report(&self, report: &Report) -> Result<(), Unfit> {
        let UnitId { job: id, index } = report.unit;
        let (grants, template, attempts) = if self.is_late(report.unit) {
            self.copy_of(report.unit).ok_or(Unfit::Over)?
        } else {
            let job = self.jobs.get(&id).filter(|job| job.is_active()).ok_or(Unfit::Over)?;
            let slot = job.slot(index);
            let slot = slot.ok_or_else(|| Unfit::Fault(format!("the job has {} units", job.units())))?;
            (job.grants(index), &job.spec.template, slot.attempts)
        };
        if !grants.accepts(report.result.runner, report.attempt, report.proof) {
            return Err(Unfit::Fault("it was not granted the unit".into()));
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

    /// Results of units that others own, brought by one of those.
    pub(super) fn take_results(&mut self, from: NodeId, results: Vec<Report>, cx: &mut Cx<'_, Self>) {
        if !results.is_empty() {
            self.bring(Arrived { from, seq: 0, results, entrusted: true, ticket: None, again: false }, cx);
        }
    }

    fn bring(&mut self, arrived: Arrived, cx: &mut Cx<'_, Self>) {
        let from = arrived.from;
        let blobs: BTreeSet<BlobRef> = arrived.results.iter().flat_map(|r| blobs_of(&r.result)).collect();
        if blobs.is_empty() {
            self.write_results(arrived, cx);
        } else {
            let ticket = self.ticket(Pending::ResultBlobs(arrived));
            cx.emit(Event::Fetch { ticket, blobs: blobs.into_iter().collect(), from });
        }
    }

    /// Whether it is the result of a unit that this node owned once and another owns now.
    fn is_late(&self, unit: UnitId) -> bool {
        self.has_copy(unit) && self.jobs.get(&unit.job).is_none_or(|job| job.slot(unit.index).is_none())
    }

    /// The way to this result, unless its runner did it all and no checkpoint is known.
    pub(super) fn journey_of(&self, report: &Report) -> Option<Box<Journey>> {
        let record = self.record(report.unit).or_else(|| self.copied_record(report.unit));
        if record.is_none() && report.began == 0 {
            return None;
        }
        let UnitResult { runner, fuel, .. } = report.result;
        let mut journey = record.map(|record| record.journey.clone()).unwrap_or_default();
        let platform = self.nodes.get(&runner).map_or(Platform::Native, |peer| peer.platform);
        journey.ran(runner, platform, report.began, fuel);
        Some(Box::new(journey))
    }

    /// Takes the unit out of whichever lease it is under.
    pub(super) fn drop_placement(&mut self, unit: UnitId) {
        let Some(runner) = self.jobs.get(&unit.job).and_then(|job| job.runner_of(unit.index)) else { return };
        if let Some(held) = self.leases.get_mut(&runner) {
            held.remove(unit);
        }
    }

    pub(super) fn result_blobs(
        &mut self,
        mut arrived: Arrived,
        ticket: u64,
        result: Result<(), String>,
        cx: &mut Cx<'_, Self>,
    ) {
        // A gateway keeps what its results refer to; others only on the way.
        arrived.ticket = (!self.config.gateway).then_some(ticket);
        match result {
            Ok(()) => self.write_results(arrived, cx),
            Err(error) => self.not_written(arrived, &error, cx),
        }
    }

    fn write_results(&mut self, arrived: Arrived, cx: &mut Cx<'_, Self>) {
        if arrived.results.is_empty() {
            return self.acknowledge(&arrived, cx);
        }
        let writes = arrived.results.iter().flat_map(|r| {
            let deal = self.deal_write(r.unit);
            std::iter::once(self.row_of_result(r)).chain(deal)
        });
        let writes = writes.collect();
        let ticket = self.ticket(Pending::Results(arrived));
        cx.emit(Event::Commit { ticket, writes });
    }

    pub(super) fn results_written(
        &mut self,
        arrived: Arrived,
        result: Result<(), String>,
        cx: &mut Cx<'_, Self>,
    ) {
        if let Err(error) = result {
            cx.trouble(format!("results could not be written and stay with their runner: {error}"));
            return self.not_written(arrived, &error, cx);
        }
        let mut jobs: BTreeSet<JobId> = BTreeSet::new();
        for report in &arrived.results {
            let is_late = self.is_late(report.unit);
            let job = self.jobs.get_mut(&report.unit.job).filter(|job| !is_late && job.is_active());
            let Some(job) = job else {
                match is_late {
                    true => self.ward_ended(report, cx),
                    // It was over while this was written: no row stays.
                    false => self.write_record(report.unit, cx),
                }
                continue;
            };
            job.end(report.unit.index, &report.result);
            if job.ward.is_some() {
                self.ward_ended(report, cx);
                self.touch(report.unit.job, cx);
                continue;
            }
            jobs.insert(report.unit.job);
            self.out_over(arrived.from, report.unit, cx);
            self.settle_result(report.unit, cx);
            self.drop_record(report.unit, cx);
            self.fail_move(report.unit, "it ended before it could be moved", cx);
        }
        for id in jobs {
            self.touch(id, cx);
            if self.jobs.get(&id).is_some_and(|job| job.all_ended()) {
                self.finish(id, false, cx);
            }
        }
        self.acknowledge(&arrived, cx);
    }

    fn acknowledge(&mut self, arrived: &Arrived, cx: &mut Cx<'_, Self>) {
        if let Some(ticket) = arrived.ticket {
            cx.emit(Event::Release { ticket });
        }
        if arrived.entrusted {
            let units = arrived.results.iter().map(|report| report.unit).collect();
            return self.tell_over(arrived.from, units, cx);
        }
        if let Some(held) = self.leases.get_mut(&arrived.from) {
            held.reports.remove(&arrived.seq);
        }
        let seq = arrived.seq;
        let answer = if arrived.again { ToRunner::NotWritten { seq } } else { ToRunner::Ack { seq } };
        Self::to_runner(arrived.from, answer, cx);
    }

    /// The units are again as if nothing had come; their runner keeps the results and repeats
    /// them, and if it is gone they run elsewhere.
    fn not_written(&mut self, arrived: Arrived, error: &str, cx: &mut Cx<'_, Self>) {
        if let Some(ticket) = arrived.ticket {
            cx.emit(Event::Release { ticket });
        }
        for report in arrived.results {
            self.not_priced(report.unit);
            let leased =
                !arrived.entrusted && !self.is_late(report.unit) && self.leases.contains_key(&arrived.from);
            if leased {
                self.lease_of(arrived.from, cx).add(report.unit);
            }
            let Some(job) = self.jobs.get_mut(&report.unit.job).filter(|job| job.is_active()) else {
                continue;
            };
            job.not_stored(report.unit.index, leased);
            job.shortage = Some(format!("a result could not be kept: {error}"));
            self.touch(report.unit.job, cx);
        }
        if let Some(held) = self.leases.get_mut(&arrived.from) {
            held.reports.remove(&arrived.seq);
        }
        if !arrived.entrusted {
            Self::to_runner(arrived.from, ToRunner::NotWritten { seq: arrived.seq }, cx);
        }
    }
}

pub(super) fn blobs_of(result: &UnitResult) -> impl Iterator<Item = BlobRef> + '_ {
    [&result.stdout, &result.stderr]
        .into_iter()
        .chain(result.files.iter().map(|f| &f.data))
        .filter_map(|d| d.blob())
}
