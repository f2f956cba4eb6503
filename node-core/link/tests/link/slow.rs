//! Peers that take nothing, or give a frame byte by byte, and say all the while that they live.

use crate::support::{Hostile, Peer, hasty};
use futures::AsyncWriteExt;
use link::{LinkEvent, LinkOptions};
use node_core::Channel;
use std::time::Duration;

fn impatient() -> LinkOptions {
    LinkOptions { patience: Duration::from_secs(1), ..hasty() }
}

/// Says something again and again until the connection is over.
async fn speaks(mut hostile: Hostile, bytes: &'static [u8]) {
    let mut pace = tokio::time::interval(Duration::from_millis(20));
    loop {
        pace.tick().await;
        let stream = &mut hostile.streams[0];
        if stream.write_all(bytes).await.is_err() || stream.flush().await.is_err() {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_takes_nothing_is_given_up_although_it_speaks() {
    let mut victim = Peer::start(impatient()).await;
    let hostile = Hostile::dial_as_node(&victim).await;
    let to = victim.connected().await;
    tokio::spawn(speaks(hostile, &[0; 4]));
    for _ in 0..20 {
        victim.link.send(to, Channel::Blob, vec![0; 100_000].into());
    }
    let reason = victim.disconnected().await;
    assert!(reason.starts_with("it reads too slowly: it takes nothing of "), "{reason}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_never_finishes_a_frame_is_at_fault() {
    let mut victim = Peer::start(impatient()).await;
    let mut hostile = Hostile::dial_as_node(&victim).await;
    victim.connected().await;
    hostile.write(&100_000u32.to_be_bytes()).await;
    tokio::spawn(speaks(hostile, b"x"));
    assert_eq!(victim.fault().await, "does not finish a control frame");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn content_that_a_peer_asks_for_and_does_not_take_is_dropped() {
    let mut victim = Peer::start(LinkOptions { waiting_bytes: 4 << 20, ..hasty() }).await;
    let hostile = Hostile::dial_as_node(&victim).await;
    let to = victim.connected().await;
    tokio::spawn(speaks(hostile, &[0; 4]));
    for _ in 0..1000 {
        victim.link.send(to, Channel::Blob, vec![0; 256 << 10].into());
    }
    // At most half of 4 MiB waits, of 256 MiB: an honest peer of another network, and small messages, find
    // room.
    victim.link.send(to, Channel::Control, vec![0; 1000].into());
    let waits = tokio::time::timeout(Duration::from_secs(2), victim.events.recv()).await;
    assert!(waits.is_err(), "the connection stays: {waits:?}");
    // A message that is large finds none.
    victim.link.send(to, Channel::Control, vec![0; 900_000].into());
    match victim.next().await {
        LinkEvent::Disconnected { reason, .. } => {
            assert!(reason.starts_with("it reads too slowly: "), "{reason}");
            let waiting: usize = reason.split_whitespace().find_map(|word| word.parse().ok()).unwrap();
            assert!(waiting <= 2 << 20, "{reason}");
        }
        other => panic!("{other:?}"),
    }
}
