//! Virtual computers: programs whose threads talk, alone on one machine and in a swarm of real processes.

use crate::world::{Node, World, examples, until_so};
use serde_json::Value;
use std::collections::BTreeSet;

/// A thread that waits for a message that nobody sends.
const LONELY: &str = include_str!("../../../node-core/sandbox/tests/mobility/threads.wat");

/// The arguments of an example's first case, and what it prints.
fn case(name: &str) -> (Vec<String>, String) {
    let folder = examples().join(name);
    let cases: Value = serde_json::from_slice(&std::fs::read(folder.join("threads.json")).unwrap()).unwrap();
    let case = &cases[0];
    let words = |key: &str| -> Vec<String> {
        case[key].as_array().into_iter().flatten().map(|word| word.as_str().unwrap().to_owned()).collect()
    };
    let files = words("files").into_iter();
    let files =
        files.flat_map(|file| ["--file".to_owned(), format!("{}={file}", folder.join(&file).display())]);
    let arguments = words("arguments").into_iter().flat_map(|word| ["--arg".to_owned(), word]);
    let expected = std::fs::read_to_string(folder.join(case["stdout"].as_str().unwrap())).unwrap();
    (files.chain(arguments).collect(), expected)
}

fn run(world: &World, options: &[&str], name: &str) -> crate::world::Ran {
    let program = world.example(name);
    let (rest, _) = case(name);
    let mut words: Vec<String> = options.iter().map(|word| (*word).to_owned()).collect();
    words.push(program.to_str().unwrap().to_owned());
    words.extend(rest);
    world.run(words)
}

#[test]
fn a_virtual_computer_runs_in_one_process() {
    let world = World::new();
    for name in ["pagerank", "tsp-threads"] {
        let ran = run(&world, &["run", "--local-threads=4"], name).ok();
        let expected = case(name).1;
        assert_eq!(ran.text(), expected, "{name}: {}", ran.stderr);
        // Any of them may be the one that reports.
        assert!(
            ran.stderr.contains("threads sent") && ran.stderr.contains("manyhands: thread "),
            "{}",
            ran.stderr
        );
    }
}

#[test]
fn threads_that_wait_for_each_other_are_named() {
    let world = World::new();
    world.program("lonely.wasm", LONELY);
    let ran = world.run(["run", "--local-threads", "lonely.wasm"]);
    ran.failed(1, &["all threads wait", "thread 0 waits for a message of thread 1"]);
}

/// A gateway without slots, and workers with one each.
fn swarm(world: &World, workers: usize) -> (Node, Vec<Node>) {
    let gateway = world.gateway(0);
    let join = |n: usize| {
        let name = format!("worker-{n}");
        world.up(&name, &["--join", &gateway.url, "--slots", "1", "--name", &name])
    };
    let workers = (0..workers).map(join).collect();
    (gateway, workers)
}

fn threads(world: &World, job: &str) -> Vec<Value> {
    let text = world.run(["threads", job, "--output", "json"]).ok().json();
    text["threads"].as_array().unwrap().clone()
}

#[test]
fn a_virtual_computer_runs_on_several_nodes() {
    let world = World::new();
    let (_gateway, _workers) = swarm(&world, 3);
    let ran = run(&world, &["run", "--threads", "4"], "pagerank").ok();
    assert_eq!(ran.text(), case("pagerank").1, "{}", ran.stderr);
}

#[test]
fn a_virtual_computer_goes_on_when_a_worker_is_killed() {
    let world = World::new();
    let (_gateway, mut workers) = swarm(&world, 3);
    let program = world.example("tsp-threads");
    std::fs::copy(examples().join("tsp-threads/data/berlin52.tsp"), world.path("berlin52.tsp")).unwrap();
    std::fs::copy(program, world.path("tsp.wasm")).unwrap();
    let text = "program = 'tsp.wasm'\nfiles = ['berlin52.tsp']\ncheckpoint = '1s'\n\
                arguments = ['--threads', '3', '--generations', '40000', 'berlin52.tsp']\n\
                [threads]\nworkers = 3\nfind = 'nearest'\n";
    world.file("job.toml", text);
    let submitted = world.run(["submit", "job.toml", "--output", "json"]).ok().json();
    let job = submitted["id"].as_str().unwrap().to_owned();
    // Each of the three has one.
    until_so("three threads run", || {
        let nodes: BTreeSet<String> = threads(&world, &job)
            .iter()
            .filter_map(|thread| thread["node"].as_str().map(str::to_owned))
            .collect();
        nodes.len() == 3
    });
    let first = threads(&world, &job)[0]["node"].as_str().unwrap().to_owned();
    // Not only one of its helpers: the controller itself.
    let at = workers.iter().position(|worker| worker.id == first).unwrap();
    workers.remove(at).kill();
    let ran = world.run(["watch", &job]).ok();
    assert!(ran.text().contains("length 7542"), "{}", ran.text());
    world.run(["results", &job, "-o", "out"]).ok();
    let stdout = std::fs::read_to_string(world.path("out/0/stdout")).unwrap();
    assert!(stdout.starts_with("length 7542\n"), "{stdout}");
}

#[test]
fn a_job_with_threads_says_what_it_cannot_have() {
    let world = World::new();
    let _gateway = world.gateway(0);
    world.file("a.wasm", b"\0asm\x01\0\0\0");
    world.file("sweep.toml", "program = 'a.wasm'\nsweep = { count = 2 }\n[threads]\nworkers = 2\n");
    world.run(["submit", "sweep.toml"]).failed(2, &["threads", "one unit"]);
    world.file("many.toml", "program = 'a.wasm'\n[threads]\nworkers = 0\n");
    world.run(["submit", "many.toml"]).failed(2, &["threads.workers", "1 to 4096"]);
    world.file(
        "twice.toml",
        "program = 'a.wasm'\nfind = 'nearest'\n[threads]\nworkers = 2\nfind = 'fitting'\n",
    );
    world.run(["submit", "twice.toml"]).failed(2, &["find"]);
    world.file("other.toml", "program = 'a.wasm'\n[threads]\nworkers = 2\nnodes = 3\n");
    world.run(["submit", "other.toml"]).failed(2, &["nodes"]);
}
