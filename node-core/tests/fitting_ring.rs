//! Stories of jobs with requirements whose units the ring has: the owner of each, wherever it is, has nodes claim it.

use crate::far_guests::secret;
use crate::fitting::{self, fast, is_fast};
use crate::rn_tree;
use node_core::bounds::Bounds;
use node_core::requires::Requires;
use node_core::work::spec::{JobSpec, OwnedBy};
use node_core::{Config, JobId};
use simulator::World;
use std::collections::BTreeSet;
use std::time::Duration;

const A_MINUTE: Duration = Duration::from_secs(60);
const NODES: usize = 13;

fn config(at: usize) -> Config {
    let limits = Bounds { delegated_units: 1000, ..Bounds::default() };
    Config { limits: limits.into(), ..fitting::config(at) }
}

fn submit(world: &mut World, units: u32, requires: Requires) -> JobId {
    let spec = JobSpec { owner: OwnedBy::Ring, ..fitting::fitting(world, units, requires) };
    world.submit(0, spec)
}

/// Owners of the job's units, the gateway aside.
fn owners(world: &World, job: JobId) -> BTreeSet<usize> {
    let units = world.node(0).units(job, 0, 100).expect("the gateway has the job");
    let owners = units.iter().filter_map(|unit| world.find(unit.owner?));
    owners.filter(|at| *at != 0).collect()
}

fn marks(world: &World) -> usize {
    let alive = (0..world.nodes.len()).filter(|at| world.lives(*at));
    alive.map(|at| world.node(at).fitting().map_or(0, |it| it.kept().0)).sum()
}

/// Nobody can run it; its owners are known, and have marked it.
fn waiting(seed: u64, units: u32, owned_by: usize) -> (World, JobId) {
    let mut world = rn_tree::grown(seed, NODES, config);
    let rare = Requires { speed: 9_000_000_000, ..Requires::default() };
    let job = submit(&mut world, units, rare);
    world.run_for(A_MINUTE);
    assert!(
        !world.is_over(job) && owners(&world, job).len() >= owned_by,
        "seed {seed}: {:?}",
        owners(&world, job)
    );
    assert!(marks(&world) >= owners(&world, job).len(), "seed {seed}: each owner marks it");
    (world, job)
}

fn ends_at_fast_nodes(world: &mut World, job: JobId, units: u32) {
    let runners = fitting::runners(world, job, units);
    assert!(runners.iter().all(|at| is_fast(*at)), "seed {}: {runners:?}", world.seed);
    world.assert_all_right(job, units);
}

fn add_who_can(world: &mut World) -> usize {
    let at = world.nodes.len();
    world.add_keyed(Config { power: 9000, ..config(at) }, &secret(at));
    world.connect(at, 0);
    at
}

#[test]
fn each_unit_on_the_ring_runs_where_its_job_requires() {
    for seed in 0..5 {
        let mut world = rn_tree::grown(seed, NODES, config);
        let job = submit(&mut world, 40, fast());
        world.run_until(A_MINUTE, "the ring has the units", |w| owners(w, job).len() >= 3);
        ends_at_fast_nodes(&mut world, job, 40);
        world.run_for(Duration::from_secs(30));
        assert_eq!(marks(&world), 0, "seed {seed}: nothing is left of it");
    }
}

#[test]
fn a_job_on_the_ring_that_no_node_can_run_says_so() {
    let (mut world, job) = waiting(1, 12, 3);
    let view = world.node(0).job(job).unwrap();
    assert!(view.reason.contains("none of the 12 nodes of the swarm has"), "{}", view.reason);
    let units = world.node(0).units(job, 0, 100).unwrap();
    let told =
        units.iter().filter(|unit| unit.reason.contains("owns it and looks for a place: none of")).count();
    assert!(told > 0, "{:?}", units.iter().map(|unit| &unit.reason).collect::<Vec<_>>());
    let queue: Vec<u32> = world.node(0).job_queue(job).iter().map(|(_, waiting)| *waiting).collect();
    assert_eq!(queue.last(), Some(&12), "all of them wait, wherever their owners are: {queue:?}");
    world.drive(0, node_core::NodeInput::Command(node_core::Command::Cancel { job }));
    world.run_for(Duration::from_secs(30));
    assert_eq!(marks(&world), 0, "nothing is left of a job that was cancelled");
}

#[test]
fn units_that_wait_when_their_owner_is_lost_are_claimed_from_the_next() {
    for seed in 0..5 {
        let (mut world, job) = waiting(seed, 12, 3);
        let lost: Vec<usize> = owners(&world, job).into_iter().take(2).collect();
        lost.iter().for_each(|at| world.crash(*at));
        world.run_for(Duration::from_secs(2));
        let who = add_who_can(&mut world);
        assert_eq!(fitting::runners(&mut world, job, 12), [who], "seed {seed}: without {lost:?}");
        world.assert_all_right(job, 12);
    }
}

#[test]
fn a_unit_whose_owner_is_lost_is_as_old_at_the_next() {
    for seed in 0..5 {
        let (mut world, job) = waiting(seed, 1, 1);
        let lost = *owners(&world, job).first().expect("it is known");
        world.crash(lost);
        let is_owned = |w: &World| owners(w, job).into_iter().any(|at| at != lost);
        world.run_until(A_MINUTE, "another owns it", is_owned);
        let owner = *owners(&world, job).first().expect("it is known");
        let wait = |w: &World| w.node(owner).fitting().and_then(|it| it.view(job));
        world.run_until(A_MINUTE, "it waits there", |w| wait(w).is_some());
        let age = wait(&world).map(|it| it.age);
        assert!(age.is_some_and(|age| age >= A_MINUTE), "seed {seed}: {age:?}");
    }
}

#[test]
fn owners_and_run_nodes_that_are_lost_cost_time_and_nothing_else() {
    for seed in 0..5 {
        let mut world = rn_tree::grown(seed, NODES, config);
        let job = submit(&mut world, 60, fast());
        world.run_until(A_MINUTE, "owners are known", |w| owners(w, job).len() >= 2);
        let owner = owners(&world, job).into_iter().find(|at| !is_fast(*at));
        owner.into_iter().chain([4]).for_each(|at| world.crash(at));
        ends_at_fast_nodes(&mut world, job, 60);
    }
}
