//! Contents of a module, gathered in one validated pass.

use super::canonical;
use super::layout::PREFIX;
use super::operators;
use super::refusal::{Place, Refusal};
use crate::module::validate;
use std::collections::{BTreeMap, BTreeSet};
use wasmparser::{
    BinaryReaderError, CompositeInnerType, ConstExpr, ElementItems, ElementKind, ExternalKind, FuncType,
    FunctionBody, GlobalType, KnownCustom, MemoryType, Name, Operator, Parser, Payload, TableInit, TypeRef,
    ValType, WasmFeatures,
};

/// Features that both engines run alike: WebAssembly 2.0.
pub(super) const SUPPORTED: WasmFeatures = WasmFeatures::WASM2;

/// Wider, so that what is not supported is refused by name and not called damaged.
const KNOWN: WasmFeatures = SUPPORTED
    .union(WasmFeatures::THREADS)
    .union(WasmFeatures::TAIL_CALL)
    .union(WasmFeatures::EXCEPTIONS)
    .union(WasmFeatures::LEGACY_EXCEPTIONS)
    .union(WasmFeatures::RELAXED_SIMD)
    .union(WasmFeatures::MULTI_MEMORY)
    .union(WasmFeatures::MEMORY64)
    .union(WasmFeatures::EXTENDED_CONST)
    .union(WasmFeatures::FUNCTION_REFERENCES)
    .union(WasmFeatures::GC)
    .union(WasmFeatures::WIDE_ARITHMETIC);

/// A valid module without anything that is refused wherever it stands.
#[derive(Default)]
pub(super) struct Survey<'a> {
    pub(super) types: Vec<FuncType>,
    /// For each type the first that equals it: what an indirect call compares.
    pub(super) same_type: Vec<u32>,
    /// The type of each function, imported ones first.
    pub(super) functions: Vec<u32>,
    /// Module and name of each imported function.
    pub(super) imports: Vec<(&'a str, &'a str)>,
    pub(super) bodies: Vec<FunctionBody<'a>>,
    pub(super) memory: Option<MemoryType>,
    pub(super) globals: Vec<GlobalType>,
    /// Functions that a table can hold.
    pub(super) address_taken: BTreeSet<u32>,
    /// Functions that are exported.
    pub(super) exported: BTreeSet<u32>,
    pub(super) memory_export: Option<&'a str>,
    pub(super) start: Option<u32>,
    /// [`super::Options::bit_exact`]
    pub(super) bit_exact: bool,
    names: BTreeMap<u32, &'a str>,
}

impl<'a> Survey<'a> {
    pub(super) fn of(wasm: &'a [u8], bit_exact: bool) -> Result<Survey<'a>, Refusal> {
        let unsupported = validate(wasm, SUPPORTED).err();
        if let Some(error) = &unsupported {
            validate(wasm, KNOWN).map_err(|_| Refusal::Invalid(error.to_string()))?;
        }
        let mut survey = Survey { bit_exact, ..Survey::default() };
        for payload in Parser::new(0).parse_all(wasm) {
            survey.payload(payload.map_err(invalid)?)?;
        }
        for i in 0..survey.bodies.len() {
            survey.check_body(i)?;
        }
        match unsupported {
            None => Ok(survey),
            Some(error) => Err(construct(&format!("an extension ({error})"), "build for WebAssembly 2.0")),
        }
    }

    /// The type of a function.
    pub(super) fn signature(&self, function: u32) -> Option<&FuncType> {
        self.types.get(*self.functions.get(function as usize)? as usize)
    }

    pub(super) fn imported(&self) -> u32 {
        self.imports.len() as u32
    }

    pub(super) fn place(&self, function: u32) -> Place {
        let short = |name: &&str| name.chars().take(200).collect();
        Place { index: function, name: self.names.get(&function).map(short) }
    }

    fn payload(&mut self, payload: Payload<'a>) -> Result<(), Refusal> {
        match payload {
            Payload::TypeSection(section) => {
                for group in section {
                    for ty in group.map_err(invalid)?.into_types() {
                        match ty.composite_type.inner {
                            CompositeInnerType::Func(f) if ty.is_final && ty.supertype_idx.is_none() => {
                                self.types.push(f);
                            }
                            _ => return Err(construct("garbage-collected types", LINEAR)),
                        }
                    }
                }
                let mut first = BTreeMap::new();
                for (i, ty) in self.types.iter().enumerate() {
                    self.same_type.push(*first.entry(ty.clone()).or_insert(i as u32));
                }
            }
            Payload::ImportSection(section) => {
                for import in section.into_imports() {
                    let import = import.map_err(invalid)?;
                    let what = match import.ty {
                        TypeRef::Func(index) => {
                            self.functions.push(index);
                            self.imports.push((import.module, import.name));
                            continue;
                        }
                        TypeRef::Global(ty) if !ty.mutable => {
                            self.globals.push(ty);
                            continue;
                        }
                        TypeRef::Memory(_) => "memory",
                        TypeRef::Table(_) => "table",
                        TypeRef::Global(_) => "mutable global",
                        _ => "thing",
                    };
                    let name: String = import.name.chars().take(80).collect();
                    let what = format!("an imported {what} ({:?})", name);
                    return Err(construct(&what, "let the module define it (link without --import-memory)"));
                }
            }
            Payload::FunctionSection(section) => {
                for index in section {
                    self.functions.push(index.map_err(invalid)?);
                }
            }
            Payload::TableSection(section) => {
                for table in section {
                    if let TableInit::Expr(expr) = table.map_err(invalid)?.init {
                        self.references(&expr)?;
                    }
                }
            }
            Payload::MemorySection(section) => {
                for ty in section {
                    let ty = ty.map_err(invalid)?;
                    if ty.memory64 {
                        return Err(construct("a 64-bit memory", "build for wasm32"));
                    } else if ty.shared {
                        return Err(construct("a shared memory", "build without threads"));
                    } else if self.memory.replace(ty).is_some() {
                        return Err(construct("several memories", "link with one memory"));
                    }
                }
            }
            Payload::TagSection(_) => return Err(construct("exception tags", "build with -fno-exceptions")),
            Payload::GlobalSection(section) => {
                for global in section {
                    let global = global.map_err(invalid)?;
                    if global.ty.mutable && matches!(global.ty.content_type, ValType::Ref(_)) {
                        let advice = "references cannot be moved; keep them in tables";
                        return Err(construct("a mutable global that holds a reference", advice));
                    }
                    self.references(&global.init_expr)?;
                    self.globals.push(global.ty);
                }
            }
            Payload::ExportSection(section) => {
                for export in section {
                    let export = export.map_err(invalid)?;
                    if export.name.starts_with(PREFIX) {
                        return Err(Refusal::ReservedExport(export.name.chars().take(200).collect()));
                    }
                    match export.kind {
                        ExternalKind::Memory => {
                            self.memory_export.get_or_insert(export.name);
                        }
                        ExternalKind::Func => {
                            self.exported.insert(export.index);
                        }
                        _ => {}
                    }
                }
            }
            Payload::StartSection { func, .. } => self.start = Some(func),
            Payload::ElementSection(section) => {
                for element in section {
                    let element = element.map_err(invalid)?;
                    if let ElementKind::Active { offset_expr, .. } = &element.kind {
                        self.references(offset_expr)?;
                    }
                    match element.items {
                        ElementItems::Functions(items) => {
                            for item in items {
                                self.address_taken.insert(item.map_err(invalid)?);
                            }
                        }
                        ElementItems::Expressions(_, items) => {
                            for item in items {
                                self.references(&item.map_err(invalid)?)?;
                            }
                        }
                    }
                }
            }
            Payload::CodeSectionEntry(body) => self.bodies.push(body),
            Payload::CustomSection(section) => {
                if let KnownCustom::Name(names) = section.as_known() {
                    for name in names {
                        // A damaged name section is no reason to refuse a program.
                        let Ok(Name::Function(map)) = name else { continue };
                        self.names
                            .extend(map.into_iter().flatten().map(|naming| (naming.index, naming.name)));
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Functions that a constant expression refers to.
    fn references(&mut self, expr: &ConstExpr<'a>) -> Result<(), Refusal> {
        for op in expr.get_operators_reader() {
            if let Operator::RefFunc { function_index } = op.map_err(invalid)? {
                self.address_taken.insert(function_index);
            }
        }
        Ok(())
    }

    fn check_body(&mut self, i: usize) -> Result<(), Refusal> {
        let function = self.imported() + i as u32;
        let mut reader = self.bodies[i].get_operators_reader().map_err(invalid)?;
        while !reader.eof() {
            let op = reader.read().map_err(invalid)?;
            if let Operator::RefFunc { function_index } = op {
                self.address_taken.insert(function_index);
            }
            let inexact = if self.bit_exact { canonical::refused(&op) } else { None };
            if let Some(advice) = operators::refused(&op).or(inexact) {
                let instruction = operators::name(&op);
                return Err(Refusal::Instruction { instruction, function: self.place(function), advice });
            }
        }
        Ok(())
    }
}

const LINEAR: &str = "use a compiler that targets WASI preview 1 with linear memory";

fn construct(what: &str, advice: &'static str) -> Refusal {
    Refusal::Construct { what: what.into(), advice }
}

pub(super) fn invalid(error: BinaryReaderError) -> Refusal {
    Refusal::Invalid(error.to_string())
}
