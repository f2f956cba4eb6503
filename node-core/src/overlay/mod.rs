//! Protocols by which nodes know each other: introductions, dial-back, ring, tree.

#[cfg(feature = "roles")]
pub mod dialback;
pub mod elsewhere;
pub mod neighbours;
pub mod ring;
pub mod swarm;
#[cfg(feature = "roles")]
pub mod tree;
