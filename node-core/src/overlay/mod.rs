//! Protocols by which nodes know and reach each other: introductions, dial-back, guests and their relays,
//! data channels, circuits, ring, tree.

pub mod can;
pub mod circuits;
pub mod dialback;
pub mod guests;
pub mod neighbours;
pub mod ring;
pub mod rn_tree;
pub mod signalling;
pub mod swarm;
pub mod tree;
