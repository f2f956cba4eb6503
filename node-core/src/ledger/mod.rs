//! The ledger: who has how many credits, kept by the bank of a swarm.
//!
//! The *bank* is a gateway; all nodes of a swarm know its id and trust it to keep the books
//! ([`bank`], [`books`]). What moves credit is an [`Order`](crate::contract::Order), signed by whoever's money or sale it is
//! and numbered by it. Whoever gives orders does so through a [`client`], which repeats them until
//! they are answered: so each is carried out once, however often messages are lost or repeated.
//!
//! *Departure from paper `market`:* its bank credits "some minimum currency" to every node that enters,
//! which whoever enters often gathers. Here credit comes from an invite, or from verified work for
//! the swarm, which the commons pays for ([`COMMONS`]).

pub mod bank;
pub mod books;
pub mod client;
mod message;

pub use message::{Line, Message, Page, ToBank, ToClient, Why};

use crate::ids::NodeId;
use crate::keys::{Secret, Signed};
use bytes::Bytes;

/// Purpose of the signature on orders.
pub const PURPOSE: &str = "manyhands 2026 orders to a bank";

/// Orders in one message. Our choice: one signature checked for so many costs nothing beside them.
pub const ORDERS: usize = 256;

/// Bytes of the orders in one message. Our choice: a quarter of a frame, so that four fit in one.
pub const BODY: usize = 256 << 10;

/// How far apart the numbers of a node's orders under way may be; the bank remembers the outcomes
/// of so many. Our choice: four full messages, which is more than a commit takes.
pub const WINDOW: u64 = 1024;

/// The account of the swarm itself. The mint fills it each day up to a bound; it pays what verified
/// work that nobody else pays for is worth, on the word of the nodes that the bank's operator names.
/// No key belongs to this name.
pub const COMMONS: NodeId = NodeId(*b"manyhands: the swarm's own money");

/// Purpose of the signature on a leave: whoever shows the leave may read the signer's balance.
const READING: &str = "manyhands 2026 leave to read my balance";

/// Leave to read the balance of a node that cannot ask the bank itself. It holds for ever: a node that
/// carries it learns only the balance that it carries back anyway.
pub fn may_read(secret: &Secret) -> Signed {
    Signed::new(secret, READING, Bytes::new())
}

/// Node whose balance this gives leave to read; `None` if it is no leave.
pub fn reads(leave: &Signed) -> Option<NodeId> {
    leave.open(READING).filter(|body| body.is_empty()).map(|_| leave.by)
}
