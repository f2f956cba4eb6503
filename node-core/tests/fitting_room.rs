//! Stories of units that make room: a job that few nodes can run does not wait for one that any node could run.

use crate::far_guests::secret;
use crate::fitting;
use crate::rn_tree;
use node_core::requires::{Matchmaking, Requires};
use node_core::work::spec::JobSpec;
use node_core::work::view::UnitState;
use node_core::{Config, JobId, NodeInput};
use sandbox::{Outcome, Task};
use simulator::World;
use simulator::engine::Ran;
use std::time::Duration;

const A_MINUTE: Duration = Duration::from_secs(60);
const NODES: usize = 13;

/// The one node that can run scarce jobs.
const RARE: usize = 4;

/// A unit of ten minutes.
fn long(task: &Task) -> (Duration, Outcome) {
    (A_MINUTE * 10, simulator::echo(task).1)
}

fn config(at: usize) -> Config {
    Config { power: if at == RARE { 9000 } else { 1000 }, ..rn_tree::config(at) }
}

fn add(world: &mut World, at: usize) {
    world.add_keyed(config(at), &secret(at));
    if at > 0 {
        world.connect(at, 0);
    }
}

/// Nodes all of which run units of `common`; two more have come since, and idle.
fn full(seed: u64, common: impl Fn(&mut World) -> JobSpec) -> (World, JobId) {
    let mut world = World::seed(seed).with(long);
    (0..NODES).for_each(|at| add(&mut world, at));
    world.run_for(A_MINUTE * 3);
    let common = common(&mut world);
    let job = world.submit(0, common);
    world.run_until(A_MINUTE, "all nodes are busy", |w| begun(w) == NODES - 1);
    (NODES..NODES + 2).for_each(|at| add(&mut world, at));
    world.run_for(A_MINUTE);
    (world, job)
}

fn fitting(world: &mut World) -> JobSpec {
    fitting::fitting(world, NODES as u32 - 1, Requires::default())
}

fn nearest(world: &mut World) -> JobSpec {
    world.sweep(0, NODES as u32 - 1)
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
    for (seed, common) in (0..20).zip([fitting, nearest].into_iter().cycle()) {
        let (mut world, common) = full(seed, common);
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
    let (mut world, _) = full(1, fitting);
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
    let (mut world, common) = full(2, fitting);
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
    let mut world = World::seed(3).with(long);
    (0..NODES).for_each(|at| add(&mut world, at));
    world.run_for(A_MINUTE * 3);
    let common = world.sweep(0, 4);
    let common = world.submit(0, common);
    let scarce = scarce(&mut world);
    world.run_until(A_MINUTE * 25, "all are done", |w| w.is_over(common) && w.is_over(scarce));
    assert_eq!(moved(&world), 0);
}

/// Marks with which a stranger wants a node's units away.
#[test]
fn a_node_moves_no_unit_twice_for_one_mark() {
    let (mut world, common) = full(4, fitting);
    let scarce = scarce(&mut world);
    world.run_for(Duration::from_secs(4));
    world.drive(0, NodeInput::Command(node_core::Command::Cancel { job: scarce }));
    world.run_until(A_MINUTE * 12, "it is done", |w| w.is_over(common));
    world.assert_all_right(common, NODES as u32 - 1);
    assert!(moved(&world) <= 1, "{}", moved(&world));
    assert_eq!(world.nodes[RARE].config.matchmaking, Matchmaking::RnTree);
}
