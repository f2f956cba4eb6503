//! Whatever happens, in any order, from random seeds: first safety while it happens, then, when
//! it stops, the ideal ring.

use crate::ring::{SECOND, small};
use node_core::circle::RingId;
use simulator::ring::life::{WELL, live};
use simulator::ring::{Conditions, Rings};
use std::time::Duration;

#[test]
fn any_sequence_of_joins_leaves_deaths_and_restarts_is_safe_and_ends_in_the_ideal_ring() {
    // MANYHANDS_SEEDS=N runs more; so does `simulator --swarm N --of ring`, side by side.
    let count = std::env::var("MANYHANDS_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(200);
    let (mut asked, mut right, mut longest) = (0, 0, Duration::ZERO);
    for life in (0..count).map(live) {
        asked += life.asked;
        right += life.right;
        longest = longest.max(life.healed);
    }
    println!("{count} seeds, {right} of {asked} lookups right, ideal after {longest:?} at most");
    assert!(asked - right <= asked / 1000, "{right} of {asked}");
}

/// With frames lost and connections broken, lives are taken for deaths; nobody's key has two
/// owners all the same, and all is well afterwards.
#[test]
fn losses_and_broken_connections_do_no_lasting_harm() {
    let count = std::env::var("MANYHANDS_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(100);
    for seed in 10_000..10_000 + count {
        let mut rings = Rings::grown(seed, small(), 16);
        rings.conditions.loss = 30;
        for _ in 0..40 {
            let alive = rings.alive();
            let some = |rings: &mut Rings| alive[rings.rng.below(alive.len() as u64) as usize];
            let (one, other) = (some(&mut rings), some(&mut rings));
            match rings.rng.below(4) {
                0 if one != other => rings.cut_link(one, other),
                1 if alive.len() < 30 => drop(rings.join()),
                2 => {
                    let order = rings.in_order(RingId::NODES);
                    let at = rings.rng.below(order.len() as u64) as usize;
                    rings.cut_link(order[at], order[(at + 1) % order.len()]);
                }
                _ => {}
            }
            let pause = rings.rng.below(4000);
            rings.run(Duration::from_millis(pause));
            let wrong = rings.check(RingId::NODES, false);
            let two = wrong.iter().filter(|wrong| wrong.contains("both owned"));
            assert_eq!(two.count(), 0, "seed {seed}: {wrong:?}");
        }
        rings.conditions = Conditions::default();
        rings.run(30 * SECOND);
        rings.settle(WELL);
    }
}
