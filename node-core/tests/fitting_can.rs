//! Stories of jobs with requirements in a swarm whose nodes are found by a CAN.

use crate::far_guests::secret;
use crate::rn_tree;
use node_core::requires::{Binding, Matchmaking, Requires};
use node_core::work::spec::{Find, JobSpec};
use node_core::{Config, JobId};
use sandbox::{Outcome, Task};
use simulator::World;
use std::collections::BTreeMap;
use std::time::Duration;

const A_MINUTE: Duration = Duration::from_secs(60);
const NODES: usize = 19;
const JOBS: usize = 60;

fn slow(task: &Task) -> (Duration, Outcome) {
    (Duration::from_secs(20), simulator::echo(task).1)
}

/// One in six is fast: so few that jobs for them are marked with them.
fn is_fast(at: usize) -> bool {
    at % 6 == 1
}

/// The gateway runs nothing.
fn swarm(seed: u64, binding: Binding) -> World {
    let mut world = World::seed(seed).with(slow);
    for at in 0..NODES {
        let power = if is_fast(at) { 3000 } else { 1000 };
        let matchmaking = Matchmaking::Can;
        let config = Config { power, binding, matchmaking, ..rn_tree::config(at) };
        world.add_keyed(config, &secret(at));
        if at > 0 {
            world.connect(at, 0);
        }
    }
    world.run_for(A_MINUTE * 3);
    world
}

/// Jobs of one unit, every fourth for fast nodes only.
fn submit(world: &mut World) -> Vec<JobId> {
    let job = |world: &mut World, at: usize| {
        let speed = if at.is_multiple_of(4) { 2_000_000_000 } else { 0 };
        let requires = Box::new(Requires { speed, ..Requires::default() });
        let spec = JobSpec { find: Find::Fitting, requires, ..world.sweep(0, 1) };
        let job = world.submit(0, spec);
        world.run_for(Duration::from_millis(200));
        job
    };
    (0..JOBS).map(|at| job(world, at)).collect()
}

/// Jobs that each node has run, when all are done.
fn runners(world: &mut World, jobs: &[JobId]) -> BTreeMap<usize, u32> {
    let are_over =
        |w: &World| jobs.iter().all(|job| w.node(0).job(*job).is_some_and(|job| job.state.is_over()));
    world.run_until(A_MINUTE * 20, "all jobs are done", are_over);
    let mut by_node = BTreeMap::new();
    for (at, job) in jobs.iter().enumerate() {
        let view = world.node(0).job(*job).unwrap();
        assert_eq!((view.done, view.failed), (1, 0), "seed {}", world.seed);
        let node = world.find(view.by_node[0].0).unwrap();
        assert!(at % 4 != 0 || is_fast(node), "seed {}: job {at} ran on {node}", world.seed);
        *by_node.entry(node).or_default() += 1;
    }
    by_node
}

#[test]
fn idle_nodes_take_jobs_and_scarce_ones_are_marked_where_the_can_finds_who_can_run_them() {
    for seed in 0..5 {
        let mut world = swarm(seed, Binding::Pull);
        let jobs = submit(&mut world);
        let scarce = world.node(0).fitting().unwrap().view(jobs[40]).expect("it waits");
        assert!(!scarce.capable.is_empty(), "seed {seed}: {scarce:?}");
        let fast = |node: &node_core::NodeId| world.find(*node).is_some_and(is_fast);
        assert!(scarce.capable.iter().all(fast), "seed {seed}: {scarce:?}");
        let by_node = runners(&mut world, &jobs);
        assert_eq!(by_node.len(), NODES - 1, "seed {seed}: {by_node:?}");
    }
}

#[test]
fn jobs_are_pushed_to_where_less_waits_and_stolen_from_where_more_does() {
    for seed in 0..5 {
        let mut world = swarm(seed, Binding::Pushed);
        let jobs = submit(&mut world);
        let by_node = runners(&mut world, &jobs);
        assert!(by_node.len() > NODES * 3 / 4, "seed {seed}: {by_node:?}");
        assert!(by_node.values().all(|jobs| *jobs <= 12), "seed {seed}: the load is shared: {by_node:?}");
    }
}

#[test]
fn jobs_of_nodes_that_die_run_elsewhere_whatever_binds_them() {
    for (seed, binding) in [(0, Binding::Pull), (1, Binding::Early), (2, Binding::Pushed)] {
        let mut world = swarm(seed, binding);
        let jobs = submit(&mut world);
        world.crash(7);
        world.crash(8);
        let by_node = runners(&mut world, &jobs);
        assert!(by_node.get(&7).is_none_or(|jobs| *jobs <= 2), "seed {seed}: {by_node:?}");
    }
}
