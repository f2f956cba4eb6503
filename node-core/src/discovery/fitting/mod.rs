//! The finder for jobs with requirements: late binding by pull. A job that waits is *marked* at two of 32 meeting nodes,
//! a scarce one also at nodes that can run it; a node with a free slot takes the mark with the most of age and scarcity
//! that it knows of, and claims it at the job's owner, who alone decides.
//!
//! | file | what it knows |
//! |---|---|
//! | `waiting` | jobs of this node that wait |
//! | `known` | nodes whose capabilities this node knows |
//! | `early` | early binding, for comparison |
//! | `idle` | slots of this node, and its look for jobs |
//! | `marks` | marks that are left here, and idle nodes that are parked here |
//! | `meetings` | who is where jobs and nodes meet |
//! | `room` | units that make room for jobs that fewer nodes can run |
//! | `shares` | submitters, and how many of their units run |
//! | `urgency` | whose turn it is |
//! | `view` | jobs that wait, as people see them |
//!
//! *Departure.* Paper `match`, section 2, binds early: the owner chooses a run node, in whose queue the job waits, first
//! come first served. The queue of a run node is one of marks here: whoever is free first takes a job, and nobody waits
//! behind a long one while others idle.

mod early;
mod idle;
mod known;
mod marks;
mod meetings;
mod message;
mod room;
mod shares;
#[cfg(test)]
mod tests;
mod urgency;
mod view;
mod waiting;

pub use message::{Ability, Claim, Line, Mark, Message, Share, ToMeeting, ToNode, ToOwner};
pub(crate) use waiting::JOBS;

use crate::address::{Address, Contact};
use crate::capability::{Candidate, Capability};
use crate::circle::{Point, Range};
use crate::ids::{JobId, NodeId};
use crate::protocol::{Cx, Input, InputOf, Protocol};
use crate::requires::{Binding, GuestSlots, Requires, Stated};
use crate::time::Time;
use crate::under_way::UnderWay;
use early::Choice;
use idle::Idle;
use known::Known;
use marks::{Marks, Parked};
use meetings::{MEETINGS, Meetings};
use room::Scarcities;
use shares::Shares;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
pub use view::View;
use waiting::Waiting;

/// Parked nodes that are told of one mark. Our choice: a mark for millions of units costs a meeting node no more; the
/// others look again in half a minute.
const TOLD: u32 = 32;

/// A node's part in it: as an owner of jobs, as a runner, and as a meeting node.
#[derive(Debug, Default)]
pub struct Fitting {
    /// Others dial this node there; who is not dialled takes no part yet.
    me: Option<Contact>,
    range: Option<Range>,
    waiting: BTreeMap<JobId, Waiting>,
    shares: Shares,
    binding: Binding,
    /// Jobs for which a run node is being chosen, with early binding.
    choices: BTreeMap<JobId, Choice>,
    /// Length of its queue that others know of.
    told_queue: u32,
    /// Jobs that are marked at each meeting point.
    marked: [u32; MEETINGS as usize],
    /// Meeting nodes whose connections are held.
    held: BTreeSet<NodeId>,
    /// Searches for nodes that can run a job.
    searches: UnderWay<JobId>,
    known: Known,
    own: Idle,
    /// Scarcity of the jobs that run at this node.
    scarcities: Scarcities,
    /// Slots of guests, for which this node looks.
    guests: BTreeMap<NodeId, Idle>,
    marks: Marks,
    parked: Parked,
    meetings: Meetings,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Answers are waited for no longer, or a look begins anew; of this node, or a guest.
    Look(NodeId),
    Kept(NodeId, NodeId),
    Renew(JobId),
    /// Nobody owned the meeting point a while ago.
    Meeting(u8),
    /// Meeting nodes are told of shares that have changed.
    Shares,
    /// Lengths of queues are waited for no longer.
    Choose(JobId),
    /// That owner's job may still be marked here: this node makes room for it.
    Room(NodeId, JobId),
}

#[derive(Clone, Debug)]
pub enum Command {
    Me(Option<Contact>),
    /// Points of the ring that this node owns, as far as that is known.
    Range(Option<Range>),
    /// Nodes of the swarm that run something, as far as is known.
    Nodes(u32),
    /// Slots of this node, and how many are busy for whom.
    Load {
        slots: u32,
        busy: Vec<(NodeId, u32)>,
    },
    /// Statement of this node from now on.
    Able(Stated),
    /// The donor's terms have changed.
    Terms,
    /// Slots of a guest that has this node for its gateway; none: it has no more.
    Guest {
        guest: NodeId,
        slots: Option<Box<GuestSlots>>,
    },
    /// Units of a job wait for nodes that have what it asks for.
    Want {
        job: JobId,
        asks: Asks,
        units: u32,
    },
    /// No unit of the job waits any more.
    Enough {
        job: JobId,
    },
    /// An idle node would run a job that waits in the queue of this one, with early binding.
    Steal {
        by: Contact,
        capability: Capability,
    },
    /// Answers [`Event::Room`]: millionths of the nodes that can run the job.
    Room {
        owner: NodeId,
        job: JobId,
        share: u32,
    },
    /// Units that run for each submitter with jobs at this node, whatever finds their nodes.
    Running(BTreeMap<NodeId, u32>),
    /// The node has claimed units of the job, and does not take them.
    Unfit {
        job: JobId,
        node: NodeId,
    },
    /// The owner of a meeting point.
    Located {
        number: u64,
        owner: Option<Contact>,
    },
    /// Nodes that can run a job, busy or not; `searched`: in all of the tree, unless they are as many as wanted.
    Capable {
        number: u64,
        found: Vec<Candidate>,
        searched: bool,
    },
}

#[derive(Clone, Debug)]
pub enum Event {
    Lookup {
        number: u64,
        key: Point,
    },
    /// Look for nodes that can run this.
    Search {
        number: u64,
        job: JobId,
        needs: Capability,
        wanted: u16,
    },
    /// Jobs that wait at this node or run there have changed in number, with early binding.
    Queue(u32),
    /// A node has claimed units of the job, and is to get them.
    Claimed {
        job: JobId,
        node: Address,
        units: u32,
    },
    /// Too many jobs wait, or nobody can dial this node: the job is not marked anywhere.
    NotMarked {
        job: JobId,
        /// As many jobs wait here as may; else nobody can dial this node yet.
        full: bool,
    },
    /// How many nodes can run that job, which waits for a slot of this node? Answered by [`Command::Room`].
    Room {
        owner: NodeId,
        job: JobId,
        needs: Capability,
    },
    /// A unit that runs here is to be handed on, of none of these jobs: one that fewer nodes can run waits for its slot.
    MakeRoom {
        stay: BTreeSet<JobId>,
    },
    /// Slots of this node are kept for an owner no more: nothing comes.
    Released {
        owner: NodeId,
        slots: u32,
    },
    /// Slots of this node are kept for an owner.
    Reserved {
        owner: NodeId,
        slots: u32,
        until: Time,
    },
}

/// Requirements of a job on a node.
#[derive(Clone, Debug)]
pub struct Asks {
    pub needs: Capability,
    /// Words among the needs in full.
    pub requires: Box<Requires>,
    pub submitter: NodeId,
    /// Weight that the operator gives to the submitter: with twice the weight, twice the units run.
    pub weight: u16,
    /// Since the job was submitted: a unit that comes back has waited before.
    pub age: Duration,
    /// Nodes of the swarm, and millionths of them that have it all, as far as is known.
    pub nodes: u32,
    pub share: u32,
}

impl Asks {
    /// Nodes that have it all, as far as is known.
    fn able(&self) -> u32 {
        u32::try_from((u64::from(self.nodes) * u64::from(self.share) + 500_000) / 1_000_000)
            .unwrap_or(u32::MAX)
    }
}

type Fcx<'a> = Cx<'a, Fitting>;

impl Protocol for Fitting {
    type Message = Message;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, input: InputOf<Self>, cx: &mut Fcx<'_>) {
        match input {
            Input::Up(_) => {}
            // Connections to others end because nobody needs them.
            Input::Down(peer) if self.held.contains(&peer) => self.meeting_node_gone(peer, cx),
            Input::Down(_) => {}
            Input::Unreachable(peer) => self.gone(peer, cx),
            Input::Command(command) => self.command(command, cx),
            Input::Message { from, message: Message::ToMeeting(said) } => self.meet(from, said, cx),
            Input::Message { from, message: Message::ToNode(ToNode::Lines { meeting, node, lines }) } => {
                self.told(from, (meeting, node), lines, cx);
            }
            Input::Message {
                from,
                message: Message::ToNode(ToNode::Given { job, node, units, left, share, bonus_ms }),
            } => {
                share.into_iter().for_each(|share| self.share(from, share, cx.now));
                self.given(from, (job, node), (units, left, share), bonus_ms, cx);
            }
            Input::Message { from, message: Message::ToOwner(ToOwner::Claim(claim)) } => {
                self.claimed(from, &claim, cx);
            }
            Input::Message { from, message: Message::ToOwner(ToOwner::Queue { job, length }) } => {
                self.queue_is(from, job, length, cx);
            }
            Input::Message { from, message: Message::ToNode(ToNode::Unfit { job, node }) } => {
                self.unfit(from, job, node, cx);
            }
            Input::Message { from, message: Message::NotHere { meeting } } => {
                self.not_here(from, meeting, cx);
            }
            Input::Timer(Timer::Look(node)) => self.look_late(node, cx),
            Input::Timer(Timer::Kept(node, owner)) => self.kept_over(node, owner, cx),
            Input::Timer(Timer::Renew(job)) if self.binds_early() => self.bind_early(job, cx),
            Input::Timer(Timer::Renew(job)) => self.mark(job, cx),
            Input::Timer(Timer::Choose(job)) => self.bind(job, cx),
            Input::Timer(Timer::Meeting(meeting)) => self.meet_again(meeting, cx),
            Input::Timer(Timer::Room(owner, job)) => self.look_for_room(owner, job, cx),
            Input::Timer(Timer::Shares) => self.tell_shares(cx),
        }
        self.tell_queue(cx);
    }

    fn check_invariants(&self) {
        assert!(self.waiting.len() <= waiting::JOBS, "jobs that wait are bounded");
        self.shares.check(self.waiting.len());
        self.marks.check();
        self.parked.check();
        self.known.check();
        self.scarcities.check();
        self.check_idle();
    }
}

impl Fitting {
    /// The part of a node that states this.
    pub fn new(stated: Stated, binding: Binding) -> Fitting {
        let meetings = Meetings::of(binding);
        Fitting { own: Idle::of(stated), binding, meetings, ..Fitting::default() }
    }

    /// Marks that are left at this node, and idle nodes that are parked here.
    pub fn kept(&self) -> (usize, usize) {
        (self.marks.len(), self.parked.len())
    }

    fn command(&mut self, command: Command, cx: &mut Fcx<'_>) {
        match command {
            Command::Me(me) => self.at(me, cx),
            Command::Range(range) => self.range(range, cx),
            Command::Nodes(nodes) => self.count(nodes, cx),
            Command::Load { slots, busy } => self.load(slots, &busy, cx),
            Command::Able(stated) => self.able(stated, cx),
            Command::Terms => self.on_other_terms(cx),
            Command::Guest { guest, slots } => self.guest(guest, slots.map(|slots| *slots), cx),
            Command::Want { job, asks, units } => self.want(job, asks, units, cx),
            Command::Enough { job } => self.unmark(job, cx),
            Command::Steal { by, capability } => self.stolen(by, &capability, cx),
            Command::Running(running) => {
                self.shares.count(running);
                self.tell_shares_soon(cx);
            }
            Command::Room { owner, job, share } => self.make_room(owner, job, share, cx),
            Command::Unfit { job, node } => self.turned_away(job, node, cx),
            Command::Located { number, owner } => self.located(number, owner, cx),
            Command::Capable { number, found, searched } => self.capable(number, &found, searched, cx),
        }
    }

    fn gone(&mut self, peer: NodeId, cx: &mut Fcx<'_>) {
        self.parked.forget(peer);
        self.known.forget(peer);
        self.owner_gone(peer, cx);
        self.meeting_node_gone(peer, cx);
    }

    /// Others own its meeting points soon.
    fn meeting_node_gone(&mut self, peer: NodeId, cx: &mut Fcx<'_>) {
        let lost = self.meetings.gone(peer, cx);
        lost.into_iter().for_each(|meeting| self.meet_again(meeting, cx));
        self.run_node_gone(peer, cx);
        self.hold_meetings(cx);
    }

    /// A word to this node as a meeting node, or as one that can run a job.
    fn meet(&mut self, from: NodeId, said: ToMeeting, cx: &mut Fcx<'_>) {
        match said {
            ToMeeting::Mark(mark) if mark.owner.id != from => {
                cx.fault(from, "marks a job of another node".into());
            }
            ToMeeting::Mark(Mark { meeting: Some(meeting), .. }) | ToMeeting::Seek { meeting, .. }
                if !self.owns(meeting) =>
            {
                cx.send(from, Message::NotHere { meeting });
            }
            ToMeeting::Mark(mark) => self.marked(&mark, cx),
            ToMeeting::Unmark { job } => {
                cx.cancel_timer(Timer::Room(from, job));
                self.marks.remove(from, job);
            }
            ToMeeting::Ask { job } => self.ask_queue(from, job, cx),
            ToMeeting::Seek { able, .. } if !able.is_bounded() => {
                cx.fault(from, "seeks jobs with more words than a node has".into());
            }
            ToMeeting::Seek { at, .. } if at.first_hop().is_none_or(|hop| hop.id != from) => {
                cx.fault(from, "seeks jobs for another node".into());
            }
            ToMeeting::Seek { meeting, at, able } => {
                let lines = self.marks.best_for(&able, cx.now);
                if lines.is_empty() {
                    self.parked.park(at, able, meeting, cx.now);
                }
                cx.send(from, Message::ToNode(ToNode::Lines { meeting, node: at.id, lines }));
            }
            ToMeeting::Leave { node } => self.parked.remove(node, from),
            ToMeeting::Shares { shares } if shares.len() > shares::TOLD => {
                cx.fault(from, "tells of more shares than a message has".into());
            }
            ToMeeting::Shares { shares } => self.marks.shares(from, &shares, cx.now),
        }
    }

    /// Whether this node owns the meeting point, as far as it knows.
    fn owns(&self, meeting: u8) -> bool {
        self.range.is_none_or(|range| range.contains(meetings::point(meeting)))
    }

    /// This node owns these points from now on. At those that it has lost jobs and nodes meet elsewhere, which they are
    /// told.
    fn range(&mut self, range: Option<Range>, cx: &mut Fcx<'_>) {
        let before = std::mem::replace(&mut self.range, range);
        let Some(range) = range.filter(|range| before != Some(*range)) else { return };
        for meeting in meetings::lost(before, range) {
            let parked = self.parked.lose(meeting);
            let marks = self.marks.lose(meeting);
            // Guests are told by way of their gateway: once.
            let hops: BTreeSet<Contact> = parked.iter().filter_map(Address::first_hop).collect();
            hops.into_iter().for_each(|hop| cx.send_to(hop, Message::NotHere { meeting }));
            marks.into_iter().for_each(|owner| cx.send_to(owner, Message::NotHere { meeting }));
        }
    }

    /// The swarm has so many nodes: other meeting points may be in use from now on.
    fn count(&mut self, nodes: u32, cx: &mut Fcx<'_>) {
        if !self.meetings.count(nodes) {
            return;
        }
        self.mark_in_use(cx);
        self.look_anew(cx);
    }

    /// Another node owns the meeting point by now: what was said there is said again.
    fn not_here(&mut self, from: NodeId, meeting: u8, cx: &mut Fcx<'_>) {
        if self.meetings.refused(meeting, from, cx) {
            self.meet_again(meeting, cx);
        }
    }

    fn located(&mut self, number: u64, owner: Option<Contact>, cx: &mut Fcx<'_>) {
        let meeting = u8::try_from(number).unwrap_or(u8::MAX);
        if !self.meetings.located(meeting, owner, cx) {
            cx.set_timer_by(Timer::Meeting(meeting), meetings::REFUSED);
        }
        self.hold_meetings(cx);
    }

    /// Says again what was said at the meeting point.
    fn meet_again(&mut self, meeting: u8, cx: &mut Fcx<'_>) {
        let jobs = self.waiting.iter().filter(|(_, job)| job.is_marked_at(meeting));
        let jobs: Vec<JobId> = jobs.map(|(job, _)| *job).collect();
        jobs.into_iter().for_each(|job| self.mark_at(job, meeting, cx));
        self.seek_again(meeting, cx);
    }

    /// Keeps the connections to meeting nodes where jobs of this node are marked: so it notices when one dies.
    fn hold_meetings(&mut self, cx: &mut Fcx<'_>) {
        let marked = |meeting: u8| self.marked.get(usize::from(meeting)).is_some_and(|jobs| *jobs > 0);
        let now = self.meetings.owners().filter(|(meeting, at)| marked(*meeting) && at.id != cx.me);
        let now = now.map(|(_, at)| at).chain(self.run_nodes());
        let now: BTreeMap<NodeId, Contact> = now.map(|at| (at.id, at)).collect();
        now.iter().filter(|(node, _)| !self.held.contains(node)).for_each(|(_, at)| cx.hold(*at));
        self.held.iter().filter(|node| !now.contains_key(node)).for_each(|node| cx.release(*node));
        self.held = now.into_keys().collect();
    }

    /// The owner of a job that was claimed tells the share of its submitter: marks that are left here are not told.
    fn share(&mut self, owner: NodeId, share: Share, now: Time) {
        self.marks.shares(owner, &[share], now);
        let looks = std::iter::once(&mut self.own).chain(self.guests.values_mut());
        looks.for_each(|idle| idle.share(owner, share));
    }

    /// A mark has come: as many parked nodes are told of it as units wait, those first that can do least.
    fn marked(&mut self, mark: &Mark, cx: &mut Fcx<'_>) {
        if !self.marks.put(mark, cx.now) {
            return;
        }
        let waited_ms = mark.age_ms.saturating_add(mark.bonus_ms);
        let line = Line { owner: mark.owner, job: mark.job, waited_ms, share: mark.share };
        for _ in 0..mark.units.min(TOLD) {
            let Some((at, meeting)) = self.parked.take_for(mark, cx.now) else { break };
            let Some(hop) = at.first_hop() else { continue };
            cx.send_to(hop, Message::ToNode(ToNode::Lines { meeting, node: at.id, lines: vec![line] }));
        }
        self.room_later(mark, cx);
        self.marked_here(line, mark, cx);
    }
}
