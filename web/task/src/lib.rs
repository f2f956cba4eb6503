//! One slot of a browser node: a Worker that runs tasks with the browser's own WebAssembly.
//!
//! `www/task-worker.js` passes messages of the node's Worker in and answers out; everything
//! that has a meaning is in here, and what needs no browser is in `web-driver`. A slot is
//! synchronous and cannot be interrupted: the node terminates its Worker.
//!
//! - [`engine`]: the browser's `WebAssembly` behind the sandbox's `Engine`.
//! - [`bridge`]: how a task's call reaches the host without passing through JavaScript.
//! - [`memory`]: the task's memory as the host sees it.
//! - [`words`]: the browser's errors in the sandbox's words.

mod bridge;
mod engine;
mod memory;
mod report;
#[cfg(test)]
mod tests;
mod words;

use engine::BrowserEngine;
use js_sys::{Function, Object, Reflect, Uint8Array, WebAssembly};
use report::Reporter;
use sandbox::{Engine, Limits};
use std::collections::BTreeMap;
use wasm_bindgen::prelude::*;
use web_driver::slot::{self, Answer};

/// Runs when the module is loaded.
#[cfg_attr(not(test), wasm_bindgen(start))]
pub fn begin() {
    std::panic::set_hook(Box::new(|info| {
        engine::panicked(info.to_string());
        console_error_panic_hook::hook(info);
    }));
}

/// What this Worker knows and runs with.
#[wasm_bindgen]
pub struct Slot {
    engine: BrowserEngine,
    modules: BTreeMap<u32, WebAssembly::Module>,
    /// When answers were last reported, milliseconds.
    sent_ms: f64,
}

#[wasm_bindgen]
impl Slot {
    #[wasm_bindgen(constructor)]
    pub fn new() -> Result<Slot, JsValue> {
        Ok(Slot { engine: BrowserEngine::new()?, modules: BTreeMap::new(), sent_ms: 0.0 })
    }

    /// Checks and compiles a program. Answers `{ compiled }`, `{ refused: words }` if it cannot
    /// run anywhere, or `{ broken: words }` if this browser cannot run it.
    pub fn prepare(&mut self, module: u32, program: Vec<u8>, memory_bytes: f64) -> Result<Object, JsValue> {
        let limits = Limits { memory_bytes: memory_bytes as u64, ..Limits::default() };
        let (key, value) = match sandbox::module::prepare(&program, &limits) {
            Err(refusal) => ("refused", JsValue::from_str(&refusal.to_string())),
            Ok(prepared) => match self.engine.compile(&prepared) {
                Err(error) => ("broken", JsValue::from_str(&error)),
                Ok(compiled) => {
                    self.modules.insert(module, compiled.clone());
                    ("compiled", compiled.into())
                }
            },
        };
        let answer = Object::new();
        Reflect::set(&answer, &key.into(), &value)?;
        Ok(answer)
    }

    /// Takes a module that another slot prepared.
    pub fn learn(&mut self, module: u32, compiled: WebAssembly::Module) {
        self.modules.insert(module, compiled);
    }

    pub fn forget(&mut self, module: u32) {
        self.modules.remove(&module);
    }

    /// Runs tasks of one module in order and calls `report` with their answers, several at a
    /// time when they are short. Returns whether the slot is fit for more; if not, the rest of
    /// the tasks is not answered.
    pub fn run(&mut self, module: u32, tasks: &[u8], report: &Function) -> Result<bool, JsValue> {
        let tasks = slot::decode_tasks(tasks).map_err(|e| JsValue::from_str(&e))?;
        let mut reporter = Reporter::new(&mut self.sent_ms, |answers: &[Answer]| {
            let bytes = slot::encode_answers(answers).map_err(|e| JsValue::from_str(&e))?;
            report.call1(&JsValue::UNDEFINED, &Uint8Array::from(&bytes[..])).map(drop)
        });
        for task in &tasks {
            let answer = match self.modules.get(&module) {
                Some(compiled) => self.engine.answer(compiled, task),
                None => Answer::Broken(format!("the slot does not know module {module}")),
            };
            reporter.add(engine::now_ms(), answer)?;
            if self.engine.is_spent() {
                reporter.flush()?;
                return Ok(false);
            }
        }
        reporter.flush()?;
        Ok(true)
    }
}
