//! Connections: made, dialled, broken, noticed; and the frames on them.

use super::{Event, NEVER, Place, World};
use crate::network::{BACKLOG, kind_of};
use bytes::Bytes;
use node_core::address::{Contact, Ip};
use node_core::{Carrier, Channel, NodeId, NodeInput, Time};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

/// One end of a connection, kept by the node at this end.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    pub(super) peer: u32,
    /// Which connection between the two it is.
    pub(super) epoch: u32,
    /// Broken, and this end has not noticed yet.
    pub(super) dead: bool,
    /// When the last frame of each channel arrives at the other end: none overtakes it.
    last: [Time; 2],
}

/// State of the first message between the ends of a new connection.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum First {
    OnItsWay,
    /// On its way, from a node that the other one was not told to join.
    OfAVisitor,
    /// It came along with the handshake.
    Here,
    /// It came along with the handshake, on a data channel.
    OfAChannel,
    /// The connection breaks, and it is lost.
    Lost,
}

impl Place {
    /// Whether others can connect to it.
    pub fn is_dialable(&self) -> bool {
        self.config.port.is_some() && !self.unreachable
    }

    pub fn is_frozen(&self) -> bool {
        self.frozen
    }

    /// Its end of the link to a peer, dead or alive.
    pub(super) fn link(&self, peer: u32) -> Option<&Link> {
        let at = self.links.binary_search_by_key(&peer, |link| link.peer).ok()?;
        self.links.get(at)
    }

    fn link_mut(&mut self, peer: u32) -> Option<&mut Link> {
        let at = self.links.binary_search_by_key(&peer, |link| link.peer).ok()?;
        self.links.get_mut(at)
    }

    fn set_link(&mut self, link: Link) {
        match self.links.binary_search_by_key(&link.peer, |link| link.peer) {
            Ok(at) => self.links[at] = link,
            Err(at) => {
                // Thousands at a gateway, a handful elsewhere.
                if self.links.len() < 64 {
                    self.links.reserve_exact(1);
                }
                self.links.insert(at, link);
            }
        }
    }

    fn drop_link(&mut self, peer: u32) {
        if let Ok(at) = self.links.binary_search_by_key(&peer, |link| link.peer) {
            self.links.remove(at);
        }
    }
}

impl World {
    /// Everybody that a node has a living connection to.
    pub fn peers(&self, at: usize) -> Vec<usize> {
        self.nodes[at].links.iter().filter(|link| !link.dead).map(|link| link.peer as usize).collect()
    }

    /// Whether they have a connection, also one by way of a relay.
    pub fn connected(&self, a: usize, b: usize) -> bool {
        self.connected_straight(a, b) || self.relayed(a, b) && self.relayed(b, a)
    }

    pub fn connected_straight(&self, a: usize, b: usize) -> bool {
        self.nodes[a].link(b as u32).is_some_and(|link| !link.dead)
    }

    /// Connects two nodes from outside, each of which was told to join the other; their greetings take their time.
    pub fn connect(&mut self, a: usize, b: usize) {
        self.join(a, b, First::OnItsWay);
    }

    /// The first joins the second, to which it is a stranger that has come.
    pub fn visit(&mut self, a: usize, b: usize) {
        self.join(a, b, First::OfAVisitor);
    }

    pub(super) fn join(&mut self, a: usize, b: usize, first: First) {
        if a == b || self.connected_straight(a, b) || !self.lives(a) || !self.lives(b) {
            return;
        }
        self.epoch += 1;
        let epoch = self.epoch;
        let over = if first == First::OfAChannel { Carrier::DataChannel } else { Carrier::Tcp };
        for (at, peer) in [(a, b), (b, a)] {
            let peer = peer as u32;
            // A new connection is how it notices the end of the old one.
            self.end_relayed(at, peer as usize);
            if let Some(link) = self.nodes[at].link(peer).copied() {
                self.gone(at as u32, self.nodes[at].life, peer, link.epoch);
            }
        }
        for (at, peer) in [(a, b), (b, a)] {
            let dead = first == First::Lost;
            let link = Link { peer: peer as u32, epoch, dead, last: [Time::ZERO; 2] };
            self.nodes[at].set_link(link);
        }
        for (at, peer) in [(a, b), (b, a)] {
            self.greeting = (matches!(first, First::Here | First::OfAChannel)).then_some(peer as u32);
            let (id, ip) = (self.ids[peer], self.seen(at, peer));
            let joined = first == First::OnItsWay || first == First::OfAVisitor && at == a;
            self.drive(at, NodeInput::Connected { peer: id, ip: Some(ip), joined, over });
            if first == First::Lost {
                let (at, life, peer) = (at as u32, self.nodes[at].life, peer as u32);
                self.after(1_000, Event::Gone { at, life, peer, epoch });
            }
        }
        self.greeting = None;
    }

    /// Breaks a connection; both sides hear of it a little later, frames under way are lost.
    pub fn cut(&mut self, a: usize, b: usize) {
        self.sever(a as u32, b as u32, |_| 1_000);
    }

    /// Breaks a connection. Each end that lives notices after the time given for it.
    pub(super) fn sever(&mut self, a: u32, b: u32, mut notice: impl FnMut(&mut World) -> u64) {
        for (at, peer) in [(a, b), (b, a)] {
            let place = &mut self.nodes[at as usize];
            if place.node.is_none() {
                place.drop_link(peer);
                continue;
            }
            let life = place.life;
            let Some(link) = place.link_mut(peer).filter(|link| !link.dead) else { continue };
            link.dead = true;
            let epoch = link.epoch;
            let time = notice(self);
            self.after(time, Event::Gone { at, life, peer, epoch });
        }
    }

    pub(super) fn cut_link(&mut self, a: u32, b: u32, epoch: u32, severed: bool) {
        let current = self.nodes[a as usize].link(b).is_some_and(|link| link.epoch == epoch && !link.dead);
        if current && (!severed || !self.answers(a, b) || !self.answers(b, a)) {
            self.cut(a as usize, b as usize);
        }
    }

    pub(super) fn gone(&mut self, at: u32, life: u32, peer: u32, epoch: u32) {
        let place = &mut self.nodes[at as usize];
        let current = place.link(peer).is_some_and(|link| link.epoch == epoch && link.dead);
        if place.life == life && current {
            place.drop_link(peer);
            let peer = self.ids[peer as usize];
            self.drive(at as usize, NodeInput::Disconnected { peer, reason: "the link broke".into() });
        }
    }

    /// The node itself closes a connection; what is queued for the peer goes first.
    pub(super) fn close(&mut self, at: usize, peer: NodeId, reason: String) {
        self.closed.push((at, peer, reason));
        let Some(peer) = self.find(peer) else { return };
        self.close_relayed(at, peer);
        let Some(link) = self.nodes[at].link(peer as u32).filter(|link| !link.dead) else { return };
        let (epoch, last) = (link.epoch, link.last[0].max(link.last[1]));
        let delay = last.since(self.now).as_micros() as u64 + 1;
        self.after(delay, Event::Cut { a: at as u32, b: peer as u32, epoch, severed: false });
    }

    /// Whether two nodes could connect now.
    pub fn reaches(&self, a: usize, b: usize) -> bool {
        self.answers(a as u32, b as u32) && self.answers(b as u32, a as u32)
    }

    /// Whether what one says can get to the other, and is heard there.
    pub(super) fn answers(&self, from: u32, to: u32) -> bool {
        let (a, b) = (&self.nodes[from as usize], &self.nodes[to as usize]);
        b.node.is_some() && !b.frozen && a.part == b.part && !self.network.cuts.contains(&(from, to))
    }

    /// Where a node sees a peer.
    fn seen(&self, at: usize, peer: usize) -> Ip {
        match self.nodes[at].machine == self.nodes[peer].machine {
            true => Ip::from(IpAddr::from(Ipv4Addr::LOCALHOST)),
            false => self.nodes[peer].ip,
        }
    }

    /// Whether a node that dials another one at that address gets to it.
    fn gets_to(&self, from: u32, to: u32, ip: Ip) -> bool {
        let (a, b) = (&self.nodes[from as usize], &self.nodes[to as usize]);
        let open = match ip.is_loopback() {
            true => a.machine == b.machine && b.config.port.is_some(),
            false => b.ip == ip && b.is_dialable() && !b.config.loopback_only && !(a.v4_only && ip.is_v6()),
        };
        open && self.answers(from, to) && self.answers(to, from)
    }

    pub(super) fn dial_time(&mut self, from: usize, to: usize) -> u64 {
        let (a, b) = (self.nodes[from].region, self.nodes[to].region);
        let hop = self.network.latency.draw(a, b, &mut self.net_rng);
        (hop as f64 * self.network.dial_hops) as u64
    }

    /// Whether the node can dial. A page that tries is counted.
    fn can_dial(&mut self, at: usize) -> bool {
        let is_page = self.nodes[at].is_page();
        self.refused_dials += usize::from(is_page);
        !is_page
    }

    pub(super) fn dial(&mut self, at: usize, contact: Contact) {
        let (from, life) = (at as u32, self.nodes[at].life);
        let can = self.can_dial(at);
        match self.find(contact.id).filter(|to| *to != at && can) {
            Some(to) => {
                let time = self.dial_time(at, to);
                self.after(time, Event::Dialled { from, to: to as u32, life, ip: contact.ip });
            }
            None => self.after(1_000, Event::Unreachable { from, life, peer: contact.id }),
        }
    }

    /// Dials for a moment, beside any link.
    pub(super) fn probe(&mut self, at: usize, number: u64, contact: Contact) {
        let (from, life) = (at as u32, self.nodes[at].life);
        self.probed.push((self.now, at, contact));
        let can = self.can_dial(at);
        match self.find(contact.id).filter(|to| *to != at && can) {
            Some(to) => {
                let time = self.dial_time(at, to);
                self.after(time, Event::Probed { from, to: to as u32, life, number, ip: contact.ip });
            }
            None => self.answer(at, life, 1_000, NodeInput::Probed { number, reached: false }),
        }
    }

    pub(super) fn probed(&mut self, from: u32, to: u32, life: u32, number: u64, ip: Ip) {
        let reached = self.gets_to(from, to, ip);
        let (low, high) = self.network.dial_timeout;
        let time = if reached { 0 } else { self.net_rng.between(low, high) };
        self.answer(from as usize, life, time, NodeInput::Probed { number, reached });
    }

    pub(super) fn dialled(&mut self, from: u32, to: u32, life: u32, ip: Ip) {
        let place = &self.nodes[from as usize];
        if place.life != life || place.node.is_none() {
            return;
        }
        if self.gets_to(from, to, ip) {
            let chance = self.network.stillborn;
            let stillborn = chance > 0.0 && self.net_rng.chance(chance);
            return self.join(from as usize, to as usize, if stillborn { First::Lost } else { First::Here });
        }
        let (low, high) = self.network.dial_timeout;
        let time = self.net_rng.between(low, high);
        self.after(time, Event::Unreachable { from, life, peer: self.ids[to as usize] });
    }

    pub(super) fn unreachable(&mut self, from: u32, life: u32, peer: NodeId) {
        if self.nodes[from as usize].life == life {
            self.drive(from as usize, NodeInput::DialFailed { peer });
        }
    }

    pub(super) fn send(&mut self, from: usize, to: NodeId, channel: Channel, bytes: Bytes) {
        let Some(to) = self.find(to) else { return };
        if !self.streams.is_empty() && !self.connected_straight(from, to) && self.relayed(from, to) {
            return self.write_relayed(from, to, channel, &bytes);
        }
        let (now, a, b) = (self.now, from as u32, to as u32);
        let there = if self.network.latency.is_regional() { self.nodes[to].region } else { 0 };
        let here = self.nodes[from].region;
        let parted = self.network.parted && self.nodes[from].part != self.nodes[to].part;
        let place = &mut self.nodes[from];
        let Some(link) = place.link(b).filter(|link| !link.dead).copied() else { return };
        self.frames += 1;
        self.bytes += bytes.len() as u64;
        if let Some(meter) = &mut self.meter {
            meter.count(from, &bytes);
        }
        if let Some(kinds) = &mut self.kinds {
            let (protocol, message) = kind_of(&bytes);
            let sent = kinds.entry((protocol.into(), message.into())).or_default();
            sent.frames += 1;
            sent.bytes += bytes.len() as u64;
            *sent.to.entry(to).or_default() += 1;
        }
        let mut start = now;
        let took = self.network.on_the_line(place.bandwidth, bytes.len());
        if took > 0 {
            start = place.line.up.max(now) + Duration::from_micros(took);
            if start.since(now) > BACKLOG {
                self.dropped += 1;
                return;
            }
            place.line.up = start;
        }
        if parted || (!self.network.cuts.is_empty() && self.network.cuts.contains(&(a, b))) {
            return;
        }
        let mut copies = 1;
        let mut late = None;
        if !self.network.mischief.is_none() && self.befalls(&bytes) {
            let mischief = self.network.mischief;
            if self.net_rng.chance(mischief.loss) {
                return;
            }
            if self.net_rng.chance(mischief.duplication) {
                copies = 2;
            }
            if self.net_rng.chance(mischief.reordering) {
                late = Some(Duration::from_micros(self.net_rng.below(mischief.late)));
            }
        }
        for _ in 0..copies {
            let delay = match self.greeting == Some(b) {
                true => 0,
                false => self.network.latency.draw(here, there, &mut self.net_rng),
            };
            let mut at = start + Duration::from_micros(delay);
            match late {
                Some(late) => at = at + late,
                None => {
                    let Some(link) = self.nodes[from].link_mut(b) else { return };
                    let last = &mut link.last[channel as usize];
                    at = at.max(*last);
                    *last = at;
                }
            }
            let bytes = bytes.clone();
            let event = Event::Frame { to: b, from: a, epoch: link.epoch, channel, queued: false, bytes };
            self.event_at(at, event);
        }
    }

    fn befalls(&self, frame: &[u8]) -> bool {
        let (protocol, _) = kind_of(frame);
        let of = &self.network.mischief_of;
        protocol != "Neighbours" && (of.is_empty() || of.iter().any(|name| name == protocol))
    }

    /// Forgets all links of a node that has died; the others notice in their time.
    pub(super) fn drop_links(&mut self, at: usize) {
        let links = std::mem::take(&mut self.nodes[at].links);
        self.drop_streams(at);
        let (low, high) = self.network.notice;
        for link in links {
            self.sever(at as u32, link.peer, |world| world.net_rng.between(low, high));
        }
        self.nodes[at].wake = NEVER;
    }
}
