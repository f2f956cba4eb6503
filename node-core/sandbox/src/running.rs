//! A task that runs in slices of fuel.

use crate::engine::{Control, Engine, Instance, Stop};
use crate::instrument::Layout;
use crate::instrument::layout::state;
use crate::task::{End, Limit, Outcome, Task};
use crate::trap::Trap;
use crate::wasi::{Halt, Host};
use std::sync::Arc;

/// The function that a WASI command is run by.
const COMMAND: &str = "_start";

/// Why a task ends that waits where nobody carries what it sends.
pub const NO_OTHERS: &str = "it waits for other threads, and there are none";

/// A task in an engine, between two slices.
pub struct Running<I> {
    pub(crate) instance: I,
    /// None of a program that cannot be suspended: its one slice lasts until it ends.
    pub(crate) layout: Option<Arc<Layout>>,
    /// Its calls lie as frames in memory.
    pub(crate) suspended: bool,
    /// Since its first instruction, wherever it ran.
    pub(crate) fuel: u64,
    pub(crate) limit: u64,
}

/// How a slice ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Slice {
    /// The fuel is used up; the task is suspended and can be run on, or snapshotted.
    Yielded,
    /// It waits for other threads; it can be run on when [`crate::swarm::Swarm::waits`] says so, or snapshotted.
    Waits,
    Ended(Halt),
    /// The engine failed; says nothing about the task.
    Broken(String),
}

impl<I: Instance> Running<I> {
    /// A task at its first instruction. `layout` is that of the module ([`crate::module::Prepared`]).
    pub fn start<E: Engine<Instance = I>>(
        engine: &mut E,
        module: &E::Module,
        layout: Option<Arc<Layout>>,
        task: &Task,
    ) -> Result<Self, NotStarted> {
        let host = Host::new(task).map_err(|bad| NotStarted::Refused(bad.to_string()))?;
        Self::with(engine, module, layout, host, task.limits.fuel)
    }

    pub(crate) fn with<E: Engine<Instance = I>>(
        engine: &mut E,
        module: &E::Module,
        layout: Option<Arc<Layout>>,
        host: Host,
        limit: u64,
    ) -> Result<Self, NotStarted> {
        let instance = engine.instantiate(module, host).map_err(|stop| match stop {
            Stop::Halt(halt) => NotStarted::Halt(halt),
            Stop::Broken(why) => NotStarted::Broken(why),
        })?;
        Ok(Running { instance, layout, suspended: false, fuel: 0, limit })
    }

    /// Runs it for about `fuel`: it stops at the first poll at which more has been used. The
    /// units are the same in every engine, and so is where the task's limit ends it.
    pub fn slice(&mut self, fuel: u64) -> Slice {
        if self.layout.is_none() {
            return match self.instance.call(COMMAND) {
                Ok(()) => Slice::Ended(Halt::Exit(0)),
                Err(Stop::Halt(halt)) => Slice::Ended(halt),
                Err(Stop::Broken(why)) => Slice::Broken(why),
            };
        }
        let slice = fuel.min(self.limit.saturating_sub(self.fuel)).min(i64::MAX as u64) as i64;
        let instance = &mut self.instance;
        if self.suspended {
            instance.set_control(Control::State, state::REWIND.into());
            instance.set_control(Control::Fuel, -1);
            instance.set_control(Control::Refuel, slice);
        } else {
            instance.set_control(Control::State, state::RUN.into());
            instance.set_control(Control::Fuel, slice);
            instance.set_control(Control::Depth, 0);
        }
        let called = instance.call(COMMAND);
        // A call that waits takes what was left out of the global.
        let waits = instance.host().take_left();
        let left = waits.unwrap_or_else(|| instance.control(Control::Fuel));
        let now = instance.control(Control::State) as i32;
        // No program can reach these globals; if one did, its account would not go backwards.
        self.fuel = self.fuel.saturating_add(slice.saturating_sub(left).max(0) as u64);
        self.suspended = false;
        match called {
            Ok(()) if now == state::UNWIND && self.fuel > self.limit => {
                Slice::Ended(Halt::Limit(Limit::Fuel(self.limit)))
            }
            Ok(()) if now == state::UNWIND => {
                self.suspended = true;
                if waits.is_some() { Slice::Waits } else { Slice::Yielded }
            }
            Ok(()) => Slice::Ended(Halt::Exit(0)),
            Err(Stop::Halt(Halt::Trap(_))) if now == state::TOO_DEEP => {
                Slice::Ended(Halt::Trap(Trap::StackOverflow))
            }
            Err(Stop::Halt(Halt::Trap(_))) if now == state::FRAMES_FULL => {
                Slice::Ended(Halt::Trap(Trap::FramesFull))
            }
            Err(Stop::Halt(halt)) => Slice::Ended(halt),
            Err(Stop::Broken(why)) => Slice::Broken(why),
        }
    }

    /// For engines and for tests that spoil a task.
    pub fn instance_mut(&mut self) -> &mut I {
        &mut self.instance
    }

    /// Used since its first instruction.
    pub fn fuel(&self) -> u64 {
        self.fuel
    }

    /// Whether it can be snapshotted now.
    pub fn is_suspended(&self) -> bool {
        self.suspended
    }

    /// Outcome of the task, which `halt` ended after `cpu_us` of processor time.
    pub fn finish(self, halt: Halt, cpu_us: u64) -> Outcome {
        let fuel = self.fuel;
        let left = self.instance.into_host().finish();
        Outcome {
            end: halt.into(),
            stdout: left.stdout,
            stderr: left.stderr,
            files: left.files,
            cpu_us,
            fuel,
        }
    }
}

/// A task that did not even begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotStarted {
    /// No node can run it; in words.
    Refused(String),
    /// It ended before its first instruction: a data segment that does not fit, for one.
    Halt(Halt),
    /// The engine failed; says nothing about the task.
    Broken(String),
    /// The snapshot that the task should go on from is not one of it; in words.
    Snapshot(String),
}

impl From<Halt> for End {
    fn from(halt: Halt) -> End {
        match halt {
            Halt::Exit(code) => End::Exited(code),
            Halt::Limit(limit) => End::LimitReached(limit),
            Halt::Trap(trap) => End::Trapped(trap.to_string()),
        }
    }
}

/// How much fuel a slice should have so that it takes about so long.
#[derive(Clone, Debug)]
pub struct Pace {
    target_us: u64,
    fuel: u64,
}

impl Pace {
    /// The first slice is short: nobody knows how fast this machine is.
    const FIRST: u64 = 100_000;

    pub fn new(target_us: u64) -> Pace {
        Pace { target_us, fuel: Self::FIRST }
    }

    pub fn fuel(&self) -> u64 {
        self.fuel
    }

    /// The slice took so long. The next may be up to four times as large, or any smaller.
    pub fn took(&mut self, us: u64) {
        let wanted = (u128::from(self.fuel) * u128::from(self.target_us) / u128::from(us.max(1))) as u64;
        self.fuel = wanted.clamp(1_000, self.fuel.saturating_mul(4)).min(1 << 50);
    }
}

/// Runs a task from its first instruction to its outcome. The error is the engine's.
pub fn run_task<E: Engine>(
    engine: &mut E,
    module: &E::Module,
    layout: Option<Arc<Layout>>,
    task: &Task,
) -> Result<Outcome, String> {
    let mut running = match Running::start(engine, module, layout, task) {
        Ok(running) => running,
        Err(NotStarted::Broken(why)) => return Err(why),
        Err(NotStarted::Refused(why) | NotStarted::Snapshot(why)) => {
            return Ok(Outcome::of(End::Refused(why)));
        }
        Err(NotStarted::Halt(halt)) => return Ok(Outcome::of(halt.into())),
    };
    loop {
        match running.slice(u64::MAX) {
            Slice::Yielded => {}
            Slice::Waits => return Err(NO_OTHERS.into()),
            Slice::Ended(halt) => return Ok(running.finish(halt, 0)),
            Slice::Broken(why) => return Err(why),
        }
    }
}
