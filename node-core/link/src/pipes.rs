//! Byte streams that the driver opened itself, such as data channels: a transport that gives them to the link, which
//! puts the same handshake and the same framed channels on them as on TCP.

use crate::events::locked;
use futures::channel::mpsc;
use futures::future::{self, Ready};
use futures::{AsyncRead, AsyncWrite, StreamExt};
use libp2p::core::multiaddr::Protocol;
use libp2p::core::transport::{DialOpts, ListenerId, TransportError, TransportEvent};
use libp2p::{Multiaddr, Transport};
use node_core::overlay::signalling::SERVERS_SESSIONS;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

/// Streams that wait to be dialled or taken. Our choice: twice the channels that a server opens at once, for circuits
/// beside them.
const WAITING: usize = 2 * SERVERS_SESSIONS;

/// A stream of bytes, in order and without loss.
pub trait Pipe: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Pipe for T {}

type Boxed = Box<dyn Pipe>;

/// A stream that comes: where it is listened for, and where it comes from.
type Incoming = (Multiaddr, Multiaddr, Boxed);

/// Why a stream is not given to the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotPiped {
    #[error("{WAITING} byte streams wait for the link already; open no further ones for a moment")]
    Full,
    #[error("the link has ended")]
    Ended,
}

/// Why a pipe cannot be dialled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no byte stream of this number")]
pub struct NoPipe;

/// The transport. One for each link, in front of those that dial.
pub struct Pipes {
    dialled: Arc<Mutex<BTreeMap<u64, Boxed>>>,
    incoming: mpsc::Receiver<Incoming>,
    listener: Option<ListenerId>,
    /// The listener has to be told of.
    new: bool,
}

/// Gives streams to the transport; clones share it.
#[derive(Clone)]
pub struct Piping {
    dialled: Arc<Mutex<BTreeMap<u64, Boxed>>>,
    incoming: Arc<Mutex<mpsc::Sender<Incoming>>>,
    last: Arc<AtomicU64>,
}

/// The transport, and what gives it streams.
pub fn pipes() -> (Pipes, Piping) {
    let (sender, incoming) = mpsc::channel(WAITING);
    let dialled = Arc::default();
    let piping = Piping {
        dialled: Arc::clone(&dialled),
        incoming: Arc::new(Mutex::new(sender)),
        last: Arc::default(),
    };
    (Pipes { dialled, incoming, listener: None, new: false }, piping)
}

impl Piping {
    /// Address that [`crate::Runner::listen`] has to listen on for [`Piping::accept`].
    pub fn listening() -> Multiaddr {
        address(0, None)
    }

    /// The end of the one that has to dial: dial the address that this returns, with `/p2p/` and the peer that has
    /// to be at the other end. `ip`: where that one is, if the driver knows.
    ///
    /// One that is never dialled ends when too many have come after it.
    pub fn dial(&self, pipe: impl Pipe + 'static, ip: Option<IpAddr>) -> Multiaddr {
        address(self.put(Box::new(pipe)), ip)
    }

    /// As [`Piping::dial`], for a stream that another node passes on.
    pub(crate) fn dial_relayed(&self, pipe: impl Pipe + 'static) -> Multiaddr {
        relayed(self.put(Box::new(pipe)))
    }

    /// The stream of this address is not dialled after all.
    pub(crate) fn take_back(&self, address: &Multiaddr) {
        let taken = number(address).and_then(|number| locked(&self.dialled).remove(&number));
        // It may have something to say about its end.
        drop(taken);
    }

    fn put(&self, pipe: Boxed) -> u64 {
        let number = self.number();
        let mut dialled = locked(&self.dialled);
        if dialled.len() >= WAITING {
            dialled.pop_first();
        }
        dialled.insert(number, pipe);
        number
    }

    /// The other end: its connection comes as others' do.
    ///
    /// # Errors
    /// Too many streams wait, or the link has ended.
    pub fn accept(&self, pipe: impl Pipe + 'static, ip: Option<IpAddr>) -> Result<(), NotPiped> {
        let from = address(self.number(), ip);
        self.give(Piping::listening(), from, Box::new(pipe))
    }

    /// As [`Piping::accept`], for a stream that another node passes on.
    pub(crate) fn accept_relayed(&self, pipe: impl Pipe + 'static) -> Result<(), NotPiped> {
        self.give(relayed(0), relayed(self.number()), Box::new(pipe))
    }

    fn give(&self, at: Multiaddr, from: Multiaddr, pipe: Boxed) -> Result<(), NotPiped> {
        let sent = locked(&self.incoming).try_send((at, from, pipe));
        sent.map_err(|error| if error.is_full() { NotPiped::Full } else { NotPiped::Ended })
    }

    fn number(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// The IP address first, as in every other one, so that whoever is there is counted and refused by it.
fn address(number: u64, ip: Option<IpAddr>) -> Multiaddr {
    ip.map_or_else(Multiaddr::empty, Multiaddr::from).with(Protocol::Memory(number))
}

/// The address of a stream that another node passes on.
fn relayed(number: u64) -> Multiaddr {
    address(number, None).with(Protocol::P2pCircuit)
}

fn number(address: &Multiaddr) -> Option<u64> {
    address
        .iter()
        .take(2)
        .find_map(|part| if let Protocol::Memory(number) = part { Some(number) } else { None })
}

/// Whether the address is one of streams ([`Piping::dial`]).
pub fn is_pipe(address: &Multiaddr) -> bool {
    number(address).is_some()
}

/// Whether the stream of this address is one that another node passes on.
pub fn is_relayed(address: &Multiaddr) -> bool {
    is_pipe(address) && address.iter().any(|part| part == Protocol::P2pCircuit)
}

impl Transport for Pipes {
    type Output = Boxed;
    type Error = NoPipe;
    type ListenerUpgrade = Ready<Result<Boxed, NoPipe>>;
    type Dial = Ready<Result<Boxed, NoPipe>>;

    fn listen_on(&mut self, id: ListenerId, at: Multiaddr) -> Result<(), TransportError<NoPipe>> {
        if number(&at) != Some(0) || self.listener.is_some() {
            return Err(TransportError::MultiaddrNotSupported(at));
        }
        (self.listener, self.new) = (Some(id), true);
        Ok(())
    }

    fn remove_listener(&mut self, id: ListenerId) -> bool {
        let is_it = self.listener == Some(id);
        if is_it {
            self.listener = None;
        }
        is_it
    }

    fn dial(&mut self, at: Multiaddr, _: DialOpts) -> Result<Self::Dial, TransportError<NoPipe>> {
        let Some(number) = number(&at) else { return Err(TransportError::MultiaddrNotSupported(at)) };
        let pipe = locked(&self.dialled).remove(&number);
        pipe.map(|pipe| future::ready(Ok(pipe))).ok_or(TransportError::Other(NoPipe))
    }

    fn poll(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<TransportEvent<Self::ListenerUpgrade, NoPipe>> {
        let Some(listener_id) = self.listener else { return Poll::Pending };
        if std::mem::take(&mut self.new) {
            return Poll::Ready(TransportEvent::NewAddress { listener_id, listen_addr: Piping::listening() });
        }
        match self.incoming.poll_next_unpin(cx) {
            Poll::Ready(Some((local_addr, send_back_addr, pipe))) => Poll::Ready(TransportEvent::Incoming {
                listener_id,
                upgrade: future::ready(Ok(pipe)),
                local_addr,
                send_back_addr,
            }),
            // Nobody can give it streams any more.
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }
}
