//! Giving blobs to peers that miss them.

use super::tree::{CHUNK, chaining_value, chunk_len, chunks};
use super::{Event, Message, Pending, Store};
use crate::ids::{BlobId, NodeId};
use crate::protocol::Cx;
use blake3::hazmat::ChainingValue;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// Chunks read for one peer at a time; more requests are dropped and repeated by the asker.
/// Our choice: four windows.
const READS_MAX: u32 = 16;

/// Peers that may wait for one hash tree.
const WAITING_MAX: usize = 1000;

#[derive(Debug, Default)]
pub(super) struct Serving {
    reads: BTreeMap<NodeId, u32>,
    trees: BTreeMap<BlobId, Tree>,
}

/// The chaining values of a blob's chunks, and who waits for them.
#[derive(Debug, Default)]
struct Tree {
    values: Vec<ChainingValue>,
    waiting: BTreeSet<NodeId>,
}

#[derive(Debug)]
pub(super) struct Read {
    to: NodeId,
    id: BlobId,
    index: u32,
}

impl Serving {
    pub(super) fn forget(&mut self, peer: NodeId) {
        self.reads.remove(&peer);
        self.trees.values_mut().for_each(|tree| {
            tree.waiting.remove(&peer);
        });
    }

    pub(super) fn forget_tree(&mut self, id: BlobId) {
        self.trees.remove(&id);
    }

    fn read_done(&mut self, peer: NodeId) {
        if let Some(n) = self.reads.get_mut(&peer) {
            *n = n.saturating_sub(1);
        }
    }
}

impl Store {
    pub(super) fn get(&mut self, from: NodeId, id: BlobId, index: u32, cx: &mut Cx<'_, Self>) {
        self.clock += 1;
        let clock = self.clock;
        let Some(here) = self.here.get_mut(&id) else {
            return cx.send(from, Message::Missing { id });
        };
        here.used = clock;
        let len = here.len;
        if index >= chunks(len) {
            let fault = format!("asked for chunk {index} of {id}, which has {}", chunks(len));
            return cx.emit(Event::Fault { peer: from, fault });
        }
        let reads = self.serving.reads.entry(from).or_default();
        if *reads >= READS_MAX {
            return;
        }
        *reads += 1;
        let number = self.number(Pending::ReadChunk(Read { to: from, id, index }));
        cx.emit(Event::Read { number, id, offset: u64::from(index) * CHUNK, len: chunk_len(len, index) });
    }

    pub(super) fn chunk_read(&mut self, read: Read, bytes: Bytes, cx: &mut Cx<'_, Self>) {
        self.serving.read_done(read.to);
        cx.send(read.to, Message::Chunk { id: read.id, index: read.index, bytes });
    }

    /// Storage has lost it: so it is not here.
    pub(super) fn chunk_unreadable(&mut self, read: Read, cx: &mut Cx<'_, Self>) {
        self.serving.read_done(read.to);
        self.lost(read.id);
        self.unavailable(read.id, "its copy here cannot be read", cx);
        cx.send(read.to, Message::Missing { id: read.id });
    }

    pub(super) fn get_tree(&mut self, from: NodeId, id: BlobId, cx: &mut Cx<'_, Self>) {
        let Some(len) = self.here.get(&id).map(|here| here.len) else {
            return cx.send(from, Message::Missing { id });
        };
        let tree = self.serving.trees.entry(id).or_default();
        if tree.values.len() == chunks(len) as usize {
            return cx.send(from, Message::Tree { id, values: flat(&tree.values) });
        }
        let first = tree.waiting.is_empty();
        if tree.waiting.len() < WAITING_MAX {
            tree.waiting.insert(from);
        }
        if first {
            self.read_for_tree(id, 0, len, cx);
        }
    }

    fn read_for_tree(&mut self, blob: BlobId, index: u32, len: u64, cx: &mut Cx<'_, Self>) {
        let number = self.number(Pending::ReadForTree { blob, index });
        cx.emit(Event::Read {
            number,
            id: blob,
            offset: u64::from(index) * CHUNK,
            len: chunk_len(len, index),
        });
    }

    pub(super) fn tree_read(&mut self, id: BlobId, index: u32, bytes: &[u8], cx: &mut Cx<'_, Self>) {
        let Some(len) = self.here.get(&id).map(|here| here.len) else { return };
        let Some(tree) = self.serving.trees.get_mut(&id) else { return };
        if tree.values.len() != index as usize {
            return;
        }
        tree.values.push(chaining_value(index, bytes));
        if index + 1 < chunks(len) {
            return self.read_for_tree(id, index + 1, len, cx);
        }
        let values = flat(&tree.values);
        for peer in std::mem::take(&mut tree.waiting) {
            cx.send(peer, Message::Tree { id, values: values.clone() });
        }
    }

    pub(super) fn tree_unreadable(&mut self, id: BlobId, cx: &mut Cx<'_, Self>) {
        let tree = self.serving.trees.remove(&id).unwrap_or_default();
        self.lost(id);
        self.unavailable(id, "its copy here cannot be read", cx);
        for peer in tree.waiting {
            cx.send(peer, Message::Missing { id });
        }
    }

    fn lost(&mut self, id: BlobId) {
        if let Some(here) = self.here.remove(&id) {
            self.total -= here.len;
        }
    }
}

fn flat(values: &[ChainingValue]) -> Bytes {
    Bytes::from(values.concat())
}
