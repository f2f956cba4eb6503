//! The way that is usual outside, beside ours: polls in the program, and Binaryen's Asyncify,
//! which makes a program return from wherever a poll asks for it.
//!
//! The polls count one for each turn of a loop and each call, which is less than ours charge, and
//! never ask for anything, so no time goes into suspending: what comes out favours Asyncify.

use crate::cli::failure::Failure;
use std::convert::Infallible;
use std::path::Path;
use std::process::Command;
use wasm_encoder::reencode::{self, Reencode};
use wasm_encoder::{
    BlockType, CodeSection, ConstExpr, EntityType, Function, GlobalSection, GlobalType, ImportSection,
    Instruction, Module, TypeSection, ValType,
};
use wasmparser::{FunctionBody, GlobalSectionReader, ImportSectionReader, TypeRef, TypeSectionReader};

/// The host function that a poll calls once its fuel is gone. Each engine here offers it.
const POLL: (&str, &str) = ("wasi_snapshot_preview1", "sched_yield");

/// More than any run here counts down.
const FUEL: i64 = i64::MAX;

/// The program with polls, as `wasm-opt` leaves it after Asyncify.
pub(super) fn asyncify(wasm_opt: &Path, name: &str, program: &[u8]) -> Result<Vec<u8>, Failure> {
    let failed = |why: String| Failure::failed(format!("Asyncify beside `{name}`: {why}"));
    let polled = with_polls(program).map_err(|why| failed(why.to_string()))?;
    let folder = super::home()?;
    let [before, after] = ["polled.wasm", "asyncified.wasm"].map(|file| folder.path().join(file));
    std::fs::write(&before, polled).map_err(|why| failed(why.to_string()))?;
    let ran = Command::new(wasm_opt)
        .args(["--asyncify", "-O2", "--all-features"])
        .arg(format!("--pass-arg=asyncify-imports@{}.{}", POLL.0, POLL.1))
        .arg(&before)
        .arg("-o")
        .arg(&after)
        .output();
    let ran = ran.map_err(|why| {
        failed(format!("{} does not start: {why}; name Binaryen's wasm-opt", wasm_opt.display()))
    })?;
    if !ran.status.success() {
        let words = String::from_utf8_lossy(&ran.stderr);
        let last = words.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
        return Err(failed(format!("{}, {}: {last}", wasm_opt.display(), ran.status)));
    }
    std::fs::read(&after).map_err(|why| failed(why.to_string()))
}

fn with_polls(program: &[u8]) -> Result<Vec<u8>, reencode::Error> {
    let mut polls = Polls::default();
    let mut module = Module::new();
    polls.parse_core_module(&mut module, wasmparser::Parser::new(0), program)?;
    Ok(module.finish())
}

/// Adds a type, an import, a global, and a poll to every function and loop. The sections come in
/// this order, and every program of the benchmark has each of them.
#[derive(Default)]
struct Polls {
    /// The type of the host function.
    poll_type: u32,
    /// The imported functions there were: the host function comes after them.
    imported: u32,
    /// The fuel, after the globals there were.
    fuel: u32,
}

impl Polls {
    fn poll(&self, function: &mut Function) {
        for instruction in [
            Instruction::GlobalGet(self.fuel),
            Instruction::I64Const(1),
            Instruction::I64Sub,
            Instruction::GlobalSet(self.fuel),
            Instruction::GlobalGet(self.fuel),
            Instruction::I64Const(0),
            Instruction::I64LtS,
            Instruction::If(BlockType::Empty),
            Instruction::Call(self.imported),
            Instruction::Drop,
            Instruction::End,
        ] {
            function.instruction(&instruction);
        }
    }
}

impl Reencode for Polls {
    type Error = Infallible;

    fn function_index(&mut self, function: u32) -> Result<u32, reencode::Error> {
        Ok(if function < self.imported { function } else { function + 1 })
    }

    fn parse_type_section(
        &mut self,
        types: &mut TypeSection,
        section: TypeSectionReader<'_>,
    ) -> Result<(), reencode::Error> {
        reencode::utils::parse_type_section(self, types, section)?;
        self.poll_type = types.len();
        types.ty().function([], [ValType::I32]);
        Ok(())
    }

    fn parse_import_section(
        &mut self,
        imports: &mut ImportSection,
        section: ImportSectionReader<'_>,
    ) -> Result<(), reencode::Error> {
        for import in section.clone().into_imports() {
            self.imported += u32::from(matches!(import?.ty, TypeRef::Func(_)));
        }
        reencode::utils::parse_import_section(self, imports, section)?;
        imports.import(POLL.0, POLL.1, EntityType::Function(self.poll_type));
        Ok(())
    }

    fn parse_global_section(
        &mut self,
        globals: &mut GlobalSection,
        section: GlobalSectionReader<'_>,
    ) -> Result<(), reencode::Error> {
        reencode::utils::parse_global_section(self, globals, section)?;
        self.fuel = globals.len();
        let kind = GlobalType { val_type: ValType::I64, mutable: true, shared: false };
        globals.global(kind, &ConstExpr::i64_const(FUEL));
        Ok(())
    }

    fn parse_function_body(
        &mut self,
        code: &mut CodeSection,
        body: FunctionBody<'_>,
    ) -> Result<(), reencode::Error> {
        let mut function = self.new_function_with_parsed_locals(&body)?;
        self.poll(&mut function);
        let mut reader = body.get_operators_reader()?;
        while !reader.eof() {
            let instruction = self.parse_instruction(&mut reader)?;
            function.instruction(&instruction);
            if matches!(instruction, Instruction::Loop(_)) {
                self.poll(&mut function);
            }
        }
        code.function(&function);
        Ok(())
    }
}
