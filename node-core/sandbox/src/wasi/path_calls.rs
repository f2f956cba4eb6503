//! Host functions on paths.

use super::Host;
use super::device::{Device, below};
use super::errno::{Done, Errno};
use super::fd_calls::{put_device, put_stat, set_times};
use super::fds::{Descriptor, FLAGS_ALL, RIGHT_WRITE, RIGHTS_ALL, Target};
use super::fs::ROOT;
use crate::memory::GuestMemory;

type Memory<'a> = dyn GuestMemory + 'a;

/// Longer ones are refused before they are copied.
const MAX_PATH: u32 = 4096;

const CREATE: u32 = 1;
const DIRECTORY: u32 = 2;
const EXCLUSIVE: u32 = 4;
const TRUNCATE: u32 = 8;

fn path(memory: &Memory<'_>, at: u32, len: u32) -> Done<String> {
    if len > MAX_PATH {
        return Err(Errno::NameTooLong.into());
    }
    String::from_utf8(memory.bytes(at, len)?).map_err(|_| Errno::IlSeq.into())
}

#[allow(clippy::too_many_arguments)] // preview 1 has it so
pub(super) fn path_open(
    host: &mut Host,
    memory: &mut Memory<'_>,
    fd: u32,
    _lookup: u32,
    at: u32,
    len: u32,
    oflags: u32,
    base: u64,
    inheriting: u64,
    flags: u32,
    opened: u32,
) -> Done {
    let dir = host.fds.dir(fd)?;
    host.fds.room()?;
    memory.check(opened, 4)?;
    let wants_dir = oflags & DIRECTORY != 0;
    if flags & !FLAGS_ALL != 0 || oflags & !15 != 0 || (wants_dir && oflags & (CREATE | TRUNCATE) != 0) {
        return Err(Errno::Inval.into());
    }
    let path = path(memory, at, len)?;
    if let (ROOT, Some(swarm), Some(parts)) = (dir, &host.swarm, below(&path)) {
        let device = match Device::open(&parts, swarm) {
            Ok(_) if wants_dir => return Err(Errno::NotDir.into()),
            Ok(_) if oflags & CREATE != 0 && oflags & EXCLUSIVE != 0 => return Err(Errno::Exist.into()),
            opened => opened?,
        };
        let (target, rights) = (Target::Device(device), base & RIGHTS_ALL);
        let number = host.fds.insert(Descriptor { target, rights, inheriting: 0, flags: flags as u16 });
        return Ok(memory.put_u32(opened, number)?);
    }
    let place = host.tree.resolve(dir, &path)?;
    let date = host.clock.date();
    let (ino, is_new) = match host.tree.at(&place) {
        Ok(_) if oflags & CREATE != 0 && oflags & EXCLUSIVE != 0 => return Err(Errno::Exist.into()),
        Ok(ino) => (ino, false),
        Err(stop) if oflags & CREATE == 0 || stop != Errno::NoEnt.into() => return Err(stop),
        Err(_) if place.must_be_dir => return Err(Errno::IsDir.into()),
        Err(_) => (host.tree.create(&place, false, date)?, true),
    };
    let target = match host.tree.is_dir(ino) {
        true if !wants_dir && (base & RIGHT_WRITE != 0 || oflags & (CREATE | TRUNCATE) != 0) => {
            return Err(Errno::IsDir.into());
        }
        true => Target::Dir { ino, preopened: false },
        false if wants_dir => return Err(Errno::NotDir.into()),
        false => Target::File { ino, at: 0 },
    };
    if oflags & TRUNCATE != 0 && !is_new {
        host.tree.resize(ino, 0, &mut host.output, date)?;
    }
    host.tree.open(ino)?;
    let rights = base & RIGHTS_ALL;
    let inheriting = inheriting & RIGHTS_ALL;
    let number = host.fds.insert(Descriptor { target, rights, inheriting, flags: flags as u16 });
    Ok(memory.put_u32(opened, number)?)
}

pub(super) fn path_create_directory(
    host: &mut Host,
    memory: &mut Memory<'_>,
    fd: u32,
    at: u32,
    len: u32,
) -> Done {
    let dir = host.fds.dir(fd)?;
    let path = path(memory, at, len)?;
    let place = host.tree.resolve(dir, &path)?;
    let date = host.clock.date();
    host.tree.create(&place, true, date).map(|_| ())
}

pub(super) fn path_filestat_get(
    host: &mut Host,
    memory: &mut Memory<'_>,
    fd: u32,
    _flags: u32,
    at: u32,
    len: u32,
    stat: u32,
) -> Done {
    let dir = host.fds.dir(fd)?;
    let path = path(memory, at, len)?;
    if let (ROOT, Some(swarm), Some(parts)) = (dir, &host.swarm, below(&path)) {
        Device::open(&parts, swarm)?;
        return put_device(memory, stat);
    }
    let ino = host.tree.at(&host.tree.resolve(dir, &path)?)?;
    put_stat(memory, stat, &host.tree.stat(ino)?)
}

#[allow(clippy::too_many_arguments)]
pub(super) fn path_filestat_set_times(
    host: &mut Host,
    memory: &mut Memory<'_>,
    fd: u32,
    _flags: u32,
    at: u32,
    len: u32,
    atim: u64,
    mtim: u64,
    times: u32,
) -> Done {
    let dir = host.fds.dir(fd)?;
    let path = path(memory, at, len)?;
    let ino = host.tree.at(&host.tree.resolve(dir, &path)?)?;
    set_times(host, ino, atim, mtim, times)
}

pub(super) fn path_unlink_file(host: &mut Host, memory: &mut Memory<'_>, fd: u32, at: u32, len: u32) -> Done {
    remove(host, memory, fd, at, len, false)
}

pub(super) fn path_remove_directory(
    host: &mut Host,
    memory: &mut Memory<'_>,
    fd: u32,
    at: u32,
    len: u32,
) -> Done {
    remove(host, memory, fd, at, len, true)
}

fn remove(host: &mut Host, memory: &mut Memory<'_>, fd: u32, at: u32, len: u32, dirs: bool) -> Done {
    let dir = host.fds.dir(fd)?;
    let path = path(memory, at, len)?;
    let place = host.tree.resolve(dir, &path)?;
    let date = host.clock.date();
    host.tree.remove(&place, dirs, &mut host.output, date)
}

#[allow(clippy::too_many_arguments)]
pub(super) fn path_rename(
    host: &mut Host,
    memory: &mut Memory<'_>,
    fd: u32,
    old: u32,
    old_len: u32,
    new_fd: u32,
    new: u32,
    new_len: u32,
) -> Done {
    let (old_dir, new_dir) = (host.fds.dir(fd)?, host.fds.dir(new_fd)?);
    let old = path(memory, old, old_len)?;
    let new = path(memory, new, new_len)?;
    let old = host.tree.resolve(old_dir, &old)?;
    let new = host.tree.resolve(new_dir, &new)?;
    let date = host.clock.date();
    host.tree.rename(&old, &new, &mut host.output, date)
}

/// A file has one name here. Programs that want two copy.
#[allow(clippy::too_many_arguments)]
pub(super) fn path_link(
    _: &mut Host,
    _: &mut Memory<'_>,
    _old_fd: u32,
    _flags: u32,
    _old: u32,
    _old_len: u32,
    _new_fd: u32,
    _new: u32,
    _new_len: u32,
) -> Done {
    Err(Errno::NotSup.into())
}

pub(super) fn path_symlink(
    _: &mut Host,
    _: &mut Memory<'_>,
    _old: u32,
    _old_len: u32,
    _fd: u32,
    _new: u32,
    _new_len: u32,
) -> Done {
    Err(Errno::NotSup.into())
}

/// There are no symbolic links, so whatever is there is none.
#[allow(clippy::too_many_arguments)]
pub(super) fn path_readlink(
    host: &mut Host,
    memory: &mut Memory<'_>,
    fd: u32,
    at: u32,
    len: u32,
    _buf: u32,
    _buf_len: u32,
    _used: u32,
) -> Done {
    let dir = host.fds.dir(fd)?;
    let path = path(memory, at, len)?;
    host.tree.at(&host.tree.resolve(dir, &path)?)?;
    Err(Errno::Inval.into())
}
