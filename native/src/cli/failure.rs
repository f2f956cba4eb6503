//! How a command ends when it does not end well: a message and an exit code.

use crate::paths::PathError;
use std::fmt::Display;

/// All went well.
pub(crate) const DONE: u8 = 0;
/// The job failed, or this machine did on the way.
pub(crate) const FAILED: u8 = 1;
/// The request cannot be met: a flag, a file, a program that no node would run.
pub(crate) const USAGE: u8 = 2;
/// No swarm or gateway could be reached.
pub(crate) const UNREACHABLE: u8 = 3;
/// `up` did not end in order in time, and was ended by its own deadline.
pub(crate) const STUCK: u8 = 4;
/// A shell reports this code for a command ended by Ctrl-C.
pub(crate) const INTERRUPTED: u8 = 130;

/// Shown below each command's help.
pub(crate) const EXIT_CODES: &str = "\
Exit codes: 0 done, 1 the job failed, 2 usage, 3 no swarm or gateway reachable,
4 `up` was told to end, did not in 15 s, and ended itself.
`run` passes the program's own code through; a trap or a reached limit gives 1.";

/// Exit code and message of a command that failed. The message says what happened, to what, and what to do
/// next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn failed(message: impl Display) -> Self {
        Failure { code: FAILED, message: message.to_string() }
    }

    pub(crate) fn usage(message: impl Display) -> Self {
        Failure { code: USAGE, message: message.to_string() }
    }

    pub(crate) fn unreachable(message: impl Display) -> Self {
        Failure { code: UNREACHABLE, message: message.to_string() }
    }

    /// Everything has been said already, or nobody listens.
    pub(crate) fn silent(code: u8) -> Self {
        Failure { code, message: String::new() }
    }

    /// Standard output could not be written. A reader that has had enough (`| head`) is none
    /// of our business.
    pub(crate) fn output(e: &std::io::Error) -> Self {
        match e.kind() {
            std::io::ErrorKind::BrokenPipe => Failure::silent(DONE),
            _ => Failure::failed(format!("cannot write to standard output: {e}")),
        }
    }
}

impl From<PathError> for Failure {
    fn from(e: PathError) -> Self {
        Failure::failed(e)
    }
}
