//! Which connections count as coming from one place.

use std::net::{IpAddr, Ipv6Addr};

/// The addresses of one subscriber or one machine: an IPv4 address, or a /64 of IPv6 addresses.
///
/// Our choice of 64: the smallest network that providers assign, and each machine in it picks its
/// addresses freely.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AddressBlock(IpAddr);

impl AddressBlock {
    /// IPv4 addresses that are written as IPv6 (`::ffff:192.0.2.1`) count as IPv4.
    pub fn of(ip: IpAddr) -> AddressBlock {
        AddressBlock(match ip.to_canonical() {
            // Loopback has no network: the block of `::1` is `::1` alone.
            IpAddr::V6(ip) if !ip.is_loopback() => {
                Ipv6Addr::from_bits(ip.to_bits() & (u128::MAX << 64)).into()
            }
            ip => ip,
        })
    }
}

impl std::fmt::Display for AddressBlock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            IpAddr::V6(ip) if !ip.is_loopback() => write!(f, "{ip}/64"),
            ip => ip.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(text: &str) -> AddressBlock {
        AddressBlock::of(text.parse().unwrap())
    }

    #[test]
    fn ipv4_counts_by_address_and_ipv6_by_network() {
        assert_ne!(block("192.0.2.1"), block("192.0.2.2"));
        assert_eq!(block("192.0.2.1"), block("::ffff:192.0.2.1"));
        assert_eq!(block("2001:db8:0:1::1"), block("2001:db8:0:1:ffff::2"));
        assert_ne!(block("2001:db8:0:1::1"), block("2001:db8:0:2::1"));
        assert_ne!(block("::1"), block("::2"));
        assert_eq!(block("2001:db8:0:1::1").to_string(), "2001:db8:0:1::/64");
        assert_eq!(block("::1").to_string(), "::1");
    }
}
