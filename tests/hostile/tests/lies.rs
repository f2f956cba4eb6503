//! Each lie, told to a real gateway by a real node. A gateway that believed one would fail its story.

#[path = "../../../native/tests/cli/guests.rs"]
#[allow(dead_code)]
mod guests;
#[path = "../../../native/tests/cli/world.rs"]
#[allow(dead_code)]
mod world;

use serde_json::Value;
use world::{Node, Process, World, until_so};

/// Without a lie it is the honest binary.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_hostile");

/// Units of the jobs that are lied about: more than run before the lie is told.
const UNITS: usize = 400;

/// A node that joins the gateway and lies.
fn liar(world: &World, gateway: &Node, lie: &str, variables: &[(&str, &str)]) -> Process {
    let mut command = world.command(["up", "--join", &gateway.url, "--slots", "1", "--name", "liar"]);
    command.arg("--data").arg(world.path("liar")).env("MH_HOSTILE", lie).env("MH_COUNT", UNITS.to_string());
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
    wait(world, job);
    world.run(["results", job, "-o", "out"]).ok();
    for unit in 0..UNITS {
        let stdout = std::fs::read(world.path(&format!("out/{unit:03}/stdout"))).unwrap();
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
