//! Circuits: streams of bytes between two nodes by way of a third, for those that cannot connect otherwise.
//!
//! Two guests whose routers let nothing through, or a guest whose donor keeps its address to itself, are both
//! connected to some gateway. That one, the *circuit relay*, passes on what they write to each other. The ends put a
//! whole connection on the stream, handshake included, so the relay reads and forges nothing; it can delay and drop,
//! as a wire can. (The idea is that of libp2p's circuit relay v2, `docs/papers.md`.)
//!
//! | part | where |
//! |---|---|
//! | [`ends`] | at all nodes: asks relays for circuits, and gives their streams to the driver |
//! | [`relay`] | at nodes that others can dial: passes on, as much as its donor gives for it |
//!
//! Nobody may send more than its receiver has read and a window: a relay keeps nothing waiting for a slow reader,
//! and shares its rate by holding windows back.

pub mod ends;
mod message;
pub mod relay;
#[cfg(test)]
mod tests;

pub use message::{CircuitId, Message, PIECE, Piece, Refusal, ToEnd, ToRelay, WINDOW, cost};
