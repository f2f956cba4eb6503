//! A slot, and everything that it said.

use crate::Slot;
use js_sys::{Array, Function, Reflect, Uint8Array, WebAssembly};
use node_core::{BlobId, NoSnapshot, SealKey, Taken};
use sandbox::Task;
use std::cell::RefCell;
use std::rc::Rc;
use wasm_bindgen::prelude::*;
use web_driver::slot::{self, Answer, Form, From, Job, Shot};

pub(super) const KEY: SealKey = SealKey([5; 32]);

/// Form of all programs in these tests.
pub(super) const FORM: Form = Form { program: BlobId([7; 32]), memory_bytes: 20 << 16, bit_exact: false };

pub(super) fn form() -> Vec<u8> {
    form_with(FORM.memory_bytes)
}

fn form_with(memory_bytes: u64) -> Vec<u8> {
    slot::encode("a form", &Form { memory_bytes, ..FORM }).expect("a form")
}

pub(super) fn job(run: u64, task: Task) -> Job {
    Job { run, task, key: KEY, from: None, ahead: false }
}

#[derive(Debug, PartialEq)]
pub(super) enum Said {
    Answers(Vec<Answer>),
    Gone(Vec<u64>),
    Snapshot {
        run: u64,
        taken: Result<Taken, NoSnapshot>,
        stopped: bool,
    },
    /// It is not fit for more.
    Spent,
    Other(String),
}

pub(super) struct World {
    pub(super) slot: Slot,
    said: Rc<RefCell<Vec<Said>>>,
    /// The compiled program, for other Workers.
    pub(super) compiled: Option<(WebAssembly::Module, Vec<u8>)>,
    _post: Closure<dyn FnMut(JsValue, Array)>,
}

fn read(message: &JsValue) -> Said {
    let get = |key: &str| Reflect::get(message, &key.into()).expect("an object");
    let bytes = |key: &str| get(key).unchecked_into::<Uint8Array>().to_vec();
    let number = |value: JsValue| value.as_f64().expect("a number") as u64;
    match get("type").as_string().as_deref() {
        Some("answers") => Said::Answers(slot::decode_answers(&bytes("answers")).expect("readable answers")),
        Some("gone") => Said::Gone(get("runs").unchecked_into::<Array>().iter().map(number).collect()),
        Some("snapshot") => {
            let shot: Shot = slot::decode("a snapshot", &bytes("shot")).expect("a readable snapshot");
            let taken = shot.with(bytes("sealed").into());
            Said::Snapshot { run: number(get("run")), taken, stopped: get("stopped").is_truthy() }
        }
        Some("spent") => Said::Spent,
        other => Said::Other(format!("{other:?}")),
    }
}

impl World {
    pub(super) fn new() -> World {
        let said = Rc::new(RefCell::new(Vec::new()));
        let sink = said.clone();
        let post = Closure::<dyn FnMut(JsValue, Array)>::new(move |message: JsValue, _: Array| {
            let resumed = Reflect::get(&message, &"type".into()).is_ok_and(|kind| kind == "resumed");
            if !resumed {
                sink.borrow_mut().push(read(&message));
            }
        });
        let slot = Slot::new(post.as_ref().unchecked_ref::<Function>().clone()).expect("a slot");
        World { slot, said, compiled: None, _post: post }
    }

    /// With this program as module 1.
    pub(super) fn with(program: &[u8]) -> World {
        World::with_memory(program, FORM.memory_bytes)
    }

    pub(super) fn with_memory(program: &[u8], bytes: u64) -> World {
        let mut world = World::new();
        let prepared = world.slot.prepare(1, program.to_vec(), &form_with(bytes)).expect("an answer");
        let get = |key: &str| Reflect::get(&prepared, &key.into()).expect("an object");
        let compiled = get("compiled").dyn_into().unwrap_or_else(|_| panic!("{prepared:?}"));
        world.compiled = Some((compiled, get("about").unchecked_into::<Uint8Array>().to_vec()));
        world
    }

    /// Another Worker, which is told what this one compiled.
    pub(super) fn sibling(&self) -> World {
        let mut world = World::new();
        let (compiled, about) = self.compiled.clone().expect("a program");
        world.slot.learn(1, compiled, &about).expect("a layout");
        world
    }

    pub(super) fn queue(&mut self, jobs: &[Job]) {
        self.slot.run(1, &slot::encode_tasks(jobs).expect("writable tasks")).expect("a queue");
    }

    /// Takes turns until nothing is left to do.
    pub(super) fn go_on(&mut self) {
        while self.slot.turn().expect("a turn") >= 0.0 {}
    }

    pub(super) fn take(&mut self) -> Vec<Said> {
        self.said.take()
    }

    pub(super) fn answer(&mut self) -> Answer {
        match &mut self.take()[..] {
            [Said::Answers(answers)] if answers.len() == 1 => answers.remove(0),
            other => panic!("{other:?}"),
        }
    }

    /// Snapshot of a run that is under way; the run stops then if `stop`.
    pub(super) fn snapshot(&mut self, run: u64, stop: bool) -> Taken {
        self.slot.snapshot(run as f64, stop).expect("obeyed");
        self.slot.turn().expect("a turn");
        match self.take().pop() {
            Some(Said::Snapshot { run: of, taken: Ok(taken), stopped }) if of == run => {
                assert_eq!(stopped, stop);
                taken
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Where a run goes on that gave this, and before it `base`.
pub(super) fn from(taken: &Taken, base: Option<&Taken>) -> From {
    let base = base.filter(|_| taken.base.is_some());
    let whole = BlobId::of(&base.unwrap_or(taken).bytes);
    assert_eq!(taken.base, base.map(|_| whole), "it names the base that it was given");
    let base = base.map(|base| base.bytes.clone());
    From { bytes: taken.bytes.clone(), base, is_held: false, whole, root: taken.root }
}
