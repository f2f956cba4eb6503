//! Dialling others back.

use super::{Contact, Dcx, DialBack, Event, Ip, Message, Outcome};
use crate::ids::NodeId;
use crate::time::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// Dials under way for all peers. Our choice: less than a tenth of the handshakes that a link allows (512), so that
/// a thousand peers behind walls, whose dials take 10 s each, leave room for the node's own.
pub(super) const UNDER_WAY: usize = 48;

/// Dials under way to one IP address. Our choice: enough for several nodes behind one router; a stranger with
/// many ids does not take the others' places.
const OF_ONE_IP: usize = 8;

/// Between two dials for one peer. Our choice: a correct peer asks again after 1.5 s at the earliest.
const GAP: Duration = Duration::from_secs(1);

/// A dial that was not answered is forgotten after this, if its place is needed. The driver gives
/// up after 10 s.
const LOST: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(super) struct Serving {
    dials: BTreeMap<u64, Dial>,
    last: u64,
}

#[derive(Debug)]
struct Dial {
    peer: NodeId,
    nonce: u64,
    ip: Ip,
    begun: Time,
}

impl Serving {
    pub(super) fn len(&self) -> usize {
        self.dials.len()
    }
}

impl DialBack {
    pub(super) fn asked_by(&mut self, from: NodeId, nonce: u64, port: u16, cx: &mut Dcx<'_>) {
        if port == 0 {
            let fault = "asked to be dialled back at port 0".into();
            return cx.fault(from, fault);
        }
        let Some(peer) = self.peers.get_mut(&from) else { return };
        let answer = |outcome| Message::Answer { nonce, outcome };
        let Some(ip) = peer.ip else { return cx.send(from, answer(Outcome::Unable)) };
        if self.serving.dials.len() >= UNDER_WAY {
            self.serving.dials.retain(|_, dial| cx.now.since(dial.begun) < LOST);
        }
        let soon = peer.served.is_some_and(|at| cx.now.since(at) < GAP);
        let dials = self.serving.dials.values();
        let under_way = dials.clone().any(|dial| dial.peer == from);
        let crowded = dials.filter(|dial| dial.ip == ip).count() >= OF_ONE_IP;
        if soon || under_way || crowded || self.serving.dials.len() >= UNDER_WAY {
            return cx.send(from, answer(Outcome::Busy));
        }
        peer.served = Some(cx.now);
        self.serving.last += 1;
        let number = self.serving.last;
        self.serving.dials.insert(number, Dial { peer: from, nonce, ip, begun: cx.now });
        cx.emit(Event::Probe { number, contact: Contact { ip, id: from, port } });
    }

    pub(super) fn probed(&mut self, number: u64, reached: bool, cx: &mut Dcx<'_>) {
        let Some(Dial { peer, nonce, ip, .. }) = self.serving.dials.remove(&number) else { return };
        let Some(known) = self.peers.get_mut(&peer) else { return };
        known.reached = reached.then_some(ip);
        self.count(peer);
        let outcome = if reached { Outcome::Reached(ip) } else { Outcome::NotReached(ip) };
        cx.send(peer, Message::Answer { nonce, outcome });
        self.decide(cx);
    }
}
