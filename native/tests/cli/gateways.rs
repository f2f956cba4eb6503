//! Nodes that come, go and come back.

use crate::guests;
use crate::world::{Process, World, until_so};

#[test]
fn a_waiting_command_survives_its_gateways_death() {
    let world = World::new();
    world.program("cat.wasm", guests::CAT);
    world.file("in.txt", "still here");
    world.file("job.toml", "program = 'cat.wasm'\nstdin = 'in.txt'\n");
    // Nobody computes here, so the job is certainly waiting when the gateway dies.
    let gateway = world.gateway(0);
    let (id, token) = (gateway.id.clone(), gateway.token.clone());
    let submitted = Process::start(world.command(["submit", "job.toml", "--wait", "--out-dir", "out"]));
    submitted.says("nobody gives slots");
    gateway.kill();
    submitted.says("trying again");
    // On other ports: the command finds it through the data folder.
    let gateway = world.gateway(1);
    assert_eq!((&gateway.id, &gateway.token), (&id, &token), "the same gateway as before");
    let (code, _) = submitted.ends();
    assert_eq!(code, 0);
    assert_eq!(std::fs::read_to_string(world.path("out/0/stdout")).unwrap(), "still here");
}

#[test]
fn a_gateway_ends_politely_and_leaves_no_beacon() {
    let world = World::new();
    for signal in [Some("TERM"), Some("INT"), None] {
        let gateway = world.gateway(1);
        assert!(world.path("data/gateway.json").exists());
        assert_eq!(gateway.end(signal), 0, "{signal:?}");
        assert!(!world.path("data/gateway.json").exists(), "{signal:?}");
    }
}

#[test]
fn workers_join_by_url_or_multiaddress_and_compute() {
    let world = World::new();
    let gateway = world.gateway(0);
    let address = gateway.addresses.iter().find(|a| !a.contains("/ws")).unwrap();
    let _by_url = world.up("one", &["--join", &gateway.url, "--slots", "1", "--name", "one"]);
    let _by_address = world.up("two", &["--join", address, "--slots", "1", "--name", "two"]);
    world.program("arguments.wasm", guests::ARGUMENTS);
    world.file("job.toml", "program = 'arguments.wasm'\narguments = ['{}']\nsweep = { count = 200 }\n");
    let ran = world.run(["submit", "job.toml", "--wait", "--output", "json"]).ok();
    let job = ran.json();
    assert_eq!(job["units"]["done"], 200);
    assert!(job["by_node"].as_array().unwrap().iter().all(|share| share["node"] != gateway.id.as_str()));
    let _guest =
        world.up("three", &["--join", &gateway.url, "--slots", "1", "--name", "three", "--dial-only"]);
    until_so("the nodes have their standing", || {
        let nodes = world.run(["nodes"]).ok().text();
        let has = |name: &str, standing: &str| {
            nodes.lines().any(|line| {
                let words: Vec<&str> = line.split_whitespace().collect();
                words.contains(&name) && words.get(3) == Some(&standing)
            })
        };
        let all = has("gateway", "member") && has("one", "member") && has("three", "guest");
        all && nodes.ends_with(
            "guests cannot be dialled by others; they connect by data channels, or by way of a relay\n\
             UNITS and CPU are those of this node's own jobs\n",
        )
    });
}

#[test]
fn a_worker_waits_for_a_gateway_that_is_not_there_yet() {
    let world = World::new();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let url = format!("http://127.0.0.1:{port}");
    world.run(["up", "--join", &url, "--fail-fast"]).failed(3, &[&url, "nothing listens there"]);
    let mut command = world.command(["up", "--join", &url, "--slots", "1", "--data", "worker"]);
    let worker = Process::start({
        command.stdin(std::process::Stdio::null());
        command
    });
    worker.says("trying on");
    let _gateway = world.up("data", &["--gateway", "--http-port", &port, "--p2p-port", "0", "--slots", "0"]);
    worker.says("is there");
    world.program("cat.wasm", guests::CAT);
    world.run(["run", "cat.wasm"]).ok();
}

#[test]
fn an_invite_is_asked_for() {
    let world = World::new();
    let gateway = world.up(
        "data",
        &["--gateway", "--http-port", "0", "--p2p-port", "0", "--slots", "0", "--invite", "sesame"],
    );
    world.run(["up", "--join", &gateway.url, "--data", "x"]).failed(2, &["--invite WORD"]);
    let wrong = ["up", "--join", &gateway.url, "--slots", "0", "--invite", "barley", "--data", "z"];
    let failing = [&wrong[..], &["--fail-fast"]].concat();
    world.run(failing).failed(2, &["not let in", "the invite is wrong", "ask the gateway's operator"]);
    let patient = Process::start(world.command(wrong));
    patient.says("the invite is wrong, or was replaced since; ask the gateway's operator for it; trying on");
    let right = ["--join", &gateway.url, "--slots", "1", "--invite", "sesame", "--fail-fast"];
    let _worker = world.up("y", &right);
    world.program("cat.wasm", guests::CAT);
    world.run(["run", "cat.wasm"]).ok();
}

#[test]
fn ports_and_folders_belong_to_one_node() {
    let world = World::new();
    let gateway = world.gateway(0);
    let second = ["up", "--gateway", "--http-port", "0", "--p2p-port", "0"];
    world.run(second).failed(1, &["data", "--data"]);
    let port = gateway.url.rsplit(':').next().unwrap();
    let taken = ["up", "--gateway", "--data", "other", "--p2p-port", "0", "--http-port", port];
    world.run(taken).failed(1, &[port, "in use", "--http-port"]);
    let address = gateway.addresses.iter().find(|a| !a.contains("/ws")).unwrap();
    let port = address.split('/').nth(4).unwrap();
    let taken = ["up", "--gateway", "--data", "third", "--http-port", "0", "--p2p-port", port];
    world.run(taken).failed(1, &[port, "--p2p-port"]);
}

#[test]
fn commands_find_a_named_gateway_with_its_token_only() {
    let world = World::new();
    let gateway =
        world.up("elsewhere", &["--gateway", "--http-port", "0", "--p2p-port", "0", "--slots", "1"]);
    world.run(["jobs", "--gateway", &gateway.url]).failed(2, &["MANYHANDS_TOKEN"]);
    let wrong = ["jobs", "--gateway", &gateway.url, "--token", "wrong-wrong-wrong"];
    world.run(wrong).failed(2, &["does not accept this token"]);
    let right = ["jobs", "--gateway", &gateway.url, "--token", &gateway.token];
    world.run(right).ok();
    // The list of nodes is open.
    world.run(["nodes", "--gateway", &gateway.url]).ok();
}

#[test]
fn the_demo_shows_a_swarm_at_work() {
    let world = World::new();
    let report = world.run(["demo", "--json", "--units", "4", "--http-port", "0"]).ok().json();
    assert_eq!((&report["units_total"], &report["units_done"]), (&4.into(), &4.into()));
    assert_eq!(report["optimum"], 7542);
    assert!(report["best"].as_u64().unwrap() >= 7542);
    assert!(!report["nodes"].as_array().unwrap().is_empty());
}

#[test]
fn settings_of_the_swarm_are_learnt_from_any_gateway_remembered_and_binding() {
    let world = World::new();
    let ports = ["--gateway", "--http-port", "0", "--p2p-port", "0", "--slots", "0"];
    let founder = world.up("data", &[&ports[..], &["--pricing", "max-min", "--tree-degree", "4"]].concat());
    let second = world.up("second", &[&ports[..], &["--join", &founder.url]].concat());
    let worker = world.up("worker", &["--join", &second.url, "--slots", "1", "--speed", "500000000"]);
    for folder in ["second", "worker"] {
        let path = world.path(folder).join("swarm.json");
        let began = std::time::Instant::now();
        let remembered: serde_json::Value = loop {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            match serde_json::from_str::<serde_json::Value>(&text) {
                Ok(all) if !all["bank"].is_null() => break all,
                other => assert!(began.elapsed().as_secs() < 60, "{folder}: {other:?}"),
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        };
        assert_eq!(remembered["bank"], founder.id.as_str(), "{folder}");
        assert_eq!((&remembered["pricing"], &remembered["tree_degree"]), (&"max-min".into(), &4.into()));
        assert_eq!(remembered["matchmaking"], "rn-tree");
    }
    let market = ["market", "--output", "json", "--gateway", &second.url, "--token", &second.token];
    assert_eq!(world.run(market).ok().json()["bank"], founder.id.as_str());
    worker.kill();
    let against = ["up", "--join", &second.url, "--data", "worker", "--pricing", "vickrey"];
    world.run(against).failed(2, &["--pricing", "vickrey", "max-min", "swarm.json"]);
    // Somebody who was told another bank is told what to do, by a gateway that is not the bank either.
    let other = ["up", "--join", &second.url, "--data", "other", "--slots", "0", "--bank", &second.id];
    let other = Process::start(world.command(other));
    other.says(&format!("--bank {}", founder.id));
}
