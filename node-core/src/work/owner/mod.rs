//! The owner: keeps the record of jobs and is answerable for their units.
//!
//! A unit is never lost and its result never counted twice: a unit is waiting, with one
//! runner under a lease, or ended with a durable result, and the first durable result wins.
//! Leases and heartbeats are one a runner, not one a unit.

mod accept;
mod job;
mod lease;
mod place;
mod record;
mod results;
mod view;

use crate::discovery::{Found, Query};
use crate::ids::{JobId, NodeId};
use crate::node::config::Config;
use crate::node::host::Write;
use crate::protocol::{Cx, Input, InputOf, Protocol};
use crate::work::message::{Lease, Message, ToClient, ToOwner, ToRunner};
use crate::work::spec::BlobRef;
use bytes::Bytes;
use job::Job;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
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
    config: Arc<Config>,
    wall_ms: u64,
    jobs: BTreeMap<JobId, Job>,
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
}

/// Something that waits for the store or for storage.
#[derive(Debug)]
enum Pending {
    /// The blobs of a submission.
    JobBlobs(JobId),
    JobRecord(JobId),
    /// Results whose blobs are being fetched from their runner.
    ResultBlobs(results::Arrived),
    Results(results::Arrived),
    /// An end record; nobody waits for it, and a restart finds the end again by counting.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    Lease(NodeId),
    Progress,
    Look,
}

#[derive(Clone, Debug)]
pub enum Command {
    /// Entries of the jobs table, in key order.
    RestoreJobs(Vec<(Vec<u8>, Bytes)>),
    /// Entries of the results table, after all jobs; an empty list ends it.
    RestoreResults(Vec<(Vec<u8>, Bytes)>),
    /// Answers [`Event::Commit`] and [`Event::Fetch`].
    Answered {
        ticket: u64,
        result: Result<(), String>,
    },
    Found(Found),
    /// Some node has room that it had not before.
    Room,
    WallClock(u64),
}

#[derive(Clone, Debug)]
pub enum Event {
    /// All that was kept from an earlier life has been read.
    Ready,
    Commit {
        ticket: u64,
        writes: Vec<Write>,
    },
    /// Bring these blobs here, from that node unless they are here.
    Fetch {
        ticket: u64,
        blobs: Vec<BlobRef>,
        from: NodeId,
    },
    Find(Query),
    Declined {
        node: NodeId,
    },
    JobChanged(JobId),
    JobEnded(JobId),
    Fault {
        peer: NodeId,
        fault: String,
    },
    Trouble(String),
}

impl Protocol for Owner {
    type Message = Message;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, input: InputOf<Self>, cx: &mut Cx<'_, Self>) {
        match input {
            Input::Message { from, message: Message::ToOwner(message) } => match message {
                ToOwner::Submit { job, spec } => self.submit(from, job, *spec, cx),
                ToOwner::Cancel { job } => self.cancel(from, job, cx),
                ToOwner::Heartbeat { lease, grants, units } => self.heartbeat(from, lease, grants, units, cx),
                ToOwner::Report { seq, results } => self.report(from, seq, results, cx),
                ToOwner::Decline { lease, units, reason, tried } => {
                    self.declined(from, lease, units, (&reason, tried), cx);
                }
            },
            // The route gives an owner nothing else.
            Input::Message { .. } => {}
            Input::Up(peer) => self.runner_up(peer),
            Input::Down(peer) => self.runner_down(peer, cx),
            Input::Timer(Timer::Lease(runner)) => self.lease_lost(runner, "went silent", cx),
            Input::Timer(Timer::Progress) => self.tell_progress(cx),
            Input::Timer(Timer::Look) | Input::Command(Command::Room) => self.look(cx),
            Input::Command(Command::Found(found)) => self.found(found, cx),
            Input::Command(Command::Answered { ticket, result }) => self.answered(ticket, result, cx),
            Input::Command(Command::RestoreJobs(entries)) => self.restore_jobs(entries, cx),
            Input::Command(Command::RestoreResults(entries)) => self.restore_results(entries, cx),
            Input::Command(Command::WallClock(ms)) => self.wall_ms = ms,
        }
    }

    fn check_invariants(&self) {
        let mut placed: BTreeMap<JobId, u32> = BTreeMap::new();
        for held in self.leases.values() {
            for unit in held.units() {
                *placed.entry(unit.job).or_default() += 1;
            }
        }
        for (id, job) in &self.jobs {
            // Thorough checks on small jobs, cheap ones always: tests stay linear.
            if job.units() <= 256 {
                job.check();
            }
            if job.is_active() && self.ready {
                let leased = placed.get(id).copied().unwrap_or(0);
                assert!(leased >= job.placed, "{id:?}: every placed unit is under a lease");
                assert_eq!(
                    self.active.contains(id),
                    job.waiting() > 0,
                    "{id:?}: looked for exactly while units wait"
                );
            }
        }
    }
}

impl Owner {
    pub fn new(config: Arc<Config>) -> Owner {
        Owner {
            config,
            wall_ms: 0,
            jobs: BTreeMap::new(),
            active: BTreeSet::new(),
            last_served: None,
            leases: BTreeMap::new(),
            next_lease: 1,
            pending: BTreeMap::new(),
            next_ticket: 1,
            queries: BTreeMap::new(),
            changed: BTreeSet::new(),
            ready: false,
        }
    }

    /// Whether all that was kept from an earlier life has been read.
    pub fn is_ready(&self) -> bool {
        self.ready
    }

    fn ticket(&mut self, pending: Pending) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.pending.insert(ticket, pending);
        ticket
    }

    fn answered(&mut self, ticket: u64, result: Result<(), String>, cx: &mut Cx<'_, Self>) {
        match self.pending.remove(&ticket) {
            Some(Pending::JobBlobs(job)) => self.blobs_here(job, result, cx),
            Some(Pending::JobRecord(job)) => self.record_written(job, result, cx),
            Some(Pending::ResultBlobs(arrived)) => self.result_blobs(arrived, result, cx),
            Some(Pending::Results(arrived)) => self.results_written(arrived, result, cx),
            Some(Pending::End) => {
                if let Err(error) = result {
                    cx.emit(Event::Trouble(format!("the end of a job could not be written: {error}")));
                }
            }
            None => {}
        }
    }

    /// A unit of the job may have begun or ceased to wait.
    fn touch(&mut self, id: JobId, cx: &mut Cx<'_, Self>) {
        let Some(job) = self.jobs.get(&id) else { return };
        if job.is_active() && job.waiting() > 0 {
            self.active.insert(id);
            cx.set_timer_by(Timer::Look, LOOK_AGAIN);
        } else {
            self.active.remove(&id);
        }
        self.changed.insert(id);
        cx.set_timer_by(Timer::Progress, PROGRESS);
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

    fn to_runner(runner: NodeId, message: ToRunner, cx: &mut Cx<'_, Self>) {
        cx.send(runner, Message::ToRunner(message));
    }
}
