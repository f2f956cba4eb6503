//! One slot of a browser node: a Worker that runs tasks with the browser's own WebAssembly.
//!
//! `www/task-worker.js` passes messages of the node's Worker in and what the slot says out;
//! everything that has a meaning is in here, and what needs no browser is in `web-driver`.
//!
//! A slot computes in *turns*. A turn runs short tasks one after the other, and a long one for
//! a slice or two; then the Worker goes back to its event loop, where orders wait. A program
//! that cannot be suspended is run in one turn: the node terminates its Worker.
//!
//! - [`engine`], [`instance`]: the browser's `WebAssembly` behind the sandbox's traits.
//! - [`bridge`]: how a task's call reaches the host without passing through JavaScript.
//! - [`memory`]: the task's memory as the host sees it.
//! - [`current`]: the run that it is at: slices, snapshots.
//! - [`turns`]: the queue, orders, and when to compute.
//! - [`say`], [`report`]: what the node is told.
//! - [`words`]: the browser's errors in the sandbox's words.

mod bridge;
mod current;
mod engine;
mod instance;
mod memory;
mod report;
mod say;
#[cfg(test)]
mod tests;
mod turns;
mod words;

use current::Module;
use engine::{BrowserEngine, NoModule};
use js_sys::{Function, Object, Reflect, Uint8Array, WebAssembly};
use sandbox::Limits;
use sandbox::instrument::{Layout, Tuning};
use say::Voice;
use std::collections::BTreeMap;
use std::sync::Arc;
use turns::Turns;
use wasm_bindgen::prelude::*;
use web_driver::slot::{self, About, Form, Order};

/// Runs when the module is loaded.
#[cfg_attr(not(test), wasm_bindgen(start))]
pub fn begin() {
    std::panic::set_hook(Box::new(|info| {
        instance::panicked(info.to_string());
        console_error_panic_hook::hook(info);
    }));
}

/// State of a slot's Worker: its engine, modules and runs.
#[wasm_bindgen]
pub struct Slot {
    engine: BrowserEngine,
    modules: BTreeMap<u32, Module>,
    turns: Turns,
}

fn error(words: String) -> JsValue {
    JsValue::from_str(&words)
}

#[wasm_bindgen]
impl Slot {
    /// `post(message, transfer)` tells the node something.
    #[wasm_bindgen(constructor)]
    pub fn new(post: Function) -> Result<Slot, JsValue> {
        let turns = Turns::new(Voice::new(post));
        Ok(Slot { engine: BrowserEngine::new()?, modules: BTreeMap::new(), turns })
    }

    /// Checks and compiles a program. Answers `{ compiled, about, immobile? }`,
    /// `{ refused: words }` if it cannot run anywhere, or `{ broken: words }` if this browser
    /// cannot run it.
    pub fn prepare(&mut self, module: u32, program: Vec<u8>, form: &[u8]) -> Result<Object, JsValue> {
        let form: Form = slot::decode("the slot was sent a form", form).map_err(error)?;
        let answer = Object::new();
        let set = |key: &str, value: &JsValue| Reflect::set(&answer, &key.into(), value).map(drop);
        let limits = Limits { memory_bytes: form.memory_bytes, ..Limits::default() };
        let prepared = match sandbox::module::prepare(
            &program,
            &limits,
            Tuning::V8,
            sandbox::module::Form { bit_exact: form.bit_exact, ..Default::default() },
        ) {
            Ok(prepared) => prepared,
            Err(refusal) => {
                set("refused", &refusal.to_string().into())?;
                return Ok(answer);
            }
        };
        match self.engine.compile_or_refuse(&prepared) {
            Err(NoModule::Refused(why)) => set("refused", &why.into())?,
            Err(NoModule::Broken(why)) => set("broken", &why.into())?,
            Ok(compiled) => {
                if let Err(why) = &prepared.layout {
                    set("immobile", &why.into())?;
                }
                let layout =
                    prepared.layout.as_ref().map(|layout| Layout::clone(layout)).map_err(String::clone);
                let about = slot::encode("the layout", &About { form, layout }).map_err(error)?;
                set("about", &Uint8Array::from(&about[..]))?;
                set("compiled", &compiled)?;
                self.modules.insert(module, Module { compiled, form, layout: prepared.layout });
            }
        }
        Ok(answer)
    }

    /// Takes a module that another slot prepared.
    pub fn learn(&mut self, module: u32, compiled: WebAssembly::Module, about: &[u8]) -> Result<(), JsValue> {
        let About { form, layout } = slot::decode("the slot was sent a layout", about).map_err(error)?;
        self.modules.insert(module, Module { compiled, form, layout: layout.map(Arc::new) });
        Ok(())
    }

    pub fn forget(&mut self, module: u32) {
        self.modules.remove(&module);
    }

    /// Queues tasks of one module; [`Slot::turn`] runs them.
    pub fn run(&mut self, module: u32, tasks: &[u8]) -> Result<(), JsValue> {
        self.turns.queue(module, slot::decode_tasks(tasks).map_err(error)?);
        Ok(())
    }

    /// Computes for a while. To be called again after so many milliseconds, 0 being as soon as
    /// messages that wait have been heard; never, if negative, before something is asked.
    pub fn turn(&mut self) -> Result<f64, JsValue> {
        self.turns.turn(&mut self.engine, &self.modules)
    }

    /// Writes down what this run is, and drops it if it is to `stop`.
    pub fn snapshot(&mut self, run: f64, stop: bool) -> Result<(), JsValue> {
        self.turns.order(run as u64, Order::Snapshot { stop })
    }

    pub fn pause(&mut self, run: f64, paused: bool) -> Result<(), JsValue> {
        self.turns.order(run as u64, Order::Pause(paused))
    }

    pub fn kill(&mut self, run: f64) -> Result<(), JsValue> {
        self.turns.order(run as u64, Order::Kill)
    }

    pub fn time_up(&mut self, run: f64) -> Result<(), JsValue> {
        self.turns.order(run as u64, Order::TimeUp)
    }

    /// Computes so many percent of the time from now on.
    pub fn share(&mut self, percent: f64) {
        self.turns.share(percent);
    }
}
