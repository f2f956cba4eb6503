//! Bounds that hold, and runs that are not wanted any more.

use super::support::World;
use node_core::{EngineReply, EngineRequest, EngineTask};
use sandbox::{End, Limit, Limits};
use std::time::{Duration, Instant};

fn at_most(task: EngineTask, time: Duration) -> EngineTask {
    let limits = Limits { time_us: time.as_micros() as u64, ..task.limits };
    EngineTask { limits, ..task }
}

#[test]
fn a_task_that_never_returns_is_ended_and_those_behind_it_run() {
    let mut world = World::new(1);
    for run in 0..10 {
        world.run(run, world.hello());
    }
    let began = Instant::now();
    world.run(10, at_most(world.endless(), Duration::from_millis(300)));
    for run in 11..100 {
        world.run(run, world.hello());
    }
    for run in (0..10).chain(11..100) {
        assert_eq!(world.outcome(run).end, End::Exited(0), "run {run}");
    }
    assert_eq!(world.outcome(10).end, End::LimitReached(Limit::TimeUs(300_000)));
    assert!(began.elapsed() >= Duration::from_millis(300));
    world.silent();
}

/// Each has a limit that all of them together exceed by far.
#[test]
fn a_task_is_not_charged_for_the_time_it_waited() {
    let mut world = World::new(1);
    let spin = world.task(
        "(local i64) (loop $again (local.set 0 (i64.add (local.get 0) (i64.const 1)))
            (br_if $again (i64.lt_u (local.get 0) (i64.const 20000000))))",
        "",
    );
    let began = Instant::now();
    world.run(0, spin.clone());
    world.outcome(0);
    // Its own time, start and compilation included, several times over: the machine is shared.
    let limit = began.elapsed() * 5;
    for run in 1..40 {
        world.run(run, at_most(spin.clone(), limit));
    }
    for run in 1..40 {
        assert_eq!(world.outcome(run).end, End::Exited(0), "run {run}");
    }
}

#[test]
fn memory_ends_where_the_limit_says() {
    let mut world = World::new(1);
    // Grows page by page until it is refused, and exits with the number of pages.
    let grow = "(loop $again (br_if $again (i32.ne (memory.grow (i32.const 1)) (i32.const -1))))
        (call $exit (memory.size))";
    let mut task = world.task(grow, "");
    task.limits.memory_bytes = 100 * 65_536 + 65_535;
    assert_eq!(world.end(task), End::Exited(100));
}

#[test]
fn output_ends_where_the_limit_says() {
    let mut world = World::new(1);
    let forever = "(loop $again
        (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 100))) (br $again))";
    let mut task = world.task(forever, r#"(data (i32.const 0) "\10\00\00\00\00\04\00\00")"#);
    task.limits.output_bytes = 100_000;
    world.run(1, task);
    let outcome = world.outcome(1);
    assert_eq!(outcome.end, End::LimitReached(Limit::OutputBytes(100_000)));
    assert_eq!(outcome.stdout.len(), 100_000);
}

#[test]
fn a_running_task_that_is_killed_makes_room_and_is_not_answered() {
    let mut world = World::new(1);
    world.run(1, world.endless());
    world.run(2, world.hello());
    world.kill(1);
    assert_eq!(world.outcome(2).end, End::Exited(0));
    world.silent();
}

#[test]
fn killed_tasks_are_not_answered_wherever_they_are() {
    let mut world = World::new(1);
    world.run(0, world.hello());
    world.outcome(0);
    world.run(1, world.endless());
    for run in 2..300 {
        world.run(run, world.hello());
    }
    // Some are with the slot, some on their way back from it, some wait here.
    (2..300).filter(|run| run % 3 != 0).for_each(|run| world.kill(run));
    world.kill(1);
    for run in (2..300).filter(|run| run % 3 == 0) {
        assert_eq!(world.outcome(run).end, End::Exited(0), "run {run}");
    }
    world.silent();
}

#[test]
fn killing_what_has_ended_or_never_was_harms_nothing() {
    let mut world = World::new(1);
    world.run(1, world.hello());
    world.outcome(1);
    world.kill(1);
    world.kill(77);
    assert_eq!(world.end(world.hello()), End::Exited(0));
}

#[test]
fn without_slots_tasks_wait() {
    let mut world = World::new(0);
    world.run(1, world.hello());
    world.engine.request(EngineRequest::Slots(2));
    assert_eq!(world.outcome(1).end, End::Exited(0));
    // Below what is running: it goes on, but nothing new begins.
    world.run(2, world.endless());
    world.run(3, world.endless());
    world.engine.request(EngineRequest::Slots(1));
    world.run(4, world.hello());
    world.kill(2);
    world.kill(3);
    assert_eq!(world.outcome(4).end, End::Exited(0));
}

#[test]
fn stopping_ends_what_runs_at_once() {
    let world = World::new(2);
    world.run(1, world.endless());
    world.run(2, world.endless());
    world.silent();
}

/// The one that waits longest is the one that was asked for first.
#[test]
fn tasks_begin_in_their_order() {
    let mut world = World::new(1);
    for run in 0..200 {
        world.run(run, world.hello());
    }
    for run in 0..200 {
        let (next, reply) = world.any();
        assert_eq!(next, run);
        assert!(matches!(reply, EngineReply::Ended { .. }));
    }
}
