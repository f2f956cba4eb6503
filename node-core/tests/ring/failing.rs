//! Members that die without a word.

use crate::ring::{SECOND, everybody_looks_up, small, some_key};
use node_core::circle::RingId;
use node_core::overlay::ring::{Mode, RingConfig};
use simulator::ring::Rings;

/// So many of a row die at the same moment; those keys are asked for at once.
fn a_row_dies(rings: &mut Rings, count: usize) {
    let order = rings.in_order(RingId::NODES);
    let first = rings.rng.below(order.len() as u64) as usize;
    let row: Vec<usize> = (0..count).map(|i| order[(first + i) % order.len()]).collect();
    let keys: Vec<_> = row.iter().map(|n| rings.member(*n).point).collect();
    row.iter().for_each(|n| rings.kill(*n));
    let mut numbers = Vec::new();
    for key in keys {
        for mode in [Mode::Iterative, Mode::Recursive] {
            let alive = rings.alive();
            let by = alive[rings.rng.below(alive.len() as u64) as usize];
            numbers.push(rings.ask(by, RingId::NODES, key, mode));
        }
    }
    rings.finish();
    for number in numbers {
        let asked = &rings.lookups[&number];
        assert!(asked.is_right(), "{asked:?}");
    }
}

#[test]
fn a_false_address_that_another_service_was_told_is_nobodys_death() {
    let mut rings = Rings::grown(5, RingConfig::default(), 60);
    rings.settle(60 * SECOND);
    let all = rings.alive();
    for (n, peer) in all.iter().flat_map(|n| all.iter().map(move |peer| (*n, *peer))) {
        if n != peer {
            rings.said_to_be_away(n, peer);
        }
    }
    assert_eq!(rings.check(RingId::NODES, true), Vec::<String>::new());
}

#[test]
fn all_but_one_of_the_successors_may_die_at_once() {
    for seed in 0..20 {
        let mut rings = Rings::grown(seed, RingConfig::default(), 120);
        a_row_dies(&mut rings, 15);
        let took = rings.settle(60 * SECOND);
        println!("seed {seed}: 15 in a row died, the ring is ideal after {took:?}");
        everybody_looks_up(&mut rings, 2, Mode::Iterative);
        assert_eq!(rings.faults, Vec::new());
    }
}

#[test]
fn short_lists_survive_all_but_one_too() {
    for seed in 0..60 {
        let mut rings = Rings::grown(seed, small(), 30);
        a_row_dies(&mut rings, 3);
        rings.settle(60 * SECOND);
        everybody_looks_up(&mut rings, 2, Mode::Recursive);
    }
}

#[test]
fn who_loses_all_successors_finds_back_by_its_fingers() {
    for seed in 0..20 {
        let mut rings = Rings::grown(seed, small(), 60);
        let order = rings.in_order(RingId::NODES);
        order[20..28].iter().for_each(|n| rings.kill(*n));
        let took = rings.heal(90 * SECOND);
        println!("seed {seed}: 8 in a row died with lists of 4, the ring is ideal after {took:?}");
        everybody_looks_up(&mut rings, 1, Mode::Iterative);
    }
}

#[test]
fn half_of_all_members_may_die_at_once() {
    for seed in 0..6 {
        let mut rings = Rings::grown(seed, RingConfig::default(), 300);
        for n in rings.alive() {
            if rings.rng.chance(0.5) {
                rings.kill(n);
            }
        }
        let took = rings.heal(90 * SECOND);
        println!("seed {seed}: {} are left, the ring is ideal after {took:?}", rings.alive().len());
        everybody_looks_up(&mut rings, 2, Mode::Recursive);
    }
}

#[test]
fn the_last_one_is_the_ring() {
    for seed in 0..10 {
        let mut rings = Rings::grown(seed, RingConfig::default(), 6);
        for n in 1..6 {
            rings.kill(n);
        }
        rings.heal(60 * SECOND);
        assert_eq!(everybody_looks_up(&mut rings, 3, Mode::Iterative), 0.0);
    }
}

/// It must not answer for what it owned when it went to sleep; `settle` and the runs below check
/// that no key has two owners.
#[test]
fn who_stood_still_answers_for_nothing_until_it_is_confirmed() {
    for seed in 0..20 {
        let mut rings = Rings::grown(seed, small(), 30);
        let one = 1 + rings.rng.below(29) as usize;
        let point = rings.member(one).point;
        rings.freeze(one);
        rings.run_checked(RingId::NODES, 60 * SECOND);
        let other = (one + 7) % 30;
        let number = rings.ask(other, RingId::NODES, point, Mode::Iterative);
        rings.finish();
        let (_, answer) = rings.lookups[&number].end.clone().expect("it has ended");
        assert_ne!(answer.expect("somebody owns it").owner.point, point, "its successor has taken it over");
        rings.thaw(one);
        rings.run_checked(RingId::NODES, 10 * SECOND);
        rings.settle(60 * SECOND);
    }
}

#[test]
fn who_begins_anew_before_anybody_noticed_gets_its_place_back() {
    for seed in 0..20 {
        let mut rings = Rings::grown(seed, small(), 30);
        let one = 1 + rings.rng.below(29) as usize;
        rings.kill(one);
        rings.run(SECOND / 5);
        rings.start(one);
        rings.enter(one);
        let took = rings.settle(90 * SECOND);
        println!("seed {seed}: back after {took:?}");
        everybody_looks_up(&mut rings, 1, Mode::Recursive);
    }
}

#[test]
fn a_connection_that_breaks_is_no_death() {
    for seed in 0..20 {
        let mut rings = Rings::grown(seed, small(), 30);
        let order = rings.in_order(RingId::NODES);
        for i in 0..3 {
            rings.cut_link(order[i * 9], order[i * 9 + 1]);
        }
        rings.run_checked(RingId::NODES, 20 * SECOND);
        rings.settle(60 * SECOND);
        let key = some_key(&mut rings);
        let number = rings.ask(order[0], RingId::NODES, key, Mode::Recursive);
        rings.finish();
        assert!(rings.lookups[&number].is_right());
    }
}

/// A newcomer lies between two members that die at once. The member before them has not heard of it, and goes
/// past it to the member that takes over from both. The newcomer has its range from one of the dead.
#[test]
fn who_came_between_two_that_die_is_not_passed_over() {
    let mut passed_over = 0;
    for seed in 0..60 {
        let mut rings = Rings::grown(seed, small(), 30);
        let newcomer = rings.join();
        let owns = |rings: &Rings| {
            let view = rings.view(newcomer).and_then(|view| view.members().next());
            view.is_some_and(|member| member.answers_for(rings.now).is_some())
        };
        while !owns(&rings) {
            rings.run(SECOND / 100);
        }
        let order = rings.in_order(RingId::NODES);
        let at = order.iter().position(|n| *n == newcomer).expect("it is on the ring");
        let near = |by: usize| order[(at + order.len() + by - 2) % order.len()];
        let (farther, before, giver) = (near(0), near(1), near(3));
        let point = rings.member(newcomer).point;
        let view = rings.view(farther).and_then(|view| view.members().next()).expect("it is in");
        passed_over += usize::from(view.successors().iter().all(|peer| peer.point != point));
        rings.kill(before);
        rings.kill(giver);
        rings.run_checked(RingId::NODES, 30 * SECOND);
        rings.settle(60 * SECOND);
        everybody_looks_up(&mut rings, 1, Mode::Iterative);
    }
    assert!(passed_over > 30, "{passed_over} of 60 had not been heard of");
}
