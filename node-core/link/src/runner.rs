//! Polls the swarm and turns what happens into [`LinkEvent`]s.

use crate::behaviour::{AlreadyConnected, Behaviour, BehaviourEvent, StreamsEvent};
use crate::events::{self, Events, LinkEvent, Sender, locked};
use crate::handler::{Gone, Report};
use crate::join::{Joins, TargetId, named_peer};
use crate::queue::{End, Queue};
use crate::sessions::{Sessions, Standing, Verdict};
use crate::words;
use crate::{BLOB_PROTOCOL, CONTROL_PROTOCOL, LinkOptions};
use bytes::Bytes;
use futures::channel::mpsc;
use futures::future::poll_fn;
use futures::{StreamExt, ready};
use libp2p::core::transport::ListenerId;
use libp2p::swarm::dial_opts::{DialOpts, PeerCondition};
use libp2p::swarm::{ConnectionId, DialError, SwarmEvent};
use libp2p::{Multiaddr, Swarm, identify};
use node_core::wire::MAX_FRAME;
use node_core::{Carrier, Channel, NodeId};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

/// A handle to a node's links; clones share it. When the last is gone the runner ends.
#[derive(Clone)]
pub struct Link {
    me: NodeId,
    sessions: events::Sessions,
    commands: Arc<Mutex<mpsc::Sender<Command>>>,
    addresses: Arc<Mutex<Vec<Multiaddr>>>,
}

enum Command {
    Dial(Multiaddr),
    Probe(u64, Multiaddr),
    Join(Vec<Multiaddr>),
    Rest(NodeId),
}

/// Commands that may wait for the runner.
const COMMANDS: usize = 64;

/// The command was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many connections were asked for at once, or the node has stopped; ask again in a moment")]
pub struct LinkBusy;

impl Link {
    pub fn id(&self) -> NodeId {
        self.me
    }

    /// Queues a frame for a connected peer: at most [`MAX_FRAME`] bytes and not empty. A peer
    /// that is gone swallows it; one that has too much waiting is disconnected.
    pub fn send(&self, to: NodeId, channel: Channel, frame: Bytes) {
        let Some(queue) = locked(&self.sessions).get(&to).cloned() else { return };
        if frame.is_empty() || frame.len() > MAX_FRAME {
            debug_assert!(false, "a frame of {} bytes: the core bounds what it sends", frame.len());
            queue.close(format!("this node wanted to send it a frame of {} bytes", frame.len()));
            return;
        }
        queue.push(channel, frame);
    }

    /// Ends the session with `peer` after what is queued for it. `Disconnected` with this
    /// reason follows.
    pub fn disconnect(&self, peer: NodeId, reason: impl Into<String>) {
        if let Some(queue) = locked(&self.sessions).get(&peer) {
            queue.close(reason.into());
        }
    }

    /// Dials once.
    pub fn dial(&self, address: Multiaddr) -> Result<(), LinkBusy> {
        self.command(Command::Dial(address))
    }

    /// Sees whether the peer that the address names answers there: dials it on a connection of its own,
    /// which ends with the handshake. [`LinkEvent::Probed`] follows.
    pub fn probe(&self, number: u64, address: Multiaddr) -> Result<(), LinkBusy> {
        self.command(Command::Probe(number, address))
    }

    /// Dials now, and again whenever there is no session: with growing pauses, for ever.
    /// Addresses that name the same peer (`/p2p/…`) are ways to one node.
    pub fn join(&self, addresses: Vec<Multiaddr>) -> Result<(), LinkBusy> {
        self.command(Command::Join(addresses))
    }

    /// Dials a peer of [`Link::join`] that has no room for this node again only after a longer pause.
    pub fn rest(&self, peer: NodeId) {
        // A dial too early does no harm.
        let _ = self.command(Command::Rest(peer));
    }

    /// Where others reach this node, each with `/p2p/` and its peer id.
    pub fn addresses(&self) -> Vec<Multiaddr> {
        locked(&self.addresses).clone()
    }

    fn command(&self, command: Command) -> Result<(), LinkBusy> {
        locked(&self.commands).try_send(command).map_err(|_| LinkBusy)
    }
}

/// An address cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {reason}")]
pub struct ListenError {
    pub address: Multiaddr,
    pub reason: String,
    /// Error of the operating system; `None` if it was not asked.
    pub kind: Option<std::io::ErrorKind>,
}

/// Has to run for anything to happen.
pub struct Runner {
    swarm: Swarm<Behaviour>,
    events: Sender,
    commands: mpsc::Receiver<Command>,
    addresses: Arc<Mutex<Vec<Multiaddr>>>,
    sessions: Sessions,
    /// Queue of each peer that has a session.
    queues: HashMap<NodeId, Arc<Queue>>,
    joins: Joins,
    /// Addresses that are being dialled once, until there is a session.
    dials: HashMap<ConnectionId, Multiaddr>,
    /// Addresses that are being tried.
    probes: HashMap<ConnectionId, u64>,
    /// Connections without a session so far, and what is known of them.
    opening: HashMap<ConnectionId, Opening>,
    /// Addresses that were asked to be listened on.
    listeners: HashMap<ListenerId, Listener>,
}

struct Listener {
    asked: Multiaddr,
    /// Whether an address came of it, or why none will.
    outcome: Option<Result<(), String>>,
}

struct Opening {
    peer: NodeId,
    /// Where it is seen, and what it runs over.
    seen: (Option<IpAddr>, Carrier),
    /// The protocols that the peer says it speaks.
    offers: Option<Vec<String>>,
    /// Whether it turned out to lack one of ours.
    unsuited: bool,
    /// Its streams stand, and the peer has not chosen it yet: its queue, and whether this side dialled.
    ready: Option<(Arc<Queue>, bool)>,
}

/// Steps before others on the same thread get a turn.
const STEPS: usize = 64;

impl Runner {
    pub(crate) fn new(me: NodeId, swarm: Swarm<Behaviour>, options: &LinkOptions) -> (Link, Events, Runner) {
        let sessions = events::Sessions::default();
        let (sender, receiver) = events::channel(options.receive_queue_bytes, sessions.clone());
        let (commands, commanded) = mpsc::channel(COMMANDS);
        let addresses = Arc::new(Mutex::new(Vec::new()));
        let runner = Runner {
            swarm,
            events: sender,
            commands: commanded,
            addresses: addresses.clone(),
            sessions: Sessions::new(me),
            queues: HashMap::new(),
            joins: Joins::new(me, options.redial_min, options.redial_max),
            dials: HashMap::new(),
            probes: HashMap::new(),
            opening: HashMap::new(),
            listeners: HashMap::new(),
        };
        let link = Link { me, sessions, commands: Arc::new(Mutex::new(commands)), addresses };
        (link, receiver, runner)
    }

    /// Listens on an address. The addresses that come of it are events.
    pub fn listen(&mut self, address: &Multiaddr) -> Result<(), ListenError> {
        match self.swarm.listen_on(address.clone()) {
            Ok(id) => {
                self.listeners.insert(id, Listener { asked: address.clone(), outcome: None });
                Ok(())
            }
            Err(e) => Err(ListenError {
                address: address.clone(),
                kind: words::os_error(&e).map(std::io::Error::kind),
                reason: words::root(&e),
            }),
        }
    }

    /// Waits until what is listened on has its addresses, which [`Link::addresses`] then gives.
    pub async fn listening(&mut self) -> Result<(), ListenError> {
        while self.listeners.values().any(|l| l.outcome.is_none()) {
            let event = self.swarm.select_next_some().await;
            self.on_swarm_event(event);
        }
        for listener in self.listeners.values() {
            if let Some(Err(reason)) = &listener.outcome {
                let (address, reason) = (listener.asked.clone(), reason.clone());
                return Err(ListenError { address, reason, kind: None });
            }
        }
        Ok(())
    }

    /// Runs until the driver has dropped its [`Link`]s or its [`Events`].
    pub async fn run(mut self) {
        poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..STEPS {
            if self.events.is_closed() {
                return Poll::Ready(());
            }
            match self.commands.poll_next_unpin(cx) {
                Poll::Ready(Some(Command::Dial(address))) => {
                    self.dial_once(address);
                    continue;
                }
                Poll::Ready(Some(Command::Probe(number, address))) => {
                    self.probe(number, address);
                    continue;
                }
                Poll::Ready(Some(Command::Join(addresses))) => {
                    if let Err(addr) = self.joins.add(addresses) {
                        let reason = "this node joins through too many others already; name fewer".into();
                        self.events.dial_failed(addr, reason, None);
                    }
                    continue;
                }
                Poll::Ready(Some(Command::Rest(peer))) => {
                    self.joins.rest(peer);
                    continue;
                }
                Poll::Ready(None) => return Poll::Ready(()),
                Poll::Pending => {}
            }
            if let Poll::Ready(target) = self.joins.poll_due(cx) {
                self.dial_target(target);
                continue;
            }
            ready!(self.events.poll_room(cx));
            match ready!(self.swarm.poll_next_unpin(cx)) {
                Some(event) => self.on_swarm_event(event),
                None => return Poll::Ready(()),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Dials once. Always from a port of its own: from the listening port, two nodes that dial
    /// each other at once would meet in one TCP connection with two dialling ends.
    fn dial_once(&mut self, addr: Multiaddr) {
        // A data channel takes the place of a connection by way of a relay.
        let condition = match crate::pipes::is_pipe(&addr) && !crate::pipes::is_relayed(&addr) {
            true => PeerCondition::Always,
            false => PeerCondition::default(),
        };
        let options = match named_peer(&addr) {
            Some(peer) => DialOpts::peer_id(peer)
                .condition(condition)
                .addresses(vec![addr.clone()])
                .allocate_new_port()
                .build(),
            None => DialOpts::unknown_peer_id().address(addr.clone()).allocate_new_port().build(),
        };
        let connection = options.connection_id();
        match self.swarm.dial(options) {
            Ok(()) => drop(self.dials.insert(connection, addr)),
            Err(e) => {
                let reason = words::dial_error(&e);
                self.events.dial_failed(addr, reason, None);
            }
        }
    }

    /// Dials a peer that may be connected already.
    fn probe(&mut self, number: u64, addr: Multiaddr) {
        let Some(peer) = named_peer(&addr) else {
            return self.events.send(LinkEvent::Probed { number, reached: false });
        };
        let options = DialOpts::peer_id(peer)
            .condition(PeerCondition::Always)
            .addresses(vec![addr])
            .allocate_new_port()
            .build();
        let connection = options.connection_id();
        self.swarm.behaviour_mut().streams.probe(connection);
        self.probes.insert(connection, number);
        if self.swarm.dial(options).is_err() {
            self.probe_ended(connection, false);
        }
    }

    fn probe_ended(&mut self, connection: ConnectionId, reached: bool) {
        self.swarm.behaviour_mut().streams.probe_ended(connection);
        if let Some(number) = self.probes.remove(&connection) {
            self.events.send(LinkEvent::Probed { number, reached });
        }
    }

    fn dial_target(&mut self, target: TargetId) {
        let peer = self.joins.peer(target);
        if let Some((peer, Ok(node))) = peer.map(|p| (p, crate::node_id(&p)))
            && self.sessions.has(node)
        {
            return self.joins.connected(peer, node);
        }
        let addresses = self.joins.due_addresses(target);
        let Some(first) = addresses.first() else { return };
        let options = match named_peer(first) {
            Some(peer) => DialOpts::peer_id(peer)
                .condition(PeerCondition::Always)
                .addresses(addresses)
                .allocate_new_port()
                .build(),
            None => DialOpts::unknown_peer_id().address(first.clone()).allocate_new_port().build(),
        };
        self.joins.dialling(target, options.connection_id());
        if let Err(e) = self.swarm.dial(options) {
            self.target_failed(target, words::dial_error(&e));
        }
    }

    fn target_failed(&mut self, target: TargetId, reason: String) {
        let Some((reason, retry_in)) = self.joins.failed_because(target, reason) else { return };
        let retry_in = Some(retry_in);
        if let Some(addr) = self.joins.addresses(target).first().cloned() {
            self.events.dial_failed(addr, reason, retry_in);
        }
    }

    fn on_swarm_event(&mut self, event: SwarmEvent<BehaviourEvent>) {
        match event {
            SwarmEvent::Behaviour(BehaviourEvent::Streams(StreamsEvent { peer, connection, report })) => {
                self.on_report(peer, connection, report);
            }
            SwarmEvent::Behaviour(BehaviourEvent::Identify(identify::Event::Received {
                connection_id,
                info,
                ..
            })) => {
                if let Some(opening) = self.opening.get_mut(&connection_id) {
                    opening.offers = Some(info.protocols.iter().map(|p| p.to_string()).collect());
                    if opening.unsuited {
                        self.refuse(connection_id);
                    }
                }
            }
            SwarmEvent::ConnectionEstablished { peer_id, connection_id, endpoint, .. } => {
                if let Some(target) = self.joins.find(connection_id) {
                    self.joins.reached(target, peer_id);
                }
                if let Ok(peer) = crate::node_id(&peer_id) {
                    self.opening.insert(
                        connection_id,
                        Opening {
                            peer,
                            seen: (words::ip(endpoint.get_remote_address()), words::carrier(&endpoint)),
                            offers: None,
                            unsuited: false,
                            ready: None,
                        },
                    );
                }
            }
            SwarmEvent::ConnectionClosed { peer_id, connection_id, cause, .. } => {
                let reason = match cause {
                    Some(e) => format!("the connection broke: {}", words::root(&e)),
                    None => "the connection was closed".into(),
                };
                if let Ok(peer) = crate::node_id(&peer_id) {
                    self.gone(peer, connection_id, reason);
                }
            }
            SwarmEvent::OutgoingConnectionError { connection_id, error, .. } => {
                self.on_dial_error(connection_id, &error);
            }
            SwarmEvent::IncomingConnectionError { send_back_addr, error, .. } => {
                tracing::debug!(from = %send_back_addr, error = %words::root(&error), "a peer did not get in");
            }
            SwarmEvent::NewListenAddr { listener_id, address } => {
                if let Some(listener) = self.listeners.get_mut(&listener_id) {
                    listener.outcome = Some(Ok(()));
                }
                let addr = words::with_peer(address, *self.swarm.local_peer_id());
                // Nobody dials a stream that this driver opens.
                if !crate::pipes::is_pipe(&addr) {
                    locked(&self.addresses).push(addr.clone());
                }
                self.events.send(LinkEvent::Listening { addr });
            }
            SwarmEvent::ExpiredListenAddr { address, .. } => {
                self.listening_ended(address, "the network interface is gone".into());
            }
            SwarmEvent::ListenerClosed { listener_id, addresses, reason } => {
                let reason = match reason {
                    Ok(()) => "the listener was closed".into(),
                    Err(e) => words::root(&e),
                };
                if let Some(listener) = self.listeners.get_mut(&listener_id) {
                    listener.outcome.get_or_insert(Err(reason.clone()));
                }
                addresses.into_iter().for_each(|a| self.listening_ended(a, reason.clone()));
            }
            SwarmEvent::ListenerError { listener_id, error } => {
                let address = self.listeners.get(&listener_id).map(|l| l.asked.to_string());
                tracing::warn!(address, error = %words::root(&error), "a connection could not be accepted");
            }
            _ => {}
        }
    }

    fn listening_ended(&mut self, address: Multiaddr, reason: String) {
        let addr = words::with_peer(address, *self.swarm.local_peer_id());
        locked(&self.addresses).retain(|a| *a != addr);
        self.events.send(LinkEvent::ListeningEnded { addr, reason });
    }

    fn on_dial_error(&mut self, connection: ConnectionId, error: &DialError) {
        if self.probes.contains_key(&connection) {
            // Denied is only who has shown its key.
            return self.probe_ended(connection, matches!(error, DialError::Denied { .. }));
        }
        let denied = match error {
            DialError::Denied { cause } => cause.downcast_ref::<AlreadyConnected>().copied(),
            _ => None,
        };
        match (self.joins.find(connection), denied) {
            // The address leads to a peer that has a session.
            (Some(target), Some(AlreadyConnected(node))) => {
                if let Some(peer) = crate::peer_id(&node) {
                    self.joins.reached(target, peer);
                    if self.sessions.has(node) {
                        return self.joins.connected(peer, node);
                    }
                }
                self.joins.failed(target); // it is just being set up or closed
            }
            (Some(target), None) => self.target_failed(target, words::dial_error(error)),
            (None, _) => {
                if let Some(addr) = self.dials.remove(&connection) {
                    let reason = words::dial_error(error);
                    self.events.dial_failed(addr, reason, None);
                }
            }
        }
    }

    fn on_report(&mut self, peer: NodeId, connection: ConnectionId, report: Report) {
        match report {
            Report::Frames(frames) => {
                if self.sessions.is(peer, connection) {
                    for (channel, bytes) in frames {
                        self.events.send(LinkEvent::Frame { from: peer, channel, bytes });
                    }
                }
            }
            Report::Ready { queue, dialled } => {
                let Some(opening) = self.opening.get_mut(&connection) else { return };
                opening.ready = Some((queue, dialled));
                if self.sessions.chooses(peer) {
                    self.offer(peer, connection);
                }
            }
            Report::Begun => self.offer(peer, connection),
            Report::Quiet => {
                if self.sessions.is(peer, connection) {
                    self.events.send(LinkEvent::Quiet { peer });
                }
            }
            Report::NoProtocol { again } => {
                if let Some(opening) = self.opening.get_mut(&connection) {
                    opening.unsuited = true;
                    if again || opening.offers.is_some() {
                        self.refuse(connection);
                    }
                }
            }
            Report::Gone(Gone::Lost(reason)) => {
                self.close(peer, connection);
                self.gone(peer, connection, reason);
            }
            Report::Gone(Gone::Fault(what)) => {
                self.close(peer, connection);
                self.events.send(LinkEvent::Fault { peer, what: what.clone() });
                self.gone(peer, connection, format!("it {what}"));
            }
        }
    }

    /// Makes a connection the session, or closes it. Only what is ready and new is either.
    fn offer(&mut self, peer: NodeId, connection: ConnectionId) {
        let Some(opening) = self.opening.get_mut(&connection) else { return };
        let Some((queue, dialled)) = opening.ready.take() else { return };
        let seen = opening.seen;
        let relayed = seen.1 == Carrier::Relay;
        let verdict = self.sessions.offer(peer, Standing { connection, dialled, relayed });
        if verdict == Verdict::Superfluous {
            return self.close(peer, connection);
        }
        if let Verdict::Replaces(old) = verdict {
            let reason = "another connection to it took over".into();
            self.events.send(LinkEvent::Disconnected { peer, reason });
            self.close(peer, old);
        }
        self.opening.remove(&connection);
        self.dials.remove(&connection);
        queue.choose();
        self.queues.insert(peer, queue.clone());
        let id = crate::peer_id(&peer);
        let joined = id.is_some_and(|id| self.joins.names(id));
        self.events.connected(peer, seen, joined, queue);
        if let Some(id) = id {
            self.joins.connected(id, peer);
        }
    }

    /// Closes a connection whose peer does not speak our protocols.
    fn refuse(&mut self, connection: ConnectionId) {
        if let Some(opening) = self.opening.get_mut(&connection) {
            opening.unsuited = true;
            let peer = opening.peer;
            self.close(peer, connection);
            self.gone(peer, connection, "the connection was closed".into());
        }
    }

    /// A connection is over: ends the session that it was, if it was one.
    fn gone(&mut self, peer: NodeId, connection: ConnectionId, mut reason: String) {
        if let Some(opening) = self.opening.remove(&connection) {
            // When both sides find out, the other may close first.
            if opening.unsuited || opening.offers.as_ref().is_some_and(|o| !speaks_ours(o)) {
                reason =
                    words::no_common_protocol(opening.offers.as_deref(), &[CONTROL_PROTOCOL, BLOB_PROTOCOL]);
                self.events.send(LinkEvent::Fault { peer, what: reason.clone() });
                reason = format!("it {reason}");
            }
        }
        self.dial_ended(peer, connection, &reason);
        if self.sessions.end(peer, connection) {
            // When this side wanted it, that is the reason, however it ended.
            if let Some(End::Close(wanted)) = self.queues.remove(&peer).and_then(|queue| queue.end()) {
                reason = wanted;
            }
            self.joins.disconnected(peer);
            self.events.send(LinkEvent::Disconnected { peer, reason });
        }
    }

    /// A connection that is no session is over. What dialled it waits for another one of the same peer.
    fn dial_ended(&mut self, peer: NodeId, connection: ConnectionId, reason: &str) {
        let other = self.opening.iter().find(|(_, opening)| opening.peer == peer).map(|(id, _)| *id);
        match (self.joins.find(connection), other) {
            (Some(target), Some(_)) => drop(self.joins.failed(target)),
            (Some(target), None) => self.target_failed(target, reason.into()),
            (None, _) => {}
        }
        match (self.dials.remove(&connection), other) {
            (Some(addr), Some(other)) => drop(self.dials.entry(other).or_insert(addr)),
            (Some(addr), None) if !self.sessions.has(peer) => {
                self.events.dial_failed(addr, reason.into(), None);
            }
            _ => {}
        }
    }

    fn close(&mut self, peer: NodeId, connection: ConnectionId) {
        if let Some(id) = crate::peer_id(&peer) {
            self.swarm.behaviour_mut().streams.forget(&id, connection);
        }
        self.swarm.close_connection(connection);
    }
}

fn speaks_ours(offers: &[String]) -> bool {
    [CONTROL_PROTOCOL, BLOB_PROTOCOL].iter().all(|ours| offers.iter().any(|o| o == ours))
}
