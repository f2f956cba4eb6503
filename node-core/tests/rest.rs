//! Stories of units that fail by no fault of theirs: is it the node, or is it the program?

use node_core::Config;
use node_core::ids::JobId;
use node_core::platform::Platform;
use node_core::work::spec::JobSpec;
use node_core::work::view::{JobState, UnitState};

use sandbox::{Outcome, Task};
use simulator::World;
use simulator::engine::{REFUSED, Ran};
use std::time::Duration;

const A_MINUTE: Duration = Duration::from_secs(60);

/// A job of `count` units of a program that no other job has.
fn of_program(world: &mut World, program: &[u8], count: u32) -> JobSpec {
    let mut spec = world.sweep(0, count);
    spec.template.program = world.upload(0, program);
    spec
}

/// A job of a program at which the engine of node `at` fails every time.
fn poison(world: &mut World, at: usize, n: u8, count: u32) -> JobId {
    let spec = of_program(world, &[b'p', n], count);
    world.nodes[at].engine.poison.insert(spec.template.program.id);
    world.submit(0, spec)
}

fn placed(world: &World, job: JobId, count: u32) -> u32 {
    world.node(0).units(job, 0, count).unwrap().iter().map(|unit| unit.attempts).sum()
}

#[test]
fn a_node_that_fails_at_every_unit_is_avoided_and_the_others_do_the_work() {
    let mut world = World::seed(4).swarm(2, 1);
    world.break_engine(1, true);
    let spec = world.sweep(0, 400);
    let job = world.submit(0, spec);
    world.run_until(A_MINUTE, "the job is done", |w| w.is_over(job));
    world.assert_all_right(job, 400);
    let placed = placed(&world, job, 400);
    assert!(placed > 400 && placed < 410, "{} times in vain", placed - 400);
    let view = world.job(job).unwrap();
    assert_eq!(view.lost_placements, 0, "the node is there: nothing was lost with it");
}

#[test]
fn a_node_at_which_different_programs_fail_rests_and_takes_its_share_again_when_mended() {
    let mut world = World::seed(5).swarm(2, 1);
    world.break_engine(1, true);
    let jobs: Vec<JobId> = (0..6)
        .map(|n| {
            let spec = of_program(&mut world, &[n], 100);
            world.submit(0, spec)
        })
        .collect();
    world.run_until(A_MINUTE, "the jobs are done", |w| jobs.iter().all(|job| w.is_over(*job)));
    jobs.iter().for_each(|job| world.assert_all_right(*job, 100));
    let placed: u32 = jobs.iter().map(|job| placed(&world, *job, 100)).sum();
    assert!(placed > 600 && placed < 620, "{} times in vain", placed - 600);
    let reason = world.node(1).work(world.now).idle_reason.unwrap();
    assert!(reason.contains("rests"), "{reason}");

    world.break_engine(1, false);
    world.run_for(A_MINUTE * 3);
    let spec = world.sweep(0, 100);
    let job = world.submit(0, spec);
    world.run_until(A_MINUTE, "the next job is done", |w| w.is_over(job));
    assert_eq!(world.job(job).unwrap().by_node.len(), 2);
}

/// A program that breaks the engine at each unit stops that job, and no other.
#[test]
fn a_poison_unit_does_not_delay_a_victims_job_on_the_only_node() {
    let took = |poisons: u8| {
        let mut world = World::seed(6).swarm(1, 2);
        for n in 0..poisons {
            poison(&mut world, 1, n, 1000);
        }
        // Enough for each of them to have failed several times.
        world.run_for(Duration::from_secs(3));
        let spec = world.sweep(0, 100);
        let (job, began) = (world.submit(0, spec), world.now);
        world.run_until(A_MINUTE, "the victim's job is done", |w| w.is_over(job));
        world.assert_all_right(job, 100);
        world.now.since(began)
    };
    let alone = took(0);
    for poisons in 1..=3 {
        let beside = took(poisons);
        assert!(
            beside < alone + Duration::from_millis(500),
            "{beside:?} beside {poisons} poison jobs, {alone:?} alone"
        );
    }
}

/// Each unit of it is held in the end, with the reason that its submitter reads.
#[test]
fn a_unit_that_fails_everywhere_is_held_with_the_reason() {
    let mut world = World::seed(7).swarm(1, 1);
    let job = poison(&mut world, 1, 1, 1);
    let held = |w: &World| w.job(job).is_some_and(|job| job.held == 1);
    world.run_until(A_MINUTE * 5, "the unit is held", held);
    assert_ne!(world.job(job).unwrap().state, JobState::Done);
    let unit = world.node(0).units(job, 0, 1).unwrap().remove(0);
    assert_eq!(unit.state, UnitState::Held);
    let words = format!("{unit:?}");
    assert!(words.contains("no memory is left") && words.contains("8 times"), "{words}");
}

/// Half a minute.
fn slow(task: &Task) -> (Duration, Outcome) {
    (Duration::from_secs(30), simulator::echo(task).1)
}

/// A gateway without slots, and nodes of one slot of these kinds.
fn of_kinds(seed: u64, kinds: &[Platform]) -> World {
    let mut world = World::seed(seed).with(slow).swarm(0, 0);
    for platform in kinds {
        let at = world.add(Config { platform: *platform, ..Config::default() });
        world.connect(0, at);
    }
    world
}

/// A job of a program that these nodes refuse.
fn refused_by(world: &mut World, at: &[usize], count: u32) -> JobId {
    let mut spec = of_program(world, b"a bomb", count);
    spec.max_retries = 100;
    for at in at {
        world.nodes[*at].engine.refuses.insert(spec.template.program.id);
    }
    world.submit(0, spec)
}

/// How often an engine began with a unit.
fn tried(world: &World) -> usize {
    world.ran.iter().filter(|(_, _, ran)| matches!(ran, Ran::Began { .. })).count()
}

#[test]
fn a_unit_whose_program_is_refused_is_not_tried_again() {
    let mut world = of_kinds(11, &[Platform::Native; 5]);
    let job = refused_by(&mut world, &[1, 2, 3, 4, 5], 1);
    world.run_until(A_MINUTE, "the job is over", |w| w.is_over(job));
    assert_eq!((world.job(job).unwrap().failed, tried(&world)), (1, 1));
}

/// It may cost each node a minute and gigabytes, however often it may be retried and however many units it has.
#[test]
fn a_program_that_is_refused_is_not_brought_to_one_node_after_the_other() {
    let mut world = of_kinds(8, &[Platform::Native; 5]);
    let job = refused_by(&mut world, &[1, 2, 3, 4, 5], 200);
    world.run_for(A_MINUTE * 10);
    let view = world.job(job).unwrap();
    assert!(tried(&world) <= 15, "{} times somebody looked into it", tried(&world));
    assert_eq!((view.failed + view.held, view.waiting), (200, 0));
    assert!(view.failed <= 15, "{} failed", view.failed);
    let unit = world.node(0).units(job, 199, 1).unwrap().remove(0);
    assert_eq!(unit.state, UnitState::Held);
    assert!(unit.reason.contains("2 nodes refused") && unit.reason.contains(REFUSED), "{}", unit.reason);
}

/// Pages compile other programs than servers do.
#[test]
fn what_pages_refuse_runs_on_servers() {
    let mut world = of_kinds(9, &[Platform::Browser, Platform::Browser, Platform::Native]);
    let job = refused_by(&mut world, &[1, 2], 60);
    world.run_for(Duration::from_secs(20));
    assert_eq!(world.job(job).unwrap().held, 0, "pages hold nothing");
    world.run_until(A_MINUTE * 60, "the job is over", |w| w.is_over(job));
    world.assert_all_right(job, 60);
    assert!(tried(&world) < 150, "{} times: those that refuse it are avoided", tried(&world));
}

/// Two that are short of memory, or lie, and a third that runs it.
#[test]
fn a_job_that_two_nodes_refuse_goes_on_once_a_unit_of_it_has_run() {
    let mut world = of_kinds(10, &[Platform::Native; 3]);
    let job = refused_by(&mut world, &[1, 2], 40);
    world.run_until(A_MINUTE, "it is held", |w| w.job(job).is_some_and(|job| job.held > 30));
    world.run_until(A_MINUTE * 60, "the job is over", |w| w.is_over(job));
    let view = world.job(job).unwrap();
    assert!(view.done >= 32 && view.done + view.failed == 40, "{view:?}");
    assert!(tried(&world) < 100, "{} times: those that refuse it are avoided", tried(&world));
}
