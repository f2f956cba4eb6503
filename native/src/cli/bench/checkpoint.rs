//! `bench checkpoint`: the same task with and without checkpoints, in turns on the same worker.
//!
//! Before that, how long one input holds the thread of a node when a whole snapshot of the task is taken,
//! stored and kept: at the node that runs it and at the one that keeps it, each time in a fresh swarm, since
//! a node counts the longest input of its whole life.

use super::{home, median, most, report, rounded, sweep};
use crate::cli::args::BenchCommon;
use crate::cli::client::Client;
use crate::cli::failure::Failure;
use crate::cli::processes::LocalSwarm;
use crate::cli::progress::say;
use crate::cli::quantity::Every;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const RUNS: u32 = 3;
/// Memory in MiB, one page in a hundred of which changes all the time.
const MIB: &str = "64";
/// About 35 s: the longest interval comes once.
const ROUNDS: &str = "450000";
const EVERY: [(&str, u64); 3] = [("1s", 1), ("10s", 10), ("30s", 30)];
/// Whole snapshots whose holds are measured.
const WHOLE: u32 = 10;
/// Until they are taken. The task has to fill its memory before, or they are smaller.
const FILLED: Duration = Duration::from_secs(6);
/// A unit has to begin, and its first checkpoint to be kept.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

pub(super) fn run(common: &BenchCommon) -> Result<u8, Failure> {
    let mut figures = holds(common)?;
    if common.runs != Some(0) {
        figures.extend(slowdown(common)?);
    }
    report(&figures, common)
}

/// The longest inputs of a life with one whole snapshot, milliseconds.
struct Held {
    /// Length of the snapshot.
    bytes: f64,
    /// Before a task was there.
    idle: f64,
    runner: f64,
    keeper: f64,
}

fn holds(common: &BenchCommon) -> Result<Vec<(&'static str, Value)>, Failure> {
    let mut held = Vec::new();
    for run in 1..=WHOLE {
        let Held { bytes, idle, runner, keeper } = hold()?;
        if !common.json {
            say(&format!(
                "snapshot {run}: runner {runner:.1} ms, keeper {keeper:.1} ms, {idle:.1} ms before"
            ));
        }
        held.push(Held { bytes, idle, runner, keeper });
    }
    let all = |of: fn(&Held) -> f64| held.iter().map(of).collect::<Vec<f64>>();
    let (idle, runner, keeper) = (all(|held| held.idle), all(|held| held.runner), all(|held| held.keeper));
    Ok(vec![
        ("whole_snapshot_bytes", rounded(median(all(|held| held.bytes)), 0)),
        ("longest_input_before_ms", rounded(median(idle), 2)),
        ("longest_input_runner_ms", rounded(median(runner.clone()), 2)),
        ("longest_input_runner_slowest_ms", rounded(most(&runner), 2)),
        ("longest_input_keeper_ms", rounded(median(keeper.clone()), 2)),
        ("longest_input_keeper_slowest_ms", rounded(most(&keeper), 2)),
    ])
}

fn hold() -> Result<Held, Failure> {
    let home = home()?;
    let swarm = LocalSwarm::start_open(home.path(), 1, 1)?;
    let (keeper, runner) = (swarm.gateway.client(), swarm.workers[0].client());
    let idle = longest_ms(&runner)?.max(longest_ms(&keeper)?);
    let mut plan = sweep("ballast", &[MIB, "4000000000"], 0, 1)?;
    plan.settings.checkpoint = Some(Every(Some(FILLED)));
    let (job, _) = plan.submit(&keeper)?;
    let began = Instant::now();
    let unit = loop {
        let unit = keeper.unit(&job.id, 0)?;
        if !unit.keepers.is_empty() {
            break unit;
        }
        swarm.check()?;
        if began.elapsed() > PATIENCE {
            return Err(Failure::failed(format!("no checkpoint was kept within {} s", PATIENCE.as_secs())));
        }
        std::thread::sleep(LOOK_AGAIN);
    };
    let bytes = unit.checkpoint_bytes.unwrap_or_default() as f64;
    Ok(Held { bytes, idle, runner: longest_ms(&runner)?, keeper: longest_ms(&keeper)? })
}

/// The longest input of a node's life so far.
fn longest_ms(client: &Client) -> Result<f64, Failure> {
    const NAME: &str = "manyhands_input_longest_seconds ";
    let text = client.metrics_text()?;
    let value = text.lines().find_map(|line| line.strip_prefix(NAME)).and_then(|value| value.parse().ok());
    let seconds: f64 =
        value.ok_or_else(|| Failure::failed("a node does not tell how long its inputs take"))?;
    Ok(seconds * 1e3)
}

fn slowdown(common: &BenchCommon) -> Result<Vec<(&'static str, Value)>, Failure> {
    let home = home()?;
    let swarm = LocalSwarm::start(home.path(), 0, 1, 1)?;
    let client = swarm.client();
    // Compiled before it counts.
    once(&swarm, &client, "1", None)?;
    let mut slower = vec![Vec::new(); EVERY.len()];
    let mut bytes = Vec::new();
    for run in 1..=common.runs.unwrap_or(RUNS) {
        let (alone, _) = once(&swarm, &client, ROUNDS, None)?;
        for (at, (name, every)) in EVERY.iter().enumerate() {
            let (with, weights) = once(&swarm, &client, ROUNDS, Some(Duration::from_secs(*every)))?;
            slower[at].push(with / alone);
            bytes.extend(weights);
            if !common.json {
                say(&format!("run {run}: every {name} {with:.2} s, without {alone:.2} s"));
            }
        }
    }
    let slowdown: serde_json::Map<String, Value> = EVERY
        .iter()
        .zip(slower)
        .map(|((name, _), ratios)| ((*name).to_owned(), rounded(median(ratios), 4)))
        .collect();
    Ok(vec![("slowdown", json!(slowdown)), ("bytes_per_checkpoint", rounded(median(bytes), 0))])
}

/// Seconds of one run as its submitter sees it, and what its checkpoints that were seen weighed.
fn once(
    swarm: &LocalSwarm,
    client: &Client,
    rounds: &str,
    every: Option<Duration>,
) -> Result<(f64, Vec<f64>), Failure> {
    let mut plan = sweep("ballast", &[MIB, rounds], 0, 1)?;
    plan.settings.checkpoint = Some(Every(every));
    let began = Instant::now();
    let (job, _) = plan.submit(client)?;
    let mut weights = Vec::new();
    let mut seen = 0;
    let job = client.follow(&job.id, |_| {
        let unit = client.unit(&job.id, 0)?;
        // The first is whole: it is what the others are relative to.
        if unit.checkpoints > seen.max(1) {
            weights.extend(unit.checkpoint_bytes.map(|bytes| bytes as f64));
        }
        seen = unit.checkpoints;
        swarm.check()
    })?;
    if job.units.done != 1 {
        return Err(Failure::failed(format!("the task did not end well: {}", job.reason)));
    }
    Ok((began.elapsed().as_secs_f64(), weights))
}
