//! The finder for jobs with requirements: late binding by pull. A job that waits is *marked* at two of 32 meeting nodes,
//! a scarce one also at nodes that can run it; a node with a free slot takes the mark with the most of age and scarcity
//! that it knows of, and claims it at the job's owner, who alone decides.
//!
//! | file | what it knows |
//! |---|---|
//! | `waiting` | jobs of this node that wait |
//! | `known` | nodes whose capabilities this node knows |
//! | `idle` | slots of this node, and its look for jobs |
//! | `marks` | marks that are left here, and idle nodes that are parked here |
//! | `meetings` | who is where jobs and nodes meet |
//!
//! *Departure.* Paper `match`, section 2, binds early: the owner chooses a run node, in whose queue the job waits, first
//! come first served. The queue of a run node is one of marks here: whoever is free first takes a job, and nobody waits
//! behind a long one while others idle.

mod idle;
mod known;
mod marks;
mod meetings;
mod message;
mod waiting;

pub use message::{Claim, Line, Mark, Message, ToMeeting, ToNode, ToOwner};

use crate::address::Contact;
use crate::capability::{Candidate, Capability};
use crate::circle::{Point, Range};
use crate::ids::{JobId, NodeId};
use crate::protocol::{Cx, Input, InputOf, Protocol};
use crate::requires::{Properties, Requires};
use crate::time::Time;
use crate::under_way::UnderWay;
use idle::Idle;
use known::Known;
use marks::{Marks, Parked};
use meetings::Meetings;
use std::collections::BTreeMap;
use std::sync::Arc;
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
    /// Searches for nodes that can run a job.
    searches: UnderWay<JobId>,
    known: Known,
    idle: Idle,
    marks: Marks,
    parked: Parked,
    meetings: Meetings,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    Look,
    Kept(NodeId),
    Renew(JobId),
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
    /// Capability of this node from now on.
    Able(Capability),
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
        needs: Capability,
        wanted: u16,
    },
    /// This node has claimed units of the job, and is to get them.
    Claimed {
        job: JobId,
        node: Contact,
        units: u32,
    },
    /// Too many jobs wait, or nobody can dial this node: the job is not marked anywhere.
    NotMarked {
        job: JobId,
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
    /// Nodes of the swarm, and millionths of them that have it all, as far as is known.
    pub nodes: u32,
    pub share: u32,
}

type Fcx<'a> = Cx<'a, Fitting>;

impl Protocol for Fitting {
    type Message = Message;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, input: InputOf<Self>, cx: &mut Fcx<'_>) {
        match input {
            Input::Up(_) | Input::Down(_) => {}
            Input::Unreachable(peer) => self.gone(peer, cx),
            Input::Command(command) => self.command(command, cx),
            Input::Message { from, message: Message::ToMeeting(said) } => self.meet(from, said, cx),
            Input::Message { from, message: Message::ToNode(ToNode::Lines { meeting, lines }) } => {
                self.told(from, meeting, lines, cx);
            }
            Input::Message { from, message: Message::ToNode(ToNode::Given { job, units, left }) } => {
                self.given(from, job, (units, left), cx);
            }
            Input::Message { from, message: Message::ToOwner(ToOwner::Claim(claim)) } => {
                self.claimed(from, &claim, cx);
            }
            Input::Message { from, message: Message::ToNode(ToNode::Unfit { job }) } => {
                self.unfit(from, job, cx);
            }
            Input::Message { from, message: Message::NotHere { meeting } } => {
                self.not_here(from, meeting, cx);
            }
            Input::Timer(Timer::Look) => self.look_late(cx),
            Input::Timer(Timer::Kept(owner)) => self.kept_over(owner, cx),
            Input::Timer(Timer::Renew(job)) => self.mark(job, cx),
        }
    }

    fn check_invariants(&self) {
        assert!(self.waiting.len() <= waiting::JOBS, "jobs that wait are bounded");
        self.marks.check();
        self.parked.check();
        self.known.check();
        self.check_idle();
    }
}

impl Fitting {
    /// The part of a node with this capability and these properties, whose words are those of the capability.
    pub fn new(capability: Capability, properties: Arc<Properties>) -> Fitting {
        Fitting { idle: Idle::new(capability, properties), ..Fitting::default() }
    }

    /// Marks that are left at this node, and idle nodes that are parked here.
    pub fn kept(&self) -> (usize, usize) {
        (self.marks.len(), self.parked.len())
    }

    fn command(&mut self, command: Command, cx: &mut Fcx<'_>) {
        match command {
            Command::Me(me) => {
                self.me = me;
                self.look_if_idle(cx);
            }
            Command::Range(range) => self.range(range, cx),
            Command::Nodes(nodes) => self.count(nodes, cx),
            Command::Load { slots, busy } => self.load(slots, &busy, cx),
            Command::Able(capability) => self.able(capability, cx),
            Command::Want { job, asks, units } => self.want(job, asks, units, cx),
            Command::Enough { job } => self.unmark(job, cx),
            Command::Located { number, owner } => self.meetings.located(number, owner, cx),
            Command::Capable { number, found, searched } => self.capable(number, &found, searched, cx),
        }
    }

    fn gone(&mut self, peer: NodeId, cx: &mut Fcx<'_>) {
        self.meetings.gone(peer);
        self.parked.remove(peer);
        self.known.forget(peer);
        self.owner_gone(peer, cx);
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
            ToMeeting::Unmark { job } => self.marks.remove(from, job),
            ToMeeting::Seek { contact, .. } if contact.id != from => {
                cx.fault(from, "seeks jobs for another node".into());
            }
            ToMeeting::Seek { meeting, contact, capability } => {
                let lines = self.marks.best_for(&capability, cx.now);
                if lines.is_empty() {
                    self.parked.park(contact, capability, meeting, cx.now);
                }
                cx.send(from, Message::ToNode(ToNode::Lines { meeting, lines }));
            }
            ToMeeting::Leave => self.parked.remove(from),
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
            parked.into_iter().for_each(|node| cx.send_to(node, Message::NotHere { meeting }));
            marks.into_iter().for_each(|owner| cx.send_to(owner, Message::NotHere { meeting }));
        }
    }

    /// The swarm has so many nodes: other meeting points may be in use from now on.
    fn count(&mut self, nodes: u32, cx: &mut Fcx<'_>) {
        if !self.meetings.count(nodes) {
            return;
        }
        self.mark_in_use(cx);
        self.end_look(cx);
        self.look_if_idle(cx);
    }

    /// Another node owns the meeting point by now: what was said there is said again.
    fn not_here(&mut self, from: NodeId, meeting: u8, cx: &mut Fcx<'_>) {
        if !self.meetings.refused(meeting, from, cx) {
            return;
        }
        let jobs = self.waiting.iter().filter(|(_, job)| job.is_marked_at(meeting));
        let jobs: Vec<JobId> = jobs.map(|(job, _)| *job).collect();
        jobs.into_iter().for_each(|job| self.mark_at(job, meeting, cx));
        self.seek_again(meeting, cx);
    }

    /// A mark has come: as many parked nodes are told of it as units wait, those first that can do least.
    fn marked(&mut self, mark: &Mark, cx: &mut Fcx<'_>) {
        if !self.marks.put(mark, cx.now) {
            return;
        }
        let line =
            Line { owner: mark.owner, job: mark.job, score: mark.age_ms.saturating_add(mark.bonus_ms) };
        for _ in 0..mark.units.min(TOLD) {
            let Some((node, meeting)) = self.parked.take_for(&mark.needs, cx.now) else { break };
            cx.send_to(node, Message::ToNode(ToNode::Lines { meeting, lines: vec![line] }));
        }
        self.marked_here(line, &mark.needs, cx);
    }
}
