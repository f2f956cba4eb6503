//! Results on their way to one owner: those that wait, and reports under way.
//!
//! Several reports may be under way, and those whose content has to be fetched travel apart from
//! the others, so that a blob that takes long holds up nothing. The owner acknowledges each report
//! by its number.

use super::outbox::{REPORT_BYTES, size_of};
use crate::ids::UnitId;
use crate::time::{Time, on_a_slow_line};
use crate::work::message::Report;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Reports under way to one owner. Our choice: half of what an owner takes of a runner, and 2 MiB.
const REPORTS_MAX: usize = 4;

/// Reports with blobs among them: one place is left to reports that the owner can write down at once.
const WITH_BLOBS_MAX: usize = 3;

/// A report is repeated after so many usual pauses. On a living connection nothing is lost but
/// what an owner cannot take, and it says so. Our choice: longer than content in front of the
/// answer takes on a slow line.
const PATIENCE: u32 = 3;

/// Finished units that are not acknowledged.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// Not sent yet: those without blobs, and those with some.
    plain: Waiting,
    with_blobs: Waiting,
    /// The last report had blobs: they take turns.
    had_blobs: bool,
    /// Sent, by number.
    sent: BTreeMap<u64, Sent>,
    /// Results in those, and their bytes.
    sent_results: usize,
    sent_bytes: usize,
    /// Bytes of the blobs that the owner fetches for them.
    sent_content: u64,
    /// Number of the last report.
    seq: u64,
    /// When it was made up.
    reported: Time,
}

/// Results in the order of their ends.
#[derive(Debug, Default)]
struct Waiting {
    results: VecDeque<Report>,
    /// About.
    bytes: usize,
}

impl Waiting {
    fn push(&mut self, report: Report) {
        self.bytes += size_of(&report);
        self.results.push_back(report);
    }

    /// As many as fit a report, one at least, and their bytes.
    fn take(&mut self) -> (Vec<Report>, usize) {
        let (mut results, mut bytes) = (Vec::new(), 0);
        while let Some(next) = self.results.front() {
            let size = size_of(next);
            if !results.is_empty() && bytes + size > REPORT_BYTES {
                break;
            }
            bytes += size;
            results.extend(self.results.pop_front());
        }
        self.bytes -= bytes;
        (results, bytes)
    }
}

#[derive(Debug)]
struct Sent {
    results: Vec<Report>,
    bytes: usize,
    /// Bytes of its blobs.
    content: u64,
    has_blobs: bool,
    /// When it is sent again if there is no answer.
    due: Time,
    /// Times that it was sent again.
    repeated: u32,
    /// The owner could not write it down: it is repeated later, and holds up nothing meanwhile.
    refused: bool,
}

impl Outbox {
    /// All results, sent or not.
    pub(super) fn len(&self) -> usize {
        self.waiting() + self.sent_results
    }

    pub(super) fn waiting(&self) -> usize {
        self.plain.results.len() + self.with_blobs.results.len()
    }

    /// Bytes of all results, about.
    pub(super) fn bytes(&self) -> usize {
        self.plain.bytes + self.with_blobs.bytes + self.sent_bytes
    }

    /// Whether the waiting results fill a report.
    pub(super) fn fills_a_report(&self) -> bool {
        self.next_waiting().is_some_and(|waiting| waiting.bytes >= REPORT_BYTES)
    }

    pub(super) fn reported(&self) -> Time {
        self.reported
    }

    /// Reports for whose answer the owner is waited.
    pub(super) fn under_way(&self) -> usize {
        self.sent.values().filter(|sent| !sent.refused).count()
    }

    /// Whether the next report has blobs; `None` if there is nothing to send, or no room for it.
    fn next_has_blobs(&self) -> Option<bool> {
        let under_way = self.sent.values().filter(|sent| !sent.refused);
        let (with_blobs, all) =
            under_way.fold((0, 0), |(b, n), sent| (b + usize::from(sent.has_blobs), n + 1));
        let plain = !self.plain.results.is_empty();
        let blobs = !self.with_blobs.results.is_empty() && with_blobs < WITH_BLOBS_MAX;
        (all < REPORTS_MAX && (plain || blobs)).then_some(blobs && !(plain && self.had_blobs))
    }

    fn next_waiting(&self) -> Option<&Waiting> {
        self.next_has_blobs().map(|blobs| if blobs { &self.with_blobs } else { &self.plain })
    }

    pub(super) fn may_send(&self) -> bool {
        self.next_has_blobs().is_some()
    }

    pub(super) fn push(&mut self, report: Report) {
        let has_blobs = report.result.blobs().next().is_some();
        if has_blobs { &mut self.with_blobs } else { &mut self.plain }.push(report);
    }

    pub(super) fn extend(&mut self, reports: Vec<Report>) {
        reports.into_iter().for_each(|report| self.push(report));
    }

    /// Makes up the next report: as many results as fit, one at least.
    pub(super) fn next_report(&mut self, now: Time, retry: Duration) -> (u64, Vec<Report>) {
        let has_blobs = self.next_has_blobs().unwrap_or_default();
        let (results, bytes) = if has_blobs { self.with_blobs.take() } else { self.plain.take() };
        self.had_blobs = has_blobs;
        self.sent_bytes += bytes;
        self.sent_results += results.len();
        let content = results.iter().flat_map(|report| report.result.blobs()).map(|blob| blob.len).sum();
        self.sent_content += content;
        self.seq += 1;
        self.reported = now;
        let due = now + self.patience(retry);
        let sent =
            Sent { results: results.clone(), bytes, content, has_blobs, due, repeated: 0, refused: false };
        self.sent.insert(self.seq, sent);
        (self.seq, results)
    }

    /// The units of a report that is durable at the owner; they are forgotten here.
    pub(super) fn acknowledged(&mut self, seq: u64) -> Vec<UnitId> {
        self.take(seq).into_iter().map(|report| report.unit).collect()
    }

    /// The owner could not write down the report.
    pub(super) fn refused(&mut self, seq: u64, again: Time) {
        if let Some(sent) = self.sent.get_mut(&seq) {
            (sent.refused, sent.due) = (true, again);
        }
    }

    /// The connection was cut, and what was on it is lost.
    pub(super) fn lost(&mut self, now: Time) {
        self.sent.values_mut().for_each(|sent| (sent.due, sent.repeated) = (now, 0));
    }

    /// How long an answer may take with all that is under way, blobs included.
    fn patience(&self, retry: Duration) -> Duration {
        retry * PATIENCE + on_a_slow_line(self.sent_bytes as u64 + self.sent_content)
    }

    /// Reports that were not answered in time, to be sent again.
    pub(super) fn overdue(&mut self, now: Time, retry: Duration) -> Vec<(u64, Vec<Report>)> {
        let patience = self.patience(retry);
        let mut room = REPORTS_MAX.saturating_sub(self.under_way());
        let mut again = Vec::new();
        for (seq, sent) in self.sent.iter_mut().filter(|(_, sent)| now >= sent.due) {
            if sent.refused {
                if room == 0 {
                    continue;
                }
                room -= 1;
            }
            sent.refused = false;
            sent.repeated += 1;
            // Twice as long each time, eight times at most.
            sent.due = now + patience * (1 << sent.repeated.min(3));
            again.push((*seq, sent.results.clone()));
        }
        again
    }

    /// When the first report is overdue; `None` if none was sent.
    pub(super) fn next_overdue(&self) -> Option<Time> {
        self.sent.values().map(|sent| sent.due).min()
    }

    /// Takes the results of one unit out. What was under way is sent anew, without it.
    pub(super) fn remove(&mut self, unit: UnitId) -> Vec<Report> {
        let sent: Vec<u64> = self.sent.keys().copied().collect();
        let mut all: Vec<Report> = sent.into_iter().flat_map(|seq| self.take(seq)).collect();
        all.extend(std::mem::take(&mut self.plain).results);
        all.extend(std::mem::take(&mut self.with_blobs).results);
        let (its, rest): (Vec<Report>, Vec<Report>) = all.into_iter().partition(|report| report.unit == unit);
        self.extend(rest);
        its
    }

    fn take(&mut self, seq: u64) -> Vec<Report> {
        let Some(sent) = self.sent.remove(&seq) else { return Vec::new() };
        self.sent_results -= sent.results.len();
        self.sent_bytes -= sent.bytes;
        self.sent_content -= sent.content;
        sent.results
    }
}
