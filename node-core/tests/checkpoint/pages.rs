//! Units that move from page to page: what one lacks it gets from the other, by a data channel.

use crate::checkpoint::support::*;
use crate::far_guests::{self, secret};
use node_core::platform::Platform;
use node_core::{BlobId, Carrier, Config};
use simulator::World;
use std::time::Duration;

const PAGES: [usize; 2] = [1, 2];

fn config(at: usize) -> Config {
    let (gateway, page) = (at == 0, PAGES.contains(&at));
    Config {
        slots: u32::from(page),
        port: (!page).then_some(4001),
        platform: if page { Platform::Browser } else { Platform::Native },
        relay_rate: gateway.then_some(10_000_000),
        ..far_guests::config(at, gateway)
    }
}

/// A gateway without slots, two pages, and a server that has dialled the gateway back.
fn pages(seed: u64) -> World {
    let mut world = World::seed(seed).with(long);
    for at in 0..4 {
        world.add_keyed(config(at), &secret(at));
        if at > 0 {
            world.connect(at, 0);
        }
    }
    world.run_for(Duration::from_secs(20));
    world
}

fn carrier(world: &World, at: usize, to: usize) -> Option<Carrier> {
    let nodes = world.node(at).nodes(world.now);
    nodes.into_iter().find(|node| node.id == world.nodes[to].id)?.over
}

fn move_between(world: &mut World) {
    let job = job(world, 1);
    world.run_until(A_MINUTE, "it has a checkpoint", |w| unit(w, job, 0).checkpoints >= 2);
    let to = 3 - runner(world, job).unwrap();
    migrate(world, job, Some(to));
    world.run_until(A_MINUTE, "it has moved", |w| moved(w).is_some());
    assert_eq!(moved(world), Some(Ok(to)), "seed {}", world.seed);
    done(world, job, 1);
    assert_eq!(beginnings(world).len(), 2, "seed {}: it never began anew", world.seed);
    assert!(losses(world).is_empty(), "seed {}", world.seed);
    assert!((0..4).all(|at| world.faults(at).is_empty()), "seed {}", world.seed);
}

#[test]
fn a_page_gets_what_it_lacks_from_the_other_page() {
    for seed in 0..5 {
        let mut world = pages(seed);
        move_between(&mut world);
        assert_eq!(carrier(&world, 1, 2), Some(Carrier::DataChannel), "seed {seed}");
    }
}

#[test]
fn pages_that_no_data_channel_connects_move_units_all_the_same() {
    for seed in 10..15 {
        let mut world = pages(seed);
        world.wall(1, 2);
        move_between(&mut world);
        assert_ne!(carrier(&world, 1, 2), Some(Carrier::DataChannel), "seed {seed}");
    }
}

#[test]
fn where_no_server_keeps_checkpoints_another_page_does_beside_the_gateway() {
    for seed in 20..25 {
        let mut world = World::seed(seed).with(long);
        for at in 0..3 {
            world.add_keyed(config(at), &secret(at));
            if at > 0 {
                world.connect(at, 0);
            }
        }
        world.run_for(Duration::from_secs(5));
        let job = job(&mut world, 1);
        let (at, keepers) = under_way(&mut world, job, 3);
        let other = 3 - at;
        assert!(keepers.contains(&other) && keepers.contains(&0), "seed {seed}: {keepers:?}");
        // The gateway comes back without the checkpoints, and the page where it ran does not.
        world.crash(at);
        world.crash(0);
        let program = BlobId::of(b"a program");
        let lost: Vec<_> =
            world.nodes[0].disk.blobs().map(|(id, _)| id).filter(|id| *id != program).collect();
        lost.into_iter().for_each(|id| world.nodes[0].disk.lose_blob(id));
        world.start(0);
        world.connect(other, 0);
        done(&mut world, job, 1);
        let again = *beginnings(&world).last().unwrap();
        assert!(again >= 4.0, "seed {seed}: it began again at {again} s");
    }
}
