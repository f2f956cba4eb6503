//! Payments to the cheapest sellers, and jobs whose owner does not have enough credit.

use crate::cheapest::support::*;
use node_core::{Command, NodeInput};
use sandbox::Task;
use simulator::World;
use std::sync::Arc;
use std::time::Duration;

#[test]
fn the_cheapest_do_the_work_and_are_paid_the_price_that_the_rule_gives() {
    for seed in 0..5 {
        let mut world = swarm(seed, 5);
        endow(&mut world, 0, 10 * CREDIT);
        let job = job(&mut world, 0, 2, CREDIT);
        world.run_until(A_MINUTE * 5, "the job is done", |w| w.is_over(job));
        world.assert_all_right(job, 2);
        assert_settled(&mut world, 0);
        // Nodes 1 and 2 cost least; both sell at the cost of the third.
        let earned = 3000 * FUEL / 1_000_000_000;
        let fee: Vec<u64> = (0..=5).map(|at| fees(&mut world, at)).collect();
        assert_eq!(fee.iter().sum::<u64>(), 2 * DELTA, "the market operator has its part of each");
        let balances: Vec<u64> = (0..=5).map(|at| balance(&world, at) - fee[at]).collect();
        assert_eq!(balances[1..], [earned, earned, 0, 0, 0], "seed {seed}");
        assert_eq!(balances[0], 10 * CREDIT - 2 * earned - 2 * DELTA);
        let cost = world.job(job).unwrap().cost.expect("it bought its places");
        assert_eq!((cost.held.0, cost.paid.0), (0, 2 * earned + 2 * DELTA));
        assert_eq!(cost.most.0, 2 * CREDIT);
        let paid: Vec<u64> = world.results(job).values().map(|result| result.paid.0).collect();
        assert_eq!(paid, [earned + DELTA; 2], "and each result says what it cost");
    }
}

#[test]
fn a_job_larger_than_the_swarm_is_done_in_turns_by_who_is_cheapest_then() {
    let mut world = swarm(11, 4);
    endow(&mut world, 0, 10 * CREDIT);
    let job = job(&mut world, 0, 9, CREDIT);
    world.run_until(A_MINUTE * 20, "the job is done", |w| w.is_over(job));
    world.assert_all_right(job, 9);
    assert_settled(&mut world, 0);
    let spent = 10 * CREDIT - books(&world).balance(id(&world, 0)).0;
    assert!(spent <= 9 * CREDIT, "{spent}");
    assert!((1..=4).all(|at| balance(&world, at) > 0), "everybody was needed");
}

#[test]
fn short_units_are_bought_for_as_soon_as_places_are_free_again() {
    for seed in 0..5 {
        let short = |task: &Task| (Duration::from_millis(100), simulator::echo(task).1);
        let mut world = swarm_of(40 + seed, 3, short);
        endow(&mut world, 0, 100 * CREDIT);
        let began = world.now;
        let job = job(&mut world, 0, 30, CREDIT);
        world.run_until(A_MINUTE * 5, "the job is done", |w| w.is_over(job));
        let took = world.now.since(began);
        assert!(took < Duration::from_secs(12), "seed {seed}: ten turns of 0.1 s took {took:?}");
        assert_settled(&mut world, 0);
    }
}

#[test]
fn without_credit_a_job_waits_with_that_reason_and_goes_on_when_there_is_some() {
    let mut world = swarm(3, 3);
    let job = job(&mut world, 0, 1, CREDIT);
    world.run_for(A_MINUTE);
    let why = reason(&world, 0, job);
    assert!(why.contains("the bank puts nothing aside"), "{why}");
    assert_eq!(holds(&world, 0), 0);
    endow(&mut world, 0, CREDIT);
    world.run_until(A_MINUTE * 5, "the job is done", |w| w.is_over(job));
    assert_settled(&mut world, 0);
}

#[test]
fn what_costs_more_than_a_unit_may_waits_and_says_what_it_would_cost() {
    let mut world = swarm(4, 3);
    endow(&mut world, 0, 10 * CREDIT);
    // The cheapest asks for 0.12 credits a minute.
    let job = job(&mut world, 0, 1, 100_000);
    world.run_for(A_MINUTE);
    let why = reason(&world, 0, job);
    assert!(why.contains("the cheapest seller costs up to 0.121000 credits"), "{why}");
    assert_eq!(balance(&world, 0), 10 * CREDIT);
}

#[test]
fn a_job_never_costs_more_than_it_may_as_a_whole() {
    let mut world = swarm(5, 4);
    endow(&mut world, 0, 10 * CREDIT);
    // Four units at the price of a unit's maximum would be 4 credits.
    let job = job_within(&mut world, 0, 4, CREDIT, Some(CREDIT + CREDIT / 2));
    world.run_until(A_MINUTE * 20, "some of it is done", |w| w.job(job).is_some_and(|job| job.done > 0));
    world.run_for(A_MINUTE * 10);
    let spent = 10 * CREDIT - balance(&world, 0) - fees(&mut world, 0);
    assert!(spent <= CREDIT + CREDIT / 2, "{spent}");
    let view = world.job(job).unwrap();
    let cost = view.cost.unwrap();
    assert!(cost.paid.0 + cost.held.0 <= cost.most.0, "{cost:?}");
    if !view.state.is_over() {
        assert!(view.reason.contains("of what the job may cost are left"), "{}", view.reason);
    }
}

#[test]
fn a_job_without_a_fuel_limit_cannot_buy_and_says_how_it_can() {
    let mut world = swarm(6, 1);
    let mut spec = world.sweep(0, 1);
    spec.find = cheapest(CREDIT, None);
    let job = world.submit(0, spec);
    world.run_for(A_MINUTE / 60);
    let refusal = world.refusal(job).expect("it is refused");
    assert!(refusal.contains("needs a fuel limit"), "{refusal}");
}

#[test]
fn who_is_cancelled_pays_for_what_was_done_and_has_the_rest_back() {
    let mut world = swarm(7, 2);
    endow(&mut world, 0, 10 * CREDIT);
    let job = job(&mut world, 0, 1, CREDIT);
    world.run_until(A_MINUTE * 3, "it has come some way", |w| {
        w.node(0).units(job, 0, 1).is_some_and(|units| units[0].checkpoints >= 3)
    });
    world.drive(0, NodeInput::Command(Command::Cancel { job }));
    assert_settled(&mut world, 0);
    let earned = balance(&world, 1) - fees(&mut world, 1);
    let whole = 2000 * FUEL / 1_000_000_000;
    assert!(earned > whole / 10 && earned < whole, "paid for accepted checkpoints: {earned} of {whole}");
}

#[test]
fn a_node_with_a_least_price_takes_no_gifts_and_sells() {
    let mut world = swarm(8, 1);
    endow(&mut world, 0, 10 * CREDIT);
    let policy = node_core::trust::policy::Policy {
        marginal_cost: 1000,
        min_price: 5000,
        ..node_core::trust::policy::Policy::default()
    };
    let policy = Arc::new(policy);
    let terms = Command::Terms { memory_bytes: 1 << 30, policy };
    world.drive(1, NodeInput::Command(terms));
    let spec = world.sweep(0, 1);
    let gift = world.submit(0, spec);
    sell(&mut world, 1, 5000);
    world.run_for(A_MINUTE * 3);
    assert!(!world.is_over(gift));
    let bought = job(&mut world, 0, 1, CREDIT);
    world.run_until(A_MINUTE * 5, "what is paid for is done", |w| w.is_over(bought));
    world.assert_all_right(bought, 1);
    assert_settled(&mut world, 0);
    assert!(balance(&world, 1) > 0);
    assert!(!world.is_over(gift), "{}", reason(&world, 0, gift));
}

#[test]
fn a_swarm_without_markets_says_so() {
    let mut world = World::seed(1).swarm(2, 1);
    let mut spec = world.sweep(0, 1);
    spec.template.limits.fuel = FUEL;
    spec.find = cheapest(CREDIT, None);
    let job = world.submit(0, spec);
    world.run_for(A_MINUTE);
    let why = reason(&world, 0, job);
    assert!(why.contains("this swarm has no markets or no bank"), "{why}");
}
