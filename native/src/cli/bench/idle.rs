//! `bench idle`: what a node costs while it waits for work.

use super::process::{Usage, usage};
use super::{home, median, report, rounded, sweep};
use crate::cli::args::BenchCommon;
use crate::cli::failure::Failure;
use crate::cli::processes::LocalSwarm;
use crate::cli::progress::say;
use std::time::{Duration, Instant};

/// How long each look lasts.
const LOOK: Duration = Duration::from_secs(10);
const RUNS: u32 = 3;
/// After this, a slot that had work has ended; its patience (30 s) and some.
const SETTLE: Duration = Duration::from_secs(45);

pub(super) fn run(during: Option<Duration>, common: &BenchCommon) -> Result<u8, Failure> {
    let home = home()?;
    let swarm = LocalSwarm::start(home.path(), 0, 1, 1)?;
    // A node that has worked is what lies idle on a server.
    let client = swarm.client();
    let (job, _) = sweep("null", &[], 0, 1000)?.submit(&client)?;
    client.follow(&job.id, |_| swarm.check())?;
    let (worker, gateway) = (swarm.workers[0].pid(), swarm.gateway.pid());
    if !common.json {
        say("waiting until the slots have ended");
    }
    let settled = Instant::now() + SETTLE;
    while usage(&[worker])?.processes > 1 && Instant::now() < settled {
        std::thread::sleep(Duration::from_millis(200));
    }
    let mut shares = [Vec::new(), Vec::new()];
    let mut now = [Usage::default(); 2];
    for _ in 0..common.runs.unwrap_or(RUNS) {
        let start = Instant::now();
        let before = [usage(&[worker])?, usage(&[gateway])?];
        std::thread::sleep(during.unwrap_or(LOOK));
        now = [usage(&[worker])?, usage(&[gateway])?];
        let wall = start.elapsed().as_secs_f64();
        for ((share, before), now) in shares.iter_mut().zip(before).zip(now) {
            share.push(now.cpu.saturating_sub(before.cpu).as_secs_f64() / wall * 100.0);
        }
    }
    let [worker_share, gateway_share] = shares;
    let mib = |usage: Usage| rounded(usage.rss as f64 / f64::from(1 << 20), 1);
    report(
        &[
            ("rss_mb", mib(now[0])),
            ("cpu_percent", rounded(median(worker_share), 2)),
            ("gateway_rss_mb", mib(now[1])),
            ("gateway_cpu_percent", rounded(median(gateway_share), 2)),
        ],
        common,
    )
}
