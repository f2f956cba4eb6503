//! The load thread: loads compiled programs at the priority of the node.
//!
//! Somebody waits for the first unit of a program, and on a busy machine a thread of the lowest
//! priority gets one or two percent of a processor. Tasks run in the runner's thread, which has the
//! lowest priority; programs are loaded here, in a thread that never lowered its own. A program that
//! is not in the cache is asked of the node, which has it compiled ([`super::super::compiler`]).
//!
//! Linux has a priority for each thread. Elsewhere the process has one, and loading is as slow as
//! running tasks.

use super::super::wire::{Known, NotCompiled};
use super::cache::{Cache, Key};
use super::wasm::{Compiled, WasmerEngine};
use std::io;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

/// The program, or why there is none.
pub(super) type Made = Result<Compiled, NotCompiled>;

/// Has the node compile a program into the cache, for this run.
pub(super) type Ask = Box<dyn Fn(u64, Known) -> Result<(), NotCompiled> + Send>;

/// A handle to the thread; it ends when this is dropped.
pub(super) struct LoadThread {
    requests: Sender<Request>,
}

struct Request {
    run: u64,
    known: Known,
    reply: SyncSender<Made>,
}

/// The inside of the thread.
struct Loader {
    cache: Cache,
    engine: WasmerEngine,
    ask: Ask,
}

impl LoadThread {
    /// Loads for `engine`. The thread inherits the priority of the calling one, unless it is to work in
    /// the `background`: then everything has the lowest.
    pub(super) fn start(
        cache: Cache,
        background: bool,
        engine: WasmerEngine,
        ask: Ask,
    ) -> io::Result<LoadThread> {
        let (requests, received) = channel();
        let work = move || {
            if background {
                lower_thread();
            }
            Loader { cache, engine, ask }.serve(&received);
        };
        std::thread::Builder::new().name("load".into()).spawn(work)?;
        Ok(LoadThread { requests })
    }

    /// The program of this run, loaded.
    pub(super) fn make(&self, run: u64, known: Known) -> Made {
        let (reply, replied) = sync_channel(1);
        let asked = self.requests.send(Request { run, known, reply });
        let gone = || Err(NotCompiled::Broken("the slot's load thread is gone; restart the node".into()));
        asked.ok().and_then(|()| replied.recv().ok()).unwrap_or_else(gone)
    }
}

impl Loader {
    fn serve(self, requests: &Receiver<Request>) {
        while let Ok(Request { run, known, reply }) = requests.recv() {
            // A runner that panicked does not listen any more.
            drop(reply.send(self.make(run, known)));
        }
    }

    fn make(&self, run: u64, known: Known) -> Made {
        let inner = self.engine.inner();
        let key = Key::new(known.program, known.pages, known.form, inner);
        if let Some(compiled) = self.cache.load(&key, inner) {
            return Ok(compiled);
        }
        (self.ask)(run, known)?;
        self.cache.load(&key, inner).ok_or_else(|| {
            NotCompiled::Broken(
                "a program that was compiled cannot be loaded from the cache; try again".into(),
            )
        })
    }
}

/// Gives the calling thread the lowest priority; on other systems than Linux its whole process.
/// Where a system does not let us, it works all the same.
pub(super) fn lower_thread() {
    let _ = rustix::process::setpriority_process(None, 19);
}
