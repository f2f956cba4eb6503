//! Errors in words that fit on a line.

use libp2p::core::ConnectedPoint;
use libp2p::multiaddr::Protocol;
use libp2p::swarm::DialError;
use libp2p::{Multiaddr, PeerId};
use node_core::Carrier;
use std::error::Error;
use std::io;
use std::net::IpAddr;

/// libp2p wraps errors in errors; the innermost says what happened.
pub(crate) fn root(error: &(dyn Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(next) = inner(innermost) {
        innermost = next;
    }
    innermost.to_string()
}

/// The operating system's error, if there is one inside.
pub(crate) fn os_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a io::Error> {
    let mut next = Some(error);
    while let Some(e) = next {
        if let Some(io) = e.downcast_ref::<io::Error>()
            && io.get_ref().is_none()
        {
            return Some(io);
        }
        next = inner(e);
    }
    None
}

/// `io::Error::source` skips the error that it wraps, so it is asked differently.
fn inner<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(wrapped) => Some(wrapped),
        None => error.source(),
    }
}

pub(crate) fn dial_error(error: &DialError) -> String {
    match error {
        DialError::LocalPeerId { .. } => "that is this node itself".into(),
        DialError::NoAddresses => "no address is left to try: all are this node's own".into(),
        DialError::DialPeerConditionFalse(_) => "it is connected or being dialled already".into(),
        DialError::Aborted => "the attempt was given up".into(),
        DialError::WrongPeerId { obtained, .. } => {
            format!("another node answers there: {obtained}; ask the operator for its new address")
        }
        DialError::Denied { cause } => root(cause),
        DialError::Transport(tried) => {
            let mut reasons: Vec<String> = tried
                .iter()
                .map(|(address, e)| if tried.len() > 1 { format!("{address}: {}", root(e)) } else { root(e) })
                .collect();
            if reasons.is_empty() {
                reasons.push("no address could be tried".into());
            }
            reasons.join("; ")
        }
    }
}

/// The IP address in front of an address.
pub(crate) fn ip(address: &Multiaddr) -> Option<IpAddr> {
    match address.iter().next()? {
        Protocol::Ip4(ip) => Some(ip.into()),
        Protocol::Ip6(ip) => Some(ip.into()),
        _ => None,
    }
}

/// The carrier of a connection. One that came in is known by where it was listened for.
pub(crate) fn carrier(endpoint: &ConnectedPoint) -> Carrier {
    let address = match endpoint {
        ConnectedPoint::Dialer { address, .. } => address,
        ConnectedPoint::Listener { local_addr, .. } => local_addr,
    };
    if crate::pipes::is_relayed(address) {
        return Carrier::Relay;
    }
    if crate::pipes::is_pipe(address) {
        return Carrier::DataChannel;
    }
    match address.iter().any(|part| matches!(part, Protocol::Ws(_) | Protocol::Wss(_))) {
        true => Carrier::WebSocket,
        false => Carrier::Tcp,
    }
}

pub(crate) fn with_peer(address: Multiaddr, peer: PeerId) -> Multiaddr {
    address.with_p2p(peer).unwrap_or_else(|named| named.with(Protocol::P2p(peer)))
}

/// Shown of what a peer offers, so that a peer cannot fill the screen.
const OFFERS_SHOWN: usize = 8;
const OFFER_CHARS: usize = 64;

pub(crate) fn no_common_protocol(offers: Option<&[String]>, ours: &[&str]) -> String {
    let offers = match offers {
        None => "does not say what it speaks".into(),
        Some([]) => "offers nothing".into(),
        Some(offers) => {
            let mut offers: Vec<&String> = offers.iter().collect();
            offers.sort_by_key(|o| !o.starts_with("/manyhands/")); // what matters first
            let shown: Vec<String> = offers
                .iter()
                .take(OFFERS_SHOWN)
                .map(|o| o.chars().take(OFFER_CHARS).flat_map(char::escape_default).collect())
                .collect();
            let more = if offers.len() > OFFERS_SHOWN { ", …" } else { "" };
            format!("offers {}{more}", shown.join(", "))
        }
    };
    let ours = ours.join(" and ");
    format!(
        "speaks another version: it {offers}; this node speaks {ours}. Bring the older of the two up to date"
    )
}
