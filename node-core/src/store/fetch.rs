//! Getting a blob from a peer, chunk by verified chunk.

use super::tree::{CHUNK, chunk_len, chunks, proves, verifies};
use super::{Event, Message, Pending, Store, Ticket};
use crate::content::{BlobRef, FetchError};
use crate::ids::{BlobId, NodeId};
use crate::protocol::Cx;
use crate::time::Time;
use blake3::hazmat::ChainingValue;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::time::Duration;

/// Chunks of one blob under way at a time. Our choice: fills 100 Mbit/s at 80 ms.
pub(super) const WINDOW: u32 = 4;

/// How long a slow disk takes to read so much beside other work. Our choice: 4 MiB a second.
fn to_read(bytes: u64) -> Duration {
    Duration::from_secs(bytes >> 22)
}

/// A blob on its way.
#[derive(Debug)]
pub(super) struct Fetch {
    len: u64,
    /// Nodes that may have the blob; the first one is being asked.
    sources: Vec<NodeId>,
    /// Empty until it came, and for a blob of one chunk.
    tree: Vec<ChainingValue>,
    /// Chunks in storage.
    stored: u32,
    /// Chunks asked for.
    asked: u32,
    /// The next chunk to be stored; a window of later ones may have come before it.
    next: u32,
    early: BTreeMap<u32, Bytes>,
    /// When its source was asked for it, or sent something of it last.
    heard: Time,
    /// It was asked for once more since, while the source sent other content.
    again: bool,
    /// All who asked for it soon have no use for it.
    passing: bool,
}

impl Fetch {
    /// It is being put into storage from here.
    pub(super) fn local(len: u64, passing: bool) -> Fetch {
        Fetch {
            len,
            sources: Vec::new(),
            tree: Vec::new(),
            stored: 0,
            asked: 0,
            next: 0,
            early: BTreeMap::new(),
            heard: Time::ZERO,
            again: false,
            passing,
        }
    }

    pub(super) fn is_passing(&self) -> bool {
        self.passing
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Whether storage has been given some of it.
    pub(super) fn has_begun(&self) -> bool {
        self.next > 0
    }

    /// Returns the node that is asked for it; `None` if it is put into storage from here.
    pub(super) fn source(&self) -> Option<NodeId> {
        self.sources.first().copied()
    }

    /// Whether something was asked for that has not come.
    pub(super) fn is_outstanding(&self) -> bool {
        self.needs_tree() || self.asked > self.next + self.early.len() as u32
    }

    /// Its source was asked for it, or has sent something of it.
    pub(super) fn heard(&mut self, now: Time) {
        (self.heard, self.again) = (now, false);
    }

    fn needs_tree(&self) -> bool {
        self.tree.is_empty() && chunks(self.len) > 1
    }
}

impl Store {
    pub(super) fn fetch(
        &mut self,
        ticket: Ticket,
        blobs: Vec<BlobRef>,
        from: &[NodeId],
        cx: &mut Cx<'_, Self>,
    ) {
        let others: Vec<NodeId> = from.iter().copied().filter(|source| *source != cx.me).collect();
        // First: who was told that all is here would read beyond the end of what is.
        if let Some(error) = blobs.iter().find_map(|blob| self.other_length(blob)) {
            return cx.emit(Event::Answered { ticket, result: Err(error) });
        }
        self.open(ticket, &blobs, cx);
        for blob in blobs {
            if self.here.contains_key(&blob.id) {
                continue;
            }
            if blob.len > self.blob_bytes {
                let reason = format!("it has {} bytes and a blob may have {}", blob.len, self.blob_bytes);
                self.unavailable(blob.id, &FetchError::Failed(reason), cx);
            } else if others.is_empty() && !self.fetches.contains_key(&blob.id) {
                let reason = "it is not in this node's storage; upload it first".into();
                self.unavailable(blob.id, &FetchError::Failed(reason), cx);
            } else if let Some(fetch) = self.fetches.get_mut(&blob.id) {
                fetch.passing &= ticket.of.is_passing();
                // A blob that this node is putting into its own storage has no sources and needs none.
                if !fetch.sources.is_empty() {
                    let new = others.iter().filter(|source| !fetch.sources.contains(source));
                    let new: Vec<NodeId> = new.copied().collect();
                    fetch.sources.extend(new);
                }
            } else {
                let fetch =
                    Fetch { sources: others.clone(), ..Fetch::local(blob.len, ticket.of.is_passing()) };
                self.fetches.insert(blob.id, fetch);
                self.stand_in_line(blob.id, cx);
            }
        }
    }

    /// Why content of this length cannot be had now: it is here, or on its way, with another.
    fn other_length(&self, blob: &BlobRef) -> Option<FetchError> {
        if let Some(here) = self.here.get(&blob.id).filter(|here| here.len != blob.len) {
            let why = format!("blob {}: it is said to have {} bytes and has {}", blob.id, blob.len, here.len);
            return Some(FetchError::Failed(why));
        }
        // Nobody knows yet which of the two is wrong: it is asked for again when this one has come or failed.
        let on_its_way = self.fetches.get(&blob.id).map(Fetch::len).filter(|len| *len != blob.len)?;
        let why = format!("blob {}: it is being fetched as one of {on_its_way} bytes", blob.id);
        Some(FetchError::NoAnswer(why))
    }

    /// Asks the source for the next things to come.
    pub(super) fn ask(&mut self, id: BlobId, cx: &mut Cx<'_, Self>) {
        let Some(fetch) = self.fetches.get_mut(&id) else { return };
        let Some(source) = fetch.source() else { return };
        if fetch.needs_tree() {
            return cx.send(source, Message::GetTree { id });
        }
        while fetch.asked < chunks(fetch.len) && fetch.asked < fetch.stored + WINDOW {
            if !fetch.early.contains_key(&fetch.asked) {
                cx.send(source, Message::Get { id, index: fetch.asked });
            }
            fetch.asked += 1;
        }
    }

    /// Asks once more for what has not come.
    pub(super) fn repeat(&mut self, id: BlobId, cx: &mut Cx<'_, Self>) {
        let Some(fetch) = self.fetches.get_mut(&id) else { return };
        fetch.asked = fetch.next;
        self.ask(id, cx);
    }

    /// The source sends content, and may send nothing of this. It is asked for once more, and given up after as
    /// long again: what comes in order comes by then, and on a slow line each repetition costs what waits.
    pub(super) fn look_whether_silent(&mut self, id: BlobId, bound: Duration, cx: &mut Cx<'_, Self>) {
        let Some(fetch) = self.fetches.get_mut(&id).filter(|fetch| fetch.is_outstanding()) else { return };
        // The source reads all of it for its tree, behind what others ask.
        let bound = bound + if fetch.needs_tree() { to_read(fetch.len) } else { Duration::ZERO };
        if cx.now.since(fetch.heard) < bound {
            return;
        }
        if std::mem::replace(&mut fetch.again, true) {
            return self.next_source(id, FetchError::NoAnswer("its source sends nothing of it".into()), cx);
        }
        fetch.heard = cx.now;
        self.repeat(id, cx);
    }

    /// Asks the next source; if there is none, the blob is not to be had.
    pub(super) fn next_source(&mut self, id: BlobId, error: FetchError, cx: &mut Cx<'_, Self>) {
        let Some(fetch) = self.fetches.get_mut(&id) else { return };
        let Some(source) = fetch.source() else { return };
        let len = fetch.len;
        fetch.sources.remove(0);
        fetch.asked = fetch.next;
        let last = fetch.sources.is_empty();
        self.leave_source(source, id, len, cx);
        if last {
            self.unavailable(id, &error, cx);
        } else {
            self.stand_in_line(id, cx);
        }
    }

    pub(super) fn source_down(&mut self, peer: NodeId, cx: &mut Cx<'_, Self>) {
        for fetch in self.fetches.values_mut().filter(|f| f.source() != Some(peer)) {
            fetch.sources.retain(|source| *source != peer);
        }
        self.give_up(peer, "its source has gone", cx);
    }

    pub(super) fn missing_there(&mut self, from: NodeId, id: BlobId, cx: &mut Cx<'_, Self>) {
        if let Some(fetch) = self.fetches.get_mut(&id).filter(|fetch| fetch.source() == Some(from)) {
            fetch.heard(cx.now);
            self.source_answered(from, cx);
            let reason = format!("{} does not have it", from.short());
            self.next_source(id, FetchError::Failed(reason), cx);
        }
    }

    pub(super) fn tree_came(&mut self, from: NodeId, id: BlobId, values: &[u8], cx: &mut Cx<'_, Self>) {
        let Some(fetch) = self.fetches.get_mut(&id).filter(|f| f.source() == Some(from) && f.needs_tree())
        else {
            return;
        };
        let (values, rest) = values.as_chunks::<32>();
        if !rest.is_empty() || !proves(id, fetch.len, values) {
            return self.cheated(from, id, "sent a hash tree that does not belong to the blob", cx);
        }
        fetch.tree = values.to_vec();
        fetch.heard(cx.now);
        self.source_answered(from, cx);
        self.ask(id, cx);
    }

    pub(super) fn chunk_came(
        &mut self,
        from: NodeId,
        id: BlobId,
        index: u32,
        bytes: Bytes,
        cx: &mut Cx<'_, Self>,
    ) {
        let Some(fetch) = self.fetches.get_mut(&id).filter(|f| f.source() == Some(from)) else { return };
        if fetch.needs_tree() || index < fetch.next || index >= fetch.asked {
            return;
        }
        let right_size = bytes.len() as u32 == chunk_len(fetch.len, index);
        if !right_size || !verifies(id, &fetch.tree, index, &bytes) {
            return self.cheated(from, id, "sent a chunk that does not match its hash", cx);
        }
        fetch.early.insert(index, bytes);
        fetch.heard(cx.now);
        self.source_answered(from, cx);
        while let Some(fetch) = self.fetches.get_mut(&id)
            && let Some(bytes) = fetch.early.remove(&fetch.next)
        {
            let index = fetch.next;
            fetch.next += 1;
            let last = fetch.next == chunks(fetch.len);
            let number = self.number(Pending::Append(id));
            cx.emit(Event::Append { number, id, offset: u64::from(index) * CHUNK, bytes, last });
        }
    }

    fn cheated(&mut self, from: NodeId, id: BlobId, fault: &str, cx: &mut Cx<'_, Self>) {
        cx.fault(from, format!("{fault} {id}"));
        self.next_source(id, FetchError::Failed(format!("{} {fault}", from.short())), cx);
    }

    pub(super) fn chunk_stored(&mut self, id: BlobId, cx: &mut Cx<'_, Self>) {
        let Some(fetch) = self.fetches.get_mut(&id) else { return };
        fetch.stored += 1;
        let source = fetch.source();
        if fetch.stored == chunks(fetch.len) {
            let len = fetch.len;
            self.arrived(id, len, cx);
        } else {
            source.into_iter().for_each(|source| self.storage_answered(source));
            self.ask(id, cx);
        }
    }
}
