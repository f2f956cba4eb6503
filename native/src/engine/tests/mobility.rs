//! Runs that are paused, written down, ended, and go on in another process.

use super::support::{World, busy};
use node_core::{EngineReply, EngineTask, NoSnapshot, SealKey, SnapshotRef, Taken};
use sandbox::{End, Limit, Limits};
use std::time::{Duration, Instant};

/// Counts to its argument's length times ten million, then exits with a digest.
const COUNT: &str = r#"(local $i i64) (local $h i64) (local $n i32)
    (drop (call $sizes (i32.const 0) (i32.const 4)))
    (local.set $n (i32.load (i32.const 4)))
    (loop $again
        (local.set $h (i64.add (i64.rotl (local.get $h) (i64.const 7)) (local.get $i)))
        (i64.store (i32.add (i32.const 4096) (i32.and (i32.wrap_i64 (local.get $h)) (i32.const 0x7ff8)))
            (local.get $h))
        (br_if $again (i64.lt_u (local.tee $i (i64.add (local.get $i) (i64.const 1)))
            (i64.mul (i64.extend_i32_u (local.get $n)) (i64.const 1000000)))))
    (call $exit (i32.and (i32.wrap_i64 (local.get $h)) (i32.const 0xffff)))"#;

/// Runs about `length` million rounds; its snapshots are sealed with a key of its own.
fn count(world: &World, length: usize) -> EngineTask {
    let mut task = world.task(COUNT, "");
    task.arguments = vec!["x".repeat(length)];
    task.key = SealKey([length as u8; 32]);
    task
}

fn stored(world: &World, taken: &Taken, base: Option<&Taken>) -> SnapshotRef {
    // It was made a blob when it was the newest.
    let base = base.map(|base| base.blob);
    assert_eq!(taken.base, base.map(|base| base.id));
    SnapshotRef { blob: world.store_taken(taken), base, root: taken.root, fuel: taken.fuel }
}

#[test]
fn a_task_goes_on_in_another_process_and_ends_as_if_it_had_stayed() {
    let mut world = World::new(1);
    let task = count(&world, 300);
    world.run(0, task.clone());
    let alone = world.outcome(0);
    assert!(alone.fuel > 100_000_000, "{}", alone.fuel);

    world.run(1, task.clone());
    let whole = world.first_snapshot(1);
    assert_eq!(whole.base, None);
    world.store_taken(&whole);
    let second = world.snapshot(1, false).unwrap();
    assert!(second.fuel > whole.fuel && second.blob.len < 200_000);
    let last = world.snapshot(1, true).unwrap();
    let mut from = stored(&world, &last, Some(&whole));
    for (hop, run) in (2..6).enumerate() {
        let mut other = World::beside(&world, 1);
        if hop % 2 == 1 {
            // The base of the snapshot lies ready before the snapshot comes.
            let base = from.base.unwrap();
            let whole = SnapshotRef { blob: base, base: None, root: [0; 32], fuel: 0 };
            other.prepare(100, EngineTask { from: Some(whole), ..task.clone() });
        }
        other.run(run, EngineTask { from: Some(from), ..task.clone() });
        if hop == 3 {
            let outcome = other.outcome(run);
            assert_eq!((outcome.end, outcome.fuel), (alone.end, alone.fuel));
            return;
        }
        other.first_snapshot(run);
        let taken = other.snapshot(run, true).unwrap();
        from = stored(&other, &taken, Some(&whole));
        other.silent();
    }
}

#[test]
fn a_run_that_is_paused_stands_still_and_then_goes_on() {
    let mut world = World::new(1);
    // Time that it stands still is not its time.
    let limits = Limits { time_us: 60_000_000, ..Limits::default() };
    world.run(1, EngineTask { limits, ..count(&world, 3000) });
    let before = world.first_snapshot(1);
    world.pause(1, true);
    let paused = world.snapshot(1, false).unwrap();
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(30));
        let later = world.snapshot(1, false).unwrap();
        assert_eq!((later.fuel, later.root), (paused.fuel, paused.root), "it stands still");
    }
    assert!(before.fuel <= paused.fuel);
    world.pause(1, false);
    while world.snapshot(1, false).unwrap().fuel == paused.fuel {}
    world.kill(1);
    world.silent();
}

#[test]
fn a_run_is_ended_without_its_process() {
    let mut world = World::new(1);
    world.run(0, world.hello());
    world.outcome(0);
    let slots = world.slots();
    for run in 1..10 {
        world.run(run, world.endless());
        world.first_snapshot(run);
        world.kill(run);
        assert_eq!(world.end(world.hello()), End::Exited(0));
    }
    let limits = Limits { time_us: 100_000, ..Limits::default() };
    world.run(10, EngineTask { limits, ..world.endless() });
    assert_eq!(world.outcome(10).end, End::LimitReached(Limit::TimeUs(100_000)));
    assert_eq!(world.slots(), slots, "the same process all the time");
}

#[test]
fn a_limit_of_fuel_ends_a_run() {
    let mut world = World::new(1);
    let limits = Limits { fuel: 5_000_000, ..Limits::default() };
    world.run(1, EngineTask { limits, ..world.endless() });
    let outcome = world.outcome(1);
    assert_eq!(outcome.end, End::LimitReached(Limit::Fuel(5_000_000)));
    assert!((5_000_000..5_001_000).contains(&outcome.fuel));
}

#[test]
fn runs_that_wait_have_no_snapshot_and_can_be_taken_back() {
    let mut world = World::new(1);
    world.run(1, world.endless());
    world.first_snapshot(1);
    for run in 2..6 {
        world.run(run, world.hello());
    }
    assert_eq!(world.snapshot(3, false), Err(NoSnapshot::NotBegun));
    assert_eq!(world.snapshot(4, true), Err(NoSnapshot::NotBegun));
    world.kill(1);
    for run in [2, 3, 5] {
        assert_eq!(world.outcome(run).end, End::Exited(0));
    }
    world.silent();
}

#[test]
fn a_program_that_cannot_be_suspended_says_why_and_is_still_ended() {
    let mut world = World::new(1);
    world.run(0, world.hello());
    world.outcome(0);
    let slots = world.slots();
    let body = "(local $r funcref) (local.set $r (ref.func $f)) (loop $l (br_if $l (i32.eqz (ref.is_null (local.get $r)))))";
    world.run(1, world.task(body, "(elem declare func $f) (func $f)"));
    busy(slots[0]);
    match world.snapshot(1, true) {
        Err(NoSnapshot::Immobile(why)) => assert!(why.contains("reference"), "{why}"),
        other => panic!("{other:?}"),
    }
    world.kill(1);
    assert_eq!(world.end(world.hello()), End::Exited(0));
    assert_ne!(world.slots(), slots, "nothing but ending its process ends it");
}

#[test]
fn a_snapshot_that_is_none_is_blamed_and_not_the_task() {
    let mut world = World::new(1);
    let task = count(&world, 2000);
    world.run(1, task.clone());
    let taken = world.first_snapshot(1);
    world.kill(1);
    let good = stored(&world, &taken, None);
    let bad = |world: &mut World, task: EngineTask| {
        world.run(2, task);
        let why = world.broken(2);
        assert!(why.starts_with("its snapshot cannot be used"), "{why}");
        why
    };
    let root = SnapshotRef { root: [1; 32], ..good };
    bad(&mut world, EngineTask { from: Some(root), ..task.clone() });
    let why = bad(&mut world, EngineTask { from: Some(good), key: SealKey([9; 32]), ..task.clone() });
    assert!(why.contains("sealed with another key"), "{why}");
    let garbage = SnapshotRef { blob: world.store(b"nothing"), ..good };
    bad(&mut world, EngineTask { from: Some(garbage), ..task.clone() });
    let other = EngineTask { from: Some(good), key: task.key, ..world.endless() };
    let why = bad(&mut world, other);
    assert!(why.contains("another program"), "{why}");
    let limits = Limits { memory_bytes: 1 << 20, ..Limits::default() };
    bad(&mut world, EngineTask { from: Some(good), limits, ..task.clone() });
    world.run(3, EngineTask { from: Some(good), ..task });
    assert!(matches!(world.outcome(3).end, End::Exited(_)));
}

/// Orders and ends of runs may cross anywhere.
#[test]
fn snapshots_and_ends_may_race() {
    let mut world = World::new(2);
    for run in 0..200 {
        world.run(run, count(&world, 1 + run as usize % 5));
        world
            .engine
            .request(node_core::EngineRequest::Snapshot { run: node_core::RunId(run), stop: run % 3 == 0 });
    }
    let mut open: std::collections::BTreeSet<u64> = (0..200).collect();
    let patience = Instant::now() + Duration::from_secs(60);
    while !open.is_empty() && Instant::now() < patience {
        let (run, reply) = world.any();
        match reply {
            EngineReply::Snapshot { stopped: false, .. } => assert!(open.contains(&run)),
            _ => assert!(open.remove(&run), "run {run} was answered twice"),
        }
    }
    assert!(open.is_empty(), "{open:?}");
    world.silent();
}
