//! A page whose person has credit buys places, though it dials nobody but its gateway.

use crate::cheapest::support::*;
use node_core::Config;
use node_core::discovery::nearest::NearestConfig;
use node_core::node::config::{BankPart, Open};
use node_core::platform::Platform;
use sandbox::{Outcome, Task};
use simulator::World;
use std::sync::Arc;
use std::time::Duration;

fn short(task: &Task) -> (Duration, Outcome) {
    (Duration::from_secs(1), simulator::echo(task).1)
}

fn native(at: usize, founds: bool) -> Config {
    Config {
        founds,
        nearest: Arc::new(NearestConfig { relays: true, ..NearestConfig::default() }),
        signalling: Some(secret(at)),
        circuits: true,
        relay_rate: Some(10_000_000),
        ..config(at, true, founds)
    }
}

/// A gateway that is the bank, another one that sells, and a page that is told nothing.
fn swarm(seed: u64) -> World {
    let mut world = World::seed(seed).with(short);
    world.add_keyed(native(0, true), &secret(0));
    // Ids differ, so that sometimes the one and sometimes the other owns the market.
    let (seller, page) = (1 + seed as usize % 50, 51 + seed as usize % 50);
    let trader = Config { slots: 1, ..native(seller, false) };
    world.add_keyed(trader, &secret(seller));
    world.connect(1, 0);
    sell(&mut world, 1, 1000);
    world.run_for(Duration::from_secs(10));
    let tab = Config {
        port: None,
        platform: Platform::Browser,
        submits: true,
        slots: 0,
        open: Open { scheme: true, pricing: true, degree: true, matchmaking: true },
        bank: Some(BankPart { secret: secret(page), bank: None, rules: None }),
        signalling: Some(secret(page)),
        circuits: true,
        ..config(page, false, false)
    };
    world.add_keyed(tab, &secret(page));
    world.connect(2, 0);
    // By then the seller is its second gateway, too.
    world.run_for(Duration::from_secs(10));
    world
}

#[test]
fn a_page_with_credit_buys_a_place_from_a_server_at_once() {
    for seed in 0..40 {
        let mut world = swarm(seed);
        endow(&mut world, 2, CREDIT * 50);
        let began = world.now;
        let job = job(&mut world, 2, 2, CREDIT * 10);
        world.run_until(A_MINUTE * 5, "the job is over", |w| is_over(w, 2, job));
        let took = world.now.since(began);
        assert!(took < Duration::from_secs(20), "seed {seed}: two seconds of work took {took:?}");
        assert_settled(&mut world, 2);
    }
}
