//! Jobs placed through the tree: the whole node, from the first join to the last result.

use node_core::finding::Needs;
use node_core::overlay::tree::TreeConfig;
use node_core::overlay::tree::check::check;
use node_core::{Command, Config, NodeEvent, NodeInput};
use simulator::World;
use simulator::network::Latency;
use std::sync::Arc;
use std::time::Duration;

const A_MINUTE: Duration = Duration::from_secs(60);

/// A gateway without slots, and dialable workers in a tree of small groups.
fn tree_of(seed: u64, workers: usize) -> World {
    let mut world = World::seed(seed);
    let tree = Arc::new(TreeConfig { m: 2, k: 2, ..TreeConfig::default() });
    world.add(Config { gateway: true, slots: 0, port: Some(4001), tree: tree.clone(), ..Config::default() });
    for n in 0..workers {
        let name = format!("worker {n}");
        world.add(Config { slots: 1, port: Some(4001), name, tree: tree.clone(), ..Config::default() });
        world.connect(0, n + 1);
    }
    world.run_for(A_MINUTE * 3);
    assert_eq!(faults_of(&world), Vec::<String>::new(), "everybody is in the tree");
    world
}

fn faults_of(world: &World) -> Vec<String> {
    let alive = world.nodes.iter().filter_map(|place| place.node.as_ref());
    let views: Vec<_> = alive.filter_map(|node| node.tree()).collect();
    let mut faults = check(&views, 2, 2, true);
    faults
        .extend(views.iter().filter(|view| !view.joined()).map(|view| format!("{:?} is outside", view.me())));
    faults
}

#[test]
fn a_job_is_placed_by_the_tree_and_outlives_an_inner_node() {
    let mut world = tree_of(1, 30);
    let inner = (1..=30)
        .find(|at| world.node(*at).tree().is_some_and(|it| it.level() > 0))
        .expect("there are levels");
    let spec = world.sweep(0, 200);
    let job = world.submit(0, spec);
    world.run_until(A_MINUTE, "half of it is done", |w| w.job(job).is_some_and(|job| job.done > 100));
    world.crash(inner);
    world.run_until(A_MINUTE * 3, "the job is done", |w| w.is_over(job));
    world.assert_all_right(job, 200);
    assert!(world.job(job).unwrap().by_node.len() > 25, "found nearly everybody");
    world.run_until(A_MINUTE * 3, "the tree is whole again", |w| faults_of(w).is_empty());
}

/// Groups form while their members are being told of each other: whatever was dropped because it
/// came a moment too early is said again long before the slow refresh.
#[test]
fn soon_after_the_last_join_the_gateway_knows_how_many_slots_there_are() {
    for seed in 0..300 {
        let mut world = World::seed(seed);
        world.network.latency = Latency::Uniform(100, 3_000);
        let tree = Arc::new(TreeConfig { m: 2, k: 2, ..TreeConfig::default() });
        world.add(Config {
            gateway: true,
            slots: 0,
            port: Some(4001),
            tree: tree.clone(),
            ..Config::default()
        });
        for n in 1..=12 {
            let pause = world.rng.between(100, 700);
            world.run_for(Duration::from_millis(pause));
            let name = format!("worker {n}");
            world.add(Config { slots: 1, port: Some(4001), name, tree: tree.clone(), ..Config::default() });
            world.connect(0, n);
        }
        let known = |w: &World| w.node(0).branch().is_some_and(|it| it.network_slots == 12);
        world.run_until(Duration::from_secs(20), "it knows of all twelve", known);
    }
}

/// Acknowledgements come slower than the engines compute: runners hold all that they may hold, and
/// idle until a commit; then they have to be given more at once.
#[test]
fn a_job_of_tiny_units_does_not_stand_still() {
    for seed in 0..8 {
        let mut world = World::seed(seed);
        let tree = Arc::new(TreeConfig { m: 2, k: 2, ..TreeConfig::default() });
        let mut config = Config { port: Some(4001), tree, ..Config::default() };
        // A quarter of 250 ms of such units is more than a runner may hold, as with a full-size table.
        config.limits_mut().held_units = 128;
        world.add(Config { gateway: true, slots: 0, ..config.clone() });
        for n in 0..2 {
            world.add(Config { slots: 1, name: format!("worker {n}"), ..config.clone() });
            world.connect(0, n + 1);
        }
        world.run_for(A_MINUTE);
        world.program = |task| (Duration::from_micros(20), simulator::echo(task).1);
        world.network.latency = Latency::Uniform(50, 300);
        world.nodes[0].disk.slow = world.rng.below(30_000);
        for _ in 0..2 {
            let spec = world.sweep(0, 1_000);
            let start = world.now;
            let job = world.submit(0, spec);
            world.run_until(A_MINUTE * 3, "the job is done", |w| w.is_over(job));
            let took = world.now.since(start);
            // 10 ms of work, and up to 20 commits of at most 35 ms that the runners wait for.
            assert!(took < Duration::from_secs(1), "seed {seed}: took {took:?}");
        }
    }
}

#[test]
fn who_asks_for_slots_gets_all_there_are() {
    let mut world = tree_of(2, 40);
    world.run_for(A_MINUTE);
    let needs = Needs::default();
    world.drive(7, NodeInput::Command(Command::Find { number: 1, units: 100, needs }));
    world.run_for(Duration::from_secs(20));
    let found = world.told.iter().find_map(|(_, at, event)| match event {
        NodeEvent::Found { number: 1, places, .. } if *at == 7 => Some(places.clone()),
        _ => None,
    });
    assert_eq!(found.expect("there is an answer").iter().map(|place| place.units).sum::<u32>(), 40);
}

#[test]
fn a_node_that_only_its_own_machine_can_dial_is_a_guest_elsewhere_and_works() {
    let mut world = World::seed(3);
    world.add(Config { gateway: true, slots: 0, port: Some(4001), ..Config::default() });
    world.add(Config { slots: 2, port: Some(4001), loopback_only: true, ..Config::default() });
    world.connect(0, 1);
    world.run_for(A_MINUTE);
    assert!(!world.node(1).tree().is_some_and(|it| it.joined()), "nobody could dial it");
    assert!(world.node(0).nodes(world.now).iter().any(|node| node.guest && node.slots == 2));
    let spec = world.sweep(0, 20);
    let job = world.submit(0, spec);
    world.run_until(A_MINUTE, "the job is done", |w| w.is_over(job));
    world.assert_all_right(job, 20);
}
