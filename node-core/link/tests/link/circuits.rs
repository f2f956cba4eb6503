//! Links over circuits, whose relay is played here: what the ends wish and say goes from one to the other.

use crate::pipes::ends;
use crate::support::{PATIENCE, hasty};
use bytes::Bytes;
use libp2p::identity::Keypair;
use libp2p::multiaddr::Protocol;
use libp2p::swarm;
use link::{Circuits, Events, Link, LinkEvent, Piping};
use node_core::overlay::circuits::ends::{Reply, Request, Role};
use node_core::overlay::circuits::{CircuitId, WINDOW, cost};
use node_core::{Carrier, Channel, NodeId};
use std::sync::Arc;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

const CIRCUIT: CircuitId = CircuitId { relay: NodeId([9; 32]), number: 1 };

/// A node without a network.
struct Node {
    link: Link,
    events: Events,
    circuits: Circuits,
    piping: Piping,
    said: UnboundedReceiver<Reply>,
}

impl Node {
    async fn start() -> Node {
        let (pipes, piping) = link::pipes();
        let key = Keypair::generate_ed25519();
        let executor = swarm::Config::with_tokio_executor();
        let (link, mut events, mut runner) = link::start(&key, pipes, executor, hasty()).unwrap();
        runner.listen(&Piping::listening()).unwrap();
        tokio::spawn(runner.run());
        let (sender, said) = unbounded_channel();
        let circuits =
            Circuits::new(link.clone(), piping.clone(), Arc::new(move |reply| drop(sender.send(reply))));
        assert!(matches!(events.recv().await, Some(LinkEvent::Listening { .. })));
        Node { link, events, circuits, piping, said }
    }

    fn open(&mut self, peer: NodeId, role: Role) {
        self.circuits.request(Request::Open { circuit: CIRCUIT, peer, role });
    }
}

/// Two nodes, and a relay that changes what it passes on from the first to the second.
struct Pair {
    a: Node,
    b: Node,
    /// Window used by `a` and not read by `b`, and the most that ever was.
    under_way: u32,
    most: u32,
    change: fn(usize, Bytes) -> Option<Bytes>,
    passed: usize,
}

impl Pair {
    async fn new() -> Pair {
        let (mut a, mut b) = (Node::start().await, Node::start().await);
        b.open(a.link.id(), Role::Answers);
        a.open(b.link.id(), Role::Dials);
        Pair::of(a, b)
    }

    fn of(a: Node, b: Node) -> Pair {
        Pair { a, b, under_way: 0, most: 0, change: |_, bytes| Some(bytes), passed: 0 }
    }

    /// Passes on until one of the links has an event: which, and what.
    async fn next(&mut self) -> (bool, LinkEvent) {
        let run = async {
            loop {
                tokio::select! {
                    Some(reply) = self.a.said.recv() => {
                        if let Reply::Bytes(_, bytes) = &reply {
                            self.under_way += cost(bytes.len());
                            self.most = self.most.max(self.under_way);
                            self.passed += 1;
                        }
                        if let Some(request) = passed_on(reply, |bytes| (self.change)(self.passed, bytes)) {
                            self.b.circuits.request(request);
                        }
                    }
                    Some(reply) = self.b.said.recv() => {
                        if let Reply::Read(_, read) = reply {
                            self.under_way -= read;
                        }
                        if let Some(request) = passed_on(reply, Some) {
                            self.a.circuits.request(request);
                        }
                    }
                    Some(event) = self.a.events.recv() => return (true, event),
                    Some(event) = self.b.events.recv() => return (false, event),
                }
            }
        };
        tokio::time::timeout(PATIENCE, run).await.expect("nothing happened")
    }

    async fn until<T>(&mut self, mut wanted: impl FnMut(bool, LinkEvent) -> Option<T>) -> T {
        loop {
            let (of_a, event) = self.next().await;
            if let Some(found) = wanted(of_a, event) {
                return found;
            }
        }
    }

    async fn connected(&mut self) {
        let mut connected = [false; 2];
        self.until(|of_a, event| {
            if let LinkEvent::Connected { ip, over, .. } = event {
                assert_eq!((ip, over), (None, Carrier::Relay));
                connected[usize::from(of_a)] = true;
            }
            (connected == [true; 2]).then_some(())
        })
        .await;
    }
}

fn passed_on(reply: Reply, change: impl FnOnce(Bytes) -> Option<Bytes>) -> Option<Request> {
    Some(match reply {
        Reply::Bytes(circuit, bytes) => Request::Bytes(circuit, change(bytes)?),
        Reply::Read(circuit, read) => Request::Room(circuit, read),
        Reply::Closed(circuit) => Request::Close(circuit),
    })
}

#[tokio::test]
async fn content_of_many_windows_comes_over_and_never_more_than_one_is_under_way() {
    let mut pair = Pair::new().await;
    pair.connected().await;
    let content = Bytes::from(vec![7; 1 << 20]);
    (0..8).for_each(|_| pair.a.link.send(pair.b.link.id(), Channel::Blob, content.clone()));
    pair.b.link.send(pair.a.link.id(), Channel::Control, Bytes::from_static(b"hello"));
    let (mut frames, mut heard) = (0, false);
    pair.until(|of_a, event| {
        match event {
            LinkEvent::Frame { bytes, .. } if of_a => heard = bytes == "hello",
            LinkEvent::Frame { bytes, .. } => {
                assert_eq!(bytes, content);
                frames += 1;
            }
            _ => {}
        }
        (heard && frames == 8).then_some(())
    })
    .await;
    assert!(pair.most <= WINDOW, "{} of {WINDOW} under way", pair.most);
}

#[tokio::test]
async fn a_data_channel_takes_the_place_of_the_circuit_whoever_dials() {
    for by_a in [true, false] {
        let mut pair = Pair::new().await;
        pair.connected().await;
        let (here, there) = ends();
        let (dials, answers) = if by_a { (&pair.a, &pair.b) } else { (&pair.b, &pair.a) };
        answers.piping.accept(there, None).unwrap();
        let to = dials.piping.dial(here, None);
        let named = Protocol::P2p(link::peer_id(&answers.link.id()).unwrap());
        dials.link.dial(to.with(named)).unwrap();
        let mut told = [(0, 0); 2];
        pair.until(|of_a, event| {
            let (ended, begun) = &mut told[usize::from(of_a)];
            match event {
                LinkEvent::Disconnected { .. } => *ended += 1,
                LinkEvent::Connected { over, .. } => {
                    assert_eq!((*ended, over), (1, Carrier::DataChannel), "one after the other");
                    *begun += 1;
                }
                _ => {}
            }
            (told == [(1, 1); 2]).then_some(())
        })
        .await;
        pair.a.link.send(pair.b.link.id(), Channel::Control, Bytes::from_static(b"hello"));
        let heard = |_, event| matches!(event, LinkEvent::Frame { .. }).then_some(());
        pair.until(heard).await;
    }
}

#[tokio::test]
async fn a_relay_that_drops_or_changes_a_piece_ends_the_connection() {
    let drops: fn(usize, Bytes) -> Option<Bytes> = |n, bytes| (n % 16 != 0).then_some(bytes);
    let changes: fn(usize, Bytes) -> Option<Bytes> = |n, bytes| {
        let mut bytes = bytes.to_vec();
        if n % 16 == 0 {
            bytes[0] ^= 1;
        }
        Some(Bytes::from(bytes))
    };
    for change in [drops, changes] {
        let mut pair = Pair::new().await;
        pair.connected().await;
        (pair.change, pair.passed) = (change, 0);
        let content = Bytes::from(vec![7; 1 << 20]);
        (0..4).for_each(|_| pair.a.link.send(pair.b.link.id(), Channel::Blob, content.clone()));
        pair.until(|of_a, event| match event {
            LinkEvent::Frame { bytes, .. } if !of_a => {
                assert_eq!(bytes, content, "what is passed on is right");
                None
            }
            LinkEvent::Disconnected { .. } => Some(()),
            _ => None,
        })
        .await;
    }
}

#[tokio::test]
async fn a_circuit_to_another_node_than_was_agreed_is_no_connection() {
    let (mut a, b, mut other) = (Node::start().await, Node::start().await, Node::start().await);
    other.open(a.link.id(), Role::Answers);
    a.open(b.link.id(), Role::Dials);
    let reason = Pair::of(a, other)
        .until(|of_a, event| match event {
            LinkEvent::DialFailed { reason, .. } if of_a => Some(reason),
            LinkEvent::Connected { peer, .. } if of_a => panic!("connected to {peer:?}"),
            _ => None,
        })
        .await;
    assert!(reason.contains("another"), "{reason}");
}

#[tokio::test]
async fn an_end_that_is_closed_is_a_connection_that_has_ended() {
    let mut pair = Pair::new().await;
    pair.connected().await;
    pair.a.circuits.request(Request::Close(CIRCUIT));
    let mut gone = [false; 2];
    pair.b.circuits.request(Request::Close(CIRCUIT));
    pair.until(|of_a, event| {
        gone[usize::from(of_a)] |= matches!(event, LinkEvent::Disconnected { .. });
        (gone == [true; 2]).then_some(())
    })
    .await;
}
