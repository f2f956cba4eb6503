//! Bytes that claim to be a program.

use crate::edit::{Edit, apply};
use crate::gauge::within;
use arbitrary::{Arbitrary, Unstructured};
use sandbox::Limits;
use sandbox::instrument::{Options, Tuning};
use sandbox::module::{Form, prepare};
use std::sync::LazyLock;
use wasm_smith::{Config, Module};
use wasmparser::{Validator, WasmFeatures};

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    bit_exact: bool,
    frame_pages: u32,
    stack_bytes: u32,
    kind: Kind<'a>,
}

#[derive(Arbitrary, Debug)]
enum Kind<'a> {
    Anything(&'a [u8]),
    /// After a module's first eight bytes.
    Sections(&'a [u8]),
    /// A program of our own, changed.
    Changed(u8, Vec<Edit>),
    /// A valid module, perhaps with what the pass refuses.
    Made(Asked, &'a [u8]),
    MadeAndChanged(Asked, Vec<Edit>, &'a [u8]),
}

/// Features and size that a made module may have.
#[derive(Arbitrary, Debug)]
struct Asked {
    references: bool,
    bulk: bool,
    tail_calls: bool,
    exceptions: bool,
    gc: bool,
    simd: bool,
    wide: bool,
    memory64: bool,
    instructions: u16,
}

static OWN: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let texts =
        [include_str!("../../../node-core/sandbox/tests/mobility/program.wat"), include_str!("shapes.wat")];
    texts.iter().map(|text| wat::parse_str(text).expect("a program")).collect()
});

fn made(asked: &Asked, bytes: &[u8]) -> Option<Vec<u8>> {
    let config = Config {
        available_imports: None,
        bulk_memory_enabled: asked.bulk,
        custom_page_sizes_enabled: false,
        exceptions_enabled: asked.exceptions,
        extended_const_enabled: false,
        gc_enabled: asked.gc,
        max_funcs: 12,
        max_instructions: 20 + usize::from(asked.instructions) % 2_000,
        max_memories: 1,
        memory64_enabled: asked.memory64,
        min_exports: 1,
        min_funcs: 1,
        multi_value_enabled: true,
        reference_types_enabled: asked.references,
        relaxed_simd_enabled: false,
        shared_everything_threads_enabled: false,
        simd_enabled: asked.simd,
        tail_call_enabled: asked.tail_calls,
        threads_enabled: false,
        wide_arithmetic_enabled: asked.wide,
        ..Config::default()
    };
    Some(Module::new(config, &mut Unstructured::new(bytes)).ok()?.to_bytes())
}

pub fn instrument(data: &[u8]) {
    let Ok(input) = Input::arbitrary(&mut Unstructured::new(data)) else { return };
    let changed = |mut program: Vec<u8>, edits: &[Edit]| {
        apply(edits, &mut program);
        program
    };
    let program = match &input.kind {
        Kind::Anything(bytes) => bytes.to_vec(),
        Kind::Sections(bytes) => [b"\0asm\x01\0\0\0", *bytes].concat(),
        Kind::Changed(which, edits) => changed(OWN[usize::from(*which) % OWN.len()].clone(), edits),
        Kind::Made(asked, bytes) => match made(asked, bytes) {
            Some(program) => program,
            None => return,
        },
        Kind::MadeAndChanged(asked, edits, bytes) => match made(asked, bytes) {
            Some(program) => changed(program, edits),
            None => return,
        },
    };
    let layouts = [Tuning::Wasmer, Tuning::V8].map(|tuning| {
        let options = Options {
            bit_exact: input.bit_exact,
            frame_pages: input.frame_pages,
            stack_bytes: input.stack_bytes,
            tuning,
            ..Options::default()
        };
        let done = within(bound(&program), || sandbox::instrument::instrument(&program, &options));
        done.map(|done| {
            is_valid(&done.wasm);
            done.layout
        })
    });
    assert_eq!(layouts[0], layouts[1], "snapshots of one engine's form fit the other's");
    // As every node does it before it compiles.
    let limits = Limits { memory_bytes: 4 << 20, ..Limits::default() };
    let prepared = within(bound(&program), || {
        prepare(&program, &limits, Tuning::Wasmer, Form { bit_exact: input.bit_exact, ..Form::default() })
    });
    if let Ok(prepared) = prepared {
        is_valid(&prepared.bytes);
    }
}

/// Most bytes that the pass may hold. Measured: a few hundred bytes for each byte of a dense program, and as
/// much as a module of nothing but declarations makes it keep.
fn bound(program: &[u8]) -> usize {
    program.len() * 4096 + (16 << 20)
}

fn is_valid(program: &[u8]) {
    let valid = Validator::new_with_features(WasmFeatures::WASM2).validate_all(program);
    assert!(valid.is_ok(), "what the pass makes is no module: {:?}", valid.err());
}
