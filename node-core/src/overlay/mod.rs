//! Protocols by which nodes know each other: introductions, dial-back, ring, tree.

pub mod dialback;
pub mod elsewhere;
pub mod neighbours;
pub mod ring;
pub mod swarm;
pub mod tree;
