//! Stories of runs that are written down, paused, and ended while their Worker lives on.

use super::tests::{Story, program};
use super::*;
use node_core::SnapshotRef;
use node_core::content::BlobRef;

const NOT_BEGUN: &str = "Err(NotBegun)";

/// One slot that runs 1 and has 2 in line.
fn one_runs() -> Story {
    let mut s = Story::new(1);
    s.run(1..=2);
    s.mobile(0, 0);
    assert_eq!(s.held(0), ["1"]);
    s
}

/// One slot that is at 2 and has 3, 4 and 5 behind it; more wait.
fn several_in_a_slot() -> Story {
    let mut s = Story::new(1);
    s.run(1..=5);
    s.mobile(0, 0);
    s.answer(0, 1, 1000);
    assert_eq!(s.held(0), ["2", "3", "4", "5"]);
    s.world.replies.clear();
    s
}

fn replied(s: &Story) -> Vec<(u64, &str)> {
    s.world.replies.iter().map(|(run, words)| (*run, words.as_str())).collect()
}

#[test]
fn a_snapshot_is_passed_on_and_the_run_goes_on() {
    let mut s = one_runs();
    s.snapshot(1, false);
    s.taken(0, 1, 77, false);
    s.answer(0, 1, 10);
    assert_eq!(replied(&s), [(1, "Ok(77)"), (1, "exited with code 0")]);
    assert_eq!(s.world.log[1..], ["Snapshot { stop: false } 1 in 0"]);
}

#[test]
fn a_run_that_is_stopped_makes_room_for_the_next() {
    let mut s = one_runs();
    s.snapshot(1, true);
    s.taken(0, 1, 77, true);
    assert_eq!(replied(&s), [(1, "Ok(77), stopped")]);
    assert_eq!(s.held(0), ["2"]);
    s.finish(10);
    assert_eq!(s.world.replies.len(), 2);
}

#[test]
fn a_run_that_waits_has_not_begun() {
    let mut s = one_runs();
    s.snapshot(2, false);
    s.snapshot(2, true);
    assert_eq!(replied(&s), [(2, NOT_BEGUN), (2, "Err(NotBegun), stopped")]);
    s.finish(10);
    assert_eq!(s.world.replies.len(), 3, "it is over");
}

#[test]
fn all_runs_of_a_node_can_be_stopped() {
    let mut s = several_in_a_slot();
    // No slot is free to look at their program.
    (6..=9).for_each(|run| s.run_with(run, 2, |_| ()));
    (2..=9).for_each(|run| s.snapshot(run, true));
    assert_eq!(s.world.replies.len(), 4, "those that no slot has");
    s.taken(0, 2, 5, true);
    for run in 3..=5 {
        s.world.replies.clear();
        let taken = Err(NoSnapshot::NotBegun);
        s.say(0, Said::Snapshot { run: RunId(run), taken, stopped: true });
        assert_eq!(replied(&s), [(run, "Err(NotBegun), stopped")]);
    }
    assert!(s.pool.is_empty());
}

#[test]
fn a_run_that_ends_first_gives_no_snapshot() {
    let mut s = one_runs();
    s.snapshot(1, true);
    s.answer(0, 1, 10);
    assert_eq!(replied(&s), [(1, "exited with code 0")]);
    s.snapshot(1, true);
    s.snapshot(99, false);
    s.finish(10);
    assert_eq!(replied(&s), [(1, "exited with code 0"), (2, "exited with code 0")]);
}

#[test]
fn a_program_that_cannot_be_suspended_says_why_at_once() {
    let mut s = Story::new(1);
    s.run([1]);
    s.prepared(0, 0);
    s.snapshot(1, true);
    assert_eq!(replied(&s), [(1, "Err(Immobile(\"it is old\"))")]);
    s.finish(10);
    assert_eq!(s.world.replies.len(), 2);
}

#[test]
fn a_worker_that_breaks_over_a_snapshot_leaves_the_run_where_it_began() {
    let mut s = one_runs();
    s.snapshot(1, false);
    s.say(0, Said::Failed("out of memory".into()));
    assert_eq!(replied(&s), [(1, NOT_BEGUN)]);
    s.say(1, Said::Ready);
    assert_eq!(s.held(1), ["1"]);

    let mut s = one_runs();
    s.snapshot(1, true);
    s.say(0, Said::Failed("out of memory".into()));
    assert_eq!(replied(&s), [(1, "Err(NotBegun), stopped")]);
    s.say(1, Said::Ready);
    assert_eq!(s.held(1), ["2"]);
}

#[test]
fn a_kill_takes_no_worker_along() {
    let mut s = several_in_a_slot();
    s.kill(2);
    s.kill(4);
    s.gone(0, &[2]);
    s.gone(0, &[4]);
    s.after(Duration::from_secs(2));
    assert_eq!(s.world.log[1..], ["Kill 2 in 0", "Kill 4 in 0"]);
    s.finish(1000);
    assert_eq!(replied(&s), [(3, "exited with code 0"), (5, "exited with code 0")]);
}

#[test]
fn a_worker_that_does_not_obey_is_ended() {
    let mut s = one_runs();
    s.kill(1);
    s.after(Duration::from_millis(499));
    assert_eq!(s.world.log[1..], ["Kill 1 in 0"]);
    s.after(Duration::from_millis(1));
    assert_eq!(s.world.log[2..], ["end 0", "spawn 1"]);
    s.say(1, Said::Ready);
    assert_eq!(s.held(1), ["2"]);
    assert!(s.world.replies.is_empty());
}

#[test]
fn a_killed_run_says_nothing_more_whatever_was_asked_before() {
    let mut s = one_runs();
    s.snapshot(1, true);
    s.kill(1);
    s.snapshot(1, false);
    s.taken(0, 1, 9, true);
    assert_eq!(s.held(0), ["2"]);
    s.finish(10);
    assert_eq!(replied(&s), [(2, "exited with code 0")]);
    assert!(s.pool.is_empty());
}

#[test]
fn a_paused_run_keeps_its_slot_and_the_others_go_elsewhere() {
    let mut s = several_in_a_slot();
    s.slots(2);
    s.say(1, Said::Ready);
    s.pause(2, true);
    s.gone(0, &[3, 4, 5]);
    assert_eq!(s.held(0), ["2"]);
    assert_eq!(s.held(1), ["3", "4", "5"], "and none behind the one that is paused");
    s.after(Duration::from_secs(3600));
    let ended = s.world.log.iter().filter(|line| line.starts_with("end 0")).count();
    assert_eq!(ended, 0, "it is not its time that passes");
    s.pause(2, false);
    s.after(Duration::from_secs(9));
    s.answer(0, 1, 10);
    assert!(replied(&s).contains(&(2, "exited with code 0")), "{:?}", s.world.replies);
}

#[test]
fn a_run_that_is_paused_before_it_begins_waits_for_no_slot() {
    let mut s = one_runs();
    s.pause(2, true);
    s.pause(2, true);
    s.answer(0, 1, 10);
    assert!(s.held(0).is_empty());
    s.snapshot(2, false);
    assert_eq!(replied(&s)[1..], [(2, NOT_BEGUN)]);
    s.pause(2, false);
    assert_eq!(s.held(0), ["2"]);
    s.pause(2, true);
    s.kill(2);
    s.gone(0, &[2]);
    s.run([3]);
    s.finish(10);
    assert_eq!(replied(&s)[2..], [(3, "exited with code 0")]);
}

#[test]
fn a_parked_run_keeps_its_program_and_can_be_ended() {
    let mut s = one_runs();
    s.pause(2, true);
    s.answer(0, 1, 10);
    for n in 2..=12_u8 {
        s.run_with(100 + u64::from(n), n, |_| ());
        s.mobile(0, u32::from(n) - 1);
        s.answer(0, 1, 10);
    }
    s.pause(2, false);
    assert_eq!(s.held(0), ["2"]);
    s.answer(0, 1, 10);
    s.run_with(50, 3, |_| ());
    s.pause(50, true);
    s.snapshot(50, true);
    s.kill(50);
    assert_eq!(replied(&s).last(), Some(&(50, "Err(NotBegun), stopped")));
    s.finish(10);
}

#[test]
fn a_paused_run_whose_worker_breaks_stays_paused() {
    let mut s = one_runs();
    s.pause(1, true);
    s.say(0, Said::Failed("out of memory".into()));
    s.say(1, Said::Ready);
    assert_eq!(s.held(1), ["2"]);
    s.answer(1, 1, 10);
    assert!(s.held(1).is_empty());
    s.pause(1, false);
    assert_eq!(s.held(1), ["1"]);
    s.finish(10);
}

#[test]
fn a_paused_run_is_killed_like_any_other() {
    let mut s = one_runs();
    s.pause(1, true);
    s.kill(1);
    s.gone(0, &[1]);
    assert_eq!(s.held(0), ["2"]);
    s.finish(10);
    assert_eq!(replied(&s), [(2, "exited with code 0")]);
}

#[test]
fn who_had_its_time_is_asked_to_end_and_its_worker_lives() {
    let mut s = one_runs();
    s.after(Duration::from_secs(10));
    assert_eq!(s.world.log[1..], ["TimeUp 1 in 0"]);
    s.after(Duration::from_millis(100));
    let end = Outcome::of(End::LimitReached(sandbox::Limit::TimeUs(10_000_000)));
    s.world.drop_run(0, 1);
    s.say(0, Said::Answers(vec![Answer::Ended(end)]));
    assert!(s.world.replies[0].1.contains("longer than its limit"), "{:?}", s.world.replies);
    assert_eq!(s.held(0), ["2"]);
    s.after(Duration::from_secs(5));
    assert_eq!(s.world.log.len(), 2);

    let mut s = one_runs();
    s.after(Duration::from_millis(10_500));
    assert_eq!(s.world.log[1..], ["TimeUp 1 in 0", "end 0", "spawn 1"]);
    assert!(s.world.replies[0].1.contains("longer than its limit"), "{:?}", s.world.replies);
}

#[test]
fn a_run_may_take_longer_where_slots_get_a_share_of_the_time() {
    let mut s = one_runs();
    s.pool.set_share(25, &mut s.world);
    s.after(Duration::from_secs(39));
    assert_eq!(s.world.log[1..], ["25 % for 0"]);
    s.after(Duration::from_secs(1));
    assert_eq!(s.world.log[2..], ["TimeUp 1 in 0"]);
    s.slots(2);
    assert_eq!(s.world.log[3..], ["spawn 1", "25 % for 1"]);
}

#[test]
fn a_checkpoint_that_is_missing_or_bad_is_to_blame_and_not_the_browser() {
    let from = |n: u8| {
        let blob = BlobRef { id: program(n), len: 4 };
        Some(SnapshotRef { blob, base: None, root: [0; 32], fuel: 1 })
    };
    let mut s = Story::new(1);
    s.run_with(1, 1, |task| task.from = from(99));
    s.run_with(2, 1, |task| task.from = from(2));
    s.mobile(0, 0);
    s.world.drop_run(0, 2);
    s.say(0, Said::Answers(vec![Answer::Unusable("its snapshot cannot be used: it is damaged".into())]));
    assert_eq!(s.world.replies.len(), 2);
    assert!(s.world.replies.iter().all(|(_, words)| words.starts_with("broken: its snapshot")));
    assert!(s.pool.is_empty());
}

#[test]
fn what_will_come_goes_to_the_slot_that_has_its_base() {
    let snapshot = |blob: u8, base: Option<u8>| {
        let of = |n| BlobRef { id: program(n), len: 4 };
        Some(SnapshotRef { blob: of(blob), base: base.map(of), root: [0; 32], fuel: 1 })
    };
    let sent =
        |s: &Story| s.world.sent.as_ref().and_then(|job| job.from.clone()).expect("a job that goes on");
    let mut s = Story::new(2);
    s.run([1]);
    s.mobile(0, 0);
    s.answer(0, 1, 10_000_000);
    s.world.replies.clear();
    // Whatever slot gets ready, what is relative to that goes there, without its base.
    let task = EngineTask { from: snapshot(5, None), ..Story::task(10, 1) };
    s.request(EngineRequest::Prepare { run: RunId(10), task });
    let ready = (0..2).find(|slot| s.held(*slot).contains(&"10")).expect("a slot has it");
    s.world.drop_run(ready, 10);
    s.say(ready, Said::Answers(vec![Answer::Prepared]));
    assert_eq!(replied(&s), [(10, "prepared")]);
    s.run([11]);
    assert_eq!(s.held(1 - ready), ["11"], "others leave it alone");
    s.run_with(12, 1, |task| task.from = snapshot(6, Some(5)));
    assert_eq!(s.held(ready), ["12"]);
    assert!(sent(&s).is_held && sent(&s).base.is_none());
    // It has it once: the next gets its base along.
    s.answer(ready, 1, 10_000_000);
    s.run_with(13, 1, |task| task.from = snapshot(6, Some(5)));
    assert!(!sent(&s).is_held && sent(&s).base.is_some());
}

#[test]
fn where_no_slot_is_free_nothing_is_got_ready() {
    let mut s = one_runs();
    s.request(EngineRequest::Prepare { run: RunId(9), task: Story::task(9, 1) });
    assert_eq!(replied(&s), [(9, "prepared")]);
}

#[test]
fn what_a_slot_says_of_runs_that_it_has_not_is_ignored() {
    let mut s = Story::new(2);
    s.run(1..=2);
    s.mobile(0, 0);
    s.snapshot(1, true);
    s.say(1, Said::Gone(vec![RunId(1), RunId(7)]));
    s.say(1, Said::Snapshot { run: RunId(1), taken: Err(NoSnapshot::NotBegun), stopped: true });
    assert_eq!((s.held(0), s.world.replies.len()), (vec!["1"], 0));
    s.say(1, Said::Snapshot { run: RunId(2), taken: Err(NoSnapshot::NotBegun), stopped: true });
    assert_eq!(s.world.log.last().unwrap(), "spawn 2", "nobody asked for that");
}
