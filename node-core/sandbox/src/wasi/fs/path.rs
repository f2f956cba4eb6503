//! From a path to a place in the tree, never out of it.

use super::super::errno::{Done, Errno};
use super::{Ino, ROOT, Tree};

/// As on Linux.
pub(super) const MAX_NAME: usize = 255;
/// As on Linux; holds for the whole way from `/`, too.
pub(super) const MAX_PATH: usize = 4096;

/// Where a path leads: a directory, and a name in it that need not exist.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Place<'a> {
    pub(in super::super) dir: Ino,
    /// `None`: the directory itself.
    pub(in super::super) name: Option<&'a str>,
    /// The path ends in `/`.
    pub(in super::super) must_be_dir: bool,
}

impl Tree {
    /// Follows `path` from directory `base`. `..` goes up, but never above `base`: that is
    /// what makes a descriptor a capability.
    pub(in super::super) fn resolve<'a>(&self, base: Ino, path: &'a str) -> Done<Place<'a>> {
        if path.is_empty() {
            return Err(Errno::NoEnt.into());
        }
        if path.len() > MAX_PATH {
            return Err(Errno::NameTooLong.into());
        }
        if path.starts_with('/') {
            return Err(Errno::NotCapable.into());
        }
        if path.contains('\0') {
            return Err(Errno::Inval.into());
        }
        let mut above = Vec::new();
        let mut dir = base;
        let mut name = None;
        for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
            if let Some(name) = name.take() {
                let next = self.child(dir, name)?;
                if !self.is_dir(next) {
                    return Err(Errno::NotDir.into());
                }
                above.push(dir);
                dir = next;
            }
            if part == ".." {
                dir = above.pop().ok_or(Errno::NotCapable)?;
            } else if part.len() > MAX_NAME {
                return Err(Errno::NameTooLong.into());
            } else {
                name = Some(part);
            }
        }
        let must_be_dir = path.ends_with('/') || path.ends_with("/.");
        Ok(Place { dir, name, must_be_dir })
    }

    /// Inode at a place; `Err` if nothing is there, or no directory where there must be one.
    pub(in super::super) fn at(&self, place: &Place<'_>) -> Done<Ino> {
        let ino = match place.name {
            Some(name) => self.child(place.dir, name)?,
            None => place.dir,
        };
        if place.must_be_dir && !self.is_dir(ino) { Err(Errno::NotDir.into()) } else { Ok(ino) }
    }

    /// The path from `/`; `None` for what hangs nowhere.
    pub(super) fn path_of(&self, ino: Ino) -> Option<String> {
        let mut parts = Vec::new();
        let mut at = ino;
        while at != ROOT {
            let home = self.node(at).ok()?.home.as_ref()?;
            parts.push(home.name.as_str());
            at = home.dir;
            // No path that was checked has more parts; a tampered snapshot may go in circles.
            if parts.len() > MAX_PATH {
                return None;
            }
        }
        parts.reverse();
        Some(parts.join("/"))
    }

    /// `Err` if an entry of `len` more bytes in `dir` had too long a path, or if `dir` was
    /// removed.
    pub(super) fn path_fits(&self, dir: Ino, len: usize) -> Done {
        let path = self.path_of(dir).ok_or(Errno::NoEnt)?;
        if path.len() + 1 + len > MAX_PATH { Err(Errno::NameTooLong.into()) } else { Ok(()) }
    }

    /// Whether `ino` is `dir` or lies below it.
    pub(super) fn lies_within(&self, ino: Ino, dir: Ino) -> bool {
        let mut at = ino;
        for _ in 0..=MAX_PATH {
            if at == dir {
                return true;
            }
            if at == ROOT {
                return false;
            }
            at = self.parent(at);
        }
        true
    }

    /// How many bytes the longest path below `dir` has.
    pub(super) fn longest_below(&self, dir: Ino) -> usize {
        let mut longest = 0;
        let mut left = vec![(dir, 0)];
        while let Some((dir, len)) = left.pop() {
            longest = longest.max(len);
            // Deeper than this only leads in circles.
            if len <= MAX_PATH {
                let names = self.names(dir).into_iter().flatten();
                left.extend(names.map(|(name, ino)| (*ino, len + 1 + name.len())));
            }
        }
        longest
    }
}
