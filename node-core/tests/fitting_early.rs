//! Stories of early binding, with which the product's pull is compared: a job waits in the queue of the node that its owner
//! has chosen.

use crate::far_guests::secret;
use crate::rn_tree;
use node_core::requires::{Binding, Requires};
use node_core::work::spec::{Find, JobSpec};
use node_core::{Config, JobId};
use sandbox::{Outcome, Task};
use simulator::World;
use std::collections::BTreeMap;
use std::time::Duration;

const A_MINUTE: Duration = Duration::from_secs(60);
const NODES: usize = 13;
const JOBS: usize = 60;

fn slow(task: &Task) -> (Duration, Outcome) {
    (Duration::from_secs(20), simulator::echo(task).1)
}

/// The gateway runs nothing; every third node is fast.
fn swarm(seed: u64) -> World {
    let mut world = World::seed(seed).with(slow);
    for at in 0..NODES {
        let power = if at % 3 == 1 { 3000 } else { 1000 };
        world.add_keyed(Config { power, binding: Binding::Early, ..rn_tree::config(at) }, &secret(at));
        if at > 0 {
            world.connect(at, 0);
        }
    }
    world.run_for(A_MINUTE * 3);
    world
}

/// Jobs of one unit, every second for fast nodes only.
fn submit(world: &mut World) -> Vec<JobId> {
    let job = |world: &mut World, at: usize| {
        let speed = if at.is_multiple_of(2) { 2_000_000_000 } else { 0 };
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
        assert!(at % 2 == 1 || node % 3 == 1, "seed {}: job {at} ran on {node}", world.seed);
        *by_node.entry(node).or_default() += 1;
    }
    by_node
}

#[test]
fn a_job_waits_in_the_queue_of_the_node_that_was_chosen() {
    for seed in 0..5 {
        let mut world = swarm(seed);
        let jobs = submit(&mut world);
        let views = |w: &World| {
            jobs.iter().filter_map(|job| w.node(0).fitting().unwrap().view(*job)).collect::<Vec<_>>()
        };
        world.run_for(Duration::from_secs(5));
        let waiting = views(&world);
        assert!(waiting.len() > JOBS / 3, "seed {seed}: {} wait", waiting.len());
        for view in waiting {
            assert_eq!((view.meetings.len(), view.capable.len()), (0, 1), "seed {seed}: it is bound");
        }
        let by_node = runners(&mut world, &jobs);
        assert_eq!(by_node.len(), NODES - 1, "seed {seed}: {by_node:?}");
        assert!(by_node.values().all(|jobs| *jobs <= 12), "seed {seed}: the load is shared: {by_node:?}");
    }
}

#[test]
fn jobs_in_the_queue_of_a_node_that_dies_are_bound_to_others() {
    for seed in 0..5 {
        let mut world = swarm(seed);
        let jobs = submit(&mut world);
        world.crash(4);
        let by_node = runners(&mut world, &jobs);
        assert!(by_node.get(&4).is_none_or(|jobs| *jobs <= 2), "seed {seed}: {by_node:?}");
    }
}
