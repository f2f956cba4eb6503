//! `bench null`: empty units, from submission to durable result.

use super::browser::Browser;
use super::process::usage;
use super::{home, least, median, most, report, rounded, sweep};
use crate::cli::args::BenchCommon;
use crate::cli::client::types::Job;
use crate::cli::failure::Failure;
use crate::cli::processes::LocalSwarm;
use crate::cli::progress::say;
use std::time::{Duration, Instant};

/// Units before it counts: modules are compiled, slots are up.
const WARM_UP: u32 = 2_000;
/// Some seconds at the rate that is aimed at.
const NATIVE_UNITS: u32 = 50_000;
const BROWSER_UNITS: u32 = 15_000;
const RUNS: u32 = 5;
const TABS: usize = 2;

/// On a gateway and two workers with a slot each.
pub(super) fn native(units: Option<u32>, common: &BenchCommon) -> Result<u8, Failure> {
    let home = home()?;
    let swarm = LocalSwarm::start(home.path(), 0, 2, 1)?;
    measure(&swarm, None, units.unwrap_or(NATIVE_UNITS), common)
}

/// On a gateway and two tabs with a slot each.
pub(super) fn browser(units: Option<u32>, common: &BenchCommon) -> Result<u8, Failure> {
    let home = home()?;
    let swarm = LocalSwarm::start(home.path(), 0, 0, 1)?;
    let mut browser = Browser::launch(home.path())?;
    open_tabs(&swarm, &mut browser)?;
    measure(&swarm, Some(&browser), units.unwrap_or(BROWSER_UNITS), common)
}

/// Opens tabs with a slot each, and waits until the gateway has them.
pub(super) fn open_tabs(swarm: &LocalSwarm, browser: &mut Browser) -> Result<(), Failure> {
    for _ in 0..TABS {
        let tab = browser.open_donate_page(&swarm.gateway.url)?;
        browser.evaluate(
            &tab,
            "document.querySelector('#slots').value = 1; document.querySelector('#start').click()",
        )?;
    }
    // Both are in when the gateway lists them.
    let client = swarm.client();
    let deadline = Instant::now() + Duration::from_secs(20);
    while client.nodes()?.nodes.iter().filter(|node| node.slots > 0).count() < TABS {
        if Instant::now() > deadline {
            return Err(Failure::failed("the tabs did not join the gateway within 20 s; try `bench page`"));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

fn measure(
    swarm: &LocalSwarm,
    browser: Option<&Browser>,
    units: u32,
    common: &BenchCommon,
) -> Result<u8, Failure> {
    let mut pids: Vec<u32> = swarm.workers.iter().chain([&swarm.gateway]).map(|node| node.pid()).collect();
    pids.extend(browser.map(Browser::pid));
    run_one(swarm, WARM_UP)?;
    let (mut rates, mut costs) = (Vec::new(), Vec::new());
    let (mut lost, mut duplicated) = (0, 0);
    for run in 1..=common.runs.unwrap_or(RUNS) {
        let before = usage(&pids)?;
        let start = Instant::now();
        let job = run_one(swarm, units)?;
        let wall = start.elapsed();
        let cpu = usage(&pids)?.cpu.saturating_sub(before.cpu);
        rates.push(f64::from(units) / wall.as_secs_f64());
        costs.push(cpu.as_secs_f64() * 1e3 / f64::from(units));
        lost += units - job.units.done;
        duplicated += job.duplicates;
        if !common.json {
            say(&format!(
                "run {run}: {:.0} units a second, {:.3} ms of processor time a unit",
                rates[rates.len() - 1],
                costs[costs.len() - 1]
            ));
        }
    }
    report(
        &[
            ("units", units.into()),
            ("units_per_s", rounded(median(rates.clone()), 0)),
            ("units_per_s_min", rounded(least(&rates), 0)),
            ("units_per_s_max", rounded(most(&rates), 0)),
            ("cpu_ms_per_unit", rounded(median(costs), 4)),
            ("lost", lost.into()),
            ("duplicated", duplicated.into()),
        ],
        common,
    )
}

fn run_one(swarm: &LocalSwarm, units: u32) -> Result<Job, Failure> {
    let client = swarm.client();
    let (job, _) = sweep("null", &[], 0, units)?.submit(&client)?;
    client.follow(&job.id, |_| swarm.check())
}
