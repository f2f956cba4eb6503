//! Rings that only grow.

use crate::ring::{SECOND, everybody_looks_up, small};
use node_core::circle::RingId;
use node_core::overlay::ring::{Mode, RingConfig};
use simulator::ring::Rings;

#[test]
fn the_first_node_is_the_ring_and_owns_everything() {
    let mut rings = Rings::grown(1, RingConfig::default(), 1);
    assert_eq!(everybody_looks_up(&mut rings, 5, Mode::Iterative), 0.0);
}

#[test]
fn a_few_nodes_all_know_each_other() {
    for count in 2..20 {
        let mut rings = Rings::grown(count as u64, RingConfig::default(), count);
        for mode in [Mode::Iterative, Mode::Recursive] {
            assert!(everybody_looks_up(&mut rings, 10, mode) <= 1.3, "{count} nodes");
        }
        assert_eq!(rings.faults, Vec::new());
    }
}

#[test]
fn a_thousand_nodes_come_one_by_one_and_every_lookup_is_right() {
    let mut rings = Rings::grown(3, RingConfig::default(), 1000);
    rings.run(300 * SECOND);
    for mode in [Mode::Iterative, Mode::Recursive] {
        let hops = everybody_looks_up(&mut rings, 3, mode);
        println!("{mode:?}: {hops:.2} hops");
        assert!(hops < 4.98, "{hops}");
    }
    assert_eq!(rings.faults, Vec::new());
}

#[test]
fn a_thousand_nodes_come_all_at_once() {
    let mut rings = Rings::new(4, RingConfig::default());
    for _ in 0..1000 {
        rings.join();
    }
    let took = rings.settle(240 * SECOND);
    println!("1000 at once took {took:?}, {} messages", rings.messages);
    everybody_looks_up(&mut rings, 1, Mode::Iterative);
    assert_eq!(rings.faults, Vec::new());
}

/// After every single event: nobody's key has two owners, and all that have a place are one ring.
#[test]
fn who_joins_answers_for_nothing_until_it_is_known() {
    for seed in 0..40 {
        let mut rings = Rings::new(seed, small());
        for _ in 0..12 {
            let together = 1 + rings.rng.below(4);
            for _ in 0..together {
                rings.join();
            }
            let pause = rings.rng.below(3000);
            rings.run_checked(RingId::NODES, std::time::Duration::from_millis(pause));
        }
        rings.settle(60 * SECOND);
        assert_eq!(rings.faults, Vec::new());
    }
}

#[test]
fn messages_upkeep_and_state_are_small() {
    let mut rings = Rings::grown(7, RingConfig::default(), 200);
    rings.run(200 * SECOND);
    rings.weigh = true;
    let before = rings.bytes;
    rings.run(100 * SECOND);
    let upkeep = (rings.bytes - before) / 200 / 100;
    everybody_looks_up(&mut rings, 2, Mode::Recursive);
    let (mean, most) = rings.memory();
    println!(
        "{upkeep} bytes a node and second, {} the longest message, {mean} and {most} of state",
        rings.longest
    );
    assert!(upkeep < 250, "{upkeep} bytes a node and second");
    assert!(rings.longest < 1400, "a list of 16 and some: {}", rings.longest);
    assert!(most < 16 * 1024, "{most} bytes of state");
}
