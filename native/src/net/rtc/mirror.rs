//! Where a router lets this node be seen: asked of a gateway by STUN, from each socket.

use super::routes::{Inbox, Routes};
use super::stun;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::UdpSocket;

/// Between two questions, and how many. Our choice: a packet or two may be lost, and the channel waits for nobody.
const AGAIN: Duration = Duration::from_millis(300);
const QUESTIONS: u8 = 5;

/// The questions of one end.
pub(super) struct Mirror {
    at: SocketAddr,
    routes: Routes,
    /// Questions without an answer, by the sockets from which they are asked.
    open: HashMap<stun::Id, (SocketAddr, Arc<UdpSocket>)>,
    asked: u8,
    due: Instant,
}

impl Mirror {
    /// `None` if there is no use in asking there: on this machine itself no router is between.
    pub(super) fn new(at: SocketAddr, routes: Routes) -> Option<Mirror> {
        let ip = at.ip();
        (!ip.is_loopback()).then(|| Mirror {
            at,
            routes,
            open: HashMap::new(),
            asked: 0,
            due: Instant::now(),
        })
    }

    /// Prepares a question from each socket that reaches the gateway.
    pub(super) fn ask_from(&mut self, sockets: &[(SocketAddr, Arc<UdpSocket>)], inbox: &Inbox) {
        for (from, socket) in sockets {
            let mut id = [0; 12];
            let reaches = from.is_ipv4() == self.at.is_ipv4() && !from.ip().is_loopback();
            if reaches && getrandom::fill(&mut id).is_ok() {
                self.routes.question(id, inbox.clone());
                self.open.insert(id, (*from, Arc::clone(socket)));
            }
        }
    }

    /// When to call [`Mirror::ask`] next.
    pub(super) fn due(&self) -> Option<Instant> {
        (!self.open.is_empty() && self.asked < QUESTIONS).then_some(self.due)
    }

    /// Asks, if it is time.
    pub(super) fn ask(&mut self, now: Instant) {
        if self.due().is_none_or(|due| due > now) {
            return;
        }
        for (id, (_, socket)) in &self.open {
            // One that is lost is asked again.
            drop(socket.try_send_to(&stun::question(*id), self.at));
        }
        self.asked += 1;
        self.due = now + AGAIN;
    }

    /// A packet has come. If it is an answer: the socket, and where it is seen.
    pub(super) fn answered(&mut self, packet: &[u8]) -> Option<(SocketAddr, SocketAddr)> {
        let (id, seen) = stun::answer_in(packet)?;
        let (from, _) = self.open.remove(&id)?;
        Some((from, seen))
    }
}
