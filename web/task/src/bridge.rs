//! How a task's call reaches the host: WebAssembly calls WebAssembly, nothing is converted.
//!
//! For each WASI function a small module, made here, exports one with the exact signature. It
//! stores its arguments into [`ARGUMENTS`] in this crate's own memory and calls [`host_call`]
//! with the function's number; when the host says that the task must not run on, it traps.
//! Nothing ever unwinds through Rust frames, no JavaScript value is made, and one set of
//! imports serves all instances.

use crate::memory::TaskMemory;
use js_sys::{Object, Reflect, Uint8Array, WebAssembly};
use sandbox::wasi::{Answer, FUNCTIONS, Function, Halt, Host, MODULE, Param};
use sandbox::{NO_OTHERS, Trap};
use std::cell::Cell;
use wasm_bindgen::{JsCast, JsValue};
use wasm_encoder as enc;

/// More than any function of preview 1 takes (`path_open`: nine).
const MAX_PARAMS: usize = 16;

/// Answer of a host call when the task must not run on; error numbers are positive.
const HALT: i32 = -1;

/// Host and memory that a task's calls reach. One task is called at a time, others may be
/// suspended.
pub(crate) struct Called {
    pub(crate) host: Host,
    pub(crate) memory: TaskMemory,
    /// Why the host ended it.
    pub(crate) halt: Option<Halt>,
}

thread_local! {
    static ARGUMENTS: [Cell<u64>; MAX_PARAMS] = const { [const { Cell::new(0) }; MAX_PARAMS] };
    /// Taken out while a host call is under way: if one never returns, because the stack or the
    /// host itself broke, it stays empty and the engine knows.
    pub(crate) static CALLED: Cell<Option<Box<Called>>> = const { Cell::new(None) };
}

/// Called by the bridge module.
extern "C" fn host_call(number: u32) -> i32 {
    // A start function calls before the task stands: it traps.
    let Some(mut called) = CALLED.take() else { return HALT };
    let answer = called.call(number);
    CALLED.set(Some(called));
    answer
}

impl Called {
    fn call(&mut self, number: u32) -> i32 {
        let Some(function) = FUNCTIONS.get(number as usize) else { return HALT };
        self.memory.refresh();
        let mut arguments = [0; MAX_PARAMS];
        let arguments = &mut arguments[..function.params.len().min(MAX_PARAMS)];
        ARGUMENTS.with(|passed| arguments.iter_mut().zip(passed).for_each(|(a, p)| *a = p.get()));
        match self.host.call(function, arguments, &mut self.memory) {
            Ok(Answer::Errno(errno)) => errno as i32,
            // Pages run no threads yet.
            Ok(Answer::Waits) => {
                self.halt = Some(Halt::Trap(Trap::Other(NO_OTHERS.into())));
                HALT
            }
            Err(halt) => {
                self.halt = Some(halt);
                HALT
            }
        }
    }
}

/// The object that tasks are instantiated with.
pub(crate) fn imports() -> Result<Object, JsValue> {
    let host = Object::new();
    Reflect::set(&host, &"memory".into(), &wasm_bindgen::memory())?;
    Reflect::set(&host, &"call".into(), &host_call_as_js()?)?;
    let needs = Object::new();
    Reflect::set(&needs, &"host".into(), &host)?;

    let arguments = ARGUMENTS.with(|a| a.as_ptr() as u32);
    let bytes = bridge(arguments, FUNCTIONS);
    let module = WebAssembly::Module::new(&Uint8Array::from(&bytes[..]))?;
    let instance = WebAssembly::Instance::new(&module, &needs)?;

    let imports = Object::new();
    Reflect::set(&imports, &MODULE.into(), &instance.exports())?;
    Ok(imports)
}

/// A function pointer is an index into the module's table.
fn host_call_as_js() -> Result<JsValue, JsValue> {
    let table: WebAssembly::Table = wasm_bindgen::function_table().unchecked_into();
    let pointer: extern "C" fn(u32) -> i32 = host_call;
    Ok(table.get(pointer as usize as u32)?.into())
}

/// The bridge module, with its arguments going to address `at`.
fn bridge(at: u32, functions: &[Function]) -> Vec<u8> {
    let mut types = enc::TypeSection::new();
    types.ty().function([enc::ValType::I32], [enc::ValType::I32]);
    let mut imports = enc::ImportSection::new();
    let memory =
        enc::MemoryType { minimum: 0, maximum: None, memory64: false, shared: false, page_size_log2: None };
    imports.import("host", "memory", memory);
    imports.import("host", "call", enc::EntityType::Function(0));
    let mut declared = enc::FunctionSection::new();
    let mut exports = enc::ExportSection::new();
    let mut code = enc::CodeSection::new();
    for (number, function) in (0_u32..).zip(functions) {
        let params = function.params.iter().map(|param| match param {
            Param::I32 => enc::ValType::I32,
            Param::I64 => enc::ValType::I64,
        });
        let results = function.returns.then_some(enc::ValType::I32);
        types.ty().function(params, results);
        declared.function(number + 1);
        exports.export(function.name, enc::ExportKind::Func, number + 1);
        code.function(&crossing(at, number, function));
    }
    let mut module = enc::Module::new();
    module.section(&types).section(&imports).section(&declared).section(&exports).section(&code);
    module.finish()
}

fn crossing(at: u32, number: u32, function: &Function) -> enc::Function {
    let result = function.params.len() as u32;
    let mut body = enc::Function::new([(1, enc::ValType::I32)]);
    let mut code = body.instructions();
    for (i, param) in (0_u32..).zip(function.params).take(MAX_PARAMS) {
        code.i32_const(at as i32).local_get(i);
        if *param == Param::I32 {
            code.i64_extend_i32_u();
        }
        code.i64_store(enc::MemArg { offset: u64::from(i) * 8, align: 3, memory_index: 0 });
    }
    code.i32_const(number as i32).call(0).local_tee(result);
    code.i32_const(HALT).i32_eq().if_(enc::BlockType::Empty).unreachable().end();
    if function.returns {
        code.local_get(result);
    }
    code.end();
    body
}
