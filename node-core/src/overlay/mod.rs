//! Who knows whom.

pub mod contact;
pub mod elsewhere;
pub mod neighbours;
pub mod ring;
pub mod swarm;
#[cfg(feature = "roles")]
pub mod tree;
