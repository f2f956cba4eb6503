//! Whether an address can be listened on, and what to do when not.

use super::NetError;
use libp2p::Multiaddr;
use libp2p::multiaddr::Protocol;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener};

/// libp2p sets SO_REUSEPORT on what it listens on, so two nodes would silently share a port,
/// each getting half of the connections. A plain bind tells.
pub(super) fn free(address: &Multiaddr) -> Result<(), NetError> {
    let Some(socket) = socket(address) else {
        return Err(NetError(format!(
            "{address} is no address to listen at: expected /ip4/…/tcp/PORT, or the same with /ws behind it"
        )));
    };
    match TcpListener::bind(socket) {
        Ok(_) => Ok(()),
        Err(e) => Err(explain(address, Some(e.kind()), &e.to_string())),
    }
}

/// Whether this machine has such addresses at all: of all interfaces, those of IPv6 may be missing.
pub(super) fn is_possible(address: &Multiaddr) -> bool {
    match address.iter().next() {
        Some(Protocol::Ip6(ip)) if ip.is_unspecified() => TcpListener::bind((ip, 0)).is_ok(),
        _ => true,
    }
}

pub(super) fn explain(address: &Multiaddr, kind: Option<ErrorKind>, reason: &str) -> NetError {
    let at = socket(address).map_or_else(|| address.to_string(), |s| s.to_string());
    NetError(match kind {
        Some(ErrorKind::AddrInUse) => format!(
            "cannot listen on {at}: another program does already, perhaps another manyhands node; \
             stop it or choose another port (0 takes a free one)"
        ),
        Some(ErrorKind::AddrNotAvailable) => format!(
            "cannot listen on {at}: this machine does not have that address; \
             use one of its own, 127.0.0.1 or 0.0.0.0"
        ),
        Some(ErrorKind::PermissionDenied) => {
            format!("cannot listen on {at}: this user may not use that port; choose one above 1023")
        }
        _ => format!("cannot listen on {at} ({address}): {reason}; choose another address or port"),
    })
}

/// The socket behind `/ip4/…/tcp/…` and what may follow.
fn socket(address: &Multiaddr) -> Option<SocketAddr> {
    let mut parts = address.iter();
    let ip: IpAddr = match parts.next()? {
        Protocol::Ip4(ip) => ip.into(),
        Protocol::Ip6(ip) => ip.into(),
        _ => return None,
    };
    match parts.next()? {
        Protocol::Tcp(port) => Some(SocketAddr::new(ip, port)),
        _ => None,
    }
}
