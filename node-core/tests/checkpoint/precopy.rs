//! Data of a moving unit goes ahead to its destination, and the unit runs meanwhile.

use crate::checkpoint::support::{A_MINUTE, beginnings, done, job, migrate, moved, runner, under_way, world};
use node_core::ids::JobId;
use node_core::{Command, NodeEvent, NodeInput, Platform};
use simulator::World;
use std::time::Duration;

/// Longer than any wait for an answer here.
const SLOW: u64 = 3_000_000;

/// A world in which a unit runs, and a node that has nothing of it, and whose disk is slow: where the
/// unit runs, and that node.
fn slow_goal(seed: u64) -> (World, JobId, usize, usize) {
    let mut world = world(seed, 4);
    let job = job(&mut world, 1);
    let (at, keepers) = under_way(&mut world, job, 2);
    let to = (1..=4).find(|to| *to != at && !keepers.contains(to)).unwrap();
    world.nodes[to].disk.slow = SLOW;
    (world, job, at, to)
}

fn computes(world: &World, at: usize) -> bool {
    world.nodes[at].engine.runs(world.now).next().is_some()
}

fn blobs(world: &World, at: usize) -> usize {
    world.nodes[at].disk.blobs().count()
}

#[test]
fn a_unit_runs_on_while_its_goal_gets_ready() {
    let (mut world, job, at, to) = slow_goal(60);
    migrate(&mut world, job, Some(to));
    world.run_for(Duration::from_secs(2));
    assert!(computes(&world, at), "nothing had to stop for it");
    assert_eq!(moved(&world), None);
    world.nodes[to].disk.slow = 0;
    world.run_until(A_MINUTE, "it has moved", |w| moved(w).is_some());
    assert_eq!(moved(&world), Some(Ok(to)));
    let still = world.told.iter().find_map(|(_, _, event)| match event {
        NodeEvent::Migrated { standstill, .. } => Some(*standstill),
        _ => None,
    });
    let still = still.unwrap();
    assert!(
        Duration::ZERO < still && still < Duration::from_millis(500),
        "{still:?} without a way of seconds"
    );
    done(&mut world, job, 1);
    assert_eq!(beginnings(&world).len(), 2);
}

#[test]
fn a_page_gets_it_through_its_gateway_while_the_unit_runs() {
    let mut world = world(61, 4);
    let job = job(&mut world, 1);
    let (at, keepers) = under_way(&mut world, job, 2);
    assert!(!keepers.contains(&0), "the gateway itself has nothing of it");
    let page = world.add(node_core::Config { platform: Platform::Browser, slots: 1, ..Default::default() });
    world.connect(0, page);
    world.run_for(Duration::from_secs(1));
    world.nodes[page].disk.slow = SLOW;
    migrate(&mut world, job, Some(page));
    world.run_for(Duration::from_secs(2));
    assert!(computes(&world, at));
    world.nodes[page].disk.slow = 0;
    world.run_until(A_MINUTE, "it has moved", |w| moved(w).is_some());
    assert_eq!(moved(&world), Some(Ok(page)));
    done(&mut world, job, 1);
    world.run_for(A_MINUTE * 2);
    assert_eq!(world.results(job)[&0].journey.as_ref().unwrap().lost_fuel, 0);
}

#[test]
fn a_goal_that_dies_while_it_gets_ready_stops_nothing() {
    let (mut world, job, at, to) = slow_goal(62);
    migrate(&mut world, job, Some(to));
    world.run_for(Duration::from_secs(1));
    world.crash(to);
    world.run_until(A_MINUTE, "it was tried", |w| moved(w).is_some());
    assert!(moved(&world).unwrap().is_err_and(|why| why.contains("has gone")));
    assert_eq!(runner(&world, job), Some(at));
    done(&mut world, job, 1);
    assert_eq!(beginnings(&world), [0.0]);
}

#[test]
fn a_goal_that_closes_meanwhile_stops_nothing() {
    let (mut world, job, at, to) = slow_goal(63);
    world.drive(to, NodeInput::Command(Command::SetSlots(0)));
    migrate(&mut world, job, Some(to));
    world.run_until(A_MINUTE, "it was tried", |w| moved(w).is_some());
    let why = moved(&world).unwrap().unwrap_err();
    assert!(why.contains("gives no slots now"), "{why}");
    assert!(computes(&world, at));
    done(&mut world, job, 1);
    assert_eq!(beginnings(&world), [0.0]);
}

#[test]
fn a_goal_whose_disk_hangs_stops_nothing() {
    let (mut world, job, at, to) = slow_goal(64);
    world.nodes[to].disk.slow = 600_000_000;
    migrate(&mut world, job, Some(to));
    world.run_until(A_MINUTE, "it was given up", |w| moved(w).is_some());
    let why = moved(&world).unwrap().unwrap_err();
    assert!(why.contains("cannot take it"), "{why}");
    assert!(computes(&world, at));
    done(&mut world, job, 1);
    assert_eq!(beginnings(&world), [0.0]);
}

#[test]
fn a_runner_that_dies_meanwhile_costs_an_interval_and_no_more() {
    let (mut world, job, at, to) = slow_goal(65);
    migrate(&mut world, job, Some(to));
    world.run_for(Duration::from_secs(1));
    world.crash(at);
    world.run_until(A_MINUTE, "it was tried", |w| moved(w).is_some());
    assert!(moved(&world).unwrap().is_err());
    world.nodes[to].disk.slow = 0;
    done(&mut world, job, 1);
    assert!(
        crate::checkpoint::support::losses(&world)[0]
            <= 2 * crate::checkpoint::support::A_SECOND + crate::checkpoint::support::A_SECOND / 20
    );
}

#[test]
fn what_was_got_ready_in_vain_is_forgotten() {
    // With a word of the owner, and without.
    for silent in [false, true] {
        let (mut world, job, _, to) = slow_goal(66);
        world.nodes[to].disk.slow = 0;
        let before = blobs(&world, to);
        migrate(&mut world, job, Some(to));
        // The goal has it, and the owner does not know that yet.
        world.run_until(A_MINUTE, "the base came", |w| blobs(w, to) >= before + 2);
        assert_eq!(moved(&world), None);
        if silent {
            world.part(&[0]);
            world.run_for(Duration::from_secs(70));
        } else {
            world.drive(0, NodeInput::Command(Command::Cancel { job }));
            world.run_for(Duration::from_secs(5));
        }
        // The job's program is of use to others; what only this unit needed is not.
        assert_eq!(blobs(&world, to), before + 1, "silent: {silent}");
    }
}

#[test]
fn nobody_fills_a_node_with_what_will_never_come() {
    use node_core::content::BlobRef;
    use node_core::ids::BlobId;
    use node_core::work::message::{Batch, Message as Work, ToRunner, UnitGrant};
    let mut world = world(67, 2);
    let spec = world.sweep(0, 1);
    let grant = |index| UnitGrant {
        index,
        attempt: 1,
        proof: Default::default(),
        spec: None,
        key: node_core::SealKey([0; 32]),
        resume: None,
        price: Default::default(),
        receipt: None,
        keeper: None,
        choices: Vec::new(),
    };
    let prepare = |n: u32| {
        let units =
            if n == 7 { vec![] } else { (0..=u32::from(n == 8)).map(|more| grant(n + more)).collect() };
        let batch = Batch {
            job: JobId([9; 16]),
            name: String::new(),
            template: spec.template.clone(),
            sweep_first: None,
            keepers: Vec::new(),
            units,
            origin: None,
        };
        let whole = BlobRef { id: BlobId([n as u8; 32]), len: 1 << 40 };
        Work::ToRunner(ToRunner::Prepare { batch: Box::new(batch), whole, sources: Vec::new() })
    };
    for n in 0..100 {
        for from in [0, 2] {
            crate::checkpoint::hostile::say(&mut world, from, 1, prepare(n));
        }
    }
    // The checker counts what is got ready for.
    world.run_for(Duration::from_secs(70));
    let job = job(&mut world, 2);
    done(&mut world, job, 2);
    assert_eq!(world.results(job).len(), 2);
}
