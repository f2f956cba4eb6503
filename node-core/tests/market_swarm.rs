//! Markets in whole nodes: what is listed is found, bought at the rule's price, and sold once.

use node_core::goods::Goods;
use node_core::goods::Kind;
use node_core::goods::NoDeal;
use node_core::goods::Offer;
use node_core::goods::Wanted;
use node_core::keys::Secret;
use node_core::market::MarketConfig;
use node_core::money::{Micro, Price};
use node_core::node::config::MarketPart;
use node_core::overlay::ring::RingConfig;
use node_core::platform::Platform;
use node_core::{Command, Config, NodeEvent, NodeInput};
use simulator::World;
use std::sync::Arc;
use std::time::Duration;

const A_MINUTE: Duration = Duration::from_secs(60);

/// A gateway and so many nodes that can be dialled, all with keys. The gateway buys.
fn swarm(seed: u64, workers: u8) -> World {
    let mut world = World::seed(seed);
    for n in 0..=workers {
        let secret = Secret::from_bytes(&[n + 1; 32]);
        let config = Config {
            gateway: n == 0,
            slots: u32::from(n > 0),
            port: Some(4001),
            name: format!("worker {n}"),
            ring: Some(Arc::new(RingConfig::default())),
            market: Some(MarketPart { config: Arc::new(MarketConfig::default()), secret: secret.clone() }),
            ..Config::default()
        };
        let at = world.add_keyed(config, &secret);
        if at > 0 {
            world.connect(0, at);
        }
    }
    world.run_for(A_MINUTE);
    world
}

fn sell(world: &mut World, at: usize, cost: u64) {
    let goods = Goods {
        kind: Kind::Cycles,
        capacity: 1_000_000_000,
        units: 1,
        minutes: 600,
        cost: Price(cost),
        engine: Platform::Native,
        memory_mib: 1024,
    };
    world.drive(at, NodeInput::Command(Command::Sell(goods)));
}

fn quote(world: &mut World, at: usize, units: u16) -> (Vec<Offer>, Option<NoDeal>) {
    let wanted = Wanted {
        kind: Kind::Cycles,
        capacity: 900_000_000,
        minutes: 10,
        memory_mib: 64,
        engine: None,
        units,
        quantity: 1_000_000_000,
        most: Micro(1_000_000),
        tie: 7,
    };
    let number = world.told.len() as u64;
    world.drive(at, NodeInput::Command(Command::Quote { number, wanted }));
    let answer = |world: &World| {
        world.told.iter().rev().find_map(|(_, by, event)| match event {
            NodeEvent::Quoted { number: n, offers, shortage, .. } if *n == number && *by == at => {
                Some((offers.clone(), *shortage))
            }
            _ => None,
        })
    };
    world.run_until(A_MINUTE * 2, "there is an answer", |w| answer(w).is_some());
    answer(world).expect("it was there")
}

fn buy(world: &mut World, at: usize, offer: Offer) -> bool {
    let number = world.told.len() as u64;
    world.drive(at, NodeInput::Command(Command::Buy { number, offer }));
    let answer = |world: &World| {
        world.told.iter().rev().find_map(|(_, by, event)| match event {
            NodeEvent::Bought { number: n, taken } if *n == number && *by == at => Some(*taken),
            _ => None,
        })
    };
    world.run_until(A_MINUTE, "the seller answers", |w| answer(w).is_some());
    answer(world).expect("it was there")
}

#[test]
fn the_cheapest_sells_at_the_second_price_and_only_once() {
    for seed in 0..5 {
        let mut world = swarm(seed, 8);
        for at in 1..=8 {
            sell(&mut world, at, 1000 * at as u64);
        }
        world.run_for(A_MINUTE);
        let (offers, _) = quote(&mut world, 0, 1);
        let [offer] = offers[..] else { panic!("seed {seed}: one is named: {offers:?}") };
        assert_eq!(offer.seller.id, world.nodes[1].id, "the cheapest");
        assert_eq!(offer.price, Price(2000), "at the second price");
        assert!(buy(&mut world, 0, offer));
        let sold = |world: &World, at: usize| {
            world.told.iter().filter(|(_, by, e)| *by == at && matches!(e, NodeEvent::Sold { .. })).count()
        };
        assert_eq!(sold(&world, 1), 1);
        assert!(!buy(&mut world, 0, offer), "what is sold is sold");
        // De-listed: the next cheapest sells now.
        world.run_for(Duration::from_secs(2));
        let (offers, _) = quote(&mut world, 3, 2);
        let sellers: Vec<_> = offers.iter().map(|offer| world.find(offer.seller.id)).collect();
        assert_eq!(sellers, [Some(2), Some(3)]);
        assert!(offers.iter().all(|offer| offer.price == Price(4000)), "both at the third price");
        assert_eq!(sold(&world, 1), 1);
        // Nothing came for it: it is for sale again.
        world.run_for(A_MINUTE);
        let (offers, _) = quote(&mut world, 0, 2);
        let sellers: Vec<_> = offers.iter().map(|offer| world.find(offer.seller.id)).collect();
        assert_eq!(sellers, [Some(1), Some(2)]);
    }
}

#[test]
fn a_market_outlives_its_owner_and_the_dead_are_not_named() {
    for seed in 0..5 {
        let mut world = swarm(seed, 9);
        for at in 1..=9 {
            sell(&mut world, at, 1000 * at as u64);
        }
        world.run_for(A_MINUTE);
        let owns = |world: &World, at: usize| {
            let markets = world.node(at).markets().expect("its swarm has markets");
            markets.books().any(|book| book.mine && !book.sellers.is_empty())
        };
        let owner = (0..=9).find(|at| owns(&world, *at)).expect("somebody owns the market");
        let dead = if owner == 0 { 1 } else { owner };
        world.kill(dead);
        world.run_for(A_MINUTE * 4);
        let buyer = (0..=9).find(|at| world.lives(*at)).expect("most live");
        let (offers, shortage) = quote(&mut world, buyer, 3);
        assert_eq!(offers.len(), 3, "seed {seed}: {shortage:?}");
        let named: Vec<_> = offers.iter().filter_map(|offer| world.find(offer.seller.id)).collect();
        let cheapest: Vec<_> = (1..=9).filter(|at| *at != dead).take(3).collect();
        assert_eq!(named, cheapest);
    }
}

#[test]
fn who_asks_for_more_than_anybody_has_is_told_so() {
    let mut world = swarm(1, 4);
    let (offers, shortage) = quote(&mut world, 0, 1);
    assert!(offers.is_empty());
    assert_eq!(shortage, Some(NoDeal::NoSeller));
    sell(&mut world, 2, 5_000_000);
    world.run_for(A_MINUTE);
    let (offers, shortage) = quote(&mut world, 0, 1);
    assert!(offers.is_empty(), "{offers:?}");
    assert!(matches!(shortage, Some(NoDeal::TooDear { .. })), "{shortage:?}");
}
