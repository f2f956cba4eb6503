//! Faults of peers, counted over their reconnections: ten of them shut the door until one is forgotten.

use crate::ids::NodeId;
use crate::time::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// Faults of one peer before it is disconnected. Our choice: one may be a race, ten are a habit.
const MOST: u32 = 10;

/// One fault is forgotten after this time, so that a peer with [`MOST`] is refused for as long, and each
/// further fault costs it as much again. Our choice: a race now and then never adds up, and an honest node
/// with a bug is away for a minute, not for the day.
const FORGOTTEN: Duration = Duration::from_secs(60);

/// Peers whose faults are counted. Our choice: 64 KB; the one with the fewest faults gives way, so that new
/// keys do not push out the peer that is refused.
const PEERS: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct Faults {
    by: BTreeMap<NodeId, Count>,
}

#[derive(Clone, Copy, Debug)]
struct Count {
    faults: u32,
    /// Faults older than this are counted in `faults`.
    since: Time,
}

impl Count {
    fn at(self, now: Time) -> Count {
        let passed = now.since(self.since).as_micros() / FORGOTTEN.as_micros();
        let passed = u32::try_from(passed).unwrap_or(u32::MAX);
        match self.faults.saturating_sub(passed) {
            0 => Count { faults: 0, since: now },
            faults => Count { faults, since: self.since + FORGOTTEN.saturating_mul(passed) },
        }
    }
}

impl Faults {
    /// Counts one more. Returns the number for people if the peer is refused from now on.
    pub(super) fn count(&mut self, peer: NodeId, now: Time) -> Option<u32> {
        let before = self.by.get(&peer).copied();
        if before.is_none() && self.by.len() >= PEERS {
            let fewest = |(_, count): &(&NodeId, &Count)| (count.at(now).faults, count.since);
            let fewest = self.by.iter().min_by_key(fewest).map(|(peer, _)| *peer);
            fewest.map(|fewest| self.by.remove(&fewest));
        }
        let Count { faults, since } = before.unwrap_or(Count { faults: 0, since: now }).at(now);
        let faults = faults.saturating_add(1).min(MOST);
        self.by.insert(peer, Count { faults, since });
        (faults >= MOST).then_some(MOST)
    }

    /// Why nothing is heard of this peer now, in words for its operator.
    pub(super) fn refusal(&self, peer: NodeId, now: Time) -> Option<String> {
        let count = self.by.get(&peer).copied()?.at(now);
        (count.faults >= MOST).then(|| {
            let left = FORGOTTEN.saturating_sub(now.since(count.since)).as_secs() + 1;
            format!(
                "{MOST} faults of this node were counted: it is of another version, or was changed; it is heard \
                 again in {left} s"
            )
        })
    }

    pub(super) fn is_refused(&self, peer: NodeId, now: Time) -> bool {
        self.by.get(&peer).is_some_and(|count| count.at(now).faults >= MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u32) -> NodeId {
        let mut id = [7; 32];
        id[..4].copy_from_slice(&n.to_be_bytes());
        NodeId(id)
    }

    #[test]
    fn a_fault_is_forgotten_each_minute_and_one_now_and_then_never_adds_up() {
        let mut faults = Faults::default();
        let mut now = Time::ZERO;
        for n in 1..=MOST {
            assert_eq!(faults.count(key(1), now).is_some(), n == MOST);
        }
        assert!(faults.refusal(key(1), now).is_some_and(|why| why.contains("in 61 s")));
        now = now + FORGOTTEN;
        assert!(!faults.is_refused(key(1), now));
        assert!(faults.count(key(1), now).is_some(), "nine are still known");
        for _ in 0..1_000 {
            now = now + FORGOTTEN;
            assert_eq!(faults.count(key(2), now), None);
        }
    }

    #[test]
    fn new_keys_do_not_push_out_the_peer_that_is_refused() {
        let mut faults = Faults::default();
        for _ in 0..MOST {
            faults.count(key(0), Time::ZERO);
        }
        for n in 1..10 * PEERS as u32 {
            faults.count(key(n), Time(u64::from(n)));
        }
        assert!(faults.is_refused(key(0), Time(1_000_000)));
        assert_eq!(faults.by.len(), PEERS);
    }
}
