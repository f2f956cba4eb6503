//! Who knows whom.

pub mod contact;
pub mod neighbours;
pub mod ring;
#[cfg(feature = "roles")]
pub mod tree;
