//! Networks that lose and repeat, nodes that die, and peers that lie.

use crate::nearest::net::{Faults, Net, contact, load};
use crate::nearest::stories::ways;
use node_core::discovery::nearest::{
    Above, Answer, Ask, Command, Gone, Message, NearestConfig, Packed, Places, State, Status, Toward, Way,
};
use node_core::protocol::Input;
use std::time::Duration;

#[test]
fn under_loss_repetition_and_disorder_every_query_is_answered_and_no_slot_is_kept_twice() {
    for (name, config) in ways() {
        for seed in 0..4 {
            let mut net = Net::settled(seed, 300, 4, 3, config);
            net.faults = Faults { lost: 30, twice: 30, late: 100 };
            net.work = Some(Duration::from_secs(1));
            let mut queries = Vec::new();
            for _ in 0..40 {
                let (at, units) = (net.below(300) as usize, 1 + net.below(60) as u32);
                queries.push((net.find(at, units), units));
                net.run_for(Duration::from_millis(500));
                let over = net.nodes.iter().find(|n| {
                    let view = n.machine.state().view();
                    view.free + view.reserved > view.slots
                });
                assert!(over.is_none(), "{name}, seed {seed}");
            }
            net.run_for(Duration::from_secs(60));
            for (query, units) in queries {
                let found = net.answer(query).expect("every query is answered");
                let places: u32 = found.places.iter().map(|p| p.units).sum();
                assert!(places <= units, "{name}, seed {seed}: {places} of {units}");
            }
            assert_eq!(net.faulty, [], "{name}, seed {seed}: accidents are no faults");
            // Then the faults stop, and all is found again.
            net.faults = Faults::default();
            net.work = None;
            net.run_for(Duration::from_secs(300));
            if config.changes.ranges {
                assert_eq!(net.places(net.leaf(), 300), 300, "{name}, seed {seed}");
            }
        }
    }
}

#[test]
fn dead_nodes_are_found_around() {
    let mut net = Net::settled(1, 400, 4, 3, NearestConfig::new(Way::Ours));
    let leaf = net.leaf();
    let dead: Vec<usize> =
        (0..400).filter(|i| i % 10 == 3 && *i != leaf && net.nodes[*i].level == 0).collect();
    for &node in &dead {
        net.kill(node);
    }
    net.run_for(Duration::from_secs(20));
    let living = 400 - dead.len() as u32;
    assert_eq!(net.places(leaf, 400), living);
}

#[test]
fn a_dead_ancestor_is_gone_around() {
    let mut net = Net::settled(2, 400, 4, 3, NearestConfig::new(Way::Ours));
    let leaf = net.leaf();
    let root = crate::nearest::net::index(net.nodes[leaf].placement.ancestors.last().unwrap().id);
    net.kill(root);
    let query = net.find(leaf, 390);
    net.run_for(Duration::from_secs(40));
    let found = net.answer(query).expect("the query is answered");
    assert!(!found.places.is_empty(), "at least what is below");
}

#[test]
fn a_branch_that_dies_with_parts_of_a_request_holds_it_up_for_a_bounded_time() {
    let mut net = Net::settled(3, 400, 4, 3, NearestConfig::new(Way::Ours));
    let leaf = net.leaf();
    let query = net.find(leaf, 400);
    net.run_for(Duration::from_millis(300));
    let inner: Vec<usize> = (0..400).filter(|i| net.nodes[*i].level == 2).take(2).collect();
    for &node in &inner {
        net.kill(node);
    }
    net.run_for(Duration::from_secs(15));
    let found = net.answer(query).expect("the query is answered");
    let places: u32 = found.places.iter().map(|p| p.units).sum();
    assert!(places >= 200, "{places} of 400");
}

#[test]
fn children_that_come_and_go_are_counted_right() {
    for (name, config) in ways().into_iter().filter(|(_, c)| c.changes.ranges) {
        let mut net = Net::settled(4, 300, 4, 3, config);
        // Leaves move from one parent to another, a few at a time, while others ask.
        let parents: Vec<usize> = (0..300).filter(|i| net.nodes[*i].level == 1).collect();
        for round in 0..20 {
            let from = parents[round % parents.len()];
            let to = parents[(round * 7 + 3) % parents.len()];
            if from == to || net.nodes[from].placement.children.len() < 2 {
                continue;
            }
            let child = net.nodes[from].placement.children.pop().unwrap();
            net.nodes[to].placement.children.push(child);
            let moved = crate::nearest::net::index(child.id);
            net.nodes[moved].placement.parent = Some(net.nodes[to].contact);
            let (node, parent) = (&net.nodes[moved], &net.nodes[to]);
            let mut ancestors = vec![parent.placement.parent.unwrap()];
            ancestors.extend(parent.placement.ancestors.iter().copied());
            let (_, load) = (node, load(1));
            net.nodes[moved].placement.ancestors = ancestors;
            net.nodes[moved].load = load;
            for at in [moved, to, from] {
                let placement = net.nodes[at].placement.clone();
                net.step(at, Input::Command(Command::Placed(placement)));
            }
            net.find(round * 11 % 300, 20);
            net.run_for(Duration::from_secs(3));
        }
        net.run_for(Duration::from_secs(120));
        assert_eq!(net.places(net.leaf(), 300), 300, "{name}");
        assert_eq!(net.faulty, [], "{name}");
    }
}

/// Sends a message as a hostile node does; gives the faults that it caused.
fn say(net: &mut Net, to: usize, from: usize, message: Message) -> Vec<String> {
    let before = net.faulty.len();
    let from = contact(from).id;
    net.step(to, Input::Message { from, message });
    net.faulty[before..].iter().map(|(_, _, fault)| fault.clone()).collect()
}

fn quiet_net() -> (Net, usize, usize) {
    let mut net = Net::settled(5, 300, 4, 3, NearestConfig::new(Way::Ours));
    net.run_for(Duration::from_secs(60));
    let child = net.leaf();
    let parent = crate::nearest::net::index(net.nodes[child].placement.parent.unwrap().id);
    (net, parent, child)
}

fn status(state: State) -> Message {
    Message::Status(Status { state, got: 0, refresh: false })
}

#[test]
fn an_impossible_availability_is_a_fault_and_changes_nothing() {
    let (mut net, parent, child) = quiet_net();
    let before = net.nodes[parent].machine.state().view();
    let sizes = [0, 0, 0, 1, 0, 0, 0, 0];
    let good =
        State { low: 1, high: 1, slots: 1, power: 2000, hops: 0, memory: 31, sizes, kinds: 1, usual: 255 };
    let lies = [
        State { high: 2, ..good },
        State { low: 2, high: 1, ..good },
        State { low: u32::MAX, high: u32::MAX, slots: u32::MAX, ..good },
        State { hops: 255, ..good },
        State { sizes: [1; 8], ..good },
    ];
    for lie in lies {
        assert_eq!(say(&mut net, parent, child, status(lie)).len(), 1, "{lie:?}");
    }
    let stranger =
        (0..300).find(|i| net.nodes[*i].placement.parent != net.nodes[child].placement.parent).unwrap();
    assert_eq!(say(&mut net, parent, stranger, status(good)).len(), 1, "no child of it");
    assert_eq!(net.nodes[parent].machine.state().view(), before);
    assert_eq!(say(&mut net, parent, child, status(good)), [""; 0]);
}

fn ask(from: usize, tasks: u32, toward: Toward) -> Message {
    let origin = contact(from);
    Message::Ask(Ask {
        id: 1,
        part: 1,
        origin,
        asked: 10,
        tasks,
        given: tasks,
        needs: None,
        hops: 1,
        toward,
        back: 0,
    })
}

#[test]
fn requests_from_who_is_not_where_it_claims_to_be_take_nothing() {
    let (mut net, parent, child) = quiet_net();
    net.forget();
    let far = (0..300)
        .find(|i| {
            net.nodes[*i].level == 0 && net.nodes[*i].placement.parent != net.nodes[child].placement.parent
        })
        .unwrap();
    assert_eq!(say(&mut net, child, far, ask(far, 1, Toward::Down)).len(), 1, "not its parent");
    assert_eq!(say(&mut net, parent, far, ask(far, 1, Toward::Across)).len(), 1, "not in the root group");
    let more = Message::Ask(Ask {
        id: 2,
        part: 1,
        origin: contact(child),
        asked: 1,
        tasks: 9,
        given: 0,
        needs: None,
        hops: 1,
        toward: Toward::Up,
        back: 0,
    });
    assert_eq!(say(&mut net, parent, child, more).len(), 1, "more than was asked for");
    assert_eq!(net.reserved.len(), 0);
}

#[test]
fn a_request_that_comes_twice_is_served_once() {
    let (mut net, parent, child) = quiet_net();
    net.forget();
    for _ in 0..3 {
        say(&mut net, parent, child, ask(child, 3, Toward::Up));
    }
    net.run_for(Duration::from_secs(2));
    assert_eq!(net.reserved.iter().map(|r| r.slots).sum::<u32>(), 3);
}

#[test]
fn answers_that_nobody_asked_for_are_not_believed() {
    let (mut net, parent, child) = quiet_net();
    let query = net.find(child, 40);
    let mut packed = Packed::default();
    packed.push(&contact(9).into(), 1);
    // The part's name is guessed, as a neighbour could.
    let mut faults = 0;
    for part in 0..2000 {
        let answer = Answer { part, placed: 40, missing: 0, hops: 1, places: packed.clone() };
        faults += say(&mut net, child, 9, Message::Answer(answer)).len();
        let answer = Answer { part, placed: 1 << 30, missing: 1 << 30, hops: 1, places: packed.clone() };
        faults += say(&mut net, parent, 9, Message::Answer(answer)).len();
    }
    assert!(faults > 0, "it was noticed");
    say(&mut net, child, 9, Message::Places(Places { id: 7, number: 1, places: packed }));
    say(&mut net, child, 9, Message::Gone(Gone { id: 7, node: contact(8).id, slots: 3 }));
    net.run_for(Duration::from_secs(10));
    assert_eq!(net.answer(query).map(|f| f.places.len()), Some(40), "the right answer came through");
    let stranger = Message::Above(Above { slots: vec![5, 4], tell: true });
    assert_eq!(say(&mut net, child, 9, stranger).len(), 1);
    let parent_lies = Message::Above(Above { slots: vec![5, 4], tell: true });
    assert_eq!(say(&mut net, child, parent, parent_lies).len(), 1);
}
