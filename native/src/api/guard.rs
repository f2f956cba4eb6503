//! Access checks of the API: the right host name, the right origin, the right token.
//!
//! A page anywhere on the web can make a visitor's browser send requests to 127.0.0.1. The
//! token keeps it from reading or starting jobs; the Host check keeps a DNS name that was
//! rebound to this address from counting as the same origin, on every method and path; the
//! Origin check keeps other sites' scripts and forms out even where no token is asked for.

use super::ApiState;
use super::doors::Visit;
use super::problem::Problem;
use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// The names under which this gateway answers.
#[derive(Clone, Debug)]
pub(crate) struct Hosts {
    bound: IpAddr,
    /// As given by the operator: with a port, that port only.
    public: Vec<(String, Option<u16>)>,
}

impl Default for Hosts {
    /// Names of loopback alone.
    fn default() -> Self {
        Hosts { bound: IpAddr::V6(Ipv6Addr::LOCALHOST), public: Vec::new() }
    }
}

/// The one that asks to connect by WebSocket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// A page of this gateway, or a program that is no page.
    Own,
    /// A page of this host, which is none of this gateway's names.
    PageOf(String),
}

impl Hosts {
    pub(crate) fn new(bound: SocketAddr, public: &[String]) -> Result<Self, String> {
        let public = public.iter().map(|text| public_host(text)).collect::<Result<_, _>>()?;
        Ok(Hosts { bound: bound.ip(), public })
    }

    /// Whether an upgrade to WebSocket, with these headers, comes from a page of this gateway or from no page.
    ///
    /// Ports do not count: a page and the WebSocket have two. An address in place of a name is always fit as
    /// host, since it cannot be rebound.
    ///
    /// # Errors
    /// A sentence for the client, if the host is not this gateway's or the origin no origin of the web.
    pub(crate) fn check_upgrade(&self, host: &str, origin: Option<&str>) -> Result<Caller, String> {
        let is_public = |host: &Host| self.public.iter().any(|(name, _)| *name == host.name);
        let parsed =
            Host::parse(host).ok_or_else(|| format!("the Host header {host:?} is not a host name"))?;
        if !is_public(&parsed) && parsed.name != "localhost" && parsed.ip().is_none() {
            return Err(self.foreign_host(host, &parsed));
        }
        let Some(origin) = origin else { return Ok(Caller::Own) };
        let Some((page, _)) = parse_origin(origin) else {
            return Err(format!("a page of {origin:?} may not connect to this node; only its own pages may"));
        };
        let same = page.name == parsed.name || page.ip().is_some_and(|ip| Some(ip) == parsed.ip());
        let own = same || page.is_loopback() && parsed.is_loopback() || is_public(&page);
        Ok(if own { Caller::Own } else { Caller::PageOf(page.name) })
    }

    fn foreign_host(&self, text: &str, host: &Host) -> String {
        format!(
            "this node does not answer to the host name {text:?}; a gateway that should is started with --public-host {}, and a worker is asked at 127.0.0.1",
            host.name
        )
    }

    fn is_public(&self, host: &Host) -> bool {
        self.public.iter().any(|(name, port)| *name == host.name && (port.is_none() || *port == host.port))
    }

    /// Whether a request for `host` may be meant for this gateway. Any port will do: a
    /// forwarded port changes it, and rebinding cannot.
    fn answers_to(&self, host: &Host) -> bool {
        if self.is_public(host) || host.name == "localhost" {
            return true;
        }
        // An address in place of a name cannot be rebound: it is where the browser really went.
        match host.ip() {
            Some(ip) => ip.is_loopback() || ip == self.bound || self.bound.is_unspecified(),
            None => false,
        }
    }
}

/// Understands what an operator gives as `--public-host`: a name, with or without a port.
pub(crate) fn public_host(text: &str) -> Result<(String, Option<u16>), String> {
    match Host::parse(text) {
        Some(host) => Ok((host.name, host.port)),
        None => Err(format!(
            "{text:?} is not a host name; give it as people type it, as in compute.example.org or compute.example.org:8443"
        )),
    }
}

/// A host as headers name it, in lower case.
#[derive(Debug, PartialEq, Eq)]
struct Host {
    name: String,
    port: Option<u16>,
}

impl Host {
    fn parse(text: &str) -> Option<Host> {
        let authority: Authority = text.parse().ok()?;
        let name = authority.host();
        // Neither `user@host` nor `host:` nor `host:99999` is what a browser sends.
        let port = match authority.as_str().strip_prefix(name)? {
            "" => None,
            port => Some(port.strip_prefix(':')?.parse().ok()?),
        };
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        (!name.is_empty()).then_some(Host { name, port })
    }

    fn is_loopback(&self) -> bool {
        self.name == "localhost" || self.ip().is_some_and(|ip| ip.is_loopback())
    }

    fn ip(&self) -> Option<IpAddr> {
        match self.name.strip_prefix('[').and_then(|n| n.strip_suffix(']')) {
            Some(v6) => v6.parse::<Ipv6Addr>().ok().map(|ip| ip.to_canonical()),
            None => self.name.parse().ok(),
        }
    }
}

/// Host and Origin, before anything else is looked at.
pub(super) async fn check_host(State(state): State<ApiState>, request: Request, next: Next) -> Response {
    match host_fault(&state.hosts, &request) {
        None => next.run(request).await,
        Some(problem) => problem.into_response(),
    }
}

fn host_fault(hosts: &Hosts, request: &Request) -> Option<Problem> {
    let headers = request.headers();
    let host = match single(headers, header::HOST) {
        Ok(Some(text)) => text,
        Ok(None) => return Some(Problem::bad_request("the request has no Host header")),
        Err(problem) => return Some(problem),
    };
    // In `GET http://name/path` the name stands in the request line and overrules the header.
    let named = request.uri().authority().map_or(host, |authority| authority.as_str());
    for text in [host, named] {
        match Host::parse(text) {
            None => {
                return Some(Problem::bad_request(format!("the Host header {text:?} is not a host name")));
            }
            Some(host) if !hosts.answers_to(&host) => {
                return Some(Problem::new(StatusCode::FORBIDDEN, hosts.foreign_host(text, &host)));
            }
            Some(_) => {}
        }
    }
    match single(headers, header::ORIGIN) {
        Ok(None) => None,
        Ok(Some(origin)) if is_own_origin(hosts, origin, named) => None,
        Ok(Some(origin)) => Some(Problem::new(
            StatusCode::FORBIDDEN,
            format!("a page of {origin:?} may not use this gateway; only its own pages may"),
        )),
        Err(problem) => Some(problem),
    }
}

fn single(headers: &HeaderMap, name: HeaderName) -> Result<Option<&str>, Problem> {
    let mut values = headers.get_all(&name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Problem::bad_request(format!("the request has more than one {name} header")));
    }
    let text = value.to_str().map_err(|_| Problem::bad_request(format!("the {name} header is not text")))?;
    Ok(Some(text))
}

/// The origin is the host that was asked, or, behind a proxy that renames it, a public one.
fn is_own_origin(hosts: &Hosts, origin: &str, host: &str) -> bool {
    let (Some((origin, default_port)), Some(host)) = (parse_origin(origin), Host::parse(host)) else {
        return false;
    };
    let port = |host: &Host| host.port.unwrap_or(default_port);
    (origin.name == host.name && port(&origin) == port(&host)) || hosts.is_public(&origin)
}

/// The host of an origin, and the port that counts when it names none. `None` for what is no website: `null`,
/// an extension, a file.
fn parse_origin(origin: &str) -> Option<(Host, u16)> {
    let (authority, default_port) = match origin.split_once("://")? {
        ("http", authority) => (authority, 80),
        ("https", authority) => (authority, 443),
        _ => return None,
    };
    Some((Host::parse(authority)?, default_port))
}

/// Asks for the bearer token.
pub(super) async fn check_token(State(state): State<ApiState>, request: Request, next: Next) -> Response {
    let given = match single(request.headers(), header::AUTHORIZATION) {
        Ok(None) => None,
        Ok(Some(value)) => match bearer(value.as_bytes()) {
            Some(token) => Some(token),
            None => return refuse("the Authorization header has to read: Bearer, a space, the token"),
        },
        Err(problem) => return problem.into_response(),
    };
    match given {
        None => refuse(
            "this needs the gateway's token in the header `Authorization: Bearer …`; \
             it lies in the file `token` of its data folder, and `manyhands token` shows it",
        ),
        Some(token) if state.token.accepts(token) => {
            // A test asks without a connection.
            if let Some(visit) = request.extensions().get::<Arc<Visit>>() {
                state.doors.trust(visit);
            }
            next.run(request).await
        }
        Some(_) => refuse(
            "the token is not this gateway's; the right one lies in the file `token` of its data folder, \
             and `manyhands token` shows it",
        ),
    }
}

fn refuse(detail: &'static str) -> Response {
    Problem::new(StatusCode::UNAUTHORIZED, detail).into_response()
}

fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked("bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii()).filter(|token| !token.is_empty())
}

/// Rights of pages: their own scripts, wasm, connections to nodes; never inside a frame.
const PAGE_POLICY: &str = "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; \
     connect-src 'self' ws: wss:; img-src 'self' data:; object-src 'none'; base-uri 'none'; \
     form-action 'self'; frame-ancestors 'none'";

/// Headers that every answer carries, unless its handler set them otherwise.
pub(super) async fn secure(request: Request, next: Next) -> Response {
    let is_api = request.uri().path().starts_with("/api/");
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, PAGE_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    if is_api {
        headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    }
    response
}

#[cfg(test)]
#[path = "guard_tests.rs"]
mod tests;
