//! Stories of a node on no ring that tells members of units on the ring, and brings results of them.

use super::hostile::{forged, say};
use super::*;
use node_core::address::Address;
use node_core::content::Data;
use node_core::engine::SealKey;
use node_core::ids::NodeId;
use node_core::work::delegated::{Delegated, Message, Part};
use node_core::work::message::{Message as Work, Report, ToOwner};
use node_core::work::proof::GrantKey;
use node_core::work::spec::Template;

/// A unit under keys that only the stranger knows.
fn made_up(index: u32) -> Delegated {
    Delegated {
        index,
        spec: None,
        key: SealKey([3; 32]),
        grants: GrantKey::default(),
        epoch: 1,
        attempts: 0,
        runner: None,
        record: None,
        held: None,
    }
}

fn part(world: &mut World, stranger: usize, origin: NodeId) -> Part {
    let template = world.sweep(0, 1).template;
    let program = world.upload(stranger, b"another program");
    let template = Template { program, ..template };
    Part {
        origin: Address::here(origin),
        name: "made up".into(),
        template,
        sweep_first: Some(0),
        priority: 0,
        max_retries: 0,
        submitted_ms: 0,
        requires: None,
    }
}

/// A result with the proof that the made-up key makes.
fn result(unit: UnitId, runner: NodeId, bytes: usize) -> Report {
    let mut report = forged(unit, runner);
    report.result.stdout = Data::Inline(vec![7; bytes].into());
    Report { proof: GrantKey::default().proof(runner, report.attempt), ..report }
}

/// The swarm of the other stories, with a node on no ring that all members know.
fn with_stranger(seed: u64) -> (World, usize) {
    let mut world = World::seed(seed).with(long);
    world.add(member(true, 0));
    for n in 1..=MEMBERS + WORKERS {
        let config = match n <= MEMBERS {
            true => member(false, 0),
            false => Config { slots: 1, port: Some(4001), ..Config::default() },
        };
        let at = world.add(config);
        world.connect(0, at);
    }
    let stranger = world.add(Config { slots: 0, port: Some(4001), ..Config::default() });
    (1..=MEMBERS).for_each(|at| world.connect(stranger, at));
    world.run_for(A_MINUTE);
    (world, stranger)
}

#[test]
fn a_gateway_blames_no_member_for_what_a_stranger_made_up() {
    let (mut world, stranger) = with_stranger(309);
    let job = job(&mut world, 60);
    world.run_for(Duration::from_secs(15));
    let (me, origin) = (world.nodes[stranger].id, world.nodes[0].id);
    let part = part(&mut world, stranger, origin);
    for at in 1..=MEMBERS {
        // Units of which the member has nothing: they lie far from it on the ring.
        let is_far = |index: &u32| {
            let order = circle(&world, UnitId { job, index: *index });
            order.iter().position(|n| *n == at).is_some_and(|place| place > 5)
        };
        let its: Vec<u32> = (0..60).filter(is_far).take(15).collect();
        let units = its.iter().map(|index| made_up(*index)).collect();
        let owned = Message::Owned { job, part: Box::new(part.clone()), units };
        say(&mut world, stranger, at, Work::Delegated(owned));
        let results = its.iter().map(|index| result(UnitId { job, index: *index }, me, 0)).collect();
        say(&mut world, stranger, at, Work::ToOwner(ToOwner::Report { seq: 1, results }));
    }
    world.run_for(A_MINUTE * 5);
    assert_eq!(world.faults(0), Vec::<String>::new());
    assert!((1..=MEMBERS).all(|at| world.connected(0, at)), "{:?}", world.peers(0));
    world.run_until(A_MINUTE * 60, "the job is done", |w| w.is_over(job));
    world.assert_all_right(job, 60);
}

#[test]
fn results_of_made_up_units_leave_room_for_true_ones() {
    let (mut world, stranger) = with_stranger(308);
    let (me, victim) = (world.nodes[stranger].id, 1);
    // Nobody is its origin, so nobody says that they are over.
    let part = part(&mut world, stranger, NodeId([0xee; 32]));
    let job = JobId([10; 16]);
    for from in (0..1_000).step_by(250) {
        let units = (from..from + 250).map(made_up).collect();
        let owned = Message::Owned { job, part: Box::new(part.clone()), units };
        say(&mut world, stranger, victim, Work::Delegated(owned));
    }
    for seq in 0..100u32 {
        let of = |n| result(UnitId { job, index: seq * 10 + n }, me, 1000);
        let results = (0..10).map(of).collect();
        say(
            &mut world,
            stranger,
            victim,
            Work::ToOwner(ToOwner::Report { seq: u64::from(seq) + 1, results }),
        );
        world.run_for(Duration::from_millis(300));
    }
    world.kill(stranger);
    world.run_for(A_MINUTE);
    // Rows of ended units have longer keys.
    let keys = world.nodes[victim].disk.keys(Table::Delegated);
    let ends = keys.filter(|key| key.len() == 21).count();
    let room = world.nodes[victim].config.limits.delegated_units;
    assert!(ends > 0 && ends <= room / 16, "{ends} of {room}");

    let true_job = job_of(&mut world, 1, |owners| owners[0] == victim);
    world.run_until(A_MINUTE * 10, "the true unit ends", |w| w.is_over(true_job));
    world.assert_all_right(true_job, 1);
}
