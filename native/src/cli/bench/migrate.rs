//! `bench migrate`: a task of 64 MiB that no compression shortens goes from node to node.
//!
//! Two times are told: how long the task stands still, from the word to stop on the one node until
//! its owner hears that it goes on at the other; and how long people wait for the move, from the
//! request to its answer. In between lies the time in which the task still runs and its base goes
//! ahead; natively the node that it moves to keeps that already.

use super::browser::Browser;
use super::{home, median, most, report, rounded, sweep};
use crate::cli::args::BenchCommon;
use crate::cli::client::Client;
use crate::cli::client::types::{Node, Unit};
use crate::cli::failure::Failure;
use crate::cli::processes::LocalSwarm;
use crate::cli::progress::say;
use crate::cli::quantity::Every;
use std::time::{Duration, Instant};

const RUNS: u32 = 11;
const MIB: &str = "64";
/// Rounds that last longer than any of this.
const FOR_EVER: &str = "4000000000";
/// A unit has to settle on a node before it moves again.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

pub(super) fn run(browser: bool, common: &BenchCommon) -> Result<u8, Failure> {
    let runs = common.runs.unwrap_or(RUNS);
    let home = home()?;
    let swarm = LocalSwarm::start(home.path(), 0, 2, 1)?;
    let client = swarm.client();
    let job = begin(&client)?;
    settle(&client, &job, None)?;
    let (native, bytes) = moves(&client, &job, &[&worker(&client, 1)?, &worker(&client, 2)?], runs, common)?;
    let mut figures = Vec::new();
    tell(&mut figures, "native_native", &native);
    if browser {
        let mut chromium = Browser::launch(home.path())?;
        let tab = give(&mut chromium, &swarm, &[])?;
        let one = worker(&client, 1)?;
        if settle(&client, &job, None)?.runner.as_deref() != Some(&one) {
            migrate(&client, &job, &one)?;
        }
        let mut into = Vec::new();
        for run in 1..=runs {
            settle(&client, &job, Some(&one))?;
            let there = migrate(&client, &job, &tab)?;
            settle(&client, &job, Some(&tab))?;
            let back = migrate(&client, &job, &one)?;
            note(common, run, &format!("{there} into the tab, {back} back"));
            into.push(there);
        }
        tell(&mut figures, "native_browser", &into);
        let other = give(&mut chromium, &swarm, &[&tab])?;
        migrate(&client, &job, &tab)?;
        settle(&client, &job, Some(&tab))?;
        let (between, _) = moves(&client, &job, &[&tab, &other], runs, common)?;
        tell(&mut figures, "browser_browser", &between);
    }
    figures.push(("bytes_with_base".into(), rounded(median(bytes), 0)));
    figures.push(("moves".into(), runs.into()));
    client.cancel(&job)?;
    let figures: Vec<(&str, serde_json::Value)> =
        figures.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    report(&figures, common)
}

fn tell(figures: &mut Vec<(String, serde_json::Value)>, between: &str, moves: &[Took]) {
    let (still, whole): (Vec<f64>, Vec<f64>) = moves.iter().map(|took| (took.standstill, took.whole)).unzip();
    figures.push((format!("{between}_ms"), rounded(median(still.clone()), 1)));
    figures.push((format!("{between}_max_ms"), rounded(most(&still), 1)));
    figures.push((format!("{between}_whole_ms"), rounded(median(whole), 1)));
}

fn begin(client: &Client) -> Result<String, Failure> {
    let mut plan = sweep("ballast", &[MIB, FOR_EVER], 0, 1)?;
    plan.settings.checkpoint = Some(Every(Some(Duration::from_secs(2))));
    plan.settings.time_limit = Some(crate::cli::quantity::Span(Duration::from_secs(86_400)));
    Ok(plan.submit(client)?.0.id)
}

/// Moves to and fro, and the bytes that each carries beyond the base.
fn moves(
    client: &Client,
    job: &str,
    between: &[&str; 2],
    runs: u32,
    common: &BenchCommon,
) -> Result<(Vec<Took>, Vec<f64>), Failure> {
    let (mut all, mut bytes) = (Vec::new(), Vec::new());
    let mut here = settle(client, job, None)?.runner.unwrap_or_default();
    for run in 1..=runs {
        let to = between.iter().find(|node| **node != here).copied().unwrap_or(between[0]);
        let took = migrate(client, job, to)?;
        here = to.to_owned();
        let settled = settle(client, job, Some(to))?;
        bytes.extend(settled.checkpoint_bytes.map(|bytes| bytes as f64));
        note(common, run, &format!("{took}, {} bytes", bytes.last().unwrap_or(&0.0)));
        all.push(took);
    }
    Ok((all, bytes))
}

fn note(common: &BenchCommon, run: u32, words: &str) {
    if !common.json {
        say(&format!("move {run}: {words}"));
    }
}

/// Milliseconds.
struct Took {
    standstill: f64,
    whole: f64,
}

impl std::fmt::Display for Took {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.0} of {:.0} ms", self.standstill, self.whole)
    }
}

fn migrate(client: &Client, job: &str, to: &str) -> Result<Took, Failure> {
    let began = Instant::now();
    let (unit, _) = client.migrate(job, 0, Some(to))?;
    let whole = began.elapsed().as_secs_f64() * 1e3;
    Ok(Took { standstill: unit.standstill_ms.unwrap_or(whole), whole })
}

/// Waits until the unit has a checkpoint of where it runs now, with its keepers.
fn settle(client: &Client, job: &str, at: Option<&str>) -> Result<Unit, Failure> {
    let mut seen = None;
    until("the unit did not settle", || {
        let unit = client.unit(job, 0)?;
        let there = at.is_none_or(|at| unit.runner.as_deref() == Some(at));
        let first = *seen.get_or_insert(unit.checkpoints);
        // One that began after it had come here.
        let fresh = unit.checkpoints > first + 1 || at.is_none() && unit.checkpoints > 0;
        Ok((there && fresh && !unit.keepers.is_empty()).then_some(unit))
    })
}

/// The id of a worker by its number.
fn worker(client: &Client, number: u32) -> Result<String, Failure> {
    node(client, |node| node.name == format!("worker-{number}"))
}

/// Opens a tab that gives a slot; the id of its node, which is none of these.
fn give(chromium: &mut Browser, swarm: &LocalSwarm, before: &[&str]) -> Result<String, Failure> {
    let tab = chromium.open_donate_page(&swarm.gateway.url)?;
    let script = "document.querySelector('#slots').value = 1; document.querySelector('#start').click()";
    chromium.evaluate(&tab, script)?;
    let gives =
        |node: &Node| node.platform == "browser" && node.slots > 0 && !before.contains(&node.id.as_str());
    node(&swarm.client(), gives)
}

fn node(client: &Client, wanted: impl Fn(&Node) -> bool) -> Result<String, Failure> {
    until("a node did not come", || {
        Ok(client.nodes()?.nodes.into_iter().find(|node| wanted(node)).map(|node| node.id))
    })
}

fn until<T>(what: &str, mut look: impl FnMut() -> Result<Option<T>, Failure>) -> Result<T, Failure> {
    let began = Instant::now();
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        if began.elapsed() > PATIENCE {
            return Err(Failure::failed(format!("{what} within {} s", PATIENCE.as_secs())));
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}
