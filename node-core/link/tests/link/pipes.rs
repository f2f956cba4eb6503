//! Links over byte streams that the driver opened itself.

use crate::support::{PATIENCE, hasty};
use bytes::Bytes;
use futures::{AsyncRead, AsyncWrite};
use libp2p::identity::Keypair;
use libp2p::multiaddr::Protocol;
use libp2p::{Multiaddr, swarm};
use link::{Events, Link, LinkEvent, NotPiped, Piping};
use node_core::overlay::signalling::SERVERS_SESSIONS;
use node_core::{Carrier, Channel};
use std::io::Result;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead as _, AsyncReadExt as _, AsyncWrite as _, DuplexStream, ReadBuf};

/// Where the driver sees the other end.
const SOMEWHERE: Option<IpAddr> = Some(IpAddr::V4(Ipv4Addr::new(203, 0, 113, 9)));

/// One end of a stream within this process.
pub(crate) struct End(DuplexStream);

impl AsyncRead for End {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<Result<usize>> {
        let mut buffer = ReadBuf::new(into);
        ready!(Pin::new(&mut self.0).poll_read(cx, &mut buffer))?;
        Poll::Ready(Ok(buffer.filled().len()))
    }
}

impl AsyncWrite for End {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }
    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

pub(crate) fn ends() -> (End, End) {
    let (a, b) = tokio::io::duplex(64 << 10);
    (End(a), End(b))
}

/// A node that has no network but the streams that it is given.
struct Piped {
    link: Link,
    events: Events,
    piping: Piping,
}

impl Piped {
    async fn start() -> Piped {
        let (pipes, piping) = link::pipes();
        let key = Keypair::generate_ed25519();
        let executor = swarm::Config::with_tokio_executor();
        let (link, events, mut runner) = link::start(&key, pipes, executor, hasty()).unwrap();
        runner.listen(&Piping::listening()).unwrap();
        tokio::spawn(runner.run());
        let mut started = Piped { link, events, piping };
        assert!(matches!(started.next().await, LinkEvent::Listening { .. }));
        started
    }

    async fn next(&mut self) -> LinkEvent {
        let event = tokio::time::timeout(PATIENCE, self.events.recv()).await;
        event.expect("nothing happened").expect("the runner ended")
    }

    async fn until<T>(&mut self, mut wanted: impl FnMut(LinkEvent) -> Option<T>) -> T {
        loop {
            let event = self.next().await;
            if let Some(found) = wanted(event) {
                return found;
            }
        }
    }

    fn dial(&self, pipe: End, peer: &Piped) {
        let to: Multiaddr = self.piping.dial(pipe, SOMEWHERE);
        self.link.dial(to.with(Protocol::P2p(link::peer_id(&peer.link.id()).unwrap()))).unwrap();
    }
}

async fn connected(node: &mut Piped) -> node_core::NodeId {
    node.until(|event| match event {
        LinkEvent::Connected { peer, ip, over, .. } => {
            assert_eq!((ip, over), (SOMEWHERE, Carrier::DataChannel));
            Some(peer)
        }
        _ => None,
    })
    .await
}

#[tokio::test]
async fn two_nodes_speak_over_a_stream_that_they_were_given() {
    let (mut a, mut b) = (Piped::start().await, Piped::start().await);
    let (here, there) = ends();
    b.piping.accept(there, SOMEWHERE).unwrap();
    a.dial(here, &b);
    assert_eq!((connected(&mut a).await, connected(&mut b).await), (b.link.id(), a.link.id()));
    // Beyond what the stream itself holds.
    let content = Bytes::from(vec![7; 512 << 10]);
    a.link.send(b.link.id(), Channel::Blob, content.clone());
    b.link.send(a.link.id(), Channel::Control, Bytes::from_static(b"hello"));
    let frame = |event| match event {
        LinkEvent::Frame { channel, bytes, .. } => Some((channel, bytes)),
        _ => None,
    };
    assert_eq!(b.until(frame).await, (Channel::Blob, content));
    assert_eq!(a.until(frame).await, (Channel::Control, Bytes::from_static(b"hello")));
}

#[tokio::test]
async fn a_stream_with_another_node_at_its_end_than_was_agreed_is_no_connection() {
    let (mut a, b, other) = (Piped::start().await, Piped::start().await, Piped::start().await);
    let (here, there) = ends();
    other.piping.accept(there, SOMEWHERE).unwrap();
    a.dial(here, &b);
    let failed = |event| match event {
        LinkEvent::DialFailed { reason, .. } => Some(reason),
        LinkEvent::Connected { peer, .. } => panic!("connected to {peer:?}"),
        _ => None,
    };
    let reason = a.until(failed).await;
    assert!(reason.contains("another"), "{reason}");
}

#[tokio::test]
async fn a_stream_that_ends_ends_the_connection_and_a_new_one_may_come() {
    let (mut a, mut b) = (Piped::start().await, Piped::start().await);
    for _ in 0..3 {
        // The cable between them, which is pulled.
        let ((near, mut left), (far, mut right)) = (tokio::io::duplex(64 << 10), tokio::io::duplex(64 << 10));
        let cable = tokio::spawn(async move { tokio::io::copy_bidirectional(&mut left, &mut right).await });
        b.piping.accept(End(far), SOMEWHERE).unwrap();
        a.dial(End(near), &b);
        connected(&mut a).await;
        connected(&mut b).await;
        cable.abort();
        for node in [&mut a, &mut b] {
            let gone = |event| matches!(event, LinkEvent::Disconnected { .. }).then_some(());
            node.until(gone).await;
        }
    }
}

#[tokio::test]
async fn streams_that_wait_are_bounded() {
    const WAITING: usize = 2 * SERVERS_SESSIONS;
    let (pipes, piping) = link::pipes();
    let (first, mut other_end) = tokio::io::duplex(1);
    piping.dial(End(first), SOMEWHERE);
    // None of them is ever dialled.
    (0..WAITING).for_each(|_| drop(piping.dial(ends().0, SOMEWHERE)));
    let mut byte = [0];
    let read = other_end.read(&mut byte);
    assert_eq!(tokio::time::timeout(PATIENCE, read).await.unwrap().unwrap(), 0, "the oldest has ended");
    let taken = (0..1000).take_while(|_| piping.accept(ends().0, SOMEWHERE).is_ok()).count();
    assert!((WAITING..=WAITING + 4).contains(&taken), "{taken} streams wait for a link that does not run");
    assert_eq!(piping.accept(ends().0, SOMEWHERE), Err(NotPiped::Full));
    drop(pipes);
    assert_eq!(piping.accept(ends().0, SOMEWHERE), Err(NotPiped::Ended));
}
