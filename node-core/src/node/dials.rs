//! Peers that are being dialled, and what waits for them.

use super::gateways::Gateways;
use crate::address::{Contact, Ip, Scope};
use crate::channel::Channel;
use crate::ids::NodeId;
use crate::overlay::signalling::SERVERS_SESSIONS;
use crate::time::Time;
use bytes::Bytes;
use litemap::LiteMap;
use std::collections::BTreeMap;
use std::time::Duration;

/// Peers dialled at once. Our choice: a parent greets its whole group, and a little more.
const DIALS: usize = 256;

/// Peers to which data channels are opened at once: those whose addresses are known are not to wait for them. Our
/// choice: as many as a server signals at once.
const CHANNELS: usize = SERVERS_SESSIONS;

/// Frames that wait for one of them; more are lost, as on a wire that breaks. Our choice: what
/// a machine says to a peer within a round trip.
const FRAMES: usize = 64;

/// Dials to one address that may be under way or have failed in [`WHILE`]; then none is made there. Others name the addresses, and
/// a swarm must not knock at a door for whoever names it. Our choice: a few dozen nodes behind one router
/// that all went at once.
const FAILURES: usize = 32;
const WHILE: Duration = Duration::from_secs(60);

/// Addresses whose failures are counted; the one that began first gives way. Our choice: as many as are
/// dialled in a few seconds, 64 KB.
const ADDRESSES: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct Dials {
    waiting: LiteMap<NodeId, Dial>,
    /// Dials that failed, by address, and since when.
    failed: BTreeMap<Ip, (u32, Time)>,
    /// Where there may be room, while the gateway that this node knows is full.
    pub(super) gateways: Gateways,
}

#[derive(Debug, Default)]
pub(super) struct Dial {
    ip: Option<Ip>,
    pub(super) frames: Vec<(Channel, Bytes)>,
    /// It is for something that will soon be over.
    pub(super) spare: bool,
}

impl Dials {
    pub(super) fn is_under_way(&self, peer: NodeId) -> bool {
        self.waiting.contains_key(&peer)
    }

    /// Whether there is room for one more, and its address may be dialled. `nearest`: from how near the
    /// nearest of this node's peers is seen.
    pub(super) fn begin(&mut self, to: Contact, spare: bool, nearest: Option<Scope>, now: Time) -> bool {
        // Peers on the machine or in its network name addresses there; who is far off only probes it.
        let far = nearest.is_some_and(|nearest| to.ip.scope() < nearest);
        let failed = self.failed.get(&to.ip).filter(|(_, since)| now.since(*since) < WHILE);
        let under_way = self.waiting.iter().filter(|(_, dial)| dial.ip == Some(to.ip)).count();
        let tries = failed.map_or(0, |(count, _)| *count as usize) + under_way;
        let shut = to.ip.scope() > Scope::Machine && tries >= FAILURES;
        let may = self.waiting.len() < DIALS && to.port != 0 && to.ip.is_of_a_machine() && !far && !shut;
        if may {
            self.waiting.insert(to.id, Dial { ip: Some(to.ip), frames: Vec::new(), spare });
        }
        may
    }

    /// A data channel is being opened to the peer. Whether there is room for one more.
    pub(super) fn begin_channel(&mut self, peer: NodeId) -> bool {
        let channels = self.waiting.values().filter(|dial| dial.ip.is_none()).count();
        let may = self.waiting.len() < DIALS && channels < CHANNELS;
        if may {
            self.waiting.insert(peer, Dial { spare: true, ..Dial::default() });
        }
        may
    }

    /// The dial has failed, and what waits for the peer waits for a relay now. `false` if it was not being dialled,
    /// or has been turned before.
    pub(super) fn turn_to_relay(&mut self, peer: NodeId, now: Time) -> bool {
        let Some(dial) = self.waiting.get_mut(&peer) else { return false };
        let Some(ip) = dial.ip.take() else { return false };
        self.failed(ip, now);
        true
    }

    /// A dial to this address came to nothing.
    fn failed(&mut self, ip: Ip, now: Time) {
        // On the machine itself there is nobody to be spared.
        if ip.scope() == Scope::Machine {
            return;
        }
        self.failed.retain(|_, (_, since)| now.since(*since) < WHILE);
        if self.failed.len() >= ADDRESSES && !self.failed.contains_key(&ip) {
            let first = self.failed.iter().min_by_key(|(_, (_, since))| *since).map(|(of, _)| *of);
            first.map(|first| self.failed.remove(&first));
        }
        self.failed.entry(ip).or_insert((0, now)).0 += 1;
    }

    /// Whether something waits to be said to it.
    pub(super) fn is_spoken_to(&self, peer: NodeId) -> bool {
        self.waiting.get(&peer).is_some_and(|dial| !dial.frames.is_empty())
    }

    pub(super) fn needed(&mut self, peer: NodeId) {
        if let Some(dial) = self.waiting.get_mut(&peer) {
            dial.spare = false;
        }
    }

    pub(super) fn keep(&mut self, peer: NodeId, channel: Channel, bytes: Bytes) {
        if let Some(dial) = self.waiting.get_mut(&peer)
            && dial.frames.len() < FRAMES
        {
            dial.frames.push((channel, bytes));
        }
    }

    /// It will not be connected. `false` if it was not being dialled.
    pub(super) fn fail(&mut self, peer: NodeId, now: Time) -> bool {
        let Some(dial) = self.end(peer) else { return false };
        dial.ip.into_iter().for_each(|ip| self.failed(ip, now));
        true
    }

    /// It is connected, or will not be: what waited for it. None if it was not being dialled.
    pub(super) fn end(&mut self, peer: NodeId) -> Option<Dial> {
        let dial = self.waiting.remove(&peer);
        if self.waiting.is_empty() {
            // Room for a burst is not kept.
            self.waiting = LiteMap::new();
        }
        dial
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::IpAddr;

    const NOW: Time = Time(1_000_000);

    fn at(ip: &str, port: u16) -> Contact {
        let ip: IpAddr = ip.parse().expect("an address");
        Contact { ip: ip.into(), id: NodeId([port as u8; 32]), port }
    }

    fn may(ip: &str, nearest: Option<Scope>) -> bool {
        Dials::default().begin(at(ip, 1), true, nearest, NOW)
    }

    #[test]
    fn peers_from_afar_lead_nobody_to_its_own_machine_or_network() {
        let inside = ["127.0.0.1", "::1", "10.0.0.1", "192.168.1.1", "169.254.169.254", "fe80::1", "fd00::1"];
        // As translators and tunnels write 127.0.0.1 and 10.0.0.1.
        let hidden = ["::ffff:127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a00:1", "2002:a00:1::"];
        for ip in inside.iter().chain(&hidden) {
            assert!(!may(ip, Some(Scope::World)), "{ip}");
            assert!(may(ip, Some(Scope::Machine)) && may(ip, None), "{ip}");
        }
        assert!(may("192.168.1.1", Some(Scope::Site)) && !may("127.0.0.1", Some(Scope::Site)));
        assert!(may("203.0.113.1", Some(Scope::World)) && may("2001:db8::1", Some(Scope::World)));
    }

    #[test]
    fn where_no_single_machine_is_nobody_is_dialled() {
        for ip in ["0.0.0.0", "0.1.2.3", "::", "224.0.0.1", "255.255.255.255", "ff02::1"] {
            assert!(!may(ip, None), "{ip}");
        }
        assert!(!Dials::default().begin(at("203.0.113.1", 0), true, None, NOW), "nor at port 0");
    }

    #[test]
    fn an_address_where_nobody_answers_is_let_be_for_a_minute() {
        let mut dials = Dials::default();
        let mut dialled = 0;
        for port in 1..=200 {
            let to = at("203.0.113.1", port);
            if dials.begin(to, true, Some(Scope::World), NOW) {
                dialled += 1;
                assert!(dials.fail(to.id, NOW), "it is under way");
            }
        }
        assert_eq!(dialled, FAILURES);
        let begun = (1..=200).filter(|port| dials.begin(at("203.0.113.9", *port), true, None, NOW)).count();
        assert_eq!(begun, FAILURES, "those under way count, too");
        assert!(dials.begin(at("203.0.113.2", 1), true, None, NOW), "others are dialled");
        assert!(dials.begin(at("203.0.113.1", 2), true, None, NOW + WHILE), "so is it, later");
        (0..5_000u32).for_each(|n| {
            let ip = Ip::from(IpAddr::from((0x0b00_0000 + n).to_be_bytes()));
            dials.failed(ip, NOW);
        });
        assert!(dials.failed.len() <= ADDRESSES);
    }
}
