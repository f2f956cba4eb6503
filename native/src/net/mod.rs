//! The native node's way to others: TCP and WebSocket, names resolved, addresses listened on.
//!
//! The `link` crate handles the connections; this module brings the transport and runs it in a task of its
//! own.

mod probe;
mod rtc;
mod upgrade;

pub(crate) use rtc::{Answer, Channels, introduce};
pub(crate) use upgrade::Pages;

use libp2p::core::Transport as _;
use libp2p::core::transport::{Boxed, OrTransport};
use libp2p::identity::Keypair;
use libp2p::multiaddr::Protocol;
use libp2p::{Multiaddr, dns, swarm, tcp, websocket};
use link::{Circuits, Events, Link, LinkOptions, Pipes, Piping, ToNode};
use node_core::address::Contact;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use upgrade::Replayed;

/// Options of a node's network part.
#[derive(Clone, Default)]
pub(crate) struct NetOptions {
    /// Addresses to listen at, `/ip4/…/tcp/…` or `/ip4/…/tcp/…/ws`. None: only dials.
    pub(crate) listen: Vec<Multiaddr>,
    pub(crate) link: LinkOptions,
    /// Which pages may come in by WebSocket.
    pub(crate) pages: Pages,
    /// Receiver of what data channels answer; none for a node without them.
    pub(crate) channels: Option<Answer>,
    /// Receiver of what circuits answer; none for a node without them.
    pub(crate) circuits: Option<ToNode>,
}

/// Ways of a node to others.
pub(crate) struct Net {
    pub(crate) link: Link,
    pub(crate) events: Events,
    pub(crate) channels: Option<Channels>,
    pub(crate) circuits: Option<Circuits>,
}

/// Why a node cannot talk to others; says what to do next.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NetError(pub(crate) String);

/// Starts on the current runtime. When it returns, all addresses are listened on and known to
/// [`Link::addresses`]. Ends when the link or its events are dropped.
pub(crate) async fn start(key: &Keypair, options: NetOptions) -> Result<Net, NetError> {
    let listen: Vec<Multiaddr> = options.listen.iter().filter(|at| probe::is_possible(at)).cloned().collect();
    for address in &listen {
        probe::free(address)?;
    }
    let executor = swarm::Config::with_tokio_executor();
    let (pipes, piping) = link::pipes();
    let transport = transport(pipes, options.pages);
    let (link, events, mut runner) =
        link::start(key, transport, executor, options.link).map_err(|e| NetError(e.to_string()))?;
    for address in &listen {
        let wanted = same_port(address, &link.addresses());
        match runner.listen(&wanted) {
            Ok(()) => {}
            // The free port of the one family is taken in the other.
            Err(e) if wanted != *address => tracing::warn!("{e}; peers reach this node by the other family"),
            Err(e) => return Err(probe::explain(&e.address, e.kind, &e.reason)),
        }
        runner.listening().await.map_err(|e| probe::explain(&e.address, e.kind, &e.reason))?;
    }
    if options.channels.is_some() || options.circuits.is_some() {
        runner.listen(&Piping::listening()).map_err(|e| NetError(e.to_string()))?;
    }
    let port = link.addresses().iter().find_map(tcp_port);
    let circuits = options.circuits.map(|answer| Circuits::new(link.clone(), piping.clone(), answer));
    let channels = options.channels.map(|answer| Channels::start(link.clone(), piping, port, answer));
    tokio::spawn(runner.run());
    Ok(Net { link, events, channels, circuits })
}

/// A free port is the same one for both families: others are told of one.
fn same_port(address: &Multiaddr, taken: &[Multiaddr]) -> Multiaddr {
    let kind = |at: &Multiaddr| at.iter().any(|part| matches!(part, Protocol::Ws(_)));
    let port = |at: &Multiaddr| {
        at.iter().find_map(|part| if let Protocol::Tcp(port) = part { Some(port) } else { None })
    };
    let other = taken.iter().find(|other| kind(other) == kind(address)).and_then(port);
    let Some(other) = other.filter(|_| port(address) == Some(0)) else { return address.clone() };
    address.iter().map(|part| if let Protocol::Tcp(0) = part { Protocol::Tcp(other) } else { part }).collect()
}

/// An address of its own that a node with these listeners has without asking anybody.
pub(crate) fn own_ip(listen: &[Multiaddr]) -> Option<IpAddr> {
    let ips = || listen.iter().filter(|address| tcp_port(address).is_some()).filter_map(ip);
    let loopback = ips().find_map(|ip| match ip {
        IpAddr::V4(v4) if v4.is_unspecified() => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        IpAddr::V6(v6) if v6.is_unspecified() => Some(IpAddr::V6(Ipv6Addr::LOCALHOST)),
        ip => ip.is_loopback().then_some(ip),
    });
    loopback.or_else(|| ips().next())
}

/// The IP number in front of an address.
pub(crate) fn ip(address: &Multiaddr) -> Option<IpAddr> {
    match address.iter().next()? {
        Protocol::Ip4(ip) => Some(ip.into()),
        Protocol::Ip6(ip) => Some(ip.into()),
        _ => None,
    }
}

/// How to dial a node; none if its id is no key.
pub(crate) fn address(contact: &Contact) -> Option<Multiaddr> {
    let at = match contact.ip.into() {
        IpAddr::V4(ip) => Multiaddr::from(ip),
        IpAddr::V6(ip) => Multiaddr::from(ip),
    };
    at.with(Protocol::Tcp(contact.port)).with_p2p(link::peer_id(&contact.id)?).ok()
}

/// Whether the address means something on one link only, and cannot be dialled without the link's name.
pub(crate) fn is_link_local(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local())
}

/// Whether only this machine reaches the address.
pub(crate) fn is_loopback(address: &Multiaddr) -> bool {
    ip(address).is_some_and(|ip| ip.is_loopback())
}

/// The port of an address that others dial by TCP alone.
pub(crate) fn tcp_port(address: &Multiaddr) -> Option<u16> {
    let mut parts = address.iter().skip(1);
    match (parts.next(), parts.next()) {
        (Some(Protocol::Tcp(port)), None | Some(Protocol::P2p(_))) => Some(port),
        _ => None,
    }
}

/// The port of an address that pages dial by WebSocket.
pub(crate) fn ws_port(address: &Multiaddr) -> Option<u16> {
    let mut parts = address.iter().skip(1);
    match (parts.next(), parts.next()) {
        (Some(Protocol::Tcp(port)), Some(Protocol::Ws(_))) => Some(port),
        _ => None,
    }
}

type Tcp = dns::tokio::Transport<tcp::tokio::Transport>;

/// TCP below WebSocket, whose incoming connections have passed the door.
type Guarded = Boxed<Replayed<tcp::tokio::TcpStream>>;

/// Streams of data channels, and WebSocket before plain TCP, which would take its addresses for its own.
fn transport(pipes: Pipes, pages: Pages) -> OrTransport<Pipes, OrTransport<websocket::Config<Guarded>, Tcp>> {
    let guarded = resolving_tcp().and_then(move |stream, point| async move {
        match point.is_dialer() {
            true => Ok(Replayed::whole(stream)),
            false => upgrade::check(stream, &pages).await,
        }
    });
    pipes.or_transport(websocket::Config::new(guarded.boxed()).or_transport(resolving_tcp()))
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
