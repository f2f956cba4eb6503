//! Results of units that ended here, until their origins have written them down.

use super::BYTES;
use crate::address::Address;
use crate::ids::{JobId, NodeId, UnitId};
use crate::time::Time;
use crate::work::message::Report;
use crate::work::rows::encode;
use std::collections::BTreeMap;
use std::time::Duration;

/// Between two tries to bring a result to its origin. Our choice: as runners do.
const AGAIN: Duration = Duration::from_secs(3);

/// An origin that has not taken a result for so long has gone for good. Our choice: a gateway is mended
/// within a week, or never.
const WAIT: Duration = Duration::from_secs(7 * 24 * 3600);

/// How a unit ended.
#[derive(Debug)]
struct Ended {
    report: Report,
    origin: Address,
    since: Time,
    told: Option<Time>,
    /// Its outputs are kept here under this ticket.
    ticket: Option<u64>,
}

/// Results on their way to one origin.
struct Bundle {
    origin: Address,
    size: usize,
    results: Vec<Report>,
}

#[derive(Debug, Default)]
pub(super) struct Ends(BTreeMap<UnitId, Ended>);

impl Ends {
    pub(super) fn contains(&self, unit: UnitId) -> bool {
        self.0.contains_key(&unit)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Results that this runner has brought.
    pub(super) fn of_runner(&self, runner: NodeId) -> usize {
        self.0.values().filter(|ended| ended.report.result.runner == runner).count()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn has_job(&self, job: JobId) -> bool {
        let its = UnitId { job, index: 0 }..=UnitId { job, index: u32::MAX };
        self.0.range(its).next().is_some()
    }

    pub(super) fn get(&self, unit: UnitId) -> Option<&Report> {
        self.0.get(&unit).map(|ended| &ended.report)
    }

    /// Keeps the result until its origin has it. `false` if another came first, which counts.
    pub(super) fn keep(&mut self, report: Report, origin: Address, now: Time) -> bool {
        let is_first = !self.contains(report.unit);
        if is_first {
            self.0.insert(report.unit, Ended { report, origin, since: now, told: None, ticket: None });
        }
        is_first
    }

    /// The result's content is kept under this ticket. `false` if it is not wanted.
    pub(super) fn kept(&mut self, unit: UnitId, ticket: u64) -> bool {
        let ended = self.0.get_mut(&unit);
        ended.map(|ended| ended.ticket = Some(ticket)).is_some()
    }

    /// Its origin asked for the result.
    pub(super) fn tell_again(&mut self, unit: UnitId) -> bool {
        let ended = self.0.get_mut(&unit);
        ended.map(|ended| ended.told = None).is_some()
    }

    /// Nobody needs the result any more. Returns the ticket of its content, if there is any.
    pub(super) fn remove(&mut self, unit: UnitId) -> Option<Option<u64>> {
        self.0.remove(&unit).map(|ended| ended.ticket)
    }

    /// Results whose origins have gone for good.
    pub(super) fn old(&self, now: Time) -> Vec<UnitId> {
        let old = self.0.iter().filter(|(_, ended)| now.since(ended.since) >= WAIT);
        old.map(|(unit, _)| *unit).collect()
    }

    /// Results to be told now: to whom, and which.
    pub(super) fn due(&mut self, now: Time) -> Vec<(Address, Vec<Report>)> {
        let mut by_origin: BTreeMap<NodeId, Bundle> = BTreeMap::new();
        for ended in self.0.values_mut() {
            let is_old = now.since(ended.since) >= WAIT;
            if is_old || ended.told.is_some_and(|told| now.since(told) < AGAIN) {
                continue;
            }
            let bundle = by_origin.entry(ended.origin.id);
            let bundle =
                bundle.or_insert_with(|| Bundle { origin: ended.origin, size: 0, results: Vec::new() });
            if bundle.size < BYTES {
                ended.told = Some(now);
                bundle.size += encode(&ended.report).len();
                bundle.results.push(ended.report.clone());
            }
        }
        by_origin.into_values().map(|bundle| (bundle.origin, bundle.results)).collect()
    }
}
