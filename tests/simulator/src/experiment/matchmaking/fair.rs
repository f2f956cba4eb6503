//! Fairness among submitters: one has thousands of jobs at once, and many come later with a few each. The *stretch* of a
//! submitter is the time from its submission to the end of its last job, beside what that would take if it had all nodes
//! to itself.

use super::nodes;
use crate::experiment::Watch;
use crate::matchmaking::Outcome;
use crate::matchmaking::central::Scheme;
use crate::matchmaking::workload::{Job, Mix, Workload};
use crate::report::{Report, Row};
use crate::scenario::{Batches, MatchmakingPart, Scenario};

/// Microseconds between two jobs of a submitter: a client has a thousand under way at most.
const BETWEEN_US: usize = 5000;

/// Jobs of one submitter, submitted one right after the other.
struct Batch {
    jobs: std::ops::Range<usize>,
    arrival_us: u64,
}

impl Batch {
    fn ended_us(&self, workload: &Workload, outcome: &Outcome) -> u64 {
        let end = |at: usize| {
            let job = &workload.jobs[at];
            job.arrival_us + outcome.waits[at] + job.run_us
        };
        self.jobs.clone().map(end).max().unwrap_or_default()
    }

    /// Time that it takes with all nodes to itself.
    fn alone_us(&self, workload: &Workload, seed: u64) -> u64 {
        let jobs = workload.jobs[self.jobs.clone()].iter().map(|job| Job { arrival_us: 0, ..*job });
        let alone = Workload { nodes: workload.nodes.clone(), jobs: jobs.collect() };
        Scheme::Late.run(&alone, seed).makespan
    }

    fn stretch(&self, workload: &Workload, outcome: &Outcome, seed: u64) -> f64 {
        let took = self.ended_us(workload, outcome) - self.arrival_us;
        took as f64 / self.alone_us(workload, seed).max(1) as f64
    }
}

/// The workload, and the batch of each submitter: the large one first.
fn draw(mix: Mix, seed: u64, nodes: usize, large: usize, batches: &Batches) -> (Workload, Vec<Batch>) {
    let few = batches.jobs.0 as usize;
    let others = (batches.submitters.0 as usize * nodes).div_ceil(1000);
    let mut workload = mix.draw(seed, nodes, large + others * few, 0.1);
    let small = (0..others).map(|at| {
        let first = large + at * few;
        let after = (large * BETWEEN_US) as u64;
        let arrival_us = after + (batches.within_s.0 * 1e6) as u64 * at as u64 / others as u64;
        Batch { jobs: first..first + few, arrival_us }
    });
    let all: Vec<Batch> = std::iter::once(Batch { jobs: 0..large, arrival_us: 0 }).chain(small).collect();
    for batch in &all {
        let times = (batch.arrival_us..).step_by(BETWEEN_US);
        let jobs = workload.jobs[batch.jobs.clone()].iter_mut();
        jobs.zip(times).for_each(|(job, at)| job.arrival_us = at);
    }
    (workload, all)
}

pub(super) fn run(
    scenario: &Scenario,
    (part, batches): (&MatchmakingPart, &Batches),
    mix: Mix,
    report: &mut Report,
    watch: &mut dyn Watch,
) {
    let nodes = scenario.nodes.0 as usize;
    let (workload, all) = draw(mix, report.seed, nodes, nodes * part.jobs_a_node.0 as usize, batches);
    let owners = (0..).zip(&all).flat_map(|(owner, batch)| batch.jobs.clone().map(move |_| owner));
    let owners: Vec<usize> = owners.collect();
    for scheme in &part.schemes {
        let (outcome, messages) = match scheme.central() {
            Some(central) => (central.run(&workload, report.seed), 0.0),
            None => nodes::run(scenario, &workload, (Some(&owners), scheme.way()), report, watch),
        };
        report.events += workload.jobs.len() as u64;
        let (large, small) = all.split_at(1);
        for (batches, name) in [(large, "large"), (small, "small")] {
            let mut stretch: Vec<f64> =
                batches.iter().map(|batch| batch.stretch(&workload, &outcome, report.seed)).collect();
            stretch.sort_unstable_by(f64::total_cmp);
            let mean = stretch.iter().sum::<f64>() / stretch.len().max(1) as f64;
            report.rows.push(
                Row::default()
                    .with("workload", mix.name().as_str())
                    .with("scheme", scheme.name())
                    .with("submitter", name)
                    .with("submitters", batches.len() as u64)
                    .with("stretch_mean", mean)
                    .with("stretch_max", stretch.last().copied().unwrap_or_default())
                    .with("messages_per_job", messages / workload.jobs.len() as f64),
            );
        }
    }
}
