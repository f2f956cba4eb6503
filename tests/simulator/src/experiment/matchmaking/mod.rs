//! How long jobs with requirements wait (paper `match`, section 3.3, figure 2), by the scheme that finds nodes for
//! them. A message of a central scheme costs nothing: it knows all.

mod fair;
mod nodes;
mod play;
mod sessions;

use super::Watch;
use crate::matchmaking::central::Scheme;
use crate::matchmaking::workload::Mix;
use crate::report::{Report, Row};
use crate::scenario::{Matching, MatchmakingPart, Scenario};
use node_core::requires::{Binding, Matchmaking};

/// Nodes for which the scenario's gaps are meant.
const GAPS_OF: f64 = 1000.0;

impl Matching {
    fn name(self) -> &'static str {
        match self {
            Matching::Shortest => "shortest",
            Matching::Late => "late",
            Matching::Scarce => "scarce",
            Matching::Rntree => "rntree",
            Matching::CanBasic => "can-basic",
            Matching::CanPush => "can-push",
            Matching::Pull => "pull",
            Matching::PullCan => "pull-can",
        }
    }

    /// The scheduler that knows all; none: nodes find each other.
    fn central(self) -> Option<Scheme> {
        match self {
            Matching::Shortest => Some(Scheme::Shortest),
            Matching::Late => Some(Scheme::Late),
            Matching::Scarce => Some(Scheme::Scarce),
            _ => None,
        }
    }

    /// By what nodes find each other, and when they bind jobs.
    fn way(self) -> (Matchmaking, Binding) {
        match self {
            Matching::Rntree => (Matchmaking::RnTree, Binding::Early),
            Matching::CanBasic => (Matchmaking::Can, Binding::Early),
            Matching::CanPush => (Matchmaking::Can, Binding::Pushed),
            Matching::PullCan => (Matchmaking::Can, Binding::Pull),
            _ => (Matchmaking::RnTree, Binding::Pull),
        }
    }
}

pub(super) fn run(scenario: &Scenario, part: &MatchmakingPart, report: &mut Report, watch: &mut dyn Watch) {
    let nodes = scenario.nodes.0 as usize;
    let jobs = nodes * part.jobs_a_node.0 as usize;
    for gap in &part.gap_s {
        let named = |mix: &Mix| part.workloads.is_empty() || part.workloads.contains(&mix.name());
        for mix in Mix::ALL.into_iter().filter(named) {
            if let Some(batches) = &part.batches {
                fair::run(scenario, (part, batches), mix, report, watch);
                continue;
            }
            let workload = mix.draw(report.seed, nodes, jobs, gap.0 * GAPS_OF / nodes as f64);
            for scheme in &part.schemes {
                let (outcome, messages) = match scheme.central() {
                    Some(central) => {
                        report.events += jobs as u64;
                        (central.run(&workload, report.seed), 0.0)
                    }
                    None => nodes::run(scenario, &workload, (None, scheme.way()), report, watch),
                };
                report.rows.push(
                    Row::default()
                        .with("workload", mix.name().as_str())
                        .with("gap_s", gap.0)
                        .with("scheme", scheme.name())
                        .with("seeds", 1u64)
                        .with("mean_s", outcome.mean_s())
                        .with("p99_s", outcome.quantile_s(0.99))
                        .with("max_s", outcome.quantile_s(1.0))
                        .with("makespan_s", outcome.makespan_s())
                        .with("messages_per_job", messages / jobs as f64)
                        .with("jain", outcome.jain()),
                );
            }
            watch.say(&format!("{}, a job each {} s", mix.name(), gap.0));
        }
    }
}
