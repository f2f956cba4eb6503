//! The native node's way to others: TCP and WebSocket, names resolved, addresses listened on.
//!
//! What happens on the connections is the `link` crate's; this one brings the transport and
//! runs it in a task of its own.

mod probe;

use libp2p::core::Transport as _;
use libp2p::core::transport::OrTransport;
use libp2p::identity::Keypair;
use libp2p::{Multiaddr, dns, swarm, tcp, websocket};
use link::{Events, Link, LinkOptions};

/// What the network part of a node is told.
#[derive(Clone, Debug, Default)]
pub(crate) struct NetOptions {
    /// Addresses to listen at, `/ip4/…/tcp/…` or `/ip4/…/tcp/…/ws`. None: only dials.
    pub(crate) listen: Vec<Multiaddr>,
    pub(crate) link: LinkOptions,
}

/// Why a node cannot talk to others; says what to do next.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NetError(pub(crate) String);

/// Starts on the current runtime. When it returns, all addresses are listened on and known to
/// [`Link::addresses`]. Ends when the link or its events are dropped.
pub(crate) async fn start(key: &Keypair, options: NetOptions) -> Result<(Link, Events), NetError> {
    for address in &options.listen {
        probe::free(address)?;
    }
    let executor = swarm::Config::with_tokio_executor();
    let (link, events, mut runner) =
        link::start(key, transport(), executor, options.link).map_err(|e| NetError(e.to_string()))?;
    for address in &options.listen {
        runner.listen(address).map_err(|e| probe::explain(&e.address, e.kind, &e.reason))?;
    }
    runner.listening().await.map_err(|e| probe::explain(&e.address, e.kind, &e.reason))?;
    tokio::spawn(runner.run());
    Ok((link, events))
}

type Tcp = dns::tokio::Transport<tcp::tokio::Transport>;

/// WebSocket first: plain TCP would take its addresses for its own.
fn transport() -> OrTransport<websocket::Config<Tcp>, Tcp> {
    websocket::Config::new(resolving_tcp()).or_transport(resolving_tcp())
}

fn resolving_tcp() -> Tcp {
    let tcp = || tcp::tokio::Transport::new(tcp::Config::default().nodelay(true));
    dns::tokio::Transport::system(tcp()).unwrap_or_else(|e| {
        tracing::warn!(
            "the system's DNS configuration cannot be read ({e}): only addresses with IP numbers can be dialled"
        );
        dns::tokio::Transport::custom(tcp(), dns::ResolverConfig::default(), dns::ResolverOpts::default())
    })
}

#[cfg(test)]
mod tests;
