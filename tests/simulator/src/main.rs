//! The simulator's program: what the library must not touch, files, threads and the clock.
//!
//! `simulator tests/scenarios/tree-discovery.toml` prints a table; see `--help`.

use clap::Parser;
use simulator::experiment::{self, Watch};
use simulator::report::{Baseline, Report, plot};
use simulator::scenario::{Int, Scenario};
use simulator::swarm::Of;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Runs thousands of real nodes in one thread, from one seed.
#[derive(Parser)]
#[command(version)]
struct Flags {
    /// What to run, TOML. Not needed for --swarm
    #[arg(required_unless_present = "swarm")]
    scenario: Option<PathBuf>,
    /// In place of the scenario's seeds; of --swarm: the only one
    #[arg(long)]
    seed: Option<u64>,
    /// In place of the scenario's number of nodes
    #[arg(long)]
    nodes: Option<u64>,
    /// Print one JSON object a seed in place of the table
    #[arg(long)]
    json: bool,
    /// Draw the result into this file, SVG
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Compare with the baseline beside the scenario, at its seed and number of nodes
    #[arg(long, conflicts_with_all = ["seed", "nodes"])]
    compare: bool,
    /// Write that baseline anew, with its margins; at --nodes and --seed, or at its own
    #[arg(long, conflicts_with = "compare")]
    write_baseline: bool,
    /// Find the request rates at which the paper's way loads leaves as the scenario says
    #[arg(long)]
    calibrate: bool,
    /// Draw the lives of so many small networks wildly from their seeds, and check each
    #[arg(long, value_name = "SEEDS")]
    swarm: Option<u64>,
    /// What --swarm lets live; without it, each of them
    #[arg(long, value_enum, requires = "swarm")]
    of: Option<Of>,
    /// The first seed of --swarm
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Say nothing on the way
    #[arg(long, short)]
    quiet: bool,
}

/// A sixth of the time goes into short-lived frames and lists.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match run(&Flags::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("simulator: {error}");
            ExitCode::from(2)
        }
    }
}

/// Whether nothing was violated and nothing has drifted.
fn run(flags: &Flags) -> Result<bool, String> {
    if let Some(seeds) = flags.swarm {
        let all = flags.of.map_or(Of::ALL.to_vec(), |of| vec![of]);
        // All of them, even after a failure.
        let failed = all.into_iter().filter(|of| !swarm(flags, *of, seeds)).count();
        return Ok(failed == 0);
    }
    let path = flags.scenario.as_deref().ok_or("name a scenario")?;
    let mut scenario = read(path, Scenario::read)?;
    let beside = path.with_extension("baseline.toml");
    let mut baseline = None;
    if flags.compare || flags.write_baseline && beside.exists() {
        let read = read(&beside, Baseline::read)?;
        scenario.seeds = vec![read.seed];
        scenario.nodes = Int(read.nodes as u64);
        baseline = Some(read);
    }
    if let Some(nodes) = flags.nodes {
        if !(1..=4_000_000).contains(&nodes) {
            return Err(format!("--nodes {nodes} is not between 1 and 4000000"));
        }
        scenario.nodes = Int(nodes);
    }
    if let Some(seed) = flags.seed {
        scenario.seeds = vec![seed];
    }
    // A baseline is of one seed.
    let each = if flags.compare || flags.write_baseline { 1 } else { scenario.seeds_a_report() };
    let seeds: Vec<u64> =
        scenario.seeds.iter().flat_map(|first| (0..each).map(|more| first.saturating_add(more))).collect();
    for seed in &seeds {
        eprintln!("seed {seed}");
    }
    if flags.calibrate {
        let mut clock = Clock::new(scenario.seeds[0], flags.quiet);
        for (activity, rate) in experiment::calibrate(&scenario, scenario.seeds[0], &mut clock) {
            println!("{activity}: requests = {rate:.4}");
        }
        return Ok(true);
    }
    let reports = side_by_side(seeds.len(), |i| {
        experiment::run(&scenario, seeds[i], &mut Clock::new(seeds[i], flags.quiet))
    });
    let reports: Vec<Report> = reports.chunks(each as usize).filter_map(Report::mean).collect();
    let mut good = true;
    for report in &reports {
        good &= report.violations.is_empty();
        match flags.json {
            true => {
                println!("{}", report.json());
                report.violations.iter().for_each(|violation| eprintln!("violation: {violation}"));
            }
            false => println!("{}\n\n{}", scenario.about.trim(), report.table()),
        }
    }
    let first: &Report = &reports[0];
    if let Some(file) = &flags.plot {
        write(file, &plot(first))?;
    }
    if flags.write_baseline {
        let margin = baseline.map_or_else(|| BTreeMap::from([("other".into(), 0.1)]), |b| b.margin);
        write(&beside, &Baseline::write(first, &margin))?;
    } else if let Some(baseline) = baseline {
        let drift = baseline.compare(first);
        drift.iter().for_each(|line| eprintln!("drift: {line}"));
        good &= drift.is_empty();
    }
    Ok(good)
}

fn read<T>(path: &Path, parse: fn(&str) -> Result<T, String>) -> Result<T, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    parse(&text).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Runs these on all processors; the results in order.
fn side_by_side<T: Send>(count: usize, run: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicU64::new(0);
    let done: Mutex<Vec<(usize, T)>> = Mutex::new(Vec::new());
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(count);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed) as usize;
                    if i >= count {
                        return;
                    }
                    let result = run(i);
                    done.lock().expect("nobody panicked with it").push((i, result));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("nobody panicked with it");
    done.sort_by_key(|(i, _)| *i);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Whether all of these networks came through.
fn swarm(flags: &Flags, of: Of, count: u64) -> bool {
    let start = Instant::now();
    let seeds: Vec<u64> = match flags.seed {
        Some(seed) => vec![seed],
        None => (flags.from..flags.from.saturating_add(count)).collect(),
    };
    let failed = side_by_side(seeds.len(), |i| {
        let seed = seeds[i];
        // A panic is a finding too, and the other seeds go on.
        let result = std::panic::catch_unwind(|| of.live(seed));
        let result = result.unwrap_or_else(|_| Err("a panic; its words stand above".into()));
        if let Err(wrong) = &result {
            eprintln!("{of:?}, seed {seed}: {wrong}");
        } else if !flags.quiet && i > 0 && i.is_multiple_of(1000) {
            eprintln!("{of:?}: {i} of {} seeds, {:.0} s", seeds.len(), start.elapsed().as_secs_f64());
        }
        result.is_err().then_some(seed)
    });
    let failed: Vec<u64> = failed.into_iter().flatten().collect();
    let (count, took) = (seeds.len(), start.elapsed().as_secs_f64());
    match failed.is_empty() {
        true => println!("{of:?}: {count} seeds passed in {took:.1} s"),
        false => println!("{of:?}: {} of {count} seeds failed in {took:.1} s: {failed:?}", failed.len()),
    }
    failed.is_empty()
}

/// The process as a run sees it.
struct Clock {
    seed: u64,
    start: Instant,
    quiet: bool,
}

impl Clock {
    fn new(seed: u64, quiet: bool) -> Clock {
        Clock { seed, start: Instant::now(), quiet }
    }
}

impl Watch for Clock {
    fn say(&mut self, what: &str) {
        if !self.quiet {
            let (seed, at) = (self.seed, self.start.elapsed().as_secs_f64());
            eprintln!("[seed {seed}, {at:.1} s] {what}");
        }
    }

    /// Linux tells; elsewhere it is not known.
    fn resident(&mut self) -> u64 {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
        pages.unwrap_or(0) * 4096
    }

    fn seconds(&mut self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }
}
