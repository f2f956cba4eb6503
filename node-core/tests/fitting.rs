//! Stories of jobs with requirements: each unit runs on a node that has what its job requires, whichever is free first.

use crate::far_guests::secret;
use crate::rn_tree;
use node_core::node::config::Open;
use node_core::requires::{Matchmaking, Properties, Requires, label_word};
use node_core::trust::policy::Policy;
use node_core::work::spec::{Find, JobSpec, Template};
use node_core::{Command, Config, JobId, NodeInput, Platform};
use sandbox::Limits;
use simulator::World;
use std::sync::Arc;
use std::time::Duration;

const A_MINUTE: Duration = Duration::from_secs(60);
const NODES: usize = 13;

/// The gateway runs nothing; every third node is fast.
pub(crate) fn config(at: usize) -> Config {
    Config { power: if is_fast(at) { 3000 } else { 1000 }, memory_bytes: 2 << 30, ..rn_tree::config(at) }
}

pub(crate) fn is_fast(at: usize) -> bool {
    at % 3 == 1
}

fn swarm(seed: u64) -> World {
    rn_tree::grown(seed, NODES, config)
}

pub(crate) fn fitting(world: &mut World, units: u32, requires: Requires) -> JobSpec {
    JobSpec { find: Find::Fitting, requires: Box::new(requires), ..world.sweep(0, units) }
}

fn submit(world: &mut World, units: u32, requires: Requires) -> JobId {
    let spec = fitting(world, units, requires);
    world.submit(0, spec)
}

pub(crate) fn fast() -> Requires {
    Requires { speed: 2_000_000_000, ..Requires::default() }
}

/// Nodes that gave units to the job, when it is done.
pub(crate) fn runners(world: &mut World, job: JobId, units: u32) -> Vec<usize> {
    let is_over = |w: &World| w.node(0).job(job).is_some_and(|job| job.state.is_over());
    world.run_until(A_MINUTE * 10, "the job is done", is_over);
    let done = world.node(0).job(job).unwrap();
    let counted: u64 = done.by_node.iter().map(|(_, units, _)| units).sum();
    assert_eq!((counted, done.failed), (u64::from(units), 0), "seed {}", world.seed);
    let mut nodes: Vec<usize> = done.by_node.iter().filter_map(|(node, ..)| world.find(*node)).collect();
    nodes.sort_unstable();
    nodes
}

#[test]
fn each_unit_runs_where_its_job_requires() {
    for seed in 0..5 {
        let mut world = swarm(seed);
        let hard = submit(&mut world, 40, fast());
        let easy = submit(&mut world, 40, Requires::default());
        let (hard, easy) = (runners(&mut world, hard, 40), runners(&mut world, easy, 40));
        assert!(hard.iter().all(|at| is_fast(*at)), "seed {seed}: {hard:?}");
        assert!(hard.len() >= 3, "seed {seed}: fast nodes share the work: {hard:?}");
        assert!(easy.len() >= 6, "seed {seed}: all nodes share it: {easy:?}");
    }
}

#[test]
fn nobody_runs_what_no_node_can_and_the_submitter_hears_of_it() {
    let mut world = swarm(1);
    let browser = Requires { platform: Some(Platform::Browser), ..Requires::default() };
    let job = submit(&mut world, 2, browser);
    world.run_for(A_MINUTE * 3);
    let view = world.node(0).job(job).unwrap();
    assert!(!view.state.is_over() && view.by_node.is_empty());
    let why = &view.reason;
    assert!(why.contains("none of the 12 nodes of the swarm has what it requires"), "{why}");

    let marks = |world: &World| {
        (0..NODES).map(|at| world.node(at).fitting().map_or(0, |it| it.kept().0)).sum::<usize>()
    };
    assert!(marks(&world) > 0, "it is marked");
    world.drive(0, NodeInput::Command(Command::Cancel { job }));
    world.run_for(Duration::from_secs(10));
    assert_eq!(marks(&world), 0, "nothing is left of a job that was cancelled");
}

#[test]
fn units_of_a_node_that_dies_are_claimed_by_others() {
    for seed in 0..5 {
        let mut world = swarm(seed);
        let job = submit(&mut world, 40, fast());
        world.run_for(Duration::from_secs(2));
        world.crash(4);
        let hard = runners(&mut world, job, 40);
        assert!(hard.iter().all(|at| is_fast(*at)), "seed {seed}: {hard:?}");
    }
}

/// Another town whose word has the same bit as that of Graz.
fn twin() -> String {
    let graz = label_word("site", "graz");
    let towns = (0..1000).map(|at| format!("town-{at}"));
    towns.into_iter().find(|town| label_word("site", town) == graz).expect("64 bits are few")
}

fn in_towns(at: usize) -> Config {
    let town = if is_fast(at) { "graz".into() } else { twin() };
    let properties = Properties { labels: vec![("site".into(), town)], ..Properties::default() };
    Config { properties: Arc::new(properties), ..config(at) }
}

#[test]
fn labels_are_compared_letter_by_letter() {
    for seed in 0..3 {
        let mut world = rn_tree::grown(seed, NODES, in_towns);
        let graz = Requires { labels: vec![("site".into(), "graz".into())], ..Requires::default() };
        let job = submit(&mut world, 20, graz);
        let nodes = runners(&mut world, job, 20);
        assert!(nodes.iter().all(|at| is_fast(*at)), "seed {seed}: {nodes:?}");
        let faults: Vec<String> = (0..NODES).flat_map(|at| world.faults(at)).collect();
        assert!(!faults.iter().any(|fault| fault.contains("claims")), "seed {seed}: {faults:?}");
    }
}

#[test]
fn a_job_is_found_where_it_is_marked_when_meeting_points_have_got_other_owners() {
    for seed in 0..3 {
        let mut world = swarm(seed);
        let rare = Requires { speed: 9_000_000_000, ..Requires::default() };
        let job = submit(&mut world, 3, rare);
        world.run_for(A_MINUTE);
        for at in NODES..3 * NODES {
            world.add_keyed(config(at), &secret(at));
            world.connect(at, 0);
        }
        world.run_for(A_MINUTE * 3);
        assert!(!world.is_over(job), "seed {seed}: nobody can run it yet");
        let last = 3 * NODES;
        world.add_keyed(Config { power: 9000, ..config(last) }, &secret(last));
        world.connect(last, 0);
        assert_eq!(runners(&mut world, job, 3), [last], "seed {seed}");
    }
}

#[test]
fn a_node_takes_what_it_turns_out_to_be_able_to_and_no_more_what_its_donor_takes_back() {
    for seed in 0..3 {
        let mut world = swarm(seed);
        let rare = Requires { speed: 9_000_000_000, ..Requires::default() };
        let job = submit(&mut world, 3, rare);
        world.run_for(A_MINUTE * 3);
        assert!(!world.is_over(job), "seed {seed}: nobody can run it yet");
        world.drive(5, NodeInput::Command(Command::Measured { speed: 9_500_000_000 }));
        assert_eq!(runners(&mut world, job, 3), [5], "seed {seed}");

        for at in 1..NODES - 1 {
            let terms = Command::Terms { memory_bytes: 1 << 30, policy: Arc::default() };
            world.drive(at, NodeInput::Command(terms));
        }
        let large = Requires { memory_bytes: 3 << 29, ..Requires::default() };
        let job = submit(&mut world, 20, large);
        assert_eq!(runners(&mut world, job, 20), [NODES - 1], "seed {seed}");
    }
}

#[test]
fn a_job_is_found_within_seconds_while_a_small_swarm_grows() {
    for seed in 0..10 {
        let mut world = rn_tree::grown(seed, 3, config);
        for at in 3..9 {
            world.add_keyed(config(at), &secret(at));
            world.connect(at, 0);
            // It takes points of the ring over meanwhile.
            world.run_for(Duration::from_millis(1500 * at as u64));
            let job = submit(&mut world, 2, Requires::default());
            world.run_for(Duration::from_secs(10));
            assert!(
                world.is_over(job),
                "seed {seed}, {at} nodes: {:?}",
                world.node(0).job(job).unwrap().reason
            );
        }
    }
}

#[test]
fn an_idle_node_hears_of_a_job_at_a_point_that_has_got_another_owner() {
    for seed in 0..5 {
        let mut world = rn_tree::grown(seed, 3, config);
        world.run_for(A_MINUTE);
        for at in 3..15 {
            world.add_keyed(Config { slots: 0, ..config(at) }, &secret(at));
            world.connect(at, 0);
        }
        world.run_for(Duration::from_secs(15));
        let job = submit(&mut world, 2, Requires::default());
        world.run_for(Duration::from_secs(10));
        assert!(world.is_over(job), "seed {seed}: {:?}", world.node(0).job(job).unwrap().reason);
    }
}

#[test]
fn a_node_whose_donor_takes_no_such_job_leaves_it_to_others_and_the_job_says_why() {
    for seed in 0..3 {
        let mut world = rn_tree::grown(seed, 4, config);
        for at in [1, 2] {
            let policy = Policy { max_task_seconds: Some(60), ..Policy::default() };
            let terms = Command::Terms { memory_bytes: 2 << 30, policy: Arc::new(policy) };
            world.drive(at, NodeInput::Command(terms));
        }
        let job = submit(&mut world, 30, Requires::default());
        assert_eq!(runners(&mut world, job, 30), [3], "seed {seed}");
        world.kill(3);
        let job = submit(&mut world, 2, Requires::default());
        world.run_for(A_MINUTE);
        let view = world.node(0).job(job).unwrap();
        assert!(view.reason.contains("60 s at most"), "seed {seed}: {}", view.reason);
        // A job that they take finds them at once: they wait for nothing.
        let short = JobSpec { find: Find::Fitting, ..world.sweep(0, 2) };
        let limits = Limits { time_us: 30_000_000, ..short.template.limits };
        let short = JobSpec { template: Template { limits, ..short.template }, ..short };
        let short = world.submit(0, short);
        world.run_for(Duration::from_secs(10));
        assert!(world.is_over(short), "seed {seed}: {:?}", world.node(0).job(short).unwrap().reason);
    }
}

#[test]
fn jobs_are_found_soon_though_the_nodes_where_they_are_marked_die() {
    for seed in 0..10 {
        let mut world = rn_tree::grown(seed, 5, config);
        for dead in [1, 2] {
            let job = submit(&mut world, 2, Requires { speed: 9_000_000_000, ..Requires::default() });
            world.run_for(Duration::from_secs(10));
            world.crash(dead);
            world.run_for(A_MINUTE);
            for at in 3..5 {
                world.drive(at, NodeInput::Command(Command::Measured { speed: 9_500_000_000 }));
            }
            world.run_for(Duration::from_secs(10));
            assert!(world.is_over(job), "seed {seed}: {:?}", world.node(0).job(job).unwrap().reason);
            for at in 3..5 {
                world.drive(at, NodeInput::Command(Command::Measured { speed: 1_000_000_000 }));
            }
        }
    }
}

/// A node that is told nothing of its swarm but by the one that it joins.
fn joins(at: usize) -> Config {
    Config { open: Open { matchmaking: at != 0, ..Open::default() }, ..rn_tree::config(at) }
}

fn joins_one_without(at: usize) -> Config {
    let matchmaking = if at == 0 { Matchmaking::None } else { Matchmaking::RnTree };
    Config { matchmaking, submits: true, ..joins(at) }
}

fn joins_a_can(at: usize) -> Config {
    let matchmaking = if at == 0 { Matchmaking::Can } else { Matchmaking::RnTree };
    Config { matchmaking, ..joins(at) }
}

#[test]
fn whoever_joins_learns_whether_the_swarm_fits_jobs_to_nodes() {
    for seed in 0..5 {
        let world = rn_tree::grown(seed, 4, joins);
        for at in 0..4 {
            let known = world.node(at).rn_tree().and_then(|tree| tree.whole()).map(|whole| whole.nodes());
            assert_eq!(known, Some(3), "seed {seed}: node {at} knows of those with slots");
        }
        let world = rn_tree::grown(seed, 4, joins_a_can);
        for at in 0..4 {
            let node = world.node(at);
            let known = node.can().map(|can| (can.member().is_some(), can.nodes()));
            assert_eq!((known, node.rn_tree().is_none()), (Some((true, 3)), true), "seed {seed}: node {at}");
        }
        let mut world = rn_tree::grown(seed, 4, joins_one_without);
        for at in 0..4 {
            let parts = (world.node(at).rn_tree().is_none(), world.node(at).fitting().is_none());
            assert_eq!(
                parts,
                (true, true),
                "seed {seed}: node {at} keeps marks that no idle node would find"
            );
        }
        let spec = fitting(&mut world, 1, Requires::default());
        let job = world.submit(2, spec);
        world.run_for(A_MINUTE);
        assert!(world.node(2).job(job).is_none(), "seed {seed}: it has been refused");
    }
}

/// Two nodes, of which one can run such jobs, and its donor gives a task half a minute.
fn strict(seed: u64) -> World {
    let mut world = rn_tree::grown(seed, 3, |at| Config { slots: 1, ..config(at) });
    limited(&mut world, Some(30));
    world.run_for(A_MINUTE);
    world
}

fn limited(world: &mut World, seconds: Option<u64>) {
    let policy = Policy { max_task_seconds: seconds, ..Policy::default() };
    let terms = Command::Terms { memory_bytes: 2 << 30, policy: Arc::new(policy) };
    world.drive(1, NodeInput::Command(terms));
}

fn submit_for(world: &mut World, units: u32, time: Duration) -> JobId {
    let mut spec = fitting(world, units, fast());
    spec.template.limits.time_us = time.as_micros() as u64;
    world.submit(0, spec)
}

#[test]
fn a_node_that_refuses_jobs_runs_those_that_come_meanwhile_at_once() {
    // One that comes while the node is refused, asks again, or is parked again.
    for step in 0..100 {
        let mut world = strict(step % 5);
        submit_for(&mut world, 1, A_MINUTE * 60);
        world.run_for(Duration::from_millis(step * 12));
        let short = submit_for(&mut world, 1, Duration::from_secs(20));
        world.run_until(Duration::from_secs(5), "the short job is done", |w| w.is_over(short));
    }
}

#[test]
fn many_jobs_that_a_node_refuses_keep_it_from_none_that_it_may_run() {
    for seed in 0..5 {
        let mut world = strict(seed);
        let refused: Vec<JobId> = (0..40).map(|_| submit_for(&mut world, 1, A_MINUTE * 10)).collect();
        world.run_for(Duration::from_secs(30));
        let short = submit_for(&mut world, 1, Duration::from_secs(20));
        world.run_until(Duration::from_secs(5), "the short job is done", |w| w.is_over(short));
        let view = world.node(0).job(refused[39]).unwrap();
        assert!(view.reason.contains("30 s at most"), "seed {seed}: {}", view.reason);
    }
}

#[test]
fn a_node_whose_donor_takes_a_limit_back_runs_what_it_refused() {
    for seed in 0..5 {
        let mut world = strict(seed);
        let long = submit_for(&mut world, 2, A_MINUTE * 10);
        world.run_for(Duration::from_secs(2));
        assert!(!world.is_over(long));
        limited(&mut world, None);
        world.run_until(Duration::from_secs(5), "it is done", |w| w.is_over(long));
    }
}

#[test]
fn jobs_whose_labels_no_node_has_keep_nobody_from_others() {
    for seed in 0..3 {
        let mut world = rn_tree::grown(seed, 5, in_towns);
        let town =
            |at: u32| Requires { labels: vec![("site".into(), format!("x{at}"))], ..Requires::default() };
        (0..400).for_each(|at| {
            submit(&mut world, 1, town(at));
        });
        world.run_for(Duration::from_secs(20));
        let graz = Requires { labels: vec![("site".into(), "graz".into())], ..Requires::default() };
        let jobs: Vec<JobId> = (0..20).map(|_| submit(&mut world, 1, graz.clone())).collect();
        let all = |w: &World| jobs.iter().all(|job| w.is_over(*job));
        world.run_until(Duration::from_secs(20), "those that a node can run are done", all);
    }
}

#[test]
fn the_one_node_of_a_small_swarm_that_can_run_a_job_has_its_mark() {
    for seed in 0..5 {
        let mut world =
            rn_tree::grown(seed, 8, |at| Config { power: if at == 1 { 3000 } else { 1000 }, ..config(at) });
        world.run_for(A_MINUTE);
        // It is busy.
        let first = submit(&mut world, 200, fast());
        world.run_for(Duration::from_secs(1));
        let second = submit(&mut world, 2, fast());
        world.run_for(Duration::from_secs(1));
        let view = world.node(0).fitting().and_then(|it| it.view(second));
        let view = view.unwrap_or_else(|| panic!("seed {seed}: it waits, {:?}", world.node(0).job(first)));
        assert_eq!((view.able, view.capable.len()), (1, 1), "seed {seed}");
    }
}
