//! Stories of nodes that nobody can dial and that connect straight all the same, by way of a gateway that they share.

use crate::cheapest::support::{config, secret};
use node_core::address::Address;
use node_core::node::host::NotConnected;
use node_core::overlay::dialback::Standing;
use node_core::overlay::signalling::NotOpened;
use node_core::platform::Platform;
use node_core::{Command, Config, NodeEvent, NodeInput};
use simulator::World;
use std::time::Duration;

const A_MOMENT: Duration = Duration::from_secs(15);

/// A gateway, and so many pages and servers behind routers that are its guests.
fn swarm(seed: u64, pages: usize, servers: usize) -> World {
    let mut world = World::seed(seed);
    let with = |at: usize, config: Config| Config { signalling: Some(secret(at)), bank: None, ..config };
    world.add_keyed(config(0, true, true), &secret(0));
    for at in 1..=pages {
        let page = Config { port: None, platform: Platform::Browser, ..with(at, config(at, false, false)) };
        world.add_keyed(page, &secret(at));
        world.connect(at, 0);
    }
    for at in pages + 1..=pages + servers {
        world.add_keyed(Config { port: None, ..with(at, config(at, false, false)) }, &secret(at));
        world.connect(at, 0);
    }
    // One that others can dial has dialled the gateway back.
    let witness = pages + servers + 1;
    world.add_keyed(Config { bank: None, ..config(witness, false, false) }, &secret(witness));
    world.connect(0, witness);
    world.run_for(A_MOMENT);
    world
}

/// The address under which others know the guest.
fn address(world: &World, of: usize) -> Address {
    let Standing::Member(relay) = world.node(0).standing() else { panic!("others can dial the gateway") };
    assert_eq!(world.node(of).relay(), Some(relay.id), "it is the gateway's guest");
    Address::guest(world.nodes[of].id, relay)
}

fn connect(world: &mut World, from: usize, to: usize) {
    let to = address(world, to);
    world.drive(from, NodeInput::Command(Command::Connect(to)));
}

/// Why `at` has no channel to the node that it was told to connect to last.
fn why_not(world: &World, at: usize) -> Option<NotConnected> {
    world.told.iter().rev().find_map(|(_, of, event)| match event {
        NodeEvent::NotConnected { why, .. } if *of == at => Some(*why),
        _ => None,
    })
}

#[test]
fn pages_and_servers_behind_routers_connect_straight_by_way_of_their_gateway() {
    for seed in 0..20 {
        let mut world = swarm(seed, 2, 2);
        for (from, to) in [(1, 2), (1, 3), (4, 2), (3, 4)] {
            connect(&mut world, from, to);
            world.run_until(A_MOMENT, "they are connected", |w| w.connected(from, to));
        }
        // It was needed for no longer than that.
        world.freeze(0);
        world.run_for(Duration::from_secs(60));
        for (a, b) in [(1, 2), (1, 3), (4, 2), (3, 4)] {
            assert!(world.connected(a, b), "seed {seed}: {a} and {b} stay connected without the gateway");
        }
    }
}

#[test]
fn two_that_connect_to_each_other_at_once_have_one_session_and_one_connection() {
    for seed in 0..20 {
        let mut world = swarm(seed, 2, 0);
        connect(&mut world, 1, 2);
        connect(&mut world, 2, 1);
        world.run_until(A_MOMENT, "they are connected", |w| w.connected(1, 2));
        world.run_for(A_MOMENT);
        assert!(world.connected(1, 2), "seed {seed}");
        assert_eq!(
            [1, 2].map(|at| why_not(&world, at)),
            [None, None],
            "seed {seed}: neither hears of a failure"
        );
    }
}

#[test]
fn where_the_routers_let_nothing_through_the_reason_is_known_within_10_s() {
    let mut world = swarm(1, 1, 1);
    world.wall(1, 2);
    connect(&mut world, 1, 2);
    world.run_for(Duration::from_secs(11));
    assert_eq!(why_not(&world, 1), Some(NotConnected::Direct(NotOpened::Unreached)));
    assert!(!world.connected(1, 2) && world.connected(1, 0) && world.connected(2, 0));
    connect(&mut world, 1, 2);
    assert_eq!(why_not(&world, 1), Some(NotConnected::Direct(NotOpened::Early)));
}

#[test]
fn a_peer_that_has_gone_or_has_no_channels_is_given_up_soon() {
    let mut world = swarm(2, 2, 0);
    let gone = address(&world, 2);
    world.crash(2);
    world.run_for(A_MOMENT);
    world.drive(1, NodeInput::Command(Command::Connect(gone)));
    world.run_for(Duration::from_secs(2));
    assert_eq!(why_not(&world, 1), Some(NotConnected::Direct(NotOpened::Gone)), "the relay says so");
    // One that was started without them says nothing, and a gateway has none.
    world.drive(0, NodeInput::Command(Command::Connect(gone)));
    assert_eq!(why_not(&world, 0), Some(NotConnected::Direct(NotOpened::NoDriver)));
}
