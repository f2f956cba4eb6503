//! A node that was gone for a moment is the same node: it goes on with what it had, if that is
//! still wanted. Pages do so when they are loaded again.

use crate::checkpoint::support::{A_MINUTE, A_SECOND, beginnings, done, job, losses, runner, unit, world};
use node_core::bounds::Bounds;
use node_core::ids::JobId;
use node_core::work::spec::{CheckpointEvery, OnLoss};
use node_core::{Command, Config, NodeInput, Platform, Table};
use simulator::World;
use std::time::Duration;

/// Most fuel that may be lost with a runner: a checkpoint interval of 2 s, and a slice.
const BOUND: u64 = 2 * A_SECOND + A_SECOND / 20;

/// A page that keeps so many bytes of its snapshots over a reload.
fn page_with(world: &mut World, left_bytes: u64, slots: u32) -> usize {
    let limits = Bounds { left_bytes, ..Bounds::default() };
    let page =
        world.add(Config { platform: Platform::Browser, slots, limits: limits.into(), ..Config::default() });
    world.connect(0, page);
    world.run_for(Duration::from_secs(1));
    page
}

fn page(world: &mut World) -> usize {
    page_with(world, 1 << 20, 1)
}

/// A job of one unit that this page, the only one with a slot, has been running for a while.
fn running(world: &mut World, page: usize) -> JobId {
    let job = job(world, 1);
    world.run_until(A_MINUTE, "it has checkpoints", |w| unit(w, job, 0).checkpoints >= 3);
    assert_eq!(runner(world, job), Some(page));
    world.run_for(Duration::from_millis(1100));
    job
}

fn start(world: &mut World, at: usize) {
    world.start(at);
    world.connect(0, at);
}

/// It ends with all of its fuel accounted for, and nothing of it is left at the node.
fn ends(world: &mut World, job: JobId, at: usize) {
    done(world, job, 1);
    let result = world.results(job).remove(&0).expect("it is done");
    assert_eq!(result.fuel, 60 * A_SECOND);
    let journey = result.journey.expect("it went some way");
    assert_eq!((journey.spans[0].from, journey.spans.last().map(|span| span.to)), (0, Some(result.fuel)));
    assert!(journey.spans.windows(2).all(|pair| pair[0].to == pair[1].from), "{journey:?}");
    world.run_for(Duration::from_secs(10));
    assert_eq!(world.nodes[at].disk.rows(Table::Left), 0, "what has ended is forgotten");
}

#[test]
fn a_page_that_is_loaded_again_goes_on_with_its_unit() {
    // Before its connection is known to be lost, while the owner waits for it, and long after.
    for away in [0, 50, 500, 1_500, 1_990, 2_100, 6_000, 30_000] {
        let mut world = world(60, 0);
        let page = page(&mut world);
        let job = running(&mut world, page);
        world.kill(page);
        world.run_for(Duration::from_millis(away));
        start(&mut world, page);
        world.run_until(Duration::from_secs(1), "it goes on", |w| beginnings(w).len() > 1);
        let lost = losses(&world);
        assert!(lost.len() == 1 && lost[0] <= BOUND, "{lost:?} after {away} ms");
        ends(&mut world, job, page);
        let journey = world.results(job)[&0].journey.clone().expect("it has one");
        assert_eq!(journey.spans.len(), 1, "it was there all the time: {journey:?}");
        assert_eq!(beginnings(&world).len(), 2, "after {away} ms");
    }
}

#[test]
fn it_takes_its_unit_back_though_others_have_room() {
    let mut world = world(61, 0);
    let page = page(&mut world);
    let job = running(&mut world, page);
    let other = world.add(Config { slots: 1, port: Some(4001), ..Config::default() });
    world.connect(0, other);
    world.run_for(Duration::from_secs(2));
    world.kill(page);
    world.run_for(Duration::from_millis(300));
    start(&mut world, page);
    world.run_until(Duration::from_secs(1), "it goes on", |w| beginnings(w).len() > 1);
    assert_eq!(runner(&world, job), Some(page), "its owner had not given it up");
    ends(&mut world, job, page);
    assert_eq!(beginnings(&world).len(), 2);
}

#[test]
fn what_others_took_over_is_discarded() {
    let mut world = world(62, 0);
    let page = page(&mut world);
    let job = running(&mut world, page);
    let other = world.add(Config { slots: 1, port: Some(4001), ..Config::default() });
    world.connect(0, other);
    world.kill(page);
    world.run_until(A_MINUTE, "it goes on elsewhere", |w| runner(w, job) == Some(other));
    assert_eq!(world.nodes[page].disk.rows(Table::Left), 1);
    start(&mut world, page);
    world.run_for(Duration::from_secs(2));
    assert_eq!(world.nodes[page].disk.rows(Table::Left), 0, "it is not wanted there any more");
    assert_eq!(runner(&world, job), Some(other));
    ends(&mut world, job, page);
    assert_eq!(beginnings(&world).len(), 2);
}

#[test]
fn what_was_cancelled_meanwhile_is_discarded() {
    let mut world = world(63, 0);
    let page = page(&mut world);
    let job = running(&mut world, page);
    world.kill(page);
    world.drive(0, NodeInput::Command(Command::Cancel { job }));
    start(&mut world, page);
    world.run_for(Duration::from_secs(2));
    assert_eq!(world.nodes[page].disk.rows(Table::Left), 0);
    assert_eq!(world.node(page).work(world.now).busy, 0);
}

#[test]
fn a_job_can_wait_for_a_page_that_is_loaded_again() {
    let mut world = world(64, 0);
    let page = page(&mut world);
    let mut spec = world.sweep(0, 1);
    spec.template.checkpoint = CheckpointEvery(2_000_000);
    spec.template.on_loss = OnLoss::Wait(600_000_000);
    let job = world.submit(0, spec);
    world.run_until(A_MINUTE, "it has checkpoints", |w| unit(w, job, 0).checkpoints >= 3);
    let other = world.add(Config { slots: 1, port: Some(4001), ..Config::default() });
    world.connect(0, other);
    world.kill(page);
    world.run_for(A_MINUTE * 5);
    assert_eq!(runner(&world, job), None, "others have room, but it is waited for");
    start(&mut world, page);
    world.run_until(A_MINUTE, "it goes on", |w| runner(w, job) == Some(page));
    ends(&mut world, job, page);
    assert!(losses(&world).iter().all(|lost| *lost <= BOUND), "{:?}", losses(&world));
}

#[test]
fn the_newer_counts_whether_it_lies_here_or_with_a_keeper() {
    // The page's disk is that of an earlier moment.
    let mut world = world(65, 0);
    let page = page(&mut world);
    let job = running(&mut world, page);
    let earlier = world.nodes[page].disk.clone();
    let before = unit(&world, job, 0).checkpoints;
    world.run_until(A_MINUTE, "there are newer ones", |w| unit(w, job, 0).checkpoints > before + 4);
    world.kill(page);
    world.nodes[page].disk = earlier;
    start(&mut world, page);
    world.run_until(Duration::from_secs(1), "it goes on", |w| beginnings(w).len() > 1);
    assert_eq!(world.nodes[page].disk.rows(Table::Left), 0, "what is older is forgotten");
    ends(&mut world, job, page);
    assert!(losses(&world).iter().all(|lost| *lost <= BOUND), "{:?}", losses(&world));

    // The keeper has none of late.
    let mut world = self::world(66, 0);
    let page = self::page(&mut world);
    let job = running(&mut world, page);
    world.nodes[0].disk.full = true;
    world.run_for(Duration::from_secs(12));
    world.kill(page);
    world.nodes[0].disk.full = false;
    start(&mut world, page);
    ends(&mut world, job, page);
    // The interval grows while keepers do not answer.
    assert!(losses(&world).iter().all(|lost| *lost < 10 * A_SECOND), "{:?}", losses(&world));
    assert!(beginnings(&world)[1] > 10.0, "{:?}", beginnings(&world));
}

#[test]
fn a_page_that_is_loaded_again_and_again_gets_on() {
    let mut world = world(67, 0);
    let page = page(&mut world);
    let job = running(&mut world, page);
    for n in 0..20 {
        world.kill(page);
        world.run_for(Duration::from_millis(n * 130));
        start(&mut world, page);
        // Now and then before it has begun, or before it has a checkpoint.
        world.run_for(Duration::from_millis([20, 150, 700, 3_000][n as usize % 4]));
    }
    ends(&mut world, job, page);
    assert!(losses(&world).iter().all(|lost| *lost <= 2 * BOUND), "{:?}", losses(&world));
    assert_eq!(world.results(job)[&0].journey.as_ref().map(|journey| journey.spans.len()), Some(1));
}

#[test]
fn owner_and_page_come_back_in_any_order() {
    for gateway_first in [true, false] {
        let mut world = world(68, 0);
        let page = page(&mut world);
        let job = running(&mut world, page);
        world.kill(page);
        world.crash(0);
        world.run_for(Duration::from_secs(1));
        let order = if gateway_first { [0, page] } else { [page, 0] };
        for at in order {
            world.start(at);
            world.run_for(Duration::from_secs(1));
        }
        world.connect(0, page);
        world.run_until(A_MINUTE, "it goes on", |w| runner(w, job) == Some(page));
        ends(&mut world, job, page);
        assert!(losses(&world).iter().all(|lost| *lost <= BOUND), "{:?}", losses(&world));
    }
}

#[test]
fn an_owner_that_is_still_starting_is_asked_again() {
    let mut world = world(75, 0);
    let page = page(&mut world);
    let job = running(&mut world, page);
    world.nodes[0].disk.full = true;
    world.run_for(Duration::from_secs(12));
    world.kill(page);
    world.crash(0);
    world.nodes[0].disk.full = false;
    world.nodes[0].disk.slow = 300_000;
    world.start(0);
    start(&mut world, page);
    assert!(!world.node(0).is_ready());
    ends(&mut world, job, page);
    assert!(beginnings(&world)[1] > 10.0, "it has the newest: {:?}", beginnings(&world));
}

#[test]
fn what_is_kept_is_bounded_and_the_oldest_goes_first() {
    let mut world = world(69, 0);
    // Snapshots of 2,000 bytes, later ones with their base: of three units, one or two fit.
    let page = page_with(&mut world, 5_000, 3);
    let job = job(&mut world, 3);
    world.run_until(A_MINUTE, "all have checkpoints", |w| (0..3).all(|n| unit(w, job, n).checkpoints >= 2));
    world.run_for(Duration::from_millis(500));
    let kept = |w: &World| w.nodes[page].disk.keys(Table::Left).map(<[u8]>::to_vec).collect::<Vec<_>>();
    let before = kept(&world);
    assert!((1..3).contains(&before.len()), "{before:?} are kept");
    world.run_until(Duration::from_secs(3), "others take their place", |w| kept(w) != before);
    world.kill(page);
    start(&mut world, page);
    done(&mut world, job, 3);
    world.run_for(Duration::from_secs(10));
    assert_eq!(world.nodes[page].disk.rows(Table::Left), 0);
    assert!(losses(&world).iter().all(|lost| *lost <= BOUND), "{:?}", losses(&world));
}

#[test]
fn a_disk_that_lost_what_it_kept_costs_no_more_than_a_lost_page() {
    let mut world = world(70, 0);
    let page = page(&mut world);
    let job = running(&mut world, page);
    world.kill(page);
    let blobs: Vec<_> = world.nodes[page].disk.blobs().map(|(id, _)| id).collect();
    blobs.into_iter().for_each(|id| world.nodes[page].disk.lose_blob(id));
    start(&mut world, page);
    ends(&mut world, job, page);
    assert!(losses(&world).iter().all(|lost| *lost <= BOUND), "{:?}", losses(&world));
}

#[test]
fn a_page_that_drained_and_reached_nobody_has_it_still() {
    let mut world = world(71, 0);
    let page = page(&mut world);
    let job = running(&mut world, page);
    // It goes: its last snapshot gets to its own disk, and the word of it nowhere.
    world.drive(page, NodeInput::Command(Command::Drain));
    world.run_until(A_MINUTE, "it is suspended", |w| w.node(page).work(w.now).busy == 0);
    world.part(&[page]);
    world.run_for(Duration::from_secs(8));
    assert!(world.node(page).is_drained());
    world.kill(page);
    world.heal();
    start(&mut world, page);
    ends(&mut world, job, page);
    let stopped = world.ran.iter().find_map(|(_, _, ran)| match ran {
        simulator::engine::Ran::Stopped { fuel, .. } => Some(*fuel as f64 / A_SECOND as f64),
        _ => None,
    });
    assert_eq!(beginnings(&world), [0.0, stopped.expect("it was stopped")], "nothing was lost");
}

#[test]
fn a_node_that_is_to_keep_nothing_writes_nothing() {
    let mut world = world(72, 0);
    let page = page_with(&mut world, 0, 1);
    running(&mut world, page);
    assert_eq!(world.nodes[page].disk.rows(Table::Left), 0);
}

#[test]
fn a_unit_that_ends_its_page_each_time_is_held() {
    let mut world = world(73, 0);
    let page = page(&mut world);
    let job = running(&mut world, page);
    for _ in 0..10 {
        world.kill(page);
        start(&mut world, page);
        world.run_for(Duration::from_millis(600));
    }
    assert_eq!(world.job(job).map(|view| view.held), Some(1), "it never got to a checkpoint");
}

#[test]
fn keepers_keep_nothing_for_a_page_that_came_back_and_ended() {
    let mut world = world(74, 3);
    let page = page(&mut world);
    let job = job(&mut world, 4);
    world.run_until(A_MINUTE, "the page keeps something", |w| w.nodes[page].disk.rows(Table::Left) > 0);
    for _ in 0..3 {
        world.kill(page);
        world.run_for(Duration::from_millis(400));
        start(&mut world, page);
        world.run_for(Duration::from_secs(5));
    }
    done(&mut world, job, 4);
    world.run_for(A_MINUTE);
    (0..world.nodes.len()).for_each(|at| assert_eq!(world.node(at).kept(), (0, 0), "node {at}"));
    assert_eq!(world.node(page).work(world.now).busy, 0);
    assert_eq!(world.nodes[page].disk.rows(Table::Left), 0);
}
