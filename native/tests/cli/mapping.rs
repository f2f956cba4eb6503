//! `manyhands map`: one unit an input.

use crate::guests;
use crate::world::World;

#[test]
fn outputs_come_in_input_order() {
    let world = World::new();
    world.program("head.wasm", guests::SLOW_HEAD);
    let names: Vec<String> = (0..40).map(|i| format!("in/{i:02}.txt")).collect();
    for name in &names {
        world.file(name, format!("{name}\n"));
    }
    // The first one takes longest, so that the others are done before it.
    world.file("in/00.txt", format!("in/00.txt\n{}", " ".repeat(60_000)));
    let mut words = vec!["map", "head.wasm", "--stdin", "--"];
    words.extend(names.iter().map(String::as_str));
    let ran = world.run(words).ok();
    let order: Vec<_> = ran.text().split_whitespace().map(str::to_owned).collect();
    assert_eq!(order, names);
}

#[test]
fn programs_see_their_input_under_its_own_name() {
    let world = World::new();
    world.program("arguments.wasm", guests::ARGUMENTS);
    for name in ["a.txt", "d/b.tar.gz"] {
        world.file(name, "x");
    }
    let told = |words: &[&str]| {
        let ran =
            world.run([&["map", "arguments.wasm"], words, &["--", "a.txt", "d/b.tar.gz"]].concat()).ok();
        ran.text().replace("task\0", "").split_terminator('\0').map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(told(&["-v"]), ["-v", "a.txt", "-v", "d/b.tar.gz"]);
    assert_eq!(told(&["{/.}-{#}={}"]), ["a-1=a.txt", "b.tar-2=d/b.tar.gz"]);
    // The program can open its input there, also at an absolute path.
    let count = world.example("wordcount");
    world.file("a.txt", "hands");
    let absolute = world.path("a.txt");
    let ran = world.run(["map".as_ref(), count.as_os_str(), "--".as_ref(), absolute.as_os_str()]).ok();
    assert!(ran.text().contains("hands"), "{ran:?}");
}

#[test]
fn inputs_can_come_from_a_list() {
    let world = World::new();
    world.program("cat.wasm", guests::CAT);
    for name in ["a b", "c"] {
        world.file(name, format!("{name}."));
    }
    assert_eq!(world.run_with(["map", "cat.wasm", "--stdin", "--", "-"], b"a b\nc\n").ok().text(), "a b.c.");
    let nul = ["map", "cat.wasm", "--stdin", "--null", "--inputs-from", "-"];
    assert_eq!(world.run_with(nul, b"c\0a b\0").ok().text(), "c.a b.");
}

#[test]
fn the_first_failure_ends_it_unless_told_to_go_on() {
    let world = World::new();
    world.program("exit.wasm", guests::EXIT_WITH_LENGTH);
    for (name, content) in [("good", ""), ("bad", "xxx"), ("last", "")] {
        world.file(name, content);
    }
    let words = ["map", "exit.wasm", "--stdin", "--", "good", "bad", "last"];
    world.run(words).failed(1, &["bad: exited with code 3", "--keep-going"]);
    let words =
        ["map", "exit.wasm", "--stdin", "--keep-going", "--out-dir", "out", "--", "good", "bad", "last"];
    world.run(words).failed(1, &["bad: exited with code 3", "1 of 3 units failed"]);
    let index: serde_json::Value =
        serde_json::from_slice(&std::fs::read(world.path("out/results.json")).unwrap()).unwrap();
    let codes: Vec<_> = index.as_array().unwrap().iter().map(|r| (&r["folder"], &r["exit_code"])).collect();
    assert_eq!(codes, [(&"good".into(), &0.into()), (&"bad".into(), &3.into()), (&"last".into(), &0.into())]);
    assert!(world.path("out/last/stdout").exists());
}
