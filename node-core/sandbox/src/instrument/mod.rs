//! The pass that makes any program suspendable: anywhere, and resumable in another engine.
//!
//! An instrumented module runs as the program does, but it counts fuel, and when the fuel is used
//! up it suspends itself: every function that is running saves its locals as a frame behind the
//! program's memory and returns. To resume, the same function is called again, in this instance
//! or in a fresh one with the memory and the globals of this one put in, and every function goes
//! to where it was.
//!
//! # How to drive it
//! ```text
//! fuel = slice; depth = 0; state = RUN
//! result = call(function, arguments)
//! while state == UNWIND:
//!     // Fuel used in this slice: slice - fuel, exact and the same in every engine.
//!     // Here the task can be snapshotted, moved or dropped.
//!     state = REWIND; fuel = -1; refuel = slice
//!     result = call(function, anything)
//! ```
//! A snapshot is the memory up to the address in [`layout::TOP`], that address, the memory's size,
//! [`layout::DEPTH`], and [`Layout::globals`]. It must be put into a module that the same
//! [`INSTRUMENT_VERSION`] made of the same program with the same options, but for
//! [`Options::tuning`].
//!
//! A host function of [`Options::blocking`] that must wait sets the state to UNWIND and the fuel to
//! -1 (having read what is left) and returns anything. When the task is resumed, it is called
//! again, with the same arguments, sees the state REWIND, and sets the state to RUN and the fuel to
//! the new slice before it returns. In every host call the global has the fuel that is left, and
//! the host may lower it. After a trap it has what was left when the host was last called or the
//! slice began, or what was left at the trap if it was the pass that stopped the program.
//!
//! A trap leaves [`layout::state::TOO_DEEP`] or [`layout::state::FRAMES_FULL`] in the state if it
//! was the pass that stopped the program.
//!
//! # What is where
//! `survey` reads the module, `callgraph` decides what each function needs. One that counts fuel
//! is read by `lower` into `ir`, `polls` says which loops poll, `unroll` copies small ones, `fuel`
//! decides where it pays, `liveness` what is saved, and `emit` writes it, in the shape that is drawn
//! there. `helpers` are functions added for all others to call, `write` puts the module together.
//!
//! # What is not kept
//! Accesses within the last pages, just beyond the program's own memory, do not trap. A program that
//! never does that (all that do not trap there) sees no difference. A function that the host takes
//! from a table or gets as a reference may take and return one i64 more, the fuel; only what is
//! exported by name is as it was.

mod adapters;
mod callgraph;
mod canonical;
mod depth;
mod emit;
mod fuel;
mod helpers;
mod ir;
pub mod layout;
mod liveness;
mod lower;
mod operators;
mod polls;
mod refusal;
mod shape;
mod survey;
mod types;
mod unroll;
mod write;

pub use layout::{Accessors, GlobalSlot, Layout};
pub use refusal::{Place, Refusal};

use crate::module::validate;
use adapters::Adapters;
use callgraph::CallGraph;
use emit::{Context, Stop};
use helpers::Helpers;
use layout::Globals;
use survey::{Survey, invalid};
use types::BlockTypes;
use wasmparser::{FuncValidatorAllocations, Operator, Parser, ValidPayload, Validator};
use write::Parts;

/// Part of the key of every cached module and of every snapshot: raise it when the pass changes.
pub const INSTRUMENT_VERSION: u32 = 3;

/// Room for frames that programs are given, pages of 64 KiB. Our choice: twice what
/// [`Options::stack_bytes`] can hold. In V8 a fresh memory costs by its size.
pub const FRAME_PAGES: u32 = 16;

/// A 32-bit address space.
const PAGES: u64 = 65_536;

/// Options of the instrumentation. All of them are part of the key of a cached module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Room for the frames of a suspended task, pages of 64 KiB, 1 to 4096.
    pub frame_pages: u32,
    /// Largest size that the program's memory may grow to, pages of 64 KiB.
    pub memory_max_pages: u32,
    /// How deep functions may call themselves, in bytes of stack that the pass reckons for it.
    /// Less than what any engine has, so that all stop at the same call.
    pub stack_bytes: u32,
    /// Every NaN that can be observed is the canonical one: engines, and tiers of one engine, make
    /// different ones. A NaN whose bits the program chose may become canonical too where it has
    /// been in a local. Vector arithmetic on floats is refused.
    pub bit_exact: bool,
    /// The engine that it is made for. Fuel, and the snapshots of all, are the same.
    pub tuning: Tuning,
    /// Imports (module and name) that may wait, and that a task can be suspended in.
    pub blocking: Vec<(String, String)>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            frame_pages: FRAME_PAGES,
            memory_max_pages: PAGES as u32,
            // Our choice: half of V8's default stack of a megabyte.
            stack_bytes: 512 << 10,
            bit_exact: false,
            tuning: Tuning::Wasmer,
            blocking: Vec::new(),
        }
    }
}

/// The engine that a module is made for: what is fast in one is slow in another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tuning {
    /// wasmer's compilers.
    #[default]
    Wasmer,
    /// V8: Chromium, node. Nothing is known of other browsers.
    V8,
}

/// A module that can be suspended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instrumented {
    pub wasm: Vec<u8>,
    pub layout: Layout,
}

/// Makes a module suspendable. The result depends on the bytes, the options and
/// [`INSTRUMENT_VERSION`] only.
pub fn instrument(wasm: &[u8], options: &Options) -> Result<Instrumented, Refusal> {
    let options = Options { frame_pages: options.frame_pages.clamp(1, 4096), ..options.clone() };
    let survey = Survey::of(wasm, options.bit_exact)?;
    let graph = CallGraph::of(&survey, &options)?;
    let globals = Globals::after(survey.globals.len() as u32);
    let helpers = Helpers::after(survey.functions.len() as u32);
    let mut types = BlockTypes::new(&survey.types);
    let adapters = Adapters::of(&survey, &graph, survey.functions.len() as u32 + Helpers::COUNT);
    let context = Context {
        wasm,
        adapters: &adapters,
        globals,
        helpers,
        frame_pages: options.frame_pages,
        stack_bytes: options.stack_bytes,
        tuning: options.tuning,
    };
    let functions = functions(&survey, &graph, &mut types, &context)?;
    let parts = Parts { survey: &survey, graph: &graph, options: &options, context: &context, functions };
    let (wasm, layout) = write::write(parts, types)?;
    // Types, functions, globals and code were added: a module just within the limits that all engines
    // share may be beyond them now.
    validate(&wasm, survey::SUPPORTED).map_err(|error| Refusal::OverLimits(error.to_string()))?;
    Ok(Instrumented { wasm, layout })
}

/// Every function that the module defines.
struct Functions {
    bodies: Vec<Vec<u8>>,
    /// The size of the largest frame.
    largest_frame: u32,
}

fn functions(
    survey: &Survey<'_>,
    graph: &CallGraph,
    types: &mut BlockTypes,
    context: &Context<'_>,
) -> Result<Functions, Refusal> {
    let mut validator = Validator::new_with_features(survey::SUPPORTED);
    let mut allocations = FuncValidatorAllocations::default();
    let mut bodies = Vec::with_capacity(survey.bodies.len());
    let mut largest_frame = 0;
    for payload in Parser::new(0).parse_all(context.wasm) {
        let payload = payload.map_err(invalid)?;
        let ValidPayload::Func(function, body) = validator.payload(&payload).map_err(invalid)? else {
            continue;
        };
        let index = function.index;
        let callee = graph.function(index);
        if !callee.counts {
            bodies.push(plain(&body, context)?);
            continue;
        }
        let mut function = function.into_validator(allocations);
        let mut lowered = lower::lower(survey, graph, types, index, &body, &mut function)?;
        allocations = function.into_allocations();
        polls::decide(&mut lowered, callee.polls);
        unroll::unroll(&mut lowered);
        let place = || survey.place(index);
        let Some(live) = liveness::live_at_points(&lowered) else {
            let what = "has too many locals that live across too many calls";
            return Err(Refusal::TooLarge { function: place(), what });
        };
        let body = emit::emit(context, &lowered, &live).map_err(|stop| match stop {
            Stop::LiveReference => Refusal::LiveReference { function: place() },
            Stop::TooLarge => {
                Refusal::TooLarge { function: place(), what: "becomes larger than engines take" }
            }
        })?;
        let area = u64::from(context.frame_pages) << 16;
        if u64::from(body.frame_size) + u64::from(helpers::spare(body.frame_size)) > area {
            return Err(Refusal::TooLarge {
                function: place(),
                what: "keeps more locals than fit into a frame",
            });
        }
        bodies.push(body.code);
        largest_frame = largest_frame.max(body.frame_size);
    }
    Ok(Functions { bodies, largest_frame })
}

/// A function that is not instrumented. It too sees the program's memory only.
fn plain(body: &wasmparser::FunctionBody<'_>, context: &Context<'_>) -> Result<Vec<u8>, Refusal> {
    let range = body.range();
    let (mut out, mut copied) = (Vec::with_capacity(range.len()), range.start);
    let mut reader = body.get_operators_reader().map_err(invalid)?;
    while !reader.eof() {
        let start = reader.original_position();
        let op = reader.read().map_err(invalid)?;
        let end = reader.original_position();
        match op {
            Operator::MemorySize { .. } => {
                out.extend_from_slice(&context.wasm[copied..end]);
                let mut sink = wasm_encoder::InstructionSink::new(&mut out);
                sink.i32_const(context.frame_pages as i32).i32_sub();
            }
            Operator::RefFunc { function_index } => {
                out.extend_from_slice(&context.wasm[copied..start]);
                let taken = context.adapters.taken(function_index);
                wasm_encoder::InstructionSink::new(&mut out).ref_func(taken);
            }
            _ => continue,
        }
        copied = end;
    }
    out.extend_from_slice(&context.wasm[copied..range.end]);
    Ok(out)
}
