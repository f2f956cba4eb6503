//! Rings beside the ring of nodes: members with points of their own, several a node, and nodes
//! that are none.

use crate::ring::SECOND;
use node_core::circle::{MemberId, Point, RingId};
use node_core::overlay::ring::{Command, Event, Failure, Mode, Refusal, RingConfig};
use simulator::ring::Rings;

/// The ring of markets in the stories: points are capacities (paper `market`, IV-A).
const MARKETS: RingId = RingId(1);

fn market(capacity: u128) -> MemberId {
    MemberId { ring: MARKETS, point: Point(capacity) }
}

/// Five nodes, of which four hold these markets.
fn markets() -> Rings {
    let mut rings = Rings::grown(1, RingConfig::default(), 5);
    rings.listen = true;
    for (n, capacity) in [(0, 100), (1, 200), (1, 300), (2, 1000), (3, 1500), (1, 2500)] {
        let me = rings.nodes[n].contact;
        let via = if n == 0 { Vec::new() } else { vec![rings.nodes[0].contact.id] };
        rings.command(n, Command::Join { member: market(capacity), me, via });
        rings.run(3 * SECOND);
    }
    rings.settle_ring(MARKETS, 30 * SECOND);
    rings
}

fn look_up(rings: &mut Rings, by: usize, capacity: u128) -> Option<(u128, bool, u8)> {
    let key = Point(capacity);
    let number = rings.ask(by, MARKETS, key, Mode::Recursive);
    rings.finish();
    let (_, found) = rings.lookups[&number].end.clone()?;
    let found = found.ok()?;
    Some((found.owner.point.0, found.wraps(key), found.hops))
}

#[test]
fn a_node_may_hold_several_markets_and_the_nearest_higher_one_answers() {
    let mut rings = markets();
    for by in 0..4 {
        for (capacity, owner) in [(0, 100), (100, 100), (101, 200), (250, 300), (301, 1000), (2500, 2500)] {
            let (found, wraps, _) = look_up(&mut rings, by, capacity).unwrap();
            assert_eq!((found, wraps), (owner, false), "{by} looks for {capacity}");
        }
        let (found, wraps, _) = look_up(&mut rings, by, 2501).unwrap();
        assert_eq!((found, wraps), (100, true), "there is none above the top");
    }
    assert_eq!(rings.faults, Vec::new());
}

#[test]
fn who_holds_no_market_asks_through_one_that_it_knows() {
    let mut rings = markets();
    assert_eq!(look_up(&mut rings, 4, 250), None, "it knows none");
    let key = Point(250);
    let number = rings.ask(4, MARKETS, key, Mode::Recursive);
    let (_, result) = rings.lookups[&number].end.clone().unwrap();
    assert_eq!(result, Err(Failure::Nobody));
    let via = vec![rings.nodes[2].contact.id];
    rings.command(4, Command::Know { ring: MARKETS, via, anchors: false });
    let (found, _, hops) = look_up(&mut rings, 4, 250).unwrap();
    assert_eq!((found, hops), (300, 2), "one to the market it knows, one from there to the owner");
}

/// A page knows one gateway, and nobody can dial it.
#[test]
fn a_guest_looks_up_through_its_gateway_and_tries_the_next_when_that_is_gone() {
    let mut rings = Rings::grown(8, RingConfig::default(), 100);
    let guest = rings.place();
    let via = vec![rings.nodes[3].contact.id, rings.nodes[4].contact.id];
    rings.command(guest, Command::Know { ring: RingId::NODES, via, anchors: false });
    let ask = |rings: &mut Rings, n: u128| {
        let key = Point(n << 120);
        let number = rings.ask(guest, RingId::NODES, key, Mode::Recursive);
        rings.finish();
        assert!(rings.lookups[&number].is_right(), "{:?}", rings.lookups[&number]);
    };
    (0..100).for_each(|n| ask(&mut rings, n));
    rings.kill(3);
    (100..200).for_each(|n| ask(&mut rings, n));
    assert_eq!(rings.faults, Vec::new());
}

#[test]
fn a_guest_that_asks_for_too_much_at_once_is_refused_and_the_rest_is_answered() {
    let mut rings = Rings::grown(9, RingConfig::default(), 60);
    let guest = rings.place();
    let via = vec![rings.nodes[3].contact.id];
    rings.command(guest, Command::Know { ring: RingId::NODES, via, anchors: false });
    let numbers: Vec<u64> =
        (0..100).map(|n| rings.ask(guest, RingId::NODES, Point(n << 120), Mode::Recursive)).collect();
    rings.run(SECOND / 4);
    assert!(rings.view(3).unwrap().lookups() <= RingConfig::default().per_guest + 1);
    rings.finish();
    let right = numbers.iter().filter(|number| rings.lookups[number].is_right()).count();
    assert!(right >= 8, "{right} of 100");
}

#[test]
fn too_many_lookups_at_once_fail_at_once() {
    let mut rings = Rings::grown(9, RingConfig::default(), 60);
    let numbers: Vec<u64> =
        (0..300).map(|n| rings.ask(5, RingId::NODES, Point(n << 119), Mode::Iterative)).collect();
    let busy =
        numbers.iter().filter(|n| matches!(rings.lookups[n].end, Some((_, Err(Failure::Busy))))).count();
    let at_once = numbers.iter().filter(|n| matches!(rings.lookups[n].end, Some((_, Ok(_))))).count();
    assert_eq!(busy, 300 - 256 - at_once, "those that need no question count for nothing");
    rings.finish();
    assert!(numbers.iter().filter(|number| rings.lookups[number].is_right()).count() == 300 - busy);
}

#[test]
fn a_point_has_one_member() {
    let mut rings = markets();
    let me = rings.nodes[4].contact;
    let via = vec![rings.nodes[0].contact.id];
    rings.command(4, Command::Join { member: market(300), me, via: via.clone() });
    rings.run(10 * SECOND);
    let by = rings.nodes[1].contact;
    let refused = Event::Refused { member: market(300), why: Refusal::Taken(by) };
    assert!(rings.events.contains(&(4, refused)));
    // It is free when its holder has left.
    rings.command(1, Command::Leave(market(300)));
    rings.run(10 * SECOND);
    rings.command(4, Command::Join { member: market(300), me, via });
    rings.settle_ring(MARKETS, 30 * SECOND);
    assert_eq!(rings.owner(market(300)), Some(4));
    // No node chooses its point on the ring of nodes.
    let wished = MemberId { ring: RingId::NODES, point: Point(7) };
    rings.command(4, Command::Join { member: wished, me, via: Vec::new() });
    assert!(rings.events.contains(&(4, Event::Refused { member: wished, why: Refusal::NotItsPoint })));
}

#[test]
fn a_node_that_dies_takes_all_its_markets_along() {
    let mut rings = markets();
    rings.kill(1);
    rings.settle_ring(MARKETS, 60 * SECOND);
    assert_eq!(look_up(&mut rings, 0, 150).unwrap().0, 1000);
    rings.settle(60 * SECOND);
}

/// A node that looked the point up before is told by a living node that it is elsewhere.
#[test]
fn a_point_that_went_to_another_node_is_found_there() {
    let mut rings = markets();
    let by = 0;
    assert_eq!(look_up(&mut rings, by, 1500).unwrap().0, 1500);
    rings.command(3, Command::Leave(market(1500)));
    rings.run(10 * SECOND);
    let (me, via) = (rings.nodes[4].contact, vec![rings.nodes[0].contact.id]);
    rings.command(4, Command::Join { member: market(1500), me, via });
    rings.settle_ring(MARKETS, 30 * SECOND);
    let begun = rings.now;
    assert_eq!(look_up(&mut rings, by, 1500).unwrap().0, 1500);
    assert!(rings.now.since(begun) < 3 * SECOND, "{:?}", rings.now.since(begun));
    assert_eq!(rings.owner(market(1500)), Some(4));
}
