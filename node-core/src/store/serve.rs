//! Giving blobs to peers that miss them.

use super::tree::{CHUNK, chaining_value, chunk_len, chunks};
use super::{Event, Message, Pending, Store};
use crate::content::FetchError;
use crate::ids::{BlobId, NodeId};
use crate::protocol::Cx;
use blake3::hazmat::ChainingValue;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Chunks read for one peer at a time; further requests are queued. Our choice: four windows, 4 MiB.
const READS_MAX: u32 = 16;

/// Requests of one peer that are queued; to more the answer is [`Message::Busy`]. Our choice: four
/// times what a store has under way at one source, 10 KB.
const QUEUE_MAX: usize = 256;

/// Peers that may wait for one hash tree; to more the answer is [`Message::Busy`].
const WAITING_MAX: usize = 1000;

#[derive(Debug, Default)]
pub(super) struct Serving {
    peers: BTreeMap<NodeId, Peer>,
    trees: BTreeMap<BlobId, Tree>,
}

/// Requests of one peer.
#[derive(Debug, Default)]
struct Peer {
    /// Chunks that storage reads for it.
    reads: u32,
    queue: VecDeque<(BlobId, u32)>,
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
        self.peers.remove(&peer);
        self.trees.values_mut().for_each(|tree| {
            tree.waiting.remove(&peer);
        });
    }

    pub(super) fn forget_tree(&mut self, id: BlobId) {
        self.trees.remove(&id);
    }
}

impl Store {
    pub(super) fn get(&mut self, from: NodeId, id: BlobId, index: u32, cx: &mut Cx<'_, Self>) {
        let Some(len) = self.here.get(&id).map(|here| here.len) else {
            return cx.send(from, Message::Missing { id });
        };
        self.touch(id);
        if index >= chunks(len) {
            let fault = format!("asked for chunk {index} of {id}, which has {}", chunks(len));
            return cx.fault(from, fault);
        }
        let peer = self.serving.peers.entry(from).or_default();
        // A repetition is answered once.
        if peer.queue.contains(&(id, index)) {
            return;
        }
        if peer.reads < READS_MAX {
            self.read_for(from, id, index, cx);
        } else if peer.queue.len() < QUEUE_MAX {
            peer.queue.push_back((id, index));
        } else {
            cx.send(from, Message::Busy { id });
        }
    }

    fn read_for(&mut self, peer: NodeId, id: BlobId, index: u32, cx: &mut Cx<'_, Self>) {
        let Some(len) = self.here.get(&id).map(|here| here.len) else {
            return cx.send(peer, Message::Missing { id });
        };
        self.serving.peers.entry(peer).or_default().reads += 1;
        let number = self.number(Pending::ReadChunk(Read { to: peer, id, index }));
        cx.emit(Event::Read { number, id, offset: u64::from(index) * CHUNK, len: chunk_len(len, index) });
    }

    /// A read for this peer is over: its next requests have their turn.
    fn serve_on(&mut self, to: NodeId, cx: &mut Cx<'_, Self>) {
        let Some(peer) = self.serving.peers.get_mut(&to) else { return };
        peer.reads = peer.reads.saturating_sub(1);
        while let Some(peer) = self.serving.peers.get_mut(&to)
            && peer.reads < READS_MAX
            && let Some((id, index)) = peer.queue.pop_front()
        {
            self.read_for(to, id, index, cx);
        }
        if self.serving.peers.get(&to).is_some_and(|peer| peer.reads == 0 && peer.queue.is_empty()) {
            self.serving.peers.remove(&to);
        }
    }

    pub(super) fn chunk_read(&mut self, read: Read, bytes: Bytes, cx: &mut Cx<'_, Self>) {
        cx.send(read.to, Message::Chunk { id: read.id, index: read.index, bytes });
        self.serve_on(read.to, cx);
    }

    /// Storage has lost it: so it is not here.
    pub(super) fn chunk_unreadable(&mut self, read: Read, cx: &mut Cx<'_, Self>) {
        self.lost(read.id, cx);
        cx.send(read.to, Message::Missing { id: read.id });
        self.serve_on(read.to, cx);
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
        if tree.waiting.len() >= WAITING_MAX {
            return cx.send(from, Message::Busy { id });
        }
        tree.waiting.insert(from);
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
        self.lost(id, cx);
        for peer in tree.waiting {
            cx.send(peer, Message::Missing { id });
        }
    }

    fn lost(&mut self, id: BlobId, cx: &mut Cx<'_, Self>) {
        self.forget_here(id);
        self.unavailable(id, &FetchError::NotStored("its copy here cannot be read".into()), cx);
    }
}

fn flat(values: &[ChainingValue]) -> Bytes {
    Bytes::from(values.concat())
}
