//! Nodes that die without a word.

use crate::tree::net::{Faults, Net, SECOND};

/// So many of a thousand die at the same moment, the node that others join by never.
fn fail_at_once(net: &mut Net, of_thousand: u64) -> usize {
    let mut dead = 0;
    for i in net.alive().into_iter().skip(1) {
        if net.rng.below(1000) < of_thousand {
            net.kill(i);
            dead += 1;
        }
    }
    dead
}

fn at_level(net: &Net, level: u8) -> Vec<usize> {
    net.alive().into_iter().filter(|i| net.view(*i).level() == level).collect()
}

#[test]
fn a_leaf_that_dies_is_forgotten() {
    let mut net = Net::grown(1, 4, 120);
    let leaf = at_level(&net, 0)[5];
    net.kill(leaf);
    net.settle(30 * SECOND);
}

#[test]
fn the_place_of_an_inner_node_goes_to_a_leaf_of_its_branch() {
    for seed in 0..3 {
        let mut net = Net::grown(seed, 4, 300);
        for level in [1, 2] {
            let inner = at_level(&net, level)[1];
            let range = net.view(inner).range().expect("an inner node has a branch");
            let (leaves, before) = (at_level(&net, 0), at_level(&net, level));
            net.kill(inner);
            let took = net.settle(40 * SECOND);
            println!("seed {seed}: level {level} healed after {took:?}");
            let new: Vec<usize> = at_level(&net, level).into_iter().filter(|i| !before.contains(i)).collect();
            let [successor] = new[..] else { panic!("seed {seed}, level {level}: {new:?} came for one") };
            assert!(leaves.contains(&successor), "seed {seed}, level {level}: {successor} was no leaf");
            let key = net.nodes[successor].contact.key();
            assert!(range.contains(key), "seed {seed}, level {level}: {successor} is of another branch");
        }
    }
}

#[test]
fn the_coordinator_of_the_root_group_can_die() {
    for seed in 0..3 {
        let mut net = Net::grown(seed, 4, 200);
        let root = net.views().into_iter().find_map(|v| v.root()).unwrap();
        let members = root.members().count();
        let coordinator =
            (0..net.nodes.len()).find(|i| net.nodes[*i].contact.id == root.coordinator()).unwrap();
        net.kill(coordinator);
        let took = net.settle(40 * SECOND);
        println!("seed {seed}: {members} members, healed after {took:?}");
    }
}

#[test]
fn a_lone_root_can_die() {
    for seed in 0..10 {
        let mut net = Net::grown(seed, 4, 11);
        let roots = net.alive().into_iter().filter(|i| net.view(*i).root().is_some()).collect::<Vec<_>>();
        for root in roots.into_iter().filter(|i| *i != 0) {
            net.kill(root);
        }
        let took = net.settle(60 * SECOND);
        println!("seed {seed}: healed after {took:?}");
    }
}

#[test]
fn a_tenth_of_all_nodes_dies_and_the_tree_is_whole_within_30_seconds() {
    for seed in 0..6 {
        let mut net = Net::grown(seed, 4, 400);
        let dead = fail_at_once(&mut net, 100);
        let took = net.settle(30 * SECOND);
        println!("seed {seed}: {dead} died, healed after {took:?}");
    }
}

#[test]
fn half_of_all_nodes_die_and_the_tree_is_whole_within_120_seconds() {
    for seed in 0..6 {
        let mut net = Net::grown(seed, 4, 400);
        let dead = fail_at_once(&mut net, 500);
        let took = net.settle(120 * SECOND);
        println!("seed {seed}: {dead} died, healed after {took:?}");
    }
}

#[test]
fn a_parent_that_dies_in_the_middle_of_a_split_leaves_a_whole_tree() {
    let (mut before, mut after) = (0, 0);
    for step in 0..24 {
        let mut net = Net::grown(9, 4, 60);
        let children = |net: &Net, i: usize| net.view(i).children().count();
        let parents = at_level(&net, 1).into_iter().filter(|i| *i != 0);
        let parent = parents.max_by_key(|i| children(&net, *i)).unwrap();
        let range = net.view(parent).range().unwrap();
        let base = net.view(parent).children().next().unwrap().0.ip.0;
        let mut address = u32::from_be_bytes([base[12], base[13], base[14], base[15]]);
        // Its group is full; one more is one too many.
        while children(&net, parent) < 8 {
            address += 3;
            net.add(address);
            net.run(SECOND);
        }
        net.add(address + 3);
        net.run(SECOND * step / 40);
        match net.view(parent).range() == Some(range) {
            true => before += 1,
            false => after += 1,
        }
        net.kill(parent);
        let took = net.settle(60 * SECOND);
        println!("after {step} fortieths of a second: healed after {took:?}");
    }
    assert!(before > 0 && after > 0, "{before} moments were before the split was done, {after} after");
}

#[test]
fn joins_and_deaths_under_loss_doubling_and_disorder_end_in_a_tree() {
    for seed in 0..6 {
        let mut net = Net::grown(seed, 4, 150);
        net.faults = Faults { loss: 30, double: 30, disorder_ms: 400, ..Faults::default() };
        for _ in 0..100 {
            let address = net.rng.u64() as u32;
            if net.rng.below(2) == 0 {
                net.add(address);
            } else {
                let alive = net.alive();
                let victim = alive[1 + net.rng.below(alive.len() as u64 - 1) as usize];
                net.kill(victim);
            }
            net.run(SECOND / 2);
            assert_eq!(net.check(false), Vec::<String>::new());
        }
        net.faults = Faults::default();
        // The slow refresh repairs what messages that were lost for good have left wrong.
        let took = net.settle(240 * SECOND);
        println!("seed {seed}: healed after {took:?}");
    }
}

/// Prints how long it takes, seed by seed; minutes: `cargo test --release -p node-core --test stories
/// mass_failures -- --ignored --nocapture`.
#[test]
#[ignore = "takes minutes"]
fn large_trees_survive_mass_failures_in_time() {
    let failures = [(100, 30), (500, 120)];
    let mut took = [Vec::new(), Vec::new()];
    for seed in 0..32 {
        let mut net = Net::grown(seed, 10, 5000);
        for (i, (of_thousand, _)) in failures.into_iter().enumerate() {
            let dead = fail_at_once(&mut net, of_thousand);
            let time = net.settle(300 * SECOND).as_secs();
            println!("seed {seed}: {dead} of {} died, healed after {time} s", dead + net.alive().len());
            took[i].push(time);
        }
    }
    for (mut times, (of_thousand, within)) in took.into_iter().zip(failures) {
        times.sort_unstable();
        let (median, most) = (times[times.len() / 2], times[times.len() - 1]);
        println!("{of_thousand} of a thousand: healed after {median} s in the median, {most} s at most");
        assert!(most <= within, "{times:?}");
    }
}
