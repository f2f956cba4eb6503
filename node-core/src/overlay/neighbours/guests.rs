//! Guests of a gateway that is full, and the one of them whose place a newcomer gets.
//!
//! Places are shared among networks: one address that fills them all keeps nobody else out, and many guests
//! behind one router keep all places that nobody else wants. Of two networks the one with fewer guests is
//! served first (max-min fairness), so a guest never gives way to one of its own network.

use super::{Known, Neighbours, Peer};
use crate::address::Ip;
use crate::ids::NodeId;
use std::collections::BTreeMap;

impl Peer {
    /// It has introduced itself as a guest, and stays.
    fn is_guest(&self) -> bool {
        !self.leaving && self.hello.as_ref().is_some_and(Known::is_guest)
    }

    /// Peers whose address is unknown count as one network.
    fn network(&self) -> Option<Ip> {
        self.ip.map(Ip::network)
    }
}

impl Neighbours {
    /// Changes what is known of a peer: a gateway has too many to count its guests for each that comes.
    pub(super) fn change(&mut self, peer: NodeId, change: impl FnOnce(&mut Peer)) {
        let Some(peer) = self.peers.get_mut(&peer) else { return };
        let before = usize::from(peer.is_guest());
        change(peer);
        self.guests = self.guests + usize::from(peer.is_guest()) - before;
    }

    pub(super) fn insert(&mut self, id: NodeId, peer: Peer) {
        self.remove(id);
        self.guests += usize::from(peer.is_guest());
        self.peers.insert(id, peer);
    }

    pub(super) fn remove(&mut self, id: NodeId) -> Option<Peer> {
        let peer = self.peers.remove(&id)?;
        self.guests -= usize::from(peer.is_guest());
        Some(peer)
    }

    pub(super) fn check_guests(&self) {
        let guests = self.peers.values().filter(|peer| peer.is_guest()).count();
        assert_eq!(self.guests, guests, "guests are counted");
    }

    pub(super) fn has_guest(&self, peer: NodeId) -> bool {
        self.peers.get(&peer).is_some_and(Peer::is_guest)
    }

    /// Guests one of which gives way if this peer introduces itself as a guest now, the newest first: those
    /// of the network with the most. Empty if there is room, or if no network has two more than the peer's.
    pub fn in_the_way_of(&self, newcomer: NodeId) -> Vec<NodeId> {
        let Some(peer) = self.peers.get(&newcomer).filter(|peer| !peer.leaving && peer.hello.is_none())
        else {
            return Vec::new();
        };
        if !self.me.gateway || self.guests < self.room.guests {
            return Vec::new();
        }
        let mut by_network: BTreeMap<Option<Ip>, usize> = BTreeMap::new();
        for guest in self.peers.values().filter(|peer| peer.is_guest()) {
            *by_network.entry(guest.network()).or_default() += 1;
        }
        let its = by_network.get(&peer.network()).copied().unwrap_or_default();
        let fullest = by_network.into_iter().max_by_key(|(_, count)| *count);
        let Some((fullest, _)) = fullest.filter(|(_, count)| *count > its + 1) else { return Vec::new() };
        let guests = self.peers.iter().filter(|(_, peer)| peer.is_guest() && peer.network() == fullest);
        let mut guests: Vec<_> = guests.map(|(id, peer)| (peer.since, *id)).collect();
        guests.sort_unstable_by(|a, b| b.cmp(a));
        guests.into_iter().map(|(_, id)| id).collect()
    }
}
