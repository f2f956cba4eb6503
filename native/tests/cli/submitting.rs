//! Jobs on a gateway: submitted, watched, collected, cancelled.

use crate::guests;
use crate::world::{Process, World};

#[test]
fn a_sweep_is_submitted_watched_and_collected() {
    let world = World::new();
    let _gateway = world.gateway(2);
    world.program("tools/arguments.wasm", guests::ARGUMENTS);
    let text = "program = 'arguments.wasm'\narguments = ['n={}']\nsweep = { first = 8, count = 4 }\nname = 'count'\n";
    world.file("tools/job.toml", text);
    let ran = world.run(["submit", "tools/job.toml", "--wait"]).ok();
    assert!(ran.text().contains("4 of 4 done"), "{ran:?}");

    let list = world.run(["jobs", "--output", "json"]).ok().json();
    let job = &list["jobs"][0];
    assert_eq!((&job["name"], &job["state"]), (&"count".into(), &"done".into()));
    let short = job["short"].as_str().unwrap();
    assert!(world.run(["jobs"]).ok().text().contains(short));
    let shown = world.run(["job", short]).ok().text();
    assert!(shown.contains("state     done") && shown.contains("BY NODE"), "{shown}");

    world.run(["results", short, "-o", "out"]).ok();
    for unit in 0..4 {
        let stdout = std::fs::read_to_string(world.path(&format!("out/{unit}/stdout"))).unwrap();
        assert!(stdout.ends_with(&format!("n={}\0", unit + 8)), "{stdout:?}");
    }
    let index: serde_json::Value =
        serde_json::from_slice(&std::fs::read(world.path("out/results.json")).unwrap()).unwrap();
    assert_eq!(index.as_array().unwrap().len(), 4);
    for word in ["unit", "pause", "resume", "migrate"] {
        world.run([word, short]).failed(2, &[short, "4 units, so name one", "/0 to j-"]);
    }
    world.run(["unit", &format!("{short}/3")]).ok();
}

#[test]
fn a_failed_job_ends_the_wait_with_1() {
    let world = World::new();
    let _gateway = world.gateway(1);
    world.program("trap.wasm", guests::TRAP);
    world.file("job.toml", "program = 'trap.wasm'\n");
    world.run(["submit", "job.toml", "--wait"]).failed(1, &["1 of 1 units failed"]);
    let list = world.run(["jobs", "--output", "json"]).ok().json();
    let shown = world.run(["job", list["jobs"][0]["id"].as_str().unwrap()]).ok().text();
    assert!(shown.contains("trapped"), "{shown}");
}

#[test]
fn a_failed_unit_shows_the_end_of_its_standard_error_and_where_all_of_it_is() {
    let world = World::new();
    world.program("complain.wasm", guests::COMPLAIN);
    world.file("job.toml", "program = 'complain.wasm'\n");
    let alone = ["submit", "job.toml", "--wait"];
    world.run(alone).failed(1, &["ends with:\n  no \u{fffd}[1mroom\n--out-dir DIR keeps all of it\n"]);

    let _gateway = world.gateway(1);
    let ran = world.run(alone).failed(1, &["ends with:\n  no \u{fffd}[1mroom\n`manyhands results j-"]);
    assert!(!ran.stderr.contains('\x1b'), "{ran:?}");
    let list = world.run(["jobs", "--output", "json"]).ok().json();
    let short = list["jobs"][0]["short"].as_str().unwrap();
    for words in [["job", short], ["unit", short]] {
        let shown = world.run(words).ok().text();
        let told = format!(
            "\nstandard error of unit 0 (13 bytes) ends with:\n  no \u{fffd}[1mroom\n\
             `manyhands results {short} -o DIR` writes all of it into DIR\n"
        );
        assert!(shown.ends_with(&told), "{shown}");
    }
}

#[test]
fn a_job_that_nobody_computes_waits_says_so_and_can_be_cancelled() {
    let world = World::new();
    let gateway = world.gateway(0);
    world.program("cat.wasm", guests::CAT);
    world.file("job.toml", "program = 'cat.wasm'\n");
    let ran = world.run(["submit", "job.toml"]).ok();
    assert!(ran.stderr.contains("nobody gives slots") && ran.stderr.contains(&gateway.url), "{ran:?}");
    let id = ran.text().trim().to_owned();
    let waiting = world.run(["job", &id]).ok().text();
    assert!(waiting.contains("state     waiting: "), "{waiting}");
    let ran = world.run(["cancel", &id[..6]]).ok();
    assert!(ran.text().contains("is cancelled"), "{ran:?}");
    for id in ["00000000000000000000000000000000", "j-00000000"] {
        let ran = world.run(["job", id]).failed(2, &["00000000", "`manyhands jobs`"]);
        assert!(!ran.stderr.contains("/api/"), "{ran:?}");
    }
    let costly = ["run", "cat.wasm", "--max-price", "1"];
    world.run(costly).failed(2, &["--fuel-limit: a job that buys its places needs one"]);
    world.file("costly.toml", "program = 'cat.wasm'\nmax_price = 1\n");
    world.run(["submit", "costly.toml"]).failed(2, &["costly.toml:2:", "fuel_limit"]);
}

#[test]
fn a_swarm_of_one_waits_with_its_submitter() {
    let world = World::new();
    world.program("cat.wasm", guests::CAT);
    world.file("in.txt", "hello");
    world.file("job.toml", "program = 'cat.wasm'\nstdin = 'in.txt'\n");
    let ran = world.run(["submit", "job.toml", "--wait", "--out-dir", "out", "--output", "json"]).ok();
    assert_eq!(ran.json()["state"], "done");
    assert_eq!(std::fs::read_to_string(world.path("out/0/stdout")).unwrap(), "hello");
}

#[test]
fn ctrl_c_cancels_a_run_and_leaves_a_submitted_job_alone() {
    let world = World::new();
    let _gateway = world.gateway(0);
    world.program("cat.wasm", guests::CAT);
    world.file("job.toml", "program = 'cat.wasm'\n");
    let states = || {
        let list = world.run(["jobs", "--output", "json"]).ok().json();
        let jobs = list["jobs"].as_array().unwrap().clone();
        let mut states: Vec<_> = jobs.iter().map(|job| job["state"].as_str().unwrap().to_owned()).collect();
        // Jobs of the same second come in any order.
        states.sort();
        states
    };
    let submitted = Process::start(world.command(["submit", "job.toml", "--wait"]));
    submitted.says("nobody gives slots");
    submitted.signal("INT");
    submitted.says("goes on; see it with `manyhands job");
    assert_eq!(submitted.ends().0, 130);
    assert_eq!(states(), ["waiting"]);

    let run = Process::start(world.command(["run", "cat.wasm"]));
    run.says("nobody gives slots");
    run.signal("INT");
    run.says("cancelled");
    assert_eq!(run.ends().0, 130);
    assert_eq!(states(), ["cancelled", "waiting"]);
}

#[test]
fn a_task_file_of_the_paper_is_a_job() {
    let world = World::new();
    let _gateway = world.gateway(2);
    world.program("tools/arguments.wasm", guests::ARGUMENTS);
    let task = |size: u32, inputs: &str| {
        format!(
            "<SubTask><CpuCycles>1000</CpuCycles><CheckPointDataSize>{size}</CheckPointDataSize>\
             <Price>0</Price><File>arguments.wasm</File><InputParameters><Count>2</Count>\
             <Param>3</Param><Param> 4 &amp; more</Param></InputParameters>{inputs}</SubTask>\n"
        )
    };
    let inputs = "<InputFiles><Count>1</Count><InputFile>in.txt</InputFile></InputFiles>";
    let file = |tasks: &str| format!("<?xml version=\"1.0\" ?>\n<TaskFile>\n{tasks}</TaskFile>\n");
    world.file("tools/task.xml", file(&[task(0, ""), task(0, inputs)].concat()));
    // Every file that a sub-task names is looked for before anything is sent.
    world.run(["submit", "tools/task.xml", "--wait"]).failed(2, &["input tools/in.txt: no such file"]);
    world.file("tools/in.txt", "hello");
    let ran = world.run(["submit", "tools/task.xml", "--wait", "--out-dir", "out"]).ok();
    assert!(ran.text().contains("2 of 2 done"), "{ran:?}");
    for unit in 0..2 {
        let stdout = std::fs::read_to_string(world.path(&format!("out/{unit}/stdout"))).unwrap();
        assert!(stdout.ends_with("\x003\x00 4 & more\0"), "{stdout:?}");
    }
    // With a price its places are bought: here nobody sells, and it waits.
    world.file("tools/task.xml", file(&task(0, "")).replace("<Price>0<", "<Price>234<"));
    let bought = world.run(["submit", "tools/task.xml", "--output", "json"]).ok().json();
    assert_eq!(bought["cost"]["most"], 234, "{bought}");
    // A mistake is told with its place, and nothing is submitted.
    world.file("tools/task.xml", file(&[task(0, ""), task(9, "")].concat()));
    world.run(["submit", "tools/task.xml"]).failed(2, &["tools/task.xml:4:", "want checkpoints"]);
    world.file("tools/task.xml", "<!DOCTYPE x>\n<TaskFile/>");
    world.run(["submit", "tools/task.xml"]).failed(2, &["tools/task.xml:1:1: ", "document type"]);
    let list = world.run(["jobs", "--output", "json"]).ok().json();
    assert_eq!(list["jobs"].as_array().unwrap().len(), 2);
}
