//! Central schedulers, which know all nodes and all jobs at once and at no cost: what a swarm is compared with.

use super::Outcome;
use super::workload::{Draws, SCHEDULER, Vector, Workload, can};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Seconds of waiting that a scarce job is worth, for each factor of e by which fewer nodes can run it. Our choice,
/// of 60 and 200: the mean of the hardest workload is lowest.
const SCARCITY_S: f64 = 60.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Early binding: a job goes at once to the queue of the capable node with the fewest jobs.
    Shortest,
    /// Late binding: a node that is free takes the oldest job that it can run.
    Late,
    /// Late binding, and an idle node is chosen that can do least.
    Fit,
    /// So, and a free node takes the job with the most of age and scarcity.
    Scarce,
}

impl Scheme {
    pub fn run(self, workload: &Workload, seed: u64) -> Outcome {
        let draws = Draws::new(seed, SCHEDULER);
        match self {
            Scheme::Shortest => shortest(workload, draws),
            Scheme::Late | Scheme::Fit | Scheme::Scarce => Late::new(self, workload, draws).run(),
        }
    }
}

fn shortest(workload: &Workload, mut draws: Draws) -> Outcome {
    let mut outcome = Outcome::of(workload);
    let mut queues = vec![(0u32, 0u64); workload.nodes.len()];
    let mut ends = Ends::default();
    for (at, job) in workload.jobs.iter().enumerate() {
        while let Some((_, node)) = ends.pop_until(job.arrival_us) {
            queues[node].0 -= 1;
        }
        let capable = |node: &usize| can(&workload.nodes[*node], &job.needs);
        let nodes = || (0..queues.len()).filter(capable);
        let Some(fewest) = nodes().map(|node| queues[node].0).min() else { continue };
        let best: Vec<usize> = nodes().filter(|node| queues[*node].0 == fewest).collect();
        let node = best[draws.below(best.len() as u64) as usize];
        let start = queues[node].1.max(job.arrival_us);
        let end = outcome.ran(workload, at, node, start);
        queues[node] = (fewest + 1, end);
        ends.0.insert((end, node));
    }
    outcome
}

/// When jobs end, microseconds, and at which nodes.
#[derive(Default)]
struct Ends(BTreeSet<(u64, usize)>);

impl Ends {
    /// The next one until then.
    fn pop_until(&mut self, until: u64) -> Option<(u64, usize)> {
        let next = self.0.first().copied().filter(|(end, _)| *end <= until)?;
        self.0.remove(&next);
        Some(next)
    }
}

struct Late<'a> {
    scheme: Scheme,
    workload: &'a Workload,
    draws: Draws,
    outcome: Outcome,
    /// Idle nodes by the sum of their capabilities.
    idle: BTreeSet<(u32, usize)>,
    /// Jobs that wait, in the order of their arrival, each with what its scarcity is worth, microseconds.
    queue: Vec<(usize, u64)>,
    ends: Ends,
}

impl<'a> Late<'a> {
    fn new(scheme: Scheme, workload: &'a Workload, draws: Draws) -> Late<'a> {
        let idle = workload.nodes.iter().enumerate().map(|(at, node)| (node.iter().sum(), at)).collect();
        let (outcome, queue, ends) = (Outcome::of(workload), Vec::new(), Ends::default());
        Late { scheme, workload, draws, outcome, idle, queue, ends }
    }

    fn run(mut self) -> Outcome {
        for (at, job) in self.workload.jobs.iter().enumerate() {
            self.free_until(job.arrival_us);
            match self.choose(&job.needs) {
                Some(node) => self.start(at, node, job.arrival_us),
                None => {
                    let scarcity = self.scarcity_us(&job.needs);
                    self.queue.push((at, scarcity));
                }
            }
        }
        self.free_until(u64::MAX);
        self.outcome
    }

    /// An idle node for a job that arrives.
    fn choose(&mut self, needs: &Vector) -> Option<usize> {
        let nodes = &self.workload.nodes;
        let capable = |&&(_, node): &&(u32, usize)| can(&nodes[node], needs);
        if self.scheme != Scheme::Late {
            return self.idle.iter().find(capable).map(|(_, node)| *node);
        }
        let mut capable: Vec<usize> = self.idle.iter().filter(capable).map(|(_, node)| *node).collect();
        capable.sort_unstable();
        (!capable.is_empty()).then(|| capable[self.draws.below(capable.len() as u64) as usize])
    }

    fn scarcity_us(&self, needs: &Vector) -> u64 {
        if self.scheme != Scheme::Scarce {
            return 0;
        }
        let nodes = &self.workload.nodes;
        let capable = nodes.iter().filter(|node| can(node, needs)).count().max(1);
        (SCARCITY_S * 1e6 * (nodes.len() as f64 / capable as f64).ln()) as u64
    }

    fn start(&mut self, job: usize, node: usize, at: u64) {
        self.idle.remove(&(self.workload.nodes[node].iter().sum(), node));
        let end = self.outcome.ran(self.workload, job, node, at);
        self.ends.0.insert((end, node));
    }

    /// Nodes whose jobs end until then take others.
    fn free_until(&mut self, until: u64) {
        while let Some((now, node)) = self.ends.pop_until(until) {
            let has = &self.workload.nodes[node];
            self.idle.insert((has.iter().sum(), node));
            let jobs = &self.workload.jobs;
            let fits = self.queue.iter().enumerate().filter(|(_, (job, _))| can(has, &jobs[*job].needs));
            // The oldest of equal ones comes first.
            let best = match self.scheme {
                Scheme::Scarce => fits.max_by_key(|(place, (job, scarcity))| {
                    (now - jobs[*job].arrival_us + scarcity, Reverse(*place))
                }),
                _ => fits.into_iter().next(),
            };
            if let Some((place, (job, _))) = best.map(|(place, entry)| (place, *entry)) {
                self.queue.remove(place);
                self.start(job, node, now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matchmaking::workload::Mix;

    /// Rounded to a tenth of a second.
    fn figures(outcome: &Outcome) -> [f64; 4] {
        let all = [outcome.mean_s(), outcome.quantile_s(0.99), outcome.quantile_s(1.0), outcome.makespan_s()];
        all.map(|s| (s * 10.0).round() / 10.0)
    }

    #[test]
    fn the_scheme_without_draws_gives_what_other_programs_give() {
        let busy = [
            [454.9, 950.1, 966.1, 2252.5],
            [454.9, 951.6, 964.1, 2248.8],
            [454.9, 951.4, 965.1, 2249.3],
            [455.0, 953.1, 1011.1, 2283.1],
            [454.9, 950.1, 967.9, 2247.6],
            [519.8, 1082.8, 1114.7, 2393.3],
            [455.0, 955.1, 1303.7, 2337.2],
            [461.6, 1195.1, 1858.6, 2981.9],
        ];
        let rest = [0.0, 0.0, 0.0, 2768.8];
        let calm =
            [rest, rest, rest, rest, rest, rest, [0.5, 0.0, 297.4, 2800.5], [15.3, 265.7, 1110.0, 3158.4]];
        for ((mix, busy), calm) in Mix::ALL.into_iter().zip(busy).zip(calm) {
            let run = |gap_s| figures(&Scheme::Fit.run(&mix.draw(1, 1000, 10_000, gap_s), 1));
            assert_eq!((run(0.1), run(0.25)), (busy, calm), "{}", mix.name());
        }
    }

    #[test]
    fn who_binds_late_waits_less_than_who_binds_early() {
        for mix in Mix::ALL {
            let workload = mix.draw(2, 100, 1000, 1.0);
            let mean = |scheme: Scheme| scheme.run(&workload, 2).mean_s();
            let (shortest, late, scarce) = (mean(Scheme::Shortest), mean(Scheme::Late), mean(Scheme::Scarce));
            assert!(late < shortest && scarce < shortest, "{}: {shortest} {late} {scarce}", mix.name());
        }
    }
}
