//! Units whose owner the ring names, in real processes.

use crate::world::{Node, World, unit_until};
use serde_json::Value;
use std::collections::BTreeMap;

/// Half a minute of work on 4 MiB that no compression shortens.
const ROUNDS: &str = "2000000";

struct Story {
    world: World,
    _gateway: Node,
    nodes: BTreeMap<String, Node>,
}

impl Story {
    /// A unit that runs elsewhere than at its owner, which is not the gateway: ids are drawn by lot.
    fn a_unit_with_an_owner(&self) -> (String, Value) {
        for _ in 0..20 {
            let submitted = self.world.run(["submit", "job.toml", "--output", "json"]).ok().json();
            let job = submitted["id"].as_str().unwrap().to_owned();
            // A busy machine may save none before the unit ends.
            let is_done = |unit: &Value| unit["state"] == "done";
            let is_saved = |unit: &Value| unit["checkpoints"].as_u64() > Some(0);
            let seen = unit_until(&self.world, &job, |unit| is_saved(unit) || is_done(unit));
            if is_done(&seen) {
                continue;
            }
            if seen["owner"].is_string() && seen["owner"] != seen["runner"] {
                return (job, seen);
            }
            self.world.run(["cancel", &job]).ok();
        }
        panic!("twenty units, and none has an owner beside its runner");
    }
}

#[test]
fn a_unit_goes_on_where_it_is_when_its_owner_is_killed() {
    let world = World::new();
    let gateway = world.gateway(0);
    let join = |(name, slots): (&str, &str)| {
        let node = world.up(name, &["--join", &gateway.url, "--slots", slots, "--name", name]);
        (node.id.clone(), node)
    };
    let nodes = [("ada", "1"), ("a", "0"), ("b", "0"), ("c", "0"), ("d", "0")].map(join).into();
    std::fs::copy(world.example("ballast"), world.path("ballast.wasm")).unwrap();
    let text = format!(
        "program = 'ballast.wasm'\narguments = ['4', '{ROUNDS}']\ncheckpoint = '1s'\nowner = 'ring'\n"
    );
    world.file("job.toml", text);
    let mut story = Story { world, _gateway: gateway, nodes };

    let (job, before) = story.a_unit_with_an_owner();
    let owner = before["owner"].as_str().unwrap().to_owned();
    story.nodes.remove(&owner).unwrap().kill();
    let ended = unit_until(&story.world, &job, |unit| unit["state"] == "done");
    let journey = ended["journey"].as_array().unwrap();
    assert!(journey.len() == 1 && journey[0]["runner"] == before["runner"], "one did it all: {ended}");
    assert_eq!(ended["lost_fuel"], 0, "{ended}");
    story.world.run(["results", &job, "-o", "out"]).ok();
    let stdout = std::fs::read_to_string(story.world.path("out/0/stdout")).unwrap();
    let alone = story.world.run(["run", "--suspend-every", "1000000000", "ballast.wasm", "4", ROUNDS]);
    assert_eq!(stdout, alone.ok().text());
}

#[test]
fn a_job_on_the_ring_buys_nothing() {
    let world = World::new();
    world.file("a.wasm", b"\0asm\x01\0\0\0");
    let text = "program = 'a.wasm'\nowner = 'ring'\nfind = 'cheapest'\nmax_price = 1\nfuel_limit = 5\n";
    world.file("job.toml", text);
    world.run(["submit", "job.toml"]).failed(2, &["owner", "its gateway"]);
}
