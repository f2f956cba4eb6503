//! What the node's Worker and a slot's Worker say to each other, as MessagePack.
//!
//! Modules travel beside it as `WebAssembly.Module`, which is shared, not copied. A slot
//! answers tasks in the order in which it got them, so answers carry no names.

use sandbox::{Outcome, Task};
use serde::{Deserialize, Serialize};

/// What became of one task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    Ended(Outcome),
    /// The browser could not do its part (no memory, a bug of ours): says nothing about the
    /// task.
    Broken(String),
}

/// Tasks for one program.
pub fn encode_tasks(tasks: &[Task]) -> Result<Vec<u8>, String> {
    rmp_serde::to_vec(tasks).map_err(|e| format!("the tasks could not be written as MessagePack: {e}"))
}

pub fn decode_tasks(bytes: &[u8]) -> Result<Vec<Task>, String> {
    rmp_serde::from_slice(bytes).map_err(|e| format!("the slot was sent tasks that it cannot read: {e}"))
}

pub fn encode_answers(answers: &[Answer]) -> Result<Vec<u8>, String> {
    rmp_serde::to_vec(answers).map_err(|e| format!("the outcomes could not be written as MessagePack: {e}"))
}

pub fn decode_answers(bytes: &[u8]) -> Result<Vec<Answer>, String> {
    rmp_serde::from_slice(bytes).map_err(|e| format!("the slot sent outcomes that cannot be read: {e}"))
}
