//! Who knows whom. So far: who is connected.

pub mod neighbours;
