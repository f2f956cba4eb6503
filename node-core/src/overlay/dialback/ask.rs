//! The node's own addresses: which are confirmed, and whom to ask about them next.

use super::{Dcx, DialBack, Ip, Message, Outcome, Timer};
use crate::backoff::Pauses;
use crate::ids::NodeId;
use crate::time::Time;
use std::collections::BTreeSet;
use std::time::Duration;

/// Addresses that peers see this node at. Our choice: loopback, the network's and the world's, of
/// both families, and two more after a move. One more replaces an address that is neither confirmed nor asked
/// about; if there is none, the new one is ignored.
pub(super) const CANDIDATES: usize = 8;

/// Until an answer is overdue. The driver of the other side gives up dialling after 10 s.
const PATIENCE: Duration = Duration::from_secs(15);

/// Until a confirmed address is asked about again, less or more by up to a quarter. Our choice: a
/// member that cannot be dialled any more is found out within minutes, and a gateway with 10,000
/// members dials 17 of them a second.
const AGAIN: Duration = Duration::from_secs(600);

/// Until the next peer is asked after an answer that settles nothing. Our choice: a node knows where it stands after
/// some seconds, and peers are asked 30 times a minute at most.
const NEXT: Duration = Duration::from_secs(2);

/// Until an address that nobody has reached is tried again. Our choice: a person who opens a port sees it within the
/// time that it takes, and a node that nobody will ever reach asks 12 times an hour.
const PAUSES: Pauses = Pauses { first: Duration::from_secs(15), longest: Duration::from_secs(300) };

/// Failures in a row until a confirmed address counts as lost. Our choice: one may be the asked
/// peer's own network, and a busy machine.
const LOSSES: u8 = 3;

/// How often nobody could say before the node says itself that it is a guest. Our choice: as many as [`LOSSES`].
const UNANSWERED: u8 = 3;

/// How long an address stays that nobody sees this node at any more, while it is seen at another one
/// of the same scope and family: it has moved. And how long if it is not. Our choice: a router's new lease takes
/// seconds, and a peer that sees the node may be away for a while.
const MOVED: Duration = Duration::from_secs(30);
const UNSEEN: Duration = Duration::from_secs(900);

/// An address of this node.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) ip: Ip,
    /// When a peer last dialled it.
    pub(super) confirmed: Option<Time>,
    /// Dials in vain, in a row.
    pub(super) failures: u8,
    /// Questions since the last confirmation.
    tries: u8,
    asking: Option<Asking>,
    /// Nobody is asked before then.
    due: Time,
    /// Since when no connected peer sees this node there.
    unseen: Option<Time>,
}

#[derive(Debug)]
struct Asking {
    peer: NodeId,
    nonce: u64,
    begun: Time,
}

impl DialBack {
    /// Whether a peer could dial that address, as far as this node listens there.
    pub(super) fn may_be_dialled(&self, ip: Ip) -> bool {
        !self.listening.loopback_only || ip.is_loopback()
    }

    /// Whether nobody has said anything of it so far, and somebody will.
    pub(super) fn is_pending(&self, candidate: &Candidate) -> bool {
        let open = candidate.confirmed.is_none() && candidate.failures == 0 && candidate.tries < UNANSWERED;
        open && self.may_be_dialled(candidate.ip)
    }

    /// A peer that has come sees this node at some address.
    pub(super) fn seen_by(&mut self, peer: NodeId, cx: &mut Dcx<'_>) {
        let Some(known) = self.peers.get(&peer).filter(|known| known.dials) else { return };
        let Some(ip) = known.seen.filter(|_| self.listening.port.is_some()) else { return };
        let at = match self.candidates.iter().position(|c| c.ip == ip) {
            Some(at) => at,
            None => {
                if self.candidates.len() >= CANDIDATES {
                    let Some(idle) =
                        self.candidates.iter().position(|c| c.confirmed.is_none() && c.asking.is_none())
                    else {
                        return;
                    };
                    self.candidates.remove(idle);
                }
                // One, on most nodes.
                self.candidates.reserve_exact(1);
                self.candidates.push(Candidate {
                    ip,
                    confirmed: None,
                    failures: 0,
                    tries: 0,
                    asking: None,
                    due: cx.now,
                    unseen: None,
                });
                // It may have moved: what it had before is looked at soon.
                self.note_unseen(cx);
                for other in &mut self.candidates {
                    other.due = other.due.min(cx.now + MOVED);
                }
                self.candidates.len() - 1
            }
        };
        let usable = self.may_be_dialled(ip);
        let candidate = &mut self.candidates[at];
        candidate.unseen = None;
        if !usable || candidate.confirmed.is_some() || candidate.asking.is_some() {
            return;
        }
        if candidate.tries == 0 {
            return self.ask(at, peer, cx);
        }
        // It may be able to do what others could not.
        candidate.due = candidate.due.min(cx.now + NEXT);
        self.arm(cx);
    }

    fn ask(&mut self, at: usize, peer: NodeId, cx: &mut Dcx<'_>) {
        let Some(port) = self.listening.port else { return };
        let Some(candidate) = self.candidates.get_mut(at) else { return };
        let nonce = cx.rng.u64();
        candidate.asking = Some(Asking { peer, nonce, begun: cx.now });
        if let Some(known) = self.peers.get_mut(&peer) {
            known.asked = Some(cx.now);
        }
        cx.send(peer, Message::Ask { nonce, port });
        self.arm(cx);
    }

    pub(super) fn answered(&mut self, from: NodeId, nonce: u64, outcome: Outcome, cx: &mut Dcx<'_>) {
        let asked = |asking: &Asking| asking.peer == from && asking.nonce == nonce;
        let candidate = self.candidates.iter_mut().find(|c| c.asking.as_ref().is_some_and(asked));
        // Late, or of a life before.
        let Some(candidate) = candidate else { return };
        candidate.asking = None;
        match outcome {
            Outcome::Reached(ip) | Outcome::NotReached(ip) if ip != candidate.ip => {
                let fault =
                    format!("says that it has dialled {ip:?}, and sees this node at {:?}", candidate.ip);
                cx.fault(from, fault);
                candidate.later(NEXT, cx);
            }
            Outcome::Reached(_) => {
                candidate.confirmed = Some(cx.now);
                (candidate.failures, candidate.tries) = (0, 0);
                candidate.due = cx.now + around(AGAIN, cx);
            }
            Outcome::NotReached(_) => {
                candidate.failures = candidate.failures.saturating_add(1);
                if candidate.failures >= LOSSES {
                    candidate.confirmed = None;
                }
                // Another peer may reach it; after that, less and less often.
                let pause = match candidate.failures {
                    ..=LOSSES if candidate.confirmed.is_some() => NEXT,
                    failures => PAUSES.after(failures.into()),
                };
                candidate.later(pause, cx);
            }
            Outcome::Busy => candidate.later(NEXT, cx),
            Outcome::Unable => {
                candidate.later(Duration::ZERO, cx);
                if let Some(peer) = self.peers.get_mut(&from) {
                    peer.seen = None;
                }
            }
        }
        self.decide(cx);
        self.arm(cx);
    }

    /// A peer that was asked has gone.
    pub(super) fn unanswered_by(&mut self, peer: NodeId, cx: &mut Dcx<'_>) {
        let its = |c: &&mut Candidate| c.asking.as_ref().is_some_and(|asking| asking.peer == peer);
        if let Some(candidate) = self.candidates.iter_mut().find(its) {
            candidate.asking = None;
            candidate.later(NEXT, cx);
            self.arm(cx);
        }
    }

    /// Asks about what is due.
    pub(super) fn look(&mut self, cx: &mut Dcx<'_>) {
        for candidate in &mut self.candidates {
            if candidate.asking.as_ref().is_some_and(|asking| cx.now.since(asking.begun) >= PATIENCE) {
                candidate.asking = None;
                candidate.later(NEXT, cx);
            }
        }
        let seen = self.note_unseen(cx);
        self.candidates.retain(|candidate| {
            let Some(since) = candidate.unseen.filter(|_| !seen.is_empty()) else { return true };
            let (scope, v6) = (candidate.ip.scope(), candidate.ip.is_v6());
            let moved = seen.iter().any(|ip| ip.scope() == scope && ip.is_v6() == v6);
            cx.now.since(since) < if moved { MOVED } else { UNSEEN }
        });
        for at in 0..self.candidates.len() {
            let candidate = &mut self.candidates[at];
            if candidate.asking.is_some() || cx.now < candidate.due {
                continue;
            }
            let ip = candidate.ip;
            candidate.due = cx.now + MOVED;
            if !self.may_be_dialled(ip) {
                continue;
            }
            // Asks the peer that has not been asked for longest.
            let can_tell = self.peers.iter().filter(|(_, peer)| peer.dials && peer.seen == Some(ip));
            if let Some(peer) = can_tell.min_by_key(|(_, peer)| peer.asked).map(|(id, _)| *id) {
                self.ask(at, peer, cx);
            }
        }
        self.decide(cx);
        self.arm(cx);
    }

    /// Notes which addresses no peer sees this node at any more; gives those that some do.
    fn note_unseen(&mut self, cx: &mut Dcx<'_>) -> BTreeSet<Ip> {
        let seen: BTreeSet<Ip> = self.peers.values().filter_map(|peer| peer.seen).collect();
        for candidate in &mut self.candidates {
            candidate.unseen = match seen.contains(&candidate.ip) {
                true => None,
                false => candidate.unseen.or(Some(cx.now)),
            };
        }
        seen
    }

    fn arm(&mut self, cx: &mut Dcx<'_>) {
        let next = self.candidates.iter().map(|candidate| match &candidate.asking {
            Some(asking) => asking.begun + PATIENCE,
            None => candidate.due,
        });
        match next.min() {
            Some(at) => cx.set_timer(Timer::Look, at.since(cx.now)),
            None => cx.cancel_timer(Timer::Look),
        }
    }
}

impl Candidate {
    /// A question settled nothing, or found it unreachable.
    fn later(&mut self, pause: Duration, cx: &mut Dcx<'_>) {
        self.tries = self.tries.saturating_add(1);
        self.due = cx.now + around(pause, cx);
    }
}

/// Less or more by up to a quarter, so that nodes that came together do not ask together.
fn around(pause: Duration, cx: &mut Dcx<'_>) -> Duration {
    let quarter = pause.as_micros() as u64 / 4;
    pause - Duration::from_micros(quarter) + Duration::from_micros(cx.rng.below(2 * quarter + 1))
}
