//! A node at which units of different programs fail, by no fault of theirs, rests: its owners would only
//! place the same units again and again, and hold them in the end.
//!
//! One program that fails here says nothing against the node: its owner avoids the node for that job, and
//! units of other programs run as before.

use super::{Runner, Timer};
use crate::backoff::Pauses;
use crate::ids::{BlobId, UnitId};
use crate::protocol::Cx;
use crate::work::message::Cause;
use std::collections::BTreeSet;
use std::time::Duration;

/// Different programs that fail, without a unit that ran well between them, before the node rests. Our
/// choice: a broken node meets them soon, and a donor seldom has so many bad programs in a row.
const FAILURES: usize = 4;

/// Rests without a good unit between. Our choice: time to free some memory or disk; an hour at last, as for a donor
/// who sees to it tomorrow.
const RESTS: Pauses = Pauses { first: Duration::from_secs(30), longest: Duration::from_secs(3600) };

#[derive(Debug, Default)]
pub(super) struct Rest {
    /// Programs whose units failed since one ran well or the last rest began; fewer than [`FAILURES`].
    failed: BTreeSet<BlobId>,
    rests: u32,
    resting: bool,
}

impl Rest {
    /// A unit ran to its end, whatever end.
    pub(super) fn ran_well(&mut self) {
        self.failed.clear();
        self.rests = 0;
    }
}

impl Runner {
    /// The program of a unit that is here.
    pub(super) fn program_of(&self, unit: UnitId) -> Option<BlobId> {
        self.jobs.get(&unit.job).map(|job| job.template.program.id)
    }

    /// A unit of `program` failed, and the unit is not to blame.
    pub(super) fn failed_here(&mut self, program: Option<BlobId>, why: &str, cx: &mut Cx<'_, Self>) {
        self.rest.failed.extend(program);
        let count = self.rest.failed.len();
        if count < FAILURES || self.rest.resting {
            return;
        }
        self.rest.failed.clear();
        self.rest.rests = self.rest.rests.saturating_add(1);
        let pause = RESTS.after(self.rest.rests);
        self.rest.resting = true;
        cx.set_timer(Timer::Rest, pause);
        cx.trouble(format!(
            "units of {count} programs in a row could not be run here; it takes none for {} s (the last: {why})",
            pause.as_secs()
        ));
        let waiting = self.ready.all();
        self.give_back(waiting, "its engine fails, it rests", Cause::Node, cx);
    }

    pub(super) fn rested(&mut self, cx: &mut Cx<'_, Self>) {
        self.rest.resting = false;
        Self::changed(cx);
    }

    /// Whether units are taken at all.
    pub(super) fn is_closed(&self) -> bool {
        self.draining || self.terms.withheld || self.rest.resting
    }

    pub fn is_resting(&self) -> bool {
        self.rest.resting
    }
}
