//! `bench checkpoint`: the same task with and without checkpoints, in turns on the same worker.

use super::{home, median, report, rounded, sweep};
use crate::cli::args::BenchCommon;
use crate::cli::client::Client;
use crate::cli::failure::Failure;
use crate::cli::processes::LocalSwarm;
use crate::cli::progress::say;
use crate::cli::quantity::Every;
use serde_json::json;
use std::time::{Duration, Instant};

const RUNS: u32 = 3;
/// Memory in MiB, one page in a hundred of which changes all the time.
const MIB: &str = "64";
/// About 35 s: the longest interval comes once.
const ROUNDS: &str = "450000";
const EVERY: [(&str, u64); 3] = [("1s", 1), ("10s", 10), ("30s", 30)];

pub(super) fn run(common: &BenchCommon) -> Result<u8, Failure> {
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
    let slowdown: serde_json::Map<String, serde_json::Value> = EVERY
        .iter()
        .zip(slower)
        .map(|((name, _), ratios)| ((*name).to_owned(), rounded(median(ratios), 4)))
        .collect();
    report(&[("slowdown", json!(slowdown)), ("bytes_per_checkpoint", rounded(median(bytes), 0))], common)
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
