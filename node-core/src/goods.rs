//! Commodities: ranges of idle capacity, and where their markets are (paper `market`, section IV-A).

use crate::address::Address;
use crate::circle::{MemberId, Point, RingId};
use crate::ids::NodeId;
use crate::money::{Micro, Price};
use crate::platform::Platform;
use serde::{Deserialize, Serialize};

/// Kind of goods that is sold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Kind {
    /// Fuel a second that one slot leaves idle.
    Cycles,
    /// Bytes for checkpoints.
    Checkpoints,
    /// Bytes for files.
    Files,
}

impl Kind {
    pub const ALL: [Kind; 3] = [Kind::Cycles, Kind::Checkpoints, Kind::Files];

    fn name(self) -> &'static str {
        match self {
            Kind::Cycles => "cycles",
            Kind::Checkpoints => "checkpoints",
            Kind::Files => "files",
        }
    }

    /// The ring of its markets in the processor overlay.
    pub fn ring(self) -> RingId {
        RingId(match self {
            Kind::Cycles => 1,
            Kind::Checkpoints => 2,
            Kind::Files => 3,
        })
    }

    /// Whether a part of a capacity can be sold. A slot runs one unit at all its speed.
    pub fn divides(self) -> bool {
        self != Kind::Cycles
    }

    /// Where the entrance is, on the ring of nodes: who owns this point knows owners of markets.
    pub fn entrance(self) -> Point {
        Point::of_name(format!("entrance to {}", self.name()).as_bytes())
    }
}

/// How markets are found. All nodes of a network have the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Scheme {
    /// The capacity, scaled, is a point on the ring of nodes; who owns it owns the market.
    Single,
    /// Markets are spread over the nodes by a hash, and are a second ring in order of capacity. Our
    /// default: a buyer finds the nearest market in one search, however far it is.
    #[default]
    Processor,
}

/// A commodity: capacities from [`Market::least`] up to that of the next index.
///
/// Ranges grow by the square root of 2. Our choice: with powers of 2 a buyer would be offered up to
/// twice what it asked for, at twice the idle capacity; narrower ones would have few sellers, and a
/// market with a single one sells at the buyer's maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Market {
    pub kind: Kind,
    /// Below [`Market::COUNT`].
    pub index: u8,
}

/// The lowest capacity that is sold, as a power of 2: a million of fuel a second, which no engine is
/// slower than, or a mebibyte.
const LOWEST: u32 = 20;

impl Market {
    /// Markets of a kind.
    pub const COUNT: u8 = 64;

    /// The least and the most of a capacity that can be listed: 2^20 to 2^52 − 1, of fuel a second
    /// or of bytes.
    pub const LEAST: u64 = 1 << LOWEST;
    pub const MOST: u64 = (1 << (LOWEST + Market::COUNT as u32 / 2)) - 1;

    /// Where this capacity is sold; `None` if it is none of [`Market::LEAST`] to [`Market::MOST`].
    pub fn of(kind: Kind, capacity: u64) -> Option<Market> {
        if !(Market::LEAST..=Market::MOST).contains(&capacity) {
            return None;
        }
        let octave = capacity.ilog2();
        let upper = u128::from(capacity) * u128::from(capacity) >= 1 << (2 * octave + 1);
        Some(Market { kind, index: (2 * (octave - LOWEST)) as u8 + u8::from(upper) })
    }

    /// The first market in which this much may be sold; less than there is begins with the lowest.
    pub fn first(kind: Kind, capacity: u64) -> Option<Market> {
        Market::of(kind, capacity.max(Market::LEAST))
    }

    /// The least capacity of the range.
    pub fn least(self) -> u64 {
        let octave = LOWEST + u32::from(self.index) / 2;
        match self.index % 2 {
            0 => 1 << octave,
            // The square root is no integer: rounded up.
            _ => (1u128 << (2 * octave + 1)).isqrt() as u64 + 1,
        }
    }

    pub fn next(self) -> Option<Market> {
        let index = self.index + 1;
        (index < Market::COUNT).then_some(Market { index, ..self })
    }

    pub fn is_valid(self) -> bool {
        self.index < Market::COUNT
    }

    /// Capacity as a point, in order.
    ///
    /// *Departure:* the paper takes the capacity as it is. On a circle of 2^128 all capacities there
    /// are would belong to one node, and scaled in proportion nearly all would, since they differ
    /// by powers; so it is their logarithm.
    fn scaled(self) -> Point {
        Point(u128::from(self.index) << 122)
    }

    /// The point on the ring of nodes whose owner is the market's operator. In the single overlay each kind
    /// begins elsewhere, so that cycles and space of like numbers are not the same few nodes'.
    pub fn key(self, scheme: Scheme) -> Point {
        match scheme {
            Scheme::Single => {
                let base = Point::of_name(format!("market of {}", self.kind.name()).as_bytes());
                Point(base.0.wrapping_add(self.scaled().0))
            }
            Scheme::Processor => {
                Point::of_name(format!("market of {} {}", self.kind.name(), self.index).as_bytes())
            }
        }
    }

    /// Its member of the processor overlay.
    pub fn member(self) -> MemberId {
        MemberId { ring: self.kind.ring(), point: self.scaled() }
    }

    /// The market of a member of the processor overlay.
    pub fn of_member(member: MemberId) -> Option<Market> {
        let kind = Kind::ALL.into_iter().find(|kind| kind.ring() == member.ring)?;
        let market = Market { kind, index: (member.point.0 >> 122) as u8 };
        (market.is_valid() && market.member() == member).then_some(market)
    }
}

/// Goods of one kind that one seller has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Goods {
    pub kind: Kind,
    /// Capacity of each unit: fuel a second (idle on average over `minutes`), or bytes.
    pub capacity: u64,
    /// How many such: slots. One where [`Kind::divides`].
    pub units: u16,
    /// T of the paper: for how long.
    pub minutes: u16,
    /// Marginal cost: micro-credits for 10^9 of fuel or of byte-seconds.
    pub cost: Price,
    /// Where it runs, and the memory that a unit may have there, MiB.
    pub engine: Platform,
    pub memory_mib: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rule {
    /// The cheapest sells at the second price. The market operator's payoff is fixed (`delta`), so
    /// that it gains nothing by lying. Our default: here no seller gains by lying, either.
    #[default]
    ReverseVickrey,
    /// The cheapest sells at its own cost and one micro-credit; the market operator's payoff is the
    /// higher the cheaper the seller that it names.
    MaxMin,
}

/// Why nobody sells; a unit waits with this reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum NoDeal {
    #[error("nobody sells this now")]
    NoSeller,
    /// `least`: what the cheapest would cost, if that is a number.
    #[error("the cheapest seller costs up to {least} credits a unit, and at most {most} are offered")]
    TooDear { least: Micro, most: Micro },
}

/// Goods that a buyer wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    pub kind: Kind,
    /// At least so much a unit: fuel a second, or bytes.
    pub capacity: u64,
    /// For at least so long.
    pub minutes: u16,
    pub memory_mib: u32,
    /// None: any will do.
    pub engine: Option<Platform>,
    /// At most [`UNITS`] in one market at once.
    pub units: u16,
    /// Most that a unit uses: fuel, or byte-seconds.
    pub quantity: u64,
    /// The most that seller and market operator may cost for one unit, together.
    pub most: Micro,
    /// Drawn by the buyer; see `tie` of `market::pricing::Ask`.
    pub tie: u64,
}

/// Units of one query. Our choice: their sellers' listings are 30 KB.
pub const UNITS: u16 = 128;

/// A unit that somebody sells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    pub seller: Address,
    pub goods: Goods,
    /// Number of the listing.
    pub number: u64,
    /// How much of it was asked for.
    pub capacity: u64,
    pub price: Price,
    pub market: Market,
    /// Market operator that named the seller; it gets `payoff` once the seller did something.
    pub owner: NodeId,
    pub payoff: Micro,
}

#[cfg(test)]
mod tests {
    use crate::goods::*;
    use crate::protocol::Rng;

    #[test]
    fn every_capacity_has_one_market_and_lies_in_its_range() {
        let mut rng = Rng::from_seed([1; 32]);
        let bounds = (0..Market::COUNT).map(|index| Market { kind: Kind::Cycles, index }.least());
        let drawn = (0..10_000).map(|_| rng.u64() >> rng.below(50));
        for capacity in bounds.flat_map(|least| [least - 1, least, least + 1]).chain(drawn) {
            let Some(market) = Market::of(Kind::Cycles, capacity) else {
                assert!(!(Market::LEAST..=Market::MOST).contains(&capacity), "{capacity}");
                continue;
            };
            assert!(market.least() <= capacity, "{capacity} in {market:?}");
            assert!(market.next().is_none_or(|next| capacity < next.least()), "{capacity} in {market:?}");
        }
    }

    #[test]
    fn a_range_reaches_to_the_square_root_of_two_times_its_least() {
        for index in 0..Market::COUNT - 1 {
            let market = Market { kind: Kind::Files, index };
            let ratio = market.next().unwrap().least() as f64 / market.least() as f64;
            assert!((ratio - std::f64::consts::SQRT_2).abs() < 1e-5, "{index}: {ratio}");
        }
    }

    #[test]
    fn points_are_in_the_order_of_capacity_and_lead_back() {
        for kind in Kind::ALL {
            for index in 0..Market::COUNT {
                let market = Market { kind, index };
                assert_eq!(Market::of_member(market.member()), Some(market));
                if let Some(next) = market.next() {
                    assert!(market.member().point < next.member().point);
                    let first = Market { kind, index: 0 }.key(Scheme::Single);
                    assert!(first.to(market.key(Scheme::Single)) < first.to(next.key(Scheme::Single)));
                }
            }
        }
        let odd = MemberId { ring: Kind::Cycles.ring(), point: Point(5) };
        assert_eq!(Market::of_member(odd), None);
        assert_eq!(Market::of_member(MemberId { ring: RingId::NODES, point: Point(0) }), None);
    }
}
