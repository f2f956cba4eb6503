//! Snapshots that a slot has written, until they have their names.
//!
//! A slot writes a snapshot into a file that the manager gave it, and says how long it is. A thread of its own
//! reads the file once and names it, so that neither the node nor the other slots wait for that. Snapshots are
//! named in the order in which they came: the next one may be relative to the one before.

use super::super::process::Process;
use super::super::wire::SlotSnapshot;
use super::mailbox::{Mail, Mailbox};
use super::working::Fate;
use super::{Job, Manager};
use crate::storage::{Draft, NoBlob, Staging};
use bytes::Bytes;
use node_core::content::BlobRef;
use node_core::{EngineReply, NoSnapshot, RunId};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

/// A snapshot as its slot tells of it.
pub(super) struct Told {
    pub(super) run: u64,
    pub(super) taken: SlotSnapshot,
    pub(super) stopped: bool,
    /// Slot, and number of its process.
    pub(super) of: (usize, u64),
}

/// A told snapshot with its name, or why it has none.
pub(in crate::engine) struct Settled {
    told: Told,
    result: Result<(BlobRef, Bytes), NoBlob>,
}

/// A handle to the thread. Dropped, it ends once what it has is named.
pub(super) struct Settler {
    work: Option<Sender<(Told, u64, Draft)>>,
    thread: Option<JoinHandle<()>>,
}

impl Settler {
    pub(super) fn start(mailbox: Arc<Mailbox>) -> io::Result<Settler> {
        let (work, given) = channel::<(Told, u64, Draft)>();
        let thread = std::thread::Builder::new().name("snapshots".into()).spawn(move || {
            for (told, len, draft) in given {
                let result = draft.finish(len);
                mailbox.put(Mail::Settled(Box::new(Settled { told, result })));
            }
        })?;
        Ok(Settler { work: Some(work), thread: Some(thread) })
    }

    fn settle(&self, told: Told, len: u64, draft: Draft) {
        if let Some(work) = &self.work {
            // It ends when this is dropped, and not before.
            drop(work.send((told, len, draft)));
        }
    }
}

impl Drop for Settler {
    fn drop(&mut self) {
        self.work = None;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// A file that a slot was given and has not told of.
pub(super) struct SlotFile(Draft);

impl SlotFile {
    pub(super) fn give(process: &Process, staging: &Staging) -> Result<SlotFile, String> {
        let (draft, writer) = staging.draft().map_err(|error| error.to_string())?;
        process.give(&writer).map_err(|error| format!("a slot could not be given a file: {error}"))?;
        // The only descriptor that can write is on its way.
        Ok(SlotFile(draft))
    }
}

impl Manager {
    /// A run whose snapshot is under way, unless nobody waits for it any more.
    fn waiting(&mut self, run: u64) -> Option<&mut Job> {
        let job = match self.stopping.iter().position(|job| job.run == run) {
            Some(at) => &mut self.stopping[at],
            None => {
                let (working, at) = self.holder(RunId(run))?;
                &mut working.given.jobs[at]
            }
        };
        Some(job).filter(|job| !job.killed)
    }

    /// Takes in what slots have told of.
    pub(super) fn settle(&mut self, told: Vec<Told>) {
        for told in told {
            let (at, _) = told.of;
            let Some(working) = self.slots.get_mut(at).and_then(Option::as_mut) else { continue };
            let file = working.file.take().filter(|_| working.asked > 0);
            let Some(SlotFile(draft)) = file else {
                self.deceived(&told, "that nobody asked for");
                continue;
            };
            working.asked -= 1;
            if working.asked > 0 {
                // It was asked for another meanwhile, and waits for a file to write it into.
                working.file = SlotFile::give(&working.process, &self.staging).ok();
            }
            if self.waiting(told.run).is_none() {
                continue;
            }
            match told.taken.written.clone() {
                Ok(len) => self.settler.settle(told, len, draft),
                Err(why) if told.stopped => self.deceived(&told, &format!("that is none: {why}")),
                Err(why) => {
                    let (run, taken) = (RunId(told.run), Err(NoSnapshot::Immobile(why)));
                    (self.replies)(EngineReply::Snapshot { run, taken, stopped: false });
                }
            }
        }
    }

    /// A snapshot has its name, or is none.
    pub(super) fn settled(&mut self, settled: Settled) {
        let Settled { told, result } = settled;
        let named = match (self.waiting(told.run), result) {
            // The snapshot is not wanted any more: its run was killed, or has ended meanwhile.
            (None, _) => Ok(None),
            (Some(job), Ok((blob, bytes))) => {
                let taken = job.named(told.taken.clone(), blob, bytes);
                taken.map(Some).ok_or_else(|| "that is relative to none".to_owned())
            }
            (Some(_), Err(why)) => Err(format!("that cannot be used: {why}")),
        };
        let (run, stopped) = (RunId(told.run), told.stopped);
        match named {
            Ok(taken) => {
                if stopped {
                    self.stopping.retain(|job| job.run != told.run);
                }
                if let Some(taken) = taken {
                    (self.replies)(EngineReply::Snapshot { run, taken: Ok(taken), stopped });
                }
            }
            Err(why) => self.deceived(&told, &why),
        }
    }

    /// Ends the process that gave such a snapshot. What it is at is broken, and so is the run of the snapshot,
    /// if it has stopped.
    fn deceived(&mut self, told: &Told, what: &str) {
        let fault = format!("gave a snapshot {what}");
        if let Some(at) = self.stopping.iter().position(|job| job.run == told.run) {
            let job = self.stopping.remove(at);
            self.broken_unless_killed(&job, format!("the slot's process {fault}"));
        }
        let (at, process) = told.of;
        if let Some(working) = self.slots.get_mut(at).and_then(Option::as_mut)
            && working.number == process
            && working.fate.is_none()
        {
            working.process.kill();
            working.fate = Some(Fate::Fault(fault));
        }
    }
}
