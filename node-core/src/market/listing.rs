//! Listings: what a seller says that it sells, signed by its key.

use super::pricing::BadCost;
use crate::address::Address;
use crate::goods::Goods;
use crate::goods::Market;
use crate::goods::Rule;
use crate::ids::NodeId;
use crate::keys::{Secret, Signed};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::time::Duration;

const PURPOSE: &str = "manyhands 2026-11 listing in a market";

/// Longest listing, bytes encoded. Ours take under 140.
const BODY: usize = 256;

/// How far listings may reach ahead of the reader's clock. Our choice: clocks of donors are off by
/// minutes, and a seller that is gone is purged long before.
pub const AHEAD: Duration = Duration::from_secs(600);

impl Goods {
    pub fn market(&self) -> Option<Market> {
        Market::of(self.kind, self.capacity)
    }

    fn check(&self, rule: Rule) -> Result<Market, BadListing> {
        rule.check(self.cost).map_err(BadListing::Cost)?;
        let market = self.market().ok_or(BadListing::Capacity)?;
        if self.units == 0 || self.minutes == 0 || self.kind.divides() && self.units > 1 {
            return Err(BadListing::Nothing);
        }
        Ok(market)
    }
}

/// Content of a listing, which the seller signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listing {
    pub seller: Address,
    pub goods: Goods,
    /// Grows with each listing of a seller, whatever its kind.
    pub number: u64,
    /// Milliseconds since 1970.
    pub expires_ms: u64,
}

/// Why something cannot be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum BadListing {
    #[error("it is not signed by the seller that it names")]
    Forged,
    #[error("it is not a listing")]
    Unreadable,
    #[error("{0}")]
    Cost(BadCost),
    #[error("no market trades such a capacity")]
    Capacity,
    #[error("nothing is for sale: no units or no time, or several of what can be divided")]
    Nothing,
    #[error("it does not say how to reach its seller")]
    Nowhere,
    #[error("it has expired")]
    Expired,
    #[error("it reaches too far into the future; perhaps a clock is wrong")]
    TooFar,
}

impl Listing {
    /// Encoded once, so that what was signed is what is checked.
    pub fn sign(&self, secret: &Secret) -> Signed {
        // Only integers and bytes of a fixed length; rmp cannot fail on them.
        let body = rmp_serde::to_vec(self).map(Bytes::from).unwrap_or_default();
        Signed::new(secret, PURPOSE, body)
    }

    /// The listing, if its seller signed it, it may be listed and it is good at this time.
    ///
    /// # Errors
    /// [`BadListing`] says why it is not believed, or not listed.
    pub fn open(signed: &Signed, rule: Rule, now_ms: u64) -> Result<(Market, Listing), BadListing> {
        if signed.body.len() > BODY {
            return Err(BadListing::Unreadable);
        }
        let body = signed.open(PURPOSE).ok_or(BadListing::Forged)?;
        let listing: Listing = sandbox::unpack::from_slice(body).map_err(|_| BadListing::Unreadable)?;
        if listing.seller.id != signed.by {
            return Err(BadListing::Forged);
        }
        if listing.seller.first_hop().is_none() {
            return Err(BadListing::Nowhere);
        }
        let market = listing.goods.check(rule)?;
        if listing.expires_ms <= now_ms {
            return Err(BadListing::Expired);
        }
        if listing.expires_ms - now_ms > AHEAD.as_millis() as u64 {
            return Err(BadListing::TooFar);
        }
        Ok((market, listing))
    }

    pub fn id(&self) -> NodeId {
        self.seller.id
    }

    /// Whether this seller sells to that node.
    pub fn sells_to(&self, buyer: NodeId) -> bool {
        Guest::of(&self.seller).is_none_or(|guest| guest.sells_to(buyer))
    }
}

/// A seller that nobody can dial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guest {
    pub relay: NodeId,
    /// It opens data channels with who asks for one by way of its relay.
    pub channels: bool,
}

impl Guest {
    /// `None` if the seller can be dialled.
    pub(super) fn of(seller: &Address) -> Option<Guest> {
        let relay = seller.relay()?;
        Some(Guest { relay: relay.id, channels: seller.has_channels() })
    }

    /// Whether it sells to that node. Units of a buyer come over a connection, and a guest without data channels has
    /// none but to its relay.
    pub(super) fn sells_to(self, buyer: NodeId) -> bool {
        self.channels || self.relay == buyer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::{Contact, Ip};
    use crate::goods::Kind;
    use crate::money::Price;
    use crate::platform::Platform;

    const NOW: u64 = 1_700_000_000_000;

    fn secret() -> Secret {
        Secret::from_bytes(&[7; 32])
    }

    fn listing() -> Listing {
        let goods = Goods {
            kind: Kind::Cycles,
            capacity: 1 << 30,
            units: 4,
            minutes: 30,
            cost: Price(5),
            engine: Platform::Native,
            memory_mib: 2048,
        };
        let seller = Contact { ip: Ip([1; 16]), id: secret().node(), port: 4001 }.into();
        Listing { seller, goods, number: 3, expires_ms: NOW + 60_000 }
    }

    fn opened(change: impl FnOnce(&mut Listing)) -> Result<Market, BadListing> {
        let mut listing = listing();
        change(&mut listing);
        Listing::open(&listing.sign(&secret()), Rule::ReverseVickrey, NOW).map(|(market, _)| market)
    }

    #[test]
    fn what_a_seller_signed_is_read_as_it_was_meant_and_is_short() {
        let signed = listing().sign(&secret());
        let (market, read) = Listing::open(&signed, Rule::MaxMin, NOW).unwrap();
        assert_eq!((market, read), (Market { kind: Kind::Cycles, index: 20 }, listing()));
        assert!(signed.body.len() < 130, "{}", signed.body.len());
    }

    #[test]
    fn each_thing_that_is_wrong_has_its_name() {
        use BadListing::*;
        assert_eq!(opened(|it| it.goods.capacity = 0), Err(Capacity));
        assert_eq!(opened(|it| it.goods.capacity = u64::MAX), Err(Capacity));
        assert_eq!(opened(|it| it.goods.units = 0), Err(Nothing));
        assert_eq!(opened(|it| it.goods.minutes = 0), Err(Nothing));
        assert_eq!(opened(|it| it.goods.kind = Kind::Files), Err(Nothing));
        assert_eq!(opened(|it| it.goods.cost = Price(u64::MAX)), Err(Cost(BadCost::TooHigh(u64::MAX))));
        assert_eq!(opened(|it| it.expires_ms = NOW), Err(Expired));
        assert_eq!(opened(|it| it.expires_ms = u64::MAX), Err(TooFar));
        assert_eq!(opened(|it| it.seller.id = NodeId([9; 32])), Err(Forged));
        assert_eq!(opened(|it| it.seller = Address::here(it.seller.id)), Err(Nowhere));
        let free = Listing { goods: Goods { cost: Price(0), ..listing().goods }, ..listing() };
        let free = free.sign(&secret());
        assert!(Listing::open(&free, Rule::ReverseVickrey, NOW).is_ok());
        assert_eq!(Listing::open(&free, Rule::MaxMin, NOW), Err(Cost(BadCost::Zero)));
    }

    #[test]
    fn nothing_but_the_signed_bytes_is_believed() {
        let signed = listing().sign(&secret());
        let mut body = signed.body.to_vec();
        let last = body.len() - 1;
        body[last] ^= 1;
        let changed = Signed { body: body.into(), ..signed.clone() };
        assert_eq!(Listing::open(&changed, Rule::default(), NOW), Err(BadListing::Forged));
        let another = Signed::new(&secret(), "another purpose", signed.body.clone());
        assert_eq!(Listing::open(&another, Rule::default(), NOW), Err(BadListing::Forged));
        // A cost below zero cannot be written down as one.
        let long = Signed::new(&secret(), PURPOSE, vec![0; 1000].into());
        assert_eq!(Listing::open(&long, Rule::default(), NOW), Err(BadListing::Unreadable));
        let garbage = Signed::new(&secret(), PURPOSE, Bytes::from_static(b"\x94\xff\xff"));
        assert_eq!(Listing::open(&garbage, Rule::default(), NOW), Err(BadListing::Unreadable));
    }

    /// As encoders of other languages would write it: a signed integer.
    #[test]
    fn a_negative_cost_is_no_number_of_ours() {
        let mut body = listing().sign(&secret()).body.to_vec();
        let cost = body.iter().position(|byte| *byte == 5).unwrap();
        body[cost] = 0xfb;
        let signed = Signed::new(&secret(), PURPOSE, body.into());
        assert_eq!(Listing::open(&signed, Rule::default(), NOW), Err(BadListing::Unreadable));
    }
}
