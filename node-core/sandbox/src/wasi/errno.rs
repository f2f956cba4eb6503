//! Error numbers of WASI preview 1, those that this host gives.

use super::Halt;
use crate::memory::OutOfBounds;
use crate::swarm::Wait;

/// Error number that a host function returns when it did not do what was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Errno {
    TooBig = 1,
    Again = 6,
    BadF = 8,
    Busy = 10,
    DQuot = 19,
    Exist = 20,
    Fault = 21,
    FBig = 22,
    IlSeq = 25,
    Inval = 28,
    Io = 29,
    IsDir = 31,
    MFile = 33,
    MsgSize = 35,
    NameTooLong = 37,
    NoEnt = 44,
    NoSpc = 51,
    NoSys = 52,
    NotDir = 54,
    NotEmpty = 55,
    NotSock = 57,
    NotSup = 58,
    Overflow = 61,
    SPipe = 70,
    /// The path leads out of the task's own world, or the descriptor lacks the right.
    NotCapable = 76,
}

/// Why a host function did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The task is told and goes on.
    Errno(Errno),
    /// The task ends here.
    Halt(Halt),
    /// The task is suspended in the call, and makes it again.
    Wait(Wait),
}

impl From<Wait> for Stop {
    fn from(wait: Wait) -> Self {
        Stop::Wait(wait)
    }
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Self {
        Stop::Errno(errno)
    }
}

impl From<OutOfBounds> for Stop {
    fn from(_: OutOfBounds) -> Self {
        Stop::Errno(Errno::Fault)
    }
}

impl From<Halt> for Stop {
    fn from(halt: Halt) -> Self {
        Stop::Halt(halt)
    }
}

/// Result of a host function.
pub(crate) type Done<T = ()> = Result<T, Stop>;
