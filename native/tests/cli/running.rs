//! `manyhands run`: as if the program ran here.

use crate::guests;
use crate::world::World;

#[test]
fn a_program_runs_with_nothing_set_up() {
    let world = World::new();
    let cat = world.program("cat.wasm", guests::CAT);
    // Every byte there is, and more than a message holds.
    let input: Vec<u8> = (0..3 << 20).map(|i: u32| (i ^ (i >> 8) ^ (i >> 16)) as u8).collect();
    let ran = world.run_with(["run".as_ref(), cat.as_os_str()], &input).ok();
    assert!(ran.stdout == input, "{} bytes came back of {}", ran.stdout.len(), input.len());
    assert_eq!(ran.stderr, "done\n");
}

#[test]
fn arguments_and_variables_go_in() {
    let world = World::new();
    world.program("arguments.wasm", guests::ARGUMENTS);
    world.program("environment.wasm", guests::ENVIRONMENT);
    let words = ["run", "arguments.wasm", "-n", "5", "--env", "A=1", "--", "--env", "ü {} 'x'", ""];
    let ran = world.run(words).ok();
    let given: Vec<_> = ran.text().split_terminator('\0').map(str::to_owned).collect();
    assert_eq!(given[1..], ["-n", "5", "--env", "ü {} 'x'", ""]);
    let ran = world.run(["run", "environment.wasm", "--env", "B=x=y", "--env", "A="]).ok();
    assert_eq!(ran.text(), "A=\0B=x=y\0");
}

#[test]
fn files_go_in_and_come_out() {
    let world = World::new();
    let count = world.example("wordcount");
    world.file("deep/text.txt", "many hands make light work many hands");
    let count = count.to_str().unwrap();
    let ran = world.run(["run", count, "--file", "deep/text.txt", "deep/text.txt"]).ok();
    assert!(ran.text().starts_with("2 hands") || ran.text().contains("hands"), "{ran:?}");
    let renamed = world.run(["run", count, "--file", "deep/text.txt=t", "t"]).ok();
    assert_eq!(renamed.stdout, ran.stdout);

    let split = world.example("csv-split");
    let split = split.to_str().unwrap();
    let table = b"name,kind\nant,insect\ncod,fish\nbee,insect\n";
    let ran = world.run_with(["run", split, "kind"], table).ok();
    assert!(ran.stderr.contains("kind/fish.csv") && ran.stderr.contains("--out-dir"), "{ran:?}");
    let ran = world.run_with(["run", split, "kind", "--out-dir", "out"], table).ok();
    assert_eq!(ran.stderr, "");
    let insects = std::fs::read_to_string(world.path("out/kind/insect.csv")).unwrap();
    assert_eq!(insects, "name,kind\nant,insect\nbee,insect\n");
}

#[test]
fn the_exit_code_is_the_programs_own() {
    let world = World::new();
    world.program("exit.wasm", guests::EXIT_WITH_LENGTH);
    assert_eq!(world.run_with(["run", "exit.wasm"], b"").code, 0);
    assert_eq!(world.run_with(["run", "exit.wasm"], &[0; 42]).code, 42);
    // An exit code that a process cannot report must still not look like success.
    assert_eq!(world.run_with(["run", "exit.wasm"], &[0; 256]).code, 1);
    assert_eq!(world.run_with(["run", "--no-stdin", "exit.wasm"], &[0; 42]).code, 0);
}

#[test]
fn programs_that_go_wrong_say_how() {
    let world = World::new();
    world.program("trap.wasm", guests::TRAP);
    world.program("forever.wasm", guests::FOREVER);
    world.program("chatter.wasm", guests::CHATTER);
    world.run(["run", "trap.wasm"]).failed(1, &["trap.wasm: trapped", "unreachable"]);
    world
        .run(["run", "forever.wasm", "--time-limit", "300ms"])
        .failed(1, &["longer than its limit of 0.3 s (raise --time-limit)"]);
    world
        .run(["run", "chatter.wasm", "--output-limit", "1MiB"])
        .failed(1, &["1048576", "raise --output-limit"]);
}

#[test]
fn results_can_be_had_as_json() {
    let world = World::new();
    world.program("exit.wasm", guests::EXIT_WITH_LENGTH);
    let ran = world.run_with(["run", "exit.wasm", "--output", "json"], b"abc");
    assert_eq!(ran.code, 3);
    assert_eq!((&ran.json()["exit_code"], &ran.json()["success"]), (&3.into(), &false.into()));
}

#[test]
fn nothing_is_left_behind() {
    let world = World::new();
    world.program("cat.wasm", guests::CAT);
    let temporary = world.path("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let status = world.command(["run", "cat.wasm"]).env("TMPDIR", &temporary).status().unwrap();
    assert!(status.success());
    let left: Vec<_> = std::fs::read_dir(&temporary).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(left.is_empty(), "{left:?}");
}
