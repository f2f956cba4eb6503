//! The browser's `WebAssembly` behind the sandbox's `Engine`.

use crate::bridge;
use crate::instance::BrowserInstance;
use crate::words;
use js_sys::{Object, Uint8Array, WebAssembly};
use sandbox::module::Prepared;
use sandbox::wasi::{Halt, Host};
use sandbox::{Control, Engine, Stop};
use wasm_bindgen::prelude::*;

#[wasm_bindgen]
extern "C" {
    /// Milliseconds, rounded by browsers to a tenth or so.
    #[wasm_bindgen(js_namespace = performance, js_name = now)]
    pub(crate) fn now_ms() -> f64;
}

pub(crate) struct BrowserEngine {
    /// Imports that all instances share.
    imports: Object,
    names: Names,
}

/// Strings that JavaScript is given again and again, made once.
#[derive(Clone)]
pub(crate) struct Names {
    pub(crate) memory: JsValue,
    pub(crate) start: JsValue,
    pub(crate) controls: [JsValue; Control::ALL.len()],
}

impl BrowserEngine {
    pub(crate) fn new() -> Result<Self, JsValue> {
        let names = Names {
            memory: "memory".into(),
            start: "_start".into(),
            controls: Control::ALL.map(|control| control.export().into()),
        };
        Ok(BrowserEngine { imports: bridge::imports()?, names })
    }
}

/// Why a browser compiles no module, in words.
pub(crate) enum NoModule {
    /// No browser does.
    Refused(String),
    /// This one does not: it is old, or out of memory.
    Broken(String),
}

/// A module with a vector, a bulk operation, a sign extension and a function of two results: a browser
/// that takes it knows WebAssembly 2.0, all that programs may use.
#[rustfmt::skip]
const PROBE: &[u8] = &[
    0, 97, 115, 109, 1, 0, 0, 0, // a module
    1, 9, 2, 96, 0, 2, 127, 123, 96, 0, 0, // types: to (i32, v128), to nothing
    3, 3, 2, 0, 1, // functions of these
    5, 3, 1, 0, 1, // a memory
    10, 23, 2, // bodies:
    9, 0, 65, 0, 192, 65, 0, 253, 15, 11, // i32.extend8_s, i8x16.splat
    11, 0, 65, 0, 65, 0, 65, 0, 252, 11, 0, 11, // memory.fill
];

impl BrowserEngine {
    /// A program that passed our own checks and is no module for a browser of today is none for any.
    pub(crate) fn compile_or_refuse(&mut self, prepared: &Prepared) -> Result<WebAssembly::Module, NoModule> {
        WebAssembly::Module::new(&Uint8Array::from(&prepared.bytes[..])).map_err(|error| {
            let why = format!("this browser does not compile the program: {}", words::text(&error));
            let is_compile_error = error.is_instance_of::<WebAssembly::CompileError>();
            let is_current = || WebAssembly::validate(&Uint8Array::from(PROBE)).unwrap_or(false);
            if is_compile_error && is_current() { NoModule::Refused(why) } else { NoModule::Broken(why) }
        })
    }
}

impl Engine for BrowserEngine {
    type Module = WebAssembly::Module;
    type Instance = BrowserInstance;

    fn compile(&mut self, prepared: &Prepared) -> Result<WebAssembly::Module, String> {
        self.compile_or_refuse(prepared).map_err(|none| match none {
            NoModule::Refused(why) | NoModule::Broken(why) => why,
        })
    }

    fn instantiate(&mut self, module: &WebAssembly::Module, host: Host) -> Result<BrowserInstance, Stop> {
        let instance = WebAssembly::Instance::new(module, &self.imports);
        let made = instance.and_then(|made| BrowserInstance::new(made.exports(), &self.names, host));
        made.map_err(|error| match words::trap(&error) {
            Some(trap) => Stop::Halt(Halt::Trap(trap)),
            None => Stop::Broken(format!("this browser could not start the task: {}", words::text(&error))),
        })
    }
}
