//! The finder finds what is asked for, in the paper's way, in ours, and with each change alone.

use crate::nearest::net::{Net, load};
use node_core::NodeId;
use node_core::address::Address;
use node_core::discovery::nearest::{Changes, Command, NearestConfig, Policy, Way};
use node_core::finding::Needs;
use node_core::platform::Platform;
use node_core::protocol::Input;
use std::time::Duration;

/// All ways that can be measured.
pub(crate) fn ways() -> Vec<(&'static str, NearestConfig)> {
    let with = |changes| NearestConfig { changes, ..NearestConfig::new(Way::Paper) };
    vec![
        ("paper", NearestConfig::new(Way::Paper)),
        ("optimistic", NearestConfig { policy: Policy::Optimistic, ..NearestConfig::new(Way::Paper) }),
        ("ranges", with(Changes { ranges: true, ..Changes::NONE })),
        ("straight", with(Changes { straight: true, ..Changes::NONE })),
        ("gather", with(Changes { gather: true, ..Changes::NONE })),
        ("all but quiet", with(Changes { quiet: false, ..Changes::ALL })),
        ("ours", NearestConfig::new(Way::Ours)),
    ]
}

fn ours(seed: u64, n: usize) -> Net {
    Net::settled(seed, n, 4, 3, NearestConfig::new(Way::Ours))
}

#[test]
fn a_few_tasks_find_a_few_places_in_every_way() {
    for (name, config) in ways() {
        let mut net = Net::settled(1, 300, 4, 3, config);
        let leaf = net.leaf();
        assert_eq!(net.places(leaf, 5), 5, "{name}");
        let kept: u32 = net.reserved.iter().map(|r| r.slots).sum();
        assert_eq!(kept, 5, "{name}: a slot is kept for each");
        assert_eq!(net.reserved[0].node, leaf, "{name}: the own slot is nearest");
        assert_eq!(net.faulty, [], "{name}");
    }
}

#[test]
fn all_slots_of_the_network_are_found_by_ranges() {
    for (name, config) in ways().into_iter().filter(|(_, c)| c.changes.ranges) {
        for units in [300, 301, u32::MAX] {
            let mut net = Net::settled(2, 300, 4, 3, config);
            let leaf = net.leaf();
            assert_eq!(net.places(leaf, units), 300, "{name}, {units} asked for");
            let slots = net.reserved.iter().map(|r| r.slots);
            assert!(slots.clone().all(|s| s == 1) && slots.count() == 300, "{name}: each slot once");
        }
    }
}

#[test]
fn the_papers_letter_hides_free_nodes() {
    let mut net = Net::settled(2, 300, 4, 3, NearestConfig::new(Way::Paper));
    let leaf = net.leaf();
    let found = net.places(leaf, 300);
    assert!((30..200).contains(&found), "{found} of 300");
}

#[test]
fn whoever_asks_for_too_many_is_told_how_many_there_are() {
    let mut net = ours(3, 200);
    let query = net.find(net.leaf(), 250);
    net.run_for(Duration::from_secs(10));
    let found = net.answer(query).unwrap();
    let shortage = found.shortage.as_ref().unwrap();
    assert!(shortage.contains("200 of 250") && shortage.contains("(200 in all)"), "{shortage}");
}

#[test]
fn no_tasks_are_answered_at_once_with_nothing() {
    for (name, config) in ways() {
        let mut net = Net::settled(4, 50, 4, 2, config);
        let query = net.find(net.leaf(), 0);
        assert!(net.answer(query).is_some_and(|f| f.places.is_empty() && f.shortage.is_none()), "{name}");
        assert_eq!(net.sent, 0);
    }
}

#[test]
fn two_requests_at_a_time_never_get_the_same_slot() {
    for (name, config) in ways() {
        let mut net = Net::settled(5, 300, 4, 3, config);
        let (a, b) = (net.leaf(), 7);
        net.find(a, 200);
        net.find(b, 200);
        net.run_for(Duration::from_secs(4));
        let mut nodes: Vec<usize> = net.reserved.iter().map(|r| r.node).collect();
        let count = nodes.len();
        nodes.sort_unstable();
        nodes.dedup();
        assert_eq!(nodes.len(), count, "{name}");
        if config.changes.ranges {
            assert!(count >= 297, "{name}: {count} of 300 found by both");
        }
    }
}

#[test]
fn what_is_found_and_not_used_is_free_again_and_told_so() {
    for (name, config) in ways().into_iter().filter(|(_, c)| c.changes.ranges) {
        let mut net = Net::settled(6, 200, 4, 3, config);
        let leaf = net.leaf();
        assert_eq!(net.places(leaf, 200), 200, "{name}");
        net.run_for(Duration::from_secs(30));
        assert_eq!(net.places(leaf, 200), 200, "{name}");
    }
}

#[test]
fn what_is_at_work_is_not_found_and_comes_back() {
    let mut net = ours(7, 200);
    net.work = Some(Duration::from_secs(1));
    let leaf = net.leaf();
    for round in 0..10 {
        assert!(net.places(leaf, 120) >= 119, "round {round}");
        net.run_for(Duration::from_secs(20));
    }
    net.work = None;
    assert_eq!(net.places(leaf, 200), 200, "no count went astray");
}

#[test]
fn the_counts_stay_right_under_long_work() {
    let mut net = ours(8, 400);
    net.work = Some(Duration::from_secs(2));
    for second in 0..60 {
        for _ in 0..20 {
            let (at, after) = (net.below(400) as usize, net.below(1_000_000));
            net.find_at(net.now + Duration::from_micros(after), at, 1 + (second % 7));
        }
        net.run_for(Duration::from_secs(1));
    }
    net.run_for(Duration::from_secs(40));
    net.work = None;
    for root in (0..400).filter(|i| net.nodes[*i].placement.parent.is_none()) {
        let view = net.nodes[root].machine.state().view();
        assert!(view.branch_low <= view.branch_slots && view.branch_high == view.branch_slots, "{view:?}");
    }
    assert_eq!(net.places(net.leaf(), 400), 400);
    assert_eq!(net.faulty, []);
}

/// Every tenth node has the memory, every third of those is fast.
fn with_rare_nodes(seed: u64) -> Net {
    let mut net = ours(seed, 300);
    for i in 0..300 {
        let mut load = load(1);
        load.memory_bytes = if i % 10 == 0 { 8 << 30 } else { 2 << 30 };
        load.power = if i % 30 == 0 { 4000 } else { 2000 };
        net.nodes[i].load = load.clone();
        net.step(i, Input::Command(Command::Load(load)));
    }
    net.run_for(Duration::from_secs(60));
    net.forget();
    net
}

#[test]
fn all_rare_nodes_are_found_by_one_request() {
    for seed in 0..60 {
        let mut net = with_rare_nodes(seed);
        let query = net.find_with(net.leaf(), 30, Needs { memory_bytes: 5 << 30, ..Needs::default() });
        net.run_for(Duration::from_secs(30));
        let places = &net.answer(query).expect("the query is answered").places;
        let mut nodes: Vec<_> = places.iter().map(|p| p.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        assert_eq!(nodes.len(), 30, "seed {seed}: each of them once");
        assert_eq!(net.reserved.len(), 30, "seed {seed}: nothing is kept in vain");
    }
}

#[test]
fn needs_are_met_and_branches_that_cannot_are_left_alone() {
    let mut net = with_rare_nodes(9);
    let needs = Needs { memory_bytes: 5 << 30, ..Needs::default() };
    let query = net.find_with(net.leaf(), 30, needs);
    net.run_for(Duration::from_secs(30));
    assert_eq!(net.answer(query).unwrap().places.len(), 30);
    assert!(net.reserved.iter().all(|r| r.node % 10 == 0));

    net.run_for(Duration::from_secs(60));
    net.forget();
    let needs = Needs { power: 3500, ..Needs::default() };
    let query = net.find_with(net.leaf(), 30, needs);
    net.run_for(Duration::from_secs(10));
    assert_eq!(net.answer(query).unwrap().places.len(), 10);

    net.forget();
    let needs = Needs { platform: Some(Platform::Browser), ..Needs::default() };
    let query = net.find_with(net.leaf(), 3, needs);
    net.run_for(Duration::from_secs(10));
    assert_eq!(net.answer(query).unwrap().places, []);
    assert_eq!(net.reserved.len(), 0);
}

#[test]
fn a_large_request_goes_straight_and_a_small_one_stays_near() {
    let mut net = Net::settled(10, 2000, 6, 3, NearestConfig::new(Way::Ours));
    let leaf = net.leaf();
    net.places(leaf, 3);
    assert!(net.reserved.iter().all(|r| r.hops <= 2), "parent and siblings");
    net.run_for(Duration::from_secs(20));
    net.forget();
    assert_eq!(net.places(leaf, 2000), 2000);
    let far = net.reserved.iter().map(|r| r.hops).max();
    assert_eq!(far, Some(5), "1 straight up, 1 across, 3 down");
}

#[test]
fn guests_count_in_their_hosts_branch_and_are_found_through_it() {
    let config = NearestConfig { guests_hear: true, ..NearestConfig::new(Way::Ours) };
    let mut net = Net::settled(11, 100, 4, 3, config);
    let host = net.leaf();
    // A node outside the tree.
    let guest = (0..100).rfind(|i| net.nodes[*i].level == 0).unwrap();
    let placement =
        node_core::placement::Placement { parent: Some(net.nodes[host].contact), ..Default::default() };
    let parent = crate::nearest::net::index(net.nodes[guest].placement.parent.unwrap().id);
    net.nodes[parent].placement.children.retain(|c| crate::nearest::net::index(c.id) != guest);
    let without = net.nodes[parent].placement.clone();
    net.step(parent, Input::Command(Command::Placed(without)));
    net.step(guest, Input::Command(Command::Placed(placement)));
    let mut browser = load(4);
    browser.platform = Platform::Browser;
    let id = net.nodes[guest].contact.id;
    net.step(host, Input::Command(Command::Guest { guest: id, load: Some(browser.clone()) }));
    net.step(guest, Input::Command(Command::Load(browser)));
    net.run_for(Duration::from_secs(60));
    let needs = Needs { platform: Some(Platform::Browser), ..Needs::default() };
    let query = net.find_with(3, 9, needs);
    net.run_for(Duration::from_secs(10));
    let found = net.answer(query).unwrap();
    assert_eq!(found.places.iter().map(|p| p.units).sum::<u32>(), 4);
    let address = Address::guest(id, net.nodes[host].contact);
    assert_eq!(found.places[0].node, address, "by way of its relay");
    assert_eq!(net.reserved.last().map(|r| r.node), Some(guest), "the guest knows of it");

    net.forget();
    net.step(host, Input::Command(Command::Guest { guest: id, load: None }));
    net.run_for(Duration::from_secs(30));
    let query = net.find_with(3, 9, needs);
    net.run_for(Duration::from_secs(10));
    assert_eq!(net.answer(query).unwrap().places, [], "it is gone");
    assert_eq!(net.faulty, []);
}

/// A guest is believed no more slots than a machine has: else its host would say what its parent takes for a fault.
#[test]
fn a_guest_that_boasts_makes_no_liar_of_its_host() {
    let mut net = ours(13, 100);
    let host = net.leaf();
    let mut boast = load(u32::MAX);
    boast.platform = Platform::Browser;
    for guest in 0..3 {
        let id = NodeId([200 + guest; 32]);
        net.step(host, Input::Command(Command::Guest { guest: id, load: Some(boast.clone()) }));
    }
    net.run_for(Duration::from_secs(120));
    assert_eq!(net.faulty, []);
}

/// Its parent counts it anew, so what it is told of the branches above lacks itself at first.
#[test]
fn a_child_that_goes_and_comes_back_knows_the_whole_network_again() {
    let mut net = ours(12, 100);
    let parent = (0..100).find(|i| net.nodes[*i].placement.parent.is_none()).expect("there is a root");
    let with = net.nodes[parent].placement.clone();
    let child = crate::nearest::net::index(with.children[0].id);
    let mut without = with.clone();
    without.children.retain(|c| crate::nearest::net::index(c.id) != child);
    net.step(parent, Input::Command(Command::Placed(without)));
    net.step(parent, Input::Command(Command::Placed(with)));
    net.run_for(Duration::from_secs(20));
    assert_eq!(net.nodes[child].machine.state().view().network_slots, 100);
}
