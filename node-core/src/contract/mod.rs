//! Contracts about paid work and space: what is ordered of a bank, and what it has put aside.

mod bargains;
mod order;
mod receipt;
mod settlements;
mod space;

pub use bargains::{Bargain, Bargains, Leg, Step};
pub use order::{FEES, Fee, Goods, Order, Outcome, Refusal, Sale, TERMS, Term, due, most};
pub use receipt::Receipt;
pub use settlements::{Settled, Settlements};
pub use space::Space;

use crate::ids::NodeId;
use crate::money::Micro;
use serde::{Deserialize, Serialize};

/// Credit that the bank holds for a sale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    pub sale: Sale,
    pub payer: NodeId,
    pub amount: Micro,
}
