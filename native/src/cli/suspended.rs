//! `manyhands run --suspend-every`: a task that is moved all the time, within this process.
//!
//! It uses nothing that a node does not: the same pass, the same engine, the same snapshots, here sealed and
//! opened each time. The result must be that of an undisturbed run.

use super::failure::Failure;
use super::in_process::{self, not_started};
use super::plan::JobPlan;
use super::progress::say;
use crate::engine::slot::wasm::{Compiled, Compiler, WasmerEngine, WasmerInstance};
use sandbox::instrument::Tuning;
use sandbox::module::{Form, prepare};
use sandbox::snapshot::{self, Origin, Recorder, State};
use sandbox::{Engine, NO_OTHERS, Outcome, Running, Slice, Task};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Seals nothing that leaves this process.
const KEY: [u8; 32] = [0; 32];

/// The program in the compilers that it hops between, and the task.
struct Stage {
    compilers: Vec<(WasmerEngine, Compiled)>,
    task: Task,
    origin: Origin,
}

/// Number and sizes of the snapshots by which the task was moved.
#[derive(Default)]
struct Tally {
    moves: u64,
    bytes: u64,
    largest: usize,
}

/// The program's exit code; files go to `out_dir`.
pub(crate) fn run(plan: &JobPlan, fuel: u64, hop: bool, out_dir: Option<&Path>) -> Result<u32, Failure> {
    let mut stage = Stage::new(plan, hop)?;
    let (outcome, tally) = stage.run(fuel)?;
    in_process::hand_out(&outcome, out_dir)?;
    say(&format!(
        "suspended and resumed {} times; {} units of fuel; {} bytes a snapshot, the largest {}",
        tally.moves,
        outcome.fuel,
        tally.bytes / tally.moves.max(1),
        tally.largest
    ));
    Ok(in_process::exit_code(&outcome.end))
}

impl Stage {
    fn new(plan: &JobPlan, hop: bool) -> Result<Stage, Failure> {
        let (program, task) = in_process::task(plan)?;
        let limits = task.limits;
        let prepared = prepare(
            &program,
            &limits,
            Tuning::Wasmer,
            Form { bit_exact: plan.settings.bit_exact, ..Form::default() },
        )
        .map_err(|refusal| Failure::usage(refusal.to_string()))?;
        if let Err(why) = &prepared.layout {
            return Err(Failure::usage(format!("this program cannot be suspended: {why}")));
        }
        let names: &[Compiler] =
            if hop { &[Compiler::Cranelift, Compiler::Singlepass] } else { &[Compiler::Cranelift] };
        let mut compilers = Vec::new();
        for name in names {
            let mut engine = WasmerEngine::new(*name);
            // Singlepass knows no vectors: it says so, or panics, depending on where it meets one.
            let compiled = catch_unwind(AssertUnwindSafe(|| engine.compile(&prepared)));
            let compiled =
                compiled.unwrap_or_else(|_| Err("wasmer's compiler broke over the program".into()));
            let module = compiled.map_err(|why| match name {
                Compiler::Cranelift => Failure::failed(why),
                Compiler::Singlepass => Failure::failed(format!("{why}; without --hop it is not needed")),
            })?;
            compilers.push((engine, module));
        }
        let origin = Origin {
            program: blake3::hash(&program).into(),
            memory_limit: limits.memory_bytes,
            bit_exact: plan.settings.bit_exact,
        };
        Ok(Stage { compilers, task, origin })
    }

    fn run(&mut self, fuel: u64) -> Result<(Outcome, Tally), Failure> {
        let (engine, module) = &mut self.compilers[0];
        let layout = module.layout.clone().ok();
        let mut running = Running::start(engine, module, layout, &self.task).map_err(not_started)?;
        let mut recorder = Recorder::new(self.origin.clone());
        let mut base = Vec::new();
        let mut tally = Tally::default();
        loop {
            match running.slice(fuel) {
                Slice::Ended(halt) => return Ok((running.finish(halt, 0), tally)),
                Slice::Broken(why) => return Err(Failure::failed(why)),
                Slice::Yielded => {}
                Slice::Waits => return Err(Failure::failed(NO_OTHERS)),
            }
            let captured = recorder.capture(&mut running).map_err(Failure::failed)?;
            let encoded = recorder.encode(captured);
            let sealed = snapshot::seal(&KEY, encoded.bytes);
            tally.moves += 1;
            tally.bytes += sealed.len() as u64;
            tally.largest = tally.largest.max(sealed.len());
            let relative = encoded.base.is_some().then(|| sealed.clone());
            if relative.is_none() {
                base = sealed;
            }
            let at = tally.moves as usize % self.compilers.len();
            (running, recorder) = self.resume(at, &base, relative.as_deref())?;
        }
    }

    /// Reads what was written, as another node would, and makes a fresh instance of it.
    fn resume(
        &mut self,
        at: usize,
        base: &[u8],
        relative: Option<&[u8]>,
    ) -> Result<(Running<WasmerInstance>, Recorder), Failure> {
        let mut relative = relative.map(<[u8]>::to_vec);
        let state = State::open(&KEY, &mut base.to_vec(), relative.as_deref_mut(), &self.origin)
            .map_err(Failure::failed)?;
        let checked = state.check().map_err(Failure::failed)?;
        let (engine, module) = &mut self.compilers[at];
        let layout = module.layout.clone().map_err(Failure::failed)?;
        let running = state.resume(engine, module, &layout, &self.task).map_err(not_started)?;
        Ok((running, Recorder::resumed(state, checked, base.len())))
    }
}
