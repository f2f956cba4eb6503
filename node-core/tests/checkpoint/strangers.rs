//! Strangers that know the names of units want keepers to keep what is not those units'.

use crate::checkpoint::hostile::say;
use crate::checkpoint::support::{A_MINUTE, A_SECOND, done, job, losses, under_way, unit, world};
use node_core::Config;
use node_core::content::BlobRef;
use node_core::ids::{JobId, NodeId, UnitId};
use node_core::progress::Version;
use node_core::work::message::{Keep, Message as Work, ToKeeper};
use simulator::World;
use std::time::Duration;

fn keep(unit: UnitId, owner: NodeId, version: Version, blob: BlobRef) -> Work {
    Work::ToKeeper(ToKeeper::Keep(Keep {
        unit,
        owner,
        origin: owner,
        version,
        parts: vec![blob],
        relayed: false,
    }))
}

/// Nodes that run nothing, connected to all of these.
fn strangers(world: &mut World, count: usize, to: &[usize]) -> Vec<usize> {
    let all: Vec<usize> = (0..count).map(|_| world.add(Config { slots: 0, ..Config::default() })).collect();
    all.iter().for_each(|at| to.iter().for_each(|to| world.connect(*at, *to)));
    world.run_for(Duration::from_millis(500));
    all
}

#[test]
fn three_strangers_push_nothing_out() {
    let mut world = world(51, 4);
    let job = job(&mut world, 1);
    let (at, keepers) = under_way(&mut world, job, 3);
    let (unit, owner) = (UnitId { job, index: 0 }, world.nodes[0].id);
    for stranger in strangers(&mut world, 3, &keepers) {
        let empty = world.upload(stranger, b"");
        for keeper in &keepers {
            let version = Version { attempt: u32::MAX, number: 1 };
            say(&mut world, stranger, *keeper, keep(unit, owner, version, empty));
        }
    }
    // A few more of the runner's own come, and are kept as its keepers say.
    world.run_for(Duration::from_secs(7));
    world.crash(at);
    done(&mut world, job, 1);
    assert!(losses(&world)[0] <= 2 * A_SECOND + A_SECOND / 20, "{:?}", losses(&world));
}

#[test]
fn made_up_units_take_no_room() {
    let mut world = world(52, 2);
    let job = job(&mut world, 1);
    let stranger = strangers(&mut world, 1, &[1, 2])[0];
    let (empty, owner) = (world.upload(stranger, b""), world.nodes[0].id);
    let version = Version { attempt: 1, number: 1 };
    // The units are of a job that exists and of one that does not; 15 s leave an owner time enough to answer.
    for index in 1..=300 {
        for job in [job, JobId([9; 16])] {
            say(&mut world, stranger, 1, keep(UnitId { job, index }, owner, version, empty));
        }
        world.run_for(Duration::from_millis(50));
    }
    assert!(world.node(1).kept().0 <= 1, "{:?}", world.node(1).kept());
    done(&mut world, job, 1);
}

#[test]
fn who_names_a_unit_first_keeps_it_from_nobody() {
    let mut world = world(53, 4);
    let stranger = strangers(&mut world, 1, &[0, 1, 2, 3, 4])[0];
    let empty = world.upload(stranger, b"");
    let job = job(&mut world, 1);
    let (id, me) = (UnitId { job, index: 0 }, world.nodes[stranger].id);
    for keeper in 0..=4 {
        let version = Version { attempt: u32::MAX, number: 1 };
        say(&mut world, stranger, keeper, keep(id, me, version, empty));
    }
    let (at, _) = under_way(&mut world, job, 3);
    // Nor may it drop what is not its own.
    for keeper in 0..=4 {
        say(&mut world, stranger, keeper, Work::ToKeeper(ToKeeper::Drop { units: vec![id] }));
    }
    world.crash(at);
    done(&mut world, job, 1);
    assert!(losses(&world)[0] <= 2 * A_SECOND + A_SECOND / 20, "{:?}", losses(&world));
}

#[test]
fn a_runner_that_calls_itself_the_origin_drops_nothing() {
    let mut world = world(56, 4);
    let job = job(&mut world, 1);
    let (first, _) = under_way(&mut world, job, 3);
    world.crash(first);
    world.run_until(A_MINUTE, "another runs it", |w| unit(w, job, 0).attempts == 2);
    let (at, keepers) = under_way(&mut world, job, 4);
    let (id, owner, me) = (UnitId { job, index: 0 }, world.nodes[0].id, world.nodes[at].id);
    let before: Vec<(usize, u64)> = keepers.iter().map(|keeper| world.node(*keeper).kept()).collect();
    let rubbish = world.upload(at, &[7; 100]);
    for keeper in &keepers {
        let version = Version { attempt: 2, number: 99 };
        let Work::ToKeeper(ToKeeper::Keep(keep)) = keep(id, owner, version, rubbish) else { return };
        say(&mut world, at, *keeper, Work::ToKeeper(ToKeeper::Keep(Keep { origin: me, ..keep })));
    }
    world.run_for(Duration::from_millis(500));
    for keeper in &keepers {
        say(&mut world, at, *keeper, Work::ToKeeper(ToKeeper::Drop { units: vec![id] }));
    }
    let after: Vec<(usize, u64)> = keepers.iter().map(|keeper| world.node(*keeper).kept()).collect();
    assert!(after.iter().all(|(units, _)| *units == 1), "{before:?}, then {after:?}");
    world.crash(at);
    done(&mut world, job, 1);
    assert!(losses(&world).iter().all(|lost| *lost <= 2 * A_SECOND + A_SECOND / 20), "{:?}", losses(&world));
}

#[test]
fn a_runner_whose_unit_runs_elsewhere_by_now_has_nothing_new_kept() {
    let mut world = world(54, 5);
    let job = job(&mut world, 1);
    let (first, _) = under_way(&mut world, job, 3);
    world.crash(first);
    world.run_until(A_MINUTE, "another runs it", |w| {
        unit(w, job, 0).attempts == 2 && unit(w, job, 0).checkpoints > 4
    });
    // It comes back, and says that it runs the unit as often as it likes.
    world.start(first);
    world.connect(0, first);
    let keepers: Vec<usize> = (1..=5).filter(|at| *at != first).collect();
    keepers.iter().for_each(|keeper| world.connect(first, *keeper));
    world.run_for(Duration::from_secs(1));
    let (id, owner) = (UnitId { job, index: 0 }, world.nodes[0].id);
    let rubbish = world.upload(first, &[7; 5000]);
    for keeper in &keepers {
        for attempt in [2, 3] {
            say(&mut world, first, *keeper, keep(id, owner, Version { attempt, number: 99 }, rubbish));
        }
    }
    world.run_for(Duration::from_secs(1));
    for keeper in keepers {
        assert!(world.nodes[keeper].disk.blob(rubbish.id).is_none(), "node {keeper} keeps it");
    }
    done(&mut world, job, 1);
}

/// A runner names whom a keeper is to ask: one that owns nothing takes that for no fault of the keeper.
#[test]
fn nobody_sets_a_keeper_against_others() {
    let mut world = world(55, 2);
    let page = world.add(Config { platform: node_core::Platform::Browser, slots: 0, ..Config::default() });
    world.connect(0, page);
    let stranger = strangers(&mut world, 1, &[0])[0];
    let (empty, victim) = (world.upload(stranger, b""), world.nodes[page].id);
    let version = Version { attempt: 1, number: 1 };
    for index in 0..30 {
        let unit = UnitId { job: JobId([9; 16]), index };
        say(&mut world, stranger, 0, keep(unit, victim, version, empty));
    }
    world.run_for(Duration::from_secs(20));
    assert_eq!((world.faults(page), world.connected(0, page)), (vec![], true));
    assert_eq!(world.node(0).kept(), (0, 0));
}
