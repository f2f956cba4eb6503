//! How soon something that failed is tried again: after a pause that each failure in a row doubles.

use crate::time::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// The pause after the first failure, and the longest.
#[derive(Clone, Copy, Debug)]
pub struct Pauses {
    pub first: Duration,
    pub longest: Duration,
}

impl Pauses {
    /// The pause after this many failures in a row. None after none.
    pub fn after(self, failures: u32) -> Duration {
        match failures.checked_sub(1) {
            None => Duration::ZERO,
            Some(doubled) => self.first.saturating_mul(1 << doubled.min(30)).min(self.longest),
        }
    }
}

/// Those that failed, each with the time until which it is left alone. At most `bound` of them: a new one takes the
/// place of the one that may be tried again soonest.
#[derive(Debug)]
pub struct Backoff<K> {
    pauses: Pauses,
    bound: usize,
    failing: BTreeMap<K, Failing>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Failing {
    /// Failures in a row.
    times: u32,
    until: Time,
}

impl<K: Copy + Ord> Backoff<K> {
    pub fn new(pauses: Pauses, bound: usize) -> Self {
        Backoff { pauses, bound, failing: BTreeMap::new() }
    }

    /// It was tried in vain.
    pub fn failed(&mut self, key: K, now: Time) {
        let mut failing = self.known(key);
        failing.times = failing.times.saturating_add(1);
        failing.until = now + self.pauses.after(failing.times);
        self.put(key, failing);
    }

    /// It is left alone for this long, or longer if it is already; by no fault of its own.
    pub fn leave(&mut self, key: K, pause: Duration, now: Time) {
        let mut failing = self.known(key);
        failing.until = failing.until.max(now + pause);
        self.put(key, failing);
    }

    /// It was tried with success: the next pause is the first again.
    pub fn succeeded(&mut self, key: K) {
        self.failing.remove(&key);
    }

    /// It is left alone no more, if that was by no fault of its own.
    pub fn take_up(&mut self, key: K) {
        self.failing.retain(|known, failing| *known != key || failing.times > 0);
    }

    /// Whether it is to be left alone now.
    pub fn contains(&self, key: K, now: Time) -> bool {
        self.failing.get(&key).is_some_and(|failing| failing.until > now)
    }

    /// How long it is to be left alone from now on.
    pub fn left(&self, key: K, now: Time) -> Duration {
        self.failing.get(&key).map_or(Duration::ZERO, |failing| failing.until.since(now))
    }

    /// Those that are to be left alone now.
    pub fn keys(&self, now: Time) -> impl Iterator<Item = K> + '_ {
        self.failing.iter().filter(move |(_, failing)| failing.until > now).map(|(key, _)| *key)
    }

    fn known(&self, key: K) -> Failing {
        self.failing.get(&key).copied().unwrap_or_default()
    }

    fn put(&mut self, key: K, failing: Failing) {
        if !self.failing.contains_key(&key)
            && self.failing.len() >= self.bound
            && let Some(soonest) = self.failing.iter().min_by_key(|(_, it)| it.until).map(|(key, _)| *key)
        {
            self.failing.remove(&soonest);
        }
        self.failing.insert(key, failing);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSES: Pauses = Pauses { first: Duration::from_secs(10), longest: Duration::from_secs(600) };

    fn backoff() -> Backoff<u32> {
        Backoff::new(PAUSES, 16)
    }

    #[test]
    fn each_failure_in_a_row_doubles_the_pause_up_to_the_longest() {
        let (mut backoff, mut at) = (backoff(), Time(0));
        for pause in [10, 20, 40, 80, 160, 320, 600, 600].map(Duration::from_secs) {
            backoff.failed(1, at);
            assert!(backoff.contains(1, at + pause - Duration::from_micros(1)));
            at = at + pause;
            assert!(!backoff.contains(1, at));
        }
        backoff.succeeded(1);
        backoff.failed(1, at);
        assert!(!backoff.contains(1, at + PAUSES.first), "a success forgets all failures");
        assert_eq!((PAUSES.after(0), PAUSES.after(u32::MAX)), (Duration::ZERO, PAUSES.longest));
    }

    #[test]
    fn what_is_left_alone_comes_back_after_the_same_time_each_time() {
        let mut backoff = backoff();
        let pause = Duration::from_secs(3);
        for start in [0, 60_000_000, 120_000_000].map(Time) {
            backoff.leave(1, pause, start);
            assert!(backoff.contains(1, start + pause - Duration::from_micros(1)));
            assert!(!backoff.contains(1, start + pause));
        }
        (0..10).for_each(|_| backoff.failed(1, Time(0)));
        backoff.leave(1, pause, Time(0));
        assert!(backoff.contains(1, Time(0) + PAUSES.longest - pause), "the longer time stays");
    }

    #[test]
    fn the_table_is_bounded_and_forgets_the_one_that_may_be_tried_soonest() {
        let mut backoff = backoff();
        (0..=16).for_each(|n| backoff.failed(n, Time(u64::from(n))));
        let kept: Vec<u32> = backoff.keys(Time(20)).collect();
        assert_eq!(kept, (1..=16).collect::<Vec<u32>>());
        assert_eq!(backoff.keys(Time(1_000_000_000)).count(), 0, "all may be tried by then");
    }
}
