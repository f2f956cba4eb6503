//! Joining a swarm: by multiaddress at once, by a gateway's URL as soon as it says where its
//! node listens.

use super::client::types::Network;
use super::client::{ApiError, Client, Endpoint, gateway_url};
use super::failure::Failure;
use super::progress::say;
use crate::assemble::Assembly;
use crate::driver::NodeHandle;
use crate::net::{ip, is_link_local, is_loopback};
use libp2p::Multiaddr;
use libp2p::multiaddr::Protocol;
use link::Link;
use std::net::IpAddr;
use std::time::Duration;

/// A way into a swarm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Gateway(String),
    Peer(Multiaddr),
}

impl std::str::FromStr for Way {
    type Err = String;

    fn from_str(text: &str) -> Result<Way, String> {
        let text = text.trim();
        if !text.starts_with('/') {
            return gateway_url(text).map(Way::Gateway);
        }
        let address: Multiaddr = text.parse().map_err(|e| {
            format!("{text:?} is no multiaddress ({e}); write it as /ip4/1.2.3.4/tcp/4001/p2p/12D3KooW…")
        })?;
        let dialable = address.iter().any(|part| matches!(part, Protocol::Tcp(_)));
        match dialable {
            true => Ok(Way::Peer(address)),
            false => Err(format!("{text:?} has no /tcp/ part, which is all that this build dials")),
        }
    }
}

/// Between looks for a gateway that is not there. Our choice: soon at first, then seldom enough
/// for a thousand nodes to wait for one gateway.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How long a gateway may be gone before its addresses are asked for again. Our choice: the
/// links have tried a few times by then.
const REFRESH: Duration = Duration::from_secs(15);

/// Joins through all of the ways and keeps at it. With `fail_fast`, the first attempt counts.
pub(crate) async fn join(
    ways: &[Way],
    assembly: &Assembly,
    invited: bool,
    fail_fast: bool,
) -> Result<(), Failure> {
    let Some(link) = &assembly.link else { return Ok(()) };
    for way in ways {
        match way {
            Way::Peer(address) => add(link, vec![address.clone()]),
            Way::Gateway(url) => {
                let first = ask(url).await;
                let known = match first {
                    Ok(network) if !network.gateway => {
                        return Err(Failure::usage(format!(
                            "the node at {url} is no gateway; join the one that it has joined"
                        )));
                    }
                    Ok(network) if network.invite_required && !invited => {
                        return Err(Failure::usage(format!(
                            "the gateway at {url} asks who joins for a word: give it with --invite WORD"
                        )));
                    }
                    Ok(network) => {
                        add(link, addresses(&network, &hosts_of(url).await, Loopback::LeftOut));
                        Some(network)
                    }
                    Err(e @ ApiError::Unreachable { .. }) if fail_fast => {
                        return Err(Failure::unreachable(advised(&e, url)));
                    }
                    Err(e) if fail_fast => return Err(e.into()),
                    Err(e) => {
                        let advised = advised(&e, url);
                        say(&format!("{advised}; trying on (Ctrl-C ends, --fail-fast gives up at once)"));
                        None
                    }
                };
                tokio::spawn(keep_up(url.clone(), link.clone(), assembly.node.clone(), known));
            }
        }
    }
    Ok(())
}

/// Asks a gateway that we are not connected to where it is now: it may have moved to other
/// ports when it restarted.
async fn keep_up(url: String, link: Link, node: NodeHandle, known: Option<Network>) {
    let mut silent = known.is_none();
    // The addresses without loopback have been dialled since the node was connected last.
    let mut dialled = known.is_some();
    let mut gateway = known.map(|network| network.node);
    let mut pause = if gateway.is_some() { REFRESH } else { FIRST_PAUSE };
    loop {
        tokio::time::sleep(pause).await;
        let connected = node.read(|node, now| node.work(now).gateways).await;
        let Ok(connected) = connected else { return };
        if connected.iter().any(|id| Some(id.to_string()) == gateway) {
            (pause, dialled) = (REFRESH, false);
            continue;
        }
        match ask(&url).await {
            Ok(network) => {
                if silent {
                    say(&format!("the gateway at {url} is there"));
                }
                silent = false;
                let loopback = if dialled { Loopback::Too } else { Loopback::LeftOut };
                add(&link, addresses(&network, &hosts_of(&url).await, loopback));
                dialled = true;
                gateway = Some(network.node);
                pause = REFRESH;
            }
            Err(e) => {
                if !silent {
                    say(&format!("{e}; trying on"));
                }
                silent = true;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

/// The error; if the gateway at `url` does not answer, with advice for the user.
fn advised(e: &ApiError, url: &str) -> String {
    match e {
        ApiError::Unreachable { .. } if leads_here(url) => {
            format!("{e}; `manyhands up --gateway` starts one")
        }
        ApiError::Unreachable { .. } => format!("{e}; {}", e.advice()),
        _ => e.to_string(),
    }
}

/// Time for a gateway on this machine to say where it listens. Our choice: it answers in milliseconds, and a
/// node does not start before.
const LOOK: Duration = Duration::from_secs(2);

/// `true` if one of the gateways, all of them on this machine, listens to other machines too.
pub(crate) async fn reaches_further(ways: &[Way]) -> bool {
    for way in ways {
        if let Way::Gateway(url) = way
            && let Ok(Ok(network)) = tokio::time::timeout(LOOK, ask(url)).await
            && given(&network).iter().any(is_far)
        {
            return true;
        }
    }
    false
}

/// An address that other machines may have for a node.
fn is_far(address: &Multiaddr) -> bool {
    ip(address).is_some_and(|ip| !ip.is_loopback())
}

/// The addresses that the gateway gives, at most [`MAX_GIVEN`], without those that cannot be dialled.
fn given(network: &Network) -> Vec<Multiaddr> {
    let given = network.addresses.iter().filter_map(|text| text.parse::<Multiaddr>().ok());
    given.filter(|address| !ip(address).is_some_and(is_link_local)).take(MAX_GIVEN).collect()
}

fn add(link: &Link, addresses: Vec<Multiaddr>) {
    if let Err(e) = link.join(addresses) {
        // Asked again later, with the same addresses.
        tracing::warn!("cannot join: {e}");
    }
}

async fn ask(url: &str) -> Result<Network, ApiError> {
    let endpoint = Endpoint { url: url.to_owned(), token: None };
    let asked = tokio::task::spawn_blocking(move || {
        let network = Client::new(endpoint.clone()).network()?;
        match network.addresses.is_empty() {
            false => Ok(network),
            true => {
                Err(ApiError::Strange(format!("the gateway at {} listens nowhere for peers", endpoint.url)))
            }
        }
    });
    asked.await.unwrap_or_else(|e| Err(ApiError::Local(format!("asking {url} went wrong: {e}"))))
}

/// Whether a way to join ends on this very machine, as far as its text tells.
pub(crate) fn leads_here(way: &str) -> bool {
    let host = match way.parse() {
        Ok(Way::Gateway(url)) => host_of(&url),
        Ok(Way::Peer(address)) => address.iter().next().map(Protocol::acquire),
        // An error in the address is reported where the address is used.
        Err(_) => return true,
    };
    match host {
        Some(Protocol::Ip4(ip)) => ip.is_loopback(),
        Some(Protocol::Ip6(ip)) => ip.is_loopback(),
        Some(Protocol::Dns(name) | Protocol::Dns4(name) | Protocol::Dns6(name)) => name == "localhost",
        _ => false,
    }
}

/// Whether loopback addresses of a gateway that has others are dialled.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Loopback {
    /// A node is seen where it dials from: on the gateway's own machine it is to be seen where others reach it.
    LeftOut,
    /// The node was not connected through the other addresses.
    Too,
}

/// Addresses to dial: those that the gateway gives, and the same ports on the host by which
/// we reached its page (it may not know the name or address that the world has for it).
fn addresses(network: &Network, hosts: &[Protocol<'static>], loopback: Loopback) -> Vec<Multiaddr> {
    let given = given(network);
    let mut found = given.clone();
    for host in hosts {
        for address in &given {
            let rest = address.iter().skip(1);
            let there: Multiaddr = std::iter::once(host.clone()).chain(rest).collect();
            if !found.contains(&there) {
                found.push(there);
            }
        }
    }
    if loopback == Loopback::LeftOut && given.iter().any(is_far) {
        found.retain(|address| !is_loopback(address));
    }
    found
}

/// Our choice: two transports on a machine with many interfaces.
const MAX_GIVEN: usize = 24;

/// The host of a URL; a name as the addresses behind it, since who is dialled by name cannot be told
/// where it is seen.
async fn hosts_of(url: &str) -> Vec<Protocol<'static>> {
    let Some(host) = host_of(url) else { return Vec::new() };
    let Protocol::Dns(name) = &host else { return vec![host] };
    let found = match tokio::net::lookup_host((name.as_ref(), 0)).await {
        Ok(found) => found.take(MAX_HOSTS).map(|at| protocol_of(at.ip())).collect(),
        Err(_) => Vec::new(),
    };
    // The resolver of the links may know the name.
    if found.is_empty() { vec![host] } else { found }
}

/// Our choice: a name with some addresses of both families.
const MAX_HOSTS: usize = 4;

fn protocol_of(ip: IpAddr) -> Protocol<'static> {
    match ip {
        IpAddr::V4(ip) => Protocol::Ip4(ip),
        IpAddr::V6(ip) => Protocol::Ip6(ip),
    }
}

fn host_of(url: &str) -> Option<Protocol<'static>> {
    let uri: ureq::http::Uri = url.parse().ok()?;
    let host = uri.host()?.trim_start_matches('[').trim_end_matches(']').to_owned();
    Some(match host.parse::<IpAddr>() {
        Ok(ip) => protocol_of(ip),
        Err(_) => Protocol::Dns(host.into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: &str = "12D3KooWQYhTNQdmr3ArTeUHRYzFg94BKyTkoWBDWez9kSCVe2Xo";

    #[test]
    fn ways_are_urls_or_multiaddresses() {
        let way = |text: &str| text.parse::<Way>();
        assert_eq!(way("http://a.example:8080/dashboard"), Ok(Way::Gateway("http://a.example:8080".into())));
        assert_eq!(way("localhost:8080"), Ok(Way::Gateway("http://localhost:8080".into())));
        assert!(matches!(way(&format!("/ip4/127.0.0.1/tcp/4001/p2p/{PEER}")), Ok(Way::Peer(_))));
        assert!(way("/ip4/127.0.0.1/udp/4001/quic-v1").unwrap_err().contains("/tcp/"));
        assert!(way("/ip4/nowhere").unwrap_err().contains("multiaddress"));
        assert!(way("https://a.example").unwrap_err().contains("plain HTTP"));
        assert!(way("").is_err());
    }

    #[test]
    fn a_gateway_is_also_dialled_where_its_page_was_found() {
        let network = Network {
            node: String::new(),
            gateway: true,
            addresses: vec![
                format!("/ip4/10.0.0.1/tcp/4001/p2p/{PEER}"),
                format!("/ip4/10.0.0.1/tcp/4002/ws/p2p/{PEER}"),
                "nonsense".into(),
            ],
            invite_required: false,
        };
        let dialled = |url: &str| -> Vec<String> {
            let hosts: Vec<_> = host_of(url).into_iter().collect();
            addresses(&network, &hosts, Loopback::LeftOut).iter().map(ToString::to_string).collect()
        };
        assert_eq!(
            dialled("http://hands.example:8080")[2..],
            [
                format!("/dns/hands.example/tcp/4001/p2p/{PEER}"),
                format!("/dns/hands.example/tcp/4002/ws/p2p/{PEER}")
            ]
        );
        assert_eq!(dialled("http://10.0.0.1").len(), 2);
        assert!(dialled("http://[fe80::1]:80")[2].starts_with("/ip6/fe80::1/tcp/4001/"));
    }

    #[test]
    fn beside_an_open_gateway_a_node_is_seen_where_others_reach_it() {
        let at = |ip: &str| format!("/{ip}/tcp/4001/p2p/{PEER}");
        let open = ["ip4/127.0.0.1", "ip4/10.0.0.1", "ip6/::1", "ip6/fe80::1"].map(at).to_vec();
        let network = Network { node: String::new(), gateway: true, addresses: open, invite_required: false };
        let hosts: Vec<_> = host_of("http://127.0.0.1:8080").into_iter().collect();
        let dialled = |loopback| -> Vec<String> {
            addresses(&network, &hosts, loopback).iter().map(ToString::to_string).collect()
        };
        assert_eq!(dialled(Loopback::LeftOut), [at("ip4/10.0.0.1")]);
        assert_eq!(dialled(Loopback::Too), ["ip4/127.0.0.1", "ip4/10.0.0.1", "ip6/::1"].map(at));
        let here = Network { addresses: vec![at("ip4/127.0.0.1")], ..network };
        assert_eq!(addresses(&here, &hosts, Loopback::LeftOut).len(), 1, "it has no other");
    }
}
