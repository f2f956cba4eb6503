//! Bounds on the connections that come from one place, so that it cannot shut out others.

#![expect(clippy::disallowed_types, reason = "only native nodes accept connections, and they have a clock")]

use crate::block::AddressBlock;
use crate::{LinkOptions, words};
use libp2p::core::Endpoint;
use libp2p::core::transport::PortUse;
use libp2p::swarm::behaviour::{ConnectionClosed, ConnectionEstablished, ListenFailure};
use libp2p::swarm::{
    ConnectionDenied, ConnectionId, FromSwarm, NetworkBehaviour, THandler, THandlerInEvent, THandlerOutEvent,
    ToSwarm, dummy,
};
use libp2p::{Multiaddr, PeerId};
use std::collections::HashMap;
use std::convert::Infallible;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// Denies incoming connections of an [`AddressBlock`] that has too many of them.
///
/// Connections that this side dialled do not count: nobody else chooses their number.
pub(crate) struct Admission {
    /// Handshakes under way, connections established, and new connections a second.
    handshakes: u32,
    connections: u32,
    rate: u32,
    blocks: HashMap<AddressBlock, Block>,
    /// Where each incoming connection comes from, and whether its handshake is over.
    from: HashMap<ConnectionId, (AddressBlock, bool)>,
    /// Blocks at which those without connections are dropped.
    crowded: usize,
}

/// The counts of one block.
#[derive(Default)]
struct Block {
    handshakes: u32,
    connections: u32,
    /// When all its connections so far have been paid for, at the rate that is allowed.
    paid: Option<Instant>,
}

/// The place that a connection comes from has too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{block} has too many {what} here; try again in a moment")]
pub(crate) struct Crowded {
    block: AddressBlock,
    what: &'static str,
}

/// Connections that may come at once before the rate counts. Our choice: three seconds' worth, since the
/// guests behind one router all dial at the moment when their gateway has restarted.
const BURST_SECONDS: u32 = 3;

/// Blocks without connections that are remembered for their rate: some 200 kB.
const REMEMBERED: usize = 4096;

impl Admission {
    pub(crate) fn new(options: &LinkOptions) -> Self {
        Admission {
            handshakes: options.handshakes_per_block,
            connections: options.connections_per_block,
            rate: options.arrivals_per_block,
            blocks: HashMap::new(),
            from: HashMap::new(),
            crowded: REMEMBERED,
        }
    }

    /// A connection from `block` wants to begin its handshake.
    fn arrive(&mut self, id: ConnectionId, block: AddressBlock, now: Instant) -> Result<(), Crowded> {
        let pace = Duration::from_secs(1) / self.rate.max(1);
        let known = self.blocks.entry(block).or_default();
        let crowded = |what| Err(Crowded { block, what });
        if known.handshakes >= self.handshakes {
            return crowded("handshakes under way");
        }
        if known.connections >= self.connections {
            return crowded("connections");
        }
        let paid = known.paid.map_or(now, |paid| paid.max(now));
        if paid.duration_since(now) > pace * self.rate * BURST_SECONDS {
            return crowded("new connections");
        }
        known.paid = Some(paid + pace);
        known.handshakes += 1;
        self.from.insert(id, (block, false));
        self.forget(now);
        Ok(())
    }

    /// The handshake is over: from now on the connection counts among those that stand.
    fn establish(&mut self, id: ConnectionId) {
        let Some((block, established @ false)) = self.from.get_mut(&id) else { return };
        *established = true;
        if let Some(known) = self.blocks.get_mut(block) {
            known.handshakes = known.handshakes.saturating_sub(1);
            known.connections += 1;
        }
    }

    fn leave(&mut self, id: ConnectionId) {
        let Some((block, established)) = self.from.remove(&id) else { return };
        let Some(known) = self.blocks.get_mut(&block) else { return };
        let count = if established { &mut known.connections } else { &mut known.handshakes };
        *count = count.saturating_sub(1);
    }

    /// Drops blocks that have neither connections nor arrivals that still count.
    fn forget(&mut self, now: Instant) {
        if self.blocks.len() < self.crowded {
            return;
        }
        self.blocks.retain(|_, known| {
            known.handshakes + known.connections > 0 || known.paid.is_some_and(|paid| paid > now)
        });
        // The next look comes when as many are new: each arrival pays for two blocks at most.
        self.crowded = (self.blocks.len() * 2).max(REMEMBERED);
    }
}

impl NetworkBehaviour for Admission {
    type ConnectionHandler = dummy::ConnectionHandler;
    type ToSwarm = Infallible;

    fn handle_pending_inbound_connection(
        &mut self,
        id: ConnectionId,
        _: &Multiaddr,
        remote: &Multiaddr,
    ) -> Result<(), ConnectionDenied> {
        match words::ip(remote).map(AddressBlock::of) {
            Some(block) => self.arrive(id, block, Instant::now()).map_err(ConnectionDenied::new),
            None => Ok(()),
        }
    }

    fn handle_established_inbound_connection(
        &mut self,
        _: ConnectionId,
        _: PeerId,
        _: &Multiaddr,
        _: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        Ok(dummy::ConnectionHandler)
    }

    fn handle_established_outbound_connection(
        &mut self,
        _: ConnectionId,
        _: PeerId,
        _: &Multiaddr,
        _: Endpoint,
        _: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        Ok(dummy::ConnectionHandler)
    }

    fn on_swarm_event(&mut self, event: FromSwarm<'_>) {
        match event {
            FromSwarm::ConnectionEstablished(ConnectionEstablished { connection_id, .. }) => {
                self.establish(connection_id);
            }
            FromSwarm::ListenFailure(ListenFailure { connection_id, .. })
            | FromSwarm::ConnectionClosed(ConnectionClosed { connection_id, .. }) => {
                self.leave(connection_id);
            }
            _ => {}
        }
    }

    fn on_connection_handler_event(&mut self, _: PeerId, _: ConnectionId, event: THandlerOutEvent<Self>) {
        match event {}
    }

    fn poll(&mut self, _: &mut Context<'_>) -> Poll<ToSwarm<Infallible, THandlerInEvent<Self>>> {
        Poll::Pending
    }
}

#[cfg(test)]
#[path = "admission_tests.rs"]
mod tests;
