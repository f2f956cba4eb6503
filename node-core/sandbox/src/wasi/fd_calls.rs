//! Host functions on descriptors.

use super::Host;
use super::errno::{Done, Errno};
use super::fds::{FLAG_APPEND, FLAG_NONBLOCK, FLAGS_ALL, RIGHT_READ, RIGHT_WRITE, Target};
use super::fs::{ROOT, Stat, Times};
use crate::memory::GuestMemory;
use crate::swarm::MESSAGE_MAX;

type Memory<'a> = dyn GuestMemory + 'a;

/// Buffers a call may name; those above wait for the next call, as a short read or write.
/// As on Linux.
const MAX_IOVS: u32 = 1024;

const DIRENT: usize = 24;

pub(super) const TYPE_DIR: u8 = 3;
pub(super) const TYPE_FILE: u8 = 4;
/// A socket that keeps messages apart: no libc takes it for a terminal.
const TYPE_DEVICE: u8 = 5;

/// The path under which a libc finds the preopened directory.
const ROOT_PATH: &[u8] = b"/";

/// The buffers of a scattered read or write: address and length, all within memory.
fn buffers(memory: &Memory<'_>, iovs: u32, count: u32) -> Done<(Vec<(u32, u32)>, u64)> {
    memory.check(iovs, u64::from(count) * 8)?;
    let mut buffers = Vec::new();
    let mut total = 0;
    for i in 0..count.min(MAX_IOVS) {
        let at = memory.u32(iovs + i * 8)?;
        let len = memory.u32(iovs + i * 8 + 4)?;
        memory.check(at, len.into())?;
        total += u64::from(len);
        if len > 0 {
            buffers.push((at, len));
        }
    }
    Ok((buffers, total))
}

/// Copies the task's buffers into `into`, until one of both is at its end.
fn gather(memory: &Memory<'_>, buffers: &[(u32, u32)], mut into: &mut [u8]) -> Done {
    for (at, len) in buffers {
        let (part, rest) = into.split_at_mut(into.len().min(*len as usize));
        memory.read(*at, part)?;
        into = rest;
    }
    Ok(())
}

/// Copies `from` to the task's buffers, until one of both is at its end.
fn scatter(memory: &mut Memory<'_>, buffers: &[(u32, u32)], mut from: &[u8]) -> Done<u32> {
    let mut copied = 0;
    for (at, len) in buffers {
        let (part, rest) = from.split_at(from.len().min(*len as usize));
        memory.write(*at, part)?;
        copied += part.len() as u64;
        from = rest;
    }
    // Overlapping buffers can add up to more than an address space; the rest is a short read.
    Ok(u32::try_from(copied).unwrap_or(u32::MAX))
}

pub(super) fn fd_read(
    host: &mut Host,
    memory: &mut Memory<'_>,
    fd: u32,
    iovs: u32,
    count: u32,
    read: u32,
) -> Done {
    let descriptor = host.fds.get_mut(fd)?;
    descriptor.may(RIGHT_READ)?;
    memory.check(read, 4)?;
    let (buffers, total) = buffers(memory, iovs, count)?;
    let n = match &mut descriptor.target {
        Target::Stdin { at } => {
            let from = usize::try_from(*at).ok().and_then(|at| host.stdin.get(at..)).unwrap_or(&[]);
            let n = scatter(memory, &buffers, from)?;
            *at = at.saturating_add(n.into());
            n
        }
        Target::File { ino, at } => {
            let n = scatter(memory, &buffers, host.tree.content(*ino)?.from(*at))?;
            *at = at.saturating_add(n.into());
            n
        }
        Target::Dir { .. } => return Err(Errno::IsDir.into()),
        Target::Stream(_) => return Err(Errno::BadF.into()),
        Target::Device(device) => {
            let swarm = host.swarm.as_mut().ok_or(Errno::Io)?;
            let found = device.read(swarm, total, descriptor.flags & FLAG_NONBLOCK == 0)?;
            scatter(memory, &buffers, &found)?
        }
    };
    Ok(memory.put_u32(read, n)?)
}

pub(super) fn fd_pread(
    host: &mut Host,
    memory: &mut Memory<'_>,
    fd: u32,
    iovs: u32,
    count: u32,
    offset: u64,
    read: u32,
) -> Done {
    let descriptor = host.fds.get(fd)?;
    descriptor.may(RIGHT_READ)?;
    memory.check(read, 4)?;
    let (buffers, _) = buffers(memory, iovs, count)?;
    let from = match &descriptor.target {
        Target::Stdin { .. } => {
            usize::try_from(offset).ok().and_then(|at| host.stdin.get(at..)).unwrap_or(&[])
        }
        Target::File { ino, .. } => host.tree.content(*ino)?.from(offset),
        Target::Dir { .. } => return Err(Errno::IsDir.into()),
        Target::Stream(_) | Target::Device(_) => return Err(Errno::SPipe.into()),
    };
    let n = scatter(memory, &buffers, from)?;
    Ok(memory.put_u32(read, n)?)
}

pub(super) fn fd_write(
    host: &mut Host,
    memory: &mut Memory<'_>,
    fd: u32,
    iovs: u32,
    count: u32,
    written: u32,
) -> Done {
    let date = host.clock.date();
    let descriptor = host.fds.get_mut(fd)?;
    descriptor.may(RIGHT_WRITE)?;
    memory.check(written, 4)?;
    let (buffers, total) = buffers(memory, iovs, count)?;
    match &mut descriptor.target {
        Target::Stream(stream) => {
            host.output.append(*stream, total, |into| gather(memory, &buffers, into))?;
        }
        Target::File { ino, at } => {
            if descriptor.flags & FLAG_APPEND != 0 {
                *at = host.tree.len(*ino)?;
            }
            if total > 0 {
                let into = host.tree.write(*ino, *at, total, &mut host.output, date)?;
                gather(memory, &buffers, into)?;
                *at = at.saturating_add(total);
            }
        }
        Target::Device(device) => {
            // More than the longest of all.
            let len = total.min(2 * MESSAGE_MAX as u64) as usize;
            let mut data = vec![0; len];
            gather(memory, &buffers, &mut data)?;
            device.write(host.swarm.as_mut().ok_or(Errno::Io)?, &mut host.output, &data)?;
        }
        Target::Stdin { .. } | Target::Dir { .. } => return Err(Errno::BadF.into()),
    }
    // More than an address space would have run into the output limit: saturate all the same.
    Ok(memory.put_u32(written, u32::try_from(total).unwrap_or(u32::MAX))?)
}

pub(super) fn fd_pwrite(
    host: &mut Host,
    memory: &mut Memory<'_>,
    fd: u32,
    iovs: u32,
    count: u32,
    offset: u64,
    written: u32,
) -> Done {
    let date = host.clock.date();
    let descriptor = host.fds.get(fd)?;
    descriptor.may(RIGHT_WRITE)?;
    memory.check(written, 4)?;
    let (buffers, total) = buffers(memory, iovs, count)?;
    match &descriptor.target {
        Target::File { ino, .. } if total > 0 => {
            let into = host.tree.write(*ino, offset, total, &mut host.output, date)?;
            gather(memory, &buffers, into)?;
        }
        Target::File { .. } => {}
        Target::Stream(_) | Target::Stdin { .. } | Target::Device(_) => return Err(Errno::SPipe.into()),
        Target::Dir { .. } => return Err(Errno::BadF.into()),
    }
    Ok(memory.put_u32(written, u32::try_from(total).unwrap_or(u32::MAX))?)
}

pub(super) fn fd_seek(
    host: &mut Host,
    memory: &mut Memory<'_>,
    fd: u32,
    offset: u64,
    whence: u32,
    position: u32,
) -> Done {
    memory.check(position, 8)?;
    let offset = offset as i64;
    let descriptor = host.fds.get_mut(fd)?;
    let (at, len) = match &mut descriptor.target {
        Target::Stdin { at } => (at, host.stdin.len() as u64),
        Target::File { ino, at } => (at, host.tree.len(*ino)?),
        Target::Stream(_) | Target::Device(_) => return Err(Errno::SPipe.into()),
        Target::Dir { .. } => return Err(Errno::BadF.into()),
    };
    let base = match whence {
        0 => 0,
        1 => *at,
        2 => len,
        _ => return Err(Errno::Inval.into()),
    };
    // Positions stay within i64, as everywhere else.
    let target =
        base.checked_add_signed(offset).filter(|at| i64::try_from(*at).is_ok()).ok_or(Errno::Inval)?;
    *at = target;
    Ok(memory.put_u64(position, target)?)
}

pub(super) fn fd_tell(host: &mut Host, memory: &mut Memory<'_>, fd: u32, position: u32) -> Done {
    fd_seek(host, memory, fd, 0, 1, position)
}

pub(super) fn fd_close(host: &mut Host, _: &mut Memory<'_>, fd: u32) -> Done {
    let closed = host.fds.remove(fd)?;
    if let Some(ino) = closed.ino() {
        host.tree.close(ino, &mut host.output);
    }
    Ok(())
}

pub(super) fn fd_renumber(host: &mut Host, _: &mut Memory<'_>, from: u32, to: u32) -> Done {
    if let Some(ino) = host.fds.renumber(from, to)?.and_then(|closed| closed.ino()) {
        host.tree.close(ino, &mut host.output);
    }
    Ok(())
}

pub(super) fn fd_advise(
    host: &mut Host,
    _: &mut Memory<'_>,
    fd: u32,
    _offset: u64,
    _len: u64,
    advice: u32,
) -> Done {
    match host.fds.get(fd)?.target {
        Target::File { .. } if advice <= 5 => Ok(()),
        Target::File { .. } => Err(Errno::Inval.into()),
        Target::Dir { .. } => Err(Errno::BadF.into()),
        Target::Stdin { .. } | Target::Stream(_) | Target::Device(_) => Err(Errno::SPipe.into()),
    }
}

pub(super) fn fd_allocate(host: &mut Host, _: &mut Memory<'_>, fd: u32, offset: u64, len: u64) -> Done {
    let end = offset.checked_add(len).filter(|_| len > 0).ok_or(Errno::Inval)?;
    let ino = writable_file(host, fd)?;
    if end > host.tree.len(ino)? {
        let date = host.clock.date();
        host.tree.resize(ino, end, &mut host.output, date)?;
    }
    Ok(())
}

pub(super) fn fd_filestat_set_size(host: &mut Host, _: &mut Memory<'_>, fd: u32, size: u64) -> Done {
    let ino = writable_file(host, fd)?;
    if size != host.tree.len(ino)? {
        let date = host.clock.date();
        host.tree.resize(ino, size, &mut host.output, date)?;
    }
    Ok(())
}

fn writable_file(host: &Host, fd: u32) -> Done<u64> {
    let descriptor = host.fds.get(fd)?;
    match descriptor.target {
        Target::File { ino, .. } => descriptor.may(RIGHT_WRITE).map(|()| ino),
        _ => Err(Errno::Inval.into()),
    }
}

/// Nothing is more durable than memory here.
pub(super) fn fd_sync(host: &mut Host, _: &mut Memory<'_>, fd: u32) -> Done {
    host.fds.get(fd).map(|_| ())
}

pub(super) fn fd_datasync(host: &mut Host, memory: &mut Memory<'_>, fd: u32) -> Done {
    fd_sync(host, memory, fd)
}

pub(super) fn fd_fdstat_get(host: &mut Host, memory: &mut Memory<'_>, fd: u32, stat: u32) -> Done {
    let descriptor = host.fds.get(fd)?;
    let mut bytes = [0; 24];
    bytes[0] = match &descriptor.target {
        Target::Dir { .. } => TYPE_DIR,
        // The streams are what `prog < in > out` makes of them, not a terminal.
        Target::File { .. } | Target::Stdin { .. } | Target::Stream(_) => TYPE_FILE,
        Target::Device(_) => TYPE_DEVICE,
    };
    bytes[2..4].copy_from_slice(&descriptor.flags.to_le_bytes());
    bytes[8..16].copy_from_slice(&descriptor.rights.to_le_bytes());
    bytes[16..24].copy_from_slice(&descriptor.inheriting.to_le_bytes());
    Ok(memory.write(stat, &bytes)?)
}

pub(super) fn fd_fdstat_set_flags(host: &mut Host, _: &mut Memory<'_>, fd: u32, flags: u32) -> Done {
    let descriptor = host.fds.get_mut(fd)?;
    if flags & !FLAGS_ALL != 0 {
        return Err(Errno::Inval.into());
    }
    descriptor.flags = flags as u16;
    Ok(())
}

/// Rights can be given up, never gained.
pub(super) fn fd_fdstat_set_rights(
    host: &mut Host,
    _: &mut Memory<'_>,
    fd: u32,
    base: u64,
    inheriting: u64,
) -> Done {
    let descriptor = host.fds.get_mut(fd)?;
    if base & !descriptor.rights != 0 || inheriting & !descriptor.inheriting != 0 {
        return Err(Errno::NotCapable.into());
    }
    descriptor.rights = base;
    descriptor.inheriting = inheriting;
    Ok(())
}

pub(super) fn fd_filestat_get(host: &mut Host, memory: &mut Memory<'_>, fd: u32, stat: u32) -> Done {
    // Numbers that no node has, so that no program takes a stream for a file it knows.
    let stream =
        |number: u64, size| Stat { ino: u64::MAX - number, is_dir: false, size, times: Times::default() };
    let descriptor = host.fds.get(fd)?;
    let found = match descriptor.target {
        Target::File { ino, .. } | Target::Dir { ino, .. } => host.tree.stat(ino)?,
        Target::Stdin { .. } => stream(0, host.stdin.len() as u64),
        Target::Stream(which) => stream(1 + which as u64, host.output.len(which)),
        Target::Device(_) => return put_device(memory, stat),
    };
    put_stat(memory, stat, &found)
}

/// Facts about a file under `/swarm`.
pub(super) fn put_device(memory: &mut Memory<'_>, at: u32) -> Done {
    put_stat(memory, at, &Stat { ino: u64::MAX - 3, is_dir: false, size: 0, times: Times::default() })?;
    Ok(memory.write(at + 16, &[TYPE_DEVICE])?)
}

pub(super) fn put_stat(memory: &mut Memory<'_>, at: u32, stat: &Stat) -> Done {
    let mut bytes = [0; 64];
    // Device 1 holds everything.
    bytes[0..8].copy_from_slice(&1u64.to_le_bytes());
    bytes[8..16].copy_from_slice(&stat.ino.to_le_bytes());
    bytes[16] = if stat.is_dir { TYPE_DIR } else { TYPE_FILE };
    bytes[24..32].copy_from_slice(&1u64.to_le_bytes());
    bytes[32..40].copy_from_slice(&stat.size.to_le_bytes());
    bytes[40..48].copy_from_slice(&stat.times.accessed.to_le_bytes());
    bytes[48..56].copy_from_slice(&stat.times.modified.to_le_bytes());
    bytes[56..64].copy_from_slice(&stat.times.changed.to_le_bytes());
    Ok(memory.write(at, &bytes)?)
}

pub(super) fn fd_filestat_set_times(
    host: &mut Host,
    _: &mut Memory<'_>,
    fd: u32,
    atim: u64,
    mtim: u64,
    flags: u32,
) -> Done {
    let ino = host.fds.get(fd)?.ino().ok_or(Errno::NotSup)?;
    set_times(host, ino, atim, mtim, flags)
}

pub(super) fn set_times(host: &mut Host, ino: u64, atim: u64, mtim: u64, flags: u32) -> Done {
    let now = host.clock.date();
    let times = host.tree.times_mut(ino)?;
    let pick = |old, given, bits| match bits {
        0 => Ok(old),
        1 => Ok(given),
        2 => Ok(now),
        _ => Err(Errno::Inval),
    };
    let accessed = pick(times.accessed, atim, flags & 3)?;
    let modified = pick(times.modified, mtim, flags >> 2)?;
    *times = Times { accessed, modified, changed: now };
    Ok(())
}

/// Every failure must be `BadF`: a libc asks 3, 4, … until it gets that, and gives up on
/// anything else.
pub(super) fn fd_prestat_get(host: &mut Host, memory: &mut Memory<'_>, fd: u32, prestat: u32) -> Done {
    preopened(host, fd)?;
    memory.put_u32(prestat, 0)?;
    memory.check(prestat, 8)?;
    Ok(memory.put_u32(prestat + 4, ROOT_PATH.len() as u32)?)
}

pub(super) fn fd_prestat_dir_name(
    host: &mut Host,
    memory: &mut Memory<'_>,
    fd: u32,
    path: u32,
    len: u32,
) -> Done {
    preopened(host, fd)?;
    if (len as usize) < ROOT_PATH.len() {
        return Err(Errno::NameTooLong.into());
    }
    Ok(memory.write(path, ROOT_PATH)?)
}

fn preopened(host: &Host, fd: u32) -> Done {
    match host.fds.get(fd)?.target {
        Target::Dir { preopened: true, ino: ROOT } => Ok(()),
        _ => Err(Errno::BadF.into()),
    }
}

/// Cookies: 0 before `.`, 1 before `..`, and from then on the number of the entry before,
/// plus one. They stay good while other entries are removed.
pub(super) fn fd_readdir(
    host: &mut Host,
    memory: &mut Memory<'_>,
    fd: u32,
    buf: u32,
    len: u32,
    cookie: u64,
    used: u32,
) -> Done {
    let descriptor = host.fds.get(fd)?;
    descriptor.may(RIGHT_READ).or_else(|_| descriptor.may(RIGHT_READDIR))?;
    let dir = host.fds.dir(fd)?;
    memory.check(buf, len.into())?;
    memory.check(used, 4)?;
    let dots = [(0, dir, "."), (1, host.tree.parent(dir), "..")];
    let dots = dots.into_iter().filter(|(number, ..)| *number >= cookie);
    // Node numbers begin at 1 (`/`), entries at 2: so an entry's cookie is its own number.
    let entries = host.tree.entries(dir, cookie.saturating_sub(1))?;
    let entries = entries.into_iter().map(|(ino, name)| (ino, ino, name));

    let mut at = 0;
    for (number, ino, name) in dots.chain(entries) {
        let mut entry = Vec::with_capacity(DIRENT + name.len());
        entry.extend((number + 1).to_le_bytes());
        entry.extend(ino.to_le_bytes());
        entry.extend((name.len() as u32).to_le_bytes());
        let is_dir = host.tree.is_dir(ino);
        entry.extend([if is_dir { TYPE_DIR } else { TYPE_FILE }, 0, 0, 0]);
        entry.extend(name.as_bytes());
        // An entry that is cut off says: call again with the cookie before it.
        let part = entry.len().min((len - at) as usize);
        memory.write(buf + at, &entry[..part])?;
        at += part as u32;
        if at == len {
            break;
        }
    }
    Ok(memory.put_u32(used, at)?)
}

/// A right of directories; a libc asks for it instead of the right to read.
const RIGHT_READDIR: u64 = 1 << 14;
