//! Nodes that say what is not so.

use crate::ring::{SECOND, small, some_key};
use node_core::NodeId;
use node_core::address::Contact;
use node_core::circle::{Located, MemberId, Peer, Point, RingId};
use node_core::overlay::ring::{Around, Beat, Come, Find, Leave, Message, Mine, Mode, Next, RingConfig};
use simulator::ring::{Lie, Rings};

fn peer(rings: &Rings, n: usize) -> Peer {
    let contact = rings.nodes[n].contact;
    Peer { point: Point::of_node(contact.id), contact }
}

/// Keeps a liar in the ring: it answers stabilize messages as if all were well.
fn stays(rings: &mut Rings, liar: usize, from: usize, message: &Message) {
    let me = peer(rings, liar);
    if let Message::Beat(beat) = message {
        let mut all: Vec<Peer> = rings.alive().into_iter().map(|n| peer(rings, n)).collect();
        all.sort_by_key(|peer| me.point.to(peer.point));
        all.truncate(16);
        let to = MemberId { ring: beat.to.ring, point: beat.from.point };
        let around = Around { to, from: me, before: Some(beat.from), list: all, line: Vec::new() };
        rings.say(liar, from, Message::Around(Box::new(around)));
    }
}

fn owns_everything(rings: &mut Rings, liar: usize, from: usize, message: &Message) {
    stays(rings, liar, from, message);
    if let Message::Find(find) = message {
        let owner = peer(rings, liar);
        let found = Located { owner, after: owner.point, replicas: Vec::new(), hops: 1 };
        rings.say(liar, from, Message::Mine(Box::new(Mine { ticket: find.ticket, found })));
    }
}

fn owns_as_another(rings: &mut Rings, liar: usize, from: usize, message: &Message) {
    stays(rings, liar, from, message);
    if let Message::Find(find) = message {
        let owner = Peer { point: find.key, contact: rings.nodes[liar].contact };
        let found = Located { owner, after: Point(find.key.0 - 1), replicas: Vec::new(), hops: 1 };
        rings.say(liar, from, Message::Mine(Box::new(Mine { ticket: find.ticket, found })));
    }
}

fn names(rings: &mut Rings, liar: usize, from: usize, find: &Find, peers: Vec<Peer>) {
    let next = Next { ticket: find.ticket, from: find.to.unwrap_or(Point(0)), peers, hops: find.hops };
    rings.say(liar, from, Message::Next(Box::new(next)));
}

fn names_points_at_will(rings: &mut Rings, liar: usize, from: usize, message: &Message) {
    stays(rings, liar, from, message);
    if let Message::Find(find) = message {
        let peers = vec![Peer { point: Point(find.key.0 - 1), contact: rings.nodes[liar].contact }];
        names(rings, liar, from, find, peers);
    }
}

fn names_a_crowd(rings: &mut Rings, liar: usize, from: usize, message: &Message) {
    stays(rings, liar, from, message);
    if let Message::Find(find) = message {
        let peers = (0..500).map(|n| peer(rings, n % 50)).collect();
        names(rings, liar, from, find, peers);
    }
}

/// Ids that nobody has, whose points are what they must be: each costs the asker a dial.
fn names_ghosts(rings: &mut Rings, liar: usize, from: usize, message: &Message) {
    stays(rings, liar, from, message);
    if let Message::Find(find) = message {
        let ghost = |n: u64| {
            let mut id = [9; 32];
            id[..8].copy_from_slice(&n.to_be_bytes());
            let contact = Contact { id: NodeId(id), ..rings.nodes[liar].contact };
            Peer { point: Point::of_node(contact.id), contact }
        };
        let mut ghosts: Vec<Peer> = (0..200).map(ghost).collect();
        ghosts.sort_by_key(|ghost| ghost.point.to(find.key));
        ghosts.truncate(3);
        names(rings, liar, from, find, ghosts);
    }
}

fn says_nothing(rings: &mut Rings, liar: usize, from: usize, message: &Message) {
    stays(rings, liar, from, message);
}

/// A tenth of the members lie; what becomes of a hundred lookups of the others.
fn among_liars(lie: Lie, seed: u64) -> (usize, usize, Vec<String>) {
    let mut rings = Rings::grown(seed, RingConfig::default(), 200);
    // Until members trust their own neighbourhood to be as dense as any.
    rings.run(130 * SECOND);
    let liars: Vec<usize> = (1..200).filter(|n| n % 10 == 0).collect();
    liars.iter().for_each(|liar| rings.corrupt(*liar, lie));
    let honest = rings.alive();
    let (mut ended, mut right) = (0, 0);
    for (i, by) in honest.iter().take(100).enumerate() {
        // Keys of honest members: who owns a key may do with it what it likes.
        let owner = honest[(i * 17 + 5) % honest.len()];
        let key = rings.member(owner).point;
        let mode = if i % 2 == 0 { Mode::Iterative } else { Mode::Recursive };
        let number = rings.ask(*by, RingId::NODES, key, mode);
        rings.finish();
        let asked = &rings.lookups[&number];
        ended += usize::from(asked.end.is_some());
        right += usize::from(asked.is_right());
        let (end, _) = asked.end.clone().expect("it ends");
        assert!(end.since(asked.at) <= RingConfig::default().deadline + SECOND);
    }
    let blamed: Vec<NodeId> = rings.faults.iter().map(|(who, _)| *who).collect();
    assert!(
        blamed.iter().all(|who| liars.contains(&rings.find(*who).unwrap())),
        "only liars are blamed: {:?}",
        rings.faults
    );
    (ended, right, rings.faults.into_iter().map(|(_, fault)| fault).collect())
}

#[test]
fn lookups_among_liars_end_and_liars_are_blamed() {
    let lies: [(Lie, Option<&str>, usize); 6] = [
        (owns_everything, Some("too far from it"), 90),
        (owns_as_another, Some("as another member"), 90),
        (names_points_at_will, Some("members that are none"), 90),
        (names_a_crowd, Some("members that are none"), 90),
        (names_ghosts, None, 60),
        (says_nothing, None, 90),
    ];
    for (i, (lie, fault, least)) in lies.into_iter().enumerate() {
        let (ended, right, faults) = among_liars(lie, i as u64);
        println!("lie {i}: {right} of {ended} are right, {} faults", faults.len());
        assert_eq!(ended, 100);
        assert!(right >= least, "lie {i}: {right} are right");
        assert_eq!(!faults.is_empty(), fault.is_some(), "{faults:?}");
        assert!(fault.is_none_or(|fault| faults.iter().any(|said| said.contains(fault))), "{faults:?}");
    }
}

#[test]
fn a_successor_whose_list_is_none_is_blamed_and_left_out() {
    fn garbage(rings: &mut Rings, liar: usize, from: usize, message: &Message) {
        if let Message::Beat(beat) = message {
            let me = peer(rings, liar);
            let list = vec![beat.from, me, beat.from];
            let to = MemberId { ring: beat.to.ring, point: beat.from.point };
            let around = Around { to, from: me, before: None, list, line: Vec::new() };
            rings.say(liar, from, Message::Around(Box::new(around)));
        }
    }
    let mut rings = Rings::grown(1, small(), 30);
    let order = rings.in_order(RingId::NODES);
    rings.corrupt(order[5], garbage);
    rings.run(60 * SECOND);
    assert!(rings.faults.iter().any(|(who, _)| *who == rings.nodes[order[5]].contact.id));
    let key = rings.member(order[5]).point;
    let number = rings.ask(order[20], RingId::NODES, key, Mode::Iterative);
    rings.finish();
    let (_, found) = rings.lookups[&number].end.clone().unwrap();
    assert_eq!(found.unwrap().owner.point, rings.member(order[6]).point);
}

/// Some message that a stranger has no right to send.
fn nonsense(rings: &mut Rings, liar: usize, at: usize) -> Message {
    let (me, them) = (peer(rings, liar), peer(rings, at));
    let key = some_key(rings);
    let to = MemberId { ring: RingId(rings.rng.below(3) as u8), point: them.point };
    let ticket = rings.rng.u64();
    let point = if rings.rng.chance(0.5) { me.point } else { key };
    let list = vec![me; rings.rng.below(40) as usize];
    let from = Peer { point, contact: if rings.rng.chance(0.5) { me.contact } else { them.contact } };
    let ring = to.ring;
    match rings.rng.below(11) {
        0 => Message::Find(Box::new(Find {
            ring,
            to: Some(them.point),
            key,
            ticket,
            after: rings.rng.chance(0.5),
            joins: rings.rng.chance(0.5),
            pass: Some(from.contact),
            hops: rings.rng.below(256) as u8,
        })),
        1 => Message::Next(Box::new(Next { ticket, from: point, peers: list, hops: 255 })),
        2 => {
            let found = Located { owner: from, after: key, replicas: list, hops: 255 };
            Message::Mine(Box::new(Mine { ticket, found }))
        }
        3 => Message::Beat(Box::new(Beat { to, from, seen: ticket, line: Some(list) })),
        4 => Message::Same { to, from: point },
        5 => Message::Around(Box::new(Around { to, from, before: Some(from), list, line: vec![me] })),
        6 => Message::Leave(Box::new(Leave { to, from: point, list })),
        7 => Message::Bye { to, from: point },
        8 => Message::Ask { ring, key, ticket },
        9 => Message::Come(Box::new(Come { to, from, next: key, passed: rings.rng.chance(0.5) })),
        _ => Message::Told { ticket, found: None },
    }
}

#[test]
fn a_stranger_that_floods_everybody_changes_nothing_and_fills_nothing() {
    let mut rings = Rings::grown(5, small(), 20);
    let stranger = rings.place();
    // Beats with its true point would be a join, which is its right.
    let honest: Vec<usize> = (0..20).collect();
    let before = rings.memory();
    for _ in 0..20_000 {
        let at = rings.rng.below(20) as usize;
        let message = nonsense(&mut rings, stranger, at);
        if matches!(&message, Message::Beat(beat) if beat.from == peer(&rings, stranger) && beat.to.ring == RingId::NODES)
        {
            continue;
        }
        rings.say(stranger, at, message);
        if rings.rng.chance(0.01) {
            rings.run(SECOND / 10);
        }
    }
    rings.kill(stranger);
    rings.settle(60 * SECOND);
    assert_eq!(rings.in_order(RingId::NODES).len(), honest.len());
    let after = rings.memory();
    assert!(after.1 < before.1 + 64 * 1024, "from {before:?} to {after:?} bytes");
    assert!(!rings.faults.is_empty());
}
