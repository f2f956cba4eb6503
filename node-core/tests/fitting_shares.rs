//! Stories of submitters whose jobs wait for the same nodes: each has its share, however much it has submitted.

use crate::far_guests::secret;
use crate::fitting_queue::{self, A_MINUTE};
use crate::rn_tree;
use node_core::requires::Requires;
use node_core::work::spec::{Find, JobSpec};
use node_core::{Config, JobId};
use simulator::World;

const NODES: usize = 13;

/// Weight of each submitter at gateway 0, which runs nothing. By odd seeds node 1 owns its jobs itself.
fn swarm(seed: u64, weights: &[(usize, u16)]) -> World {
    fitting_queue::grown(seed, NODES, |at| {
        let weights = weights.iter().map(|(at, weight)| (secret(*at).node(), *weight));
        let submitters = if at == 0 { weights.collect() } else { Default::default() };
        // A submitter that runs jobs would run its own.
        let slots = u32::from(at > 1);
        let submits = at == 1 && seed % 2 == 1;
        Config { submitters, slots, submits, ..rn_tree::config(at) }
    })
}

fn submit(world: &mut World, at: usize, units: u32) -> JobId {
    let spec = world.sweep(at, units);
    world.submit(at, JobSpec { find: Find::Fitting, requires: Box::new(Requires::default()), ..spec })
}

/// Units of the job that have ended.
fn ended(world: &World, job: JobId) -> u32 {
    let views = [0, 1].into_iter().filter_map(|at| world.node(at).job(job));
    views.map(|job| job.done).max().unwrap_or_default()
}

#[test]
fn six_units_of_one_submitter_do_not_wait_for_six_hundred_of_another() {
    for seed in 0..5 {
        let mut world = swarm(seed, &[(1, 1)]);
        let large = submit(&mut world, 0, 600);
        world.run_for(A_MINUTE);
        let before = ended(&world, large);
        let small = submit(&mut world, 1, 6);
        world.run_until(A_MINUTE * 30, "the small job is done", |w| ended(w, small) == 6);
        let after = ended(&world, large);
        assert!(after - before < 40, "seed {seed}: {before} and {after} units of the large one were done");
        world.run_until(A_MINUTE * 60, "the large job is done", |w| ended(w, large) == 600);
    }
}

#[test]
fn whoever_has_three_times_the_weight_has_three_times_the_units_running() {
    for seed in [0, 2, 4, 6] {
        let mut world = swarm(seed, &[(0, 1), (1, 3)]);
        let light = submit(&mut world, 0, 600);
        let heavy = submit(&mut world, 1, 600);
        world.run_for(A_MINUTE);
        let before = (ended(&world, light), ended(&world, heavy));
        world.run_until(A_MINUTE * 30, "half are done", |w| ended(w, light) + ended(w, heavy) > 600);
        let after = (ended(&world, light), ended(&world, heavy));
        let (light, heavy) = (after.0 - before.0, after.1 - before.1);
        assert!((light * 2..light * 4).contains(&heavy), "seed {seed}: {light} and {heavy} units");
    }
}
