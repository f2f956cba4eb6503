//! Which of a peer's connections is its session.
//!
//! Both sides see the same sessions, or one would lose what the other still believes in. So the one
//! with the smaller id chooses, and the first that it says on a connection tells the other:
//! - There is a session, and it was dialled from the other side: it stays. Both dialled at once.
//! - There is one that the same side dialled: the newer stays. The dialling side never has two (it
//!   denies the second while it believes in the first), so it has given up the older.
//! - There is one by way of a relay, and the other one is direct: that takes its place, whoever dialled.
//! - There is a direct one, and the other one comes by way of a relay: the direct one stays, unless the same side has
//!   dialled both, the relayed one later. It has given up the direct one then.
//!
//! The side that follows has its session half a round trip later if it was the one that dialled.

use libp2p::swarm::ConnectionId;
use node_core::NodeId;
use std::collections::BTreeMap;

/// A connection whose streams stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) connection: ConnectionId,
    /// Whether this side dialled.
    pub(crate) dialled: bool,
    /// Whether it comes by way of a relay.
    pub(crate) relayed: bool,
}

/// The session of each peer.
pub(crate) struct Sessions {
    me: NodeId,
    current: BTreeMap<NodeId, Standing>,
}

/// Decision about a connection that may be the session.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is the session now.
    First,
    /// It is the session now, in place of this one.
    Replaces(ConnectionId),
    /// There is a session and it stays.
    Superfluous,
}

impl Sessions {
    pub(crate) fn new(me: NodeId) -> Self {
        Sessions { me, current: BTreeMap::new() }
    }

    /// Whether this side chooses the session with a peer.
    pub(crate) fn chooses(&self, peer: NodeId) -> bool {
        self.me < peer
    }

    /// The connection is ready, at the side that chooses; or was chosen, as the other side hears.
    pub(crate) fn offer(&mut self, peer: NodeId, new: Standing) -> Verdict {
        let verdict = match self.current.get(&peer) {
            None => Verdict::First,
            Some(old) if !self.chooses(peer) || old.relayed && !new.relayed => {
                Verdict::Replaces(old.connection)
            }
            Some(old)
                if old.dialled == new.dialled
                    && (!new.relayed || old.relayed || new.connection > old.connection) =>
            {
                Verdict::Replaces(old.connection)
            }
            Some(_) => return Verdict::Superfluous,
        };
        self.current.insert(peer, new);
        verdict
    }

    pub(crate) fn is(&self, peer: NodeId, connection: ConnectionId) -> bool {
        self.current.get(&peer).is_some_and(|s| s.connection == connection)
    }

    pub(crate) fn has(&self, peer: NodeId) -> bool {
        self.current.contains_key(&peer)
    }

    /// The connection is gone; true when it was the session.
    pub(crate) fn end(&mut self, peer: NodeId, connection: ConnectionId) -> bool {
        let was = self.is(peer, connection);
        if was {
            self.current.remove(&peer);
        }
        was
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: NodeId = NodeId([1; 32]);
    const LARGE: NodeId = NodeId([2; 32]);

    fn standing(n: usize, dialled: bool) -> Standing {
        Standing { connection: ConnectionId::new_unchecked(n), dialled, relayed: false }
    }

    fn relayed(n: usize, dialled: bool) -> Standing {
        Standing { relayed: true, ..standing(n, dialled) }
    }

    #[test]
    fn a_direct_connection_takes_the_place_of_a_relayed_one_and_is_not_replaced_by_one() {
        for (before, after) in [(true, true), (true, false), (false, true), (false, false)] {
            let mut small = Sessions::new(SMALL);
            let mut large = Sessions::new(LARGE);
            small.offer(LARGE, relayed(1, before));
            large.offer(SMALL, relayed(1, !before));
            let first = ConnectionId::new_unchecked(1);
            assert_eq!(small.offer(LARGE, standing(2, after)), Verdict::Replaces(first));
            assert_eq!(large.offer(SMALL, standing(2, !after)), Verdict::Replaces(first));
            assert_eq!(small.offer(LARGE, relayed(3, !after)), Verdict::Superfluous);
            assert_eq!(small.offer(LARGE, relayed(1, after)), Verdict::Superfluous, "it was dialled before");
            let second = ConnectionId::new_unchecked(2);
            assert_eq!(small.offer(LARGE, relayed(3, after)), Verdict::Replaces(second), "that was given up");
        }
    }

    /// Connections 1 (dialled by the small id) and 2 (by the large one), which become ready in some
    /// order.
    #[test]
    fn both_ends_of_a_simultaneous_dial_have_one_session_and_no_other_before() {
        for [first, second] in [[1, 2], [2, 1]] {
            let mut small = Sessions::new(SMALL);
            let mut large = Sessions::new(LARGE);
            assert_eq!(small.offer(LARGE, standing(first, first == 1)), Verdict::First);
            assert_eq!(small.offer(LARGE, standing(second, second == 1)), Verdict::Superfluous);
            assert_eq!(large.offer(SMALL, standing(first, first == 2)), Verdict::First);
            let kept = ConnectionId::new_unchecked(first);
            assert!(small.is(LARGE, kept) && large.is(SMALL, kept));
        }
    }

    #[test]
    fn a_peer_that_dials_again_has_given_up_its_first_connection() {
        for (me, peer) in [(SMALL, LARGE), (LARGE, SMALL)] {
            let mut sessions = Sessions::new(me);
            assert_eq!(sessions.offer(peer, standing(1, false)), Verdict::First);
            let first = ConnectionId::new_unchecked(1);
            assert_eq!(sessions.offer(peer, standing(2, false)), Verdict::Replaces(first));
            assert!(!sessions.end(peer, first), "the end of the old one ends no session");
            assert!(sessions.has(peer));
        }
    }

    #[test]
    fn who_follows_takes_what_was_chosen_in_place_of_what_the_other_has_given_up() {
        let mut large = Sessions::new(LARGE);
        large.offer(SMALL, standing(1, true));
        let first = ConnectionId::new_unchecked(1);
        assert_eq!(large.offer(SMALL, standing(2, false)), Verdict::Replaces(first));
    }
}
