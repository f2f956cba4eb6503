//! Files that others keep for credit: bought in the market, and paid for what was proved.

use crate::world::{Node, World, until_traded};
use serde_json::Value;
use std::time::Instant;

const CREDIT: u64 = 1_000_000;

/// Part of each sale that its market operator gets, micro-credits.
const DELTA: u64 = 1000;

/// A worker that gives nothing for nothing.
fn seller(world: &World, gateway: &Node, name: &str, cost: u64) -> Node {
    world.file(&format!("{name}/policy.toml"), format!("marginal_cost = {cost}\nmin_price = {cost}\n"));
    world.up(name, &["--join", &gateway.url, "--slots", "0", "--name", name])
}

fn json(world: &World, arguments: &[&str]) -> Value {
    world.run(arguments.iter().chain(&["--output", "json"])).ok().json()
}

/// Amounts of an account's lines of this sort.
fn amounts(wallet: &Value, why: &str) -> Vec<i64> {
    let lines = wallet["statement"].as_array().unwrap().iter().filter(|line| line["why"] == why);
    lines.map(|line| line["amount"].as_i64().unwrap()).collect()
}

#[test]
fn a_keeper_is_paid_for_what_it_proved_when_the_file_is_removed() {
    let world = World::new();
    let gateway = world.gateway(0);
    let sellers = [seller(&world, &gateway, "ada", 50), seller(&world, &gateway, "bob", 90)];
    let invite = json(&world, &["wallet", "invite", "100"]);
    json(&world, &["wallet", "redeem", invite["code"].as_str().unwrap()]);
    let sells = |name: &str| {
        let market = json(&world, &["market"]);
        let offers =
            market["commodities"].as_array()?.iter().flat_map(|it| it["offers"].as_array()).flatten();
        offers.into_iter().any(|offer| offer["name"] == name && offer["kind"] == "files").then_some(())
    };
    until_traded("both sell space", || sells("ada").and(sells("bob")));

    world.file("big.bin", vec![7; 3 << 20]);
    let began = Instant::now();
    let put = ["files", "put", "big.bin", "--copies", "1", "--max-price", "5"];
    let id = json(&world, &put)["id"].as_str().unwrap().to_owned();
    let file = || json(&world, &["files", "list"])["files"][0].clone();
    let kept = until_traded("it is kept, and that is proved", || {
        let file = file();
        (file["kept"] == 1 && file["keepers"][0]["due"].as_u64()? > DELTA).then_some(file)
    });
    // The gateway sells space itself, for less, and is no keeper of its own file.
    let keeper = &kept["keepers"][0];
    assert_eq!((&keeper["name"], &keeper["price"]), (&"ada".into(), &90.into()), "at the next one's cost");
    let own = json(&world, &["wallet"]);
    let held = kept["held"].as_u64().unwrap();
    assert_eq!((&own["held"], amounts(&own, "space_held")), (&held.into(), vec![-(held as i64)]), "{own}");
    let line = own["statement"].as_array().unwrap().iter().find(|line| line["why"] == "space_held").unwrap();
    assert!(id.starts_with(line["file"].as_str().unwrap()), "{line}");

    let due = keeper["due"].as_u64().unwrap() - DELTA;
    world.run(["files", "rm", &id]).ok();
    let of = |node: &Node| json(&world, &["wallet", "show", "--node", &node.id]);
    let paid = until_traded("ada is paid", || amounts(&of(&sellers[0]), "kept").first().copied()) as u64;
    let most = 90 * ((3 << 20) + 1000) * (began.elapsed().as_secs() + 1) / 1_000_000_000 + 1;
    assert!((due..=most).contains(&paid), "it proved what is worth {due}, and was paid {paid} of {most}");
    let own = until_traded("nothing is held any more", || {
        let own = json(&world, &["wallet"]);
        (own["held"] == 0 && own["pending"] == 0).then_some(own)
    });
    let all = sellers.iter().map(of).chain([own]);
    let (balances, sums): (Vec<u64>, Vec<Value>) =
        all.map(|it| (it["balance"].as_u64().unwrap(), it["sum"].clone())).unzip();
    assert_eq!(balances.iter().sum::<u64>(), 100 * CREDIT, "{balances:?}");
    assert!(sums.iter().all(|sum| *sum == 0), "{sums:?}");
}
