//! Figures: `cargo test --release -p node-core --test stories nearest:: -- --ignored --nocapture`.

use crate::nearest::net::Net;
use crate::nearest::stories::ways;
use node_core::discovery::nearest::{NearestConfig, Way};
use std::time::Duration;

const HOP: Duration = Duration::from_millis(200);
const LINE: u64 = 1_000_000;

fn env(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

fn one(name: &str, config: NearestConfig, n: usize, top: u8, units: u32) {
    let mut net = Net::settled(1, n, 10, top, config);
    net.latency = HOP;
    net.line = LINE;
    let leaf = net.leaf();
    let start = net.now;
    let query = net.find(leaf, units);
    while net.answer(query).is_none() {
        net.run_for(Duration::from_millis(100));
    }
    let (known, _, found) = net.found.iter().find(|(_, _, f)| f.ticket.number == query).unwrap();
    let places: u32 = found.places.iter().map(|p| p.units).sum();
    let last = net.reserved.iter().map(|r| r.at).max().unwrap();
    let hops = net.reserved.iter().map(|r| r.hops).max().unwrap();
    println!(
        "{name:14} n {n:7} asked {units:7} found {places:7} last_s {:6.3} known_s {:7.3} hops_max {hops} messages {} {:?}",
        last.since(start).as_secs_f64(),
        known.since(start).as_secs_f64(),
        net.sent,
        net.kinds,
    );
}

#[test]
#[ignore = "measures"]
fn discovery_times() {
    let (n, top) = (env("NODES", 50_000) as usize, env("TOP", 3) as u8);
    let all = env("ALL", 0) > 0;
    for (name, config) in ways() {
        if !all && name != "paper" && name != "ours" {
            continue;
        }
        for units in [n as u32 / 5, n as u32] {
            one(name, config, n, top, units);
        }
    }
}

/// Requests of `TASKS` tasks each at `RATE` a thousand seconds a node, each task `WORK` ms.
#[test]
#[ignore = "measures"]
fn background_load() {
    let (n, top) = (env("NODES", 50_000) as usize, env("TOP", 3) as u8);
    let (tasks, rate, work) = (env("TASKS", 10), env("RATE", 58), env("WORK", 800));
    let seconds = env("SECONDS", 10);
    for (name, config) in [("paper", NearestConfig::new(Way::Paper)), ("ours", NearestConfig::new(Way::Ours))]
    {
        let mut net = Net::settled(1, n, 10, top, config);
        net.latency = HOP;
        net.work = Some(Duration::from_millis(work));
        let requests = n as u64 * rate * (seconds + 5) / 1000;
        for _ in 0..requests {
            let (at, after) = (net.below(n as u64) as usize, net.below((seconds + 5) * 1_000_000));
            net.find_at(net.now + Duration::from_micros(after), at, tasks as u32);
        }
        net.run_for(Duration::from_secs(5));
        net.forget();
        net.run_for(Duration::from_secs(seconds));
        let found: u64 = net.found.iter().flat_map(|(_, _, f)| &f.places).map(|p| u64::from(p.units)).sum();
        let asked = net.found.len() as u64 * tasks;
        let mean = |of: &dyn Fn(&crate::nearest::net::At) -> bool,
                    what: &dyn Fn(&crate::nearest::net::At) -> u64| {
            let nodes: Vec<u64> = net.nodes.iter().filter(|n| of(n)).map(what).collect();
            nodes.iter().sum::<u64>() as f64 / nodes.len() as f64 / seconds as f64
        };
        let leaf = |n: &crate::nearest::net::At| n.level == 0;
        let root = |n: &crate::nearest::net::At| n.placement.parent.is_none();
        println!(
            "{name:6} found {:.4} of {asked}; leaf {:.3} msg/s {:.0} B/s sent, upkeep {:.3}; root {:.2} msg/s, upkeep {:.2}; {:?}",
            found as f64 / asked as f64,
            mean(&leaf, &|n| n.messages),
            mean(&leaf, &|n| n.bytes),
            mean(&leaf, &|n| n.upkeep),
            mean(&root, &|n| n.messages),
            mean(&root, &|n| n.upkeep),
            net.kinds,
        );
    }
}

#[test]
fn a_leaf_is_small() {
    use node_core::discovery::nearest::Nearest;
    use node_core::protocol::Machine;
    let size = size_of::<Machine<Nearest>>();
    println!("{size} bytes");
    // Beside it a list of ancestors: 50 bytes each.
    assert!(size <= 1000, "{size}");
}
