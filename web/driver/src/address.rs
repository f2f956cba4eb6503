//! Where the gateway that served a page can be reached, and when to try again.

use std::time::Duration;

/// Addresses tried. Our choice: a gateway lists a handful; a longer list is a mistake.
const MAX_CANDIDATES: usize = 16;

/// The WebSocket addresses among `addresses`, those first that most likely work from where
/// the page is: the page's own host certainly answers, whatever a gateway behind a container
/// or a forwarded port knows itself by.
///
/// A page loaded over https may use TLS alone, which gateways themselves do not speak: the proxy that served the
/// page stands before their WebSocket, too (`docs/deployment.md`).
///
/// # Errors
/// A sentence for the donor, if no address can work.
pub fn candidates(gateway: &str, addresses: &[String]) -> Result<Vec<String>, String> {
    let Url { secure, host, port } = Url::parse(gateway)?;
    let sockets: Vec<Socket> = addresses.iter().filter_map(|text| Socket::parse(text)).collect();
    if sockets.is_empty() {
        return Err(format!(
            "the gateway at {gateway} offers no WebSocket address, and a browser can use no other; \
             its operator has to let it listen on one"
        ));
    }
    let usable: Vec<&Socket> = sockets.iter().filter(|s| s.secure || !secure).collect();
    let proxy = secure.then(|| format!("{}/tcp/{port}/tls/ws{}", multiaddr(&host), sockets[0].peer()));
    let same = usable.iter().filter(|s| is_same_host(s.host, &host)).map(|s| s.text.to_owned());
    let moved = usable.iter().filter(|s| !is_same_host(s.host, &host)).map(|s| s.at(&host));
    let given = usable.iter().map(|s| s.text.to_owned());
    let mut all: Vec<String> = Vec::new();
    for candidate in proxy.into_iter().chain(same).chain(moved).chain(given) {
        if all.len() < MAX_CANDIDATES && !all.contains(&candidate) {
            all.push(candidate);
        }
    }
    Ok(all)
}

/// A multiaddr that leads to a WebSocket.
struct Socket<'a> {
    text: &'a str,
    host: &'a str,
    /// Everything behind the host.
    rest: &'a str,
    secure: bool,
}

impl<'a> Socket<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.strip_prefix('/')?.split('/');
        let (kind, host) = (parts.next()?, parts.next()?);
        if !matches!(kind, "ip4" | "ip6" | "dns" | "dns4" | "dns6") || host.is_empty() {
            return None;
        }
        let (tcp, port) = (parts.next()?, parts.next()?);
        if tcp != "tcp" || port.parse::<u16>().is_err() {
            return None;
        }
        let secure = match (parts.next()?, parts.next()) {
            ("ws", _) => false,
            ("wss", _) | ("tls", Some("ws")) => true,
            _ => return None,
        };
        let rest = &text[kind.len() + host.len() + 2..];
        Some(Socket { text, host, rest, secure })
    }

    fn at(&self, host: &str) -> String {
        multiaddr(host) + self.rest
    }

    /// The node behind it, as the end of a multiaddr; empty if it is not named.
    fn peer(&self) -> &str {
        self.rest.find("/p2p/").map_or("", |at| &self.rest[at..])
    }
}

fn multiaddr(host: &str) -> String {
    let kind = match host {
        h if h.parse::<std::net::Ipv4Addr>().is_ok() => "ip4",
        h if h.parse::<std::net::Ipv6Addr>().is_ok() => "ip6",
        _ => "dns",
    };
    format!("/{kind}/{host}")
}

/// Where a page is from.
struct Url {
    secure: bool,
    /// Without brackets.
    host: String,
    port: u16,
}

impl Url {
    fn parse(url: &str) -> Result<Url, String> {
        let bad =
            || format!("{url:?} is not the address of a gateway; expected something like http://host:8080");
        let (scheme, rest) = url.split_once("://").ok_or_else(bad)?;
        let (secure, usual) = match scheme {
            "http" => (false, 80),
            "https" => (true, 443),
            _ => return Err(bad()),
        };
        let authority = rest.split('/').next().unwrap_or(rest);
        let (host, port) = match authority.strip_prefix('[') {
            Some(v6) => v6.split_once(']').ok_or_else(bad)?,
            None => authority.split_at(authority.rfind(':').unwrap_or(authority.len())),
        };
        let port = match port.strip_prefix(':') {
            Some(port) => port.parse().map_err(|_| bad())?,
            None => usual,
        };
        if host.is_empty() { Err(bad()) } else { Ok(Url { secure, host: host.to_ascii_lowercase(), port }) }
    }
}

fn is_same_host(a: &str, b: &str) -> bool {
    let is_loopback = |h: &str| h == "localhost" || h == "::1" || h.starts_with("127.");
    a.eq_ignore_ascii_case(b) || is_loopback(a) && is_loopback(b)
}

/// How long to wait before the next attempt to connect.
#[derive(Default)]
pub struct Backoff {
    attempts: u32,
}

impl Backoff {
    /// Short enough that a connection that only hiccuped is back before its leases are lost.
    const FIRST: Duration = Duration::from_millis(250);
    /// Short enough that everybody is back within 10 s of a gateway's start, long enough that a thousand
    /// open pages do not hurt it then.
    const MOST: Duration = Duration::from_secs(8);

    /// Doubles from attempt to attempt, minus up to half by `random`, so that pages that lost
    /// the same gateway do not come back at once.
    pub fn next(&mut self, random: u32) -> Duration {
        let full = Self::FIRST.saturating_mul(1 << self.attempts.min(10)).min(Self::MOST);
        self.attempts = self.attempts.saturating_add(1);
        full.mul_f64(1.0 - f64::from(random) / f64::from(u32::MAX) / 2.0)
    }

    pub fn reset(&mut self) {
        self.attempts = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(addresses: &[&str]) -> Vec<String> {
        addresses.iter().map(|a| (*a).to_owned()).collect()
    }

    #[test]
    fn the_pages_own_host_comes_first() {
        let addresses = owned(&[
            "/ip4/10.0.0.7/tcp/4001/p2p/12D3",
            "/ip4/10.0.0.7/tcp/4002/ws/p2p/12D3",
            "/ip4/127.0.0.1/tcp/4002/ws/p2p/12D3",
        ]);
        let found = candidates("http://localhost:8080", &addresses).unwrap();
        assert_eq!(found[0], "/ip4/127.0.0.1/tcp/4002/ws/p2p/12D3");
        assert!(found.contains(&"/ip4/10.0.0.7/tcp/4002/ws/p2p/12D3".to_owned()));
        assert!(found.iter().all(|a| a.contains("/ws/")), "{found:?}");
    }

    #[test]
    fn a_gateway_that_does_not_know_its_name_is_reached_by_the_pages() {
        let addresses = owned(&["/ip4/172.17.0.2/tcp/4002/ws/p2p/12D3"]);
        let found = candidates("http://grid.example:8080/x", &addresses).unwrap();
        assert_eq!(found[0], "/dns/grid.example/tcp/4002/ws/p2p/12D3");
        let found = candidates("http://[fd00::1]:8080", &addresses).unwrap();
        assert_eq!(found[0], "/ip6/fd00::1/tcp/4002/ws/p2p/12D3");
    }

    #[test]
    fn a_page_over_https_uses_only_tls_and_first_the_proxy_that_served_it() {
        let addresses = owned(&["/ip4/1.2.3.4/tcp/1/ws/p2p/a", "/dns4/g.example/tcp/444/tls/ws/p2p/a"]);
        let found = candidates("https://g.example", &addresses).unwrap();
        assert_eq!(found, ["/dns/g.example/tcp/443/tls/ws/p2p/a", "/dns4/g.example/tcp/444/tls/ws/p2p/a"]);
        let found = candidates("https://g.example:8443/#x", &addresses[..1]).unwrap();
        assert_eq!(found, ["/dns/g.example/tcp/8443/tls/ws/p2p/a"]);
        let found = candidates("https://[fd00::1]:8443", &addresses[..1]).unwrap();
        assert_eq!(found, ["/ip6/fd00::1/tcp/8443/tls/ws/p2p/a"]);
        let found = candidates("https://g.example", &owned(&["/ip4/1.2.3.4/tcp/1/ws"])).unwrap();
        assert_eq!(found, ["/dns/g.example/tcp/443/tls/ws"]);
    }

    #[test]
    fn what_cannot_work_is_said() {
        let error = candidates("http://h:1", &owned(&["/ip4/1.2.3.4/tcp/1", "junk", "/ws"])).unwrap_err();
        assert!(error.contains("no WebSocket address"), "{error}");
        for url in ["ftp://h:1", "h:1", "http://", "http://:80", "http://h:", "https://h:99999"] {
            assert!(candidates(url, &[]).unwrap_err().contains("not the address of a gateway"), "{url}");
        }
    }

    #[test]
    fn waiting_doubles_up_to_a_bound_and_starts_over() {
        let mut backoff = Backoff::default();
        let waits: Vec<u64> = (0..9).map(|_| backoff.next(0).as_millis() as u64).collect();
        assert_eq!(waits, [250, 500, 1000, 2000, 4000, 8000, 8000, 8000, 8000]);
        backoff.reset();
        assert_eq!(backoff.next(u32::MAX).as_millis(), 125);
    }
}
