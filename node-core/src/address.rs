//! Where a node is: in the order of IP addresses, for whoever wants to dial it ([`Contact`]), and for whoever
//! wants to reach it in whatever way ([`Address`]).

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

/// A node's id, IP address and port: enough to dial it. The members of the tree and of the rings are known by it,
/// since only nodes that can be dialled are members.
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

/// A node and the ways to reach it, the best first: dial it, or ask its relay, which forwards messages to its
/// guests. A node without a way is reached by whoever is connected to it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    pub id: NodeId,
    /// Where it can be dialled.
    dial: Option<(Ip, u16)>,
    /// The node whose guest it is.
    relay: Option<Contact>,
    /// It opens data channels with who asks for one by way of that relay.
    channels: bool,
}

impl Address {
    /// Address of a node that the addressee is connected to.
    pub fn here(id: NodeId) -> Address {
        Address { id, dial: None, relay: None, channels: false }
    }

    /// Address of a node that can be dialled at `contact`, if that is known.
    pub fn of(id: NodeId, contact: Option<Contact>) -> Address {
        contact.filter(|contact| contact.id == id).map_or(Address::here(id), Address::from)
    }

    /// Address of a guest of `relay`.
    pub fn guest(id: NodeId, relay: Contact) -> Address {
        Address { id, dial: None, relay: Some(relay), channels: false }
    }

    /// The address with word on whether its node opens data channels.
    pub fn with_channels(self, channels: bool) -> Address {
        Address { channels, ..self }
    }

    /// Whether it opens data channels with who asks for one by way of its relay.
    pub fn has_channels(&self) -> bool {
        self.channels && self.relay().is_some()
    }

    /// Where to dial it, if it can be dialled.
    pub fn contact(&self) -> Option<Contact> {
        self.dial.map(|(ip, port)| Contact { ip, id: self.id, port })
    }

    /// The node to ask if it cannot be dialled.
    pub fn relay(&self) -> Option<Contact> {
        self.relay.filter(|_| self.dial.is_none())
    }

    /// Where to dial first: the node itself, or its relay.
    pub fn first_hop(&self) -> Option<Contact> {
        self.contact().or(self.relay)
    }

    /// The address with its best way alone, in which others that know more ways are the same.
    pub fn best(&self) -> Address {
        Address { relay: self.relay(), channels: self.has_channels(), ..*self }
    }

    /// Whether `me` takes a message of this sender for the node's own. A guest's comes by way of its relay, or
    /// straight to it: else any connected node could say that it is the guest of another.
    pub fn is_of(&self, sender: Sender, me: NodeId) -> bool {
        let by = self.relay().map(|relay| relay.id).filter(|relay| *relay != me);
        self.id == sender.id && sender.by == by
    }
}

impl From<Contact> for Address {
    fn from(contact: Contact) -> Address {
        Address { id: contact.id, dial: Some((contact.ip, contact.port)), relay: None, channels: false }
    }
}

impl From<&Contact> for Address {
    fn from(contact: &Contact) -> Address {
        Address::from(*contact)
    }
}

impl From<&Address> for Address {
    fn from(address: &Address) -> Address {
        *address
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.contact(), self.relay) {
            (Some(contact), _) => write!(f, "{contact:?}"),
            (None, Some(relay)) => write!(f, "{} by {relay:?}", self.id.short()),
            (None, None) => write!(f, "{}", self.id.short()),
        }
    }
}

/// The node that said something, and the one by way of which it came. A node that forwards a message can say what
/// it likes: the receiver checks that it is the sender's relay ([`Address::is_of`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sender {
    pub id: NodeId,
    pub by: Option<NodeId>,
}

impl Sender {
    /// A node that is connected, and said it itself.
    pub fn direct(id: NodeId) -> Sender {
        Sender { id, by: None }
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
as_bytes!(Contact, 50, bytes_of, |bytes| contact(&bytes));

/// Ways on the wire, by number. A number that a node does not know is a way that it cannot go, and no error.
const DIAL: u8 = 1;
const RELAY: u8 = 2;
const CHANNELS: u8 = 3;

/// Longest address, bytes: room for ways that are to come. Our choice: an id, and four ways like ours.
const LONGEST: usize = 256;

/// On the wire: an id, then each way as number, length and content.
impl serde::Serialize for Address {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut bytes = Vec::with_capacity(32 + 2 + 50);
        bytes.extend_from_slice(&self.id.0);
        if let Some((ip, port)) = self.dial {
            bytes.extend_from_slice(&[DIAL, 18]);
            bytes.extend_from_slice(&joined::<18>([&ip.0, &port.to_be_bytes(), &[]]));
        }
        if let Some(relay) = self.relay {
            bytes.extend_from_slice(&[RELAY, 50]);
            bytes.extend_from_slice(&bytes_of(&relay));
        }
        if self.channels {
            bytes.extend_from_slice(&[CHANNELS, 0]);
        }
        s.serialize_bytes(&bytes)
    }
}

impl<'de> serde::Deserialize<'de> for Address {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        // Bytes, or as earlier versions wrote it.
        d.deserialize_any(Ways)
    }
}

struct Ways;

impl<'de> Visitor<'de> for Ways {
    type Value = Address;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an id, and the ways to reach that node, in at most {LONGEST} bytes")
    }
    fn visit_bytes<E: de::Error>(self, v: &[u8]) -> Result<Address, E> {
        let wrong = || E::invalid_length(v.len(), &self);
        let (id, mut rest) = v.split_first_chunk().filter(|_| v.len() <= LONGEST).ok_or_else(wrong)?;
        let mut address = Address::here(NodeId(*id));
        while let [number, length, more @ ..] = rest {
            let (way, after) = more.split_at_checked(usize::from(*length)).ok_or_else(wrong)?;
            match (*number, way.len()) {
                (DIAL, 18) => address.dial = Some((Ip(part(way, 0)), u16::from_be_bytes(part(way, 16)))),
                (RELAY, 50) => address.relay = Some(contact(way)),
                (CHANNELS, 0) => address.channels = true,
                (DIAL | RELAY | CHANNELS, _) => return Err(wrong()),
                _ => {}
            }
            rest = after;
        }
        match rest {
            [] => Ok(address),
            _ => Err(wrong()),
        }
    }
    /// A node and perhaps its contact: rows of units that the ring owns were written so until November 2026.
    fn visit_seq<A: de::SeqAccess<'de>>(self, mut parts: A) -> Result<Address, A::Error> {
        let id = parts.next_element()?.ok_or_else(|| de::Error::invalid_length(0, &self))?;
        let contact = parts.next_element()?.ok_or_else(|| de::Error::invalid_length(1, &self))?;
        Ok(Address::of(id, contact))
    }
}

fn bytes_of(at: &Contact) -> [u8; 50] {
    joined([&at.ip.0, &at.id.0, &at.port.to_be_bytes()])
}

fn contact(bytes: &[u8]) -> Contact {
    Contact { ip: Ip(part(bytes, 0)), id: NodeId(part(bytes, 16)), port: u16::from_be_bytes(part(bytes, 48)) }
}

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
        assert_eq!(sandbox::unpack::from_slice::<Contact>(&bytes).unwrap(), here);
        assert_eq!(
            sandbox::unpack::from_slice::<Key>(&rmp_serde::to_vec(&here.key()).unwrap()).unwrap(),
            here.key()
        );
        assert!(sandbox::unpack::from_slice::<Key>(&bytes).is_err());
    }

    #[test]
    fn addresses_travel_whole_and_ways_that_are_not_known_yet_are_passed_over() {
        let (relay, id) = (contact("192.0.2.7", 3), NodeId([9; 32]));
        let both = Address { relay: Some(relay), ..contact("192.0.2.8", 4).into() };
        for address in [Address::here(id), Address::guest(id, relay), relay.into(), both] {
            let bytes = rmp_serde::to_vec(&address).unwrap();
            assert_eq!(sandbox::unpack::from_slice::<Address>(&bytes).unwrap(), address);
        }
        let read = |parts: &[&[u8]]| {
            let bytes = serde_bytes(parts.concat());
            sandbox::unpack::from_slice::<Address>(&bytes).ok()
        };
        assert_eq!(read(&[&id.0, &[77, 3, 1, 2, 3]]), Some(Address::here(id)));
        let wrong: [&[u8]; 4] = [&[DIAL], &[DIAL, 18, 0], &[DIAL, 1, 0], &[RELAY, 0]];
        assert_eq!(wrong.map(|way| read(&[&id.0, way])), [None; 4]);
        assert_eq!((read(&[&id.0[1..]]), read(&[&id.0, &[7, 250], &[0; 250]])), (None, None));
    }

    #[test]
    fn addresses_that_earlier_versions_wrote_are_read() {
        let contact = contact("192.0.2.7", 3);
        for earlier in [(contact.id, Some(contact)), (NodeId([9; 32]), None)] {
            let bytes = rmp_serde::to_vec(&earlier).unwrap();
            let read: Address = sandbox::unpack::from_slice(&bytes).unwrap();
            assert_eq!(read, Address::of(earlier.0, earlier.1));
            assert_eq!(read.contact(), earlier.1);
        }
        assert!(sandbox::unpack::from_slice::<Address>(&rmp_serde::to_vec(&[contact.id]).unwrap()).is_err());
    }

    /// MessagePack `bin 8`.
    fn serde_bytes(content: Vec<u8>) -> Vec<u8> {
        let length = u8::try_from(content.len()).unwrap_or(u8::MAX);
        [vec![0xc4, length], content].concat()
    }

    #[test]
    fn a_message_is_a_nodes_if_it_says_it_or_its_relay_does() {
        let (node, relay, other) = (NodeId([1; 32]), contact("192.0.2.7", 2), NodeId([3; 32]));
        let (said, by) = (Sender::direct(node), |by| Sender { id: node, by: Some(by) });
        let guest = Address::guest(node, relay);
        assert!(guest.is_of(by(relay.id), other) && guest.is_of(said, relay.id));
        assert!(!guest.is_of(said, other), "nobody else is connected to a guest");
        assert!(!guest.is_of(by(other), relay.id) && !guest.is_of(Sender::direct(other), relay.id));
        // A node that can be dialled needs nobody who speaks for it.
        let dialled = Address { relay: Some(relay), ..Contact { id: node, ..relay }.into() };
        assert!(dialled.is_of(said, other) && !dialled.is_of(by(relay.id), other));
        assert_eq!(dialled.best(), Contact { id: node, ..relay }.into());
    }
}
