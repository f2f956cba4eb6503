//! Trees that only grow.

use crate::tree::net::{Net, SECOND};
use node_core::overlay::tree::TreeConfig;

fn height(net: &Net) -> usize {
    net.views().iter().map(|v| usize::from(v.level()) + 1).max().unwrap_or(0)
}

#[test]
fn the_first_node_is_the_tree() {
    let mut net = Net::new(1, TreeConfig::of(4));
    net.add(10);
    assert_eq!(net.check(true), Vec::<String>::new());
    assert_eq!(height(&net), 1);
}

#[test]
fn a_few_nodes_are_one_root_group() {
    let net = Net::grown(2, 4, 8);
    assert_eq!(height(&net), 1);
}

#[test]
fn a_root_group_has_at_most_2k_members() {
    for (count, expected) in [(7, 1), (8, 1), (9, 2)] {
        let net = Net::grown(3, 4, count);
        assert_eq!(height(&net), expected, "{count} nodes");
    }
}

#[test]
fn nodes_that_come_in_random_order_form_a_tree() {
    for seed in 0..4 {
        let net = Net::grown(seed, 4, 300);
        assert_eq!(net.faulty, Vec::<String>::new());
        println!("seed {seed}: height {}, {} messages: {:?}", height(&net), net.messages, net.sent);
    }
}

#[test]
fn nodes_that_come_in_sorted_order_form_a_tree() {
    for up in [true, false] {
        let mut net = Net::new(5, TreeConfig::of(4));
        for i in 0..300 {
            net.add(if up { i * 1000 + 1 } else { 1_000_000 - i * 1000 });
            net.run(SECOND / 4);
        }
        net.settle(60 * SECOND);
        println!("sorted: height {}", height(&net));
    }
}

#[test]
fn nodes_that_come_all_at_once_form_a_tree() {
    let mut net = Net::new(6, TreeConfig::of(4));
    net.add(77);
    for _ in 0..300 {
        let address = net.rng.u64() as u32;
        net.add(address);
    }
    let took = net.settle(200 * SECOND);
    println!("300 at once took {took:?}");
}

/// The levels of 50,000 nodes; no more than in the paper's table 1.
fn height_of_fifty_thousand(m: u8, sorted: bool, paper: usize) {
    let mut net = Net::new(m.into(), TreeConfig::of(m));
    net.weigh = true;
    for i in 0..50_000 {
        let address = if sorted { i * 80_000 + 1 } else { net.rng.u64() as u32 };
        net.add(address);
        // In order, all come to the same parent.
        let pace = if sorted { 100 } else { 10 + 2000 / (1 + u64::from(i)) };
        net.run(std::time::Duration::from_millis(pace));
    }
    let joined = (net.messages, net.bytes);
    net.run(120 * SECOND);
    net.settle(120 * SECOND);
    let height = height(&net);
    let leaf = net.memory(0);
    println!(
        "m = {m}, sorted {sorted}: {height} levels, {} messages and {} bytes a join, a leaf {leaf:?} bytes, {:?}",
        joined.0 / 50_000,
        joined.1 / 50_000,
        net.sent
    );
    assert!(height <= paper, "m = {m}");
}

/// Takes minutes, as the next one: `cargo test --release -p node-core --test stories tree::growing::fifty -- --ignored
/// --nocapture`.
#[test]
#[ignore = "takes minutes"]
fn fifty_thousand_nodes_are_no_higher_than_in_the_paper() {
    for (m, paper) in [(4, 7), (6, 6), (8, 5), (10, 5)] {
        height_of_fifty_thousand(m, false, paper);
    }
}

#[test]
#[ignore = "takes minutes"]
fn fifty_thousand_nodes_in_sorted_order_are_no_higher_than_in_the_paper() {
    for (m, paper) in [(4, 7), (6, 6), (8, 5), (10, 5)] {
        height_of_fifty_thousand(m, true, paper);
    }
}
