//! Gateways with many guests, and with one too many.

use crate::cheapest::support::*;
use node_core::bounds::Bounds;
use node_core::elsewhere::Web;
use node_core::keys::Secret;
use node_core::node::config::MarketPart;
use node_core::platform::Platform;
use node_core::work::spec::Find;
use node_core::{Config, NodeEvent};
use simulator::World;
use std::time::Duration;

/// A key for each of thousands.
fn key(at: usize) -> Secret {
    let mut bytes = [7; 32];
    bytes[..8].copy_from_slice(&(at as u64).to_le_bytes());
    Secret::from_bytes(&bytes)
}

/// A page that gives a slot and sells by way of its gateway.
fn page(at: usize) -> Config {
    let market = MarketPart { config: Default::default(), secret: key(at) };
    Config {
        port: None,
        platform: Platform::Browser,
        bank: None,
        market: Some(market),
        name: String::new(),
        ..config(0, false, false)
    }
}

fn gateway(at: usize, guests: usize) -> Config {
    let web = Some(Web { port: 4002, host: Some(format!("gateway-{at}.example")) });
    Config { web, limits: Bounds { guests, ..Bounds::default() }.into(), ..config(at, true, at == 0) }
}

fn assert_nobody_is_blamed(world: &World) {
    let faults: Vec<_> = (0..world.nodes.len()).flat_map(|at| world.faults(at)).collect();
    assert!(faults.is_empty(), "{faults:?}");
}

/// One gateway and so many pages: a job takes all of their slots at once.
fn crowd(guests: usize) {
    let mut world = World::seed(1).with(long);
    world.keep = |event| matches!(event, NodeEvent::PeerFault { .. } | NodeEvent::Full { .. });
    world.add_keyed(config(0, true, true), &secret(0));
    world.run_for(Duration::from_secs(1));
    for at in 1..=guests {
        world.add_keyed(page(at), &key(at));
        world.connect(at, 0);
        sell(&mut world, at, at as u64);
    }
    world.run_for(Duration::from_secs(10));
    let mut spec = world.sweep(0, 2 * guests as u32);
    spec.find = Find::default();
    let job = world.submit(0, spec);
    world.run_until(A_MINUTE, "all slots are used", |w| {
        let nodes = w.node(0).nodes(w.now);
        nodes.len() == guests + 1 && nodes.iter().all(|node| node.free == 0)
    });
    world.run_until(4 * A_MINUTE, "the job is done", |w| w.is_over(job));
    world.assert_all_right(job, 2 * guests as u32);
    assert_nobody_is_blamed(&world);
    assert!(world.closed.is_empty(), "{:?}", world.closed);
    assert_eq!(world.peers(0).len(), guests);
}

#[test]
fn two_hundred_guests_are_as_welcome_as_two() {
    crowd(200);
}

/// The size that a gateway is to bear: minutes without optimisation.
#[test]
#[ignore = "takes minutes"]
fn two_thousand_guests_use_all_their_slots() {
    crowd(2_000);
}

#[test]
fn who_is_too_many_goes_to_another_gateway_and_is_blamed_for_nothing() {
    let mut world = World::seed(2);
    world.add_keyed(gateway(0, 4), &secret(0));
    world.add_keyed(gateway(1, 4), &secret(1));
    world.connect(0, 1);
    world.run_for(Duration::from_secs(2));
    for at in 2..9 {
        world.add_keyed(page(at), &key(at));
        world.connect(at, 0);
        world.run_for(Duration::from_secs(1));
    }
    let of = |world: &World, gateway| (2..9).filter(|at| world.connected(*at, gateway)).count();
    assert_eq!((of(&world, 0), of(&world, 1)), (4, 3), "each has found room");
    let named = world.told.iter().find_map(|(_, at, event)| match event {
        NodeEvent::Full { gateways, .. } if *at > 1 => gateways.first(),
        _ => None,
    });
    let address = named.and_then(|it| it.for_pages());
    assert_eq!(address.as_deref(), Some("/dns/gateway-1.example/tcp/4002/ws"), "a page is told where to go");
    let mut spec = world.sweep(1, 3);
    spec.find = Find::default();
    let job = world.submit(1, spec);
    world.run_until(A_MINUTE, "the other gateway uses them", |w| is_over(w, 1, job));
    // One more finds both full, and is told so by both.
    for at in 9..11 {
        world.add_keyed(page(at), &key(at));
        world.connect(at, 0);
        world.run_for(Duration::from_secs(30));
    }
    assert!(world.connected(9, 1) && !world.connected(10, 0) && !world.connected(10, 1));
    let full = |(_, at, event): &&(_, usize, NodeEvent)| *at == 10 && matches!(event, NodeEvent::Full { .. });
    assert_eq!(world.told.iter().filter(full).count(), 2);
    assert_nobody_is_blamed(&world);
}

/// Page `at` joins gateway 0 from the address of another.
fn joins_from(world: &mut World, at: usize, address: usize) {
    world.add_keyed(page(at), &key(at));
    world.nodes[at].ip = world.nodes[address].ip;
    world.visit(at, 0);
    world.run_for(Duration::from_secs(5));
}

fn guests_of(world: &World, gateway: usize) -> Vec<usize> {
    (2..world.nodes.len()).filter(|at| world.connected(*at, gateway)).collect()
}

#[test]
fn one_address_that_takes_all_places_of_guests_keeps_nobody_else_out() {
    let mut world = World::seed(4);
    world.add_keyed(gateway(0, 6), &secret(0));
    world.add_keyed(gateway(1, 20), &secret(1));
    world.connect(0, 1);
    world.run_for(Duration::from_secs(2));
    (2..9).for_each(|at| joins_from(&mut world, at, 2));
    assert_eq!(guests_of(&world, 0), [2, 3, 4, 5, 6, 7], "the seventh from one address takes nobody's place");
    joins_from(&mut world, 9, 9);
    assert_eq!(guests_of(&world, 0), [2, 3, 4, 5, 6, 9], "the newest of the six gives way");
    joins_from(&mut world, 10, 2);
    assert_eq!(guests_of(&world, 0), [2, 3, 4, 5, 6, 9], "and does not come back by another page");
    (11..20).for_each(|at| joins_from(&mut world, at, at));
    assert_eq!(guests_of(&world, 0), [2, 9, 11, 12, 13, 14], "until no address has more than one");
    assert_eq!(guests_of(&world, 1).len(), 18 - 6, "the others are served elsewhere");
    assert_nobody_is_blamed(&world);
}

#[test]
fn guests_that_work_stay_before_those_that_are_idle() {
    let mut world = World::seed(5).with(long);
    world.add_keyed(gateway(0, 6), &secret(0));
    world.run_for(Duration::from_secs(2));
    (1..7).for_each(|at| joins_from(&mut world, at, 1));
    let mut spec = world.sweep(0, 5);
    spec.find = Find::default();
    let job = world.submit(0, spec);
    world.run_until(A_MINUTE, "five of them work", |w| w.job(job).is_some_and(|job| job.placed == 5));
    let free = |world: &World| -> Vec<usize> {
        let nodes = world.node(0).nodes(world.now).into_iter();
        nodes.filter(|node| node.free > 0).filter_map(|node| world.find(node.id)).collect()
    };
    let [idle] = free(&world)[..] else { panic!("one is idle: {:?}", free(&world)) };
    joins_from(&mut world, 7, 7);
    assert!(!world.connected(idle, 0) && world.connected(7, 0));
    // Then all that are in the way work, and the newest of them goes; its unit goes on elsewhere.
    joins_from(&mut world, 8, 8);
    assert!(world.connected(8, 0));
    world.run_until(4 * A_MINUTE, "the job is done", |w| w.is_over(job));
    world.assert_all_right(job, 5);
    assert_nobody_is_blamed(&world);
}

#[test]
fn a_gateway_with_as_many_peers_as_it_takes_sends_dialable_nodes_elsewhere_too() {
    let mut world = World::seed(3);
    let few = Bounds { peers: 3, ..Bounds::default() };
    world.add_keyed(Config { limits: few.into(), ..config(0, true, true) }, &secret(0));
    world.add_keyed(config(1, true, false), &secret(1));
    world.connect(0, 1);
    world.run_for(Duration::from_secs(2));
    for at in 2..6 {
        world.add_keyed(Config { ring: None, market: None, ..config(at, false, false) }, &secret(at));
        world.connect(at, 0);
        world.run_for(Duration::from_secs(2));
    }
    world.run_for(Duration::from_secs(5));
    for at in 4..6 {
        assert!(!world.connected(at, 0) && world.connected(at, 1), "{at} found the other gateway");
    }
    assert!(world.peers(0).len() <= 3);
    assert_nobody_is_blamed(&world);
}
