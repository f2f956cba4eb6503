//! The node's edge: what drivers feed it, and what it asks of them.

use crate::address::{Address, Contact, Ip};
use crate::capability::{Candidate, Capability};
use crate::channel::{Carrier, Channel};
use crate::circle::{Located, Point};
use crate::content::{BlobRef, NotFetched};
use crate::contract::{Order, Outcome as Ordered};
use crate::disk::StorageReply;
use crate::disk::StorageRequest;
use crate::elsewhere::Elsewhere;
use crate::engine::EngineReply;
use crate::engine::EngineRequest;
use crate::files::Manifest;
use crate::files::owner::{NotNamed, NotPut};
use crate::finding::{Needs, Place};
use crate::goods::Goods;
use crate::goods::{NoDeal, Offer as MarketOffer, Wanted};
use crate::ids::{BlobId, JobId, NodeId, UnitId};
use crate::ledger::Page;
use crate::ledger::bank::NotInvited;
use crate::money::{Micro, Price};
use crate::overlay::circuits::ends as circuits;
use crate::overlay::dialback::Standing;
use crate::overlay::ring::Failure;
use crate::overlay::signalling::{self, NotOpened};
use crate::overlay::swarm::Swarm;
use crate::record::{Key, Refused};
use crate::records::Found as RecordFound;
use crate::time::Time;
use crate::trust::policy::Policy;
use crate::work::client::NotAccepted;
use crate::work::spec::JobSpec;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;

/// Everything that can happen to a node.
#[derive(Clone, Debug)]
pub enum NodeInput {
    /// The deadline given to [`Host::wake_at`] came, or may have: early and late are harmless.
    Wake,
    /// The driver's wall clock, milliseconds since 1970. Only records for people use it.
    WallClock(u64),
    /// An authenticated connection to `peer` stands; frames can be sent. `ip` is where it is
    /// seen, if the driver knows. `joined`: the driver was told to connect to this peer, and it did not just
    /// come: what it says of the swarm is believed.
    Connected {
        peer: NodeId,
        ip: Option<Ip>,
        joined: bool,
        over: Carrier,
    },
    /// A dial that [`Host::dial`] asked for failed, or a data channel did not become a connection. Of a circuit
    /// [`circuits::Reply::Closed`] is enough.
    DialFailed {
        peer: NodeId,
    },
    /// Result of the [`Host::probe`] with that number.
    Probed {
        number: u64,
        reached: bool,
    },
    /// Nothing was heard of it for some seconds; its connection stands. It may be about to end.
    Quiet {
        peer: NodeId,
    },
    /// It is gone, for `reason`.
    Disconnected {
        peer: NodeId,
        reason: String,
    },
    /// One frame from `from`, as it came: hostile until proven otherwise.
    Received {
        from: NodeId,
        channel: Channel,
        bytes: Bytes,
    },
    Storage(StorageReply),
    Engine(EngineReply),
    DataChannel(signalling::Reply),
    Circuit(circuits::Reply),
    Command(Command),
}

/// Commands of the person or program beside the node.
// One of them exists at a time; a box would only add a step.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug)]
pub enum Command {
    /// Submit `job` to an owner: this node itself if it is a gateway, else one it is
    /// connected to. Repeating it with the same id is harmless. Answered by
    /// [`NodeEvent::JobAccepted`] or [`NodeEvent::JobRefused`].
    Submit {
        job: JobId,
        spec: JobSpec,
    },
    Cancel {
        job: JobId,
    },
    /// Forget a job of this node that has ended, with its results and their content. Of another job nothing
    /// happens. [`NodeEvent::JobChanged`] says that it is gone.
    Forget {
        job: JobId,
    },
    /// Move a running unit to that node, or to any that has room. Answered by
    /// [`NodeEvent::Migrated`] or [`NodeEvent::MigrationFailed`]; in any case the unit goes on.
    Migrate {
        unit: UnitId,
        to: Option<NodeId>,
    },
    /// Give a unit no more fuel, or fuel again.
    PauseUnit {
        unit: UnitId,
        paused: bool,
    },
    /// Give this many slots from now on; 0 pauses. Units above the number are handed back.
    SetSlots(u32),
    /// `false`: give nothing, and hand on what runs, as its donor's policy has it now. The node stays
    /// what it is to others. `true`: give again.
    SetDonating(bool),
    /// Give a unit at most so much memory (never more than the configuration says), and take work by
    /// this policy. It counts for what is granted from now on.
    Terms {
        memory_bytes: u64,
        policy: Arc<Policy>,
    },
    /// A slot does so much, fuel a second, as jobs may require it. 0: that is not known yet.
    Measured {
        speed: u64,
    },
    /// Look for free slots without a job behind it, and reserve them. Answered by [`NodeEvent::Found`].
    Find {
        number: u64,
        units: u32,
        needs: Needs,
    },
    /// Look for so many nodes that cover these needs, busy or not. Answered by [`NodeEvent::Capable`] with the same
    /// number.
    FindCapable {
        number: u64,
        needs: Capability,
        wanted: u16,
    },
    /// Look up who owns a key on the ring. Answered by [`NodeEvent::Located`] with the same number.
    Locate {
        number: u64,
        key: Point,
    },
    /// This is for sale from now on, in place of all of its kind that was; no units: nothing.
    Sell(Goods),
    /// Ask for the balance of a node that sells by way of its gateway. See [`NodeEvent::Balance`].
    Balance,
    /// Ask the markets who sells this. Answered by [`NodeEvent::Quoted`] with the same number.
    Quote {
        number: u64,
        wanted: Wanted,
    },
    /// Somebody looks at the markets: see what there is, now and for a few seconds more. What was seen is
    /// [`crate::Node::seen_markets`]; [`NodeEvent::MarketChanged`] says that it is new.
    LookAround,
    /// Buy a unit of what was named. Answered by [`NodeEvent::Bought`] with the same number.
    Buy {
        number: u64,
        offer: MarketOffer,
    },
    /// Something that the bank is to do with this node's credit. Answered by [`NodeEvent::Ordered`]
    /// with the same number, below 2^62; the bank away, it waits.
    Order {
        number: u64,
        order: Order,
    },
    /// Ask the bank for lines of this node's statement, from this number on; the bank itself, for
    /// lines of anybody's. Answered by [`NodeEvent::Statement`] with the same number, if the bank is
    /// there.
    Statement {
        number: u64,
        of: NodeId,
        from: u64,
        limit: u32,
    },
    /// The bank's operator makes new credit for whoever shows a code first. Answered by
    /// [`NodeEvent::Invited`] with the same number.
    Invite {
        number: u64,
        amount: Micro,
    },
    /// Publish this on the ring from now on, at most [`crate::records::VALUE`] bytes, or, without a
    /// value, give it up. Answered by [`NodeEvent::Published`] with the same number.
    Publish {
        number: u64,
        key: Key,
        value: Option<Bytes>,
    },
    /// Read the record under this key. Answered by [`NodeEvent::RecordRead`] with the same number.
    ReadRecord {
        number: u64,
        key: Key,
    },
    /// Have `copies` others keep this file, for `max_price` a term or the usual. Its parts are in this node's
    /// storage; `shared` are chunks that were there before. Answered by [`NodeEvent::FilePut`].
    PutFile {
        number: u64,
        id: BlobRef,
        manifest: Box<Manifest>,
        copies: u8,
        max_price: Option<Micro>,
        shared: Vec<u32>,
    },
    /// Nobody needs this file any more. Answered by [`NodeEvent::FileDropped`].
    DropFile {
        number: u64,
        file: BlobId,
    },
    /// Publish a file of this node under a name. Answered by [`NodeEvent::FileNamed`].
    NameFile {
        number: u64,
        file: BlobId,
        name: String,
    },
    /// Have these here, from one of those nodes if need be, until [`Command::LetGo`] of this number.
    /// Answered by [`NodeEvent::Brought`].
    Bring {
        number: u64,
        blobs: Vec<BlobRef>,
        from: Vec<Contact>,
    },
    LetGo {
        number: u64,
    },
    /// Connect to this node by a data channel, or else by way of its relay, whether or not it can be dialled. It is
    /// [`NodeInput::Connected`], or [`NodeEvent::NotConnected`] says why not.
    Connect(Address),
    /// Count so many slots as busy for `owner`, though no unit holds them (experiments); 0 frees them.
    Occupy {
        owner: NodeId,
        slots: u32,
    },
    /// Suspend all units, hand them on and take none: before the process ends.
    Drain,
    /// These blobs are in the node's storage.
    BlobsStored(Vec<(BlobId, u64)>),
}

/// Where a node's wishes go. Called during [`crate::Node::drive`]; must not block.
pub trait Host {
    /// Send one frame (at most [`crate::wire::MAX_FRAME`] bytes) to a connected peer, in order
    /// per channel. A peer that is gone swallows it.
    fn transmit(&mut self, to: NodeId, channel: Channel, bytes: Bytes);
    /// Connect to a peer, answered by [`NodeInput::Connected`] or [`NodeInput::DialFailed`].
    /// A node that cannot dial answers with the latter.
    fn dial(&mut self, contact: Contact);
    /// See whether the node answers at that address: dial it on a connection of its own, beside any
    /// there is, and close that after the handshake. Answered by [`NodeInput::Probed`].
    fn probe(&mut self, number: u64, contact: Contact);
    /// Close the connection to `peer`, saying why in the log.
    fn disconnect(&mut self, peer: NodeId, reason: &str);
    /// Call `drive(Wake)` at this time. Replaces the earlier deadline; `None` removes it.
    fn wake_at(&mut self, at: Option<Time>);
    /// Do this and answer with [`NodeInput::Storage`], in any order.
    fn storage(&mut self, request: StorageRequest);
    /// Do this and answer with [`NodeInput::Engine`], in any order.
    fn engine(&mut self, request: EngineRequest);
    /// Do this with an end of a data channel, and answer with [`NodeInput::DataChannel`]. Asked only of a driver whose
    /// configuration has [`crate::Config::signalling`].
    fn data_channel(&mut self, _request: signalling::Request) {}
    /// Do this with an end of a circuit, in order, and answer with [`NodeInput::Circuit`]. Asked only of a driver whose
    /// configuration has [`crate::Config::circuits`].
    fn circuit(&mut self, _request: circuits::Request) {}
    /// Something happened that people or programs may want to know.
    fn event(&mut self, event: NodeEvent);
}

/// Why a node is not connected to another one; the words follow "the node has".
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotConnected {
    #[error("no data channel to the peer: {0}")]
    Direct(NotOpened),
    /// No data channel either.
    #[error("no circuit to the peer: {0}")]
    Relayed(circuits::NotOpened),
}

/// Events that a node reports to its driver.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeEvent {
    /// A gateway has read all records of its earlier life and takes jobs.
    Ready,
    JobAccepted {
        job: JobId,
    },
    JobRefused {
        job: JobId,
        why: NotAccepted,
    },
    /// Progress was made, at most a few times a second for each job.
    JobChanged {
        job: JobId,
    },
    /// All units ended, or the job was cancelled.
    JobEnded {
        job: JobId,
    },
    /// The unit that was to move has what it needs on the other node.
    Migrated {
        unit: UnitId,
        to: NodeId,
        /// From the word to stop to the first instruction there, as its owner saw it.
        standstill: Duration,
    },
    /// It has not moved where it should, and why; it goes on all the same.
    MigrationFailed {
        unit: UnitId,
        why: String,
    },
    /// The answer to [`Command::Connect`] where nothing came of it.
    NotConnected {
        peer: NodeId,
        why: NotConnected,
    },
    /// The set of connected nodes or what is known of them changed.
    NodesChanged,
    /// Whether others can dial this node has changed.
    Standing(Standing),
    /// The work that this node does for others changed (the donate page).
    WorkChanged,
    /// A peer did something a correct peer does not do.
    PeerFault {
        peer: NodeId,
        fault: String,
    },
    /// This node may not take part, and why (an invite is missing, another version).
    Rejected {
        peer: NodeId,
        reason: String,
    },
    /// A gateway has no room for this node, and names others. A node that can dial tries them itself.
    Full {
        peer: NodeId,
        gateways: Vec<Elsewhere>,
    },
    /// Settings of the swarm were learnt from a peer: all that are known now.
    SwarmLearnt(Swarm),
    /// Slots of this node were found, and are kept for `owner` for a while.
    /// The request came over so many hops, there and back again included.
    Reserved {
        owner: NodeId,
        slots: u32,
        hops: u8,
    },
    /// The answer to [`Command::Find`]; fewer than asked for is a normal answer.
    Found {
        number: u64,
        places: Vec<Place>,
        shortage: Option<String>,
    },
    /// The answer to [`Command::FindCapable`], with the nodes that were asked; fewer than wanted is a normal answer.
    Capable {
        number: u64,
        found: Vec<Candidate>,
        visited: u16,
    },
    /// The answer to [`Command::Locate`].
    Located {
        number: u64,
        found: Result<Located, Failure>,
    },
    /// The answer to [`Command::Quote`]: fewer than asked for is a normal answer.
    Quoted {
        number: u64,
        offers: Vec<MarketOffer>,
        shortage: Option<NoDeal>,
        hops: u16,
    },
    /// The answer to [`Command::Buy`]: whether the seller sold it.
    Bought {
        number: u64,
        taken: bool,
    },
    /// A part of what [`Command::Sell`] offered was bought.
    Sold {
        buyer: NodeId,
        units: u16,
        capacity: u64,
        price: Price,
    },
    /// The answer to [`Command::Balance`].
    Balance(Micro),
    /// Somebody lists something in a market that this node owns or keeps a copy of, or does no more; or
    /// the markets were looked at.
    MarketChanged,
    /// The bank has moved credit: this node's, or, at the bank, anybody's.
    CreditChanged,
    /// The answer to [`Command::Order`].
    Ordered {
        number: u64,
        outcome: Ordered,
    },
    /// The answer to [`Command::Statement`].
    Statement {
        number: u64,
        page: Page,
    },
    /// The answer to [`Command::Invite`]: the code, or why there is none.
    Invited {
        number: u64,
        made: Result<[u8; 16], NotInvited>,
    },
    /// The answer to [`Command::Publish`]: it stands, or why not.
    Published {
        number: u64,
        refused: Option<Refused>,
    },
    /// Something that this node published does not stand any more, and why.
    Unpublished {
        key: Key,
        refused: Refused,
    },
    /// The answer to [`Command::ReadRecord`]: of each publisher the newest.
    RecordRead {
        number: u64,
        found: Result<Vec<RecordFound>, Refused>,
    },
    /// The answer to [`Command::PutFile`]: it is written down, or why not.
    FilePut {
        number: u64,
        refused: Option<NotPut>,
    },
    /// The answer to [`Command::DropFile`]: whether this node owned it.
    FileDropped {
        number: u64,
        known: bool,
    },
    /// The answer to [`Command::NameFile`].
    FileNamed {
        number: u64,
        refused: Option<NotNamed>,
    },
    /// Something about a file of this node changed.
    FileChanged {
        file: BlobId,
    },
    /// The answer to [`Command::Bring`]: all are here, or why not.
    Brought {
        number: u64,
        result: Result<(), NotFetched>,
    },
    /// The node's own storage or engine failed; `what` says what to do next.
    Trouble {
        what: String,
    },
}
