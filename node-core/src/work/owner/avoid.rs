//! Runners that a job's units come back from: its next units go elsewhere for a while, and units of
//! other jobs go there as before.

use crate::backoff::{Backoff, Pauses};
use crate::ids::NodeId;
use crate::time::Time;
use std::collections::BTreeSet;
use std::time::Duration;

/// How long a runner is avoided after failures without a result between. Our choice: a disk may be full for a moment,
/// a unit is held after 8 losses, and a donor who sees to it has the job back the same hour.
const PAUSES: Pauses = Pauses { first: Duration::from_millis(500), longest: Duration::from_secs(600) };

/// How long a runner is avoided that takes no such units. Our choice, the time for which a runner offers
/// nothing to an owner that it takes nothing from: terms change, and a grant in a while is cheap.
const DECLINED: Duration = Duration::from_secs(10);

/// Runners avoided at once. Our choice: more than a gateway has; 64 KiB for a job that all of them decline.
const RUNNERS: usize = 1024;

/// The runners that one job avoids.
#[derive(Debug)]
pub(super) struct Avoided {
    runners: Backoff<NodeId>,
    /// The last failure, as a sentence for people.
    why: String,
}

impl Avoided {
    pub(super) fn new() -> Self {
        Avoided { runners: Backoff::new(PAUSES, RUNNERS), why: String::new() }
    }

    /// `runner` tried a unit of the job and could not run it.
    pub(super) fn failed(&mut self, runner: NodeId, why: &str, now: Time) {
        why.clone_into(&mut self.why);
        self.runners.failed(runner, now);
    }

    /// `runner` does not take such units.
    pub(super) fn declined(&mut self, runner: NodeId, why: &str, now: Time) {
        why.clone_into(&mut self.why);
        self.runners.leave(runner, DECLINED, now);
    }

    /// A result of the job came from there.
    pub(super) fn ran_well(&mut self, runner: NodeId) {
        self.runners.succeeded(runner);
    }

    /// `runner` asks for units of the job: if it declined some, its terms may be others by now.
    pub(super) fn claims(&mut self, runner: NodeId) {
        self.runners.take_up(runner);
    }

    pub(super) fn contains(&self, runner: NodeId, now: Time) -> bool {
        self.runners.contains(runner, now)
    }

    /// Why its units wait, if the nodes that are not avoided have no places for them.
    pub(super) fn shortage(&self, of_others: String, now: Time) -> String {
        match self.runners.keys(now).next() {
            Some(_) => format!("{}; it is tried there again later; {of_others}", self.why),
            None => of_others,
        }
    }

    /// Reason for which its units wait, with what was said by the last node that took none of them.
    pub(super) fn waits(&self, why: String) -> String {
        if self.why.is_empty() { why } else { format!("{why}; {}", self.why) }
    }

    /// Those that are avoided now.
    pub(super) fn nodes(&self, now: Time) -> BTreeSet<NodeId> {
        self.runners.keys(now).collect()
    }
}
