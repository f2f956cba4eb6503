//! Events of its links that a driver gets.

use crate::join::named_peer;
use crate::queue::Queue;
use bytes::Bytes;
use futures::channel::mpsc;
use futures::task::AtomicWaker;
use futures::{Stream, StreamExt};
use libp2p::Multiaddr;
use node_core::{Carrier, Channel, NodeId};
use std::collections::HashMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

/// Something happened on a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkEvent {
    /// Frames can be sent to `peer` and will come from it. `ip` is where it is seen, if that is
    /// an address and not a name. `joined`: it is one of those that this node was told to join.
    Connected { peer: NodeId, ip: Option<IpAddr>, joined: bool, over: Carrier },
    /// Nothing was heard of `peer` for [`crate::LinkOptions::quiet_heartbeats`]; the session stands.
    Quiet { peer: NodeId },
    /// The session is over; what was not yet delivered is lost.
    Disconnected { peer: NodeId, reason: String },
    /// One frame. Small frames share memory with their neighbours: copy what is kept.
    Frame { from: NodeId, channel: Channel, bytes: Bytes },
    /// `peer` did something a correct peer does not do, or speaks no common protocol. Its
    /// connection is closed; if it had a session, `Disconnected` follows.
    Fault { peer: NodeId, what: String },
    /// The answer to [`crate::Link::probe`] of that number.
    Probed { number: u64, reached: bool },
    /// Others can dial this address, which names this node.
    Listening { addr: Multiaddr },
    /// This node is no longer reachable there.
    ListeningEnded { addr: Multiaddr, reason: String },
    /// Nobody was reached at `addr`, which may name a peer. An address of [`crate::Link::join`] is dialled again.
    DialFailed { addr: Multiaddr, peer: Option<NodeId>, reason: String, retry_in: Option<Duration> },
}

/// The sessions as the driver knows them: what it may send to.
pub(crate) type Sessions = Arc<Mutex<HashMap<NodeId, Arc<Queue>>>>;

/// Why looking at `sessions` cannot fail: nothing panics while holding it, and if something
/// did, a map is whole after every step.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Item {
    event: LinkEvent,
    /// With `Connected`: where frames to the peer go from now on.
    queue: Option<Arc<Queue>>,
    cost: usize,
}

/// How much waits for the driver.
struct Budget {
    used: AtomicUsize,
    limit: usize,
    runner: AtomicWaker,
}

/// The driver's end: a stream that ends when the runner is gone.
pub struct Events {
    receiver: mpsc::UnboundedReceiver<Item>,
    budget: Arc<Budget>,
    sessions: Sessions,
}

/// The runner's end.
pub(crate) struct Sender {
    sender: mpsc::UnboundedSender<Item>,
    budget: Arc<Budget>,
}

/// Weight of an event beside its frame, bytes.
const OVERHEAD: usize = 128;

pub(crate) fn channel(limit: usize, sessions: Sessions) -> (Sender, Events) {
    // Bounded by the budget: the runner stops reading from peers while it is used up.
    let (sender, receiver) = mpsc::unbounded();
    let budget = Arc::new(Budget { used: AtomicUsize::new(0), limit, runner: AtomicWaker::new() });
    (Sender { sender, budget: budget.clone() }, Events { receiver, budget, sessions })
}

impl Sender {
    /// Ready when the driver has room for more. What one step of the runner yields may exceed it.
    pub(crate) fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.budget.runner.register(cx.waker());
        if self.budget.used.load(Ordering::Acquire) < self.budget.limit {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    pub(crate) fn send(&self, event: LinkEvent) {
        self.send_item(event, None);
    }

    pub(crate) fn connected(
        &self,
        peer: NodeId,
        (ip, over): (Option<IpAddr>, Carrier),
        joined: bool,
        queue: Arc<Queue>,
    ) {
        self.send_item(LinkEvent::Connected { peer, ip, joined, over }, Some(queue));
    }

    pub(crate) fn dial_failed(&self, addr: Multiaddr, reason: String, retry_in: Option<Duration>) {
        let peer = named_peer(&addr).and_then(|peer| crate::node_id(&peer).ok());
        self.send(LinkEvent::DialFailed { addr, peer, reason, retry_in });
    }

    fn send_item(&self, event: LinkEvent, queue: Option<Arc<Queue>>) {
        let cost = OVERHEAD + if let LinkEvent::Frame { bytes, .. } = &event { bytes.len() } else { 0 };
        self.budget.used.fetch_add(cost, Ordering::AcqRel);
        // A driver that is gone hears nothing; the runner notices by `is_closed`.
        let _ = self.sender.unbounded_send(Item { event, queue, cost });
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }
}

impl Events {
    /// The next event, or `None` when the runner is gone.
    pub async fn recv(&mut self) -> Option<LinkEvent> {
        self.next().await
    }

    /// An event that is already here.
    pub fn try_recv(&mut self) -> Option<LinkEvent> {
        let item = self.receiver.try_recv().ok()?;
        Some(self.deliver(item))
    }

    /// Bytes that wait here: frames, and a little for each event.
    pub fn waiting(&self) -> usize {
        self.budget.used.load(Ordering::Acquire)
    }

    fn deliver(&mut self, item: Item) -> LinkEvent {
        let before = self.budget.used.fetch_sub(item.cost, Ordering::AcqRel);
        if before >= self.budget.limit && before - item.cost < self.budget.limit {
            self.budget.runner.wake();
        }
        match (&item.event, item.queue) {
            (LinkEvent::Connected { peer, .. }, Some(queue)) => {
                locked(&self.sessions).insert(*peer, queue);
            }
            (LinkEvent::Disconnected { peer, .. }, _) => {
                locked(&self.sessions).remove(peer);
            }
            _ => {}
        }
        item.event
    }
}

impl Stream for Events {
    type Item = LinkEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<LinkEvent>> {
        let item = futures::ready!(self.receiver.poll_next_unpin(cx));
        Poll::Ready(item.map(|item| self.deliver(item)))
    }
}
