//! Ends of data channels, as drivers have them: two nodes connect straight, whether or not either can be dialled,
//! where the routers between them let them.

use super::link::First;
use super::{Event, World};
use crate::rng::Rng;
use core::net::{IpAddr, Ipv4Addr};
use node_core::NodeInput;
use node_core::address::Ip;
use node_core::overlay::signalling::{
    At, Candidate, Description, Fingerprint, Kind, Reply, Request, SessionId,
};
use std::collections::BTreeMap;

/// Ends that wait for the other one, by session and node.
pub(super) type Ends = BTreeMap<(SessionId, u32), End>;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct End {
    peer: u32,
    life: u32,
    /// The other end's description is known.
    knows: bool,
    /// An address of the other end is known.
    tries: bool,
}

impl World {
    pub(super) fn data_channel(&mut self, at: usize, request: Request) {
        let (node, life) = (at as u32, self.nodes[at].life);
        match request {
            Request::Open { session, peer, .. } => {
                let Some(peer) = self.find(peer) else { return };
                self.ends
                    .insert((session, node), End { peer: peer as u32, life, knows: false, tries: false });
                let word = |long: usize| format!("{at:0long$}");
                let description = Description {
                    ufrag: word(8),
                    password: word(24),
                    fingerprint: Fingerprint(self.ids[at].0),
                };
                let delay = self.net_rng.between(1_000, 20_000);
                self.answer(at, life, delay, NodeInput::DataChannel(Reply::Described(session, description)));
                let same_machine = self.nodes[at].machine == self.nodes[peer].machine;
                let here = Ip::from(IpAddr::from(Ipv4Addr::LOCALHOST));
                let ip = if same_machine { here } else { self.nodes[at].ip };
                let found = vec![Candidate { at: At::Ip(ip), port: 40_000, kind: Kind::Host, priority: 1 }];
                let delay = self.net_rng.between(1_000, 50_000);
                self.answer(at, life, delay, NodeInput::DataChannel(Reply::Found(session, found)));
            }
            Request::Remote(session, _) => self.end_learns(session, node, |end| end.knows = true),
            Request::Try(session, _) => self.end_learns(session, node, |end| end.tries = true),
            Request::Close(session) => {
                self.ends.remove(&(session, node));
            }
        }
    }

    fn end_learns(&mut self, session: SessionId, node: u32, learn: impl FnOnce(&mut End)) {
        let Some(end) = self.ends.get_mut(&(session, node)) else { return };
        learn(end);
        let here = *end;
        let Some(there) = self.ends.get(&(session, here.peer)).copied() else { return };
        // Checks of one that knows an address show the other one where it is.
        if here.knows && there.knows && (here.tries || there.tries) {
            let time = 2 * self.dial_time(node as usize, here.peer as usize);
            self.after(time, Event::Pierced { session, a: node, b: here.peer });
        }
    }

    /// The checks of both have got through, or not.
    pub(super) fn pierced(&mut self, session: SessionId, a: u32, b: u32) {
        let pair = [a, b]
            .map(|at| self.ends.get(&(session, at)).filter(|end| self.nodes[at as usize].life == end.life));
        let walled = self.network.walls.contains(&(a.min(b), a.max(b))) || self.is_walled(a.min(b), a.max(b));
        if pair.contains(&None) || walled || !self.reaches(a as usize, b as usize) {
            return;
        }
        for at in [a, b] {
            self.ends.remove(&(session, at));
            self.drive(at as usize, NodeInput::DataChannel(Reply::Opened(session)));
        }
        self.join(a as usize, b as usize, First::OfAChannel);
    }

    /// Whether the pair is one of those between which none opens. The same ones each time.
    fn is_walled(&self, a: u32, b: u32) -> bool {
        let share = self.network.walled;
        share > 0.0 && Rng::fork(self.seed, 1 << 63 | u64::from(a) << 31 | u64::from(b)).chance(share)
    }

    /// No data channel opens between these two from now on: their routers let in only whom they spoke to before.
    pub fn wall(&mut self, a: usize, b: usize) {
        self.network.walls.insert((a.min(b) as u32, a.max(b) as u32));
    }

    /// Data channels open between these two again.
    pub fn unwall(&mut self, a: usize, b: usize) {
        self.network.walls.remove(&(a.min(b) as u32, a.max(b) as u32));
    }
}
