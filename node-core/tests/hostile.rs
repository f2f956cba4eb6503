//! Stories of peers that lie: nobody submits, spends, finishes or fills what is not theirs.

use bytes::Bytes;
use node_core::bounds::Bounds;
use node_core::ids::JobId;
use node_core::ids::{BlobId, UnitId};
use node_core::work::spec::{CheckpointEvery, UnitResult};
use node_core::work::view::UnitState;

use node_core::content::{BlobRef, Data, NamedData};
use node_core::node::message::Message;
use node_core::store::Message as Content;
use node_core::store::tree::{CHUNK, chaining_value};
use node_core::work::message::{Message as Work, ToOwner};

use node_core::{Command, Config, NodeEvent, NodeInput};
use sandbox::{Outcome, Task};
use simulator::engine::UNFIT;
use simulator::liar::MADE_UP_FUEL;
use simulator::liar::{Granted, Liar, Lie};
use simulator::world::id_of;
use simulator::{World, echo};
use std::time::Duration;

/// Long enough that lies come first.
fn slow(task: &Task) -> (Duration, Outcome) {
    let (_, outcome) = echo(task);
    (Duration::from_secs(20), outcome)
}

/// A gateway with a slot, an honest worker, and a worker that lies about the job that comes next.
fn world(seed: u64, lie: Lie, units: u32) -> (World, usize, JobId) {
    let mut world = World::seed(seed).with(slow).swarm(1, 1);
    let liar = world.add(Config { name: "liar".into(), ..Config::default() });
    let mut spec = world.sweep(0, units);
    spec.template.checkpoint = CheckpointEvery::NEVER;
    let job = world.submit(0, spec);
    world.liars.insert(liar, Liar::new(lie, job, units));
    world.connect(0, liar);
    (world, liar, job)
}

fn blamed(world: &World, who: usize) -> bool {
    let liar = world.nodes[who].id;
    let blames = |event: &NodeEvent| matches!(event, NodeEvent::PeerFault { peer, .. } if *peer == liar);
    world.told.iter().any(|(_, at, event)| *at == 0 && blames(event))
}

#[test]
fn a_stranger_gives_the_gateway_no_job() {
    for (seed, lie) in [(1, Lie::Submit), (2, Lie::Buy)] {
        let mut world = World::seed(seed).swarm(1, 1);
        let program = world.upload(0, b"a program");
        let liar = world.add(Config::default());
        let job = JobId([7; 16]);
        world.liars.insert(liar, Liar { program, ..Liar::new(lie, job, 3) });
        world.connect(0, liar);
        world.run_for(Duration::from_secs(10));
        assert!(world.job(job).is_none(), "{lie:?}");
        assert!(world.ran.is_empty(), "{lie:?}: nothing of it runs");
    }
}

#[test]
fn whom_the_operator_let_in_gives_it_jobs_and_ends_its_own() {
    let mut world = World::seed(3);
    let submitters = [(id_of(1), 1)].into();
    world.add(Config { gateway: true, slots: 0, submitters, ..Config::default() });
    for _ in 0..2 {
        let at = world.add(Config::default());
        world.connect(0, at);
    }
    world.run_for(Duration::from_secs(1));
    let mut spec = world.sweep(1, 5);
    let job = world.submit(1, spec.clone());
    world.run_until(Duration::from_secs(10), "the job is over", |w| w.is_over(job));
    world.assert_all_right(job, 5);
    // Bounds are the same as at the API.
    spec.priority = i32::MAX;
    let greedy = world.submit(1, spec.clone());
    world.run_until(Duration::from_secs(10), "an answer", |w| w.refusal(greedy).is_some());
    assert!(world.refusal(greedy).unwrap().contains("priority"));
    // Nobody else is let in by that.
    spec.priority = 0;
    let others = world.submit(2, spec);
    world.run_until(Duration::from_secs(10), "an answer", |w| w.refusal(others).is_some());
    let why = world.refusal(others).unwrap();
    assert!(why.contains(&format!("--submitter {}", world.nodes[2].id)), "{why}");
}

#[test]
fn what_comes_over_the_wire_is_looked_into_as_at_the_api() {
    let mut world = World::seed(15);
    world.add(Config { gateway: true, submitters: [(id_of(1), 1)].into(), ..Config::default() });
    let let_in = world.add(Config::default());
    world.connect(0, let_in);
    world.run_for(Duration::from_secs(1));
    let mut spec = world.sweep(1, 5);
    spec.template.program = world.upload(1, b"no program");
    world.nodes[0].engine.unfit.insert(spec.template.program.id);
    let job = world.submit(1, spec);
    world.run_until(Duration::from_secs(10), "an answer", |w| w.refusal(job).is_some());
    assert!(world.refusal(job).unwrap().contains(UNFIT));
    assert!(world.job(job).is_none() && world.ran.is_empty(), "nobody runs it");
}

#[test]
fn whom_the_operator_let_in_does_not_spend_the_gateways_credit() {
    use node_core::money::Micro;
    use node_core::work::spec::{Find, Terms};
    let mut world = World::seed(4);
    world.add(Config { gateway: true, submitters: [(id_of(1), 1)].into(), ..Config::default() });
    world.add(Config::default());
    world.connect(0, 1);
    world.run_for(Duration::from_secs(1));
    let mut spec = world.sweep(1, 1);
    spec.template.limits.fuel = 1_000_000;
    spec.find = Find::Cheapest(Terms { max_price: Micro(1_000), max_price_job: None, min_speed: 0 });
    let job = world.submit(1, spec);
    world.run_until(Duration::from_secs(10), "an answer", |w| w.refusal(job).is_some());
    assert!(world.refusal(job).unwrap().contains("whose account pays"));
}

#[test]
fn nobody_ends_units_that_it_was_not_granted() {
    for (seed, lie) in [(5, Lie::Forge), (6, Lie::Fail), (7, Lie::Ungranted)] {
        let (mut world, liar, job) = world(seed, lie, 20);
        if lie == Lie::Ungranted {
            world.run_for(Duration::from_secs(1));
        }
        world.run_for(Duration::from_secs(10));
        let view = world.job(job).unwrap();
        assert_eq!((view.done, view.failed), (0, 0), "{lie:?}");
        assert!(blamed(&world, liar), "{lie:?}");
        world.liars.clear();
        world.run_until(Duration::from_secs(1_000), "the job is over", |w| w.is_over(job));
        world.assert_all_right(job, 20);
    }
}

#[test]
fn a_gateway_that_began_anew_knows_to_whom_it_granted_what() {
    let (mut world, liar, job) = world(8, Lie::Ungranted, 6);
    world.run_for(Duration::from_secs(10));
    world.liars.clear();
    world.crash(0);
    world.run_for(Duration::from_secs(1));
    world.start(0);
    world.liars.insert(liar, Liar::new(Lie::Ungranted, job, 6));
    world.connect(0, 1);
    world.connect(0, liar);
    world.run_until(Duration::from_secs(1_000), "the job is over", |w| w.is_over(job));
    world.assert_all_right(job, 6);
    assert!(blamed(&world, liar));
}

#[test]
fn results_beyond_the_jobs_bounds_are_not_kept() {
    for (seed, lie) in [(9, Lie::Big), (10, Lie::Path)] {
        let mut world = World::seed(seed).swarm(1, 1);
        let liar = world.add(Config::default());
        world.liars.insert(liar, Liar::new(lie, JobId([0; 16]), 0));
        world.connect(0, liar);
        let spec = world.sweep(0, 40);
        let job = world.submit(0, spec);
        world.run_until(Duration::from_secs(100), "the job is over", |w| w.is_over(job));
        world.assert_all_right(job, 40);
        assert!(blamed(&world, liar), "{lie:?}");
        let by_liar = world.job(job).unwrap().by_node.iter().any(|(node, ..)| *node == world.nodes[liar].id);
        assert!(!by_liar, "{lie:?}: none of its results counts");
    }
}

#[test]
fn nobody_comes_back_with_units_that_it_never_had() {
    // Nobody else runs them, so that they wait.
    let mut world = World::seed(11).with(slow).swarm(0, 0);
    let spec = world.sweep(0, 3);
    let job = world.submit(0, spec);
    let liar = world.add(Config { slots: 0, ..Config::default() });
    world.liars.insert(liar, Liar::new(Lie::Return, job, 3));
    world.connect(0, liar);
    world.run_for(Duration::from_secs(5));
    assert!(blamed(&world, liar));
    let view = world.node(0).units(job, 0, 10).unwrap();
    assert!(view.iter().all(|unit| unit.state == UnitState::Waiting && unit.fuel == 0));
}

#[test]
fn nobody_has_or_keeps_checkpoints_of_units_that_it_was_not_granted() {
    let mut world = World::seed(16).with(|task| (Duration::from_secs(60), echo(task).1));
    world.add(Config { gateway: true, slots: 0, port: Some(4001), ..Config::default() });
    for _ in 0..3 {
        let at = world.add(Config { slots: 1, port: Some(4001), ..Config::default() });
        world.connect(0, at);
    }
    world.run_for(Duration::from_secs(5));
    let mut spec = world.sweep(0, 3);
    spec.template.checkpoint = CheckpointEvery(2_000_000);
    let job = world.submit(0, spec);
    let units = |world: &World| world.node(0).units(job, 0, 3).unwrap();
    let patience = Duration::from_secs(60);
    world.run_until(patience, "each has checkpoints", |w| units(w).iter().all(|unit| unit.checkpoints > 1));
    // It has no slot, and is nobody's keeper.
    let liar = world.add(Config { slots: 0, ..Config::default() });
    let before = units(&world);
    world.liars.insert(liar, Liar::new(Lie::Checkpoint, job, 3));
    world.connect(0, liar);
    let id = world.nodes[liar].id;
    world.run_until(patience, "each has more of them", |w| {
        let now = units(w);
        for unit in &now {
            assert!(unit.fuel < MADE_UP_FUEL && !unit.keepers.contains(&id), "{unit:?}");
        }
        now.iter().zip(&before).all(|(now, before)| now.checkpoints > before.checkpoints + 2)
    });
    // They go on from what was made of them.
    world.crash(1);
    world.run_until(Duration::from_secs(600), "the job is over", |w| w.is_over(job));
    world.assert_all_right(job, 3);
    for result in world.results(job).values() {
        let spans = result.journey.iter().flat_map(|journey| &journey.spans);
        assert!(spans.clone().all(|span| span.runner != id), "{result:?}");
    }
}

#[test]
fn a_result_whose_content_never_comes_does_not_drop_an_honest_one() {
    let mut world = World::seed(12).with(slow).swarm(1, 1);
    let mut spec = world.sweep(0, 1);
    spec.template.checkpoint = CheckpointEvery::NEVER;
    let job = world.submit(0, spec);
    world.run_for(Duration::from_secs(2));
    // The honest worker is cut off, runs on, and ends; meanwhile another is granted the unit.
    world.part(&[1]);
    let liar = world.add(Config::default());
    world.liars.insert(liar, Liar::new(Lie::Blob, job, 1));
    world.connect(0, liar);
    world.run_until(Duration::from_secs(200), "the liar has run it, too", |w| w.ran.len() == 2);
    let at_liar =
        |world: &World| world.node(0).units(job, 0, 1).unwrap()[0].runner == Some(world.nodes[liar].id);
    world.run_until(Duration::from_secs(200), "it is at the liar", at_liar);
    world.run_for(Duration::from_secs(21));
    world.heal();
    world.connect(0, 1);
    world.run_until(Duration::from_secs(300), "the job is over", |w| w.is_over(job));
    world.assert_all_right(job, 1);
    assert_eq!(world.results(job)[&0].runner, world.nodes[1].id);
}

#[test]
fn a_runner_that_never_sends_what_a_unit_left_keeps_it_not_for_ever() {
    let (mut world, liar, job) = world(23, Lie::Blob, 2);
    let at_liar = |world: &World| {
        world.node(0).units(job, 0, 2).unwrap().iter().any(|unit| unit.runner == Some(world.nodes[liar].id))
    };
    world.run_until(Duration::from_secs(10), "one of them is at the liar", at_liar);
    // A megabyte may take a minute on the slowest line, three times.
    world.run_until(Duration::from_secs(300), "the job is over", |w| w.is_over(job));
    world.assert_all_right(job, 2);
    let ran_by_liar = |result: &UnitResult| result.runner == world.nodes[liar].id;
    assert!(!world.results(job).values().any(ran_by_liar));
}

#[test]
fn what_a_runner_has_no_more_does_not_hold_up_what_else_it_reports() {
    let (mut world, liar, job, grants) = hoarder(24, 2, 2);
    let gateway = world.nodes[0].id;
    let lacks = BlobRef { id: BlobId([9; 32]), len: 10 };
    let results = [Data::Blob(lacks), Data::Inline("1".into())].into_iter().zip(&grants);
    let results = results.flat_map(|(out, granted)| match granted.report(0, out, Data::EMPTY) {
        Message::Work(Work::ToOwner(ToOwner::Report { results, .. })) => results,
        other => panic!("{other:?} is no report"),
    });
    let report = Message::Work(Work::ToOwner(ToOwner::Report { seq: 1, results: results.collect() }));
    for _ in 0..3 {
        assert_eq!(world.job(job).unwrap().done, 0);
        world.tell(liar, gateway, &report);
        world.run_for(Duration::from_millis(500));
        world.tell(liar, gateway, &Message::Store(Content::Missing { id: lacks.id }));
        world.run_for(Duration::from_millis(500));
    }
    let view = world.job(job).unwrap();
    assert_eq!((view.done, view.waiting), (1, 1), "the other counts, and this one runs elsewhere");
}

#[test]
fn a_runner_has_so_many_blobs_on_their_way_and_no_more() {
    let (mut world, liar, _, grants) = hoarder(25, 5, 5);
    let gateway = world.nodes[0].id;
    for (seq, granted) in (1..).zip(&grants) {
        // As many files as there may be. None of them ever comes.
        let file = |n: u16| {
            let mut id = [seq as u8; 32];
            id[..2].copy_from_slice(&n.to_le_bytes());
            let blob = BlobRef { id: BlobId(id), len: 10 };
            NamedData { path: format!("{n}"), data: Data::Blob(blob) }
        };
        world.tell(liar, gateway, &granted.leaves(seq, (0..2_000).map(file).collect()));
    }
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.liars[&liar].not_written, [5], "the fifth has to wait");
}

/// A gateway, and a liar that is granted so many units and says nothing of them.
fn hoarder(seed: u64, units: u32, slots: u32) -> (World, usize, JobId, Vec<Granted>) {
    let mut world = World::seed(seed).with(slow).swarm(0, 0);
    let liar = world.add(Config { slots, name: "liar".into(), ..Config::default() });
    world.liars.insert(liar, Liar::new(Lie::Hoard, JobId([0; 16]), 0));
    world.connect(0, liar);
    let mut spec = world.sweep(0, units);
    spec.template.checkpoint = CheckpointEvery::NEVER;
    let job = world.submit(0, spec);
    world.run_for(Duration::from_secs(2));
    let grants = world.liars[&liar].grants.clone();
    assert_eq!(grants.len(), units as usize, "it was granted all of them");
    (world, liar, job, grants)
}

#[test]
fn content_of_results_that_do_not_count_does_not_stay() {
    let (mut world, liar, job, grants) = hoarder(16, 1, 1);
    let gateway = world.nodes[0].id;
    let lacks = BlobRef { id: BlobId([9; 32]), len: 10 };
    let mut came = 0;
    for seq in 1..=5 {
        // One blob is there, and another it does not have.
        let blob = world.upload(liar, &[seq as u8; 300_000]);
        world.tell(liar, gateway, &grants[0].report(1 << 40 | seq, Data::Blob(blob), Data::Blob(lacks)));
        world.run_for(Duration::from_secs(1));
        came += usize::from(world.nodes[0].disk.blob(blob.id).is_some());
        world.tell(liar, gateway, &Message::Store(Content::Missing { id: lacks.id }));
        world.run_for(Duration::from_secs(1));
    }
    let left = world.nodes[0].disk.blobs().filter(|(_, len)| *len == 300_000).count();
    assert_eq!((came, left), (5, 0), "what came, and what is left of it");
    // Content of a result that counts stays.
    let blob = world.upload(liar, b"0");
    world.tell(liar, gateway, &grants[0].report(1 << 50, Data::Blob(blob), Data::EMPTY));
    world.run_until(Duration::from_secs(10), "the job is over", |w| w.is_over(job));
    world.run_for(Duration::from_secs(100));
    assert!(world.nodes[0].disk.blob(blob.id).is_some());
}

/// Chunks of a blob that is never whole, as its source sends them.
fn drop_of(blob: &[u8], index: u32) -> Message {
    let chunk = blob.chunks(CHUNK as usize).nth(index as usize).expect("it has not ended yet");
    let (id, bytes) = (BlobId::of(blob), Bytes::copy_from_slice(chunk));
    Message::Store(Content::Chunk { id, index, bytes })
}

#[test]
fn a_past_grant_keeps_no_unit_from_others() {
    let (mut world, liar, job, grants) = hoarder(17, 2, 2);
    let gateway = world.nodes[0].id;
    grants.iter().for_each(|granted| world.tell(liar, gateway, &granted.not_begun()));
    let honest = world.add(Config { slots: 2, ..Config::default() });
    world.connect(0, honest);
    let id = world.nodes[honest].id;
    let there = |w: &World| w.node(0).units(job, 0, 2).unwrap().iter().all(|unit| unit.runner == Some(id));
    world.run_until(Duration::from_secs(10), "an honest node has both", there);
    // The liar names content that never comes for one unit, and content that comes a chunk at a time for the
    // other.
    let blob: Vec<u8> = (0..40 * CHUNK).map(|n| (n ^ (n >> 18)) as u8).collect();
    let dripping = BlobRef { id: BlobId::of(&blob), len: blob.len() as u64 };
    let silent = BlobRef { id: BlobId([8; 32]), len: 1000 };
    let tree: Vec<_> =
        blob.chunks(CHUNK as usize).enumerate().map(|(n, chunk)| chaining_value(n as u32, chunk)).collect();
    for index in 0..30 {
        // It repeats its reports as soon as they were refused, and more often.
        for (n, blob) in [silent, dripping].into_iter().enumerate() {
            let report = grants[n].report(n as u64 + 1, Data::Blob(blob), Data::EMPTY);
            world.tell(liar, gateway, &report);
        }
        if index == 0 {
            world.run_for(Duration::from_millis(500));
            let values = Bytes::from(tree.concat());
            world.tell(liar, gateway, &Message::Store(Content::Tree { id: dripping.id, values }));
        }
        world.run_for(Duration::from_millis(500));
        world.tell(liar, gateway, &drop_of(&blob, index));
        world.run_for(Duration::from_millis(2_500));
    }
    assert!(world.is_over(job), "{:#?}", world.node(0).units(job, 0, 2));
    world.assert_all_right(job, 2);
    assert_eq!(world.job(job).unwrap().by_node.len(), 1, "the honest node's count");
    assert_eq!(world.job(job).unwrap().lost_placements, 0);
}

#[test]
fn pieces_of_what_never_comes_whole_do_not_stay() {
    let (mut world, liar, _, grants) = hoarder(21, 1, 1);
    let gateway = world.nodes[0].id;
    let blob: Vec<u8> = (0..40 * CHUNK).map(|n| (n ^ (n >> 18)) as u8).collect();
    let half = BlobRef { id: BlobId::of(&blob), len: blob.len() as u64 };
    let tree: Vec<_> =
        blob.chunks(CHUNK as usize).enumerate().map(|(n, chunk)| chaining_value(n as u32, chunk)).collect();
    world.tell(liar, gateway, &grants[0].report(1, Data::Blob(half), Data::EMPTY));
    world.run_for(Duration::from_millis(500));
    let values = Bytes::from(tree.concat());
    world.tell(liar, gateway, &Message::Store(Content::Tree { id: half.id, values }));
    for index in 0..10 {
        world.run_for(Duration::from_millis(500));
        world.tell(liar, gateway, &drop_of(&blob, index));
    }
    world.run_for(Duration::from_millis(500));
    assert_eq!(world.nodes[0].disk.unfinished(), 10 * CHUNK);
    world.tell(liar, gateway, &Message::Store(Content::Missing { id: half.id }));
    world.run_for(Duration::from_millis(500));
    assert_eq!(world.nodes[0].disk.unfinished(), 0);
}

#[test]
fn a_result_counts_once_a_report() {
    let (mut world, liar, job, grants) = hoarder(22, 1, 1);
    let Message::Work(Work::ToOwner(ToOwner::Report { seq, results })) =
        grants[0].report(1, Data::EMPTY, Data::EMPTY)
    else {
        panic!("it is a report")
    };
    let results = std::iter::repeat_n(results[0].clone(), 10).collect();
    world.tell(liar, world.nodes[0].id, &Message::Work(Work::ToOwner(ToOwner::Report { seq, results })));
    world.run_until(Duration::from_secs(5), "the job is over", |w| w.is_over(job));
    assert!(blamed(&world, liar));
    assert_eq!(world.job(job).unwrap().duplicates, 0);
}

#[test]
fn a_unit_is_taken_from_a_runner_that_does_nothing_when_somebody_moves_it() {
    let (mut world, _, job, _) = hoarder(18, 1, 1);
    world.run_for(Duration::from_secs(60));
    let honest = world.add(Config::default());
    world.connect(0, honest);
    world.run_for(Duration::from_secs(60));
    assert!(!world.is_over(job), "it is where nothing is heard of it");
    let unit = UnitId { job, index: 0 };
    world.drive(0, NodeInput::Command(Command::Migrate { unit, to: None }));
    world.run_until(Duration::from_secs(60), "the job is over", |w| w.is_over(job));
    world.assert_all_right(job, 1);
    assert_eq!(world.results(job)[&0].runner, world.nodes[honest].id);
    assert!(world.told.iter().any(|(_, _, event)| matches!(event, NodeEvent::Migrated { .. })));
}

#[test]
fn what_a_runner_says_of_its_time_and_of_its_grants_makes_no_node_panic() {
    let (mut world, liar, first, grants) = hoarder(19, 1, 2);
    let gateway = world.nodes[0].id;
    for _ in 0..2 {
        let beat = ToOwner::Heartbeat {
            lease: grants[0].lease,
            grants: u64::MAX,
            units: Some(vec![(first, vec![0])]),
        };
        world.tell(liar, gateway, &Message::Work(Work::ToOwner(beat)));
        world.run_for(Duration::from_millis(100));
    }
    let mut spec = world.sweep(0, 1);
    spec.template.checkpoint = CheckpointEvery::NEVER;
    let second = world.submit(0, spec);
    world.run_for(Duration::from_secs(2));
    let grants = world.liars[&liar].grants.clone();
    assert_eq!(grants.len(), 2, "it is granted one more under that lease");
    for (seq, granted) in grants.iter().enumerate() {
        let Message::Work(Work::ToOwner(ToOwner::Report { seq, mut results })) =
            granted.report(seq as u64 + 1, Data::EMPTY, Data::EMPTY)
        else {
            panic!("it is a report")
        };
        results[0].result.cpu_us = u64::MAX;
        world.tell(liar, gateway, &Message::Work(Work::ToOwner(ToOwner::Report { seq, results })));
    }
    world.run_until(Duration::from_secs(5), "both jobs are over", |w| w.is_over(first) && w.is_over(second));
    let view = world.node(0).nodes(world.now);
    assert!(view.iter().any(|node| node.cpu_us == u64::MAX), "it is shown as what it said");
}

#[test]
fn nobody_changes_what_a_job_runs() {
    let mut world = World::seed(13).with(slow).swarm(1, 2);
    let evil = world.add(Config { gateway: true, slots: 0, ..Config::default() });
    world.connect(1, evil);
    world.run_for(Duration::from_secs(1));
    // A gateway that knows the id of a job comes first, with a job of that id that does something else.
    let mut spec = world.sweep(evil, 1);
    spec.template.arguments = vec!["evil".into()];
    let job = world.submit(evil, spec);
    world.run_for(Duration::from_secs(2));
    assert_eq!(world.node(1).work(world.now).busy, 1);
    let spec = world.sweep(0, 2);
    world.drive(0, NodeInput::Command(Command::Submit { job, spec }));
    world.run_until(Duration::from_secs(400), "the job is over", |w| w.is_over(job));
    world.assert_all_right(job, 2);
}

#[test]
fn jobs_fill_no_memory() {
    let mut world = World::seed(14).with(slow);
    let limits = Bounds { jobs_bytes: 1_000_000, ..Bounds::default() };
    world.add(Config { gateway: true, slots: 0, limits: limits.into(), ..Config::default() });
    world.run_for(Duration::from_secs(1));
    let submit = |world: &mut World| {
        let mut spec = world.sweep(0, 15_000);
        spec.template.environment = vec![("A".into(), "a".repeat(100_000))];
        let job = world.submit(0, spec);
        world.run_for(Duration::from_secs(1));
        job
    };
    let taken = [submit(&mut world), submit(&mut world)];
    taken.iter().for_each(|job| assert_eq!(world.refusal(*job), None));
    let third = submit(&mut world);
    let why = world.refusal(third).expect("it is refused");
    assert!(why.contains("of the node's memory") && why.contains("cancel some"), "{why}");
    // A job that has ended makes room, and only for one that then fits.
    world.drive(0, NodeInput::Command(Command::Cancel { job: taken[0] }));
    world.run_for(Duration::from_secs(1));
    let mut huge = world.sweep(0, 40_000);
    huge.name = "huge".into();
    let huge = world.submit(0, huge);
    world.run_for(Duration::from_secs(1));
    assert!(world.refusal(huge).is_some() && world.job(taken[0]).is_some(), "nothing was forgotten for it");
    let fourth = submit(&mut world);
    assert_eq!(world.refusal(fourth), None);
    assert!(world.job(taken[0]).is_none() && world.job(taken[1]).is_some());
    // So it is in its next life.
    world.crash(0);
    world.start(0);
    world.run_for(Duration::from_secs(1));
    let fifth = submit(&mut world);
    assert!(world.refusal(fifth).is_some());
}
