//! Which of a peer's connections is its session.
//!
//! Both sides must come to the same answer without asking each other:
//! - Dialled by both at once: the one that the smaller id dialled stays.
//! - Dialled twice by the same side: the newer stays. The dialling side never has two (it
//!   denies the second while it believes in the first), so it has given up the older.

use libp2p::swarm::ConnectionId;
use node_core::NodeId;
use std::collections::BTreeMap;

/// A connection whose streams stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) connection: ConnectionId,
    /// Whether this side dialled.
    pub(crate) dialled: bool,
}

/// The session of each peer.
pub(crate) struct Sessions {
    me: NodeId,
    current: BTreeMap<NodeId, Standing>,
}

/// What to do with a connection that is ready.
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

    pub(crate) fn ready(&mut self, peer: NodeId, new: Standing) -> Verdict {
        let mine_stays = self.me < peer;
        let verdict = match self.current.get(&peer) {
            None => Verdict::First,
            Some(old) if old.dialled == new.dialled => Verdict::Replaces(old.connection),
            Some(old) if new.dialled == mine_stays => Verdict::Replaces(old.connection),
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
        Standing { connection: ConnectionId::new_unchecked(n), dialled }
    }

    /// Both ends of connections 1 (dialled by the small id) and 2 (by the large one), which
    /// become ready in some order at each end.
    #[test]
    fn both_ends_of_a_simultaneous_dial_keep_the_same_connection() {
        for orders in [([1, 2], [1, 2]), ([1, 2], [2, 1]), ([2, 1], [1, 2]), ([2, 1], [2, 1])] {
            let mut small = Sessions::new(SMALL);
            let mut large = Sessions::new(LARGE);
            for n in orders.0 {
                small.ready(LARGE, standing(n, n == 1));
            }
            for n in orders.1 {
                large.ready(SMALL, standing(n, n == 2));
            }
            let kept = ConnectionId::new_unchecked(1);
            assert!(small.is(LARGE, kept) && large.is(SMALL, kept), "{orders:?}");
        }
    }

    #[test]
    fn a_peer_that_dials_again_has_given_up_its_first_connection() {
        let mut sessions = Sessions::new(SMALL);
        assert_eq!(sessions.ready(LARGE, standing(1, false)), Verdict::First);
        let first = ConnectionId::new_unchecked(1);
        assert_eq!(sessions.ready(LARGE, standing(2, false)), Verdict::Replaces(first));
        assert!(!sessions.end(LARGE, first), "the end of the old one ends no session");
        assert!(sessions.has(LARGE));
    }
}
