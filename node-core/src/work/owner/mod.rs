//! The owner: keeps the record of jobs and is answerable for their units.
//!
//! A unit is never lost and its result never counted twice: a unit is waiting, with one
//! runner under a lease, or ended with a durable result, and the first durable result wins.
//! Leases and heartbeats are one a runner, not one a unit.

mod accept;
mod avoid;
mod checkpoint;
mod coming;
mod job;
mod lease;
mod moving;
mod nodes;
mod on_ring;
mod paying;
mod place;
mod precopy;
mod refusing;
mod results;
mod view;

use crate::circle::Point;
use crate::content::{BlobRef, NotFetched};
use crate::contract::{Holding, Order, Outcome, Sale};
use crate::disk::Write;
use crate::finding::{Bought, Found, Offer, Purchase, Query};
use crate::ids::{BlobId, JobId, NodeId, UnitId};
use crate::progress::Version;
use crate::protocol::{Cx, Input, InputOf, Protocol};
use crate::time::{Time, Wall};
use crate::work::OwnerConfig;
use crate::work::book::Book;
use crate::work::delegation::{Delegation, OfRing};
use crate::work::message::{Lease, Message, ToClient, ToKeeper, ToOwner, ToRunner};
use crate::work::payments::Payments;
use bytes::Bytes;
use job::Job;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A unit that was lost with this many runners is held. Our choice: one more than an unlucky
/// afternoon of closing tabs, far fewer than a swarm.
const MAX_LOSSES: u16 = 8;

/// Between two notes of progress on jobs. Our choice: what an eye follows.
const PROGRESS: Duration = Duration::from_millis(200);

/// After results have come: a finder gives only a share of what is left at a job's end, and
/// who has done its share may have more. Our choice: a share of shorter work is no share.
const LOOK_ON: Duration = Duration::from_millis(10);

/// Between looks for places although nothing new was heard; mends a lost offer.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub struct Owner {
    config: OwnerConfig,
    jobs: BTreeMap<JobId, Job>,
    /// Where the units of these jobs stand.
    book: Book,
    /// Jobs with waiting units; the next search begins behind `last_served`.
    active: BTreeSet<JobId>,
    last_served: Option<JobId>,
    leases: BTreeMap<NodeId, lease::Held>,
    next_lease: Lease,
    pending: BTreeMap<u64, Pending>,
    next_ticket: u64,
    queries: BTreeMap<u64, JobId>,
    changed: BTreeSet<JobId>,
    /// All that was kept from an earlier life has been read.
    ready: bool,
    nodes: nodes::Nodes,
    /// Purchases of the places of units, for jobs that buy them.
    payments: Payments,
    records: checkpoint::Records,
    moves: moving::Moves,
    /// Holds that the bank reported before all was read here.
    bank_held: Vec<Holding>,
    /// Delegated units: those that this node owns for others, and its own at others.
    delegation: Delegation,
    /// `None` until the driver has told the time.
    wall: Option<Wall>,
}

/// Something that waits for the store or for storage.
#[derive(Debug)]
enum Pending {
    /// The blobs of a submission.
    JobBlobs(JobId),
    /// Whether its program can run.
    JobProgram(JobId),
    JobRecord(JobId),
    /// Results whose blobs are being fetched from their runner.
    ResultBlobs(results::Arrived),
    Results(results::Arrived),
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
    Settlement(Sale, Vec<u64>),
    /// Whether the program of another gateway's units can run.
    DelegatedProgram(JobId),
    /// Content that units of another gateway's job need.
    Content(JobId, BTreeSet<BlobRef>),
    /// Outputs that are kept: with the results of a job, or until a unit's home has them.
    Kept,
    /// An end record; nobody waits for it, and a restart finds the end again by counting.
    End,
}

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
    /// Answers [`Event::Commit`] and [`Event::Inspect`].
    Answered {
        ticket: u64,
        result: Result<(), String>,
    },
    /// Answers [`Event::Fetch`] and [`Event::FetchPassing`].
    Fetched {
        ticket: u64,
        result: Result<(), NotFetched>,
    },
    /// Content that was asked of a node has begun to come.
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
    /// So many places that were found there were not used.
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

impl Protocol for Owner {
    type Message = Message;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, input: InputOf<Self>, cx: &mut Cx<'_, Self>) {
        self.take_in(input, cx);
        self.act(cx);
        for ticket in self.book.released() {
            cx.emit(Event::ReleasePassing { ticket });
        }
    }

    fn check_invariants(&self) {
        self.book.check();
        for (id, _) in self.jobs.iter().filter(|(_, job)| job.is_active() && self.ready) {
            let is_open = self.book.open(*id) > 0;
            assert_eq!(self.active.contains(id), is_open, "{id:?}: looked for exactly while units wait");
        }
    }
}

impl Owner {
    fn take_in(&mut self, input: InputOf<Self>, cx: &mut Cx<'_, Self>) {
        match input {
            Input::Message { from, message: Message::ToOwner(message) } => match message {
                ToOwner::Submit { job, spec } => self.submit(from, job, *spec, cx),
                ToOwner::Cancel { job } => self.cancel(from, job, cx),
                ToOwner::Heartbeat { lease, grants, units } => self.heartbeat(from, lease, grants, units, cx),
                ToOwner::Report { seq, results } => self.report(from, seq, results, cx),
                ToOwner::Decline { lease, units, reason, tried } => {
                    self.declined(from, lease, units, (&reason, tried), cx);
                }
                ToOwner::NotBegun { lease, units } => self.not_begun(from, lease, units, cx),
                ToOwner::OfAnother { lease, units } => self.of_another(from, lease, units, cx),
                ToOwner::Checkpoints { made } => self.checkpoints(from, made, cx),
                ToOwner::Suspended { lease, attempt, unit, made } => {
                    self.suspended(from, (lease, attempt), unit, made, cx);
                }
                ToOwner::Immobile { unit, reason } => self.immobile(from, unit, &reason, cx),
                ToOwner::Prepared { unit, error, unreached } => {
                    self.prepared(from, unit, (error, unreached), cx);
                }
                ToOwner::Resumed { unit } => self.resumed(from, unit, cx),
                ToOwner::Running { unit } => self.on_running(from, unit, cx),
                ToOwner::Unusable { lease, unit, version, reason, unreached } => {
                    self.unusable(from, (lease, unit, version), (&reason, unreached), cx);
                }
                ToOwner::Returned { units } => self.returned(from, units, cx),
                ToOwner::NeedKeepers { job, lost } => self.need_keepers(from, job, &lost, cx),
                ToOwner::Kept { unit, version } => self.kept(from, unit, version, cx),
                ToOwner::Holding { units } => self.holding(from, units, cx),
                ToOwner::IsGranted { unit, runner, attempt } => {
                    self.is_granted(from, unit, (runner, attempt), cx);
                }
            },
            Input::Message { from, message: Message::Delegated(message) } => {
                self.of_delegated(from, message, cx)
            }
            // The route gives an owner nothing else.
            Input::Message { .. } => {}
            Input::Up(peer) => {
                self.runner_up(peer);
                self.holder_up(peer, cx);
            }
            Input::Down(peer) => {
                self.nodes.gone(peer);
                self.goal_down(peer, cx);
                self.runner_down(peer, cx);
            }
            // It was not connected.
            Input::Unreachable(_) => {}
            Input::Timer(Timer::Away) => self.end_away(cx),
            Input::Timer(Timer::Records) => self.flush_records(cx),
            Input::Timer(Timer::Moves) => self.moves_late(cx),
            Input::Timer(Timer::Settle) => self.payments.again(),
            Input::Timer(Timer::Delegated) => self.look_after_delegated(cx),
            Input::Timer(Timer::Lease(runner)) => self.lease_lost(runner, "went silent", cx),
            Input::Timer(Timer::Progress) => self.tell_progress(cx),
            Input::Timer(Timer::Look) | Input::Command(Command::Room) => self.look(cx),
            Input::Command(Command::Found(found)) => self.found(found, cx),
            Input::Command(Command::Bought(bought)) => self.bought(bought, cx),
            Input::Command(Command::Settled { ticket, outcome }) => self.settled(ticket, outcome, cx),
            Input::Command(Command::Holding(held)) => self.bank_holds(held),
            Input::Command(Command::Answered { ticket, result }) => self.answered(ticket, result, cx),
            Input::Command(Command::Fetched { ticket, result }) => self.fetched(ticket, result, cx),
            Input::Command(Command::Heard(node)) => self.heard(node, cx),
            Input::Command(Command::RestoreJobs(entries)) => self.restore_jobs(entries, cx),
            Input::Command(Command::RestoreResults(entries)) => self.restore_results(entries, cx),
            Input::Command(Command::RestoreDeals(entries)) => self.restore_deals(&entries, cx),
            Input::Command(Command::RestoreCheckpoints(entries)) => self.restore_checkpoints(entries, cx),
            Input::Command(Command::Migrate { unit, to, others }) => self.migrate(unit, to, &others, cx),
            Input::Command(Command::Pause { unit, paused }) => self.pause(unit, paused, cx),
            Input::Command(Command::WallClock(ms)) => {
                self.wall.get_or_insert_default().told(ms, cx.now);
            }
            Input::Command(Command::RestoreDelegated(entries)) => self.restore_delegated(&entries, cx),
            Input::Command(Command::Ring(told)) => self.of_ring(told, cx),
        }
    }

    pub fn new(config: OwnerConfig) -> Owner {
        Owner {
            config,
            jobs: BTreeMap::new(),
            book: Book::default(),
            active: BTreeSet::new(),
            last_served: None,
            leases: BTreeMap::new(),
            next_lease: 1,
            pending: BTreeMap::new(),
            next_ticket: 1,
            queries: BTreeMap::new(),
            changed: BTreeSet::new(),
            ready: false,
            nodes: nodes::Nodes::default(),
            payments: Payments::default(),
            records: checkpoint::Records::default(),
            moves: moving::Moves::default(),
            bank_held: Vec::new(),
            delegation: Delegation::default(),
            wall: None,
        }
    }

    /// Whether all that was kept from an earlier life has been read.
    pub fn is_ready(&self) -> bool {
        self.ready
    }

    /// Milliseconds since 1970; 0 until the driver has told the time.
    fn wall_now(&self, now: Time) -> u64 {
        self.wall.map_or(0, |wall| wall.now(now))
    }

    fn ticket(&mut self, pending: Pending) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.pending.insert(ticket, pending);
        ticket
    }

    /// Content is here, or cannot be had.
    fn fetched(&mut self, ticket: u64, result: Result<(), NotFetched>, cx: &mut Cx<'_, Self>) {
        let pending = self.pending.remove(&ticket);
        if let Some(Pending::ResultBlobs(arrived)) = pending {
            return self.result_blobs(arrived, ticket, result, cx);
        }
        let result = result.map_err(|error| error.to_string());
        match pending {
            Some(Pending::JobBlobs(job)) => self.blobs_here(job, result, cx),
            Some(Pending::Relay(unit, runner)) => self.relay_here(unit, runner, ticket, result, cx),
            Some(Pending::Content(job, blobs)) => self.content_here(job, (ticket, blobs), result, cx),
            Some(Pending::Ahead(unit)) => self.ahead_here(unit, ticket, result, cx),
            Some(Pending::Kept) | None => {}
            // The others wait for storage, an engine or the bank.
            Some(pending) => drop(self.pending.insert(ticket, pending)),
        }
    }

    /// Storage, or an engine, has done something or could not.
    fn answered(&mut self, ticket: u64, result: Result<(), String>, cx: &mut Cx<'_, Self>) {
        match self.pending.remove(&ticket) {
            Some(Pending::JobProgram(job)) => self.inspected(job, result, cx),
            Some(Pending::JobRecord(job)) => self.record_written(job, result, cx),
            Some(Pending::Results(arrived)) => self.results_written(arrived, result, cx),
            Some(Pending::Records(told, units)) => self.records_written(told, units, result, cx),
            Some(Pending::DelegatedProgram(job)) => self.looked_into(job, result, cx),
            Some(Pending::Deal) => {
                if let Err(error) = result {
                    cx.trouble(format!("what was bought could not be written down: {error}"));
                }
            }
            Some(Pending::End) => {
                if let Err(error) = result {
                    cx.trouble(format!("the end of a job could not be written: {error}"));
                }
            }
            // The others wait for the store or the bank.
            Some(pending) => drop(self.pending.insert(ticket, pending)),
            None => {}
        }
    }

    /// A unit of the job may have begun or ceased to wait.
    fn touch(&mut self, id: JobId, cx: &mut Cx<'_, Self>) {
        self.hold_refused(id, cx);
        let Some(job) = self.jobs.get(&id) else { return };
        if job.is_active() && self.book.open(id) > 0 {
            self.active.insert(id);
            cx.set_timer_by(Timer::Look, LOOK_AGAIN);
        } else {
            self.active.remove(&id);
        }
        if job.is_own() {
            self.changed.insert(id);
            cx.set_timer_by(Timer::Progress, PROGRESS);
        }
    }

    fn tell_progress(&mut self, cx: &mut Cx<'_, Self>) {
        for job in std::mem::take(&mut self.changed) {
            cx.emit(Event::JobChanged(job));
        }
    }

    fn tell_client(&self, job: JobId, message: ToClient, cx: &mut Cx<'_, Self>) {
        if let Some(job) = self.jobs.get(&job) {
            cx.send(job.client, Message::ToClient(message));
        }
    }

    fn to_keeper(keeper: NodeId, message: ToKeeper, cx: &mut Cx<'_, Self>) {
        cx.send(keeper, Message::ToKeeper(message));
    }

    fn to_runner(runner: NodeId, message: ToRunner, cx: &mut Cx<'_, Self>) {
        cx.send(runner, Message::ToRunner(message));
    }
}
