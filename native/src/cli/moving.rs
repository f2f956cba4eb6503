//! Single units: `unit` shows one; `migrate`, `pause`, `resume` and `drain` move them on purpose.

use super::args::{Format, MigrateArgs, UnitArgs};
use super::beacon::Pid;
use super::client::Client;
use super::client::types::{Job, Unit};
use super::failure::{DONE, Failure};
use super::lists::short_node;
use super::progress::say;
use super::run::{print_json, print_text};
use super::stderr_end;
use super::swarm::find;
use super::table::Table;
use crate::paths::DataFolder;
use crate::text::printable;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// `drain` waits so long for the node to end. Our choice: what the node itself takes at most, and
/// half a minute for a machine under load.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn unit(args: &UnitArgs, folder: &DataFolder) -> Result<u8, Failure> {
    let client = find(&args.swarm, folder)?;
    let (job, index) = place(&client, &args.unit)?;
    let (unit, text) = client.unit_and_text(job, index)?;
    match args.swarm.output {
        Format::Json => print_json(&text)?,
        Format::Table => {
            let mut text = about(&unit);
            if unit.state == "failed" {
                let end = stderr_end::of(&client, job, index);
                let _ = write!(text, "{}{end}", if end.is_empty() { "" } else { "\n" });
            }
            print_text(&text)?;
        }
    }
    Ok(DONE)
}

/// Everything about one unit.
fn about(unit: &Unit) -> String {
    let mut out = String::new();
    let mut line = |name: &str, value: &str| {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{name:<11} {}", printable(value));
    };
    let reason = if unit.reason.is_empty() { String::new() } else { format!(": {}", unit.reason) };
    let paused = if unit.paused { ", paused" } else { "" };
    line("unit", &unit.index.to_string());
    line("state", &format!("{}{paused}{reason}", unit.state));
    // The result alone has the node and the fuel of a unit that ended where it began.
    let ended = matches!(&*unit.state, "done" | "failed" | "cancelled");
    if unit.runner.is_some() || !ended {
        line("node", &unit.runner.as_deref().map_or("none".into(), short_node));
    }
    if let Some(owner) = &unit.owner {
        line("owner", &short_node(owner));
    }
    match &*unit.state {
        "done" | "failed" if unit.fuel == 0 => line("fuel", "its result says; see `manyhands results`"),
        _ => line("fuel", &unit.fuel.to_string()),
    }
    let newest = match unit.checkpoint_fuel {
        Some(fuel) => {
            let keepers: Vec<String> = unit.keepers.iter().map(|id| short_node(id)).collect();
            format!("{}, the newest after {fuel} fuel, kept by {}", unit.checkpoints, keepers.join(" and "))
        }
        None => unit.checkpoints.to_string(),
    };
    line("checkpoints", &newest);
    if unit.lost_fuel > 0 {
        line("lost", &format!("{} fuel, computed again", unit.lost_fuel));
    }
    // The node that has it now stands in the journey once a checkpoint from there is known.
    let now = unit.runner.as_ref().filter(|runner| {
        unit.state == "placed" && unit.journey.last().is_none_or(|last| last.runner != **runner)
    });
    if !unit.journey.is_empty() || now.is_some() {
        let mut table = Table::new(&["JOURNEY", "KIND", "FROM", "TO"], &[2, 3]);
        for span in &unit.journey {
            table.row([
                short_node(&span.runner),
                span.platform.clone(),
                span.from.to_string(),
                span.to.to_string(),
            ]);
        }
        if let Some(runner) = now {
            let from = unit.journey.last().map_or(0, |last| last.to);
            table.row([short_node(runner), String::new(), from.to_string(), "now".into()]);
        }
        let _ = write!(out, "\n{table}");
    }
    out
}

pub(crate) fn migrate(args: &MigrateArgs, folder: &DataFolder) -> Result<u8, Failure> {
    let client = find(&args.unit.swarm, folder)?;
    let (job, index) = place(&client, &args.unit.unit)?;
    let (unit, text) = client.migrate(job, index, args.to.as_deref())?;
    let still = unit.standstill_ms.unwrap_or_default();
    show(&args.unit, &text, &unit, |at| {
        format!("{} runs on {at}; it stood still for {still:.0} ms", args.unit.unit)
    })
}

pub(crate) fn pause(args: &UnitArgs, paused: bool, folder: &DataFolder) -> Result<u8, Failure> {
    let client = find(&args.swarm, folder)?;
    let (job, index) = place(&client, &args.unit)?;
    let (unit, text) = client.pause(job, index, paused)?;
    let word = if paused { "stands still" } else { "continues" };
    show(args, &text, &unit, |at| format!("{} {word} on {at}", args.unit))
}

fn show(args: &UnitArgs, text: &str, unit: &Unit, words: impl FnOnce(&str) -> String) -> Result<u8, Failure> {
    match args.swarm.output {
        Format::Json => print_json(text)?,
        Format::Table => {
            let at = unit.runner.as_deref().map_or("no node yet".into(), short_node);
            print_text(&format!("{}\n", words(&at)))?;
        }
    }
    Ok(DONE)
}

/// The unit that `text` names: `JOB/INDEX`, or `JOB` if the job has one unit only.
fn place<'a>(client: &Client, text: &'a str) -> Result<(&'a str, u32), Failure> {
    let (name, index) = split(text)?;
    match index {
        Some(index) => Ok((name, index)),
        None => only_unit(&client.job(name)?).map(|index| (name, index)),
    }
}

/// The job, and the unit's index if there is one.
fn split(text: &str) -> Result<(&str, Option<u32>), Failure> {
    match text.split_once('/') {
        None => Ok((text, None)),
        Some((job, index)) => index.parse().map(|index| (job, Some(index))).map_err(|_| {
            Failure::usage(format!("{text:?} names no unit: write JOB/INDEX, as in j-1a2b3c4d/0"))
        }),
    }
}

/// The index of the only unit of `job`. A job of several units has none that is meant more than the others.
fn only_unit(job: &Job) -> Result<u32, Failure> {
    match job.units.total {
        0 | 1 => Ok(0),
        total => Err(Failure::usage(format!(
            "{short} has {total} units, so name one: {short}/0 to {short}/{}",
            total - 1,
            short = job.short
        ))),
    }
}

/// Tells the node of this folder to end, and waits until it has.
pub(crate) fn drain(folder: &DataFolder) -> Result<u8, Failure> {
    let Some(pid) = Pid::see(folder) else {
        return Err(Failure::usage(format!(
            "no node runs on {}; --data names another folder",
            folder.dir().display()
        )));
    };
    pid.ask_to_end()
        .map_err(|why| Failure::failed(format!("process {pid} could not be told to end: {why}")))?;
    say("waiting until the node has handed its units on");
    let began = Instant::now();
    while pid.lives() {
        if began.elapsed() > PATIENCE {
            return Err(Failure::failed(format!(
                "the node (process {pid}) has not ended after {} s; its log says why, and `kill -9 {pid}` ends it \
                 (its units then go on from their newest checkpoints)",
                PATIENCE.as_secs()
            )));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    say("the node has ended");
    Ok(DONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journey_ends_where_the_unit_is_now() {
        let (ada, bob) = ("a".repeat(64), "b".repeat(64));
        let unit = |state: &str, runner: &str| -> Unit {
            let stop = serde_json::json!({"runner": ada, "platform": "native", "from": 0, "to": 70});
            let unit = serde_json::json!({"index": 0, "state": state, "runner": runner, "journey": [stop]});
            serde_json::from_value(unit).unwrap()
        };
        let last = |unit: &Unit| -> Vec<String> {
            about(unit).lines().last().unwrap().split_whitespace().map(str::to_owned).collect()
        };
        assert_eq!(last(&unit("placed", &bob)), [short_node(&bob), "70".into(), "now".into()]);
        let stays = [short_node(&ada), "native".into(), "0".into(), "70".into()];
        assert_eq!(last(&unit("placed", &ada)), stays);
        assert_eq!(last(&unit("waiting", &bob)), stays, "it is nowhere now");
    }

    #[test]
    fn a_unit_is_named_by_its_job_and_its_number() {
        assert_eq!(split("j-1a2b3c4d/7").unwrap(), ("j-1a2b3c4d", Some(7)));
        assert_eq!(split("1a2b").unwrap(), ("1a2b", None));
        for bad in ["1a2b/", "1a2b/x", "1a2b/-1", "1a2b/1/2"] {
            assert!(split(bad).unwrap_err().message.contains("JOB/INDEX"), "{bad}");
        }
    }

    #[test]
    fn the_job_alone_names_its_unit_if_there_is_one_only() {
        let job = |total: u32| -> Job {
            let job = serde_json::json!({"id": "ab", "short": "j-ab", "state": "running", "units": {"total": total}});
            serde_json::from_value(job).unwrap()
        };
        assert_eq!(only_unit(&job(1)).unwrap(), 0);
        let several = only_unit(&job(3)).unwrap_err();
        assert_eq!(several.code, 2);
        assert!(several.message.contains("3 units, so name one: j-ab/0 to j-ab/2"), "{}", several.message);
    }
}
