//! Messages between a node and its slots: MessagePack in frames, over a pipe there and a socket back.

use bytes::Bytes;
use node_core::ids::BlobId;
use node_core::{EngineTask, NoSnapshot};
use rustix::io::Errno;
use sandbox::Outcome;
use sandbox::module::Form;
use sandbox::swarm::{Letter, Marks, Said};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::os::fd::AsFd;

/// First bytes that a slot writes. Bytes before them (a loader's warning, say) are skipped.
pub(super) const GREETING: &[u8] = b"\0manyhands-slot\0";

/// Frames between them are of one build, so there is no version but this one.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Bytes that may come before the greeting.
const MAX_NOISE: usize = 4096;

/// Bytes of the first message: a few paths.
const MAX_FIRST: usize = 1 << 20;

/// From the node to a slot.
// Most messages are runs; a box would only add a step.
#[allow(clippy::large_enum_variant)]
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToSlot {
    /// Comes first, once: the process is a slot.
    Setup(Setup),
    /// Or this does, and nothing follows: the process checks or compiles one program.
    Compile(super::compiler::Order),
    Run(Order),
    /// Answers `FromSlot::Compile`.
    Compiled {
        run: u64,
        result: Result<(), NotCompiled>,
    },
    /// End this run; answered with `Killed`, unless it ended by itself before.
    Kill(u64),
    /// End this run, which ran too long; answered with `Ended`, if it has begun.
    TimeUp(u64),
    /// Answered with `Snapshot`, unless the run ended before.
    Snapshot {
        run: u64,
        stop: bool,
    },
    Pause {
        run: u64,
        paused: bool,
    },
    /// For the thread that this run is.
    Letters {
        run: u64,
        letters: Vec<Letter>,
    },
    /// Percent of a processor that tasks get from now on, 1 to 100.
    Share(u8),
}

/// Why a program was not compiled, in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum NotCompiled {
    /// No node can run it.
    Refused(String),
    /// This one cannot, now.
    Broken(String),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Setup {
    /// Paths as bytes: not all are text.
    pub(super) blob_dir: Bytes,
    pub(super) cache_dir: Bytes,
    /// Share of a processor that a task gets, percent, 1 to 100.
    pub(super) cpu_share: u8,
    /// Nobody waits for its tasks: programs too are compiled at the lowest priority.
    pub(super) background: bool,
}

/// Tells compilations of one build apart: the program, its memory limit in pages, and how it is made
/// suspendable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Known {
    pub(super) program: BlobId,
    pub(super) pages: u64,
    pub(super) form: Form,
}

/// One task to run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) run: u64,
    pub(super) task: EngineTask,
    /// It will come: what it goes on from, which is whole, is to lie ready, and nothing runs yet.
    pub(super) ahead: bool,
}

/// A snapshot as the slot that took it tells of it. It has written it, sealed, into the file that the manager gave it
/// last. The manager names it, since its node must not believe a slot about that: it would store content under
/// a name that is another's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SlotSnapshot {
    /// Bytes in the file, or why it could not be written, in words. Then the run goes on, and its next snapshot is
    /// whole.
    pub(super) written: Result<u64, String>,
    /// It is relative to the last whole snapshot of this run, or to the one that the run began from.
    pub(super) relative: bool,
    pub(super) root: [u8; 32],
    pub(super) fuel: u64,
    pub(super) pause_us: u64,
    /// Set of a thread: messages and questions that it covers.
    pub(super) marks: Option<Marks>,
}

/// From a slot to its node.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromSlot {
    /// Comes first, once.
    Ready {
        version: String,
    },
    /// This run waits for its program to be loaded or compiled.
    Preparing(u64),
    /// The program of this run does not lie in the cache.
    Compile(u64, Known),
    /// This run has begun after its `Preparing`. Not sent for runs whose program was at hand.
    Running(u64),
    Ended(u64, Outcome),
    Broken(u64, String),
    Killed(u64),
    /// The state for a coming run is in place.
    Prepared(u64),
    /// This run goes on from its snapshot.
    Resumed(u64),
    Snapshot {
        run: u64,
        taken: Result<SlotSnapshot, NoSnapshot>,
        stopped: bool,
    },
    /// Word of the thread that this run is.
    Said(u64, Said),
    /// Orders handed back unbegun, because the one before them takes its time.
    Returned(Vec<u64>),
}

/// Appends a message as a frame: its length in four bytes, then itself.
pub(super) fn put<M: Serialize>(into: &mut Vec<u8>, message: &M) -> Result<(), String> {
    let at = into.len();
    into.extend([0; 4]);
    if let Err(error) = rmp_serde::encode::write(into, message) {
        into.truncate(at);
        return Err(format!("a message to or from a slot cannot be encoded: {error}"));
    }
    match u32::try_from(into.len() - at - 4) {
        Ok(len) => into[at..at + 4].copy_from_slice(&len.to_le_bytes()),
        Err(_) => {
            into.truncate(at);
            return Err("a message to or from a slot is larger than 4 GiB".into());
        }
    }
    Ok(())
}

/// The first message that comes on stdin, and not a byte more. `None` if the node went away or does not
/// speak our language.
pub(super) fn first() -> Option<ToSlot> {
    let stdin = std::io::stdin();
    let fill = |buffer: &mut [u8]| {
        let mut read = 0;
        while read < buffer.len() {
            match rustix::io::read(&stdin, &mut buffer[read..]) {
                Ok(0) => return None,
                Ok(n) => read += n,
                Err(Errno::INTR) => {}
                Err(_) => return None,
            }
        }
        Some(())
    };
    let mut len = [0; 4];
    fill(&mut len)?;
    let len = u32::from_le_bytes(len) as usize;
    let mut frame = vec![0; Some(len).filter(|len| *len <= MAX_FIRST)?];
    fill(&mut frame)?;
    rmp_serde::from_slice(&frame).ok()
}

/// Frames out of a pipe.
#[derive(Default)]
pub(super) struct Frames {
    buffer: Vec<u8>,
    /// Number of bytes of `buffer` that were taken already.
    taken: usize,
    greeted: bool,
}

/// How a pipe was left after reading from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pipe {
    /// Nothing more for now.
    Empty,
    /// There is more.
    More,
    /// The other side is gone.
    Closed,
}

impl Frames {
    /// For the side that is not greeted.
    pub(super) fn without_greeting() -> Self {
        Frames { greeted: true, ..Frames::default() }
    }

    /// Reads what is there, up to about `most` bytes.
    pub(super) fn fill(&mut self, pipe: impl AsFd, most: usize) -> Result<Pipe, Errno> {
        const CHUNK: usize = 64 << 10;
        self.buffer.drain(..std::mem::take(&mut self.taken));
        // One large message does not keep its memory for good.
        if self.buffer.capacity() > 64 * CHUNK && self.buffer.len() < CHUNK {
            self.buffer.shrink_to(CHUNK);
        }
        let enough = self.buffer.len() + most;
        loop {
            let len = self.buffer.len();
            self.buffer.reserve(CHUNK);
            let read = rustix::io::read(&pipe, rustix::buffer::spare_capacity(&mut self.buffer));
            match read {
                Ok(0) => return Ok(Pipe::Closed),
                // A pipe gives all it has; asking again costs more than polling.
                Ok(n) if n < CHUNK => return Ok(Pipe::Empty),
                Ok(_) if self.buffer.len() >= enough => return Ok(Pipe::More),
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(Pipe::Empty),
                Err(error) => {
                    self.buffer.truncate(len);
                    return Err(error);
                }
            }
        }
    }

    /// The next whole message; `Err` when these are not our frames.
    pub(super) fn next<M: DeserializeOwned>(&mut self) -> Result<Option<M>, String> {
        if !self.greeted && !self.find_greeting()? {
            return Ok(None);
        }
        let Some((head, rest)) = self.buffer[self.taken..].split_first_chunk::<4>() else { return Ok(None) };
        let len = u32::from_le_bytes(*head) as usize;
        let Some(frame) = rest.get(..len) else { return Ok(None) };
        let message =
            rmp_serde::from_slice(frame).map_err(|error| format!("a message that is none: {error}"))?;
        self.taken += 4 + len;
        Ok(Some(message))
    }

    fn find_greeting(&mut self) -> Result<bool, String> {
        if let Some(at) = self.buffer.windows(GREETING.len()).position(|window| window == GREETING) {
            self.taken = at + GREETING.len();
            self.greeted = true;
            return Ok(true);
        }
        if self.buffer.len() > MAX_NOISE {
            let said = String::from_utf8_lossy(&self.buffer[..80]).into_owned();
            return Err(format!("it does not greet as a slot does, but says {said:?}"));
        }
        Ok(false)
    }
}
