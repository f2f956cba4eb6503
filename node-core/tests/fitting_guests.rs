//! Stories of guests that run jobs with requirements: their gateway looks for such jobs for them.

use crate::far_guests::{PAGES, swarm_with};
use node_core::requires::{Matchmaking, Requires};
use node_core::work::spec::{Find, JobSpec};
use node_core::{Command, Config, JobId, NodeInput, Platform};
use simulator::World;
use std::time::Duration;

const A_MINUTE: Duration = Duration::from_secs(60);

/// Four gateways that run nothing, two pages of the first, and the gateway to which neither is connected.
fn swarm(seed: u64) -> (World, usize) {
    swarm_with(seed, |config| Config { matchmaking: Matchmaking::RnTree, ..config })
}

fn submit(world: &mut World, owner: usize, units: u32, requires: Requires) -> JobId {
    let spec = JobSpec { find: Find::Fitting, requires: Box::new(requires), ..world.sweep(owner, units) };
    world.submit(owner, spec)
}

fn in_pages() -> Requires {
    Requires { platform: Some(Platform::Browser), ..Requires::default() }
}

/// Nodes that gave units to the job, when it is done.
fn runners(world: &mut World, owner: usize, job: JobId, units: u32) -> Vec<usize> {
    let is_over = |w: &World| w.node(owner).job(job).is_some_and(|job| job.state.is_over());
    world.run_until(A_MINUTE * 5, "the job is done", is_over);
    let done = world.node(owner).job(job).unwrap();
    let counted: u64 = done.by_node.iter().map(|(_, units, _)| units).sum();
    assert_eq!((counted, done.failed), (u64::from(units), 0), "seed {}", world.seed);
    let by = done.by_node.iter().filter(|(_, units, _)| *units > 0);
    let mut nodes: Vec<usize> = by.filter_map(|(node, ..)| world.find(*node)).collect();
    nodes.sort_unstable();
    nodes
}

#[test]
fn pages_of_another_gateway_run_what_requires_a_page() {
    for seed in 0..5 {
        let (mut world, owner) = swarm(seed);
        let known = world.node(owner).rn_tree().and_then(|tree| tree.whole()).map(|whole| whole.nodes());
        assert_eq!(known, Some(2), "seed {seed}: the tree counts the pages");
        let job = submit(&mut world, owner, 20, in_pages());
        assert_eq!(runners(&mut world, owner, job, 20), PAGES, "seed {seed}");
        let faults: Vec<String> = (0..6).flat_map(|at| world.faults(at)).collect();
        assert!(faults.is_empty(), "seed {seed}: {faults:?}");
    }
}

#[test]
fn a_page_takes_what_it_turns_out_to_be_able_to() {
    for seed in 10..13 {
        let (mut world, owner) = swarm(seed);
        let fast = Requires { speed: 9_000_000_000, ..in_pages() };
        let job = submit(&mut world, owner, 4, fast);
        world.run_for(A_MINUTE);
        let why = world.node(owner).job(job).unwrap().reason;
        assert!(why.contains("none of the 2 nodes"), "seed {seed}: {why}");
        world.drive(PAGES[1], NodeInput::Command(Command::Measured { speed: 9_500_000_000 }));
        assert_eq!(runners(&mut world, owner, job, 4), [PAGES[1]], "seed {seed}");
    }
}

#[test]
fn pages_go_on_with_such_jobs_when_their_gateway_has_gone() {
    for seed in 20..25 {
        let (mut world, owner) = swarm(seed);
        let job = submit(&mut world, owner, 40, in_pages());
        world.run_for(Duration::from_secs(3));
        world.kill(0);
        assert_eq!(runners(&mut world, owner, job, 40), PAGES, "seed {seed}");
    }
}

#[test]
fn units_of_a_page_that_is_closed_are_claimed_by_the_other() {
    for seed in 30..35 {
        let (mut world, owner) = swarm(seed);
        let job = submit(&mut world, owner, 30, in_pages());
        world.run_for(Duration::from_secs(2));
        world.crash(PAGES[0]);
        assert!(runners(&mut world, owner, job, 30).contains(&PAGES[1]), "seed {seed}");
    }
}
