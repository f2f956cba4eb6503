//! Units whose owner the ring names: they survive owners, successors and their home's absence, and run on.

mod hostile;
mod losses;
mod moving;
mod strangers;
mod swarm;

use node_core::bounds::Bounds;
use node_core::circle::Point;
use node_core::ids::{JobId, UnitId};
use node_core::overlay::ring::RingConfig;
use node_core::work::delegated::point_of;
use node_core::work::spec::{CheckpointEvery, OwnedBy};
use node_core::work::view::{UnitState, UnitView};
use node_core::{Command, Config, NodeInput, Table};
use sandbox::{Outcome, Task};
use simulator::World;
use simulator::engine::{MIPS, Ran};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

const A_MINUTE: Duration = Duration::from_secs(60);
const A_SECOND: u64 = MIPS as u64 * 1_000_000;

/// Most fuel that may be lost with a runner: a checkpoint interval of 2 s, and a slice.
const BOUND: u64 = 2 * A_SECOND + A_SECOND / 20;

/// Members beside the gateway, and workers that are on no ring.
const MEMBERS: usize = 8;
const WORKERS: usize = 5;

/// A unit of two minutes.
fn long(task: &Task) -> (Duration, Outcome) {
    (A_MINUTE * 2, simulator::echo(task).1)
}

fn member(gateway: bool, slots: u32) -> Config {
    Config {
        gateway,
        slots,
        port: Some(4001),
        ring: Some(Arc::new(RingConfig::default())),
        limits: Bounds { delegated_units: 1000, ..Bounds::default() }.into(),
        ..Config::default()
    }
}

/// A gateway, members without slots, and workers of so many slots.
fn swarm(seed: u64, slots: u32) -> World {
    let mut world = World::seed(seed).with(long);
    world.add(member(true, 0));
    for n in 1..=MEMBERS + WORKERS {
        let config = match n <= MEMBERS {
            true => member(false, 0),
            false => Config { slots, port: Some(4001), ..Config::default() },
        };
        let at = world.add(config);
        world.connect(0, at);
    }
    world.run_for(A_MINUTE);
    world
}

/// A job of units on the ring with a checkpoint every two seconds. The first is not the gateway's.
fn job(world: &mut World, units: u32) -> JobId {
    job_of(world, units, |circle| circle[0] != 0)
}

/// A job as [`job`] submits it; `such` accepts the owners of its first unit, in the order of the ring.
fn job_of(world: &mut World, units: u32, such: impl Fn(&[usize]) -> bool) -> JobId {
    let mut spec = world.sweep(0, units);
    spec.template.checkpoint = CheckpointEvery(2_000_000);
    spec.owner = OwnedBy::Ring;
    let mut job = JobId([1; 16]);
    while !such(&circle(world, UnitId { job, index: 0 })) {
        job = JobId(std::array::from_fn(|_| world.rng.u64() as u8));
    }
    world.drive(0, NodeInput::Command(Command::Submit { job, spec }));
    job
}

/// Members that live, in the order in which the unit is theirs.
fn circle(world: &World, unit: UnitId) -> Vec<usize> {
    let on_ring = |at: &usize| world.lives(*at) && world.nodes[*at].config.ring.is_some();
    let mut all: Vec<usize> = (0..world.nodes.len()).filter(on_ring).collect();
    all.sort_by_key(|at| point_of(unit).to(Point::of_node(world.nodes[*at].id)));
    all
}

fn first(job: JobId) -> UnitId {
    UnitId { job, index: 0 }
}

fn unit(world: &World, job: JobId, index: u32) -> UnitView {
    world.node(0).units(job, index, 1).expect("the home knows it").remove(0)
}

/// Until the home knows of so many checkpoints of the first unit: its owner, and who runs it.
fn under_way(world: &mut World, job: JobId, checkpoints: u32) -> (usize, usize) {
    world.run_until(A_MINUTE * 2, "it runs and has checkpoints", |w| {
        let view = unit(w, job, 0);
        view.checkpoints >= checkpoints && view.state == UnitState::Placed && view.owner.is_some()
    });
    let view = unit(world, job, 0);
    let at = |id| world.find(id).expect("a node of this world");
    (at(view.owner.expect("it has an owner")), at(view.runner.expect("it runs")))
}

fn done(world: &mut World, job: JobId, units: u32) {
    world.run_until(A_MINUTE * 20, "the job is done", |w| w.is_over(job));
    world.assert_all_right(job, units);
}

/// How often a unit began to run anywhere.
fn beginnings(world: &World) -> usize {
    world.ran.iter().filter(|(_, _, ran)| matches!(ran, Ran::Began { .. })).count()
}

/// Nothing of what has ended is left, anywhere.
fn tidy(world: &mut World) {
    world.run_for(A_MINUTE * 11);
    for at in (0..world.nodes.len()).filter(|at| world.lives(*at)) {
        let seed = world.seed;
        let rows: Vec<usize> = world.nodes[at].disk.keys(Table::Delegated).map(<[u8]>::len).collect();
        assert!(rows.is_empty(), "seed {seed}: node {at} has rows, their keys of {rows:?} bytes");
        assert_eq!(world.node(at).work(world.now).busy, 0, "seed {seed}: node {at} works");
        assert_eq!(world.node(at).kept(), (0, 0), "seed {seed}: node {at} keeps checkpoints");
    }
    assert_eq!(world.nodes[0].disk.rows(Table::Checkpoints), 0);
}

#[test]
fn twenty_units_on_a_ring_have_many_owners_and_end_once() {
    let mut world = swarm(1, 4);
    let job = job(&mut world, 20);
    world.run_for(A_MINUTE / 2);
    let mut owners = BTreeSet::new();
    for index in 0..20 {
        let right = circle(&world, UnitId { job, index })[0];
        let owner = unit(&world, job, index).owner.map(|id| world.find(id).expect("a node"));
        assert_eq!(owner.unwrap_or(0), right, "unit {index}: the successor of its id");
        owners.insert(right);
    }
    assert!(owners.len() >= 4, "{owners:?}");
    done(&mut world, job, 20);
    assert_eq!(beginnings(&world), 20, "each once");
    tidy(&mut world);
}

#[test]
fn a_gateway_without_a_ring_says_so() {
    let mut world = World::seed(2).swarm(1, 1);
    let mut spec = world.sweep(0, 1);
    spec.owner = OwnedBy::Ring;
    let job = world.submit(0, spec);
    world.run_for(Duration::from_secs(1));
    assert!(world.refusal(job).is_some_and(|why| why.contains("no ring")), "{:?}", world.refusal(job));
}

#[test]
fn a_cancelled_job_ends_at_owners_and_runners() {
    let mut world = swarm(3, 4);
    let job = job(&mut world, 12);
    under_way(&mut world, job, 1);
    world.drive(0, NodeInput::Command(Command::Cancel { job }));
    world.run_for(Duration::from_secs(2));
    for at in 0..world.nodes.len() {
        assert_eq!(world.node(at).work(world.now).busy, 0, "node {at} works");
        assert_eq!(world.nodes[at].disk.rows(Table::Delegated), 0, "node {at} has rows");
    }
}
