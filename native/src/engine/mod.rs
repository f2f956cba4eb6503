//! The engine: runs tasks in processes of their own, one a slot.
//!
//! A process can be ended at any moment and whatever it is at, so a task that never returns,
//! or one that brings its engine down, costs its slot some milliseconds and nobody else
//! anything. Processes start when there is work and leave when there has been none for a
//! while.
//!
//! - [`wire`]: what node and slot say to each other.
//! - [`manager`]: the node's side, one thread that owns all slots.
//! - [`process`]: one slot's process, and how it is spoken to.
//! - [`plan`]: which order goes where; no I/O.
//! - [`slot`]: the inside of such a process, with wasmer in it.
//! - [`compiler`]: processes that check and compile one program each.
//! - [`wall`]: what all these processes may not do.
//!
//! Invariants: each run that is not killed is answered exactly once; a slot's process never
//! outlives its node, nor does a compiler's; the time limit is measured here, from a task's begin, without what its
//! program took to compile. Tasks have the lowest priority, compiling has the node's.

pub(crate) mod compiler;
mod inspect;
mod manager;
mod plan;
mod process;
pub(crate) mod slot;
#[cfg(test)]
pub(crate) mod tests;
mod wall;
mod wire;

pub(crate) use process::Launcher;

use crate::storage::Staging;
use compiler::Bounds;
use inspect::{Inspector, Question};
use manager::{Mail, Mailbox, Manager};
use node_core::engine::NotRunnable;
use node_core::{EngineReply, EngineRequest};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::thread::JoinHandle;
use tokio::sync::watch;

/// Options of an engine.
pub(crate) struct EngineOptions {
    /// This program: slots are started from it, as `exe engine-slot`.
    pub(crate) exe: PathBuf,
    /// Blobs as files, `<first two digits>/<all digits>`.
    pub(crate) blob_dir: PathBuf,
    /// Where slots write snapshots that become blobs.
    pub(crate) staging: Staging,
    /// For compiled programs; made if missing.
    pub(crate) cache_dir: PathBuf,
    /// Tasks at once.
    pub(crate) slots: u32,
    /// Share of a processor that each of them gets, percent.
    pub(crate) cpu_share: u8,
    /// Nobody waits for its tasks: programs too are compiled at the lowest priority.
    pub(crate) background: bool,
}

type Replies = Arc<dyn Fn(EngineReply) + Send + Sync>;

/// A handle to the running engine. Dropped, it ends all tasks.
pub(crate) struct Engine {
    /// Or why there is none.
    mailbox: Result<Arc<Mailbox>, String>,
    replies: Replies,
    inspector: Inspector,
    works: watch::Receiver<bool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Engine {
    /// `replies` is called from a thread of the engine, never from within [`Engine::request`].
    /// It must not block.
    pub(crate) fn start(
        options: EngineOptions,
        replies: impl Fn(EngineReply) + Send + Sync + 'static,
    ) -> Engine {
        static SAID: Once = Once::new();
        SAID.call_once(|| {
            if let Some(missing) = wall::missing() {
                tracing::warn!("{missing}");
            }
        });
        let launcher = Launcher::of(options.exe.clone());
        Engine::start_as(options, launcher.arguments, Bounds::default(), Arc::new(replies))
    }

    /// With other arguments that make `exe` a process of the engine, and other bounds for compilers.
    fn start_as(
        options: EngineOptions,
        arguments: Vec<OsString>,
        bounds: Bounds,
        replies: Replies,
    ) -> Engine {
        let launcher = Launcher { exe: options.exe.clone(), arguments: arguments.clone() };
        let inspector = Inspector::start(launcher, options.blob_dir.clone(), replies.clone());
        let started = Manager::new(options, arguments, bounds, replies.clone()).and_then(|manager| {
            let (mailbox, works) = (manager.mailbox(), manager.works());
            let thread = std::thread::Builder::new().name("engine".into()).spawn(move || manager.run())?;
            Ok((mailbox, works, thread))
        });
        match started {
            Ok((mailbox, works, thread)) => {
                Engine { mailbox: Ok(mailbox), replies, inspector, works, thread: Mutex::new(Some(thread)) }
            }
            Err(error) => {
                let why = format!("the engine could not start: {error}; restart the node");
                let works = watch::Sender::new(false).subscribe();
                Engine { mailbox: Err(why), replies, inspector, works, thread: Mutex::new(None) }
            }
        }
    }

    /// Queues a request; never blocks.
    pub(crate) fn request(&self, request: EngineRequest) {
        match (&self.mailbox, request) {
            (_, EngineRequest::Inspect { number, program, memory_bytes }) => {
                if !self.inspector.ask(Question { number, program, memory_bytes }) {
                    let why = "this node checks no programs any more; restart it".into();
                    let result = Err(NotRunnable::Unchecked(why));
                    (self.replies)(EngineReply::Inspected { number, result });
                }
            }
            (Ok(mailbox), request) => mailbox.put(Mail::Request(request)),
            (Err(error), EngineRequest::Run { run, .. } | EngineRequest::Prepare { run, .. }) => {
                (self.replies)(EngineReply::Broken { run, error: error.clone() });
            }
            (Err(_), _) => {}
        }
    }

    /// Percent of a processor that each task gets from now on, 1 to 100; also those that run.
    pub(crate) fn share(&self, percent: u8) {
        if let Ok(mailbox) = &self.mailbox {
            mailbox.put(Mail::Share(percent.clamp(1, 100)));
        }
    }

    /// Whether anything runs or waits here, as it changes.
    pub(crate) fn works(&self) -> watch::Receiver<bool> {
        self.works.clone()
    }

    /// Ends all tasks at once; nothing is answered after it returned.
    pub(crate) fn stop(&self) {
        if let Ok(mailbox) = &self.mailbox {
            mailbox.put(Mail::Stop);
        }
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            drop(thread.join());
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop();
    }
}
