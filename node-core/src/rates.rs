//! How often others may have this node do something: a burst each, and then one at a time.

use crate::ids::NodeId;
use crate::time::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// Others that are counted. One is forgotten when it may bring a burst again; if so many come at once, those
/// of others are refused for a second. Our choice: the connections of a busy gateway.
const COUNTED: usize = 4096;

#[derive(Debug)]
pub(crate) struct Rates {
    burst: u32,
    again: Duration,
    /// When each will have done nothing for long enough that it may bring a whole burst.
    idle: BTreeMap<NodeId, Time>,
}

impl Rates {
    /// `burst`: so many at once; `again`: until one more.
    pub(crate) fn new(burst: u32, again: Duration) -> Rates {
        Rates { burst, again, idle: BTreeMap::new() }
    }

    /// Whether one more of this node is let through; counts it, too.
    pub(crate) fn take(&mut self, by: NodeId, now: Time) -> bool {
        if !self.idle.contains_key(&by) && self.idle.len() >= COUNTED {
            self.idle.retain(|_, idle| *idle > now);
            if self.idle.len() >= COUNTED {
                return false;
            }
        }
        let idle = self.idle.entry(by).or_insert(now);
        let next = (*idle).max(now) + self.again;
        let has_room = next.since(now) <= self.again.saturating_mul(self.burst);
        if has_room {
            *idle = next;
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BURST: u32 = 80;
    const AGAIN: Duration = Duration::from_millis(50);

    fn node(n: u32) -> NodeId {
        let mut id = [0; 32];
        id[..4].copy_from_slice(&n.to_be_bytes());
        NodeId(id)
    }

    #[test]
    fn a_node_has_a_burst_and_then_one_at_a_time() {
        let mut rates = Rates::new(BURST, AGAIN);
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
    fn nodes_that_are_counted_are_bounded_and_forgotten_when_they_are_quiet() {
        let mut rates = Rates::new(BURST, AGAIN);
        let now = Time(1_000_000);
        let taken = (0..2 * COUNTED as u32).filter(|n| rates.take(node(*n), now)).count();
        assert_eq!((taken, rates.idle.len()), (COUNTED, COUNTED));
        assert!(rates.take(node(9_999_999), now + AGAIN));
        assert!(rates.idle.len() < COUNTED);
    }
}
