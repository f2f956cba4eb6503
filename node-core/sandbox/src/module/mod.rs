//! Programs: which can run here, and what is written into them first.
//!
//! A program is a core WebAssembly module that was built as a WASI preview 1 command. Every
//! node checks for itself; nothing that another node says about a program is believed.

mod bounds;
mod lookalike;
mod refusal;
mod rewrite;
mod survey;

pub use refusal::{BadImport, Refusal};

use crate::instrument::{self, INSTRUMENT_VERSION, Layout, Tuning};
use crate::task::Limits;
use crate::wasi::{FUNCTIONS, MODULE};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use survey::Survey;
pub(crate) use survey::validate;

/// Part of the key of every cached compilation: raise it when [`prepare`] changes.
/// The pass that makes programs suspendable counts too.
pub const PREPARE_VERSION: u32 = 2 << 16 | INSTRUMENT_VERSION;

/// Bytes of a page of linear memory.
pub const PAGE: u64 = 65_536;

/// Facts about a program that can run, for its submitter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Linear memory that it begins with, bytes.
    pub memory_bytes: u64,
    /// Where it stops growing by itself, bytes.
    pub memory_maximum: Option<u64>,
    /// Functions of WASI preview 1 that it imports.
    pub imports: Vec<&'static str>,
}

/// A program that may be compiled and run: its memory cannot outgrow the job's limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    pub bytes: Vec<u8>,
    /// How it is suspended; or why it cannot be, in words. It runs all the same, where it is.
    pub layout: Result<Arc<Layout>, String>,
}

/// How a program is rewritten, at its job's wish.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Form {
    /// Floats give the same bits in every engine ([`instrument::Options::bit_exact`]).
    pub bit_exact: bool,
    /// It can be suspended where it waits for other threads.
    pub threads: bool,
}

/// Checks a program as [`prepare`] does, but for the limits.
pub fn inspect(program: &[u8]) -> Result<Program, Refusal> {
    let survey = Survey::of(program)?;
    // The pass only adds to them.
    bounds::check(program, &bounds::BOUNDS)?;
    Ok(Program {
        memory_bytes: survey.memory.initial * PAGE,
        memory_maximum: survey.memory.maximum.map(|pages| pages * PAGE),
        imports: survey.imports,
    })
}

/// Checks a program and writes the job's memory limit into it. The result depends on the
/// program and the memory limit only.
pub fn limited(program: &[u8], limits: &Limits) -> Result<Vec<u8>, Refusal> {
    let survey = Survey::of(program)?;
    // A 32-bit address space ends at 65536 pages, whatever the limit says.
    let pages = (limits.memory_bytes / PAGE).min(65_536);
    if survey.memory.initial > pages {
        let needs = survey.memory.initial * PAGE;
        return Err(Refusal::MemoryOverLimit { needs, limit: limits.memory_bytes });
    }
    rewrite::rewrite(program, &survey, pages)
}

/// Checks and limits a program, and makes it suspendable if it can be. The result depends on the
/// program, the memory limit, the engine, the form and [`PREPARE_VERSION`] only.
pub fn prepare(program: &[u8], limits: &Limits, tuning: Tuning, form: Form) -> Result<Prepared, Refusal> {
    let bytes = limited(program, limits)?;
    let waits = FUNCTIONS.iter().filter(|function| form.threads && function.waits);
    let blocking = waits.map(|function| (MODULE.into(), function.name.into())).collect();
    let bit_exact = form.bit_exact;
    let options = instrument::Options { bit_exact, tuning, blocking, ..instrument::Options::default() };
    let prepared = match instrument::instrument(&bytes, &options) {
        Ok(made) => Prepared { bytes: made.wasm, layout: Ok(Arc::new(made.layout)) },
        Err(over @ instrument::Refusal::OverLimits(_)) => return Err(Refusal::OverLimits(over.to_string())),
        Err(refusal) => Prepared { bytes, layout: Err(refusal.to_string()) },
    };
    bounds::check(&prepared.bytes, &bounds::BOUNDS)?;
    Ok(prepared)
}
