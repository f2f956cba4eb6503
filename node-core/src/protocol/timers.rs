use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet};

/// Up to here a list is as fast as a tree and a tenth of its size: most machines of most nodes
/// have a timer or two.
const FEW: usize = 16;

/// A list grows by one up to here: a machine has room for the timers that it has.
const ONE_BY_ONE: usize = 3;

/// Timers by key: setting one again moves it.
#[derive(Clone, Debug)]
pub struct Timers<K>(Held<K>);

#[derive(Clone, Debug)]
enum Held<K> {
    /// The earliest last.
    Few(Vec<(Time, K)>),
    Many(Box<Index<K>>),
}

#[derive(Clone, Debug)]
struct Index<K> {
    at: BTreeMap<K, Time>,
    order: BTreeSet<(Time, K)>,
}

impl<K> Default for Timers<K> {
    fn default() -> Self {
        Timers(Held::Few(Vec::new()))
    }
}

impl<K: Copy + Ord> Timers<K> {
    pub fn set(&mut self, key: K, at: Time) {
        self.cancel(key);
        match &mut self.0 {
            Held::Few(few) if few.len() < FEW => {
                let place = few.partition_point(|timer| *timer > (at, key));
                if few.len() < ONE_BY_ONE {
                    few.reserve_exact(1);
                }
                few.insert(place, (at, key));
            }
            Held::Few(few) => {
                let order: BTreeSet<(Time, K)> = few.drain(..).chain([(at, key)]).collect();
                let at = order.iter().map(|(at, key)| (*key, *at)).collect();
                self.0 = Held::Many(Box::new(Index { at, order }));
            }
            Held::Many(many) => {
                many.at.insert(key, at);
                many.order.insert((at, key));
            }
        }
    }

    pub fn cancel(&mut self, key: K) {
        match &mut self.0 {
            Held::Few(few) => few.retain(|(_, other)| *other != key),
            Held::Many(many) => {
                if let Some(old) = many.at.remove(&key) {
                    many.order.remove(&(old, key));
                }
                if many.at.is_empty() {
                    *self = Timers::default();
                }
            }
        }
    }

    pub fn get(&self, key: K) -> Option<Time> {
        match &self.0 {
            Held::Few(few) => few.iter().find(|(_, other)| *other == key).map(|(at, _)| *at),
            Held::Many(many) => many.at.get(&key).copied(),
        }
    }

    fn first(&self) -> Option<(Time, K)> {
        match &self.0 {
            Held::Few(few) => few.last().copied(),
            Held::Many(many) => many.order.first().copied(),
        }
    }

    pub fn deadline(&self) -> Option<Time> {
        self.first().map(|(at, _)| at)
    }

    /// Removes and returns the earliest timer at or before `now`.
    pub fn pop_due(&mut self, now: Time) -> Option<K> {
        let (_, key) = self.first().filter(|(at, _)| *at <= now)?;
        self.cancel(key);
        Some(key)
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

    #[test]
    fn many_fire_in_the_order_of_few() {
        let fired = |count: u64| {
            let mut timers = Timers::default();
            for n in 0..count {
                timers.set(n, Time(n * 7919 % 101));
            }
            for n in (0..count).step_by(3) {
                timers.set(n, Time(n % 5));
            }
            timers.cancel(1);
            let order: Vec<u64> = std::iter::from_fn(|| timers.pop_due(Time(1000))).collect();
            timers.set(5, Time(1));
            assert_eq!((timers.deadline(), timers.get(5)), (Some(Time(1)), Some(Time(1))));
            order
        };
        for count in [FEW as u64, FEW as u64 + 1, 100] {
            let mut right: Vec<(u64, u64)> = (0..count)
                .filter(|n| *n != 1)
                .map(|n| (if n % 3 == 0 { n % 5 } else { n * 7919 % 101 }, n))
                .collect();
            right.sort_unstable();
            assert_eq!(fired(count), right.into_iter().map(|(_, n)| n).collect::<Vec<_>>());
        }
    }
}
