//! Swarms and jobs of the stories in which jobs with requirements queue up for nodes.

use crate::rn_tree;
use node_core::requires::Requires;
use node_core::work::spec::{Find, JobSpec};
use node_core::{Config, JobId};
use sandbox::{Outcome, Task};
use simulator::World;
use std::collections::BTreeMap;
use std::time::Duration;

pub(crate) const A_MINUTE: Duration = Duration::from_secs(60);
pub(crate) const JOBS: usize = 60;

/// A unit takes 20 s.
fn slow(task: &Task) -> (Duration, Outcome) {
    (Duration::from_secs(20), simulator::echo(task).1)
}

/// A swarm of so many nodes, when it has settled.
pub(crate) fn grown(seed: u64, nodes: usize, config: impl Fn(usize) -> Config) -> World {
    rn_tree::grow(World::seed(seed).with(slow), nodes, config)
}

/// Jobs of one unit; every `nth` is for fast nodes only.
pub(crate) fn submit(world: &mut World, nth: usize) -> Vec<JobId> {
    let job = |world: &mut World, at: usize| {
        let speed = if at.is_multiple_of(nth) { 2_000_000_000 } else { 0 };
        let requires = Box::new(Requires { speed, ..Requires::default() });
        let spec = JobSpec { find: Find::Fitting, requires, ..world.sweep(0, 1) };
        let job = world.submit(0, spec);
        world.run_for(Duration::from_millis(200));
        job
    };
    (0..JOBS).map(|at| job(world, at)).collect()
}

/// Jobs that each node has run, when all are done: those for fast nodes on fast ones.
pub(crate) fn runners(
    world: &mut World,
    (jobs, nth): (&[JobId], usize),
    is_fast: fn(usize) -> bool,
) -> BTreeMap<usize, u32> {
    let are_over =
        |w: &World| jobs.iter().all(|job| w.node(0).job(*job).is_some_and(|job| job.state.is_over()));
    world.run_until(A_MINUTE * 20, "all jobs are done", are_over);
    let mut by_node = BTreeMap::new();
    for (at, job) in jobs.iter().enumerate() {
        let view = world.node(0).job(*job).unwrap();
        assert_eq!((view.done, view.failed), (1, 0), "seed {}", world.seed);
        let node = world.find(view.by_node[0].0).unwrap();
        assert!(!at.is_multiple_of(nth) || is_fast(node), "seed {}: job {at} ran on {node}", world.seed);
        *by_node.entry(node).or_default() += 1;
    }
    by_node
}
