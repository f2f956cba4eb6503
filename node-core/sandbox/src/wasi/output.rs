//! Output of a task, and the one account that bounds it.

use super::Halt;
use super::errno::{Done, Stop};
use crate::task::Limit;
use bytes::{Bytes, BytesMut};
use serde::{Deserialize, Serialize};

/// Standard output and error, and what all output together weighs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Output {
    stdout: BytesMut,
    stderr: BytesMut,
    #[serde(skip)]
    limit: u64,
    /// Bytes in both streams and in all files that are no longer as they came.
    #[serde(skip)]
    used: u64,
}

/// One of the two streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

impl Output {
    pub(super) fn new(limit: u64) -> Self {
        Output { stdout: BytesMut::new(), stderr: BytesMut::new(), limit, used: 0 }
    }

    /// Books `bytes` more, or ends the task.
    pub(super) fn charge(&mut self, bytes: u64) -> Done {
        match self.used.checked_add(bytes) {
            Some(used) if used <= self.limit => {
                self.used = used;
                Ok(())
            }
            _ => Err(self.full()),
        }
    }

    /// Gives back what a shortened or removed file held.
    pub(super) fn release(&mut self, bytes: u64) {
        self.used = self.used.saturating_sub(bytes);
    }

    /// Room for `len` bytes at the end of a stream; `fill` copies them. Bytes that fit below the
    /// limit are kept even when the rest ends the task: they may say why it wrote so much.
    pub(super) fn append(&mut self, stream: Stream, len: u64, fill: impl FnOnce(&mut [u8]) -> Done) -> Done {
        let fits = len.min(self.limit.saturating_sub(self.used)) as usize;
        let buffer = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        let before = buffer.len();
        buffer.resize(before + fits, 0);
        if let Err(stop) = fill(&mut buffer[before..]) {
            buffer.truncate(before);
            return Err(stop);
        }
        self.used += fits as u64;
        if (fits as u64) < len { Err(self.full()) } else { Ok(()) }
    }

    /// Sets the account right after a snapshot: `files` is what files hold of it.
    pub(super) fn account(&mut self, limit: u64, files: u64) -> Result<(), &'static str> {
        self.limit = limit;
        self.used = (self.stdout.len() as u64 + self.stderr.len() as u64).saturating_add(files);
        if self.used <= limit { Ok(()) } else { Err("it wrote more than its limit") }
    }

    pub(super) fn len(&self, stream: Stream) -> u64 {
        match stream {
            Stream::Stdout => self.stdout.len() as u64,
            Stream::Stderr => self.stderr.len() as u64,
        }
    }

    pub(super) fn finish(self) -> (Bytes, Bytes) {
        (self.stdout.freeze(), self.stderr.freeze())
    }

    fn full(&self) -> Stop {
        Halt::Limit(Limit::OutputBytes(self.limit)).into()
    }
}
