//! A task in the browser's engine.

use crate::bridge::{CALLED, Called};
use crate::engine::Names;
use crate::memory::TaskMemory;
use crate::words;
use js_sys::{Array, Function, Object, Reflect, WebAssembly};
use sandbox::instrument::GlobalSlot;
use sandbox::wasi::{Halt, Host};
use sandbox::{Control, GuestMemory, Instance, OutOfBounds, Stop, Task, Trap};
use std::cell::RefCell;
use wasm_bindgen::{JsCast, JsValue};

/// Bytes that are copied out of a task's memory at a time: they stay in the processor's cache.
const PART: usize = 256 << 10;

thread_local! {
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// For the panic hook: a host call that panics looks like a trap of the task otherwise.
pub(crate) fn panicked(message: String) {
    PANIC.set(Some(message));
}

pub(crate) struct BrowserInstance {
    exports: Object,
    names: Names,
    start: Function,
    /// The exported globals; none of a program that is not instrumented.
    controls: Option<[WebAssembly::Global; Control::ALL.len()]>,
    memory: WebAssembly::Memory,
    /// None after a host call that did not return: this Worker's memory may be in any state.
    called: Option<Box<Called>>,
    /// In place of the host that is lost then.
    empty: Option<Host>,
}

impl BrowserInstance {
    pub(crate) fn new(exports: Object, names: &Names, host: Host) -> Result<Self, JsValue> {
        let memory: WebAssembly::Memory = Reflect::get(&exports, &names.memory)?.dyn_into()?;
        let start = Reflect::get(&exports, &names.start)?.dyn_into()?;
        let called = Box::new(Called { host, memory: TaskMemory::new(memory.clone()), halt: None });
        let names = names.clone();
        Ok(BrowserInstance {
            exports,
            names,
            start,
            controls: None,
            memory,
            called: Some(called),
            empty: None,
        })
    }

    /// Whether no task should run after this one.
    pub(crate) fn is_spent(&self) -> bool {
        self.called.is_none()
    }

    fn memory_now(&mut self) -> Option<&mut TaskMemory> {
        let memory = &mut self.called.as_mut()?.memory;
        memory.refresh();
        Some(memory)
    }

    fn function(&self, export: &str) -> Option<Function> {
        Reflect::get(&self.exports, &export.into()).ok()?.dyn_into().ok()
    }

    fn controls(&mut self) -> Option<&[WebAssembly::Global; Control::ALL.len()]> {
        if self.controls.is_none() {
            let get = |name| Reflect::get(&self.exports, name).ok()?.dyn_into().ok();
            let found: Option<Vec<WebAssembly::Global>> = self.names.controls.iter().map(get).collect();
            self.controls = found.and_then(|found| found.try_into().ok());
        }
        self.controls.as_ref()
    }

    fn exported_global(&self, slot: &GlobalSlot) -> Option<WebAssembly::Global> {
        Reflect::get(&self.exports, &slot.export.as_str().into()).ok()?.dyn_into().ok()
    }
}

/// A host in place of one that was lost.
fn empty_host() -> Host {
    match Host::new(&Task::default()) {
        Ok(host) => host,
        Err(bad) => unreachable!("a task without parts has no bad one: {bad}"),
    }
}

fn i64_of(value: &JsValue) -> i64 {
    i64::try_from(value.clone()).unwrap_or_default()
}

/// Value that an accessor gave: one i64, or two in an array.
fn words_of(value: &JsValue) -> u128 {
    match value.dyn_ref::<Array>() {
        Some(words) => {
            let word = |at| u128::from(i64_of(&words.get(at)) as u64);
            word(0) | word(1) << 64
        }
        None => u128::from(i64_of(value) as u64),
    }
}

impl Instance for BrowserInstance {
    fn host(&mut self) -> &mut Host {
        match &mut self.called {
            Some(called) => &mut called.host,
            None => self.empty.get_or_insert_with(empty_host),
        }
    }

    fn into_host(self) -> Host {
        self.called.map_or_else(empty_host, |called| called.host)
    }

    fn call(&mut self, export: &str) -> Result<(), Stop> {
        let function = if export == "_start" { Some(self.start.clone()) } else { self.function(export) };
        let Some(function) = function else {
            return Err(Stop::Broken(format!("the program exports no function {export}")));
        };
        CALLED.set(self.called.take());
        let result = function.call0(&JsValue::UNDEFINED);
        let trap = result.as_ref().err().map(words::trap);
        let Some(mut called) = CALLED.take() else {
            let panic = PANIC.take();
            if panic.is_none() && trap == Some(Some(Trap::StackOverflow)) {
                return Err(Stop::Halt(Halt::Trap(Trap::StackOverflow)));
            }
            let why = panic.unwrap_or_else(|| "it stopped inside a host call".into());
            return Err(Stop::Broken(format!("the browser's task host broke: {why}")));
        };
        let halt = called.halt.take();
        self.called = Some(called);
        match (result, halt, trap.flatten()) {
            (Ok(_), _, _) => Ok(()),
            (_, Some(halt), _) => Err(Stop::Halt(halt)),
            (_, None, Some(trap)) => Err(Stop::Halt(Halt::Trap(trap))),
            (Err(thrown), None, None) => {
                Err(Stop::Broken(format!("this browser stopped the task: {}", words::text(&thrown))))
            }
        }
    }

    fn control(&mut self, control: Control) -> i64 {
        let Some(controls) = self.controls() else { return 0 };
        let value = controls[control as usize].value();
        if control.is_wide() { i64_of(&value) } else { value.as_f64().unwrap_or_default() as i64 }
    }

    fn set_control(&mut self, control: Control, value: i64) {
        let Some(controls) = self.controls() else { return };
        let value = if control.is_wide() { JsValue::from(value) } else { JsValue::from(value as i32) };
        controls[control as usize].set_value(&value);
    }

    fn global(&mut self, slot: &GlobalSlot) -> u128 {
        if let Some(bits) = &slot.bits {
            let get = self.function(&bits.get);
            let value = get.and_then(|get| get.call0(&JsValue::UNDEFINED).ok());
            return value.map_or(0, |value| words_of(&value));
        }
        let Some(global) = self.exported_global(slot) else { return 0 };
        let value = global.value();
        match value.as_f64() {
            Some(number) => u128::from(number as i32 as u32),
            None => u128::from(i64_of(&value) as u64),
        }
    }

    fn set_global(&mut self, slot: &GlobalSlot, bits: u128) {
        let (low, high) = (bits as u64 as i64, (bits >> 64) as u64 as i64);
        if let Some(accessors) = &slot.bits {
            // A function of one parameter ignores the second.
            if let Some(set) = self.function(&accessors.set) {
                drop(set.call2(&JsValue::UNDEFINED, &low.into(), &high.into()));
            }
            return;
        }
        let Some(global) = self.exported_global(slot) else { return };
        if global.value().as_f64().is_some() {
            global.set_value(&JsValue::from(low as i32));
        } else {
            global.set_value(&JsValue::from(low));
        }
    }

    fn memory_bytes(&mut self) -> u64 {
        self.memory_now().map_or(0, |memory| memory.size())
    }

    fn grow_memory(&mut self, pages: u32) -> Result<(), String> {
        // js-sys has it without `catch`: what it throws would end this Worker.
        let grow = Reflect::get(&self.memory, &"grow".into()).and_then(JsCast::dyn_into::<Function>);
        grow.and_then(|grow| grow.call1(&self.memory, &pages.into()))
            .map(drop)
            .map_err(|error| words::text(&error))
    }

    fn read_memory(&mut self, bytes: u64, visit: &mut dyn FnMut(u64, &[u8])) {
        let Some(memory) = self.memory_now() else { return };
        let end = bytes.min(memory.size()).next_multiple_of(4096).min(memory.size());
        let mut part = vec![0; PART.min(end as usize)];
        let mut at = 0;
        while at < end {
            let len = PART.min((end - at) as usize);
            // Within memory, as computed above.
            if memory.read(at as u32, &mut part[..len]).is_err() {
                return;
            }
            visit(at, &part[..len]);
            at += len as u64;
        }
    }

    fn write_memory(&mut self, at: u64, bytes: &[u8]) -> Result<(), OutOfBounds> {
        let memory = self.memory_now().ok_or(OutOfBounds)?;
        memory.write(u32::try_from(at).map_err(|_| OutOfBounds)?, bytes)
    }
}
