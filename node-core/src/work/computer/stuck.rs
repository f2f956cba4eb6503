//! A virtual computer all of whose threads wait for each other.

use super::Computer;
use sandbox::swarm::{Question, Wait};
use std::fmt;

/// A thread that waits, and for what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    pub thread: u32,
    pub why: Why,
}

/// Something that a thread waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    Message(u32),
    AnyMessage,
    End(u32),
    /// A later version of a global than this.
    Global(String, u64),
    /// The computer's answer, which is on its way.
    Answer,
    /// Others to read what it has sent.
    Room,
}

impl Computer {
    /// Reason for which a thread waits that says so.
    pub fn stuck(&self, thread: u32, wait: Wait) -> Stuck {
        let open = self.threads.get(thread as usize).and_then(|thread| thread.open.as_ref());
        let why = match (wait, open) {
            (Wait::From(from), _) => Why::Message(from),
            (Wait::Any, _) => Why::AnyMessage,
            (Wait::Room, _) => Why::Room,
            (Wait::Answer, Some((_, Question::End { thread, .. }))) => Why::End(*thread),
            (Wait::Answer, Some((_, Question::Global { name, seen, .. }))) => {
                Why::Global(name.clone(), seen.unwrap_or(0))
            }
            (Wait::Answer, _) => Why::Answer,
        };
        Stuck { thread, why }
    }
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "thread {} waits for {}", self.thread, self.why)
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Message(from) => write!(f, "a message of thread {from}"),
            Why::AnyMessage => write!(f, "a message of any thread"),
            Why::End(thread) => write!(f, "the end of thread {thread}"),
            Why::Global(name, 0) => write!(f, "the global {name} to be set"),
            Why::Global(name, version) => write!(f, "a later version of the global {name} than {version}"),
            Why::Answer => write!(f, "an answer that is on its way"),
            Why::Room => write!(f, "others to read what it has sent"),
        }
    }
}
