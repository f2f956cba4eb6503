//! Ends of circuits: streams of bytes that another node passes on, the same natively and in a browser.
//!
//! The node says with whom ([`Request`]) and carries the bytes in its own messages; the link gets each end as a
//! stream and puts a connection on it, as on a data channel.

use crate::events::locked;
use crate::pipes::Piping;
use crate::runner::Link;
use bytes::Bytes;
use futures::io::{self, AsyncRead, AsyncWrite};
use node_core::overlay::circuits::ends::{Reply, Request, Role};
use node_core::overlay::circuits::{CircuitId, PIECE, WINDOW, cost};
use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

/// Word to the node.
pub type ToNode = Arc<dyn Fn(Reply) + Send + Sync>;

/// The node hears of so much at once, so that not each read is a message. Our choice: a quarter of the window.
const READ: u32 = WINDOW / 4;

/// This node's ends, of which it tells ([`Circuits::request`]).
pub struct Circuits {
    link: Link,
    piping: Piping,
    answer: ToNode,
    ends: BTreeMap<CircuitId, Arc<Mutex<Shared>>>,
}

/// State of an end, between the node and the link.
struct Shared {
    /// Bytes that may still be written, as `cost` has them.
    room: u32,
    received: VecDeque<Bytes>,
    /// Bytes that were read, and of which the node was not told.
    read: u32,
    /// No more comes, and nothing more is written.
    over: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// The link's side of an end.
struct Stream {
    circuit: CircuitId,
    shared: Arc<Mutex<Shared>>,
    answer: ToNode,
}

impl Circuits {
    /// `answer` must not call back.
    pub fn new(link: Link, piping: Piping, answer: ToNode) -> Circuits {
        Circuits { link, piping, answer, ends: BTreeMap::new() }
    }

    /// Does what the node wants.
    pub fn request(&mut self, request: Request) {
        match request {
            Request::Open { circuit, peer, role } => {
                // Those that the link has dropped.
                self.ends.retain(|_, shared| Arc::strong_count(shared) > 1);
                let shared = Arc::new(Mutex::new(Shared {
                    room: WINDOW,
                    received: VecDeque::new(),
                    read: 0,
                    over: false,
                    reader: None,
                    writer: None,
                }));
                let stream =
                    Stream { circuit, shared: Arc::clone(&shared), answer: Arc::clone(&self.answer) };
                self.ends.insert(circuit, shared);
                // A stream that is not taken is dropped, and says so.
                match role {
                    Role::Dials => {
                        let at = self.piping.dial_relayed(stream);
                        let to = crate::peer_id(&peer).and_then(|peer| at.clone().with_p2p(peer).ok());
                        if to.is_none_or(|to| self.link.dial(to).is_err()) {
                            self.piping.take_back(&at);
                        }
                    }
                    Role::Answers => {
                        let _ = self.piping.accept_relayed(stream);
                    }
                }
            }
            Request::Bytes(circuit, bytes) => self.change(circuit, |shared| {
                shared.received.push_back(bytes);
                shared.reader.take()
            }),
            Request::Room(circuit, room) => self.change(circuit, |shared| {
                shared.room += room;
                shared.writer.take()
            }),
            Request::Close(circuit) => {
                self.change(circuit, |shared| {
                    shared.over = true;
                    shared.writer.take().into_iter().for_each(Waker::wake);
                    shared.reader.take()
                });
                self.ends.remove(&circuit);
            }
        }
    }

    /// Changes the state of an end, and wakes whom the change concerns.
    fn change(&mut self, circuit: CircuitId, change: impl FnOnce(&mut Shared) -> Option<Waker>) {
        let Some(shared) = self.ends.get(&circuit) else { return };
        let waker = change(&mut locked(shared));
        waker.into_iter().for_each(Waker::wake);
    }
}

impl Drop for Circuits {
    fn drop(&mut self) {
        let all: Vec<CircuitId> = self.ends.keys().copied().collect();
        all.into_iter().for_each(|circuit| self.request(Request::Close(circuit)));
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut shared = locked(&self.shared);
        let Some(mut first) = shared.received.pop_front() else {
            if shared.over {
                return Poll::Ready(Ok(0));
            }
            shared.reader = Some(cx.waker().clone());
            return Poll::Pending;
        };
        let part = first.split_to(first.len().min(into.len()));
        into[..part.len()].copy_from_slice(&part);
        let mut read = part.len() as u32;
        match first.is_empty() {
            true => read += cost(0),
            false => shared.received.push_front(first),
        }
        shared.read += read;
        if shared.read >= READ {
            let read = std::mem::take(&mut shared.read);
            drop(shared);
            (self.answer)(Reply::Read(self.circuit, read));
        }
        Poll::Ready(Ok(part.len()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut shared = locked(&self.shared);
        if shared.over {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::BrokenPipe, "the circuit has ended")));
        }
        let room = (shared.room.saturating_sub(cost(0)) as usize).min(PIECE);
        // Short pieces for want of room would only fill it with what each costs.
        if room < bytes.len().min(PIECE) && room < cost(PIECE) as usize / 4 {
            shared.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let part = bytes.get(..bytes.len().min(room)).unwrap_or_default();
        shared.room -= cost(part.len());
        drop(shared);
        (self.answer)(Reply::Bytes(self.circuit, Bytes::copy_from_slice(part)));
        Poll::Ready(Ok(part.len()))
    }

    /// The node sends at once.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let mut shared = locked(&self.shared);
        // Nobody reads it any more.
        shared.received = VecDeque::new();
        if !std::mem::replace(&mut shared.over, true) {
            drop(shared);
            (self.answer)(Reply::Closed(self.circuit));
        }
    }
}
