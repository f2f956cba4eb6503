//! One face for wasmer and the browser's `WebAssembly`.

use crate::module::Prepared;
use crate::task::{End, Outcome, Task};
use crate::trap::Trap;
use crate::wasi::{Halt, Host};

/// What compiles a prepared module and runs it. Synchronous: an engine has a thread of its
/// own (a native slot's process, a page's task Worker) and is ended from outside when a run
/// outlasts its time limit.
pub trait Engine {
    /// A compiled module; running it does not change it.
    type Module;

    /// Compiles the bytes that [`crate::module::prepare`] returned. The error is for people.
    fn compile(&mut self, prepared: &Prepared) -> Result<Self::Module, String>;

    /// A fresh instance: links every import to [`Host::call`], calls `_start`, and gives the
    /// host back.
    fn run(&mut self, module: &Self::Module, host: Host) -> Run;
}

/// How one instance ended.
pub struct Run {
    /// With all that the task wrote.
    pub host: Host,
    pub halt: Halt,
    /// Processor time, microseconds, as far as the engine can tell.
    pub cpu_us: u64,
}

impl Run {
    pub fn returned(host: Host, cpu_us: u64) -> Run {
        Run { host, halt: Halt::Exit(0), cpu_us }
    }

    pub fn trapped(host: Host, trap: Trap, cpu_us: u64) -> Run {
        Run { host, halt: Halt::Trap(trap), cpu_us }
    }
}

/// Runs a task from its first instruction to its outcome.
pub fn run_task<E: Engine>(engine: &mut E, module: &E::Module, task: &Task) -> Outcome {
    let host = match Host::new(task) {
        Ok(host) => host,
        Err(bad) => return Outcome::of(End::Refused(bad.to_string())),
    };
    let Run { host, halt, cpu_us } = engine.run(module, host);
    let end = match halt {
        Halt::Exit(code) => End::Exited(code),
        Halt::Limit(limit) => End::LimitReached(limit),
        Halt::Trap(trap) => End::Trapped(trap.to_string()),
    };
    let left = host.finish();
    Outcome { end, stdout: left.stdout, stderr: left.stderr, files: left.files, cpu_us, fuel: 0 }
}
