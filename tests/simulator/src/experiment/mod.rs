//! Runs of a scenario: a network is grown from single nodes, asked, and hurt.

mod ask;
mod churn;
mod discovery;
mod guests;
mod market;
mod matchmaking;
mod ring;
mod session;
mod stage;
mod traffic;
mod whole;

pub use stage::{Play, Stage};

use crate::report::Report;
use crate::scenario::Scenario;

/// Facts that a run cannot know itself: clocks, and how much memory the process has.
pub trait Watch {
    fn say(&mut self, _what: &str) {}
    /// Bytes in memory.
    fn resident(&mut self) -> u64 {
        0
    }
    /// Since the start of the program.
    fn seconds(&mut self) -> f64 {
        0.0
    }
}

/// Nobody watches: in tests, and in WebAssembly.
pub struct Quiet;

impl Watch for Quiet {}

/// Runs a scenario from one seed.
pub fn run(scenario: &Scenario, seed: u64, watch: &mut dyn Watch) -> Report {
    let start = watch.seconds();
    let mut report =
        Report { seed, nodes: scenario.nodes.0 as usize, m: scenario.tree.m.0 as u8, ..Report::default() };
    if let Some(part) = &scenario.discovery {
        discovery::run(scenario, part, &mut report, watch);
    }
    if let Some(part) = &scenario.traffic {
        traffic::run(scenario, part, &mut report, watch);
    }
    if let Some(part) = &scenario.churn {
        churn::run(scenario, part, &mut report, watch);
    }
    if let Some(part) = &scenario.guests {
        guests::run(scenario, part, &mut report, watch);
    }
    if let Some(part) = &scenario.ring {
        ring::run(scenario, part, &mut report, watch);
    }
    if let Some(part) = &scenario.market {
        market::run(scenario, part, &mut report, watch);
    }
    if let Some(part) = &scenario.matchmaking {
        matchmaking::run(scenario, part, &mut report, watch);
    }
    let took = watch.seconds() - start;
    if took > 0.0 {
        report.events_per_s = report.events as f64 / took;
    }
    report
}

/// The rates at which the paper's own way gives the mean load of leaves that each activity names.
pub fn calibrate(scenario: &Scenario, seed: u64, watch: &mut dyn Watch) -> Vec<(String, f64)> {
    traffic::calibrate(scenario, seed, watch)
}
