//! Whether an answer is what the rule gives for what sellers signed. A market operator can leave sellers
//! out, which `sample` is for; it cannot name a dearer one first, change a price, or invent anybody.

use super::super::config::MarketConfig;
use super::super::listing::{BadListing, Listing};
use super::super::message::Sale;
use super::super::pricing::{Bid, Deal};
use crate::goods::Market;
use crate::goods::Offer;
use crate::goods::Wanted;
use crate::ids::NodeId;
use crate::keys::Signed;
use std::collections::BTreeMap;

/// Stand-in for the seller with the highest cost, which nobody signed: its bid is the last of all.
const HIGHEST: NodeId = NodeId([0xff; 32]);

/// A market operator's answer is not what it should be: a fault of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadAnswer {
    #[error("it was asked something else")]
    Question,
    #[error("what it says of its market cannot be")]
    Market,
    #[error("sells another number of units than was asked for")]
    Units,
    #[error("names a bad listing: {0}")]
    Listing(BadListing),
    #[error("names a seller that has not what was asked for")]
    Unsuitable,
    #[error("names a seller without its listing")]
    NoListing,
    #[error("sells more of a seller than it has, or nothing")]
    Seller,
    #[error("names a winner as the second")]
    Second,
    #[error("names another seller or price than the rule gives")]
    Price,
}

/// Units that are sold; the second, and how many units it lists.
type Verified = (Vec<Offer>, Option<(Bid, u16)>);

/// The units that are sold, and the second with its units; or what is wrong. Without `sells` nothing was to
/// be sold, and only the cheapest seller to be named as the second.
pub(super) fn verify(
    config: &MarketConfig,
    market: Market,
    (wanted, sells): (&Wanted, bool),
    sale: &Sale,
    (me, owner): (NodeId, NodeId),
    now_ms: u64,
) -> Result<Verified, BadAnswer> {
    let units = if sells { 1..=usize::from(wanted.units) } else { 0..=0 };
    if !units.contains(&sale.deals.len()) || !sells && sale.second.is_none() {
        return Err(BadAnswer::Units);
    }
    let open = |signed: &Signed| {
        let (at, listing) = Listing::open(signed, config.rule, now_ms).map_err(BadAnswer::Listing)?;
        match at == market && wanted.suits(&listing.goods) && listing.sells_to(me) {
            true => Ok(listing),
            false => Err(BadAnswer::Unsuitable),
        }
    };
    let mut winners: BTreeMap<NodeId, (Listing, u16)> = BTreeMap::new();
    for signed in &sale.winners {
        let listing = open(signed)?;
        winners.insert(listing.id(), (listing, 0));
    }
    let mut bids = Vec::with_capacity(sale.deals.len() + 2);
    for deal in &sale.deals {
        let (listing, units) = winners.get_mut(&deal.seller).ok_or(BadAnswer::NoListing)?;
        *units += 1;
        bids.push(Bid { seller: deal.seller, cost: listing.goods.cost });
    }
    if winners.values().any(|(listing, units)| *units == 0 || *units > listing.goods.units) {
        return Err(BadAnswer::Seller);
    }
    let mut second = None;
    if let Some(signed) = &sale.second {
        let listing = open(signed)?;
        if winners.contains_key(&listing.id()) {
            return Err(BadAnswer::Second);
        }
        let bid = Bid { seller: listing.id(), cost: listing.goods.cost };
        second = Some((bid, listing.goods.units));
        bids.push(bid);
    }
    if !sells {
        return Ok((Vec::new(), second));
    }
    if bids.iter().all(|bid| bid.cost < sale.highest) {
        bids.push(Bid { seller: HIGHEST, cost: sale.highest });
    }
    let right = config.rule.deals(&wanted.ask(), config.delta, &bids);
    if right.as_ref() != Ok(&sale.deals) {
        return Err(BadAnswer::Price);
    }
    let offer = |deal: &Deal| {
        let (listing, _) = winners.get(&deal.seller)?;
        Some(Offer {
            seller: listing.seller,
            goods: listing.goods,
            number: listing.number,
            capacity: wanted.capacity.max(Market::LEAST).min(listing.goods.capacity),
            price: deal.price,
            market,
            owner,
            payoff: deal.payoff,
        })
    };
    Ok((sale.deals.iter().filter_map(offer).collect(), second))
}
