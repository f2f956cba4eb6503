//! Many seeds: faults drawn from the seed, first safety, then the faults stop and the work
//! must end.

use node_core::content::{Data, NamedData};
use node_core::ids::JobId;
use node_core::work::spec::{JobSpec, UnitSpec, Units};
use node_core::work::view::UnitState;
use sandbox::{File, Outcome};
use simulator::network::Latency;
use simulator::{World, echo};
use std::time::Duration;

/// One life of a small swarm, all of it drawn from the seed.
fn live(seed: u64) {
    let mut world = World::seed(seed);
    let workers = 1 + world.rng.below(5) as usize;
    let slots = 1 + world.rng.below(4) as u32;
    world.network.latency = Latency::Uniform(1_000, 2_000 + world.rng.below(200_000));
    // In a sixth of the seeds units have content of their own, and in some of them lines are slow.
    let content = (world.rng.below(6) == 0).then(|| 1 + world.rng.below(40_000) as usize);
    if content.is_some() && world.rng.below(2) == 0 {
        world.network.bandwidth = 2_000_000 + world.rng.below(50_000_000);
    }
    // A seed leaves some kinds of fault out altogether, so that others are seen alone.
    let kinds: Vec<u64> = (0..7).filter(|_| world.rng.below(2) == 0).collect();
    world.program = |task| {
        let number: u64 = task.arguments[0].parse().unwrap_or(0);
        // Each output file is its input file twice.
        let twice = |file: &File| [&file.data[..], &file.data].concat().into();
        let files = task.files.iter().map(|file| File { path: "out".into(), data: twice(file) }).collect();
        (Duration::from_millis(1 + number * 37 % 900), Outcome { files, ..echo(task).1 })
    };
    let mut world = world.swarm(workers, slots);
    let jobs: Vec<(JobId, u32)> = (0..1 + world.rng.below(3))
        .map(|_| {
            let count = 1 + world.rng.below(150) as u32;
            let spec = match content {
                Some(len) => with_content(&mut world, count, len),
                None => world.sweep(0, count),
            };
            (world.submit(0, spec), count)
        })
        .collect();
    world.run_for(Duration::from_millis(500));

    for _ in 0..world.rng.below(25) {
        let pause = world.rng.below(3_000);
        world.run_for(Duration::from_millis(pause));
        let worker = 1 + world.rng.below(workers as u64) as usize;
        let Some(kind) = kinds.get(world.rng.below(kinds.len().max(1) as u64) as usize) else { break };
        match kind {
            0 => world.crash(worker),
            1 => world.crash(0),
            2 => world.cut(0, worker),
            3 => world.freeze(worker),
            4 => world.nodes[0].disk.full = !world.nodes[0].disk.full,
            5 => {
                let slots = world.rng.below(5) as u32;
                world.drive(worker, node_core::NodeInput::Command(node_core::Command::SetSlots(slots)));
            }
            _ => world.drive(worker, node_core::NodeInput::Command(node_core::Command::Drain)),
        }
        if world.rng.below(2) == 0 {
            mend(&mut world);
        }
        for (job, _) in &jobs {
            // Safety: what the disk holds is right at any moment.
            for (index, result) in world.results(*job) {
                assert_eq!(result.stdout, text(index), "seed {seed}: unit {index}");
            }
        }
    }

    mend(&mut world);
    for worker in 1..=workers {
        world.drive(worker, node_core::NodeInput::Command(node_core::Command::SetSlots(0)));
        world.drive(worker, node_core::NodeInput::Command(node_core::Command::SetSlots(2)));
    }
    for (job, count) in jobs {
        world.run_until(Duration::from_secs(900), "all jobs end once the faults stop", |w| {
            w.is_over(job) || w.job(job).is_some_and(|j| j.held > 0 && j.waiting + j.placed == 0)
        });
        if world.is_over(job) {
            world.assert_all_right(job, count);
            continue;
        }
        // Units whose runners went down with them eight times are held, for somebody to look at; no other is.
        let view = world.job(job).expect("it is known");
        assert!(view.lost_placements >= u64::from(view.held) * 8, "seed {seed}: {view:?}");
        assert_eq!(view.done + view.held, count, "seed {seed}: {view:?}");
        for unit in world.node(0).units(job, 0, count).expect("they are known") {
            let held = unit.state == UnitState::Held;
            assert!(!held || unit.reason.contains("was lost with its runner"), "seed {seed}: {unit:?}");
        }
    }
}

/// A job whose units have an input of this length each: small ones in the job, others as blobs.
fn with_content(world: &mut World, count: u32, len: usize) -> JobSpec {
    let mut spec = world.sweep(0, count);
    let unit = |index: u32| {
        let bytes = [&index.to_be_bytes()[..], &vec![index as u8; len]].concat();
        let data = match len {
            0..2_000 => Data::Inline(bytes.into()),
            _ => Data::Blob(world.upload(0, &bytes)),
        };
        UnitSpec {
            arguments: Some(vec![index.to_string()]),
            stdin: None,
            files: vec![NamedData { path: "in".into(), data }],
        }
    };
    spec.units = Units::List((0..count).map(unit).collect());
    spec
}

fn text(index: u32) -> node_core::content::Data {
    node_core::content::Data::Inline(index.to_string().into())
}

/// Everybody lives, thaws, and is connected again.
fn mend(world: &mut World) {
    world.nodes[0].disk.full = false;
    for at in 0..world.nodes.len() {
        if world.nodes[at].is_frozen() {
            // Inputs were lost while it was frozen, so it starts anew: a reloaded tab.
            world.crash(at);
        }
        if world.nodes[at].node.is_none() {
            world.start(at);
        }
    }
    world.run_for(Duration::from_millis(50));
    for worker in 1..world.nodes.len() {
        world.connect(0, worker);
    }
}

#[test]
fn no_unit_is_lost_and_none_counted_twice_whatever_the_seed() {
    // MANYHANDS_SEEDS=N runs more, MANYHANDS_SEED=N only that one.
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    match number("MANYHANDS_SEED") {
        Some(seed) => live(seed),
        None => (0..number("MANYHANDS_SEEDS").unwrap_or(300)).for_each(live),
    }
}

#[test]
fn two_lives_of_a_seed_are_the_same_event_for_event() {
    let trace = || {
        let mut world = World::seed(99).swarm(3, 2);
        let spec = world.sweep(0, 100);
        let job = world.submit(0, spec);
        world.run_for(Duration::from_millis(300));
        world.crash(1);
        world.run_until(Duration::from_secs(60), "done", |w| w.is_over(job));
        (world.frames, format!("{:?}", world.told))
    };
    assert_eq!(trace(), trace());
}
