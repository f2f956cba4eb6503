//! The table of open descriptors.

use super::device::Device;
use super::errno::{Done, Errno};
use super::fs::{Ino, ROOT, Tree};
use super::output::Stream;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Open at once. Our choice: what Linux gives a process by default.
const MAX_OPEN: usize = 1024;

/// The descriptor of `/`, the first one that a libc asks about.
const PREOPENED: u32 = 3;

pub(super) const RIGHT_READ: u64 = 1 << 1;
pub(super) const RIGHT_WRITE: u64 = 1 << 6;
/// All 30 rights of preview 1.
pub(super) const RIGHTS_ALL: u64 = (1 << 30) - 1;

pub(super) const FLAG_APPEND: u16 = 1;
pub(super) const FLAG_NONBLOCK: u16 = 4;
/// APPEND, DSYNC, NONBLOCK, RSYNC, SYNC.
pub(super) const FLAGS_ALL: u32 = 31;

/// Object that a descriptor stands for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Target {
    Stdin { at: u64 },
    Stream(Stream),
    File { ino: Ino, at: u64 },
    Dir { ino: Ino, preopened: bool },
    Device(Device),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Descriptor {
    pub(super) target: Target,
    pub(super) rights: u64,
    pub(super) inheriting: u64,
    pub(super) flags: u16,
}

impl Descriptor {
    pub(super) fn may(&self, right: u64) -> Done {
        if self.rights & right == right { Ok(()) } else { Err(Errno::BadF.into()) }
    }

    /// Inode that the descriptor keeps open; `None` for standard input and streams.
    pub(super) fn ino(&self) -> Option<Ino> {
        match self.target {
            Target::File { ino, .. } | Target::Dir { ino, .. } => Some(ino),
            Target::Stdin { .. } | Target::Stream(_) | Target::Device(_) => None,
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Fds(BTreeMap<u32, Descriptor>);

impl Default for Fds {
    /// As a process starts: three streams and one open directory.
    fn default() -> Self {
        let standard = |target, rights| Descriptor { target, rights, inheriting: 0, flags: 0 };
        let write = RIGHTS_ALL & !RIGHT_READ;
        let root = Descriptor {
            target: Target::Dir { ino: ROOT, preopened: true },
            rights: RIGHTS_ALL,
            inheriting: RIGHTS_ALL,
            flags: 0,
        };
        Fds(BTreeMap::from([
            (0, standard(Target::Stdin { at: 0 }, RIGHTS_ALL & !RIGHT_WRITE)),
            (1, standard(Target::Stream(Stream::Stdout), write)),
            (2, standard(Target::Stream(Stream::Stderr), write)),
            (PREOPENED, root),
        ]))
    }
}

impl Fds {
    /// Whether every descriptor of a table out of a snapshot is on something that is there.
    pub(super) fn check(&self, tree: &Tree, swarm: bool) -> Result<(), &'static str> {
        if self.0.len() > MAX_OPEN {
            return Err("it has more files open than a task may have");
        }
        let right = |descriptor: &Descriptor| match descriptor.target {
            Target::Stdin { .. } | Target::Stream(_) => true,
            Target::File { ino, .. } => tree.content(ino).is_ok(),
            Target::Dir { ino, .. } => tree.is_dir(ino),
            Target::Device(_) => swarm,
        };
        if self.0.values().all(right) { Ok(()) } else { Err("it has files open that it does not have") }
    }

    /// Inodes that are open, once for each descriptor.
    pub(super) fn inos(&self) -> impl Iterator<Item = Ino> + '_ {
        self.0.values().filter_map(Descriptor::ino)
    }

    pub(super) fn get(&self, fd: u32) -> Done<&Descriptor> {
        self.0.get(&fd).ok_or(Errno::BadF.into())
    }

    pub(super) fn get_mut(&mut self, fd: u32) -> Done<&mut Descriptor> {
        self.0.get_mut(&fd).ok_or(Errno::BadF.into())
    }

    /// The directory behind `fd`, from which a path leads on.
    pub(super) fn dir(&self, fd: u32) -> Done<Ino> {
        match self.get(fd)?.target {
            Target::Dir { ino, .. } => Ok(ino),
            _ => Err(Errno::NotDir.into()),
        }
    }

    /// Whether one more would be one too many.
    pub(super) fn room(&self) -> Done {
        if self.0.len() < MAX_OPEN { Ok(()) } else { Err(Errno::MFile.into()) }
    }

    /// Under the lowest free number, as everywhere else.
    pub(super) fn insert(&mut self, descriptor: Descriptor) -> u32 {
        let mut fd = 0;
        for taken in self.0.keys() {
            if *taken != fd {
                break;
            }
            fd += 1;
        }
        self.0.insert(fd, descriptor);
        fd
    }

    pub(super) fn remove(&mut self, fd: u32) -> Done<Descriptor> {
        self.0.remove(&fd).ok_or(Errno::BadF.into())
    }

    /// Moves `from` over `to`; returns what `to` was.
    pub(super) fn renumber(&mut self, from: u32, to: u32) -> Done<Option<Descriptor>> {
        self.get(to)?;
        let moved = self.remove(from)?;
        Ok(self.0.insert(to, moved))
    }
}
