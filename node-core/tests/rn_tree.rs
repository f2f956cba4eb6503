//! Stories of the tree that knows what nodes can do: it forms from the ring, follows it, and finds who can run what.

use crate::far_guests::secret;
use node_core::capability::{Candidate, Capability};
use node_core::overlay::rn_tree::RnTree;
use node_core::requires::Matchmaking;
use node_core::{Command, Config, NodeEvent, NodeInput};
use simulator::World;
use std::sync::Arc;
use std::time::Duration;

const A_MINUTE: Duration = Duration::from_secs(60);
const NODES: usize = 24;

/// The gateway runs nothing; of the others every fourth has memory for large units.
pub(crate) fn config(at: usize) -> Config {
    Config {
        gateway: at == 0,
        founds: at == 0,
        slots: u32::from(at != 0),
        port: Some(4001),
        memory_bytes: if at % 4 == 3 { 8 << 30 } else { 1 << 30 },
        power: 1000 + at as u32,
        ring: Some(Arc::default()),
        matchmaking: Matchmaking::RnTree,
        ..Config::default()
    }
}

fn swarm(seed: u64) -> World {
    grown(seed, NODES, config)
}

/// A swarm of so many nodes, when its trees stand.
pub(crate) fn grown(seed: u64, nodes: usize, config: fn(usize) -> Config) -> World {
    grow(World::seed(seed), nodes, config)
}

/// The world with so many nodes, when their trees stand.
pub(crate) fn grow(mut world: World, nodes: usize, config: impl Fn(usize) -> Config) -> World {
    for at in 0..nodes {
        world.add_keyed(config(at), &secret(at));
        if at > 0 {
            world.connect(at, 0);
        }
    }
    world.run_for(A_MINUTE * 3);
    world
}

fn tree(world: &World, at: usize) -> &RnTree {
    world.node(at).rn_tree().expect("it takes part")
}

/// Checks that those who are there are one tree, whose root knows them all.
fn check(world: &World, there: &[usize]) {
    let seed = world.seed;
    let roots: Vec<usize> = there.iter().copied().filter(|at| tree(world, *at).is_root()).collect();
    let [root] = roots[..] else { panic!("seed {seed}: the roots are {roots:?}") };
    for at in there.iter().copied().filter(|at| *at != root) {
        let parent = tree(world, at).parent().and_then(|parent| world.find(parent));
        let parent = parent.unwrap_or_else(|| panic!("seed {seed}: node {at} has no parent"));
        let id = world.nodes[at].id;
        assert!(tree(world, parent).children().any(|child| child == id), "seed {seed}: {parent} of {at}");
    }
    let runners = there.iter().filter(|at| **at != 0).count() as u32;
    for at in there {
        let nodes = tree(world, *at).whole().map(|whole| whole.nodes());
        assert_eq!(nodes, Some(runners), "seed {seed}: node {at} knows all");
    }
    // Other trees have races of their own.
    let faults = there.iter().flat_map(|at| world.faults(*at));
    let ours: Vec<String> =
        faults.filter(|fault| fault.contains("summary") || fault.contains("search")).collect();
    assert!(ours.is_empty(), "seed {seed}: {ours:?}");
}

/// The nodes that a search from there finds, and how many it came to.
fn find(world: &mut World, at: usize, needs: Capability, wanted: u16) -> (Vec<usize>, u16) {
    world.drive(at, NodeInput::Command(Command::FindCapable { number: 7, needs, wanted }));
    let mut answer: Option<(Vec<Candidate>, u16)> = None;
    for _ in 0..600 {
        for (_, by, event) in std::mem::take(&mut world.told) {
            if let NodeEvent::Capable { number: 7, found, visited } = event
                && by == at
            {
                answer = Some((found, visited));
            }
        }
        if answer.is_some() {
            break;
        }
        world.run_for(Duration::from_millis(100));
    }
    let (found, visited) = answer.expect("each search is answered");
    let mut found: Vec<usize> = found.iter().filter_map(|one| world.find(one.at.id)).collect();
    found.sort_unstable();
    (found, visited)
}

fn large() -> Capability {
    Capability { memory: 4 << 10, ..Capability::default() }
}

#[test]
fn members_of_the_ring_are_one_tree_whose_nodes_know_what_all_can_do() {
    for seed in 0..5 {
        check(&swarm(seed), &(0..NODES).collect::<Vec<_>>());
    }
}

#[test]
fn a_search_finds_all_who_can_and_passes_over_who_cannot() {
    for seed in 0..5 {
        let mut world = swarm(seed);
        let can: Vec<usize> = (0..NODES).filter(|at| at % 4 == 3).collect();
        for at in [0, 5, 11] {
            let (all, _) = find(&mut world, at, large(), 64);
            assert_eq!(all, can, "seed {seed}, from {at}");
            let (one, visited) = find(&mut world, at, large(), 1);
            assert!(one.len() == 1 && can.contains(&one[0]), "seed {seed}: {one:?}");
            assert!(usize::from(visited) < NODES / 2, "seed {seed}: {visited} nodes for one");
            let (any, visited) = find(&mut world, at, Capability { memory: 9 << 10, ..large() }, 1);
            assert!(any.is_empty(), "seed {seed}: nobody can");
            assert!(usize::from(visited) < NODES / 2, "seed {seed}: {visited} nodes for none");
        }
    }
}

#[test]
fn the_tree_is_whole_again_after_nodes_have_died() {
    for seed in 0..5 {
        let mut world = swarm(seed);
        let dead = [3, 8, 9, 16, 21];
        dead.iter().for_each(|at| world.crash(*at));
        world.run_for(A_MINUTE * 3);
        let there: Vec<usize> = (0..NODES).filter(|at| !dead.contains(at)).collect();
        check(&world, &there);
        let (all, _) = find(&mut world, 5, large(), 64);
        assert_eq!(all, [7, 11, 15, 19, 23], "seed {seed}");
    }
}
