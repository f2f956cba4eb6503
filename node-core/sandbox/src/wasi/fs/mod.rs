//! The task's files: a tree in memory that begins with the job's input files.

mod content;
mod path;
mod state;

pub(super) use content::Content;
pub(super) use path::Place;

use super::BadTask;
use super::errno::{Done, Errno};
use super::output::Output;
use crate::task::File;
use bytes::Bytes;
use path::{MAX_NAME, MAX_PATH};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Names a node for good; numbers are not used again.
pub(super) type Ino = u64;

/// The directory `/`.
pub(super) const ROOT: Ino = 1;

/// Files and directories at once. Our choice: a big source tree fits, and an endless loop
/// that creates empty files runs into "no space" while it is still harmless.
const MAX_NODES: usize = 65_536;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Tree {
    nodes: BTreeMap<Ino, Node>,
    next: Ino,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Node {
    kind: Kind,
    /// Where it hangs; `None` for `/` and for what was removed while open.
    home: Option<Home>,
    /// Descriptors on it; counted anew when a snapshot is read.
    #[serde(skip)]
    opened: u32,
    times: Times,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Home {
    dir: Ino,
    name: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Kind {
    File {
        content: Content,
        /// The path it was given under, while its content is what was given.
        given_as: Option<String>,
    },
    Dir {
        names: BTreeMap<String, Ino>,
    },
}

/// Time stamps, nanoseconds since 1970 on the task's own clock.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Times {
    pub(super) accessed: u64,
    pub(super) modified: u64,
    pub(super) changed: u64,
}

/// Answer of `stat`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stat {
    pub(super) ino: Ino,
    pub(super) is_dir: bool,
    pub(super) size: u64,
    pub(super) times: Times,
}

impl Tree {
    /// A tree of the given files and the directories that they need.
    pub(super) fn new(files: &[File]) -> Result<Tree, BadTask> {
        let mut tree = Tree { nodes: BTreeMap::new(), next: ROOT };
        tree.add(Kind::Dir { names: BTreeMap::new() }, None, 0);
        for file in files {
            let bad = |why| BadTask::File { path: file.path.chars().take(200).collect(), why };
            tree.give(file).map_err(bad)?;
        }
        Ok(tree)
    }

    fn give(&mut self, file: &File) -> Result<(), &'static str> {
        if file.path.len() > MAX_PATH {
            return Err("the path is longer than 4096 bytes; shorten it");
        }
        let mut dir = ROOT;
        let mut parts = file.path.split('/').peekable();
        while let Some(part) = parts.next() {
            match part {
                "" => return Err("the path is empty, absolute or holds '//'; write it like \"dir/name\""),
                "." | ".." => return Err("the path holds \".\" or \"..\"; write it like \"dir/name\""),
                _ if part.contains('\0') => return Err("the path holds a NUL character; rename it"),
                _ if part.len() > MAX_NAME => {
                    return Err("a name in it is longer than 255 bytes; shorten it");
                }
                _ => {}
            }
            if self.nodes.len() >= MAX_NODES {
                return Err("there are more than 65536 input files and directories; pack them into one file");
            }
            let last = parts.peek().is_none();
            dir = match self.child(dir, part) {
                Ok(_) if last => return Err("another input file has this path; give each its own"),
                Ok(ino) if self.is_dir(ino) => ino,
                Ok(_) => return Err("another input file has the path of its directory; rename one"),
                Err(_) if last => {
                    let content = Content::Given(file.data.clone());
                    let kind = Kind::File { content, given_as: Some(file.path.clone()) };
                    self.hang(kind, dir, part)
                }
                Err(_) => self.hang(Kind::Dir { names: BTreeMap::new() }, dir, part),
            };
        }
        Ok(())
    }

    fn add(&mut self, kind: Kind, home: Option<Home>, date: u64) -> Ino {
        let ino = self.next;
        self.next += 1;
        let times = Times { accessed: date, modified: date, changed: date };
        self.nodes.insert(ino, Node { kind, home, opened: 0, times });
        ino
    }

    /// Adds a node under a name that is free in a directory that exists.
    fn hang(&mut self, kind: Kind, dir: Ino, name: &str) -> Ino {
        let ino = self.add(kind, Some(Home { dir, name: name.into() }), 0);
        if let Ok(names) = self.names_mut(dir) {
            names.insert(name.into(), ino);
        }
        ino
    }

    fn node(&self, ino: Ino) -> Done<&Node> {
        // Only a snapshot that someone tampered with names a node that is not there.
        self.nodes.get(&ino).ok_or(Errno::Io.into())
    }

    fn node_mut(&mut self, ino: Ino) -> Done<&mut Node> {
        self.nodes.get_mut(&ino).ok_or(Errno::Io.into())
    }

    fn names(&self, dir: Ino) -> Done<&BTreeMap<String, Ino>> {
        match &self.node(dir)?.kind {
            Kind::Dir { names } => Ok(names),
            Kind::File { .. } => Err(Errno::NotDir.into()),
        }
    }

    fn names_mut(&mut self, dir: Ino) -> Done<&mut BTreeMap<String, Ino>> {
        match &mut self.node_mut(dir)?.kind {
            Kind::Dir { names } => Ok(names),
            Kind::File { .. } => Err(Errno::NotDir.into()),
        }
    }

    pub(super) fn is_dir(&self, ino: Ino) -> bool {
        self.names(ino).is_ok()
    }

    /// Inode that `name` stands for in directory `dir`; `Err(NoEnt)` if there is none.
    pub(super) fn child(&self, dir: Ino, name: &str) -> Done<Ino> {
        self.names(dir)?.get(name).copied().ok_or(Errno::NoEnt.into())
    }

    pub(super) fn stat(&self, ino: Ino) -> Done<Stat> {
        let node = self.node(ino)?;
        let (is_dir, size) = match &node.kind {
            Kind::File { content, .. } => (false, content.len()),
            Kind::Dir { .. } => (true, 0),
        };
        Ok(Stat { ino, is_dir, size, times: node.times })
    }

    /// Entries of `dir` in the order of their creation, which removing others does not
    /// disturb; each with its cookie, and those after `cookie` only.
    pub(super) fn entries(&self, dir: Ino, cookie: u64) -> Done<Vec<(Ino, &str)>> {
        let names = self.names(dir)?;
        let mut entries: Vec<_> =
            names.iter().filter(|(_, ino)| **ino > cookie).map(|(name, ino)| (*ino, name.as_str())).collect();
        entries.sort_unstable();
        Ok(entries)
    }

    /// The directory that holds `dir`; `/` is its own.
    pub(super) fn parent(&self, dir: Ino) -> Ino {
        self.node(dir).ok().and_then(|node| node.home.as_ref()).map_or(ROOT, |home| home.dir)
    }

    pub(super) fn create(&mut self, place: &Place<'_>, is_dir: bool, date: u64) -> Done<Ino> {
        let name = place.name.ok_or(Errno::Exist)?;
        if self.names(place.dir)?.contains_key(name) {
            return Err(Errno::Exist.into());
        }
        if self.nodes.len() >= MAX_NODES {
            return Err(Errno::NoSpc.into());
        }
        self.path_fits(place.dir, name.len())?;
        let kind = if is_dir {
            Kind::Dir { names: BTreeMap::new() }
        } else {
            Kind::File { content: Content::EMPTY, given_as: None }
        };
        let ino = self.add(kind, Some(Home { dir: place.dir, name: name.into() }), date);
        self.names_mut(place.dir)?.insert(name.into(), ino);
        self.touch(place.dir, date);
        Ok(ino)
    }

    /// Removes a file, or an empty directory.
    pub(super) fn remove(&mut self, place: &Place<'_>, dirs: bool, output: &mut Output, date: u64) -> Done {
        let name = place.name.ok_or(Errno::Busy)?;
        let ino = self.child(place.dir, name)?;
        match (&self.node(ino)?.kind, dirs) {
            (Kind::Dir { .. }, false) => return Err(Errno::IsDir.into()),
            (Kind::File { .. }, true) => return Err(Errno::NotDir.into()),
            (Kind::File { .. }, false) if place.must_be_dir => return Err(Errno::NotDir.into()),
            (Kind::Dir { names }, true) if !names.is_empty() => return Err(Errno::NotEmpty.into()),
            _ => {}
        }
        self.detach(place.dir, name, ino, output, date)
    }

    fn detach(&mut self, dir: Ino, name: &str, ino: Ino, output: &mut Output, date: u64) -> Done {
        self.names_mut(dir)?.remove(name);
        self.touch(dir, date);
        self.node_mut(ino)?.home = None;
        self.forget_if_unused(ino, output);
        Ok(())
    }

    /// As POSIX `rename`: what had the new name is replaced.
    pub(super) fn rename(
        &mut self,
        old: &Place<'_>,
        new: &Place<'_>,
        output: &mut Output,
        date: u64,
    ) -> Done {
        let (Some(old_name), Some(new_name)) = (old.name, new.name) else {
            return Err(Errno::Busy.into());
        };
        let ino = self.child(old.dir, old_name)?;
        let moves_dir = self.is_dir(ino);
        if !moves_dir && (old.must_be_dir || new.must_be_dir) {
            return Err(Errno::NotDir.into());
        }
        if moves_dir && self.lies_within(new.dir, ino) {
            return Err(Errno::Inval.into());
        }
        let replaced = self.child(new.dir, new_name).ok();
        match replaced {
            Some(same) if same == ino => return Ok(()),
            Some(other) => match &self.node(other)?.kind {
                Kind::Dir { .. } if !moves_dir => return Err(Errno::IsDir.into()),
                Kind::Dir { names } if !names.is_empty() => return Err(Errno::NotEmpty.into()),
                Kind::File { .. } if moves_dir => return Err(Errno::NotDir.into()),
                _ => {}
            },
            None => {}
        }
        let below = if moves_dir { self.longest_below(ino) } else { 0 };
        self.path_fits(new.dir, new_name.len() + below)?;
        self.names(new.dir)?;

        if let Some(other) = replaced {
            self.detach(new.dir, new_name, other, output, date)?;
        }
        self.names_mut(old.dir)?.remove(old_name);
        self.names_mut(new.dir)?.insert(new_name.into(), ino);
        self.node_mut(ino)?.home = Some(Home { dir: new.dir, name: new_name.into() });
        self.touch(old.dir, date);
        self.touch(new.dir, date);
        Ok(())
    }

    /// One more descriptor on `ino`.
    pub(super) fn open(&mut self, ino: Ino) -> Done {
        let node = self.node_mut(ino)?;
        node.opened = node.opened.saturating_add(1);
        Ok(())
    }

    /// One less; what has neither a name nor a descriptor is gone.
    pub(super) fn close(&mut self, ino: Ino, output: &mut Output) {
        if let Ok(node) = self.node_mut(ino) {
            node.opened = node.opened.saturating_sub(1);
        }
        self.forget_if_unused(ino, output);
    }

    fn forget_if_unused(&mut self, ino: Ino, output: &mut Output) {
        let unused = |node: &Node| node.home.is_none() && node.opened == 0;
        if ino != ROOT
            && self.nodes.get(&ino).is_some_and(unused)
            && let Some(Node { kind: Kind::File { content, .. }, .. }) = self.nodes.remove(&ino)
        {
            output.release(content.charged());
        }
    }

    pub(super) fn times_mut(&mut self, ino: Ino) -> Done<&mut Times> {
        Ok(&mut self.node_mut(ino)?.times)
    }

    fn touch(&mut self, ino: Ino, date: u64) {
        if let Ok(node) = self.node_mut(ino) {
            node.times.modified = date;
            node.times.changed = date;
        }
    }

    /// Files that are not what and where they were given, in path order.
    pub(super) fn finish(mut self) -> Vec<File> {
        let inos: Vec<Ino> = self.nodes.keys().copied().collect();
        let mut files = Vec::new();
        for ino in inos {
            let Some(path) = self.path_of(ino) else { continue };
            let Ok(Node { kind: Kind::File { content, given_as }, .. }) = self.node_mut(ino) else {
                continue;
            };
            if given_as.as_ref() != Some(&path) {
                files.push(File { path, data: std::mem::replace(content, Content::EMPTY).into_bytes() });
            }
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files
    }
}

/// Content of files.
impl Tree {
    pub(super) fn len(&self, ino: Ino) -> Done<u64> {
        self.content(ino).map(Content::len)
    }

    pub(super) fn content(&self, ino: Ino) -> Done<&Content> {
        match &self.node(ino)?.kind {
            Kind::File { content, .. } => Ok(content),
            Kind::Dir { .. } => Err(Errno::IsDir.into()),
        }
    }

    /// The `len` bytes at `at`, to be overwritten; the file grows as needed, within `output`.
    pub(super) fn write(
        &mut self,
        ino: Ino,
        at: u64,
        len: u64,
        output: &mut Output,
        date: u64,
    ) -> Done<&mut [u8]> {
        let end = at.checked_add(len).ok_or(Errno::Inval)?;
        let size = self.len(ino)?.max(end);
        let data = self.resize(ino, size, output, date)?;
        // `resize` made the file at least `end` long, and what is in memory fits a usize.
        data.get_mut(at as usize..end as usize).ok_or(Errno::Io.into())
    }

    /// Cuts or extends with zeros; from now on the content is the task's own.
    pub(super) fn resize(&mut self, ino: Ino, size: u64, output: &mut Output, date: u64) -> Done<&mut [u8]> {
        self.touch(ino, date);
        match &mut self.node_mut(ino)?.kind {
            Kind::File { content, given_as } => {
                let data = content.resize(size, output)?;
                *given_as = None;
                Ok(data)
            }
            Kind::Dir { .. } => Err(Errno::IsDir.into()),
        }
    }
}

/// Bytes given at the start, for tests and readers that want them whole.
impl From<Bytes> for Content {
    fn from(bytes: Bytes) -> Self {
        Content::Given(bytes)
    }
}
