//! Modules at the limits that all engines share: the pass adds to them, and says so when that is too much.

use sandbox::Limits;
use sandbox::instrument::Tuning;
use sandbox::module::{Form, Prepared, Refusal, inspect, prepare};
use wasm_encoder::{
    BlockType, CodeSection, ConstExpr, ExportKind, ExportSection, Function, FunctionSection, GlobalSection,
    GlobalType, MemorySection, MemoryType, Module, TypeSection, ValType,
};

/// Types, functions and globals that a module may have: wasmparser's limits, and V8's.
const MOST: u32 = 1_000_000;

/// A command of so many types, functions and globals.
fn command(types: u32, functions: u32, globals: u32) -> Vec<u8> {
    let mut module = Module::new();
    let mut section = TypeSection::new();
    for _ in 0..types {
        section.ty().function([], []);
    }
    module.section(&section);
    let mut section = FunctionSection::new();
    for _ in 0..functions {
        section.function(0);
    }
    module.section(&section);
    let mut section = MemorySection::new();
    let memory =
        MemoryType { minimum: 1, maximum: None, memory64: false, shared: false, page_size_log2: None };
    section.memory(memory);
    module.section(&section);
    let mut section = GlobalSection::new();
    let global = GlobalType { val_type: ValType::I32, mutable: false, shared: false };
    for _ in 0..globals {
        section.global(global, &ConstExpr::i32_const(7));
    }
    module.section(&section);
    let mut section = ExportSection::new();
    section.export("memory", ExportKind::Memory, 0).export("_start", ExportKind::Func, 0);
    module.section(&section);
    let mut section = CodeSection::new();
    for _ in 0..functions {
        let mut nothing = Function::new([]);
        nothing.instructions().end();
        section.function(&nothing);
    }
    module.section(&section);
    module.finish()
}

/// For both engines: a program that one node refuses, no other may take.
const TUNINGS: [Tuning; 2] = [Tuning::Wasmer, Tuning::V8];

fn prepared(program: &[u8], tuning: Tuning) -> Result<Prepared, Refusal> {
    prepare(program, &Limits::default(), tuning, Form::default())
}

#[test]
fn a_module_that_only_the_pass_brings_over_the_limits_is_refused_in_words() {
    let at_limit = [
        (command(MOST, 1, 0), "types count"),
        (command(1, MOST, 0), "functions count"),
        (command(1, 1, MOST), "globals count"),
    ];
    for (program, what) in at_limit {
        inspect(&program).unwrap_or_else(|refusal| panic!("{what}: valid as it is, yet {refusal}"));
        for tuning in TUNINGS {
            let said = prepared(&program, tuning).expect_err(what).to_string();
            for part in [what, "1000000", "once it can be suspended", "fewer"] {
                assert!(said.contains(part), "{tuning:?}: {said:?} does not say {part:?}");
            }
        }
    }
}

/// A command whose only function has this body, behind types of so many parameters and results.
fn of_body(values: usize, body: impl Fn(&mut Function)) -> Vec<u8> {
    let mut module = Module::new();
    let mut types = TypeSection::new();
    types.ty().function([], []);
    types.ty().function(vec![ValType::I64; values], vec![ValType::I64; values]);
    module.section(&types);
    module.section(FunctionSection::new().function(0));
    let memory =
        MemoryType { minimum: 1, maximum: None, memory64: false, shared: false, page_size_log2: None };
    module.section(MemorySection::new().memory(memory));
    let mut section = ExportSection::new();
    section.export("memory", ExportKind::Memory, 0).export("_start", ExportKind::Func, 0);
    module.section(&section);
    let mut function = Function::new([]);
    body(&mut function);
    function.instructions().end();
    module.section(CodeSection::new().function(&function));
    module.finish()
}

/// Valid modules of some megabytes that would take gigabytes to compile.
#[test]
fn functions_that_cost_a_compiler_far_more_than_their_bytes_are_refused_in_words() {
    let nested = |depth| {
        of_body(0, move |f| {
            for _ in 0..depth {
                f.instructions().loop_(BlockType::Empty);
            }
            for _ in 0..depth {
                f.instructions().end();
            }
        })
    };
    let constants = |count| {
        of_body(0, move |f| {
            for _ in 0..count {
                f.instructions().i64_const(7).drop();
            }
        })
    };
    let table = |targets| {
        of_body(0, move |f| {
            f.instructions().block(BlockType::Empty).i32_const(0).br_table(vec![0; targets], 0).end();
        })
    };
    let values = |loops| {
        of_body(1000, move |f| {
            for _ in 0..1000 {
                f.instructions().i64_const(7);
            }
            for _ in 0..loops {
                f.instructions().loop_(BlockType::FunctionType(1)).end();
            }
            for _ in 0..1000 {
                f.instructions().drop();
            }
        })
    };
    for (bomb, what) in [
        (nested(100_000), "20000 blocks in each other"),
        (constants(1_000_000), "bytes of code; 2097152 are taken"),
        (table(1_000_000), "262144 targets"),
        (values(3000), "1048576 parameters and results"),
    ] {
        let at_upload = inspect(&bomb).expect_err(what);
        let at_nodes = TUNINGS.map(|tuning| prepared(&bomb, tuning).expect_err(what).to_string());
        for said in at_nodes.into_iter().chain([at_upload.to_string()]) {
            for part in [what, "function (number 0)", "split it"] {
                assert!(said.contains(part), "{said:?} does not say {part:?}");
            }
        }
    }
    for large in [nested(15_000), constants(150_000), table(50_000), values(300)] {
        for tuning in TUNINGS {
            prepared(&large, tuning).expect("within the bounds");
        }
    }
}

#[test]
fn a_module_that_stays_within_the_limits_with_what_the_pass_adds_is_taken() {
    for program in [command(MOST - 100, 1, 0), command(1, MOST - 100, 0), command(1, 1, MOST - 100)] {
        for tuning in TUNINGS {
            assert!(prepared(&program, tuning).expect("within the limits").layout.is_ok(), "{tuning:?}");
        }
    }
}
