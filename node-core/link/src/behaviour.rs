//! The libp2p behaviour of a node: our streams, identify, and bounds on connections.

use crate::admission::Admission;
use crate::block::AddressBlock;
use crate::handler::{Handler, Report};
use crate::ids::{NotANode, node_id};
use crate::memory::Memory;
use crate::pipes::is_relayed;
use crate::{LinkOptions, ids, words};
use libp2p::core::Endpoint;
use libp2p::core::transport::PortUse;
use libp2p::identity::PublicKey;
use libp2p::swarm::behaviour::{ConnectionClosed, ConnectionEstablished};
use libp2p::swarm::{ConnectionDenied, ConnectionId, FromSwarm, NetworkBehaviour, THandlerInEvent, ToSwarm};
use libp2p::{Multiaddr, PeerId, connection_limits, identify};
use node_core::NodeId;
use std::collections::{HashMap, HashSet, VecDeque};
use std::task::{Context, Poll};
use std::time::Duration;

#[derive(NetworkBehaviour)]
pub(crate) struct Behaviour {
    limits: connection_limits::Behaviour,
    admission: Admission,
    identify: identify::Behaviour,
    pub(crate) streams: Streams,
}

/// Connections that one peer may have: the one in use, one that replaces it, one too many.
const PER_PEER: u32 = 3;

impl Behaviour {
    pub(crate) fn new(key: PublicKey, options: &LinkOptions) -> Self {
        let limits = connection_limits::ConnectionLimits::default()
            .with_max_pending_incoming(Some(options.handshakes))
            .with_max_pending_outgoing(Some(options.handshakes))
            .with_max_established(Some(options.connections))
            .with_max_established_per_peer(Some(PER_PEER));
        let identify = identify::Config::new("/manyhands/1".into(), key)
            .with_agent_version(options.agent.clone())
            .with_cache_size(0) // addresses come from `join`, not from peers
            .with_interval(Duration::from_secs(24 * 3600)); // asked once; nothing in it changes
        Behaviour {
            limits: connection_limits::Behaviour::new(limits),
            admission: Admission::new(options),
            identify: identify::Behaviour::new(identify),
            streams: Streams::new(options.clone()),
        }
    }
}

/// Report of a connection, with its peer.
#[derive(Debug)]
pub(crate) struct StreamsEvent {
    pub(crate) peer: NodeId,
    pub(crate) connection: ConnectionId,
    pub(crate) report: Report,
}

/// This side has dialled the peer before and is still connected.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("already connected to {}", .0.short())]
pub(crate) struct AlreadyConnected(pub(crate) NodeId);

/// The connection was made to see whether the peer answers at an address, and it does.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("it answers there")]
pub(crate) struct Answers;

/// Gives each connection its handler.
pub(crate) struct Streams {
    options: LinkOptions,
    memory: Memory,
    /// Connections that this side dialled, and whether by way of a relay. A second one is denied before the peer can
    /// use it, so that both sides agree which one counts; but a direct one takes a relayed one's place.
    dialled: HashMap<PeerId, (ConnectionId, bool)>,
    /// Connections that end with the handshake.
    probes: HashSet<ConnectionId>,
    events: VecDeque<StreamsEvent>,
}

impl Streams {
    fn new(options: LinkOptions) -> Self {
        let memory = Memory::new(options.waiting_bytes);
        Streams { options, memory, dialled: HashMap::new(), probes: HashSet::new(), events: VecDeque::new() }
    }

    fn handler(&self, dialled: bool, remote: &Multiaddr) -> Handler {
        let block = words::ip(remote).map(AddressBlock::of);
        Handler::new(&self.options, dialled, || self.memory.share(block))
    }

    /// The connection is to end with the handshake: it shows that the peer answers.
    pub(crate) fn probe(&mut self, connection: ConnectionId) {
        self.probes.insert(connection);
    }

    pub(crate) fn probe_ended(&mut self, connection: ConnectionId) {
        self.probes.remove(&connection);
    }

    /// The connection is being closed: the peer may be dialled again.
    pub(crate) fn forget(&mut self, peer: &PeerId, connection: ConnectionId) {
        if self.dialled.get(peer).is_some_and(|(known, _)| *known == connection) {
            self.dialled.remove(peer);
        }
    }
}

fn denied(e: NotANode) -> ConnectionDenied {
    ConnectionDenied::new(e)
}

impl NetworkBehaviour for Streams {
    type ConnectionHandler = Handler;
    type ToSwarm = StreamsEvent;

    fn handle_established_inbound_connection(
        &mut self,
        _: ConnectionId,
        peer: PeerId,
        _: &Multiaddr,
        remote: &Multiaddr,
    ) -> Result<Handler, ConnectionDenied> {
        ids::node_id(&peer).map_err(denied)?;
        Ok(self.handler(false, remote))
    }

    fn handle_established_outbound_connection(
        &mut self,
        connection: ConnectionId,
        peer: PeerId,
        remote: &Multiaddr,
        _: Endpoint,
        _: PortUse,
    ) -> Result<Handler, ConnectionDenied> {
        let node = node_id(&peer).map_err(denied)?;
        if self.probes.contains(&connection) {
            return Err(ConnectionDenied::new(Answers));
        }
        if self.dialled.get(&peer).is_some_and(|(_, relayed)| !relayed || is_relayed(remote)) {
            return Err(ConnectionDenied::new(AlreadyConnected(node)));
        }
        Ok(self.handler(true, remote))
    }

    fn on_swarm_event(&mut self, event: FromSwarm<'_>) {
        match event {
            FromSwarm::ConnectionEstablished(ConnectionEstablished {
                peer_id,
                connection_id,
                endpoint,
                ..
            }) if endpoint.is_dialer() => {
                let relayed = is_relayed(endpoint.get_remote_address());
                let known = self.dialled.entry(peer_id).or_insert((connection_id, relayed));
                if known.1 && !relayed {
                    *known = (connection_id, false);
                }
            }
            FromSwarm::ConnectionClosed(ConnectionClosed { peer_id, connection_id, .. }) => {
                self.forget(&peer_id, connection_id);
            }
            _ => {}
        }
    }

    fn on_connection_handler_event(&mut self, peer: PeerId, connection: ConnectionId, report: Report) {
        // Checked when the connection was established.
        if let Ok(peer) = node_id(&peer) {
            self.events.push_back(StreamsEvent { peer, connection, report });
        }
    }

    fn poll(&mut self, _: &mut Context<'_>) -> Poll<ToSwarm<StreamsEvent, THandlerInEvent<Self>>> {
        // The swarm polls until there is nothing left before it takes the next handler event,
        // so this holds at most one; and it polls after each, so no waker is needed.
        match self.events.pop_front() {
            Some(event) => Poll::Ready(ToSwarm::GenerateEvent(event)),
            None => Poll::Pending,
        }
    }
}
