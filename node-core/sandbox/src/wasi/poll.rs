//! `poll_oneoff`: nothing ever has to be waited for. Files and streams are always ready, and
//! a sleep moves the clock.

use super::Host;
use super::errno::{Done, Errno, Stop};
use super::fds::Target;
use crate::memory::GuestMemory;

const SUBSCRIPTION: u32 = 48;
const EVENT: u32 = 32;

const CLOCK: u8 = 0;
const FD_READ: u8 = 1;
const FD_WRITE: u8 = 2;

/// Flag of a clock subscription: its timeout is a date, not a duration.
const ABSTIME: u16 = 1;

struct Subscription {
    userdata: [u8; 8],
    what: What,
}

enum What {
    /// Nanoseconds from now until it is due.
    Clock(Result<u64, Errno>),
    Fd {
        tag: u8,
        fd: u32,
    },
}

impl Subscription {
    fn read(host: &Host, memory: &dyn GuestMemory, at: u32) -> Done<Self> {
        let mut s = [0; SUBSCRIPTION as usize];
        memory.read(at, &mut s)?;
        let u32_at = |i: usize| u32::from_le_bytes([s[i], s[i + 1], s[i + 2], s[i + 3]]);
        let u64_at = |i: usize| u64::from(u32_at(i)) | u64::from(u32_at(i + 4)) << 32;
        let what = match s[8] {
            CLOCK => {
                let timeout = u64_at(24);
                let absolute = u16::from_le_bytes([s[40], s[41]]) & ABSTIME != 0;
                What::Clock(match host.clock.show(u32_at(16)) {
                    Ok(now) if absolute => Ok(timeout.saturating_sub(now)),
                    Ok(_) => Ok(timeout),
                    Err(_) => Err(Errno::Inval),
                })
            }
            tag @ (FD_READ | FD_WRITE) => What::Fd { tag, fd: u32_at(16) },
            _ => return Err(Errno::Inval.into()),
        };
        Ok(Subscription { userdata: u64_at(0).to_le_bytes(), what })
    }
}

pub(super) fn poll_oneoff(
    host: &mut Host,
    memory: &mut dyn GuestMemory,
    subscriptions: u32,
    events: u32,
    count: u32,
    occurred: u32,
) -> Done {
    if count == 0 {
        return Err(Errno::Inval.into());
    }
    memory.check(subscriptions, u64::from(count) * u64::from(SUBSCRIPTION))?;
    memory.check(events, u64::from(count) * u64::from(EVENT))?;

    // First: how long until something is ready. A descriptor is at once, and so is an error.
    let mut wait = u64::MAX;
    for i in 0..count {
        wait = wait.min(match Subscription::read(host, memory, subscriptions + i * SUBSCRIPTION)?.what {
            What::Clock(Ok(ns)) => ns,
            What::Clock(Err(_)) | What::Fd { .. } => 0,
        });
    }

    // Then: what is ready by then. `wait` is measured from the unmoved clock throughout.
    let mut written = 0;
    for i in 0..count {
        let subscription = Subscription::read(host, memory, subscriptions + i * SUBSCRIPTION)?;
        let mut event = [0; EVENT as usize];
        event[..8].copy_from_slice(&subscription.userdata);
        match subscription.what {
            What::Clock(Ok(ns)) if ns > wait => continue,
            What::Clock(Ok(_)) => event[10] = CLOCK,
            What::Clock(Err(errno)) => event[8] = errno as u8,
            What::Fd { tag, fd } => {
                event[10] = tag;
                match ready(host, tag, fd) {
                    Ok(bytes) => event[16..24].copy_from_slice(&bytes.to_le_bytes()),
                    Err(Stop::Errno(errno)) => event[8] = errno as u8,
                    Err(halt) => return Err(halt),
                }
            }
        }
        memory.write(events + written * EVENT, &event)?;
        written += 1;
    }
    host.clock.sleep(wait);
    Ok(memory.put_u32(occurred, written)?)
}

/// How many bytes could be read from or written to `fd` now.
fn ready(host: &Host, tag: u8, fd: u32) -> Done<u64> {
    match &host.fds.get(fd)?.target {
        Target::Stdin { at } if tag == FD_READ => Ok((host.stdin.len() as u64).saturating_sub(*at)),
        Target::File { ino, at } if tag == FD_READ => Ok(host.tree.len(*ino)?.saturating_sub(*at)),
        // A pipe's worth: the number is advice.
        Target::File { .. } | Target::Stream(_) if tag == FD_WRITE => Ok(65_536),
        Target::Stdin { .. } | Target::Stream(_) | Target::File { .. } => Err(Errno::BadF.into()),
        Target::Dir { .. } => Err(Errno::BadF.into()),
        Target::Device(_) => Err(Errno::NotSup.into()),
    }
}
