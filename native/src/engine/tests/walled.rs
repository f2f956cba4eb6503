//! The wall, from within: real processes of the engine attack it.

use super::super::wall;
use super::super::wall::attack::ATTACK;
use super::support::World;
use node_core::EngineTask;
use sandbox::End;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The only variables that a process of the engine may have in its environment.
const HARMLESS: [&str; 2] = ["GLIBC_TUNABLES", "LD_LIBRARY_PATH"];

/// A file beside the folders that the engine has, as the token lies there.
fn secret(world: &World) -> PathBuf {
    let path = world.path().join("token");
    std::fs::write(&path, "secret").unwrap();
    path
}

/// Tells a process of the engine to attack this process and a file of it.
fn attack(world: &World) -> String {
    format!("{ATTACK}{} {}", std::process::id(), secret(world).display())
}

/// Each attempt was refused, and nothing came of it. Only what `may_start_threads` got one.
#[track_caller]
fn assert_refused(said: &str, world: &World, may_start_threads: bool) {
    const DENIED: [i32; 2] = [1, 13];
    let lines: BTreeMap<&str, &str> = said.lines().filter_map(|line| line.split_once(' ')).collect();
    assert_eq!(lines.len(), 25, "{said}");
    for (attempt, result) in &lines {
        match *attempt {
            "variables" => {
                let mut names = result.split(',').filter(|name| !name.is_empty());
                assert!(names.all(|name| HARMLESS.contains(&name)), "{result}");
            }
            // As on a kernel that has no such call: the C library then takes the older one.
            "clone3" => assert_eq!(*result, "38"),
            "thread" if may_start_threads => assert_eq!(*result, "0"),
            attempt => {
                let code: i32 = result.parse().unwrap();
                assert!(DENIED.contains(&code), "{attempt}: {code}");
            }
        }
    }
    assert_eq!(std::fs::read_to_string(world.path().join("token")).unwrap(), "secret");
    assert!(!world.path().join("new").exists());
}

/// Whether this machine can build the wall at all; the tests are of those that can.
fn can_be_built() -> bool {
    let missing = wall::missing();
    if let Some(missing) = &missing {
        eprintln!("not tested: {missing}");
    }
    missing.is_none()
}

#[test]
fn a_slot_that_is_taken_over_reads_no_secret_opens_no_socket_and_starts_nothing() {
    if !can_be_built() {
        return;
    }
    let mut world = World::new(1);
    let arguments = vec![attack(&world)];
    world.run(1, EngineTask { arguments, ..world.hello() });
    let outcome = world.outcome(1);
    assert_refused(std::str::from_utf8(&outcome.stdout).unwrap(), &world, false);
    assert_eq!(world.end(world.hello()), End::Exited(0), "and what it is there for works behind the wall");
}

#[test]
fn a_compiler_that_is_taken_over_meets_the_same_wall() {
    if !can_be_built() {
        return;
    }
    let mut world = World::new(1);
    let program = attack(&world);
    match world.end(world.program(program.as_bytes())) {
        End::Refused(said) => assert_refused(&said, &world, true),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_system_shows_that_the_wall_stands() {
    if !can_be_built() {
        return;
    }
    let mut world = World::new(1);
    world.run(1, world.hello());
    world.outcome(1);
    let slot = world.slots()[0].as_raw_nonzero();
    let shown = |file: &str| std::fs::read_to_string(format!("/proc/{slot}/{file}")).unwrap();
    let has = |text: &str, name: &str, value: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or("no such line").to_owned();
        assert!(line[name.len()..].split_whitespace().next() == Some(value), "{line}");
    };
    has(&shown("status"), "Seccomp:", "2");
    has(&shown("status"), "NoNewPrivs:", "1");
    has(&shown("limits"), "Max open files", "64");
    has(&shown("limits"), "Max core file size", "0");
    has(&shown("limits"), "Max file size", "5368709120");
    // Readable for root alone, since the process is not dumpable.
    if let Ok(environment) = std::fs::read_to_string(format!("/proc/{slot}/environ")) {
        let names: Vec<&str> =
            environment.split('\0').filter_map(|one| Some(one.split_once('=')?.0)).collect();
        assert!(names.iter().all(|name| HARMLESS.contains(name)), "{names:?}");
    }
}

#[test]
fn what_the_nodes_parent_left_open_is_closed_in_a_slot() {
    let mut world = World::with_launcher(|folder| format!("exec 9<{folder} && exec \"$@\""));
    world.run(1, world.hello());
    world.outcome(1);
    let slot = world.slots()[0].as_raw_nonzero();
    let open = std::fs::read_dir(format!("/proc/{slot}/fd")).unwrap();
    let folder = world.path().to_owned();
    let open: Vec<PathBuf> = open.filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok()).collect();
    assert!(!open.is_empty() && !open.contains(&folder), "{open:?}");
}
