//! Stories of nodes that nobody can dial and that no data channel connects: by way of a relay, then.

use crate::cheapest::support::*;
use node_core::address::Address;
use node_core::node::host::NotConnected;
use node_core::overlay::circuits::Refusal;
use node_core::overlay::circuits::ends::NotOpened;
use node_core::overlay::dialback::Standing;
use node_core::overlay::signalling;
use node_core::platform::Platform;
use node_core::trust::policy::Policy;
use node_core::{Carrier, Command, Config, NodeEvent, NodeInput};
use simulator::World;
use simulator::network::Mischief;
use std::sync::Arc;
use std::time::Duration;

const A_MOMENT: Duration = Duration::from_secs(15);

/// Bytes a second.
const RATE: u64 = 10_000_000;

fn able(at: usize, config: Config) -> Config {
    let relay_rate = config.port.map(|_| RATE);
    Config { signalling: Some(secret(at)), circuits: true, relay_rate, ..config }
}

fn page(at: usize) -> Config {
    able(at, Config { port: None, platform: Platform::Browser, bank: None, ..config(at, false, false) })
}

/// A gateway with two pages, and a server behind a router that is its guest as well.
fn swarm(seed: u64) -> World {
    let mut world = World::seed(seed);
    world.add_keyed(able(0, config(0, true, true)), &secret(0));
    for at in 1..=2 {
        world.add_keyed(page(at), &secret(at));
        world.connect(at, 0);
    }
    world.add_keyed(Config { port: None, bank: None, ..able(3, config(3, false, false)) }, &secret(3));
    world.connect(3, 0);
    // One that others can dial has dialled the gateway back.
    world.add_keyed(Config { bank: None, ..able(4, config(4, false, false)) }, &secret(4));
    world.connect(0, 4);
    world.run_for(A_MOMENT);
    world
}

fn connect(world: &mut World, from: usize, to: usize) {
    let Standing::Member(relay) = world.node(0).standing() else { panic!("others can dial the gateway") };
    let to = Address::guest(world.nodes[to].id, relay).with_channels(true);
    world.drive(from, NodeInput::Command(Command::Connect(to)));
}

fn why_not(world: &World, at: usize) -> Option<NotConnected> {
    world.told.iter().rev().find_map(|(_, of, event)| match event {
        NodeEvent::NotConnected { why, .. } if *of == at => Some(*why),
        _ => None,
    })
}

fn terms(world: &mut World, at: usize, policy: Policy) {
    let terms = Command::Terms { memory_bytes: 1 << 30, policy: Arc::new(policy) };
    world.drive(at, NodeInput::Command(terms));
}

/// The carrier of the connection, and the node that relays it, as `at` sees it.
fn seen(world: &World, at: usize, peer: usize) -> Option<(Carrier, Option<usize>)> {
    let nodes = world.node(at).nodes(world.now);
    let peer = nodes.iter().find(|node| node.id == world.nodes[peer].id)?;
    Some((peer.over?, peer.via.and_then(|via| world.find(via))))
}

#[test]
fn two_that_no_data_channel_connects_are_connected_by_their_gateway_within_ten_seconds_of_that() {
    for seed in 0..10 {
        let mut world = swarm(seed);
        [(1, 2), (1, 3)].into_iter().for_each(|(a, b)| world.wall(a, b));
        connect(&mut world, 1, 2);
        connect(&mut world, 3, 1);
        world.run_until(A_MOMENT, "they are connected", |w| w.connected(1, 2) && w.connected(1, 3));
        world.run_for(Duration::from_secs(60));
        for (a, b) in [(1, 2), (2, 1), (1, 3), (3, 1)] {
            assert_eq!(seen(&world, a, b), Some((Carrier::Relay, Some(0))), "seed {seed}: {a} to {b}");
        }
        assert_eq!(world.node(0).relayed().map(|(circuits, _)| circuits), Some(2));
        // For a pair that has failed a moment ago nobody tries it in vain again.
        world.drive(3, NodeInput::Wake);
        assert!((0..=4).all(|at| world.faults(at).is_empty()), "seed {seed}");
        assert_eq!((why_not(&world, 1), why_not(&world, 3)), (None, None), "seed {seed}");
    }
}

#[test]
fn a_donor_that_keeps_its_address_to_itself_is_connected_by_its_gateway_at_once() {
    for seed in 0..5 {
        let mut world = swarm(seed);
        terms(&mut world, 2, Policy { direct_connections: false, ..Policy::default() });
        connect(&mut world, 1, 2);
        world.run_until(Duration::from_secs(3), "they are connected", |w| w.connected(1, 2));
        assert!(world.relayed(1, 2) && !world.connected_straight(1, 2), "seed {seed}");
    }
}

#[test]
fn a_data_channel_takes_the_place_of_the_circuit_as_soon_as_the_networks_let_it() {
    for seed in 0..10 {
        let mut world = swarm(40 + seed);
        world.wall(1, 3);
        let (from, to) = if seed % 2 == 0 { (1, 3) } else { (3, 1) };
        connect(&mut world, from, to);
        world.run_until(A_MOMENT, "they are connected", |w| w.connected(1, 3));
        world.run_for(Duration::from_secs(60));
        assert!(world.relayed(1, 3) && !world.connected_straight(1, 3), "seed {seed}");
        world.unwall(1, 3);
        let directly = |w: &World| w.connected_straight(1, 3);
        world.run_until(Duration::from_secs(90), "the channel is open", directly);
        world.run_for(A_MOMENT);
        for (a, b) in [(1, 3), (3, 1)] {
            assert_eq!(seen(&world, a, b), Some((Carrier::DataChannel, None)), "seed {seed}: {a} to {b}");
        }
        assert_eq!(world.node(0).relayed().map(|(circuits, _)| circuits), Some(0), "seed {seed}");
        assert!((0..=4).all(|at| world.faults(at).is_empty()), "seed {seed}");
    }
}

#[test]
fn two_that_want_to_connect_at_once_have_one_circuit() {
    for seed in 0..20 {
        let mut world = swarm(100 + seed);
        world.wall(1, 3);
        connect(&mut world, 1, 3);
        connect(&mut world, 3, 1);
        world.run_until(A_MOMENT, "they are connected", |w| w.connected(1, 3));
        world.run_for(A_MOMENT);
        assert!(world.connected(1, 3), "seed {seed}");
        assert_eq!(world.node(0).relayed().map(|(circuits, _)| circuits), Some(1), "seed {seed}");
    }
}

#[test]
fn a_relay_that_dies_takes_its_circuits_along_and_both_ends_know() {
    let mut world = swarm(7);
    world.wall(1, 2);
    connect(&mut world, 1, 2);
    world.run_until(A_MOMENT, "they are connected", |w| w.connected(1, 2));
    world.kill(0);
    world.run_for(A_MOMENT);
    assert!(!world.relayed(1, 2) && !world.relayed(2, 1));
    assert_eq!((seen(&world, 1, 2), seen(&world, 2, 1)), (None, None));
}

#[test]
fn where_the_relays_donor_gives_nothing_the_reason_is_known() {
    let mut world = swarm(8);
    world.wall(1, 2);
    terms(&mut world, 0, Policy { relay_mb_per_s: 0.0, ..Policy::default() });
    connect(&mut world, 1, 2);
    world.run_for(A_MOMENT);
    let refused = NotOpened::Refused(Refusal::NotRelaying);
    assert_eq!(why_not(&world, 1), Some(NotConnected::Relayed(refused)));
    // Circuits that stand end as well.
    terms(&mut world, 0, Policy::default());
    connect(&mut world, 1, 2);
    world.run_until(A_MOMENT, "they are connected", |w| w.connected(1, 2));
    terms(&mut world, 0, Policy { relay_mb_per_s: 0.0, ..Policy::default() });
    world.run_for(A_MOMENT);
    assert!(!world.connected(1, 2));
    // Without a relay of circuits the data channel's reason stands.
    let mut world = swarm(9);
    world.wall(1, 2);
    let gone = signalling::NotOpened::Gone;
    world.crash(2);
    world.run_for(A_MOMENT);
    connect(&mut world, 1, 2);
    world.run_for(A_MOMENT);
    let not_here = NotConnected::Relayed(NotOpened::Refused(Refusal::NotHere));
    assert!(matches!(why_not(&world, 1), Some(why) if why == not_here || why == NotConnected::Direct(gone)));
}

#[test]
fn a_relay_that_drops_repeats_or_reorders_ends_the_connection_and_passes_nothing_wrong_on() {
    let mischiefs = [
        Mischief { loss: 0.05, ..Mischief::default() },
        Mischief { duplication: 0.05, ..Mischief::default() },
        Mischief { reordering: 0.2, late: 5_000_000, ..Mischief::default() },
    ];
    for (seed, mischief) in (0..3).flat_map(|seed| mischiefs.map(|mischief| (seed, mischief))) {
        let mut world = swarm(20 + seed);
        world.wall(1, 2);
        connect(&mut world, 1, 2);
        world.run_until(A_MOMENT, "they are connected", |w| w.connected(1, 2));
        world.network.mischief = mischief;
        world.network.mischief_of = vec!["Circuits".into()];
        world.run_until(Duration::from_secs(120), "it ends", |w| !w.relayed(1, 2) && !w.relayed(2, 1));
        world.network.mischief = Mischief::default();
        world.run_for(Duration::from_secs(1));
        connect(&mut world, 1, 2);
        world.run_until(A_MOMENT, "they are connected again", |w| w.connected(1, 2));
    }
}

/// Bank and gateway 0 and gateway 1, of which `owner` has two natives and credit, and a page of the other one that
/// sells for less than they.
fn far_page(seed: u64, owner: usize, prepare: impl Fn(&mut World, usize)) -> (World, usize) {
    let mut world = World::seed(seed).with(long);
    world.add_keyed(able(0, config(0, true, true)), &secret(0));
    world.add_keyed(able(1, config(1, true, false)), &secret(1));
    world.connect(0, 1);
    for at in [2, 3] {
        world.add_keyed(able(at, config(at, false, false)), &secret(at));
        world.connect(owner, at);
    }
    world.run_for(A_MINUTE);
    [2, 3].into_iter().for_each(|at| sell(&mut world, at, 1000 * at as u64));
    let at = world.nodes.len();
    world.add_keyed(page(at), &secret(at));
    prepare(&mut world, at);
    world.connect(at, 1 - owner);
    sell(&mut world, at, 10);
    world.run_for(A_MINUTE);
    endow(&mut world, owner, 10 * CREDIT);
    (world, at)
}

#[test]
fn another_gateways_page_that_no_data_channel_reaches_is_bought_works_and_is_paid() {
    for seed in 0..5 {
        let (mut world, page) = far_page(40 + seed, 1, |world, page| world.wall(1, page));
        let job = job(&mut world, 1, 1, CREDIT);
        world.run_until(A_MINUTE * 5, "the job is done", |w| is_over(w, 1, job));
        assert_settled(&mut world, 1);
        // At the price of the next one.
        assert_eq!(balance(&world, page), 2000 * FUEL / 1_000_000_000, "seed {seed}");
        assert!(world.relayed(1, page), "its units came by way of its gateway");
        assert!((0..=page).all(|at| world.faults(at).is_empty()), "seed {seed}");
    }
}

#[test]
fn a_unit_goes_on_while_a_data_channel_takes_the_place_of_the_circuit() {
    for seed in 0..5 {
        let (mut world, page) = far_page(70 + seed, 1, |world, page| world.wall(1, page));
        let job = job(&mut world, 1, 1, CREDIT);
        let begun = |w: &World| w.node(page).work(w.now).busy > 0 && w.relayed(1, page);
        world.run_until(A_MINUTE * 2, "it has begun there", begun);
        world.unwall(1, page);
        let directly = |w: &World| w.connected_straight(1, page);
        world.run_until(Duration::from_secs(50), "the channel is open", directly);
        assert!(!is_over(&world, 1, job), "seed {seed}: it is under way");
        world.run_until(A_MINUTE * 5, "the job is done", |w| is_over(w, 1, job));
        assert_settled(&mut world, 1);
        let units = world.node(1).units(job, 0, 1).unwrap();
        assert_eq!(units[0].attempts, 1, "seed {seed}");
        assert_eq!(balance(&world, page), 2000 * FUEL / 1_000_000_000, "seed {seed}");
        assert!((0..=page).all(|at| world.faults(at).is_empty()), "seed {seed}");
    }
}

#[test]
fn a_page_whose_donor_wants_no_direct_connections_is_bought_by_all_by_way_of_its_gateway() {
    for seed in 0..5 {
        let shy = |world: &mut World, page: usize| {
            terms(world, page, Policy { direct_connections: false, ..Policy::default() });
        };
        let (mut world, page) = far_page(50 + seed, 1, shy);
        let job = job(&mut world, 1, 2, CREDIT);
        world.run_until(A_MINUTE * 5, "the job is done", |w| is_over(w, 1, job));
        assert_settled(&mut world, 1);
        assert!(balance(&world, page) > 0, "seed {seed}");
        assert!(!world.connected_straight(1, page), "seed {seed}: nobody has learnt its address");
    }
}

#[test]
fn a_job_ends_right_though_its_relay_drops_pieces_and_dies() {
    for seed in 0..5 {
        let (mut world, page) = far_page(60 + seed, 0, |world, page| world.wall(0, page));
        world.network.mischief = Mischief { loss: 0.01, ..Mischief::default() };
        world.network.mischief_of = vec!["Circuits".into()];
        let job = job(&mut world, 0, 4, CREDIT);
        world.run_until(A_MINUTE * 2, "it has begun there", |w| w.node(page).work(w.now).busy > 0);
        world.kill(1);
        world.run_for(A_MINUTE);
        world.start(1);
        world.connect(0, 1);
        world.connect(page, 1);
        world.run_until(A_MINUTE * 30, "the job is done", |w| w.is_over(job));
        world.assert_all_right(job, 4);
    }
}
