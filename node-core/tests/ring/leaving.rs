//! Members that go of their own accord, and what moves with ranges.

use crate::ring::{SECOND, everybody_looks_up, small};
use node_core::circle::RingId;
use node_core::overlay::ring::{Command, Event, Mode, RingConfig};
use simulator::ring::Rings;
use std::time::Duration;

fn depart(rings: &mut Rings, n: usize) {
    let member = rings.member(n);
    rings.listen = true;
    rings.command(n, Command::Leave(member));
    let begun = rings.now;
    while !rings.events.iter().any(|(at, event)| *at == n && *event == Event::Left(member)) {
        rings.run(SECOND / 10);
        assert!(rings.now.since(begun) < 6 * SECOND, "it does not get away");
    }
    rings.kill(n);
}

#[test]
fn what_a_member_owned_goes_to_its_successor_by_name() {
    for seed in 0..10 {
        let mut rings = Rings::grown(seed, RingConfig::default(), 40);
        let order = rings.in_order(RingId::NODES);
        let (leaver, heir) = (order[10], order[11]);
        let (from, to) = (rings.nodes[leaver].contact, rings.nodes[heir].contact);
        let owned = rings.view(leaver).unwrap().members().next().unwrap().range().unwrap();
        depart(&mut rings, leaver);
        rings.run(3 * SECOND);
        let (mine, its) = (rings.member(leaver), rings.member(heir));
        let lost = Event::Lost { member: mine, range: owned, to: Some(to) };
        let gained = Event::Gained { member: its, range: owned, from: Some(from) };
        assert!(rings.events.contains(&(leaver, lost)), "who leaves is told where its records go");
        let its_events: Vec<_> = rings.events.iter().filter(|(n, _)| *n == heir).collect();
        assert!(its_events.contains(&&(heir, gained)), "who gains is told who has them: {its_events:?}");
        rings.settle(30 * SECOND);
    }
}

#[test]
fn what_a_newcomer_owns_it_has_from_its_successor() {
    let mut rings = Rings::grown(2, RingConfig::default(), 40);
    rings.listen = true;
    let one = rings.join();
    rings.settle(30 * SECOND);
    let member = rings.member(one);
    let order = rings.in_order(RingId::NODES);
    let at = order.iter().position(|n| *n == one).unwrap();
    let giver = order[(at + 1) % order.len()];
    let contact = rings.nodes[giver].contact;
    let gained = rings.events.iter().find_map(|(n, event)| match event {
        Event::Gained { member: m, range, from } if *n == one && *m == member => Some((*range, *from)),
        _ => None,
    });
    let (range, from) = gained.expect("it owns something");
    assert_eq!(from, Some(contact));
    let lost = Event::Lost { member: rings.member(giver), range, to: Some(rings.nodes[one].contact) };
    assert!(rings.events.contains(&(giver, lost)), "and that one gave up exactly this");
}

#[test]
fn what_somebody_leaves_is_found_at_its_heir_within_four_seconds() {
    for seed in 0..10 {
        let mut rings = Rings::grown(seed, RingConfig::default(), 60);
        let order = rings.in_order(RingId::NODES);
        let key = rings.member(order[5]).point;
        depart(&mut rings, order[5]);
        let number = rings.ask(order[40], RingId::NODES, key, Mode::Iterative);
        rings.finish();
        let asked = &rings.lookups[&number];
        assert!(asked.is_right());
        let (end, _) = asked.end.clone().unwrap();
        assert!(end.since(asked.at) < 4 * SECOND, "{:?}", end.since(asked.at));
    }
}

#[test]
fn neighbours_may_leave_together() {
    for seed in 0..20 {
        let mut rings = Rings::grown(seed, small(), 30);
        let order = rings.in_order(RingId::NODES);
        for n in &order[10..13] {
            let member = rings.member(*n);
            rings.command(*n, Command::Leave(member));
        }
        rings.run_checked(RingId::NODES, 6 * SECOND);
        for n in &order[10..13] {
            assert_eq!(rings.view(*n).unwrap().members().count(), 0, "all are gone");
            rings.kill(*n);
        }
        rings.settle(30 * SECOND);
        everybody_looks_up(&mut rings, 1, Mode::Recursive);
    }
}

#[test]
fn a_ring_shrinks_to_nothing() {
    let mut rings = Rings::grown(4, small(), 40);
    for n in rings.alive() {
        depart(&mut rings, n);
        if n % 7 == 0 && n < 39 {
            rings.settle(60 * SECOND);
        }
    }
    assert_eq!(rings.in_order(RingId::NODES), Vec::<usize>::new());
}

/// A gateway whose process begins anew is alone, and its swarm comes to it.
#[test]
fn who_is_alone_joins_the_ring_of_whoever_it_comes_to_know() {
    let mut rings = Rings::grown(6, RingConfig::default(), 20);
    rings.kill(0);
    rings.settle(60 * SECOND);
    rings.start(0);
    let me = rings.nodes[0].contact;
    let member = rings.member(0);
    rings.command(0, Command::Join { member, me, via: Vec::new() });
    rings.run(Duration::from_secs(5));
    let via = vec![rings.nodes[7].contact.id];
    rings.command(0, Command::Know { ring: RingId::NODES, via, anchors: false });
    rings.run(Duration::from_secs(5));
    rings.settle(60 * SECOND);
    everybody_looks_up(&mut rings, 1, Mode::Iterative);
}

/// Each is all that the other knows.
#[test]
fn two_that_leave_at_once_are_both_gone() {
    for seed in 0..20 {
        let mut rings = Rings::grown(seed, small(), 2);
        rings.listen = true;
        for n in 0..2 {
            let member = rings.member(n);
            rings.command(n, Command::Leave(member));
        }
        rings.run(10 * SECOND);
        let left = rings.events.iter().filter(|(_, event)| matches!(event, Event::Left(_))).count();
        assert_eq!((left, rings.in_order(RingId::NODES).len()), (2, 0), "seed {seed}");
        assert!(rings.views().iter().all(|view| view.members().count() == 0), "seed {seed}");
    }
}
