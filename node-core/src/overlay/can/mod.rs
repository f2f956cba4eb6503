//! The CAN: a space with a dimension for each resource and a virtual one, in which each node owns a zone around its
//! capabilities (paper `match`, section 3.2). It finds nodes that can run a job, places jobs by load, and tells idle
//! nodes where jobs wait.
//!
//! | file | what it knows |
//! |---|---|
//! | `zone` | boxes and points |
//! | `message` | what nodes say to each other |
//! | `join` | how a node enters and leaves; two spaces become one |
//! | `member` | this node's zones |
//! | `neighbours` | nodes around it, heartbeats, disputes |
//! | `takeover` | zones whose node is gone |
//! | `route`, `fingers` | ways through the space |
//! | `find` | searches for capable nodes |
//! | `push` | placing of jobs, with load beyond; stealing |
//! | `sketch` | how many nodes there are, and what they can do |
//!
//! A node's point is its capabilities and a virtual coordinate drawn by its id; a job's is its needs and a drawn one.
//! Zones tile the space: each point has one owner. A node finds the space by way of the ring: at the owner of
//! [`meeting_point`], or at any other member of the ring.
//!
//! *Departures.* The paper leaves open how zones are split, taken over and checked. Zones here are cut between the two
//! points, so that each node is in its own zone. A zone that is taken over is handed on within seconds to the neighbours
//! on one of its faces, which grow over it, so that all zones stay boxes.
//!
//! *Limits.* A claim over a zone whose node is there does not last: others keep to the older one. A member on a route can
//! still lose walks, or answer for others' points; a walk that is lost is begun again once. The owner of the meeting
//! point decides which of two spaces lasts. Samples and loads are believed as they are told. Measured with 1,000 nodes:
//! 3.3 messages to the owner of a point (24.4 without fingers, with nodes of ten kinds), 12 neighbours with nodes of ten
//! kinds and 21 with nodes of all kinds, 5 and 7 messages a node and second.

mod find;
mod fingers;
mod join;
mod member;
mod message;
mod neighbours;
mod push;
mod route;
mod sketch;
mod takeover;
#[cfg(test)]
mod tests;
mod view;
mod zone;

pub use find::{FOUND_MAX, Finding, VISITS};
pub use member::Member;
pub use message::{Beat, Errand, HOPS_MAX, Load, Message, Over, Record, SpaceId, Walk, ZONES_MAX};
pub use neighbours::NEIGHBOURS;
pub use push::{PUSHES, Placing};
pub use sketch::Sketch;
pub use view::View;
pub use zone::{Coords, DIMS, EDGE, RESOURCES, VIRTUAL, Zone};

use crate::address::Contact;
use crate::capability::{Candidate, Capability};
use crate::circle::{Place, Point};
use crate::ids::NodeId;
use crate::protocol::{Cx, Input, InputOf, Protocol};
use crate::ticket::Ticket;
use crate::under_way::UnderWay;
use join::{Joining, Purpose};
use route::Question;
use std::collections::BTreeMap;
use std::time::Duration;

/// Time between heartbeats. Our choice: a silent node is missed within a quarter of a minute.
pub const BEAT: Duration = Duration::from_secs(4);

/// Where on the ring members look for the space.
pub fn meeting_point() -> Point {
    Point::of_name(b"manyhands can")
}

/// A node's place in the space, or its way there.
#[derive(Debug)]
pub struct Can {
    /// Whether routes use fingers; without them only to measure what they gain.
    has_fingers: bool,
    place: Option<Place>,
    own: Option<Capability>,
    /// Guests of this node that run something, which are found here. They own no zones.
    guests: BTreeMap<NodeId, Capability>,
    waiting: u32,
    member: Option<Box<Member>>,
    joining: Joining,
    lookups: UnderWay<Purpose>,
    questions: BTreeMap<u64, Question>,
    /// A point of its zone that another node may own.
    doubt: Option<Coords>,
    /// Checks in a row that led to another node.
    astray: u8,
    /// Nodes that run something, as they were said last.
    nodes: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Looks for a space again.
    Join,
    Beat,
    /// Looks whether this node is where others find it.
    Check,
    /// A question of this node has not been answered.
    Question(u64),
}

#[derive(Clone, Debug)]
pub enum Command {
    /// This node's place on the ring has changed; `None`: it has none, and leaves the space.
    Ring(Option<Place>),
    /// Capability of this node; `None`: it runs nothing.
    Own(Option<Capability>),
    /// Capability of a guest of this node; `None`: it runs nothing, or is none any more.
    Guest { guest: NodeId, capability: Option<Capability> },
    /// Jobs that wait at this node or run there.
    Load { waiting: u32 },
    /// The owner of the point on the ring that a lookup of this number asked for.
    Located { number: u64, owner: Option<Contact> },
    /// Looks for so many nodes that cover these needs.
    Find { ticket: Ticket, needs: Capability, wanted: u16 },
    /// Chooses a node for one job by load. `virt` is drawn by a hash of the job. `push`: into regions with less load.
    Place { ticket: Ticket, needs: Capability, virt: u32, push: bool },
    /// Looks for the owner of a point of the space.
    Owner { ticket: Ticket, at: Coords },
}

#[derive(Clone, Debug)]
pub enum Event {
    /// Asks the ring for the owner of a key.
    Lookup { number: u64, key: Point },
    /// `visited`: nodes that looked for candidates; 0 if the search was lost or this node is in no space.
    Found { ticket: Ticket, found: Vec<Candidate>, visited: u16 },
    /// The node to run a job. `None`: no capable node was found, or this node is in no space.
    Placed { ticket: Ticket, at: Option<Candidate>, visited: u16 },
    /// The owner of a point, and the messages that led there. `None`: no answer came.
    Owned { ticket: Ticket, owner: Option<NodeId>, hops: u16 },
    /// An idle node would run a job that waits here.
    Steal { by: Contact, capability: Capability },
    /// The space has about so many nodes that run something.
    Nodes(u32),
}

type Ccx<'a> = Cx<'a, Can>;

impl Default for Can {
    fn default() -> Can {
        Can::new(true)
    }
}

impl Protocol for Can {
    type Message = Message;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, input: InputOf<Self>, cx: &mut Ccx<'_>) {
        match input {
            Input::Up(_) | Input::Down(_) => {}
            Input::Unreachable(peer) => {
                if let Some(member) = &mut self.member {
                    member.unreachable(peer, cx);
                }
            }
            Input::Command(command) => self.command(command, cx),
            Input::Message { from, message } => self.message(from, message, cx),
            Input::Timer(Timer::Join) => self.join_again(cx),
            Input::Timer(Timer::Beat) => self.beat(cx),
            Input::Timer(Timer::Check) => self.check(cx),
            Input::Timer(Timer::Question(id)) => self.unanswered(id, cx),
        }
        self.heed(cx);
    }

    fn check_invariants(&self) {
        assert!(self.questions.len() <= route::QUESTIONS, "questions are bounded");
        assert!(
            self.member.is_none() || self.place.is_some(),
            "members of the space are members of the ring"
        );
        if let Some(member) = &self.member {
            member.check();
        }
    }
}

impl Can {
    /// `has_fingers`: whether routes take short cuts along the virtual dimension.
    pub fn new(has_fingers: bool) -> Can {
        Can {
            has_fingers,
            place: None,
            own: None,
            guests: BTreeMap::new(),
            waiting: 0,
            member: None,
            joining: Joining::default(),
            lookups: UnderWay::new(8),
            questions: BTreeMap::new(),
            doubt: None,
            astray: 0,
            nodes: 0,
        }
    }

    /// This node in the space; `None` while it is in none.
    pub fn member(&self) -> Option<&Member> {
        self.member.as_deref()
    }

    /// Nodes that run something, as far as this one has heard: exact up to 31, to within a fifth or so beyond.
    pub fn nodes(&self) -> u32 {
        self.member.as_ref().map_or(0, |member| member.sample.nodes())
    }

    /// Share of the nodes that cover these needs, 0.0 to 1.0, as a sample of 32 has it. `None` while this node is in no
    /// space. Forged by any member that says so.
    pub fn share(&self, needs: &Capability) -> Option<f64> {
        Some(self.member.as_ref()?.sample.share(needs))
    }

    /// Whether the sample has all nodes of which word has come.
    pub fn knows_all(&self) -> bool {
        self.member.as_ref().is_some_and(|member| member.sample.is_whole())
    }

    fn command(&mut self, command: Command, cx: &mut Ccx<'_>) {
        match command {
            Command::Ring(place) => self.stand(place, cx),
            Command::Own(own) => self.able(own, cx),
            Command::Guest { guest, capability } => {
                match capability {
                    Some(capability) => self.guests.insert(guest, capability),
                    None => self.guests.remove(&guest),
                };
            }
            Command::Load { waiting } => {
                self.waiting = waiting;
                if let Some(member) = &mut self.member {
                    member.waiting = waiting;
                }
            }
            Command::Located { number, owner } => self.located(number, owner, cx),
            Command::Find { ticket, needs, wanted } => {
                let wanted = wanted.clamp(1, FOUND_MAX);
                self.ask(Question::Find { ticket, needs, wanted, again: false }, cx);
            }
            Command::Place { ticket, needs, virt, push } => {
                self.ask(Question::Place { ticket, needs, virt, push, again: false }, cx);
            }
            Command::Owner { ticket, at } => self.ask(Question::Owner { ticket, at }, cx),
        }
    }

    fn message(&mut self, from: NodeId, message: Message, cx: &mut Ccx<'_>) {
        match message {
            Message::Welcome { id, space, zone, others } => self.welcome(from, id, space, zone, others, cx),
            Message::Occupied { id } => self.occupied(id, cx),
            Message::Outside { id } => self.outside(id, cx),
            Message::Over(over) => self.over(*over, cx),
            Message::Walk(walk) => self.walk(from, *walk, cx),
            message => {
                let Some(member) = &mut self.member else { return };
                member.message(from, message, cx);
            }
        }
    }

    /// Does what the member has found out that has to be done.
    fn heed(&mut self, cx: &mut Ccx<'_>) {
        let Some(member) = &mut self.member else { return };
        if std::mem::take(&mut member.lost) {
            return self.join_anew(cx);
        }
        if let Some(at) = member.doubts.take() {
            self.doubt.get_or_insert(at);
            cx.set_timer_by(Timer::Check, BEAT);
        }
        if member.missing.is_some() && !self.lookups.has(Purpose::Meet) {
            let number = self.lookups.ask(Purpose::Meet);
            let key = join::anywhere(cx);
            cx.emit(Event::Lookup { number, key });
        }
    }

    fn beat(&mut self, cx: &mut Ccx<'_>) {
        let Some(member) = &mut self.member else { return };
        cx.set_timer(Timer::Beat, BEAT);
        member.beat(self.has_fingers, cx);
        let nodes = member.sample.nodes();
        if std::mem::replace(&mut self.nodes, nodes) != nodes {
            cx.emit(Event::Nodes(nodes));
        }
    }
}
