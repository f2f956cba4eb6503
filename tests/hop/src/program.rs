//! A program that nobody would write, and that runs as long as it is told to.

use arbitrary::Unstructured;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use sandbox::wasi::MODULE;
use std::convert::Infallible;
use wasm_encoder::reencode::{Error, Reencode};
use wasm_encoder::{
    BlockType, CodeSection, ConstExpr, DataCountSection, DataSection, ElementSection, EntityType, ExportKind,
    ExportSection, Function, FunctionSection, GlobalSection, ImportSection, InstructionSink, MemArg,
    MemorySection, MemoryType, Module, TableSection, TypeSection, ValType,
};
use wasm_smith::Config;
use wasmparser::{Parser, Payload};

/// Work that each call of a function of the made module may do, in the units of `ensure_termination`.
const CALL: i32 = 200;

/// Functions that the program asks its host for, each with its parameters.
const IMPORTS: [(&str, &[ValType]); 4] = [
    ("fd_read", &[ValType::I32; 4]),
    ("fd_write", &[ValType::I32; 4]),
    ("random_get", &[ValType::I32; 2]),
    ("clock_time_get", &[ValType::I32, ValType::I64, ValType::I32]),
];

/// Pages of memory that it begins with, and that it may have.
const PAGES: (u64, u64) = (2, 8);

fn config(seed: u64) -> Config {
    Config {
        allow_start_export: false,
        available_imports: None,
        bulk_memory_enabled: seed.is_multiple_of(4),
        // The bits of a NaN are an engine's own, unless the job says otherwise.
        canonicalize_nans: true,
        custom_page_sizes_enabled: false,
        disallow_traps: true,
        exceptions_enabled: false,
        extended_const_enabled: false,
        gc_enabled: false,
        max_funcs: 8,
        max_globals: 8,
        max_imports: 0,
        max_instructions: 150,
        max_memories: 1,
        max_memory32_bytes: PAGES.0 << 16,
        max_table_elements: 40,
        max_tables: 2,
        max_tags: 0,
        memory64_enabled: false,
        min_funcs: 3,
        min_memories: 1,
        multi_value_enabled: true,
        reference_types_enabled: false,
        relaxed_simd_enabled: false,
        shared_everything_threads_enabled: false,
        // One of wasmer's compilers has no vectors.
        simd_enabled: seed.is_multiple_of(3),
        tail_call_enabled: false,
        threads_enabled: false,
        wide_arithmetic_enabled: false,
        ..Config::default()
    }
}

/// The program of a seed: functions at random, called in rounds, as many as standard input says in
/// its first four bytes. Their results go into a hash that is printed now and then.
pub(crate) fn program(seed: u64) -> Option<Vec<u8>> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut bytes = vec![0; 600 + random.next_u64() as usize % 6000];
    random.fill_bytes(&mut bytes);
    let mut module = wasm_smith::Module::new(config(seed), &mut Unstructured::new(&bytes)).ok()?;
    let fuel = module.ensure_termination(CALL as u32).ok()?;
    around(&module.to_bytes(), fuel, &mut random).ok()
}

/// All functions move up by what is imported.
struct Shift;

impl Reencode for Shift {
    type Error = Infallible;

    fn function_index(&mut self, function: u32) -> Result<u32, Error<Infallible>> {
        Ok(function + IMPORTS.len() as u32)
    }
}

/// Gives the made module another memory, imports, and a command that calls its functions.
fn around(made: &[u8], fuel: u32, random: &mut impl Rng) -> Result<Vec<u8>, Error<Infallible>> {
    let mut shift = Shift;
    let (mut types, mut functions, mut tables) =
        (TypeSection::new(), FunctionSection::new(), TableSection::new());
    let (mut globals, mut elements) = (GlobalSection::new(), ElementSection::new());
    let (mut code, mut data) = (CodeSection::new(), DataSection::new());
    let mut segments = None;
    let (mut known, mut of) = (Vec::new(), Vec::new());
    for payload in Parser::new(0).parse_all(made) {
        match payload? {
            Payload::TypeSection(section) => {
                for ty in section.clone().into_iter_err_on_gc_types() {
                    known.push(ty?);
                }
                shift.parse_type_section(&mut types, section)?;
            }
            Payload::FunctionSection(section) => {
                for ty in section.clone() {
                    of.push(ty?);
                }
                shift.parse_function_section(&mut functions, section)?;
            }
            Payload::TableSection(section) => shift.parse_table_section(&mut tables, section)?,
            Payload::GlobalSection(section) => shift.parse_global_section(&mut globals, section)?,
            Payload::ElementSection(section) => shift.parse_element_section(&mut elements, section)?,
            Payload::DataCountSection { count, .. } => segments = Some(count),
            Payload::DataSection(section) => shift.parse_data_section(&mut data, section)?,
            Payload::CodeSectionEntry(body) => shift.parse_function_body(&mut code, body)?,
            _ => {}
        }
    }

    let mut imports = ImportSection::new();
    for (name, params) in IMPORTS {
        imports.import(MODULE, name, EntityType::Function(types.len()));
        types.ty().function(params.iter().copied(), [ValType::I32]);
    }
    functions.function(types.len());
    types.ty().function([], []);
    let hash = globals.len();
    let wide = wasm_encoder::GlobalType { val_type: ValType::I64, mutable: true, shared: false };
    globals.global(wide, &ConstExpr::i64_const(0));
    let mut memories = MemorySection::new();
    memories.memory(MemoryType {
        minimum: PAGES.0,
        maximum: Some(PAGES.1),
        memory64: false,
        shared: false,
        page_size_log2: None,
    });
    let mut exports = ExportSection::new();
    exports.export("memory", ExportKind::Memory, 0);
    exports.export("_start", ExportKind::Func, (IMPORTS.len() + of.len()) as u32);
    let called: Vec<_> = (IMPORTS.len() as u32..).zip(of.iter().map(|ty| &known[*ty as usize])).collect();
    code.function(&command(&called, fuel, hash, random));

    let mut module = Module::new();
    module.section(&types).section(&imports).section(&functions).section(&tables).section(&memories);
    module.section(&globals).section(&exports).section(&elements);
    if let Some(count) = segments {
        module.section(&DataCountSection { count });
    }
    module.section(&code).section(&data);
    Ok(module.finish())
}

const fn at(offset: u64) -> MemArg {
    MemArg { offset, align: 0, memory_index: 0 }
}

/// Rounds so far, and how many are asked for.
const ROUND: u32 = 0;
const ROUNDS: u32 = 1;

/// `_start`. Addresses: 0 a vector of one buffer, 8 the buffer, 16 what the host says it did.
fn command(called: &[(u32, &wasmparser::FuncType)], fuel: u32, hash: u32, random: &mut impl Rng) -> Function {
    let mut body = Function::new([(2, ValType::I32)]);
    let mut code = body.instructions();
    buffer(&mut code, 4);
    code.i32_const(0).i32_const(0).i32_const(1).i32_const(16).call(0).drop();
    code.i32_const(8).i32_load(at(0)).local_set(ROUNDS);
    code.loop_(BlockType::Empty);
    for (function, ty) in called {
        code.i32_const(CALL).global_set(fuel);
        for param in ty.params() {
            argument(&mut code, *param, random);
        }
        code.call(*function);
        for result in ty.results().iter().rev() {
            code_of(&mut code, *result);
            code.global_get(hash).i64_const(7).i64_rotl().i64_xor().global_set(hash);
        }
    }
    // Now and then it tells what it came to, grows, and asks for the time and a random number.
    code.local_get(ROUND).i32_const(1023).i32_and().i32_const(512).i32_eq().if_(BlockType::Empty);
    code.i32_const(24).i32_const(8).call(2).drop();
    code.i32_const(1).i64_const(0).i32_const(32).call(3).drop();
    code.global_get(hash).i32_const(24).i64_load(at(0)).i64_xor();
    code.i32_const(32).i64_load(at(0)).i64_add().global_set(hash);
    code.i32_const(1).memory_grow(0).drop();
    tell(&mut code, hash);
    code.end();
    code.local_get(ROUND).i32_const(1).i32_add().local_tee(ROUND);
    code.local_get(ROUNDS).i32_lt_u().br_if(0).end();
    tell(&mut code, hash);
    code.end();
    body
}

fn buffer(code: &mut InstructionSink<'_>, len: i32) {
    code.i32_const(0).i32_const(8).i32_store(at(0));
    code.i32_const(4).i32_const(len).i32_store(at(0));
}

fn tell(code: &mut InstructionSink<'_>, hash: u32) {
    buffer(code, 8);
    code.i32_const(8).global_get(hash).i64_store(at(0));
    code.i32_const(1).i32_const(0).i32_const(1).i32_const(16).call(1).drop();
}

/// Something that differs from round to round.
fn argument(code: &mut InstructionSink<'_>, ty: wasmparser::ValType, random: &mut impl Rng) {
    use wasmparser::ValType as Type;
    code.local_get(ROUND).i32_const(random.next_u32() as i32 >> (random.next_u32() % 32)).i32_mul();
    match ty {
        Type::I64 => code.i64_extend_i32_s(),
        Type::F32 => code.f32_convert_i32_s(),
        Type::F64 => code.f64_convert_i32_s(),
        Type::V128 => code.i32x4_splat(),
        Type::I32 | Type::Ref(_) => code,
    };
}

/// A result's bits, or some of them, as an i64.
fn code_of(code: &mut InstructionSink<'_>, ty: wasmparser::ValType) {
    use wasmparser::ValType as Type;
    match ty {
        Type::I32 => code.i64_extend_i32_u(),
        Type::F32 => code.i32_reinterpret_f32().i64_extend_i32_u(),
        Type::F64 => code.i64_reinterpret_f64(),
        Type::V128 => code.i64x2_extract_lane(1),
        Type::I64 | Type::Ref(_) => code,
    };
}
