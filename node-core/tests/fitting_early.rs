//! Stories of early binding, with which the product's pull is compared: a job waits in the queue of the node that its owner
//! has chosen.

use crate::fitting_queue::{self, JOBS, runners, submit};
use crate::rn_tree;
use node_core::Config;
use node_core::requires::Binding;
use simulator::World;
use std::time::Duration;

const NODES: usize = 13;

/// Every so many-th job is for fast nodes only.
const NTH: usize = 2;

fn is_fast(at: usize) -> bool {
    at % 3 == 1
}

/// The gateway runs nothing.
fn swarm(seed: u64) -> World {
    fitting_queue::grown(seed, NODES, |at| {
        let power = if is_fast(at) { 3000 } else { 1000 };
        Config { power, binding: Binding::Early, ..rn_tree::config(at) }
    })
}

#[test]
fn a_job_waits_in_the_queue_of_the_node_that_was_chosen() {
    for seed in 0..5 {
        let mut world = swarm(seed);
        let jobs = submit(&mut world, NTH);
        let views = |w: &World| {
            jobs.iter().filter_map(|job| w.node(0).fitting().unwrap().view(*job)).collect::<Vec<_>>()
        };
        world.run_for(Duration::from_secs(5));
        let waiting = views(&world);
        assert!(waiting.len() > JOBS / 3, "seed {seed}: {} wait", waiting.len());
        for view in waiting {
            assert_eq!((view.meetings.len(), view.capable.len()), (0, 1), "seed {seed}: it is bound");
        }
        let by_node = runners(&mut world, (&jobs, NTH), is_fast);
        assert_eq!(by_node.len(), NODES - 1, "seed {seed}: {by_node:?}");
        assert!(by_node.values().all(|jobs| *jobs <= 12), "seed {seed}: the load is shared: {by_node:?}");
    }
}

#[test]
fn jobs_in_the_queue_of_a_node_that_dies_are_bound_to_others() {
    for seed in 0..5 {
        let mut world = swarm(seed);
        let jobs = submit(&mut world, NTH);
        world.crash(4);
        let by_node = runners(&mut world, (&jobs, NTH), is_fast);
        assert!(by_node.get(&4).is_none_or(|jobs| *jobs <= 2), "seed {seed}: {by_node:?}");
    }
}
