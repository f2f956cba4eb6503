//! Messages between the node's Worker and a slot's Worker, as MessagePack.
//!
//! Modules travel beside the messages as `WebAssembly.Module`, which is shared, not copied, and
//! sealed snapshots as arrays that are given away. A slot answers tasks in the order in which it
//! got them, so answers carry no names; a message about a run before its answer names the run.

use bytes::Bytes;
use node_core::content::BlobRef;
use node_core::{BlobId, NoSnapshot, RunId, SealKey, Taken};
use sandbox::instrument::Layout;
use sandbox::snapshot::{Origin, Root};
use sandbox::{Outcome, Task};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Program and the options that it is prepared with: all of it is part of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Form {
    pub program: BlobId,
    pub memory_bytes: u64,
    pub bit_exact: bool,
}

impl Form {
    /// Where its snapshots come from.
    pub fn origin(&self) -> Origin {
        Origin { program: self.program.0, memory_limit: self.memory_bytes, bit_exact: self.bit_exact }
    }
}

/// Description that goes with a compiled module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    pub form: Form,
    /// How it is suspended, or why it cannot be.
    pub layout: Result<Layout, String>,
}

/// A task for a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    pub run: u64,
    pub task: Task,
    pub key: SealKey,
    pub from: Option<From>,
    /// It will come: what it goes on from, which is whole, is to lie ready, and nothing runs yet.
    pub ahead: bool,
}

/// Where a task goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct From {
    /// Sealed.
    pub bytes: Bytes,
    /// The whole snapshot that `bytes` are relative to, sealed too.
    pub base: Option<Bytes>,
    /// That lies ready in the slot.
    pub is_held: bool,
    /// The name of whichever of the two is whole.
    pub whole: BlobId,
    pub root: Root,
}

/// Answer of a slot to one task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    Ended(Outcome),
    /// The state for a coming task is in place.
    Prepared,
    /// The browser could not do its part (no memory, a bug of ours): says nothing about the
    /// task.
    Broken(String),
    /// The snapshot that the task should go on from is not one of it: no other Worker would do
    /// better.
    Unusable(String),
}

/// The answer to a request for a snapshot, but for its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Shot {
    /// `id`: of the sealed bytes, which the slot has hashed, so that the node's Worker need not.
    Taken {
        id: BlobId,
        base: Option<BlobId>,
        root: Root,
        fuel: u64,
        pause_us: u64,
    },
    NotBegun,
    Immobile(String),
}

impl Shot {
    /// With the sealed bytes that came along.
    pub fn with(self, bytes: Bytes) -> Result<Taken, NoSnapshot> {
        match self {
            Shot::Taken { id, base, root, fuel, pause_us } => {
                let blob = BlobRef { id, len: bytes.len() as u64 };
                Ok(Taken { blob, bytes, base, root, fuel, pause_us, marks: None })
            }
            Shot::NotBegun => Err(NoSnapshot::NotBegun),
            Shot::Immobile(why) => Err(NoSnapshot::Immobile(why)),
        }
    }
}

/// Order to a slot about one of its runs. It has no effect once the slot has answered the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Answered by a snapshot; with `stop` the run is over then.
    Snapshot { stop: bool },
    /// Give it no more fuel, or fuel again. A run that has not begun is given back.
    Pause(bool),
    /// Drop it: it is said to be gone.
    Kill,
    /// It ran too long; answered as any end.
    TimeUp,
}

/// Names of runs are numbers in JavaScript.
pub fn number_of(run: RunId) -> f64 {
    run.0 as f64
}

/// Tasks for one program.
pub fn encode_tasks(tasks: &[Job]) -> Result<Vec<u8>, String> {
    encode("the tasks", tasks)
}

pub fn decode_tasks(bytes: &[u8]) -> Result<Vec<Job>, String> {
    decode("the slot was sent tasks", bytes)
}

pub fn encode_answers(answers: &[Answer]) -> Result<Vec<u8>, String> {
    encode("the outcomes", answers)
}

pub fn decode_answers(bytes: &[u8]) -> Result<Vec<Answer>, String> {
    decode("the slot sent outcomes", bytes)
}

/// For what is said once: a form, what goes with a module, a snapshot's answer.
pub fn encode<T: Serialize + ?Sized>(what: &str, value: &T) -> Result<Vec<u8>, String> {
    rmp_serde::to_vec(value).map_err(|e| format!("{what} could not be written as MessagePack: {e}"))
}

pub fn decode<T: DeserializeOwned>(what: &str, bytes: &[u8]) -> Result<T, String> {
    sandbox::unpack::from_slice(bytes).map_err(|e| format!("{what} that cannot be read: {e}"))
}
