//! A swarm that has just begun: each node that comes takes markets over, while their overlays are made.

use crate::cheapest::support::*;
use node_core::goods::Kind;
use node_core::goods::Wanted;
use node_core::ids::NodeId;
use node_core::money::Micro;
use node_core::{Command, Config, NodeEvent, NodeInput};
use simulator::World;
use std::collections::BTreeSet;
use std::time::Duration;

/// Sellers of cycles and of space for checkpoints that come one after the other. Gateways begin each with a
/// ring of its own, which becomes one with that of the first. So many of the connections that they dial
/// break before anything gets through. The sellers' speeds differ, so there are several markets of a kind.
fn begun(seed: u64, sellers: usize, apart: u64, stillborn: f64) -> World {
    let mut world = World::seed(seed).with(long);
    world.network.stillborn = stillborn;
    let gateways = seed % 2 == 1;
    world.add_keyed(config(0, true, true), &secret(0));
    for at in 1..=sellers {
        world.add_keyed(Config { gateway: gateways, slots: 1, ..keeper(at) }, &secret(at));
        world.connect(0, at);
        sell_apart(&mut world, at, 1000 * at as u64);
        world.run_for(Duration::from_millis(apart));
    }
    world
}

/// Number of sellers that the market's present operators list.
fn listed(world: &World, kind: Kind) -> usize {
    let owners = (0..world.nodes.len()).filter_map(|at| world.node(at).markets());
    let books = owners.flat_map(|its| its.books()).filter(|book| book.mine && book.market.kind == kind);
    books.flat_map(|book| book.sellers).map(|entry| entry.seller.id).collect::<BTreeSet<NodeId>>().len()
}

/// Asks until somebody is found.
fn until_sold(world: &mut World, kind: Kind) -> Duration {
    let begun = world.now;
    let mut number = world.told.len() as u64;
    loop {
        let wanted = Wanted {
            kind,
            capacity: 1 << 20,
            minutes: 1,
            memory_mib: 0,
            engine: None,
            units: 1,
            quantity: FUEL,
            most: Micro(CREDIT << 20),
            tie: 0,
        };
        number += 1;
        world.drive(0, NodeInput::Command(Command::Quote { number, wanted }));
        let found = |world: &World| {
            world.told.iter().find_map(|(_, by, event)| match event {
                NodeEvent::Quoted { number: n, offers, .. } if (*by, *n) == (0, number) => Some(offers.len()),
                _ => None,
            })
        };
        world.run_until(A_MINUTE * 2, "the search ends", |w| found(w).is_some());
        if found(world) > Some(0) {
            return world.now.since(begun);
        }
        assert!(world.now.since(begun) < A_MINUTE * 2, "nobody is found");
        world.run_for(Duration::from_millis(100));
    }
}

/// Until what is for sale is listed, and until it is found from then on, at most.
fn until_listed_and_found(seed: u64, apart: u64, stillborn: f64) -> (Duration, Duration) {
    let sellers = 4 + seed as usize % 5;
    let mut world = begun(seed, sellers, apart, stillborn);
    let begun = world.now;
    for kind in [Kind::Cycles, Kind::Checkpoints] {
        world.run_until(A_MINUTE, "all are listed", |w| listed(w, kind) == sellers);
    }
    let took = world.now.since(begun);
    let found = [Kind::Cycles, Kind::Checkpoints].map(|kind| until_sold(&mut world, kind));
    // While connections break, nodes may disagree about a node's parent, and blame each other.
    assert!(stillborn > 0.0 || (0..=sellers).all(|at| world.faults(at).is_empty()));
    (took, found.into_iter().max().unwrap_or_default())
}

const APART: [u64; 4] = [20, 200, 500, 1500];

/// Seeds and distances that failed once, of 4,000 seeds. 408: a node that had left was named for 30 s as a
/// way in. 729: a market operator's timer was lost that was due together with a seller's. 661: another such
/// timer was put off by 5 s.
const ONCE_FAILED: [(u64, u64); 3] = [(408, 20), (729, 200), (661, 200)];

/// Plays 60 swarms, and those that once failed.
fn all_within(failed: &[(u64, u64)], stillborn: f64, most: [Duration; 2]) {
    let mut slowest = Duration::ZERO;
    for (seed, apart) in (0..60).zip(APART.into_iter().cycle()).chain(failed.iter().copied()) {
        let (listed, found) = until_listed_and_found(seed, apart, stillborn);
        assert!(listed <= most[0], "seed {seed}, {apart} ms apart: listed after {listed:?}");
        assert!(found <= most[1], "seed {seed}, {apart} ms apart: found after {found:?}");
        slowest = slowest.max(found);
    }
    println!("the slowest was found {slowest:?} after it was listed");
}

#[test]
fn what_is_listed_in_a_swarm_that_has_just_begun_is_found_within_seconds() {
    all_within(&ONCE_FAILED, 0.0, [10, 5].map(Duration::from_secs));
}

/// With 69 a door went round for ever between two that had left it; with 187 a search waited 30 s for a
/// way in that was none any more; with 18 a listing was lost until the next one was due.
const ONCE_FAILED_TO_DIAL: [(u64, u64); 3] = [(69, 200), (187, 1500), (18, 500)];

#[test]
fn connections_that_break_before_anything_gets_through_cost_seconds() {
    all_within(&ONCE_FAILED_TO_DIAL, 0.1, [20, 20].map(Duration::from_secs));
}
