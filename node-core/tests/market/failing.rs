//! Nodes that die, leave and come.

use crate::market::{SCHEMES, SECOND, SPEED, config, grown, slots, unit};
use node_core::circle::RingId;
use node_core::goods::{Kind, Market};
use node_core::overlay::ring::Command;
use simulator::market::Markets;

/// Twenty sellers in one market, and who owns it. The cheapest is a seller that is no neighbour of the
/// owner.
fn one_market(seed: u64, scheme: node_core::goods::Scheme) -> (Markets, Market, usize) {
    let mut markets = grown(seed, config(scheme), 40);
    let market = Market::of(Kind::Cycles, SPEED).unwrap();
    let owner = markets.market_owner(market).unwrap();
    let order = markets.in_order(RingId::NODES);
    let at = order.iter().position(|n| *n == owner).unwrap();
    for by in 10..30 {
        let n = order[(at + by) % 40];
        markets.offer(n, slots(SPEED, 1, 100 + by as u64));
    }
    markets.settle_markets(120 * SECOND);
    (markets, market, owner)
}

fn next(markets: &Markets, owner: usize, by: usize) -> usize {
    let order = markets.in_order(RingId::NODES);
    let at = order.iter().position(|n| *n == owner).unwrap();
    order[(at + by) % order.len()]
}

fn listed(markets: &Markets, market: Market) -> usize {
    let owner = markets.market_owner(market).unwrap();
    let book = markets.owner_view(owner).books().find(|book| book.market == market && book.mine);
    book.map_or(0, |book| book.sellers.len())
}

#[test]
fn all_but_one_of_the_copies_may_die_with_the_owner() {
    for (seed, scheme) in [(1, SCHEMES[0]), (2, SCHEMES[1]), (3, SCHEMES[0]), (4, SCHEMES[1])] {
        let (mut markets, market, owner) = one_market(seed, scheme);
        let dead: Vec<usize> = (0..4).map(|by| next(&markets, owner, by)).collect();
        let heir = next(&markets, owner, 4);
        dead.iter().for_each(|n| markets.kill(*n));
        // Before the sellers list again, who notice as well that their owner is gone.
        for _ in 0..300 {
            if markets.owner_view(heir).owns(market) {
                break;
            }
            markets.run(SECOND / 10);
        }
        assert_eq!(markets.market_owner(market), Some(heir), "{scheme:?}");
        assert_eq!(listed(&markets, market), 20, "{scheme:?}: nobody is lost");
        let took = markets.settle_markets(120 * SECOND);
        println!("{scheme:?}: owner and three copies died, at rest after {took:?} more");
    }
}

#[test]
fn a_market_goes_to_a_new_owner_whole() {
    for (seed, scheme) in [(5, SCHEMES[0]), (6, SCHEMES[1]), (7, SCHEMES[1])] {
        let (mut markets, market, owner) = one_market(seed, scheme);
        let mut last = owner;
        for _ in 0..30 {
            markets.join();
            markets.run(3 * SECOND);
            let now = markets.market_owner(market).unwrap();
            if now != last {
                println!("seed {seed}: {last} handed over to {now}");
                assert_eq!(listed(&markets, market), 20);
            }
            last = now;
        }
        let member = markets.member(last);
        markets.command(last, Command::Leave(member));
        markets.run(3 * SECOND);
        assert_ne!(markets.market_owner(market), Some(last));
        assert_eq!(listed(&markets, market), 20, "who leaves hands over");
        markets.kill(last);
        markets.settle_markets(180 * SECOND);
    }
}

#[test]
fn a_dead_seller_is_not_named() {
    for (seed, scheme) in [(8, SCHEMES[0]), (9, SCHEMES[1])] {
        let (mut markets, market, owner) = one_market(seed, scheme);
        let cheapest = next(&markets, owner, 10);
        let second = next(&markets, owner, 11);
        markets.kill(cheapest);
        // At once: nobody has noticed.
        let end = markets.searched(owner, unit(SPEED)).unwrap();
        assert_eq!((markets.find(end.offers[0].seller.id), end.dead), (Some(second), 0), "{scheme:?}");
        assert_eq!(listed(&markets, market), 19, "it is purged");
        markets.run(15 * SECOND);
        let third = next(&markets, owner, 11);
        markets.freeze(second);
        let end = markets.searched(owner, unit(SPEED)).unwrap();
        assert_eq!((markets.find(end.offers[0].seller.id), end.dead), (Some(third), 0), "{scheme:?}");
    }
}

#[test]
fn a_seller_that_is_silent_is_purged_within_the_purge_age() {
    for scheme in SCHEMES {
        let (mut markets, market, owner) = one_market(10, scheme);
        let silent: Vec<usize> = (10..20).map(|by| next(&markets, owner, by)).collect();
        silent.iter().for_each(|n| markets.kill(*n));
        markets.run(config(scheme).purge + 6 * SECOND);
        assert_eq!(listed(&markets, market), 10);
        markets.settle_markets(60 * SECOND);
    }
}

/// A buyer whose market operator dies while it is asked finds the next one.
#[test]
fn a_search_survives_its_market_owner() {
    for (seed, scheme) in [(11, SCHEMES[0]), (12, SCHEMES[1])] {
        let (mut markets, _, owner) = one_market(seed, scheme);
        let buyer = next(&markets, owner, 35);
        markets.searched(buyer, unit(SPEED)).unwrap();
        markets.run(15 * SECOND);
        let number = markets.search(buyer, unit(SPEED));
        markets.kill(owner);
        markets.run(60 * SECOND);
        let end = markets.shared.asked[&number].end.clone().unwrap();
        println!("{scheme:?}: {:?} later", end.at.since(markets.shared.asked[&number].at));
        assert_eq!(end.offers.len(), 1, "{scheme:?}: {end:?}");
    }
}

/// All nodes that know the way into the overlay are gone at once.
#[test]
fn the_overlay_outlives_its_entrance() {
    let (mut markets, ..) = one_market(13, SCHEMES[1]);
    (0..4).for_each(|n| markets.offer(n, slots(SPEED << (2 + n), 1, 100)));
    markets.settle_markets(120 * SECOND);
    let key = Kind::Cycles.entrance();
    let point = markets.right(RingId::NODES, key).unwrap();
    let door = markets.owner(node_core::circle::MemberId { ring: RingId::NODES, point }).unwrap();
    markets.kill(door);
    markets.settle_markets(180 * SECOND);
    let fresh = markets.join();
    markets.run(10 * SECOND);
    let end = markets.searched(fresh, unit(SPEED)).unwrap();
    assert!(end.entered && end.offers.len() == 1, "{end:?}");
}
