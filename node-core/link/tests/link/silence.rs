//! A silent peer is dead; an idle one is not.

use crate::support::{Cable, Hostile, Peer, hasty};
use link::LinkOptions;
use std::time::Duration;
use tokio::time::Instant;

#[test]
fn a_dead_peer_is_noticed_within_ten_seconds_as_configured() {
    let options = LinkOptions::default();
    assert!(options.silence() + options.heartbeat < Duration::from_secs(10));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_behind_a_pulled_cable_is_noticed_by_both_sides() {
    let options = hasty();
    let mut far = Peer::start(options.clone()).await;
    let mut near = Peer::start(options.clone()).await;
    let cable = Cable::to(&far).await;
    near.link.dial(cable.address.clone()).unwrap();
    near.connected().await;
    far.connected().await;
    cable.pull();
    let pulled = Instant::now();
    let (a, b) = tokio::join!(near.disconnected(), far.disconnected());
    for reason in [a, b] {
        assert!(reason.starts_with("nothing was heard of it for "), "{reason}");
    }
    // Late only by what the machine is late.
    assert!(pulled.elapsed() < options.silence() * 10, "{:?}", pulled.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_answers_the_handshake_and_freezes_is_noticed() {
    let mut victim = Peer::start(hasty()).await;
    let _hostile = Hostile::dial_as_node(&victim).await; // sends no heartbeat
    victim.connected().await;
    assert!(victim.disconnected().await.starts_with("nothing was heard of it for "));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_peers_stay_connected() {
    let options = hasty();
    let (mut a, mut b) = crate::support::pair(options.clone()).await;
    let quiet = options.silence() * 3;
    let (in_a, in_b) = tokio::join!(
        tokio::time::timeout(quiet, a.events.recv()),
        tokio::time::timeout(quiet, b.events.recv())
    );
    assert!(in_a.is_err() && in_b.is_err(), "{in_a:?} {in_b:?}");
}
