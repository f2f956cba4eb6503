//! The keeper: files of others, within what the donor gives.
//!
//! Kept files are written down, so that they are still kept after a restart. A file is dropped when its owner
//! says so, or when its time is over and the owner has not asked for more.

use super::config::FilesConfig;
use super::manifest::{MANIFEST, Manifest};
use super::message::{Message, ToKeeper, ToOwner};
use super::proof;
use crate::address::Contact;
use crate::content::{BlobRef, NotFetched};
use crate::disk::{Table, Write};
use crate::ids::{BlobId, NodeId};
use crate::protocol::{Cx, Input, InputOf, Protocol};
use crate::time::{Time, Wall};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Chunks pulled at a time for one file. Our choice: what keeps a line busy.
const WINDOW: usize = 2;

/// Between two looks at what is over, and two lists for owners.
const SWEEP: Duration = Duration::from_secs(60);
const TELL: Duration = Duration::from_secs(600);

/// How long space that was bought waits for its file. Our choice: a buyer asks at once.
const CLAIM: Duration = Duration::from_secs(600);

/// Proofs read for at a time; more are not answered, and asked for again. Our choice: 64 MiB.
const PROOFS: usize = 16;

/// Sources of a file that are remembered. Our choice: its owner and keepers.
const SOURCES: usize = 16;

type Id = (NodeId, BlobId);

#[derive(Debug)]
pub struct Keeper {
    config: Arc<FilesConfig>,
    wall: Wall,
    kept: BTreeMap<Id, Kept>,
    /// Bought and not claimed yet: bytes, for how long, until when it waits.
    sold: Vec<(NodeId, u64, Duration, Time)>,
    tickets: BTreeMap<u64, (Id, For)>,
    proofs: BTreeMap<u64, (NodeId, u64, [u8; 32])>,
    next: u64,
    /// Bytes of all files that are kept or on their way.
    bytes: u64,
    told: Time,
    offered: Option<u64>,
    /// Some of what an earlier life kept is not pinned yet.
    restoring: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum For {
    Manifest,
    Read,
    Chunk(u32),
}

#[derive(Debug)]
struct Kept {
    record: Record,
    manifest: Option<Manifest>,
    /// All that is pinned for it.
    tickets: Vec<u64>,
    /// Chunks that were asked for, and those that are here.
    asked: u32,
    here: u32,
}

/// Row that is written for a kept file, under the owner's id and the file's.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Record {
    manifest: BlobRef,
    /// Bytes of the chunks.
    bytes: u64,
    until_ms: u64,
    owner: Option<Contact>,
    at: Vec<Contact>,
}

impl Kept {
    fn bytes(&self) -> u64 {
        self.record.bytes.saturating_add(self.record.manifest.len)
    }

    fn is_whole(&self) -> bool {
        self.manifest.as_ref().is_some_and(|manifest| manifest.chunks.len() as u32 == self.here)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    Sweep,
}

#[derive(Clone, Debug)]
pub enum Command {
    /// The driver's wall clock, milliseconds since 1970.
    WallClock(u64),
    /// Rows that an earlier life has written.
    Restore(Vec<(Vec<u8>, Bytes)>),
    /// That was all.
    Restored,
    /// So much was bought, for so long.
    Sold { buyer: NodeId, bytes: u64, term: Duration },
    /// Answers [`Event::Fetch`].
    Answered { ticket: u64, result: Result<(), NotFetched> },
    /// Answers [`Event::Read`]; none if it cannot be read.
    Read { ticket: u64, bytes: Option<Bytes> },
}

#[derive(Clone, Debug)]
pub enum Event {
    /// Bring this here, from one of those, and keep it until the ticket is released.
    Fetch {
        ticket: u64,
        blob: BlobRef,
        from: Vec<NodeId>,
    },
    Release {
        ticket: u64,
    },
    /// These are not needed any more, if nothing else needs them.
    Forget {
        blobs: Vec<BlobId>,
    },
    Read {
        ticket: u64,
        blob: BlobRef,
    },
    Commit {
        writes: Vec<Write>,
    },
    /// So much can be sold.
    Room(u64),
    /// All files that an earlier life kept are pinned.
    Settled,
}

type Kcx<'a> = Cx<'a, Keeper>;

impl Protocol for Keeper {
    type Message = Message;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, input: InputOf<Self>, cx: &mut Kcx<'_>) {
        match input {
            Input::Message { from, message: Message::ToKeeper(message) } => match message {
                ToKeeper::Ask { ticket } => {
                    let bytes = if self.config.gift { self.room_for(from) } else { 0 };
                    let seconds = self.config.term.as_secs() as u32;
                    cx.send(from, Message::ToOwner(ToOwner::Room { ticket, bytes, seconds }));
                }
                ToKeeper::Keep { manifest, bytes, me, at } => self.keep(from, manifest, bytes, me, at, cx),
                ToKeeper::Audit { ticket, file, index, nonce } => {
                    self.audit(from, ticket, file, index, &nonce, cx);
                }
                ToKeeper::Drop { file } => self.drop_file((from, file), cx),
            },
            Input::Command(command) => match command {
                Command::WallClock(ms) => {
                    self.wall.told(ms, cx.now);
                    cx.set_timer_by(Timer::Sweep, SWEEP);
                }
                Command::Restore(rows) => self.restore(rows, cx),
                Command::Restored => self.restoring = true,
                Command::Sold { buyer, bytes, term } => {
                    self.sold.push((buyer, bytes, term, cx.now + CLAIM));
                }
                Command::Answered { ticket, result } => self.answered(ticket, result, cx),
                Command::Read { ticket, bytes } => self.read(ticket, bytes, cx),
            },
            Input::Timer(Timer::Sweep) => self.sweep(cx),
            // The route gives a keeper nothing else.
            Input::Message { .. } | Input::Up(_) | Input::Down(_) | Input::Unreachable(_) => {}
        }
        let room = self.room();
        if self.offered != Some(room) {
            self.offered = Some(room);
            cx.emit(Event::Room(room));
        }
        if self.restoring && self.kept.values().all(Kept::is_whole) {
            self.restoring = false;
            cx.emit(Event::Settled);
        }
    }

    fn check_invariants(&self) {
        assert_eq!(self.bytes, self.kept.values().map(Kept::bytes).sum::<u64>(), "bytes are counted");
        assert!(self.bytes <= self.config.bytes, "and bounded");
        assert!(self.kept.len() <= self.config.kept, "so are files");
    }
}

impl Keeper {
    pub fn new(config: Arc<FilesConfig>) -> Keeper {
        Keeper {
            config,
            wall: Wall::default(),
            kept: BTreeMap::new(),
            sold: Vec::new(),
            tickets: BTreeMap::new(),
            proofs: BTreeMap::new(),
            next: 1,
            bytes: 0,
            told: Time::ZERO,
            offered: None,
            restoring: false,
        }
    }

    /// Files that are kept here, bytes of them, and bytes that are given.
    pub fn load(&self) -> (usize, u64, u64) {
        (self.kept.len(), self.bytes, self.config.bytes)
    }

    /// Files that are kept, each as owner, file, bytes, whether all of it is here, and until when it is kept
    /// (milliseconds since 1970).
    pub fn files(&self) -> impl Iterator<Item = (NodeId, BlobId, u64, bool, u64)> + '_ {
        let row =
            |(id, kept): (&Id, &Kept)| (id.0, id.1, kept.bytes(), kept.is_whole(), kept.record.until_ms);
        self.kept.iter().map(row)
    }

    fn room(&self) -> u64 {
        let sold: u64 = self.sold.iter().map(|(_, bytes, ..)| *bytes).fold(0, u64::saturating_add);
        self.config.bytes.saturating_sub(self.bytes).saturating_sub(sold)
    }

    fn room_for(&self, owner: NodeId) -> u64 {
        let its = self.kept.iter().filter(|((of, _), _)| *of == owner).map(|(_, kept)| kept.bytes());
        let its: u64 = its.fold(0, u64::saturating_add);
        self.room().min(self.config.bytes_per_owner.saturating_sub(its))
    }

    fn ticket(&mut self, id: Id, of: For) -> u64 {
        self.next += 1;
        self.tickets.insert(self.next, (id, of));
        self.next
    }

    fn keep(
        &mut self,
        from: NodeId,
        manifest: BlobRef,
        bytes: u64,
        me: Option<Contact>,
        mut at: Vec<Contact>,
        cx: &mut Kcx<'_>,
    ) {
        let (id, file) = ((from, manifest.id), manifest.id);
        let refuse = |why: String, cx: &mut Kcx<'_>| {
            cx.send(from, Message::ToOwner(ToOwner::Refused { file, why }));
        };
        let whole = bytes.saturating_add(manifest.len);
        if manifest.len > MANIFEST {
            return refuse("this is no manifest of a file".into(), cx);
        }
        let now_ms = self.wall.now(cx.now);
        let bought = self.sold.iter().position(|(buyer, most, ..)| *buyer == from && *most >= whole);
        let known = self.kept.contains_key(&id);
        // Bought space is reserved already; for a gift the room is checked.
        let term = match bought {
            Some(at) => self.sold.swap_remove(at).2,
            None if !self.config.gift && !known => {
                return refuse("it gives space only to who has bought it".into(), cx);
            }
            None if !known && self.room_for(from) < whole => {
                let room = self.room_for(from);
                return refuse(format!("it has room for {room} bytes and the file has {whole}"), cx);
            }
            None => self.config.term,
        };
        let until_ms = now_ms.saturating_add(term.as_millis() as u64);
        if let Some(kept) = self.kept.get_mut(&id) {
            // A term that hardly changed is not written down again: a write is dearer than a message.
            let later = kept.record.until_ms.saturating_add(SWEEP.as_millis() as u64);
            let news = bought.is_some() || (self.config.gift && until_ms >= later);
            if news {
                kept.record.until_ms = kept.record.until_ms.max(until_ms);
            }
            if kept.is_whole() {
                let until_ms = kept.record.until_ms;
                cx.send(from, Message::ToOwner(ToOwner::Kept { file, until_ms }));
            } else {
                cx.send(from, Message::ToOwner(ToOwner::Keeping { file, chunks: kept.here }));
            }
            if news {
                self.write(id, cx);
            }
            return;
        }
        if self.kept.len() >= self.config.kept || self.room() < whole {
            return refuse("it keeps as much as it may".into(), cx);
        }
        at.truncate(SOURCES);
        self.take_up(id, Record { manifest, bytes, until_ms, owner: me, at }, cx);
        self.write(id, cx);
        cx.send(from, Message::ToOwner(ToOwner::Keeping { file, chunks: 0 }));
    }

    fn take_up(&mut self, id: Id, record: Record, cx: &mut Kcx<'_>) {
        let manifest = record.manifest;
        let kept = Kept { record, manifest: None, tickets: Vec::new(), asked: 0, here: 0 };
        self.bytes += kept.bytes();
        self.kept.insert(id, kept);
        self.fetch(id, For::Manifest, manifest, cx);
    }

    fn fetch(&mut self, id: Id, of: For, blob: BlobRef, cx: &mut Kcx<'_>) {
        let ticket = self.ticket(id, of);
        let Some(kept) = self.kept.get_mut(&id) else { return };
        kept.tickets.push(ticket);
        let Record { owner, at, .. } = &kept.record;
        for contact in owner.iter().chain(at) {
            cx.reach(*contact);
        }
        let from = std::iter::once(id.0).chain(at.iter().map(|contact| contact.id)).collect();
        cx.emit(Event::Fetch { ticket, blob, from });
    }

    fn answered(&mut self, ticket: u64, result: Result<(), NotFetched>, cx: &mut Kcx<'_>) {
        let Some((id, of)) = self.tickets.get(&ticket).copied() else { return };
        if let Err(error) = result {
            return self.give_up(id, format!("it could not get it: {error}"), cx);
        }
        let Some(kept) = self.kept.get_mut(&id) else { return };
        match of {
            For::Manifest => {
                let blob = kept.record.manifest;
                let ticket = self.ticket(id, For::Read);
                cx.emit(Event::Read { ticket, blob });
            }
            For::Chunk(_) => {
                kept.here += 1;
                let (file, chunks) = (id.1, kept.here);
                cx.send(id.0, Message::ToOwner(ToOwner::Keeping { file, chunks }));
                self.pull(id, cx);
            }
            For::Read => {}
        }
    }

    fn read(&mut self, ticket: u64, bytes: Option<Bytes>, cx: &mut Kcx<'_>) {
        if let Some((to, number, nonce)) = self.proofs.remove(&ticket) {
            let proof = bytes.map(|bytes| proof(&nonce, &bytes));
            return cx.send(to, Message::ToOwner(ToOwner::Proof { ticket: number, proof }));
        }
        let Some((id, For::Read)) = self.tickets.remove(&ticket) else { return };
        let Some(kept) = self.kept.get_mut(&id) else { return };
        let manifest = match bytes.as_deref().map(Manifest::decode) {
            Some(Ok(manifest)) if manifest.len == kept.record.bytes => manifest,
            Some(Ok(manifest)) => {
                let why = format!("it has {} bytes and not {}", manifest.len, kept.record.bytes);
                return self.give_up(id, why, cx);
            }
            Some(Err(why)) => return self.give_up(id, why.to_string(), cx),
            None => return self.give_up(id, "its disk cannot be read".into(), cx),
        };
        kept.manifest = Some(manifest);
        self.pull(id, cx);
    }

    /// The next chunks, or the news that all are here.
    fn pull(&mut self, id: Id, cx: &mut Kcx<'_>) {
        loop {
            let Some(kept) = self.kept.get_mut(&id) else { return };
            let Some(manifest) = &kept.manifest else { return };
            if (kept.asked - kept.here) as usize >= WINDOW {
                return;
            }
            let Some(chunk) = manifest.chunk(kept.asked as usize) else { break };
            let of = For::Chunk(kept.asked);
            kept.asked += 1;
            self.fetch(id, of, chunk, cx);
        }
        if let Some(kept) = self.kept.get(&id).filter(|kept| kept.is_whole()) {
            let until_ms = kept.record.until_ms;
            cx.send(id.0, Message::ToOwner(ToOwner::Kept { file: id.1, until_ms }));
        }
    }

    fn audit(
        &mut self,
        from: NodeId,
        number: u64,
        file: BlobId,
        index: u32,
        nonce: &Bytes,
        cx: &mut Kcx<'_>,
    ) {
        let kept = self.kept.get(&(from, file));
        let chunk = kept.filter(|kept| kept.is_whole()).and_then(|kept| kept.manifest.as_ref());
        let blob = chunk.and_then(|manifest| manifest.chunk(index as usize));
        let (Some(blob), Ok(nonce)) = (blob, <[u8; 32]>::try_from(&nonce[..])) else {
            return cx.send(from, Message::ToOwner(ToOwner::Proof { ticket: number, proof: None }));
        };
        if self.proofs.len() < PROOFS {
            self.next += 1;
            self.proofs.insert(self.next, (from, number, nonce));
            cx.emit(Event::Read { ticket: self.next, blob });
        }
    }

    fn give_up(&mut self, id: Id, why: String, cx: &mut Kcx<'_>) {
        if let Some(owner) = self.kept.get(&id).and_then(|kept| kept.record.owner) {
            cx.reach(owner);
        }
        cx.send(id.0, Message::ToOwner(ToOwner::Refused { file: id.1, why }));
        self.drop_file(id, cx);
    }

    fn drop_file(&mut self, id: Id, cx: &mut Kcx<'_>) {
        let Some(kept) = self.kept.remove(&id) else { return };
        self.bytes -= kept.bytes();
        for ticket in &kept.tickets {
            self.tickets.remove(ticket);
            cx.emit(Event::Release { ticket: *ticket });
        }
        let chunks = kept.manifest.into_iter().flat_map(|manifest| manifest.chunks);
        cx.emit(Event::Forget { blobs: std::iter::once(kept.record.manifest.id).chain(chunks).collect() });
        let write = Write { table: Table::Kept, key: key(id), value: None };
        cx.emit(Event::Commit { writes: vec![write] });
    }

    fn write(&self, id: Id, cx: &mut Kcx<'_>) {
        let Some(kept) = self.kept.get(&id) else { return };
        // Plain data: rmp cannot fail on it.
        let value = rmp_serde::to_vec(&kept.record).map(Bytes::from).ok();
        cx.emit(Event::Commit { writes: vec![Write { table: Table::Kept, key: key(id), value }] });
    }

    /// Takes the rows of an earlier life. Files that no longer fit the space that is given are dropped.
    fn restore(&mut self, rows: Vec<(Vec<u8>, Bytes)>, cx: &mut Kcx<'_>) {
        for (key, value) in rows {
            let id = key.split_at_checked(32).and_then(|(owner, file)| {
                Some((NodeId(owner.try_into().ok()?), BlobId(file.try_into().ok()?)))
            });
            let (Some(id), Ok(record)) = (id, sandbox::unpack::from_slice::<Record>(&value)) else {
                let writes = vec![Write { table: Table::Kept, key, value: None }];
                cx.emit(Event::Commit { writes });
                continue;
            };
            let bytes = record.bytes.saturating_add(record.manifest.len);
            let fits = self.room() >= bytes && self.kept.len() < self.config.kept;
            if fits {
                self.take_up(id, record, cx);
                continue;
            }
            if let Some(owner) = record.owner {
                cx.reach(owner);
            }
            let why = "it gives less space now".into();
            cx.send(id.0, Message::ToOwner(ToOwner::Refused { file: id.1, why }));
            cx.emit(Event::Forget { blobs: vec![record.manifest.id] });
            cx.emit(Event::Commit { writes: vec![Write { table: Table::Kept, key, value: None }] });
        }
    }

    fn sweep(&mut self, cx: &mut Kcx<'_>) {
        cx.set_timer(Timer::Sweep, SWEEP);
        let now_ms = self.wall.now(cx.now);
        self.sold.retain(|(.., until)| *until > cx.now);
        let over = self.kept.iter().filter(|(_, kept)| kept.record.until_ms <= now_ms).map(|(id, _)| *id);
        let over: Vec<Id> = over.collect();
        over.into_iter().for_each(|id| self.give_up(id, "its time is over".into(), cx));
        if cx.now.since(self.told) < TELL {
            return;
        }
        self.told = cx.now;
        let mut lists: BTreeMap<NodeId, (Option<Contact>, Vec<BlobId>)> = BTreeMap::new();
        for ((owner, file), kept) in &self.kept {
            let list = lists.entry(*owner).or_default();
            list.0 = list.0.or(kept.record.owner);
            list.1.push(*file);
        }
        for (owner, (contact, files)) in lists {
            if let Some(contact) = contact {
                cx.reach(contact);
            }
            cx.send(owner, Message::ToOwner(ToOwner::Holding { files }));
        }
    }
}

fn key((owner, file): Id) -> Vec<u8> {
    [owner.0, file.0].concat()
}
