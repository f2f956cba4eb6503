//! Slots that lie about their snapshots: nothing has a name that is not its hash.

use super::super::slot::lies::{CONTENT, LIE};
use super::support::World;
use node_core::content::BlobRef;
use node_core::{EngineReply, EngineTask, Taken};
use sandbox::End;
use std::time::Duration;

/// A task at which its slot lies so, and which has begun.
fn lie(world: &mut World, how: &str) {
    let task = EngineTask { arguments: vec![format!("{LIE}{how}")], ..world.hello() };
    world.run(1, task);
    world.resumed(1);
}

fn is_what_was_written(world: &World, taken: &Taken) {
    assert_eq!(taken.blob, BlobRef::of(CONTENT));
    assert_eq!(world.content(taken), CONTENT);
}

#[test]
fn a_slot_that_lies_about_what_it_wrote_ends_and_its_node_goes_on() {
    for stop in [false, true] {
        let wrote = format!("and wrote {}", CONTENT.len());
        for (how, why) in [
            ("longer", &wrote[..]),
            ("shorter", &wrote),
            ("nothing", "empty"),
            ("empty", "empty"),
            ("endless", "empty"),
            ("relative", "relative to none"),
        ] {
            let mut world = World::new(1);
            lie(&mut world, how);
            world.ask_snapshot(1, stop);
            let error = world.broken(1);
            assert!(error.contains("gave a snapshot") && error.contains(why), "{how}: {error}");
            assert_eq!(world.end(world.hello()), End::Exited(0), "{how}");
            world.until("its files are gone", |world| world.unfinished() == 0);
            world.silent();
        }
    }
}

#[test]
fn a_snapshot_that_nobody_asked_for_is_none() {
    let mut world = World::new(1);
    lie(&mut world, "unasked");
    let error = world.broken(1);
    assert!(error.contains("nobody asked for"), "{error}");
    assert_eq!(world.end(world.hello()), End::Exited(0));
    world.silent();
}

#[test]
fn a_slot_gives_one_snapshot_for_each_that_it_was_asked_for() {
    for stop in [false, true] {
        let mut world = World::new(1);
        lie(&mut world, "twice");
        world.ask_snapshot(1, stop);
        // The first may have its name before the second is heard of.
        let error = match world.next() {
            EngineReply::Snapshot { taken: Ok(taken), .. } => {
                is_what_was_written(&world, &taken);
                world.broken(1)
            }
            EngineReply::Broken { error, .. } => error,
            other => panic!("{other:?}"),
        };
        assert!(error.contains("nobody asked for"), "{error}");
        assert_eq!(world.end(world.hello()), End::Exited(0));
        world.until("its files are gone", |world| world.unfinished() == 0);
        world.silent();
    }
}

/// The slot writes another content over its snapshot again and again, with the descriptor that it kept.
#[test]
fn what_a_slot_writes_after_it_said_that_it_is_done_changes_nothing() {
    let mut world = World::new(1);
    lie(&mut world, "later");
    world.ask_snapshot(1, false);
    let taken = world.taken(1, false);
    // It may have written over it before the node looked; the name is that of what the node has.
    for _ in 0..20 {
        let content = world.content(&taken);
        assert_eq!(BlobRef::of(&content), taken.blob, "the content is what its name says, at all times");
        std::thread::sleep(Duration::from_millis(10));
    }
    // Each further one has a file of its own.
    world.ask_snapshot(1, false);
    let next = world.taken(1, false);
    assert_eq!(BlobRef::of(&world.content(&next)), next.blob);
    world.kill(1);
    world.silent();
}

#[test]
fn files_of_snapshots_that_nobody_keeps_are_removed() {
    let mut world = World::new(1);
    lie(&mut world, "not at all");
    world.ask_snapshot(1, false);
    let taken = world.taken(1, false);
    is_what_was_written(&world, &taken);
    assert_eq!(world.unfinished(), 1, "the snapshot, and no file for one that nobody asked for");
    drop(taken);
    world.until("its file is removed", |world| world.unfinished() == 0);
    world.ask_snapshot(1, true);
    let taken = world.taken(1, true);
    is_what_was_written(&world, &taken);
    world.silent();
}
