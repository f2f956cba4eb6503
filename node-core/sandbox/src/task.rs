//! A task as an engine sees it: all bytes in hand, every bound stated.

use crate::swarm::Thread;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// One run of a WASI preview 1 command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Without the program's name; the host adds `argv[0]`.
    pub arguments: Vec<String>,
    pub environment: Vec<(String, String)>,
    pub stdin: Bytes,
    /// Files under `/`, paths relative and with `/` between the parts.
    pub files: Vec<File>,
    pub limits: Limits,
    /// Everything random in the run comes from it.
    pub seed: u64,
    /// Its place among the threads of a virtual computer, if it is one.
    pub thread: Option<Thread>,
}

/// A file of the task's own small world.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    pub path: String,
    pub data: Bytes,
}

/// The bounds of one run, the same in every engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Linear memory, bytes. Growing past it fails as `memory.grow` does: with -1.
    pub memory_bytes: u64,
    /// Stdout, stderr and files written, together, bytes.
    pub output_bytes: u64,
    /// Wall-clock time of the run, microseconds, measured by the engine's host.
    pub time_us: u64,
    /// Fuel, counted from the task's first instruction on, wherever it ran.
    pub fuel: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            // Our choice: what a tab can give without being noticed.
            memory_bytes: 256 << 20,
            // Our choice: two orders above a usual result, far below what hurts a donor.
            output_bytes: 64 << 20,
            // Our choice: nothing that is meant to be split should run longer at a stretch.
            time_us: 3_600_000_000,
            fuel: u64::MAX,
        }
    }
}

/// Everything that a run left behind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    pub end: End,
    pub stdout: Bytes,
    pub stderr: Bytes,
    /// Files that the task created or changed, in path order.
    pub files: Vec<File>,
    /// Processor time of the run, microseconds, as far as the engine can tell.
    pub cpu_us: u64,
    /// Fuel that the task used from its first instruction on; 0 of a program that does not count.
    pub fuel: u64,
}

impl Outcome {
    /// An end without output.
    pub fn of(end: End) -> Self {
        Outcome { end, stdout: Bytes::new(), stderr: Bytes::new(), files: Vec::new(), cpu_us: 0, fuel: 0 }
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// The program returned from `_start` (0) or called `proc_exit`.
    Exited(u32),
    /// It trapped; the reason in words.
    Trapped(String),
    /// It was ended because it reached a bound.
    LimitReached(Limit),
    /// It never started: the module is not one that can run here; the reason in words.
    Refused(String),
}

/// A bound that a run reached, with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Limit {
    OutputBytes(u64),
    TimeUs(u64),
    Fuel(u64),
}

impl End {
    /// Whether the program itself says that all went well.
    pub fn is_success(&self) -> bool {
        *self == End::Exited(0)
    }

    /// The reason in words, of those ends that have one.
    pub fn words(&self) -> Option<&str> {
        match self {
            End::Trapped(words) | End::Refused(words) => Some(words),
            End::Exited(_) | End::LimitReached(_) => None,
        }
    }

    /// Cuts the reason to this many bytes at most.
    pub fn cut_words(&mut self, most: usize) {
        if let End::Trapped(words) | End::Refused(words) = self {
            words.truncate(words.floor_char_boundary(most));
        }
    }
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            End::Exited(code) => write!(f, "exited with code {code}"),
            End::Trapped(reason) => write!(f, "trapped: {reason}"),
            End::LimitReached(Limit::OutputBytes(n)) => {
                write!(f, "ended: wrote more than its limit of {n} bytes (raise output_limit)")
            }
            End::LimitReached(Limit::TimeUs(us)) => {
                write!(f, "ended: ran longer than its limit of {} s (raise time_limit)", *us as f64 / 1e6)
            }
            End::LimitReached(Limit::Fuel(n)) => {
                write!(f, "ended: used more than its limit of {n} units of fuel (raise fuel_limit)")
            }
            End::Refused(reason) => write!(f, "refused: {reason}"),
        }
    }
}
