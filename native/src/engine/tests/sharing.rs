//! Slots that work side by side.

use super::support::World;
use sandbox::End;
use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

#[test]
fn thousands_of_tasks_are_each_answered_once() {
    let mut world = World::new(3);
    let task = world.hello();
    for run in 0..5000 {
        world.run(run, task.clone());
    }
    let answered: BTreeSet<u64> = (0..5000).map(|_| world.any().0).collect();
    assert_eq!(answered.len(), 5000);
    assert_eq!(world.slots().len(), 3);
    world.silent();
}

/// With one slot at an endless task, the rest goes to the other, even what was given out.
#[test]
fn a_long_task_holds_nobody_up() {
    let mut world = World::new(2);
    for run in 0..4 {
        world.run(run, world.hello());
    }
    (0..4).for_each(|run| drop(world.outcome(run)));
    world.run(100, world.endless());
    let task = world.hello();
    for run in 200..400 {
        world.run(run, task.clone());
    }
    for run in 200..400 {
        assert_eq!(world.outcome(run).end, End::Exited(0), "run {run}");
    }
    world.kill(100);
    world.silent();
}

#[test]
fn two_engines_share_what_is_compiled() {
    let mut one = World::new(1);
    let mut two = World::beside(&one, 1);
    assert_eq!(one.end(one.hello()), End::Exited(0));
    let code = |world: &World| -> Vec<_> {
        let files =
            fs::read_dir(world.path().join("cache/modules")).unwrap().map(|entry| entry.unwrap().path());
        files.filter(|path| path.extension().is_some_and(|e| e == "code")).collect()
    };
    let files = code(&one);
    assert_eq!(files.len(), 1);
    // Without the program's own file only the compiled one is left.
    let task = two.hello();
    fs::remove_file(two.blob_path(task.program)).unwrap();
    assert_eq!(two.end(task), End::Exited(0));
    assert_eq!(code(&two), files);
}

/// A task under way is slowed down, not only the next one.
#[test]
fn a_share_of_a_processor_can_be_changed_while_a_task_runs() {
    let world = World::new(1);
    world.run(1, world.endless());
    let ticks = || -> u64 {
        let Some(pid) = world.slots().first().copied() else { return 0 };
        let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
        let fields: Vec<&str> = stat.rsplit_once(')').map_or(vec![], |(_, rest)| rest.split(' ').collect());
        fields.get(12).and_then(|ticks| ticks.parse().ok()).unwrap_or(0)
    };
    // It runs: its processor time grows.
    let until = |enough: u64| {
        let began = Instant::now();
        while ticks() < enough {
            assert!(began.elapsed() < Duration::from_secs(60), "it does not run");
            std::thread::sleep(Duration::from_millis(5));
        }
        began.elapsed()
    };
    until(20);
    world.share(5);
    // Ticks of the slice that was under way when the share changed do not count.
    until(ticks() + 5);
    let took = until(ticks() + 10);
    // A tenth of a second of a processor, of which it gets a twentieth.
    assert!(took > Duration::from_millis(1000), "{took:?}");
    world.kill(1);
    world.silent();
}
