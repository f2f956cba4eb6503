//! The native node's way to others: TCP and WebSocket, names resolved, addresses listened on.
//!
//! What happens on the connections is the `link` crate's; this one brings the transport and
//! runs it in a task of its own.

mod probe;

use libp2p::core::Transport as _;
use libp2p::core::transport::OrTransport;
use libp2p::identity::Keypair;
use libp2p::multiaddr::Protocol;
use libp2p::{Multiaddr, dns, swarm, tcp, websocket};
use link::{Events, Link, LinkOptions};
use node_core::overlay::contact::Contact;
use std::net::IpAddr;

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

/// How to dial a node; none if its id is no key.
pub(crate) fn address(contact: &Contact) -> Option<Multiaddr> {
    let at = match contact.ip.into() {
        IpAddr::V4(ip) => Multiaddr::from(ip),
        IpAddr::V6(ip) => Multiaddr::from(ip),
    };
    at.with(Protocol::Tcp(contact.port)).with_p2p(link::peer_id(&contact.id)?).ok()
}

/// Whether only this machine reaches the address.
pub(crate) fn is_loopback(address: &Multiaddr) -> bool {
    match address.iter().next() {
        Some(Protocol::Ip4(ip)) => ip.is_loopback(),
        Some(Protocol::Ip6(ip)) => ip.is_loopback(),
        _ => false,
    }
}

/// The port of an address that others dial by TCP alone.
pub(crate) fn tcp_port(address: &Multiaddr) -> Option<u16> {
    let mut parts = address.iter().skip(1);
    match (parts.next(), parts.next()) {
        (Some(Protocol::Tcp(port)), None | Some(Protocol::P2p(_))) => Some(port),
        _ => None,
    }
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
