//! Puts the new module together: what the program has, as it is, with what the pass adds behind.

use super::adapters::Adapters;
use super::callgraph::CallGraph;
use super::emit::Context;
use super::layout::{Accessors, DEPTH, FUEL, GlobalSlot, Globals, Layout, PREFIX, REFUEL, STATE, TOP};
use super::refusal::Refusal;
use super::survey::{Survey, invalid};
use super::types::{BlockTypes, encode};
use super::{Functions, Options, PAGES, Tuning};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ops::Range;
use wasm_encoder::reencode::{self, Reencode};
use wasm_encoder::{
    CodeSection, ConstExpr, ElementSection, Elements, Encode, ExportKind, ExportSection, Function,
    FunctionSection, GlobalSection, GlobalType, MemorySection, MemoryType, Module, RawSection, TableSection,
    TypeSection,
};
use wasmparser::{BinaryReader, Parser, Payload, SectionLimited, ValType};

mod id {
    pub(super) const TYPE: u8 = 1;
    pub(super) const IMPORT: u8 = 2;
    pub(super) const TABLE: u8 = 4;
    pub(super) const GLOBAL: u8 = 6;
    pub(super) const EXPORT: u8 = 7;
    pub(super) const ELEMENT: u8 = 9;
    pub(super) const CODE: u8 = 10;
    pub(super) const DATA: u8 = 11;
    pub(super) const DATA_COUNT: u8 = 12;
}

/// The sections of a module that are copied, by their number.
struct Sections<'a> {
    wasm: &'a [u8],
    ranges: BTreeMap<u8, Range<usize>>,
    names: Option<Range<usize>>,
}

impl<'a> Sections<'a> {
    fn of(wasm: &'a [u8]) -> Result<Self, Refusal> {
        let mut sections = Sections { wasm, ranges: BTreeMap::new(), names: None };
        for payload in Parser::new(0).parse_all(wasm) {
            match payload.map_err(invalid)? {
                Payload::CustomSection(section) if section.name() == "name" => {
                    sections.names = Some(section.range());
                }
                Payload::CustomSection(_) => {}
                payload => {
                    if let Some((id, range)) = payload.as_section() {
                        sections.ranges.insert(id, range);
                    }
                }
            }
        }
        Ok(sections)
    }

    /// A section as it is.
    fn copy(&self, id: u8, module: &mut Module) {
        if let Some(range) = self.ranges.get(&id) {
            module.section(&RawSection { id, data: &self.wasm[range.clone()] });
        }
    }

    fn reader(&self, id: u8) -> Option<BinaryReader<'a>> {
        let range = self.ranges.get(&id)?;
        Some(BinaryReader::new(&self.wasm[range.clone()], range.start))
    }

    /// A section with entries added, which come with their count in front.
    fn extend(&self, id: u8, added: &[u8], module: &mut Module) -> Result<(), Refusal> {
        let (count, entries) = self.entries(id)?;
        let (more, added) = split_count(added)?;
        let mut data = Vec::with_capacity(entries.len() + added.len() + 5);
        (count + more).encode(&mut data);
        data.extend_from_slice(entries);
        data.extend_from_slice(added);
        module.section(&RawSection { id, data: &data });
        Ok(())
    }

    fn entries(&self, id: u8) -> Result<(u32, &'a [u8]), Refusal> {
        match self.ranges.get(&id) {
            Some(range) => split_count(&self.wasm[range.clone()]),
            None => Ok((0, &[])),
        }
    }
}

fn split_count(section: &[u8]) -> Result<(u32, &[u8]), Refusal> {
    let mut reader = wasmparser::BinaryReader::new(section, 0);
    let count = reader.read_var_u32().map_err(invalid)?;
    Ok((count, &section[reader.original_position()..]))
}

/// Encoded content of a section, without its number and length.
fn contents(section: &impl Encode) -> Result<Vec<u8>, Refusal> {
    let mut bytes = Vec::new();
    section.encode(&mut bytes);
    // The length comes first.
    Ok(split_count(&bytes)?.1.to_vec())
}

/// Functions as the host sees them.
struct Exported<'a>(&'a Adapters);

impl Reencode for Exported<'_> {
    type Error = Infallible;

    fn function_index(&mut self, function: u32) -> Result<u32, reencode::Error> {
        Ok(self.0.exported(function))
    }
}

/// Functions as tables hold them.
struct Taken<'a>(&'a Adapters);

impl Reencode for Taken<'_> {
    type Error = Infallible;

    fn function_index(&mut self, function: u32) -> Result<u32, reencode::Error> {
        Ok(self.0.taken(function))
    }
}

/// After validation this cannot happen.
fn broken(error: reencode::Error) -> Refusal {
    Refusal::Invalid(error.to_string())
}

/// Functions of a module that engines take: wasmparser's limit, and V8's.
const FUNCTIONS_MAX: usize = 1_000_000;

/// As many functions of nothing as the program has, if there is room for them. V8 puts functions in their callers' place much
/// more freely in a module that has many small ones, since others were optimised by their
/// compiler; ours were too, but callees became larger than they are worth. Measured: qsort at 1.13
/// instead of 1.58.
fn small(count: usize, types: &mut BlockTypes) -> Vec<(u32, Function)> {
    let ty = types.function(&[], &[]);
    let nothing = || {
        let mut function = Function::new([]);
        function.instructions().end();
        (ty, function)
    };
    std::iter::repeat_with(nothing).take(count).collect()
}

/// Parts that a new module is written from.
pub(super) struct Parts<'p, 'a> {
    pub(super) survey: &'p Survey<'a>,
    pub(super) graph: &'p CallGraph,
    pub(super) options: &'p Options,
    pub(super) context: &'p Context<'a>,
    pub(super) functions: Functions,
}

pub(super) fn write(parts: Parts<'_, '_>, mut types: BlockTypes) -> Result<(Vec<u8>, Layout), Refusal> {
    let Parts { survey, graph, options, context, functions } = parts;
    let Context { wasm, globals, helpers, adapters, .. } = context;
    let sections = Sections::of(wasm)?;
    let mut module = Module::new();

    let Functions { bodies, largest_frame } = functions;
    let mut added = helpers.functions(globals, options.frame_pages, largest_frame, &mut types);
    added.extend(adapters.functions(survey, graph, globals, &mut types));
    let mut exports = ExportSection::new();
    if let Some(reader) = sections.reader(id::EXPORT) {
        let section = SectionLimited::new(reader).map_err(invalid)?;
        Exported(adapters).parse_export_section(&mut exports, section).map_err(broken)?;
    }
    for (name, index) in [
        (STATE, globals.state),
        (FUEL, globals.fuel),
        (REFUEL, globals.refuel),
        (TOP, globals.top),
        (DEPTH, globals.depth),
    ] {
        exports.export(name, ExportKind::Global, index);
    }
    let memory = survey.memory_export.map_or_else(|| format!("{PREFIX}memory"), str::to_string);
    if survey.memory_export.is_none() {
        exports.export(&memory, ExportKind::Memory, 0);
    }
    let start = survey.start.map(|function| {
        let name = format!("{PREFIX}start");
        exports.export(&name, ExportKind::Func, adapters.exported(function));
        name
    });
    let first_accessor = survey.functions.len() as u32 + added.len() as u32;
    let (slots, accessors) = global_slots(survey, &mut types, &mut exports, first_accessor);
    added.extend(accessors);
    if options.tuning == Tuning::V8 {
        let room = FUNCTIONS_MAX.saturating_sub(survey.functions.len() + added.len());
        added.extend(small(survey.bodies.len().min(room), &mut types));
    }

    let mut signatures = FunctionSection::new();
    for (ty, function) in survey.functions.iter().zip(0..).skip(survey.imports.len()) {
        match survey.signature(function) {
            Some(signature) if graph.function(function).counts => {
                signatures.function(types.counting(signature));
            }
            _ => {
                signatures.function(*ty);
            }
        }
    }
    for (ty, _) in &added {
        signatures.function(*ty);
    }
    let mut new_types = TypeSection::new();
    for ty in &types.added {
        let encode = |types: &[ValType]| types.iter().map(|ty| encode(*ty)).collect::<Vec<_>>();
        new_types.ty().function(encode(ty.params()), encode(ty.results()));
    }
    sections.extend(id::TYPE, &contents(&new_types)?, &mut module)?;
    sections.copy(id::IMPORT, &mut module);
    module.section(&signatures);
    if let Some(reader) = sections.reader(id::TABLE) {
        let mut tables = TableSection::new();
        let section = SectionLimited::new(reader).map_err(invalid)?;
        Taken(adapters).parse_table_section(&mut tables, section).map_err(broken)?;
        module.section(&tables);
    }
    module.section(&memory_section(survey, options)?);
    let mut variables = GlobalSection::new();
    if let Some(reader) = sections.reader(id::GLOBAL) {
        let section = SectionLimited::new(reader).map_err(invalid)?;
        Taken(adapters).parse_global_section(&mut variables, section).map_err(broken)?;
    }
    add_globals(survey, &mut variables);
    module.section(&variables);
    module.section(&exports);
    let mut elements = ElementSection::new();
    if let Some(reader) = sections.reader(id::ELEMENT) {
        let section = SectionLimited::new(reader).map_err(invalid)?;
        Taken(adapters).parse_element_section(&mut elements, section).map_err(broken)?;
    }
    // A function that an operator refers to must be declared. Its export may have declared the
    // program's own function, but not a thunk.
    let thunks: Vec<u32> = adapters.thunks().collect();
    if !thunks.is_empty() {
        elements.declared(Elements::Functions(thunks.into()));
    }
    if !elements.is_empty() {
        module.section(&elements);
    }
    sections.copy(id::DATA_COUNT, &mut module);
    let mut code = CodeSection::new();
    for body in &bodies {
        code.raw(body);
    }
    for (_, function) in &added {
        code.function(function);
    }
    module.section(&code);
    debug_assert!(sections.ranges.contains_key(&id::CODE) || bodies.is_empty());
    sections.copy(id::DATA, &mut module);
    if let Some(names) = sections.names {
        module.section(&RawSection { id: 0, data: &wasm[names] });
    }
    let layout = Layout { memory, frame_pages: options.frame_pages, globals: slots, start };
    Ok((module.finish(), layout))
}

fn memory_section(survey: &Survey<'_>, options: &Options) -> Result<MemorySection, Refusal> {
    let frames = u64::from(options.frame_pages);
    let own = survey.memory.map_or(0, |memory| memory.initial);
    // Without a memory of its own the program cannot grow one.
    let limit = match &survey.memory {
        Some(memory) => memory.maximum.unwrap_or(PAGES).min(options.memory_max_pages.into()),
        None => 0,
    };
    let (minimum, maximum) = (own + frames, (limit + frames).min(PAGES));
    if own > limit || minimum > maximum {
        return Err(Refusal::NoRoom { pages: own, frame_pages: options.frame_pages });
    }
    let mut section = MemorySection::new();
    section.memory(MemoryType {
        minimum,
        maximum: Some(maximum),
        memory64: false,
        shared: false,
        page_size_log2: None,
    });
    Ok(section)
}

/// The globals of [`Globals`], in its order.
fn add_globals(survey: &Survey<'_>, section: &mut GlobalSection) {
    use wasm_encoder::ValType::{I32, I64};
    let own = section.len();
    let top = survey.memory.map_or(0, |memory| memory.initial) << 16;
    for (ty, value) in [(I32, 0), (I64, 0), (I64, 0), (I32, top), (I32, 0), (I32, 0)] {
        let value =
            if ty == I64 { ConstExpr::i64_const(0) } else { ConstExpr::i32_const(value as u32 as i32) };
        section.global(GlobalType { val_type: ty, mutable: true, shared: false }, &value);
    }
    debug_assert_eq!(section.len() - own, Globals::COUNT);
}

/// Exports every mutable global, and for those that JavaScript cannot read, functions that do.
fn global_slots(
    survey: &Survey<'_>,
    types: &mut BlockTypes,
    exports: &mut ExportSection,
    first_function: u32,
) -> (Vec<GlobalSlot>, Vec<(u32, Function)>) {
    let (mut slots, mut functions) = (Vec::new(), Vec::new());
    for (index, global) in survey.globals.iter().enumerate().filter(|(_, global)| global.mutable) {
        let index = index as u32;
        let export = format!("{PREFIX}global.{index}");
        exports.export(&export, ExportKind::Global, index);
        let ty = global.content_type;
        let bits = accessors(index, ty).map(|(get, set)| {
            let words: &[ValType] =
                if ty == ValType::V128 { &[ValType::I64, ValType::I64] } else { &[ValType::I64] };
            let names =
                Accessors { get: format!("{PREFIX}get.{index}"), set: format!("{PREFIX}set.{index}") };
            let next = first_function + functions.len() as u32;
            exports.export(&names.get, ExportKind::Func, next);
            exports.export(&names.set, ExportKind::Func, next + 1);
            functions.push((types.function(&[], words), get));
            functions.push((types.function(words, &[]), set));
            names
        });
        slots.push(GlobalSlot { index, ty, export, bits });
    }
    (slots, functions)
}

/// Functions that return and take a global's bits.
fn accessors(index: u32, ty: ValType) -> Option<(Function, Function)> {
    let (mut get, mut set) = (Function::new([]), Function::new([]));
    let (mut g, mut s) = (get.instructions(), set.instructions());
    match ty {
        ValType::F32 => {
            g.global_get(index).i32_reinterpret_f32().i64_extend_i32_u();
            s.local_get(0).i32_wrap_i64().f32_reinterpret_i32();
        }
        ValType::F64 => {
            g.global_get(index).i64_reinterpret_f64();
            s.local_get(0).f64_reinterpret_i64();
        }
        ValType::V128 => {
            g.global_get(index).i64x2_extract_lane(0).global_get(index).i64x2_extract_lane(1);
            s.local_get(0).i64x2_splat().local_get(1).i64x2_replace_lane(1);
        }
        _ => return None,
    }
    g.end();
    s.global_set(index).end();
    Some((get, set))
}
