//! The state of a suspended task as bytes: the same in every engine, so that it can go on in
//! another one, and be compared.
//!
//! A snapshot holds what the job does not: which program by its hash, the fuel used, the
//! program's globals, the host's state (what the task wrote, where it reads), and the pages of
//! memory that are not zero; or, relative to a *base*, those that differ from it. Its *root*
//! is a hash of the state, whichever way it is written down.
//!
//! Taking one has two parts. [`Recorder::capture`] stops the task only for as long as it takes
//! to compare its memory with a copy of the base; [`Recorder::encode`] does the rest and may
//! run while the task goes on, in another thread where there is one.
//!
//! - `ahead`: what a task's state will be relative to, in an engine before the task comes.
//! - `pages`: which pages differ, and their hashes.
//! - `format`: bytes, strictly read.
//! - `seal`: so that keepers can neither read nor change them.

mod ahead;
mod format;
mod pages;
mod seal;

pub use ahead::Ahead;
pub use format::BadSnapshot;
pub use seal::{BadSeal, open, seal};

use crate::engine::{Control, Engine, Instance};
use crate::instrument::{GlobalSlot, INSTRUMENT_VERSION, Layout};
use crate::module::PAGE as WASM_PAGE;
use crate::running::{NotStarted, Running};
use crate::task::Task;
use crate::wasi::Host;
use pages::Memory;
use std::sync::Arc;

/// The hash of a task's state.
pub type Root = [u8; 32];

/// Program of a snapshot, and the form in which it runs: a snapshot goes on only under an equal
/// `Origin`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The hash of the program as it was submitted.
    pub program: [u8; 32],
    /// The job's memory limit, bytes: it is written into the program.
    pub memory_limit: u64,
    /// Whether floats are the same in every engine.
    pub bit_exact: bool,
}

/// All of a task's state but its memory.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Registers {
    version: u32,
    origin: Origin,
    fuel: u64,
    depth: i32,
    /// Pages of 64 KiB, those for frames included.
    memory_pages: u32,
    /// Bytes of memory that count.
    top: u32,
    /// Type and bits.
    globals: Vec<(u8, u128)>,
    host: Vec<u8>,
}

/// A task's state between the two parts of taking it.
pub struct Captured {
    registers: Registers,
    /// The pages that differ from the base, if it is relative to one.
    changes: Option<pages::Changes>,
}

/// A snapshot, not sealed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    pub bytes: Vec<u8>,
    pub root: Root,
    /// The state that it is relative to.
    pub base: Option<Root>,
    pub fuel: u64,
}

/// A task that is to go on: read, and not yet in an engine.
pub struct State {
    registers: Registers,
    /// Memory of the base if the state is relative to one, else its own.
    memory: Memory,
    changes: Option<pages::Changes>,
    root: Root,
    /// The root of the whole snapshot that it came from.
    base: Root,
    /// Registers of the base, if the state is relative to it.
    base_registers: Option<Registers>,
}

/// Says that a state is what its root says, and spares whoever goes on from it some hashing.
pub struct Checked(pages::Hashes);

/// Why a task cannot go on from what was kept of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotOpened {
    #[error(transparent)]
    Seal(#[from] BadSeal),
    #[error(transparent)]
    Snapshot(#[from] BadSnapshot),
}

/// Keeps the base of the next snapshot of one task.
pub struct Recorder {
    origin: Origin,
    memory: Memory,
    base: Option<Root>,
    /// Bytes of the base when it was encoded.
    base_bytes: usize,
    /// The last one relative to it was so large that a new base pays.
    renew: bool,
}

impl Recorder {
    /// Recorder of a task that begins.
    pub fn new(origin: Origin) -> Recorder {
        Recorder { origin, memory: Memory::default(), base: None, base_bytes: 0, renew: false }
    }

    /// Recorder of a task that goes on from `state`, whose whole part has `base_bytes` bytes. The
    /// next snapshot is relative to that part.
    pub fn resumed(state: State, checked: Checked, base_bytes: usize) -> Recorder {
        let State { registers, mut memory, base, .. } = state;
        memory.remember(checked.0);
        Recorder { origin: registers.origin, memory, base: Some(base), base_bytes, renew: false }
    }

    /// Copies what has changed. The task must be suspended.
    pub fn capture<I: Instance>(&mut self, running: &mut Running<I>) -> Result<Captured, &'static str> {
        let Some(layout) = running.layout.clone().filter(|_| running.suspended) else {
            return Err("it is not suspended");
        };
        let instance = &mut running.instance;
        let top = instance.control(Control::Top) as u32;
        let registers = Registers {
            version: INSTRUMENT_VERSION,
            origin: self.origin.clone(),
            fuel: running.fuel,
            depth: instance.control(Control::Depth) as i32,
            memory_pages: (instance.memory_bytes() / WASM_PAGE) as u32,
            top,
            globals: layout.globals.iter().map(|slot| (code(slot), instance.global(slot))).collect(),
            host: instance.host().save(),
        };
        let changes = if self.base.is_none() || self.renew {
            // The base is dropped first: if anything fails from here on, the next one is whole.
            self.base = None;
            self.renew = false;
            self.memory.copy(instance, top.into());
            None
        } else {
            Some(self.memory.compare(instance, top.into()))
        };
        Ok(Captured { registers, changes })
    }

    /// Writes it down.
    pub fn encode(&mut self, captured: Captured) -> Encoded {
        let Captured { registers, changes } = captured;
        let base = changes.as_ref().and(self.base);
        let root = self.memory.root_now(&registers, changes.as_ref());
        let bytes = format::write(&registers, &root, base.as_ref(), &self.memory, changes.as_ref());
        if changes.is_none() {
            self.base = Some(root);
            self.base_bytes = bytes.len();
        } else {
            // Our choice: sent a few times, such a difference has cost as much as a new base.
            self.renew = bytes.len() > (self.base_bytes / 4).max(64 << 10);
        }
        Encoded { bytes, root, base, fuel: registers.fuel }
    }
}

fn code(slot: &GlobalSlot) -> u8 {
    // The layout holds no others.
    GlobalSlot::code(slot.ty).unwrap_or_default()
}

impl State {
    /// Opens and reads what a task goes on from: a whole snapshot, and one that is relative to it if
    /// there is one. Whether the root is right is left to [`State::check`].
    pub fn open(
        key: &[u8; 32],
        whole: &mut [u8],
        relative: Option<&mut [u8]>,
        origin: &Origin,
    ) -> Result<State, NotOpened> {
        let state = State::read(open(key, whole)?, origin)?;
        Ok(match relative {
            Some(relative) => state.relative(open(key, relative)?, origin)?,
            None => state,
        })
    }

    /// Reads a whole snapshot of this program.
    pub fn read(bytes: &[u8], origin: &Origin) -> Result<State, BadSnapshot> {
        let parts = format::read(bytes, origin)?;
        if parts.base.is_some() {
            return Err(BadSnapshot::NeedsBase);
        }
        let memory = Memory::of(&parts.pages, parts.registers.top)?;
        let (registers, root) = (parts.registers, parts.root);
        Ok(State { registers, memory, changes: None, root, base: root, base_registers: None })
    }

    /// Reads a snapshot that is relative to this one, which is whole.
    pub fn relative(self, bytes: &[u8], origin: &Origin) -> Result<State, BadSnapshot> {
        let parts = format::read(bytes, origin)?;
        if parts.base != Some(self.root) || self.changes.is_some() {
            return Err(BadSnapshot::OtherBase);
        }
        let State { memory, base, registers, .. } = self;
        let changes = Some(memory.changes(&parts.pages, parts.registers.top)?);
        let (base_registers, root) = (Some(registers), parts.root);
        Ok(State { registers: parts.registers, memory, changes, root, base, base_registers })
    }

    /// Whether its root is right, and that of what it is relative to. It takes most of the time of
    /// reading, and can be done beside [`State::resume`]: what comes of that is to be thrown away if
    /// this refuses.
    pub fn check(&self) -> Result<Checked, BadSnapshot> {
        let hashes = self.memory.hashes();
        let right = |registers: &Registers, changes: Option<&pages::Changes>, root| {
            self.memory.root(registers, changes, |block| hashes.of(block)) == root
        };
        let base = self.base_registers.as_ref().is_none_or(|registers| right(registers, None, self.base));
        if base && right(&self.registers, self.changes.as_ref(), self.root) {
            Ok(Checked(hashes))
        } else {
            Err(BadSnapshot::Root)
        }
    }

    pub fn root(&self) -> Root {
        self.root
    }

    pub fn fuel(&self) -> u64 {
        self.registers.fuel
    }

    /// Puts it into a fresh instance, where it goes on with the next slice.
    pub fn resume<E: Engine>(
        &self,
        engine: &mut E,
        module: &E::Module,
        layout: &Arc<Layout>,
        task: &Task,
    ) -> Result<Running<E::Instance>, NotStarted> {
        let host = self.host(layout, task)?;
        let mut running = Running::with(engine, module, Some(layout.clone()), host, task.limits.fuel)?;
        self.settle(&mut running, layout, None)?;
        Ok(running)
    }

    /// Makes this the state of a task in an instance that is fresh, or in which what this is relative
    /// to lies already, so many bytes of it.
    fn settle<I: Instance>(
        &self,
        running: &mut Running<I>,
        layout: &Layout,
        placed: Option<usize>,
    ) -> Result<(), NotStarted> {
        let wrong = |why: &str| NotStarted::Snapshot(why.into());
        let registers = &self.registers;
        let instance = &mut running.instance;
        let has = (instance.memory_bytes() / WASM_PAGE) as u32;
        let more =
            registers.memory_pages.checked_sub(has).ok_or(wrong("it has less memory than the program"))?;
        if more > 0 {
            // The program's own maximum bounds it.
            instance.grow_memory(more).map_err(|_| wrong("it has more memory than its job allows"))?;
        }
        let frames = u64::from(registers.memory_pages.saturating_sub(layout.frame_pages)) * WASM_PAGE;
        if u64::from(registers.top) < frames || u64::from(registers.top) > instance.memory_bytes() {
            return Err(wrong("its calls do not lie where calls are kept"));
        }
        let put = match (placed, &self.changes) {
            (None, changes) => self.memory.put(changes.as_ref(), instance),
            (Some(placed), Some(changes)) => changes.put(placed, instance),
            (Some(_), None) => Ok(()),
        };
        put.map_err(|_| wrong("it does not fit the program's memory"))?;
        for (slot, (_, bits)) in layout.globals.iter().zip(&registers.globals) {
            instance.set_global(slot, *bits);
        }
        instance.set_control(Control::Top, registers.top.into());
        instance.set_control(Control::Depth, registers.depth.into());
        running.suspended = true;
        running.fuel = registers.fuel;
        Ok(())
    }

    /// The host of a task that goes on from here, if this is of its program.
    fn host(&self, layout: &Layout, task: &Task) -> Result<Host, NotStarted> {
        let wrong = |why: &str| NotStarted::Snapshot(why.into());
        let kinds = layout.globals.iter().map(code);
        if !kinds.eq(self.registers.globals.iter().map(|(kind, _)| *kind)) {
            return Err(wrong("it has other globals than the program"));
        }
        Host::load(task, &self.registers.host).map_err(|bad| wrong(&bad.to_string()))
    }
}
