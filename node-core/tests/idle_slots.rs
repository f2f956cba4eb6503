//! Slots are not idle while units wait: stories, and seeds of whole swarms.

use node_core::ids::JobId;
use node_core::overlay::tree::TreeConfig;
use node_core::{Config, NodeEvent};
use sandbox::{Outcome, Task};
use simulator::{World, echo, liveness};
use std::sync::Arc;
use std::time::Duration;

const A_MINUTE: Duration = Duration::from_secs(60);

#[test]
fn no_slot_idles_while_a_unit_waits_whatever_the_seed() {
    // MANYHANDS_SEEDS=N runs more, MANYHANDS_SEED=N only that one.
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let seeds = match number("MANYHANDS_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("MANYHANDS_SEEDS").unwrap_or(30),
    };
    let wrong = seeds.filter_map(|seed| Some(format!("seed {seed}: {}", liveness::live(seed).err()?)));
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Three minutes, or 17 ms if the environment says so.
fn long_or_short(task: &Task) -> (Duration, Outcome) {
    let short = task.environment.iter().any(|(key, _)| key == "SHORT");
    let time = if short { Duration::from_millis(17) } else { A_MINUTE * 3 };
    (time, Outcome { cpu_us: time.as_micros() as u64, ..echo(task).1 })
}

/// A gateway and dialable workers with a slot each, in a tree.
fn workers(seed: u64, count: usize) -> World {
    let mut world = World::seed(seed).with(long_or_short);
    let tree = Arc::new(TreeConfig { m: 2, k: 2, ..TreeConfig::default() });
    let config = Config { port: Some(4001), tree, ..Config::default() };
    world.add(Config { gateway: true, slots: 0, ..config.clone() });
    for n in 1..=count {
        world.add(Config { slots: 1, name: format!("worker {n}"), ..config.clone() });
        world.connect(0, n);
    }
    world.run_for(A_MINUTE);
    world
}

fn submit(world: &mut World, count: u32, short: bool) -> JobId {
    let mut spec = world.sweep(0, count);
    if short {
        spec.template.environment = vec![("SHORT".into(), "1".into())];
    }
    world.submit(0, spec)
}

fn running(world: &World) -> Vec<usize> {
    (1..world.nodes.len()).map(|at| world.nodes[at].engine.running()).collect()
}

#[test]
fn four_jobs_of_one_long_unit_run_on_four_nodes() {
    for seed in 0..4 {
        let mut world = workers(seed, 4);
        // The nodes know short units only, and would queue them.
        let short = submit(&mut world, 200, true);
        world.run_until(A_MINUTE, "the short units are done", |w| w.is_over(short));
        (0..4).for_each(|_| _ = submit(&mut world, 1, false));
        world.run_for(Duration::from_secs(1));
        assert_eq!(running(&world), [1; 4], "seed {seed}");
    }
}

#[test]
fn a_unit_that_queues_behind_a_long_one_goes_where_a_slot_is_free() {
    let mut world = workers(7, 2);
    let warm = submit(&mut world, 200, true);
    world.run_until(A_MINUTE, "the short units are done", |w| w.is_over(warm));
    let long = submit(&mut world, 1, false);
    world.run_until(A_MINUTE, "the long unit runs", |w| running(w).iter().sum::<usize>() == 1);
    let short = submit(&mut world, 1, true);
    let start = world.now;
    world.run_until(A_MINUTE, "the short one is done", |w| w.is_over(short));
    let took = world.now.since(start);
    assert!(took < liveness::IN_QUEUE + Duration::from_secs(1), "took {took:?}");
    assert!(!world.is_over(long));
    let trouble = |event: &NodeEvent| matches!(event, NodeEvent::Trouble { .. });
    assert!(!world.told.iter().any(|(_, _, event)| trouble(event)), "nobody was at fault");
    assert_eq!(world.job(short).map(|job| job.lost_placements), Some(0));
}

#[test]
fn a_place_that_one_owner_has_taken_up_is_not_kept_from_another() {
    let mut world = World::seed(9).with(long_or_short);
    let tree = Arc::new(TreeConfig { m: 2, k: 2, ..TreeConfig::default() });
    let config = Config { port: Some(4001), tree, ..Config::default() };
    for _ in 0..2 {
        world.add(Config { gateway: true, slots: 0, ..config.clone() });
    }
    world.add(Config { slots: 2, name: "worker".into(), ..config });
    [(0, 1), (0, 2), (1, 2)].into_iter().for_each(|(a, b)| world.connect(a, b));
    world.run_for(A_MINUTE);
    for owner in 0..2 {
        let spec = world.sweep(owner, 1);
        world.submit(owner, spec);
        // Much shorter than what was reserved for the first owner's unit.
        world.run_for(Duration::from_secs(1));
        assert_eq!(world.nodes[2].engine.running(), owner + 1, "the unit of gateway {owner} runs");
    }
}

#[test]
fn units_that_wait_behind_long_ones_are_handed_back() {
    let mut world = workers(8, 2);
    let warm = submit(&mut world, 200, true);
    world.run_until(A_MINUTE, "the short units are done", |w| w.is_over(warm));
    // Long units of a job that began with short ones: all of them look short at first.
    world.program = |task| match task.arguments[0].parse::<u32>() {
        Ok(index) if index >= 40 => (A_MINUTE * 3, Outcome { cpu_us: 180_000_000, ..echo(task).1 }),
        _ => (Duration::from_millis(17), Outcome { cpu_us: 17_000, ..echo(task).1 }),
    };
    let job = submit(&mut world, 60, true);
    world.run_until(A_MINUTE, "a long unit runs on each", |w| w.job(job).is_some_and(|job| job.done == 40));
    world.run_for(Duration::from_secs(3));
    let queued: Vec<u32> = (1..=2).map(|at| world.node(at).work(world.now).queued).collect();
    assert_eq!(queued, [0, 0], "what waits, waits at its owner");
    let job = world.job(job).expect("the owner knows it");
    assert_eq!((job.waiting, job.placed, job.lost_placements), (18, 2, 0));
}
