//! Points on the circle of 2^128, and the arcs between them.

use crate::address::Contact;
use crate::address::as_bytes;
use crate::ids::NodeId;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Which ring: a node may be in several, with several members in one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RingId(pub u8);

impl RingId {
    /// The ring of all dialable nodes. A member's point on it is [`Point::of_node`]; on every
    /// other ring the layer above says who may stand where.
    pub const NODES: RingId = RingId(0);
}

/// A point: of a member, or a key to be looked up.
///
/// 128 bits: two of 2^32 nodes meet with a chance of 2^-65, any 64-bit value fits as it is (paper
/// `market` looks up capacities as points), and it is what a processor's arithmetic takes. Paper
/// `chord` has 160, the length of its hash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Point(pub u128);

as_bytes!(Point, 16, |point| point.0.to_be_bytes(), |bytes| Point(u128::from_be_bytes(bytes)));

impl Point {
    /// Where a node stands on [`RingId::NODES`]. Whoever wants a certain place has to find a key
    /// for it: 2^n keys for an arc of one in 2^n. Paper `market` hashes the address, which a node behind
    /// a large network chooses for nothing.
    pub fn of_node(id: NodeId) -> Point {
        Point::first_half(blake3::derive_key("manyhands 2026-11 node on the ring", &id.0))
    }

    /// Where something is looked for by its name.
    pub fn of_name(name: &[u8]) -> Point {
        Point::first_half(blake3::derive_key("manyhands 2026-11 name on the ring", name))
    }

    fn first_half(hash: [u8; 32]) -> Point {
        Point(hash.first_chunk().map_or(0, |half| u128::from_be_bytes(*half)))
    }

    /// How far it is from here to there, clockwise.
    pub fn to(self, there: Point) -> u128 {
        there.0.wrapping_sub(self.0)
    }

    /// The point 2^bit further on.
    pub fn jump(self, bit: u8) -> Point {
        Point(self.0.wrapping_add(1u128.checked_shl(bit.into()).unwrap_or(0)))
    }

    /// Whether it is met on the way from `a` to `b`, neither of them included. From a point to
    /// itself is once around.
    pub fn is_between(self, a: Point, b: Point) -> bool {
        let (here, there) = (a.to(self), a.to(b));
        here > 0 && (here < there || there == 0)
    }
}

impl fmt::Debug for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0 >> 96)
    }
}

/// An arc: the points behind `after` up to `upto`, that one included. All of the circle if both
/// are the same.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    pub after: Point,
    pub upto: Point,
}

impl Range {
    pub fn contains(self, key: Point) -> bool {
        key == self.upto || key.is_between(self.after, self.upto)
    }

    /// How many points less one, so that all of the circle fits.
    pub fn width(self) -> u128 {
        self.after.to(self.upto).wrapping_sub(1)
    }
}

impl fmt::Debug for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({:?}, {:?}]", self.after, self.upto)
    }
}

/// A member: its ring and its point there. A point has one member at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MemberId {
    pub ring: RingId,
    pub point: Point,
}

impl MemberId {
    /// A node's own on the ring of all nodes.
    pub fn of_node(id: NodeId) -> MemberId {
        MemberId { ring: RingId::NODES, point: Point::of_node(id) }
    }
}

/// A member as others know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Peer {
    pub point: Point,
    pub contact: Contact,
}

/// The owner of a key, and the arc that it owns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Located {
    pub owner: Peer,
    /// The owner's arc reaches from behind this point to the owner's own.
    pub after: Point,
    /// The owner's successors, who keep its replicas; at most r.
    pub replicas: Vec<Peer>,
    /// Messages that were sent toward the owner, in vain or not, the one to the owner included;
    /// its answer is none. 0 if the asker itself owns the key.
    pub hops: u8,
}

impl Located {
    pub fn range(&self) -> Range {
        Range { after: self.after, upto: self.owner.point }
    }

    /// Whether the way from the key to its owner leads over the top of the circle, so that no
    /// member has a point of the key or above (paper `market`, IV-A: the search for a higher capacity
    /// must not begin again at the lowest).
    pub fn wraps(&self, key: Point) -> bool {
        self.owner.point < key
    }
}

/// Where a node is on the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub contact: Contact,
    pub range: Range,
}

#[cfg(test)]
mod tests {
    use crate::circle::*;

    #[test]
    fn arcs_go_clockwise_over_the_top() {
        let at = |n: i128| Point(n as u128);
        assert!(at(1).is_between(at(-3), at(5)));
        assert!(!at(-3).is_between(at(-3), at(5)) && !at(5).is_between(at(-3), at(5)));
        assert!(!at(7).is_between(at(-3), at(5)));
        assert!(at(7).is_between(at(5), at(5)), "once around");
        let range = Range { after: at(-3), upto: at(5) };
        assert!(
            range.contains(at(5))
                && range.contains(at(0))
                && !range.contains(at(-3))
                && !range.contains(at(6))
        );
        let all = Range { after: at(4), upto: at(4) };
        assert!(all.contains(at(4)) && all.contains(at(5)) && all.width() == u128::MAX);
        assert_eq!((at(-1).jump(0), at(0).jump(127)), (at(0), Point(1 << 127)));
    }

    #[test]
    fn points_of_nodes_and_of_names_differ() {
        let id = NodeId([7; 32]);
        assert_eq!(Point::of_node(id), Point::of_node(id));
        assert_ne!(Point::of_node(id), Point::of_name(&id.0));
    }

    #[test]
    fn a_point_travels_as_16_bytes() {
        let bytes = rmp_serde::to_vec(&Point(5)).unwrap();
        assert_eq!(bytes.len(), 2 + 16);
        assert_eq!(sandbox::unpack::from_slice::<Point>(&bytes).unwrap(), Point(5));
    }
}
