//! Terms that end: who keeps a file is bought anew, at the price that the rule gives then.

use super::*;
use crate::files::paying::{
    COST, CREDIT, DELTA, assert_settled, balance, bank, books, cost, earned, endow, remove, seconds, space,
    statement,
};
use node_core::ledger::Why;

const TERM: u64 = 2 * 3600;

fn short_term() -> FilesConfig {
    FilesConfig { term: Duration::from_secs(TERM), ..selling(64 * MIB) }
}

/// Past the moment at which the next term is bought, a quarter before the end.
fn until_renewed(world: &mut World, began: u64) {
    let now = seconds(world);
    world.run_for(Duration::from_secs((began + TERM - TERM / 4 + 300).saturating_sub(now)));
}

/// Sales of which it was paid something.
fn paid_sales(world: &mut World, at: usize) -> usize {
    statement(world, at).iter().filter(|line| matches!(line.why, Why::Kept(..))).count()
}

fn assert_nothing_is_lost(world: &mut World, credit: u64) {
    assert_settled(world);
    let all: u64 = (0..=bank(world)).map(|at| balance(world, at)).sum();
    assert_eq!(all, credit, "all of it is somewhere");
}

/// They have less left than the others, and so stand in a market of their own.
#[test]
fn the_next_term_is_bought_of_the_same_keepers_at_the_price_of_all_who_sell() {
    for seed in 0..2 {
        let mut world = trading(seed, 6, COST, short_term());
        endow(&mut world, 0, 10 * CREDIT);
        let began = seconds(&world);
        let id = put_for(&mut world, 0, &content(seed, 4 * MIB), 3, Some(6 * CREDIT));
        until_kept(&mut world, id, 3);
        let (kept, bytes) = (seconds(&world), space(&world, id));
        let first = file(&world, 0, id).keepers;
        assert!(first.iter().all(|keeper| keeper.price == Some(Price(4 * COST))), "{first:?}");
        until_renewed(&mut world, began);
        let second = file(&world, 0, id).keepers;
        let nodes = |keepers: &[node_core::files::owner::KeeperView]| -> Vec<_> {
            keepers.iter().map(|keeper| keeper.node).collect()
        };
        assert_eq!(nodes(&first), nodes(&second), "nobody else had to get it");
        assert!(second.iter().all(|keeper| keeper.price == Some(Price(4 * COST))), "{second:?}");
        let longer = first.iter().zip(&second).all(|(one, two)| two.until_ms > one.until_ms);
        assert!(longer, "{first:?} {second:?}");

        world.run_for(Duration::from_secs(TERM - TERM / 4 - 900));
        let ended = seconds(&world);
        remove(&mut world, id);
        assert_settled(&mut world);
        for at in 1..=3 {
            let its = earned(&mut world, at);
            let right = cost(4 * COST, bytes, ended - kept - 100)..=cost(4 * COST, bytes, ended - began) + 2;
            assert!(right.contains(&its), "seed {seed}: node {at} earned {its} in both terms, not {right:?}");
            assert_eq!(paid_sales(&mut world, at), 2, "a sale each term");
        }
        assert!((4..=6).all(|at| earned(&mut world, at) == 0));
        assert_nothing_is_lost(&mut world, 10 * CREDIT);
    }
}

#[test]
fn what_cannot_be_afforded_again_waits_with_that_reason_and_is_kept_until_the_term_ends() {
    let mut world = trading(3, 3, COST, short_term());
    let bytes = 4 * MIB + 100;
    let term = cost(2 * COST, bytes, TERM) + DELTA;
    let credit = term * 3 / 2;
    endow(&mut world, 0, credit);
    let began = seconds(&world);
    let id = put_for(&mut world, 0, &content(3, 4 * MIB), 1, Some(CREDIT));
    until_kept(&mut world, id, 1);
    until_renewed(&mut world, began);
    let view = file(&world, 0, id);
    assert!(view.reason.contains("the bank puts nothing aside"), "{}", view.reason);
    assert_eq!((view.kept, keepers(&world, id)), (1, vec![1]), "it was paid for until then");
    world.run_for(Duration::from_secs(TERM / 4 + 300));
    let view = file(&world, 0, id);
    assert_eq!(view.kept, 0);
    assert!(view.lost.iter().any(|(_, why)| why.contains("its time was over")), "{:?}", view.lost);
    let due = earned(&mut world, 1);
    let right = cost(2 * COST, bytes - 100, TERM - 300)..=term - DELTA;
    assert!(right.contains(&due), "it has {due} for its term, not {right:?}");
    endow(&mut world, 0, CREDIT);
    until_kept(&mut world, id, 1);
    remove(&mut world, id);
    assert_nothing_is_lost(&mut world, credit + CREDIT);
}

#[test]
fn a_file_moves_to_who_keeps_it_for_less_and_each_is_paid_for_its_time() {
    let mut world = trading(4, 4, COST, short_term());
    endow(&mut world, 0, 10 * CREDIT);
    world.crash(1);
    world.run_for(A_MINUTE * 3);
    let began = seconds(&world);
    let id = put_for(&mut world, 0, &content(4, 4 * MIB), 1, Some(CREDIT));
    until_kept(&mut world, id, 1);
    assert_eq!(file(&world, 0, id).keepers[0].price, Some(Price(3 * COST)));
    assert_eq!(keepers(&world, id), [2]);
    world.start(1);
    (0..=bank(&world)).filter(|at| *at != 1).for_each(|at| world.connect(1, at));
    until_renewed(&mut world, began);
    let price = |world: &World, at: usize| {
        let its = file(world, 0, id).keepers.into_iter().find(|keeper| world.find(keeper.node) == Some(at));
        its.and_then(|keeper| keeper.price)
    };
    assert_eq!(price(&world, 1), Some(Price(2 * COST)), "the cheapest has it now, at the next one's cost");
    assert_eq!(keepers(&world, id), [1, 2], "and who had it until its term ends");
    world.run_for(Duration::from_secs(TERM / 4 + 300));
    assert_eq!((keepers(&world, id), file(&world, 0, id).kept), (vec![1], 1));
    let bytes = space(&world, id);
    let its = earned(&mut world, 2);
    let right = cost(3 * COST, bytes, TERM - 300)..=cost(3 * COST, bytes, TERM);
    assert!(right.contains(&its), "{its} for all of its term, not {right:?}");
    remove(&mut world, id);
    assert_nothing_is_lost(&mut world, 10 * CREDIT);
    assert_eq!(books(&world).sum(), 0);
}
