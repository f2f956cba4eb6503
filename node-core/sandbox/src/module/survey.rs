//! One pass over a module: is it valid, is it a command, what does it need.

use super::lookalike::check_header;
use super::refusal::{BadImport, Refusal, WhyNot};
use crate::wasi::{self, Param};
use wasmparser::{
    BinaryReaderError, CompositeInnerType, ExternalKind, FuncType, FuncValidatorAllocations, MemoryType,
    Parser, Payload, TypeRef, ValType, ValidPayload, Validator, WasmFeatures,
};

/// Elements of all tables together. Our choice: ten times what the largest known program
/// has, and at 16 bytes each no more than 16 MiB that the memory limit does not see.
pub(super) const MAX_ELEMENTS: u64 = 1 << 20;

/// Features that both engines run alike: WebAssembly 2.0. Extensions are let in one by one, when
/// something needs them and suspending a task can handle them.
const FEATURES: WasmFeatures = WasmFeatures::WASM2;

/// Extensions that a compiler may have used, and what to do about it.
const REFUSED: &[(WasmFeatures, &str, &str)] = &[
    (
        WasmFeatures::THREADS,
        "threads or shared memory",
        "build without them (in Rust: wasm32-wasip1, not wasm32-wasip1-threads)",
    ),
    (WasmFeatures::TAIL_CALL, "tail calls", "build with -mno-tail-call"),
    (
        WasmFeatures::EXCEPTIONS.union(WasmFeatures::LEGACY_EXCEPTIONS),
        "exceptions",
        "build without them (-fno-exceptions, or panic=abort)",
    ),
    (WasmFeatures::MEMORY64, "64-bit memory", "build for wasm32"),
    (WasmFeatures::MULTI_MEMORY, "several memories", "link with one memory"),
    (
        WasmFeatures::RELAXED_SIMD,
        "relaxed SIMD, whose results differ between machines",
        "build with -mno-relaxed-simd",
    ),
    (WasmFeatures::EXTENDED_CONST, "extended constant expressions", "build with -mno-extended-const"),
    (
        WasmFeatures::GC.union(WasmFeatures::FUNCTION_REFERENCES),
        "garbage-collected types",
        "use a compiler that targets WASI preview 1 with linear memory",
    ),
    (WasmFeatures::WIDE_ARITHMETIC, "wide arithmetic", "build with -mno-wide-arithmetic"),
    (WasmFeatures::CUSTOM_PAGE_SIZES, "pages of another size", "link with pages of 64 KiB"),
];

/// Facts about a module that the pass found.
pub(super) struct Survey {
    pub(super) imports: Vec<&'static str>,
    pub(super) memory: MemoryType,
    /// Tables, and how many elements the module declares in them.
    pub(super) tables: u32,
    /// The start function, if it has one.
    pub(super) start: Option<u32>,
    /// The function exported as `_start`, and the type that it and the start function have.
    pub(super) command: Command,
    pub(super) functions: u32,
}

/// The function that runs the program.
#[derive(Clone, Copy)]
pub(super) struct Command {
    pub(super) function: u32,
    pub(super) type_index: u32,
}

impl Survey {
    pub(super) fn of(program: &[u8]) -> Result<Survey, Refusal> {
        check_header(program)?;
        validate(program, FEATURES).map_err(|error| explain(program, &error))?;
        Survey::walk(program).map_err(|stop| match stop {
            Stop::Refused(refusal) => refusal,
            Stop::Broken(error) => Refusal::Invalid(error.to_string()),
        })
    }

    /// Surveys a module that is valid.
    fn walk(program: &[u8]) -> Result<Survey, Stop> {
        let mut types = Vec::new();
        let mut functions = Vec::new();
        let (mut imports, mut bad) = (Vec::new(), Vec::new());
        let (mut memory, mut start) = (None, None);
        let (mut tables, mut elements) = (0, 0u64);
        let (mut start_export, mut memory_export, mut reactor) = (None, false, false);
        for payload in Parser::new(0).parse_all(program) {
            match payload? {
                Payload::TypeSection(section) => {
                    for group in section {
                        for ty in group?.into_types() {
                            types.push(match ty.composite_type.inner {
                                CompositeInnerType::Func(f) => Some(f),
                                _ => None,
                            });
                        }
                    }
                }
                Payload::ImportSection(section) => {
                    for import in section.into_imports() {
                        let import = import?;
                        let why = match import.ty {
                            TypeRef::Func(index) => {
                                functions.push(index);
                                let ty = types.get(index as usize).and_then(Option::as_ref);
                                match offered(import.module, import.name, ty) {
                                    Ok(name) => {
                                        imports.push(name);
                                        continue;
                                    }
                                    Err(why) => why,
                                }
                            }
                            TypeRef::Memory(_) => WhyNot::Kind("memory"),
                            TypeRef::Table(_) => WhyNot::Kind("table"),
                            TypeRef::Global(_) => WhyNot::Kind("global"),
                            _ => WhyNot::Kind("thing of an unknown kind"),
                        };
                        bad.push(BadImport::new(import.module, import.name, why));
                    }
                }
                Payload::FunctionSection(section) => {
                    for index in section {
                        functions.push(index?);
                    }
                }
                Payload::TableSection(section) => {
                    for table in section {
                        tables += 1;
                        elements = elements.saturating_add(table?.ty.initial);
                    }
                }
                Payload::MemorySection(section) => {
                    for ty in section {
                        memory = Some(ty?);
                    }
                }
                Payload::ExportSection(section) => {
                    for export in section {
                        let export = export?;
                        match (export.name, export.kind) {
                            ("_start", ExternalKind::Func) => start_export = Some(export.index),
                            ("memory", ExternalKind::Memory) => memory_export = true,
                            ("_initialize", _) => reactor = true,
                            _ => {}
                        }
                    }
                }
                Payload::StartSection { func, .. } => start = Some(func),
                _ => {}
            }
        }
        if !bad.is_empty() {
            return Err(Refusal::Imports(bad).into());
        }
        let function = start_export.ok_or(Refusal::NoStart { reactor })?;
        let type_index = functions.get(function as usize).copied().ok_or(Refusal::StartSignature)?;
        match types.get(type_index as usize).and_then(Option::as_ref) {
            Some(ty) if ty.params().is_empty() && ty.results().is_empty() => {}
            _ => return Err(Refusal::StartSignature.into()),
        }
        let memory = memory.filter(|_| memory_export).ok_or(Refusal::NoMemory)?;
        if elements > MAX_ELEMENTS {
            return Err(Refusal::Tables { elements, max: MAX_ELEMENTS }.into());
        }
        let command = Command { function, type_index };
        Ok(Survey { imports, memory, tables, start, command, functions: functions.len() as u32 })
    }
}

enum Stop {
    Refused(Refusal),
    /// Cannot happen after validation, but is no reason to panic either.
    Broken(BinaryReaderError),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Stop::Refused(refusal)
    }
}

impl From<BinaryReaderError> for Stop {
    fn from(error: BinaryReaderError) -> Self {
        Stop::Broken(error)
    }
}

/// The offered function that an import asks for.
fn offered(module: &str, name: &str, ty: Option<&FuncType>) -> Result<&'static str, WhyNot> {
    let function = wasi::function(name).filter(|_| module == wasi::MODULE).ok_or(WhyNot::Unknown)?;
    let ty = ty.ok_or(WhyNot::Signature)?;
    let same = |(have, want): (&ValType, &Param)| match want {
        Param::I32 => *have == ValType::I32,
        Param::I64 => *have == ValType::I64,
    };
    let results: &[ValType] = if function.returns { &[ValType::I32] } else { &[] };
    let fits = ty.params().len() == function.params.len()
        && ty.params().iter().zip(function.params).all(same)
        && ty.results() == results;
    if fits { Ok(function.name) } else { Err(WhyNot::Signature) }
}

pub(crate) fn validate(program: &[u8], features: WasmFeatures) -> Result<(), BinaryReaderError> {
    let mut validator = Validator::new_with_features(features);
    let mut allocations = FuncValidatorAllocations::default();
    for payload in Parser::new(0).parse_all(program) {
        if let ValidPayload::Func(function, body) = validator.payload(&payload?)? {
            let mut function = function.into_validator(allocations);
            function.validate(&body)?;
            allocations = function.into_allocations();
        }
    }
    Ok(())
}

/// Tells a damaged module from one that uses an extension, and names the extension.
fn explain(program: &[u8], error: &BinaryReaderError) -> Refusal {
    let all = REFUSED.iter().fold(FEATURES, |all, (feature, ..)| all | *feature);
    let first = error.to_string();
    if let Err(error) = validate(program, all) {
        return Refusal::Invalid(error.to_string());
    }
    let lacking =
        |(feature, ..): &&(WasmFeatures, _, _)| validate(program, all.difference(*feature)).is_err();
    match REFUSED.iter().find(lacking) {
        Some((_, feature, advice)) => Refusal::Feature { feature, detail: first, advice },
        None => Refusal::Invalid(first),
    }
}
