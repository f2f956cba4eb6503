//! Nodes that nobody can dial, and the gateways that speak for them.
//!
//! A page, or a server behind a router, has connections only to the nodes that it dialled. The gateway among
//! them is its *relay*: others reach the guest at the relay's address, and the relay forwards what they and the
//! guest say to each other. It reads nothing of that and decides nothing; whoever is reached so checks whom it
//! believes ([`crate::address::Address::is_of`]).
//!
//! | part | where |
//! |---|---|
//! | [`relay`] | at a gateway: who its guests are, to whom they may speak, and what they ask of it |
//! | [`guest`] | at all nodes: who this node's relay is, and what was forwarded to it |

pub mod guest;
mod message;
pub mod relay;

pub use message::{LONGEST, Message, OWNERS, ToGuest, ToRelay};
