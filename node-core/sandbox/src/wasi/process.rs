//! Exit, randomness, and the calls that mean nothing to a task alone in its world.

use super::errno::{Done, Errno};
use super::{Halt, Host};
use crate::memory::GuestMemory;
use rand_xoshiro::Xoshiro256StarStar;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

/// `argv[0]`: the same everywhere, since a program may print it.
pub const PROGRAM_NAME: &str = "task";

/// All randomness of a run. Statistical, not secret: the seed is known to whoever placed it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Random(Xoshiro256StarStar);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Random(Xoshiro256StarStar::seed_from_u64(seed))
    }
}

pub(super) fn random_get(host: &mut Host, memory: &mut dyn GuestMemory, buf: u32, len: u32) -> Done {
    memory.check(buf, len.into())?;
    let mut chunk = [0; 1024];
    let mut done = 0;
    while done < len {
        let n = (len - done).min(chunk.len() as u32);
        let part = &mut chunk[..n as usize];
        host.random.0.fill_bytes(part);
        // The check above bounds the sum.
        memory.write(buf + done, part)?;
        done += n;
    }
    Ok(())
}

pub(super) fn proc_exit(_: &mut Host, _: &mut dyn GuestMemory, code: u32) -> Done {
    Err(Halt::Exit(code).into())
}

/// There are no signals to raise; a libc then falls back to exiting or trapping.
pub(super) fn proc_raise(_: &mut Host, _: &mut dyn GuestMemory, _signal: u32) -> Done {
    Err(Errno::NoSys.into())
}

/// There is nobody to yield to.
pub(super) fn sched_yield(_: &mut Host, _: &mut dyn GuestMemory) -> Done {
    Ok(())
}

pub(super) fn sock_accept(
    h: &mut Host,
    _: &mut dyn GuestMemory,
    fd: u32,
    _flags: u32,
    _accepted: u32,
) -> Done {
    no_socket(h, fd)
}

#[allow(clippy::too_many_arguments)] // preview 1 has it so
pub(super) fn sock_recv(
    host: &mut Host,
    _: &mut dyn GuestMemory,
    fd: u32,
    _iovs: u32,
    _count: u32,
    _flags: u32,
    _read: u32,
    _out_flags: u32,
) -> Done {
    no_socket(host, fd)
}

pub(super) fn sock_send(
    host: &mut Host,
    _: &mut dyn GuestMemory,
    fd: u32,
    _iovs: u32,
    _count: u32,
    _flags: u32,
    _written: u32,
) -> Done {
    no_socket(host, fd)
}

pub(super) fn sock_shutdown(host: &mut Host, _: &mut dyn GuestMemory, fd: u32, _how: u32) -> Done {
    no_socket(host, fd)
}

/// There is no network: whatever `fd` is, it is no socket.
fn no_socket(host: &Host, fd: u32) -> Done {
    host.fds.get(fd)?;
    Err(Errno::NotSock.into())
}
