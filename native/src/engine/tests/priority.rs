//! Priorities: tasks give way to everything else, compiling does not, for a while.

use super::super::Engine;
use super::support::{PATIENCE, World};
use crate::market::speed;
use node_core::EngineTask;
use rustix::process::Pid;
use sandbox::End;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::watch;

/// Name and priority (nice value) of each thread of a process.
fn threads(pid: Pid) -> Vec<(String, i32)> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())).into_iter().flatten();
    let stats = tasks.flatten().filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok());
    let parsed = stats.filter_map(|stat| {
        let (head, rest) = stat.rsplit_once(')')?;
        // Field 19 of proc_pid_stat(5); the first behind the name is field 3.
        let nice = rest.split_whitespace().nth(16)?.parse().ok()?;
        Some((head.split_once('(')?.1.to_owned(), nice))
    });
    parsed.collect()
}

/// A program that takes seconds to compile, on any machine of today.
pub(super) fn slow_to_compile(world: &World) -> EngineTask {
    let steps = "(local.set 0 (i64.rotl (i64.mul (local.get 0) (i64.const 77)) (local.get 0)))".repeat(400);
    let functions = format!("(func (param i64) (result i64) {steps} (local.get 0))").repeat(1500);
    world.task("", &functions)
}

/// Waits until `holds` is true of the threads of the only slot and its compiler.
#[track_caller]
fn until(world: &World, what: &str, holds: impl Fn(&[(String, i32)]) -> bool) {
    let began = Instant::now();
    loop {
        let seen: Vec<_> = world.processes(|_| true).into_iter().flat_map(threads).collect();
        if holds(&seen) {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{what}: {seen:?}");
        std::thread::yield_now();
    }
}

#[test]
fn a_program_is_compiled_at_normal_priority_for_a_while_and_then_at_the_lowest() {
    let own = rustix::process::getpriority_process(None).unwrap();
    let world = World::new(1);
    world.run(1, slow_to_compile(&world));
    let compilers = |seen: &[(String, i32)]| -> Vec<i32> {
        seen.iter().filter(|(name, _)| name == "compile").map(|(_, nice)| *nice).collect()
    };
    until(&world, "compiled at the node's own priority", |seen| {
        let compilers = compilers(seen);
        !compilers.is_empty() && compilers.iter().all(|nice| *nice == own)
    });
    until(&world, "compiled at the lowest priority", |seen| {
        let compilers = compilers(seen);
        !compilers.is_empty() && compilers.iter().all(|nice| *nice == 19)
    });
    world.kill(1);
    world.silent();
}

#[test]
fn tasks_run_at_the_lowest_priority() {
    let world = World::new(1);
    world.run(1, world.endless());
    // The runner has the name of the test that is a slot here, cut to what the kernel keeps.
    until(&world, "the lowest priority", |seen| {
        ["engine::tests::", "clerk"].iter().all(|one| seen.contains(&((*one).into(), 19)))
    });
    world.kill(1);
    world.silent();
}

/// It would be over long before the tasks of the node are, and does not begin before.
#[tokio::test(flavor = "multi_thread")]
async fn measuring_a_slots_speed_waits_while_the_node_works() {
    let mut world = World::new(1);
    let (works, told) = watch::channel(true);
    let (exe, arguments) = world.launcher();
    let cache = world.path().join("cache");
    let measured = tokio::spawn(async move {
        let start =
            |options, replies| Engine::start_as(options, arguments, Default::default(), Arc::from(replies));
        speed::measure_with(&exe, &cache, told, start).await
    });
    let spin = world.task(
        "(local i64) (loop $again (local.set 0 (i64.add (local.get 0) (i64.const 1)))
            (br_if $again (i64.lt_u (local.get 0) (i64.const 400000000))))",
        "",
    );
    assert_eq!(world.end(spin), End::Exited(0));
    assert!(!measured.is_finished());
    works.send(false).unwrap();
    let speed = measured.await.unwrap().unwrap();
    assert!(speed > 1_000_000, "{speed} of fuel a second");
}
