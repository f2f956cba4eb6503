//! One order after the other: a task is made, runs in slices, and does what is asked of it in
//! between.

#[cfg(all(test, target_os = "linux"))]
use super::super::wall;
use super::super::wire::{FromSlot, NotCompiled, Order, Setup};
use super::beside::Beside;
use super::blobs::Blobs;
use super::cache::Cache;
use super::desk::{Ask, Desk};
use super::loading::LoadThread;
use super::modules::Modules;
use super::scribe::{Frozen, Scribe};
use super::wasm::{Compiled, Compiler, WasmerEngine, WasmerInstance, cpu_us};
use node_core::content::BlobRef;
use node_core::{EngineTask, NoSnapshot, SealKey, SnapshotRef};
use sandbox::module::Form;
use sandbox::snapshot::{Ahead, Origin, Recorder, State, open};
use sandbox::swarm::{Letter, Marks, Swarm};
use sandbox::wasi::Halt;
use sandbox::{End, File, Instance, Limit, NotStarted, Outcome, Pace, Running, Slice, Task};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a task runs before the runner looks up. Our choice: a tenth of what a person takes
/// for an instant, and a thousand times what looking up costs.
const SLICE_US: u64 = 5_000;

pub(super) struct Runner {
    desk: Arc<Desk>,
    engine: WasmerEngine,
    modules: Modules,
    blobs: Blobs,
    /// Where snapshots are written down, and where those are checked that a task goes on from: what was begun
    /// for a task that has ended does not hold up the next.
    scribes: Beside,
    checks: Beside,
    /// State that the next task may go on from.
    ready: Option<Ready>,
}

/// A task under way.
struct Work {
    running: Running<WasmerInstance>,
    scribe: Scribe,
    /// Fuel that it had when it began here.
    began_at: u64,
    cpu_us: u64,
    time_us: u64,
    paused: bool,
    /// A snapshot that has to wait until the scribe is back: whether the task then stops.
    wanted: Option<bool>,
    /// Letters that there was no room for yet.
    letters: Vec<Letter>,
    /// How it ended, while others may not have all that it sent.
    ended: Option<Halt>,
}

/// State that a coming task goes on from, checked and in place.
struct Ready {
    ahead: Ahead<WasmerInstance>,
    key: SealKey,
    whole: BlobRef,
}

/// A task with all its content, and where it runs.
struct Arranged<'a> {
    engine: &'a mut WasmerEngine,
    module: &'a Compiled,
    blobs: &'a Blobs,
    checks: &'a Beside,
    task: Task,
    origin: Origin,
}

/// Why there is nothing to run.
enum Nothing {
    Outcome(Box<Outcome>),
    Broken(String),
}

/// A runner before the wall is closed, without threads.
pub(super) struct Unopened {
    engine: WasmerEngine,
    cache: Cache,
    blobs: Blobs,
    background: bool,
}

impl Unopened {
    /// Starts all threads that it will ever need. The load thread inherits the priority of the calling one.
    pub(super) fn open(self, desk: Arc<Desk>) -> io::Result<Runner> {
        let Unopened { engine, cache, blobs, background } = self;
        let ask = {
            let desk = desk.clone();
            Box::new(move |run, known| desk.compiled(run, known))
        };
        let modules = Modules::new(LoadThread::start(cache, background, engine.clone(), ask)?);
        let (scribes, checks) = (Beside::start("scribe")?, Beside::start("check")?);
        Ok(Runner { desk, engine, modules, blobs, scribes, checks, ready: None })
    }
}

impl Runner {
    /// Makes and asks of the system what a closed wall would deny.
    #[allow(clippy::new_ret_no_self)]
    pub(super) fn new(setup: &Setup) -> Unopened {
        let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
        Unopened {
            engine: WasmerEngine::new(Compiler::Cranelift),
            cache: Cache::new(path(&setup.cache_dir)),
            blobs: Blobs::new(path(&setup.blob_dir)),
            background: setup.background,
        }
    }

    pub(super) fn answer(&mut self, order: Order) -> FromSlot {
        let Order { run, task, ahead } = order;
        #[cfg(all(test, target_os = "linux"))]
        if let Some(secret) =
            task.arguments.first().and_then(|first| first.strip_prefix(wall::attack::ATTACK))
        {
            let said = wall::attack::attack(secret).into();
            return FromSlot::Ended(run, Outcome { stdout: said, ..Outcome::of(End::Exited(0)) });
        }
        #[cfg(test)]
        if let Some(how) = task.arguments.first().and_then(|first| first.strip_prefix(super::lies::LIE)) {
            return super::lies::lie(run, how, &self.desk);
        }
        let began = cpu_us();
        if ahead {
            return match self.get_ready(run, task) {
                Ok(()) => FromSlot::Prepared(run),
                Err(Nothing::Outcome(outcome)) => FromSlot::Ended(run, *outcome),
                Err(Nothing::Broken(error)) => FromSlot::Broken(run, error),
            };
        }
        match self.begin(run, task) {
            Ok(mut work) => {
                work.cpu_us = cpu_us().saturating_sub(began);
                self.run(run, work)
            }
            Err(Nothing::Outcome(outcome)) => FromSlot::Ended(run, *outcome),
            Err(Nothing::Broken(error)) => FromSlot::Broken(run, error),
        }
    }

    fn arrange(&mut self, run: u64, task: EngineTask) -> Result<Arranged<'_>, Nothing> {
        let EngineTask { program, arguments, environment, stdin, files, limits, seed, bit_exact, .. } = task;
        let thread = task.thread.as_ref().map(|task| task.thread);
        let form = Form { bit_exact, threads: thread.is_some() };
        let Runner { desk, engine, modules, blobs, checks, .. } = self;
        let preparing = |begins| {
            desk.note(&if begins { FromSlot::Preparing(run) } else { FromSlot::Running(run) });
        };
        let module = match modules.get(run, program, &limits, form, &preparing) {
            Ok(module) => module,
            Err(NotCompiled::Refused(why)) => return Err(Nothing::outcome(End::Refused(why))),
            Err(NotCompiled::Broken(why)) => return Err(Nothing::Broken(why)),
        };
        if let Err(why) = &module.layout {
            if thread.is_some() {
                let why = format!("threads wait for each other, and this program cannot: {why}");
                return Err(Nothing::outcome(End::Refused(why)));
            }
            desk.immobile(why);
        }
        let mut given = Vec::with_capacity(files.len());
        for file in files {
            let data = blobs.data(file.data).map_err(Nothing::Broken)?;
            given.push(File { data, path: file.path });
        }
        let stdin = blobs.data(stdin).map_err(Nothing::Broken)?;
        let task = Task { arguments, environment, stdin, files: given, limits, seed, thread };
        let origin = Origin { program: program.0, memory_limit: limits.memory_bytes, bit_exact };
        Ok(Arranged { engine, module, blobs, checks, task, origin })
    }

    /// Puts in place what a task that will come goes on from.
    fn get_ready(&mut self, run: u64, task: EngineTask) -> Result<(), Nothing> {
        self.ready = None;
        let (key, from) = (task.key, task.from);
        let from = from.ok_or_else(|| bad_snapshot("there is none"))?;
        let Arranged { engine, module, blobs, task, origin, .. } = self.arrange(run, task)?;
        let layout = module.layout.as_ref().map_err(bad_snapshot)?;
        let mut bytes = blobs.read_unchecked(from.blob.id).map_err(bad_snapshot)?;
        let state = State::open(&key.0, &mut bytes, None, &origin).map_err(bad_snapshot)?;
        let base_bytes = bytes.len();
        drop(bytes);
        let ahead = Ahead::new(engine, module, layout, &task, state, base_bytes)?;
        self.ready = Some(Ready { ahead, key, whole: from.blob });
        Ok(())
    }

    fn begin(&mut self, run: u64, task: EngineTask) -> Result<Work, Nothing> {
        let (key, from) = (task.key, task.from);
        let choices = task.thread.as_ref().map(|thread| thread.choices.clone());
        let ready = self.ready.take();
        let desk = self.desk.clone();
        let Arranged { engine, module, blobs, checks, task, origin } = self.arrange(run, task)?;
        let limits = task.limits;
        let (mut running, scribe) = match from {
            None => {
                let layout = module.layout.clone().ok();
                let running = Running::start(engine, module, layout, &task).map_err(Nothing::from)?;
                (running, Scribe::new(run, key, origin.clone(), Recorder::new(origin)))
            }
            Some(from) => {
                let is_of_this = |ready: &Ready| ready.key == key && from.base == Some(ready.whole);
                let (running, recorder) = match ready.filter(is_of_this) {
                    Some(ready) => ready.go_on(&from, blobs, &task)?,
                    None => resume(read(&from, &key, &origin, blobs)?, engine, module, checks, &task)?,
                };
                desk.note(&FromSlot::Resumed(run));
                (running, Scribe::new(run, key, origin, recorder))
            }
        };
        let began_at = running.fuel();
        if let (Some(swarm), Some(choices)) = (swarm(&mut running), choices) {
            swarm.replay(choices);
        }
        Ok(Work {
            running,
            scribe,
            began_at,
            cpu_us: 0,
            time_us: limits.time_us,
            paused: false,
            wanted: None,
            letters: Vec::new(),
            ended: None,
        })
    }

    fn run(&mut self, run: u64, mut work: Work) -> FromSlot {
        let mut pace = Pace::new(SLICE_US);
        let mut waits = false;
        self.say(run, &mut work.running);
        loop {
            while let Some(ask) = self.desk.asked() {
                match ask {
                    Ask::Kill => return FromSlot::Killed(run),
                    // With what it wrote so far, as in a browser.
                    Ask::TimeUp => {
                        let halt = Halt::Limit(Limit::TimeUs(work.time_us));
                        return FromSlot::Ended(run, work.running.finish(halt, work.cpu_us));
                    }
                    Ask::Pause(paused) => work.paused = paused,
                    Ask::Letters(letters) => {
                        work.letters.extend(letters);
                        waits = self.deliver(run, &mut work);
                    }
                    Ask::Snapshot { stop } => work.wanted = Some(stop || work.wanted == Some(true)),
                }
            }
            if let Some(stop) = work.wanted
                && let Some(answer) = self.snapshot(run, &mut work, stop)
            {
                return answer;
            }
            if let Some(halt) = work.ended.take() {
                let is_kept = swarm(&mut work.running).is_some_and(Swarm::ends);
                self.say(run, &mut work.running);
                if !is_kept {
                    return FromSlot::Ended(run, work.running.finish(halt, work.cpu_us));
                }
                work.ended = Some(halt);
                self.desk.sleep(None);
                continue;
            }
            if work.paused || waits {
                // A scribe at work comes back by itself; what waits for it is asked for again.
                self.desk.sleep(work.wanted.map(|_| Duration::from_millis(5)));
                continue;
            }
            let (began, cpu_began) = (Instant::now(), cpu_us());
            let slice = work.running.slice(pace.fuel());
            let took = began.elapsed();
            work.cpu_us += cpu_us().saturating_sub(cpu_began);
            match slice {
                Slice::Yielded => pace.took(took.as_micros() as u64),
                Slice::Ended(halt) => {
                    work.ended = Some(halt);
                    continue;
                }
                Slice::Broken(why) => return FromSlot::Broken(run, why),
                Slice::Waits => {}
            }
            waits = self.deliver(run, &mut work);
            let share = self.desk.share();
            if share < 100 && !waits {
                self.desk.sleep(Some(took * (100 - share) / share));
            }
        }
    }

    /// Gives a thread the letters that it has room for, and says what it has for others. Whether it waits.
    fn deliver(&self, run: u64, work: &mut Work) -> bool {
        let Some(swarm) = swarm(&mut work.running) else { return false };
        let letters = std::mem::take(&mut work.letters);
        work.letters = letters.into_iter().filter_map(|letter| swarm.take_letter(letter)).collect();
        self.say(run, &mut work.running)
    }

    /// Says what a thread has for others. Whether it waits.
    fn say(&self, run: u64, running: &mut Running<WasmerInstance>) -> bool {
        let Some(swarm) = swarm(running) else { return false };
        let said = swarm.says();
        let waits = said.waits.is_some();
        if !said.is_empty() {
            self.desk.note(&FromSlot::Said(run, said));
        }
        waits
    }

    /// Takes the snapshot that is wanted, as soon as the scribe can. The answer, if that ends the
    /// run.
    fn snapshot(&self, run: u64, work: &mut Work, stop: bool) -> Option<FromSlot> {
        if work.running.fuel() == work.began_at || !work.running.is_suspended() {
            work.wanted = None;
            let answer = FromSlot::Snapshot { run, taken: Err(NoSnapshot::NotBegun), stopped: stop };
            if !stop {
                self.desk.note(&answer);
            }
            return stop.then_some(answer);
        }
        let recorder = if stop { work.scribe.wait() } else { work.scribe.poll() };
        let mut recorder = recorder?;
        work.wanted = None;
        let began = Instant::now();
        let captured = recorder.capture(&mut work.running);
        let marks: Option<Marks> = swarm(&mut work.running).map(|swarm| swarm.marks());
        let pause_us = began.elapsed().as_micros() as u64;
        match captured {
            Ok(captured) if stop => {
                let taken = work.scribe.write(&mut recorder, Frozen { captured, pause_us, marks });
                let stopped = taken.written.is_ok();
                let answer = FromSlot::Snapshot { run, taken: Ok(taken), stopped };
                if !stopped {
                    work.scribe.put_back(recorder);
                    self.desk.note(&answer);
                }
                stopped.then_some(answer)
            }
            Ok(captured) => {
                let frozen = Frozen { captured, pause_us, marks };
                work.scribe.begin((recorder, frozen), &self.scribes, &self.desk);
                None
            }
            Err(why) => {
                work.scribe.put_back(recorder);
                let taken = Err(NoSnapshot::Immobile(why.into()));
                self.desk.note(&FromSlot::Snapshot { run, taken, stopped: false });
                None
            }
        }
    }
}

/// The thread that the task is, if it is one.
fn swarm(running: &mut Running<WasmerInstance>) -> Option<&mut Swarm> {
    running.instance_mut().host().swarm()
}

impl Ready {
    fn go_on(
        self,
        from: &SnapshotRef,
        blobs: &Blobs,
        task: &Task,
    ) -> Result<(Running<WasmerInstance>, Recorder), Nothing> {
        let mut bytes = blobs.read_unchecked(from.blob.id).map_err(bad_snapshot)?;
        let relative = open(&self.key.0, &mut bytes).map_err(bad_snapshot)?;
        let (running, recorder) = self.ahead.go_on(Some(relative), &from.root, task)?;
        Ok((running, recorder))
    }
}

impl Nothing {
    fn outcome(end: End) -> Nothing {
        Nothing::Outcome(Outcome::of(end).into())
    }
}

impl From<NotStarted> for Nothing {
    fn from(not_started: NotStarted) -> Self {
        match not_started {
            NotStarted::Refused(why) => Nothing::outcome(End::Refused(why)),
            NotStarted::Halt(halt) => Nothing::outcome(halt.into()),
            NotStarted::Broken(why) => Nothing::Broken(why),
            NotStarted::Snapshot(why) => bad_snapshot(why),
        }
    }
}

/// The owner reads these first words: it is the checkpoint that is bad, not the unit.
fn bad_snapshot(why: impl std::fmt::Display) -> Nothing {
    Nothing::Broken(format!("its snapshot cannot be used: {why}"))
}

/// Reads the state that the task goes on from, unchecked, and the length of the whole snapshot that its next ones are
/// relative to.
fn read(
    from: &SnapshotRef,
    key: &SealKey,
    origin: &Origin,
    blobs: &Blobs,
) -> Result<(State, usize), Nothing> {
    // The seal proves more than the name: that it was this unit's own runner who wrote it.
    let read = |blob: BlobRef| blobs.read_unchecked(blob.id).map_err(bad_snapshot);
    let mut whole = read(from.base.unwrap_or(from.blob))?;
    let mut relative = from.base.map(|_| read(from.blob)).transpose()?;
    let state = State::open(&key.0, &mut whole, relative.as_deref_mut(), origin).map_err(bad_snapshot)?;
    if state.root() != from.root {
        return Err(bad_snapshot("it is another state than the one that was named"));
    }
    Ok((state, whole.len()))
}

/// The task as it was suspended, and the recorder of its next snapshot.
fn resume(
    (state, base_bytes): (State, usize),
    engine: &mut WasmerEngine,
    module: &Compiled,
    checks: &Beside,
    task: &Task,
) -> Result<(Running<WasmerInstance>, Recorder), Nothing> {
    let layout = module.layout.as_ref().map_err(bad_snapshot)?;
    // Both read all of its memory; nothing runs before both are done.
    let state = Arc::new(state);
    let checked = {
        let state = state.clone();
        checks.give(move || state.check())
    };
    let running = state.resume(engine, module, layout, task);
    // A check that panicked found nothing good.
    let checked = checked.wait().ok_or_else(|| bad_snapshot("its check failed, which is a bug"))?;
    let checked = checked.map_err(bad_snapshot)?;
    // The check is over, and its share with it.
    let state = Arc::into_inner(state).ok_or_else(|| bad_snapshot("it is still in use, which is a bug"))?;
    Ok((running?, Recorder::resumed(state, checked, base_bytes)))
}
