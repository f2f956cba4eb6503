//! Zones tile the space, whoever comes and goes.

use super::net::{Net, clustered, grown, id, mixed};
use super::*;

#[test]
fn zones_tile_the_space_after_many_nodes_have_joined() {
    for seed in 0..6 {
        let nodes = if seed < 4 { 50 } else { 200 };
        // One after another, or all within a moment.
        let gap = Duration::from_millis([500, 5][seed as usize % 2]);
        let mut net = grown(Net::new(seed), nodes, seed % 4 < 2, gap);
        net.seconds(90);
        assert_eq!(net.broken(), None);
        assert_eq!((net.held(), net.faults.len()), (0, 0), "seed {seed}");
    }
}

#[test]
fn zones_tile_the_space_after_nodes_have_left() {
    for seed in 0..4 {
        let mut net = grown(Net::new(seed), 60, seed % 2 == 0, Duration::from_millis(200));
        for _ in 0..20 {
            let one = net.any();
            net.leave(one);
            net.seconds(3);
        }
        net.settle(30);
        net.seconds(60);
        assert_eq!(net.broken(), None);
        assert_eq!(net.held(), 0, "all zones that were held are handed on");
        assert_eq!(net.faults, []);
    }
}

#[test]
fn zones_tile_the_space_after_a_third_of_the_nodes_has_crashed() {
    for seed in 0..8 {
        let mut net = grown(Net::new(seed), 60, seed % 2 == 0, Duration::from_millis(200));
        net.seconds(30);
        net.dials_fail = seed % 4 < 2;
        for _ in 0..20 {
            let one = net.any();
            net.crash(one);
        }
        let took = net.settle(180);
        net.seconds(90);
        assert_eq!(net.broken(), None, "seed {seed}, after {took} s");
        // Some wait for others to be handed on first; routes and searches use them as they are.
        assert!(net.held() <= 8, "seed {seed}: {} zones of 40 nodes are still held", net.held());
        assert_eq!(net.faults, []);
    }
}

#[test]
fn zones_tile_the_space_when_nodes_come_and_go_at_once() {
    for seed in 0..8 {
        let mut net = grown(Net::new(seed), 50, seed % 2 == 0, Duration::from_millis(200));
        net.dials_fail = seed % 3 != 0;
        for at in 50..110 {
            let own = if seed % 2 == 0 { clustered(at) } else { mixed(&mut net.rng) };
            net.start(id(at), Some(own));
            let one = net.any();
            match net.rng.below(2) {
                0 => net.crash(one),
                _ => net.leave(one),
            }
            let gap = net.rng.below(2_000);
            net.run(Duration::from_millis(gap));
        }
        net.settle(240);
        net.seconds(120);
        net.settle(30);
        assert_eq!(net.faults, [], "seed {seed}");
    }
}

#[test]
fn two_parts_of_a_swarm_become_one_space_when_they_meet() {
    for seed in 0..4 {
        // Created apart, or fallen apart for some minutes.
        let apart_from_the_start = seed % 2 == 0;
        let mut net = Net::new(seed);
        net.dials_fail = false;
        let split =
            |net: &mut Net| (0..40).filter(|at| at % 3 == 0).for_each(|at| _ = net.parts.insert(id(at), 1));
        if apart_from_the_start {
            split(&mut net);
        }
        for at in 0..40 {
            net.start(id(at), Some(clustered(at)));
            net.run(Duration::from_millis(200));
        }
        net.seconds(100);
        if apart_from_the_start {
            assert_eq!(net.broken(), Some("2 spaces".into()));
        } else {
            net.settle(10);
            split(&mut net);
            net.tell_ring();
            net.seconds(200);
            assert!(net.broken().is_some(), "each part has all of the space");
        }
        net.parts.clear();
        net.tell_ring();
        net.settle(400);
        net.seconds(120);
        net.settle(30);
    }
}

#[test]
fn a_node_that_was_cut_off_for_a_while_is_in_the_space_again() {
    for (seed, seconds) in [(0, 5), (1, 20), (2, 60), (3, 300)] {
        let mut net = grown(Net::new(seed), 40, seed % 2 == 0, Duration::from_millis(200));
        net.dials_fail = false;
        let one = net.any();
        net.parts.insert(one, 1);
        net.seconds(seconds);
        net.parts.clear();
        net.settle(300);
        net.seconds(60);
        assert_eq!(net.broken(), None);
    }
}

#[test]
fn a_node_that_can_do_more_moves_to_where_such_nodes_are() {
    let mut net = grown(Net::new(7), 40, true, Duration::from_millis(200));
    for at in 0..10 {
        let more = mixed(&mut net.rng);
        net.command(id(at), Command::Own(Some(more)));
        net.seconds(1);
        net.settle(60);
        let coords = net.member(id(at)).coords();
        assert_eq!(coords.0[..3], Coords::of(&more, 0).0[..3]);
        let by = net.any();
        assert_eq!(net.owner_of(by, coords).0, Some(id(at)));
    }
    net.command(id(3), Command::Own(None));
    net.settle(60);
    assert_eq!(net.member(id(3)).coords().0[..3], [0; 3], "a node that runs nothing owns a zone, too");
}
