//! Guests of a gateway that is full, and the one of them whose place a newcomer gets. Places are shared among networks
//! ([`crate::peers::Peers::crowding`]), so a guest never gives way to one of its own network.

use super::{Neighbours, Peer};
use crate::ids::NodeId;

impl Neighbours {
    pub(super) fn has_guest(&self, peer: NodeId) -> bool {
        self.peers.connection(peer).is_some_and(Peer::is_guest)
    }

    /// Guests one of which gives way if this peer introduces itself as a guest now, the newest first. Empty if there is
    /// room, or if no network has two more than the peer's.
    pub fn in_the_way_of(&self, newcomer: NodeId) -> Vec<NodeId> {
        let known = self.peers.connection(newcomer);
        if !known.is_some_and(|peer| !peer.leaving && peer.hello.is_none()) {
            return Vec::new();
        }
        if !self.me.gateway || self.peers.guests() < self.room.guests {
            return Vec::new();
        }
        let guests = self.peers.connections().filter(|(_, peer)| peer.is_guest());
        let guests = guests.map(|(id, peer)| (id, (peer.since, id)));
        let mut guests = self.peers.crowding(guests, newcomer);
        guests.sort_unstable_by(|a, b| b.cmp(a));
        guests.into_iter().map(|(_, id)| id).collect()
    }
}
