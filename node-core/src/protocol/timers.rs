use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet};

/// Timers by key: setting one again moves it.
#[derive(Clone, Debug)]
pub struct Timers<K> {
    at: BTreeMap<K, Time>,
    order: BTreeSet<(Time, K)>,
}

impl<K> Default for Timers<K> {
    fn default() -> Self {
        Timers { at: BTreeMap::new(), order: BTreeSet::new() }
    }
}

impl<K: Copy + Ord> Timers<K> {
    pub fn set(&mut self, key: K, at: Time) {
        if let Some(old) = self.at.insert(key, at) {
            self.order.remove(&(old, key));
        }
        self.order.insert((at, key));
    }

    pub fn cancel(&mut self, key: K) {
        if let Some(old) = self.at.remove(&key) {
            self.order.remove(&(old, key));
        }
    }

    pub fn get(&self, key: K) -> Option<Time> {
        self.at.get(&key).copied()
    }

    pub fn deadline(&self) -> Option<Time> {
        self.order.first().map(|(at, _)| *at)
    }

    /// Removes and returns the earliest timer at or before `now`.
    pub fn pop_due(&mut self, now: Time) -> Option<K> {
        let (at, key) = *self.order.first()?;
        (at <= now).then(|| {
            self.cancel(key);
            key
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_a_timer_again_moves_it() {
        let mut timers = Timers::default();
        timers.set('a', Time(10));
        timers.set('b', Time(20));
        timers.set('a', Time(30));
        assert_eq!(timers.deadline(), Some(Time(20)));
        assert_eq!(timers.pop_due(Time(25)), Some('b'));
        assert_eq!(timers.pop_due(Time(25)), None);
        assert_eq!(timers.pop_due(Time(30)), Some('a'));
        assert_eq!(timers.deadline(), None);
    }

    #[test]
    fn a_cancelled_timer_never_fires() {
        let mut timers = Timers::default();
        timers.set(1, Time(10));
        timers.cancel(1);
        assert_eq!(timers.pop_due(Time(u64::MAX)), None);
    }
}
