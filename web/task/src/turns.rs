//! When a slot computes, and what it does about what it is asked in between.

use crate::current::{Current, Module, Ready};
use crate::engine::{BrowserEngine, now_ms};
use crate::say::Voice;
use js_sys::{Reflect, WebAssembly};
use sandbox::{NO_OTHERS, Slice};
use std::collections::{BTreeMap, VecDeque};
use wasm_bindgen::{JsCast, JsValue};
use web_driver::slot::{Answer, Job, Order, Shot};

/// After so many milliseconds the Worker listens to its messages. Ours: the way to the event
/// loop and back costs a few hundredths of one.
const TURN_MS: f64 = 8.0;

/// A turn that does not come again by itself.
const NEVER: f64 = -1.0;

/// The memory of WebAssembly never becomes smaller. A Worker in which the snapshots of a large
/// task took more than this makes room for another, once it has nothing to do. Our choice: what
/// a task may have by default.
const FAT_BYTES: f64 = (256 << 20) as f64;

/// Memory of this Worker, that of tasks aside.
fn own_bytes() -> f64 {
    let memory: WebAssembly::Memory = wasm_bindgen::memory().unchecked_into();
    Reflect::get(&memory.buffer(), &"byteLength".into()).ok().and_then(|n| n.as_f64()).unwrap_or_default()
}

pub(crate) struct Turns {
    voice: Voice,
    queue: VecDeque<(u32, Job)>,
    current: Option<Current>,
    /// State that the next run may go on from.
    ready: Option<Ready>,
    /// A snapshot of the current run was captured; whether the run stops then.
    captured: Option<bool>,
    /// It rests until then, milliseconds.
    rests_until: f64,
    percent: f64,
}

impl Turns {
    pub(crate) fn new(voice: Voice) -> Turns {
        Turns {
            voice,
            queue: VecDeque::new(),
            current: None,
            ready: None,
            captured: None,
            rests_until: 0.0,
            percent: 100.0,
        }
    }

    pub(crate) fn queue(&mut self, module: u32, jobs: Vec<Job>) {
        self.queue.extend(jobs.into_iter().map(|job| (module, job)));
    }

    pub(crate) fn share(&mut self, percent: f64) {
        self.percent = if percent >= 1.0 { percent.min(100.0) } else { 1.0 };
        self.rests_until = 0.0;
    }

    /// Computes for about [`TURN_MS`]; the answer is that of `Slot::turn`.
    pub(crate) fn turn(
        &mut self,
        engine: &mut BrowserEngine,
        modules: &BTreeMap<u32, Module>,
    ) -> Result<f64, JsValue> {
        if self.write_down()? {
            return Ok(0.0);
        }
        let began = now_ms();
        if began < self.rests_until {
            return Ok(self.rests_until - began);
        }
        let mut now = began;
        while now - began < TURN_MS {
            let Some(mut current) = self.next(engine, modules, now)? else { break };
            if current.paused {
                self.current = Some(current);
                break;
            }
            let ended = current.slice();
            now = now_ms();
            match ended {
                None => self.current = Some(current),
                Some(slice) => {
                    let spent = current.is_spent();
                    let answer = match slice {
                        Slice::Ended(halt) => current.finish(halt),
                        Slice::Broken(why) => Answer::Broken(why),
                        Slice::Waits => Answer::Broken(NO_OTHERS.into()),
                        // Not an end.
                        Slice::Yielded => Answer::Broken("it ended without an end".into()),
                    };
                    self.voice.answer(now, answer)?;
                    if spent {
                        self.queue.clear();
                        self.voice.spent()?;
                        return Ok(NEVER);
                    }
                }
            }
        }
        self.voice.flush()?;
        self.rests_until = now + (now - began) * (100.0 - self.percent) / self.percent;
        let idle = match &self.current {
            Some(current) => current.paused,
            None => self.queue.is_empty(),
        };
        if idle && self.current.is_none() && self.ready.is_none() && own_bytes() > FAT_BYTES {
            self.voice.spent()?;
        }
        Ok(if idle { NEVER } else { (self.rests_until - now).ceil() })
    }

    /// The run to go on with: what has begun, or the next in the queue.
    fn next(
        &mut self,
        engine: &mut BrowserEngine,
        modules: &BTreeMap<u32, Module>,
        now: f64,
    ) -> Result<Option<Current>, JsValue> {
        if let Some(current) = self.current.take() {
            return Ok(Some(current));
        }
        while let Some((module, job)) = self.queue.pop_front() {
            let (run, goes_on) = (job.run, job.from.is_some());
            let ready = self.ready.take();
            let begun = match modules.get(&module) {
                Some(module) if job.ahead => Ready::new(engine, module, job).and_then(|ready| {
                    self.ready = Some(ready);
                    Err(Answer::Prepared)
                }),
                Some(module) => Current::begin(engine, module, job, ready),
                None => Err(Answer::Broken(format!("the slot does not know module {module}"))),
            };
            match begun {
                Ok(current) => {
                    if goes_on {
                        self.voice.resumed(run)?;
                    }
                    return Ok(Some(current));
                }
                Err(answer) => self.voice.answer(now, answer)?,
            }
        }
        Ok(None)
    }

    /// Does what the node asks between two turns.
    pub(crate) fn order(&mut self, run: u64, order: Order) -> Result<(), JsValue> {
        if self.current.as_ref().is_some_and(|current| current.run == run) {
            return self.order_current(order);
        }
        let Some(at) = self.queue.iter().position(|(_, job)| job.run == run) else { return Ok(()) };
        match order {
            Order::Snapshot { stop } => {
                if stop {
                    self.queue.remove(at);
                }
                self.voice.snapshot(run, &Shot::NotBegun, &[], stop)
            }
            // The node keeps what has not begun.
            Order::Pause(true) | Order::Kill => {
                self.queue.remove(at);
                self.voice.gone(&[run])
            }
            Order::Pause(false) | Order::TimeUp => Ok(()),
        }
    }

    fn order_current(&mut self, order: Order) -> Result<(), JsValue> {
        let Some(mut current) = self.current.take() else { return Ok(()) };
        let run = current.run;
        match order {
            Order::Snapshot { stop } => {
                // One is written down before the next is captured.
                self.current = Some(current);
                self.write_down()?;
                let Some(current) = &mut self.current else { return Ok(()) };
                let Some(none) = current.capture() else {
                    self.captured = Some(stop);
                    return Ok(());
                };
                let stopped = stop && none == Shot::NotBegun;
                if stopped {
                    self.current = None;
                }
                self.voice.snapshot(run, &none, &[], stopped)
            }
            Order::Pause(paused) => {
                current.paused = paused;
                self.current = Some(current);
                if !paused {
                    return Ok(());
                }
                // Others need not wait with it.
                let waiting: Vec<u64> = self.queue.drain(..).map(|(_, job)| job.run).collect();
                self.voice.gone(&waiting)
            }
            Order::Kill => {
                self.captured = None;
                self.voice.gone(&[run])
            }
            Order::TimeUp => {
                self.captured = None;
                self.voice.answer(now_ms(), current.time_up())?;
                self.voice.flush()
            }
        }
    }

    /// Tells a snapshot that was captured. Whether there was one.
    fn write_down(&mut self) -> Result<bool, JsValue> {
        let (Some(stop), Some(current)) = (self.captured.take(), &mut self.current) else {
            return Ok(false);
        };
        let run = current.run;
        let Some((shot, sealed)) = current.encode() else { return Ok(false) };
        if stop {
            self.current = None;
        }
        self.voice.snapshot(run, &shot, &sealed, stop)?;
        Ok(true)
    }
}
