//! Matching jobs with requirements to nodes that can run them (paper `match`): the workloads, and the central
//! schedulers that a swarm is compared with.

pub mod central;
pub mod workload;

use workload::Workload;

/// Fate of a workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Wait of each job, microseconds: from its arrival to its end, but the time for which it ran.
    pub waits: Vec<u64>,
    /// End of the last job, microseconds from the start.
    pub makespan: u64,
    /// Time for which each node ran jobs, microseconds.
    pub busy: Vec<u64>,
}

impl Outcome {
    /// Nothing has run yet.
    pub fn of(workload: &Workload) -> Outcome {
        Outcome { waits: vec![0; workload.jobs.len()], makespan: 0, busy: vec![0; workload.nodes.len()] }
    }

    /// Job `at` runs on `node` from `start`, microseconds, to its end, which is returned.
    pub fn ran(&mut self, workload: &Workload, at: usize, node: usize, start: u64) -> u64 {
        let job = &workload.jobs[at];
        let end = start + job.run_us;
        self.busy[node] += job.run_us;
        self.ended(workload, at, end);
        end
    }

    /// Job `at` has ended then, microseconds from the start.
    pub fn ended(&mut self, workload: &Workload, at: usize, end: u64) {
        let job = &workload.jobs[at];
        self.waits[at] = end.saturating_sub(job.arrival_us + job.run_us);
        self.makespan = self.makespan.max(end);
    }

    pub fn mean_s(&self) -> f64 {
        let sum: u64 = self.waits.iter().sum();
        sum as f64 / 1e6 / self.waits.len().max(1) as f64
    }

    /// Wait that this share of the jobs does not exceed.
    pub fn quantile_s(&self, share: f64) -> f64 {
        let mut sorted = self.waits.clone();
        sorted.sort_unstable();
        let at = (share * sorted.len() as f64).ceil() as usize;
        sorted.get(at.saturating_sub(1)).map_or(0.0, |wait| *wait as f64 / 1e6)
    }

    pub fn makespan_s(&self) -> f64 {
        self.makespan as f64 / 1e6
    }

    /// Evenness of the load: Jain's index of the times for which nodes were busy, 1 if all were for equally long.
    pub fn jain(&self) -> f64 {
        let busy = || self.busy.iter().map(|us| *us as f64 / 1e6);
        let (sum, squares) = (busy().sum::<f64>(), busy().map(|s| s * s).sum::<f64>());
        if squares == 0.0 { 1.0 } else { sum * sum / (squares * self.busy.len() as f64) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_an_outcome_are_those_of_its_waits() {
        let waits = (1..=200).rev().map(|s| s * 1_000_000).collect();
        let outcome = Outcome { waits, makespan: 5_500_000, busy: vec![3, 0, 3, 0] };
        assert_eq!(
            (outcome.mean_s(), outcome.quantile_s(0.99), outcome.quantile_s(1.0)),
            (100.5, 198.0, 200.0)
        );
        assert_eq!((outcome.makespan_s(), outcome.jain()), (5.5, 0.5));
        let none = Outcome::default();
        assert_eq!((none.mean_s(), none.quantile_s(0.99), none.jain()), (0.0, 0.0, 1.0));
    }
}
