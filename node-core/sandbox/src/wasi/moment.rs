//! Time that is counted, not measured.

use super::Host;
use super::errno::{Done, Errno};
use crate::memory::GuestMemory;
use serde::{Deserialize, Serialize};

/// When every task begins: 2020-01-01 00:00:00 UTC. Our choice: late enough that certificates
/// and build stamps are not in the future by decades, and plainly not today.
const EPOCH_NS: u64 = 1_577_836_800_000_000_000;

/// Time that one reading takes, nanoseconds. Our choice: small, so that a program prints nearly
/// nothing as its duration, but not zero, so that a program which waits by reading does get there.
const READING_NS: u64 = 1_000;

const REALTIME: u32 = 0;
const MONOTONIC: u32 = 1;
const PROCESS: u32 = 2;
const THREAD: u32 = 3;

/// The task's own clock: it moves by readings and sleeps only.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Clock {
    /// Since the task began, nanoseconds.
    passed: u64,
}

impl Clock {
    /// The date, for time stamps of files; looking costs nothing.
    pub(super) fn date(&self) -> u64 {
        EPOCH_NS.saturating_add(self.passed)
    }

    /// Time that clock `id` shows, nanoseconds; `Err(Inval)` if there is no such clock.
    pub(super) fn show(&self, id: u32) -> Done<u64> {
        match id {
            REALTIME => Ok(self.date()),
            MONOTONIC | PROCESS | THREAD => Ok(self.passed),
            _ => Err(Errno::Inval.into()),
        }
    }

    pub(super) fn sleep(&mut self, ns: u64) {
        self.passed = self.passed.saturating_add(ns);
    }
}

pub(super) fn clock_res_get(host: &mut Host, memory: &mut dyn GuestMemory, id: u32, resolution: u32) -> Done {
    host.clock.show(id)?;
    Ok(memory.put_u64(resolution, READING_NS)?)
}

pub(super) fn clock_time_get(
    host: &mut Host,
    memory: &mut dyn GuestMemory,
    id: u32,
    _precision: u64,
    time: u32,
) -> Done {
    host.clock.sleep(READING_NS);
    Ok(memory.put_u64(time, host.clock.show(id)?)?)
}
