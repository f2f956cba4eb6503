//! Time as the driver tells it.

use std::ops::{Add, Sub};
use std::time::Duration;

/// Microseconds since an origin of the driver's choice; never read from a clock in here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    pub const ZERO: Time = Time(0);

    /// How long ago `earlier` was; zero if it lies ahead.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Time;
    fn add(self, d: Duration) -> Time {
        Time(self.0.saturating_add(u64::try_from(d.as_micros()).unwrap_or(u64::MAX)))
    }
}

impl Sub<Duration> for Time {
    type Output = Time;
    fn sub(self, d: Duration) -> Time {
        Time(self.0.saturating_sub(u64::try_from(d.as_micros()).unwrap_or(u64::MAX)))
    }
}

/// Bytes a second that a line carries at least. Our choice: half a megabit, the least of mobile lines.
const LEAST_RATE: u64 = 64 << 10;

/// How long this many bytes are on their way at most.
pub(crate) fn on_a_slow_line(bytes: u64) -> Duration {
    Duration::from_micros(bytes.saturating_mul(1_000_000) / LEAST_RATE)
}

/// The wall clock as the driver tells it now and then; what is signed expires by it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wall {
    ms: u64,
    at: Time,
}

impl Wall {
    pub(crate) fn told(&mut self, ms: u64, now: Time) {
        *self = Wall { ms, at: now };
    }

    /// Milliseconds since 1970.
    pub(crate) fn now(&self, now: Time) -> u64 {
        let since = u64::try_from(now.since(self.at).as_millis()).unwrap_or(u64::MAX);
        self.ms.saturating_add(since)
    }
}
