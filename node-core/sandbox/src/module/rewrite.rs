//! Writing the limits into a module.

use super::refusal::Refusal;
use super::survey::{MAX_ELEMENTS, Survey};
use wasm_encoder::{
    CodeSection, ExportKind, ExportSection, Function, FunctionSection, Instruction, MemorySection,
    MemoryType, Module, RawSection, RefType, TableSection, TableType,
};
use wasmparser::{ExternalKind, Parser, Payload};

/// The module with a memory maximum of at most `pages`, bounded tables, and its start
/// function, if it has one, called by `_start`: an engine can then rely on `memory` being
/// there when the first host call comes. Debug information goes, names stay.
pub(super) fn rewrite(program: &[u8], survey: &Survey, pages: u64) -> Result<Vec<u8>, Refusal> {
    let broken = |error: wasmparser::BinaryReaderError| Refusal::Invalid(error.to_string());
    let mut module = Module::new();
    let mut code = None;
    for payload in Parser::new(0).parse_all(program) {
        let payload = payload.map_err(broken)?;
        match &payload {
            Payload::MemorySection(_) => {
                module.section(&memory(survey, pages));
            }
            Payload::TableSection(section) => {
                let mut tables = TableSection::new();
                for table in section.clone() {
                    tables.table(self::table(&table.map_err(broken)?.ty, survey.tables));
                }
                module.section(&tables);
            }
            Payload::FunctionSection(section) if survey.start.is_some() => {
                let mut functions = FunctionSection::new();
                for index in section.clone() {
                    functions.function(index.map_err(broken)?);
                }
                functions.function(survey.command.type_index);
                module.section(&functions);
            }
            Payload::ExportSection(section) if survey.start.is_some() => {
                let mut exports = ExportSection::new();
                for export in section.clone() {
                    let export = export.map_err(broken)?;
                    let (kind, index) = match export.kind {
                        // The function that `rewrite` adds behind all others.
                        ExternalKind::Func if export.name == "_start" => (ExportKind::Func, survey.functions),
                        ExternalKind::Func | ExternalKind::FuncExact => (ExportKind::Func, export.index),
                        ExternalKind::Table => (ExportKind::Table, export.index),
                        ExternalKind::Memory => (ExportKind::Memory, export.index),
                        ExternalKind::Global => (ExportKind::Global, export.index),
                        ExternalKind::Tag => (ExportKind::Tag, export.index),
                    };
                    exports.export(export.name, kind, index);
                }
                module.section(&exports);
            }
            Payload::StartSection { .. } => {}
            Payload::CodeSectionStart { range, .. } => match survey.start {
                None => {
                    module.section(&RawSection { id: 10, data: &program[range.clone()] });
                }
                Some(_) => code = Some(CodeSection::new()),
            },
            Payload::CodeSectionEntry(body) => {
                if let (Some(section), Some(start)) = (&mut code, survey.start) {
                    section.raw(&program[body.range()]);
                    if section.len() == survey.functions - survey.imports.len() as u32 {
                        section.function(&start_then_command(start, survey.command.function));
                        module.section(section);
                    }
                }
            }
            Payload::CustomSection(section) if section.name() != "name" => {}
            other => {
                if let Some((id, range)) = other.as_section() {
                    module.section(&RawSection { id, data: &program[range] });
                }
            }
        }
    }
    Ok(module.finish())
}

fn memory(survey: &Survey, pages: u64) -> MemorySection {
    let mut section = MemorySection::new();
    let maximum = survey.memory.maximum.map_or(pages, |own| own.min(pages));
    section.memory(MemoryType {
        minimum: survey.memory.initial,
        maximum: Some(maximum),
        memory64: false,
        shared: false,
        page_size_log2: None,
    });
    section
}

/// A table that can grow to its share of what all may have.
fn table(ty: &wasmparser::TableType, tables: u32) -> TableType {
    let share = (MAX_ELEMENTS / u64::from(tables.max(1))).max(ty.initial);
    let element_type =
        if ty.element_type == wasmparser::RefType::EXTERNREF { RefType::EXTERNREF } else { RefType::FUNCREF };
    TableType {
        element_type,
        minimum: ty.initial,
        maximum: Some(ty.maximum.map_or(share, |own| own.min(share))),
        table64: false,
        shared: false,
    }
}

fn start_then_command(start: u32, command: u32) -> Function {
    let mut function = Function::new([]);
    function.instruction(&Instruction::Call(start));
    function.instruction(&Instruction::Call(command));
    function.instruction(&Instruction::End);
    function
}
