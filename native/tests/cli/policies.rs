//! Policies of donors: a node keeps to its donor's policy, and says so.

use crate::guests;
use crate::world::{Node, Process, World, until_so};
use std::time::{SystemTime, UNIX_EPOCH};

/// An hour of today, twelve from now: `(start, end)` in UTC, as the nodes of these stories have it.
fn other_hours() -> (u64, u64) {
    let hour = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() / 3600 % 24;
    ((hour + 12) % 24, (hour + 13) % 24)
}

fn closed() -> String {
    let (start, end) = other_hours();
    format!("start_hour = {start}\nend_hour = {end}\n")
}

/// How many slots the gateway sees of a node.
fn slots(world: &World, node: &Node) -> u64 {
    let nodes = world.run(["nodes", "--output", "json"]).ok().json();
    let nodes = nodes["nodes"].as_array().unwrap().clone();
    let found = nodes.iter().find(|found| found["id"] == *node.id);
    found.map_or(0, |found| found["slots"].as_u64().unwrap())
}

#[test]
fn outside_of_its_hours_a_node_takes_nothing_says_why_and_set_opens_it() {
    let world = World::new();
    world.file("data/policy.toml", closed());
    let gateway = world.utc_gateway(2);
    world.program("cat.wasm", guests::CAT);
    world.file("job.toml", "program = 'cat.wasm'\n");
    let waiting = Process::start(world.command(["submit", "job.toml", "--wait"]));
    waiting.says("submitted");

    let said = world.run(["policy", "explain"]).ok().text();
    let start = format!("at {}:00", other_hours().0);
    assert!(said.contains("not working now") && said.contains("outside of its hours"), "{said}");
    assert!(said.contains(&start) && said.contains("works again in "), "{said}");
    let view = world.run(["policy", "explain", "--output", "json"]).ok().json();
    let now = &view["now"];
    assert_eq!((&now["works"], &now["slots"], &now["slots_given"]), (&false.into(), &0.into(), &2.into()));
    assert!((1..=86_400).contains(&now["wait_s"].as_u64().unwrap()), "{now}");
    assert_eq!(slots(&world, &gateway), 0);
    let list = world.run(["jobs", "--output", "json"]).ok().json();
    assert_eq!(list["jobs"][0]["units"]["done"], 0);

    let set = world.run(["policy", "set", "start_hour=", "end_hour="]).ok().text();
    assert!(set.starts_with("working: all 2 slots"), "{set}");
    assert_eq!(waiting.ends().0, 0);
    assert_eq!(std::fs::read_to_string(world.path("data/policy.toml")).unwrap().trim(), "");
}

#[test]
fn a_worker_sees_that_its_file_changed_and_hands_on_what_runs() {
    let world = World::new();
    let gateway = world.utc_gateway(0);
    let ada = world.up("ada", &["--join", &gateway.url, "--slots", "1"]);
    let program = world.example("nqueens");
    world.file("job.toml", format!("program = {program:?}\narguments = ['11']\n"));
    let data = world.path("ada");
    let data = data.to_str().unwrap();
    until_so("ada is there", || slots(&world, &ada) == 1);
    // A word of a policy that cannot be meant changes nothing.
    world.run(["policy", "set", "cpu_usage_limit=0", "--data", data]).failed(2, &["cpu_usage_limit is 0"]);
    assert!(!world.path("ada/policy.toml").exists());
    world.run(["policy", "set", "share_cycles=false", "--data", data]).ok();
    until_so("ada gives nothing", || slots(&world, &ada) == 0);
    let said = world.run(["policy", "explain", "--data", data]).ok().text();
    assert!(said.contains("share_cycles = false"), "{said}");
    let waiting = Process::start(world.command(["submit", "job.toml", "--wait"]));
    waiting.says("submitted");
    // A file that is broken by hand is not followed.
    world.file("ada/policy.toml", "share_cycles = perhaps");
    let says_so = || world.run(["policy", "explain", "--data", data]).ok().text().contains("policy.toml:1:");
    until_so("ada says what is wrong with it", says_so);
    assert_eq!(slots(&world, &ada), 0);
    world.file("ada/policy.toml", "max_task_seconds = 7200\n");
    assert_eq!(waiting.ends().0, 0);
    let shown = world.run(["policy", "show", "--data", data]).ok().text();
    assert!(shown.lines().any(|line| line.contains("max_task_seconds") && line.contains("7200 ")), "{shown}");
}

#[test]
fn contradictions_are_refused_at_the_start_and_by_the_api() {
    let world = World::new();
    world.file("data/policy.toml", "share_space = false\nshare_cycles = false\n");
    world
        .run(["up", "--gateway", "--http-port", "0", "--p2p-port", "0"])
        .failed(2, &["policy.toml:", "nothing is shared"]);
    world.file("data/policy.toml", "start_huor = 3\n");
    world
        .run(["up", "--gateway", "--http-port", "0", "--p2p-port", "0"])
        .failed(2, &["policy.toml:1:1: unknown key `start_huor`: did you mean `start_hour`?"]);
    world.file("data/policy.toml", "");
    let _gateway = world.utc_gateway(1);
    world.run(["policy", "set", "days.monday=later"]).failed(2, &["are no hours"]);
    world.run(["policy", "set", "run_if_user_actve=true"]).failed(2, &["did you mean `run_if_user_active`?"]);
    world.run(["policy", "set", "start_hour"]).failed(2, &["KEY=VALUE"]);
    let view = world.run(["policy", "show", "--output", "json"]).ok().json();
    assert_eq!((&view["set"], &view["now"]["works"]), (&serde_json::json!({}), &true.into()));
}

#[test]
fn tasks_that_take_longer_than_the_donor_wants_are_for_others() {
    let world = World::new();
    let gateway = world.utc_gateway(0);
    world.file("ada/policy.toml", "max_task_seconds = 60\n");
    let ada = world.up("ada", &["--join", &gateway.url, "--slots", "1"]);
    until_so("ada is there", || slots(&world, &ada) == 1);
    world.program("cat.wasm", guests::CAT);
    world.file("long.toml", "program = 'cat.wasm'\ntime_limit = '2m'\n");
    world.file("short.toml", "program = 'cat.wasm'\ntime_limit = '1m'\n");
    let long = world.run(["submit", "long.toml", "--output", "json"]).ok().json();
    let id = long["id"].as_str().unwrap().to_owned();
    until_so("it is told why", || world.run(["job", &id]).ok().text().contains("60 s at most"));
    world.run(["submit", "short.toml", "--wait"]).ok();
    world.run(["policy", "set", "max_task_seconds=", "--data", world.path("ada").to_str().unwrap()]).ok();
    until_so("the long one runs too", || world.run(["job", &id]).ok().text().contains("state     done"));
}

#[test]
fn a_peer_that_is_refused_is_not_talked_to() {
    let world = World::new();
    let gateway = world.utc_gateway(0);
    let ada = world.up("ada", &["--join", &gateway.url, "--slots", "1"]);
    until_so("ada is there", || slots(&world, &ada) == 1);
    let listed = || {
        let nodes = world.run(["nodes", "--output", "json"]).ok().json();
        nodes["nodes"].as_array().unwrap().iter().any(|node| node["id"] == *ada.id)
    };
    assert!(listed());
    world.run(["policy", "set", &format!("refused_peers=[\"{}\"]", ada.id)]).ok();
    until_so("it is let go", || !listed());
    world.run(["policy", "set", "refused_peers="]).ok();
    until_so("it is welcome again", listed);
}

#[test]
fn a_folder_that_is_named_means_the_node_on_it_whatever_gateway_the_shell_names() {
    let world = World::new();
    let data = world.path("ada");
    let policy = |words: &[&str]| {
        let mut command = world.command([&["policy"][..], words].concat());
        // Nobody listens there.
        command.env("MANYHANDS_GATEWAY", "http://127.0.0.1:1").env("MANYHANDS_TOKEN", "of-that-gateway");
        command.output().unwrap()
    };
    let named = policy(&["set", "cpu_usage_limit=50", "--data", data.to_str().unwrap()]);
    assert!(named.status.success(), "{named:?}");
    let kept = std::fs::read_to_string(world.path("ada/policy.toml")).unwrap();
    assert!(kept.contains("cpu_usage_limit"), "{kept}");
    let unnamed = policy(&["show"]);
    assert!(String::from_utf8_lossy(&unnamed.stderr).contains("127.0.0.1:1 does not answer"), "{unnamed:?}");
}
