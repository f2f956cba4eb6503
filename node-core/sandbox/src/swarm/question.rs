//! Questions of a thread that another node answers, each once.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Question {
    /// Begin a thread of the same program.
    Spawn { arguments: Vec<String>, input: Bytes },
    /// How did that thread end? `wait`: not before it has.
    End { thread: u32, wait: bool },
    /// The value of a global; `wait`: not before it has a later version than `seen`.
    Global { name: String, seen: Option<u64>, wait: bool },
    /// Replace the value of a global, if this still is its version. 0: it has none yet.
    Swap { name: String, version: u64, value: Bytes },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    Spawn(Result<u32, SpawnRefused>),
    /// None: it runs.
    End(Option<Ended>),
    /// Version and value; version 0: it was never set.
    Global(u64, Bytes),
    /// Its version now.
    Swap(Result<u64, SwapRefused>),
}

/// End of a thread, as others see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// In one line, as `exit 0`.
    pub how: String,
    /// Its standard output.
    pub output: Bytes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SpawnRefused {
    /// The job has as many threads as it may have.
    Quota,
    /// It is too long.
    TooLong,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SwapRefused {
    /// Another thread was first.
    Changed,
    /// The job has as many globals, or as many bytes in them, as it may have.
    Full,
}

impl Reply {
    /// Bytes that it takes, about.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        32 + match self {
            Reply::Global(_, value) => value.len(),
            Reply::End(Some(end)) => end.how.len() + end.output.len(),
            Reply::Spawn(_) | Reply::End(None) | Reply::Swap(_) => 0,
        }
    }

    /// Whether it is of the question's kind.
    pub(super) fn answers(&self, question: &Question) -> bool {
        matches!(
            (self, question),
            (Reply::Spawn(_), Question::Spawn { .. })
                | (Reply::End(_), Question::End { .. })
                | (Reply::Global(..), Question::Global { .. })
                | (Reply::Swap(_), Question::Swap { .. })
        )
    }
}
