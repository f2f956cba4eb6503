//! Secrets: files that lie on the disk, and words that are said aloud.

use crate::world::{Process, World, until_so};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Files and folders below this one, itself included, that others than the owner may use.
fn open_to_others(path: &Path) -> Vec<String> {
    let found = fs::symlink_metadata(path).unwrap();
    let mode = found.permissions().mode() & 0o777;
    let mut open = Vec::new();
    if mode & 0o077 != 0 && !found.is_symlink() {
        open.push(format!("{} {mode:o}", path.display()));
    }
    if found.is_dir() {
        let entries = fs::read_dir(path).unwrap();
        open.extend(entries.flat_map(|entry| open_to_others(&entry.unwrap().path())));
    }
    open
}

#[test]
fn nobody_else_reads_what_a_node_keeps() {
    let world = World::new();
    let data = world.path("data");
    fs::create_dir(&data).unwrap();
    fs::set_permissions(&data, Permissions::from_mode(0o755)).unwrap();
    let gateway = world.gateway(1);
    let program = world.example("null");
    world.run(["run", "--no-stdin", program.to_str().unwrap()]).ok();
    assert_eq!(open_to_others(&data), [""; 0]);
    assert_eq!(gateway.end(Some("TERM")), 0);

    // As an older version has left it.
    for name in ["blobs", "state.redb", "lock", "."] {
        fs::set_permissions(data.join(name), Permissions::from_mode(0o755)).unwrap();
    }
    let _gateway = world.gateway(1);
    assert_eq!(open_to_others(&data), [""; 0]);
}

#[test]
fn neither_token_nor_invite_is_written_where_it_would_stay() {
    let world = World::new();
    let mut command =
        world.command(["up", "--gateway", "--http-port", "0", "--p2p-port", "0", "--slots", "0"]);
    command.args(["--invite", "mellon"]).env("MANYHANDS_LOG", "trace");
    let log = world.path("log");
    let gateway = Process::redirected(command, &log);
    let said = || fs::read_to_string(&log).unwrap();
    until_so("it greets", || said().contains("Ctrl-C ends it"));
    let token = fs::read_to_string(world.path("data/token")).unwrap();
    world.run(["jobs"]).ok();
    gateway.signal("TERM");
    assert_eq!(gateway.ends().0, 0);
    let said = said();
    assert!(said.contains("/dashboard\n") && said.contains("data/token\n"), "{said}");
    assert!(said.contains("--invite WORD\n"), "{said}");
    assert!(!said.contains(token.trim()) && !said.contains("mellon"), "{said}");
    let shown = world.run(["token"]).ok();
    assert_eq!(shown.text(), format!("{}\n", world.path("data/token").display()));
    assert!(!shown.stderr.contains(token.trim()), "{}", shown.stderr);
}

#[test]
fn a_new_token_takes_the_place_of_the_old_one_while_the_gateway_runs() {
    let world = World::new();
    world.run(["token"]).failed(1, &["there is no token", "--data DIR"]);
    world.run(["token", "rotate"]).failed(1, &["there is no token", "on the node's own machine"]);
    let gateway = world.gateway(0);
    let with = |token: &str| world.run(["jobs", "--gateway", &gateway.url, "--token", token]);
    with(&gateway.token).ok();
    world.program("task.wasm", r#"(module (memory (export "memory") 1) (func (export "_start")))"#);
    // No slot is there: both wait.
    let run = |more: &[&str]| {
        let process = Process::start(world.command([&["run", "task.wasm"], more].concat()));
        process.says("waits");
        process
    };
    let told = run(&["--gateway", &gateway.url, "--token", &gateway.token, "--data", "elsewhere"]);
    let beside = run(&[]);
    world.run(["token", "rotate"]).ok();
    let new = fs::read_to_string(world.path("data/token")).unwrap();
    with(&gateway.token).failed(2, &["does not accept this token", "manyhands token"]);
    with(new.trim()).ok();
    world.run(["jobs"]).ok();
    let worker = world.up("worker", &["--join", &gateway.url, "--slots", "1"]);
    told.says("is not lost, `manyhands job j-");
    assert_eq!(told.ends().0, 2);
    assert_eq!(beside.ends().0, 0, "it looks the token up where it lies");
    drop(worker);
    // As it stands in a guide, with an ellipsis.
    with("…").failed(2, &["is no token"]);
}

#[test]
fn names_that_would_mislead_a_reader_show_themselves() {
    let world = World::new();
    let node = "no\u{202e}de\u{200b}";
    let _gateway = world
        .up("data", &["--gateway", "--http-port", "0", "--p2p-port", "0", "--slots", "0", "--name", node]);
    world.program("task.wasm", r#"(module (memory (export "memory") 1) (func (export "_start")))"#);
    world.file("job.toml", "program = 'task.wasm'\nname = 'evil\u{2066}exe'\n");
    let submitted = world.run(["submit", "job.toml"]).ok();
    assert!(submitted.stderr.contains("evil\u{fffd}exe"), "{}", submitted.stderr);
    let job = submitted.text().trim().to_owned();
    let shown = [
        world.run(["jobs"]).ok(),
        world.run(["job", &job]).ok(),
        world.run(["nodes"]).ok(),
        world.run(["nodes", "--output", "json"]).ok(),
    ];
    for ran in &shown {
        let text = ran.text() + &ran.stderr;
        assert!(!text.contains(['\u{202e}', '\u{200b}', '\u{2066}']), "{text:?}");
    }
    assert!(shown[0].text().contains("evil\u{fffd}exe"), "{:?}", shown[0]);
    assert!(shown[2].text().contains("no\u{fffd}de\u{fffd}"), "{:?}", shown[2]);
    assert_eq!(shown[3].json()["nodes"][0]["name"], node, "in JSON it is written as escapes");
}
