//! One slot as the manager knows it.

use super::super::plan::{Doing, Given};
use super::super::process::Process;
use super::super::wire::{self, ToSlot};
use super::settling::SlotFile;
use std::time::{Duration, Instant};

/// A slot without work leaves after this. Our choice: longer than the pauses within a job.
pub(super) const IDLE: Duration =
    if cfg!(test) { Duration::from_millis(500) } else { Duration::from_secs(30) };

/// Until a slot must have greeted. Our choice: starting takes milliseconds, on a machine that
/// swaps seconds.
pub(super) const START: Duration = Duration::from_secs(30);

/// Compiling a program may take this long, whatever the processor time of it. Our choice: the largest known
/// ones take a minute, and a busy machine gives a tenth of a processor.
pub(super) const PREPARE: Duration = Duration::from_secs(900);

/// A task that was told to end has this long; then its process is ended. Our choice: several
/// slices, and less than a person waits for a button.
pub(super) const ENDING: Duration = Duration::from_millis(if cfg!(test) { 500 } else { 50 });

/// None: no process, because there is nothing to do.
pub(super) type Slot = Option<Working>;

pub(super) struct Working {
    pub(super) process: Process,
    /// Tells this process from others that had, and will have, its place.
    pub(super) number: u64,
    /// The file for its next snapshot; `None` while it is asked for none.
    pub(super) file: Option<SlotFile>,
    /// Snapshots that it was asked for and has not told of. It tells of no more.
    pub(super) asked: u32,
    pub(super) given: Given,
    /// Set when it was told to end, or must be ended: it gets nothing more.
    pub(super) fate: Option<Fate>,
}

/// Why a process ends.
pub(super) enum Fate {
    /// There is nothing to do.
    Idle,
    /// This run took longer than it may.
    OutOfTime(u64),
    /// The one it was at is not wanted any more.
    Killed,
    /// The slot failed; in words.
    Fault(String),
}

impl Working {
    pub(super) fn tell(&mut self, message: &ToSlot) {
        let mut frame = Vec::new();
        // These are some bytes long.
        if wire::put(&mut frame, message).is_ok() {
            self.process.queue(&frame);
        }
    }

    pub(super) fn pause(&mut self, at: usize, paused: bool, now: Instant) {
        self.given.jobs[at].paused = paused;
        self.stands(at, now);
    }

    /// The thread that this job is waits for others, or may go on.
    pub(super) fn waits(&mut self, at: usize, waits: bool, now: Instant) {
        self.given.jobs[at].waits = waits;
        self.stands(at, now);
    }

    fn stands(&mut self, at: usize, now: Instant) {
        let job = &mut self.given.jobs[at];
        match (job.paused || job.waits, job.still) {
            (true, None) => job.still = Some(now),
            (false, Some(since)) => {
                job.still = None;
                if at == 0 && self.given.doing == Doing::Running {
                    // If it began to run while it stood still, it did so since then only.
                    self.given.since += now.saturating_duration_since(since.max(self.given.since));
                }
            }
            _ => {}
        }
    }

    /// When this slot has to be looked at, if it says nothing until then.
    pub(super) fn deadline(&self) -> Option<Instant> {
        if self.fate.is_some() {
            return None;
        }
        if let Some(job) = self.given.jobs.front() {
            if let Some(ending) = job.ending {
                return ending.checked_add(ENDING);
            }
            if job.still.is_some() && self.given.doing == Doing::Running {
                return None;
            }
        }
        let allowed = match (self.given.doing, self.given.jobs.front()) {
            (Doing::Starting, _) => START,
            (Doing::Preparing, _) => PREPARE,
            (Doing::Running | Doing::Nothing, Some(job)) => job.time_limit,
            (_, None) => IDLE,
        };
        self.given.since.checked_add(allowed)
    }
}
