//! Units are moved by hand, and by nodes that go away.

use crate::checkpoint::support::{
    A_MINUTE, A_SECOND, beginnings, done, job, migrate, moved, runner, under_way, unit, world,
};
use node_core::bounds::Bounds;
use node_core::ids::UnitId;
use node_core::work::spec::CheckpointEvery;
use node_core::{Command, Config, NodeInput, Platform};
use simulator::World;
use simulator::engine::Ran;
use std::time::Duration;

#[test]
fn a_unit_moves_where_it_is_told_and_goes_on_at_the_same_instruction() {
    let mut world = world(20, 4);
    let job = job(&mut world, 1);
    let (at, _) = under_way(&mut world, job, 2);
    let to = (1..=4).find(|to| *to != at).unwrap();
    migrate(&mut world, job, Some(to));
    let start = world.now;
    world.run_until(A_MINUTE, "it has moved", |w| moved(w).is_some());
    assert_eq!(moved(&world), Some(Ok(to)));
    let took = world.now.since(start);
    assert!(took < Duration::from_millis(500), "over lines of up to 40 ms: {took:?}");
    assert_eq!(runner(&world, job), Some(to));
    world.run_for(Duration::from_secs(8));
    assert!(world.node(at).is_drained() || world.node(at).work(world.now).busy == 0);
    done(&mut world, job, 1);
    let stopped = world.ran.iter().find_map(|(_, _, ran)| match ran {
        Ran::Stopped { fuel, .. } => Some(*fuel as f64 / A_SECOND as f64),
        _ => None,
    });
    assert_eq!(beginnings(&world), [0.0, stopped.unwrap()], "nothing was lost");
    let journey = world.results(job)[&0].journey.clone().unwrap();
    assert_eq!((journey.spans.len(), journey.lost_fuel), (2, 0), "{journey:?}");
    assert_eq!(world.node(at).work(world.now).queued, 0, "the old node has forgotten it");
}

#[test]
fn a_unit_moves_to_a_node_that_reaches_nobody_but_the_gateway() {
    // As one with IPv4 alone does among others that are dialled by IPv6. With checkpoints, and before the first.
    for checkpoints in [2, 0] {
        let mut world = world(31, 4);
        let job = job(&mut world, 1);
        world.run_until(A_MINUTE, "it runs", |w| runner(w, job).is_some());
        world.run_until(A_MINUTE, "it has so many", |w| unit(w, job, 0).checkpoints >= checkpoints);
        let at = runner(&world, job).unwrap();
        let to = (1..=4).find(|to| *to != at).unwrap();
        for other in (1..=4).filter(|other| *other != to) {
            world.cut_one_way(to, other);
            world.cut_one_way(other, to);
        }
        world.run_for(Duration::from_millis(500));
        migrate(&mut world, job, Some(to));
        world.run_until(A_MINUTE, "it has moved", |w| moved(w).is_some());
        assert_eq!(moved(&world), Some(Ok(to)), "with {checkpoints}");
        if checkpoints > 0 {
            // The gateway keeps what it makes there, and passes it on to another.
            let before = unit(&world, job, 0).checkpoints;
            let kept = |w: &World| {
                let view = unit(w, job, 0);
                view.checkpoints > before + 1
                    && view.keepers.contains(&w.nodes[0].id)
                    && view.keepers.len() >= 2
            };
            world.run_until(Duration::from_secs(10), "its checkpoints are kept twice", kept);
        }
        done(&mut world, job, 1);
        let journey = world.results(job)[&0].journey.clone().unwrap();
        assert_eq!((journey.spans.len(), journey.lost_fuel), (2, 0), "{journey:?}");
    }
}

#[test]
fn several_units_move_at_once_to_a_node_that_reaches_nobody_but_the_gateway() {
    let mut world = world(32, 4);
    let to = world.add(Config { slots: 2, port: Some(4001), ..Config::default() });
    (1..=4).for_each(|other| world.cut_one_way(to, other));
    let job = job(&mut world, 2);
    world.run_until(A_MINUTE, "they have checkpoints", |w| {
        (0..2).all(|index| unit(w, job, index).checkpoints >= 2)
    });
    world.connect(0, to);
    world.run_for(Duration::from_secs(1));
    let id = world.nodes[to].id;
    for index in 0..2 {
        let unit = UnitId { job, index };
        world.drive(0, NodeInput::Command(Command::Migrate { unit, to: Some(id) }));
    }
    let there = |w: &World| (0..2).all(|index| unit(w, job, index).runner == Some(id));
    world.run_until(A_MINUTE, "both have moved", there);
    done(&mut world, job, 2);
    for result in world.results(job).values() {
        let journey = result.journey.clone().unwrap();
        assert_eq!((journey.spans.len(), journey.lost_fuel), (2, 0), "{journey:?}");
    }
}

#[test]
fn a_unit_that_comes_back_at_once_goes_on_from_where_it_is_now() {
    // It comes back before, and after, the node has been told to forget it.
    for pause in [0, 20, 60, 100, 150, 200, 300, 1000, 3000] {
        let mut world = World::seed(29).with(crate::checkpoint::support::long);
        let bounds = Bounds { kept_units: 0, ..Bounds::default() };
        let config = |slots| Config { slots, port: Some(4001), ..Config::default() };
        world.add(Config { gateway: true, ..config(0) });
        for n in 1..=2 {
            world.add(Config { limits: bounds.clone().into(), ..config(1) });
            world.connect(0, n);
        }
        world.run_for(Duration::from_secs(5));
        let job = job(&mut world, 1);
        world.run_until(A_MINUTE, "it has checkpoints", |w| unit(w, job, 0).checkpoints > 2);
        let at = runner(&world, job).unwrap();
        // The only keeper takes its time, and the old runner waits for it.
        world.nodes[0].disk.slow = 400_000;
        let there = 3 - at;
        migrate(&mut world, job, Some(there));
        world.run_until(A_MINUTE, "it has moved", |w| moved(w).is_some());
        world.run_for(Duration::from_millis(pause));
        world.told.clear();
        migrate(&mut world, job, Some(at));
        world.run_until(A_MINUTE, "it has moved back", |w| moved(w).is_some());
        assert_eq!(moved(&world), Some(Ok(at)));
        done(&mut world, job, 1);
        let began = beginnings(&world);
        assert!(began.is_sorted(), "{began:?} after {pause} ms");
        assert_eq!(world.results(job)[&0].journey.as_ref().unwrap().lost_fuel, 0);
    }
}

#[test]
fn a_unit_that_moves_to_and_fro_is_never_thought_lost() {
    for pause in (0..24).map(|n| Duration::from_millis(400 * n)) {
        let mut world = World::seed(31).with(crate::checkpoint::support::long);
        world.add(Config { gateway: true, slots: 0, port: Some(4001), ..Config::default() });
        for n in 1..=2 {
            world.add(Config { slots: 1, port: Some(4001), ..Config::default() });
            world.connect(0, n);
        }
        world.run_for(Duration::from_secs(5));
        let job = job(&mut world, 1);
        world.run_until(A_MINUTE, "it has checkpoints", |w| unit(w, job, 0).checkpoints > 1);
        for _ in 0..4 {
            let to = 3 - runner(&world, job).unwrap();
            world.told.clear();
            migrate(&mut world, job, Some(to));
            world.run_until(A_MINUTE, "it has moved", |w| moved(w).is_some());
            assert_eq!(moved(&world), Some(Ok(to)));
            world.run_for(pause);
        }
        world.run_for(Duration::from_secs(9));
        assert_eq!(beginnings(&world).len(), 5, "after {pause:?}");
    }
}

#[test]
fn it_moves_between_a_page_and_a_server_and_back() {
    let mut world = world(21, 3);
    let page = world.add(Config { platform: Platform::Browser, ..Config::default() });
    world.connect(0, page);
    world.run_for(Duration::from_secs(1));
    let job = job(&mut world, 1);
    under_way(&mut world, job, 2);
    for to in [page, 2, page, 3] {
        if runner(&world, job) == Some(to) {
            continue;
        }
        world.told.clear();
        migrate(&mut world, job, Some(to));
        world.run_until(A_MINUTE, "it has moved", |w| moved(w).is_some());
        assert_eq!(moved(&world), Some(Ok(to)));
        let before = unit(&world, job, 0).checkpoints;
        world.run_until(A_MINUTE, "it has a checkpoint there", |w| {
            unit(w, job, 0).checkpoints > before && unit(w, job, 0).keepers.len() >= 2
        });
    }
    done(&mut world, job, 1);
    assert_eq!(world.results(job)[&0].journey.as_ref().unwrap().lost_fuel, 0);
}

#[test]
fn a_unit_of_a_page_outlives_the_page_and_the_gateway() {
    let mut world = world(22, 3);
    let page = world.add(Config { platform: Platform::Browser, slots: 1, ..Config::default() });
    world.connect(0, page);
    let job = job(&mut world, 1);
    under_way(&mut world, job, 1);
    if runner(&world, job) != Some(page) {
        migrate(&mut world, job, Some(page));
        world.run_until(A_MINUTE, "it has moved", |w| moved(w) == Some(Ok(page)));
    }
    let before = unit(&world, job, 0).checkpoints;
    world.run_until(A_MINUTE, "two keep it", |w| {
        unit(w, job, 0).checkpoints > before + 1 && unit(w, job, 0).keepers.len() == 2
    });
    world.crash(page);
    world.run_for(Duration::from_secs(2));
    done(&mut world, job, 1);
    assert!(crate::checkpoint::support::losses(&world)[0] <= 2 * A_SECOND + A_SECOND / 20);
}

#[test]
fn a_move_that_cannot_be_says_why_and_the_unit_goes_on() {
    let mut world = world(23, 3);
    let other = world.add(Config { port: Some(4001), slots: 1, memory_bytes: 1 << 20, ..Config::default() });
    world.connect(0, other);
    world.run_for(Duration::from_secs(2));
    let job = job(&mut world, 1);
    let (at, _) = under_way(&mut world, job, 1);
    for (to, words) in [(Some(at), "runs there already"), (Some(other), "less memory"), (Some(0), "no slots")]
    {
        world.told.clear();
        migrate(&mut world, job, to);
        let told = moved(&world);
        assert!(told.as_ref().is_some_and(|t| t.as_ref().is_err_and(|why| why.contains(words))), "{told:?}");
    }
    let unknown = UnitId { job, index: 7 };
    world.drive(0, NodeInput::Command(Command::Migrate { unit: unknown, to: None }));
    assert!(moved(&world).unwrap().unwrap_err().contains("no such unit"));
    world.run_for(Duration::from_secs(3));
    assert_eq!(runner(&world, job), Some(at));
    world.nodes[at].engine.immobile = true;
    world.told.clear();
    migrate(&mut world, job, None);
    world.run_until(A_MINUTE, "it was tried", |w| moved(w).is_some());
    assert!(moved(&world).unwrap().unwrap_err().contains("not instrumented"));
    done(&mut world, job, 1);
    assert_eq!(beginnings(&world), [0.0]);
}

#[test]
fn a_goal_that_dies_on_the_way_costs_nothing() {
    let mut world = world(24, 4);
    let job = job(&mut world, 1);
    let (at, _) = under_way(&mut world, job, 2);
    let to = (1..=4).find(|to| *to != at).unwrap();
    migrate(&mut world, job, Some(to));
    world.crash(to);
    world.run_until(A_MINUTE, "it was tried", |w| moved(w).is_some());
    assert!(moved(&world).unwrap().is_err());
    done(&mut world, job, 1);
    assert!(beginnings(&world).iter().skip(1).all(|began| *began > 3.0), "{:?}", beginnings(&world));
}

#[test]
fn a_goal_that_dies_before_the_next_checkpoint_costs_no_more_than_what_it_ran() {
    for seed in 0..12 {
        let mut world = world(200 + seed, 3);
        let mut spec = world.sweep(0, 1);
        spec.template.checkpoint = CheckpointEvery(30_000_000);
        let job = world.submit(0, spec);
        world.run_until(A_MINUTE, "it runs", |w| runner(w, job).is_some());
        let at = runner(&world, job).expect("it runs");
        world.run_for(Duration::from_secs(5));
        // Its keepers are the other two, so that the goal had it as a keeper, too.
        let to = (1..=3).find(|to| *to != at).expect("there are others");
        migrate(&mut world, job, Some(to));
        world.run_until(A_MINUTE, "it has moved", |w| moved(w).is_some());
        world.run_for(Duration::from_secs(6));
        world.crash(to);
        world.run_until(Duration::from_secs(20), "it goes on", |w| beginnings(w).len() == 3);
        let began = beginnings(&world);
        assert!(began[2] >= began[1], "seed {seed}: {began:?}");
        done(&mut world, job, 1);
    }
}

#[test]
fn a_node_that_drains_hands_on_what_runs_and_is_empty() {
    let mut world = world(25, 4);
    let job = job(&mut world, 1);
    let (at, _) = under_way(&mut world, job, 2);
    world.drive(at, NodeInput::Command(Command::Drain));
    world.run_for(Duration::from_secs(2));
    assert_eq!(world.node(at).work(world.now).busy, 0);
    assert!(world.node(at).is_drained(), "its part is done");
    world.kill(at);
    done(&mut world, job, 1);
    assert_eq!(beginnings(&world).len(), 2);
    assert_eq!(world.results(job)[&0].journey.as_ref().unwrap().lost_fuel, 0);
    let lost = world.ran.iter().any(|(_, _, ran)| matches!(ran, Ran::Lost { .. } | Ran::Killed { .. }));
    assert!(!lost, "nothing was computed in vain");
}

#[test]
fn draining_hands_on_jobs_without_checkpoints_too() {
    let mut world = world(26, 3);
    let mut spec = world.sweep(0, 1);
    spec.template.checkpoint = CheckpointEvery::NEVER;
    let job = world.submit(0, spec);
    world.run_until(A_MINUTE, "it runs", |w| runner(w, job).is_some());
    world.run_for(Duration::from_secs(10));
    let at = runner(&world, job).unwrap();
    world.drive(at, NodeInput::Command(Command::Drain));
    world.run_for(Duration::from_secs(6));
    world.kill(at);
    done(&mut world, job, 1);
    assert!(beginnings(&world)[1] > 9.0, "{:?}", beginnings(&world));
}

#[test]
fn what_cannot_be_suspended_is_given_back() {
    let mut world = world(27, 3);
    let job = job(&mut world, 1);
    world.run_until(A_MINUTE, "it runs", |w| runner(w, job).is_some());
    let at = runner(&world, job).unwrap();
    world.nodes[at].engine.immobile = true;
    world.run_for(Duration::from_secs(5));
    world.drive(at, NodeInput::Command(Command::Drain));
    world.run_for(Duration::from_secs(1));
    assert!(world.node(at).is_drained());
    done(&mut world, job, 1);
    assert_eq!(beginnings(&world), [0.0, 0.0]);
}

#[test]
fn a_unit_that_is_paused_takes_no_fuel_until_it_goes_on() {
    let mut world = world(28, 3);
    let job = job(&mut world, 1);
    let (at, _) = under_way(&mut world, job, 2);
    let id = UnitId { job, index: 0 };
    world.drive(0, NodeInput::Command(Command::PauseUnit { unit: id, paused: true }));
    world.run_for(Duration::from_secs(1));
    let fuel = |w: &simulator::World| w.nodes[at].engine.runs(w.now).next().map(|(_, _, fuel)| fuel);
    let before = fuel(&world);
    world.run_for(Duration::from_secs(20));
    assert_eq!(fuel(&world), before);
    assert!(unit(&world, job, 0).paused);
    world.drive(0, NodeInput::Command(Command::PauseUnit { unit: id, paused: false }));
    done(&mut world, job, 1);
}
