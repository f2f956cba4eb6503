//! Content of results on its way: how much of one node, how long a unit waits for it, and what happens when it does
//! not come.

use super::results::Arrived;
use super::{Event, Owner, Pending};
use crate::content::{BlobRef, FetchError, NotFetched};
use crate::ids::{NodeId, UnitId};
use crate::protocol::Cx;
use crate::time::on_a_slow_line;
use crate::work::book::{Back, State};
use crate::work::message::Report;
use crate::work::spec::UnitResult;
use std::collections::BTreeSet;
use std::time::Duration;

/// Reports of one runner that may be on their way to the disk at once.
const REPORTS_MAX: usize = 8;

/// Blobs of one runner's results on their way at a time, those of one report always. Our choice: four units with as
/// many files as there may be; 6 MB of a store's tables.
const BLOBS_MAX: usize = 8_000;

/// The content of a unit's result may fail to come so often before the unit runs elsewhere. Our choice: a line that
/// was cut twice.
const UNSENT_MAX: u8 = 3;

/// A unit that nobody runs waits so long at most for a result whose content is on its way. Our choice: an output of
/// 8 MiB on the slowest line.
const CONTENT: Duration = Duration::from_secs(120);

/// Reports of one node that are on their way, and blobs of their results.
#[derive(Default)]
pub(super) struct OnTheWay {
    reports: usize,
    blobs: usize,
}

impl OnTheWay {
    /// Whether there is room for one more report, with so many blobs.
    pub(super) fn has_room_for(&self, blobs: usize) -> bool {
        let none = blobs == 0 || self.blobs == 0;
        self.reports < REPORTS_MAX && (none || self.blobs + blobs <= BLOBS_MAX)
    }
}

/// Whether a report is looked into.
pub(super) enum Admission {
    Given,
    /// It is on its way to the disk already.
    Repeated,
    /// It may come again later.
    NoRoom,
}

impl Owner {
    pub(super) fn admit(&mut self, from: NodeId, seq: u64, reports: &[Report]) -> Admission {
        if self.leases.get(&from).is_some_and(|held| held.reports.contains(&seq)) {
            return Admission::Repeated;
        }
        let blobs = reports.iter().map(|report| blobs_of(&report.result).count()).sum();
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
                    let blobs = arrived.results.iter().map(|report| blobs_of(&report.result).count());
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
        let blobs: BTreeSet<BlobRef> = arrived.results.iter().flat_map(|r| blobs_of(&r.result)).collect();
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
        let mut bytes = blobs_of(&report.result).map(|blob| blob.len).peekable();
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
        let lacks = |report: &&Report| blobs_of(&report.result).any(|blob| blob.id == error.blob);
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

    /// A job's results refer to these, which came on the way: they stay.
    pub(super) fn keep_content(&mut self, blobs: BTreeSet<BlobRef>, cx: &mut Cx<'_, Self>) {
        if !blobs.is_empty() {
            let ticket = self.ticket(Pending::Kept);
            cx.emit(Event::Fetch { ticket, blobs: blobs.into_iter().collect(), from: cx.me });
        }
    }
}

pub(super) fn blobs_of(result: &UnitResult) -> impl Iterator<Item = BlobRef> + '_ {
    [&result.stdout, &result.stderr]
        .into_iter()
        .chain(result.files.iter().map(|f| &f.data))
        .filter_map(|d| d.blob())
}
