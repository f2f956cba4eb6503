//! Keepers of checkpoints that are bought with the place: paid for what they kept, within what a unit may
//! cost.

use crate::cheapest::support::*;
use node_core::goods::Goods;
use node_core::goods::Kind;
use node_core::money::Price;
use node_core::platform::Platform;
use node_core::work::view::UnitView;
use node_core::{Command, Config, JobId, NodeInput};
use simulator::World;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Three are asked for: the cheapest, who runs the unit, the next, who keeps it, and one more, since the
/// buyer might sell as well. So that is the cost of the fourth.
const PRICE: u64 = 4000;

/// Cost of the smallest space, 1 MiB, for so many seconds, micro-credits; snapshots of these worlds are
/// smaller.
fn cost(price: u64, seconds: u64) -> u64 {
    Price(price).of((1 << 20) * seconds).round_up().expect("it is an amount").0
}

fn all_kept(world: &mut World, nodes: std::ops::RangeInclusive<usize>) -> Vec<u64> {
    nodes.map(|at| kept(world, at)).collect()
}

fn unit(world: &World, owner: usize, job: JobId) -> Option<UnitView> {
    world.node(owner).units(job, 0, 1)?.pop()
}

fn until_checkpoints(world: &mut World, owner: usize, job: JobId, least: u32) {
    world.run_until(A_MINUTE * 3, "it has checkpoints", |w| {
        unit(w, owner, job).is_some_and(|unit| unit.checkpoints >= least)
    });
}

fn keeps(world: &World, owner: usize, job: JobId, at: usize) -> bool {
    unit(world, owner, job).is_some_and(|unit| unit.keepers.contains(&id(world, at)))
}

fn runs_at(world: &World, owner: usize, job: JobId) -> Option<usize> {
    unit(world, owner, job).and_then(|unit| world.find(unit.runner?))
}

/// The result says what the unit cost, its keepers included.
fn assert_told(world: &mut World, owner: usize, job: JobId, endowed: u64) {
    let results = world.nodes[owner].disk.results(job);
    let paid: u64 = results.values().map(|result| result.paid.0).sum();
    let spent = endowed - balance(world, owner) + fees(world, owner);
    assert_eq!(paid, spent, "what the results say is what was paid");
}

#[test]
fn the_cheapest_that_does_not_run_the_unit_keeps_it_and_is_paid_by_the_rule() {
    for seed in 0..4 {
        let mut world = with_space(seed, 4);
        endow(&mut world, 0, 20 * CREDIT);
        let job = job(&mut world, 0, 1, 10 * CREDIT);
        world.run_until(A_MINUTE * 5, "the job is done", |w| w.is_over(job));
        world.assert_all_right(job, 1);
        assert_settled(&mut world, 0);
        assert!(earned(&mut world, 1) > 0, "node 1 is the cheapest to run it");
        let its = all_kept(&mut world, 1..=4);
        // From the first checkpoint to the last it is 50 s.
        let (least, most) = (cost(PRICE, 40), cost(PRICE, 55));
        assert!((least..=most).contains(&its[1]), "seed {seed}: {its:?}, not {least} to {most}");
        assert_eq!((its[0], its[2], its[3]), (0, 0, 0), "seed {seed}: who runs it does not keep it");
        assert_told(&mut world, 0, job, 20 * CREDIT);
        let all: u64 = (0..=4).map(|at| balance(&world, at)).sum();
        assert_eq!(all, 20 * CREDIT);
        assert!((0..=4).all(|at| world.faults(at).is_empty()), "{:?}", world.faults(0));
    }
}

#[test]
fn each_unit_of_a_runner_has_a_keeper_of_its_own() {
    let mut world = World::seed(3).with(long);
    world.add_keyed(config(0, true, true), &secret(0));
    for at in 1..=4 {
        world.add_keyed(Config { slots: if at == 1 { 3 } else { 1 }, ..keeper(at) }, &secret(at));
        world.connect(0, at);
    }
    world.run_for(A_MINUTE);
    let slots = Goods {
        kind: Kind::Cycles,
        capacity: u64::from(simulator::engine::MIPS) * 1_000_000,
        units: 3,
        minutes: 600,
        cost: Price(1000),
        engine: Platform::Native,
        memory_mib: 1024,
    };
    world.drive(1, NodeInput::Command(Command::Sell(slots)));
    sell(&mut world, 2, 2000);
    world.run_for(A_MINUTE);
    endow(&mut world, 0, 40 * CREDIT);
    let job = job(&mut world, 0, 3, 10 * CREDIT);
    world.run_until(A_MINUTE * 5, "the job is done", |w| w.is_over(job));
    world.assert_all_right(job, 3);
    assert_settled(&mut world, 0);
    assert!(world.results(job).values().all(|result| result.runner == id(&world, 1)));
    let its = all_kept(&mut world, 1..=4);
    assert!(its[0] == 0 && its[1..].iter().all(|kept| *kept > 0), "{its:?}");
    assert_told(&mut world, 0, job, 40 * CREDIT);
}

#[test]
fn no_unit_and_no_job_costs_more_than_it_may_and_what_is_too_little_has_keepers_by_lot() {
    for (seed, max_price) in [(1, CREDIT), (2, 8 * CREDIT), (3, 10 * CREDIT), (4, 10 * CREDIT)] {
        let mut world = with_space(seed, 4);
        endow(&mut world, 0, 40 * CREDIT);
        let job = job_within(&mut world, 0, 3, max_price, Some(max_price * 5 / 2));
        // Also one that is bought again, for what its first place has left.
        if seed == 4 {
            until_checkpoints(&mut world, 0, job, 3);
            world.kill(1);
        }
        world.run_until(A_MINUTE * 30, "the job is done", |w| w.is_over(job));
        world.assert_all_right(job, 3);
        if seed == 4 {
            world.start(1);
            world.connect(0, 1);
            world.run_for(SECOND * 5);
        }
        assert_settled(&mut world, 0);
        let kept: u64 = all_kept(&mut world, 1..=4).iter().sum();
        assert_eq!(kept > 0, max_price > CREDIT, "seed {seed}: {kept}");
        let paid: Vec<u64> = world.results(job).values().map(|result| result.paid.0).collect();
        assert!(paid.iter().all(|paid| *paid <= max_price), "seed {seed}: {paid:?}");
        assert!(paid.iter().sum::<u64>() <= max_price * 5 / 2, "seed {seed}: {paid:?}");
        assert_told(&mut world, 0, job, 40 * CREDIT);
    }
}

#[test]
fn who_has_credit_for_the_place_alone_buys_that() {
    let mut world = with_space(4, 4);
    endow(&mut world, 0, CREDIT / 2);
    let job = job(&mut world, 0, 1, 10 * CREDIT);
    world.run_until(A_MINUTE * 5, "the job is done", |w| w.is_over(job));
    assert_settled(&mut world, 0);
    assert!(earned(&mut world, 1) > 0);
    assert_eq!(all_kept(&mut world, 1..=4), [0; 4]);
}

#[test]
fn where_nobody_sells_space_units_begin_at_once_and_others_keep_them() {
    let mut world = swarm(5, 4);
    endow(&mut world, 0, 20 * CREDIT);
    let job = job(&mut world, 0, 1, 10 * CREDIT);
    world.run_until(SECOND * 5, "it is placed", |w| w.job(job).is_some_and(|job| job.placed == 1));
    until_checkpoints(&mut world, 0, job, 3);
    world.run_until(SECOND * 3, "two keep it", |w| unit(w, 0, job).is_some_and(|it| it.keepers.len() == 2));
    world.run_until(A_MINUTE * 5, "the job is done", |w| w.is_over(job));
    assert_settled(&mut world, 0);
    assert_eq!(all_kept(&mut world, 1..=4), [0; 4]);
}

#[test]
fn a_keeper_that_dies_is_replaced_and_not_paid_for_what_came_after() {
    let mut world = with_space(6, 4);
    endow(&mut world, 0, 20 * CREDIT);
    let job = job(&mut world, 0, 1, 10 * CREDIT);
    until_checkpoints(&mut world, 0, job, 4);
    world.run_until(SECOND * 3, "the second cheapest has the last", |w| keeps(w, 0, job, 2));
    world.kill(2);
    world.run_until(SECOND * 25, "others keep it", |w| {
        let unit = unit(w, 0, job);
        unit.is_some_and(|it| it.keepers.len() == 2 && !it.keepers.contains(&id(w, 2)))
    });
    world.run_until(A_MINUTE * 5, "the job is done", |w| w.is_over(job));
    world.assert_all_right(job, 1);
    assert_settled(&mut world, 0);
    world.start(2);
    world.connect(0, 2);
    world.run_for(SECOND * 5);
    let its = kept(&mut world, 2);
    // Three intervals of 5 s, or four.
    assert!(its >= cost(PRICE, 13) && its <= cost(PRICE, 22), "it earned {its}");
    assert_told(&mut world, 0, job, 20 * CREDIT);
}

#[test]
fn a_keeper_that_hears_nothing_of_the_runner_is_replaced_and_earns_nothing() {
    let mut world = with_space(7, 4);
    endow(&mut world, 0, 20 * CREDIT);
    world.cut_one_way(1, 2);
    let job = job(&mut world, 0, 1, 10 * CREDIT);
    world.run_until(A_MINUTE, "two others keep it", |w| {
        let unit = unit(w, 0, job);
        unit.is_some_and(|it| it.keepers.len() == 2 && !it.keepers.contains(&id(w, 2)))
    });
    world.heal();
    world.run_until(A_MINUTE * 5, "the job is done", |w| w.is_over(job));
    assert_settled(&mut world, 0);
    assert_eq!(all_kept(&mut world, 1..=4), [0; 4]);
    assert_told(&mut world, 0, job, 20 * CREDIT);
}

#[test]
fn a_unit_that_goes_on_elsewhere_has_another_keeper_and_both_are_paid() {
    for seed in 0..3 {
        let mut world = with_space(10 + seed, 4);
        endow(&mut world, 0, 20 * CREDIT);
        let job = job(&mut world, 0, 1, 10 * CREDIT);
        until_checkpoints(&mut world, 0, job, 5);
        assert_eq!(runs_at(&world, 0, job), Some(1));
        world.kill(1);
        world.run_until(A_MINUTE, "it goes on at the next", |w| runs_at(w, 0, job) == Some(2));
        world.run_until(A_MINUTE * 5, "the job is done", |w| w.is_over(job));
        world.assert_all_right(job, 1);
        assert_settled(&mut world, 0);
        world.start(1);
        world.connect(0, 1);
        world.run_for(SECOND * 5);
        let its = all_kept(&mut world, 1..=4);
        // Node 2 kept what node 1 ran, and node 3 or 4 what node 2 does; nobody is left who sets the price.
        let (least, most) = (cost(PRICE, 13), cost(PRICE, 27));
        assert!((least..=most).contains(&its[1]), "seed {seed}: {its:?}, not {least} to {most}");
        assert!(its[2] > 0 || its[3] > 0, "seed {seed}: {its:?}");
        assert_eq!(its[0], 0);
        assert_told(&mut world, 0, job, 20 * CREDIT);
    }
}

#[test]
fn of_what_a_page_runs_its_gateway_passes_checkpoints_on_to_who_was_bought() {
    let mut world = with_space(20, 4);
    let page = Config { port: None, platform: Platform::Browser, bank: None, ..config(5, false, false) };
    assert_eq!(world.add_keyed(page, &secret(5)), 5);
    world.connect(5, 0);
    sell(&mut world, 5, 500);
    world.run_for(A_MINUTE);
    endow(&mut world, 0, 20 * CREDIT);
    let job = job(&mut world, 0, 1, 10 * CREDIT);
    world.run_until(A_MINUTE * 5, "the job is done", |w| w.is_over(job));
    world.assert_all_right(job, 1);
    assert_settled(&mut world, 0);
    assert!(world.results(job).values().all(|result| result.runner == id(&world, 5)));
    let its = all_kept(&mut world, 1..=4);
    // One of the three that are named, at the fourth cost.
    let (least, most) = (cost(PRICE, 40), cost(PRICE, 55));
    assert!((least..=most).contains(&its.iter().sum()), "{its:?}, not {least} to {most}");
    assert_eq!(its.iter().filter(|kept| **kept > 0).count(), 1, "{its:?}");
    assert_told(&mut world, 0, job, 20 * CREDIT);
}

#[test]
fn an_owner_that_restarts_pays_its_keepers_once() {
    for seed in 0..6 {
        let mut world = with_space(40 + seed, 4);
        endow(&mut world, 0, 20 * CREDIT);
        let job = job(&mut world, 0, 1, 10 * CREDIT);
        until_checkpoints(&mut world, 0, job, 2 + seed as u32);
        world.crash(0);
        world.run_for(SECOND * 3);
        world.start(0);
        (1..=4).for_each(|at| world.connect(0, at));
        world.run_until(A_MINUTE * 20, "the job is done", |w| is_over(w, 0, job));
        world.run_for(SECOND * 5);
        world.assert_all_right(job, 1);
        assert_settled(&mut world, 0);
        let its = all_kept(&mut world, 1..=4);
        let (least, most) = (cost(PRICE, 5 * u64::from(1 + seed as u32) - 3), cost(PRICE, 70));
        assert!((least..=most).contains(&its[1]), "seed {seed}: {its:?}, not {least} to {most}");
        assert_told(&mut world, 0, job, 20 * CREDIT);
    }
}

#[test]
fn a_keeper_that_restarts_is_paid_once() {
    for seed in 0..3 {
        let mut world = with_space(50 + seed, 4);
        endow(&mut world, 0, 20 * CREDIT);
        let job = job(&mut world, 0, 1, 10 * CREDIT);
        until_checkpoints(&mut world, 0, job, 3);
        world.crash(2);
        world.run_for(SECOND * seed as u32);
        world.start(2);
        world.connect(0, 2);
        world.run_until(A_MINUTE * 5, "the job is done", |w| w.is_over(job));
        assert_settled(&mut world, 0);
        let its = kept(&mut world, 2);
        assert!(its >= cost(PRICE, 8) && its <= cost(PRICE, 55), "seed {seed}: {its}");
        assert_told(&mut world, 0, job, 20 * CREDIT);
    }
}

#[test]
fn while_the_bank_is_down_keepers_keep_and_are_paid_later() {
    let mut world = far_from_bank(60, 4, keeper);
    endow(&mut world, 1, 20 * CREDIT);
    let job = job(&mut world, 1, 1, 10 * CREDIT);
    until_checkpoints(&mut world, 1, job, 2);
    world.crash(0);
    world.run_until(A_MINUTE * 5, "the job is done without the bank", |w| is_over(w, 1, job));
    assert!(world.node(1).orders_pending() > 0, "the settlement waits");
    world.start(0);
    (1..6).for_each(|at| world.connect(0, at));
    assert_settled(&mut world, 1);
    let its: u64 = all_kept(&mut world, 2..=5).iter().sum();
    assert!(its >= cost(5000, 40) && its <= cost(5000, 55), "{its}");
    assert_told(&mut world, 1, job, 20 * CREDIT);
}
