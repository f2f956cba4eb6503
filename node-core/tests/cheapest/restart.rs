//! A gateway that goes and comes back, while its workers sell in several markets of a kind: the markets
//! that it owned, and the rendezvous nodes of their kinds, pass to others and come back.

use crate::cheapest::support::*;
use node_core::keys::Secret;
use node_core::market::MarketConfig;
use node_core::node::config::MarketPart;
use node_core::{Command, Config, NodeInput};
use simulator::World;
use simulator::network::Latency;
use std::sync::Arc;
use std::time::Duration;

/// Keys differ from seed to seed, so that other nodes own other markets.
fn key(seed: u64, at: usize) -> Secret {
    let mut bytes = [at as u8 + 1; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    Secret::from_bytes(&bytes)
}

/// One life: the gateway is killed and started four times. A node that does not come to an end at one
/// instant panics here, with what it did last.
fn play(seed: u64) -> World {
    let workers = 2 + (seed % 5) as usize;
    let mut world = World::seed(seed).with(long);
    let latency = [40_000, 300_000, 1_000_000, 2_000_000][(seed / 7 % 4) as usize];
    world.network.latency = Latency::Uniform(1_000, latency);
    world.network.stillborn = [0.0, 0.2][(seed / 28 % 2) as usize];
    let keyed = |at: usize, config: Config| {
        let part = MarketPart { config: Arc::new(MarketConfig::default()), secret: key(seed, at) };
        Config { market: Some(part), bank: None, ..config }
    };
    world.add_keyed(keyed(0, config(0, true, true)), &key(seed, 0));
    for at in 1..=workers {
        world.add_keyed(keyed(at, keeper(at)), &key(seed, at));
        world.connect(0, at);
    }
    world.run_for(Duration::from_secs(20));
    for at in 1..=workers {
        let capacity = 1_000_000_000 << (2 * at);
        world.drive(at, NodeInput::Command(Command::Sell(goods(capacity, 1000 * at as u64))));
    }
    world.run_for(Duration::from_secs(20));
    for (round, down_ms) in [6000, 500, 15_000, 40_000].into_iter().enumerate() {
        world.kill(0);
        world.run_for(Duration::from_millis(down_ms));
        world.start(0);
        let apart_ms = [0, 30, 3000][(seed as usize + round) % 3];
        for at in 1..=workers {
            world.connect(at, 0);
            world.run_for(Duration::from_millis(apart_ms));
        }
        world.run_for(Duration::from_secs(30));
    }
    world
}

/// With these of 3,000 seeds a node that was its own rendezvous, and the owner of two markets of the
/// kind, was told twice that it may be the first: its markets joined, left and asked at one instant, for
/// ever.
const ONCE_FAILED: [u64; 5] = [44, 279, 755, 1819, 2770];

#[test]
fn a_gateway_that_comes_back_hangs_nobody() {
    let seeds: Vec<u64> = match std::env::var("MANYHANDS_SEEDS") {
        Ok(count) => (0..count.parse().expect("MANYHANDS_SEEDS is a number")).collect(),
        Err(_) => ONCE_FAILED.into_iter().chain(0..5).collect(),
    };
    let mut hung = Vec::new();
    for seed in seeds {
        if std::panic::catch_unwind(|| play(seed)).is_err() {
            eprintln!("seed {seed} hangs");
            hung.push(seed);
        }
    }
    assert!(hung.is_empty(), "these seeds hang: {hung:?}");
}
