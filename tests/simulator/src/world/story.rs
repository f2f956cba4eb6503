//! The words that stories are told in.

use super::World;
use crate::engine::Program;
use bytes::Bytes;
use node_core::content::{BlobRef, Data};
use node_core::platform::Platform;
use node_core::work::spec::{CheckpointEvery, Find, JobSpec, OnLoss, OwnedBy, Template, UnitResult, Units};
use node_core::work::view::JobView;
use node_core::{BlobId, Command, Config, JobId, NodeEvent, NodeInput, Time};
use sandbox::{Limits, Outcome, Task};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Echoes its arguments after 20 ms.
pub fn echo(task: &Task) -> (Duration, Outcome) {
    let stdout = Bytes::from(task.arguments.join(" "));
    (Duration::from_millis(20), Outcome { stdout, cpu_us: 20_000, ..ended(0) })
}

pub fn ended(code: u32) -> Outcome {
    Outcome::of(sandbox::End::Exited(code))
}

impl World {
    /// A gateway without slots is node 0; `workers` of them follow, connected to it.
    pub fn swarm(mut self, workers: usize, slots: u32) -> World {
        self.add(Config { gateway: true, slots: 0, name: "gateway".into(), ..Config::default() });
        for n in 0..workers {
            let platform = if n % 2 == 0 { Platform::Native } else { Platform::Browser };
            self.add(Config { slots, platform, name: format!("worker {n}"), ..Config::default() });
            self.connect(0, n + 1);
        }
        self.run_until(Duration::from_secs(1), "the gateway has read its disk", |w| w.node(0).is_ready());
        self
    }

    pub fn with(mut self, program: Program) -> World {
        self.program = program;
        self
    }

    /// Puts content into a node's storage, as an upload does.
    pub fn upload(&mut self, at: usize, bytes: &[u8]) -> BlobRef {
        let blob = BlobRef { id: BlobId::of(bytes), len: bytes.len() as u64 };
        self.nodes[at].disk.put_blob(blob.id, Bytes::copy_from_slice(bytes));
        self.drive(at, NodeInput::Command(Command::BlobsStored(vec![(blob.id, blob.len)])));
        blob
    }

    /// A job of `count` units of the world's program, argument `{}`.
    pub fn sweep(&mut self, at: usize, count: u32) -> JobSpec {
        let program = self.upload(at, b"a program");
        JobSpec {
            name: "story".into(),
            template: Template {
                program,
                arguments: vec!["{}".into()],
                environment: vec![],
                stdin: Data::EMPTY,
                files: vec![],
                limits: Limits::default(),
                bit_exact: false,
                checkpoint: CheckpointEvery::default(),
                on_loss: OnLoss::default(),
                threads: None,
            },
            units: Units::Sweep { first: 0, count },
            priority: 0,
            max_retries: 0,
            find: Find::default(),
            owner: OwnedBy::default(),
            requires: Default::default(),
        }
    }

    pub fn submit(&mut self, at: usize, spec: JobSpec) -> JobId {
        let job = JobId(std::array::from_fn(|_| self.rng.u64() as u8));
        self.drive(at, NodeInput::Command(Command::Submit { job, spec }));
        job
    }

    /// The job at its owner, node 0.
    pub fn job(&self, job: JobId) -> Option<JobView> {
        self.nodes[0].node.as_ref()?.job(job)
    }

    pub fn is_over(&self, job: JobId) -> bool {
        self.job(job).is_some_and(|job| job.state.is_over())
    }

    pub fn refusal(&self, id: JobId) -> Option<String> {
        self.told.iter().find_map(|(_, _, event)| match event {
            NodeEvent::JobRefused { job, why } if *job == id => Some(why.to_string()),
            _ => None,
        })
    }

    pub fn faults(&self, at: usize) -> Vec<String> {
        let fault = |(_, node, event): &(Time, usize, NodeEvent)| match event {
            NodeEvent::PeerFault { fault, .. } if *node == at => Some(fault.clone()),
            _ => None,
        };
        self.told.iter().filter_map(fault).collect()
    }

    /// Results of the job on the owner's disk: exactly what a restart would find.
    pub fn results(&self, job: JobId) -> BTreeMap<u32, UnitResult> {
        self.nodes[0].disk.results(job)
    }

    /// The claim of most stories: each unit once, with the right output.
    pub fn assert_all_right(&self, job: JobId, count: u32) {
        let results = self.results(job);
        let indices: BTreeSet<u32> = results.keys().copied().collect();
        assert_eq!(indices, (0..count).collect(), "seed {}: none missing", self.seed);
        for (index, result) in results {
            let Data::Inline(stdout) = result.stdout else { panic!("seed {}: echo is short", self.seed) };
            assert_eq!(stdout, index.to_string(), "seed {}: unit {index}", self.seed);
        }
        let view = self.job(job).expect("the owner knows it");
        let counted: u64 = view.by_node.iter().map(|(_, units, _)| units).sum();
        assert_eq!(counted, u64::from(count), "seed {}: none counted twice", self.seed);
    }

    pub(super) fn report(&self) -> String {
        let jobs = self.nodes[0].node.as_ref().map(|node| node.jobs()).unwrap_or_default();
        format!("{jobs:#?}\n{:#?}", self.told.iter().rev().take(12).collect::<Vec<_>>())
    }
}
