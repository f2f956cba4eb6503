//! A silent peer is dead; an idle one is not.

use crate::support::{Cable, Hostile, Peer, hasty};
use link::{LinkEvent, LinkOptions};
use std::time::Duration;
use tokio::time::Instant;

#[test]
fn a_peer_is_quiet_within_five_seconds_and_dead_within_ten_as_configured() {
    let options = LinkOptions::default();
    assert!(options.silence() + options.heartbeat < Duration::from_secs(10));
    assert!(options.heartbeat * (options.quiet_heartbeats + 1) <= Duration::from_secs(5));
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
    let far_id = far.id;
    near.until(|event| matches!(event, LinkEvent::Quiet { peer } if *peer == far_id).then_some(())).await;
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
    // On a busy machine a heartbeat may be late.
    let told = |event: &LinkEvent| (!matches!(event, LinkEvent::Quiet { .. })).then(|| format!("{event:?}"));
    let (in_a, in_b) =
        tokio::join!(tokio::time::timeout(quiet, a.until(told)), tokio::time::timeout(quiet, b.until(told)));
    assert!(in_a.is_err() && in_b.is_err(), "{in_a:?} {in_b:?}");
}
