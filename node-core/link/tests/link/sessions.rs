//! One session a peer, dialled again when it is lost.

use crate::support::{Peer, hasty, port};
use link::{LinkEvent, LinkOptions};
use node_core::NodeId;

/// One end's view of its session with the other.
#[derive(Default)]
struct View {
    up: bool,
    begun: usize,
    heard: bool,
}

impl View {
    /// Says hello in each session, as the core does, and checks that sessions do not overlap.
    fn on(&mut self, event: LinkEvent, me: &Peer, other: NodeId) {
        match event {
            LinkEvent::Connected { peer, .. } => {
                assert!(!self.up, "two sessions at once");
                assert_eq!(peer, other);
                *self = View { up: true, begun: self.begun + 1, heard: false };
                me.send(other, "hello");
            }
            LinkEvent::Disconnected { .. } => {
                assert!(self.up, "a session ended that never began");
                self.up = false;
            }
            LinkEvent::Frame { from, bytes, .. } => {
                assert!(self.up, "a frame outside a session");
                assert_eq!((from, &bytes[..]), (other, &b"hello"[..]));
                self.heard = true;
            }
            LinkEvent::DialFailed { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

/// Until each heard the other in the session that stands. Gives the sessions each has seen.
async fn agree(a: &mut Peer, b: &mut Peer) -> (usize, usize) {
    let (mut in_a, mut in_b) = (View::default(), View::default());
    while !(in_a.up && in_a.heard && in_b.up && in_b.heard) {
        tokio::select! {
            event = a.next() => in_a.on(event, a, b.id),
            event = b.next() => in_b.on(event, b, a.id),
        }
    }
    (in_a.begun, in_b.begun)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_that_dial_each_other_at_once_end_with_one_session() {
    for round in 0..20 {
        let mut a = Peer::start(hasty()).await;
        let mut b = Peer::start(hasty()).await;
        a.link.join(vec![b.address.clone()]).unwrap();
        b.link.join(vec![a.address.clone()]).unwrap();
        let (in_a, in_b) = agree(&mut a, &mut b).await;
        assert_eq!((in_a, in_b), (1, 1), "round {round}: what was said first may be lost otherwise");
    }
}

/// Frames go both ways in the session that stands.
async fn settle(a: &mut Peer, b: &mut Peer) {
    a.send(b.id, "ping");
    b.send(a.id, "pong");
    assert_eq!((&a.frame().await.1[..], &b.frame().await.1[..]), (&b"pong"[..], &b"ping"[..]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dialling_a_connected_peer_again_changes_nothing() {
    let mut a = Peer::start(hasty()).await;
    let mut b = Peer::start(hasty()).await;
    a.link.dial(b.address.clone()).unwrap();
    a.connected().await;
    b.connected().await;
    // Without the peer id in it, nobody can know before dialling whom it leads to.
    let nameless: libp2p::Multiaddr = format!("/ip4/127.0.0.1/tcp/{}", b.port()).parse().unwrap();
    for address in [nameless, b.address.clone()] {
        a.link.dial(address.clone()).unwrap();
        match a.next().await {
            LinkEvent::DialFailed { addr, reason, retry_in: None, .. } => {
                assert_eq!(addr, address);
                assert!(reason.contains("connected"), "{reason}");
            }
            other => panic!("{other:?}"),
        }
    }
    for (from, to) in [(&a, b.id), (&b, a.id)] {
        from.send(to, "same session");
    }
    for event in [a.next().await, b.next().await] {
        assert!(matches!(event, LinkEvent::Frame { .. }), "{event:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_gateway_is_found_again() {
    let mut worker = Peer::start(hasty()).await;
    let mut gateway = Peer::start(hasty()).await;
    let id = gateway.id;
    worker.link.join(vec![gateway.address.clone()]).unwrap();
    assert_eq!(worker.connected().await, id);
    gateway.connected().await;
    let (key, address) = gateway.kill().await;
    worker.disconnected().await;
    worker
        .until(|e| match e {
            LinkEvent::DialFailed { retry_in, .. } => {
                assert!(retry_in.is_some());
                Some(())
            }
            _ => None,
        })
        .await;
    let mut gateway = Peer::start_as(key, &format!("/ip4/127.0.0.1/tcp/{}", port(&address)), hasty()).await;
    assert_eq!(gateway.connected().await, worker.id);
    assert_eq!(worker.connected().await, id);
    settle(&mut worker, &mut gateway).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_is_reached_by_whichever_of_its_addresses_works() {
    let mut gateway = Peer::start(hasty()).await;
    let mut worker = Peer::start(hasty()).await;
    let peer = gateway.key.public().to_peer_id();
    let dead = format!("/ip4/127.0.0.1/tcp/1/p2p/{peer}").parse().unwrap();
    worker.link.join(vec![dead, gateway.address.clone()]).unwrap();
    assert_eq!(worker.connected().await, gateway.id);
    assert_eq!(gateway.connected().await, worker.id);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_gateway_takes_no_more_and_serves_those_it_has() {
    let full = LinkOptions { connections: 1, ..hasty() };
    let mut gateway = Peer::start(full).await;
    let mut first = Peer::start(hasty()).await;
    first.link.join(vec![gateway.address.clone()]).unwrap();
    first.connected().await;
    assert_eq!(gateway.connected().await, first.id);
    let mut second = Peer::start(hasty()).await;
    second.link.join(vec![gateway.address.clone()]).unwrap();
    second.until(|e| matches!(e, LinkEvent::DialFailed { .. }).then_some(())).await;
    settle(&mut first, &mut gateway).await;
}
