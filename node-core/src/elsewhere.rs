//! Other gateways: what a gateway that is full names to a node that it cannot take.

use crate::address::Contact;
use core::net::IpAddr;
use serde::{Deserialize, Serialize};

/// Gateways named at a time. Our choice: one of them has room, and the message stays below 1.5 KB.
pub const NAMED_MAX: usize = 4;

/// Longest name of a host, bytes (RFC 1035, section 2.3.4).
const HOST_MAX: usize = 253;

/// Where pages connect to a gateway, by WebSocket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Web {
    pub port: u16,
    /// Name by which the gateway is reached from outside; `None`: by its address.
    pub host: Option<String>,
}

/// Another gateway of the swarm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Elsewhere {
    pub contact: Contact,
    /// `None`: it takes no pages.
    pub web: Option<Web>,
}

impl Web {
    /// Without a host that could mean something else in an address.
    pub fn checked(mut self) -> Web {
        self.host = self.host.filter(|host| is_host(host));
        self
    }
}

impl Elsewhere {
    /// Multiaddress at which a page dials the gateway, without its id.
    pub fn for_pages(&self) -> Option<String> {
        let web = self.web.as_ref()?;
        let host = match (web.host.as_ref().filter(|host| is_host(host)), IpAddr::from(self.contact.ip)) {
            (Some(host), _) => format!("/dns/{host}"),
            (None, IpAddr::V4(ip)) => format!("/ip4/{ip}"),
            (None, IpAddr::V6(ip)) => format!("/ip6/{ip}"),
        };
        Some(format!("{host}/tcp/{}/ws", web.port))
    }
}

fn is_host(host: &str) -> bool {
    let fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    !host.is_empty() && host.len() <= HOST_MAX && host.chars().all(fit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Ip;
    use crate::ids::NodeId;

    fn gateway(ip: &str, host: Option<&str>) -> Option<String> {
        let ip = Ip::from(ip.parse::<IpAddr>().unwrap());
        let contact = Contact { ip, id: NodeId([1; 32]), port: 4001 };
        Elsewhere { contact, web: Some(Web { port: 4002, host: host.map(String::from) }) }.for_pages()
    }

    #[test]
    fn a_page_dials_the_name_or_else_the_address() {
        assert_eq!(gateway("192.0.2.1", None).unwrap(), "/ip4/192.0.2.1/tcp/4002/ws");
        assert_eq!(gateway("2001:db8::1", None).unwrap(), "/ip6/2001:db8::1/tcp/4002/ws");
        assert_eq!(gateway("192.0.2.1", Some("a.example")).unwrap(), "/dns/a.example/tcp/4002/ws");
    }

    #[test]
    fn a_host_that_is_more_than_a_name_is_not_used() {
        for host in ["", "a/tcp/1", "a b", "a\n", &"x".repeat(254)] {
            assert_eq!(gateway("192.0.2.1", Some(host)).unwrap(), "/ip4/192.0.2.1/tcp/4002/ws", "{host:?}");
            assert_eq!(Web { port: 1, host: Some(host.into()) }.checked().host, None);
        }
    }
}
