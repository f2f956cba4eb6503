//! A peer is dialled back beside the session with it, and nothing of the session changes.

use crate::support::{Peer, pair, port};
use libp2p::Multiaddr;
use link::{LinkEvent, LinkOptions};
use tokio::net::TcpListener;

async fn probe(of: &mut Peer, number: u64, address: Multiaddr) -> bool {
    of.link.probe(number, address).unwrap();
    loop {
        match of.next().await {
            LinkEvent::Probed { number: its, reached } => {
                assert_eq!(its, number);
                return reached;
            }
            LinkEvent::Disconnected { reason, .. } => panic!("the session ended: {reason}"),
            LinkEvent::Connected { .. } => panic!("a second session"),
            _ => {}
        }
    }
}

fn elsewhere(address: &Multiaddr, port: u16) -> Multiaddr {
    let text = address
        .to_string()
        .replace(&format!("/tcp/{}", crate::support::port(address)), &format!("/tcp/{port}"));
    text.parse().unwrap()
}

#[tokio::test]
async fn who_answers_is_reached_and_its_session_stays() {
    let (mut a, mut b) = pair(LinkOptions::default()).await;
    // Repeated probes leave nothing behind, whichever side dialled the session.
    for number in 0..10 {
        assert!(probe(&mut a, number, b.address.clone()).await);
        assert!(probe(&mut b, number, a.address.clone()).await);
    }
    a.send(b.id, "still here");
    assert_eq!(&b.frame().await.1[..], b"still here");
    b.send(a.id, "so am I");
    assert_eq!(&a.frame().await.1[..], b"so am I");
}

#[tokio::test]
async fn a_closed_port_and_another_nodes_port_are_not_the_peers() {
    let (mut a, b) = pair(LinkOptions::default()).await;
    let other = Peer::start(LinkOptions::default()).await;
    let theirs = elsewhere(&b.address, port(&other.address));
    assert!(!probe(&mut a, 1, theirs).await, "another key answers there");
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed = free.local_addr().unwrap().port();
    drop(free);
    assert!(!probe(&mut a, 2, elsewhere(&b.address, closed)).await);
    let nameless: Multiaddr = format!("/ip4/127.0.0.1/tcp/{}", port(&b.address)).parse().unwrap();
    assert!(!probe(&mut a, 3, nameless).await, "whose key is to answer?");
}
