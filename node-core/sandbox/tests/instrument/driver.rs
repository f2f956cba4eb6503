//! A host for instrumented modules, and one for what they were made of, on an interpreter.

use sandbox::instrument::layout::{DEPTH, FUEL, REFUEL, STATE, TOP, state};
use sandbox::instrument::{Instrumented, Options, Refusal, Tuning, instrument};
use std::ops::Deref;
use wasmi::{Caller, Config, Engine, Extern, Global, Instance, Linker, Memory, Module, Store, Val};

/// Outcome of a run of one exported function.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Done {
    /// The results, as bits; or why it trapped.
    pub(crate) end: Result<Vec<String>, String>,
    /// Values that it gave to the host's `log`, as text.
    pub(crate) log: Vec<String>,
    /// The program's memory.
    pub(crate) memory: Vec<u8>,
    /// The program's mutable globals.
    pub(crate) globals: Vec<String>,
}

/// How an instrumented run went.
#[derive(Clone, Debug)]
pub(crate) struct Ran {
    pub(crate) done: Done,
    pub(crate) fuel: i64,
    pub(crate) suspended: usize,
    /// The largest snapshot's frames, bytes.
    pub(crate) frames: i32,
    /// Nothing lay behind any snapshot's frames.
    pub(crate) clean: bool,
    /// The state that a trap left behind.
    pub(crate) state: i32,
}

#[derive(Default)]
struct Host {
    log: Vec<String>,
    /// Calls of `wait` that still have to wait.
    waits: u32,
    left: i64,
}

/// More than any test needs: slices of one unit in a program that does too much.
const MOST_SLICES: usize = 200_000;

pub(crate) fn wasm(text: &str) -> Vec<u8> {
    wat::parse_str(text).expect("the test's own module")
}

pub(crate) fn options() -> Options {
    let name = |name: &str| ("env".to_string(), name.to_string());
    Options { frame_pages: 4, memory_max_pages: 64, blocking: vec![name("wait")], ..Options::default() }
}

/// A program made suspendable for each engine. It hops between these forms.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Made {
    wasmer: Instrumented,
    v8: Instrumented,
}

impl Made {
    pub(crate) fn of(program: &[u8], options: &Options) -> Result<Made, Refusal> {
        let form = |tuning| {
            let made = instrument(program, &Options { tuning, ..options.clone() })?;
            validate(&made.wasm);
            Ok(made)
        };
        let made = Made { wasmer: form(Tuning::Wasmer)?, v8: form(Tuning::V8)? };
        assert_eq!(made.wasmer.layout, made.v8.layout);
        Ok(made)
    }
}

impl Deref for Made {
    type Target = Instrumented;

    fn deref(&self) -> &Instrumented {
        &self.wasmer
    }
}

pub(crate) fn made(program: &[u8]) -> Made {
    Made::of(program, &options()).unwrap_or_else(|refusal| panic!("refused: {refusal}"))
}

#[track_caller]
pub(crate) fn validate(wasm: &[u8]) {
    let mut validator = wasmparser::Validator::new_with_features(wasmparser::WasmFeatures::WASM2);
    if let Err(error) = validator.validate_all(wasm) {
        std::fs::write(std::env::temp_dir().join("invalid.wasm"), wasm).ok();
        panic!("the instrumented module is invalid: {error}");
    }
}

fn engine(fuel: bool) -> Engine {
    let mut config = Config::default();
    config.consume_fuel(fuel);
    config.set_max_recursion_depth(20_000).set_max_stack_height(16 << 20);
    Engine::new(&config)
}

fn linker(engine: &Engine) -> Linker<Host> {
    let mut linker = Linker::new(engine);
    linker
        .func_wrap("env", "log", |mut caller: Caller<'_, Host>, value: i32| {
            caller.data_mut().log.push(value.to_string());
        })
        .unwrap();
    linker
        .func_wrap("env", "fuel", |caller: Caller<'_, Host>| -> i64 {
            let fuel = caller.get_export(FUEL).and_then(Extern::into_global);
            fuel.and_then(|fuel| fuel.get(&caller).i64()).unwrap_or(-1)
        })
        .unwrap();
    // Waits as often as the host has been told to, then doubles its argument.
    linker
        .func_wrap("env", "wait", |mut caller: Caller<'_, Host>, value: i32| -> i32 {
            let export = |name| caller.get_export(name).and_then(Extern::into_global);
            let (Some(state), Some(fuel), Some(refuel)) = (export(STATE), export(FUEL), export(REFUEL))
            else {
                return value * 2;
            };
            if caller.data().waits > 0 {
                caller.data_mut().waits -= 1;
                // Asked again while it still waits, nothing was used in between.
                if state.get(&caller).i32() == Some(state::RUN) {
                    caller.data_mut().left = fuel.get(&caller).i64().unwrap_or_default();
                } else {
                    caller.data_mut().left = refuel.get(&caller).i64().unwrap_or_default();
                }
                state.set(&mut caller, Val::I32(state::UNWIND)).unwrap();
                fuel.set(&mut caller, Val::I64(-1)).unwrap();
                return -1;
            }
            if state.get(&caller).i32() == Some(state::REWIND) {
                state.set(&mut caller, Val::I32(state::RUN)).unwrap();
                let slice = refuel.get(&caller);
                fuel.set(&mut caller, slice).unwrap();
            }
            value * 2
        })
        .unwrap();
    linker
}

fn bits(value: &Val) -> String {
    match value {
        Val::I32(v) => format!("i32 {v}"),
        Val::I64(v) => format!("i64 {v}"),
        Val::F32(v) => format!("f32 {:08x}", v.to_bits()),
        Val::F64(v) => format!("f64 {:016x}", v.to_bits()),
        Val::V128(v) => format!("v128 {:032x}", v.as_u128()),
        Val::FuncRef(v) => format!("funcref {}", v.is_null()),
        Val::ExternRef(v) => format!("externref {}", v.is_null()),
    }
}

fn trap(error: &wasmi::Error) -> String {
    match error.as_trap_code() {
        Some(code) => format!("{code:?}"),
        // The words have numbers that differ from run to run.
        None => "other".into(),
    }
}

fn results(store: &Store<Host>, instance: &Instance, name: &str) -> Vec<Val> {
    let ty = instance.get_func(store, name).expect("an exported function").ty(store);
    ty.results().iter().map(|ty| Val::default(*ty)).collect()
}

/// Zeros, or rather small numbers, for every parameter.
pub(crate) fn arguments(program: &[u8], name: &str, seed: u64) -> Vec<Val> {
    let engine = engine(false);
    let module = Module::new(&engine, program).unwrap();
    let Some(wasmi::ExternType::Func(ty)) = module.get_export(name) else { return Vec::new() };
    let value = |(i, ty): (usize, &wasmi::ValType)| match ty {
        wasmi::ValType::I32 => Val::I32((seed as i32).wrapping_mul(i as i32 + 1)),
        wasmi::ValType::I64 => Val::I64((seed as i64).wrapping_mul(i as i64 + 3)),
        wasmi::ValType::F32 => Val::F32((seed as f32 / 3.0).into()),
        wasmi::ValType::F64 => Val::F64((seed as f64 / 7.0).into()),
        other => Val::default(*other),
    };
    ty.params().iter().enumerate().map(value).collect()
}

/// The program as it is.
pub(crate) fn raw(program: &[u8], name: &str, args: &[Val]) -> Done {
    let engine = engine(true);
    let module = Module::new(&engine, program).unwrap();
    let mut store = Store::new(&engine, Host::default());
    store.set_fuel(50_000_000).unwrap();
    let instance = match linker(&engine).instantiate_and_start(&mut store, &module) {
        Ok(instance) => instance,
        Err(error) => {
            let end = Err(trap(&error));
            return Done { end, log: store.into_data().log, memory: vec![], globals: vec![] };
        }
    };
    let mut values = results(&store, &instance, name);
    let function = instance.get_func(&store, name).unwrap();
    let end = function.call(&mut store, args, &mut values).map_err(|error| trap(&error));
    let end = end.map(|()| values.iter().map(bits).collect());
    let memory = instance.exports(&store).find_map(|export| export.into_extern().into_memory());
    let memory = memory.map_or(vec![], |memory| memory.data(&store).to_vec());
    Done { end, log: store.data().log.clone(), memory, globals: vec![] }
}

/// State of a suspended task.
struct Snapshot {
    memory: Vec<u8>,
    /// Behind the frames is nothing.
    clean: bool,
    frames: Vec<u8>,
    depth: i32,
    globals: Vec<Val>,
}

struct Machine<'m> {
    made: &'m Instrumented,
    store: Store<Host>,
    instance: Instance,
}

impl<'m> Machine<'m> {
    fn new(engine: &Engine, module: &Module, made: &'m Instrumented, host: Host) -> Result<Self, String> {
        let mut store = Store::new(engine, host);
        let instance = linker(engine).instantiate_and_start(&mut store, module).map_err(|e| trap(&e))?;
        Ok(Machine { made, store, instance })
    }

    fn global(&self, name: &str) -> Global {
        self.instance.get_global(&self.store, name).expect("a global of the layout")
    }

    fn get(&self, name: &str) -> Val {
        self.global(name).get(&self.store)
    }

    fn set(&mut self, name: &str, value: Val) {
        self.global(name).set(&mut self.store, value).unwrap();
    }

    fn memory(&self) -> Memory {
        self.instance.get_memory(&self.store, &self.made.layout.memory).expect("the memory of the layout")
    }

    fn program_memory(&self) -> Vec<u8> {
        let data = self.memory().data(&self.store);
        data[..data.len() - (self.made.layout.frame_pages as usize) * 65_536].to_vec()
    }

    fn globals(&self) -> Vec<Val> {
        self.made.layout.globals.iter().map(|slot| self.get(&slot.export)).collect()
    }

    fn snapshot(&self) -> Snapshot {
        let memory = self.program_memory();
        let top = self.get(TOP).i32().unwrap() as u32 as usize;
        let data = self.memory().data(&self.store);
        let clean = data[top..].iter().take(2000).all(|byte| *byte == 0);
        let frames = data[memory.len()..top].to_vec();
        Snapshot { memory, clean, frames, depth: self.get(DEPTH).i32().unwrap(), globals: self.globals() }
    }

    fn put_in(&mut self, snapshot: &Snapshot) {
        let memory = self.memory();
        let pages = snapshot.memory.len() / 65_536 + self.made.layout.frame_pages as usize;
        let more = pages as u64 - memory.size(&self.store);
        memory.grow(&mut self.store, more).unwrap();
        let data = memory.data_mut(&mut self.store);
        data.fill(0);
        data[..snapshot.memory.len()].copy_from_slice(&snapshot.memory);
        data[snapshot.memory.len()..][..snapshot.frames.len()].copy_from_slice(&snapshot.frames);
        let top = snapshot.memory.len() + snapshot.frames.len();
        self.set(TOP, Val::I32(top as u32 as i32));
        self.set(DEPTH, Val::I32(snapshot.depth));
        for (slot, value) in self.made.layout.globals.iter().zip(&snapshot.globals) {
            self.set(&slot.export, value.clone());
        }
    }
}

/// The instrumented program, suspended after every `slice` units and moved to a fresh instance
/// of its other form each time. The start function, if it has one, runs first.
pub(crate) fn sliced(made: &Made, name: &str, args: &[Val], slice: i64, waits: u32) -> Ran {
    let engine = engine(false);
    let module = |wasm: &[u8]| Module::new(&engine, wasm).expect("an engine takes the instrumented module");
    let mut forms = [module(&made.wasmer.wasm), module(&made.v8.wasm)].into_iter().cycle();
    let mut next = || forms.next().expect("there are two");
    let host = Host { waits, ..Host::default() };
    let mut ran = Ran {
        done: Done { end: Ok(vec![]), log: vec![], memory: vec![], globals: vec![] },
        fuel: 0,
        suspended: 0,
        frames: 0,
        clean: true,
        state: 0,
    };
    let mut machine = match Machine::new(&engine, &next(), made, host) {
        Ok(machine) => machine,
        Err(trap) => {
            ran.done.end = Err(trap);
            return ran;
        }
    };
    let start = made.layout.start.as_deref().map(|start| (start, &[][..]));
    for (name, args) in start.into_iter().chain([(name, args)]) {
        let mut values = results(&machine.store, &machine.instance, name);
        machine.set(FUEL, Val::I64(slice));
        machine.set(DEPTH, Val::I32(0));
        machine.set(REFUEL, Val::I64(slice));
        let mut args = args.to_vec();
        loop {
            let function = machine.instance.get_func(&machine.store, name).unwrap();
            let called = function.call(&mut machine.store, &args, &mut values);
            ran.state = machine.get(STATE).i32().unwrap();
            ran.fuel += slice - machine.get(FUEL).i64().unwrap();
            if let Err(error) = called {
                ran.done.end = Err(trap(&error));
                break;
            }
            if ran.state == state::RUN {
                ran.done.end = Ok(values.iter().map(bits).collect());
                let top = machine.get(TOP).i32().unwrap() as u32 as usize;
                assert_eq!(top, machine.program_memory().len(), "frames are left over");
                break;
            }
            assert_eq!(ran.state, state::UNWIND);
            let host = machine.store.data_mut();
            // A host call that waits takes what was left out of the global.
            ran.fuel -= std::mem::take(&mut host.left) + i64::from(host.left != 0);
            ran.suspended += 1;
            assert!(ran.suspended < MOST_SLICES, "it does not come to an end");
            let snapshot = machine.snapshot();
            ran.clean &= snapshot.clean;
            ran.frames = ran.frames.max(snapshot.frames.len() as i32);
            let host = std::mem::take(machine.store.data_mut());
            machine = Machine::new(&engine, &next(), made, host).unwrap();
            machine.put_in(&snapshot);
            machine.set(STATE, Val::I32(state::REWIND));
            machine.set(FUEL, Val::I64(-1));
            machine.set(REFUEL, Val::I64(slice));
            // Whatever it is called with: it remembers what it was called with first.
            args = args.iter().map(|arg| Val::default(arg.ty())).collect();
        }
        if ran.done.end.is_err() {
            break;
        }
    }
    ran.done.log = machine.store.data().log.clone();
    ran.done.memory = machine.program_memory();
    ran.done.globals = machine.globals().iter().map(bits).collect();
    ran
}

pub(crate) const FOREVER: i64 = i64::MAX / 4;

/// The whole claim for one program: it does what it did, and wherever it is suspended and moved,
/// it does the same for the same fuel. Returns the uninterrupted run.
#[track_caller]
pub(crate) fn check(text: &str, args: &[Val]) -> Ran {
    check_all(text, args, false)
}

/// [`check`] for a program that has too little to do to be suspended.
#[track_caller]
pub(crate) fn check_short(text: &str, args: &[Val]) -> Ran {
    check_all(text, args, true)
}

#[track_caller]
fn check_all(text: &str, args: &[Val], is_short: bool) -> Ran {
    let program = wasm(text);
    let made = made(&program);
    let raw = raw(&program, "run", args);
    let whole = sliced(&made, "run", args, FOREVER, 0);
    assert_eq!(whole.suspended, 0);
    assert_eq!(whole.done.end, raw.end, "it does not do what it did");
    assert_eq!(whole.done.log, raw.log, "it tells something else");
    if !raw.memory.is_empty() {
        assert!(whole.done.memory == raw.memory, "it leaves another memory");
    }
    for slice in [0, 1, 2, 3, 5, 7, 11, 50, 333, 1009, 20_011] {
        if whole.fuel / (slice + 1) > 20_000 {
            continue;
        }
        let ran = sliced(&made, "run", args, slice, 0);
        assert_eq!(ran.done, whole.done, "slices of {slice}: another result");
        assert_eq!(ran.fuel, whole.fuel, "slices of {slice}: other fuel");
        assert!(ran.clean, "slices of {slice}: snapshots would differ");
        // The poll of its entry, at least, if it has one.
        assert!(ran.suspended > 0 || slice > 3 || is_short, "slices of {slice}: never suspended");
    }
    whole
}
