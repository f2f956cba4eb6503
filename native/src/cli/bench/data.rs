//! `bench data`: units that read and write content, from the first byte sent to the last output
//! in hand.

use super::browser::Browser;
use super::null::open_tabs;
use super::{home, least, median, most, report, rounded, sweep};
use crate::cli::args::BenchCommon;
use crate::cli::client::Client;
use crate::cli::failure::Failure;
use crate::cli::plan::{UnitPlan, UnitsPlan};
use crate::cli::processes::LocalSwarm;
use crate::cli::progress::say;
use serde_json::Value;
use std::path::Path;
use std::time::Instant;

/// Bytes of each unit's input and output, and units on native workers and in tabs: a second or two
/// at the rate that is aimed at.
const SIZES: [(usize, u32, u32); 4] =
    [(1_000, 5_000, 2_000), (5_000, 2_000, 1_000), (20_000, 1_000, 500), (100_000, 300, 150)];
const RUNS: u32 = 10;
/// Before it counts: modules are compiled, slots are up.
const WARM_UP: u32 = 200;

/// On a gateway and two workers with a slot each.
pub(super) fn native(units: Option<u32>, common: &BenchCommon) -> Result<u8, Failure> {
    let home = home()?;
    let swarm = LocalSwarm::start(home.path(), 0, 2, 1)?;
    let sizes = SIZES.map(|(bytes, native, _)| (bytes, units.unwrap_or(native)));
    measure(&swarm, home.path(), &sizes, common)
}

/// On a gateway and two tabs with a slot each.
pub(super) fn browser(units: Option<u32>, common: &BenchCommon) -> Result<u8, Failure> {
    let home = home()?;
    let swarm = LocalSwarm::start(home.path(), 0, 0, 1)?;
    let mut browser = Browser::launch(home.path())?;
    open_tabs(&swarm, &mut browser)?;
    let sizes = SIZES.map(|(bytes, _, tabs)| (bytes, units.unwrap_or(tabs)));
    measure(&swarm, home.path(), &sizes, common)
}

fn measure(
    swarm: &LocalSwarm,
    home: &Path,
    sizes: &[(usize, u32)],
    common: &BenchCommon,
) -> Result<u8, Failure> {
    let mut seed = 0;
    let mut figures: Vec<(String, Value)> = Vec::new();
    one_run(swarm, home, (1_000, WARM_UP), &mut seed)?;
    for &(bytes, units) in sizes {
        let mut rates = Vec::new();
        for run in 1..=common.runs.unwrap_or(RUNS) {
            let rate = one_run(swarm, home, (bytes, units), &mut seed)?;
            if !common.json {
                say(&format!("{} KB, run {run}: {rate:.0} units a second", bytes / 1000));
            }
            rates.push(rate);
        }
        let name = format!("units_per_s_{}kb", bytes / 1000);
        figures.push((format!("{name}_min"), rounded(least(&rates), 0)));
        figures.push((format!("{name}_max"), rounded(most(&rates), 0)));
        figures.push((name, rounded(median(rates), 0)));
    }
    let figures: Vec<(&str, Value)> =
        figures.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    report(&figures, common)
}

/// Copies `units` inputs of `bytes` each that nobody has seen before; units a second.
fn one_run(
    swarm: &LocalSwarm,
    home: &Path,
    (bytes, units): (usize, u32),
    seed: &mut u64,
) -> Result<f64, Failure> {
    let folder = home.join("inputs");
    let unwritable = |e: std::io::Error| Failure::failed(format!("cannot write the inputs: {e}"));
    std::fs::create_dir_all(&folder).map_err(unwritable)?;
    let mut inputs = Vec::new();
    for unit in 0..units {
        *seed += 1;
        let content = text(*seed, bytes);
        let path = folder.join(unit.to_string());
        std::fs::write(&path, &content).map_err(unwritable)?;
        inputs.push((path, content));
    }
    let unit = |(path, _): &(std::path::PathBuf, Vec<u8>)| UnitPlan {
        stdin: Some(path.clone()),
        ..UnitPlan::default()
    };
    let mut plan = sweep("copy", &[], 0, units)?;
    plan.units = UnitsPlan::List(inputs.iter().map(unit).collect());

    let client = swarm.client();
    let start = Instant::now();
    let (job, _) = plan.submit(&client)?;
    client.follow(&job.id, |_| swarm.check())?;
    let outputs = outputs(&client, &job.id)?;
    let took = start.elapsed();
    if outputs.len() != inputs.len() || outputs.iter().ne(inputs.iter().map(|(_, content)| content)) {
        let what = format!("of {units} inputs of {bytes} bytes not all came back as they were; report this");
        return Err(Failure::failed(what));
    }
    Ok(f64::from(units) / took.as_secs_f64())
}

/// Standard output of all units, in the order of their indexes.
fn outputs(client: &Client, job: &str) -> Result<Vec<Vec<u8>>, Failure> {
    let mut outputs = Vec::new();
    let mut from = Some(0);
    while let Some(at) = from {
        let (page, _) = client.results(job, at, 1000)?;
        for result in &page.results {
            let mut bytes = Vec::new();
            client.fetch(&result.stdout, &mut bytes)?;
            outputs.push(bytes);
        }
        from = page.next;
    }
    Ok(outputs)
}

/// Printable bytes that differ from seed to seed.
fn text(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        // The generator of paper `xorshift`.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        b' ' + (state >> 32) as u8 % 95
    };
    (0..bytes).map(|_| next()).collect()
}
