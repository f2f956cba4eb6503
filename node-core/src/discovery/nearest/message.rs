//! Messages between nodes of the tree about free slots.

use super::state::State;
use crate::address::{Address, Contact, Ip};
use crate::finding::Needs;
use crate::ids::NodeId;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// To the parent, and among the root group: how it stands with the sender's branch.
    Status(Status),
    /// To the children: declared slots of the branches above, the sender's first.
    Above(Above),
    /// Find places for tasks.
    Ask(Ask),
    /// To who asked: what became of it.
    Answer(Answer),
    /// A leaf to its parent: what it was given, it cannot take.
    Refuse(Refuse),
    /// To the origin: it was told of this place too early.
    Gone(Gone),
    /// To the origin: places, too many to be handed on from node to node.
    Places(Places),
    /// To the origin: one place (the paper's way).
    Taken(Taken),
    /// To a taker: the origin knows, and uses the place or does not.
    Ack(Ack),
    /// To the origin: for so many there are no places now (the paper's way).
    NotFound(NotFound),
    /// To a peer that says that it has slots free: keep up to so many for the sender. It answers
    /// with credit, or not at all.
    Reserve(u32),
    /// To a taker: the origin does not use so many of the slots that are kept for it.
    Release(u32),
}

impl Message {
    /// Whether it is sent regardless of what is asked for and of what changes.
    pub fn is_upkeep(&self) -> bool {
        match self {
            Message::Status(status) => status.refresh,
            Message::Above(_) => true,
            _ => false,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    pub state: State,
    /// Tasks received from the addressee, by the addressee's count.
    pub got: u32,
    /// Nothing changed; it is told again against what may have been lost.
    pub refresh: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Above {
    /// The parent's branch, the grandparent's, …, and the whole network last.
    pub slots: Vec<u32>,
    /// The child shall tell its state.
    pub tell: bool,
}

/// Longest list of branches above: a tree of this many levels does not exist.
pub(super) const LEVELS_MAX: usize = 32;

/// Where a request goes, seen from the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "u8", try_from = "u8")]
pub enum Toward {
    Up,
    Across,
    Down,
    /// Down to a leaf, which says nothing unless it refuses.
    Take,
}

impl From<Toward> for u8 {
    fn from(toward: Toward) -> u8 {
        match toward {
            Toward::Up => 0,
            Toward::Across => 1,
            Toward::Down => 2,
            Toward::Take => 3,
        }
    }
}

impl TryFrom<u8> for Toward {
    type Error = &'static str;
    fn try_from(byte: u8) -> Result<Toward, Self::Error> {
        match byte {
            0 => Ok(Toward::Up),
            1 => Ok(Toward::Across),
            2 => Ok(Toward::Down),
            3 => Ok(Toward::Take),
            _ => Err("a direction that there is not"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// The origin's name for the whole request; only who saw the request knows it.
    pub id: u64,
    /// The sender's name for this part of it.
    pub part: u32,
    /// Node that wants the tasks done.
    pub origin: Contact,
    /// How many they are, all in all.
    pub asked: u32,
    /// How many of them this part has.
    pub tasks: u32,
    /// Tasks that the sender has given to the addressee, this part included.
    pub given: u32,
    /// None: any node will do.
    pub needs: Option<Needs>,
    /// From the origin to the addressee.
    pub hops: u8,
    pub toward: Toward,
    /// To a leaf: after so many eighths of a second it counts as free again, and only has to say
    /// if it is not. 0: it says when it is.
    pub back: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    pub part: u32,
    /// Tasks with a place; those that went to the origin directly are among them.
    pub placed: u32,
    pub missing: u32,
    /// The most hops that this part of the request has gone, there and back.
    pub hops: u8,
    pub places: Packed,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refuse {
    pub slots: u32,
    /// It has free slots, but not of the kind that was asked for.
    pub for_needs: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gone {
    pub id: u64,
    pub node: NodeId,
    pub slots: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Places {
    pub id: u64,
    /// The sender's name for this list, so that a repetition is known as one.
    pub number: u32,
    pub places: Packed,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    pub id: u64,
    /// The taker's name for it, so that a repetition is known as one.
    pub number: u32,
    pub taker: Contact,
    pub slots: u32,
    pub hops: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ack {
    pub number: u32,
    /// False: the place is not needed.
    pub keep: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotFound {
    pub id: u64,
    /// The sender's number for this message: a repetition counts once.
    pub number: u32,
    pub tasks: u32,
}

/// Places one behind the other, 39 bytes each for the most part; lists grow by appending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packed(pub Vec<u8>);

/// Whether the address is IPv6; whether the node is reached through another, whose id follows.
const V6: u8 = 0x80;
const GUEST: u8 = 0x40;
/// Slots above this follow in four bytes.
const SLOTS: u8 = 0x3f;

const V4_IN_V6: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

impl Packed {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds slots of a node that can be dialled, or of a guest.
    pub fn push(&mut self, node: &Address, slots: u32) {
        let Some(contact) = node.first_hop() else { return };
        let v4 = contact.ip.0.starts_with(&V4_IN_V6);
        let small = u8::try_from(slots).ok().filter(|n| *n < SLOTS);
        let guest = node.id != contact.id;
        self.0.push(small.unwrap_or(SLOTS) | if v4 { 0 } else { V6 } | if guest { GUEST } else { 0 });
        if small.is_none() {
            self.0.extend_from_slice(&slots.to_be_bytes());
        }
        self.0.extend_from_slice(if v4 { &contact.ip.0[12..] } else { &contact.ip.0 });
        self.0.extend_from_slice(&contact.port.to_be_bytes());
        self.0.extend_from_slice(&contact.id.0);
        if guest {
            self.0.extend_from_slice(&node.id.0);
        }
    }

    pub fn append(&mut self, other: &mut Packed) {
        self.0.append(&mut other.0);
    }

    /// The places, or None if these are not the bytes of such a list.
    pub fn unpack(&self) -> Option<Vec<(Address, u32)>> {
        let mut rest = self.0.as_slice();
        let mut places = Vec::new();
        while let Some((head, tail)) = rest.split_first() {
            rest = tail;
            let slots = match head & SLOTS {
                SLOTS => u32::from_be_bytes(take(&mut rest)?),
                small => u32::from(small),
            };
            let ip = if head & V6 == 0 {
                let v4: [u8; 4] = take(&mut rest)?;
                std::array::from_fn(|i| if i < 12 { V4_IN_V6[i] } else { v4[i - 12] })
            } else {
                take(&mut rest)?
            };
            let port = u16::from_be_bytes(take(&mut rest)?);
            let contact = Contact { ip: Ip(ip), port, id: NodeId(take(&mut rest)?) };
            let node = match head & GUEST {
                0 => contact.into(),
                _ => Address::guest(NodeId(take(&mut rest)?), contact),
            };
            if slots == 0 {
                return None;
            }
            places.push((node, slots));
        }
        Some(places)
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*taken)
}

impl Serialize for Packed {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Packed {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        // `bytes` reads MessagePack's `bin`, as written above.
        Ok(Packed(bytes::Bytes::deserialize(d)?.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::IpAddr;

    fn contact(ip: &str, id: u8) -> Contact {
        Contact { ip: Ip::from(ip.parse::<IpAddr>().unwrap()), port: 4001, id: NodeId([id; 32]) }
    }

    #[test]
    fn places_travel_in_39_bytes_and_come_out_as_they_went_in() {
        let (a, b) = (contact("192.0.2.1", 1), contact("2001:db8::1", 2));
        let mut packed = Packed::default();
        packed.push(&a.into(), 1);
        assert_eq!(packed.0.len(), 39);
        packed.push(&b.into(), u32::MAX);
        let guest = Address::guest(NodeId([9; 32]), a);
        packed.push(&guest, 63);
        let bytes = rmp_serde::to_vec(&packed).unwrap();
        let back: Packed = sandbox::unpack::from_slice(&bytes).unwrap();
        assert_eq!(back.unpack().unwrap(), [(a.into(), 1), (b.into(), u32::MAX), (guest, 63)]);
    }

    #[test]
    fn bytes_that_are_no_list_are_refused() {
        let mut packed = Packed::default();
        packed.push(&contact("192.0.2.1", 1).into(), 1);
        for len in 1..packed.0.len() {
            assert_eq!(Packed(packed.0[..len].to_vec()).unpack(), None, "cut at {len}");
        }
        packed.0[0] = 0;
        assert_eq!(packed.unpack(), None, "a place for nothing");
    }

    #[test]
    fn a_request_is_short() {
        let ask = Ask {
            id: u64::MAX,
            part: 7 << 8,
            origin: contact("192.0.2.1", 1),
            asked: 10_000,
            tasks: 200,
            given: 100_000,
            needs: None,
            hops: 3,
            toward: Toward::Down,
            back: 0,
        };
        let bytes = rmp_serde::to_vec(&Message::Ask(ask.clone())).unwrap();
        assert!(bytes.len() <= 90, "{}", bytes.len());
        assert_eq!(sandbox::unpack::from_slice::<Message>(&bytes).unwrap(), Message::Ask(ask));
    }
}
