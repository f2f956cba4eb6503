//! Stories of nodes that are no gateways and submit jobs of their own: on a server that others dial, behind a router,
//! and in a page.

use crate::far_guests::{self, secret};
use node_core::content::{BlobRef, Data};
use node_core::overlay::dialback::Standing;
use node_core::platform::Platform;
use node_core::work::spec::OwnedBy;
use node_core::{Command, Config, JobId, NodeInput, Table};
use sandbox::{Outcome, Task};
use simulator::World;
use simulator::engine::Program;
use std::net::IpAddr;
use std::time::Duration;

const A_MINUTE: Duration = Duration::from_secs(60);

const GATEWAY: usize = 0;
const WORKERS: [usize; 2] = [1, 2];
const PAGE: usize = 3;
/// Others dial it.
const SERVER: usize = 4;
/// It is behind a router.
const LAPTOP: usize = 5;
/// It dials nobody but its gateway.
const TAB: usize = 6;

fn config(at: usize) -> Config {
    let mut config = Config {
        founds: at == GATEWAY,
        submits: [SERVER, LAPTOP, TAB].contains(&at),
        slots: u32::from(![GATEWAY, LAPTOP, TAB].contains(&at)) * 2,
        port: (![PAGE, LAPTOP, TAB].contains(&at)).then_some(4001),
        platform: if at == PAGE || at == TAB { Platform::Browser } else { Platform::Native },
        relay_rate: (at == GATEWAY).then_some(10_000_000),
        ..far_guests::config(at, at == GATEWAY)
    };
    config.limits_mut().delegated_units = 1000;
    if at == SERVER {
        // Nothing stays that nobody needs, and one job is remembered.
        config.limits_mut().cache_bytes = 0;
        config.limits_mut().jobs = 1;
    }
    config
}

/// A gateway, two workers and a page, and three nodes that submit.
fn swarm(seed: u64, program: Program) -> World {
    let mut world = World::seed(seed).with(program);
    for at in 0..=TAB {
        world.add_keyed(config(at), &secret(at));
        if at != GATEWAY {
            world.connect(at, GATEWAY);
        }
    }
    world.run_for(A_MINUTE);
    world
}

/// Nodes that gave units to the job when all of these are done.
fn done(world: &mut World, owner: usize, job: JobId, units: u32) -> Vec<usize> {
    let is_over = |w: &World| w.lives(owner) && w.node(owner).job(job).is_some_and(|job| job.state.is_over());
    world.run_until(A_MINUTE * 3, "the job is done", is_over);
    let view = world.node(owner).job(job).unwrap();
    let given = view.by_node.iter().map(|(_, units, _)| units);
    assert_eq!((given.sum::<u64>(), view.failed), (u64::from(units), 0), "seed {}", world.seed);
    assert!(
        (0..world.nodes.len()).all(|at| world.faults(at).is_empty()),
        "seed {}: {:?}",
        world.seed,
        world.told
    );
    let by = view.by_node.iter().filter(|(_, units, _)| *units > 0);
    by.filter_map(|(node, ..)| world.find(*node)).collect()
}

fn a_second(task: &Task) -> (Duration, Outcome) {
    (Duration::from_secs(1), simulator::echo(task).1)
}

#[test]
fn a_node_runs_its_users_job_on_its_own_slots_and_those_of_the_swarm() {
    for seed in 0..5 {
        let mut world = swarm(seed, a_second);
        let spec = world.sweep(SERVER, 40);
        let job = world.submit(SERVER, spec);
        let by = done(&mut world, SERVER, job, 40);
        assert!(by.contains(&SERVER) && WORKERS.iter().all(|at| by.contains(at)), "seed {seed}: {by:?}");
        assert!(world.node(GATEWAY).jobs().is_empty(), "nobody else owns it");
    }
}

#[test]
fn a_node_behind_a_router_has_its_gateway_ask_the_tree() {
    for seed in 10..15 {
        let mut world = swarm(seed, a_second);
        let spec = world.sweep(LAPTOP, 40);
        let job = world.submit(LAPTOP, spec);
        let by = done(&mut world, LAPTOP, job, 40);
        assert!(WORKERS.iter().all(|at| by.contains(at)) && by.contains(&PAGE), "seed {seed}: {by:?}");
    }
}

#[test]
fn a_page_runs_its_persons_job_on_the_swarm_by_way_of_its_gateway() {
    for seed in 15..20 {
        let mut world = swarm(seed, a_second);
        let mut spec = world.sweep(TAB, 40);
        let input = world.upload(TAB, &[7; 100_000]);
        spec.template.stdin = Data::Blob(input);
        let job = world.submit(TAB, spec);
        let by = done(&mut world, TAB, job, 40);
        assert!(WORKERS.iter().all(|at| by.contains(at)) && by.contains(&PAGE), "seed {seed}: {by:?}");
        assert!(world.node(TAB).relayed_connections() >= 2, "seed {seed}: it can dial no worker");
    }
}

/// A gateway, a server that others know by IPv6 or not, and a node that listens behind a router and knows no IPv6.
/// It may be a gateway, and nobody has told it yet that it cannot be dialled.
fn three(seed: u64, v6: bool, gateway: bool) -> World {
    let mut world = World::seed(seed).with(a_second);
    for (at, part) in [GATEWAY, SERVER, LAPTOP].into_iter().enumerate() {
        let gateway = part == GATEWAY || gateway && part == LAPTOP;
        world.add_keyed(Config { gateway, port: Some(4001), ..config(part) }, &secret(part));
        world.nodes[at].ip = match part == SERVER && v6 {
            true => IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1]).into(),
            false => IpAddr::from([9, 9, 9, at as u8]).into(),
        };
        let laptop = part == LAPTOP;
        (world.nodes[at].unreachable, world.nodes[at].v4_only) = (laptop, laptop);
        if at > 0 {
            world.connect(at, GATEWAY);
        }
        let wait = if laptop { Duration::from_secs(1) } else { Duration::from_secs(10) };
        world.run_for(wait);
    }
    let told = world.node(2).standing();
    assert_eq!(told, Standing::Unknown, "seed {seed}");
    world
}

#[test]
fn who_has_just_joined_has_a_gateway_ask_the_tree_at_once() {
    for (seed, gateway) in (40..60).flat_map(|seed| [(seed, false), (seed, true)]) {
        let mut world = three(seed, false, gateway);
        let began = world.now;
        let mut spec = world.sweep(2, 1);
        spec.template.limits.memory_bytes = 256 << 20;
        let job = world.submit(2, spec);
        assert_eq!(done(&mut world, 2, job, 1), [1], "seed {seed}");
        let took = world.now.since(began);
        assert!(took < Duration::from_secs(3), "seed {seed}: a unit of a second took {took:?}");
    }
}

#[test]
fn a_node_of_ipv4_alone_reaches_one_that_is_known_by_ipv6_by_its_relay() {
    for (seed, gateway) in (60..80).flat_map(|seed| [(seed, false), (seed, true)]) {
        let mut world = three(seed, true, gateway);
        let began = world.now;
        let spec = world.sweep(2, 4);
        let job = world.submit(2, spec);
        assert_eq!(done(&mut world, 2, job, 4), [1], "seed {seed}");
        let took = world.now.since(began);
        assert!(took < Duration::from_secs(6), "seed {seed}: two seconds of work took {took:?}");
        assert_eq!(world.node(2).relayed_connections(), 1, "seed {seed}");
    }
}

#[test]
fn the_ring_owns_units_of_a_server_and_those_of_a_node_behind_a_router_are_refused() {
    for seed in 20..25 {
        let mut world = swarm(seed, a_second);
        let mut spec = world.sweep(SERVER, 20);
        spec.owner = OwnedBy::Ring;
        let job = world.submit(SERVER, spec.clone());
        let is_elsewhere = |w: &World| {
            let units = w.node(SERVER).units(job, 0, 20).unwrap_or_default();
            units.iter().any(|unit| unit.owner.is_some_and(|owner| owner != w.nodes[SERVER].id))
        };
        world.run_until(A_MINUTE, "another owns some", is_elsewhere);
        done(&mut world, SERVER, job, 20);
        let job = world.submit(LAPTOP, spec);
        let why = world.refusal(job).unwrap_or_default();
        assert!(why.contains("leave `owner` out"), "seed {seed}: {why}");
    }
}

#[test]
fn a_job_goes_on_after_a_restart_and_its_content_is_not_forgotten_for_a_cache() {
    for seed in 30..35 {
        let mut world = swarm(seed, a_second);
        let mut spec = world.sweep(SERVER, 40);
        let input = world.upload(SERVER, &[7; 100_000]);
        spec.template.stdin = Data::Blob(input);
        let job = world.submit(SERVER, spec);
        let has_begun = |w: &World| w.node(SERVER).job(job).is_some_and(|job| job.done >= 5);
        world.run_until(A_MINUTE, "some units are done", has_begun);
        world.crash(SERVER);
        world.run_for(Duration::from_secs(3));
        world.start(SERVER);
        world.connect(SERVER, GATEWAY);
        done(&mut world, SERVER, job, 40);
        assert!(world.nodes[SERVER].disk.blob(input.id).is_some(), "seed {seed}: the job needs it");
    }
}

#[test]
fn content_that_was_uploaded_waits_for_its_job_and_goes_when_that_is_forgotten() {
    let mut world = swarm(36, a_second);
    let has = |world: &World, blob: BlobRef| world.nodes[SERVER].disk.blob(blob.id).is_some();
    let input = world.upload(SERVER, &[7; 100_000]);
    let other = world.upload(SERVER, &[8; 100_000]);
    assert!(has(&world, input) && has(&world, other), "they wait");
    let mut spec = world.sweep(SERVER, 1);
    spec.template.stdin = Data::Blob(input);
    let job = world.submit(SERVER, spec);
    done(&mut world, SERVER, job, 1);
    world.run_for(A_MINUTE * 11);
    world.upload(SERVER, b"so that it looks");
    assert!(has(&world, input) && !has(&world, other), "a job needs the one alone");
    // One job is remembered.
    let spec = world.sweep(SERVER, 1);
    let next = world.submit(SERVER, spec);
    done(&mut world, SERVER, next, 1);
    assert!(world.node(SERVER).job(job).is_none());
    world.run_for(A_MINUTE * 11);
    world.upload(SERVER, b"so that it looks again");
    assert!(!has(&world, input), "nobody needs it");
}

#[test]
fn a_job_that_ended_is_forgotten_by_hand_and_its_content_makes_room_at_once() {
    let mut world = swarm(37, a_second);
    let has = |world: &World, blob: BlobRef| world.nodes[TAB].disk.blob(blob.id).is_some();
    let (input, shared) = (world.upload(TAB, &[7; 100_000]), world.upload(TAB, &[8; 100_000]));
    let mut jobs = Vec::new();
    for blob in [input, shared] {
        let mut spec = world.sweep(TAB, 4);
        spec.template.stdin = Data::Blob(blob);
        jobs.push(world.submit(TAB, spec));
    }
    let forget = |world: &mut World, job| world.drive(TAB, NodeInput::Command(Command::Forget { job }));
    let has_begun = |w: &World| w.node(TAB).job(jobs[0]).is_some_and(|job| job.done > 0);
    world.run_until(A_MINUTE, "a unit is done", has_begun);
    forget(&mut world, jobs[0]);
    assert!(world.node(TAB).job(jobs[0]).is_some(), "it has not ended");
    jobs.iter().for_each(|job| drop(done(&mut world, TAB, *job, 4)));
    forget(&mut world, jobs[0]);
    world.run_for(Duration::from_secs(1));
    assert!(world.node(TAB).job(jobs[0]).is_none() && world.node(TAB).job(jobs[1]).is_some());
    assert!(!has(&world, input) && has(&world, shared), "the other job needs its own");
    let rows = |world: &World, table| world.nodes[TAB].disk.rows(table);
    assert_eq!(
        (rows(&world, Table::Jobs), rows(&world, Table::Results)),
        (2, 4),
        "a job, its end, its results"
    );
    // Its program is that of the other one.
    let program = world.node(TAB).job(jobs[1]).map(|_| world.sweep(TAB, 1).template.program);
    assert!(program.is_some_and(|program| has(&world, program)));
}

#[test]
fn a_node_that_does_not_submit_says_where_to() {
    let mut world = swarm(40, a_second);
    let spec = world.sweep(WORKERS[0], 1);
    let job = world.submit(WORKERS[0], spec);
    world.run_for(A_MINUTE);
    assert!(
        world.refusal(job).is_some_and(|why| why.contains("takes no jobs from")),
        "{:?}",
        world.refusal(job)
    );
}
