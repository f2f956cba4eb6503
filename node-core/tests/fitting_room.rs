//! Stories of units that make room: a job that few nodes can run does not wait for one that any node could run.

use crate::far_guests::secret;
use crate::fitting;
use crate::rn_tree;
use node_core::requires::Requires;
use node_core::work::spec::JobSpec;
use node_core::work::view::UnitState;
use node_core::{Command, Config, JobId, NodeInput};
use sandbox::{Outcome, Task};
use simulator::World;
use simulator::engine::Ran;
use std::time::Duration;

const A_MINUTE: Duration = Duration::from_secs(60);
const NODES: usize = 13;

/// The one node that can run scarce jobs.
const RARE: usize = 1;

/// A unit of ten minutes.
fn long(task: &Task) -> (Duration, Outcome) {
    (A_MINUTE * 10, simulator::echo(task).1)
}

fn config(at: usize) -> Config {
    Config { power: if at == RARE { 9000 } else { 1000 }, ..rn_tree::config(at) }
}

fn add(world: &mut World, at: usize) {
    add_as(world, at, config(at));
}

fn add_as(world: &mut World, at: usize, config: Config) {
    world.add_keyed(config, &secret(at));
    if at > 0 {
        world.connect(at, 0);
    }
}

/// A swarm of that size, each runner of which runs a unit of a job.
fn full(seed: u64, nodes: usize, common: fn(&mut World, u32) -> JobSpec) -> (World, JobId) {
    let mut world = rn_tree::grow(World::seed(seed).with(long), nodes, config);
    let common = common(&mut world, nodes as u32 - 1);
    let job = world.submit(0, common);
    world.run_until(A_MINUTE, "all nodes are busy", |w| begun(w) == nodes - 1);
    (world, job)
}

/// So, and two more have come since, and idle.
fn nearly_full(seed: u64, common: fn(&mut World, u32) -> JobSpec) -> (World, JobId) {
    let (mut world, job) = full(seed, NODES, common);
    (NODES..NODES + 2).for_each(|at| add(&mut world, at));
    world.run_for(A_MINUTE);
    (world, job)
}

fn fitting(world: &mut World, units: u32) -> JobSpec {
    fitting::fitting(world, units, Requires::default())
}

fn nearest(world: &mut World, units: u32) -> JobSpec {
    world.sweep(0, units)
}

fn scarce(world: &mut World) -> JobId {
    let requires = Requires { speed: 9_000_000_000, ..Requires::default() };
    let spec = fitting::fitting(world, 1, requires);
    world.submit(0, spec)
}

fn begun(world: &World) -> usize {
    world.ran.iter().filter(|(_, _, ran)| matches!(ran, Ran::Began { .. })).count()
}

/// Units that went on elsewhere from where they stood.
fn moved(world: &World) -> usize {
    world.ran.iter().filter(|(_, _, ran)| matches!(ran, Ran::Began { fuel: 1.., .. })).count()
}

fn runs_at_the_rare_node(world: &World, job: JobId) -> bool {
    let unit = world.node(0).units(job, 0, 1).expect("it is known").remove(0);
    unit.state == UnitState::Placed && unit.runner == Some(world.nodes[RARE].id)
}

#[test]
fn a_unit_that_others_could_run_makes_room_and_goes_on_elsewhere() {
    for (seed, common) in
        (0..20).zip([fitting as fn(&mut World, u32) -> JobSpec, nearest].into_iter().cycle())
    {
        let (mut world, common) = nearly_full(seed, common);
        let scarce = scarce(&mut world);
        world.run_for(Duration::from_secs(15));
        assert!(runs_at_the_rare_node(&world, scarce), "seed {seed}");
        assert_eq!(moved(&world), 1, "seed {seed}: it went on from where it stood");
        world.run_until(A_MINUTE * 12, "all are done", |w| w.is_over(common) && w.is_over(scarce));
        world.assert_all_right(common, NODES as u32 - 1);
        world.assert_all_right(scarce, 1);
        assert_eq!(begun(&world), NODES + 1, "seed {seed}: nothing was moved again");
    }
}

#[test]
fn a_unit_of_a_job_as_scarce_stays() {
    let (mut world, _) = nearly_full(1, fitting);
    let first = scarce(&mut world);
    world.run_for(Duration::from_secs(15));
    let second = scarce(&mut world);
    world.run_for(A_MINUTE * 2);
    assert!(runs_at_the_rare_node(&world, first) && !runs_at_the_rare_node(&world, second));
    assert_eq!(moved(&world), 1);
    world.run_until(A_MINUTE * 25, "one comes after the other", |w| w.is_over(first) && w.is_over(second));
    world.assert_all_right(second, 1);
}

#[test]
fn a_unit_that_cannot_be_suspended_is_waited_for() {
    let (mut world, common) = nearly_full(2, fitting);
    world.nodes[RARE].engine.immobile = true;
    let scarce = scarce(&mut world);
    world.run_for(A_MINUTE);
    assert!(!runs_at_the_rare_node(&world, scarce) && moved(&world) == 0);
    world.run_until(A_MINUTE * 25, "all are done", |w| w.is_over(common) && w.is_over(scarce));
    world.assert_all_right(common, NODES as u32 - 1);
    world.assert_all_right(scarce, 1);
}

#[test]
fn a_unit_stays_where_a_slot_is_free() {
    let mut world = rn_tree::grow(World::seed(3).with(long), NODES, config);
    let common = world.sweep(0, 4);
    let common = world.submit(0, common);
    let scarce = scarce(&mut world);
    world.run_until(A_MINUTE * 25, "all are done", |w| w.is_over(common) && w.is_over(scarce));
    assert_eq!(moved(&world), 0);
}

#[test]
fn a_job_that_is_cancelled_leaves_all_as_it_was() {
    let (mut world, common) = nearly_full(4, fitting);
    let scarce = scarce(&mut world);
    world.run_for(Duration::from_secs(4));
    world.drive(0, NodeInput::Command(Command::Cancel { job: scarce }));
    world.run_until(A_MINUTE * 12, "it is done", |w| w.is_over(common));
    world.assert_all_right(common, NODES as u32 - 1);
    assert!(moved(&world) <= 1, "{}", moved(&world));
}

#[test]
fn a_job_turns_out_to_be_scarce_while_it_waits() {
    let (mut world, _) = full(5, 3, fitting);
    let scarce = scarce(&mut world);
    world.run_for(A_MINUTE);
    assert!(!runs_at_the_rare_node(&world, scarce), "half of the nodes can run it: it waits its turn");
    (3..NODES).for_each(|at| add(&mut world, at));
    world.run_for(A_MINUTE * 2);
    assert!(runs_at_the_rare_node(&world, scarce));
    assert_eq!(moved(&world), 1);
}

/// The rare node has four slots, and the gateway is the owner of all, with a slot of its own.
#[test]
fn units_of_one_scarce_job_get_room_one_after_the_other() {
    for seed in 0..5 {
        let mut world = World::seed(seed).with(long);
        add_as(&mut world, 0, Config { slots: 1, ..config(0) });
        add_as(&mut world, RARE, Config { slots: 4, ..config(RARE) });
        (2..NODES).for_each(|at| add(&mut world, at));
        world.run_for(A_MINUTE * 3);
        let common = if seed % 2 == 0 { fitting } else { nearest };
        let slots = NODES as u32 + 3;
        let common = common(&mut world, slots);
        let common = world.submit(0, common);
        world.run_until(A_MINUTE, "all nodes are busy", |w| begun(w) == slots as usize);
        (NODES..NODES + 6).for_each(|at| add(&mut world, at));
        world.run_for(A_MINUTE);
        let requires = Requires { speed: 9_000_000_000, ..Requires::default() };
        let spec = fitting::fitting(&mut world, 3, requires);
        let scarce = world.submit(0, spec);
        world.run_for(A_MINUTE);
        let units = world.node(0).units(scarce, 0, 3).expect("it is known");
        assert!(units.iter().all(|unit| unit.state == UnitState::Placed), "seed {seed}: {units:?}");
        world.run_until(A_MINUTE * 15, "all are done", |w| w.is_over(common) && w.is_over(scarce));
        world.assert_all_right(common, slots);
        world.assert_all_right(scarce, 3);
        assert_eq!(moved(&world), 3, "seed {seed}");
    }
}

#[test]
fn a_scarce_job_gets_room_in_a_swarm_that_grows() {
    for seed in 0..30 {
        let (mut world, _) = full(seed, 2, nearest);
        (2..NODES).for_each(|at| add(&mut world, at));
        world.run_for(Duration::from_millis(1300 * seed));
        let scarce = scarce(&mut world);
        world.run_for(A_MINUTE * 3);
        assert!(runs_at_the_rare_node(&world, scarce), "seed {seed}");
    }
}
