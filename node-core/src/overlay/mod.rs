//! Who knows whom.

pub mod contact;
pub mod neighbours;
pub mod tree;
