//! A gateway that nobody else can dial, or that is alone: it is its ring, owns all markets, and buys of itself and
//! of its pages.

use crate::cheapest::guests::guest;
use crate::cheapest::support::*;
use node_core::goods::Kind;
use node_core::{Config, JobId};
use simulator::World;
use std::time::Duration;

fn founder(slots: u32) -> Config {
    let first_ip = Some(node_core::address::Ip::from(std::net::IpAddr::from([127, 0, 0, 1])));
    Config { first_ip, slots, ..config(0, true, true) }
}

fn price(of: u64) -> u64 {
    of * FUEL / 1_000_000_000
}

fn done(world: &mut World, job: JobId, units: u32) {
    world.run_until(A_MINUTE * 5, "the job is done", |w| w.is_over(job));
    world.assert_all_right(job, units);
    assert_settled(world, 0);
}

/// Sellers that are listed where the market is now.
fn listed(world: &World, at: usize) -> usize {
    let markets = world.node(at).markets().into_iter().flat_map(|its| its.books());
    markets.filter(|book| book.mine && book.market.kind == Kind::Cycles).map(|book| book.sellers.len()).sum()
}

#[test]
fn a_gateway_that_is_alone_buys_its_own_slots() {
    let mut world = World::seed(80).with(long);
    world.add_keyed(founder(2), &secret(0));
    sell(&mut world, 0, 1000);
    world.run_until(A_MINUTE / 4, "its slots are listed", |w| listed(w, 0) == 1);
    endow(&mut world, 0, 10 * CREDIT);
    let job = job(&mut world, 0, 3, CREDIT);
    done(&mut world, job, 3);
    assert_eq!(balance(&world, 0), 10 * CREDIT, "it has paid itself");
    // It is the only seller, and has no second price.
    assert!(world.results(job).values().all(|result| result.paid.0.abs_diff(CREDIT) <= 1));
}

#[test]
fn pages_of_a_gateway_that_is_alone_sell_at_the_cost_of_the_next() {
    let mut world = World::seed(81).with(long);
    world.add_keyed(founder(0), &secret(0));
    // Some pages come before it has taken its place, some after.
    let first = guest(&mut world, 0, 1000);
    world.run_for(Duration::from_secs(7));
    let others = [guest(&mut world, 0, 3000), guest(&mut world, 0, 2000)];
    world.run_until(A_MINUTE / 4, "all are listed", |w| listed(w, 0) == 3);
    endow(&mut world, 0, 10 * CREDIT);
    let job = job(&mut world, 0, 2, CREDIT);
    done(&mut world, job, 2);
    let paid = [first, others[1], others[0]].map(|at| balance(&world, at));
    assert_eq!(paid, [price(3000), price(3000), 0]);
}

/// Until somebody says where it is, a founder knows its own machine's address alone. Nobody may be told that.
#[test]
fn nodes_that_come_later_join_the_ring_of_one_at_its_true_address() {
    for seed in 0..20 {
        let mut world = World::seed(200 + seed).with(long);
        world.add_keyed(founder(1), &secret(0));
        sell(&mut world, 0, 9000);
        let page = guest(&mut world, 0, 1000);
        world.run_until(A_MINUTE / 2, "both are listed", |w| listed(w, 0) == 2);
        for at in 2..5 {
            world.add_keyed(config(at, false, false), &secret(at));
            world.connect(0, at);
            sell(&mut world, at, 1000 * at as u64);
            world.run_for(Duration::from_millis(seed * 200));
        }
        let all = |w: &World| [0, 2, 3, 4].iter().map(|at| listed(w, *at)).sum::<usize>() == 5;
        world.run_until(A_MINUTE / 2, "all are listed", all);
        // A member that knows node 0 at its loopback address learns the true one with its successor's next
        // message.
        let known = |w: &World| {
            let members =
                [0, 2, 3, 4].into_iter().flat_map(|at| w.node(at).ring()).flat_map(|ring| ring.members());
            let contacts = members.flat_map(|member| {
                member.successors().iter().map(|peer| peer.contact).chain([member.contact()])
            });
            contacts.into_iter().all(|contact| !contact.ip.is_loopback())
        };
        world.run_until(A_MINUTE / 4, "nobody knows it at its first address", known);
        endow(&mut world, 0, 10 * CREDIT);
        let job = job(&mut world, 0, 2, CREDIT);
        done(&mut world, job, 2);
        assert_eq!((balance(&world, page), world.faults(0).len()), (price(3000), 0), "seed {seed}");
    }
}

#[test]
fn a_founder_that_restarts_comes_back_to_the_ring_of_its_nodes() {
    for seed in 0..20 {
        let mut world = World::seed(300 + seed).with(long);
        world.add_keyed(founder(0), &secret(0));
        for at in 1..4 {
            world.add_keyed(config(at, false, false), &secret(at));
            world.connect(0, at);
            sell(&mut world, at, 1000 * at as u64);
        }
        world.run_for(A_MINUTE);
        world.crash(0);
        world.run_for(Duration::from_secs(seed));
        world.start(0);
        // Longer than it waits, with some seeds.
        world.run_for(Duration::from_secs(seed / 2));
        (1..4).for_each(|at| world.connect(0, at));
        world.run_for(A_MINUTE / 2);
        world.run_until(A_MINUTE, "all are listed", |w| (0..4).map(|at| listed(w, at)).sum::<usize>() == 3);
        endow(&mut world, 0, 10 * CREDIT);
        let job = job(&mut world, 0, 2, CREDIT);
        done(&mut world, job, 2);
    }
}
