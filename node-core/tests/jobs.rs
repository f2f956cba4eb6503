//! Stories of jobs, without and with faults.

use bytes::Bytes;
use node_core::content::Data;
use node_core::ids::UnitId;
use node_core::work::client::NotAccepted;
use node_core::work::spec::{UnitSpec, Units};
use node_core::work::view::{JobState, UnitState};
use node_core::{Command, Config, NodeEvent, NodeInput};
use sandbox::{End, Outcome, Task};
use simulator::world::id_of;
use simulator::{World, ended};
use std::time::Duration;

const A_MINUTE: Duration = Duration::from_secs(60);

#[test]
fn a_sweep_runs_on_all_workers_and_ends_well() {
    let mut world = World::seed(1).swarm(4, 2);
    let spec = world.sweep(0, 200);
    let job = world.submit(0, spec);
    world.run_until(A_MINUTE, "the job is done", |w| w.is_over(job));
    world.assert_all_right(job, 200);
    let view = world.job(job).unwrap();
    assert_eq!(view.state, JobState::Done);
    assert_eq!(view.by_node.len(), 4, "everybody had a share");
    assert_eq!((view.duplicates, view.lost_placements), (0, 0));
}

#[test]
fn nodes_that_take_a_few_steps_at_a_time_do_the_same_work_slowly() {
    let mut world = World::seed(2);
    world.overruns_wait = true;
    for at in 0..3 {
        let slots = if at == 0 { 0 } else { 2 };
        let mut config = Config { gateway: at == 0, slots, ..Config::default() };
        config.limits_mut().steps = 10;
        world.add(config);
    }
    world.run_until(A_MINUTE, "the gateway has read its disk", |w| w.node(0).is_ready());
    (1..3).for_each(|at| world.connect(0, at));
    let spec = world.sweep(0, 50);
    let job = world.submit(0, spec);
    world.run_until(A_MINUTE, "the job is done", |w| w.is_over(job));
    world.assert_all_right(job, 50);
    assert!((0..3).all(|at| world.faults(at).is_empty()));
    let says = |event: &NodeEvent| matches!(event, NodeEvent::Trouble { what } if what.contains("Busiest"));
    let said = |node| world.told.iter().filter(|(_, at, event)| *at == node && says(event)).count();
    assert_eq!([0, 1, 2].map(said).iter().max(), Some(&1), "the bound was met, and that is said once");
}

#[test]
fn who_watches_the_nodes_is_told_of_every_change() {
    let mut world = World::seed(3).swarm(3, 2);
    world.run_for(Duration::from_secs(1));
    let spec = world.sweep(0, 60);
    let shown = |w: &World| -> Vec<_> {
        w.node(0).nodes(w.now).into_iter().map(|node| (node.id, node.slots, node.free)).collect()
    };
    let (mut seen, mut slots) = (shown(&world), 2);
    let job = world.submit(0, spec);
    while !world.is_over(job) {
        let told = world.told.len();
        if world.job(job).is_some_and(|job| job.done > 20 * slots - 20 && slots < 4) {
            slots += 1;
            world.drive(1, NodeInput::Command(Command::SetSlots(slots)));
        }
        assert!(world.step());
        if world.told[told..]
            .iter()
            .any(|(_, at, event)| *at == 0 && matches!(event, NodeEvent::NodesChanged))
        {
            seen = shown(&world);
        }
        assert_eq!(seen, shown(&world), "a change that was not told");
    }
    assert_eq!(slots, 4);
}

#[test]
fn slots_are_kept_busy_in_spite_of_the_wire() {
    // 400 units of 20 ms on 4 slots are 2 s of work; the wire takes up to 40 ms a message.
    let mut world = World::seed(2).swarm(2, 2);
    let spec = world.sweep(0, 400);
    let start = world.now;
    let job = world.submit(0, spec);
    world.run_until(A_MINUTE, "the job is done", |w| w.is_over(job));
    let took = world.now.since(start);
    assert!(took < Duration::from_millis(2600), "took {took:?}");
}

#[test]
fn results_that_trickle_travel_together() {
    let mut world = World::seed(22).with(|task| (Duration::from_millis(30), simulator::echo(task).1));
    world = world.swarm(1, 1);
    world.run_for(Duration::from_secs(1));
    let before = world.frames;
    let spec = world.sweep(0, 100);
    let job = world.submit(0, spec);
    world.run_until(A_MINUTE, "the job is done", |w| w.is_over(job));
    world.assert_all_right(job, 100);
    let frames = world.frames - before;
    assert!(frames < 190, "{frames} frames for 100 units");
}

#[test]
fn a_gateway_of_its_own_slot_computes_without_pauses() {
    for millis in [1, 50] {
        let mut world = World::seed(21);
        world.program = match millis {
            1 => |task| (Duration::from_millis(1), simulator::echo(task).1),
            _ => |task| (Duration::from_millis(50), simulator::echo(task).1),
        };
        world.add(Config { gateway: true, slots: 1, ..Config::default() });
        world.run_for(Duration::from_secs(1));
        let spec = world.sweep(0, 1000);
        let start = world.now;
        let job = world.submit(0, spec);
        world.run_until(A_MINUTE * 2, "the job is done", |w| w.is_over(job));
        let took = world.now.since(start);
        assert!(took < Duration::from_millis(1000 * millis + 500), "{millis} ms a unit took {took:?}");
        assert_eq!(world.job(job).unwrap().lost_placements, 0);
    }
}

#[test]
fn a_worker_that_dies_loses_its_lease_and_its_units_run_elsewhere() {
    let mut world = World::seed(3).swarm(2, 2);
    let spec = world.sweep(0, 300);
    let job = world.submit(0, spec);
    world.run_until(A_MINUTE, "half of it is done", |w| w.job(job).is_some_and(|j| j.done >= 150));
    world.crash(1);
    world.run_until(A_MINUTE, "the job is done", |w| w.is_over(job));
    world.assert_all_right(job, 300);
    assert!(world.job(job).unwrap().lost_placements > 0, "something was lost with it");
}

#[test]
fn a_frozen_worker_is_noticed_within_ten_seconds() {
    let mut world = World::seed(4).swarm(2, 1);
    let spec = world.sweep(0, 2);
    world.freeze(1);
    let job = world.submit(0, spec);
    let start = world.now;
    world.run_until(A_MINUTE, "the job is done", |w| w.is_over(job));
    assert!(world.now.since(start) < Duration::from_secs(10));
    world.assert_all_right(job, 2);
}

#[test]
fn late_results_of_a_lost_lease_are_counted_once() {
    let mut world = World::seed(5).swarm(2, 2).with(|task| (Duration::from_secs(4), simulator::echo(task).1));
    let spec = world.sweep(0, 4);
    let job = world.submit(0, spec);
    world.run_until(A_MINUTE, "units are placed", |w| w.job(job).is_some_and(|j| j.placed == 4));
    // Away for longer than the grace, and back with what was computed meanwhile.
    world.cut(0, 1);
    world.run_for(Duration::from_secs(5));
    world.connect(0, 1);
    world.run_until(A_MINUTE, "the job is done", |w| w.is_over(job));
    world.run_for(Duration::from_secs(10));
    world.assert_all_right(job, 4);
    assert!(world.job(job).unwrap().lost_placements > 0);
}

#[test]
fn a_short_cut_loses_nothing() {
    let mut world =
        World::seed(6).swarm(1, 2).with(|task| (Duration::from_millis(700), simulator::echo(task).1));
    let spec = world.sweep(0, 20);
    let job = world.submit(0, spec);
    for _ in 0..5 {
        world.run_for(Duration::from_millis(900));
        world.cut(0, 1);
        world.run_for(Duration::from_millis(300));
        world.connect(0, 1);
    }
    world.run_until(A_MINUTE, "the job is done", |w| w.is_over(job));
    world.assert_all_right(job, 20);
}

#[test]
fn a_gateway_that_crashes_finds_its_jobs_again() {
    let mut world = World::seed(7).swarm(3, 2);
    let spec = world.sweep(0, 300);
    let job = world.submit(0, spec);
    world.run_until(A_MINUTE, "a third is done", |w| w.job(job).is_some_and(|j| j.done >= 100));
    world.crash(0);
    world.run_for(Duration::from_secs(3));
    let before = world.results(job).len();
    world.start(0);
    (1..=3).for_each(|worker| world.connect(0, worker));
    world.run_until(A_MINUTE, "the job is done", |w| w.is_over(job));
    world.assert_all_right(job, 300);
    assert!(before >= 100, "durable results survive the crash");
}

#[test]
fn a_crash_between_the_last_result_and_the_end_record_still_ends_the_job() {
    let mut world = World::seed(8).swarm(1, 1);
    let spec = world.sweep(0, 1);
    let job = world.submit(0, spec);
    world.run_until(A_MINUTE, "the result is on disk", |w| w.results(job).len() == 1);
    world.crash(0);
    world.start(0);
    world.run_until(A_MINUTE, "the job is done", |w| w.is_over(job));
    world.assert_all_right(job, 1);
}

/// The driver tells the wall clock when the node starts, and no more: the core's own time goes on from it.
#[test]
fn a_jobs_times_are_true_to_the_millisecond() {
    let mut world = World::seed(9).swarm(1, 1);
    world.run_for(Duration::from_millis(1234));
    let spec = world.sweep(0, 60);
    let (job, began) = (world.submit(0, spec), world.now);
    world.run_until(A_MINUTE, "the job is done", |w| w.is_over(job));
    let (view, took) = (world.job(job).unwrap(), world.now.since(began));
    assert!(took > Duration::from_millis(1200), "60 units of 20 ms on one slot: {took:?}");
    assert_eq!(view.submitted_ms, 1_700_000_000_000 + began.0 / 1000);
    assert_eq!(view.ended_ms, Some(1_700_000_000_000 + world.now.0 / 1000));
}

#[test]
fn units_with_their_own_input_get_it_whatever_its_size() {
    fn count(task: &Task) -> (Duration, Outcome) {
        let text = format!("{} {} {}", task.arguments.join(","), task.stdin.len(), task.files[0].data.len());
        (Duration::from_millis(5), Outcome { stdout: text.into(), ..ended(0) })
    }
    let mut world = World::seed(9).swarm(2, 1).with(count);
    let mut spec = world.sweep(0, 1);
    let large: Vec<u8> = (0..3_000_000u32).map(|i| (i >> 3) as u8).collect();
    let large = world.upload(0, &large);
    spec.template.arguments = vec!["shared".into()];
    let unit = |arguments: Option<&str>, stdin: Data| UnitSpec {
        arguments: arguments.map(|a| vec![a.into()]),
        stdin: Some(stdin),
        files: vec![node_core::content::NamedData { path: "in".into(), data: Data::Blob(large) }],
    };
    spec.units = Units::List(vec![
        unit(None, Data::Inline(Bytes::from_static(b"small"))),
        unit(Some("own"), Data::Blob(large)),
    ]);
    let job = world.submit(0, spec);
    world.run_until(A_MINUTE, "the job is done", |w| w.is_over(job));
    let texts: Vec<Data> = world.results(job).into_values().map(|r| r.stdout).collect();
    let text = |s: &'static str| Data::Inline(Bytes::from_static(s.as_bytes()));
    assert_eq!(texts, [text("shared 5 3000000"), text("own 3000000 3000000")]);
}

#[test]
fn large_outputs_are_with_the_owner_before_the_runner_may_forget_them() {
    fn flood(_: &Task) -> (Duration, Outcome) {
        let file = sandbox::File { path: "out/a".into(), data: Bytes::from(vec![3; 700_000]) };
        (
            Duration::from_millis(5),
            Outcome { stdout: Bytes::from(vec![7; 1_000_000]), files: vec![file], ..ended(0) },
        )
    }
    let mut world = World::seed(10).swarm(1, 1).with(flood);
    let spec = world.sweep(0, 1);
    let job = world.submit(0, spec);
    world.run_until(A_MINUTE, "the job is done", |w| w.is_over(job));
    world.crash(1);
    let result = world.results(job).remove(&0).unwrap();
    for data in [&result.stdout, &result.files[0].data] {
        let blob = world.nodes[0].disk.blob(data.blob().unwrap().id).expect("the owner has it");
        assert_eq!(blob.len() as u64, data.len());
    }
}

#[test]
fn a_unit_that_fails_fails_the_job_and_says_why() {
    fn odd(task: &Task) -> (Duration, Outcome) {
        let odd = task.arguments[0].parse::<u32>().unwrap() % 2;
        (Duration::from_millis(5), ended(odd * 3))
    }
    let mut world = World::seed(11).swarm(1, 1).with(odd);
    let spec = world.sweep(0, 4);
    let job = world.submit(0, spec);
    world.run_until(A_MINUTE, "the job is over", |w| w.is_over(job));
    let view = world.job(job).unwrap();
    assert_eq!((view.state, view.done, view.failed), (JobState::Failed, 2, 2));
    assert!(view.reason.contains("exited with code 3"), "{}", view.reason);
    assert_eq!(world.results(job)[&1].end, End::Exited(3), "the outcome is kept");
}

#[test]
fn a_failing_unit_is_tried_as_often_as_was_asked() {
    let mut world = World::seed(12).swarm(1, 1).with(|_| (Duration::from_millis(5), ended(1)));
    let mut spec = world.sweep(0, 1);
    spec.max_retries = 2;
    let job = world.submit(0, spec);
    world.run_until(A_MINUTE, "the job is over", |w| w.is_over(job));
    assert_eq!(world.results(job)[&0].attempts, 3);
}

#[test]
fn a_cancelled_job_stops_everywhere() {
    let mut world =
        World::seed(13).swarm(2, 2).with(|task| (Duration::from_secs(1), simulator::echo(task).1));
    let spec = world.sweep(0, 100);
    let job = world.submit(0, spec);
    world.run_until(A_MINUTE, "it runs", |w| w.job(job).is_some_and(|j| j.done > 3));
    world.drive(0, NodeInput::Command(Command::Cancel { job }));
    world.run_for(Duration::from_millis(200));
    assert_eq!(world.job(job).unwrap().state, JobState::Cancelled);
    for worker in 1..=2 {
        assert_eq!(world.node(worker).work(world.now).busy, 0, "nobody goes on with it");
    }
    let units = world.node(0).units(job, 0, 100).unwrap();
    assert!(units.iter().any(|u| u.state == UnitState::Cancelled));
}

#[test]
fn a_full_disk_at_the_gateway_loses_nothing_that_was_accepted() {
    let mut world = World::seed(14).swarm(2, 2);
    let spec = world.sweep(0, 100);
    let job = world.submit(0, spec);
    world.run_until(A_MINUTE, "some are done", |w| w.job(job).is_some_and(|j| j.done > 10));
    world.nodes[0].disk.full = true;
    world.run_for(Duration::from_secs(30));
    assert!(!world.is_over(job));
    assert!(world.told.iter().any(|(_, at, event)| *at == 0
        && matches!(event, NodeEvent::Trouble { what } if what.contains("no space left"))));
    let reason = world.job(job).unwrap().reason;
    assert!(reason.contains("a result could not be kept") && reason.contains("no space left"), "{reason}");
    world.nodes[0].disk.full = false;
    world.run_until(A_MINUTE, "the job is done", |w| w.is_over(job));
    world.assert_all_right(job, 100);
}

#[test]
fn a_job_that_cannot_be_written_down_is_told_apart_from_one_that_makes_no_sense() {
    let mut world = World::seed(18).swarm(1, 1);
    world.nodes[0].disk.full = true;
    let spec = world.sweep(0, 3);
    let job = world.submit(0, spec);
    world.run_for(Duration::from_secs(2));
    let refused = world.told.iter().find_map(|(_, at, event)| match event {
        NodeEvent::JobRefused { job: of, why } if *at == 0 && *of == job => Some(why.clone()),
        _ => None,
    });
    assert!(
        matches!(&refused, Some(NotAccepted::NotStored(why)) if why.contains("no space left")),
        "{refused:?}"
    );
    assert!(world.job(job).is_none(), "nothing of it is left");
}

#[test]
fn a_job_waits_with_a_reason_and_starts_when_somebody_comes() {
    let mut world = World::seed(15).swarm(0, 0);
    let spec = world.sweep(0, 3);
    let job = world.submit(0, spec);
    world.run_for(Duration::from_secs(5));
    let view = world.job(job).unwrap();
    assert_eq!(view.state, JobState::Waiting);
    assert!(view.reason.contains("no node with slots is connected"), "{}", view.reason);
    let worker = world.add(Config::default());
    world.connect(0, worker);
    world.run_until(A_MINUTE, "the job is done", |w| w.is_over(job));
    world.assert_all_right(job, 3);
}

#[test]
fn a_node_that_drains_hands_its_units_on_at_once() {
    let mut world =
        World::seed(16).swarm(2, 1).with(|task| (Duration::from_secs(2), simulator::echo(task).1));
    let spec = world.sweep(0, 6);
    let job = world.submit(0, spec);
    world.run_until(A_MINUTE, "both work", |w| w.job(job).is_some_and(|j| j.placed >= 3));
    world.drive(1, NodeInput::Command(Command::Drain));
    world.run_for(Duration::from_millis(100));
    assert!(world.node(1).is_drained());
    assert_eq!(world.node(0).nodes(world.now)[1].held, 0);
    world.run_until(A_MINUTE, "the job is done", |w| w.is_over(job));
    world.assert_all_right(job, 6);
}

#[test]
fn slots_can_be_changed_while_units_run() {
    let mut world =
        World::seed(17).swarm(1, 1).with(|task| (Duration::from_millis(500), simulator::echo(task).1));
    let spec = world.sweep(0, 40);
    let job = world.submit(0, spec);
    world.run_for(Duration::from_secs(2));
    world.drive(1, NodeInput::Command(Command::SetSlots(0)));
    world.run_for(Duration::from_secs(2));
    let paused = world.job(job).unwrap().done;
    world.run_for(Duration::from_secs(5));
    assert_eq!(world.job(job).unwrap().done, paused, "nothing happens without slots");
    world.drive(1, NodeInput::Command(Command::SetSlots(8)));
    let start = world.now;
    world.run_until(A_MINUTE, "the job is done", |w| w.is_over(job));
    assert!(world.now.since(start) < Duration::from_secs(6), "eight slots are used");
    world.assert_all_right(job, 40);
}

#[test]
fn a_small_job_is_not_starved_by_a_large_one() {
    let mut world = World::seed(18).swarm(2, 1);
    let spec = world.sweep(0, 20_000);
    world.submit(0, spec);
    world.run_for(Duration::from_secs(2));
    let spec = world.sweep(0, 1);
    let small = world.submit(0, spec);
    let start = world.now;
    world.run_until(A_MINUTE, "the small one is done", |w| w.is_over(small));
    assert!(world.now.since(start) < Duration::from_secs(2));
}

#[test]
fn a_unit_that_takes_its_runners_down_is_held_in_the_end() {
    let mut world = World::seed(19).swarm(1, 1).with(|_| (Duration::from_secs(3600), ended(0)));
    let spec = world.sweep(0, 1);
    let job = world.submit(0, spec);
    for _ in 0..20 {
        world.run_for(Duration::from_secs(5));
        world.crash(1);
        world.run_for(Duration::from_secs(5));
        world.start(1);
        world.connect(0, 1);
    }
    let view = world.job(job).unwrap();
    assert_eq!(view.held, 1);
    assert!(view.reason.contains("lost with its runner"), "{}", view.reason);
}

#[test]
fn a_node_without_jobs_of_its_own_submits_to_its_gateway() {
    let mut world = World::seed(20);
    let submitters = [(id_of(1), 1)].into();
    world.add(Config { gateway: true, slots: 0, submitters, ..Config::default() });
    for _ in 0..2 {
        let at = world.add(Config { slots: 2, ..Config::default() });
        world.connect(0, at);
    }
    world.run_for(Duration::from_secs(1));
    let mut spec = world.sweep(1, 30);
    let input: Vec<u8> = vec![9; 1_500_000];
    spec.template.stdin = Data::Blob(world.upload(1, &input));
    let job = world.submit(1, spec);
    world.run_until(A_MINUTE, "the submitter hears of the end", |w| {
        w.told.iter().any(|(_, at, event)| *at == 1 && *event == NodeEvent::JobEnded { job })
    });
    world.assert_all_right(job, 30);
}

#[test]
fn a_submission_is_refused_when_its_gateway_goes_unheard_and_no_other_comes() {
    let mut world = World::seed(31).swarm(1, 1);
    world.run_for(Duration::from_secs(1));
    let spec = world.sweep(1, 1);
    world.freeze(0);
    let job = world.submit(1, spec);
    // Longer than a submission without any gateway waits.
    world.run_for(Duration::from_secs(15));
    assert_eq!(world.refusal(job), None, "its gateway may still answer");
    world.kill(0);
    world.run_until(A_MINUTE, "the submission is refused", |w| w.refusal(job).is_some());
    assert!(world.refusal(job).is_some_and(|why| why.contains("no gateway is connected")));
}

#[test]
fn a_paused_unit_says_so_until_its_job_is_over() {
    let mut world = World::seed(32).swarm(1, 1).with(|_| (A_MINUTE, ended(0)));
    let spec = world.sweep(0, 1);
    let job = world.submit(0, spec);
    world.run_until(A_MINUTE, "the unit is placed", |w| w.job(job).is_some_and(|job| job.placed == 1));
    let unit = UnitId { job, index: 0 };
    let pause = |world: &mut World| {
        world.drive(0, NodeInput::Command(Command::PauseUnit { unit, paused: true }));
        world.node(0).units(job, 0, 1).unwrap().remove(0)
    };
    let view = pause(&mut world);
    assert!(view.paused && view.reason.ends_with(", paused"), "{}", view.reason);
    assert_eq!(world.job(job).unwrap().reason, "1 unit is placed and paused");

    world.drive(0, NodeInput::Command(Command::Cancel { job }));
    world.run_until(A_MINUTE, "the job is cancelled", |w| w.is_over(job));
    assert!(!world.node(0).units(job, 0, 1).unwrap()[0].paused, "nothing is paused any more");
    assert!(!pause(&mut world).paused, "and nothing can be");
}
