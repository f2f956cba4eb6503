//! An engine: as many runs at once as it has slots, the rest in order.

use crate::disk::Disk;
use bytes::Bytes;
use node_core::work::spec::{Data, NamedData};
use node_core::{EngineReply, EngineRequest, EngineTask, RunId, Time};
use sandbox::{File, Outcome, Task};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

/// What the engines of a world make of a task: how long it takes on a node of [`MIPS`], and how
/// it ends.
pub type Program = fn(&Task) -> (Duration, Outcome);

/// Speed of a node that nothing else is said of, million instructions a second (paper 000,
/// section 6).
pub const MIPS: u32 = 2_000;

/// How long so much fuel lasts on a node of [`MIPS`]: one instruction a unit.
pub fn fuel(units: u64) -> Duration {
    Duration::from_micros(units / u64::from(MIPS))
}

#[derive(Default)]
pub struct Engine {
    slots: u32,
    /// Fails at every run, as a machine does that is out of memory.
    pub broken: bool,
    queue: VecDeque<(RunId, EngineTask)>,
    running: BTreeSet<RunId>,
}

impl Engine {
    pub fn request(&mut self, request: EngineRequest) {
        match request {
            EngineRequest::Run { run, task } => self.queue.push_back((run, task)),
            EngineRequest::Kill { run } => {
                self.running.remove(&run);
                self.queue.retain(|(queued, _)| *queued != run);
            }
            EngineRequest::Slots(slots) => self.slots = slots,
            EngineRequest::Snapshot { .. } | EngineRequest::Pause { .. } => {}
        }
    }

    /// Starts what has room on a node of that speed: the replies to come, and when.
    pub fn start_next(
        &mut self,
        now: Time,
        disk: &Disk,
        program: Program,
        mips: u32,
    ) -> Vec<(EngineReply, Time)> {
        let mut started = Vec::new();
        while self.running.len() < self.slots as usize {
            let Some((run, task)) = self.queue.pop_front() else { break };
            self.running.insert(run);
            let task = if self.broken { Err("no memory is left".into()) } else { resolve(task, disk) };
            started.push(match task {
                Ok(task) => {
                    let (time, outcome) = program(&task);
                    (EngineReply::Ended { run, outcome }, now + time * MIPS / mips.max(1))
                }
                Err(error) => (EngineReply::Broken { run, error }, now),
            });
        }
        started
    }

    /// Whether the run was still wanted.
    pub fn is_over(&mut self, reply: &EngineReply) -> bool {
        let (EngineReply::Ended { run, .. }
        | EngineReply::Broken { run, .. }
        | EngineReply::Snapshot { run, .. }) = reply;
        self.running.remove(run)
    }
}

fn resolve(task: EngineTask, disk: &Disk) -> Result<Task, String> {
    let bytes = |data: Data| -> Result<Bytes, String> {
        match data {
            Data::Inline(bytes) => Ok(bytes),
            Data::Blob(blob) => disk.blob(blob.id).cloned().ok_or(format!("blob {} is missing", blob.id)),
        }
    };
    disk.blob(task.program).ok_or("the program is missing")?;
    let file = |named: NamedData| Ok::<_, String>(File { path: named.path, data: bytes(named.data)? });
    Ok(Task {
        arguments: task.arguments,
        environment: task.environment,
        stdin: bytes(task.stdin)?,
        files: task.files.into_iter().map(file).collect::<Result<_, _>>()?,
        limits: task.limits,
        seed: task.seed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_of_twice_the_speed_takes_half_the_time() {
        let program = Bytes::from_static(b"p");
        let mut disk = Disk::default();
        disk.put_blob(BlobId::of(&program), program.clone());
        let mut engine = Engine::default();
        engine.request(EngineRequest::Slots(1));
        let task = |program| EngineTask {
            program,
            arguments: vec![],
            environment: vec![],
            stdin: Data::EMPTY,
            files: vec![],
            limits: Default::default(),
            seed: 0,
            bit_exact: false,
            key: Default::default(),
            from: None,
        };
        for run in 0..2 {
            engine.request(EngineRequest::Run { run: RunId(run), task: task(BlobId::of(&program)) });
        }
        let work: Program = |_| (fuel(20_000_000), Outcome::of(sandbox::End::Exited(0)));
        let started = engine.start_next(Time(5), &disk, work, 2 * MIPS);
        assert_eq!(started.len(), 1, "one slot");
        assert_eq!(started[0].1, Time(5_005));
        assert!(engine.is_over(&started[0].0) && !engine.is_over(&started[0].0));
        assert_eq!(engine.start_next(Time(5_005), &disk, work, MIPS)[0].1, Time(15_005));
    }

    use node_core::BlobId;
}
