//! The runner: takes units under a lease, runs them on the node's engine, and keeps each
//! result until its owner has it durably.
//!
//! The node's slots have one truth, here. What finders announce is derived from it.

mod checkpoint;
mod declined;
mod engage;
mod fetching;
mod flights;
mod interval;
pub mod left;
mod moving;
mod offer;
mod outbox;
mod owners;
mod patience;
mod precopy;
mod queue;
mod ready;
mod rest;
mod successors;
mod terms;
mod threads;
mod view;
mod weight;

use crate::address::Address;
use crate::content::{BlobRef, NotFetched};
use crate::disk::Write;
use crate::engine::{EngineTask, NoSnapshot, RunId, SealKey, Taken};
use crate::finding::Offer;
use crate::ids::{BlobId, JobId, NodeId, UnitId};
use crate::money::Price;
use crate::progress::Resume;
use crate::protocol::{Cx, Input, InputOf, Protocol};
use crate::time::Time;
use crate::trust::policy::Policy;
use crate::work::RunnerConfig;
use crate::work::message::{Lease, Message, ToKeeper, ToOwner, ToRunner};
use crate::work::proof::GrantProof;
use crate::work::spec::{Template, UnitSpec};
use bytes::Bytes;
use litemap::LiteMap;
use owners::OwnerState;
use sandbox::Outcome;
use sandbox::swarm::{Choice, Letter, Said};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Between two notes of change for the donor. Our choice: what an eye follows.
const CHANGES: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub struct Runner {
    config: RunnerConfig,
    slots: u32,
    draining: bool,
    jobs: BTreeMap<JobId, Job>,
    units: BTreeMap<UnitId, Unit>,
    ready: ready::Ready,
    runs: BTreeMap<RunId, UnitId>,
    owners: LiteMap<NodeId, Box<OwnerState>>,
    left: left::Left,
    /// Units that will come.
    coming: BTreeMap<UnitId, precopy::Coming>,
    tickets: BTreeMap<u64, Ticket>,
    /// Tickets whose owner did not send the content, and is asked again.
    unanswered: BTreeSet<u64>,
    next: u64,
    pace: offer::UnitTimes,
    rest: rest::Rest,
    engaged: engage::Engaged,
    terms: terms::Terms,
    totals: Totals,
}

/// Description that the units of a job share.
#[derive(Debug)]
struct Job {
    name: String,
    template: Arc<Template>,
    sweep_first: Option<u64>,
    /// Nodes that keep its units' checkpoints.
    keepers: Vec<Address>,
    /// Its blobs: asked for under this ticket, and whether they are here.
    ticket: u64,
    here: bool,
    units: u32,
}

#[derive(Debug)]
struct Unit {
    owner: NodeId,
    lease: Lease,
    attempt: u32,
    /// Shown to the unit's owner with what is said of it.
    proof: GrantProof,
    spec: Option<UnitSpec>,
    /// The ticket of its own blobs, if it has any.
    ticket: Option<u64>,
    key: SealKey,
    /// At which its place was sold; 0: it is a gift.
    price: Price,
    paused: bool,
    /// Where it began here, if not at its first instruction, and the ticket of that.
    resume: Option<(Box<Resume>, u64)>,
    /// Checkpoints of it that were taken here; most units end before the first.
    progress: Option<Box<checkpoint::Progress>>,
    /// Keeper that is paid for its checkpoints.
    keeper: Option<Address>,
    /// Nodes that may own it next, if its owner was the ring's choice.
    delegated: Option<Box<successors::Succession>>,
    /// Reads of the thread that it is, until it goes on.
    choices: Vec<(u64, Choice)>,
    state: UnitState,
}

impl Unit {
    /// The fuel that it had used where this runner took it over.
    fn began(&self) -> u64 {
        self.resume.as_ref().map_or(0, |(resume, _)| resume.checkpoint.snapshot.fuel)
    }

    /// Origin of the job: owners on the ring come and go, the origin stays.
    fn origin(&self) -> NodeId {
        self.delegated.as_ref().map_or(self.owner, |delegated| delegated.origin)
    }
}

#[derive(Debug)]
enum UnitState {
    /// Waits for blobs, its job's or its own.
    Fetching,
    Ready {
        since: Time,
    },
    Running {
        run: RunId,
        since: Time,
    },
    /// Stopped: where it stands lies here until the owner has it in good hands.
    Suspended,
    /// Ended here; its result waits in the outbox for the owner's acknowledgement.
    Ended,
}

#[derive(Debug)]
enum Ticket {
    Job(JobId),
    Unit(UnitId),
    /// The checkpoint that the unit goes on from.
    Resume(UnitId),
    /// Content for a unit that will come.
    Coming(UnitId),
    /// The checkpoint that an earlier life left of the unit.
    Left(UnitId),
    /// A snapshot of it, being stored.
    Snapshot(UnitId, Box<checkpoint::Fresh>),
    /// Outputs of a unit, being stored before the result is reported.
    Outputs(UnitId, Box<crate::work::spec::UnitResult>),
}

#[derive(Debug, Default)]
struct Totals {
    done: u64,
    failed: u64,
    cpu_us: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    Heartbeat(NodeId),
    /// A report was not acknowledged.
    Retry(NodeId),
    /// Owners are asked again for content that they did not send.
    Fetch,
    /// Results have waited long enough for others to go with them.
    Report(NodeId),
    /// An owner stayed away; its results are given up.
    Forget(NodeId),
    Changed,
    /// Units are tried here again.
    Rest,
    /// An owner may ask again.
    TurnedAway(NodeId),
    /// An owner that found this node had time enough to use it.
    Disengage(NodeId),
    /// A unit has waited long for a slot.
    Waiting,
    /// A running unit may be due for a checkpoint.
    Snapshots,
    /// Keepers did not answer.
    Keepers,
    /// Units that should have come have not.
    Coming,
    /// Units that are not handed on by now are given back.
    Drained,
    /// Owners have not said what becomes of what an earlier life left.
    Left,
    /// They are not waited for any longer.
    LeftOver,
}

#[derive(Clone, Debug)]
pub enum Command {
    /// A gateway is connected (or is this node): it may have work.
    OwnerUp(NodeId),
    SetSlots(u32),
    /// Whether anything is given at all.
    SetDonating(bool),
    /// Memory that a unit may have, and whose work is taken.
    Terms {
        memory_bytes: u64,
        policy: Arc<Policy>,
    },
    /// Rows of the table `Left` that an earlier life has written.
    Restore(Vec<(Vec<u8>, Bytes)>),
    Drain,
    /// Hand on a unit, of none of these jobs: another waits for its slot.
    MakeRoom {
        stay: BTreeSet<JobId>,
    },
    /// The slot that was kept for that has found its owner.
    RoomUsed,
    /// Slots that count as busy without a unit.
    Occupy {
        owner: NodeId,
        slots: u32,
    },
    /// Whether others find this node by a finder of theirs. Only who found it is then told that
    /// there is room.
    Findable(bool),
    /// An owner found `slots` free slots here, which are its until it has used them.
    Reserved {
        owner: NodeId,
        slots: u32,
        until: Time,
    },
    /// An owner does not use so many of them.
    Released {
        owner: NodeId,
        slots: u32,
    },
    /// An owner has bought slots here, which are its for a while.
    Sold {
        owner: NodeId,
        slots: u32,
        price: Price,
    },
    /// The bank whose receipts count.
    Bank(NodeId),
    /// Answers [`Event::Fetch`] and [`Event::Keep`].
    Answered {
        ticket: u64,
        result: Result<(), NotFetched>,
    },
    Ended {
        run: RunId,
        outcome: Outcome,
    },
    Broken {
        run: RunId,
        error: String,
    },
    /// Program and snapshot of a unit that will come are at the engine's hand.
    Prepared {
        run: RunId,
    },
    /// It goes on from what it was given.
    Resumed {
        run: RunId,
    },
    Snapshot {
        run: RunId,
        taken: Result<Taken, NoSnapshot>,
        stopped: bool,
    },
    /// Word of a thread.
    Said {
        run: RunId,
        said: Said,
    },
}

#[derive(Clone, Debug)]
pub enum Event {
    /// Bring these blobs here and keep them until the ticket is released; likewise the others.
    Fetch {
        ticket: u64,
        blobs: Vec<BlobRef>,
        from: NodeId,
    },
    /// Keep these bytes as blobs until the ticket is released.
    Keep {
        ticket: u64,
        blobs: Vec<(BlobRef, Bytes)>,
    },
    /// The blobs of the ticket are not needed any more.
    Release {
        ticket: u64,
    },
    Run {
        run: RunId,
        task: Box<EngineTask>,
    },
    /// A unit will come: have what it needs at hand.
    Prepare {
        run: RunId,
        task: Box<EngineTask>,
    },
    Kill {
        run: RunId,
    },
    Snapshot {
        run: RunId,
        stop: bool,
    },
    Pause {
        run: RunId,
        paused: bool,
    },
    /// For the thread that the run is.
    Letters {
        run: RunId,
        letters: Vec<Letter>,
    },
    /// A checkpoint's parts, from whoever has them.
    FetchSnapshot {
        ticket: u64,
        blobs: Vec<BlobRef>,
        from: Vec<Address>,
    },
    KeepSnapshot {
        ticket: u64,
        blob: BlobRef,
        bytes: Bytes,
    },
    ReleaseSnapshot {
        ticket: u64,
    },
    /// Nothing could be done with these; are they what they should be?
    Check {
        blobs: Vec<BlobId>,
    },
    /// Write this down; only a failure is answered.
    Commit {
        ticket: u64,
        writes: Vec<Write>,
    },
    Slots(u32),
    Offer {
        to: NodeId,
        offer: Offer,
    },
    /// Slots, how many of them each owner keeps busy, and how many are kept for a scarce job.
    Load {
        slots: u32,
        busy: Vec<(NodeId, u32)>,
        room: u32,
    },
    /// So many slots are free, and promised to nobody.
    Spare {
        slots: u32,
        /// Some of them had paid work: what they do next is for sale at once.
        at_once: bool,
    },
    Changed,
}

impl Protocol for Runner {
    type Message = Message;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, input: InputOf<Self>, cx: &mut Cx<'_, Self>) {
        match input {
            Input::Message { from, message: Message::ToRunner(message) } => match message {
                ToRunner::Grant { lease, batches } => self.granted(from, lease, batches, cx),
                ToRunner::Ack { seq } => self.acknowledged(from, seq, cx),
                ToRunner::NotWritten { seq } => self.not_written(from, seq, cx),
                ToRunner::LeaseOver { lease } => self.lease_over(from, lease, cx),
                ToRunner::Revoke { job } => self.revoked(from, job, cx),
                ToRunner::Prepare { batch, whole, sources } => {
                    self.prepare(from, *batch, whole, sources, cx);
                }
                ToRunner::NotComing { unit } => self.will_not_come(from, unit, cx),
                ToRunner::Suspend { unit } => self.suspend_for(from, unit, cx),
                ToRunner::Pause { unit, paused } => self.pause(from, unit, paused, cx),
                ToRunner::Letters { unit, attempt, letters } => {
                    self.letters(from, (unit, attempt), letters, cx);
                }
                ToRunner::Checkpoint { unit } => self.checkpoint_now(from, unit, cx),
                ToRunner::Forget { units } => self.forget_units(from, &units, cx),
                ToRunner::Recorded { units } => self.recorded(from, &units),
                ToRunner::Keepers { job, keepers } => self.keepers(from, job, keepers, cx),
                ToRunner::Kept { unit, version } => self.kept(from, unit, version, cx),
                ToRunner::Keeping { unit, version } => self.keeping(from, unit, version),
                ToRunner::KeepRefused { unit, version, reason } => {
                    self.keep_refused(from, unit, version, &reason, cx);
                }
                ToRunner::Successors { units, origin, successors } => {
                    self.successors_named(from, &units, origin, &successors)
                }
                ToRunner::Claim { units, origin, successors } => {
                    self.claimed(from, &units, origin, &successors, cx)
                }
            },
            // The route gives a runner nothing else.
            Input::Message { .. } => {}
            Input::Up(peer) => {
                self.peer_up(peer, cx);
                self.fetch_again(cx);
            }
            Input::Down(peer) | Input::Unreachable(peer) => {
                self.owner_down(peer, cx);
                self.keeper_down(peer, cx);
            }
            Input::Timer(Timer::Snapshots) => self.look_for_due(cx),
            Input::Timer(Timer::Keepers) => self.ask_keepers_again(cx),
            Input::Timer(Timer::Coming) => self.not_come(cx),
            Input::Timer(Timer::Drained) => self.drained(cx),
            Input::Timer(Timer::Left) => self.ask_after_left(cx),
            Input::Timer(Timer::LeftOver) => self.left_over(cx),
            Input::Timer(Timer::Heartbeat(owner)) => self.beat(owner, cx),
            Input::Timer(Timer::Retry(owner)) => self.report_again(owner, cx),
            Input::Timer(Timer::Fetch) => self.fetch_again(cx),
            Input::Timer(Timer::Report(owner)) => self.report(owner, cx),
            Input::Timer(Timer::Forget(owner)) => self.forget(owner, cx),
            Input::Timer(Timer::Changed) => cx.emit(Event::Changed),
            Input::Timer(Timer::Rest) => self.rested(cx),
            Input::Timer(Timer::TurnedAway(owner)) => self.welcome_again(owner),
            Input::Timer(Timer::Waiting) => self.waited(cx),
            Input::Timer(Timer::Disengage(owner)) => self.disengage(owner, cx),
            Input::Command(Command::OwnerUp(owner)) => {
                self.owner_up(owner, cx);
                self.fetch_again(cx);
            }
            Input::Command(Command::SetSlots(slots)) => self.set_slots(slots, cx),
            Input::Command(Command::SetDonating(lends)) => self.set_donating(lends, cx),
            Input::Command(Command::Terms { memory_bytes, policy }) => {
                self.set_terms(memory_bytes, policy, cx);
            }
            Input::Command(Command::Restore(entries)) => self.restore(entries, cx),
            Input::Command(Command::Drain) => self.drain(cx),
            Input::Command(Command::MakeRoom { stay }) => self.make_room(&stay, cx),
            Input::Command(Command::RoomUsed) => self.engaged.room = None,
            Input::Command(Command::Occupy { owner, slots }) => self.engaged.occupy(owner, slots),
            Input::Command(Command::Findable(findable)) => self.engaged.findable = findable,
            Input::Command(Command::Reserved { owner, slots, until }) => {
                self.reserved(owner, slots, until, cx)
            }
            Input::Command(Command::Released { owner, slots }) => self.released(owner, slots),
            Input::Command(Command::Sold { owner, slots, price }) => self.sold(owner, slots, price, cx),
            Input::Command(Command::Bank(bank)) => self.engaged.bank = Some(bank),
            Input::Command(Command::Answered { ticket, result }) => self.answered(ticket, result, cx),
            Input::Command(Command::Ended { run, outcome }) => self.ended(run, outcome, cx),
            Input::Command(Command::Broken { run, error }) => self.broken(run, error, cx),
            Input::Command(Command::Prepared { run }) => self.at_hand(run, None, cx),
            Input::Command(Command::Resumed { run }) => self.running(run, cx),
            Input::Command(Command::Said { run, said }) => self.said(run, said, cx),
            Input::Command(Command::Snapshot { run, taken, stopped }) => {
                self.snapshot(run, taken, stopped, cx);
            }
        }
        self.dispatch(cx);
        self.watch_queue(cx);
        self.offer(cx);
        self.tell_load(cx);
    }

    fn check_invariants(&self) {
        let mut by_owner: BTreeMap<NodeId, u32> = BTreeMap::new();
        let mut by_job: BTreeMap<JobId, u32> = BTreeMap::new();
        let mut running = 0;
        let mut suspended = 0;
        let mut gifts = 0;
        for (id, unit) in &self.units {
            gifts += u32::from(unit.price == Price(0));
            suspended += u32::from(matches!(unit.state, UnitState::Suspended));
            *by_owner.entry(unit.owner).or_default() += 1;
            *by_job.entry(id.job).or_default() += 1;
            if let UnitState::Running { run, .. } = unit.state {
                running += 1;
                assert_eq!(self.runs.get(&run), Some(id), "a running unit knows its run");
            }
        }
        assert_eq!(running, self.runs.len(), "every run has its unit");
        let counted = self.owners.values().map(|owner_state| owner_state.suspended).sum::<u32>();
        assert_eq!(suspended, counted, "units that are suspended are counted");
        let counted = self.owners.values().map(|owner_state| owner_state.gifts).sum::<u32>();
        assert_eq!(gifts, counted, "gifts are counted");
        for (id, job) in &self.jobs {
            assert_eq!(by_job.get(id).copied().unwrap_or(0), job.units, "a job counts its units");
        }
        for (owner, units) in by_owner {
            assert!(
                self.owners.get(&owner).is_some_and(|owner_state| owner_state.units == units),
                "the state of an owner counts its units"
            );
        }
        assert!(self.coming.len() <= precopy::COMING_MAX, "what is got ready for is bounded");
        assert!(self.left.bytes() <= self.config.limits.left_bytes, "what stays for a next life is bounded");
    }
}

impl Runner {
    pub fn new(config: RunnerConfig) -> Runner {
        let terms = terms::Terms::new(config.memory_bytes);
        Runner {
            slots: config.slots,
            draining: false,
            jobs: BTreeMap::new(),
            units: BTreeMap::new(),
            ready: ready::Ready::default(),
            runs: BTreeMap::new(),
            owners: LiteMap::new(),
            left: left::Left::default(),
            coming: BTreeMap::new(),
            tickets: BTreeMap::new(),
            unanswered: BTreeSet::new(),
            next: 1,
            pace: offer::UnitTimes::default(),
            rest: rest::Rest::default(),
            engaged: engage::Engaged::new(config.bank),
            config,
            terms,
            totals: Totals::default(),
        }
    }

    fn ticket(&mut self, ticket: Ticket) -> u64 {
        let number = self.next;
        self.next += 1;
        self.tickets.insert(number, ticket);
        number
    }

    fn to_owner(owner: NodeId, message: ToOwner, cx: &mut Cx<'_, Self>) {
        cx.send(owner, Message::ToOwner(message));
    }

    fn to_keeper(keeper: NodeId, message: ToKeeper, cx: &mut Cx<'_, Self>) {
        cx.send(keeper, Message::ToKeeper(message));
    }

    fn changed(cx: &mut Cx<'_, Self>) {
        cx.set_timer_by(Timer::Changed, CHANGES);
    }
}
