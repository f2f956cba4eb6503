//! Choice of sellers and prices: two rules as pure functions over listings (paper `market`, section
//! IV-B). The network's configuration chooses one.
//!
//! Under both, the market operator gets a fixed `delta` a sale, and what the buyer can afford bounds
//! the sum of all legs. *Departure:* the paper leaves open who pays for fixed listings; here the
//! buyer does, a sale, so that nobody needs credit to list.

use crate::goods::NoDeal;
use crate::goods::Rule;
use crate::ids::NodeId;
use crate::money::{Micro, Price};
use serde::{Deserialize, Serialize};

/// An able seller, as it is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bid {
    pub seller: NodeId,
    /// Its marginal cost.
    pub cost: Price,
}

impl Bid {
    /// The order in which sellers are taken; see [`Ask::tie`].
    pub(super) fn rank(&self, tie: u64) -> (Price, u64, NodeId) {
        let (word, _) = self.seller.0.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
        (self.cost, u64::from_be_bytes(*word) ^ tie, self.seller)
    }
}

/// A buyer's demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// How many sellers, one a unit.
    pub units: u32,
    /// Most that a unit uses: fuel, or byte-seconds.
    pub quantity: u64,
    /// The most that seller and market operator may cost for one unit, together. Keepers and replicas
    /// are legs of their own, which the buyer takes off before it asks.
    pub most: Micro,
    /// Drawn by the buyer, and decides among equal costs: who has the lowest id after its first
    /// eight bytes are combined (xor) with it. So any copy of the market answers alike, and no
    /// seller is always the first.
    pub tie: u64,
}

/// One seller, and what it is to be paid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deal {
    pub seller: NodeId,
    pub price: Price,
    /// The market operator's, `delta` included; due once, when the seller did the work.
    pub payoff: Micro,
}

impl Deal {
    /// The sum of both legs if the whole quantity is used: what has to be held for it.
    pub fn cost(&self, quantity: u64) -> Option<Micro> {
        self.price.of(quantity).round_up()?.plus(self.payoff)
    }
}

/// A cost that cannot be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum BadCost {
    #[error(
        "a cost of zero cannot be listed where the market operator's payoff depends on it; list one micro-credit"
    )]
    Zero,
    #[error("a cost of {0} micro-credits per 10^9 is more than there is; the most is {max}", max = Price::MAX.0)]
    TooHigh(u64),
    #[error("the highest cost is below that of the seller that is named")]
    Contradiction,
}

impl Rule {
    /// Whether a seller may list this cost.
    ///
    /// # Errors
    /// [`BadCost`] if it may not.
    pub fn check(self, cost: Price) -> Result<(), BadCost> {
        match cost {
            Price(0) if self == Rule::MaxMin => Err(BadCost::Zero),
            cost if cost > Price::MAX => Err(BadCost::TooHigh(cost.0)),
            _ => Ok(()),
        }
    }

    /// The answer of a market in which these able sellers are listed, in any order. Fewer deals
    /// than asked for are a normal answer. What may not be listed counts as not listed.
    ///
    /// # Errors
    /// [`NoDeal`] if nothing is sold at all.
    pub fn deals(self, ask: &Ask, delta: Micro, bids: &[Bid]) -> Result<Vec<Deal>, NoDeal> {
        let mut bids: Vec<Bid> = bids.iter().filter(|bid| self.check(bid.cost).is_ok()).copied().collect();
        let wanted = (ask.units as usize).min(bids.len());
        let first = |bid: &Bid| bid.rank(ask.tie);
        if wanted < bids.len() {
            bids.select_nth_unstable_by_key(wanted, first);
        }
        bids[..wanted].sort_unstable_by_key(first);
        let deals = match self {
            Rule::ReverseVickrey => vickrey(ask, delta, &bids, wanted),
            Rule::MaxMin => max_min(ask, delta, &bids, wanted),
        };
        match deals.first() {
            Some(_) => Ok(deals),
            None => Err(self.none(ask, delta, &bids)),
        }
    }

    /// The highest cost of a seller that could be paid; `None` if there is none.
    pub(super) fn highest(self, ask: &Ask, delta: Micro) -> Option<Price> {
        let most = Price::within(ask.most.minus(delta)?, ask.quantity);
        match self {
            Rule::ReverseVickrey => Some(most),
            Rule::MaxMin => most.0.checked_sub(1).map(Price),
        }
    }

    /// Why none of these sells.
    pub(super) fn none(self, ask: &Ask, delta: Micro, bids: &[Bid]) -> NoDeal {
        let Some(cheapest) = bids.iter().min_by_key(|bid| bid.cost) else { return NoDeal::NoSeller };
        let least = match self {
            Rule::ReverseVickrey => {
                Deal { seller: cheapest.seller, price: cheapest.cost, payoff: delta }.cost(ask.quantity)
            }
            Rule::MaxMin => {
                let dearest = bids.iter().map(|bid| bid.cost).max().unwrap_or(cheapest.cost);
                named(*cheapest, dearest, delta).and_then(|deal| deal.cost(ask.quantity))
            }
        };
        NoDeal::TooDear { least: least.unwrap_or(Micro::MAX), most: ask.most }
    }
}

/// The first `wanted` of the bids sell, all at one price: the lowest cost of a node that sells
/// nothing, which is the (n+1)-th when each node lists once. With one unit it is the second price. A
/// sequence of second-price sales would not be truthful: who sells early sells at a lower price.
///
/// The buyer's maximum takes part like the bid of one more seller: it is the price when the next
/// cost is above it, or when nobody is left. *Our choice* for a single able seller, in place of a
/// reserve of the commodity: nobody would have to set reserves, trade does not stop where one is
/// below all costs, and no seller's own word moves its price. It makes thin markets dear up to
/// what the buyer itself offered, and a market operator that hides sellers makes them thin; against
/// that, buyers compare copies.
///
/// A seller that lists several units in one market may gain by holding one back, as with every uniform price.
fn vickrey(ask: &Ask, delta: Micro, bids: &[Bid], wanted: usize) -> Vec<Deal> {
    let Some(budget) = ask.most.minus(delta) else { return Vec::new() };
    let most = Price::within(budget, ask.quantity);
    let sellers = bids[..wanted].iter().take_while(|bid| bid.cost <= most).count();
    let (sell, rest) = bids.split_at(sellers);
    let mut ids: Vec<NodeId> = sell.iter().map(|bid| bid.seller).collect();
    ids.sort_unstable();
    let others = rest.iter().filter(|bid| ids.binary_search(&bid.seller).is_err());
    let price = others.map(|bid| bid.cost).min().map_or(most, |next| next.min(most));
    sell.iter().map(|bid| Deal { seller: bid.seller, price, payoff: delta }).collect()
}

/// The first `wanted` of the bids sell, each at its own cost and one, and the market operator has a
/// payoff for each. If the cheapest cannot be afforded there is no deal, though a dearer seller,
/// for whom the market operator would get less, perhaps could: naming another never pays.
fn max_min(ask: &Ask, delta: Micro, bids: &[Bid], wanted: usize) -> Vec<Deal> {
    let Some(dearest) = bids.iter().map(|bid| bid.cost).max() else { return Vec::new() };
    let deals = bids[..wanted].iter().map_while(|bid| named(*bid, dearest, delta));
    deals.take_while(|deal| deal.cost(ask.quantity).is_some_and(|cost| cost <= ask.most)).collect()
}

fn named(bid: Bid, dearest: Price, delta: Micro) -> Option<Deal> {
    let payoff = payoff(bid.cost, dearest, delta).ok()?;
    Some(Deal { seller: bid.seller, price: Price(bid.cost.0 + 1), payoff })
}

/// K of the market operator's payoff, micro-credits squared: one credit squared. Our choice: the paper's K is 1
/// in the unit that its costs are counted in, and people count in credits here.
pub const K: u128 = 1_000_000_000_000;

/// Equation 1 made exact: floor(K · (highest − named) / highest²) + `delta`, for each sale.
///
/// *Departure:* the paper's costs are of the whole sale, ours of 10^9 fuel, since what a unit uses
/// is known only when it has ended; the payoff stays one of the sale. Most at `highest` = 2 · `named`,
/// where it is K / (4 · `named`). One seller, or equal costs: `delta` alone.
///
/// # Errors
/// [`BadCost`] if one of the two cannot be listed, or `named` is above `highest`.
pub fn payoff(named: Price, highest: Price, delta: Micro) -> Result<Micro, BadCost> {
    Rule::MaxMin.check(named)?;
    Rule::MaxMin.check(highest)?;
    let gap = highest.0.checked_sub(named.0).ok_or(BadCost::Contradiction)?;
    let square = u128::from(highest.0) * u128::from(highest.0);
    // At most K / 4, so it is an amount.
    let variable = u64::try_from(K * u128::from(gap) / square).unwrap_or(Micro::MAX.0);
    Ok(Micro(variable).plus(delta).unwrap_or(Micro::MAX))
}
