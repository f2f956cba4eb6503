//! Puts a swarm together.

use crate::behaviour::Behaviour;
use crate::muxer::Polite;
use crate::{Events, Link, LinkOptions, Runner};
use futures::{AsyncRead, AsyncWrite};
use libp2p::core::muxing::StreamMuxerBox;
use libp2p::core::upgrade::Version;
use libp2p::identity::Keypair;
use libp2p::{Swarm, Transport, noise, swarm, yamux};
use std::time::Duration;

/// Why a node cannot have links.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    NotANode(#[from] crate::NotANode),
    #[error("this node's key cannot be used to encrypt connections: {0}; start with a new identity")]
    Noise(#[from] noise::Error),
}

/// Streams that a peer may have open at a time: ours, identify's, and some in passing.
const MAX_STREAMS: usize = 64;
const MAX_OPENING: usize = 16;

/// Sets up a node's links: what to send with, what comes, and what has to run for it.
///
/// `transport` moves plain bytes; encryption (noise) and multiplexing (yamux) are added here.
/// `executor` is `swarm::Config::with_tokio_executor()` natively and
/// `swarm::Config::with_wasm_executor()` in a browser.
pub fn start<T>(
    key: &Keypair,
    transport: T,
    executor: swarm::Config,
    options: LinkOptions,
) -> Result<(Link, Events, Runner), StartError>
where
    T: Transport + Send + Unpin + 'static,
    T::Output: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T::Error: Send + Sync + 'static,
    T::Dial: Send + 'static,
    T::ListenerUpgrade: Send + 'static,
{
    let peer = key.public().to_peer_id();
    let me = crate::node_id(&peer)?;
    let mut muxing = yamux::Config::default();
    muxing.set_max_num_streams(MAX_STREAMS);
    let transport = transport
        .upgrade(Version::V1Lazy)
        .authenticate(noise::Config::new(key)?)
        .multiplex(muxing)
        .timeout(options.connect_timeout)
        .map(|(peer, muxer), _| (peer, StreamMuxerBox::new(Polite::new(StreamMuxerBox::new(muxer)))))
        .boxed();
    let config = executor
        .with_max_negotiating_inbound_streams(MAX_OPENING)
        // Our handlers say themselves when a connection is over.
        .with_idle_connection_timeout(Duration::from_secs(60));
    let swarm = Swarm::new(transport, Behaviour::new(key.public(), &options), peer, config);
    Ok(Runner::new(me, swarm, &options))
}
