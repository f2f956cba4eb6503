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
    /// The same for all instances.
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

impl Engine for BrowserEngine {
    type Module = WebAssembly::Module;
    type Instance = BrowserInstance;

    fn compile(&mut self, prepared: &Prepared) -> Result<WebAssembly::Module, String> {
        WebAssembly::Module::new(&Uint8Array::from(&prepared.bytes[..]))
            .map_err(|e| format!("this browser does not compile the program: {}", words::text(&e)))
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
