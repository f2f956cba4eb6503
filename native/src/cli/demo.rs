//! `manyhands demo`: a gateway and two workers as processes of their own, a real job, and what
//! came of it.

use super::args::{DemoArgs, SceneArgs};
use super::client::types::{Job, Sweep};
use super::client::{Client, Content};
use super::failure::{DONE, Failure};
use super::interrupt::on_interrupt;
use super::job_settings::JobSettings;
use super::plan::{JobPlan, UnitsPlan};
use super::processes::{END, LocalSwarm};
use super::progress::{Progress, say};
use super::quantity::seconds;
use super::run::print_text;
use super::table::Table;
use super::waiting::verdict;
use crate::config::processors;
use crate::guests::guest;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// TSPLIB's instance of 52 places in Berlin, part of the example.
const BERLIN52: &[u8] = include_bytes!("../../../examples/tsp/data/berlin52.tsp");
/// The length of its shortest round trip, as TSPLIB publishes it.
const OPTIMUM: u64 = 7542;
const WORKERS: usize = 2;

pub(crate) fn run(args: DemoArgs) -> Result<u8, Failure> {
    let home = tempfile::Builder::new()
        .prefix("manyhands-demo-")
        .tempdir()
        .map_err(|e| Failure::failed(format!("cannot make a temporary folder for the demo: {e}")))?;
    let plan = plan(args.units)?;
    let (stop, stopped) = mpsc::channel();
    let litter = home.path().to_path_buf();
    let stay = args.stay;
    on_interrupt(move || {
        // While the swarm is kept, Ctrl-C is how it ends; before that, nothing is left behind.
        if !stay || stop.send(()).is_err() {
            drop(std::fs::remove_dir_all(litter));
            return;
        }
        std::thread::sleep(END * 2);
    });

    let tell = |line: &str| {
        if !args.json {
            say(line);
        }
    };
    tell("starting a gateway and two workers, each a process of its own");
    let slots = (processors() / WORKERS as u32).max(1);
    let swarm = LocalSwarm::start(home.path(), args.http_port.unwrap_or_else(usual_port), WORKERS, slots)?;
    let url = &swarm.gateway.url;
    tell(&format!(
        "open {url}/ in a browser to let that browser compute too; the dashboard is {}",
        swarm.dashboard()
    ));
    tell(&format!(
        "berlin52: a round trip through 52 places in Berlin, searched with {} seeds, one unit each",
        args.units
    ));

    let started = Instant::now();
    let client = swarm.client();
    let (job, _) = plan.submit(&client)?;
    let progress =
        if args.json { Progress::hidden() } else { Progress::start("berlin52", args.units.into()) };
    let job = client.follow(&job.id, |job| {
        progress.show(job);
        swarm.check()
    })?;
    drop(progress);
    let wall = started.elapsed();
    let lengths = lengths(&client, &job)?;
    let report = match args.json {
        true => json(&job, &lengths, wall),
        false => words(&job, &lengths, wall),
    };
    print_text(&report)?;
    if args.stay {
        tell(&format!("the swarm stays: {} (Ctrl-C ends it)", swarm.dashboard()));
        // Also over when nothing can send any more, which means the same.
        let _ = stopped.recv();
        tell("ending");
    } else {
        tell("the swarm has done its work and ends; `manyhands demo --stay` keeps it");
    }
    drop(swarm);
    verdict(&job)?;
    Ok(DONE)
}

fn plan(units: u32) -> Result<JobPlan, Failure> {
    let program = guest("tsp").ok_or_else(|| {
        Failure::failed("this build lacks the example task `tsp`; build it again from the whole repository")
    })?;
    let arguments = ["--seed", "{}", "berlin52.tsp"].map(str::to_owned).to_vec();
    let mut plan =
        JobPlan::new(Path::new("berlin52"), arguments, &SceneArgs::default(), &JobSettings::default())?;
    plan.program = Content::Bytes(program);
    plan.files.insert("berlin52.tsp".into(), Content::Bytes(BERLIN52));
    plan.units = UnitsPlan::Sweep(Sweep { first: 1, count: units });
    Ok(plan)
}

/// The tour lengths that the units found.
fn lengths(client: &Client, job: &Job) -> Result<Vec<u64>, Failure> {
    let mut lengths = Vec::new();
    let mut from = 0;
    loop {
        let (page, _) = client.results(&job.id, from, 256)?;
        for result in page.results.iter().filter(|result| result.success) {
            let mut out = Vec::new();
            client.fetch(&result.stdout, &mut out)?;
            lengths.extend(length(&String::from_utf8_lossy(&out)));
        }
        match page.next {
            Some(next) if next > from => from = next,
            _ => return Ok(lengths),
        }
    }
}

fn length(stdout: &str) -> Option<u64> {
    stdout.lines().find_map(|line| line.strip_prefix("length ")?.trim().parse().ok())
}

fn json(job: &Job, lengths: &[u64], wall: Duration) -> String {
    let node = |share: &super::client::types::Share| {
        serde_json::json!({
            "node": share.node, "name": share.name, "units": share.units, "cpu_s": share.cpu_s,
        })
    };
    let report = serde_json::json!({
        "units_total": job.units.total,
        "units_done": job.units.done,
        "best": lengths.iter().min(),
        "optimum": OPTIMUM,
        "nodes": job.by_node.iter().map(node).collect::<Vec<_>>(),
        "wall_s": wall.as_secs_f64(),
    });
    format!("{report}\n")
}

fn words(job: &Job, lengths: &[u64], wall: Duration) -> String {
    let mut out = String::new();
    match lengths.iter().min() {
        Some(&best) => {
            let as_good = lengths.iter().filter(|&&l| l == best).count();
            let rating = match best {
                OPTIMUM => "which is the published optimum".to_owned(),
                _ => {
                    let over = (best as f64 / OPTIMUM as f64 - 1.0) * 100.0;
                    format!("{over:.1} % above the published optimum of {OPTIMUM}")
                }
            };
            let _ = writeln!(
                out,
                "shortest tour  {best}, {rating}; found by {as_good} of {} seeds",
                lengths.len()
            );
        }
        None => drop(writeln!(out, "shortest tour  none: no unit came to its end")),
    }
    let _ = writeln!(
        out,
        "work           {} of {} units in {}, {} of processor time\n",
        job.units.done,
        job.units.total,
        seconds(wall.as_secs_f64()),
        seconds(job.cpu_s)
    );
    let mut table = Table::new(&["COMPUTED BY", "NAME", "UNITS", "CPU"], &[2, 3]);
    for share in &job.by_node {
        table.row([share.short.clone(), share.name.clone(), share.units.to_string(), seconds(share.cpu_s)]);
    }
    let _ = write!(out, "{table}");
    out
}

/// The dashboard's usual port if nobody has it, else any.
fn usual_port() -> u16 {
    std::net::TcpListener::bind(("127.0.0.1", 8080)).map_or(0, |_| 8080)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_instance_is_the_one_whose_optimum_is_quoted() {
        let text = std::str::from_utf8(BERLIN52).unwrap();
        assert!(text.contains("NAME: berlin52") && text.contains("DIMENSION: 52"), "{text}");
    }

    #[test]
    fn lengths_are_read_from_what_the_program_prints() {
        assert_eq!(length("length 7542\ntour 1 2 3\n"), Some(7542));
        assert_eq!(length("tour 1 2 3\n"), None);
    }

    #[test]
    fn the_report_names_all_that_checks_rely_on() {
        let job: Job = serde_json::from_value(serde_json::json!({
            "id": "ab", "state": "done", "units": {"total": 3, "done": 3},
            "by_node": [{"node": "cd", "short": "n-cd", "name": "worker-1", "units": 3, "cpu_s": 1.5}],
        }))
        .unwrap();
        let report: serde_json::Value =
            serde_json::from_str(&json(&job, &[8000, 7542], Duration::from_secs(2))).unwrap();
        assert_eq!(report["units_total"], 3);
        assert_eq!(report["units_done"], 3);
        assert_eq!(report["best"], 7542);
        assert_eq!(report["optimum"], 7542);
        assert_eq!(report["nodes"][0]["units"], 3);
        assert_eq!(report["wall_s"], 2.0);
        let told = words(&job, &[8000, 7542], Duration::from_secs(2));
        assert!(told.contains("published optimum; found by 1 of 2 seeds"), "{told}");
    }
}
