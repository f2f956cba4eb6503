//! Markets as machines among themselves, on a ring: whole networks of them, checked from outside. The
//! network is the simulator's, `tests/simulator/src/market`.

mod around;
mod churn;
mod failing;
mod lying;
mod measure;
mod trading;
mod unpaid;

use node_core::goods::Scheme;
use node_core::market::MarketConfig;
use node_core::overlay::ring::RingConfig;
use simulator::market::Markets;
use simulator::market::life::{SCHEMES, SPEED, slots, space, unit};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

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
