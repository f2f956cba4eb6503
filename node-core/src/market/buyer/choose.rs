//! Choice of sellers over all markets that were asked: the cheapest of all, at the price that the rule gives
//! for all.
//!
//! A market's statement of costs is not signed by its sellers, so it only tells which markets matter: those
//! with the cheapest sellers, as many as are wanted, and the one with the next seller, whose cost is the
//! price. These markets name their sellers, alive and signed. A market that has no such seller after all is
//! left out, and the next one that matters is asked. A market that understates its costs is asked in vain;
//! one that overstates them loses the sale.

use super::super::message::{Purpose, Stock};
use super::super::pricing::Bid;
use super::Place;
use super::search::Search;
use crate::goods::Market;
use crate::goods::Offer;
use crate::goods::{NoDeal, Rule};
use crate::ids::NodeId;
use crate::money::{Micro, Price};
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet};

/// Statements of one market.
#[derive(Debug)]
pub(super) struct Leg {
    pub place: Place,
    /// It was asked, and has not answered.
    pub open: Option<Open>,
    /// Units that it holds for this buyer.
    named: Vec<Offer>,
    /// The cheapest seller beside those, as it signed, and how many units it has.
    second: Option<(Bid, u16)>,
    /// Sellers beside all these, by its word alone, the cheapest first.
    pub rest: Vec<Stock>,
}

#[derive(Debug)]
pub(super) struct Open {
    pub ticket: u64,
    pub until: Time,
    pub purpose: Purpose,
    pub units: u16,
}

impl Leg {
    pub(super) fn new(place: Place) -> Leg {
        Leg { place, open: None, named: Vec::new(), second: None, rest: Vec::new() }
    }

    /// It sells nothing beside what it has named, after all.
    pub(super) fn has_nothing(&mut self) {
        self.second = None;
        self.rest.clear();
    }

    /// Takes the sellers that the market named when it was asked to sell `units`.
    pub(super) fn named(&mut self, offers: Vec<Offer>, second: Option<(Bid, u16)>, units: u16) {
        let sellers: BTreeSet<NodeId> = offers.iter().map(|offer| offer.seller.id).collect();
        let before = self.second.take().is_some_and(|(before, _)| sellers.contains(&before.seller));
        // A seller that is named now was listed before.
        let known = sellers.len() - usize::from(before) + usize::from(second.is_some());
        self.rest.drain(..known.min(self.rest.len()));
        if second.is_none() || !offers.is_empty() && offers.len() < usize::from(units) {
            self.rest.clear();
        }
        self.second = second;
        self.named.extend(offers);
    }
}

/// How a cost is known; among equal ones what is sure comes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Known {
    Named,
    Second,
    Listed,
}

impl Search {
    pub(super) fn short(&mut self, why: NoDeal) {
        self.shortage = match (self.shortage, why) {
            (Some(NoDeal::TooDear { least, most }), NoDeal::TooDear { least: other, .. }) => {
                Some(NoDeal::TooDear { least: least.min(other), most })
            }
            (Some(NoDeal::TooDear { .. }), NoDeal::NoSeller) => self.shortage,
            (_, why) => Some(why),
        };
    }

    /// Why there are not more.
    pub(super) fn why(&mut self, rule: Rule, delta: Micro) -> NoDeal {
        let ask = self.wanted.ask();
        let most = rule.highest(&ask, delta);
        let seconds = self.legs.values().filter_map(|leg| leg.second.map(|(bid, _)| bid.cost));
        let costs = self.legs.values().flat_map(|leg| leg.rest.iter().map(|stock| stock.cost)).chain(seconds);
        if let Some(cost) = costs.filter(|cost| most.is_none_or(|most| *cost > most)).min() {
            self.short(rule.none(&ask, delta, &[Bid { seller: NodeId([0; 32]), cost }]));
        }
        self.shortage.unwrap_or(NoDeal::NoSeller)
    }

    /// Which markets have to name sellers before it is known who sells, and how many.
    pub(super) fn needs(&self, rule: Rule, delta: Micro) -> Vec<(Market, Purpose, u16)> {
        let Some(most) = rule.highest(&self.wanted.ask(), delta) else { return Vec::new() };
        let mut all: Vec<(Price, Known, Market, u16)> = Vec::new();
        for (market, leg) in &self.legs {
            all.extend(leg.named.iter().map(|offer| (offer.goods.cost, Known::Named, *market, 1)));
            all.extend(leg.second.map(|(bid, units)| (bid.cost, Known::Second, *market, units)));
            all.extend(leg.rest.iter().map(|stock| (stock.cost, Known::Listed, *market, stock.units)));
        }
        all.retain(|(cost, ..)| *cost <= most);
        all.sort_unstable();
        let mut left = self.wanted.units;
        let mut sales: BTreeMap<Market, u16> = BTreeMap::new();
        let mut price = None;
        for (_, known, market, units) in all {
            if left == 0 {
                // A market that is asked to sell names its second as well.
                let unknown = known == Known::Listed && !sales.contains_key(&market);
                price = (unknown && rule == Rule::ReverseVickrey).then_some((market, Purpose::Second, 1));
                break;
            }
            let units = units.min(left);
            left -= units;
            if known != Known::Named {
                *sales.entry(market).or_default() += units;
            }
        }
        let sales = sales.into_iter().map(|(market, units)| (market, Purpose::Sale, units));
        sales.chain(price).collect()
    }

    /// Offers to buy, of all that were named.
    ///
    /// Under the reverse Vickrey rule all sell at one price, as in one market: the lowest cost of a seller that
    /// sells nothing, or the buyer's maximum. Each market names its cheapest and the next cost, so the
    /// cheapest of all are among them. Sellers and market operators see nothing of it: a seller takes each price
    /// above its cost, and each answer was checked for itself. Max-min pays by the costs of one market, so
    /// there each sells at the price of its own.
    pub(super) fn offers(&mut self, rule: Rule, delta: Micro) -> Vec<Offer> {
        let wanted = self.wanted;
        let mut sells: Vec<Offer> =
            self.legs.values_mut().flat_map(|leg| std::mem::take(&mut leg.named)).collect();
        let bid = |offer: &Offer| Bid { seller: offer.seller.id, cost: offer.goods.cost };
        sells.sort_by_key(|offer| bid(offer).rank(wanted.tie));
        let over = sells.split_off(sells.len().min(wanted.units.into()));
        let (Rule::ReverseVickrey, Some(most)) = (rule, rule.highest(&wanted.ask(), delta)) else {
            return sells;
        };
        let ids: BTreeSet<NodeId> = sells.iter().map(|offer| offer.seller.id).collect();
        let seconds = self.legs.values().filter_map(|leg| leg.second.map(|(bid, _)| bid));
        let others = over.iter().map(bid).chain(seconds).filter(|bid| !ids.contains(&bid.seller));
        let next = others.map(|bid| bid.cost).min().map_or(most, |next| next.min(most));
        // A search that ran out of time may know a second that is cheaper than who was named.
        let dearest = sells.iter().map(|offer| offer.goods.cost).max().unwrap_or_default();
        let price = next.max(dearest);
        sells.into_iter().map(|offer| Offer { price, payoff: delta, ..offer }).collect()
    }
}
