//! Jobs with requirements, in real processes.

use crate::world::{Node, World, unit_until, until_so};
use serde_json::Value;

/// A worker of this name and label.
fn worker(world: &World, at: &Node, name: &str, site: &str) -> Node {
    let label = format!("site={site}");
    world.up(
        name,
        &["--join", &at.url, "--slots", "1", "--name", name, "--label", &label, "--speed", "900000000"],
    )
}

fn job(world: &World, id: &str) -> Value {
    world.run(["job", id, "--output", "json"]).ok().json()
}

#[test]
fn units_run_where_their_job_requires_and_a_job_that_waits_says_why() {
    runs_where_required("rn-tree");
}

#[test]
fn with_a_can_units_run_where_their_job_requires_and_a_job_that_waits_says_why() {
    runs_where_required("can");
}

/// Workers are told by the gateway how the swarm fits jobs to nodes.
fn runs_where_required(way: &str) {
    let world = World::new();
    let queens = world.example("nqueens");
    let queens = queens.to_str().unwrap();
    let ports = ["--http-port", "0", "--p2p-port", "0", "--slots", "1"];
    let gateway = world.up("data", &[&["--gateway", "--matchmaking", way], &ports[..]].concat());
    let nodes = [("ada", "graz"), ("bob", "graz"), ("cyd", "wien")]
        .map(|(name, site)| worker(&world, &gateway, name, site));

    // README's own words.
    let ran =
        world.run(["run", "--requires", "label.site=graz,memory=1GiB", "--output", "json", queens, "8"]).ok();
    let by = ran.json()["runner"].as_str().unwrap().to_owned();
    assert!(by == nodes[0].id || by == nodes[1].id, "{by}");

    std::fs::copy(queens, world.path("queens.wasm")).unwrap();
    let text = "program = 'queens.wasm'\narguments = ['7']\nsweep = { count = 30 }\nfind = 'fitting'\n\
                [requires]\nos = 'linux'\nspeed = 500_000_000\nlabels = { site = 'graz' }\n";
    world.file("job.toml", text);
    let id =
        world.run(["submit", "job.toml", "--output", "json"]).ok().json()["id"].as_str().unwrap().to_owned();
    until_so("all units are done", || job(&world, &id)["state"] == "done");
    let done = job(&world, &id);
    let by: Vec<&str> =
        done["by_node"].as_array().unwrap().iter().map(|it| it["node"].as_str().unwrap()).collect();
    assert!(by.iter().all(|id| *id == nodes[0].id || *id == nodes[1].id), "{done}");

    world.file("never.toml", format!("owner = 'ring'\n{}", text.replace("graz", "linz")));
    let id = world.run(["submit", "never.toml", "--output", "json"]).ok().json()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    until_so("it says that nobody can run it, whoever owns its units", || {
        job(&world, &id)["reason"].as_str().unwrap().contains("what it requires")
    });
    // Somebody comes who can.
    let linz = worker(&world, &gateway, "dora", "linz");
    until_so("all units are done", || job(&world, &id)["state"] == "done");
    assert_eq!(job(&world, &id)["by_node"][0]["node"], linz.id.as_str());
}

#[test]
fn a_unit_that_any_node_could_run_makes_room_for_one_that_few_can() {
    let world = World::new();
    let gateway = world.gateway(0);
    let ada = worker(&world, &gateway, "ada", "graz");
    std::fs::copy(world.example("ballast"), world.path("ballast.wasm")).unwrap();
    // Minutes of work on 4 MiB.
    world.file("long.toml", "program = 'ballast.wasm'\narguments = ['4', '20000000']\n");
    let submitted = world.run(["submit", "long.toml", "--output", "json"]).ok().json();
    let long = submitted["id"].as_str().unwrap();
    unit_until(&world, long, |unit| unit["state"] == "placed" && unit["runner"] == ada.id.as_str());
    let _others = ["bob", "cyd", "dan", "eve"].map(|name| worker(&world, &gateway, name, "wien"));

    let queens = world.example("nqueens");
    let queens = queens.to_str().unwrap();
    let ran =
        world.run(["run", "--requires", "label.site=graz", "--output", "json", queens, "8"]).ok().json();
    assert_eq!(ran["runner"], ada.id.as_str());
    let moved = unit_until(&world, long, |unit| {
        unit["state"] == "placed" && unit["runner"] != ada.id.as_str() && unit["attempts"] == 2
    });
    assert_eq!(moved["lost_fuel"], 0, "it goes on from where it stood: {moved}");
    world.run(["cancel", long]).ok();
}

#[test]
fn a_mistake_about_requirements_is_said_before_anything_starts() {
    let world = World::new();
    let queens = world.example("nqueens");
    let queens = queens.to_str().unwrap();
    world.run(["run", "--requires", "memori=1GiB", queens]).failed(2, &["did you mean memory?"]);
    world
        .run(["run", "--requires", "os=linux", "--max-price", "1", queens])
        .failed(2, &["--requires", "--max-price"]);
    world.run(["up", "--gateway", "--label", "site=a b"]).failed(2, &["--label", "1 to 64"]);
    world.run(["up", "--gateway", "--label", "a=b", "--label", "a=c"]).failed(2, &["--label", "twice"]);
    // Alone in this process there is nobody to choose from.
    world.run(["run", "--requires", "os=linux", queens, "5"]).failed(2, &["fits no jobs", "manyhands up"]);
}
