//! The ring overlay as machines among themselves: whole networks of them, checked from outside.
//! The network is the simulator's, `tests/simulator/src/ring`.

mod churn;
mod failing;
mod growing;
mod leaving;
mod lying;
mod several;

use node_core::circle::{Point, RingId};
use node_core::overlay::ring::{Mode, RingConfig};
use simulator::ring::Rings;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Short lists, so that a few nodes are a ring that nobody sees the whole of.
fn small() -> RingConfig {
    RingConfig { successors: 4, ..RingConfig::default() }
}

fn some_key(rings: &mut Rings) -> Point {
    Point(u128::from(rings.rng.u64()) << 64 | u128::from(rings.rng.u64()))
}

/// Every node looks up so many keys; all answers are right. The mean of their hops.
fn everybody_looks_up(rings: &mut Rings, each: usize, mode: Mode) -> f64 {
    let mut numbers = Vec::new();
    for by in rings.alive() {
        for _ in 0..each {
            let key = some_key(rings);
            numbers.push(rings.ask(by, RingId::NODES, key, mode));
        }
    }
    rings.finish();
    let mut hops = 0;
    for number in &numbers {
        let asked = &rings.lookups[number];
        assert!(asked.is_right(), "{asked:?}");
        hops += usize::from(asked.hops().unwrap_or(0));
    }
    hops as f64 / numbers.len() as f64
}
