//! Markets as machines among themselves, on a ring: whole networks of them, checked from outside. The
//! network is the simulator's, `tests/simulator/src/market`.

mod churn;
mod failing;
mod lying;
mod measure;
mod trading;

use node_core::Platform;
use node_core::market::commodity::{Kind, Scheme};
use node_core::market::listing::Goods;
use node_core::market::money::{Micro, Price};
use node_core::market::{MarketConfig, Wanted};
use node_core::overlay::ring::RingConfig;
use simulator::market::Markets;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

const SCHEMES: [Scheme; 2] = [Scheme::Single, Scheme::Processor];

/// Fuel a second of a usual slot.
const SPEED: u64 = 1_000_000_000;

fn slots(capacity: u64, units: u16, cost: u64) -> Goods {
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

fn space(bytes: u64, cost: u64) -> Goods {
    Goods { kind: Kind::Files, ..slots(bytes, 1, cost) }
}

/// A unit of ten seconds on a usual slot, at most one credit.
fn unit(capacity: u64) -> Wanted {
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

fn config(scheme: Scheme) -> MarketConfig {
    MarketConfig { scheme, ..MarketConfig::default() }
}

/// Short lists, so that a few nodes are a ring that nobody sees the whole of.
fn small() -> RingConfig {
    RingConfig { successors: 6, ..RingConfig::default() }
}

/// So many nodes in a quiet ring, which sell nothing yet.
fn grown(seed: u64, config: MarketConfig, count: usize) -> Markets {
    let mut markets = Markets::with(seed, small(), config);
    markets.grow(count, 20);
    markets.settle(120 * SECOND);
    markets
}
