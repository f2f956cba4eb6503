//! Lives of small markets, drawn from their seeds: first safety under whatever happens, in any
//! order, then it stops, all is at rest and whoever is able is found.

use super::Markets;
use crate::ring::life::Fault;
use node_core::Platform;
use node_core::circle::RingId;
use node_core::goods::Goods;
use node_core::goods::NoDeal;
use node_core::goods::Wanted;
use node_core::goods::{Kind, Market, Scheme};
use node_core::market::MarketConfig;
use node_core::market::buyer::Doubt;
use node_core::money::{Micro, Price};
use node_core::overlay::ring::RingConfig;
use std::time::Duration;

pub const SCHEMES: [Scheme; 2] = [Scheme::Single, Scheme::Processor];

/// Fuel a second of a usual slot.
pub const SPEED: u64 = 1_000_000_000;

/// Until all must be well again: the ring after a death, then a listing, a purge of who is dead, and
/// the processor overlay.
const WELL: Duration = Duration::from_secs(300);

/// Results of a life.
#[derive(Clone, Copy, Debug)]
pub struct Lived {
    /// Sellers that were named, and those that were dead then.
    pub named: usize,
    pub dead: usize,
    /// Until all was at rest.
    pub healed: Duration,
}

pub fn slots(capacity: u64, units: u16, cost: u64) -> Goods {
    Goods {
        kind: Kind::Cycles,
        capacity,
        units,
        minutes: 60,
        cost: Price(cost),
        engine: Platform::Native,
        memory_mib: 1024,
    }
}

pub fn space(bytes: u64, cost: u64) -> Goods {
    Goods { kind: Kind::Files, ..slots(bytes, 1, cost) }
}

/// A unit of ten seconds on a usual slot, at most one credit.
pub fn unit(capacity: u64) -> Wanted {
    Wanted {
        kind: Kind::Cycles,
        capacity,
        minutes: 10,
        memory_mib: 512,
        engine: None,
        units: 1,
        quantity: 10 * SPEED,
        most: Micro(1_000_000),
        tie: 0,
    }
}

/// One life. Panics if anything was sold twice or offered falsely, a market operator was doubted that
/// should not be, or all is not at rest in the end.
pub fn live(seed: u64) -> Lived {
    let scheme = SCHEMES[(seed % 2) as usize];
    let config = MarketConfig { samples: 300, scheme, ..MarketConfig::default() };
    let mut markets = Markets::with(seed, RingConfig { successors: 6, ..RingConfig::default() }, config);
    markets.listen = true;
    markets.grow(12, 2);
    markets.settle(Duration::from_secs(120));
    let (mut deaths, mut numbers) = (Vec::new(), Vec::new());
    for _ in 0..60 {
        let one = markets.somebody();
        let what = markets.rng.below(14);
        let fault = match what {
            0 | 1 => Some(Fault::Join),
            2 => Some(Fault::Kill),
            3 => Some(Fault::Leave),
            4 => Some(Fault::Restart),
            5 => Some(Fault::Double),
            6 => Some(Fault::Cut),
            _ => None,
        };
        let befell = fault.is_some_and(|fault| markets.befall(fault, one, &mut deaths, (7, 30)));
        match what {
            _ if befell => {}
            7..10 => {
                let cost = 1 + markets.rng.below(2000);
                let goods = match markets.rng.below(4) {
                    0 => space(1 << (25 + markets.rng.below(6)), cost),
                    _ => slots(SPEED << markets.rng.below(4), markets.rng.below(4) as u16, cost),
                };
                markets.offer(one, goods);
            }
            _ => {
                let units = 1 + markets.rng.below(3) as u16;
                let tie = markets.rng.u64();
                let wanted = Wanted { units, tie, ..unit(SPEED << markets.rng.below(4)) };
                numbers.push((one, markets.search(one, wanted)));
            }
        }
        let pause = markets.rng.below(6000);
        markets.run(Duration::from_millis(pause));
        for (by, number) in &numbers {
            let end = markets.shared.asked[number].end.clone();
            if markets.lives(*by) && markets.rng.chance(0.05) {
                for offer in end.into_iter().flat_map(|end| end.offers) {
                    markets.take(*by, offer);
                }
            }
        }
        markets.bury();
        assert_eq!(markets.check_markets(false), Vec::<String>::new(), "seed {seed}");
    }
    markets.calm();
    let healed = markets.settle_markets(WELL);
    let omitted = markets.shared.doubts.iter().filter(|doubt| doubt.2 != Doubt::Usurper);
    assert_eq!(omitted.count(), 0, "seed {seed}: {:?}", markets.shared.doubts);
    everybody_finds(&mut markets);
    let ends = numbers.iter().filter_map(|(_, number)| markets.shared.asked[number].end.as_ref());
    let (named, dead) = ends.fold((0, 0), |(named, dead), end| (named + end.offers.len(), dead + end.dead));
    Lived { named, dead, healed }
}

/// At rest: the cheapest of all that are fast enough, at the cost of the next, or none if there is none.
fn everybody_finds(markets: &mut Markets) {
    let seed = markets.seed;
    // Goods that were named and not bought are free then.
    markets.run(2 * markets.shared.config.hold);
    for shift in 0..5 {
        let by = markets.somebody();
        let capacity = SPEED << shift;
        let for_sale = markets.for_sale();
        let first = Market::first(Kind::Cycles, capacity);
        let above = for_sale.iter().filter(|(market, _)| {
            market.kind == Kind::Cycles && first.is_some_and(|first| **market >= first)
        });
        let sellers = above.flat_map(|(_, sellers)| sellers);
        let mut costs: Vec<_> = sellers.filter_map(|n| Some(markets.sells(*n, Kind::Cycles)?.cost)).collect();
        costs.sort_unstable();
        let end = markets.searched(by, unit(capacity)).expect("the asker lives");
        let offer = end.offers.first();
        let found = offer.map(|offer| offer.goods.cost);
        assert_eq!(found, costs.first().copied(), "seed {seed}: {by} wants {capacity}: {end:?}");
        let second = costs.get(1).copied();
        assert!(
            second.is_none_or(|second| offer.is_some_and(|offer| offer.price == second)),
            "seed {seed}: {second:?} is the price: {end:?}"
        );
        assert!(found.is_some() || end.shortage == Some(NoDeal::NoSeller), "seed {seed}: {end:?}");
        markets.run(Duration::from_secs(15));
    }
    assert_eq!(markets.check(RingId::NODES, true), Vec::<String>::new(), "seed {seed}");
}
