//! Ends of two nodes on this machine. What the nodes would say to each other, the test carries.

use super::*;
use crate::net::{Net, NetOptions};
use bytes::Bytes;
use libp2p::identity::Keypair;
use link::LinkEvent;
use node_core::overlay::signalling::{Description, Fingerprint, Role};
use node_core::{Channel, NodeId};
use std::time::Duration;

const SESSION: SessionId = SessionId([7; 16]);
const PATIENCE: Duration = Duration::from_secs(20);

/// The time that the node gives a session.
const LONGEST: Duration = Duration::from_secs(10);

struct Node {
    net: Net,
    replies: mpsc::UnboundedReceiver<Reply>,
}

impl Node {
    async fn start() -> Node {
        let (sender, replies) = mpsc::unbounded_channel();
        let answer: Answer = Arc::new(move |reply| drop(sender.send(reply)));
        let options = NetOptions {
            listen: vec!["/ip4/127.0.0.1/tcp/0".parse().unwrap()],
            channels: Some(answer),
            ..NetOptions::default()
        };
        let net = crate::net::start(&Keypair::generate_ed25519(), options).await.unwrap();
        Node { net, replies }
    }

    fn id(&self) -> NodeId {
        self.net.link.id()
    }

    fn request(&self, request: Request) {
        self.net.channels.as_ref().unwrap().request(request);
    }

    async fn until<T>(&mut self, mut wanted: impl FnMut(LinkEvent) -> Option<T>) -> T {
        let found = async {
            loop {
                let event = self.net.events.recv().await.expect("the links ended");
                if let Some(found) = wanted(event) {
                    return found;
                }
            }
        };
        tokio::time::timeout(PATIENCE, found).await.expect("nothing happened")
    }

    async fn connected(&mut self) -> NodeId {
        self.until(|event| if let LinkEvent::Connected { peer, .. } = event { Some(peer) } else { None })
            .await
    }
}

/// Has `a` offer a channel that is meant for the node `to`, and `b` answer.
fn offer(a: &Node, b: &Node, to: NodeId) {
    a.request(Request::Open { session: SESSION, peer: to, role: Role::Offers, mirror: None });
    b.request(Request::Open { session: SESSION, peer: a.id(), role: Role::Answers, mirror: None });
}

/// Carries what the nodes say until both have heard how it ends. `None` if it does not end.
async fn carry(a: &mut Node, b: &mut Node, twist: impl FnMut(Reply) -> Reply) -> Option<[Reply; 2]> {
    let sides = [a, b].map(|node| (node.net.channels.as_ref().unwrap(), &mut node.replies));
    let [a, b] = sides;
    tokio::time::timeout(LONGEST, introduce(a, b, twist)).await.ok()
}

/// How it ended for both.
fn both(end: Reply) -> Option<[Reply; 2]> {
    Some([end.clone(), end])
}

/// Two nodes with a session on a data channel.
async fn pair() -> (Node, Node) {
    let (mut a, mut b) = (Node::start().await, Node::start().await);
    offer(&a, &b, b.id());
    assert_eq!(carry(&mut a, &mut b, |said| said).await, both(Reply::Opened(SESSION)));
    assert_eq!((a.connected().await, b.connected().await), (b.id(), a.id()));
    (a, b)
}

#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_that_dial_nobody_have_a_session_and_lose_no_byte() {
    let (mut a, mut b) = pair().await;
    let blob = |n: u8| Bytes::from(vec![n; 1 << 20]);
    // Both ways at once: many times what may be under way.
    for n in 0..24 {
        a.net.link.send(b.id(), Channel::Blob, blob(n));
        b.net.link.send(a.id(), Channel::Blob, blob(100 + n));
    }
    for n in 0..24 {
        for (to, expected) in [(&mut b, blob(n)), (&mut a, blob(100 + n))] {
            let heard = to.until(|event| match event {
                LinkEvent::Frame { bytes, .. } => Some(bytes),
                LinkEvent::Disconnected { reason, .. } => panic!("{reason}"),
                _ => None,
            });
            assert!(heard.await == expected, "message {n} comes whole and in its turn");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn when_one_side_ends_the_connection_the_other_one_hears_of_it_at_once() {
    let (a, mut b) = pair().await;
    let began = std::time::Instant::now();
    a.net.link.disconnect(b.id(), "enough");
    b.until(|event| matches!(event, LinkEvent::Disconnected { .. }).then_some(())).await;
    assert!(began.elapsed() < Duration::from_secs(5), "it did not wait for a silence");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_swaps_fingerprints_gets_no_channel() {
    let (mut a, mut b) = (Node::start().await, Node::start().await);
    let swap = |said| match said {
        Reply::Described(session, it) => {
            Reply::Described(session, Description { fingerprint: Fingerprint([9; 32]), ..it })
        }
        said => said,
    };
    offer(&a, &b, b.id());
    let mut opened = 0;
    let watched = |said| {
        opened += u32::from(matches!(said, Reply::Opened(_)));
        swap(said)
    };
    let ends = carry(&mut a, &mut b, watched).await;
    assert!(ends.is_none_or(|ends| Some(ends) == both(Reply::Failed(SESSION))));
    assert_eq!(opened, 0, "one end opened");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_to_another_node_than_was_meant_is_no_session() {
    let (mut a, mut b, meant) = (Node::start().await, Node::start().await, Node::start().await);
    offer(&a, &b, meant.id());
    let opened = both(Reply::Opened(SESSION));
    assert_eq!(carry(&mut a, &mut b, |said| said).await, opened, "the channel itself knows no better");
    let failed = a.until(|event| match event {
        LinkEvent::DialFailed { peer, .. } => Some(peer),
        LinkEvent::Connected { peer, .. } => panic!("a session with {peer:?}"),
        _ => None,
    });
    assert_eq!(failed.await, Some(meant.id()));
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_asks_by_stun_learns_where_it_is() {
    let node = Node::start().await;
    let port = node.net.link.addresses().iter().find_map(crate::net::tcp_port).unwrap();
    let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let mut answer = [0; 128];
    let asked = async {
        // Asked again, as a question that is lost: the node may not have its sockets yet.
        let mut again = tokio::time::interval(Duration::from_millis(300));
        loop {
            tokio::select! {
                _ = again.tick() => {
                    socket.send_to(&stun::question([3; 12]), ("127.0.0.1", port)).await.unwrap();
                }
                len = socket.recv(&mut answer) => return len.unwrap(),
            }
        }
    };
    let len = tokio::time::timeout(PATIENCE, asked).await.expect("an answer");
    assert_eq!(stun::answer_in(&answer[..len]), Some(([3; 12], socket.local_addr().unwrap())));
}
