//! Records on the ring: small, signed and numbered, each at whoever owns its key, with copies at the
//! next successors (the way of Chord's applications, and of paper `market`'s servers).
//!
//! Names are published with them, and who keeps which file. They expire, and who published them
//! says them again; nobody else can. Of one publisher the higher number counts, and one number has
//! one text.
//!
//! | file | what it knows |
//! |---|---|
//! | `record` | what is signed, and what of it is believed |
//! | `table` | the records on a node, which take whose place, and bounds |
//! | `storage` | the side of who owns keys and of who keeps copies |
//! | `sender` | whose copies count |
//! | `publish`, `read` | the sides of who publishes and who reads |

mod config;
mod message;
mod publish;
mod read;
mod record;
mod sender;
mod storage;
mod table;

use crate::record::Key;
use crate::record::Refused;
use crate::replicas::{Keys, Pulls, Share};
use crate::ticket::Ticket;
pub use config::RecordsConfig;
pub use message::{COPIES, Copied, Message};
pub use record::{Record, VALUE};

use crate::circle::{Located, Point};
use crate::ids::NodeId;
use crate::keys::Secret;
use crate::protocol::{Cx, Input, InputOf, Protocol};
use crate::time::{Time, Wall};
use crate::under_way::UnderWay;
use bytes::Bytes;
use publish::Publication;
use read::Read;
use std::collections::BTreeMap;
use std::sync::Arc;
use table::Table;

/// Lookups for one wish before it rests, or fails. Our choice: the ring moves now and then, not three
/// times in a row.
const TRIES: u32 = 3;

#[derive(Debug)]
pub struct Records {
    config: Arc<RecordsConfig>,
    secret: Secret,
    wall: Option<Wall>,
    /// The keys on the ring of nodes that this node owns.
    share: Share,
    /// The members before this node, the nearest first.
    predecessors: Vec<NodeId>,
    handovers: Vec<sender::Handover>,
    table: Table,
    pulls: Pulls,
    published: BTreeMap<u64, Publication>,
    /// The last number that was signed.
    number: u64,
    reads: BTreeMap<u64, Read>,
    lookups: UnderWay<For>,
    /// The last number of a publication or a read.
    next: u64,
}

/// Use of a lookup's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum For {
    Publish(u64),
    Read(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Compare copies, drop what is over.
    Sweep,
    /// Somebody is late, or it is time to say it again.
    Publish(u64),
    Read(u64),
}

#[derive(Clone, Debug)]
pub enum Command {
    /// The driver's wall clock, milliseconds since 1970; nothing is signed or taken before.
    WallClock(u64),
    /// Publish this from now on, or, without a value, give it up. Ends with [`Event::Published`] of
    /// this ticket.
    Publish { ticket: Ticket, key: Key, value: Option<Bytes> },
    /// Read what is published under this key. Ends with [`Event::Read`] of this number.
    Read { number: u64, key: Key },
    /// From the ring of nodes.
    Keys(Keys),
    /// The members before this node on the ring of nodes, the nearest first: of those next to it this
    /// node keeps copies.
    Predecessors(Vec<NodeId>),
    /// Result of [`Event::Lookup`]; `None` if no owner was found.
    Located { number: u64, found: Option<Located> },
}

/// Value that a node has published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub by: NodeId,
    pub number: u64,
    pub value: Bytes,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Look this up on the ring of nodes; answered by [`Command::Located`].
    Lookup {
        number: u64,
        key: Point,
    },
    Published {
        ticket: Ticket,
        refused: Option<Refused>,
    },
    /// Something that stood does not any more.
    Lost {
        key: Key,
        refused: Refused,
    },
    /// Newest value of each publisher; empty if nobody has published anything.
    Read {
        number: u64,
        found: Result<Vec<Found>, Refused>,
    },
}

type Rcx<'a> = Cx<'a, Records>;

impl Protocol for Records {
    type Message = Message;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, input: InputOf<Self>, cx: &mut Rcx<'_>) {
        match input {
            Input::Message { from, message } => match message {
                Message::Put { ticket, signed } => self.put(from, ticket, *signed, cx),
                Message::Done { ticket, refused } => self.done(from, ticket, refused, cx),
                Message::Get { ticket, key } => self.get(from, ticket, &key, cx),
                Message::Have { ticket, found } => self.have(from, ticket, found, cx),
                Message::Copies(copies) => self.copies(from, copies, cx),
                Message::Compare { range, count, digest } => self.compared(from, range, count, digest, cx),
                Message::Pull(range) => self.pull(from, range, cx),
            },
            Input::Timer(Timer::Sweep) => self.sweep(cx),
            Input::Timer(Timer::Publish(id)) => self.publish_late(id, cx),
            Input::Timer(Timer::Read(id)) => self.ask_next(id, cx),
            Input::Command(command) => self.command(command, cx),
            Input::Down(peer) | Input::Unreachable(peer) => self.asked_in_vain(peer, cx),
            Input::Up(_) => {}
        }
    }

    fn check_invariants(&self) {
        assert!(self.table.len() <= self.config.records, "records are bounded");
        assert_eq!(self.table.all().count(), self.table.len(), "and counted");
        assert!(self.published.len() <= self.config.published, "so is what this node publishes");
        let wanted = self.published.len() + self.reads.len();
        assert!(self.lookups.len() <= wanted, "no lookup outlives its wish, so none gives way");
        assert!(self.reads.len() <= self.config.reads, "and what it asks for");
    }
}

impl Records {
    /// `secret` is the node's own.
    pub fn new(config: impl Into<Arc<RecordsConfig>>, secret: Secret) -> Records {
        let config = config.into();
        Records {
            table: Table::new(config.clone()),
            // A publication and a read look up one key at a time.
            lookups: UnderWay::new(config.published + config.reads),
            config,
            secret,
            wall: None,
            share: Share::default(),
            predecessors: Vec::new(),
            handovers: Vec::new(),
            pulls: Pulls::default(),
            published: BTreeMap::new(),
            number: 0,
            reads: BTreeMap::new(),
            next: 0,
        }
    }

    /// Records that lie here, copies included: key, publisher, number.
    pub fn here(&self) -> impl Iterator<Item = (&Key, NodeId, u64)> {
        self.table.all().map(|(key, entry)| (key, entry.signed.by, entry.number))
    }

    fn command(&mut self, command: Command, cx: &mut Rcx<'_>) {
        match command {
            Command::WallClock(ms) => {
                self.wall.get_or_insert_default().told(ms, cx.now);
                cx.set_timer_by(Timer::Sweep, self.config.compare);
            }
            Command::Publish { ticket, key, value } => self.publish(ticket, key, value, cx),
            Command::Read { number, key } => self.read(number, key, cx),
            Command::Keys(Keys::Gained { range, from }) => self.gained(range, from, cx),
            Command::Keys(Keys::Lost { range, to }) => self.lost(range, to, cx),
            Command::Keys(Keys::Successors(list)) => self.successors(list, cx),
            Command::Predecessors(list) => self.predecessors = list,
            Command::Located { number, found } => match self.lookups.answered(number) {
                Some(For::Publish(id)) => self.storage_found(id, found.as_ref(), cx),
                Some(For::Read(id)) => self.readable_found(id, found.as_ref(), cx),
                None => {}
            },
        }
    }

    fn now_ms(&self, now: Time) -> Option<u64> {
        self.wall.map(|wall| wall.now(now))
    }

    fn look_up(&mut self, key: Point, of: For, cx: &mut Rcx<'_>) {
        let number = self.lookups.ask(of);
        cx.emit(Event::Lookup { number, key });
    }
}
