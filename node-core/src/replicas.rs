//! A service's share of the ring: the keys that this node owns, the nodes that keep replicas of what lies
//! there, and how much of it others draw.
//!
//! Services that lie on the ring (records, markets, delegated units) replicate in one way. The owner tells its
//! replicas what changes, compares digests with them now and then, and who becomes the owner has a replica or
//! pulls one from the previous owner (paper `chord`, section 1, leaves replication to the layer above; paper
//! `market`, section IV-A, copies to the next members). What the messages carry is each service's own.

use crate::address::Contact;
use crate::circle::{Point, Range};
use crate::ids::NodeId;
use crate::time::Time;
use std::time::Duration;

/// Time for which a range that was sent is not sent again to the same node. Our choice: a stranger cannot draw
/// more than the network carries.
const REST: Duration = Duration::from_secs(10);

/// Pulls that are remembered, in all and of one node; further ones are not answered. Our choice: a node pulls a
/// range when it becomes its owner, and single keys when a replica differs.
const PULLS: usize = 256;
const PULLS_OF_ONE: usize = 16;

/// News of the ring of nodes for a service that lies on it.
#[derive(Clone, Debug)]
pub enum Keys {
    /// This node owns these keys from now on. `from`: their owner before, if it is known.
    Gained { range: Range, from: Option<Contact> },
    /// Another owns these keys from now on. `to`: that one, if it is known.
    Lost { range: Range, to: Option<Contact> },
    /// The members that follow this node, the nearest first.
    Successors(Vec<Contact>),
}

/// Range that this node owns, and who keeps replicas of what lies there.
#[derive(Debug, Default)]
pub struct Share {
    range: Option<Range>,
    replicas: Vec<Contact>,
}

impl Share {
    /// This node's own keys; `None`: it is on no ring.
    pub fn range(&self) -> Option<Range> {
        self.range
    }

    pub fn owns(&self, key: Point) -> bool {
        self.range.is_some_and(|range| range.contains(key))
    }

    /// Whether all of the circle is this node's, as for one that is a ring by itself.
    pub fn is_whole(&self) -> bool {
        self.range.is_some_and(|range| range.after == range.upto)
    }

    /// Nodes that keep replicas, the nearest on the ring first.
    pub fn replicas(&self) -> &[Contact] {
        &self.replicas
    }

    pub fn has_replica_at(&self, node: NodeId) -> bool {
        self.replicas.iter().any(|replica| replica.id == node)
    }

    /// The ring gave this node these keys. Its range ends where the node stands, so it grows at its beginning.
    pub fn gained(&mut self, range: Range) {
        self.range = Some(match self.range {
            Some(own) if own.after == range.upto => Range { after: range.after, upto: own.upto },
            _ => range,
        });
    }

    /// These keys are another's. What is not at the beginning of the range is all of it: the node has left.
    pub fn lost(&mut self, range: Range) {
        let rest = |own: &Range| own.after == range.after && own.upto != range.upto;
        self.range = self.range.filter(rest).map(|own| Range { after: range.upto, upto: own.upto });
    }

    /// The members that follow this node on the ring: the first `most` keep replicas from now on. Gives those
    /// that are new, or `None` if nothing has changed.
    pub fn follow(&mut self, members: Vec<Contact>, me: NodeId, most: usize) -> Option<Vec<Contact>> {
        let mut replicas: Vec<Contact> = members.into_iter().filter(|member| member.id != me).collect();
        replicas.truncate(most);
        if replicas == self.replicas {
            return None;
        }
        let old = std::mem::replace(&mut self.replicas, replicas);
        Some(self.replicas.iter().filter(|replica| !old.contains(replica)).copied().collect())
    }
}

/// Ranges that were sent on demand.
#[derive(Debug, Default)]
pub struct Pulls(Vec<Pull>);

#[derive(Debug)]
struct Pull {
    by: NodeId,
    range: Range,
    at: Time,
    /// It was asked for once more since.
    again: bool,
}

impl Pulls {
    /// Whether to send the range to `by` now. If that was done a moment ago, it is [due](Pulls::due) once more
    /// later: the node may have restarted since.
    pub fn asks(&mut self, by: NodeId, range: Range, now: Time) -> bool {
        if let Some(known) = self.0.iter_mut().find(|pull| (pull.by, pull.range) == (by, range)) {
            let rested = now.since(known.at) >= REST;
            (known.again, known.at) = if rested { (false, now) } else { (true, known.at) };
            return rested;
        }
        self.0.retain(|pull| pull.again || now.since(pull.at) < REST);
        let its = self.0.iter().filter(|pull| pull.by == by).count();
        let has_room = its < PULLS_OF_ONE && self.0.len() < PULLS;
        if has_room {
            self.0.push(Pull { by, range, at: now, again: false });
        }
        has_room
    }

    /// Ranges that are to be sent now because they were asked for again too soon: to whom, and which.
    pub fn due(&mut self, now: Time) -> Vec<(NodeId, Range)> {
        let mut due = Vec::new();
        self.0.retain_mut(|pull| {
            let rested = now.since(pull.at) >= REST;
            let again = rested && std::mem::take(&mut pull.again);
            if again {
                pull.at = now;
                due.push((pull.by, pull.range));
            }
            !rested || again
        });
        due
    }

    /// When the first range is due again.
    pub fn next_due(&self) -> Option<Time> {
        self.0.iter().filter(|pull| pull.again).map(|pull| pull.at + REST).min()
    }

    /// Memory beyond the struct itself, bytes.
    pub fn weight(&self) -> usize {
        self.0.capacity() * size_of::<Pull>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Ip;
    use crate::protocol::Rng;

    fn range(after: u128, upto: u128) -> Range {
        Range { after: Point(after), upto: Point(upto) }
    }

    fn member(n: u8) -> Contact {
        Contact { ip: Ip([n; 16]), id: NodeId([n; 32]), port: 1 }
    }

    /// The ring tells a node of its keys in pieces: whatever the pieces, it owns what was gained and not lost.
    #[test]
    fn keys_that_come_and_go_in_pieces_are_owned_as_a_whole() {
        for seed in 0..200 {
            let mut rng = Rng::from_seed([seed; 32]);
            let me = u128::from(rng.below(1 << 60)) << 60;
            let mut share = Share::default();
            // Where the predecessors stand, the range's beginning.
            let mut after = me;
            share.gained(range(me, me));
            assert!(share.is_whole() && share.owns(Point(me)) && share.owns(Point(me ^ 1)));
            for _ in 0..50 {
                let next = u128::from(rng.below(u64::MAX)) << 60;
                if next == me || next == after {
                    continue;
                }
                match Point(next).is_between(Point(after), Point(me)) {
                    true => share.lost(range(after, next)),
                    false => share.gained(range(next, after)),
                }
                after = next;
                assert_eq!(share.range(), Some(range(after, me)), "seed {seed}");
                assert!(share.owns(Point(me)) && !share.owns(Point(after)) && !share.is_whole());
            }
            share.lost(range(after, me));
            assert_eq!(share.range(), None);
        }
    }

    #[test]
    fn the_members_that_follow_keep_replicas_and_new_ones_are_named_once() {
        let (mut share, me) = (Share::default(), member(9).id);
        assert_eq!(
            share.follow(vec![member(1), member(2), member(3)], me, 2),
            Some(vec![member(1), member(2)])
        );
        assert_eq!(share.follow(vec![member(1), member(2), member(4)], me, 2), None, "the third has none");
        assert_eq!(share.follow(vec![member(3), member(9), member(1)], me, 2), Some(vec![member(3)]));
        assert!(share.has_replica_at(member(1).id) && !share.has_replica_at(member(2).id));
        assert_eq!(share.follow(vec![member(3)], me, 2), Some(Vec::new()), "one is gone, none is new");
    }

    #[test]
    fn who_pulls_again_too_soon_is_answered_once_later() {
        let (mut pulls, by, wanted) = (Pulls::default(), NodeId([1; 32]), range(1, 5));
        let at = |seconds: u64| Time(seconds * 1_000_000);
        assert!(pulls.asks(by, wanted, at(0)));
        assert!(!pulls.asks(by, wanted, at(1)) && !pulls.asks(by, wanted, at(2)));
        assert_eq!((pulls.next_due(), pulls.due(at(9))), (Some(at(10)), vec![]));
        assert_eq!(pulls.due(at(10)), [(by, wanted)]);
        assert_eq!((pulls.next_due(), pulls.due(at(30))), (None, vec![]), "once");
        assert!(pulls.asks(by, wanted, at(31)), "it is forgotten by then");
        assert!(!pulls.asks(by, wanted, at(32)));
        assert!(pulls.asks(by, wanted, at(42)), "asked a third time, when it was due");
        assert_eq!(pulls.due(at(43)), []);
    }

    #[test]
    fn pulls_are_bounded_and_one_node_does_not_take_the_place_of_all() {
        let (mut pulls, now) = (Pulls::default(), Time(0));
        let greedy = (0..1000).filter(|n| pulls.asks(NodeId([1; 32]), range(*n, *n + 1), now)).count();
        assert_eq!(greedy, PULLS_OF_ONE);
        let others = (0..1000u16).filter(|n| {
            let mut id = [2; 32];
            id[..2].copy_from_slice(&n.to_be_bytes());
            pulls.asks(NodeId(id), range(1, 2), now)
        });
        assert_eq!(others.count(), PULLS - PULLS_OF_ONE);
        assert!(pulls.asks(NodeId([3; 32]), range(1, 2), now + REST), "there is room again");
    }
}
