//! A node that fails at unit after unit, by no fault of theirs, rests: its owners would only
//! place the same units again and again, and hold them in the end.

use super::{Event, Runner, Timer};
use crate::protocol::Cx;
use std::time::Duration;

/// Failures in a row before it rests. Our choice: one program that this node cannot run shows
/// itself in one or two, a broken node in any number.
const FAILURES: u32 = 4;

/// The first rest, doubled by each that follows without a good unit between. Our choice: time
/// to free some memory or disk; an hour at last, as for a donor who sees to it tomorrow.
const FIRST: Duration = Duration::from_secs(30);
const LONGEST: Duration = Duration::from_secs(3600);

#[derive(Debug, Default)]
pub(super) struct Rest {
    failures: u32,
    rests: u32,
    resting: bool,
}

impl Rest {
    /// A unit ran to its end, whatever end.
    pub(super) fn ran_well(&mut self) {
        self.failures = 0;
        self.rests = 0;
    }
}

impl Runner {
    /// The node failed, not the unit.
    pub(super) fn failed_here(&mut self, why: &str, cx: &mut Cx<'_, Self>) {
        self.rest.failures += 1;
        if self.rest.failures < FAILURES || self.rest.resting {
            return;
        }
        let pause = FIRST.saturating_mul(1 << self.rest.rests.min(16)).min(LONGEST);
        self.rest.rests += 1;
        self.rest.resting = true;
        cx.set_timer(Timer::Rest, pause);
        let count = self.rest.failures;
        cx.emit(Event::Trouble(format!(
            "{count} units in a row could not be run here; it takes none for {} s (the last: {why})",
            pause.as_secs()
        )));
        let waiting = self.ready.all();
        self.give_back(waiting, "its engine fails, it rests", false, cx);
    }

    /// The next failure ends the trial.
    pub(super) fn rested(&mut self, cx: &mut Cx<'_, Self>) {
        self.rest.resting = false;
        self.rest.failures = FAILURES - 1;
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
