//! Where requests wait for the manager.

use super::super::wire::{Known, NotCompiled};
use super::settling::Settled;
use node_core::EngineRequest;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

// Most mails are runs; a box would only add a step.
#[allow(clippy::large_enum_variant)]
pub(in crate::engine) enum Mail {
    Request(EngineRequest),
    /// Percent of a processor for each task.
    Share(u8),
    /// The fate of a program that slots wait for.
    Compiled(Known, Result<(), NotCompiled>),
    /// A snapshot that a slot wrote.
    Settled(Box<Settled>),
    Stop,
}

pub(in crate::engine) struct Mailbox {
    mail: Mutex<Waiting>,
    wake: PipeWriter,
}

struct Waiting {
    mail: Vec<Mail>,
    /// The manager sleeps, and nobody has woken it yet.
    asleep: bool,
}

impl Mailbox {
    /// With the end of a pipe that is readable when there is mail.
    pub(super) fn new() -> io::Result<(Mailbox, PipeReader)> {
        let (woken, wake) = io::pipe()?;
        let mail = Mutex::new(Waiting { mail: Vec::new(), asleep: false });
        Ok((Mailbox { mail, wake }, woken))
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is mail; if not, whoever puts some wakes the manager.
    pub(super) fn has_mail(&self) -> bool {
        let mut waiting = self.waiting();
        waiting.asleep = waiting.mail.is_empty();
        !waiting.asleep
    }

    pub(super) fn take(&self) -> Vec<Mail> {
        let mut waiting = self.waiting();
        waiting.asleep = false;
        std::mem::take(&mut waiting.mail)
    }

    pub(in crate::engine) fn put(&self, mail: Mail) {
        let mut waiting = self.waiting();
        waiting.mail.push(mail);
        if std::mem::take(&mut waiting.asleep) {
            // One byte at a time is in this pipe, so it cannot be full.
            drop((&self.wake).write_all(&[0]));
        }
    }
}
