//! Messages between market operators, sellers and buyers. One enum with a part for each addressee; the route
//! gives each part to its machine.

use super::listing::{BadListing, Guest};
use super::pricing::{Ask, Deal};
use crate::address::Contact;
use crate::circle::Range;
use crate::goods::Goods;
use crate::goods::NoDeal;
use crate::goods::Wanted;
use crate::goods::{Kind, Market};
use crate::ids::NodeId;
use crate::keys::Signed;
use crate::money::Price;
use crate::platform::Platform;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    ToOwner(ToOwner),
    ToSeller(ToSeller),
    ToBuyer(ToBuyer),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToOwner {
    /// From a seller: it sells this. Answered by `Listed` or `Refused`.
    List(Box<Signed>),
    /// From a seller: what it listed there up to this number is not for sale any more.
    Withdraw { market: Market, number: u64 },
    /// From a seller that was probed.
    Alive(Box<Alive>),
    /// From a buyer. Answered by `Answer`.
    Query(Box<Query>),
    /// From a buyer that knows no market. Answered by `Entry`.
    Enter { kind: Kind, ticket: u64 },
    /// From the owner of a market to those who keep copies, or to the next owner.
    Copy(Box<Copy>),
    /// From the owner to who keeps a copy: how many sellers there are, and a digest of them.
    Compare { market: Market, count: u32, digest: u64 },
    /// All that you have of the markets whose points lie there.
    Pull(Range),
    /// From an owner of markets to the entrance: it is member of the processor overlay with these (a
    /// bit each), and whether it wants to be with more. Answered by `Others`.
    Here { kind: Kind, me: Contact, markets: u64, wants: bool },
    /// From the entrance: members, a few of them, first of all the one with the lowest id, and a market
    /// of that one. If there are none: whether the addressee may be the first.
    Others { kind: Kind, at: Vec<Contact>, lowest: Option<Market>, entrance: Entrance, first: bool },
    /// From who was the entrance to who is now: whether it had heard all that are there, and the members
    /// that it knew, with their markets.
    Door { kind: Kind, open: bool, members: Vec<(Contact, u64)> },
    /// From who looks around: what is there? Answered by `Summary`.
    Look { ticket: u64, market: Market },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToSeller {
    Listed {
        kind: Kind,
        number: u64,
    },
    Refused {
        kind: Kind,
        number: u64,
        why: Unlisted,
    },
    /// Are you alive and able? Answered by [`Alive`], to the part that asks.
    Probe {
        kind: Kind,
        ticket: u64,
        by: Prober,
    },
    /// From a buyer: it buys. Answered by `Taken` or `Gone`.
    Take(Box<Take>),
}

/// State of a node that was taken for the rendezvous of the markets of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Entrance {
    /// The ring has moved: another node is the rendezvous.
    Elsewhere,
    /// The node became the rendezvous so recently that it may not have heard of all markets.
    Listening,
    Open,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToBuyer {
    Answer(Box<Answer>),
    Alive(Box<Alive>),
    /// Owners of markets, a few of them.
    Entry {
        ticket: u64,
        at: Vec<Contact>,
        entrance: Entrance,
    },
    Taken {
        ticket: u64,
    },
    Gone {
        ticket: u64,
    },
    /// None: the market is another's. `next` is that of [`Answer`].
    Summary {
        ticket: u64,
        summary: Option<Box<Summary>>,
        next: Option<Market>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Prober {
    Owner,
    Buyer,
}

/// Why something is not listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Unlisted {
    #[error("{0}")]
    Bad(BadListing),
    #[error("it was sent by another node than its seller")]
    NotYours,
    #[error("a listing with this number or a higher one is known")]
    Old,
    #[error("this node does not own the market")]
    NotMine,
    #[error("the market is full, and all in it are cheaper")]
    Full,
}

/// A seller's word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alive {
    pub ticket: u64,
    /// Listing of its goods now; `None` if it sells nothing.
    pub listing: Option<Signed>,
    /// Market operator that has it listed, and for how many seconds.
    pub listed: Option<(NodeId, u32)>,
    /// Market operators that have asked lately, and may have named it to somebody.
    pub probed: Vec<NodeId>,
}

impl Wanted {
    pub(super) fn ask(&self) -> Ask {
        Ask { units: self.units.into(), quantity: self.quantity, most: self.most, tie: self.tie }
    }

    pub(super) fn suits(&self, goods: &Goods) -> bool {
        self.kind == goods.kind
            && self.capacity <= goods.capacity
            && self.minutes <= goods.minutes
            && self.memory_mib <= goods.memory_mib
            && self.engine.is_none_or(|engine| engine == goods.engine)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Query {
    pub ticket: u64,
    pub market: Market,
    pub wanted: Wanted,
    pub purpose: Purpose,
}

/// Use of a query's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Purpose {
    /// To compare markets: what do the cheapest sellers cost? Nobody is probed, and nothing is held.
    Costs,
    /// To buy: the sellers that are named are held for the buyer.
    Sale,
    /// To know the price: the cheapest seller alone, probed and signed, as the second of an empty sale.
    Second,
    /// As [`Purpose::Sale`], but by the addressee's copy of the market, and nothing is held.
    Copy,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    pub ticket: u64,
    pub market: Market,
    pub what: Outcome,
    /// The next market above that the same node owns and that has sellers.
    pub next: Option<Market>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    Sale(Sale),
    /// The cheapest sellers, as many as have the units that are wanted between them, and one more.
    Costs(Vec<Stock>),
    None(NoDeal),
    NotMine,
    Busy,
}

/// A seller as [`Outcome::Costs`] has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stock {
    pub cost: Price,
    /// Units, no more than are wanted.
    pub units: u16,
}

/// Winners and second, each as it signed a moment ago.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sale {
    /// One for each seller in `deals`.
    pub winners: Vec<Signed>,
    /// Cheapest seller that sells nothing: its cost is the price, or would be if it were not above the
    /// buyer's maximum.
    pub second: Option<Signed>,
    /// The highest cost in the market; under max-min the payoff depends on it.
    pub highest: Price,
    pub deals: Vec<Deal>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Take {
    pub ticket: u64,
    pub kind: Kind,
    /// Number of the listing that was signed.
    pub number: u64,
    pub units: u16,
    pub capacity: u64,
    pub price: Price,
    /// The bank's word that it is put aside.
    pub receipt: Option<Signed>,
}

/// Part of a market, as its owner has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copy {
    pub market: Market,
    /// `true`: the entries replace all that the addressee had of the market.
    pub whole: bool,
    /// At most [`COPY`].
    pub entries: Vec<Entry>,
    pub gone: Vec<NodeId>,
    /// Those of the entries that are guests.
    pub guests: Vec<(NodeId, Guest)>,
}

/// Sellers in one message of copies. Our choice: half of what a message may be.
pub const COPY: usize = 4000;

/// A seller as its market knows it.
///
/// *Decision:* the signed text is not kept. It is 230 bytes, this is 88; and what an answer carries
/// the seller has signed when it was probed, a moment before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// A packed form of [`crate::address::Address`]: a guest's has the IP address and port of its relay.
    pub seller: Contact,
    pub units: u16,
    pub minutes: u16,
    pub engine: Platform,
    /// This node has seen the seller's signature.
    #[serde(skip)]
    pub proven: bool,
    pub memory_mib: u32,
    /// When it is purged, in seconds of this node's time.
    #[serde(skip)]
    pub until: u32,
    pub capacity: u64,
    pub cost: Price,
    pub number: u64,
}

impl Entry {
    pub fn goods(&self, kind: Kind) -> Goods {
        Goods {
            kind,
            capacity: self.capacity,
            units: self.units,
            minutes: self.minutes,
            cost: self.cost,
            engine: self.engine,
            memory_mib: self.memory_mib,
        }
    }
}

/// A market in short, as its owner has it. It is for people: nobody buys by it, so nobody is probed for
/// it and nothing in it is signed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    pub sellers: u32,
    pub units: u32,
    /// The highest cost that is listed.
    pub dearest: Price,
    /// The price at which a seller was named last that had less right after, and how many seconds ago.
    pub last: Option<(Price, u32)>,
    /// The cheapest, in order; at most [`SHOWN`].
    pub offers: Vec<(NodeId, Goods)>,
}

/// Sellers in a summary. Our choice: what a person looks through, in 2 KB.
pub const SHOWN: usize = 32;

impl Summary {
    /// Whether a market could be like that.
    pub fn is_sound(&self, market: Market, most: usize) -> bool {
        let (sellers, shown) = (self.sellers as usize, self.offers.len());
        let goods = || self.offers.iter().map(|(_, goods)| goods);
        let units: u64 = goods().map(|goods| u64::from(goods.units)).sum();
        let ends = goods().next_back().map_or(Price::default(), |last| last.cost);
        let all = shown == sellers;
        shown == sellers.min(SHOWN)
            && sellers <= most
            && goods().all(|goods| goods.units > 0 && goods.market() == Some(market))
            && self.offers.is_sorted_by_key(|(_, goods)| goods.cost)
            && if all { ends == self.dearest } else { ends <= self.dearest }
            && if all { units == u64::from(self.units) } else { units < u64::from(self.units) }
            && u64::from(self.units) <= self.sellers as u64 * u64::from(u16::MAX)
    }
}
