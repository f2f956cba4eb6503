//! Stories of who can dial whom: only a node that peers have dialled back is a member of tree and
//! ring, whoever came first.

use node_core::address::{Contact, Dialable, Ip};
use node_core::elsewhere::Elsewhere;
use node_core::keys::Secret;
use node_core::node::config::{MarketPart, RecordsPart};
use node_core::node::message::Message;
use node_core::overlay::dialback::{Message as DialBack, Outcome, Standing, Why};
use node_core::overlay::neighbours::Message as Greeting;
use node_core::overlay::tree::check::check;
use node_core::{Config, NodeEvent, NodeId, NodeInput};
use simulator::World;
use simulator::network::Latency;
use std::net::IpAddr;
use std::time::Duration;

const LOOPBACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
/// The bound that a person is promised.
const SOON: Duration = Duration::from_secs(30);

/// How a node is connected to the network.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// Anybody can dial it.
    Open,
    /// It listens, and nobody gets through to it.
    Walled,
    /// On the gateway's machine.
    Beside,
    /// On a machine of its own, listening on loopback.
    LoopbackOnly,
    /// It only dials.
    Silent,
}

const KINDS: [Kind; 5] = [Kind::Open, Kind::Walled, Kind::Beside, Kind::LoopbackOnly, Kind::Silent];

fn keyed(world: &mut World, config: Config) -> usize {
    let mut seed = [7; 32];
    seed[0] = world.nodes.len() as u8;
    let secret = Secret::from_bytes(&seed);
    let market = MarketPart { config: Default::default(), secret: secret.clone() };
    let records = RecordsPart { config: Default::default(), secret: secret.clone() };
    let config = Config {
        port: config.port.or(Some(4001)),
        ring: Some(Default::default()),
        market: Some(market),
        records: Some(records),
        ..config
    };
    world.add_keyed(config, &secret)
}

/// A gateway that founds a swarm is node 0.
fn founded(seed: u64) -> World {
    let mut world = World::seed(seed);
    world.network.dial_timeout = (10_000_000, 10_000_000);
    let first_ip = Some(Ip::from(LOOPBACK));
    keyed(&mut world, Config { gateway: true, slots: 0, first_ip, ..Config::default() });
    world
}

/// A node comes to the gateway.
fn comes(world: &mut World, kind: Kind) -> usize {
    let config = Config { slots: 1, loopback_only: kind == Kind::LoopbackOnly, ..Config::default() };
    let at = match kind {
        Kind::Silent => world.add(config),
        _ => keyed(world, config),
    };
    world.nodes[at].unreachable = kind == Kind::Walled;
    if kind == Kind::Beside {
        world.nodes[at].machine = world.nodes[0].machine;
    }
    world.connect(0, at);
    at
}

fn is_member(world: &World, at: usize) -> bool {
    let node = world.node(at);
    let ring = node.ring().is_some_and(|ring| ring.members().any(|member| member.joined()));
    matches!(node.standing(), Standing::Member(_)) && node.tree().is_some_and(|it| it.joined()) && ring
}

/// Out of everything, and says why.
fn is_guest(world: &World, at: usize) -> bool {
    let node = world.node(at);
    let on_ring = node.ring().is_some_and(|ring| ring.members().next().is_some());
    matches!(node.standing(), Standing::Guest(_)) && !node.tree().is_some_and(|it| it.joined()) && !on_ring
}

fn why(world: &World, at: usize) -> Why {
    match world.node(at).standing() {
        Standing::Guest(why) => why,
        standing => panic!("seed {}: node {at} is no guest: {standing:?}", world.seed),
    }
}

/// The tree of all members, and what is wrong with it.
fn faults_of_tree(world: &World) -> Vec<String> {
    let members = (0..world.nodes.len()).filter(|at| is_member(world, *at));
    let views: Vec<_> = members.filter_map(|at| world.node(at).tree()).collect();
    check(&views, 10, 10, true)
}

#[test]
fn who_cannot_be_dialled_and_comes_first_keeps_nobody_out() {
    for first in [Kind::Walled, Kind::Beside, Kind::LoopbackOnly, Kind::Silent] {
        let mut world = founded(1);
        let early = comes(&mut world, first);
        world.run_for(SOON);
        let alone = first == Kind::Beside;
        assert_eq!(is_member(&world, early), alone, "{first:?}: {:?}", world.node(early).standing());
        let open = [comes(&mut world, Kind::Open), comes(&mut world, Kind::Open)];
        world.run_until(SOON, "who can be dialled is a member", |w| {
            open.iter().all(|at| is_member(w, *at)) && is_member(w, 0) && is_guest(w, early)
        });
        let here = world.node(0).standing().dialable().contact().expect("the gateway is a member");
        assert_eq!(here.ip, world.nodes[0].ip, "the gateway is where others can dial it");
        world.run_for(SOON * 3);
        assert_eq!(faults_of_tree(&world), Vec::<String>::new(), "{first:?}");
        let seen = world.node(0).nodes(world.now);
        let guest = |at: usize| seen.iter().find(|n| n.id == world.nodes[at].id).map(|n| n.guest);
        assert_eq!((guest(early), guest(open[0])), (Some(true), Some(false)));
        match (first, why(&world, early)) {
            (Kind::Walled, Why::NotReached { ip, port: 4001 }) => assert_eq!(ip, world.nodes[early].ip),
            (Kind::Beside, Why::TooNear { ip, .. }) => assert!(ip.is_loopback()),
            (Kind::LoopbackOnly, Why::LoopbackOnly { .. }) | (Kind::Silent, Why::NoPort) => {}
            (_, why) => panic!("{first:?}: {why}"),
        }
    }
}

#[test]
fn in_any_order_of_arrival_whoever_can_be_dialled_is_a_member_within_thirty_seconds() {
    let seeds = std::env::var("MANYHANDS_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(20);
    let only = std::env::var("MANYHANDS_SEED").ok().and_then(|n| n.parse::<u64>().ok());
    for seed in only.map_or(0..seeds, |seed| seed..seed + 1) {
        println!("seed {seed}");
        let mut world = founded(seed);
        world.network.latency = Latency::Uniform(1_000, 200_000);
        let mut came = Vec::new();
        for _ in 0..8 {
            let kind = KINDS[world.rng.below(KINDS.len() as u64) as usize];
            let at = comes(&mut world, kind);
            came.push((kind, at));
            let pause = world.rng.below(12_000);
            let until = world.now + SOON;
            world.run_for(Duration::from_millis(pause));
            if kind == Kind::Open {
                while !is_member(&world, at) {
                    assert!(
                        world.now <= until,
                        "seed {seed}: {at} of {came:?}: {:?}",
                        world.node(at).standing()
                    );
                    world.step();
                }
            }
        }
        let others = came.iter().any(|(kind, _)| *kind == Kind::Open);
        world.run_for(SOON * 4);
        for (kind, at) in &came {
            let stands = world.node(*at).standing();
            // While nobody else can be dialled, that depends on where the gateway was seen first.
            let is_free = *kind == Kind::Beside && !others;
            let member = *kind == Kind::Open || is_free && matches!(stands, Standing::Member(_));
            assert_eq!(is_member(&world, *at), member, "seed {seed}: {at} of {came:?} is {stands:?}");
            assert_eq!(is_guest(&world, *at), !member, "seed {seed}: {at} of {came:?} is {stands:?}");
        }
        assert_eq!(faults_of_tree(&world), Vec::<String>::new(), "seed {seed}: {came:?}");
    }
}

#[test]
fn a_wall_that_opens_makes_a_member_and_one_that_closes_a_guest() {
    let mut world = founded(3);
    let at = comes(&mut world, Kind::Walled);
    let others = [comes(&mut world, Kind::Open), comes(&mut world, Kind::Open)];
    world.run_for(SOON);
    assert!(is_guest(&world, at));
    world.nodes[at].unreachable = false;
    let minutes = Duration::from_secs(60);
    world.run_until(minutes * 6, "it is asked about again", |w| is_member(w, at));
    // Sessions that stand say nothing of whether somebody else can dial it.
    world.nodes[at].unreachable = true;
    world.run_until(minutes * 15, "it is found out", |w| is_guest(w, at));
    world.run_for(minutes * 2);
    assert!(others.iter().all(|at| is_member(&world, *at)), "the others stay");
    assert_eq!(faults_of_tree(&world), Vec::<String>::new());
    let spec = world.sweep(0, 20);
    let job = world.submit(0, spec);
    world.run_until(minutes, "guests and members work", |w| w.is_over(job));
    world.assert_all_right(job, 20);
}

#[test]
fn a_member_that_moves_takes_its_new_address() {
    let mut world = founded(4);
    let at = comes(&mut world, Kind::Open);
    let others = [comes(&mut world, Kind::Open), comes(&mut world, Kind::Open)];
    world.run_until(SOON, "it is a member", |w| is_member(w, at));
    let new: IpAddr = "10.77.0.1".parse().unwrap();
    world.nodes[at].ip = Ip::from(new);
    for peer in world.peers(at) {
        world.cut(at, peer);
    }
    world.run_for(Duration::from_secs(2));
    world.connect(0, at);
    let there = |w: &World| w.node(at).standing().dialable().contact().is_some_and(|c| c.ip == Ip::from(new));
    world.run_until(SOON * 3, "it has its new place", |w| there(w) && is_member(w, at));
    world.run_for(SOON * 3);
    assert!(others.iter().all(|at| is_member(&world, *at)));
    assert_eq!(faults_of_tree(&world), Vec::<String>::new());
}

fn say(world: &mut World, from: usize, message: Message) {
    say_to(world, 0, from, message);
}

fn say_to(world: &mut World, to: usize, from: usize, message: Message) {
    let (from, bytes) = (world.nodes[from].id, message.encode().unwrap());
    world.drive(to, NodeInput::Received { from, channel: message.channel(), bytes });
}

#[test]
fn a_founder_whose_port_refuses_begins_at_its_own_address() {
    let mut world = founded(7);
    // Refused at once, before the founder has waited for long enough to begin alone.
    world.network.dial_timeout = (1_000, 1_000);
    world.nodes[0].unreachable = true;
    let at = comes(&mut world, Kind::Open);
    world.run_until(SOON, "both have their places", |w| is_member(w, 0) && is_member(w, at));
}

#[test]
fn a_gateway_that_just_comes_and_names_an_address_of_the_world_makes_no_guests() {
    let mut world = founded(8);
    let members = [0, comes(&mut world, Kind::Open), comes(&mut world, Kind::Open)];
    world.run_until(SOON, "all are members", |w| members.iter().all(|at| is_member(w, *at)));
    let liar = keyed(&mut world, Config { gateway: true, slots: 0, ..Config::default() });
    members.iter().for_each(|at| world.visit(liar, *at));
    world.run_for(Duration::from_secs(1));
    let wide = Contact { ip: Ip::from(IpAddr::from([8, 8, 8, 8])), id: world.nodes[liar].id, port: 1 };
    for at in members {
        say_to(&mut world, at, liar, Message::Neighbours(Greeting::Dialable(Dialable::At(wide))));
    }
    world.run_for(SOON);
    assert!(members.iter().all(|at| is_member(&world, *at)), "all have kept their places");
}

#[test]
fn a_stranger_that_says_that_it_is_full_sends_nobody_anywhere() {
    let mut world = founded(9);
    world.run_for(SOON);
    let stranger = keyed(&mut world, Config { gateway: true, slots: 0, ..Config::default() });
    world.visit(stranger, 0);
    world.run_for(Duration::from_secs(1));
    let victim = comes(&mut world, Kind::Open);
    world.cut(0, victim);
    world.run_for(Duration::from_secs(1));
    let contact = Contact { ip: world.nodes[victim].ip, id: world.nodes[victim].id, port: 4001 };
    let gateways = vec![Elsewhere { contact, web: None }];
    say(&mut world, stranger, Message::Neighbours(Greeting::Full { gateways }));
    world.run_for(SOON);
    assert!(!world.told.iter().any(|(_, at, event)| *at == 0 && matches!(event, NodeEvent::Full { .. })));
    assert!(!world.connected(0, victim), "it has dialled nobody");
}

#[test]
fn a_node_dials_back_its_peer_alone_once_at_a_time_and_at_the_address_that_it_sees() {
    let mut world = founded(5);
    let at = comes(&mut world, Kind::Walled);
    // Its first try is over, and its second has not begun.
    world.run_until(SOON, "it is a guest", |w| is_guest(w, at));
    world.run_for(Duration::from_secs(5));
    let before = world.probed.len();
    for nonce in 0..100 {
        say(&mut world, at, Message::DialBack(DialBack::Ask { nonce, port: 22 }));
    }
    let asked = &world.probed[before..];
    assert_eq!(asked.len(), 1, "one at a time: {asked:?}");
    let (_, by, contact) = asked[0];
    let there = Contact { ip: world.nodes[at].ip, id: world.nodes[at].id, port: 22 };
    assert_eq!((by, contact), (0, there));
    say(&mut world, at, Message::DialBack(DialBack::Ask { nonce: 1, port: 0 }));
    assert_eq!(world.faults(0), ["asked to be dialled back at port 0"]);
}

#[test]
fn what_nobody_asked_for_and_another_nodes_address_count_for_nothing() {
    let mut world = founded(6);
    let at = comes(&mut world, Kind::Walled);
    world.run_for(SOON);
    let here = world.node(0).standing();
    let outcome = Outcome::Reached(Ip([9; 16]));
    say(&mut world, at, Message::DialBack(DialBack::Answer { nonce: 1, outcome }));
    assert_eq!(world.node(0).standing(), here);
    let other = Contact { ip: Ip([9; 16]), id: NodeId([9; 32]), port: 1 };
    say(&mut world, at, Message::Neighbours(Greeting::Dialable(Dialable::At(other))));
    assert_eq!(world.faults(0), ["gave another node's address for its own"]);
    assert!(world.node(0).nodes(world.now).iter().any(|node| node.id == world.nodes[at].id && node.guest));
}
