//! The compile thread: makes programs runnable at the priority of the node.
//!
//! Somebody waits for the first unit of a program, and on a busy machine a thread of the lowest
//! priority gets one or two percent of a processor. Tasks run in the runner's thread, which has the
//! lowest priority; programs are loaded and compiled here, in a thread that never lowered its own.
//! Two bounds protect the donor: over all slots that share a cache one compilation at a time has
//! normal priority, and after [`PROMPT`] it has the lowest as well.
//!
//! Linux has a priority for each thread. Elsewhere the process has one, and compiling is as slow as
//! running tasks.

use super::blobs::Blobs;
use super::cache::{Cache, Key};
use super::modules::Known;
use super::wasm::{Compiled, WasmerEngine};
use sandbox::instrument::Tuning;
use sandbox::module::prepare;
use sandbox::{Engine, Limits};
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

/// How long one program is compiled at normal priority. Our choice: most take less than a second,
/// and a donor notices a minute.
const PROMPT: Duration = Duration::from_millis(if cfg!(test) { 300 } else { 10_000 });

/// The name of the threads that compile. The compiler's own threads inherit it.
const THREAD: &str = "compile";

/// The inner error: no node can run this program. The outer one: this node cannot, now.
pub(super) type Made = Result<Result<Compiled, String>, String>;

/// A handle to the thread; it ends when this is dropped.
pub(super) struct CompileThread {
    requests: Sender<Request>,
}

struct Request {
    known: Known,
    limits: Limits,
    reply: SyncSender<std::thread::Result<Made>>,
}

/// The inside of the thread.
struct Maker {
    cache: Cache,
    blobs: Blobs,
    engine: WasmerEngine,
    /// Nobody waits for it: everything has the lowest priority.
    background: bool,
}

/// Folders and manner of a compile thread.
pub(super) struct CompileOptions {
    pub(super) cache_dir: PathBuf,
    pub(super) blob_dir: PathBuf,
    pub(super) background: bool,
}

impl CompileThread {
    /// Compiles for `engine`. The thread inherits the priority of the calling one.
    pub(super) fn start(options: CompileOptions, engine: WasmerEngine) -> io::Result<CompileThread> {
        let CompileOptions { cache_dir, blob_dir, background } = options;
        let (requests, received) = channel();
        let work = move || {
            if background {
                lower_thread();
            }
            let maker =
                Maker { cache: Cache::new(cache_dir), blobs: Blobs::new(blob_dir), engine, background };
            maker.serve(&received);
        };
        std::thread::Builder::new().name("prepare".into()).spawn(work)?;
        Ok(CompileThread { requests })
    }

    /// The program, loaded or compiled. Panics if compiling did.
    pub(super) fn make(&self, known: Known, limits: &Limits) -> Made {
        let (reply, replied) = sync_channel(1);
        let asked = self.requests.send(Request { known, limits: *limits, reply });
        match asked.ok().and_then(|()| replied.recv().ok()) {
            Some(Ok(made)) => made,
            Some(Err(panic)) => resume_unwind(panic),
            None => Err("the slot's compile thread is gone; restart the node".into()),
        }
    }
}

impl Maker {
    fn serve(mut self, requests: &Receiver<Request>) {
        while let Ok(Request { known, limits, reply }) = requests.recv() {
            // A runner that panicked does not listen any more.
            drop(reply.send(self.make(known, &limits)));
        }
    }

    fn make(&mut self, known: Known, limits: &Limits) -> std::thread::Result<Made> {
        let inner = self.engine.inner();
        let key = Key::new(known.program, known.pages, known.bit_exact, inner);
        if let Some(compiled) = self.cache.load(&key, inner) {
            return Ok(Ok(Ok(compiled)));
        }
        // One slot compiles it, the others wait and then load it.
        let _alone = self.cache.lock(&key);
        if let Some(compiled) = self.cache.load(&key, inner) {
            return Ok(Ok(Ok(compiled)));
        }
        let turn = if self.background { None } else { self.cache.turn() };
        let Maker { cache, blobs, engine, background } = self;
        let bytes = match blobs.read(known.program) {
            Ok(bytes) => bytes,
            Err(why) => return Ok(Err(why)),
        };
        let compile = move || -> Made {
            let prepared = match prepare(&bytes, limits, Tuning::Wasmer, known.bit_exact) {
                Ok(prepared) => prepared,
                Err(refusal) => return Ok(Err(refusal.to_string())),
            };
            drop(bytes);
            engine.compile(&prepared).map(Ok)
        };
        let made = promptly(compile, turn, *background)?;
        if let Ok(Ok(compiled)) = &made {
            cache.store(&key, compiled);
        }
        Ok(made)
    }
}

/// Runs `work` in a thread of its own, and lowers that one's priority after [`PROMPT`]. `turn` is
/// given up then, or at the end.
fn promptly(
    work: impl FnOnce() -> Made + Send,
    turn: Option<File>,
    background: bool,
) -> std::thread::Result<Made> {
    std::thread::scope(|scope| {
        let (ends, ended) = channel::<()>();
        let work = move || {
            let made = work();
            drop(ends);
            made
        };
        let worker = match std::thread::Builder::new().name(THREAD.into()).spawn_scoped(scope, work) {
            Ok(worker) => worker,
            Err(error) => return Ok(Err(format!("a compile thread could not be started: {error}"))),
        };
        if !background && ended.recv_timeout(PROMPT) == Err(RecvTimeoutError::Timeout) {
            lower_compilers();
        }
        drop(turn);
        worker.join()
    })
}

/// Gives the calling thread the lowest priority; on other systems than Linux its whole process.
/// Where a system does not let us, it works all the same.
pub(super) fn lower_thread() {
    let _ = rustix::process::setpriority_process(None, 19);
}

/// Lowers all threads that compile, the compiler's own included.
fn lower_compilers() {
    let mut lowered = BTreeSet::new();
    // A thread that is begun by one of normal priority has it too: until no new one is found.
    loop {
        let found: Vec<i32> = compilers().filter(|thread| !lowered.contains(thread)).collect();
        if found.is_empty() {
            return;
        }
        for thread in found {
            if let Some(id) = rustix::process::Pid::from_raw(thread) {
                // One that has ended meanwhile has no priority to lower.
                let _ = rustix::process::setpriority_process(Some(id), 19);
            }
            lowered.insert(thread);
        }
    }
}

/// Ids of the threads of this process that are named [`THREAD`]; none on other systems than Linux.
fn compilers() -> impl Iterator<Item = i32> {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    threads.filter_map(|thread| {
        let name = std::fs::read_to_string(thread.path().join("comm")).ok()?;
        (name.trim_end() == THREAD).then(|| thread.file_name().to_str()?.parse().ok()).flatten()
    })
}
