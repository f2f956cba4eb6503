//! wasmer behind the sandbox's `Engine`.

use rustix::time::{ClockId, clock_gettime};
use sandbox::instrument::{GlobalSlot, Layout};
use sandbox::module::Prepared;
use sandbox::wasi::{self, Controls, Errno, Function, Halt, Host, Param, settle};
use sandbox::{Control, Engine, OutOfBounds, Stop, Trap};
use std::sync::Arc;
use wasmer::sys::{Cranelift, EngineBuilder, Singlepass};
use wasmer::{
    AsStoreMut, Extern, Function as Import, FunctionEnv, FunctionEnvMut, Global, Instance,
    InstantiationError, Memory, Module, RuntimeError, Store, Value,
};
use wasmer_types::TrapCode;

/// Clones share what they compiled.
#[derive(Clone)]
pub(crate) struct WasmerEngine {
    engine: wasmer::Engine,
    /// How many programs it and its clones compiled.
    #[cfg(test)]
    pub(super) compiled: Arc<std::sync::atomic::AtomicU32>,
}

/// Compiler of machine code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compiler {
    /// Fast code; what nodes run.
    Cranelift,
    /// Compiles at once and runs slower; here so that tasks hop between compilers in tests.
    Singlepass,
}

/// A compiled program and what it is linked to, in its order.
pub(crate) struct Compiled {
    pub(super) module: Module,
    imports: Vec<&'static Function>,
    pub(crate) layout: Result<Arc<Layout>, String>,
}

/// State that the host functions of a running instance share.
struct World {
    host: Host,
    /// None until the instance stands.
    memory: Option<Memory>,
    /// Globals of an instrumented module, by [`Control`].
    controls: Vec<Global>,
}

/// A task in wasmer.
pub(crate) struct WasmerInstance {
    store: Store,
    env: FunctionEnv<World>,
    instance: Instance,
    memory: Memory,
    /// In the order of [`Control::ALL`]; none if the program was not instrumented.
    controls: Vec<Global>,
}

/// Carries a [`Halt`] out through the program's frames.
#[derive(Debug, thiserror::Error)]
#[error("the task was ended by its host")]
struct Halted(Halt);

impl WasmerEngine {
    pub(crate) fn new(compiler: Compiler) -> Self {
        let engine = match compiler {
            Compiler::Cranelift => EngineBuilder::new(Cranelift::default()),
            Compiler::Singlepass => EngineBuilder::new(Singlepass::default()),
        };
        WasmerEngine {
            engine: engine.into(),
            #[cfg(test)]
            compiled: Arc::default(),
        }
    }

    /// The engine that modules are loaded into.
    pub(crate) fn inner(&self) -> &wasmer::Engine {
        &self.engine
    }
}

fn ended(error: RuntimeError) -> Stop {
    match error.downcast::<Halted>() {
        Ok(Halted(halt)) => Stop::Halt(halt),
        Err(error) => {
            let message = error.message();
            Stop::Halt(Halt::Trap(error.to_trap().map_or(Trap::Other(message), words)))
        }
    }
}

fn not_made(error: InstantiationError) -> Stop {
    match error {
        // A data segment that lies outside of memory traps before the first instruction.
        InstantiationError::Start(error) => ended(error),
        InstantiationError::Link(wasmer::LinkError::Trap(error)) => ended(error),
        other => Stop::Broken(format!("an instance could not be made: {other}")),
    }
}

fn words(code: TrapCode) -> Trap {
    match code {
        TrapCode::UnreachableCodeReached => Trap::Unreachable,
        TrapCode::HeapAccessOutOfBounds => Trap::MemoryOutOfBounds,
        TrapCode::TableAccessOutOfBounds => Trap::TableOutOfBounds,
        TrapCode::IndirectCallToNull => Trap::NullFunction,
        TrapCode::BadSignature => Trap::SignatureMismatch,
        TrapCode::IntegerDivisionByZero => Trap::DivideByZero,
        TrapCode::IntegerOverflow => Trap::IntegerOverflow,
        TrapCode::BadConversionToInteger => Trap::BadConversion,
        TrapCode::StackOverflow => Trap::StackOverflow,
        other => Trap::Other(other.message().into()),
    }
}

impl Compiled {
    /// `module` must have been made from what `sandbox::module::prepare` returned with `layout`.
    pub(super) fn new(module: Module, layout: Result<Arc<Layout>, String>) -> Result<Self, String> {
        let imports = module.imports().map(|import| {
            let function = wasi::function(import.name()).filter(|_| import.module() == wasi::MODULE);
            function.ok_or_else(|| format!("{}.{} is not offered", import.module(), import.name()))
        });
        let imports = imports.collect::<Result<_, _>>()?;
        Ok(Compiled { module, imports, layout })
    }
}

impl Engine for WasmerEngine {
    type Module = Compiled;
    type Instance = WasmerInstance;

    fn compile(&mut self, prepared: &Prepared) -> Result<Compiled, String> {
        #[cfg(test)]
        self.compiled.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let module = Module::new(&self.engine, &prepared.bytes);
        let module = module.map_err(|e| format!("wasmer cannot compile the program: {e}"))?;
        Compiled::new(module, prepared.layout.clone())
    }

    fn instantiate(&mut self, compiled: &Compiled, host: Host) -> Result<WasmerInstance, Stop> {
        let mut store = Store::new(self.engine.clone());
        let env = FunctionEnv::new(&mut store, World { host, memory: None, controls: Vec::new() });
        let imports = compiled.imports.iter();
        let externs = imports.map(|function| link(&mut store, &env, function).map(Extern::Function));
        let externs: Vec<Extern> = externs.collect::<Result<_, _>>()?;
        let instance = Instance::new_by_index(&mut store, &compiled.module, &externs).map_err(not_made)?;
        let broken = |error: wasmer::ExportError| Stop::Broken(error.to_string());
        let memory = instance.exports.get_memory("memory").map_err(broken)?.clone();
        in_large_pages(&memory, &store);
        env.as_mut(&mut store).memory = Some(memory.clone());
        let mut controls = Vec::new();
        if compiled.layout.is_ok() {
            for control in Control::ALL {
                controls.push(instance.exports.get_global(control.export()).map_err(broken)?.clone());
            }
        }
        env.as_mut(&mut store).controls = controls.clone();
        Ok(WasmerInstance { store, env, instance, memory, controls })
    }
}

impl sandbox::Instance for WasmerInstance {
    fn host(&mut self) -> &mut Host {
        &mut self.env.as_mut(&mut self.store).host
    }

    fn into_host(mut self) -> Host {
        let nobody = Host::new(&Default::default()).unwrap_or_else(|e| unreachable!("an empty task: {e}"));
        std::mem::replace(self.host(), nobody)
    }

    fn call(&mut self, export: &str) -> Result<(), Stop> {
        let function = self.instance.exports.get_typed_function::<(), ()>(&self.store, export);
        let function = function.map_err(|error| Stop::Broken(error.to_string()))?;
        function.call(&mut self.store).map_err(ended)
    }

    fn control(&mut self, control: Control) -> i64 {
        control_of(&self.controls, control, &mut self.store)
    }

    fn set_control(&mut self, control: Control, value: i64) {
        set_control_of(&self.controls, control, value, &mut self.store);
    }

    fn global(&mut self, slot: &GlobalSlot) -> u128 {
        let Ok(global) = self.instance.exports.get_global(&slot.export) else { return 0 };
        match global.get(&mut self.store) {
            Value::I32(value) => (value as u32).into(),
            Value::I64(value) => (value as u64).into(),
            Value::F32(value) => value.to_bits().into(),
            Value::F64(value) => value.to_bits().into(),
            Value::V128(value) => value,
            _ => 0,
        }
    }

    fn set_global(&mut self, slot: &GlobalSlot, bits: u128) {
        let Ok(global) = self.instance.exports.get_global(&slot.export) else { return };
        let value = match global.ty(&self.store).ty {
            wasmer::Type::I32 => Value::I32(bits as i32),
            wasmer::Type::I64 => Value::I64(bits as i64),
            wasmer::Type::F32 => Value::F32(f32::from_bits(bits as u32)),
            wasmer::Type::F64 => Value::F64(f64::from_bits(bits as u64)),
            _ => Value::V128(bits),
        };
        let _ = global.set(&mut self.store, value);
    }

    fn memory_bytes(&mut self) -> u64 {
        self.memory.view(&self.store).data_size()
    }

    fn grow_memory(&mut self, pages: u32) -> Result<(), String> {
        self.memory.grow(&mut self.store, pages).map(drop).map_err(|error| error.to_string())
    }

    fn read_memory(&mut self, bytes: u64, visit: &mut dyn FnMut(u64, &[u8])) {
        let view = self.memory.view(&self.store);
        // SAFETY: the memory is not shared, its program does not run now, and the slice ends with
        // the call.
        let memory = unsafe { view.data_unchecked() };
        let len = (bytes.min(memory.len() as u64) as usize).next_multiple_of(4096);
        visit(0, &memory[..len.min(memory.len())]);
    }

    fn write_memory(&mut self, at: u64, bytes: &[u8]) -> Result<(), OutOfBounds> {
        self.memory.view(&self.store).write(at, bytes).map_err(|_| OutOfBounds)
    }
}

/// Asks the kernel for pages of 2 MiB: the memory of a task that goes on is written at once, and
/// 64 MiB of it are 32 faults instead of 16,384.
#[cfg(target_os = "linux")]
fn in_large_pages(memory: &Memory, store: &Store) {
    let maximum = memory.ty(store).maximum.map_or(0, |pages| pages.bytes().0);
    let base = memory.view(store).data_ptr();
    // SAFETY: it changes how this range, which the engine has reserved up to the memory's maximum,
    // is mapped, and not what it holds. If the kernel refuses, nothing is lost but time.
    let _ = unsafe { rustix::mm::madvise(base.cast(), maximum, rustix::mm::Advice::LinuxHugepage) };
}

#[cfg(not(target_os = "linux"))]
fn in_large_pages(_: &Memory, _: &Store) {}

/// Processor time of this thread, microseconds.
pub(crate) fn cpu_us() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1000
}

/// One call by the program.
fn call(
    mut ctx: FunctionEnvMut<'_, World>,
    function: &'static Function,
    args: &[u64],
) -> Result<u32, Halted> {
    let (world, mut store) = ctx.data_and_store_mut();
    let Some(memory) = &world.memory else { return Ok(Errno::Fault as u32) };
    let view = memory.view(&store);
    // SAFETY: the memory is not shared (`prepare` refuses that), its program waits for this
    // call on this thread, and the slice ends with the call, before the memory can grow.
    let mut memory = unsafe { view.data_unchecked_mut() };
    let answer = world.host.call(function, args, &mut memory).map_err(Halted)?;
    if !function.waits || world.host.swarm().is_none() {
        return Ok(answer.errno());
    }
    let World { host, controls, .. } = world;
    Ok(settle(host, answer, &mut Globals { controls, store: &mut store }))
}

/// Globals by which the pass has the instance driven, within a call that it makes.
struct Globals<'a, S> {
    controls: &'a [Global],
    store: &'a mut S,
}

impl<S: AsStoreMut> Controls for Globals<'_, S> {
    fn get(&mut self, control: Control) -> i64 {
        control_of(self.controls, control, self.store)
    }

    fn set(&mut self, control: Control, value: i64) {
        set_control_of(self.controls, control, value, self.store);
    }
}

fn control_of(controls: &[Global], control: Control, store: &mut impl AsStoreMut) -> i64 {
    match controls.get(control as usize).map(|global| global.get(store)) {
        Some(Value::I32(value)) => value.into(),
        Some(Value::I64(value)) => value,
        _ => 0,
    }
}

fn set_control_of(controls: &[Global], control: Control, value: i64, store: &mut impl AsStoreMut) {
    let value = if control.is_wide() { Value::I64(value) } else { Value::I32(value as i32) };
    // It is there, mutable, and of this type: the pass made it.
    if let Some(global) = controls.get(control as usize) {
        let _ = global.set(store, value);
    }
}

/// A function of the host as an import of the program, with its exact signature: calls then
/// pass their arguments in registers.
fn link(store: &mut Store, env: &FunctionEnv<World>, function: &'static Function) -> Result<Import, Stop> {
    macro_rules! import {
        ($($arg:ident : $ty:ident),*) => {
            Import::new_typed_with_env(
                store,
                env,
                move |ctx: FunctionEnvMut<'_, World>, $($arg: $ty),*| {
                    call(ctx, function, &[$($arg as u64),*])
                },
            )
        };
    }
    use Param::{I32, I64};
    if !function.returns {
        let exit =
            move |ctx: FunctionEnvMut<'_, World>, code: u32| call(ctx, function, &[code.into()]).map(drop);
        return Ok(Import::new_typed_with_env(store, env, exit));
    }
    Ok(match function.params {
        [] => import!(),
        [I32] => import!(a: u32),
        [I32, I32] => import!(a: u32, b: u32),
        [I32, I64] => import!(a: u32, b: u64),
        [I32, I32, I32] => import!(a: u32, b: u32, c: u32),
        [I32, I64, I32] => import!(a: u32, b: u64, c: u32),
        [I32, I64, I64] => import!(a: u32, b: u64, c: u64),
        [I32, I32, I32, I32] => import!(a: u32, b: u32, c: u32, d: u32),
        [I32, I64, I32, I32] => import!(a: u32, b: u64, c: u32, d: u32),
        [I32, I64, I64, I32] => import!(a: u32, b: u64, c: u64, d: u32),
        [I32, I32, I32, I32, I32] => import!(a: u32, b: u32, c: u32, d: u32, e: u32),
        [I32, I32, I32, I64, I32] => import!(a: u32, b: u32, c: u32, d: u64, e: u32),
        [I32, I32, I32, I32, I32, I32] => import!(a: u32, b: u32, c: u32, d: u32, e: u32, f: u32),
        [I32, I32, I32, I32, I64, I64, I32] => {
            import!(a: u32, b: u32, c: u32, d: u32, e: u64, f: u64, g: u32)
        }
        [I32, I32, I32, I32, I32, I32, I32] => {
            import!(a: u32, b: u32, c: u32, d: u32, e: u32, f: u32, g: u32)
        }
        [I32, I32, I32, I32, I32, I64, I64, I32, I32] => {
            import!(a: u32, b: u32, c: u32, d: u32, e: u32, f: u64, g: u64, h: u32, i: u32)
        }
        // The test below fails before anybody meets this.
        other => return Err(Stop::Broken(format!("no bridge for {} with {other:?}", function.name))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_of_preview_1_can_be_linked() {
        let engine = WasmerEngine::new(Compiler::Cranelift);
        let mut store = Store::new(engine.engine.clone());
        let host = Host::new(&Default::default()).unwrap();
        let env = FunctionEnv::new(&mut store, World { host, memory: None, controls: Vec::new() });
        for function in wasi::FUNCTIONS {
            let Ok(import) = link(&mut store, &env, function) else { panic!("{} is missing", function.name) };
            let ty = import.ty(&store);
            let params: Vec<_> = ty.params().iter().map(|t| *t == wasmer::Type::I64).collect();
            let wanted: Vec<_> = function.params.iter().map(|p| *p == Param::I64).collect();
            assert_eq!(params, wanted, "{}", function.name);
            assert_eq!(ty.results().len(), usize::from(function.returns), "{}", function.name);
        }
    }
}
