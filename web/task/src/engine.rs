//! The browser's `WebAssembly` behind the sandbox's `Engine`.

use crate::bridge::{self, RUNNING, Running};
use crate::memory::TaskMemory;
use crate::words;
use js_sys::{Function, Object, Reflect, Uint8Array, WebAssembly};
use sandbox::module::Prepared;
use sandbox::wasi::{Halt, Host};
use sandbox::{Engine, Run, Task, Trap, run_task};
use std::cell::RefCell;
use wasm_bindgen::prelude::*;
use web_driver::slot::Answer;

#[wasm_bindgen]
extern "C" {
    /// Milliseconds, rounded by browsers to a tenth or so.
    #[wasm_bindgen(js_namespace = performance, js_name = now)]
    pub(crate) fn now_ms() -> f64;
}

thread_local! {
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// For the panic hook: a host call that panics looks like a trap of the task otherwise.
pub(crate) fn panicked(message: String) {
    PANIC.set(Some(message));
}

pub(crate) struct BrowserEngine {
    /// The same for all instances.
    imports: Object,
    memory: JsValue,
    start: JsValue,
    /// Why the last run says nothing about its task.
    broken: Option<String>,
    /// A host call did not return: this Worker's memory may be in any state.
    spent: bool,
}

/// How an instance was left.
enum Left {
    Returned,
    Threw(JsValue),
    /// The browser made no instance of it.
    Never(JsValue),
}

impl BrowserEngine {
    pub(crate) fn new() -> Result<Self, JsValue> {
        Ok(BrowserEngine {
            imports: bridge::imports()?,
            memory: "memory".into(),
            start: "_start".into(),
            broken: None,
            spent: false,
        })
    }

    /// Runs a task to its answer.
    pub(crate) fn answer(&mut self, module: &WebAssembly::Module, task: &Task) -> Answer {
        let outcome = run_task(self, module, task);
        match self.broken.take() {
            Some(error) => Answer::Broken(error),
            None => Answer::Ended(outcome),
        }
    }

    pub(crate) fn is_spent(&self) -> bool {
        self.spent
    }

    fn instantiate(&self, module: &WebAssembly::Module) -> Result<Function, JsValue> {
        let exports = WebAssembly::Instance::new(module, &self.imports)?.exports();
        let memory: WebAssembly::Memory = Reflect::get(&exports, &self.memory)?.dyn_into()?;
        let memory = TaskMemory::new(memory);
        if let Some(mut running) = RUNNING.take() {
            running.memory = Some(memory);
            RUNNING.set(Some(running));
        }
        Reflect::get(&exports, &self.start)?.dyn_into()
    }

    fn execute(&self, module: &WebAssembly::Module) -> Left {
        match self.instantiate(module) {
            Err(error) => Left::Never(error),
            Ok(start) => match start.call0(&JsValue::UNDEFINED) {
                Ok(_) => Left::Returned,
                Err(thrown) => Left::Threw(thrown),
            },
        }
    }
}

impl Engine for BrowserEngine {
    type Module = WebAssembly::Module;

    fn compile(&mut self, prepared: &Prepared) -> Result<WebAssembly::Module, String> {
        WebAssembly::Module::new(&Uint8Array::from(&prepared.bytes[..]))
            .map_err(|e| format!("this browser does not compile the program: {}", words::text(&e)))
    }

    fn run(&mut self, module: &WebAssembly::Module, host: Host) -> Run {
        self.broken = None;
        RUNNING.set(Some(Box::new(Running { host, memory: None, halt: None })));
        let began = now_ms();
        let left = self.execute(module);
        let cpu_us = ((now_ms() - began) * 1000.0).max(0.0) as u64;

        let thrown_trap = match &left {
            Left::Returned => None,
            Left::Threw(error) | Left::Never(error) => words::trap(error),
        };
        let Some(Running { host, halt, .. }) = RUNNING.take().map(|running| *running) else {
            self.spent = true;
            let panic = PANIC.take();
            if panic.is_some() || thrown_trap != Some(Trap::StackOverflow) {
                let why = panic.unwrap_or_else(|| "it stopped inside a host call".into());
                self.broken = Some(format!("the browser's task host broke: {why}"));
            }
            return Run::trapped(empty_host(), Trap::StackOverflow, cpu_us);
        };
        match (left, halt, thrown_trap) {
            (Left::Returned, _, _) => Run::returned(host, cpu_us),
            (_, Some(halt), _) => Run { host, halt, cpu_us },
            (_, None, Some(trap)) => Run { host, halt: Halt::Trap(trap), cpu_us },
            (Left::Never(error) | Left::Threw(error), None, None) => {
                self.broken = Some(format!("this browser could not start the task: {}", words::text(&error)));
                Run::trapped(host, Trap::Other(words::text(&error)), cpu_us)
            }
        }
    }
}

/// In place of one that was lost.
fn empty_host() -> Host {
    match Host::new(&Task::default()) {
        Ok(host) => host,
        Err(bad) => unreachable!("a task without parts has no bad one: {bad}"),
    }
}
