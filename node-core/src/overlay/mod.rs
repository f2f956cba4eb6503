//! Who knows whom.

pub mod contact;
pub mod neighbours;
#[cfg(feature = "roles")]
pub mod ring;
#[cfg(feature = "roles")]
pub mod tree;
