//! A donor that gives by its policy: for a while nothing, never to some, and no more than it says.

use crate::checkpoint::support::{A_MINUTE, beginnings, done, job, long, runner, under_way, unit, world};
use node_core::bounds::Bounds;
use node_core::trust::policy::Policy;
use node_core::work::spec::JobSpec;
use node_core::{Command, Config, NodeInput};
use simulator::World;
use simulator::engine::Ran;
use std::sync::Arc;
use std::time::Duration;

fn lend(world: &mut World, at: usize, lends: bool) {
    world.drive(at, NodeInput::Command(Command::SetDonating(lends)));
}

fn terms(world: &mut World, at: usize, memory_bytes: u64, policy: Policy) {
    let policy = Arc::new(policy);
    world.drive(at, NodeInput::Command(Command::Terms { memory_bytes, policy }));
}

fn computed_in_vain(world: &World) -> bool {
    world.ran.iter().any(|(_, _, ran)| matches!(ran, Ran::Lost { .. } | Ran::Killed { .. }))
}

#[test]
fn who_gives_nothing_now_hands_on_what_runs_and_stays() {
    let mut world = world(61, 4);
    let job = job(&mut world, 1);
    let (at, _) = under_way(&mut world, job, 2);
    lend(&mut world, at, false);
    world.run_until(A_MINUTE, "it runs elsewhere", |w| runner(w, job).is_some_and(|now| now != at));
    assert_eq!(world.node(at).work(world.now).busy, 0);
    let id = world.nodes[at].id;
    let shown = world.node(0).nodes(world.now).into_iter().find(|node| node.id == id);
    assert_eq!(shown.map(|node| node.slots), Some(0), "it stays, and says that it gives nothing");
    done(&mut world, job, 1);
    assert_eq!(beginnings(&world).len(), 2);
    assert!(!computed_in_vain(&world));
    lend(&mut world, at, true);
    world.run_for(Duration::from_secs(2));
    let again = super::support::job(&mut world, 4);
    world.run_until(A_MINUTE, "all four run", |w| {
        (0..4).all(|n| unit(w, again, n).runner.is_some()) && w.node(at).work(w.now).busy == 1
    });
    done(&mut world, again, 4);
}

#[test]
fn the_only_node_keeps_what_it_was_at_until_it_gives_again() {
    let mut world = world(62, 1);
    let mut spec = world.sweep(0, 1);
    spec.template.checkpoint = node_core::work::spec::CheckpointEvery::NEVER;
    let job = world.submit(0, spec);
    world.run_until(A_MINUTE, "it runs", |w| runner(w, job).is_some());
    world.run_for(Duration::from_secs(20));
    lend(&mut world, 1, false);
    // Longer than a node waits that goes away.
    world.run_for(Duration::from_secs(300));
    assert_eq!(world.node(1).work(world.now).busy, 0);
    assert!(!world.is_over(job));
    lend(&mut world, 1, true);
    done(&mut world, job, 1);
    let began = beginnings(&world);
    assert!(began.len() == 2 && began[1] > 15.0, "it goes on where it stood: {began:?}");
}

/// A suspended unit goes on where it stood, though no other node keeps checkpoints for others.
#[test]
fn what_is_suspended_lies_on_a_node_that_stays() {
    let mut world = World::seed(67).with(long);
    let limits = Bounds { kept_bytes: 0, kept_bytes_per_owner: 0, ..Bounds::default() };
    let gateway = Config {
        gateway: true,
        slots: 0,
        name: "gateway".into(),
        limits: limits.into(),
        ..Config::default()
    };
    world.add(gateway);
    world.add(Config { slots: 1, name: "worker".into(), ..Config::default() });
    world.connect(0, 1);
    world.run_for(Duration::from_secs(2));
    let job = job(&mut world, 1);
    world.run_until(A_MINUTE, "it runs", |w| runner(w, job).is_some());
    world.run_for(Duration::from_secs(20));
    lend(&mut world, 1, false);
    world.run_for(Duration::from_secs(300));
    lend(&mut world, 1, true);
    done(&mut world, job, 1);
    let began = beginnings(&world);
    assert!(began.len() == 2 && began[1] > 15.0, "it goes on where it stood: {began:?}");
}

#[test]
fn changing_ones_mind_at_every_moment_loses_nothing() {
    for seed in 0..20 {
        let mut world = world(6300 + seed, 3);
        let job = job(&mut world, 5);
        for n in 0..40 {
            let at = 1 + (seed as usize + n) % 3;
            lend(&mut world, at, (n / 3) % 2 == 1);
            world.run_for(Duration::from_millis(137 * (seed + 1)));
        }
        (1..4).for_each(|at| lend(&mut world, at, true));
        done(&mut world, job, 5);
    }
}

#[test]
fn a_node_that_goes_away_does_not_come_back_because_it_might_give_again() {
    let mut world = world(64, 2);
    world.drive(1, NodeInput::Command(Command::Drain));
    lend(&mut world, 1, false);
    lend(&mut world, 1, true);
    let job = job(&mut world, 2);
    world.run_for(Duration::from_secs(10));
    assert_eq!(world.node(1).work(world.now).busy, 0);
    done(&mut world, job, 2);
}

#[test]
fn work_against_the_terms_is_declined_in_words_and_not_offered_again_and_again() {
    let mut world = World::seed(65).with(long);
    world.add(Config { gateway: true, slots: 0, name: "gateway".into(), ..Config::default() });
    world.add(Config { slots: 2, name: "worker".into(), ..Config::default() });
    world.connect(0, 1);
    world.run_for(Duration::from_secs(2));
    let most = Policy { max_task_seconds: Some(600), ..Policy::default() };
    terms(&mut world, 1, u64::MAX, most.clone());
    let mut spec = world.sweep(0, 3);
    spec.template.limits.time_us = 3_600_000_000;
    let long_one = world.submit(0, spec.clone());
    let said = |w: &World| unit(w, long_one, 0).reason;
    world.run_until(A_MINUTE, "it is told why", |w| said(w).contains("600 s at most"));
    assert!(said(&world).contains("this one may take 3600 s"), "{}", said(&world));
    let frames = world.frames;
    world.run_for(A_MINUTE);
    assert!(world.frames - frames < 400, "{} frames in a minute", world.frames - frames);
    // A unit within the policy runs, though the other job waits.
    spec.template.limits.time_us = 600_000_000;
    let short = world.submit(0, spec);
    done(&mut world, short, 3);
    assert!(!world.is_over(long_one));
    terms(&mut world, 1, u64::MAX, Policy::default());
    done(&mut world, long_one, 3);
}

/// The gateway has one worker, and its other jobs are not to blame.
#[test]
fn a_job_that_a_node_declines_holds_up_no_other_job_of_its_owner() {
    let mut world = World::seed(68).swarm(1, 2);
    terms(&mut world, 1, u64::MAX, Policy { max_task_seconds: Some(600), ..Policy::default() });
    let mut spec = world.sweep(0, 300);
    spec.template.limits.time_us = 600_000_000;
    let timed = |world: &mut World, spec: JobSpec| {
        let (job, start) = (world.submit(0, spec), world.now);
        world.run_until(A_MINUTE * 10, "the job is done", |w| w.is_over(job));
        world.assert_all_right(job, 300);
        world.now.since(start)
    };
    let alone = timed(&mut world, spec.clone());
    let mut long = spec.clone();
    long.template.limits.time_us = 3_600_000_000;
    let long = world.submit(0, long);
    world.run_until(A_MINUTE, "it is told why", |w| unit(w, long, 0).reason.contains("600 s at most"));
    for _ in 0..3 {
        let beside = timed(&mut world, spec.clone());
        assert!(beside < alone * 2, "{beside:?} beside a job that is declined, {alone:?} alone");
    }
    assert!(!world.is_over(long));
    let said = unit(&world, long, 0).reason;
    assert!(said.contains("600 s at most"), "still in the words of the node: {said}");
}

#[test]
fn memory_and_submitters_are_the_donors_choice() {
    let mut world = world(66, 2);
    let (gateway, stranger) = (world.nodes[0].id, world.nodes[2].id);
    terms(&mut world, 1, 1 << 20, Policy::default());
    let only = |submitter| Policy { allowed_submitters: vec![submitter], ..Policy::default() };
    terms(&mut world, 2, u64::MAX, only(stranger));
    let job = job(&mut world, 2);
    world.run_for(A_MINUTE);
    assert!(runner(&world, job).is_none(), "one gives too little, the other to another");
    terms(&mut world, 2, u64::MAX, only(gateway));
    done(&mut world, job, 2);
    assert!(world.ran.iter().all(|(_, at, _)| *at == 2));
}
