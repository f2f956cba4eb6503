//! Many correct peers from one address, each with a handshake of its own: as many as the bounds say, and no
//! more; another address comes in.

use crate::support::{Cable, Peer};
use link::{LinkEvent, LinkOptions};
use std::net::Ipv4Addr;
use std::time::Duration;

/// Dials once and says whether that made a session.
async fn comes_in(peer: &mut Peer, target: libp2p::Multiaddr) -> bool {
    peer.link.dial(target).unwrap();
    peer.until(|event| match event {
        LinkEvent::Connected { .. } => Some(true),
        LinkEvent::DialFailed { .. } => Some(false),
        _ => None,
    })
    .await
}

/// A peer that waits for nobody.
fn impatient() -> LinkOptions {
    LinkOptions { connect_timeout: Duration::from_secs(20), ..LinkOptions::default() }
}

#[tokio::test]
async fn sessions_of_one_address_are_bounded_and_leave_room_for_another() {
    const BOUND: u32 = 200;
    let options = LinkOptions { connections_per_block: BOUND, arrivals_per_block: 10_000, ..impatient() };
    let target = Peer::start(options).await;
    let mut inside = Vec::new();
    for n in 0..BOUND + 50 {
        let mut peer = Peer::start(impatient()).await;
        let came = comes_in(&mut peer, target.address.clone()).await;
        assert_eq!(came, n < BOUND, "the {n}th");
        if came {
            inside.push(peer);
        }
    }
    let elsewhere = Cable::from(Ipv4Addr::new(127, 0, 0, 2), &target).await;
    assert!(comes_in(&mut Peer::start(impatient()).await, elsewhere.address.clone()).await);
    // A place that was left is free; the target notices in its time.
    drop(inside.pop().unwrap().kill().await);
    let mut next = Peer::start(impatient()).await;
    let comes = async { while !comes_in(&mut next, target.address.clone()).await {} };
    tokio::time::timeout(crate::support::PATIENCE, comes).await.expect("there is a place");
}

#[tokio::test]
async fn an_address_opens_so_many_sessions_a_second_and_leaves_others_theirs() {
    let target = Peer::start(LinkOptions { arrivals_per_block: 10, ..impatient() }).await;
    let began = std::time::Instant::now();
    let mut inside = 0;
    for _ in 0..150 {
        inside += u64::from(comes_in(&mut Peer::start(impatient()).await, target.address.clone()).await);
    }
    // Three seconds' worth at once, and those of the time that has passed.
    let most = 31 + 10 * (began.elapsed().as_secs() + 1);
    assert!((31..=most).contains(&inside), "{inside} within {:?}", began.elapsed());
    assert!(most < 150, "the machine is too slow to come too often: {:?}", began.elapsed());
    let elsewhere = Cable::from(Ipv4Addr::new(127, 0, 0, 2), &target).await;
    assert!(comes_in(&mut Peer::start(impatient()).await, elsewhere.address.clone()).await);
}
