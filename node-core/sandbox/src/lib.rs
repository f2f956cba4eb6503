//! The sandbox: the rules for what a task may do on a stranger's machine.
//!
//! The crate knows WebAssembly modules and WASI preview 1, but no engine: native nodes put
//! wasmer behind [`Engine`], browsers their own `WebAssembly`, and both get the same checks,
//! the same limits and the same deterministic host, so a unit's result does not depend on
//! where it ran.
//!
//! The way of a task:
//! 1. [`module::prepare`] checks a program and writes the job's memory limit into it;
//! 2. [`Engine::compile`] makes it runnable (the slow part; cache it by the program's hash,
//!    [`module::PREPARE_VERSION`] and the memory limit);
//! 3. [`run_task`] builds the [`wasi::Host`], lets the engine run `_start`, and gathers the
//!    [`Outcome`]. The one limit that is not enforced in here is time: whoever owns the
//!    engine's thread or process ends it.
//!
//! Invariants: nothing a module or a task contains makes this crate panic, loop for long or
//! allocate beyond what the task's limits say; two runs of the same task differ in nothing
//! but their processor time.

pub mod engine;
pub mod instrument;
pub mod memory;
pub mod module;
mod running;
pub mod snapshot;
pub mod swarm;
pub mod task;
pub mod trap;
pub mod unpack;
pub mod wasi;

pub use engine::{Control, Engine, Instance, Stop};
pub use memory::{GuestMemory, OutOfBounds};
pub use running::{NO_OTHERS, NotStarted, Pace, Running, Slice, run_task};
pub use task::{End, File, Limit, Limits, Outcome, Task};
pub use trap::Trap;
