//! Requests of a node to its engine, and the engine's events.

use crate::content::{BlobRef, Data, NamedData};
use crate::ids::BlobId;
use bytes::Bytes;
use sandbox::swarm::{Choice, Letter, Marks, Said, Thread};
use sandbox::{Limits, Outcome};
use serde::{Deserialize, Serialize};

/// Names a run of a unit on this node's engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub u64);

// Most of them are runs; a box would only add a step.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug)]
pub enum EngineRequest {
    /// Run this. All blobs it names are in the node's storage. The engine runs as many at
    /// once as it was last told and keeps the rest in order.
    Run { run: RunId, task: EngineTask },
    /// A task will come that goes on from `task.from`, which is whole, or from what is relative to
    /// it: have its program and that at hand, in a slot that is free. Answered by `Prepared`, or as
    /// a run that ends at once.
    Prepare { run: RunId, task: EngineTask },
    /// End it, queued or running. Answered by `Ended` only if it had already ended.
    Kill { run: RunId },
    /// Take a snapshot, with `stop` of a run that then ends. Answered with one `Snapshot`, or
    /// not at all if the run ended first.
    Snapshot { run: RunId, stop: bool },
    /// Give it no more fuel, or fuel again. A run that waits keeps its slot and its memory.
    Pause { run: RunId, paused: bool },
    /// These have come for the thread that this run is. Those for a run that has not begun are left out: once it
    /// has, it says what it needs.
    Letters { run: RunId, letters: Vec<Letter> },
    /// Run this many at once from now on; those above go on.
    Slots(u32),
    /// Say whether any node could run this program, with so much memory. It is in the node's storage.
    /// Answered by `Inspected`.
    Inspect { number: u64, program: BlobId, memory_bytes: u64 },
}

/// A task whose content may still be in storage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineTask {
    pub program: BlobId,
    pub arguments: Vec<String>,
    pub environment: Vec<(String, String)>,
    pub stdin: Data,
    pub files: Vec<NamedData>,
    pub limits: Limits,
    pub seed: u64,
    /// Whether results have the same bits in every engine, NaNs included; this costs speed.
    pub bit_exact: bool,
    /// Key with which the snapshots are sealed: the unit's own, known to its owner and its runner.
    pub key: SealKey,
    /// Where it goes on; none: at its first instruction.
    pub from: Option<SnapshotRef>,
    /// Set if it is a thread of a virtual computer.
    #[serde(default)]
    pub thread: Option<ThreadTask>,
}

/// The thread that a task is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadTask {
    pub thread: Thread,
    /// Reads of an earlier run, each with the number under which it was told.
    pub choices: Vec<(u64, Choice)>,
}

/// A key that snapshots of one unit are sealed with. Not shown in logs.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealKey(pub [u8; 32]);

impl std::fmt::Debug for SealKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SealKey(..)")
    }
}

/// A snapshot in storage: sealed, and whole or relative to a base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotRef {
    pub blob: BlobRef,
    /// The whole snapshot that `blob` is relative to.
    pub base: Option<BlobRef>,
    /// The hash of the task's state: the same wherever and however it was taken.
    pub root: [u8; 32],
    /// Used from the first instruction on.
    pub fuel: u64,
}

/// A snapshot fresh from the engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// Hash and length of the content. The engine computes them, so that the node's thread does not.
    pub blob: BlobRef,
    /// Sealed. Empty if the engine has put the content into a file of storage already: `PutBlob` with these bytes
    /// then makes that file the blob.
    pub bytes: Bytes,
    /// The whole snapshot that these are relative to: the last whole one that this run gave, or the
    /// one that it began from.
    pub base: Option<BlobId>,
    pub root: [u8; 32],
    pub fuel: u64,
    /// How long the task stood still for it, microseconds.
    pub pause_us: u64,
    /// Set of a thread: messages and questions that it covers.
    pub marks: Option<Marks>,
}

#[derive(Clone, Debug)]
pub enum EngineReply {
    /// The run is over. The engine has enforced the task's limits.
    Ended { run: RunId, outcome: Outcome },
    /// The engine could not do its part (out of memory, a missing blob, a crash of its own):
    /// says nothing about the task, which can run elsewhere.
    Broken { run: RunId, error: String },
    /// Program and snapshot of the task are at hand, for as long as nothing else wants their place.
    Prepared { run: RunId },
    /// A run that goes on from a snapshot has its state, and executes.
    Resumed { run: RunId },
    /// The snapshot that was asked for, or why there is none; without one the run goes on. `stopped`: the run
    /// is over and no later event names it. A run that had not begun stops with `NotBegun`.
    Snapshot { run: RunId, taken: Result<Taken, NoSnapshot>, stopped: bool },
    /// Word of the thread that this run is: when it begins, and whenever it has something for others.
    Said { run: RunId, said: Said },
    /// The answer to `Inspect`: a node could run the program, or why not.
    Inspected { number: u64, result: Result<(), NotRunnable> },
}

impl EngineReply {
    /// The run that it answers.
    pub fn run(&self) -> Option<RunId> {
        match self {
            EngineReply::Ended { run, .. }
            | EngineReply::Broken { run, .. }
            | EngineReply::Prepared { run }
            | EngineReply::Resumed { run }
            | EngineReply::Said { run, .. }
            | EngineReply::Snapshot { run, .. } => Some(*run),
            EngineReply::Inspected { .. } => None,
        }
    }
}

/// Why a program is not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotRunnable {
    /// No node could run it. The text says what is wrong with it, as an author can mend it.
    #[error("the program {0}")]
    Refused(String),
    /// This engine could not find out (a crash, no memory), and the program is not at fault. The text says what
    /// to do.
    #[error("the program could not be checked: {0}")]
    Unchecked(String),
}

/// Why there is no snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NoSnapshot {
    /// It has executed nothing, or nothing since it was resumed: what it began from is its state.
    NotBegun,
    /// This program cannot be suspended, or not now; in words.
    Immobile(String),
}
