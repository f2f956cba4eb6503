//! wasmer behind the sandbox's `Engine`.

use rustix::time::{ClockId, clock_gettime};
use sandbox::module::Prepared;
use sandbox::wasi::{self, Errno, Function, Halt, Host, Param};
use sandbox::{Engine, Run, Trap};
use wasmer::{
    Extern, Function as Import, FunctionEnv, FunctionEnvMut, Instance, InstantiationError, Memory, Module,
    RuntimeError, Store,
};
use wasmer_types::TrapCode;

pub(super) struct WasmerEngine {
    engine: wasmer::Engine,
    /// Why the last run says nothing about its task.
    broken: Option<String>,
    /// How many programs it compiled.
    #[cfg(test)]
    pub(super) compiled: u32,
}

/// A compiled program and what it is linked to, in its order.
pub(super) struct Compiled {
    pub(super) module: Module,
    imports: Vec<&'static Function>,
}

/// What the host functions of a running instance share.
struct World {
    host: Option<Host>,
    /// None until the instance stands.
    memory: Option<Memory>,
}

/// Carries a [`Halt`] out through the program's frames.
#[derive(Debug, thiserror::Error)]
#[error("the task was ended by its host")]
struct Halted(Halt);

impl WasmerEngine {
    pub(super) fn new() -> Self {
        let cranelift = wasmer::sys::Cranelift::default();
        WasmerEngine {
            engine: wasmer::sys::EngineBuilder::new(cranelift).into(),
            broken: None,
            #[cfg(test)]
            compiled: 0,
        }
    }

    /// The engine that modules are loaded into.
    pub(super) fn inner(&self) -> &wasmer::Engine {
        &self.engine
    }

    /// What the last run failed of, if not of its task.
    pub(super) fn take_broken(&mut self) -> Option<String> {
        self.broken.take()
    }

    fn instantiate(
        store: &mut Store,
        env: &FunctionEnv<World>,
        compiled: &Compiled,
    ) -> Result<wasmer::TypedFunction<(), ()>, Stopped> {
        let externs: Vec<Extern> = compiled
            .imports
            .iter()
            .map(|function| link(store, env, function).map(Extern::Function))
            .collect::<Result<_, _>>()?;
        let instance = Instance::new_by_index(store, &compiled.module, &externs)?;
        let memory = instance.exports.get_memory("memory").map_err(|e| Stopped::Broken(e.to_string()))?;
        env.as_mut(store).memory = Some(memory.clone());
        instance.exports.get_typed_function(store, "_start").map_err(|e| Stopped::Broken(e.to_string()))
    }
}

/// Why a run did not return from `_start`.
enum Stopped {
    Halt(Halt),
    /// Says nothing about the task.
    Broken(String),
}

impl From<RuntimeError> for Stopped {
    fn from(error: RuntimeError) -> Self {
        match error.downcast::<Halted>() {
            Ok(Halted(halt)) => Stopped::Halt(halt),
            Err(error) => {
                let message = error.message();
                Stopped::Halt(Halt::Trap(error.to_trap().map_or(Trap::Other(message), words)))
            }
        }
    }
}

impl From<InstantiationError> for Stopped {
    fn from(error: InstantiationError) -> Self {
        match error {
            // A data segment that lies outside of memory traps before the first instruction.
            InstantiationError::Start(error) => error.into(),
            InstantiationError::Link(wasmer::LinkError::Trap(error)) => error.into(),
            other => Stopped::Broken(format!("an instance could not be made: {other}")),
        }
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
    /// `module` must have been made from what `sandbox::module::prepare` returned.
    pub(super) fn new(module: Module) -> Result<Self, String> {
        let imports = module.imports().map(|import| {
            let function = wasi::function(import.name()).filter(|_| import.module() == wasi::MODULE);
            function.ok_or_else(|| format!("{}.{} is not offered", import.module(), import.name()))
        });
        let imports = imports.collect::<Result<_, _>>()?;
        Ok(Compiled { module, imports })
    }
}

impl Engine for WasmerEngine {
    type Module = Compiled;

    fn compile(&mut self, prepared: &Prepared) -> Result<Compiled, String> {
        #[cfg(test)]
        {
            self.compiled += 1;
        }
        let module = Module::new(&self.engine, &prepared.bytes);
        module.map_err(|e| format!("wasmer cannot compile the program: {e}")).and_then(Compiled::new)
    }

    fn run(&mut self, compiled: &Compiled, host: Host) -> Run {
        let began = cpu_us();
        let mut store = Store::new(self.engine.clone());
        let env = FunctionEnv::new(&mut store, World { host: Some(host), memory: None });
        let ended = Self::instantiate(&mut store, &env, compiled)
            .and_then(|start| start.call(&mut store).map_err(Stopped::from));
        let host = env.as_mut(&mut store).host.take();
        // Freeing the instance is part of what it cost.
        drop(store);
        let cpu_us = cpu_us().saturating_sub(began);
        let host = match host {
            Some(host) => host,
            None => Host::new(&Default::default()).unwrap_or_else(|e| unreachable!("an empty task: {e}")),
        };
        match ended {
            Ok(()) => Run::returned(host, cpu_us),
            Err(Stopped::Halt(halt)) => Run { host, halt, cpu_us },
            Err(Stopped::Broken(why)) => {
                self.broken = Some(why.clone());
                Run::trapped(host, Trap::Other(why), cpu_us)
            }
        }
    }
}

/// Processor time of this thread, microseconds.
fn cpu_us() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1000
}

/// One call by the program.
fn call(
    mut ctx: FunctionEnvMut<'_, World>,
    function: &'static Function,
    args: &[u64],
) -> Result<u32, Halted> {
    let (world, store) = ctx.data_and_store_mut();
    let (Some(host), Some(memory)) = (&mut world.host, &world.memory) else {
        return Ok(Errno::Fault as u32);
    };
    let view = memory.view(&store);
    // SAFETY: the memory is not shared (`prepare` refuses that), its program waits for this
    // call on this thread, and the slice ends with the call, before the memory can grow.
    let mut memory = unsafe { view.data_unchecked_mut() };
    host.call(function, args, &mut memory).map_err(Halted)
}

/// A function of the host as an import of the program, with its exact signature: calls then
/// pass their arguments in registers.
fn link(store: &mut Store, env: &FunctionEnv<World>, function: &'static Function) -> Result<Import, Stopped> {
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
        other => return Err(Stopped::Broken(format!("no bridge for {} with {other:?}", function.name))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_of_preview_1_can_be_linked() {
        let engine = WasmerEngine::new();
        let mut store = Store::new(engine.engine.clone());
        let env = FunctionEnv::new(&mut store, World { host: None, memory: None });
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
