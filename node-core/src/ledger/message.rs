//! Messages between bank and clients.

use crate::contract::Holding;
use crate::contract::{Outcome, Sale};
use crate::goods::Kind;
use crate::ids::{NodeId, UnitId};
use crate::keys::Signed;
use crate::money::Micro;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    ToBank(ToBank),
    ToClient(ToClient),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToBank {
    /// Where does the sender stand?
    Stand,
    /// A signed `Body`. Repeating it is harmless.
    Orders(Signed),
    /// List the holds for the sender's sales, those above `after`.
    Holdings { after: Option<Sale> },
    /// Lines of the sender's statement from this one on; the newest if there are not so many.
    /// `number` comes back with them.
    Statement { number: u64, from: u64, limit: u32 },
    /// Read the balance of the account that has signed this ([`super::may_read`]). For a node that cannot
    /// speak to the bank itself.
    Balance(Signed),
}

/// Signed text: orders for this bank, each under its number.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Body {
    pub(super) bank: NodeId,
    pub(super) orders: Vec<(u64, crate::contract::Order)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToClient {
    /// The lowest number that no order of the node had.
    Stands {
        next: u64,
    },
    /// By number. What they say is durable.
    Outcomes(Vec<(u64, Outcome)>),
    /// In order; none ends the list.
    Holdings(Vec<Holding>),
    Statement {
        number: u64,
        page: Page,
    },
    Balance {
        of: NodeId,
        balance: Micro,
    },
    /// Receipts of holds among the outcomes that follow, by number; the bank signs them for the sellers.
    Receipts(Vec<(u64, Signed)>),
}

/// A part of a node's statement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    pub of: NodeId,
    pub balance: Micro,
    /// Put aside for sales that this node pays for.
    pub held: Micro,
    /// The number of the first line here.
    pub first: u64,
    /// How many lines there have been; the oldest may be gone.
    pub all: u64,
    pub lines: Vec<Line>,
}

/// One change of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// The bank's wall clock, milliseconds since 1970.
    pub at_ms: u64,
    /// Micro-credits that came, or, below zero, went.
    pub amount: i64,
    /// The balance behind it.
    pub balance: Micro,
    pub why: Why,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Why {
    Invite,
    /// The mint's daily part of the commons.
    Minted,
    To(NodeId),
    From(NodeId),
    /// Put aside for a sale.
    Held(UnitId),
    /// The part of a hold that was not used.
    Returned(UnitId),
    /// For work.
    Earned(UnitId),
    /// For naming who did it.
    Fee(UnitId),
    /// Put aside for space.
    SpaceHeld(Kind, UnitId),
    /// The part of a hold for space that was not used.
    SpaceReturned(Kind, UnitId),
    /// For keeping something.
    Kept(Kind, UnitId),
}
