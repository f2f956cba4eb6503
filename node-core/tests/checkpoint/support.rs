//! The world of these stories: a gateway and workers that can be dialled, and long units.

use node_core::ids::{JobId, NodeId, UnitId};
use node_core::work::spec::CheckpointEvery;
use node_core::work::view::UnitView;
use node_core::{Command, Config, NodeEvent, NodeInput};
use sandbox::{Outcome, Task};
use simulator::World;
use simulator::engine::{MIPS, Ran};
use std::time::Duration;

pub(crate) const A_MINUTE: Duration = Duration::from_secs(60);

/// Fuel that an engine of usual speed uses in a second.
pub(crate) const A_SECOND: u64 = MIPS as u64 * 1_000_000;

/// A unit of a minute.
pub(crate) fn long(task: &Task) -> (Duration, Outcome) {
    (A_MINUTE, simulator::echo(task).1)
}

/// A gateway, node 0, and workers of one slot that others can dial.
pub(crate) fn world(seed: u64, workers: usize) -> World {
    let mut world = World::seed(seed).with(long);
    world.add(Config {
        gateway: true,
        slots: 0,
        port: Some(4001),
        name: "gateway".into(),
        ..Config::default()
    });
    for n in 1..=workers {
        world.add(Config { slots: 1, port: Some(4001), name: format!("worker {n}"), ..Config::default() });
        world.connect(0, n);
    }
    world.run_for(Duration::from_secs(5));
    world
}

/// A job of so many units with a checkpoint every two seconds.
pub(crate) fn job(world: &mut World, units: u32) -> JobId {
    let mut spec = world.sweep(0, units);
    spec.template.checkpoint = CheckpointEvery(2_000_000);
    world.submit(0, spec)
}

pub(crate) fn unit(world: &World, job: JobId, index: u32) -> UnitView {
    world.node(0).units(job, index, 1).expect("the job is known").remove(0)
}

/// Where the unit runs, if it runs.
pub(crate) fn runner(world: &World, job: JobId) -> Option<usize> {
    let view = world.nodes[0].node.as_ref()?.units(job, 0, 1)?.pop()?;
    (view.state == node_core::work::view::UnitState::Placed).then_some(world.find(view.runner?)?)
}

/// Until the unit runs and `checkpoints` of it are recorded: its runner and its keepers.
pub(crate) fn under_way(world: &mut World, job: JobId, checkpoints: u32) -> (usize, Vec<usize>) {
    world.run_until(A_MINUTE, "it has checkpoints", |w| {
        let view = unit(w, job, 0);
        view.checkpoints >= checkpoints && view.keepers.len() >= 2
    });
    let view = unit(world, job, 0);
    let at = |id: &NodeId| world.find(*id).expect("a node of this world");
    (at(&view.runner.expect("it runs")), view.keepers.iter().map(at).collect())
}

pub(crate) fn done(world: &mut World, job: JobId, units: u32) {
    world.run_until(A_MINUTE * 10, "the job is done", |w| w.is_over(job));
    world.assert_all_right(job, units);
}

/// Fuel lost with each runner that was lost: what it had used, less where its successor began.
pub(crate) fn losses(world: &World) -> Vec<u64> {
    losses_by_node(world).into_iter().map(|(_, lost)| lost).collect()
}

/// Like [`losses`], with the index of the runner that was lost.
pub(crate) fn losses_by_node(world: &World) -> Vec<(usize, u64)> {
    let mut lost = Vec::new();
    for (n, (_, at, ran)) in world.ran.iter().enumerate() {
        let Ran::Lost { unit, fuel } = *ran else { continue };
        let next = world.ran[n..].iter().find_map(|(_, _, next)| match *next {
            Ran::Began { unit: of, fuel, .. } if of == unit => Some(fuel),
            _ => None,
        });
        lost.extend(next.map(|next| (*at, fuel.saturating_sub(next))));
    }
    lost
}

/// Where runs of the one unit began, in seconds of work.
pub(crate) fn beginnings(world: &World) -> Vec<f64> {
    let began = world.ran.iter().filter_map(|(_, _, ran)| match ran {
        Ran::Began { fuel, .. } => Some(*fuel as f64 / A_SECOND as f64),
        _ => None,
    });
    began.collect()
}

pub(crate) fn migrate(world: &mut World, job: JobId, to: Option<usize>) {
    let to = to.map(|to| world.nodes[to].id);
    let unit = UnitId { job, index: 0 };
    world.drive(0, NodeInput::Command(Command::Migrate { unit, to }));
}

/// Why the last move failed, or nothing if it went well.
pub(crate) fn moved(world: &World) -> Option<Result<usize, String>> {
    world.told.iter().rev().find_map(|(_, at, event)| match event {
        NodeEvent::Migrated { to, .. } if *at == 0 => world.find(*to).map(Ok),
        NodeEvent::MigrationFailed { why, .. } if *at == 0 => Some(Err(why.clone())),
        _ => None,
    })
}
