//! Stories of jobs with requirements in a swarm whose nodes are found by a CAN.

use crate::fitting_queue::{self, runners, submit};
use crate::rn_tree;
use node_core::Config;
use node_core::requires::{Binding, Matchmaking};
use simulator::World;

const NODES: usize = 19;

/// Every so many-th job is for fast nodes only.
const NTH: usize = 4;

/// One in six is fast: so few that jobs for them are marked with them.
fn is_fast(at: usize) -> bool {
    at % 6 == 1
}

/// The gateway runs nothing.
fn swarm(seed: u64, binding: Binding) -> World {
    let matchmaking = Matchmaking::Can;
    fitting_queue::grown(seed, NODES, |at| {
        let power = if is_fast(at) { 3000 } else { 1000 };
        Config { power, binding, matchmaking, ..rn_tree::config(at) }
    })
}

#[test]
fn idle_nodes_take_jobs_and_scarce_ones_are_marked_where_the_can_finds_who_can_run_them() {
    for seed in 0..5 {
        let mut world = swarm(seed, Binding::Pull);
        let jobs = submit(&mut world, NTH);
        let scarce = world.node(0).fitting().unwrap().view(jobs[40]).expect("it waits");
        assert!(!scarce.capable.is_empty(), "seed {seed}: {scarce:?}");
        let fast = |node: &node_core::NodeId| world.find(*node).is_some_and(is_fast);
        assert!(scarce.capable.iter().all(fast), "seed {seed}: {scarce:?}");
        let by_node = runners(&mut world, (&jobs, NTH), is_fast);
        assert_eq!(by_node.len(), NODES - 1, "seed {seed}: {by_node:?}");
    }
}

#[test]
fn jobs_are_pushed_to_where_less_waits_and_stolen_from_where_more_does() {
    for seed in 0..5 {
        let mut world = swarm(seed, Binding::Pushed);
        let jobs = submit(&mut world, NTH);
        let by_node = runners(&mut world, (&jobs, NTH), is_fast);
        assert!(by_node.len() > NODES * 3 / 4, "seed {seed}: {by_node:?}");
        assert!(by_node.values().all(|jobs| *jobs <= 12), "seed {seed}: the load is shared: {by_node:?}");
    }
}

#[test]
fn jobs_of_nodes_that_die_run_elsewhere_whatever_binds_them() {
    for (seed, binding) in [(0, Binding::Pull), (1, Binding::Early), (2, Binding::Pushed)] {
        let mut world = swarm(seed, binding);
        let jobs = submit(&mut world, NTH);
        world.crash(7);
        world.crash(8);
        let by_node = runners(&mut world, (&jobs, NTH), is_fast);
        assert!(by_node.get(&7).is_none_or(|jobs| *jobs <= 2), "seed {seed}: {by_node:?}");
    }
}
