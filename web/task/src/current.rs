//! The run that a slot is at.

use crate::engine::{BrowserEngine, now_ms};
use crate::instance::BrowserInstance;
use js_sys::WebAssembly;
use node_core::{BlobId, SealKey};
use sandbox::instrument::Layout;
use sandbox::snapshot::{Ahead, Captured, Checked, Origin, Recorder, State, open, seal};
use sandbox::wasi::Halt;
use sandbox::{End, Limit, NotStarted, Outcome, Pace, Running, Slice, Task};
use std::sync::Arc;
use web_driver::slot::{Answer, Form, From, Job, Shot};

/// Length of a slice: an order waits for two of them at most, and a suspension that takes a few
/// microseconds is not felt.
const SLICE_US: u64 = 8_000;

/// A program that can be run.
pub(crate) struct Module {
    pub(crate) compiled: WebAssembly::Module,
    pub(crate) form: Form,
    pub(crate) layout: Result<Arc<Layout>, String>,
}

/// A task that has begun.
pub(crate) struct Current {
    pub(crate) run: u64,
    key: SealKey,
    origin: Origin,
    running: Running<BrowserInstance>,
    /// Why it cannot be suspended, if so.
    immobile: Option<String>,
    pace: Pace,
    time_us: u64,
    cpu_us: u64,
    /// It has executed something since it began or was resumed.
    moved: bool,
    pub(crate) paused: bool,
    /// Once a snapshot was taken, or it was resumed: most tasks need none.
    recorder: Option<Recorder>,
    /// The whole snapshot that the recorder's next is relative to.
    whole: Option<BlobId>,
    captured: Option<Shoot>,
}

/// A snapshot that is to be written down.
struct Shoot {
    captured: Captured,
    pause_us: u64,
}

fn micros_since(began_ms: f64) -> u64 {
    ((now_ms() - began_ms) * 1000.0).max(0.0) as u64
}

impl Current {
    /// Begins a task, or says at once what became of it.
    /// `ready`: what may lie here for it.
    pub(crate) fn begin(
        engine: &mut BrowserEngine,
        module: &Module,
        job: Job,
        ready: Option<Ready>,
    ) -> Result<Current, Answer> {
        let Job { run, task, key, from, .. } = job;
        let layout = module.layout.clone();
        let whole = from.as_ref().map(|from| from.whole);
        let begun = match (from, &layout) {
            (None, _) => Running::start(engine, &module.compiled, layout.clone().ok(), &task)
                .map(|running| (running, None)),
            (Some(_), Err(why)) => Err(NotStarted::Snapshot(format!("cannot be of this program: {why}"))),
            (Some(from), Ok(_)) if from.is_held => match ready {
                Some(ready) => ready.go_on(from, &key, &task),
                None => Err(NotStarted::Broken("what it goes on from does not lie ready".into())),
            }
            .map(|(running, recorder)| (running, Some(recorder))),
            (Some(from), Ok(layout)) => states(from, &key, &module.form.origin())
                .map_err(NotStarted::Snapshot)
                .and_then(|(state, checked, base_bytes)| {
                    let running = state.resume(engine, &module.compiled, layout, &task)?;
                    Ok((running, Some(Recorder::resumed(state, checked, base_bytes))))
                }),
        };
        let (running, recorder) = begun.map_err(answer_of)?;
        Ok(Current {
            run,
            key,
            origin: module.form.origin(),
            running,
            immobile: layout.err(),
            pace: Pace::new(SLICE_US),
            time_us: task.limits.time_us,
            cpu_us: 0,
            moved: false,
            paused: false,
            recorder,
            whole,
            captured: None,
        })
    }

    /// Runs it for a slice. `Some` is its end.
    pub(crate) fn slice(&mut self) -> Option<Slice> {
        self.moved = true;
        let began = now_ms();
        let slice = self.running.slice(self.pace.fuel());
        let took = micros_since(began);
        self.pace.took(took);
        self.cpu_us = self.cpu_us.saturating_add(took);
        (slice != Slice::Yielded).then_some(slice)
    }

    pub(crate) fn is_spent(&mut self) -> bool {
        self.running.instance_mut().is_spent()
    }

    pub(crate) fn finish(self, halt: Halt) -> Answer {
        Answer::Ended(self.running.finish(halt, self.cpu_us))
    }

    pub(crate) fn time_up(self) -> Answer {
        let limit = Limit::TimeUs(self.time_us);
        self.finish(Halt::Limit(limit))
    }

    /// Copies what a snapshot needs. `Some` says that there is nothing to write down.
    pub(crate) fn capture(&mut self) -> Option<Shot> {
        if let Some(why) = &self.immobile {
            return Some(Shot::Immobile(why.clone()));
        }
        if !self.moved {
            return Some(Shot::NotBegun);
        }
        let recorder = self.recorder.get_or_insert_with(|| Recorder::new(self.origin.clone()));
        let began = now_ms();
        match recorder.capture(&mut self.running) {
            Ok(captured) => {
                self.captured = Some(Shoot { captured, pause_us: micros_since(began) });
                None
            }
            Err(why) => Some(Shot::Immobile(why.into())),
        }
    }

    /// Writes down what was captured: the answer, and the sealed bytes.
    pub(crate) fn encode(&mut self) -> Option<(Shot, Vec<u8>)> {
        let (Some(Shoot { captured, pause_us }), Some(recorder)) = (self.captured.take(), &mut self.recorder)
        else {
            return None;
        };
        let encoded = recorder.encode(captured);
        let sealed = seal(&self.key.0, encoded.bytes);
        let id = BlobId::of(&sealed);
        let base = match encoded.base {
            Some(_) => self.whole,
            None => {
                self.whole = Some(id);
                None
            }
        };
        Some((Shot::Taken { id, base, root: encoded.root, fuel: encoded.fuel, pause_us }, sealed))
    }
}

/// State that a coming task goes on from, checked and in place.
pub(crate) struct Ready {
    ahead: Ahead<BrowserInstance>,
    key: SealKey,
    whole: BlobId,
}

impl Ready {
    pub(crate) fn new(engine: &mut BrowserEngine, module: &Module, job: Job) -> Result<Ready, Answer> {
        let Job { task, key, from, .. } = job;
        let not = |why: String| answer_of(NotStarted::Snapshot(why));
        let layout =
            module.layout.as_ref().map_err(|why| not(format!("cannot be of this program: {why}")))?;
        let from = from.ok_or_else(|| not("there is none".into()))?;
        let mut bytes = Vec::from(from.bytes);
        let state = State::open(&key.0, &mut bytes, None, &module.form.origin());
        let state = state.map_err(|bad| not(bad.to_string()))?;
        let base_bytes = bytes.len();
        drop(bytes);
        let ahead = Ahead::new(engine, &module.compiled, layout, &task, state, base_bytes);
        Ok(Ready { ahead: ahead.map_err(answer_of)?, key, whole: from.whole })
    }

    fn go_on(
        self,
        from: From,
        key: &SealKey,
        task: &Task,
    ) -> Result<(Running<BrowserInstance>, Recorder), NotStarted> {
        if self.whole != from.whole || self.key != *key {
            return Err(NotStarted::Broken("something else lies ready than what it goes on from".into()));
        }
        let mut bytes = Vec::from(from.bytes);
        let relative = open(&key.0, &mut bytes).map_err(|bad| NotStarted::Snapshot(bad.to_string()))?;
        self.ahead.go_on(Some(relative), &from.root, task)
    }
}

fn answer_of(not: NotStarted) -> Answer {
    match not {
        NotStarted::Refused(why) => Answer::Ended(Outcome::of(End::Refused(why))),
        NotStarted::Halt(halt) => Answer::Ended(Outcome::of(halt.into())),
        NotStarted::Broken(why) => Answer::Broken(why),
        NotStarted::Snapshot(why) => Answer::Unusable(format!("its snapshot cannot be used: {why}")),
    }
}

/// State that a task goes on from, checked, and the size of its whole part, bytes.
///
/// Keepers and networks are not trusted: everything is checked. An `Err` is text that follows "its
/// snapshot cannot be used: ".
fn states(from: From, key: &SealKey, origin: &Origin) -> Result<(State, Checked, usize), String> {
    let (whole, relative) = match from.base {
        None => (from.bytes, None),
        Some(base) => (base, Some(from.bytes)),
    };
    let mut whole = Vec::from(whole);
    let mut relative = relative.map(Vec::from);
    let state = State::open(&key.0, &mut whole, relative.as_deref_mut(), origin);
    let state = state.map_err(|bad| bad.to_string())?;
    if state.root() != from.root {
        return Err("it holds another state than its owner knows of".into());
    }
    let base_bytes = whole.len();
    // The task's own memory comes next.
    drop(whole);
    let checked = state.check().map_err(|bad| bad.to_string())?;
    Ok((state, checked, base_bytes))
}
