//! Connections of this node: the one truth on who is connected, who has introduced itself as what, and who was
//! heard last. The neighbours change it ([`crate::overlay::neighbours`]); every other machine reads it
//! ([`crate::protocol::Cx::peers`]) and keeps no list of its own.
//!
//! Inputs wait in a line, so that a machine may find a peer gone before it hears of that, or there again.

use crate::address::{Contact, Dialable, Ip, Scope};
use crate::channel::Carrier;
use crate::elsewhere::Web;
use crate::ids::NodeId;
use crate::platform::Platform;
use crate::ticket::{ServiceId, Services};
use crate::time::Time;
use core::net::IpAddr;
use litemap::LiteMap;
use std::collections::BTreeMap;

/// Data that is kept of a peer's introduction.
#[derive(Debug)]
pub struct Known {
    pub name: Box<str>,
    pub platform: Platform,
    /// It owns jobs.
    pub gateway: bool,
    /// Whether and where others can dial it.
    pub dialable: Dialable,
    /// Services that it has.
    pub speaks: Services,
    pub web: Option<Box<Web>>,
}

impl Known {
    /// Whether it is a guest of its gateway: a page, or another node that takes no connections.
    pub fn is_guest(&self) -> bool {
        self.dialable == Dialable::No && !self.gateway
    }

    /// Whether it is reached under this host: the name that its pages have, or the address that it is dialled at.
    pub fn is_reached_at(&self, host: &str) -> bool {
        let named = self.web.as_ref().and_then(|web| web.host.as_deref());
        let ip = host.trim_matches(['[', ']']).parse::<IpAddr>().ok().map(Ip::from);
        named.is_some_and(|name| name.eq_ignore_ascii_case(host))
            || ip.is_some() && self.dialable.contact().map(|contact| contact.ip) == ip
    }
}

/// A connection.
#[derive(Debug)]
pub struct Peer {
    /// `None`: it has not introduced itself.
    pub hello: Option<Known>,
    /// Where it is seen.
    pub ip: Option<Ip>,
    pub over: Carrier,
    /// The relay of the circuit on which it is connected, if it is on one.
    pub via: Option<NodeId>,
    pub since: Time,
    pub heard: Time,
    /// This node has no use for the connection.
    pub spare: bool,
    /// It was told that it cannot stay, and the connection is being closed.
    pub leaving: bool,
    /// This node was told to connect to it. Who has just come says nothing of the swarm that is believed.
    pub joined: bool,
}

impl Peer {
    pub fn new(ip: Option<Ip>, now: Time) -> Peer {
        Peer {
            hello: None,
            ip,
            over: Carrier::Tcp,
            via: None,
            since: now,
            heard: now,
            spare: false,
            leaving: false,
            joined: false,
        }
    }

    /// Peers whose address is unknown count as one network.
    fn network(&self) -> Option<Ip> {
        self.ip.map(Ip::network)
    }

    /// It has introduced itself as a guest, and stays.
    pub fn is_guest(&self) -> bool {
        !self.leaving && self.hello.as_ref().is_some_and(Known::is_guest)
    }
}

/// All connections of a node.
#[derive(Debug)]
pub struct Peers {
    all: LiteMap<NodeId, Peer>,
    /// How many of them are guests: a gateway has too many to count for each that comes.
    guests: usize,
}

impl Default for Peers {
    fn default() -> Self {
        Peers::new()
    }
}

impl Peers {
    pub const fn new() -> Peers {
        Peers { all: LiteMap::new(), guests: 0 }
    }

    /// A peer that has introduced itself.
    pub fn get(&self, peer: NodeId) -> Option<&Known> {
        self.all.get(&peer)?.hello.as_ref()
    }

    /// Whether the peer has introduced itself.
    pub fn knows(&self, peer: NodeId) -> bool {
        self.get(peer).is_some()
    }

    /// Whether a connection stands, introduced or not.
    pub fn is_connected(&self, peer: NodeId) -> bool {
        self.all.contains_key(&peer)
    }

    /// Whether the peer was told that it cannot stay.
    pub fn is_leaving(&self, peer: NodeId) -> bool {
        self.all.get(&peer).is_some_and(|peer| peer.leaving)
    }

    /// Where others can dial the peer.
    pub fn contact(&self, peer: NodeId) -> Option<Contact> {
        self.get(peer)?.dialable.contact()
    }

    /// Peers that have introduced themselves, by id, and when each was heard last.
    pub fn all(&self) -> impl Iterator<Item = (NodeId, &Known, Time)> {
        self.all.iter().filter_map(|(id, p)| Some((*id, p.hello.as_ref()?, p.heard)))
    }

    /// Peers that have a service, by id.
    pub fn with(&self, service: ServiceId) -> impl Iterator<Item = NodeId> + Clone + '_ {
        let known = self.all.iter().filter_map(|(id, peer)| Some((id, peer.hello.as_ref()?)));
        known.filter(move |(_, known)| known.speaks.has(service)).map(|(id, _)| *id)
    }

    /// Gateways, by id.
    pub fn gateways(&self) -> impl Iterator<Item = (NodeId, &Known)> {
        self.all().filter(|(_, known, _)| known.gateway).map(|(id, known, _)| (id, known))
    }

    /// Gateways that this node was told to join.
    pub fn joined_gateways(&self) -> impl Iterator<Item = &Known> {
        let joined = self.all.values().filter(|peer| peer.joined);
        joined.filter_map(|peer| peer.hello.as_ref()).filter(|hello| hello.gateway)
    }

    /// From how near the nearest peer is seen; `None` if of none it is known. Peers that came by WebSocket do not
    /// count: a proxy may stand before them, which is on this machine while they are anywhere.
    pub fn nearest(&self) -> Option<Scope> {
        let direct = self.all.values().filter(|peer| peer.joined || peer.over != Carrier::WebSocket);
        direct.filter_map(|peer| peer.ip).map(Ip::scope).min()
    }

    /// Every connection, introduced or not, by id.
    pub fn connections(&self) -> impl Iterator<Item = (NodeId, &Peer)> {
        self.all.iter().map(|(id, peer)| (*id, peer))
    }

    pub fn connection(&self, peer: NodeId) -> Option<&Peer> {
        self.all.get(&peer)
    }

    /// Places that give way to a newcomer's where all are taken; each of `held` with the peer that holds it. They are
    /// those of the network that holds the most, none unless it has two more than the newcomer's. So one address that
    /// fills all places keeps nobody else out, and many peers behind one router keep all that nobody else wants
    /// (max-min fairness).
    pub fn crowding<T>(&self, held: impl Iterator<Item = (NodeId, T)>, newcomer: NodeId) -> Vec<T> {
        let network = |peer: NodeId| self.connection(peer).and_then(Peer::network);
        let mut by_network: BTreeMap<Option<Ip>, Vec<T>> = BTreeMap::new();
        for (peer, place) in held {
            by_network.entry(network(peer)).or_default().push(place);
        }
        let its = by_network.get(&network(newcomer)).map_or(0, Vec::len);
        let most = by_network.into_values().max_by_key(Vec::len);
        most.filter(|places| places.len() > its + 1).unwrap_or_default()
    }

    /// Number of connections.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Number of guests.
    pub fn guests(&self) -> usize {
        self.guests
    }

    /// A frame has come from the peer. Whether it had introduced itself.
    pub fn heard(&mut self, peer: NodeId, now: Time) -> bool {
        match self.all.get_mut(&peer) {
            Some(Peer { hello: Some(_), heard, .. }) => {
                *heard = now;
                true
            }
            _ => false,
        }
    }

    /// Changes a connection; the count of guests follows.
    pub fn change(&mut self, peer: NodeId, change: impl FnOnce(&mut Peer)) {
        let Some(peer) = self.all.get_mut(&peer) else { return };
        let before = usize::from(peer.is_guest());
        change(peer);
        self.guests = self.guests + usize::from(peer.is_guest()) - before;
    }

    pub fn insert(&mut self, id: NodeId, peer: Peer) {
        self.remove(id);
        self.guests += usize::from(peer.is_guest());
        self.all.insert(id, peer);
    }

    pub fn remove(&mut self, id: NodeId) -> Option<Peer> {
        let peer = self.all.remove(&id)?;
        self.guests -= usize::from(peer.is_guest());
        Some(peer)
    }

    /// Panics unless the count follows the list.
    pub fn check(&self) {
        let guests = self.all.values().filter(|peer| peer.is_guest()).count();
        assert_eq!(self.guests, guests, "guests are counted");
    }
}
