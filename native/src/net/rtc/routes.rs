//! The way of a packet to its end.

use super::stun;
use node_core::NodeId;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::mpsc;

/// Packets that wait for one end; more are lost, as in a socket's buffer. Our choice: what a socket holds.
pub(super) const WAITING: usize = 512;

/// A packet that has come.
pub(super) struct Datagram {
    pub(super) source: SocketAddr,
    /// Address of the socket.
    pub(super) destination: SocketAddr,
    pub(super) at: Instant,
    pub(super) bytes: Vec<u8>,
}

pub(super) type Inbox = mpsc::Sender<Datagram>;

/// Ends by their own ICE user name fragment, and by socket and peer. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Routes(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    by_name: HashMap<String, Inbox>,
    by_peer: HashMap<(SocketAddr, SocketAddr), (NodeId, Inbox)>,
    by_question: HashMap<stun::Id, Inbox>,
}

impl Routes {
    /// Where a packet belongs; `name` is the fragment of this side, if it has one.
    pub(super) fn find(&self, name: Option<&str>, at: SocketAddr, from: SocketAddr) -> Option<Inbox> {
        let table = self.table();
        match name {
            Some(name) => table.by_name.get(name).cloned(),
            None => table.by_peer.get(&(at, from)).map(|(_, inbox)| inbox.clone()),
        }
    }

    pub(super) fn name(&self, name: String, inbox: Inbox) {
        self.table().by_name.insert(name, inbox);
    }

    /// Packets from there are for this end of `peer` from now on: it has sent some there. Those of another peer stay
    /// that peer's, whose address anybody can name.
    pub(super) fn peer(&self, at: SocketAddr, from: SocketAddr, peer: NodeId, inbox: Inbox) {
        let mut table = self.table();
        let is_anothers = |(of, held): &(NodeId, Inbox)| *of != peer && !held.is_closed();
        if !table.by_peer.get(&(at, from)).is_some_and(is_anothers) {
            table.by_peer.insert((at, from), (peer, inbox));
        }
    }

    /// The end that asked this question of STUN.
    pub(super) fn asker(&self, question: stun::Id) -> Option<Inbox> {
        self.table().by_question.get(&question).cloned()
    }

    pub(super) fn question(&self, question: stun::Id, inbox: Inbox) {
        self.table().by_question.insert(question, inbox);
    }

    /// The end is no more.
    pub(super) fn forget(&self, inbox: &Inbox) {
        let mut table = self.table();
        table.by_name.retain(|_, other| !other.same_channel(inbox));
        table.by_peer.retain(|_, (_, other)| !other.same_channel(inbox));
        table.by_question.retain(|_, other| !other.same_channel(inbox));
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // No half-done change outlives a panic: each is one call.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
