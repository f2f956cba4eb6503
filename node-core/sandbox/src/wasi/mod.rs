//! The deterministic host: WASI preview 1 in a world that consists of the task alone.
//!
//! Time is counted, not measured; randomness comes from the task's seed; stdin and files lie
//! in memory. A program sees what it would see in a container without network, and what it
//! does depends on its input only. Every function of preview 1 is here; those that make no
//! sense in such a world return the error number that says so.
//!
//! [`Host`] is plain data: serialise it between two host calls and it is that part of a
//! suspended task which does not lie in its memory.

mod device;
mod errno;
mod fd_calls;
mod fds;
mod fs;
mod functions;
mod moment;
mod output;
mod path_calls;
mod poll;
mod process;
mod settle;
mod state;
mod strings;

pub use errno::Errno;
pub use functions::{FUNCTIONS, Function, MODULE, Param, function};
pub use process::PROGRAM_NAME;
pub use settle::{Controls, settle};
pub use state::BadState;

use crate::memory::GuestMemory;
use crate::swarm::Swarm;
use crate::task::{File, Limit, Task};
use crate::trap::Trap;
use bytes::Bytes;
use errno::Stop;
use fds::Fds;
use fs::Tree;
use moment::Clock;
use output::Output;
use process::Random;
use strings::Strings;

/// Why a task does not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Halt {
    /// It called `proc_exit`, or returned from `_start` (0).
    Exit(u32),
    /// It reached a bound.
    Limit(Limit),
    Trap(Trap),
}

/// A task that cannot even begin; says which part of it and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTask {
    #[error(
        "argument {index} holds a NUL character; remove it, programs would see only what stands before it"
    )]
    NulInArgument { index: usize },
    #[error("environment variable {name:?} {why}")]
    Environment { name: String, why: &'static str },
    #[error("input file {path:?}: {why}")]
    File { path: String, why: &'static str },
}

/// Answer to a call of the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It returns this: 0, or an [`Errno`].
    Errno(u32),
    /// It is suspended in the call, and makes it again when it goes on.
    Waits,
}

impl Answer {
    /// Number that the call returns; that of a task that waits does not count.
    pub fn errno(self) -> u32 {
        match self {
            Answer::Errno(errno) => errno,
            Answer::Waits => 0,
        }
    }
}

/// Everything a running task has besides its memory.
#[derive(Clone, Debug)]
pub struct Host {
    arguments: Strings,
    environment: Strings,
    clock: Clock,
    random: Random,
    stdin: Bytes,
    output: Output,
    tree: Tree,
    fds: Fds,
    /// Messages and questions, of a thread of a virtual computer.
    swarm: Option<Swarm>,
    /// Fuel that was left when the task began to wait.
    left: Option<i64>,
}

/// Output and files of a task that has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    pub stdout: Bytes,
    pub stderr: Bytes,
    /// Files that the task created, changed or moved, in path order.
    pub files: Vec<File>,
}

impl Host {
    /// The world of a task that has not begun.
    pub fn new(task: &Task) -> Result<Host, BadTask> {
        Ok(Host {
            arguments: Strings::arguments(&task.arguments)?,
            environment: Strings::environment(&task.environment)?,
            clock: Clock::default(),
            random: Random::new(task.seed),
            stdin: task.stdin.clone(),
            output: Output::new(task.limits.output_bytes),
            tree: Tree::new(&task.files)?,
            fds: Fds::default(),
            swarm: task.thread.map(Swarm::new),
            left: None,
        })
    }

    /// One call by the task: its arguments as they came (an i32 in the low half), and its
    /// memory. On `Err` it must not run on. If
    /// [`Function::waits`], and the host has a [`Host::swarm`], the answer goes through [`settle()`].
    pub fn call(
        &mut self,
        function: &Function,
        args: &[u64],
        memory: &mut dyn GuestMemory,
    ) -> Result<Answer, Halt> {
        let result = (function.run)(self, args, memory);
        if let Some(swarm) = &mut self.swarm {
            match result {
                Err(Stop::Wait(wait)) => swarm.wait(wait),
                _ => swarm.waited(),
            }
        }
        match result {
            Ok(()) => Ok(Answer::Errno(0)),
            Err(Stop::Errno(errno)) => Ok(Answer::Errno(errno as u32)),
            Err(Stop::Wait(_)) => Ok(Answer::Waits),
            Err(Stop::Halt(halt)) => Err(halt),
        }
    }

    /// Fuel that was left when the task began to wait in its last call; none: it did not.
    pub(crate) fn take_left(&mut self) -> Option<i64> {
        self.left.take()
    }

    /// Messages and questions between a thread of a virtual computer and the others.
    pub fn swarm(&mut self) -> Option<&mut Swarm> {
        self.swarm.as_mut()
    }

    /// Ends the host and returns the task's output and files.
    pub fn finish(self) -> Left {
        let (stdout, stderr) = self.output.finish();
        Left { stdout, stderr, files: self.tree.finish() }
    }
}
