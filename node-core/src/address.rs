//! Where a node is: in the order of addresses, and for whoever wants to dial it.

use crate::ids::NodeId;
use core::net::{IpAddr, Ipv6Addr};
use serde::de::{self, Visitor};
use std::cmp::Ordering;
use std::fmt;

/// An IP address, IPv4 in its IPv6 form (`::ffff:a.b.c.d`), so that both have one order.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ip(pub [u8; 16]);

impl Ord for Ip {
    #[inline]
    fn cmp(&self, other: &Ip) -> Ordering {
        u128::from_be_bytes(self.0).cmp(&u128::from_be_bytes(other.0))
    }
}

impl PartialOrd for Ip {
    #[inline]
    fn partial_cmp(&self, other: &Ip) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl From<IpAddr> for Ip {
    fn from(ip: IpAddr) -> Ip {
        Ip(match ip {
            IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
            IpAddr::V6(ip) => ip.octets(),
        })
    }
}

impl From<Ip> for IpAddr {
    fn from(ip: Ip) -> IpAddr {
        Ipv6Addr::from(ip.0).to_canonical()
    }
}

impl Ip {
    /// Whether only the machine itself reaches it.
    pub fn is_loopback(self) -> bool {
        IpAddr::from(self).is_loopback()
    }
}

/// From how far away an address can be dialled; the wider scope is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Loopback: from the machine itself.
    Machine,
    /// Private, link-local and shared addresses: from the network that the machine is in.
    Site,
    World,
}

impl Ip {
    pub fn scope(self) -> Scope {
        match IpAddr::from(self) {
            ip if ip.is_loopback() => Scope::Machine,
            // RFC 6598: the carriers' side of their NATs, 100.64.0.0/10.
            IpAddr::V4(ip) if ip.octets()[0] == 100 && ip.octets()[1] & 0xc0 == 0x40 => Scope::Site,
            IpAddr::V4(ip) if ip.is_private() || ip.is_link_local() => Scope::Site,
            IpAddr::V6(ip) if ip.is_unique_local() || ip.is_unicast_link_local() => Scope::Site,
            // RFC 6052 and 3056: an address of IPv4 within one of IPv6, which translators and tunnels dial.
            IpAddr::V6(ip) => match ip.segments() {
                [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
                    let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
                    Ip::from(IpAddr::from([a, b, c, d])).scope()
                }
                _ => Scope::World,
            },
            _ => Scope::World,
        }
    }

    /// Whether one machine may be there: not at no address, nor at a group's or everybody's. To dial "no
    /// address" is to dial oneself.
    pub fn is_of_a_machine(self) -> bool {
        match IpAddr::from(self) {
            IpAddr::V4(ip) => ip.octets()[0] != 0 && !ip.is_multicast() && !ip.is_broadcast(),
            IpAddr::V6(ip) => !ip.is_unspecified() && !ip.is_multicast(),
        }
    }

    /// The network of one customer of a provider: of IPv6, the first 64 bits.
    pub fn network(self) -> Ip {
        match IpAddr::from(self) {
            IpAddr::V4(_) => self,
            IpAddr::V6(_) => Ip(std::array::from_fn(|at| if at < 8 { self.0[at] } else { 0 })),
        }
    }

    pub fn is_v6(self) -> bool {
        IpAddr::from(self).is_ipv6()
    }
}

impl fmt::Debug for Ip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", IpAddr::from(*self))
    }
}

/// A node's place in the order of addresses (paper `tree`, section 5); ties go by id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub ip: Ip,
    pub id: NodeId,
}

impl Key {
    /// Before every key.
    pub const FIRST: Key = Key { ip: Ip([0; 16]), id: NodeId([0; 32]) };
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}/{}", self.ip, self.id.short())
    }
}

/// A node's id, IP address and port: enough to dial it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Contact {
    pub ip: Ip,
    pub id: NodeId,
    pub port: u16,
}

impl Contact {
    pub fn key(&self) -> Key {
        Key { ip: self.ip, id: self.id }
    }
}

/// Whether others can dial a node, as far as that node knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Dialable {
    /// The node listens, and no peer has dialled it back yet.
    #[default]
    Unknown,
    /// The node is a guest.
    No,
    /// A peer has dialled it back there.
    At(Contact),
}

impl Dialable {
    pub fn contact(self) -> Option<Contact> {
        match self {
            Dialable::At(contact) => Some(contact),
            Dialable::Unknown | Dialable::No => None,
        }
    }
}

impl fmt::Debug for Contact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{:?}:{}", self.id.short(), self.ip, self.port)
    }
}

/// On the wire: plain bytes of a fixed length, MessagePack `bin`.
macro_rules! as_bytes {
    ($name:ident, $len:expr, $to:expr, $from:expr) => {
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                let to: fn(&$name) -> [u8; $len] = $to;
                s.serialize_bytes(&to(self))
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                let from: fn([u8; $len]) -> $name = $from;
                d.deserialize_bytes($crate::address::Fixed::<$len>).map(from)
            }
        }
    };
}
pub(super) use as_bytes;

as_bytes!(Ip, 16, |ip| ip.0, Ip);

// Address, id.
as_bytes!(Key, 48, |key| joined([&key.ip.0, &key.id.0, &[]]), |bytes| Key {
    ip: Ip(part(&bytes, 0)),
    id: NodeId(part(&bytes, 16))
});

// Address, id, port (big-endian).
as_bytes!(Contact, 50, |at| joined([&at.ip.0, &at.id.0, &at.port.to_be_bytes()]), |bytes| Contact {
    ip: Ip(part(&bytes, 0)),
    id: NodeId(part(&bytes, 16)),
    port: u16::from_be_bytes(part(&bytes, 48))
});

fn joined<const N: usize>(parts: [&[u8]; 3]) -> [u8; N] {
    let mut all = [0; N];
    let mut room = all.as_mut_slice();
    for part in parts {
        let Some((here, rest)) = room.split_at_mut_checked(part.len()) else { break };
        here.copy_from_slice(part);
        room = rest;
    }
    all
}

fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|bytes| bytes.first_chunk()).copied().unwrap_or([0; N])
}

pub(super) struct Fixed<const N: usize>;

impl<const N: usize> Visitor<'_> for Fixed<N> {
    type Value = [u8; N];
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{N} bytes")
    }
    fn visit_bytes<E: de::Error>(self, v: &[u8]) -> Result<[u8; N], E> {
        v.try_into().map_err(|_| E::invalid_length(v.len(), &self))
    }
}

#[cfg(test)]
mod tests {
    use crate::address::*;

    fn contact(ip: &str, id: u8) -> Contact {
        Contact { ip: Ip::from(ip.parse::<IpAddr>().unwrap()), port: 4001, id: NodeId([id; 32]) }
    }

    #[test]
    fn old_and_new_addresses_have_one_order_and_ties_go_by_id() {
        let order = [
            contact("9.255.255.255", 9),
            contact("10.0.0.0", 8),
            contact("10.0.0.0", 9),
            contact("2001:db8::1", 1),
        ];
        assert!(order.windows(2).all(|pair| pair[0].key() < pair[1].key()));
        assert!(Key::FIRST < order[0].key());
        assert_eq!(format!("{:?} {:?}", order[0].ip, order[3].ip), "9.255.255.255 2001:db8::1");
    }

    #[test]
    fn addresses_know_from_how_far_they_can_be_dialled() {
        let scope = |ip: &str| contact(ip, 0).ip.scope();
        for ip in ["127.0.0.1", "127.9.9.9", "::1"] {
            assert_eq!(scope(ip), Scope::Machine, "{ip}");
        }
        for ip in ["10.1.2.3", "172.31.0.1", "192.168.0.1", "169.254.1.1", "100.64.0.1", "fd00::1", "fe80::1"]
        {
            assert_eq!(scope(ip), Scope::Site, "{ip}");
        }
        for ip in ["9.9.9.9", "172.32.0.1", "100.128.0.1", "2001:db8::1"] {
            assert_eq!(scope(ip), Scope::World, "{ip}");
        }
        assert!(Scope::Machine < Scope::Site && Scope::Site < Scope::World);
    }

    #[test]
    fn contacts_travel_whole_and_nothing_of_another_length_does() {
        let here = contact("192.0.2.7", 3);
        let bytes = rmp_serde::to_vec(&here).unwrap();
        assert_eq!(bytes.len(), 2 + 50);
        assert_eq!(rmp_serde::from_slice::<Contact>(&bytes).unwrap(), here);
        assert_eq!(
            rmp_serde::from_slice::<Key>(&rmp_serde::to_vec(&here.key()).unwrap()).unwrap(),
            here.key()
        );
        assert!(rmp_serde::from_slice::<Key>(&bytes).is_err());
    }
}
