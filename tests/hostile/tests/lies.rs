//! Each lie, told to a real gateway by a real node. A gateway that believed one would fail its story.

#[path = "../../../native/tests/cli/guests.rs"]
#[allow(dead_code)]
mod guests;
#[path = "../../../native/tests/cli/world.rs"]
#[allow(dead_code)]
mod world;

use serde_json::Value;
use std::time::{Duration, Instant};
use world::{Node, Process, World, unit_until, until_so};

/// Without a lie it is the honest binary.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_hostile");

/// More fuel than any unit here uses; what `checkpoint` says that they have used.
const MADE_UP_FUEL: u64 = simulator::liar::MADE_UP_FUEL;

/// Units of the jobs that are lied about: more than run before the lie is told.
const UNITS: usize = 400;

/// A node that joins the gateway and lies.
fn liar(world: &World, gateway: &Node, lie: &str, variables: &[(&str, &str)]) -> Process {
    liar_of(world, gateway, lie, &["--slots", "1"], variables)
}

fn liar_of(
    world: &World,
    gateway: &Node,
    lie: &str,
    arguments: &[&str],
    variables: &[(&str, &str)],
) -> Process {
    let mut command = world.command(["up", "--join", &gateway.url, "--name", "liar"]);
    command
        .args(arguments)
        .arg("--data")
        .arg(world.path("liar"))
        .env("MH_HOSTILE", lie)
        .env("MH_COUNT", UNITS.to_string());
    command.envs(variables.iter().copied());
    Process::start(command)
}

/// Submits a sweep of [`UNITS`] units that print their numbers; its id.
fn submit(world: &World) -> String {
    world.program("arguments.wasm", guests::ARGUMENTS);
    let sweep = format!(
        "program = 'arguments.wasm'\narguments = ['{{}}']\nsweep = {{ first = 0, count = {UNITS} }}\n"
    );
    world.file("job.toml", sweep);
    world.run(["submit", "job.toml"]).ok().text().trim().to_owned()
}

fn jobs(world: &World) -> Value {
    world.run(["jobs", "--output", "json"]).ok().json()
}

#[track_caller]
fn wait(world: &World, job: &str) {
    let is_over = || world.run(["job", job, "--output", "json"]).ok().json()["state"] == "done";
    until_so("the job is done", is_over);
}

/// All units ended well, and printed what they should.
fn assert_all_right(world: &World, job: &str) {
    assert_right(world, job, UNITS);
}

fn assert_right(world: &World, job: &str, units: usize) {
    wait(world, job);
    world.run(["results", job, "-o", "out"]).ok();
    // As wide as the last number.
    let width = (units - 1).to_string().len();
    for unit in 0..units {
        let stdout = std::fs::read(world.path(&format!("out/{unit:0width$}/stdout"))).unwrap();
        let stdout = String::from_utf8_lossy(&stdout);
        assert!(
            stdout.trim_end_matches('\0').ends_with(&unit.to_string()) && !stdout.contains("FORGED"),
            "{stdout:?}"
        );
    }
}

#[test]
fn a_stranger_gives_the_gateway_no_job_and_spends_none_of_its_credit() {
    for lie in ["submit", "buy"] {
        let world = World::new();
        let gateway = world.gateway(1);
        let invite = world.run(["wallet", "invite", "10", "--output", "json"]).ok().json();
        world.run(["wallet", "redeem", invite["code"].as_str().unwrap()]).ok();
        let before = world.run(["wallet", "--output", "json"]).ok().json();
        let job = submit(&world);
        let program = std::fs::read(world.path("arguments.wasm")).unwrap();
        let blob = format!("{}:{}", blake3::hash(&program), program.len());
        let liar = liar(&world, &gateway, lie, &[("MH_BLOB", &blob)]);
        liar.says("lied");
        // The gateway answers in order: a second job comes after the lie.
        assert_all_right(&world, &job);
        let after = submit(&world);
        wait(&world, &after);
        let list = jobs(&world);
        assert_eq!(list["jobs"].as_array().unwrap().len(), 2, "{lie}: {list}");
        let purse = world.run(["wallet", "--output", "json"]).ok().json();
        assert_eq!(purse["balance"], before["balance"], "{lie}");
    }
}

#[test]
fn granted_one_unit_nobody_ends_the_others() {
    for lie in ["forge", "fail"] {
        let world = World::new();
        let gateway = world.gateway(1);
        let liar = liar(&world, &gateway, lie, &[]);
        liar.says("connected");
        let job = submit(&world);
        liar.says("lied");
        assert_all_right(&world, &job);
    }
}

#[test]
fn whoever_knows_a_jobs_id_ends_none_of_its_units() {
    let world = World::new();
    let gateway = world.gateway(0);
    let job = submit(&world);
    let liar = liar(&world, &gateway, "ungranted", &[("MH_JOB", &job)]);
    liar.says("lied");
    let honest = world.up("honest", &["--join", &gateway.url, "--slots", "1"]);
    assert_all_right(&world, &job);
    drop(honest);
}

#[test]
fn results_beyond_the_jobs_bounds_are_not_kept() {
    for lie in ["big", "path"] {
        let world = World::new();
        let gateway = world.gateway(1);
        let liar = liar(&world, &gateway, lie, &[]);
        liar.says("connected");
        let job = submit(&world);
        liar.says("lied");
        assert_all_right(&world, &job);
    }
}

/// A unit of the job, as the API tells it.
fn unit(world: &World, job: &str, index: &str) -> Value {
    world.run(["unit", &format!("{job}/{index}"), "--output", "json"]).ok().json()
}

/// Nobody computes at the gateway, so that the units wait; then somebody honest comes.
#[test]
fn nobody_comes_back_with_units_that_it_never_had() {
    let world = World::new();
    let gateway = world.gateway(0);
    world.program("arguments.wasm", guests::ARGUMENTS);
    world.file(
        "job.toml",
        "program = 'arguments.wasm'\narguments = ['{}']\nsweep = { first = 0, count = 3 }\n",
    );
    let job = world.run(["submit", "job.toml"]).ok().text().trim().to_owned();
    let liar = liar_of(&world, &gateway, "return", &["--slots", "0"], &[("MH_JOB", &job), ("MH_COUNT", "3")]);
    liar.says("lied");
    let honest = world.up("honest", &["--join", &gateway.url, "--slots", "1"]);
    assert_right(&world, &job, 3);
    for index in ["0", "1", "2"] {
        let unit = unit(&world, &job, index);
        assert_eq!((&unit["runner"], &unit["attempts"]), (&honest.id.as_str().into(), &1.into()), "{unit}");
        assert_eq!(unit["journey"], Value::Array(Vec::new()), "no other brought it there");
    }
}

#[test]
fn nobody_has_or_keeps_checkpoints_of_units_that_it_was_not_granted() {
    let world = World::new();
    let gateway = world.gateway(0);
    let honest = world.up("honest", &["--join", &gateway.url, "--slots", "1"]);
    world.program("forever.wasm", guests::FOREVER);
    world.file("job.toml", "program = 'forever.wasm'\ncheckpoint = '500ms'\n");
    let job = world.run(["submit", "job.toml"]).ok().text().trim().to_owned();
    let count = |unit: &Value| unit["checkpoints"].as_u64().unwrap();
    let before = unit_until(&world, &job, |unit| count(unit) >= 2);
    let variables = [("MH_JOB", job.as_str()), ("MH_COUNT", "1")];
    let liar = liar_of(&world, &gateway, "checkpoint", &["--slots", "0", "--dial-only"], &variables);
    liar.says("lied");
    let liars_id = id_of_liar(&world);
    // Its numbers are higher than any: believed, they would hide all that is made from now on.
    let after = unit_until(&world, &job, |unit| {
        let keepers = unit["keepers"].as_array().unwrap();
        assert!(!keepers.contains(&liars_id), "{unit}");
        assert!(unit["fuel"].as_u64().unwrap() < MADE_UP_FUEL, "{unit}");
        count(unit) >= count(&before) + 4
    });
    assert_eq!(after["runner"], honest.id.as_str());
    world.run(["cancel", &job]).ok();
}

fn id_of_liar(world: &World) -> Value {
    let mut id = None;
    until_so("the gateway knows the liar", || {
        let nodes = world.run(["nodes", "--output", "json"]).ok().json();
        let nodes = nodes["nodes"].as_array().unwrap();
        id = nodes.iter().find(|node| node["name"] == "liar").map(|node| node["id"].clone());
        id.is_some()
    });
    id.unwrap()
}

/// A valid module of so many globals, each of this value.
fn globals(count: u32, value: u8) -> Vec<u8> {
    fn number(mut n: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        while n >= 0x80 {
            bytes.push(n as u8 | 0x80);
            n >>= 7;
        }
        bytes.push(n as u8);
        bytes
    }
    let one = [0x7f, 0, 0x41, value, 0x0b];
    let section = [number(count), one.repeat(count as usize)].concat();
    let before = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x05\x03\x01\0\x01";
    let after = b"\x07\x13\x02\x06memory\x02\0\x06_start\0\0\x0a\x04\x01\x02\0\x0b";
    [&before[..], &[6], &number(section.len() as u32), &section, after].concat()
}

/// Programs that are valid as they are, and beyond the engines' limits once they can be suspended: more of them
/// than a node may fail at before it rests. Their operator is another one than their victim's.
#[test]
fn poison_given_at_one_gateway_does_not_stop_a_node_for_another() {
    const POISONS: u8 = 4;
    let (poisoner, world) = (World::new(), World::new());
    let first = poisoner.gateway(0);
    let ports = ["--gateway", "--http-port", "0", "--p2p-port", "0", "--slots", "0", "--join", &first.url];
    let second = world.up("data", &ports);
    let _worker = world.up("worker", &["--join", &first.url, "--join", &second.url, "--slots", "1"]);
    for value in 0..POISONS {
        poisoner.file("poison.wasm", globals(1_000_000, value));
        poisoner.file("job.toml", "program = 'poison.wasm'\n");
        let job = poisoner.run(["submit", "job.toml"]).ok().text().trim().to_owned();
        let refused = || poisoner.run(["job", &job, "--output", "json"]).ok().json()["state"] == "failed";
        until_so("the poison is refused", refused);
    }
    let began = Instant::now();
    world.program("arguments.wasm", guests::ARGUMENTS);
    world.file(
        "job.toml",
        "program = 'arguments.wasm'\narguments = ['{}']\nsweep = { first = 0, count = 20 }\n",
    );
    let job = world.run(["submit", "job.toml"]).ok().text().trim().to_owned();
    assert_right(&world, &job, 20);
    assert!(began.elapsed() < Duration::from_secs(15), "after {:?}", began.elapsed());
}
