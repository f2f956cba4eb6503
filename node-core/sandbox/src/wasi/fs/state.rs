//! A tree that came out of a snapshot: believed only as far as it is one.

use super::{Content, Ino, Kind, MAX_NAME, MAX_NODES, MAX_PATH, ROOT, Tree};
use crate::task::File;
use bytes::Bytes;
use std::collections::BTreeMap;

/// Numbers that no task comes to by making files one by one; those behind them do not run out.
const MOST_NUMBERS: Ino = 1 << 60;

impl Tree {
    /// Puts what the task was given back in its place, and checks that every node hangs where it
    /// says and that every way up ends at `/`.
    pub(in super::super) fn give_again(&mut self, files: &[File]) -> Result<(), &'static str> {
        if self.nodes.len() > MAX_NODES {
            return Err("it has more files than a task may have");
        }
        if !self
            .nodes
            .get(&ROOT)
            .is_some_and(|root| matches!(root.kind, Kind::Dir { .. }) && root.home.is_none())
        {
            return Err("it has no root directory");
        }
        if self.nodes.last_key_value().is_some_and(|(ino, _)| *ino >= self.next) || self.next > MOST_NUMBERS {
            return Err("its files are numbered wrongly");
        }
        let mut given: BTreeMap<&str, &Bytes> =
            files.iter().map(|file| (file.path.as_str(), &file.data)).collect();
        for node in self.nodes.values_mut() {
            if let Kind::File { content, given_as: Some(path) } = &mut node.kind {
                // Each is there once: it costs the task nothing, and is sent back if it was moved.
                let data = given
                    .remove(path.as_str())
                    .ok_or("it names an input file that the unit does not have, or has it twice")?;
                *content = Content::Given((*data).clone());
            }
        }
        self.hangs_together()
    }

    fn hangs_together(&self) -> Result<(), &'static str> {
        let mut named = 0;
        for (ino, node) in &self.nodes {
            if let Kind::Dir { names } = &node.kind {
                named += names.len();
                let here = |(name, child): (&String, &Ino)| {
                    let home = self.nodes.get(child).and_then(|child| child.home.as_ref());
                    is_name(name) && home.is_some_and(|home| home.dir == *ino && home.name == *name)
                };
                if !names.iter().all(here) {
                    return Err("a directory of it lists what is not there");
                }
            }
        }
        // Each home is listed, so as many as are listed have one, and a walk down meets them all:
        // there is no ring beside the tree.
        let housed = self.nodes.values().filter(|node| node.home.is_some()).count();
        let (mut met, mut next) = (0, vec![(ROOT, 0)]);
        // A removed directory that is still open is a root of its own.
        next.extend(
            self.nodes.iter().filter(|(ino, n)| **ino != ROOT && n.home.is_none()).map(|(ino, _)| (*ino, 0)),
        );
        while let Some((ino, len)) = next.pop() {
            if len > MAX_PATH {
                return Err("it has a path that is longer than paths may be");
            }
            if let Some(Kind::Dir { names }) = self.nodes.get(&ino).map(|node| &node.kind) {
                met += names.len();
                let below = |name: &str| len + usize::from(len > 0) + name.len();
                next.extend(names.iter().map(|(name, ino)| (*ino, below(name))));
            }
            if met > named {
                break;
            }
        }
        if housed == named && met == named { Ok(()) } else { Err("its directories do not form a tree") }
    }

    pub(in super::super) fn count_descriptors(&mut self, open: impl Iterator<Item = Ino>) {
        self.nodes.values_mut().for_each(|node| node.opened = 0);
        for ino in open {
            if let Some(node) = self.nodes.get_mut(&ino) {
                node.opened = node.opened.saturating_add(1);
            }
        }
        // A node with neither a name nor a descriptor is gone.
        self.nodes.retain(|ino, node| *ino == ROOT || node.home.is_some() || node.opened > 0);
    }

    /// Bytes of the output account that all files together hold.
    pub(in super::super) fn charged(&self) -> u64 {
        let contents = self.nodes.values().filter_map(|node| match &node.kind {
            Kind::File { content, .. } => Some(content.charged()),
            Kind::Dir { .. } => None,
        });
        contents.sum()
    }
}

/// Whether a path can lead to it.
fn is_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && name.len() <= MAX_NAME && !name.contains(['/', '\0'])
}
