//! When a running unit is due for its next checkpoint.

use crate::time::Time;
use std::time::Duration;

/// A checkpoint may cost this share of the run: one part in 50, 2 %, the target in docs/benchmarks.md.
const SHARE: u64 = 50;

/// Cost of a byte to the node beside the task's downtime, nanoseconds: sealed, hashed, written and sent. Our
/// choice: 200 MB/s, a quarter of what each of these reaches alone.
const NS_A_BYTE: u64 = 5;

/// The line to the keepers is busy for half of the time at most.
const LINE: u64 = 2;

/// No job has them more often, whatever it says. Our choice: a round trip to a far keeper.
const LEAST: Duration = Duration::from_millis(100);

/// The time between two checkpoints of a unit: the job's, or longer if they cost too much.
#[derive(Clone, Debug)]
pub(super) struct Interval {
    every: Duration,
    /// Cost of the dearest checkpoint of late; halved with each that follows.
    cost: Duration,
    /// From the snapshot until its keepers had it, the last time.
    took: Duration,
}

impl Interval {
    pub(super) fn new(every: Duration) -> Interval {
        Interval { every: every.max(LEAST), cost: Duration::ZERO, took: Duration::ZERO }
    }

    /// The task stood still for `pause` to give so many bytes.
    pub(super) fn taken(&mut self, pause: Duration, bytes: u64) {
        let cost = pause + Duration::from_nanos(bytes.saturating_mul(NS_A_BYTE));
        self.cost = cost.max(self.cost / 2);
    }

    /// There was none: it is asked for less and less often.
    pub(super) fn refused(&mut self) {
        self.every = self.every.saturating_mul(2);
    }

    pub(super) fn kept(&mut self, took: Duration) {
        self.took = took;
    }

    /// Time between two checkpoints: the most that is lost with the runner.
    pub(super) fn length(&self) -> Duration {
        let cost = self.cost.saturating_mul(SHARE as u32);
        self.every.max(cost).max(self.took.saturating_mul(LINE as u32))
    }

    /// When the next is taken, the last having been taken at `last`: early enough that it is kept
    /// when the interval is over.
    pub(super) fn next(&self, last: Time) -> Time {
        let interval = self.length();
        // Nothing is known of the first: a sixteenth should do.
        let ahead = if self.took.is_zero() { interval / 16 } else { self.took };
        last + (interval - ahead.min(interval / 2))
    }
}

#[cfg(test)]
mod tests {
    use crate::work::runner::interval::*;

    #[test]
    fn dear_checkpoints_are_taken_less_often() {
        let mut interval = Interval::new(Duration::from_secs(1));
        assert_eq!(interval.length(), Duration::from_secs(1));
        interval.taken(Duration::from_millis(5), 1 << 20);
        assert_eq!(interval.length(), Duration::from_secs(1), "10 ms in a second are 1 %");
        interval.taken(Duration::from_millis(60), 1 << 20);
        assert!(interval.length() > Duration::from_secs(3), "{:?}", interval.length());
        for _ in 0..10 {
            interval.taken(Duration::from_millis(1), 1000);
        }
        assert_eq!(interval.length(), Duration::from_secs(1), "the dear one is forgotten");
    }

    #[test]
    fn it_is_taken_so_early_that_it_is_kept_in_time() {
        let mut interval = Interval::new(Duration::from_secs(10));
        interval.kept(Duration::from_secs(2));
        assert_eq!(interval.next(Time(0)), Time(8_000_000));
        interval.kept(Duration::from_secs(30));
        assert_eq!(interval.length(), Duration::from_secs(60), "a slow line is not filled");
        assert_eq!(Interval::new(Duration::ZERO).length(), LEAST);
    }
}
