//! The bank's word that it holds what a place may cost, for who sells it. The buyer brings it along: so
//! nobody has to ask the bank, and what was bought runs while it is down.

use crate::contract::{Goods, Order, Sale, Term};
use crate::goods::Kind;
use crate::ids::NodeId;
use crate::keys::{Secret, Signed};
use crate::money::Price;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Purpose that is signed with each receipt.
const PURPOSE: &str = "manyhands 2026 what a bank holds";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// Node that settles the sale.
    pub owner: NodeId,
    pub sale: Sale,
    /// The seller of the run; of space, where the hold is for nothing else.
    pub to: NodeId,
    pub price: Price,
    /// For so much at most.
    pub fuel: u64,
    /// Sellers of space for the sale: node, price, and byte-seconds at most.
    pub space: Vec<(NodeId, Price, u64)>,
}

/// The least that is put aside for space, of what is bought: a minute of it. Our choice: nobody takes gigabytes with
/// what a byte costs, and no buyer keeps anything for less.
const LEAST: u64 = 60;

impl Receipt {
    /// For who runs it, on the newest such term of a hold, if it is for a run; none of another order.
    pub fn of(owner: NodeId, order: &Order) -> Option<Receipt> {
        let Order::Hold { sale, fuel, terms, .. } = order else { return None };
        let term = terms.iter().rfind(|term| term.goods == Goods::Cycles).or(terms.last())?;
        let space = |term: &Term| match term.goods {
            Goods::Space { most } => Some((term.to, term.price, most)),
            Goods::Cycles => None,
        };
        let space = terms.iter().filter_map(space).collect();
        Some(Receipt { owner, sale: *sale, to: term.to, price: term.price, fuel: *fuel, space })
    }

    /// Whether something is put aside for so much of this, sold by that node at that price.
    pub fn is_for(&self, kind: Kind, seller: NodeId, price: Price, capacity: u64) -> bool {
        // Space for a unit's checkpoints is bought with its place.
        let of = if kind == Kind::Files { Kind::Files } else { Kind::Cycles };
        if self.sale.kind != of {
            return false;
        }
        match kind {
            Kind::Cycles => self.fuel > 0 && (self.to, self.price) == (seller, price),
            _ => {
                let least = capacity.saturating_mul(LEAST);
                self.space.iter().any(|(to, at, most)| (*to, *at) == (seller, price) && *most >= least)
            }
        }
    }

    pub fn sign(&self, bank: &Secret) -> Signed {
        // Plain numbers; rmp cannot fail on them.
        let body = rmp_serde::to_vec(self).map(Bytes::from).unwrap_or_default();
        Signed::new(bank, PURPOSE, body)
    }

    /// The receipt; `None` unless `bank` has signed it.
    pub fn open(signed: &Signed, bank: NodeId) -> Option<Receipt> {
        let body = signed.open(PURPOSE).filter(|_| signed.by == bank)?;
        sandbox::unpack::from_slice(body).ok()
    }
}
