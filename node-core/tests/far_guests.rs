//! Stories of guests whose slots every owner of the swarm finds: their gateway counts them in its branch of the tree.

use node_core::discovery::nearest::NearestConfig;
use node_core::keys::Secret;
use node_core::overlay::dialback::Standing;
use node_core::platform::Platform;
use node_core::{Carrier, Config};
use simulator::World;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

const A_MINUTE: Duration = Duration::from_secs(60);

pub(crate) fn secret(at: usize) -> Secret {
    Secret::from_bytes(&[at as u8 + 1; 32])
}

pub(crate) fn config(at: usize, gateway: bool) -> Config {
    Config {
        gateway,
        slots: u32::from(!gateway),
        port: Some(4001),
        name: format!("node {at}"),
        nearest: Arc::new(NearestConfig { relays: true, ..NearestConfig::default() }),
        ring: Some(Arc::default()),
        market: Some(node_core::node::config::MarketPart { config: Arc::default(), secret: secret(at) }),
        signalling: Some(secret(at)),
        circuits: true,
        relay_rate: Some(10_000_000),
        ..Config::default()
    }
}

pub(crate) fn page(at: usize) -> Config {
    Config { port: None, platform: Platform::Browser, relay_rate: None, ..config(at, false) }
}

/// Gateways 0 to 3 and two pages of the first, and the gateway that neither has for its second.
pub(crate) fn swarm(seed: u64) -> (World, usize) {
    swarm_with(seed, |config| config)
}

/// [`swarm`] of nodes whose configurations are changed so.
pub(crate) fn swarm_with(seed: u64, change: fn(Config) -> Config) -> (World, usize) {
    let mut world = World::seed(seed);
    for at in 0..4 {
        world.add_keyed(change(Config { founds: at == 0, ..config(at, true) }), &secret(at));
        if at > 0 {
            world.connect(at, 0);
        }
    }
    world.run_for(A_MINUTE);
    for at in PAGES {
        world.add_keyed(change(page(at)), &secret(at));
        world.connect(at, 0);
    }
    world.run_for(A_MINUTE);
    let free = (1..4).find(|gateway| !PAGES.iter().any(|page| world.connected(*gateway, *page)));
    (world, free.expect("each page has one"))
}

pub(crate) const PAGES: [usize; 2] = [4, 5];

/// Has the gateway run so many units; by what it is connected to the pages then.
fn run(world: &mut World, owner: usize, units: u32) -> Vec<Carrier> {
    let spec = world.sweep(owner, units);
    let job = world.submit(owner, spec);
    let is_over = |w: &World| w.node(owner).job(job).is_some_and(|job| job.state.is_over());
    world.run_until(A_MINUTE * 3, "the job is done", is_over);
    let done = world.node(owner).job(job).unwrap();
    let runners = done.by_node.iter().map(|(_, units, _)| units);
    assert_eq!((runners.sum::<u64>(), done.failed), (u64::from(units), 0), "seed {}", world.seed);
    assert!((0..6).all(|at| world.faults(at).is_empty()), "seed {}: {:?}", world.seed, world.faults(owner));
    let nodes = world.node(owner).nodes(world.now);
    let pages = PAGES.map(|page| world.nodes[page].id);
    nodes.iter().filter(|node| pages.contains(&node.id)).filter_map(|node| node.over).collect()
}

#[test]
fn pages_of_another_gateway_are_found_and_do_the_work() {
    for seed in 0..5 {
        let (mut world, owner) = swarm(seed);
        let over = run(&mut world, owner, 30);
        assert!(
            !over.is_empty() && over.iter().all(|it| *it == Carrier::DataChannel),
            "seed {seed}: {over:?}"
        );
    }
}

/// Gateways in whose branches the page is counted.
fn counted_at(world: &World, page: usize) -> Vec<usize> {
    let id = world.nodes[page].id;
    let counts = |at: &usize| {
        let branch = world.nodes[*at].node.as_ref().and_then(|node| node.branch());
        branch.is_some_and(|branch| branch.children.iter().any(|child| child.guest && child.node == id))
    };
    (0..4).filter(counts).collect()
}

#[test]
fn a_guest_of_two_gateways_counts_once_and_at_the_second_when_the_first_has_gone() {
    for seed in 80..90 {
        let (mut world, _) = swarm(seed);
        for page in PAGES {
            assert_eq!(counted_at(&world, page), [0], "seed {seed}");
            assert!((1..4).any(|at| world.connected(at, page)), "seed {seed}: it has a second one");
        }
        let knows = |w: &World| w.node(1).branch().is_some_and(|branch| branch.network_slots == 2);
        world.run_until(A_MINUTE, "the swarm has two slots", knows);
        world.kill(0);
        let moved = |w: &World| PAGES.iter().all(|page| matches!(counted_at(w, *page)[..], [at] if at > 0));
        world.run_until(A_MINUTE, "the second gateways count them", moved);
        world.run_until(A_MINUTE * 3, "the swarm still has two slots", knows);
    }
}

/// Gateways 0 and 1, and a server behind a router that has joined by the first. Nobody has told it yet that it cannot
/// be dialled.
fn just_joined(seed: u64) -> World {
    let mut world = World::seed(seed);
    world.network.dial_timeout = (10_000_000, 10_000_000);
    for at in 0..3 {
        let gateway = at < 2;
        world.add_keyed(Config { founds: at == 0, ..config(at, gateway) }, &secret(at));
        world.nodes[at].ip = IpAddr::from([9, 9, 9, at as u8]).into();
        world.nodes[at].unreachable = !gateway;
        if at > 0 {
            world.connect(at, 0);
        }
        world.run_for(Duration::from_secs(if gateway { 60 } else { 5 }));
    }
    assert_eq!(world.node(2).standing(), Standing::Unknown, "seed {seed}");
    world
}

#[test]
fn a_server_behind_a_router_goes_on_when_the_gateway_stops_by_which_it_has_just_joined() {
    for seed in 20..30 {
        let mut world = just_joined(seed);
        world.kill(0);
        world.run_for(Duration::from_secs(5));
        assert_eq!(world.node(2).relay(), Some(world.nodes[1].id), "seed {seed}");
        let spec = world.sweep(1, 5);
        let job = world.submit(1, spec);
        let is_done = |w: &World| w.node(1).job(job).is_some_and(|job| job.done == 5);
        world.run_until(Duration::from_secs(30), "it does the work", is_done);
    }
}

#[test]
fn a_guest_turns_to_its_second_gateway_before_the_silent_one_is_given_up() {
    for seed in 60..70 {
        let mut world = just_joined(seed);
        // As the real link: half of that, and it is told.
        world.network.keepalive = Some((8_750_000, 8_750_000));
        world.run_for(A_MINUTE);
        let gateways = [world.nodes[0].id, world.nodes[1].id];
        assert_eq!(world.node(2).relay(), Some(gateways[0]), "seed {seed}");
        world.freeze(0);
        world.run_for(Duration::from_secs(5));
        assert_eq!(world.node(2).relay(), Some(gateways[1]), "seed {seed}: within 5 s");
        assert!(world.connected(0, 2), "seed {seed}: it may come back");
        let spec = world.sweep(1, 5);
        let job = world.submit(1, spec);
        world.run_for(Duration::from_secs(2));
        world.heal();
        world.thaw(0);
        let is_done = |w: &World| w.node(1).job(job).is_some_and(|job| job.done == 5);
        world.run_until(Duration::from_secs(30), "it does the work", is_done);
        world.run_for(Duration::from_secs(10));
        assert_eq!(world.node(2).relay(), Some(gateways[1]), "seed {seed}: it needs no other");
        assert!((0..3).all(|at| world.faults(at).is_empty()), "seed {seed}");
    }
}

#[test]
fn a_guest_has_a_second_gateway_as_soon_as_there_is_one() {
    for seed in 30..40 {
        let mut world = just_joined(seed);
        world.run_for(A_MINUTE);
        world.kill(1);
        world.run_for(A_MINUTE);
        world.add_keyed(config(3, true), &secret(3));
        world.nodes[3].ip = IpAddr::from([9, 9, 9, 3]).into();
        world.connect(3, 0);
        world.run_until(Duration::from_secs(10), "it is connected to the new one", |w| w.connected(3, 2));
        assert!((2..4).all(|at| world.faults(at).is_empty()), "seed {seed}");
    }
}

#[test]
fn the_second_gateway_of_a_network_of_ipv4_is_one_that_it_can_dial() {
    for seed in 40..50 {
        let mut world = just_joined(seed);
        world.kill(1);
        for (at, ip) in
            [(3, IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1])), (4, IpAddr::from([9, 9, 9, 4]))]
        {
            world.add_keyed(config(at, true), &secret(at));
            world.nodes[at].ip = ip.into();
            world.connect(at, 0);
        }
        world.run_for(A_MINUTE);
        assert!(world.connected(4, 2) && !world.connected(3, 2), "seed {seed}");
    }
}

#[test]
fn those_that_no_data_channel_reaches_do_it_by_way_of_their_gateway() {
    for seed in 0..5 {
        let (mut world, owner) = swarm(10 + seed);
        PAGES.into_iter().for_each(|page| world.wall(owner, page));
        let over = run(&mut world, owner, 20);
        assert!(!over.is_empty() && over.iter().all(|it| *it == Carrier::Relay), "seed {seed}: {over:?}");
    }
}
