//! The market as people see it: who asks any gateway sees all markets of the swarm.

use crate::world::{Node, Process, World, until_traded};
use serde_json::Value;
use std::time::{Duration, Instant};

/// A gateway that sells a slot at this cost.
fn trader(world: &World, name: &str, join: &[&str], cost: u64) -> Node {
    world.file(&format!("{name}/policy.toml"), format!("marginal_cost = {cost}\n"));
    let ports = ["--gateway", "--http-port", "0", "--p2p-port", "0", "--slots", "1"];
    world.up(name, &[&ports[..], &["--speed", "500000000", "--name", name], join].concat())
}

/// Commodities that `manyhands market` shows there, and whether it says that these are all.
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
    let all = until_traded("all show all markets, and agree whose each is", || {
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
        (alike && all.iter().all(right) && (0..all[0].0.len()).all(agree)).then_some(all)
    });
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

/// README's section "Buying and selling", as it stands there, at the gateway of its first five minutes: alone, with
/// slots of its own.
#[test]
fn a_gateway_that_is_alone_buys_and_sells_as_the_readme_says() {
    let world = World::new();
    let queens = world.example("nqueens");
    let queens = queens.to_str().unwrap();
    let ports = ["--gateway", "--http-port", "0", "--p2p-port", "0", "--slots", "2", "--speed", "500000000"];
    let ada = world.up("data", &ports);
    let at = ["--gateway", &ada.url, "--token", &ada.token];
    let run = |arguments: &[&str]| world.run(arguments.iter().chain(&at).copied());
    run(&["policy", "set", "marginal_cost=1000"]).ok();

    // Nobody has any credit yet, and a person who reads the end of a pipe is told so.
    let buy = ["run", "--max-price", "0.25", "--fuel-limit", "20000000000", queens, "10"];
    let mut command = world.command(["run", "--max-price", "0.25", "--fuel-limit", "20000000000"]);
    command.args(at).args(["--no-stdin", queens, "10"]);
    let poor = Process::start(command);
    poor.says(" waits: the bank puts nothing aside for it: ");
    poor.signal("INT");
    poor.says("cancelled");
    poor.ends();

    let made = run(&["wallet", "invite", "10", "--output", "json"]).ok().json();
    run(&["wallet", "redeem", made["code"].as_str().unwrap()]).ok();
    assert!(run(&["market"]).ok().text().contains("cycles"));
    let (options, program) = buy.split_at(5);
    let ran = world.run(options.iter().chain(&at).chain(program).copied()).ok();
    assert!(!ran.stdout.is_empty(), "{ran:?}");
    let began = Instant::now();
    loop {
        let wallet = run(&["wallet", "--output", "json"]).ok().json();
        if wallet["balance"] == 10_000_000 {
            break;
        }
        assert!(
            began.elapsed() < Duration::from_secs(50),
            "it has paid itself, and nothing is held: {wallet}"
        );
    }
}
