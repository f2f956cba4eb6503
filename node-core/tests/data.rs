//! Stories of jobs with content: many small inputs and outputs, far and slow lines, sources that
//! are silent or busy.

use bytes::Bytes;
use node_core::content::{BlobRef, Data, NamedData};
use node_core::ids::JobId;
use node_core::node::message::Message;
use node_core::store::Message as Content;
use node_core::work::spec::{JobSpec, UnitSpec, Units};
use node_core::{Config, NodeEvent, NodeInput};
use sandbox::{File, Outcome, Task};
use simulator::network::{Latency, Mischief};
use simulator::{World, ended};
use std::time::Duration;

const A_MINUTE: Duration = Duration::from_secs(60);

/// Content that differs from unit to unit.
fn content(unit: u32, len: usize) -> Vec<u8> {
    let number = unit.to_be_bytes();
    (0..len).map(|i| number.get(i).copied().unwrap_or((i as u32 ^ unit.wrapping_mul(40503)) as u8)).collect()
}

/// Says its argument, and leaves a file of the length that stands in the environment: what came in,
/// repeated.
fn transform(task: &Task) -> (Duration, Outcome) {
    let len: usize = task.environment[0].1.parse().unwrap_or(0);
    let data = &task.files[0].data;
    let out: Vec<u8> = data.iter().cycle().take(len).copied().collect();
    let files = vec![File { path: "out".into(), data: out.into() }];
    let stdout = Bytes::from(task.arguments[0].clone());
    (Duration::from_millis(1), Outcome { stdout, files, cpu_us: 1_000, ..ended(0) })
}

/// A gateway and one worker with two slots, between them this latency and bandwidth.
fn pair(seed: u64, latency_us: u64, bandwidth: u64) -> World {
    let mut world = World::seed(seed).with(transform);
    world.network.latency = Latency::Constant(latency_us);
    world.network.bandwidth = bandwidth;
    world.swarm(1, 2)
}

/// A job in which each unit has an input blob of `input` bytes and leaves `output` bytes.
fn job(world: &mut World, units: u32, input: usize, output: usize) -> JobSpec {
    let mut spec = world.sweep(0, 0);
    spec.template.environment = vec![("LEN".into(), output.to_string())];
    let units = (0..units).map(|unit| {
        let blob = world.upload(0, &content(unit, input));
        UnitSpec {
            arguments: Some(vec![unit.to_string()]),
            stdin: None,
            files: vec![NamedData { path: "in".into(), data: Data::Blob(blob) }],
        }
    });
    spec.units = Units::List(units.collect());
    spec
}

/// The job ends within `patience`; nobody declines and nothing is lost meanwhile.
fn ends_well(world: &mut World, job: JobId, units: u32, output: usize, patience: Duration) {
    world.run_until(patience, "the job is done", |w| {
        let view = w.job(job);
        if let Some(view) = &view {
            assert!(!view.reason.contains("declined"), "{}", view.reason);
            assert_eq!(view.lost_placements, 0, "{}", view.reason);
        }
        view.is_some_and(|view| view.state.is_over())
    });
    world.assert_all_right(job, units);
    assert_eq!(world.job(job).unwrap().lost_placements, 0);
    assert!(world.faults(0).is_empty() && world.faults(1).is_empty(), "nobody is at fault");
    for (unit, result) in world.results(job) {
        let out = match &result.files[0].data {
            Data::Inline(bytes) => bytes.clone(),
            Data::Blob(blob) => world.nodes[0].disk.blob(blob.id).expect("it was fetched").clone(),
        };
        assert_eq!(out.len(), output);
        assert_eq!(out[..20], content(unit, 20)[..], "unit {unit}");
    }
}

fn three_hundred_files(seed: u64, latency_us: u64, output: usize, seconds: u64) {
    let mut world = pair(seed, latency_us, 0);
    let spec = job(&mut world, 300, 13_000, output);
    let job = world.submit(0, spec);
    ends_well(&mut world, job, 300, output, Duration::from_secs(seconds));
    assert_eq!(world.job(job).unwrap().duplicates, 0, "nothing was said twice");
}

#[test]
fn three_hundred_small_files_take_two_seconds_near_by() {
    three_hundred_files(1, 300, 5_000, 2);
}

#[test]
fn outputs_that_have_to_be_fetched_hardly_take_longer() {
    three_hundred_files(2, 300, 70_000, 3);
}

#[test]
fn three_hundred_small_files_go_far_in_a_few_round_trips() {
    three_hundred_files(3, 80_000, 5_000, 4);
}

#[test]
fn outputs_that_have_to_be_fetched_from_far_away_take_a_few_more() {
    three_hundred_files(4, 80_000, 70_000, 8);
}

#[test]
fn a_slow_line_takes_its_time_and_nobody_is_given_up() {
    // 100 inputs of 30 KB are 24 s on a line of 1 Mbit/s; a store is silent for 3 s and more while
    // a large chunk is under way.
    let mut world = pair(5, 40_000, 1_000_000);
    let spec = job(&mut world, 100, 30_000, 3_000);
    let job_ = world.submit(0, spec);
    ends_well(&mut world, job_, 100, 3_000, Duration::from_secs(40));

    // On half of that a chunk takes 4 s, longer than the usual pause.
    let mut world = pair(6, 40_000, 512_000);
    let spec = job(&mut world, 5, 600_000, 300_000);
    let job = world.submit(0, spec);
    ends_well(&mut world, job, 5, 300_000, Duration::from_secs(110));
}

#[test]
fn a_small_input_does_not_wait_behind_large_ones() {
    let mut world = pair(7, 10_000, 10_000_000);
    let large = job(&mut world, 4, 5_000_000, 100);
    let small = job(&mut world, 50, 6_000, 100);
    world.submit(0, large);
    world.run_for(Duration::from_millis(500));
    let job = world.submit(0, small);
    // The large ones take 16 s.
    ends_well(&mut world, job, 50, 100, Duration::from_secs(5));
}

#[test]
fn an_owner_that_sends_no_content_is_asked_again_and_nobody_declines() {
    let mut world = pair(8, 1_000, 0);
    world.network.mischief = Mischief { loss: 1.0, ..Mischief::default() };
    world.network.mischief_of = vec!["Store".into()];
    let spec = job(&mut world, 40, 13_000, 5_000);
    let job = world.submit(0, spec);
    world.run_for(Duration::from_secs(45));
    let view = world.job(job).unwrap();
    assert_eq!((view.done, view.lost_placements, view.held), (0, 0, 0));
    assert!(!view.reason.contains("declined"), "{}", view.reason);
    world.network.mischief = Mischief::default();
    ends_well(&mut world, job, 40, 5_000, Duration::from_secs(15));
}

#[test]
fn a_worker_asks_on_when_its_owner_is_back() {
    let mut world = pair(9, 20_000, 20_000_000);
    let spec = job(&mut world, 60, 13_000, 5_000);
    let job = world.submit(0, spec);
    world.run_until(A_MINUTE, "some are done", |w| w.job(job).is_some_and(|job| job.done > 5));
    world.cut(0, 1);
    world.run_for(Duration::from_secs(1));
    world.connect(0, 1);
    world.run_until(Duration::from_secs(20), "the job is done", |w| w.is_over(job));
    world.assert_all_right(job, 60);
    assert_eq!(world.job(job).unwrap().lost_placements, 0);
}

#[test]
fn a_result_with_a_large_file_holds_up_no_others() {
    let mut world = pair(10, 5_000, 2_000_000);
    world.program = |task| {
        let (time, outcome) = transform(task);
        // The first unit leaves 8 MB, which take 32 s.
        let len = if task.arguments[0] == "0" { 8_000_000 } else { 1_000 };
        let data = vec![task.files[0].data[0]; len].into();
        (time, Outcome { files: vec![File { path: "out".into(), data }], ..outcome })
    };
    let spec = job(&mut world, 200, 500, 0);
    let job = world.submit(0, spec);
    // Messages on that connection wait behind the chunks of the large file, too.
    world.run_until(Duration::from_secs(28), "all others are done", |w| {
        w.job(job).is_some_and(|job| job.done == 199)
    });
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.job(job).unwrap().done, 199, "the large one is still on its way");
    world.run_until(A_MINUTE, "the job is done", |w| w.is_over(job));
    world.assert_all_right(job, 200);
}

#[test]
fn a_report_that_could_not_be_written_is_repeated_and_the_next_one_goes_meanwhile() {
    let mut world = pair(11, 1_000, 0);
    let spec = job(&mut world, 300, 500, 2_000);
    let job = world.submit(0, spec);
    world.run_until(A_MINUTE, "some are done", |w| w.job(job).is_some_and(|job| job.done > 20));
    world.nodes[0].disk.full = true;
    world.run_for(Duration::from_secs(2));
    assert!(!world.is_over(job));
    world.nodes[0].disk.full = false;
    world.run_until(Duration::from_secs(5), "the job is done", |w| w.is_over(job));
    world.assert_all_right(job, 300);
    assert_eq!(world.job(job).unwrap().lost_placements, 0);
}

/// A gateway that has this content, and a peer that says what it likes.
fn with_asker(blobs: u32) -> (World, usize, Vec<BlobRef>) {
    let mut world = World::seed(12).swarm(0, 1);
    let blobs = (0..blobs).map(|n| world.upload(0, &content(n, 100))).collect();
    let asker = world.add(Config::default());
    world.connect(0, asker);
    world.run_for(Duration::from_secs(1));
    // From here on it says what the story wants.
    world.nodes[asker].node = None;
    (world, asker, blobs)
}

fn say(world: &mut World, from: usize, message: &Message) {
    let (from, bytes) = (world.nodes[from].id, message.encode().unwrap());
    world.drive(0, NodeInput::Received { from, channel: message.channel(), bytes });
}

/// Asks for all of them at once; how many came, and to how many the answer was that it is busy.
fn ask_at_once(number: u32) -> (u64, u64) {
    let (mut world, asker, blobs) = with_asker(number);
    world.kinds = Some(Default::default());
    for blob in blobs {
        say(&mut world, asker, &Message::Store(Content::Get { id: blob.id, index: 0 }));
    }
    world.run_for(Duration::from_secs(1));
    assert!(!world.told.iter().any(|(_, _, event)| matches!(event, NodeEvent::PeerFault { .. })));
    let kinds = world.kinds.unwrap_or_default();
    let count = |message: &str| kinds.get(&("Store".into(), message.into())).map_or(0, |sent| sent.frames);
    (count("Chunk"), count("Busy"))
}

#[test]
fn two_hundred_requests_at_once_are_all_answered() {
    assert_eq!(ask_at_once(200), (200, 0));
}

#[test]
fn who_asks_for_more_than_is_queued_is_told_so() {
    let (chunks, busy) = ask_at_once(600);
    assert_eq!(chunks + busy, 600, "each request is answered");
    assert!(chunks >= 200 && busy > 0, "{chunks} came, {busy} times busy");
}
