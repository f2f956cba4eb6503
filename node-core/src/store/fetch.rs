//! Getting a blob from a peer, chunk by verified chunk.

use super::tree::{CHUNK, chunk_len, chunks, proves, verifies};
use super::{Event, Message, Pending, Store, Ticket};
use crate::content::{BlobRef, FetchError, NotFetched};
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
    number: u64,
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
    pub(super) fn local(number: u64, len: u64, passing: bool) -> Fetch {
        Fetch {
            number,
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

    /// Whether storage has been given all of it.
    fn has_come(&self) -> bool {
        self.next == chunks(self.len)
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
        let mut lengths = BTreeMap::new();
        for blob in &blobs {
            let before = lengths.insert(blob.id, blob.len).filter(|len| *len != blob.len);
            let twice = |len| FetchError::Failed(format!("it is said to have {len} and {} bytes", blob.len));
            if let Some(why) = before.map(twice).or_else(|| self.refusal(blob, &others)) {
                let blob = blob.id;
                return cx.emit(Event::Answered { ticket, result: Err(NotFetched { blob, why }) });
            }
        }
        self.open(ticket, &blobs, &others, cx);
        for blob in blobs {
            if self.here.contains_key(&blob.id) {
                continue;
            }
            match self.fetches.get_mut(&blob.id) {
                Some(fetch) if fetch.len == blob.len => {
                    fetch.passing &= ticket.of.is_passing();
                    // A blob that this node is putting into its own storage has no sources and needs none.
                    if !fetch.sources.is_empty() {
                        add_new(&mut fetch.sources, &others);
                    }
                }
                // Nobody knows yet which of the two is wrong. Its turn comes when the other has failed.
                Some(_) => {}
                None => self.begin(blob, others.clone(), ticket.of.is_passing(), cx),
            }
        }
    }

    /// Why such a blob cannot be had, whoever is asked.
    fn refusal(&self, blob: &BlobRef, others: &[NodeId]) -> Option<FetchError> {
        if let Some(here) = self.here.get(&blob.id) {
            return (here.len != blob.len).then(|| FetchError::of_another_length(here.len, blob.len));
        }
        if blob.len > self.blob_bytes {
            let reason = format!("it has {} bytes and a blob may have {}", blob.len, self.blob_bytes);
            return Some(FetchError::Failed(reason));
        }
        let none_asked = others.is_empty() && !self.fetches.contains_key(&blob.id);
        none_asked.then(FetchError::not_here)
    }

    fn begin(&mut self, blob: BlobRef, sources: Vec<NodeId>, passing: bool, cx: &mut Cx<'_, Self>) {
        let fetch = Fetch { sources, ..Fetch::local(self.next, blob.len, passing) };
        self.next += 1;
        self.fetches.insert(blob.id, fetch);
        self.stand_in_line(blob.id, cx);
    }

    /// The blob could not be had with one length. It is fetched with another, if somebody waits for that.
    pub(super) fn fetch_with_next_length(&mut self, id: BlobId, cx: &mut Cx<'_, Self>) {
        while !self.fetches.contains_key(&id) && !self.here.contains_key(&id) {
            let mut waiting: Vec<(Ticket, u64)> = self.waiting(id).collect();
            let Some((_, len)) = waiting.first().copied() else { return };
            waiting.retain(|(_, said)| *said == len);
            let mut sources = Vec::new();
            for wanted in waiting.iter().filter_map(|(ticket, _)| self.tickets.get(ticket)) {
                add_new(&mut sources, &wanted.from);
            }
            if sources.is_empty() {
                waiting
                    .into_iter()
                    .for_each(|(ticket, _)| self.refuse(ticket, id, FetchError::not_here(), cx));
                continue;
            }
            let passing = waiting.iter().all(|(ticket, _)| ticket.of.is_passing());
            self.begin(BlobRef { id, len }, sources, passing, cx);
        }
    }

    /// Somebody has let go of the blob. If nobody waits for it with the length with which it is being fetched,
    /// who waits for it with another has its turn.
    pub(super) fn look_who_waits(&mut self, id: BlobId, cx: &mut Cx<'_, Self>) {
        let Some(fetch) = self.fetches.get(&id).filter(|fetch| fetch.source().is_some()) else { return };
        // All of one that storage is writing down will be here in a moment.
        if !fetch.has_come() && !self.waiting(id).any(|(_, said)| said == fetch.len) {
            let fetch = self.end_fetch(id, cx);
            self.abandon(id, fetch.as_ref(), cx);
            self.fetch_with_next_length(id, cx);
        }
    }

    /// Whether the blob is still being fetched as it was under this number.
    pub(super) fn is_fetch(&self, id: BlobId, number: u64) -> bool {
        self.fetches.get(&id).is_some_and(|fetch| fetch.number == number)
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
        if fetch.has_come() {
            // Nothing is asked of anybody any more. What storage has got stays, or it says why not.
            fetch.sources.clear();
            return self.leave_source(source, id, len, cx);
        }
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
        self.came(from, cx);
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
        self.came(from, cx);
        while let Some(fetch) = self.fetches.get_mut(&id)
            && let Some(bytes) = fetch.early.remove(&fetch.next)
        {
            let index = fetch.next;
            fetch.next += 1;
            let (last, fetch) = (fetch.has_come(), fetch.number);
            let number = self.number(Pending::Append(id, fetch));
            cx.emit(Event::Append { number, id, offset: u64::from(index) * CHUNK, bytes, last });
        }
    }

    fn came(&mut self, from: NodeId, cx: &mut Cx<'_, Self>) {
        self.source_answered(from, cx);
        cx.emit(Event::Came { from });
    }

    fn cheated(&mut self, from: NodeId, id: BlobId, fault: &str, cx: &mut Cx<'_, Self>) {
        cx.fault(from, format!("{fault} {id}"));
        self.next_source(id, FetchError::Failed(format!("{} {fault}", from.short())), cx);
    }

    pub(super) fn chunk_stored(&mut self, id: BlobId, number: u64, cx: &mut Cx<'_, Self>) {
        // Chunks of a fetch that was given up are none of the one that began after it.
        let Some(fetch) = self.fetches.get_mut(&id).filter(|fetch| fetch.number == number) else { return };
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

fn add_new(sources: &mut Vec<NodeId>, more: &[NodeId]) {
    for source in more {
        if !sources.contains(source) {
            sources.push(*source);
        }
    }
}
