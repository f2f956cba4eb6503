//! An interpreter behind the sandbox's `Engine`, for tests.

use sandbox::instrument::GlobalSlot;
use sandbox::module::Prepared;
use sandbox::wasi::{self, Controls, Halt, Host, Param, settle};
use sandbox::{Control, Engine, Instance, OutOfBounds, Stop, Task, Trap};
use wasmi::{Caller, Extern, Func, Linker, Memory, Module, Store, Val};

#[derive(Clone)]
pub(crate) struct Interpreter {
    engine: wasmi::Engine,
    /// Fuel that one call may use, in wasmi's own units. A task that needs more has found a way
    /// around its polls.
    fuel: u64,
}

/// Host of a task, and how the task ended if it ended in a call of the host.
struct World {
    host: Host,
    halt: Option<Halt>,
}

pub(crate) struct Interpreted {
    store: Store<World>,
    instance: wasmi::Instance,
    memory: Memory,
    fuel: u64,
}

impl Interpreter {
    pub(crate) fn with_fuel(fuel: u64) -> Self {
        let mut config = wasmi::Config::default();
        config.set_max_recursion_depth(20_000).set_max_stack_height(16 << 20).consume_fuel(true);
        Interpreter { engine: wasmi::Engine::new(&config), fuel }
    }
}

fn import(store: &mut Store<World>, function: &'static wasi::Function) -> Func {
    let params = function.params.iter().map(|param| match param {
        Param::I32 => wasmi::ValType::I32,
        Param::I64 => wasmi::ValType::I64,
    });
    let ty = wasmi::FuncType::new(params, function.returns.then_some(wasmi::ValType::I32));
    Func::new(store, ty, move |mut caller: Caller<'_, World>, args: &[Val], results: &mut [Val]| {
        let args = args.iter().map(|arg| match arg {
            Val::I32(value) => *value as u32 as u64,
            Val::I64(value) => *value as u64,
            _ => 0,
        });
        let args: Vec<u64> = args.collect();
        let memory = caller.get_export("memory").and_then(Extern::into_memory).expect("a memory");
        let (mut bytes, world) = memory.data_and_store_mut(&mut caller);
        match world.host.call(function, &args, &mut bytes) {
            Ok(answer) => {
                let value = if function.waits && world.host.swarm().is_some() {
                    let controls = Control::ALL.map(|control| {
                        caller.get_export(control.export()).and_then(Extern::into_global).expect("a control")
                    });
                    // The host is taken out: it and the globals are behind one borrow.
                    let nobody = Host::new(&Task::default()).expect("an empty task");
                    let mut host = std::mem::replace(&mut caller.data_mut().host, nobody);
                    let value = settle(&mut host, answer, &mut Globals { controls, caller: &mut caller });
                    caller.data_mut().host = host;
                    value
                } else {
                    answer.errno()
                };
                if let Some(result) = results.first_mut() {
                    *result = Val::I32(value as i32);
                }
                Ok(())
            }
            Err(halt) => {
                world.halt = Some(halt);
                Err(wasmi::Error::new("ended by its host"))
            }
        }
    })
}

struct Globals<'a, 'b> {
    controls: [wasmi::Global; 5],
    caller: &'a mut Caller<'b, World>,
}

impl Controls for Globals<'_, '_> {
    fn get(&mut self, control: Control) -> i64 {
        match self.controls[control as usize].get(&*self.caller) {
            Val::I32(value) => value.into(),
            Val::I64(value) => value,
            other => panic!("{control:?} is {other:?}"),
        }
    }

    fn set(&mut self, control: Control, value: i64) {
        let value = if control.is_wide() { Val::I64(value) } else { Val::I32(value as i32) };
        self.controls[control as usize].set(&mut *self.caller, value).expect("of this type");
    }
}

impl Engine for Interpreter {
    type Module = Module;
    type Instance = Interpreted;

    fn compile(&mut self, prepared: &Prepared) -> Result<Module, String> {
        Module::new(&self.engine, &prepared.bytes).map_err(|error| error.to_string())
    }

    fn instantiate(&mut self, module: &Module, host: Host) -> Result<Interpreted, Stop> {
        let mut store = Store::new(&self.engine, World { host, halt: None });
        let mut linker = Linker::new(&self.engine);
        for function in wasi::FUNCTIONS {
            let import = import(&mut store, function);
            linker.define(wasi::MODULE, function.name, import).expect("defined once");
        }
        store.set_fuel(self.fuel).expect("it counts fuel");
        let instance = linker.instantiate_and_start(&mut store, module);
        let instance = instance.map_err(|error| Stop::Broken(error.to_string()))?;
        let memory = instance.get_memory(&store, "memory").expect("a memory");
        Ok(Interpreted { store, instance, memory, fuel: self.fuel })
    }
}

impl Interpreted {
    fn named(&self, name: &str) -> wasmi::Global {
        self.instance.get_global(&self.store, name).unwrap_or_else(|| panic!("no global {name}"))
    }
}

impl Instance for Interpreted {
    fn host(&mut self) -> &mut Host {
        &mut self.store.data_mut().host
    }

    fn into_host(self) -> Host {
        self.store.into_data().host
    }

    fn call(&mut self, export: &str) -> Result<(), Stop> {
        let function = self.instance.get_typed_func::<(), ()>(&self.store, export).expect("a command");
        self.store.set_fuel(self.fuel).expect("it counts fuel");
        function.call(&mut self.store, ()).map_err(|error| {
            if error.as_trap_code() == Some(wasmi::TrapCode::OutOfFuel) {
                return Stop::Broken("it runs on without fuel".into());
            }
            let halt = self.store.data_mut().halt.take();
            Stop::Halt(halt.unwrap_or_else(|| Halt::Trap(Trap::Other(error.to_string()))))
        })
    }

    fn control(&mut self, control: Control) -> i64 {
        match self.named(control.export()).get(&self.store) {
            Val::I32(value) => value.into(),
            Val::I64(value) => value,
            other => panic!("{control:?} is {other:?}"),
        }
    }

    fn set_control(&mut self, control: Control, value: i64) {
        let value = if control.is_wide() { Val::I64(value) } else { Val::I32(value as i32) };
        self.named(control.export()).set(&mut self.store, value).expect("of this type");
    }

    fn global(&mut self, slot: &GlobalSlot) -> u128 {
        match self.named(&slot.export).get(&self.store) {
            Val::I32(value) => (value as u32).into(),
            Val::I64(value) => (value as u64).into(),
            Val::F32(value) => value.to_bits().into(),
            Val::F64(value) => value.to_bits().into(),
            Val::V128(value) => value.as_u128(),
            _ => 0,
        }
    }

    fn set_global(&mut self, slot: &GlobalSlot, bits: u128) {
        let value = match GlobalSlot::code(slot.ty) {
            Some(0x7f) => Val::I32(bits as i32),
            Some(0x7e) => Val::I64(bits as i64),
            Some(0x7d) => Val::F32(f32::from_bits(bits as u32).into()),
            Some(0x7c) => Val::F64(f64::from_bits(bits as u64).into()),
            _ => Val::V128(bits.into()),
        };
        self.named(&slot.export).set(&mut self.store, value).expect("of this type");
    }

    fn memory_bytes(&mut self) -> u64 {
        self.memory.data_size(&self.store) as u64
    }

    fn grow_memory(&mut self, pages: u32) -> Result<(), String> {
        self.memory.grow(&mut self.store, pages.into()).map(drop).map_err(|error| error.to_string())
    }

    fn read_memory(&mut self, bytes: u64, visit: &mut dyn FnMut(u64, &[u8])) {
        let memory = self.memory.data(&self.store);
        let len = (bytes.min(memory.len() as u64) as usize).next_multiple_of(4096);
        visit(0, &memory[..len.min(memory.len())]);
    }

    fn write_memory(&mut self, at: u64, bytes: &[u8]) -> Result<(), OutOfBounds> {
        self.memory.write(&mut self.store, at as usize, bytes).map_err(|_| OutOfBounds)
    }
}
