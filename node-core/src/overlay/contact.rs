//! Where a node is: in the order of addresses, and for whoever wants to dial it.

use crate::ids::NodeId;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// An IP address, IPv4 in its IPv6 form (`::ffff:a.b.c.d`), so that both have one order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ip(pub [u8; 16]);

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

impl fmt::Debug for Ip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", IpAddr::from(*self))
    }
}

/// A node's place in the order of addresses (paper 000, section 5); ties go by id.
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

/// Who, and where to dial.
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

impl fmt::Debug for Contact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{:?}:{}", self.id.short(), self.ip, self.port)
    }
}

/// Bytes of a contact on the wire: address, port (big-endian), id.
const CONTACT: usize = 16 + 2 + 32;
/// Bytes of a key: address, id.
const KEY: usize = 16 + 32;

impl Serialize for Contact {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut bytes = [0; CONTACT];
        bytes[..16].copy_from_slice(&self.ip.0);
        bytes[16..18].copy_from_slice(&self.port.to_be_bytes());
        bytes[18..].copy_from_slice(&self.id.0);
        s.serialize_bytes(&bytes)
    }
}

impl<'de> Deserialize<'de> for Contact {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let bytes = d.deserialize_bytes(Fixed::<CONTACT>)?;
        let (ip, rest) = split::<CONTACT>(&bytes);
        let id = std::array::from_fn(|i| rest[2 + i]);
        Ok(Contact { ip, port: u16::from_be_bytes([rest[0], rest[1]]), id: NodeId(id) })
    }
}

impl Serialize for Key {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut bytes = [0; KEY];
        bytes[..16].copy_from_slice(&self.ip.0);
        bytes[16..].copy_from_slice(&self.id.0);
        s.serialize_bytes(&bytes)
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let bytes = d.deserialize_bytes(Fixed::<KEY>)?;
        let (ip, rest) = split::<KEY>(&bytes);
        Ok(Key { ip, id: NodeId(std::array::from_fn(|i| rest[i])) })
    }
}

fn split<const N: usize>(bytes: &[u8; N]) -> (Ip, &[u8]) {
    let (ip, rest) = bytes.split_at(16);
    (Ip(std::array::from_fn(|i| ip[i])), rest)
}

struct Fixed<const N: usize>;

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
    use super::*;

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
    fn contacts_travel_whole_and_nothing_of_another_length_does() {
        let here = contact("192.0.2.7", 3);
        let bytes = rmp_serde::to_vec(&here).unwrap();
        assert_eq!(bytes.len(), 2 + CONTACT);
        assert_eq!(rmp_serde::from_slice::<Contact>(&bytes).unwrap(), here);
        assert_eq!(rmp_serde::from_slice::<Key>(&rmp_serde::to_vec(&here.key()).unwrap()).unwrap(), here.key());
        assert!(rmp_serde::from_slice::<Key>(&bytes).is_err());
    }
}
