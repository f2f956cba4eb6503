//! The tree of all dialable nodes, ordered by address (paper 000, section 5).

mod placement;

pub use placement::Placement;
