//! Nodes that go of their own accord, trees that shrink, and trees that were one once.

use crate::tree::net::{Faults, Net, SECOND};
use node_core::overlay::tree::{Command, TreeConfig};

fn depart(net: &mut Net, i: usize) {
    net.command(i, Command::Leave);
    let begun = net.now;
    while !net.left.contains(&i) {
        net.run(SECOND / 4);
        assert!(net.now.since(begun) < 60 * SECOND, "it does not get away");
    }
    net.kill(i);
}

#[test]
fn a_leaf_an_inner_node_and_a_root_can_leave() {
    for seed in 0..3 {
        let mut net = Net::grown(seed, 4, 200);
        for level in [0, 1, 2] {
            let all: Vec<usize> = net.alive().into_iter().filter(|i| net.view(*i).level() == level).collect();
            let Some(one) = all.into_iter().find(|i| *i != 0) else { continue };
            depart(&mut net, one);
            let took = net.settle(60 * SECOND);
            println!("seed {seed}: one of level {level} left, quiet after {took:?}");
        }
        assert_eq!(net.faulty, Vec::<String>::new());
    }
}

#[test]
fn the_coordinator_can_leave() {
    for (seed, count) in [(1, 5), (2, 10), (3, 200)] {
        let mut net = Net::grown(seed, 4, count);
        let root = net.views().into_iter().find_map(|v| v.root()).unwrap();
        let one = (0..count).find(|i| net.nodes[*i].contact.id == root.coordinator()).unwrap();
        depart(&mut net, one);
        net.settle(60 * SECOND);
    }
}

#[test]
fn a_tree_shrinks_to_nothing_level_by_level() {
    let mut net = Net::grown(4, 4, 120);
    let mut all = net.alive();
    while let Some(i) = all.pop() {
        depart(&mut net, i);
        if all.len().is_multiple_of(10) && !all.is_empty() {
            net.settle(90 * SECOND);
        }
    }
    assert_eq!(net.left.len(), 120);
}

#[test]
fn a_root_group_grows_at_2k_and_a_lone_root_gives_way_below_2k() {
    for (m, k) in [(4, 4), (4, 2), (6, 4)] {
        let mut net = Net::new(7, TreeConfig { m, k, ..TreeConfig::default() });
        let most = 2 * usize::from(k);
        net.grow(most);
        net.settle(60 * SECOND);
        let height = |net: &Net| net.views().iter().map(|v| v.level()).max().unwrap();
        assert_eq!(height(&net), 0, "2k = {most} leaves are one root group");
        net.grow(1);
        net.settle(60 * SECOND);
        // A root above 2k leaves: it is one of the 2k + 1, so it has just enough.
        assert_eq!(height(&net), 1, "2k + 1 are one too many");
        let leaf = net.alive().into_iter().rev().find(|i| net.view(*i).level() == 0 && *i != 0).unwrap();
        depart(&mut net, leaf);
        net.settle(90 * SECOND);
        assert_eq!(height(&net), 0, "2k - 1 children do not keep a root");
    }
}

#[test]
fn two_halves_that_lost_each_other_become_one_tree_again() {
    for seed in 0..3 {
        let mut net = Net::grown(seed, 4, 150);
        let side: Vec<bool> = (0..150).map(|_| net.rng.below(2) == 0).collect();
        net.partition(Some(side));
        net.run(150 * SECOND);
        let roots = net
            .views()
            .iter()
            .filter_map(|v| v.root().map(|r| r.coordinator()))
            .collect::<std::collections::BTreeSet<_>>();
        assert!(roots.len() > 1, "each half has a root of its own");
        net.partition(None);
        let took = net.settle(400 * SECOND);
        println!("seed {seed}: {} roots, one tree after {took:?}", roots.len());
    }
}

#[test]
fn any_sequence_of_joins_leaves_deaths_and_broken_links_ends_in_a_tree() {
    any_sequence(100..112);
}

#[test]
#[ignore = "takes minutes"]
fn a_thousand_sequences_end_in_trees() {
    any_sequence(1000..2000);
}

fn any_sequence(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let mut net = Net::new(seed, TreeConfig::of(3 + (seed % 4) as u8));
        net.grow(20);
        for _ in 0..80 {
            let alive = net.alive();
            let one = alive[net.rng.below(alive.len() as u64) as usize];
            let other = alive[net.rng.below(alive.len() as u64) as usize];
            match net.rng.below(10) {
                0..5 => {
                    let address = net.rng.u64() as u32;
                    net.add(address);
                }
                5 | 6 if one != alive[0] => net.kill(one),
                7 if one != alive[0] => net.command(one, Command::Leave),
                8 if one != other => net.cut_link(one, other),
                _ => {
                    net.faults = if net.rng.below(2) == 0 {
                        Faults::default()
                    } else {
                        Faults { loss: 50, double: 50, disorder_ms: 300, ..Faults::default() }
                    }
                }
            }
            let pause = net.rng.below(3000);
            net.run(std::time::Duration::from_millis(pause));
            for gone in std::mem::take(&mut net.left) {
                net.kill(gone);
            }
            assert_eq!(net.check(false), Vec::<String>::new(), "seed {seed}");
        }
        net.faults = Faults::default();
        for _ in 0..40 {
            net.run(SECOND);
            for gone in std::mem::take(&mut net.left) {
                net.kill(gone);
            }
        }
        let took = net.settle(300 * SECOND);
        println!("seed {seed}: {} nodes, one tree after {took:?}", net.alive().len());
    }
}
