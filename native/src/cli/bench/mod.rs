//! `manyhands bench`: what the swarm costs beside the work itself.
//!
//! Each benchmark starts its own swarm of real processes on this machine, measures whole
//! processes from outside, repeats and reports medians.

mod asyncify;
mod browser;
mod checkpoint;
mod data;
mod idle;
mod instrument;
mod kernel;
mod ledger;
mod link;
mod link_tabs;
mod migrate;
mod null;
mod page;
mod process;
mod relay;

use super::args::{BenchCommand, BenchCommon};
use super::client::Content;
use super::failure::{DONE, Failure};
use super::plan::{JobPlan, UnitsPlan};
use super::run::print;
use super::{args::SceneArgs, client::types::Sweep, job_settings::JobSettings};
use crate::guests::guest;
use serde_json::Value;
use std::path::Path;

pub(super) fn run(what: &BenchCommand) -> Result<u8, Failure> {
    match what {
        BenchCommand::Null { browser: false, units, common } => null::native(*units, common),
        BenchCommand::Null { browser: true, units, common } => null::browser(*units, common),
        BenchCommand::Data { browser: false, units, common } => data::native(*units, common),
        BenchCommand::Data { browser: true, units, common } => data::browser(*units, common),
        BenchCommand::Kernel { units, common } => kernel::run(*units, common),
        BenchCommand::Page { common } => page::run(common),
        BenchCommand::Instrument { no_browser, kernel, asyncify, common } => {
            instrument::run(!no_browser, kernel, asyncify.as_deref(), common)
        }
        BenchCommand::Migrate { no_browser, common } => migrate::run(!no_browser, common),
        BenchCommand::Checkpoint { common } => checkpoint::run(common),
        BenchCommand::Ledger { settlements, common } => ledger::run(*settlements, common),
        BenchCommand::Link { no_browser, common } => link::run(!no_browser, common),
        BenchCommand::Idle { during, common } => idle::run(during.map(|span| span.0), common),
    }
}

/// Prints a report: one JSON object, or a line a figure.
fn report(figures: &[(&str, Value)], common: &BenchCommon) -> Result<u8, Failure> {
    let text = if common.json {
        let object: serde_json::Map<String, Value> =
            figures.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        format!("{}\n", Value::Object(object))
    } else {
        let width = figures.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        figures.iter().map(|(name, value)| format!("{name:<width$}  {value}\n")).collect()
    };
    print(text.as_bytes())?;
    Ok(DONE)
}

/// The middle of the values; of the two middle ones the mean.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => (values[n / 2 - 1] + values[n / 2]) / 2.0,
    }
}

/// The smallest value; infinite if there is none.
fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

/// The largest value, at least 0.
fn most(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

fn rounded(value: f64, digits: i32) -> Value {
    let scale = 10f64.powi(digits);
    serde_json::json!((value * scale).round() / scale)
}

/// A job of `count` units of an example task.
fn sweep(example: &str, arguments: &[&str], first: u64, count: u32) -> Result<JobPlan, Failure> {
    let program = guest(example).ok_or_else(|| {
        Failure::failed(format!(
            "this build lacks the example task `{example}`; build it again from the whole repository"
        ))
    })?;
    let arguments = arguments.iter().map(|a| (*a).to_owned()).collect();
    let mut plan =
        JobPlan::new(Path::new(example), arguments, &SceneArgs::default(), &JobSettings::default())?;
    plan.program = Content::Bytes(program);
    plan.units = UnitsPlan::Sweep(Sweep { first, count });
    Ok(plan)
}

fn home() -> Result<tempfile::TempDir, Failure> {
    tempfile::Builder::new()
        .prefix("manyhands-bench-")
        .tempdir()
        .map_err(|e| Failure::failed(format!("cannot make a temporary folder for the benchmark: {e}")))
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
    }
}
