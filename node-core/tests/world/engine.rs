//! An engine: as many runs at once as it has slots, the rest in order.

use super::Program;
use super::disk::Disk;
use bytes::Bytes;
use node_core::work::spec::Data;
use node_core::{EngineReply, EngineRequest, EngineTask, RunId, Time};
use sandbox::{File, Task};
use std::collections::{BTreeSet, VecDeque};

#[derive(Default)]
pub(super) struct Engine {
    slots: u32,
    /// Fails at every run, as a machine does that is out of memory.
    pub(super) broken: bool,
    queue: VecDeque<(RunId, EngineTask)>,
    running: BTreeSet<RunId>,
}

impl Engine {
    pub(super) fn request(&mut self, request: EngineRequest) {
        match request {
            EngineRequest::Run { run, task } => self.queue.push_back((run, task)),
            EngineRequest::Kill { run } => {
                self.running.remove(&run);
                self.queue.retain(|(queued, _)| *queued != run);
            }
            EngineRequest::Slots(slots) => self.slots = slots,
        }
    }

    /// Starts what has room: the replies to come, and when.
    pub(super) fn start_next(
        &mut self,
        now: Time,
        disk: &Disk,
        program: Program,
    ) -> Vec<(EngineReply, Time)> {
        let mut started = Vec::new();
        while self.running.len() < self.slots as usize {
            let Some((run, task)) = self.queue.pop_front() else { break };
            self.running.insert(run);
            let task = if self.broken { Err("no memory is left".into()) } else { resolve(task, disk) };
            started.push(match task {
                Ok(task) => {
                    let (time, outcome) = program(&task);
                    (EngineReply::Ended { run, outcome }, now + time)
                }
                Err(error) => (EngineReply::Broken { run, error }, now),
            });
        }
        started
    }

    /// Whether the run was still wanted.
    pub(super) fn is_over(&mut self, reply: &EngineReply) -> bool {
        let (EngineReply::Ended { run, .. } | EngineReply::Broken { run, .. }) = reply;
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
    let file = |named: node_core::work::spec::NamedData| {
        Ok::<_, String>(File { path: named.path, data: bytes(named.data)? })
    };
    Ok(Task {
        arguments: task.arguments,
        environment: task.environment,
        stdin: bytes(task.stdin)?,
        files: task.files.into_iter().map(file).collect::<Result<_, _>>()?,
        limits: task.limits,
        seed: task.seed,
    })
}
