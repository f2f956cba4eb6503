//! Peers that misbehave are named and cut off; nobody else notices.

use crate::support::{Hostile, Peer, hasty, pair};
use libp2p::identity::Keypair;
use link::{LinkEvent, LinkOptions};
use node_core::wire::MAX_FRAME;

/// A victim, and a hostile peer that has a session with it.
async fn invaded() -> (Peer, Hostile) {
    let mut victim = Peer::start(LinkOptions::default()).await;
    let hostile = Hostile::dial_as_node(&victim).await;
    victim.connected().await;
    (victim, hostile)
}

#[tokio::test]
async fn an_oversized_frame_is_a_fault_by_its_header_alone() {
    let (mut victim, mut hostile) = invaded().await;
    hostile.write(&(MAX_FRAME as u32 + 1).to_be_bytes()).await;
    let what = victim.fault().await;
    assert_eq!(what, "announced a control frame of 1048577 bytes; at most 1048576 are allowed");
    assert_eq!(victim.disconnected().await, format!("it {what}"));
}

#[tokio::test]
async fn garbage_is_a_fault() {
    let (mut victim, mut hostile) = invaded().await;
    hostile.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert!(victim.fault().await.starts_with("announced a control frame of 1195725856 bytes"));
    victim.disconnected().await;
}

#[tokio::test]
async fn a_stream_that_ends_within_a_frame_is_a_fault() {
    let (mut victim, mut hostile) = invaded().await;
    hostile.write(b"\0\0\0\x05whole\0\0\0\x64half").await;
    futures::AsyncWriteExt::close(&mut hostile.streams[0]).await.unwrap();
    assert_eq!(&victim.frame().await.1[..], b"whole");
    let what = victim.fault().await;
    assert_eq!(what, "ended its control stream within a frame (8 of 104 bytes came)");
    victim.disconnected().await;
}

#[tokio::test]
async fn a_peer_that_is_killed_within_a_frame_is_no_fault() {
    let (mut victim, mut hostile) = invaded().await;
    hostile.write(b"\0\0\0\x05whole\0\0\0\x64half").await;
    victim.frame().await;
    hostile.kill().await;
    match victim.next().await {
        LinkEvent::Disconnected { .. } => {}
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_second_control_stream_is_a_fault() {
    let (mut victim, mut hostile) = invaded().await;
    drop(hostile.try_open(link::CONTROL_PROTOCOL).await); // may be cut off before the answer
    assert_eq!(victim.fault().await, "opened a second control stream");
    victim.disconnected().await;
}

#[tokio::test]
async fn a_peer_of_another_version_hears_no_session_and_its_protocols_are_named() {
    let mut victim = Peer::start(LinkOptions::default()).await;
    let _hostile = Hostile::dial(&victim, &["/manyhands/control/2", "/manyhands/blob/2", "/other/1"]).await;
    match victim.next().await {
        LinkEvent::Fault { what, .. } => {
            assert!(what.starts_with("speaks another version: it offers /manyhands/"), "{what}");
            assert!(what.contains("/manyhands/control/2"), "{what}");
            assert!(what.contains("this node speaks /manyhands/control/1 and /manyhands/blob/1"), "{what}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fault_of_one_peer_is_not_felt_by_another() {
    let (mut a, b) = pair(LinkOptions::default()).await;
    let mut hostile = Hostile::dial_as_node(&a).await;
    a.connected().await;
    hostile.write(&[0xff; 100]).await;
    a.fault().await;
    b.send(a.id, "still here");
    assert_eq!(&a.frame().await.1[..], b"still here");
}

#[tokio::test]
async fn a_reader_that_is_too_slow_is_disconnected_when_its_queue_is_full() {
    let options = LinkOptions { send_queue_bytes: 1 << 20, ..LinkOptions::default() };
    let mut victim = Peer::start(options).await;
    let _hostile = Hostile::dial_as_node(&victim).await; // reads nothing
    let to = victim.connected().await;
    let reason = loop {
        victim.link.send(to, node_core::Channel::Control, vec![0; 100_000].into());
        match victim.events.try_recv() {
            Some(LinkEvent::Disconnected { reason, .. }) => break reason,
            Some(other) => panic!("{other:?}"),
            None => tokio::task::yield_now().await,
        }
    };
    assert!(reason.starts_with("it reads too slowly: "), "{reason}");
}

#[tokio::test]
async fn dialling_nobody_oneself_or_a_wrong_id_says_so() {
    let mut a = Peer::start(hasty()).await;
    let b = Peer::start(hasty()).await;
    let mut reason = async |address: libp2p::Multiaddr| {
        a.link.dial(address).unwrap();
        a.until(|e| match e {
            LinkEvent::DialFailed { reason, retry_in: None, .. } => Some(reason.clone()),
            _ => None,
        })
        .await
    };
    let own: libp2p::Multiaddr = "/ip4/127.0.0.1/tcp/1".parse().unwrap();
    assert!(reason(own).await.contains("refused"));
    let other = Keypair::generate_ed25519().public().to_peer_id();
    let wrong = format!("/ip4/127.0.0.1/tcp/{}/p2p/{other}", b.port()).parse().unwrap();
    assert!(reason(wrong).await.starts_with("another node answers there: "));
    let unknown: libp2p::Multiaddr = "/ip4/127.0.0.1/udp/1/quic-v1".parse().unwrap();
    assert!(reason(unknown).await.contains("not supported"));
    let own = a.address.clone();
    a.link.dial(format!("/ip4/127.0.0.1/tcp/{}", crate::support::port(&own)).parse().unwrap()).unwrap();
    let failed =
        a.until(|e| if let LinkEvent::DialFailed { reason, .. } = e { Some(reason.clone()) } else { None });
    assert!(failed.await.ends_with("this node's own"));
}
