//! Nodes that say what is not so.

use crate::tree::net::{Net, SECOND};
use node_core::address::Key;
use node_core::overlay::tree::{
    Join, Message, NeighbourUpdate, Range, Record, RequestLeaf, Tell, Upper, Welcome,
};

/// Some message that `liar` has no right to send, about `other`.
fn lie(net: &mut Net, liar: usize, other: usize) -> Message {
    let (me, them) = (net.nodes[liar].contact, net.nodes[other].contact);
    let epoch = match net.rng.below(3) {
        0 => 0,
        1 => net.now.0,
        _ => u64::MAX,
    };
    let level = net.rng.below(256) as u8;
    let empty = Range { lo: them.key(), hi: Some(Key::FIRST) };
    let range = if net.rng.below(2) == 0 { Range::ALL } else { empty };
    let upper = Upper { group: range, ancestors: vec![me; 50], parent_siblings: vec![them; 50] };
    match net.rng.below(16) {
        0 => Message::Join(Box::new(Join {
            who: them,
            level,
            claim: Some(range),
            for_: None,
            ticket: 1,
            hops: 0,
        })),
        1 => Message::Welcome(Box::new(Welcome {
            from: me,
            ticket: 1,
            level,
            epoch,
            range: Some(range),
            root: None,
        })),
        2 => Message::TooTall { ticket: 1 },
        3 => Message::Tell(Box::new(Tell {
            epoch,
            base: 0,
            range: Some(range),
            add: vec![them; 500],
            drop: vec![me.id; 500],
            upper: Some(upper),
        })),
        4 => Message::Refresh { epoch, level, count: 7 },
        5 => Message::NotMine { into: Some(me) },
        6 => Message::Leave { epoch, root: net.rng.below(2) == 0 },
        7 => Message::Resign { epoch },
        8 => Message::Move { via: Some(me), epoch },
        9 => Message::Update(Box::new(NeighbourUpdate {
            from: me,
            level,
            count: 9,
            children: vec![them; 9],
            want: true,
        })),
        10 => Message::RequestLeaf(Box::new(RequestLeaf { level, claim: range, for_: them.id, to: me })),
        11 => Message::Redistribute { with: them.id, bound: me.key() },
        12 => Message::Merge { into: them.id },
        13 => Message::Underflow { count: 0 },
        14 => Message::Abdicate(Box::new(Record {
            term: u64::MAX,
            epoch,
            level,
            writer: them.id,
            members: vec![(me, Key::FIRST); 100],
            promoted: Some(me),
        })),
        _ => Message::Found { root: me, nonce: epoch },
    }
}

#[test]
fn what_a_stranger_says_changes_nothing() {
    let mut net = Net::grown(3, 4, 150);
    let stranger = net.stranger();
    let places = |views: &[node_core::overlay::tree::TreeView<'_>]| {
        views.iter().map(|v| (v.me(), v.level(), v.parent(), v.range())).collect::<Vec<_>>()
    };
    let before = places(&net.views());
    for _ in 0..3000 {
        let alive = net.alive();
        let to = alive[net.rng.below(alive.len() as u64) as usize];
        let about = alive[net.rng.below(alive.len() as u64) as usize];
        let message = lie(&mut net, stranger, about);
        net.say(stranger, to, message);
        assert_eq!(net.check(false), Vec::<String>::new());
    }
    assert!(!net.faulty.is_empty(), "it is noticed");
    net.run(SECOND);
    assert_eq!(net.check(true), Vec::<String>::new());
    assert_eq!(before, places(&net.views()));
}

#[test]
fn a_member_of_the_tree_that_lies_hurts_itself_at_most() {
    let mut net = Net::grown(4, 4, 150);
    for _ in 0..2000 {
        let alive = net.alive();
        let liar = alive[3];
        let to = alive[net.rng.below(alive.len() as u64) as usize];
        let about = alive[net.rng.below(alive.len() as u64) as usize];
        let message = lie(&mut net, liar, about);
        if to != liar {
            net.say(liar, to, message);
        }
        net.run(SECOND / 50);
        assert_eq!(net.check(false), Vec::<String>::new());
    }
    // It means well from here on.
    net.settle(200 * SECOND);
}

/// Says to all others of the root group that it is the coordinator now, and most are out.
fn usurp(net: &mut Net, liar: usize, term: u64) {
    let me = net.nodes[liar].contact;
    let (level, root) = net.views().into_iter().find_map(|v| Some((v.level(), v.root()?))).expect("a root");
    let members: Vec<_> = root.members().map(|(c, _)| c).filter(|c| c.id != me.id).collect();
    for member in &members {
        let to = net.alive().into_iter().find(|i| net.nodes[*i].contact.id == member.id).expect("it lives");
        let mut kept = vec![me, *member];
        kept.sort_by_key(|c| c.key());
        let lows = [Key::FIRST, kept[1].key()];
        let record = Record {
            term,
            epoch: net.now.0,
            level,
            writer: me.id,
            members: kept.into_iter().zip(lows).collect(),
            promoted: Some(me),
        };
        net.say(liar, to, Message::Root(Box::new(record)));
    }
}

#[test]
fn nobody_becomes_coordinator_by_saying_so() {
    for seed in 0..4 {
        let mut net = Net::grown(seed, 4, 200);
        let root = net.views().into_iter().find_map(|v| v.root()).expect("a root");
        assert!(root.members().count() > 2, "there is somebody to ask");
        let (coordinator, term) = (root.coordinator(), root.term());
        let other = root.members().find(|(c, _)| c.id != coordinator).expect("another member");
        let member = net.alive().into_iter().find(|i| net.nodes[*i].contact.id == other.0.id).unwrap();
        let leaf = net.alive().into_iter().find(|i| net.view(*i).level() == 0).expect("a leaf");
        for (liar, terms) in [(member, 1), (leaf, 3), (member, u64::MAX / 4), (member, u64::MAX - term)] {
            usurp(&mut net, liar, term + terms);
            for _ in 0..10 {
                net.run(SECOND);
                assert_eq!(net.check(false), Vec::<String>::new());
                let now = net.views().into_iter().filter_map(|v| v.root());
                assert!(now.into_iter().all(|r| r.coordinator() == coordinator), "it stays who it is");
            }
        }
        net.settle(30 * SECOND);
    }
}
