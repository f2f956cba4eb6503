//! Failures that are not the task's.

use super::support::{World, busy, gone};
use node_core::ids::BlobId;
use node_core::{EngineReply, EngineTask};
use rustix::process::{Signal, kill_process};
use sandbox::End;
use std::io::Read;
use std::process::{Command, Stdio};

#[test]
fn a_slot_that_dies_costs_the_task_it_was_at_and_nothing_else() {
    let mut world = World::new(1);
    world.run(0, world.hello());
    world.outcome(0);
    let slots = world.slots();
    assert_eq!(slots.len(), 1);
    world.run(1, world.endless());
    world.run(2, world.hello());
    busy(slots[0]);
    kill_process(slots[0], Signal::KILL).unwrap();
    let error = world.broken(1);
    assert!(error.contains("signal 9"), "{error}");
    assert_eq!(world.outcome(2).end, End::Exited(0));
    assert_ne!(world.slots(), slots, "another process has taken its place");
}

#[test]
fn a_missing_blob_is_named() {
    let mut world = World::new(1);
    let nowhere = BlobId([0xab; 32]);
    world.run(1, EngineTask { program: nowhere, ..world.hello() });
    let error = world.broken(1);
    assert!(error.contains(&nowhere.to_string()), "{error}");
    assert!(error.contains("does not exist"), "{error}");
    assert_eq!(world.end(world.hello()), End::Exited(0));
}

#[test]
fn a_damaged_blob_is_not_run() {
    let mut world = World::new(1);
    let task = world.hello();
    std::fs::write(world.blob_path(task.program), b"something else").unwrap();
    world.run(1, task);
    let error = world.broken(1);
    assert!(error.contains("damaged"), "{error}");
}

#[test]
fn a_program_file_that_is_gone_is_told_for_each_task() {
    let mut world = World::with_exe("/nowhere/manyhands");
    for run in 0..3 {
        world.run(run, world.hello());
    }
    for run in 0..3 {
        let error = world.broken(run);
        assert!(error.contains("/nowhere/manyhands") && error.contains("restart"), "{error}");
    }
}

#[test]
fn a_process_that_is_no_slot_is_found_out() {
    for (exe, says) in [("/bin/true", "before it was ready"), ("/bin/cat", "does not greet")] {
        let mut world = World::with_exe(exe);
        let mut task = world.hello();
        // Enough for `cat` to repeat.
        task.arguments = vec!["x".repeat(10_000)];
        world.run(1, task);
        let error = world.broken(1);
        assert!(error.contains(says), "{exe}: {error}");
    }
}

/// The first process fails before it has begun, the second is a slot like any other.
#[test]
fn what_a_dead_slot_had_not_begun_runs_in_the_next_one() {
    let mut world = World::with_launcher(|folder| format!("mkdir {folder}/failed || exec \"$@\""));
    for run in 0..20 {
        world.run(run, world.hello());
    }
    let error = world.broken(0);
    assert!(error.contains("before it was ready"), "{error}");
    for run in 1..20 {
        let (next, reply) = world.any();
        assert_eq!(next, run, "in their order");
        assert!(matches!(reply, EngineReply::Ended { .. }), "{reply:?}");
    }
    world.silent();
}

#[test]
fn a_slot_without_work_leaves_and_comes_back() {
    let mut world = World::new(1);
    assert_eq!(world.end(world.hello()), End::Exited(0));
    let slots = world.slots();
    assert_eq!(slots.len(), 1);
    gone(slots[0]);
    assert_eq!(world.end(world.hello()), End::Exited(0));
    assert_ne!(world.slots(), slots);
}

/// Not a test: a node that is at endless tasks and says who its slots are.
#[test]
#[ignore = "part of the test below"]
fn node_that_is_killed() {
    let mut world = World::new(2);
    world.run(1, world.endless());
    world.run(2, world.hello());
    world.outcome(2);
    for pid in world.slots() {
        println!("slot {}", pid.as_raw_nonzero());
    }
    println!("now");
    world.outcome(1);
}

#[test]
fn slots_leave_when_their_node_is_killed() {
    let mut node = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "engine::tests::crashes::node_that_is_killed", "--ignored", "--nocapture"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    let mut stdout = node.stdout.take().unwrap();
    while !said.contains("now\n") {
        let mut bytes = [0; 1000];
        let n = stdout.read(&mut bytes).unwrap();
        assert!(n > 0, "{said}");
        said.push_str(&String::from_utf8_lossy(&bytes[..n]));
    }
    node.kill().unwrap();
    node.wait().unwrap();
    let slots: Vec<i32> = said.lines().filter_map(|line| line.strip_prefix("slot ")?.parse().ok()).collect();
    assert_eq!(slots.len(), 2, "{said}");
    for slot in slots {
        gone(rustix::process::Pid::from_raw(slot).unwrap());
    }
}
