//! Keepers that lose, change or refuse what they were given, runners that give rubbish, strangers
//! that meddle.

use crate::checkpoint::support::{
    A_MINUTE, A_SECOND, beginnings, done, job, long, losses, runner, under_way, unit, world,
};
use bytes::Bytes;
use node_core::content::BlobRef;
use node_core::ids::{BlobId, JobId, UnitId};
use node_core::node::message::Message;
use node_core::progress::{Checkpoint, Made, Version};
use node_core::work::spec::CheckpointEvery;
use node_core::work::view::UnitView;

use node_core::work::message::{Keep, Message as Work, Returned, ToKeeper, ToOwner, ToRunner};
use node_core::work::proof::GrantProof;
use node_core::{Channel, Command, Config, NodeInput, SnapshotRef};
use simulator::World;
use simulator::liar::{Liar, Lie};
use std::time::Duration;

/// Snapshots on a node's disk, by the fuel that they say, the newest first.
fn snapshots(world: &World, at: usize) -> Vec<(u64, BlobId)> {
    let disk = &world.nodes[at].disk;
    let ids: Vec<(BlobId, u64)> = disk.blobs().filter(|(_, len)| *len > 100).collect();
    let fuel = |id| disk.blob(id).map_or(0, |b| u64::from_le_bytes(std::array::from_fn(|i| b[40 + i])));
    let mut all: Vec<(u64, BlobId)> = ids.into_iter().map(|(id, _)| (fuel(id), id)).collect();
    all.sort_unstable_by(|a, b| b.cmp(a));
    all
}

#[test]
fn a_keeper_that_gives_something_else_is_found_out_and_the_other_asked() {
    let mut world = world(40, 4);
    let job = job(&mut world, 1);
    let (at, keepers) = under_way(&mut world, job, 4);
    for (_, id) in snapshots(&world, keepers[0]) {
        world.nodes[keepers[0]].disk.corrupt_blob(id);
    }
    world.crash(at);
    done(&mut world, job, 1);
    assert!(losses(&world)[0] <= 2 * A_SECOND + A_SECOND / 20, "{:?}", losses(&world));
}

#[test]
fn a_keeper_that_only_says_that_it_has_it_costs_nothing() {
    for liar in 0..2 {
        let mut world = world(41, 5);
        let job = job(&mut world, 1);
        let (at, keepers) = under_way(&mut world, job, 4);
        for (_, id) in snapshots(&world, keepers[liar]) {
            world.nodes[keepers[liar]].disk.lose_blob(id);
        }
        world.crash(at);
        done(&mut world, job, 1);
        assert!(losses(&world)[0] <= 2 * A_SECOND + A_SECOND / 20, "{:?}", losses(&world));
    }
}

#[test]
fn when_the_newest_is_gone_the_older_one_is_used_and_else_the_start() {
    for (gone, least, most) in [(1, 1.5, 4.5), (100, 0.0, 0.0)] {
        let mut world = world(42, 5);
        let job = job(&mut world, 1);
        let (at, keepers) = under_way(&mut world, job, 4);
        let last = snapshots(&world, keepers[0])[0].0 as f64 / A_SECOND as f64;
        for keeper in keepers {
            for (_, id) in snapshots(&world, keeper).into_iter().take(gone) {
                world.nodes[keeper].disk.lose_blob(id);
            }
        }
        world.crash(at);
        done(&mut world, job, 1);
        let began = *beginnings(&world).last().unwrap();
        match gone {
            1 => assert!(last - began > least && last - began < most, "{last} and then {began}"),
            _ => assert_eq!(began, 0.0),
        }
        assert!(world.results(job)[&0].journey.as_ref().unwrap().lost_fuel > A_SECOND);
        let view = world.job(job).unwrap();
        assert_eq!(view.lost_placements, 1, "the checkpoint is blamed, not the unit");
    }
}

#[test]
fn a_runner_that_takes_rubbish_costs_its_own_work_only() {
    let mut world = world(43, 4);
    let job = job(&mut world, 1);
    let (first, _) = under_way(&mut world, job, 4);
    world.crash(first);
    world.run_until(A_MINUTE, "it runs again", |w| runner(w, job).is_some_and(|now| now != first));
    world.run_for(Duration::from_secs(1));
    let before = *beginnings(&world).last().unwrap();
    let at = runner(&world, job).unwrap();
    world.nodes[at].engine.rubbish = true;
    let had = unit(&world, job, 0).checkpoints;
    world.run_until(A_MINUTE, "rubbish is kept", |w| unit(w, job, 0).checkpoints == had + 1);
    world.crash(at);
    done(&mut world, job, 1);
    assert_eq!(*beginnings(&world).last().unwrap(), before, "from the last good one");
}

#[test]
fn keepers_have_quotas_and_the_gateway_takes_the_rest() {
    let bounds: [fn(&mut Config); 3] = [
        |config| config.limits_mut().kept_bytes = 1000,
        |config| config.limits_mut().kept_bytes_per_owner = 1000,
        |config| config.limits_mut().kept_units = 0,
    ];
    for bound in bounds {
        let mut world = World::seed(44).with(long);
        let config = |slots| Config { slots, port: Some(4001), ..Config::default() };
        world.add(Config { gateway: true, ..config(0) });
        for n in 1..=3 {
            let mut config = config(1);
            bound(&mut config);
            world.add(config);
            world.connect(0, n);
        }
        world.run_for(Duration::from_secs(5));
        let job = job(&mut world, 1);
        world.run_until(A_MINUTE, "somebody keeps it", |w| unit(w, job, 0).checkpoints > 3);
        assert_eq!(unit(&world, job, 0).keepers, [world.nodes[0].id]);
        let at = runner(&world, job).unwrap();
        world.crash(at);
        done(&mut world, job, 1);
        assert!(losses(&world)[0] <= 2 * A_SECOND + A_SECOND / 20);
    }
}

#[test]
fn where_nobody_keeps_anything_nobody_is_asked_without_a_pause() {
    let mut world = World::seed(46).with(long);
    for n in 0..=1 {
        let slots = n;
        let mut config = Config { gateway: n == 0, slots, port: Some(4001), ..Config::default() };
        config.limits_mut().kept_units = 0;
        config.limits_mut().kept_bytes = 0;
        world.add(config);
    }
    world.connect(0, 1);
    world.run_for(Duration::from_secs(5));
    let job = job(&mut world, 1);
    world.run_for(Duration::from_secs(10));
    let before = world.frames;
    world.run_for(Duration::from_secs(20));
    let frames = world.frames - before;
    assert!(frames < 400, "{frames} frames in 20 s, of ten checkpoints");
    done(&mut world, job, 1);
}

#[test]
fn keepers_have_the_newest_two_and_what_they_need() {
    let mut world = world(45, 4);
    let job = job(&mut world, 1);
    for checkpoints in [4, 8, 13] {
        let (_, keepers) = under_way(&mut world, job, checkpoints);
        world.run_for(Duration::from_millis(300));
        for keeper in keepers {
            let kept = snapshots(&world, keeper).len();
            assert!((2..=4).contains(&kept), "{kept} blobs: two versions and their bases");
        }
    }
    done(&mut world, job, 1);
    world.run_for(Duration::from_secs(5));
    for at in 0..5 {
        assert_eq!((world.node(at).kept(), snapshots(&world, at)), ((0, 0), vec![]), "node {at}");
    }
}

#[test]
fn keepers_that_restart_still_give_what_they_had() {
    let mut world = world(46, 4);
    let job = job(&mut world, 1);
    let (at, keepers) = under_way(&mut world, job, 4);
    for keeper in &keepers {
        world.crash(*keeper);
    }
    world.crash(at);
    world.run_for(Duration::from_secs(1));
    for keeper in keepers {
        world.start(keeper);
        world.connect(0, keeper);
    }
    done(&mut world, job, 1);
    assert!(losses(&world)[0] <= 2 * A_SECOND + A_SECOND / 20, "{:?}", losses(&world));
}

#[test]
fn keepers_that_are_away_are_waited_for_and_not_for_ever() {
    for back in [true, false] {
        let mut world = world(47, 5);
        let job = job(&mut world, 1);
        let (at, keepers) = under_way(&mut world, job, 4);
        keepers.iter().chain([&at]).for_each(|at| world.crash(*at));
        world.run_for(A_MINUTE);
        assert_eq!(runner(&world, job), None);
        assert!(
            unit(&world, job, 0).reason.contains("keep its checkpoint"),
            "{}",
            unit(&world, job, 0).reason
        );
        if back {
            world.start(keepers[1]);
            world.connect(0, keepers[1]);
            world.run_for(Duration::from_secs(5));
            assert!(runner(&world, job).is_some(), "at once");
        }
        done(&mut world, job, 1);
        assert_eq!(*beginnings(&world).last().unwrap() > 3.0, back);
    }
}

#[test]
fn a_late_failure_leaves_the_checkpoints_of_who_runs_the_unit_now() {
    let mut world = World::seed(50).with(long);
    let config = |slots| Config { slots, port: Some(4001), ..Config::default() };
    world.add(Config { gateway: true, ..config(0) });
    let liar = world.add(Config { port: None, ..config(1) });
    world.liars.insert(liar, Liar::new(Lie::Hoard, JobId([0; 16]), 0));
    world.connect(0, liar);
    world.run_for(Duration::from_secs(1));
    let mut spec = world.sweep(0, 1);
    (spec.template.checkpoint, spec.max_retries) = (CheckpointEvery(2_000_000), 3);
    let job = world.submit(0, spec);
    world.run_until(A_MINUTE, "it has the unit", |w| !w.liars[&liar].grants.is_empty());
    let granted = world.liars[&liar].grants[0];
    let gateway = world.nodes[0].id;
    world.tell(liar, gateway, &granted.not_begun());
    for n in 2..=5 {
        world.add(config(1));
        world.connect(0, n);
    }
    let (at, _) = under_way(&mut world, job, 4);
    assert_ne!(at, liar);
    world.tell(liar, gateway, &granted.fails(1 << 40));
    world.run_for(Duration::from_secs(1));
    assert_eq!(runner(&world, job), Some(at), "it runs on");
    world.crash(at);
    done(&mut world, job, 1);
    assert!(losses(&world)[0] <= 2 * A_SECOND + A_SECOND / 20, "{:?}", losses(&world));
}

#[test]
fn the_gateways_own_runner_does_not_ask_keepers_whose_disks_hang_for_ever() {
    let mut world = World::seed(51).with(long);
    let config = |slots| Config { slots, port: Some(4001), ..Config::default() };
    world.add(Config { gateway: true, ..config(1) });
    world.drive(0, NodeInput::Command(Command::SetDonating(false)));
    for (n, slots) in [1, 0, 0].into_iter().enumerate() {
        world.add(config(slots));
        world.connect(0, n + 1);
    }
    world.run_for(Duration::from_secs(5));
    let job = job(&mut world, 1);
    let (at, keepers) = under_way(&mut world, job, 4);
    assert_eq!((at, keepers.contains(&2) && keepers.contains(&3)), (1, true));
    keepers.iter().for_each(|keeper| world.nodes[*keeper].disk.slow = 3_600_000_000);
    world.drive(0, NodeInput::Command(Command::SetDonating(true)));
    world.crash(at);
    done(&mut world, job, 1);
    assert_eq!(*beginnings(&world).last().unwrap(), 0.0, "nobody has what it had done");
}

#[test]
fn what_the_gateway_cannot_write_down_it_writes_later() {
    let mut world = world(48, 4);
    let job = job(&mut world, 1);
    world.nodes[0].disk.full = true;
    let (_, _) = under_way(&mut world, job, 4);
    assert_eq!(world.nodes[0].disk.rows(node_core::Table::Checkpoints), 0);
    world.nodes[0].disk.full = false;
    world.run_for(Duration::from_secs(5));
    assert_eq!(world.nodes[0].disk.rows(node_core::Table::Checkpoints), 1);
    done(&mut world, job, 1);
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.nodes[0].disk.rows(node_core::Table::Checkpoints), 0);
}

#[test]
fn nobody_pushes_out_what_others_have_kept() {
    let mut world = world(50, 4);
    let job = job(&mut world, 1);
    let (at, keepers) = under_way(&mut world, job, 3);
    let stranger = (1..=4).find(|n| *n != at && !keepers.contains(n)).unwrap();
    let (unit, owner) = (UnitId { job, index: 0 }, world.nodes[0].id);
    for keeper in &keepers {
        world.connect(stranger, *keeper);
        world.run_for(Duration::from_millis(200));
        for n in 1..=20 {
            let blob = world.upload(stranger, &[n; 300]);
            let version = Version { attempt: u32::MAX - u32::from(n), number: 1 };
            let keep = Keep { unit, owner, origin: owner, version, parts: vec![blob], relayed: false };
            say(&mut world, stranger, *keeper, Work::ToKeeper(ToKeeper::Keep(keep)));
            world.run_for(Duration::from_millis(150));
        }
        let theirs = snapshots(&world, *keeper).iter().filter(|(fuel, _)| *fuel < 60 * A_SECOND).count();
        assert!(theirs > 0, "what the runner gave is still there");
    }
    world.crash(at);
    done(&mut world, job, 1);
    assert!(losses(&world)[0] <= 2 * A_SECOND + A_SECOND / 20, "{:?}", losses(&world));
}

/// `from` says this to `to`, out of turn.
pub(crate) fn say(world: &mut World, from: usize, to: usize, message: Work) {
    let bytes: Bytes = Message::Work(message).encode().expect("it is short");
    let from = world.nodes[from].id;
    world.drive(to, NodeInput::Received { from, channel: Channel::Control, bytes });
}

#[test]
fn strangers_move_forget_and_record_nothing() {
    let mut world = world(49, 4);
    let job = job(&mut world, 1);
    let (at, keepers) = under_way(&mut world, job, 3);
    let stranger = (1..=4).find(|n| *n != at && !keepers.contains(n)).unwrap();
    let unit_id = UnitId { job, index: 0 };
    let before = unit(&world, job, 0);
    // The stranger claims to have the next checkpoint of the true placement, and that it keeps the newest.
    let (newest, _) = world.nodes[0].disk.newest(unit_id).expect("it is recorded");
    assert_eq!(newest.version.attempt, before.attempts);
    let version = Version { number: newest.version.number + 1, ..newest.version };
    let blob = BlobRef { id: BlobId([9; 32]), len: 7 };
    let snapshot = SnapshotRef { blob, base: None, root: [0; 32], fuel: u64::MAX };
    let made = Made {
        unit: unit_id,
        checkpoint: Checkpoint { version, snapshot },
        began: 0,
        kept: vec![world.nodes[stranger].id],
        marks: None,
    };
    let returned = Returned {
        unit: unit_id,
        attempt: version.attempt,
        proof: GrantProof::default(),
        made: Some(made.clone()),
    };
    let keepers_lost = vec![(world.nodes[keepers[0]].id, String::new())];
    let stands = |view: &UnitView| {
        let UnitView { runner, keepers, state, checkpoints, fuel, checkpoint_fuel, .. } = view.clone();
        (runner, keepers, state, checkpoints, fuel, checkpoint_fuel)
    };
    for message in [
        ToOwner::Checkpoints { made: vec![made.clone(); 2] },
        ToOwner::Suspended { lease: 1, attempt: version.attempt, unit: unit_id, made: Some(made) },
        ToOwner::Returned { units: vec![returned] },
        ToOwner::Unusable {
            lease: 1,
            unit: unit_id,
            version: newest.version,
            reason: "x".repeat(10_000),
            unreached: true,
        },
        ToOwner::Resumed { unit: unit_id },
        ToOwner::Prepared { unit: unit_id, error: None, unreached: true },
        ToOwner::Prepared { unit: unit_id, error: Some("x".repeat(10_000)), unreached: true },
        ToOwner::Immobile { unit: unit_id, reason: String::new() },
        ToOwner::Kept { unit: unit_id, version: newest.version },
        ToOwner::NeedKeepers { job, lost: keepers_lost },
        ToOwner::Holding { units: vec![unit_id] },
    ] {
        let said = format!("{message:?}");
        say(&mut world, stranger, 0, Work::ToOwner(message));
        assert_eq!(stands(&unit(&world, job, 0)), stands(&before), "{said}");
    }
    let faults = world.faults(0);
    assert_eq!(faults.len(), 4, "two checkpoints, Suspended and Returned: {faults:?}");
    for message in [
        ToRunner::NotComing { unit: unit_id },
        ToRunner::Suspend { unit: unit_id },
        ToRunner::Forget { units: vec![unit_id] },
        ToRunner::Pause { unit: unit_id, paused: true },
        ToRunner::Keepers { job, keepers: vec![] },
        ToRunner::Kept { unit: unit_id, version },
        ToRunner::KeepRefused { unit: unit_id, version, reason: String::new() },
    ] {
        say(&mut world, stranger, at, Work::ToRunner(message));
    }
    say(&mut world, stranger, keepers[0], Work::ToKeeper(ToKeeper::Drop { units: vec![unit_id] }));
    let endless = BlobRef { id: BlobId([8; 32]), len: u64::MAX };
    for parts in [vec![endless; 2], vec![], vec![blob; 3], vec![endless]] {
        let keep = |owner| Keep {
            unit: unit_id,
            owner,
            origin: owner,
            version,
            parts: parts.clone(),
            relayed: false,
        };
        for owner in [world.nodes[0].id, world.nodes[stranger].id] {
            say(&mut world, stranger, keepers[0], Work::ToKeeper(ToKeeper::Keep(keep(owner))));
        }
    }
    world.run_for(Duration::from_millis(200));
    let after = unit(&world, job, 0);
    assert_eq!((after.runner, after.keepers, after.state), (before.runner, before.keepers, before.state));
    assert!(after.fuel < 60 * A_SECOND);
    let recorded = world.nodes[0].disk.newest(unit_id).expect("it is recorded").0;
    assert!(
        recorded.snapshot.fuel < 60 * A_SECOND,
        "the runner's own, of which one more may have come: {recorded:?}"
    );
    world.run_for(Duration::from_secs(3));
    world.crash(at);
    done(&mut world, job, 1);
    assert!(losses(&world)[0] <= 2 * A_SECOND + A_SECOND / 20, "{:?}", losses(&world));
    assert!(world.results(job)[&0].journey.as_ref().unwrap().spans.iter().all(|s| s.to < u64::MAX));
}
