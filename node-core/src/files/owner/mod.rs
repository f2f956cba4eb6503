//! The owner of files: where each is kept, and that enough others keep it.
//!
//! | file | what it knows |
//! |---|---|
//! | `record` | what is written down of a file |
//! | `deals` | what was bought, what the bank holds for it, and what is paid |
//! | `place` | finding keepers: bought in the market, or given by peers that are known |
//! | `watch` | proofs, silence, and what is done about them |
//! | `view` | for people |

mod deals;
mod place;
mod record;
mod view;
mod watch;

pub use view::{FileView, KeeperView};

use super::config::FilesConfig;
use super::manifest::Manifest;
use super::message::{Message, ToKeeper, ToOwner};
use crate::address::Contact;
use crate::content::{BlobRef, NotFetched};
use crate::contract::{Holding, Order, Outcome, Sale};
use crate::disk::{self, Write};
use crate::goods::Offer;
use crate::ids::{BlobId, NodeId};
use crate::keys::Signed;
use crate::money::{Micro, Price};
use crate::protocol::{Cx, Input, InputOf, Protocol};
use crate::record::{Key, Refused};
use crate::time::{Time, Wall};
use bytes::Bytes;
use record::Record;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// How often files are looked at. Our choice: short beside all that is waited for.
const TICK: Duration = Duration::from_secs(5);

/// Keepers that went and are remembered, for people.
const LOST: usize = 8;

/// Names of one file.
const NAMES: usize = 16;

#[derive(Debug)]
pub struct Owner {
    config: Arc<FilesConfig>,
    wall: Wall,
    me: Option<Contact>,
    files: BTreeMap<BlobId, File>,
    asks: BTreeMap<u64, place::Ask>,
    deals: deals::Deals,
    proofs: BTreeMap<u64, watch::Proof>,
    /// Commits that a command waits for, by ticket.
    commits: BTreeMap<u64, u64>,
    /// Names being published: file, name, whose command.
    namings: BTreeMap<u64, (BlobId, String, Option<u64>)>,
    next: u64,
}

#[derive(Debug)]
struct File {
    record: Record,
    holders: BTreeMap<NodeId, Holder>,
    /// The ticket by which all of it is pinned here.
    pinned: u64,
    looking: bool,
    look_at: Time,
    reason: String,
    lost: VecDeque<(NodeId, String)>,
    /// Nodes that were published last.
    published: Vec<NodeId>,
}

/// A keeper of one file.
#[derive(Debug)]
struct Holder {
    contact: Contact,
    state: State,
    until_ms: u64,
    /// Price at which it has sold the space, and the sale; `None` for a gift.
    price: Option<Price>,
    sale: Option<Sale>,
    heard: Time,
    audit_at: Time,
    /// Proofs asked for in vain.
    silent: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Pulling(u32),
    Kept,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    Tick,
    /// Peers that were asked for a gift had their time.
    Gifts(u64),
}

#[derive(Clone, Debug)]
pub enum Command {
    WallClock(u64),
    Me(Contact),
    Restore(Vec<(Vec<u8>, Bytes)>),
    /// That was all.
    Restored,
    /// Have `copies` others keep this; its parts are in this node's storage. `shared`: chunks that were
    /// there before, for another reason. `max_price`: of all copies, for a term; none: the usual. Ends with [`Event::Put`] of this number.
    Put {
        number: u64,
        id: BlobRef,
        manifest: Box<Manifest>,
        copies: u8,
        max_price: Option<Micro>,
        shared: Vec<u32>,
    },
    /// Nobody needs it any more. Ends with [`Event::Dropped`].
    Drop {
        number: u64,
        file: BlobId,
    },
    /// Publish it under this name. Ends with [`Event::Named`] of this number.
    Name {
        number: u64,
        file: BlobId,
        name: String,
    },
    /// Result of [`Event::Publish`].
    Published {
        number: u64,
        refused: Option<Refused>,
    },
    /// Result of [`Event::Buy`]: no offers if the swarm has no market, or nobody sells.
    Offers {
        number: u64,
        offers: Vec<Offer>,
        shortage: String,
    },
    /// Result of [`Event::Take`].
    Taken {
        number: u64,
        taken: bool,
    },
    /// Answers [`Event::Order`].
    Ordered {
        ticket: u64,
        outcome: Outcome,
        receipt: Option<Signed>,
    },
    /// Holds that the bank still has for this node's sales.
    Holding(Vec<Holding>),
    /// Answers [`Event::Commit`].
    Committed {
        ticket: u64,
        result: Result<(), disk::Failed>,
    },
    /// Answers [`Event::Pin`].
    Pinned {
        ticket: u64,
        result: Result<(), NotFetched>,
    },
    /// Answers [`Event::Read`].
    Read {
        ticket: u64,
        bytes: Option<Bytes>,
    },
}

/// Why a node does not take a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotPut {
    #[error("this node has no part in files")]
    NoFiles,
    #[error("this node owns {bound} files, its bound; remove some")]
    Full { bound: usize },
    /// The node's own disk is at fault.
    #[error("it could not be written down: {0}")]
    NotWritten(disk::Failed),
}

/// Why a file has not got a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotNamed {
    #[error("this node has no part in files")]
    NoFiles,
    #[error("this node does not own the file; put it here first")]
    NotOwned,
    #[error("a file has at most {NAMES} names")]
    Full,
    /// The ring takes no such record.
    #[error(transparent)]
    Refused(Refused),
}

#[derive(Clone, Debug)]
pub enum Event {
    /// The file is written down, or why it is not taken.
    Put {
        number: u64,
        refused: Option<NotPut>,
    },
    Dropped {
        number: u64,
        known: bool,
    },
    Named {
        number: u64,
        refused: Option<NotNamed>,
    },
    /// Something about a file has changed.
    Changed(BlobId),
    Commit {
        ticket: u64,
        writes: Vec<Write>,
    },
    /// Keep these here, and bring what is missing from those.
    Pin {
        ticket: u64,
        blobs: Vec<BlobRef>,
        from: Vec<NodeId>,
    },
    Release {
        ticket: u64,
    },
    /// These are not needed any more, if nothing else needs them.
    Forget {
        blobs: Vec<BlobId>,
    },
    /// They may have gone bad here.
    Check {
        blobs: Vec<BlobId>,
    },
    Read {
        ticket: u64,
        blob: BlobRef,
    },
    /// Find sellers of this space for this term, each for at most `most`.
    Buy {
        number: u64,
        bytes: u64,
        units: u16,
        term: Duration,
        most: Micro,
        tie: u64,
    },
    /// Have the bank do this.
    Order {
        ticket: u64,
        order: Order,
    },
    Take {
        number: u64,
        offer: Box<Offer>,
        receipt: Option<Signed>,
    },
    Publish {
        number: u64,
        key: Key,
        value: Option<Bytes>,
    },
}

type Ocx<'a> = Cx<'a, Owner>;

impl Protocol for Owner {
    type Message = Message;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, input: InputOf<Self>, cx: &mut Ocx<'_>) {
        match input {
            Input::Message { from, message: Message::ToOwner(message) } => match message {
                ToOwner::Room { ticket, bytes, seconds } => self.room(from, ticket, bytes, seconds, cx),
                ToOwner::Keeping { file, chunks } => self.keeping(from, file, chunks, cx),
                ToOwner::Kept { file, until_ms } => self.kept(from, file, until_ms, cx),
                ToOwner::Refused { file, why } => self.refused(from, file, &why, cx),
                ToOwner::Proof { ticket, proof } => self.proven(from, ticket, proof, cx),
                ToOwner::Holding { files } => self.holding(from, files, cx),
            },
            Input::Command(command) => self.command(command, cx),
            Input::Timer(Timer::Tick) => self.tick(cx),
            Input::Timer(Timer::Gifts(ask)) => self.gifts_are_in(ask, cx),
            Input::Down(peer) | Input::Unreachable(peer) => {
                self.gone(peer, cx);
            }
            // The route gives an owner nothing else.
            Input::Message { .. } | Input::Up(_) => {}
        }
    }

    fn check_invariants(&self) {
        assert!(self.files.len() <= self.config.owned, "files are bounded");
        self.deals.check();
        for (id, file) in &self.files {
            // One may be asked while another's time is nearly over, or one comes back.
            let most = 2 * usize::from(self.config.copies);
            assert!(file.holders.len() <= most, "{id}: keepers are bounded");
        }
    }
}

impl Owner {
    pub fn new(config: Arc<FilesConfig>) -> Owner {
        Owner {
            config,
            wall: Wall::default(),
            me: None,
            files: BTreeMap::new(),
            asks: BTreeMap::new(),
            deals: deals::Deals::default(),
            proofs: BTreeMap::new(),
            commits: BTreeMap::new(),
            namings: BTreeMap::new(),
            next: 0,
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn command(&mut self, command: Command, cx: &mut Ocx<'_>) {
        match command {
            Command::WallClock(ms) => self.wall.told(ms, cx.now),
            Command::Me(me) => {
                self.me = Some(me);
                // Keepers are published together with this node's address.
                let files: Vec<BlobId> = self.files.keys().copied().collect();
                files.into_iter().for_each(|file| self.say_where(file, true, cx));
            }
            Command::Restore(rows) => self.restore(rows, cx),
            Command::Restored => self.deals_restored(cx),
            Command::Put { number, id, manifest, copies, max_price, shared } => {
                self.put(number, id, *manifest, (copies, max_price), shared, cx);
            }
            Command::Drop { number, file } => self.drop_file(number, file, cx),
            Command::Name { number, file, name } => self.name(number, file, name, cx),
            Command::Published { number, refused } => self.published(number, refused, cx),
            Command::Offers { number, offers, shortage } => self.offered(number, offers, shortage, cx),
            Command::Taken { number, taken } => self.taken(number, taken, cx),
            Command::Ordered { ticket, outcome, receipt } => self.ordered(ticket, outcome, receipt, cx),
            Command::Holding(held) => self.bank_holds(held, cx),
            Command::Committed { ticket, result } => {
                self.deals_written(ticket, result.is_ok(), cx);
                if let Some(number) = self.commits.remove(&ticket) {
                    cx.emit(Event::Put { number, refused: result.err().map(NotPut::NotWritten) });
                }
            }
            Command::Pinned { ticket, result } => {
                let file = self.files.values_mut().find(|file| file.pinned == ticket);
                if let (Some(file), Err(why)) = (file, result) {
                    file.pinned = 0;
                    file.reason = format!("a part of it is not here any more: {why}");
                }
            }
            Command::Read { ticket, bytes } => self.compare(ticket, bytes, cx),
        }
    }

    fn put(
        &mut self,
        number: u64,
        id: BlobRef,
        manifest: Manifest,
        (copies, max_price): (u8, Option<Micro>),
        shared: Vec<u32>,
        cx: &mut Ocx<'_>,
    ) {
        let copies = copies.clamp(1, self.config.copies);
        if let Some(file) = self.files.get_mut(&id.id) {
            (file.record.copies, file.record.max_price) = (copies, max_price);
            file.look_at = cx.now;
        } else if self.files.len() >= self.config.owned {
            let refused = Some(NotPut::Full { bound: self.config.owned });
            return cx.emit(Event::Put { number, refused });
        } else {
            let put_ms = self.wall.now(cx.now);
            let record = Record {
                manifest: id,
                content: manifest,
                copies,
                put_ms,
                names: Vec::new(),
                shared,
                at: Vec::new(),
                max_price,
                spent: Default::default(),
            };
            self.take_up(record, cx);
        }
        let ticket = self.write(id.id, cx);
        self.commits.insert(ticket, number);
        self.place(id.id, cx);
    }

    fn take_up(&mut self, record: Record, cx: &mut Ocx<'_>) {
        cx.set_timer_by(Timer::Tick, TICK);
        let pinned = self.number();
        let id = record.manifest.id;
        let holders = record.at.iter().map(|known| known.holder(id, cx.now));
        let holders: BTreeMap<NodeId, Holder> = holders.collect();
        let blobs = std::iter::once(record.manifest).chain(record.content.parts()).collect();
        let from = holders.keys().copied().collect();
        let file = File {
            record,
            holders,
            pinned,
            looking: false,
            look_at: cx.now,
            reason: String::new(),
            lost: VecDeque::new(),
            published: Vec::new(),
        };
        self.files.insert(id, file);
        cx.emit(Event::Pin { ticket: pinned, blobs, from });
    }

    fn drop_file(&mut self, number: u64, id: BlobId, cx: &mut Ocx<'_>) {
        let Some(file) = self.files.remove(&id) else {
            return cx.emit(Event::Dropped { number, known: false });
        };
        for holder in file.holders.values() {
            to_keeper(&holder.contact, ToKeeper::Drop { file: id }, cx);
        }
        let keys = file.record.names.iter().cloned().map(Key::Name).chain([Key::Keepers(id)]);
        for key in keys {
            let number = self.number();
            cx.emit(Event::Publish { number, key, value: None });
        }
        cx.emit(Event::Release { ticket: file.pinned });
        let shared = &file.record.shared;
        let chunks = file.record.content.chunks.iter().enumerate();
        let own = chunks.filter(|(at, _)| !shared.contains(&(*at as u32))).map(|(_, id)| *id);
        // A chunk that another file has, too, is kept for that file.
        let others =
            |blob: &BlobId| self.files.values().any(|file| file.record.content.chunks.contains(blob));
        cx.emit(Event::Forget { blobs: own.filter(|blob| !others(blob)).chain([id]).collect() });
        let ticket = self.number();
        cx.emit(Event::Commit { ticket, writes: vec![record::removed(id)] });
        self.end_deals(id, cx);
        cx.emit(Event::Dropped { number, known: true });
    }

    fn name(&mut self, number: u64, id: BlobId, name: String, cx: &mut Ocx<'_>) {
        let refused = match self.files.get(&id) {
            None => Some(NotNamed::NotOwned),
            Some(file) if file.record.names.len() >= NAMES && !file.record.names.contains(&name) => {
                Some(NotNamed::Full)
            }
            Some(_) => Key::Name(name.clone()).check().err().map(NotNamed::Refused),
        };
        if refused.is_some() {
            return cx.emit(Event::Named { number, refused });
        }
        self.publish_name(id, name, Some(number), cx);
    }

    fn publish_name(&mut self, id: BlobId, name: String, command: Option<u64>, cx: &mut Ocx<'_>) {
        let Some(file) = self.files.get(&id) else { return };
        let value = super::Whereabouts { manifest: file.record.manifest, at: Vec::new() }.encode();
        let number = self.number();
        self.namings.insert(number, (id, name.clone(), command));
        cx.emit(Event::Publish { number, key: Key::Name(name), value: Some(value) });
    }

    fn published(&mut self, number: u64, refused: Option<Refused>, cx: &mut Ocx<'_>) {
        let Some((id, name, command)) = self.namings.remove(&number) else { return };
        if refused.is_none() {
            // A name is one file's.
            for (other, file) in self.files.iter_mut().filter(|(other, _)| **other != id) {
                if file.record.names.contains(&name) {
                    file.record.names.retain(|its| *its != name);
                    cx.emit(Event::Changed(*other));
                }
            }
            if let Some(file) = self.files.get_mut(&id)
                && !file.record.names.contains(&name)
            {
                file.record.names.push(name);
                self.write(id, cx);
            }
        }
        if let Some(number) = command {
            cx.emit(Event::Named { number, refused: refused.map(NotNamed::Refused) });
        }
    }

    /// Publishes who keeps a file, if that is news.
    fn say_where(&mut self, id: BlobId, anyhow: bool, cx: &mut Ocx<'_>) {
        let Some(file) = self.files.get_mut(&id) else { return };
        let kept = file.holders.values().filter(|holder| holder.state == State::Kept);
        let kept: Vec<Contact> = kept.map(|holder| holder.contact).collect();
        let nodes: Vec<NodeId> = kept.iter().map(|contact| contact.id).collect();
        if file.published == nodes && !anyhow {
            return;
        }
        file.published = nodes;
        let at = self.me.into_iter().chain(kept).collect();
        let value = super::Whereabouts { manifest: file.record.manifest, at }.encode();
        let number = self.number();
        cx.emit(Event::Publish { number, key: Key::Keepers(id), value: Some(value) });
    }
}

fn to_keeper(to: &Contact, message: ToKeeper, cx: &mut Ocx<'_>) {
    cx.send_to(*to, Message::ToKeeper(message));
}
