//! One face for wasmer and the browser's `WebAssembly`.

use crate::instrument::GlobalSlot;
use crate::module::Prepared;
use crate::wasi::{Halt, Host};

/// An engine compiles prepared modules and makes instances of them. It is synchronous: each engine
/// has a thread of its own (a native slot's process, a page's task Worker).
pub trait Engine {
    /// A compiled module; running it does not change it.
    type Module;
    type Instance: Instance;

    /// Compiles the bytes that [`crate::module::prepare`] returned. The error is for people.
    fn compile(&mut self, prepared: &Prepared) -> Result<Self::Module, String>;

    /// A fresh instance, with every import linked to [`Host::call`].
    fn instantiate(&mut self, module: &Self::Module, host: Host) -> Result<Self::Instance, Stop>;
}

/// Why a call did not return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The task ended.
    Halt(Halt),
    /// The engine failed; says nothing about the task.
    Broken(String),
}

/// The globals that an instrumented module is driven by ([`crate::instrument`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    State,
    Fuel,
    Refuel,
    Top,
    Depth,
}

impl Control {
    pub const ALL: [Control; 5] =
        [Control::State, Control::Fuel, Control::Refuel, Control::Top, Control::Depth];

    /// The name that it is exported under.
    pub fn export(self) -> &'static str {
        use crate::instrument::layout;
        match self {
            Control::State => layout::STATE,
            Control::Fuel => layout::FUEL,
            Control::Refuel => layout::REFUEL,
            Control::Top => layout::TOP,
            Control::Depth => layout::DEPTH,
        }
    }

    /// Fuel is counted in 64 bits, all else in 32.
    pub fn is_wide(self) -> bool {
        matches!(self, Control::Fuel | Control::Refuel)
    }
}

/// A task in an engine. The controls and [`GlobalSlot`]s are asked for only if the module was
/// instrumented, and then they are there.
pub trait Instance {
    fn host(&mut self) -> &mut Host;

    /// Ends the instance and returns its host, which holds the task's output and files.
    fn into_host(self) -> Host;

    /// Calls an exported function without parameters and results.
    fn call(&mut self, export: &str) -> Result<(), Stop>;

    fn control(&mut self, control: Control) -> i64;

    fn set_control(&mut self, control: Control, value: i64);

    /// A global's bits, in the low end.
    fn global(&mut self, slot: &GlobalSlot) -> u128;

    fn set_global(&mut self, slot: &GlobalSlot, bits: u128);

    fn memory_bytes(&mut self) -> u64;

    /// Makes memory larger by `pages` of 64 KiB.
    fn grow_memory(&mut self, pages: u32) -> Result<(), String>;

    /// Shows the first `bytes` of memory (rounded up to 4 KiB, at most all), in order, in parts
    /// whose lengths are multiples of 4 KiB; each with where it begins.
    fn read_memory(&mut self, bytes: u64, visit: &mut dyn FnMut(u64, &[u8]));

    fn write_memory(&mut self, at: u64, bytes: &[u8]) -> Result<(), crate::OutOfBounds>;
}
