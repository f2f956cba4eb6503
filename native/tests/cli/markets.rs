//! The market as people see it: who asks any gateway sees all markets of the swarm.

use crate::world::{Node, World};
use serde_json::Value;
use std::time::{Duration, Instant};

/// A gateway that sells a slot at this cost.
fn trader(world: &World, name: &str, join: &[&str], cost: u64) -> Node {
    world.file(&format!("{name}/policy.toml"), format!("marginal_cost = {cost}\n"));
    let ports = ["--gateway", "--http-port", "0", "--p2p-port", "0", "--slots", "1"];
    world.up(name, &[&ports[..], &["--speed", "500000000", "--name", name], join].concat())
}

/// What `manyhands market` shows there, and whether it says that this is all.
fn shown(world: &World, at: &Node) -> (Vec<Value>, bool) {
    let arguments = ["market", "--output", "json", "--gateway", &at.url, "--token", &at.token];
    let market = world.run(arguments).ok().json();
    let whole = market["looks"].as_array().unwrap().iter().all(|look| look["whole"] == true);
    (market["commodities"].as_array().unwrap().clone(), whole)
}

fn names(commodity: &Value) -> Vec<&str> {
    let offers = commodity["offers"].as_array().unwrap().iter();
    offers.map(|offer| offer["name"].as_str().unwrap()).collect()
}

/// The markets of slots, and of the space for files.
fn kinds(commodities: &[Value]) -> Vec<(String, u64)> {
    let key = |it: &Value| (it["kind"].as_str().unwrap().to_owned(), it["least"].as_u64().unwrap());
    commodities.iter().map(key).collect()
}

#[test]
fn every_gateway_shows_all_markets_whoever_owns_them() {
    let world = World::new();
    let ada = trader(&world, "ada", &[], 300);
    let join = ["--join", &ada.url];
    let nodes = [&ada, &trader(&world, "bob", &join, 100), &trader(&world, "cyd", &join, 200)];
    let began = Instant::now();
    let all = loop {
        let all: Vec<(Vec<Value>, bool)> = nodes.iter().map(|at| shown(&world, at)).collect();
        let right = |(commodities, whole): &(Vec<Value>, bool)| {
            let cycles = commodities.iter().find(|it| it["kind"] == "cycles");
            *whole && cycles.is_some_and(|it| names(it) == ["bob", "cyd", "ada"])
        };
        // Each market is one gateway's, and the others name that one.
        let agree = |at: usize| {
            let market: Vec<&Value> = all.iter().map(|(commodities, _)| &commodities[at]).collect();
            let owners: Vec<&Node> = nodes
                .iter()
                .zip(&market)
                .filter(|(_, it)| it["mine"] == true)
                .map(|(node, _)| *node)
                .collect();
            owners.len() == 1 && market.iter().all(|it| it["owner"] == owners[0].id.as_str())
        };
        let alike = all.iter().all(|one| kinds(&one.0) == kinds(&all[0].0));
        if alike && all.iter().all(right) && (0..all[0].0.len()).all(agree) {
            break all;
        }
        assert!(began.elapsed() < Duration::from_secs(240), "{all:#?}");
    };
    let ages = all.iter().flat_map(|(commodities, _)| commodities).map(|it| it["age_s"].as_u64());
    assert!(ages.into_iter().all(|age| age.is_some_and(|age| age < 60)), "{all:#?}");
    let cycles = all[0].0.iter().find(|it| it["kind"] == "cycles").unwrap();
    assert_eq!(
        (&cycles["units"], &cycles["cheapest"], &cycles["dearest"]),
        (&3.into(), &100.into(), &300.into())
    );
    let text = world.run(["market", "--gateway", &nodes[1].url, "--token", &nodes[1].token]).ok().text();
    let line = text.lines().find(|line| line.starts_with("cycles")).unwrap();
    assert_eq!(
        line.split_whitespace().collect::<Vec<_>>()[..7],
        ["cycles", "0.38e9", "fuel/s", "3", "3", "100", "300"]
    );
    assert!(!text.contains("not all markets"), "{text}");
}
