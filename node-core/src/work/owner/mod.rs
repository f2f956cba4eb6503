//! The owner: keeps the record of jobs and is answerable for their units.
//!
//! A unit is never lost and its result never counted twice: where it stands is one of the states of
//! [`super::book::State`], and the first durable result wins. Leases and heartbeats are one a runner, not one a unit.
//!
//! `work/book` has where units stand, `work/payments` what is bought for them, `work/delegation` whose they are on
//! the ring. `Owner` itself is in nine files:
//!
//! | file | what it does |
//! |---|---|
//! | `mod` | inputs, and jobs from their submission to their end |
//! | `place` | places: sought, bought, granted under leases, taken back |
//! | `want` | jobs with requirements, whose units nodes claim |
//! | `results` | results: checked, fetched, written down, acknowledged |
//! | `checkpoint` | records of checkpoints, and keepers |
//! | `moving` | units on the move, and units that are waited for |
//! | `on_ring` | what delegation asks for |
//! | `threads` | jobs that are virtual computers |
//! | `restore` | jobs of an earlier life |
//!
//! The other files are data and pure functions.

mod accept;
mod avoid;
mod checkpoint;
mod coming;
mod interface;
mod job;
mod lease;
mod moves;
mod moving;
mod nodes;
mod on_ring;
mod place;
mod queue;
mod refusing;
mod restore;
mod results;
mod threads;
mod view;
mod want;

use crate::content::{BlobRef, NotFetched};
use crate::contract::Holding;
use crate::disk;
use crate::engine::NotRunnable;
use crate::ids::{JobId, NodeId};
use crate::protocol::{Cx, Input, InputOf, Protocol};
use crate::time::{Time, Wall};
use crate::work::OwnerConfig;
use crate::work::book::Book;
use crate::work::delegation::Delegation;
use crate::work::message::{Lease, Message, ToClient, ToKeeper, ToOwner, ToRunner};
use crate::work::payments::Payments;
use crate::work::rows::{self, EndRecord, JobRecord};
use crate::work::spec::JobSpec;
use crate::work::view::{JobView, UnitView};
use accept::{check_client, check_spec, rows_to_forget, to_forget};
use interface::Pending;
use job::{Job, Phase};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use view::Seen;

pub use crate::work::rows::blobs_of_job;
pub use interface::{Command, Event, Timer};

/// A unit that was lost with its runner, or came back without a result, so many times without progress is held. Our
/// choice: one more than an unlucky afternoon of closing tabs, far fewer than a swarm.
const MAX_LOSSES: u16 = 8;

/// Jobs of another node that are looked into at once. Our choice: a check takes seconds at worst, and the
/// operator's own jobs find room.
const ACCEPTING: usize = 16;

/// Placements of a unit at a time.
const ONE: u8 = 1;

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
    /// When it told last how many units run for each submitter.
    told_running: Option<Time>,
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
    moves: moves::Moves,
    /// Holds that the bank reported before all was read here.
    bank_held: Vec<Holding>,
    /// Delegated units: those that this node owns for others, and its own at others.
    delegation: Delegation,
    threads: threads::Threads,
    /// `None` until the driver has told the time.
    wall: Option<Wall>,
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
                ToOwner::Decline { lease, units, cause, reason } => {
                    self.declined(from, lease, units, (cause, &reason), cx);
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
                ToOwner::Said { unit, attempt, said } => self.said(from, (unit, attempt), *said, cx),
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
            Input::Timer(Timer::Threads) => self.look_at_threads(cx),
            Input::Timer(Timer::Delegated) => self.look_after_delegated(cx),
            Input::Timer(Timer::Lease(runner)) => self.lease_lost(runner, "went silent", cx),
            Input::Timer(Timer::Progress) => self.tell_progress(cx),
            Input::Timer(Timer::Look) | Input::Command(Command::Room) => self.look(cx),
            Input::Command(Command::Found(found)) => self.found(found, cx),
            Input::Command(Command::Claimed { job, node, units }) => self.claimed(job, node, units, cx),
            Input::Command(Command::Short { job, why }) => self.short(job, why, cx),
            Input::Command(Command::Bought(bought)) => self.bought(bought, cx),
            Input::Command(Command::Settled { ticket, outcome }) => self.settled(ticket, outcome, cx),
            Input::Command(Command::Holding(held)) => self.bank_holds(held),
            Input::Command(Command::Forget(job)) => self.forget_by_hand(job, cx),
            Input::Command(Command::Committed { ticket, result }) => self.committed(ticket, result, cx),
            Input::Command(Command::Inspected { ticket, result }) => self.looked_at(ticket, result, cx),
            Input::Command(Command::Fetched { ticket, result }) => self.fetched(ticket, result, cx),
            Input::Command(Command::Heard(node)) => self.heard(node, cx),
            Input::Command(Command::RestoreJobs(entries)) => self.restore_jobs(entries, cx),
            Input::Command(Command::RestoreResults(entries)) => self.restore_results(entries, cx),
            Input::Command(Command::RestoreDeals(entries)) => self.restore_deals(&entries, cx),
            Input::Command(Command::RestoreCheckpoints(entries)) => self.restore_checkpoints(entries, cx),
            Input::Command(Command::Migrate { unit, to, others }) => self.migrate(unit, to, &others, cx),
            Input::Command(Command::Pause { unit, paused }) => self.pause(unit, paused, cx),
            Input::Command(Command::Relays(me)) => self.nodes.relays_at(me),
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
            told_running: None,
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
            moves: moves::Moves::default(),
            bank_held: Vec::new(),
            delegation: Delegation::default(),
            threads: threads::Threads::default(),
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

    /// An engine has looked into a program.
    fn looked_at(&mut self, ticket: u64, result: Result<(), NotRunnable>, cx: &mut Cx<'_, Self>) {
        match self.pending.remove(&ticket) {
            Some(Pending::JobProgram(job)) => self.inspected(job, result, cx),
            Some(Pending::DelegatedProgram(job)) => self.looked_into(job, result, cx),
            // The others wait for the store, storage or the bank.
            Some(pending) => drop(self.pending.insert(ticket, pending)),
            None => {}
        }
    }

    /// Storage has written something, or could not.
    fn committed(&mut self, ticket: u64, result: Result<(), disk::Failed>, cx: &mut Cx<'_, Self>) {
        match self.pending.remove(&ticket) {
            Some(Pending::JobRecord(job)) => self.record_written(job, result, cx),
            Some(Pending::Threads(job)) => self.threads_written(job, result, cx),
            Some(Pending::Results(arrived)) => self.results_written(arrived, result, cx),
            Some(Pending::Records(told, units)) => self.records_written(told, units, result, cx),
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
            // The others wait for the store, an engine or the bank.
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
        } else if self.active.remove(&id) {
            self.want_less(id, cx);
        }
        let Some(job) = self.jobs.get(&id) else { return };
        if job.is_own() {
            self.changed.insert(id);
            cx.set_timer_by(Timer::Progress, PROGRESS);
        }
        self.record_queue(id, cx.now);
    }

    /// Remembers how many units of the job wait now.
    fn record_queue(&mut self, id: JobId, now: Time) {
        let now_ms = self.wall_now(now);
        let job = self.own(id).filter(|job| job.is_active());
        let waiting = job.and_then(|job| Some(view::waiting(self.seen(id, job)?)));
        if let Some((job, waiting)) = self.jobs.get_mut(&id).zip(waiting) {
            job.queue.record(now_ms, waiting);
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

    /// Newest first.
    pub fn jobs(&self) -> Vec<JobView> {
        let mut jobs: Vec<JobView> = self
            .jobs
            .iter()
            .filter(|(_, job)| job.phase != Phase::Accepting && job.is_own())
            .filter_map(|(id, job)| Some(view::view(*id, self.seen(*id, job)?)))
            .collect();
        jobs.sort_by_key(|job| (std::cmp::Reverse(job.submitted_ms), job.id));
        jobs
    }

    pub fn job(&self, id: JobId) -> Option<JobView> {
        let job = self.own(id).filter(|job| job.phase != Phase::Accepting)?;
        Some(view::view(id, self.seen(id, job)?))
    }

    /// Units of the job that waited, in this life of the node: when, in milliseconds since 1970, and how many from then on.
    pub fn queue(&self, id: JobId) -> &[(u64, u32)] {
        self.own(id).map_or(&[], |job| job.queue.steps())
    }

    pub fn spec(&self, id: JobId) -> Option<&JobSpec> {
        self.own(id).map(|job| &job.spec)
    }

    /// A job of this node's, not one of which it owns some units for another.
    fn own(&self, id: JobId) -> Option<&Job> {
        self.jobs.get(&id).filter(|job| job.is_own())
    }

    pub fn units(&self, id: JobId, from: u32, limit: u32) -> Option<Vec<UnitView>> {
        let seen = self.seen(id, self.own(id)?)?;
        let to = from.saturating_add(limit).min(seen.units.len());
        Some((from..to).filter_map(|index| view::unit_view(seen, index)).collect())
    }

    fn seen<'a>(&'a self, id: JobId, job: &'a Job) -> Option<Seen<'a>> {
        let (deals, ring) = (self.payments.of(id), self.delegation.origin(id));
        Some(Seen { job, units: self.book.units(id)?, deals, ring })
    }

    fn submit(&mut self, client: NodeId, id: JobId, spec: JobSpec, cx: &mut Cx<'_, Self>) {
        let refuse = |reason: String, cx: &mut Cx<'_, Self>| {
            cx.send(client, Message::ToClient(ToClient::Refused { job: id, reason }));
        };
        if let Err(why) = check_client(client, &spec, cx.me, &self.config.submitters) {
            return refuse(why.to_string(), cx);
        }
        if let Some(job) = self.jobs.get(&id) {
            match job.phase {
                _ if job.spec != spec => {
                    refuse("another job has this id already; submit again under a new one".into(), cx);
                }
                Phase::Accepting => {}
                _ => cx.send(client, Message::ToClient(ToClient::Accepted { job: id })),
            }
            return;
        }
        if !self.config.owns_jobs {
            return refuse("this node owns no jobs; submit to a gateway".into(), cx);
        }
        if !self.is_ready() {
            return refuse("the node is still reading its records; try again in a moment".into(), cx);
        }
        if let Err(why) = check_spec(&spec, &self.config.limits) {
            return refuse(why.to_string(), cx);
        }
        let accepting = |job: &&Job| job.client == client && job.phase == Phase::Accepting;
        if client != cx.me && self.jobs.values().filter(accepting).count() >= ACCEPTING {
            return refuse(format!("{ACCEPTING} of your jobs are being looked into; try in a moment"), cx);
        }
        match to_forget(&self.jobs, &spec, &self.config.limits) {
            Ok(ended) => ended.into_iter().for_each(|id| self.forget_job(id, cx)),
            Err(why) => return refuse(why.to_string(), cx),
        }
        let blobs: Vec<BlobRef> = spec.blobs().into_iter().collect();
        let mut secret = [0; 32];
        for word in secret.chunks_exact_mut(8) {
            word.copy_from_slice(&cx.rng.u64().to_le_bytes());
        }
        let submitted_ms = self.wall_now(cx.now);
        self.keep_job(id, Job::new(spec, client, submitted_ms, secret));
        let ticket = self.ticket(Pending::JobBlobs(id));
        self.note_ticket(id, ticket);
        cx.emit(Event::Fetch { ticket, blobs, from: client });
    }

    fn blobs_here(&mut self, id: JobId, result: Result<(), NotFetched>, cx: &mut Cx<'_, Self>) {
        let Some(job) = self.jobs.get(&id).filter(|j| j.phase == Phase::Accepting) else { return };
        let (program, memory_bytes) = (job.spec.template.program.id, job.spec.template.limits.memory_bytes);
        match result {
            // The node's own API has looked into it already.
            Ok(()) if job.client == cx.me => self.inspected(id, Ok(()), cx),
            Ok(()) => {
                let ticket = self.ticket(Pending::JobProgram(id));
                cx.emit(Event::Inspect { ticket, program, memory_bytes });
            }
            Err(why) => self.refuse_accepting(id, why.to_string(), cx),
        }
    }

    /// Its program can run, or why not.
    fn inspected(&mut self, id: JobId, result: Result<(), NotRunnable>, cx: &mut Cx<'_, Self>) {
        let Some(job) = self.jobs.get(&id).filter(|j| j.phase == Phase::Accepting) else { return };
        match result {
            Ok(()) => {
                let record = JobRecord {
                    spec: job.spec.clone(),
                    client: job.client,
                    submitted_ms: job.submitted_ms,
                    secret: job.secret,
                };
                let ticket = self.ticket(Pending::JobRecord(id));
                cx.emit(Event::Commit { ticket, writes: vec![rows::job_write(id, &record)] });
            }
            Err(why) => self.refuse_accepting(id, why.to_string(), cx),
        }
    }

    fn record_written(&mut self, id: JobId, result: Result<(), disk::Failed>, cx: &mut Cx<'_, Self>) {
        if let Err(error) = result {
            self.tell_client(id, ToClient::NotStored { job: id, reason: error.0 }, cx);
            return self.drop_accepting(id, cx);
        }
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if job.phase == Phase::Accepting {
            job.phase = Phase::Active;
            self.tell_client(id, ToClient::Accepted { job: id }, cx);
            self.touch(id, cx);
            self.look(cx);
            self.look_after_delegated(cx);
        }
    }

    fn refuse_accepting(&mut self, id: JobId, reason: String, cx: &mut Cx<'_, Self>) {
        self.tell_client(id, ToClient::Refused { job: id, reason }, cx);
        self.drop_accepting(id, cx);
    }

    fn release_content(job: Job, cx: &mut Cx<'_, Self>) {
        job.kept.into_iter().for_each(|ticket| cx.emit(Event::Release { ticket }));
    }

    fn drop_accepting(&mut self, id: JobId, cx: &mut Cx<'_, Self>) {
        if let Some(job) = self.jobs.remove(&id) {
            Self::release_content(job, cx);
        }
        self.delegation.forget(id);
        self.book.forget(id);
        self.payments.forget(id);
        self.forget_threads(id);
    }

    /// One more job; its units stand in the book.
    fn keep_job(&mut self, id: JobId, job: Job) {
        self.book.begin(id, job.spec.units.count(), ONE, job.first_state());
        if job.is_on_ring() {
            self.delegation.begin(id);
        }
        self.payments.begin(id, &job.spec);
        self.jobs.insert(id, job);
        self.host_threads(id);
    }

    /// Forgets a job that has ended, with its rows.
    fn forget_job(&mut self, id: JobId, cx: &mut Cx<'_, Self>) {
        let Some(job) = self.jobs.remove(&id) else { return };
        let units = self.book.units(id).into_iter().flat_map(|units| units.iter());
        let ended = units.filter(|(_, unit)| unit.state.has_ended()).map(|(index, _)| index);
        let mut writes = rows_to_forget(id, &job, ended);
        Self::release_content(job, cx);
        self.book.forget(id);
        self.delegation.forget(id);
        self.payments.forget(id);
        writes.extend(self.forget_threads(id));
        let ticket = self.ticket(Pending::End);
        cx.emit(Event::Commit { ticket, writes });
    }

    /// Forgets a job because its person says so: then its content makes room at once.
    fn forget_by_hand(&mut self, id: JobId, cx: &mut Cx<'_, Self>) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if job.is_own() && matches!(job.phase, Phase::Over { .. }) {
            std::mem::take(&mut job.kept).into_iter().for_each(|ticket| cx.emit(Event::Discard { ticket }));
            self.forget_job(id, cx);
            cx.emit(Event::JobChanged(id));
        }
    }

    fn cancel(&mut self, from: NodeId, id: JobId, cx: &mut Cx<'_, Self>) {
        let Some(job) = self.jobs.get(&id) else { return };
        if !job.is_own() || (job.client != from && from != cx.me) {
            cx.fault(from, format!("asked to cancel {id:?}, which is not its job"));
        } else if job.is_active() {
            self.finish(id, true, cx);
        }
    }

    /// The job is over, one way or the other.
    fn finish(&mut self, id: JobId, cancelled: bool, cx: &mut Cx<'_, Self>) {
        let now_ms = self.wall_now(cx.now);
        let Some(job) = self.jobs.get_mut(&id) else { return };
        // The wall clock may have been set back meanwhile.
        let ended_ms = now_ms.max(job.submitted_ms);
        job.phase = Phase::Over { cancelled };
        job.ended_ms = Some(ended_ms);
        job.queue.record(ended_ms, 0);
        self.payments.settle_all(id, &job.records);
        let ticket = self.ticket(Pending::End);
        let write = rows::end_write(id, &EndRecord { cancelled, ended_ms });
        cx.emit(Event::Commit { ticket, writes: vec![write] });
        // Its marks go.
        self.want_less(id, cx);
        self.active.remove(&id);
        self.changed.remove(&id);
        self.delegate(cx, |it, _| it.recall(id));
        self.drop_records(id, cx);
        for runner in self.book.recall(id) {
            Self::to_runner(runner, ToRunner::Revoke { job: id }, cx);
        }
        self.tell_client(id, ToClient::Ended { job: id }, cx);
        cx.emit(Event::JobEnded(id));
    }
}
