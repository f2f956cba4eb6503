//! Several gateways, of which one is the bank: nodes learn their swarm's settings from whomever they join.

use crate::cheapest::support::*;
use node_core::NodeEvent;
use node_core::elsewhere::Web;
use node_core::goods::Rule;
use node_core::goods::Scheme;
use node_core::market::MarketConfig;
use node_core::node::config::{BankPart, MarketPart, Open};
use node_core::overlay::dialback::Standing;
use node_core::overlay::tree::TreeConfig;
use node_core::platform::Platform;
use node_core::requires::Matchmaking;
use node_core::{Config, JobId};
use simulator::World;
use std::time::Duration;

/// A swarm that is set otherwise than by default.
fn founder() -> Config {
    let market = MarketConfig { rule: Rule::MaxMin, scheme: Scheme::Single, ..MarketConfig::default() };
    Config {
        market: Some(MarketPart { config: market.into(), secret: secret(0) }),
        tree: TreeConfig::of(4).into(),
        ..config(0, true, true)
    }
}

/// A node that is told nothing of its swarm.
fn joins(at: usize, gateway: bool) -> Config {
    Config {
        founds: false,
        open: Open { scheme: true, pricing: true, degree: true, matchmaking: true },
        bank: Some(BankPart { secret: secret(at), bank: None, rules: None }),
        ..config(at, gateway, false)
    }
}

fn page(at: usize) -> Config {
    Config { port: None, platform: Platform::Browser, bank: None, ..joins(at, false) }
}

/// Rejections that a node was told of, or told itself.
fn rejections(world: &World, at: usize) -> Vec<String> {
    let rejected = world.told.iter().filter_map(|(_, by, event)| match event {
        NodeEvent::Rejected { reason, .. } if *by == at => Some(reason.clone()),
        _ => None,
    });
    rejected.collect()
}

fn assert_nobody_was_cut_off(world: &World) {
    let faults: Vec<_> = (0..world.nodes.len()).flat_map(|at| world.faults(at)).collect();
    assert!(faults.is_empty(), "seed {}: {faults:?}", world.seed);
    let spare = |why: &str| why.contains("neither side has a use");
    let cut: Vec<_> = world.closed.iter().filter(|(_, _, why)| !spare(why)).collect();
    assert!(cut.is_empty(), "seed {}: {cut:?}", world.seed);
}

fn done(world: &mut World, owner: usize, job: JobId, units: u32) {
    for _ in 0..60 {
        if !is_over(world, owner, job) {
            world.run_for(Duration::from_secs(10));
        }
    }
    let view = world.node(owner).job(job).expect("its owner knows it");
    assert_eq!(view.done, units, "{}", view.reason);
    assert_settled(world, owner);
}

/// Gateways 0 (the bank), 1 and 2, each of which joins the one before; a worker and a page at each of the
/// last two: 3 and 5 at gateway 1, 4 and 6 at gateway 2.
fn chain(seed: u64, founder: Config) -> World {
    let mut world = World::seed(seed).with(long);
    world.add_keyed(founder, &secret(0));
    for at in [1, 2] {
        world.add_keyed(joins(at, true), &secret(at));
        world.connect(at, at - 1);
    }
    for (at, gateway) in [(3, 1), (4, 2)] {
        world.add_keyed(joins(at, false), &secret(at));
        world.connect(at, gateway);
    }
    for (at, gateway) in [(5, 1), (6, 2)] {
        world.add_keyed(page(at), &secret(at));
        world.connect(at, gateway);
    }
    world.run_for(A_MINUTE);
    for at in 3..=6 {
        sell(&mut world, at, 1000 * at as u64);
    }
    world.run_for(2 * A_MINUTE);
    world
}

#[test]
fn who_joins_by_way_of_any_gateway_knows_the_swarms_settings_and_stays() {
    let world = chain(1, founder());
    let settings = *world.node(0).swarm();
    assert_eq!(settings.bank, Some(id(&world, 0)));
    for at in 1..=6 {
        assert_eq!(*world.node(at).swarm(), settings, "node {at}");
        let config = world.node(at).market_config().expect("it trades");
        assert_eq!((config.scheme, config.rule), (Scheme::Single, Rule::MaxMin), "node {at}");
    }
    for at in 0..=4 {
        assert!(world.node(at).tree().is_some_and(|it| it.joined()), "node {at} is in the tree");
    }
    for at in [1, 2] {
        assert!(world.connected(at, 0), "gateway {at} found the bank");
    }
    assert_nobody_was_cut_off(&world);
}

#[test]
fn gateways_that_are_not_the_bank_buy_and_who_joined_them_is_paid() {
    for seed in 10..16 {
        let mut world = chain(seed, config(0, true, true));
        for owner in [1, 2] {
            endow(&mut world, owner, 10 * CREDIT);
            let job = job(&mut world, owner, 3, CREDIT);
            done(&mut world, owner, job, 3);
        }
        for at in 3..=6 {
            assert!(balance(&world, at) > 0, "seed {seed}: {at} was paid");
        }
        world.run_for(5 * A_MINUTE);
        assert_nobody_was_cut_off(&world);
    }
}

#[test]
fn a_node_that_is_set_otherwise_is_refused_in_words() {
    let mut world = World::seed(20).with(long);
    world.add_keyed(founder(), &secret(0));
    let other_bank = BankPart { secret: secret(1), bank: Some(secret(9).node()), rules: None };
    let other = MarketPart { config: MarketConfig::default().into(), secret: secret(3) };
    let cases = [
        (Config { bank: Some(other_bank), ..joins(1, false) }, "--bank"),
        (Config { open: Open { degree: false, ..joins(2, false).open }, ..joins(2, false) }, "--tree-degree"),
        (
            Config {
                market: Some(other),
                open: Open { pricing: false, ..joins(3, true).open },
                ..joins(3, true)
            },
            "--pricing",
        ),
        (
            Config {
                matchmaking: Matchmaking::RnTree,
                open: Open { matchmaking: false, ..joins(4, false).open },
                ..joins(4, false)
            },
            "--matchmaking",
        ),
    ];
    for (at, (config, flag)) in cases.into_iter().enumerate().map(|(n, case)| (n + 1, case)) {
        world.add_keyed(config, &secret(at));
        world.connect(at, 0);
        world.run_for(Duration::from_secs(2));
        assert!(!world.connected(at, 0), "{flag}: they parted");
        let told = rejections(&world, at);
        assert!(!told.is_empty() && told.iter().all(|why| why.contains(flag)), "{flag}: {told:?}");
        assert!(world.faults(at).is_empty() && world.faults(0).is_empty());
    }
    assert!(rejections(&world, 1)[0].contains(&id(&world, 0).to_string()), "the value that it needs");
    assert!(rejections(&world, 2)[0].contains("--tree-degree 4"));
    let ways = rejections(&world, 3);
    assert!(ways.iter().all(|why| why.contains("max-min") && why.contains("vickrey")), "{ways:?}");
    assert_eq!(world.node(0).nodes(world.now).len(), 1, "the founder lists none of them");
}

#[test]
fn who_joined_a_gateway_that_knew_nothing_is_told_once_that_gateway_is() {
    let mut world = World::seed(30).with(long);
    world.add_keyed(founder(), &secret(0));
    world.add_keyed(joins(1, true), &secret(1));
    world.add_keyed(joins(2, false), &secret(2));
    world.connect(2, 1);
    world.run_for(A_MINUTE);
    assert_eq!(world.node(2).swarm().bank, None);
    assert!(
        !world.node(2).tree().is_some_and(|it| it.joined()),
        "it takes no part in a tree of unknown degree"
    );
    world.connect(1, 0);
    world.run_until(A_MINUTE, "all are in the tree", |w| {
        (0..3).all(|at| w.node(at).tree().is_some_and(|it| it.joined()))
    });
    let all: Vec<_> = (0..3).map(|at| *world.node(at).swarm()).collect();
    assert!(all.iter().all(|swarm| *swarm == all[0]), "{all:?}");
    let learnt =
        |(_, by, event): &(_, usize, NodeEvent)| *by == 2 && matches!(event, NodeEvent::SwarmLearnt(_));
    assert!(world.told.iter().any(learnt), "its driver can write it down");
    assert_nobody_was_cut_off(&world);
}

#[test]
fn what_somebody_who_just_comes_says_of_the_swarm_is_not_learnt() {
    let mut world = World::seed(31).with(long);
    world.add_keyed(founder(), &secret(0));
    world.add_keyed(joins(1, true), &secret(1));
    world.visit(0, 1);
    world.run_for(A_MINUTE);
    assert!(world.connected(0, 1));
    assert_eq!(world.node(1).swarm().bank, None, "it was not told to join that node");
    assert_nobody_was_cut_off(&world);
}

#[test]
fn a_bank_that_comes_back_elsewhere_is_found_again_by_gateways_that_never_dialled_it() {
    let mut world = chain(40, founder());
    world.crash(0);
    world.run_for(A_MINUTE);
    world.start(0);
    world.connect(0, 1);
    world.run_until(A_MINUTE * 3, "gateway 2 found it", |w| w.connected(2, 0));
    endow(&mut world, 2, 10 * CREDIT);
}

#[test]
fn a_gateway_knows_under_which_hosts_the_gateways_that_it_joined_serve_their_pages() {
    let mut world = World::seed(50).with(long);
    let web = |host: &str| Some(Web { port: 4002, host: Some(host.into()) });
    world.add_keyed(Config { web: web("a.example"), ..founder() }, &secret(0));
    world.add_keyed(joins(1, true), &secret(1));
    world.add_keyed(Config { web: web("b.example"), ..joins(2, false) }, &secret(2));
    world.add_keyed(Config { web: web("evil.example"), ..joins(3, true) }, &secret(3));
    world.visit(1, 0);
    world.connect(2, 1);
    // Any node can claim to be a gateway, and of any name.
    world.visit(3, 1);
    world.run_for(A_MINUTE);
    assert!(world.connected(3, 1));
    let Standing::Member(at) = world.node(0).standing() else { panic!("it can be dialled") };
    let node = world.node(1);
    assert!(node.has_gateway_at("A.example"));
    assert!(node.has_gateway_at(&std::net::IpAddr::from(at.ip).to_string()));
    assert!(!node.has_gateway_at("b.example"), "a worker has no pages");
    assert!(!node.has_gateway_at("c.example"));
    assert!(!node.has_gateway_at("evil.example"), "it was not told to join that one");
}
