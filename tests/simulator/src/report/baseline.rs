//! Results of a scenario when somebody last looked: drift beyond a stated margin fails.

use super::{Cell, Report, Row};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The baseline beside a scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    pub seed: u64,
    pub nodes: usize,
    /// How far a value may be from what it was, as a share of it; by name, and `other` for
    /// those that are not named. A change for the better beyond it is to be written down too.
    pub margin: BTreeMap<String, f64>,
    #[serde(default)]
    pub row: Vec<BTreeMap<String, toml::Value>>,
}

/// Differences smaller than this are none, whatever the margin: counts of a few.
const LEAST: f64 = 0.02;

/// Columns that say what a row is about; all other columns are results.
pub(super) const NAMES: &[&str] = &[
    "way",
    "asked",
    "activity",
    "m",
    "where",
    "fault",
    "nodes",
    "keys",
    "sessions",
    "sellers",
    "scheme",
    "submitter",
    "spread",
    "workload",
    "gap_s",
];

impl Baseline {
    pub fn read(text: &str) -> Result<Baseline, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    /// Results that have drifted, in words.
    pub fn compare(&self, report: &Report) -> Vec<String> {
        let mut drift: Vec<String> =
            report.violations.iter().map(|violation| format!("violation: {violation}")).collect();
        if self.row.len() != report.rows.len() {
            drift.push(format!("{} rows, and the baseline has {}", report.rows.len(), self.row.len()));
        }
        for row in &report.rows {
            let Some(was) = self.row.iter().find(|was| is_about(was, row)) else {
                drift.push(format!("{}: not in the baseline", title(row)));
                continue;
            };
            for (name, cell) in row.0.iter().filter(|(name, _)| !NAMES.contains(name)) {
                let (now, then) = (cell.number(), was.get(*name).and_then(number));
                let margin = self.margin.get(*name).or(self.margin.get("other")).copied().unwrap_or(0.0);
                let same = match (now, then) {
                    (Some(now), Some(then)) => (now - then).abs() <= (margin * then.abs()).max(LEAST),
                    (now, then) => now.is_none() && then.is_none(),
                };
                if !same {
                    let shown = |value: Option<f64>| value.map_or("nothing".into(), |v| v.to_string());
                    drift.push(format!(
                        "{}: {name} is {}, was {}; the margin is {} %",
                        title(row),
                        cell.shown(),
                        shown(then),
                        margin * 100.0
                    ));
                }
            }
        }
        drift
    }

    /// The baseline of this report, with the margins of the last one.
    pub fn write(report: &Report, margin: &BTreeMap<String, f64>) -> String {
        let mut out = format!("seed = {}\nnodes = {}\n\n[margin]\n", report.seed, report.nodes);
        for (name, share) in margin {
            let _ = writeln!(out, "{name} = {share}");
        }
        for row in &report.rows {
            out.push_str("\n[[row]]\n");
            for (name, cell) in &row.0 {
                match cell {
                    Cell::None => {}
                    cell => {
                        let _ = writeln!(out, "{name} = {}", cell.json());
                    }
                }
            }
        }
        out
    }
}

fn is_about(was: &BTreeMap<String, toml::Value>, row: &Row) -> bool {
    NAMES.iter().all(|name| match (was.get(*name), row.get(name)) {
        (None, None) => true,
        (Some(toml::Value::String(was)), Some(Cell::Text(now))) => was == now,
        (Some(was), Some(now)) => number(was) == now.number() && number(was).is_some(),
        _ => false,
    })
}

fn number(value: &toml::Value) -> Option<f64> {
    value.as_float().or(value.as_integer().map(|number| number as f64))
}

fn title(row: &Row) -> String {
    let names = row.0.iter().filter(|(name, _)| NAMES.contains(name));
    names.map(|(name, cell)| format!("{name} {}", cell.shown())).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(last: f64) -> Report {
        let row = Row::default().with("way", "ours").with("asked", 100u64).with("last_s", last);
        Report { seed: 1, nodes: 50, rows: vec![row], ..Report::default() }
    }

    #[test]
    fn drift_within_the_margin_is_none_and_beyond_it_is_named() {
        let margin = BTreeMap::from([("last_s".to_string(), 0.1), ("other".to_string(), 0.0)]);
        let baseline = Baseline::read(&Baseline::write(&report(2.0), &margin)).unwrap();
        assert!(baseline.compare(&report(2.0)).is_empty());
        assert!(baseline.compare(&report(2.19)).is_empty());
        let drift = baseline.compare(&report(2.3));
        assert!(drift[0].contains("way ours, asked 100: last_s is 2.3, was 2"), "{drift:?}");
        assert_eq!(baseline.compare(&report(1.7)).len(), 1, "better is drift too");
    }

    #[test]
    fn rows_that_come_and_go_are_drift() {
        let baseline = Baseline::read(&Baseline::write(&report(2.0), &BTreeMap::new())).unwrap();
        assert_eq!(baseline.compare(&Report::default()).len(), 1);
        let other = Row::default().with("way", "paper").with("asked", 100u64).with("last_s", 2.0);
        let drift = baseline.compare(&Report { rows: vec![other], ..Report::default() });
        assert!(drift[0].contains("not in the baseline"), "{drift:?}");
    }
}
