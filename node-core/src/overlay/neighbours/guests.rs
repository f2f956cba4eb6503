//! Guests of a gateway that is full, and the one of them whose place a newcomer gets.
//!
//! Places are shared among networks: one address that fills them all keeps nobody else out, and many guests
//! behind one router keep all places that nobody else wants. Of two networks the one with fewer guests is
//! served first (max-min fairness), so a guest never gives way to one of its own network.

use super::{Neighbours, Peer};
use crate::address::Ip;
use crate::ids::NodeId;
use std::collections::BTreeMap;

impl Neighbours {
    pub(super) fn has_guest(&self, peer: NodeId) -> bool {
        self.peers.connection(peer).is_some_and(Peer::is_guest)
    }

    /// Guests one of which gives way if this peer introduces itself as a guest now, the newest first: those
    /// of the network with the most. Empty if there is room, or if no network has two more than the peer's.
    pub fn in_the_way_of(&self, newcomer: NodeId) -> Vec<NodeId> {
        let known = self.peers.connection(newcomer);
        let Some(peer) = known.filter(|peer| !peer.leaving && peer.hello.is_none()) else {
            return Vec::new();
        };
        if !self.me.gateway || self.peers.guests() < self.room.guests {
            return Vec::new();
        }
        let mut by_network: BTreeMap<Option<Ip>, usize> = BTreeMap::new();
        for (_, guest) in self.peers.connections().filter(|(_, peer)| peer.is_guest()) {
            *by_network.entry(network(guest)).or_default() += 1;
        }
        let its = by_network.get(&network(peer)).copied().unwrap_or_default();
        let fullest = by_network.into_iter().max_by_key(|(_, count)| *count);
        let Some((fullest, _)) = fullest.filter(|(_, count)| *count > its + 1) else { return Vec::new() };
        let guests = self.peers.connections().filter(|(_, peer)| peer.is_guest() && network(peer) == fullest);
        let mut guests: Vec<_> = guests.map(|(id, peer)| (peer.since, id)).collect();
        guests.sort_unstable_by(|a, b| b.cmp(a));
        guests.into_iter().map(|(_, id)| id).collect()
    }
}

/// Peers whose address is unknown count as one network.
fn network(peer: &Peer) -> Option<Ip> {
    peer.ip.map(Ip::network)
}
