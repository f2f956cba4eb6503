//! The ring beside the tree, in whole nodes: both on the same connections.

use node_core::circle::{Located, Point, RingId};
use node_core::overlay::ring::RingConfig;
use node_core::overlay::ring::check::check;
use node_core::{Command, Config, NodeEvent, NodeInput};
use simulator::World;
use std::sync::Arc;
use std::time::Duration;

const A_MINUTE: Duration = Duration::from_secs(60);

/// A gateway without slots, dialable workers, and as many guests as are wanted.
fn swarm(seed: u64, workers: usize, guests: usize) -> World {
    let mut world = World::seed(seed);
    let ring = Some(Arc::new(RingConfig::default()));
    world.add(Config { gateway: true, slots: 0, port: Some(4001), ring: ring.clone(), ..Config::default() });
    for n in 1..=workers + guests {
        let port = (n <= workers).then_some(4001);
        world.add(Config { port, name: format!("worker {n}"), ring: ring.clone(), ..Config::default() });
        world.connect(0, n);
    }
    world.run_until(A_MINUTE, "the ring is whole", |w| wrong(w).is_empty());
    world
}

/// Differences from the ideal ring of all dialable nodes, in words.
fn wrong(world: &World) -> Vec<String> {
    let alive = world.nodes.iter().filter_map(|place| place.node.as_ref());
    let views: Vec<_> = alive.filter_map(|node| node.ring()).collect();
    let members = views.iter().flat_map(|view| view.members()).count();
    let dialable = world.nodes.iter().filter(|p| p.node.is_some() && p.config.port.is_some()).count();
    let mut wrong = check(&views, RingId::NODES, world.now, 16, true);
    if members != dialable {
        wrong.push(format!("{members} members of {dialable} dialable nodes"));
    }
    wrong
}

fn locate(world: &mut World, at: usize, name: &str) -> Option<Located> {
    let key = Point::of_name(name.as_bytes());
    let number = 1 + world.told.len() as u64;
    world.drive(at, NodeInput::Command(Command::Locate { number, key }));
    let answer = |world: &World| {
        world.told.iter().rev().find_map(|(_, by, event)| match event {
            NodeEvent::Located { number: n, found } if *n == number && *by == at => Some(found.clone().ok()),
            _ => None,
        })
    };
    world.run_until(A_MINUTE, "there is an answer", |w| answer(w).is_some());
    answer(world).flatten()
}

#[test]
fn all_dialable_nodes_are_a_ring_and_whoever_asks_is_told_the_same_owner() {
    let mut world = swarm(1, 30, 3);
    for name in ["a file", "another"] {
        let owner = locate(&mut world, 0, name).expect("the gateway finds it").owner.id();
        for at in [1, 7, 30, 31, 33] {
            let found = locate(&mut world, at, name).expect("a guest asks a member, a member the others");
            assert_eq!(found.owner.id(), owner, "node {at}");
        }
    }
}

#[test]
fn the_ring_outlives_deaths_and_departures_while_jobs_run() {
    for seed in 0..5 {
        let mut world = swarm(seed, 20, 2);
        let spec = world.sweep(0, 400);
        let job = world.submit(0, spec);
        for at in [3, 4, 9] {
            world.kill(at);
        }
        world.drive(12, NodeInput::Command(Command::Drain));
        world.run_until(A_MINUTE, "who goes is let go", |w| w.node(12).is_drained());
        world.kill(12);
        world.run_until(A_MINUTE, "the ring is whole again", |w| wrong(w).is_empty());
        assert!(locate(&mut world, 5, "something").is_some());
        world.run_until(A_MINUTE * 5, "the job is done", |w| w.is_over(job));
        world.assert_all_right(job, 400);
        for at in [3, 4, 9, 12] {
            world.start(at);
            world.connect(0, at);
        }
        world.run_until(A_MINUTE * 2, "all are back", |w| wrong(w).is_empty());
    }
}

#[test]
fn a_gateway_that_begins_anew_finds_its_place_again() {
    for seed in 0..5 {
        let mut world = swarm(seed, 12, 0);
        world.crash(0);
        for at in 1..=12 {
            world.connect(0, at);
        }
        world.run_until(A_MINUTE * 2, "it is one ring", |w| wrong(w).is_empty());
    }
}

#[test]
fn halves_that_were_cut_off_from_each_other_become_one_ring_again() {
    for seed in 0..5 {
        let mut world = swarm(seed, 24, 0);
        world.part(&(1..=12).collect::<Vec<_>>());
        world.run_for(A_MINUTE * 3);
        world.heal();
        for at in 1..=24 {
            world.connect(0, at);
        }
        world.run_until(A_MINUTE * 10, "it is one ring", |w| wrong(w).is_empty());
    }
}

/// Many who need nothing of each other but the ring.
#[test]
fn connections_that_the_ring_counts_on_last() {
    let mut world = swarm(9, 40, 0);
    world.run_for(A_MINUTE * 10);
    for at in 0..=40 {
        let view = world.node(at).ring().expect("it has a ring");
        let member = view.members().next().expect("it is on it");
        let next = member.successors()[0].id();
        let to = world.find(next).expect("it is one of them");
        assert!(world.peers(at).contains(&to), "node {at} is connected to its successor");
    }
}
