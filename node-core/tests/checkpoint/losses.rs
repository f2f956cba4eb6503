//! Runners, keepers and owners are lost, one at a time and two at once.

use crate::checkpoint::support::{
    A_MINUTE, A_SECOND, beginnings, done, job, losses, runner, under_way, unit, world,
};
use node_core::work::spec::{CheckpointEvery, OnLoss};
use std::time::Duration;

/// Most fuel that may be lost with a runner: a checkpoint interval of 2 s, and a slice.
const BOUND: u64 = 2 * A_SECOND + A_SECOND / 20;

#[test]
fn a_unit_whose_runner_is_lost_goes_on_elsewhere() {
    let mut world = world(1, 4);
    let job = job(&mut world, 1);
    let (at, keepers) = under_way(&mut world, job, 5);
    assert!(!keepers.contains(&at) && keepers.len() == 2, "{keepers:?} keep what {at} runs");
    world.run_for(Duration::from_millis(1500));
    world.crash(at);
    done(&mut world, job, 1);
    let lost = losses(&world);
    assert!(lost.len() == 1 && lost[0] <= BOUND, "{lost:?}");
    let result = &world.results(job)[&0];
    assert_eq!(result.fuel, 60 * A_SECOND);
    let journey = result.journey.as_ref().expect("it went some way");
    let spans: Vec<_> = journey.spans.iter().map(|span| world.find(span.runner).unwrap()).collect();
    assert_eq!((spans.len(), spans[0]), (2, at), "{journey:?}");
    assert_eq!(journey.spans[1].to, result.fuel);
    assert!(journey.checkpoints > 20, "{journey:?}");
}

/// An owner that stood still hears of several checkpoints within a millisecond.
#[test]
fn what_is_said_to_be_lost_is_no_more_than_an_interval() {
    let mut world = world(46, 4);
    let job = job(&mut world, 1);
    let (at, _) = under_way(&mut world, job, 3);
    let before = unit(&world, job, 0).checkpoints;
    world.freeze(0);
    world.run_for(Duration::from_millis(4_500));
    world.thaw(0);
    world.run_until(A_MINUTE, "it hears of two", |w| unit(w, job, 0).checkpoints >= before + 2);
    world.run_for(Duration::from_secs(1));
    world.crash(at);
    done(&mut world, job, 1);
    let told = world.results(job)[&0].journey.as_ref().expect("it went some way").lost_fuel;
    assert!(told > 0 && told <= BOUND, "{told}, and {:?} was lost", losses(&world));
}

#[test]
fn one_runner_after_the_other_is_lost() {
    let mut world = world(2, 5);
    let job = job(&mut world, 1);
    for _ in 0..8 {
        let before = unit(&world, job, 0).checkpoints;
        let (at, _) = under_way(&mut world, job, before + 2);
        world.crash(at);
        world.run_until(A_MINUTE, "it runs again", |w| runner(w, job).is_some_and(|now| now != at));
        world.start(at);
        world.connect(0, at);
    }
    done(&mut world, job, 1);
    let lost = losses(&world);
    assert!(lost.len() == 8 && lost.iter().all(|lost| *lost <= BOUND), "{lost:?}");
}

#[test]
fn a_lost_keeper_is_replaced() {
    let mut world = world(3, 5);
    let job = job(&mut world, 1);
    let (at, keepers) = under_way(&mut world, job, 3);
    world.crash(keepers[0]);
    world.run_for(Duration::from_secs(20));
    let now = unit(&world, job, 0).keepers;
    assert_eq!(now.len(), 2);
    assert!(!now.contains(&world.nodes[keepers[0]].id), "another has taken its place");
    world.crash(at);
    world.crash(keepers[1]);
    done(&mut world, job, 1);
    assert!(losses(&world).iter().all(|lost| *lost <= BOUND), "{:?}", losses(&world));
}

#[test]
fn runner_and_keeper_are_lost_at_once() {
    for keeper in 0..2 {
        let mut world = world(4, 4);
        let job = job(&mut world, 1);
        let (at, keepers) = under_way(&mut world, job, 3);
        world.run_for(Duration::from_millis(700));
        world.crash(at);
        world.crash(keepers[keeper]);
        done(&mut world, job, 1);
        let lost = losses(&world);
        assert!(lost.len() == 1 && lost[0] <= BOUND, "{lost:?}");
    }
}

#[test]
fn both_keepers_are_lost_at_once_and_then_the_runner() {
    let mut world = world(5, 6);
    let job = job(&mut world, 1);
    let (at, keepers) = under_way(&mut world, job, 3);
    world.crash(keepers[0]);
    world.crash(keepers[1]);
    world.run_for(Duration::from_secs(25));
    assert_eq!(runner(&world, job), Some(at), "it runs on");
    world.crash(at);
    done(&mut world, job, 1);
    assert!(losses(&world).iter().all(|lost| *lost <= BOUND), "{:?}", losses(&world));
}

#[test]
fn an_owner_that_restarts_finds_the_unit_where_it_runs() {
    let mut world = world(6, 4);
    let job = job(&mut world, 1);
    let (at, _) = under_way(&mut world, job, 3);
    world.crash(0);
    world.run_for(Duration::from_secs(10));
    world.start(0);
    (1..=4).for_each(|worker| world.connect(0, worker));
    world.run_for(Duration::from_secs(5));
    assert_eq!(runner(&world, job), Some(at), "the runner brought it back");
    assert!(unit(&world, job, 0).fuel > 10 * A_SECOND, "with what was taken meanwhile");
    done(&mut world, job, 1);
    assert_eq!(beginnings(&world), [0.0], "nothing was computed twice");
}

#[test]
fn an_owner_that_restarts_goes_on_from_its_records_when_the_runner_is_lost_later() {
    let mut world = world(7, 4);
    let job = job(&mut world, 1);
    let (at, keepers) = under_way(&mut world, job, 3);
    // Owner and keeper at once.
    world.crash(0);
    world.crash(keepers[0]);
    world.run_for(Duration::from_secs(2));
    world.start(0);
    (1..=4).for_each(|worker| world.connect(0, worker));
    world.run_for(Duration::from_secs(20));
    world.crash(at);
    done(&mut world, job, 1);
    assert!(losses(&world).iter().all(|lost| *lost <= BOUND), "{:?}", losses(&world));
    let result = &world.results(job)[&0];
    assert_eq!(result.journey.as_ref().unwrap().spans[0].runner, world.nodes[at].id);
}

#[test]
fn owner_and_runner_lost_at_once_cost_no_result() {
    let mut world = world(8, 4);
    let job = job(&mut world, 1);
    let (at, _) = under_way(&mut world, job, 4);
    world.crash(0);
    world.crash(at);
    world.run_for(Duration::from_secs(1));
    world.start(0);
    (1..=4).for_each(|worker| world.connect(0, worker));
    done(&mut world, job, 1);
    assert!(losses(&world).iter().all(|lost| *lost <= 2 * BOUND), "{:?}", losses(&world));
}

#[test]
fn a_runner_that_was_cut_off_discards_what_goes_on_elsewhere() {
    let mut world = world(9, 4);
    let job = job(&mut world, 1);
    let (at, _) = under_way(&mut world, job, 3);
    world.part(&[at]);
    world.run_until(A_MINUTE, "it runs elsewhere", |w| runner(w, job).is_some_and(|now| now != at));
    world.run_for(Duration::from_secs(5));
    assert_eq!(world.node(at).work(world.now).busy, 1, "it knows nothing of that");
    world.heal();
    world.connect(0, at);
    world.run_for(Duration::from_secs(3));
    assert_eq!(world.node(at).work(world.now).busy, 0, "now it does");
    done(&mut world, job, 1);
    assert_eq!(beginnings(&world).len(), 2);
}

#[test]
fn a_job_can_wait_for_a_runner_that_was_cut_off() {
    let mut world = world(10, 4);
    let mut spec = world.sweep(0, 1);
    spec.template.checkpoint = CheckpointEvery(2_000_000);
    spec.template.on_loss = OnLoss::Wait(120_000_000);
    let job = world.submit(0, spec);
    let (at, _) = under_way(&mut world, job, 3);
    world.part(&[at]);
    world.run_for(Duration::from_secs(40));
    let view = unit(&world, job, 0);
    assert!(view.reason.contains("waited for"), "{}", view.reason);
    world.heal();
    world.connect(0, at);
    world.run_for(Duration::from_secs(2));
    assert_eq!(runner(&world, job), Some(at));
    done(&mut world, job, 1);
    assert_eq!(beginnings(&world), [0.0]);
}

#[test]
fn and_does_not_wait_for_ever() {
    let mut world = world(11, 4);
    let mut spec = world.sweep(0, 1);
    spec.template.checkpoint = CheckpointEvery(2_000_000);
    spec.template.on_loss = OnLoss::Wait(30_000_000);
    let job = world.submit(0, spec);
    let (at, _) = under_way(&mut world, job, 3);
    world.crash(at);
    world.run_for(Duration::from_secs(25));
    assert_eq!(runner(&world, job), None);
    world.run_for(Duration::from_secs(25));
    assert!(runner(&world, job).is_some());
    done(&mut world, job, 1);
    assert!(losses(&world).iter().all(|lost| *lost <= BOUND), "{:?}", losses(&world));
}

#[test]
fn a_swarm_without_other_nodes_that_can_be_dialled_keeps_at_the_gateway() {
    let mut world = simulator::World::seed(12).with(crate::checkpoint::support::long).swarm(3, 1);
    let job = job(&mut world, 1);
    world.run_until(A_MINUTE, "it has checkpoints", |w| unit(w, job, 0).checkpoints > 3);
    assert_eq!(unit(&world, job, 0).keepers, [world.nodes[0].id]);
    let at = runner(&world, job).unwrap();
    world.crash(at);
    done(&mut world, job, 1);
    let lost = losses(&world);
    assert!(lost.len() == 1 && lost[0] <= BOUND, "{lost:?}");
    world.run_for(A_MINUTE);
    let program = 1;
    assert_eq!(world.nodes[0].disk.blobs().count(), program, "what has ended is forgotten");
}

#[test]
fn without_checkpoints_it_begins_again() {
    let mut world = world(13, 3);
    let mut spec = world.sweep(0, 1);
    spec.template.checkpoint = CheckpointEvery::NEVER;
    let job = world.submit(0, spec);
    world.run_until(A_MINUTE, "it runs", |w| runner(w, job).is_some());
    let at = runner(&world, job).unwrap();
    world.run_for(Duration::from_secs(30));
    world.crash(at);
    done(&mut world, job, 1);
    assert_eq!(beginnings(&world), [0.0, 0.0]);
}
