//! The bank's word that it holds what a place may cost, for who sells it. The buyer brings it along: so
//! nobody has to ask the bank, and what was bought runs while it is down.

use crate::contract::{Goods, Order, Sale};
use crate::ids::NodeId;
use crate::keys::{Secret, Signed};
use crate::money::Price;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// What receipts are signed for.
const PURPOSE: &str = "manyhands 2026 what a bank holds";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// Who settles the sale.
    pub owner: NodeId,
    pub sale: Sale,
    /// Who is paid.
    pub to: NodeId,
    pub price: Price,
    /// For so much at most.
    pub fuel: u64,
}

impl Receipt {
    /// For who runs it, on the newest such term of a hold, if it is for a run; none of another order.
    pub fn of(owner: NodeId, order: &Order) -> Option<Receipt> {
        let Order::Hold { sale, fuel, terms, .. } = order else { return None };
        let term = terms.iter().rfind(|term| term.goods == Goods::Cycles).or(terms.last())?;
        Some(Receipt { owner, sale: *sale, to: term.to, price: term.price, fuel: *fuel })
    }

    pub fn sign(&self, bank: &Secret) -> Signed {
        // Plain numbers; rmp cannot fail on them.
        let body = rmp_serde::to_vec(self).map(Bytes::from).unwrap_or_default();
        Signed::new(bank, PURPOSE, body)
    }

    /// What the bank has signed, if it has.
    pub fn open(signed: &Signed, bank: NodeId) -> Option<Receipt> {
        let body = signed.open(PURPOSE).filter(|_| signed.by == bank)?;
        rmp_serde::from_slice(body).ok()
    }
}
