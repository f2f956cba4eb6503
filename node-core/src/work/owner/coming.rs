//! Reports on their way to the disk: how many of one node, and how each of their results stands.

use crate::ids::{NodeId, UnitId};
use crate::work::book::Placement;
use crate::work::message::Report;
use sandbox::End;

/// Reports of one runner that may be on their way to the disk at once.
pub(super) const REPORTS_MAX: usize = 8;

/// Blobs of one runner's results on their way at a time, those of one report always. Our choice: four units with as
/// many files as there may be; 6 MB of a store's tables.
const BLOBS_MAX: usize = 8_000;

/// Reports of one node that are on their way, and blobs of their results.
#[derive(Default)]
pub(super) struct OnTheWay {
    pub(super) reports: usize,
    pub(super) blobs: usize,
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

/// A report that has been looked through.
#[derive(Debug)]
pub(super) struct Arrived {
    pub(super) from: NodeId,
    pub(super) seq: u64,
    /// Results that may count; once their content is here, those that do.
    pub(super) results: Vec<Report>,
    /// From who owned them on the ring, and not from their runner.
    pub(super) entrusted: bool,
    /// Under which their content is here until it is known whether it is to stay.
    pub(super) ticket: Option<u64>,
    /// Another result of one of its units is being written down: the report has to come again.
    pub(super) again: bool,
    /// Units that are being written down, and who had them under a lease.
    pub(super) taken: Vec<(UnitId, Placement)>,
}

/// How the unit of a proven result stands.
pub(super) enum Standing {
    /// Another node owns it, and this one has a copy.
    Late,
    /// It is over, or not this node's any more.
    Over,
    Ended,
    /// Another result of it is being written down.
    Storing,
    /// It failed, and is tried again.
    Tried,
    Open,
}

/// Why a report does not count.
pub(super) enum Unfit {
    /// The unit is not this node's any more.
    Over,
    /// Its runner has no proof that it was granted the unit.
    NotGranted,
    Fault(String),
}

impl Unfit {
    /// The fault in words; `None` if it is none.
    pub(super) fn fault(self) -> Option<String> {
        match self {
            Unfit::Over => None,
            Unfit::NotGranted => Some("it was not granted the unit".into()),
            Unfit::Fault(why) => Some(why),
        }
    }
}

/// Why its runner refused the program, if it did.
pub(super) fn refusal_of(report: &Report) -> Option<&str> {
    match &report.result.end {
        End::Refused(why) => Some(why),
        _ => None,
    }
}
