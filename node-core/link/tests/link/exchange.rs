//! Frames arrive, whole and in order.

use crate::support::{ANYWHERE, PATIENCE, Peer, hasty, pair};
use bytes::Bytes;
use libp2p::identity::Keypair;
use link::{LinkEvent, LinkOptions};
use node_core::wire::MAX_FRAME;
use node_core::{Channel, NodeId};

const BOTH: [Channel; 2] = [Channel::Control, Channel::Blob];

/// Frame `n`: its number, then filler of a length that varies.
fn numbered(n: u32) -> Bytes {
    let mut frame = n.to_be_bytes().to_vec();
    frame.resize(4 + (n as usize * 7) % 300, n as u8);
    frame.into()
}

/// Takes `count` numbered frames on each channel.
async fn take_numbered(peer: &mut Peer, from: NodeId, count: u32) {
    let mut next = [0, 0];
    while next != [count, count] {
        match peer.next().await {
            LinkEvent::Frame { from: f, channel, bytes } => {
                let n = &mut next[channel as usize];
                assert_eq!(f, from);
                assert_eq!(bytes, numbered(*n), "{channel:?} frame {n}");
                *n += 1;
            }
            other => panic!("{other:?} after {next:?}"),
        }
    }
}

fn send_numbered(peer: &Peer, to: NodeId, count: u32) {
    for n in 0..count {
        BOTH.iter().for_each(|&channel| peer.link.send(to, channel, numbered(n)));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_frames_a_channel_cross_both_ways_in_order() {
    let (mut a, mut b) = pair(LinkOptions::default()).await;
    let began = tokio::time::Instant::now();
    send_numbered(&a, b.id, 10_000);
    send_numbered(&b, a.id, 10_000);
    let (to_a, to_b) = (b.id, a.id);
    tokio::join!(take_numbered(&mut a, to_a, 10_000), take_numbered(&mut b, to_b, 10_000));
    println!("40,000 frames in {:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn websocket_carries_the_same_frames() {
    let ws = format!("{ANYWHERE}/ws");
    let mut a = Peer::start_as(Keypair::generate_ed25519(), &ws, LinkOptions::default()).await;
    let mut b = Peer::start_as(Keypair::generate_ed25519(), &ws, LinkOptions::default()).await;
    a.link.join(vec![b.address.clone()]).unwrap();
    assert_eq!((a.connected().await, b.connected().await), (b.id, a.id));
    send_numbered(&a, b.id, 1_000);
    send_numbered(&b, a.id, 1_000);
    let (to_a, to_b) = (b.id, a.id);
    tokio::join!(take_numbered(&mut a, to_a, 1_000), take_numbered(&mut b, to_b, 1_000));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_largest_frames_arrive_and_do_not_hold_up_control() {
    let (a, mut b) = pair(LinkOptions::default()).await;
    let began = tokio::time::Instant::now();
    for n in 0..40u8 {
        a.link.send(b.id, Channel::Blob, vec![n; MAX_FRAME].into());
    }
    a.send(b.id, "heartbeat");
    let (mut blobs, mut before_control) = (0, None);
    while blobs < 40 {
        match b.frame().await {
            (Channel::Blob, bytes) => {
                assert_eq!((bytes.len(), bytes[0], bytes[MAX_FRAME - 1]), (MAX_FRAME, blobs, blobs));
                blobs += 1;
            }
            (Channel::Control, _) => before_control = Some(blobs),
        }
    }
    println!("40 MiB in {:?}", began.elapsed());
    let before = before_control.expect("the control frame came");
    assert!(before < 20, "{before} blobs came first");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_driver_that_pauses_gets_everything_later() {
    let options = LinkOptions { receive_queue_bytes: 64 << 10, ..LinkOptions::default() };
    let (a, mut b) = pair(options).await;
    for n in 0..200u8 {
        a.link.send(b.id, Channel::Blob, vec![n; 50_000].into());
    }
    // The queue is full long before the 10 MB are through; nothing is read until it was.
    tokio::time::timeout(PATIENCE, async {
        while b.events.waiting() < 64 << 10 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
    assert!(b.events.waiting() < 1 << 20, "{} bytes wait", b.events.waiting());
    for n in 0..200u8 {
        let (_, bytes) = b.frame().await;
        assert_eq!((bytes.len(), bytes[0]), (50_000, n));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_queued_before_a_disconnect_still_arrives() {
    let (mut a, mut b) = pair(hasty()).await;
    for n in 0..2_000 {
        a.link.send(b.id, Channel::Control, numbered(n));
    }
    a.link.disconnect(b.id, "the invite is wrong");
    a.send(b.id, "swallowed");
    for n in 0..2_000 {
        assert_eq!(b.frame().await, (Channel::Control, numbered(n)));
    }
    assert_eq!(b.disconnected().await, "the other side closed the connection");
    assert_eq!(a.disconnected().await, "the invite is wrong");
}
