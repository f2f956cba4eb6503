//! The wall clock as the driver tells it now and then; listings expire by it.

use crate::time::Time;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wall {
    ms: u64,
    at: Time,
}

impl Wall {
    pub(super) fn told(&mut self, ms: u64, now: Time) {
        *self = Wall { ms, at: now };
    }

    /// Milliseconds since 1970.
    pub(super) fn now(&self, now: Time) -> u64 {
        let since = u64::try_from(now.since(self.at).as_millis()).unwrap_or(u64::MAX);
        self.ms.saturating_add(since)
    }
}
