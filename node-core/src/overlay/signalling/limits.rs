//! Bounds on what others can have this node try: how often one may speak, and how soon a peer is tried again.

use crate::backoff::Pauses;
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

/// How soon a peer is tried again to which no channel could be opened. Our choice: a page that begins anew is there, a
/// peer behind a wall costs little, and people change their networks within an hour.
pub(super) const PAUSES: Pauses =
    Pauses { first: Duration::from_secs(10), longest: Duration::from_secs(600) };

/// Peers that are remembered to have failed.
pub(super) const FAILED: usize = 256;

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
}
