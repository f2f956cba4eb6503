//! The peers that a node wants to be connected to, and when to dial them.

use futures::FutureExt;
use futures_timer::Delay;
use libp2p::multiaddr::Protocol;
use libp2p::swarm::ConnectionId;
use libp2p::{Multiaddr, PeerId};
use node_core::NodeId;
use node_core::address::{Ip, Scope};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::task::{Context, Poll};
use std::time::Duration;

/// A node joins through a handful of others; more is a mistake.
pub(crate) const MAX_TARGETS: usize = 64;
/// Ways to one node that are tried; the newest count, the oldest are forgotten.
const MAX_ADDRESSES: usize = 16;
/// A session that stood for this long was a good one: the next pause is short again.
const SETTLED: Duration = Duration::from_secs(10);
/// Pause before a peer is dialled again that had no room. Our choice: a thousand such nodes dial a gateway
/// 17 times a second, a sixtieth of a processor.
const REST: Duration = Duration::from_secs(60);

/// One peer to be connected to.
struct Target {
    addresses: Vec<Multiaddr>,
    /// From the addresses, or found out by dialling.
    peer: Option<PeerId>,
    /// Dials since the last good session.
    attempts: u32,
    /// It had no room for this node when it was asked last.
    full: bool,
    /// Why no address of IPv4 led to it in this round; those of IPv6 are dialled next.
    not_by_v4: Option<String>,
    state: State,
}

enum State {
    Waiting(Delay),
    Dialling(ConnectionId),
    /// The delay ends when the session has settled.
    Up(NodeId, Option<Delay>),
}

pub(crate) struct Joins {
    me: NodeId,
    min: Duration,
    max: Duration,
    targets: Vec<Target>,
}

/// Names a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TargetId(usize);

/// The peer that an address names at its end.
pub(crate) fn named_peer(address: &Multiaddr) -> Option<PeerId> {
    address.iter().last().and_then(|part| match part {
        Protocol::P2p(peer) => Some(peer),
        _ => None,
    })
}

fn is_v6(address: &Multiaddr) -> bool {
    matches!(address.iter().next(), Some(Protocol::Ip6(_) | Protocol::Dns6(_)))
}

impl Joins {
    pub(crate) fn new(me: NodeId, min: Duration, max: Duration) -> Self {
        Joins { me, min, max, targets: Vec::new() }
    }

    /// Adds addresses: those that name the same peer are ways to one target. Gives the first
    /// that there is no room for.
    pub(crate) fn add(&mut self, addresses: Vec<Multiaddr>) -> Result<(), Multiaddr> {
        for address in addresses {
            let peer = named_peer(&address);
            let room = self.targets.len() < MAX_TARGETS;
            let same = |t: &&mut Target| t.addresses.contains(&address) || (peer.is_some() && t.peer == peer);
            match self.targets.iter_mut().find(same) {
                Some(t) if t.addresses.contains(&address) => {}
                Some(t) => {
                    t.addresses.insert(0, address);
                    t.addresses.truncate(MAX_ADDRESSES);
                }
                None if room => {
                    let state = State::Waiting(Delay::new(Duration::ZERO));
                    self.targets.push(Target {
                        addresses: vec![address],
                        peer,
                        attempts: 0,
                        full: false,
                        not_by_v4: None,
                        state,
                    });
                }
                None => return Err(address),
            }
        }
        Ok(())
    }

    /// A target whose time has come. The caller dials it and says so, or says that it failed.
    pub(crate) fn poll_due(&mut self, cx: &mut Context<'_>) -> Poll<TargetId> {
        let mut due = None;
        for (i, target) in self.targets.iter_mut().enumerate() {
            match &mut target.state {
                State::Waiting(delay) => {
                    if due.is_none() && delay.poll_unpin(cx).is_ready() {
                        due = Some(i);
                    }
                }
                State::Up(_, settling) => {
                    if settling.as_mut().is_some_and(|delay| delay.poll_unpin(cx).is_ready()) {
                        *settling = None;
                        target.attempts = 0;
                    }
                }
                State::Dialling(_) => {}
            }
        }
        match due {
            Some(i) => Poll::Ready(TargetId(i)),
            None => Poll::Pending,
        }
    }

    pub(crate) fn addresses(&self, id: TargetId) -> &[Multiaddr] {
        &self.targets[id.0].addresses
    }

    /// Addresses that are dialled now, together. Those of IPv4 come first: a peer sees this node at an address of the
    /// same family, and others will dial it there. More networks have IPv4 alone than IPv6 alone.
    pub(crate) fn due_addresses(&self, id: TargetId) -> Vec<Multiaddr> {
        let target = &self.targets[id.0];
        let addresses = target.addresses.iter();
        match (target.has_order(), target.not_by_v4.is_some()) {
            (false, _) => addresses.cloned().collect(),
            (true, after) => addresses.filter(|address| is_v6(address) == after).cloned().collect(),
        }
    }

    pub(crate) fn peer(&self, id: TargetId) -> Option<PeerId> {
        self.targets[id.0].peer
    }

    /// Whether this peer is one that the node is to be connected to.
    pub(crate) fn names(&self, peer: PeerId) -> bool {
        self.targets.iter().any(|target| target.peer == Some(peer))
    }

    pub(crate) fn dialling(&mut self, id: TargetId, connection: ConnectionId) {
        self.targets[id.0].state = State::Dialling(connection);
    }

    /// The target that dialled this connection and has no session yet.
    pub(crate) fn find(&self, connection: ConnectionId) -> Option<TargetId> {
        let is = |t: &Target| matches!(t.state, State::Dialling(c) if c == connection);
        self.targets.iter().position(is).map(TargetId)
    }

    /// The dial reached `peer`, whatever comes of it.
    pub(crate) fn reached(&mut self, id: TargetId, peer: PeerId) {
        self.targets[id.0].peer = Some(peer);
    }

    /// The target's dial failed. Gives why the whole round did, and the pause before the next; `None` if addresses of
    /// IPv6 are left, which are due now.
    pub(crate) fn failed_because(&mut self, id: TargetId, reason: String) -> Option<(String, Duration)> {
        let target = &mut self.targets[id.0];
        let reasons = match target.not_by_v4.take() {
            Some(before) => format!("{before}; {reason}"),
            None if target.has_order() => {
                target.not_by_v4 = Some(reason);
                target.state = State::Waiting(Delay::new(Duration::ZERO));
                return None;
            }
            None => reason,
        };
        Some((reasons, self.failed(id)))
    }

    /// The target's dial failed, or led to nothing; gives the pause before the next.
    pub(crate) fn failed(&mut self, id: TargetId) -> Duration {
        let (me, min, max) = (self.me, self.min, self.max);
        self.targets[id.0].wait(me, min, max)
    }

    /// `peer` has a session now, whoever dialled.
    pub(crate) fn connected(&mut self, peer: PeerId, node: NodeId) {
        for target in self.targets.iter_mut().filter(|t| t.peer == Some(peer)) {
            target.not_by_v4 = None;
            target.state = State::Up(node, Some(Delay::new(SETTLED)));
        }
    }

    /// `node` has no room for this one: the next pause is a long one.
    pub(crate) fn rest(&mut self, node: NodeId) {
        let (me, min, max) = (self.me, self.min, self.max);
        for target in &mut self.targets {
            let its = target.peer.and_then(|peer| crate::node_id(&peer).ok());
            if its == Some(node) {
                target.full = true;
                // The session may have ended already.
                if matches!(target.state, State::Waiting(_)) {
                    target.wait(me, min, max);
                }
            }
        }
    }

    /// `node` lost its session.
    pub(crate) fn disconnected(&mut self, node: NodeId) {
        let (me, min, max) = (self.me, self.min, self.max);
        for target in &mut self.targets {
            if matches!(target.state, State::Up(up, _) if up == node) {
                target.wait(me, min, max);
            }
        }
    }
}

impl Target {
    /// Whether its addresses of IPv4 are dialled before those of IPv6: not if these alone reach further than a site,
    /// since packets to private addresses of another site vanish.
    fn has_order(&self) -> bool {
        let (six, four): (Vec<_>, Vec<_>) = self.addresses.iter().partition(|address| is_v6(address));
        // A name may lead anywhere.
        let scope =
            |address: &&Multiaddr| crate::words::ip(address).map_or(Scope::World, |ip| Ip::from(ip).scope());
        let reach = |of: &[&Multiaddr]| of.iter().map(scope).max();
        !six.is_empty() && !four.is_empty() && reach(&four) >= reach(&six)
    }

    fn wait(&mut self, me: NodeId, min: Duration, max: Duration) -> Duration {
        self.not_by_v4 = None;
        let pause = match std::mem::take(&mut self.full) {
            true => pause(me, self.attempts, REST, REST),
            false => pause(me, self.attempts, min, max),
        };
        self.attempts = self.attempts.saturating_add(1);
        self.state = State::Waiting(Delay::new(pause));
        pause
    }
}

/// Doubles with each attempt; ± a quarter, different in each node, so that all that lost the
/// same peer do not come back at once.
fn pause(me: NodeId, attempts: u32, min: Duration, max: Duration) -> Duration {
    let full = min.saturating_mul(1 << attempts.min(16)).min(max);
    let mut hasher = DefaultHasher::new();
    (me, attempts).hash(&mut hasher);
    full.mul_f64(0.75 + 0.5 * (hasher.finish() % 1024) as f64 / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::future::poll_fn;

    const MIN: Duration = Duration::from_millis(1);
    const MAX: Duration = Duration::from_secs(20);

    fn joins() -> Joins {
        Joins::new(NodeId([7; 32]), MIN, MAX)
    }

    fn address(port: u16, peer: Option<PeerId>) -> Multiaddr {
        let plain: Multiaddr = format!("/ip4/127.0.0.1/tcp/{port}").parse().unwrap();
        peer.map_or(plain.clone(), |p| plain.with(Protocol::P2p(p)))
    }

    fn due(joins: &mut Joins) -> TargetId {
        futures::executor::block_on(poll_fn(|cx| joins.poll_due(cx)))
    }

    #[test]
    fn addresses_of_one_peer_are_one_target() {
        let (a, b) = (PeerId::random(), PeerId::random());
        let mut joins = joins();
        joins
            .add(vec![address(1, Some(a)), address(2, Some(a)), address(3, Some(b)), address(1, Some(a))])
            .unwrap();
        assert_eq!(joins.targets.len(), 2);
        assert_eq!(joins.targets[0].addresses.len(), 2);
    }

    #[test]
    fn addresses_of_ipv6_are_dialled_when_those_of_ipv4_have_failed() {
        let peer = PeerId::random();
        let six: Multiaddr = format!("/ip6/::1/tcp/1/p2p/{peer}").parse().unwrap();
        let (four, six) = (vec![address(1, Some(peer))], vec![six]);
        let mut joins = joins();
        joins.add([six.clone(), four.clone()].concat()).unwrap();
        for _ in 0..2 {
            let id = due(&mut joins);
            assert_eq!(joins.due_addresses(id), four);
            joins.dialling(id, ConnectionId::new_unchecked(1));
            assert_eq!(joins.failed_because(id, "no answer".into()), None);
            assert_eq!(due(&mut joins), id, "at once");
            assert_eq!(joins.due_addresses(id), six);
            let (why, pause) = joins.failed_because(id, "no route".into()).unwrap();
            assert_eq!((why.as_str(), pause > Duration::ZERO), ("no answer; no route", true));
        }
        let id = due(&mut joins);
        joins.failed_because(id, "no answer".into());
        joins.connected(peer, NodeId([9; 32]));
        assert_eq!(joins.due_addresses(id), four, "the next round begins anew");
        let far: Multiaddr = format!("/ip6/2001:db8::1/tcp/1/p2p/{peer}").parse().unwrap();
        let mut wider = self::joins();
        wider.add(vec![address(1, Some(peer)), far]).unwrap();
        let id = due(&mut wider);
        assert_eq!(wider.due_addresses(id).len(), 2, "packets to private addresses may vanish");
        let mut alone = self::joins();
        alone.add(six.clone()).unwrap();
        let id = due(&mut alone);
        assert_eq!(alone.due_addresses(id), six);
        assert!(alone.failed_because(id, "no route".into()).is_some(), "there is no other way");
    }

    #[test]
    fn of_a_node_that_moves_often_the_newest_addresses_count() {
        let peer = Some(PeerId::random());
        let mut joins = joins();
        joins.add((1..=100).map(|port| address(port, peer)).collect()).unwrap();
        let kept = &joins.targets[0].addresses;
        assert_eq!((kept.len(), &kept[0]), (MAX_ADDRESSES, &address(100, peer)));
    }

    #[test]
    fn more_targets_than_there_is_room_for_are_refused_by_name() {
        let all: Vec<_> = (1..=MAX_TARGETS as u16 + 1).map(|port| address(port, None)).collect();
        assert_eq!(joins().add(all.clone()), Err(all[MAX_TARGETS].clone()));
    }

    #[test]
    fn however_long_a_peer_was_away_it_is_dialled_within_8_s_of_its_return() {
        let usual = crate::LinkOptions::default();
        for node in 0..=255 {
            let longest = pause(NodeId([node; 32]), u32::MAX, usual.redial_min, usual.redial_max);
            assert!(longest < Duration::from_secs(8), "{longest:?}");
        }
    }

    #[test]
    fn pauses_double_up_to_the_longest_and_differ_between_nodes() {
        let of = |node: u8, attempts| pause(NodeId([node; 32]), attempts, Duration::from_millis(500), MAX);
        for attempts in 0..40 {
            let full = Duration::from_millis(500).saturating_mul(1 << attempts.min(16)).min(MAX);
            let p = of(1, attempts);
            assert!(p >= full.mul_f64(0.75) && p <= full.mul_f64(1.25), "{attempts}: {p:?}");
        }
        let mut different: Vec<_> = (0..50).map(|node| of(node, 3)).collect();
        different.sort();
        different.dedup();
        assert!(different.len() > 40, "{different:?}");
    }

    #[test]
    fn a_target_is_dialled_again_after_its_session_and_not_during_it() {
        let mut joins = joins();
        let peer = PeerId::random();
        let node = NodeId([9; 32]);
        joins.add(vec![address(1, Some(peer))]).unwrap();
        let id = due(&mut joins);
        joins.dialling(id, ConnectionId::new_unchecked(1));
        assert_eq!(joins.find(ConnectionId::new_unchecked(1)), Some(id));
        joins.connected(peer, node);
        assert_eq!(joins.find(ConnectionId::new_unchecked(1)), None);
        let mut cx = Context::from_waker(futures::task::noop_waker_ref());
        assert!(joins.poll_due(&mut cx).is_pending());
        joins.disconnected(node);
        assert_eq!(due(&mut joins), id);
    }

    #[test]
    fn a_peer_without_room_is_left_alone_for_a_while_whichever_is_heard_first() {
        let peer = PeerId::from(libp2p::identity::Keypair::generate_ed25519().public());
        let node = crate::node_id(&peer).unwrap();
        let mut joins = joins();
        joins.add(vec![address(1, Some(peer))]).unwrap();
        let id = due(&mut joins);
        joins.dialling(id, ConnectionId::new_unchecked(1));
        joins.rest(node);
        assert!(joins.failed(id) >= REST.mul_f64(0.75), "it was told before the connection ended");
        assert!(joins.failed(id) < Duration::from_secs(1), "the next pause is an ordinary one");
        joins.rest(node);
        assert!(!joins.targets[0].full, "it was told afterwards, and waits already");
    }
}
