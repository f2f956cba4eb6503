//! A task in both of wasmer's compilers.

use crate::wasm::{Compiled, Compiler, WasmerEngine, WasmerInstance};
use node_core::{BlobId, SealKey};
use sandbox::instrument::Tuning;
use sandbox::module::{self, prepare};
use sandbox::snapshot::{Encoded, Recorder, State};
use sandbox::wasi::Halt;
use sandbox::{Control, Engine, Instance, Limits, Outcome, Running, Slice, Task};
use serde::{Deserialize, Serialize};
use std::panic::catch_unwind;
use web_driver::slot::Form;

pub(crate) const KEY: SealKey = SealKey([7; 32]);

/// Most memory of the program, bytes.
const MEMORY: u64 = 8 << 16;

/// How a task ended, and all that it left behind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ended {
    pub(crate) outcome: Outcome,
    /// A hash of the program's memory and globals; none if another engine ended it.
    pub(crate) state: Option<[u8; 32]>,
}

/// A program, ready in each compiler that takes it.
pub(crate) struct Ready {
    pub(crate) form: Form,
    compilers: Vec<(WasmerEngine, Compiled)>,
}

impl Ready {
    /// `None` if the pass refuses it.
    pub(crate) fn of(program: &[u8], bit_exact: bool) -> Option<Ready> {
        let limits = Limits { memory_bytes: MEMORY, ..Limits::default() };
        let prepared =
            prepare(program, &limits, Tuning::Wasmer, module::Form { bit_exact, ..Default::default() })
                .ok()?;
        prepared.layout.as_ref().ok()?;
        let compiled = |compiler| {
            let mut engine = WasmerEngine::new(compiler);
            let compiled = engine.compile(&prepared);
            compiled.map(|compiled| (engine, compiled))
        };
        let mut compilers = vec![compiled(Compiler::Cranelift).expect("wasmer takes what the pass makes")];
        // It knows no vectors, and panics at some.
        compilers.extend(catch_unwind(|| compiled(Compiler::Singlepass)).into_iter().flatten());
        let form = Form { program: BlobId::of(program), memory_bytes: MEMORY, bit_exact };
        Some(Ready { form, compilers })
    }

    pub(crate) fn start(&mut self, task: &Task) -> Running<WasmerInstance> {
        let (engine, compiled) = &mut self.compilers[0];
        Running::start(engine, compiled, compiled.layout.clone().ok(), task).expect("it starts")
    }

    pub(crate) fn resume(&mut self, which: usize, state: &State, task: &Task) -> Running<WasmerInstance> {
        let which = which % self.compilers.len();
        let (engine, compiled) = &mut self.compilers[which];
        let layout = compiled.layout.clone().expect("it can be suspended");
        state.resume(engine, compiled, &layout, task).expect("it goes on")
    }

    pub(crate) fn compilers(&self) -> usize {
        self.compilers.len()
    }

    pub(crate) fn recorder(&self) -> Recorder {
        Recorder::new(self.form.origin())
    }

    pub(crate) fn ended(&self, mut running: Running<WasmerInstance>, halt: Halt) -> Ended {
        let layout = self.compilers[0].1.layout.clone().expect("it can be suspended");
        let instance = running.instance_mut();
        let mut hasher = blake3::Hasher::new();
        let bytes = instance.memory_bytes() - (u64::from(layout.frame_pages) << 16);
        instance.read_memory(bytes, &mut |_, part| {
            hasher.update(part);
        });
        for slot in &layout.globals {
            hasher.update(&instance.global(slot).to_le_bytes());
        }
        assert_eq!(instance.control(Control::Top) as u64, bytes, "frames are left over");
        Ended { outcome: running.finish(halt, 0), state: Some(hasher.finalize().into()) }
    }
}

/// Runs it to its end, or for so much fuel.
pub(crate) fn slice(running: &mut Running<WasmerInstance>, fuel: u64) -> Option<Halt> {
    match running.slice(fuel) {
        Slice::Yielded | Slice::Waits => None,
        Slice::Ended(halt) => Some(halt),
        Slice::Broken(why) => panic!("the engine failed: {why}"),
    }
}

pub(crate) fn taken(recorder: &mut Recorder, running: &mut Running<WasmerInstance>) -> Encoded {
    let captured = recorder.capture(running).expect("suspended");
    recorder.encode(captured)
}

pub(crate) fn task(rounds: u32, seed: u64) -> Task {
    let limits = Limits { memory_bytes: MEMORY, fuel: 1 << 40, ..Limits::default() };
    Task { stdin: rounds.to_le_bytes().to_vec().into(), limits, seed, ..Task::default() }
}
