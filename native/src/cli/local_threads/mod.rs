//! `manyhands run --local-threads`: a virtual computer within this process, for who writes one.
//!
//! It uses what a node does: the same pass, the same engine, the same files under `/swarm`. Threads of the program
//! take turns on threads of this process, one a processor.

mod crew;

use super::failure::{FAILED, Failure};
use super::in_process;
use super::plan::JobPlan;
use super::progress::say;
use crate::config::processors;
use crate::engine::slot::wasm::{Compiled, Compiler, WasmerEngine, WasmerInstance};
use crew::{Crew, Next, Turn};
use node_core::work::computer::{Bounds, Computer};
use sandbox::instrument::Tuning;
use sandbox::module::{Form, prepare};
use sandbox::swarm::Thread;
use sandbox::{End, Engine, NotStarted, Outcome, Pace, Running, Slice, Task};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// How long a thread runs before another may have its turn. Our choice: as in a slot.
const SLICE_US: u64 = 5_000;

/// Waiting threads that are named when all of them wait. Our choice: a screen.
const NAMED: usize = 20;

/// The crew, and who looks after it.
struct Deck {
    crew: Mutex<State>,
    /// A thread may have become ready, or all is over.
    changed: Condvar,
    engine: WasmerEngine,
    module: Compiled,
}

struct State {
    crew: Crew<WasmerInstance>,
    /// The engine failed.
    broken: Option<String>,
}

/// The first thread's exit code; its files go to `out_dir`. `workers`: as the program is told; none: one a
/// processor.
pub(crate) fn run(plan: &JobPlan, workers: Option<u32>, out_dir: Option<&Path>) -> Result<u32, Failure> {
    let (program, task) = in_process::task(plan)?;
    let form = Form { bit_exact: plan.settings.bit_exact, threads: true };
    let prepared = prepare(&program, &task.limits, Tuning::Wasmer, form)
        .map_err(|refusal| Failure::usage(refusal.to_string()))?;
    if let Err(why) = &prepared.layout {
        return Err(Failure::usage(format!("threads wait for each other, and this program cannot: {why}")));
    }
    let mut engine = WasmerEngine::new(Compiler::Cranelift);
    let module = engine.compile(&prepared).map_err(Failure::failed)?;
    let workers = workers.unwrap_or_else(processors);
    let task = Task { thread: Some(Thread { number: 0, workers }), ..task };
    let crew = Crew::new(task, Computer::new(Bounds::default()));
    let crew = Mutex::new(State { crew, broken: None });
    let deck = Deck { crew, changed: Condvar::new(), engine, module };
    std::thread::scope(|scope| {
        for _ in 1..processors() {
            scope.spawn(|| deck.work());
        }
        deck.work();
    });
    let state = deck.crew.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(why) = state.broken {
        return Err(Failure::failed(why));
    }
    let (threads, messages) = state.crew.counts();
    match state.crew.finish() {
        Ok(outcome) => {
            in_process::hand_out(&outcome, out_dir)?;
            say(&format!("{threads} threads sent {messages} messages"));
            Ok(in_process::exit_code(&outcome.end))
        }
        Err(stuck) => {
            say("all threads wait for each other, and none can go on:");
            stuck.iter().take(NAMED).for_each(|stuck| say(&format!("  {stuck}")));
            if stuck.len() > NAMED {
                say(&format!("  and {} more", stuck.len() - NAMED));
            }
            Ok(FAILED.into())
        }
    }
}

impl Deck {
    fn state(&self) -> MutexGuard<'_, State> {
        self.crew.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives threads their turns until all is over.
    fn work(&self) {
        let mut engine = self.engine.clone();
        let mut pace = Pace::new(SLICE_US);
        let mut state = self.state();
        while state.broken.is_none() {
            match state.crew.next() {
                Next::Over => break,
                Next::Wait => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Next::Turn(turn) => {
                    drop(state);
                    let had = self.turn(turn, &mut engine, &mut pace);
                    state = self.state();
                    match had {
                        Had::Turn(number, running) => state.crew.had_turn(number, running),
                        Had::End(number, running, halt) => state.crew.ended(number, *running, halt),
                        Had::NoBegin(number, outcome) => state.crew.over(number, outcome, BTreeMap::new()),
                        Had::Broken(why) => state.broken = Some(why),
                    }
                    // Under the lock, so that they come in order.
                    for (thread, result) in state.crew.reports() {
                        say(&format!("thread {thread}: {}", String::from_utf8_lossy(&result).trim_end()));
                    }
                    self.changed.notify_all();
                }
            }
        }
        self.changed.notify_all();
    }

    fn turn(&self, turn: Turn<WasmerInstance>, engine: &mut WasmerEngine, pace: &mut Pace) -> Had {
        let (number, mut running) = match turn {
            Turn::GoOn(number, running) => (number, running),
            Turn::Begin(number, task) => {
                let layout = self.module.layout.clone().ok();
                match Running::start(engine, &self.module, layout, &task) {
                    Ok(running) => (number, Box::new(running)),
                    Err(NotStarted::Broken(why)) => return Had::Broken(why),
                    Err(NotStarted::Refused(why) | NotStarted::Snapshot(why)) => {
                        return Had::NoBegin(number, Outcome::of(End::Refused(why)));
                    }
                    Err(NotStarted::Halt(halt)) => return Had::NoBegin(number, Outcome::of(halt.into())),
                }
            }
        };
        let began = Instant::now();
        match running.slice(pace.fuel()) {
            Slice::Yielded => {
                pace.took(began.elapsed().as_micros() as u64);
                Had::Turn(number, running)
            }
            Slice::Waits => Had::Turn(number, running),
            Slice::Ended(halt) => Had::End(number, running, halt),
            Slice::Broken(why) => Had::Broken(why),
        }
    }
}

/// Outcome of a turn.
enum Had {
    Turn(u32, Box<Running<WasmerInstance>>),
    End(u32, Box<Running<WasmerInstance>>, sandbox::wasi::Halt),
    NoBegin(u32, Outcome),
    Broken(String),
}
