//! Units on the move, from the command line.

use crate::world::{Node, World, examples, unit_until};
use serde_json::Value;
use std::collections::BTreeMap;

/// Some seconds of work on 4 MiB that no compression shortens.
const ROUNDS: &str = "800000";

struct Story {
    world: World,
    gateway: Node,
    /// By their ids; each has the data folder of its name.
    workers: BTreeMap<String, (Node, &'static str)>,
    job: String,
}

/// A gateway without slots, workers with one each, and one unit that runs.
fn story(names: &[&'static str]) -> Story {
    let world = World::new();
    let gateway = world.gateway(0);
    let join = |name| world.up(name, &["--join", &gateway.url, "--slots", "1", "--name", name]);
    let workers =
        names.iter().map(|name| (join(name), *name)).map(|(node, name)| (node.id.clone(), (node, name)));
    let workers = workers.collect();
    std::fs::copy(world.example("ballast"), world.path("ballast.wasm")).unwrap();
    let text = format!("program = 'ballast.wasm'\narguments = ['4', '{ROUNDS}']\ncheckpoint = '500ms'\n");
    world.file("job.toml", text);
    let submitted = world.run(["submit", "job.toml", "--output", "json"]).ok().json();
    let job = submitted["id"].as_str().unwrap().to_owned();
    Story { world, gateway, workers, job }
}

impl Story {
    fn unit(&self) -> Value {
        self.world.run(["unit", &self.job, "--output", "json"]).ok().json()
    }

    #[track_caller]
    fn until(&self, enough: impl Fn(&Value) -> bool) -> Value {
        unit_until(&self.world, &self.job, enough)
    }

    /// Somewhere else than it is.
    fn elsewhere(&self, unit: &Value) -> String {
        self.workers.keys().find(|id| Some(id.as_str()) != unit["runner"].as_str()).unwrap().clone()
    }

    /// The result is that of a machine where nothing happened, and its journey accounts for it.
    fn ends_well(&self) -> Value {
        let ended = self.until(|unit| unit["state"] == "done");
        self.world.run(["results", &self.job, "-o", "out"]).ok();
        let stdout = std::fs::read_to_string(self.world.path("out/0/stdout")).unwrap();
        let alone =
            self.world.run(["run", "--suspend-every", "50000000", "--hop", "ballast.wasm", "4", ROUNDS]);
        assert_eq!(stdout, alone.ok().text());
        assert_eq!(ended["fuel"], ended["journey"].as_array().unwrap().last().unwrap()["to"], "{ended}");
        ended
    }
}

#[test]
fn a_unit_is_moved_and_paused_by_hand() {
    let story = story(&["ada", "grace"]);
    let here = story.until(|unit| unit["checkpoints"].as_u64() > Some(0));
    let there = story.elsewhere(&here);
    let moved = story.world.run(["migrate", &story.job, "--to", &there, "--output", "json"]).ok().json();
    assert_eq!(moved["runner"], there.as_str());
    story.world.run(["pause", &story.job]).ok();
    let paused = story.unit();
    assert_eq!((&paused["paused"], &paused["runner"]), (&true.into(), &there.as_str().into()));
    let shown = story.world.run(["unit", &story.job]).ok().text();
    assert!(shown.contains("paused") && shown.contains("JOURNEY"), "{shown}");
    story.world.run(["resume", &story.job]).ok();
    let ended = story.ends_well();
    assert_eq!(ended["attempts"], 2);
    story.world.run(["migrate", &story.job]).failed(2, &["/0 cannot be moved", "not running"]);
    for word in ["pause", "resume"] {
        story.world.run([word, &story.job]).failed(2, &["/0 has ended (done)", "manyhands unit j-"]);
    }
    story.world.run(["migrate", &story.job, "--to", "nobody"]).failed(2, &["nobody", "`manyhands nodes`"]);
}

#[test]
fn a_node_that_is_told_to_end_hands_its_unit_on_and_a_killed_one_loses_a_checkpoints_time() {
    let mut story = story(&["ada", "grace", "alan"]);
    let here = story.until(|unit| unit["checkpoints"].as_u64() > Some(0));
    let first = here["runner"].as_str().unwrap().to_owned();
    let (node, name) = story.workers.remove(&first).unwrap();
    let folder = story.world.path(name);
    story.world.run(["drain", "--data", folder.to_str().unwrap()]).ok();
    drop(node);
    let handed = story.until(|unit| unit["state"] == "placed" && unit["runner"] != first.as_str());
    assert_eq!(handed["lost_fuel"], 0, "nothing was lost: {handed}");
    assert!(handed["fuel"].as_u64() >= here["fuel"].as_u64());

    let second = handed["runner"].as_str().unwrap().to_owned();
    let settled = story.until(|unit| unit["checkpoint_fuel"].as_u64() > handed["fuel"].as_u64());
    story.workers.remove(&second).unwrap().0.kill();
    let again = story.until(|unit| unit["state"] == "placed" && unit["runner"] != second.as_str());
    assert!(again["fuel"].as_u64() >= settled["checkpoint_fuel"].as_u64(), "it did not begin again: {again}");
    let ended = story.ends_well();
    assert_eq!(ended["journey"].as_array().unwrap().len(), 3, "{ended}");
    drop(story.gateway);
}

#[test]
fn draining_where_nothing_runs_says_so() {
    World::new().run(["drain"]).failed(2, &["no node runs"]);
}

/// Each example's cases, suspended at every so much fuel, in turns in two compilers.
#[test]
fn every_example_gives_its_answer_when_it_is_moved_all_along() {
    let world = World::new();
    let examples = examples();
    let mut moved = 0;
    for entry in std::fs::read_dir(&examples).unwrap() {
        let folder = entry.unwrap().path();
        // The others are no tasks but clients, or virtual computers, which this cannot run.
        if !folder.join("cases.json").exists() {
            continue;
        }
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let cases = std::fs::read(folder.join("cases.json")).unwrap();
        let cases: Value = serde_json::from_slice(&cases).unwrap();
        for case in cases.as_array().unwrap() {
            let words = |key: &str| -> Vec<String> {
                let list = case[key].as_array().into_iter().flatten();
                list.map(|word| word.as_str().unwrap().to_owned()).collect()
            };
            let mut arguments: Vec<String> =
                ["run", "--suspend-every", "5000000", "--hop"].map(str::to_owned).into();
            arguments.push(world.example(&name).to_str().unwrap().to_owned());
            for file in words("files") {
                let from = folder.join(&file);
                arguments.push("--file".into());
                arguments.push(format!("{}={file}", from.display()));
            }
            arguments.extend(words("arguments").into_iter().flat_map(|word| ["--arg".to_owned(), word]));
            let stdin = case["stdin"].as_str().map(|file| std::fs::read(folder.join(file)).unwrap());
            let ran = world.run_with(&arguments, &stdin.unwrap_or_default()).ok();
            if let Some(file) = case["stdout"].as_str() {
                let expected = std::fs::read_to_string(folder.join(file)).unwrap();
                assert_eq!(ran.text(), expected, "{name}: {case}");
            }
            let times = ran.stderr.split("resumed ").nth(1).and_then(|rest| rest.split(' ').next());
            moved +=
                times.and_then(|times| times.parse::<u64>().ok()).unwrap_or_else(|| panic!("{}", ran.stderr));
        }
    }
    assert!(moved > 300, "{moved} times");
}
