//! Bad input is refused with what happened, to what, and what to do next.

use crate::guests;
use crate::world::World;

#[test]
fn what_is_no_program_is_refused_by_name() {
    let world = World::new();
    world.file("text.wasm", "#!/bin/sh\necho hello\n");
    world.file("elf.wasm", b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    world.file("empty.wasm", "");
    world.file("component.wasm", b"\0asm\x0d\0\x01\0");
    world.program("imports.wasm", guests::STRANGE_IMPORTS);
    world.program("library.wasm", guests::NO_START);
    for (program, words) in [
        ("text.wasm", &["text.wasm"][..]),
        ("elf.wasm", &["elf.wasm", "ELF"]),
        ("empty.wasm", &["empty.wasm", "empty"]),
        ("component.wasm", &["component.wasm", "component"]),
        ("imports.wasm", &["imports.wasm", "launch_rocket", "no_such_function"]),
        ("library.wasm", &["library.wasm", "_start"]),
    ] {
        world.run(["run", program]).failed(2, words);
    }
}

#[test]
fn a_compiler_that_breaks_over_a_program_is_named() {
    let world = World::new();
    world.program("vector.wasm", guests::VECTOR);
    world.run(["run", "--suspend-every", "1", "vector.wasm"]).ok();
    world.run(["run", "--suspend-every", "1", "--hop", "vector.wasm"]).failed(1, &["without --hop"]);
}

#[test]
fn files_that_do_not_exist_are_named() {
    let world = World::new();
    world.program("cat.wasm", guests::CAT);
    std::fs::create_dir(world.path("folder")).unwrap();
    world.run(["run", "gone.wasm"]).failed(2, &["program gone.wasm: no such file"]);
    world.run(["run", "cat.wasm", "--file", "gone.txt"]).failed(2, &["file gone.txt: no such file"]);
    world
        .run(["map", "cat.wasm", "--", "gone.txt", "folder"])
        .failed(2, &["gone.txt: no such file", "it is a folder"]);
    world.run(["map", "cat.wasm"]).failed(2, &["no inputs"]);
    world.run(["submit", "gone.toml"]).failed(2, &["gone.toml: no such file"]);
    world.run(["submit", "folder"]).failed(2, &["cannot read folder: it is a folder\n"]);
    world.run(["files", "put", "gone.txt"]).failed(2, &["cannot read gone.txt: no such file or folder\n"]);
}

#[test]
fn a_description_with_mistakes_is_answered_with_their_place() {
    let world = World::new();
    world.file("job.toml", "program = 'cat.wasm'\nargumets = []\n");
    world.run(["submit", "job.toml"]).failed(2, &["job.toml:2:1", "argumets", "did you mean `arguments`"]);
    world.file("job.toml", "program = 'cat.wasm'\ninputs = ['*.wasm']\nsweep = { count = 3 }\n");
    world.run(["submit", "job.toml"]).failed(2, &["job.toml:3:1", "`sweep` contradicts `inputs` in line 2"]);
}

#[test]
fn without_a_gateway_commands_that_need_one_say_what_to_do() {
    let world = World::new();
    world.program("cat.wasm", guests::CAT);
    world.file("job.toml", "program = 'cat.wasm'\n");
    for words in [
        &["jobs"][..],
        &["job", "abcd"],
        &["nodes"],
        &["cancel", "abcd"],
        &["results", "abcd", "-o", "x"],
        &["submit", "job.toml"],
    ] {
        world.run(words).failed(3, &["manyhands up --gateway", "--gateway URL"]);
    }
    // A port that nobody has: bound here, and given up again.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{free}");
    world.run(["run", "cat.wasm", "--gateway", &url]).failed(3, &[&url, "nothing listens there"]);
    world
        .run(["--gateway", &url, "jobs"])
        .failed(3, &[&url, "nothing listens there", "manyhands up --gateway"]);
    world.run(["jobs", "--gateway", "ftp://x"]).failed(2, &["ftp"]);
    // No name below .invalid leads anywhere (RFC 2606).
    let nowhere = ["jobs", "--gateway", "http://gateway.invalid:8080"];
    let ran = world.run(nowhere).failed(3, &["gateway.invalid", "no host of that name", "spelt"]);
    assert!(!ran.stderr.contains("manyhands up --gateway"), "a gateway here is of no use: {ran:?}");
    let joining = ["up", "--join", "gateway.invalid:8080", "--fail-fast"];
    world.run(joining).failed(3, &["gateway.invalid", "no host of that name", "spelt"]);
}

#[test]
fn beside_a_worker_commands_are_for_it_unless_they_name_its_gateway() {
    let world = World::new();
    let gateway =
        world.up("elsewhere", &["--gateway", "--http-port", "0", "--p2p-port", "0", "--slots", "0"]);
    let worker = world.up("data", &["--join", &gateway.url, "--slots", "0"]);
    world.run(["jobs"]).ok();
    // Nobody joins by it.
    world.run(["up", "--data", "third", "--join", &worker.url, "--fail-fast"]).failed(2, &["is no gateway"]);
    world.run(["--gateway", &gateway.url, "--token", &gateway.token, "jobs"]).ok();
    world.run(["files", "--gateway", &gateway.url, "--token", &gateway.token, "list"]).ok();
}

#[test]
fn mistakes_in_usage_end_with_2() {
    let world = World::new();
    world.run(["dance"]).failed(2, &["dance"]);
    world.run(["up"]).failed(2, &["--gateway", "--join URL"]);
    world.run(["up", "--join", "/ip4/1.2.3.4"]).failed(2, &["/tcp/"]);
    world.file("bad.toml", "[up]\nslot = 1\n");
    world.run(["up", "--config", "bad.toml"]).failed(2, &["bad.toml:2:1", "did you mean `slots`"]);
    let mut command = world.command(["up", "--gateway"]);
    let output = command.env("MANYHANDS_UP_SLOTS", "many").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("MANYHANDS_UP_SLOTS"));
}
