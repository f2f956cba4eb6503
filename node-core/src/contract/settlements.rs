//! Settlements under way at the bank. Each sale is settled once, however often its owner or its bank stop in
//! between: a sale is not ordered again while an answer is due, and what the bank holds without anybody's knowledge
//! comes back.
//!
//! A sale's owner decides what it writes down, and when. It knows a sale until [`Settlements::answered`] returns
//! [`Settled::Over`] or [`Settled::Refused`].

use super::{Holding, Order, Outcome, Refusal, Sale};
use std::collections::BTreeMap;

/// Settlements that were ordered of the bank, and not carried out yet.
#[derive(Debug, Default)]
pub struct Settlements {
    /// With the quantities to pay for, by payment leg.
    under_way: BTreeMap<Sale, Vec<u64>>,
    /// The bank's client had no room for these.
    late: Vec<Sale>,
}

/// Outcome of a settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    Over,
    /// It is ordered again later ([`Settlements::again`]).
    Later,
    /// Never.
    Refused(Refusal),
}

impl Settlements {
    /// Pays for so much of each payment leg; an empty list returns all. Returns the order to give, or `None` if one
    /// for this sale is under way.
    pub fn begin(&mut self, sale: Sale, used: Vec<u64>) -> Option<Order> {
        if self.under_way.contains_key(&sale) {
            return None;
        }
        let order = sale.settle(&used);
        self.under_way.insert(sale, used);
        Some(order)
    }

    /// Whether none is under way.
    pub fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    pub fn is_under_way(&self, sale: Sale) -> bool {
        self.under_way.contains_key(&sale)
    }

    /// The bank has answered. A settlement that was carried out in an earlier life is over, too.
    pub fn answered(&mut self, sale: Sale, outcome: Outcome) -> Settled {
        if outcome == Err(Refusal::Full) && self.under_way.contains_key(&sale) {
            self.late.push(sale);
            return Settled::Later;
        }
        self.under_way.remove(&sale);
        match outcome {
            Ok(()) | Err(Refusal::Over) => Settled::Over,
            Err(refusal) => Settled::Refused(refusal),
        }
    }

    /// Orders to give again.
    pub fn again(&mut self) -> Vec<(Sale, Order)> {
        let late = std::mem::take(&mut self.late);
        let order = |sale: Sale| Some((sale, sale.settle(self.under_way.get(&sale)?)));
        late.into_iter().filter_map(order).collect()
    }

    /// Returns the sales that an earlier life had put aside and does not know of any more: `is_known` tells those
    /// that somebody here has bought. They are to be settled with nothing used.
    pub fn unknown(&self, held: &[Holding], is_known: impl Fn(Sale) -> bool) -> Vec<Sale> {
        let sales = held.iter().map(|holding| holding.sale);
        sales.filter(|sale| !self.is_under_way(*sale) && !is_known(*sale)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::goods::Kind;
    use crate::ids::{JobId, NodeId, UnitId};
    use crate::money::Micro;
    use crate::protocol::Rng;
    use std::collections::BTreeSet;

    fn sale(index: u32) -> Sale {
        Sale { unit: UnitId { job: JobId([1; 16]), index }, number: 1, kind: Kind::Cycles }
    }

    #[test]
    fn a_sale_whose_settlement_is_under_way_is_not_ordered_again() {
        let mut settlements = Settlements::default();
        assert_eq!(settlements.begin(sale(1), vec![7]), Some(sale(1).settle(&[7])));
        assert_eq!(settlements.begin(sale(1), vec![8]), None);
        assert_eq!(settlements.answered(sale(1), Ok(())), Settled::Over);
        assert!(!settlements.is_under_way(sale(1)));
    }

    #[test]
    fn what_the_bank_had_no_room_for_is_ordered_again_with_what_was_used() {
        let mut settlements = Settlements::default();
        let order = settlements.begin(sale(1), vec![7, 9]).expect("nothing is under way");
        assert_eq!(settlements.answered(sale(1), Err(Refusal::Full)), Settled::Later);
        assert_eq!(settlements.begin(sale(1), vec![0]), None);
        assert_eq!(settlements.again(), [(sale(1), order)]);
        assert_eq!(settlements.again(), [], "once, until the bank has answered");
    }

    #[test]
    fn what_nobody_knows_comes_back() {
        let mut settlements = Settlements::default();
        settlements.begin(sale(1), vec![]);
        let held = [1, 2, 3].map(|index| Holding { sale: sale(index), ..holding() });
        assert_eq!(settlements.unknown(&held, |known| known == sale(2)), [sale(3)]);
    }

    /// Any bank: full, silent or stopped between an order and its answer. Money moves once for each sale.
    #[test]
    fn each_sale_is_paid_once_whatever_the_bank_answers() {
        for seed in 0..500u32 {
            let mut rng = Rng::fork(&[7; 32], &seed.to_string());
            let mut settlements = Settlements::default();
            let mut asked: Vec<Sale> = Vec::new();
            let (mut paid, mut over) = (BTreeSet::new(), BTreeSet::new());
            for _ in 0..200 {
                let wish = sale(rng.below(10) as u32);
                if !over.contains(&wish) {
                    asked.extend(settlements.begin(wish, vec![1]).map(|_| wish));
                }
                if rng.below(3) == 0 {
                    asked.extend(settlements.again().into_iter().map(|(sale, _)| sale));
                }
                if asked.is_empty() {
                    continue;
                }
                let at = rng.below(asked.len() as u64) as usize;
                let sale = asked.swap_remove(at);
                assert!(!asked.contains(&sale), "two orders for one sale");
                let outcome = match rng.below(3) {
                    0 => Err(Refusal::Full),
                    // It had been paid, and the answer was lost with a life.
                    1 if !paid.insert(sale) => Err(Refusal::Over),
                    _ => {
                        paid.insert(sale);
                        Ok(())
                    }
                };
                if settlements.answered(sale, outcome) == Settled::Over {
                    assert!(over.insert(sale), "a sale is over once");
                    assert!(!settlements.is_under_way(sale));
                }
            }
        }
    }

    fn holding() -> Holding {
        Holding { sale: sale(0), payer: NodeId([1; 32]), amount: Micro(1) }
    }
}
