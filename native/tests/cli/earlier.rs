//! Data folders that earlier versions wrote: an update loses nothing that was accepted.
//!
//! Each version opens the folder of the one before. `earlier/2026-11-23.tar.gz` is a gateway's that ran a job, was
//! given a job for the ring and one that takes hours, redeemed an invite, took a file and was then ended: `up
//! --gateway --slots 1`, `map wordcount.wasm`, `map --owner ring`, `wallet invite 10`, `wallet redeem`, `submit`,
//! `files put`, `policy set marginal_cost=77`, SIGTERM. A change of a row's form needs a folder of the version
//! before it, and a story here that opens it.

use crate::world::{Node, World, until_so};
use serde_json::Value;
use std::process::Command;

/// The folder that this version of our programs left, as `data`.
fn left_by(version: &str) -> World {
    let world = World::new();
    let archive = std::path::absolute(format!("tests/cli/earlier/{version}.tar.gz")).unwrap();
    let data = world.path("data");
    std::fs::create_dir(&data).unwrap();
    let unpacked = Command::new("tar").arg("xzf").arg(archive).arg("-C").arg(&data).status().unwrap();
    assert!(unpacked.success());
    world
}

fn asked(world: &World, node: &Node, arguments: &[&str]) -> Value {
    let there = ["--output", "json", "--gateway", &node.url, "--token", &node.token];
    world.run(arguments.iter().chain(&there)).ok().json()
}

/// State of each job, by name and number of units.
fn job<'a>(jobs: &'a Value, name: &str, units: u64) -> &'a Value {
    let its = |job: &&Value| job["name"] == name && job["units"]["total"] == units;
    jobs["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .find(its)
        .unwrap_or_else(|| panic!("{name} of {units} in {jobs:#}"))
}

#[test]
fn jobs_results_credit_files_and_policy_are_there_after_an_update() {
    let world = left_by("2026-11-23");
    for life in ["the first start", "and the next"] {
        let gateway = world.gateway(2);
        assert!(gateway.id.starts_with("e25de038"), "{life}: it is the same node");
        let jobs = asked(&world, &gateway, &["jobs"]);
        let done = job(&jobs, "wordcount", 2);
        assert_eq!(done["state"], "done", "{life}");
        let id = done["id"].as_str().unwrap();
        let into = world.path(life).display().to_string();
        let there = ["--gateway", &gateway.url, "--token", &gateway.token];
        world.run(["results", id, "-o", &into].iter().chain(&there)).ok();
        assert_eq!(
            std::fs::read_to_string(world.path(life).join("0/stdout")).unwrap(),
            "3\tthree\n2\ttwo\n1\tone\n"
        );
        let waits = |name: &str, units: u64, state: &str| {
            until_so(&format!("{life}: {name} is {state}"), || {
                job(&asked(&world, &gateway, &["jobs"]), name, units)["state"] == state
            });
        };
        waits("wordcount", 1, "done");
        waits("long", 1, "running");
        assert_eq!(asked(&world, &gateway, &["wallet"])["balance"], 10_000_000, "{life}");
        let files = asked(&world, &gateway, &["files", "ls"]);
        assert_eq!(files["files"][0]["name"], "note.txt", "{life}: {files:#}");
        let policy = asked(&world, &gateway, &["policy", "show"]);
        assert_eq!(policy["set"]["marginal_cost"], 77, "{life}: {policy:#}");
    }
}
