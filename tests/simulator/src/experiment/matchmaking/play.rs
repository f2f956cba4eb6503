//! Fate of the jobs of a workload among the product's own nodes, as engines tell it.

use crate::engine::{MIPS, Ran};
use crate::experiment::Watch;
use crate::matchmaking::Outcome;
use crate::matchmaking::workload::{Workload, can};
use node_core::Time;
use std::collections::BTreeMap;

pub(super) struct Play<'a> {
    workload: &'a Workload,
    gateways: usize,
    began: Time,
    /// Nodes come and go: what one of them computed may be lost, and is computed again.
    churns: bool,
    pub(super) outcome: Outcome,
    started: Vec<bool>,
    /// Ends of each job.
    ends: Vec<u32>,
    /// Jobs that have run to their end.
    pub(super) over: usize,
    /// When the last job of a node ended.
    ended: BTreeMap<usize, Time>,
    /// Times for which nodes idled between two jobs, microseconds.
    idle: Vec<u64>,
    /// By unit, its job and when it began where it runs.
    runs: BTreeMap<u64, (usize, Time)>,
    moved: u64,
    /// Fuel that units had used when they were lost with their nodes; and of it what was used again.
    stood: BTreeMap<u64, u64>,
    lost: u64,
    pub(super) wrong: Vec<String>,
}

impl<'a> Play<'a> {
    pub(super) fn new(workload: &'a Workload, gateways: usize, began: Time, churns: bool) -> Play<'a> {
        let jobs = workload.jobs.len();
        Play {
            workload,
            gateways,
            began,
            churns,
            outcome: Outcome::of(workload),
            started: vec![false; jobs],
            ends: vec![0; jobs],
            over: 0,
            ended: BTreeMap::new(),
            idle: Vec::new(),
            runs: BTreeMap::new(),
            moved: 0,
            stood: BTreeMap::new(),
            lost: 0,
            wrong: Vec::new(),
        }
    }

    pub(super) fn ran(&mut self, time: Time, at: usize, ran: Ran) {
        match ran {
            Ran::Began { unit, fuel, argument: Some(job) } => {
                self.began(time, at, (unit, fuel), job as usize);
            }
            Ran::Stopped { unit, .. } => {
                self.busy(time, at, unit);
            }
            Ran::Lost { unit, fuel } | Ran::Killed { unit, fuel } => {
                self.busy(time, at, unit);
                self.stood.insert(unit, fuel);
            }
            Ran::Ended { unit, .. } => {
                self.ended.insert(at, time);
                let Some(job) = self.busy(time, at, unit) else { return };
                self.over += usize::from(self.ends[job] == 0);
                self.ends[job] += 1;
                self.outcome.ended(self.workload, job, time.since(self.began).as_micros() as u64);
            }
            Ran::Began { .. } => {}
        }
    }

    fn began(&mut self, time: Time, at: usize, (unit, fuel): (u64, u64), job: usize) {
        let node = at - self.gateways;
        self.moved += u64::from(fuel > 0);
        self.lost += self.stood.remove(&unit).map_or(0, |stood| stood.saturating_sub(fuel));
        if fuel == 0 && std::mem::replace(&mut self.started[job], true) && !self.churns {
            return self.wrong.push(format!("job {job} has started twice"));
        }
        self.runs.insert(unit, (job, time));
        if !can(&self.workload.nodes[node], &self.workload.jobs[job].needs) {
            self.wrong.push(format!("job {job} has started at node {node}, which cannot run it"));
        }
        if let Some(end) = self.ended.remove(&at) {
            self.idle.push(time.since(end).as_micros() as u64);
        }
    }

    /// The unit runs there no more. Its job.
    fn busy(&mut self, time: Time, at: usize, unit: u64) -> Option<usize> {
        let (job, since) = self.runs.remove(&unit)?;
        self.outcome.busy[at - self.gateways] += time.since(since).as_micros() as u64;
        Some(job)
    }

    pub(super) fn tell(&mut self, watch: &mut dyn Watch) {
        watch.say(&format!("units went on elsewhere {} times", self.moved));
        let again = self.ends.iter().map(|ends| u64::from(ends.saturating_sub(1))).sum::<u64>();
        let lost = (self.lost / u64::from(MIPS)) as f64 / self.outcome.busy.iter().sum::<u64>().max(1) as f64;
        watch.say(&format!(
            "{again} jobs ran to their end once more; {:.2} % of all time was spent twice",
            lost * 100.0
        ));
        self.idle.sort_unstable();
        let idle = self.idle.get(self.idle.len() / 2).map_or(0.0, |us| *us as f64 / 1e6);
        watch.say(&format!("half of the nodes idled for less than {idle:.2} s between two jobs"));
    }
}
