//! Inputs and effects of the owner beside messages: its timers, commands and events, and what it waits for.

use super::coming::Arrived;
use crate::address::Contact;
use crate::circle::Point;
use crate::content::{BlobRef, NotFetched};
use crate::contract::{Holding, Order, Outcome, Sale};
use crate::disk::{self, Write};
use crate::engine::NotRunnable;
use crate::finding::{Bought, Found, Offer, Purchase, Query};
use crate::ids::{BlobId, JobId, NodeId, UnitId};
use crate::progress::Version;
use crate::requires::Requires;
use crate::work::delegation::OfRing;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    Lease(NodeId),
    Progress,
    Look,
    /// Units whose runner was waited for are placed elsewhere.
    Away,
    /// Records that could not be written are written again.
    Records,
    /// A unit that was to move has not.
    Moves,
    /// Settlements are ordered again.
    Settle,
    /// Units on the ring, here and elsewhere, are seen to.
    Delegated,
    /// Threads that wait are looked at.
    Threads,
}

#[derive(Clone, Debug)]
pub enum Command {
    /// Entries of the jobs table, in key order.
    RestoreJobs(Vec<(Vec<u8>, Bytes)>),
    /// Entries of the results table, after all jobs.
    RestoreResults(Vec<(Vec<u8>, Bytes)>),
    /// Entries of the checkpoints table, after all results; an empty list ends it.
    RestoreCheckpoints(Vec<(Vec<u8>, Bytes)>),
    /// `others`: what connected nodes give.
    Migrate {
        unit: UnitId,
        to: Option<NodeId>,
        others: Vec<(NodeId, Offer)>,
    },
    Pause {
        unit: UnitId,
        paused: bool,
    },
    /// Forget a job that has ended, with its results and their content.
    Forget(JobId),
    /// A node keeps slots for so many units of the job. Answers [`Event::Want`], in parts.
    Claimed {
        job: JobId,
        node: NodeId,
        units: u32,
    },
    /// Why units of the job wait, for the submitter.
    Short {
        job: JobId,
        why: String,
    },
    /// Answers [`Event::Commit`].
    Committed {
        ticket: u64,
        result: Result<(), disk::Failed>,
    },
    /// Answers [`Event::Inspect`].
    Inspected {
        ticket: u64,
        result: Result<(), NotRunnable>,
    },
    /// Answers [`Event::Fetch`] and [`Event::FetchPassing`].
    Fetched {
        ticket: u64,
        result: Result<(), NotFetched>,
    },
    /// A part of content that was asked of a node has come.
    Heard(NodeId),
    Found(Found),
    /// Entries of the table of deals, after all results; an empty list ends it.
    RestoreDeals(Vec<(Vec<u8>, Bytes)>),
    /// Outcome of one sale of [`Event::Purchase`].
    Bought(Bought),
    /// Answers [`Event::Settle`].
    Settled {
        ticket: u64,
        outcome: Outcome,
    },
    /// Credit that the bank still holds for this node's sales.
    Holding(Vec<Holding>),
    /// Some node has room that it had not before.
    Room,
    /// Others dial this node there, and it forwards what guests say; `None`: nobody does any more.
    Relays(Option<Contact>),
    WallClock(u64),
    /// Entries of the table of delegated units, before checkpoints; an empty list ends it.
    RestoreDelegated(Vec<(Vec<u8>, Bytes)>),
    Ring(OfRing),
}

#[derive(Clone, Debug)]
pub enum Event {
    /// All that was kept from an earlier life has been read.
    Ready,
    Commit {
        ticket: u64,
        writes: Vec<Write>,
    },
    /// Bring these blobs here, from that node unless they are here; they stay.
    Fetch {
        ticket: u64,
        blobs: Vec<BlobRef>,
        from: NodeId,
    },
    /// Content of [`Event::Fetch`] need not stay any longer.
    Release {
        ticket: u64,
    },
    /// Content of [`Event::Fetch`] is to be kept no longer, not even for a while.
    Discard {
        ticket: u64,
    },
    /// Bring blobs here that pass through: a checkpoint, or a result that may come to count. They come from any
    /// of these nodes that has them, and stay until they are released.
    FetchPassing {
        ticket: u64,
        blobs: Vec<BlobRef>,
        from: Vec<NodeId>,
    },
    ReleasePassing {
        ticket: u64,
    },
    /// Say whether any node could run this program, which is here, with so much memory.
    Inspect {
        ticket: u64,
        program: BlobId,
        memory_bytes: u64,
    },
    /// Places that were found at a node and were not used.
    /// The node takes no units of this job, which the finder for jobs with requirements named it for.
    TurnsAway {
        job: JobId,
        node: NodeId,
    },
    Unused {
        node: NodeId,
        units: u32,
    },
    /// A unit was given to a node that no finder found for it.
    Placed {
        node: NodeId,
    },
    Migrated {
        unit: UnitId,
        to: NodeId,
        /// From the word to stop to the first instruction there.
        standstill: Duration,
    },
    MigrationFailed {
        unit: UnitId,
        why: String,
    },
    Find(Query),
    /// Units of the job wait for nodes that have what it requires; 0: none waits any more.
    Want {
        job: JobId,
        requires: Box<Requires>,
        memory_bytes: u64,
        units: u32,
        submitter: NodeId,
        /// Weight of the submitter.
        weight: u16,
        /// Since the job was submitted, if that is known.
        age: Duration,
    },
    /// Units that run for each submitter.
    Running(BTreeMap<NodeId, u32>),
    /// Buy places; each wish is answered.
    Purchase(Purchase),
    /// Have the bank do this.
    Settle {
        ticket: u64,
        order: Order,
    },
    Declined {
        node: NodeId,
    },
    JobChanged(JobId),
    JobEnded(JobId),
    /// Look up the owner of the key on the ring. Answered by [`OfRing::Located`].
    Locate {
        number: u64,
        key: Point,
    },
}

/// Something that waits for the store or for storage.
#[derive(Debug)]
pub(super) enum Pending {
    /// The blobs of a submission.
    JobBlobs(JobId),
    /// Whether its program can run.
    JobProgram(JobId),
    JobRecord(JobId),
    /// State of the job's threads.
    Threads(JobId),
    /// Results whose blobs are being fetched from their runner.
    ResultBlobs(Arrived),
    Results(Arrived),
    /// Records of checkpoints, and whom to tell.
    Records(Vec<(UnitId, NodeId, Version)>, Vec<UnitId>),
    /// A checkpoint on its way through here to a runner that can reach nobody else.
    Relay(UnitId, NodeId),
    /// The base of a unit's state, on its way through here before the unit moves to a runner that can reach
    /// nobody else.
    Ahead(UnitId),
    /// Purchases of a unit, being written; nobody waits for them.
    Deal,
    /// The bank is to pay for so much of a unit's place, and of space for its checkpoints.
    Settlement(Sale),
    /// Whether the program of another gateway's units can run.
    DelegatedProgram(JobId),
    /// Content that units of another gateway's job need.
    Content(JobId, BTreeSet<BlobRef>),
    /// Outputs that are kept: with the results of a job, or until a unit's origin has them.
    Kept,
    /// An end record; nobody waits for it, and a restart finds the end again by counting.
    End,
}
