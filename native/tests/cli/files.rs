//! Files that other nodes keep: put at one gateway, read at another, with processes that end.

use crate::guests;
use crate::world::{Node, World, until_so, until_traded};
use serde_json::Value;
use std::path::Path;

/// A gateway and so many workers that know it.
fn swarm(world: &World, workers: &[&str]) -> (Node, Vec<Node>) {
    let gateway = world.gateway(0);
    let up = |name: &&str| world.up(name, &["--join", &gateway.url, "--slots", "1", "--name", name]);
    let workers = workers.iter().map(up).collect();
    (gateway, workers)
}

/// Puts a file and waits until others keep it; what the API says of it.
fn put(world: &World, arguments: &[&str]) -> Value {
    let all = ["files", "put", "--wait", "--output", "json"];
    world.run(all.into_iter().chain(arguments.iter().copied())).ok().json()
}

fn names(file: &Value) -> Vec<&str> {
    let keepers = file["keepers"].as_array().unwrap().iter();
    keepers.filter(|keeper| keeper["kept"] == true).map(|keeper| keeper["name"].as_str().unwrap()).collect()
}

/// Whether any file below a folder holds these bytes.
fn holds(folder: &Path, bytes: &[u8]) -> bool {
    std::fs::read_dir(folder).into_iter().flatten().flatten().any(|entry| {
        let path = entry.path();
        let found = |all: Vec<u8>| all.windows(bytes.len()).any(|part| part == bytes);
        if path.is_dir() { holds(&path, bytes) } else { std::fs::read(&path).is_ok_and(found) }
    })
}

#[test]
fn a_file_outlives_a_keeper_is_read_by_its_name_at_another_gateway_and_goes_when_it_is_removed() {
    let world = World::new();
    let (gateway, mut workers) = swarm(&world, &["ada", "bob", "cyd", "dan"]);
    let content: Vec<u8> = (0..9_000_000u32).map(|at| (at ^ at >> 9) as u8).collect();
    world.file("big.bin", &content);
    let file = put(&world, &["big.bin", "--copies", "3"]);
    let id = file["id"].as_str().unwrap();
    assert_eq!((file["kept"].as_u64(), file["chunks"].as_u64()), (Some(3), Some(3)), "{file}");
    // Bought where the market of space had opened by then, given where it had not: then it says so.
    let bought = file["keepers"].as_array().unwrap().iter().any(|keeper| keeper["price"] != 0);
    assert!(bought || file["reason"].as_str().unwrap().contains("no market"), "{file}");

    let said = world.run(["files", "publish", id, "big one"]).ok().text();
    assert!(said.contains("published as big one"), "{said}");
    let other = world.up(
        "other",
        &["--gateway", "--join", &gateway.url, "--http-port", "0", "--p2p-port", "0", "--slots", "0"],
    );
    let elsewhere = ["--gateway", &other.url, "--token", &other.token];
    let get = |arguments: &[&str]| {
        let all = ["files", "get"].into_iter().chain(arguments.iter().copied());
        world.run(all.chain(elsewhere))
    };
    until_so("the other gateway knows the name", || get(&["big one", "-o", "copy.bin"]).code == 0);
    assert!(std::fs::read(world.path("copy.bin")).unwrap() == content, "every byte of it");
    get(&["nothing of this name"]).failed(2, &["nobody has published nothing of this name"]);

    let gone = names(&file)[0].to_owned();
    let at = ["ada", "bob", "cyd", "dan"].iter().position(|name| **name == gone).unwrap();
    workers.remove(at).kill();
    let one = || world.run(["files", "list", "--output", "json"]).ok().json()["files"][0].clone();
    until_traded("another keeps it instead", || {
        let file = one();
        (file["kept"] == 3 && !names(&file).contains(&gone.as_str())).then_some(())
    });
    assert_eq!(one()["lost"][0]["name"], *gone);
    // A restart changes nothing.
    gateway.kill();
    let _gateway = world.gateway(0);
    assert_eq!((&one()["id"], &one()["names"][0]), (&id.into(), &"big one".into()));

    world.run(["files", "rm", id]).ok();
    for words in [&["files"][..], &["files", "list"], &["files", "ls"]] {
        assert!(world.run(words).ok().text().contains("no files yet"), "{words:?}");
    }
    world.run(["files", "rm", id]).failed(2, &["does not own a file", "manyhands files list"]);
    world.run(["files", "rm", "ab"]).failed(2, &["\"ab\" is not a content id", "manyhands files list"]);
}

#[test]
fn what_is_encrypted_shows_nothing_to_keepers_and_is_read_here_alone() {
    let world = World::new();
    let (gateway, _workers) = swarm(&world, &["ada"]);
    let secret = b"the treasure lies under the third palm";
    world.file("map.txt", secret);
    let file = put(&world, &["map.txt", "--copies", "1", "--encrypt"]);
    let id = file["id"].as_str().unwrap();
    assert_eq!(file["encrypted"], true);
    assert!(!holds(&world.path("ada"), secret) && !holds(&world.path("data/blobs"), secret));
    assert_eq!(world.run(["files", "get", id]).ok().stdout, secret);
    let raw = world.run(["files", "get", id, "--raw"]).ok().stdout;
    assert!(raw.starts_with(b"age-encryption.org/v1"), "a format that other tools open");

    let ports = ["--http-port", "0", "--p2p-port", "0", "--slots", "0"];
    let other = world.up("other", &[&["--gateway", "--join", &gateway.url], &ports[..]].concat());
    let elsewhere = ["files", "get", id, "--gateway", &other.url, "--token", &other.token];
    until_so("the other gateway finds it", || world.run(elsewhere).stderr.contains("encrypted"));
    world.run(elsewhere).failed(2, &["encrypted, and not for this gateway", "age"]);
    world.run(["files", "put", "map.txt", "--recipient", "age1nobody"]).failed(2, &["age1nobody"]);
}

#[test]
fn a_jobs_program_and_inputs_are_named_as_files_of_the_swarm() {
    let world = World::new();
    let (_gateway, _workers) = swarm(&world, &["ada"]);
    world.program("cat.wasm", guests::CAT);
    world.file("in.txt", "from the swarm");
    let program = put(&world, &["cat.wasm", "--copies", "1"]);
    let input = put(&world, &["in.txt", "--copies", "1", "--encrypt"]);
    let id = program["id"].as_str().unwrap();
    let input = input["id"].as_str().unwrap();
    world.run(["files", "publish", id, "tools/cat"]).ok();
    std::fs::remove_file(world.path("cat.wasm")).unwrap();
    world.file("job.toml", format!("program = 'swarm:tools/cat'\nstdin = 'swarm:{input}'\n"));
    world.run(["submit", "job.toml", "--wait", "--out-dir", "out"]).ok();
    assert_eq!(std::fs::read_to_string(world.path("out/0/stdout")).unwrap(), "from the swarm");
    world.file("job.toml", "program = 'swarm:tools/dog'\n");
    world.run(["submit", "job.toml"]).failed(2, &["nobody has published tools/dog"]);
}
