//! Stories of the random finder: a walk takes the free slots that it meets.

use node_core::finding::{Needs, Place};
use node_core::ticket::ServiceId;
use node_core::{Command, Config, NodeEvent, NodeId, NodeInput};
use simulator::World;
use std::collections::BTreeMap;
use std::time::Duration;

/// A gateway without slots and members with two each, whose finder is the random one.
fn swarm(seed: u64, members: usize) -> World {
    let mut world = World::seed(seed);
    let config = |gateway| Config {
        gateway,
        port: Some(4001),
        slots: if gateway { 0 } else { 2 },
        finder: ServiceId::Random,
        ..Config::default()
    };
    world.add(config(true));
    for at in 1..=members {
        world.add(config(false));
        world.connect(0, at);
    }
    world.run_for(Duration::from_secs(30));
    world
}

/// Places that node 0 finds, and why there are not more.
fn find(world: &mut World, number: u64, units: u32, needs: Needs) -> (Vec<Place>, Option<String>) {
    world.drive(0, NodeInput::Command(Command::Find { number, units, needs }));
    let found = |w: &World| {
        w.told.iter().find_map(|(_, _, event)| match event {
            NodeEvent::Found { number: of, places, shortage } if *of == number => {
                Some((places.clone(), shortage.clone()))
            }
            _ => None,
        })
    };
    world.run_until(Duration::from_secs(90), "the search has ended", |w| found(w).is_some());
    found(world).expect("it has ended")
}

fn slots_of(places: &[Place]) -> BTreeMap<NodeId, u32> {
    let mut slots = BTreeMap::new();
    places.iter().for_each(|place| *slots.entry(place.node.id).or_default() += place.units);
    slots
}

#[test]
fn a_walk_finds_free_slots_and_no_slot_twice() {
    for seed in 1..20 {
        let mut world = swarm(seed, 12);
        let (first, why) = find(&mut world, 1, 8, Needs::default());
        let slots = slots_of(&first);
        assert_eq!((slots.values().sum::<u32>(), why), (8, None), "seed {seed}");
        assert!(slots.values().all(|slots| *slots <= 2), "seed {seed}: {slots:?}");
        // The places are kept for a while.
        let (second, _) = find(&mut world, 2, 24, Needs::default());
        let both = slots_of(&[first, second].concat());
        assert!(both.values().all(|slots| *slots <= 2), "seed {seed}: {both:?}");
    }
}

#[test]
fn who_asks_for_more_than_there_is_gets_what_there_is_and_hears_why() {
    let mut world = swarm(3, 4);
    let (places, why) = find(&mut world, 1, 100, Needs::default());
    assert_eq!(slots_of(&places).values().sum::<u32>(), 8, "a long walk meets all of a few");
    assert!(why.expect("there are too few").contains("random walk"));
    // They are free again once nobody has come.
    world.run_for(Duration::from_secs(40));
    assert_eq!(slots_of(&find(&mut world, 2, 8, Needs::default()).0).values().sum::<u32>(), 8);
}

#[test]
fn nodes_that_do_not_suit_are_passed_by() {
    let mut world = swarm(5, 6);
    let needs = Needs { power: u32::MAX, ..Needs::default() };
    let (places, why) = find(&mut world, 1, 1, needs);
    assert!(places.is_empty() && why.is_some());
}

#[test]
fn a_job_whose_finder_is_not_there_goes_on_with_the_nodes_at_hand() {
    let mut world = World::seed(7);
    // The nodes at hand are asked in any case, and are no finder for the rest.
    let config = |gateway| Config { gateway, finder: ServiceId::Connected, ..Config::default() };
    world.add(Config { slots: 0, ..config(true) });
    world.run_until(Duration::from_secs(1), "the gateway has read its disk", |w| w.node(0).is_ready());
    let spec = world.sweep(0, 4);
    let job = world.submit(0, spec);
    world.run_for(Duration::from_secs(5));
    let (places, why) = find(&mut world, 1, 1, Needs::default());
    assert!(places.is_empty() && why.is_some(), "the driver is answered");
    let late = world.add(config(false));
    world.connect(0, late);
    world.run_until(Duration::from_secs(60), "the job is done by who comes", |w| w.is_over(job));
}
