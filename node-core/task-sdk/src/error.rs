//! Everything that can fail, each with what to do next.

use crate::Thread;
use std::fmt;
use std::io;

/// Result of a call of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Reason why a call failed.
#[non_exhaustive]
pub enum Error {
    /// The program has no files under `/swarm`.
    NoThread,
    /// A message without bytes is no message.
    Empty,
    /// A message, a value, a report or the input of a thread is too long.
    TooLong {
        /// Name of what is too long.
        what: &'static str,
        /// Its length, bytes.
        bytes: usize,
        /// The longest that is taken, bytes.
        most: usize,
    },
    /// An argument of a thread is empty, or has a space, a line break or a null byte.
    Argument(String),
    /// The job has as many threads as it may have.
    ThreadQuota,
    /// No global can have this name.
    GlobalName(String),
    /// The job has as many globals, or as many bytes in them, as it may have.
    GlobalsFull,
    /// A value cannot be written as MessagePack.
    Encode(rmp_serde::encode::Error),
    /// The bytes of a message, a global or an input are not of the type that was asked for.
    Decode {
        /// Place where the bytes were found.
        what: String,
        /// Reason.
        error: rmp_serde::decode::Error,
    },
    /// A member of a team ended while another waited for it.
    MemberEnded(Thread),
    /// A member of a team is in another call than this one.
    OutOfStep {
        /// The other member.
        thread: Thread,
        /// Calls of the other member so far.
        theirs: u32,
        /// Calls of this member so far.
        ours: u32,
    },
    /// A call of a team is not possible as it was made; in words.
    Team(&'static str),
    /// A file under `/swarm` cannot be opened, read or written.
    File {
        /// Its path.
        path: String,
        /// Reason.
        error: io::Error,
    },
    /// A file under `/swarm` has other contents than `docs/task-api.md` says.
    Format {
        /// Its path.
        path: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoThread => f.write_str(
                "this program is not a thread of a virtual computer: build it for wasm32-wasip1 and run it with \
                 `manyhands run --local-threads PROGRAM`",
            ),
            Error::Empty => f.write_str("a message without bytes cannot be sent: send at least one byte"),
            Error::TooLong { what, bytes, most } => {
                write!(f, "{what} has {bytes} bytes, and {most} is the most: send it in parts")
            }
            Error::Argument(argument) => write!(
                f,
                "a thread cannot be given the argument {argument:?}, arguments are separated by spaces: pass it in \
                 the thread's input"
            ),
            Error::ThreadQuota => f.write_str(
                "no further thread was begun, the job has as many as it may have: begin fewer, or raise the job's limit",
            ),
            Error::GlobalName(name) => write!(
                f,
                "no global can be named {name:?}: take 1 to 64 letters, digits, `.`, `-` or `_`, and no point in \
                 front"
            ),
            Error::GlobalsFull => f.write_str(
                "the global was not set, the job has as many globals as it may have: use fewer or smaller ones",
            ),
            Error::Encode(error) => {
                write!(f, "a value cannot be written as MessagePack: {error}; give it another type")
            }
            Error::Decode { what, error } => write!(
                f,
                "{what} is of another type than was asked for: {error}; read it as the type that was written"
            ),
            Error::MemberEnded(thread) => write!(
                f,
                "thread {} ended while its team waited for it: see how with `Thread::join`",
                thread.0
            ),
            Error::OutOfStep { thread, theirs, ours } => write!(
                f,
                "thread {} is in call {theirs} of the team and this one in call {ours}: make the same calls in the \
                 same order in all members",
                thread.0
            ),
            Error::Team(why) => f.write_str(why),
            Error::File { path, error } => {
                write!(f, "{path} failed: {error}; docs/task-api.md has the reasons under Errors")
            }
            Error::Format { path } => write!(
                f,
                "{path} has other contents than this program knows: build it with the task-sdk of the nodes' version"
            ),
        }
    }
}

/// A sentence as well: `fn main() -> Result<()>` prints it.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Encode(error) => Some(error),
            Error::Decode { error, .. } => Some(error),
            Error::File { error, .. } => Some(error),
            _ => None,
        }
    }
}
