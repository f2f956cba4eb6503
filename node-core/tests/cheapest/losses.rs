//! Sellers, owners and banks that stop in between: everybody is paid once, and for what was accepted.

use crate::cheapest::support::*;
use node_core::work::spec::CheckpointEvery;
use node_core::{Command, NodeInput};
use sandbox::{Outcome, Task};
use simulator::World;
use std::time::Duration;

fn runner(world: &World, at: usize, job: node_core::JobId) -> Option<usize> {
    let view = world.node(at).units(job, 0, 1)?.pop()?;
    (view.state == node_core::work::view::UnitState::Placed).then_some(world.find(view.runner?)?)
}

#[test]
fn successive_runners_are_paid_for_what_each_of_them_brought_on() {
    for seed in 0..3 {
        let mut world = swarm(20 + seed, 4);
        endow(&mut world, 0, 10 * CREDIT);
        let job = job(&mut world, 0, 1, CREDIT);
        world.run_until(A_MINUTE * 3, "it has checkpoints", |w| {
            w.node(0).units(job, 0, 1).is_some_and(|units| units[0].checkpoints >= 4)
        });
        let first = runner(&world, 0, job).expect("it runs");
        assert_eq!(first, 1, "at the cheapest");
        world.kill(first);
        world.run_until(A_MINUTE * 10, "the job is done", |w| w.is_over(job));
        world.assert_all_right(job, 1);
        assert_settled(&mut world, 0);
        // The dead one comes back, and reads its statement.
        world.start(first);
        world.connect(0, first);
        world.run_for(Duration::from_secs(5));
        let (one, two) = (earned(&mut world, 1), earned(&mut world, 2));
        // 2000 a 10^9 of fuel for the first, 4000 for the second: the third costs as much.
        let whole = FUEL / 1_000_000_000;
        assert!(one > 2000 * whole / 10 && one < 2000 * whole, "seed {seed}: the first earned {one}");
        let both = one.div_ceil(2000) + two.div_ceil(3000);
        assert!(two > 0 && both.abs_diff(whole) <= 1, "each instruction was paid for once: {one} and {two}");
    }
}

#[test]
fn an_owner_that_restarts_pays_once_and_forgets_nothing() {
    for seed in 0..4 {
        let mut world = swarm(40 + seed, 3);
        endow(&mut world, 0, 10 * CREDIT);
        let job = job(&mut world, 0, 3, CREDIT);
        world.run_until(A_MINUTE * 3, "all are placed", |w| w.job(job).is_some_and(|job| job.placed == 3));
        world.run_for(Duration::from_secs(7 * seed));
        world.crash(0);
        world.run_for(Duration::from_secs(3));
        world.start(0);
        (1..=3).for_each(|at| world.connect(0, at));
        world.run_until(A_MINUTE * 20, "the job is done", |w| is_over(w, 0, job));
        world.assert_all_right(job, 3);
        assert_settled(&mut world, 0);
        let spent = 10 * CREDIT - balance(&world, 0);
        let paid: u64 = world.results(job).values().map(|result| result.paid.0).sum();
        let fees = fees(&mut world, 0);
        assert_eq!(spent + fees, paid, "seed {seed}: what the results say is what was paid");
    }
}

#[test]
fn while_the_bank_is_down_work_goes_on_and_is_settled_later() {
    let mut world = with_a_far_bank(60, 3);
    endow(&mut world, 1, 10 * CREDIT);
    let job = job(&mut world, 1, 2, CREDIT);
    world.run_until(A_MINUTE * 3, "both are placed", |w| {
        w.node(1).job(job).is_some_and(|job| job.placed == 2)
    });
    world.crash(0);
    world.run_until(A_MINUTE * 5, "the job is done without the bank", |w| is_over(w, 1, job));
    assert!(world.node(1).orders_pending() > 0, "the settlements wait");
    let late = crate::cheapest::support::job(&mut world, 1, 1, CREDIT);
    world.run_for(A_MINUTE);
    assert!(!is_over(&world, 1, late), "without the bank nothing new can be put aside");
    world.start(0);
    (1..5).for_each(|at| world.connect(0, at));
    assert_settled_but(&mut world, 1, 1);
    world.run_until(A_MINUTE * 10, "the late one is done, too", |w| is_over(w, 1, late));
    assert_settled(&mut world, 1);
    let all: u64 = (2..5).map(|at| earned(&mut world, at)).sum();
    assert!(all >= 3 * 2000 * FUEL / 1_000_000_000, "three units were paid for: {all}");
}

fn assert_settled_but(world: &mut World, owner: usize, at_most: usize) {
    world.run_until(A_MINUTE * 5, "what has ended is settled", |w| holds(w, owner) <= at_most);
}

/// Deaths and restarts of everybody, at any time: no credit is made or lost, nobody is paid twice, and
/// in the end nothing is held.
#[test]
fn whatever_stops_the_books_balance_and_nothing_is_left_over() {
    let seeds = std::env::var("MANYHANDS_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(20);
    let mut kept_in_all = 0;
    for seed in 0..seeds {
        // In every other world keepers are bought as well.
        let (mut world, most) = match seed % 2 {
            0 => (swarm(1000 + seed, 4), CREDIT),
            _ => (with_space(1000 + seed, 4), 10 * CREDIT),
        };
        endow(&mut world, 0, 100 * CREDIT);
        let job = job(&mut world, 0, 6, most);
        let mut rng = node_core::protocol::Rng::from_seed([seed as u8; 32]);
        for _ in 0..rng.below(6) {
            world.run_for(Duration::from_millis(rng.below(60_000)));
            let at = rng.below(5) as usize;
            match rng.below(3) {
                0 | 1 => {
                    if world.lives(at) {
                        world.crash(at);
                    }
                    world.run_for(Duration::from_millis(rng.below(20_000)));
                    world.start(at);
                    if at > 0 {
                        sell(&mut world, at, 1000 * at as u64);
                    }
                }
                _ => world.cut(0, 1 + rng.below(4) as usize),
            }
            (1..5).for_each(|at| world.connect(0, at));
            world.drive(0, NodeInput::Wake);
            assert_eq!(books(&world).sum(), 0, "seed {seed}");
        }
        world.run_until(A_MINUTE * 60, "the job is done", |w| is_over(w, 0, job));
        // An owner that has just started knows of an end before it has read the results.
        world.run_for(Duration::from_secs(5));
        world.assert_all_right(job, 6);
        assert_settled(&mut world, 0);
        let paid: Vec<u64> = world.results(job).values().map(|result| result.paid.0).collect();
        let spent = 100 * CREDIT - balance(&world, 0) + fees(&mut world, 0);
        assert_eq!(paid.iter().sum::<u64>(), spent, "seed {seed}: the results say what was paid");
        let all: u64 = (0..5).map(|at| balance(&world, at)).sum();
        assert_eq!(all, 100 * CREDIT, "seed {seed}: all of it is somewhere");
        assert!(paid.iter().all(|paid| *paid <= most), "seed {seed}: {paid:?}");
        if seed % 2 == 1 {
            (1..5).for_each(|at| world.connect(0, at));
            world.run_for(Duration::from_secs(5));
            kept_in_all += (1..5).map(|at| kept(&mut world, at)).sum::<u64>();
        }
    }
    assert!(seeds < 2 || kept_in_all > 0, "keepers were paid in some of them");
}

fn ten_hours(task: &Task) -> (Duration, Outcome) {
    (600 * A_MINUTE, simulator::echo(task).1)
}

/// A donor that gives and stops giving again: each time the unit is handed back, and its next place is a sale
/// of its own, which the seller must not take for one that it has been paid for.
#[test]
fn a_unit_is_sold_three_hundred_times_and_each_sale_has_its_own_name() {
    let mut world = World::seed(70).with(ten_hours);
    world.add_keyed(config(0, true, true), &secret(0));
    world.add_keyed(config(1, false, false), &secret(1));
    world.connect(0, 1);
    world.run_for(A_MINUTE);
    sell(&mut world, 1, 1);
    endow(&mut world, 0, 100 * CREDIT);
    let mut spec = world.sweep(0, 1);
    spec.template.limits.fuel = 600 * FUEL;
    spec.template.checkpoint = CheckpointEvery(1_000_000);
    spec.find = cheapest(90 * CREDIT, None);
    let job = world.submit(0, spec);
    for sale in 1..=300 {
        let placed = |w: &World| runner(w, 0, job) == Some(1);
        world.run_until(A_MINUTE, &format!("sale {sale}: the unit is placed"), placed);
        world.run_for(Duration::from_secs(2));
        assert!(placed(&world), "sale {sale}: {}", reason(&world, 0, job));
        world.drive(1, NodeInput::Command(Command::SetDonating(false)));
        world.run_until(A_MINUTE, "it is handed back", |w| runner(w, 0, job).is_none());
        world.drive(1, NodeInput::Command(Command::SetDonating(true)));
    }
    assert!((0..2).all(|at| world.faults(at).is_empty()));
}
