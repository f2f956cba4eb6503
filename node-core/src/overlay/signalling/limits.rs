//! Bounds on what others can have this node try: how often one may speak, and how soon a peer is tried again.

use crate::ids::NodeId;
use crate::time::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// Messages that one neighbour may bring at once: what all sessions need, from the offer to the last candidate.
const BURST: u32 = (super::SESSIONS * (2 + super::CANDIDATES)) as u32;

/// Until it may bring one more. Our choice: two sessions a second are opened by way of one relay.
const AGAIN: Duration = Duration::from_millis(50);

/// Neighbours that are counted. A neighbour is forgotten when it may bring a burst again; if so many bring messages
/// at once, those of others are dropped for a second. Our choice: the connections of a busy gateway.
const COUNTED: usize = 4096;

/// How soon a peer is tried again after a failure; doubled by each that follows. Our choice: a page that begins anew
/// is there, and a peer behind a wall costs little.
const FIRST: Duration = Duration::from_secs(10);

/// The longest time between two attempts. Our choice: people change their networks within an hour.
const LONGEST: Duration = Duration::from_secs(600);

/// Peers that are remembered to have failed; of more, the one that may be tried soonest is forgotten.
const FAILED: usize = 256;

/// Rates of the neighbours by which messages come. Who is said to have written one may be made up.
#[derive(Debug, Default)]
pub(super) struct Rates {
    /// When each will have brought nothing for long enough that it may bring a whole burst.
    idle: BTreeMap<NodeId, Time>,
}

impl Rates {
    /// Whether one more message of this neighbour is looked at; counts it, too.
    pub(super) fn take(&mut self, by: NodeId, now: Time) -> bool {
        if !self.idle.contains_key(&by) && self.idle.len() >= COUNTED {
            self.idle.retain(|_, idle| *idle > now);
            if self.idle.len() >= COUNTED {
                return false;
            }
        }
        let idle = self.idle.entry(by).or_insert(now);
        let next = (*idle).max(now) + AGAIN;
        let has_room = next.since(now) <= AGAIN.saturating_mul(BURST);
        if has_room {
            *idle = next;
        }
        has_room
    }
}

/// Peers to which no channel could be opened.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failed: BTreeMap<NodeId, (u32, Time)>,
}

impl Backoff {
    pub(super) fn is_early(&self, peer: NodeId, now: Time) -> bool {
        self.failed.get(&peer).is_some_and(|(_, until)| *until > now)
    }

    pub(super) fn failed(&mut self, peer: NodeId, now: Time) {
        let times = self.failed.get(&peer).map_or(0, |(times, _)| *times);
        if times == 0
            && self.failed.len() >= FAILED
            && let Some(soonest) =
                self.failed.iter().min_by_key(|(_, (_, until))| *until).map(|(peer, _)| *peer)
        {
            self.failed.remove(&soonest);
        }
        let until = now + FIRST.saturating_mul(1 << times.min(16)).min(LONGEST);
        self.failed.insert(peer, (times + 1, until));
    }

    pub(super) fn opened(&mut self, peer: NodeId) {
        self.failed.remove(&peer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(n: u32) -> NodeId {
        let mut id = [0; 32];
        id[..4].copy_from_slice(&n.to_be_bytes());
        NodeId(id)
    }

    #[test]
    fn a_neighbour_brings_a_burst_and_then_one_message_at_a_time() {
        let mut rates = Rates::default();
        let now = Time(1_000_000);
        let taken = (0..10_000).filter(|_| rates.take(node(1), now)).count();
        assert_eq!(taken, BURST as usize);
        assert!(rates.take(node(2), now), "others are not to blame");
        assert!(rates.take(node(1), now + AGAIN));
        assert!(!rates.take(node(1), now + AGAIN));
        let later = now + AGAIN.saturating_mul(2 * BURST);
        assert_eq!(
            (0..100).filter(|_| rates.take(node(1), later)).count(),
            BURST as usize,
            "no more is saved up"
        );
    }

    #[test]
    fn neighbours_that_are_counted_are_bounded_and_forgotten_when_they_are_quiet() {
        let mut rates = Rates::default();
        let now = Time(1_000_000);
        let taken = (0..2 * COUNTED as u32).filter(|n| rates.take(node(*n), now)).count();
        assert_eq!((taken, rates.idle.len()), (COUNTED, COUNTED));
        assert!(rates.take(node(9_999_999), now + AGAIN));
        assert!(rates.idle.len() < COUNTED);
    }

    #[test]
    fn peers_that_failed_are_tried_ever_later_and_are_bounded() {
        let mut backoff = Backoff::default();
        let mut at = Time(0);
        for wait in [10, 20, 40, 80, 160, 320, 600, 600].map(Duration::from_secs) {
            backoff.failed(node(1), at);
            assert!(backoff.is_early(node(1), at + wait - Duration::from_micros(1)));
            at = at + wait;
            assert!(!backoff.is_early(node(1), at));
        }
        (2..2000).for_each(|n| backoff.failed(node(n), at));
        assert_eq!(backoff.failed.len(), FAILED);
        backoff.failed(node(5000), at);
        assert!(backoff.is_early(node(5000), at));
        backoff.opened(node(5000));
        assert!(!backoff.is_early(node(5000), at));
    }
}
