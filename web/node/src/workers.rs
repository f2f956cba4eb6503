//! The slots' Workers: words of the pool become messages and back.

use crate::browser::{object, on, text};
use bytes::Bytes;
use futures::channel::mpsc;
use js_sys::{Array, Reflect, Uint8Array, WebAssembly};
use node_core::RunId;
use std::collections::BTreeMap;
use wasm_bindgen::prelude::*;
use web_driver::pool::{ModuleId, Said, SlotId, Unfit};
use web_driver::slot::{self, Form, Job, Order, Shot};
use web_sys::{ErrorEvent, MessageEvent, WorkerOptions, WorkerType};

const SCRIPT: &str = "/task-worker.js";

/// Message of a Worker, and the module that came with it.
pub(crate) struct Heard {
    pub(crate) slot: SlotId,
    pub(crate) said: Said,
    compiled: Option<Compiled>,
}

/// A module that a slot prepared, and what the others have to know of it.
#[derive(Clone)]
pub(crate) struct Compiled {
    pub(crate) id: ModuleId,
    pub(crate) module: WebAssembly::Module,
    about: Uint8Array,
}

struct Worker {
    worker: web_sys::Worker,
    _on_message: Closure<dyn FnMut(MessageEvent)>,
    _on_error: Closure<dyn FnMut(ErrorEvent)>,
}

pub(crate) struct Workers {
    workers: BTreeMap<SlotId, Worker>,
    modules: BTreeMap<ModuleId, Compiled>,
    heard: mpsc::UnboundedSender<Heard>,
}

impl Workers {
    /// The receiver yields the messages of all Workers. It needs no bound: Workers only answer.
    pub(crate) fn new() -> (Workers, mpsc::UnboundedReceiver<Heard>) {
        let (heard, receiver) = mpsc::unbounded();
        (Workers { workers: BTreeMap::new(), modules: BTreeMap::new(), heard }, receiver)
    }

    /// Keeps the module that came along.
    pub(crate) fn take_in(&mut self, heard: Heard) -> (SlotId, Said) {
        if let Some(compiled) = heard.compiled {
            self.modules.insert(compiled.id, compiled);
        }
        (heard.slot, heard.said)
    }

    pub(crate) fn spawn(&mut self, slot: SlotId) {
        match Worker::start(slot, self.heard.clone()) {
            Ok(worker) => {
                self.workers.insert(slot, worker);
            }
            Err(e) => self.fail(slot, format!("the browser starts no Worker: {}", text(&e))),
        }
    }

    pub(crate) fn terminate(&mut self, slot: SlotId) {
        self.workers.remove(&slot);
    }

    pub(crate) fn terminate_all(&mut self) {
        self.workers.clear();
    }

    pub(crate) fn prepare(&mut self, slot: SlotId, module: ModuleId, program: &Bytes, form: &Form) {
        let form = match slot::encode("a form", form) {
            Ok(form) => Uint8Array::from(&form[..]),
            Err(e) => return self.fail(slot, e),
        };
        let bytes = Uint8Array::from(&program[..]);
        self.post(
            slot,
            &[
                ("type", &"prepare".into()),
                ("module", &module.0.into()),
                ("program", &bytes),
                ("form", &form),
            ],
            Some(&bytes),
        );
    }

    pub(crate) fn teach(&mut self, slot: SlotId, module: ModuleId) {
        match self.modules.get(&module).cloned() {
            Some(Compiled { module: compiled, about, .. }) => {
                let message: &[(&str, &JsValue)] = &[
                    ("type", &"learn".into()),
                    ("module", &module.0.into()),
                    ("compiled", &compiled),
                    ("about", &about),
                ];
                self.post(slot, message, None);
            }
            None => self.fail(slot, format!("module {} is gone", module.0)),
        }
    }

    pub(crate) fn forget(&mut self, module: ModuleId, slots: &[SlotId]) {
        self.modules.remove(&module);
        for slot in slots {
            self.post(*slot, &[("type", &"forget".into()), ("module", &module.0.into())], None);
        }
    }

    pub(crate) fn run(&mut self, slot: SlotId, module: ModuleId, tasks: &[Job]) {
        match slot::encode_tasks(tasks) {
            Ok(bytes) => {
                let tasks = Uint8Array::from(&bytes[..]);
                let message: &[(&str, &JsValue)] =
                    &[("type", &"run".into()), ("module", &module.0.into()), ("tasks", &tasks)];
                self.post(slot, message, Some(&tasks));
            }
            Err(e) => self.fail(slot, e),
        }
    }

    pub(crate) fn order(&mut self, slot: SlotId, run: RunId, order: Order) {
        let run = JsValue::from_f64(slot::number_of(run));
        let run: (&str, &JsValue) = ("run", &run);
        match order {
            Order::Snapshot { stop } => {
                self.post(slot, &[("type", &"snapshot".into()), run, ("stop", &stop.into())], None);
            }
            Order::Pause(true) => self.post(slot, &[("type", &"pause".into()), run], None),
            Order::Pause(false) => self.post(slot, &[("type", &"resume".into()), run], None),
            Order::Kill => self.post(slot, &[("type", &"kill".into()), run], None),
            Order::TimeUp => self.post(slot, &[("type", &"time_up".into()), run], None),
        }
    }

    pub(crate) fn share(&mut self, slot: SlotId, percent: u32) {
        self.post(slot, &[("type", &"share".into()), ("percent", &percent.into())], None);
    }

    /// `moved` is given away with the message instead of being copied.
    fn post(&self, slot: SlotId, message: &[(&str, &JsValue)], moved: Option<&Uint8Array>) {
        let Some(Worker { worker, .. }) = self.workers.get(&slot) else { return };
        let message = object(message);
        let posted = match moved {
            Some(bytes) => worker.post_message_with_transfer(&message, &Array::of1(&bytes.buffer())),
            None => worker.post_message(&message),
        };
        if let Err(e) = posted {
            self.fail(slot, format!("it cannot be sent a message: {}", text(&e)));
        }
    }

    fn fail(&self, slot: SlotId, error: String) {
        // Nobody listens while the node stops.
        drop(self.heard.unbounded_send(Heard { slot, said: Said::Failed(error), compiled: None }));
    }
}

impl Worker {
    fn start(slot: SlotId, heard: mpsc::UnboundedSender<Heard>) -> Result<Worker, JsValue> {
        let options = WorkerOptions::new();
        options.set_type(WorkerType::Module);
        options.set_name(&format!("manyhands-slot-{}", slot.0));
        let worker = web_sys::Worker::new_with_options(SCRIPT, &options)?;
        let errors = heard.clone();
        let (on_message, call) = on(move |event: MessageEvent| {
            let (said, compiled) = read(&event.data());
            drop(heard.unbounded_send(Heard { slot, said, compiled }));
        });
        worker.set_onmessage(Some(&call));
        let (on_error, call) = on(move |event: ErrorEvent| {
            event.prevent_default();
            // A script that does not load gives an event without words.
            let words = Reflect::get(&event, &"message".into()).ok().and_then(|m| m.as_string());
            let words = words.unwrap_or_else(|| format!("{SCRIPT} or what it needs could not be loaded"));
            drop(errors.unbounded_send(Heard { slot, said: Said::Failed(words), compiled: None }));
        });
        worker.set_onerror(Some(&call));
        Ok(Worker { worker, _on_message: on_message, _on_error: on_error })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.worker.set_onmessage(None);
        self.worker.set_onerror(None);
        self.worker.terminate();
    }
}

/// Whether the browser takes this for a program. Whether it can run, its runners find out.
///
/// # Errors
/// The fault, in words that follow "the program".
#[cfg(feature = "submits")]
pub(crate) fn check(program: &[u8]) -> Result<(), String> {
    let bytes = Uint8Array::from(program);
    match WebAssembly::validate(&bytes) {
        Ok(true) => Ok(()),
        Ok(false) => Err("is not WebAssembly, or uses what this browser does not know".into()),
        Err(e) => Err(format!("was not read by this browser: {}", text(&e))),
    }
}

/// A message of `www/task-worker.js`.
pub(crate) fn read(message: &JsValue) -> (Said, Option<Compiled>) {
    let get = |key: &str| Reflect::get(message, &key.into()).unwrap_or(JsValue::UNDEFINED);
    let words = |key: &str| get(key).as_string();
    let bytes = |key: &str| get(key).dyn_into::<Uint8Array>().map(|a| a.to_vec()).unwrap_or_default();
    let said = match words("type").as_deref() {
        Some("ready") => Said::Ready,
        Some("spent") => Said::Spent,
        Some("answers") => match slot::decode_answers(&bytes("answers")) {
            Ok(answers) => Said::Answers(answers),
            Err(e) => Said::Failed(e),
        },
        Some("prepared") => {
            let id = ModuleId(get("module").as_f64().unwrap_or(-1.0) as u32);
            let result = match (get("compiled").dyn_into::<WebAssembly::Module>(), words("refused")) {
                (Ok(module), _) => {
                    let about = get("about").dyn_into().unwrap_or_else(|_| Uint8Array::new_with_length(0));
                    let said = Said::Prepared { module: id, result: Ok(words("immobile")) };
                    return (said, Some(Compiled { id, module, about }));
                }
                (_, Some(reason)) => Unfit::Refused(reason),
                (_, None) => Unfit::Broken(words("broken").unwrap_or_else(|| "it gave no reason".into())),
            };
            Said::Prepared { module: id, result: Err(result) }
        }
        Some("snapshot") => match slot::decode::<Shot>("the slot sent a snapshot", &bytes("shot")) {
            Ok(shot) => {
                let run = RunId(get("run").as_f64().unwrap_or(-1.0) as u64);
                let stopped = get("stopped").is_truthy();
                Said::Snapshot { run, taken: shot.with(bytes("sealed").into()), stopped }
            }
            Err(e) => Said::Failed(e),
        },
        Some("resumed") => Said::Resumed(RunId(get("run").as_f64().unwrap_or(-1.0) as u64)),
        Some("gone") => match get("runs").dyn_into::<Array>() {
            Ok(runs) => {
                Said::Gone(runs.iter().filter_map(|run| run.as_f64()).map(|run| RunId(run as u64)).collect())
            }
            Err(_) => Said::Failed("it does not say which runs are gone".into()),
        },
        Some("failed") => Said::Failed(words("error").unwrap_or_else(|| "it gave no reason".into())),
        _ => Said::Failed(format!("it said something unknown: {message:?}")),
    };
    (said, None)
}
