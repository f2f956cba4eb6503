//! A job file in, a notification out: the example for programs in other languages.

use crate::guests;
use crate::world::{Node, Process, World, examples};
use serde_json::Value;
use std::process::{Command, Stdio};

/// The example in Python on a job file of this world.
fn client(world: &World, gateway: &Node, token: &str) -> Command {
    let mut python = Command::new("python3");
    python.arg(examples().join("python/submit.py")).arg("job.toml");
    python.arg(&gateway.url).env("MANYHANDS_TOKEN", token).current_dir(world.path("")).stdin(Stdio::null());
    python
}

fn units(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_python_program_submits_is_notified_and_reads_the_results() {
    let world = World::new();
    let gateway = world.gateway(2);
    world.program("arguments.wasm", guests::ARGUMENTS);
    let text = "program = 'arguments.wasm'\narguments = ['n={}']\nsweep = { first = 5, count = 3 }\n\
                memory_limit = '64MiB'\ntime_limit = '1m30s'\ncheckpoint = 'none'\non_loss = 'wait 10m'\n\
                name = 'from python'\n";
    world.file("job.toml", text);
    let (code, stdout) = Process::start(client(&world, &gateway, &gateway.token)).ends();
    assert_eq!(code, 0, "{stdout}");
    let units = units(&stdout);
    assert_eq!(units.len(), 3);
    for (at, unit) in units.iter().enumerate() {
        assert_eq!((&unit["unit"], &unit["success"]), (&at.into(), &true.into()));
        let stdout = unit["stdout"].as_str().unwrap();
        assert!(stdout.ends_with(&format!("n={}\0", at + 5)), "{stdout:?}");
    }
    let list = world.run(["jobs", "--output", "json"]).ok().json();
    assert_eq!(
        (&list["jobs"][0]["name"], &list["jobs"][0]["state"]),
        (&"from python".into(), &"done".into())
    );
}

#[test]
fn it_hears_of_the_end_while_it_waits_and_of_failures() {
    let world = World::new();
    let gateway = world.gateway(0);
    world.program("cat.wasm", guests::CAT);
    // Larger than what comes along with a list of results.
    world.file("in.txt", "x".repeat(100_000));
    world.file("job.toml", "program = 'cat.wasm'\nstdin = 'in.txt'\nfiles = ['in.txt']\n");
    let waiting = Process::start(client(&world, &gateway, &gateway.token));
    waiting.says("submitted cat as j-");
    let _worker = world.up("worker", &["--join", &gateway.url, "--slots", "1"]);
    let (code, stdout) = waiting.ends();
    assert_eq!((code, units(&stdout)[0]["stdout"].as_str().unwrap().len()), (0, 100_000));

    world.program("trap.wasm", guests::TRAP);
    world.file("job.toml", "program = 'trap.wasm'\n");
    let (code, stdout) = Process::start(client(&world, &gateway, &gateway.token)).ends();
    assert_eq!((code, &units(&stdout)[0]["success"]), (1, &false.into()));
}

#[test]
fn what_the_gateway_refuses_is_told_in_its_words() {
    let world = World::new();
    let gateway = world.gateway(0);
    world.program("cat.wasm", guests::CAT);
    world.file("job.toml", "program = 'cat.wasm'\nsweep = { first = 0, count = 0 }\n");
    let refused = Process::start(client(&world, &gateway, &gateway.token));
    refused.says("sweep");
    assert_eq!(refused.ends().0, 2);
    let stranger = Process::start(client(&world, &gateway, "guess"));
    stranger.says("token");
    assert_eq!(stranger.ends().0, 2);
    world.file("job.toml", "program = 'gone.wasm'\n");
    let lost = Process::start(client(&world, &gateway, &gateway.token));
    lost.says("gone.wasm");
    assert_eq!(lost.ends().0, 2);
}
