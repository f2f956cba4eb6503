//! Content-addressed blobs: which are here, fetching those that are not, serving those that
//! others miss, forgetting those that nobody needs.
//!
//! A blob comes in chunks, each checked as it arrives ([`tree`]), in order, a few under way
//! at a time. The bytes themselves lie in the driver's storage.

mod check;
mod fetch;
mod message;
mod serve;
mod source;
pub mod tree;

pub use message::Message;

use crate::content::{BlobRef, FetchError, NotFetched};
use crate::disk;
use crate::ids::{BlobId, NodeId};
use crate::protocol::{Cx, Input, InputOf, Protocol};
use crate::time::Time;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// How long what was uploaded waits for its job. Our choice: the inputs of a job come within minutes, and the job
/// after them.
const UPLOADED: Duration = Duration::from_secs(600);

/// Uploads of so long count as one.
const UPLOADS: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub struct Store {
    retry: Duration,
    /// Bytes kept although nobody needs them now; `None` keeps everything (a gateway, whose
    /// blobs are somebody's jobs and results).
    cache_bytes: Option<u64>,
    blob_bytes: u64,
    /// Services that have yet to say what they need.
    waits: BTreeSet<Asker>,
    here: BTreeMap<BlobId, Here>,
    /// Bytes of all that is here.
    total: u64,
    /// Bytes of what tickets need.
    pinned: u64,
    /// Blobs here that no ticket needs, by their last use.
    idle: BTreeSet<(u64, BlobId)>,
    clock: u64,
    /// Times at which blobs were put here from outside, and what the clock said before: a job that needs them has yet
    /// to come.
    uploads: VecDeque<(Time, u64)>,
    tickets: BTreeMap<Ticket, Wanted>,
    /// The tickets that need a blob, here or not.
    holders: BTreeMap<BlobId, BTreeSet<Ticket>>,
    fetches: BTreeMap<BlobId, fetch::Fetch>,
    sources: BTreeMap<NodeId, source::Source>,
    serving: serve::Serving,
    checks: check::Checks,
    pending: BTreeMap<u64, Pending>,
    next: u64,
}

/// Which machine waits, and its name for what it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket {
    pub of: Asker,
    pub number: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Asker {
    Owner,
    Runner,
    /// A runner for the snapshots of its units, a keeper for those of others, and an owner for
    /// those that it passes on.
    Snapshots,
    Keeper,
    Relay,
    /// An owner of files for its own, a keeper for those of others, and the driver for those that it
    /// reads.
    Files,
    Kept,
    Driver,
}

impl Asker {
    /// Whether what it asks for is of no use to anybody once it is done, so that even a gateway
    /// forgets it.
    fn is_passing(self) -> bool {
        !matches!(self, Asker::Owner | Asker::Runner | Asker::Files)
    }
}

#[derive(Debug)]
struct Here {
    len: u64,
    used: u64,
    /// Nobody has asked for it but those who soon have no use for it.
    passing: bool,
}

#[derive(Debug)]
struct Wanted {
    /// Each with the length that it is said to have.
    blobs: BTreeMap<BlobId, u64>,
    /// Nodes that may have them.
    from: Vec<NodeId>,
    /// How many of them are not here yet.
    missing: u32,
    answered: bool,
}

/// Purpose of a storage request.
#[derive(Debug)]
enum Pending {
    Put(BlobId),
    /// A chunk of the fetch with this number.
    Append(BlobId, u64),
    ReadChunk(serve::Read),
    ReadForTree {
        blob: BlobId,
        index: u32,
    },
    ReadForCheck(BlobId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// A source has sent nothing for a while.
    Retry(NodeId),
}

#[derive(Clone, Debug)]
pub enum Command {
    /// Have these here, from one of those nodes if need be, and keep them until the ticket is
    /// released. Answered once by [`Event::Answered`].
    Fetch {
        ticket: Ticket,
        blobs: Vec<BlobRef>,
        from: Vec<NodeId>,
    },
    /// Keep these, likewise. They are what their names say: whoever made them has hashed them.
    Keep {
        ticket: Ticket,
        blobs: Vec<(BlobRef, Bytes)>,
    },
    Release {
        ticket: Ticket,
    },
    /// Release it, and cache none of its blobs: those that no other ticket needs go.
    Discard {
        ticket: Ticket,
    },
    /// Somebody could do nothing with these: look whether they are what their names say. If not,
    /// they are not here.
    Check {
        blobs: Vec<BlobId>,
    },
    /// Nobody who asked for these needs them any more: unless others do, they go.
    Forget {
        blobs: Vec<BlobId>,
    },
    /// Whether this service has yet to say which blobs of an earlier life it needs: nothing goes meanwhile.
    Wait {
        of: Asker,
        wait: bool,
    },
    /// The driver has put these into storage, or found them there.
    Stored(Vec<(BlobId, u64)>),
    /// Storage has done what [`Event`] asked under this number.
    Done {
        number: u64,
    },
    Read {
        number: u64,
        bytes: Bytes,
    },
    Failed {
        number: u64,
        error: disk::Failed,
    },
}

#[derive(Clone, Debug)]
pub enum Event {
    Answered {
        ticket: Ticket,
        result: Result<(), NotFetched>,
    },
    /// A part of what was asked of that node has come, and is what it should be.
    Came {
        from: NodeId,
    },
    Put {
        number: u64,
        id: BlobId,
        bytes: Bytes,
    },
    Append {
        number: u64,
        id: BlobId,
        offset: u64,
        bytes: Bytes,
        last: bool,
    },
    Read {
        number: u64,
        id: BlobId,
        offset: u64,
        len: u32,
    },
    Drop {
        id: BlobId,
    },
    /// The rest of it does not come: what of it is there goes.
    Abandon {
        id: BlobId,
    },
}

impl Protocol for Store {
    type Message = Message;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, input: InputOf<Self>, cx: &mut Cx<'_, Self>) {
        match input {
            Input::Message { from, message } => match message {
                Message::GetTree { id } => self.get_tree(from, id, cx),
                Message::Get { id, index } => self.get(from, id, index, cx),
                Message::Tree { id, values } => self.tree_came(from, id, &values, cx),
                Message::Chunk { id, index, bytes } => self.chunk_came(from, id, index, bytes, cx),
                Message::Missing { id } => self.missing_there(from, id, cx),
                Message::Busy { .. } => self.source_busy(from, cx),
            },
            Input::Timer(Timer::Retry(source)) => self.source_silent(source, cx),
            Input::Down(peer) | Input::Unreachable(peer) => {
                self.serving.forget(peer);
                self.source_down(peer, cx);
            }
            Input::Up(peer) => self.source_up(peer, cx),
            Input::Command(command) => match command {
                Command::Fetch { ticket, blobs, from } => self.fetch(ticket, blobs, &from, cx),
                Command::Keep { ticket, blobs } => self.keep(ticket, blobs, cx),
                Command::Release { ticket } => self.release(ticket, cx),
                Command::Discard { ticket } => {
                    let blobs =
                        self.tickets.get(&ticket).map(|wanted| wanted.blobs.keys().copied().collect());
                    self.release(ticket, cx);
                    self.forget(blobs.unwrap_or_default(), cx);
                }
                Command::Forget { blobs } => self.forget(blobs, cx),
                Command::Wait { of, wait: true } => drop(self.waits.insert(of)),
                Command::Wait { of, wait: false } => {
                    self.waits.remove(&of);
                    self.evict(cx);
                }
                Command::Check { blobs } => blobs.into_iter().for_each(|id| self.check(id, cx)),
                Command::Stored(blobs) => self.stored(blobs, cx),
                Command::Done { number } => self.done(number, cx),
                Command::Read { number, bytes } => self.read(number, bytes, cx),
                Command::Failed { number, error } => self.failed(number, error, cx),
            },
        }
    }

    fn check_invariants(&self) {
        self.sources.values().for_each(source::Source::check);
        // Thorough checks on small stores: tests stay linear.
        if self.here.len() + self.tickets.len() > 256 {
            return;
        }
        assert_eq!(self.total, self.here.values().map(|h| h.len).sum::<u64>(), "bytes are counted");
        let pinned = self.here.iter().filter(|(id, _)| self.holders.contains_key(id));
        assert_eq!(self.pinned, pinned.map(|(_, h)| h.len).sum::<u64>(), "bytes that are needed are counted");
        let idle = self.here.keys().filter(|id| !self.holders.contains_key(id)).count();
        assert_eq!(self.idle.len(), idle, "what nobody needs is known");
        for wanted in self.tickets.values() {
            let missing = wanted.blobs.keys().filter(|id| !self.here.contains_key(id)).count();
            assert!(wanted.answered || wanted.missing as usize == missing, "a ticket counts what it misses");
        }
    }
}

impl Store {
    pub fn new(cache_bytes: Option<u64>, blob_bytes: u64, retry: Duration) -> Store {
        Store {
            retry,
            cache_bytes,
            blob_bytes,
            waits: BTreeSet::new(),
            here: BTreeMap::new(),
            total: 0,
            pinned: 0,
            idle: BTreeSet::new(),
            clock: 0,
            uploads: VecDeque::new(),
            tickets: BTreeMap::new(),
            holders: BTreeMap::new(),
            fetches: BTreeMap::new(),
            sources: BTreeMap::new(),
            serving: serve::Serving::default(),
            checks: check::Checks::default(),
            pending: BTreeMap::new(),
            next: 1,
        }
    }

    fn number(&mut self, pending: Pending) -> u64 {
        let number = self.next;
        self.next += 1;
        self.pending.insert(number, pending);
        number
    }

    fn keep(&mut self, ticket: Ticket, blobs: Vec<(BlobRef, Bytes)>, cx: &mut Cx<'_, Self>) {
        let refs: Vec<BlobRef> = blobs.iter().map(|(blob, _)| *blob).collect();
        self.open(ticket, &refs, &[], cx);
        for (blob, bytes) in blobs {
            let under_way = self.fetches.get(&blob.id).is_some_and(|fetch| fetch.source().is_none());
            if !self.here.contains_key(&blob.id) && !under_way {
                let others = self.end_fetch(blob.id, cx);
                self.abandon(blob.id, others.as_ref(), cx);
                let number = self.number(Pending::Put(blob.id));
                // `done` has to know the length when it hears of it.
                let passing = ticket.of.is_passing() && others.is_none_or(|fetch| fetch.is_passing());
                self.fetches.insert(blob.id, fetch::Fetch::local(number, blob.len, passing));
                cx.emit(Event::Put { number, id: blob.id, bytes });
            }
        }
    }

    /// Registers a ticket; answers it at once if nothing is missing.
    fn open(&mut self, ticket: Ticket, blobs: &[BlobRef], from: &[NodeId], cx: &mut Cx<'_, Self>) {
        let blobs: BTreeMap<BlobId, u64> = blobs.iter().map(|blob| (blob.id, blob.len)).collect();
        let mut missing = 0;
        for id in blobs.keys() {
            self.touch(*id);
            let holders = self.holders.entry(*id).or_default();
            let first = holders.is_empty();
            holders.insert(ticket);
            match self.here.get_mut(id) {
                Some(here) => {
                    here.passing &= ticket.of.is_passing();
                    if first {
                        self.idle.remove(&(here.used, *id));
                        self.pinned += here.len;
                    }
                }
                None => missing += 1,
            }
        }
        let from = from.to_vec();
        self.tickets.insert(ticket, Wanted { blobs, from, missing, answered: missing == 0 });
        if missing == 0 {
            cx.emit(Event::Answered { ticket, result: Ok(()) });
        }
    }

    /// Somebody uses the blob.
    fn touch(&mut self, id: BlobId) {
        self.clock += 1;
        if let Some(here) = self.here.get_mut(&id) {
            if self.idle.remove(&(here.used, id)) {
                self.idle.insert((self.clock, id));
            }
            here.used = self.clock;
        }
    }

    /// The driver has these: its user's, or from an earlier life.
    fn stored(&mut self, blobs: Vec<(BlobId, u64)>, cx: &mut Cx<'_, Self>) {
        let is_new = self.uploads.back().is_none_or(|(at, _)| cx.now.since(*at) >= UPLOADS);
        // Where nothing is ever forgotten, nothing has to wait.
        if self.cache_bytes.is_some() && self.waits.is_empty() && is_new {
            self.uploads.push_back((cx.now, self.clock));
        }
        for (id, len) in blobs {
            self.touch(id);
            self.arrived(id, len, cx);
        }
    }

    /// A blob is whole and in storage.
    fn arrived(&mut self, id: BlobId, len: u64, cx: &mut Cx<'_, Self>) {
        let unwanted = self.end_fetch(id, cx).is_some_and(|fetch| fetch.is_passing());
        if self.here.contains_key(&id) {
            return;
        }
        let wrong: Vec<(Ticket, u64)> = self.waiting(id).filter(|(_, said)| *said != len).collect();
        for (ticket, said) in wrong {
            self.refuse(ticket, id, FetchError::of_another_length(len, said), cx);
        }
        self.clock += 1;
        self.total += len;
        let holders: Vec<Ticket> = self.holders.get(&id).into_iter().flatten().copied().collect();
        let passing = match holders.is_empty() {
            true => unwanted,
            false => holders.iter().all(|ticket| ticket.of.is_passing()),
        };
        self.here.insert(id, Here { len, used: self.clock, passing });
        if holders.is_empty() {
            self.idle.insert((self.clock, id));
            if passing {
                // The node that asked for it has no use for it any more.
                self.drop_blob(id, cx);
            }
        } else {
            self.pinned += len;
        }
        for ticket in holders {
            let Some(wanted) = self.tickets.get_mut(&ticket) else { continue };
            wanted.missing = wanted.missing.saturating_sub(1);
            if wanted.missing == 0 && !wanted.answered {
                wanted.answered = true;
                cx.emit(Event::Answered { ticket, result: Ok(()) });
            }
        }
        self.evict(cx);
    }

    /// The blob is here, or cannot be had.
    fn end_fetch(&mut self, id: BlobId, cx: &mut Cx<'_, Self>) -> Option<fetch::Fetch> {
        let fetch = self.fetches.remove(&id)?;
        if let Some(source) = fetch.source() {
            self.leave_source(source, id, fetch.len(), cx);
        }
        Some(fetch)
    }

    /// A blob cannot be had: all tickets that need it, with that length if it was being fetched, are answered so.
    fn unavailable(&mut self, id: BlobId, why: &FetchError, cx: &mut Cx<'_, Self>) {
        let fetch = self.end_fetch(id, cx);
        self.abandon(id, fetch.as_ref(), cx);
        let len = fetch.map(|fetch| fetch.len());
        let is_such = |said: u64| len.is_none_or(|len| len == said);
        let failed: Vec<(Ticket, u64)> = self.waiting(id).filter(|(_, said)| is_such(*said)).collect();
        for (ticket, _) in failed {
            self.refuse(ticket, id, why.clone(), cx);
        }
        self.fetch_with_next_length(id, cx);
    }

    /// Tickets that wait for the blob, each with the length that it is said to have.
    fn waiting(&self, id: BlobId) -> impl Iterator<Item = (Ticket, u64)> + '_ {
        let said = move |ticket: &Ticket| {
            let wanted = self.tickets.get(ticket).filter(|wanted| !wanted.answered)?;
            wanted.blobs.get(&id).map(|len| (*ticket, *len))
        };
        self.holders.get(&id).into_iter().flatten().filter_map(said)
    }

    fn refuse(&mut self, ticket: Ticket, blob: BlobId, why: FetchError, cx: &mut Cx<'_, Self>) {
        // One answer: it may have been refused for another of its blobs meanwhile.
        if self.tickets.contains_key(&ticket) {
            self.release(ticket, cx);
            cx.emit(Event::Answered { ticket, result: Err(NotFetched { blob, why }) });
        }
    }

    /// Has storage delete its part of a blob whose fetch is given up.
    fn abandon(&self, id: BlobId, fetch: Option<&fetch::Fetch>, cx: &mut Cx<'_, Self>) {
        if fetch.is_some_and(fetch::Fetch::has_begun) {
            cx.emit(Event::Abandon { id });
        }
    }

    fn release(&mut self, ticket: Ticket, cx: &mut Cx<'_, Self>) {
        let Some(wanted) = self.tickets.remove(&ticket) else { return };
        for (id, _) in wanted.blobs {
            let Some(holders) = self.holders.get_mut(&id) else { continue };
            holders.remove(&ticket);
            if !holders.is_empty() {
                self.look_who_waits(id, cx);
                continue;
            }
            self.holders.remove(&id);
            let Some(here) = self.here.get(&id) else { continue };
            self.pinned -= here.len;
            self.idle.insert((here.used, id));
            if here.passing {
                self.drop_blob(id, cx);
            }
        }
        self.evict(cx);
    }

    /// Forgets what was used longest ago, until the rest fits. What is needed takes nothing from
    /// what is only cached, and nothing goes that was used since the first upload of the last minutes.
    fn evict(&mut self, cx: &mut Cx<'_, Self>) {
        let Some(bound) = self.cache_bytes.filter(|_| self.waits.is_empty()) else { return };
        self.uploads.retain(|(at, _)| cx.now.since(*at) < UPLOADED);
        let since = self.uploads.front().map_or(u64::MAX, |(_, clock)| *clock);
        while self.total - self.pinned > bound {
            let Some((_, id)) = self.idle.first().copied().filter(|(used, _)| *used <= since) else { return };
            self.drop_blob(id, cx);
        }
    }

    fn forget(&mut self, blobs: Vec<BlobId>, cx: &mut Cx<'_, Self>) {
        for id in blobs {
            if !self.holders.contains_key(&id) {
                self.drop_blob(id, cx);
            }
        }
    }

    fn drop_blob(&mut self, id: BlobId, cx: &mut Cx<'_, Self>) {
        if self.forget_here(id) {
            cx.emit(Event::Drop { id });
        }
    }

    /// Takes the blob out of what is here.
    fn forget_here(&mut self, id: BlobId) -> bool {
        let Some(here) = self.here.remove(&id) else { return false };
        self.serving.forget_tree(id);
        self.total -= here.len;
        if self.holders.contains_key(&id) {
            self.pinned -= here.len;
        } else {
            self.idle.remove(&(here.used, id));
        }
        true
    }

    fn done(&mut self, number: u64, cx: &mut Cx<'_, Self>) {
        match self.pending.remove(&number) {
            Some(Pending::Put(id)) if self.is_fetch(id, number) => {
                if let Some(len) = self.fetches.get(&id).map(|f| f.len()) {
                    self.arrived(id, len, cx);
                }
            }
            Some(Pending::Append(id, fetch)) => self.chunk_stored(id, fetch, cx),
            Some(
                Pending::Put(_)
                | Pending::ReadChunk(_)
                | Pending::ReadForTree { .. }
                | Pending::ReadForCheck(_),
            )
            | None => {}
        }
    }

    fn read(&mut self, number: u64, bytes: Bytes, cx: &mut Cx<'_, Self>) {
        match self.pending.remove(&number) {
            Some(Pending::ReadChunk(read)) => self.chunk_read(read, bytes, cx),
            Some(Pending::ReadForTree { blob, index }) => self.tree_read(blob, index, &bytes, cx),
            Some(Pending::ReadForCheck(blob)) => self.check_read(blob, &bytes, cx),
            Some(Pending::Put(_) | Pending::Append(..)) | None => {}
        }
    }

    fn failed(&mut self, number: u64, error: disk::Failed, cx: &mut Cx<'_, Self>) {
        match self.pending.remove(&number) {
            Some(Pending::Put(id)) if self.is_fetch(id, number) => {
                self.unavailable(id, &FetchError::NotStored(error.0), cx);
            }
            Some(Pending::Append(id, fetch)) if self.is_fetch(id, fetch) => {
                self.unavailable(id, &FetchError::NotStored(error.0), cx);
            }
            Some(Pending::Put(_) | Pending::Append(..)) | None => {}
            Some(Pending::ReadChunk(read)) => self.chunk_unreadable(read, cx),
            Some(Pending::ReadForTree { blob, .. }) => self.tree_unreadable(blob, cx),
            Some(Pending::ReadForCheck(blob)) => self.check_failed(blob, cx),
        }
    }
}
