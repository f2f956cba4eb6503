//! The Rendezvous Node Tree: all members of the ring in one tree, whose inner nodes know what the nodes below can do
//! (paper `match`, section 3.1). It finds nodes that can run a job; whether they are busy is not its affair.
//!
//! | file | what it knows |
//! |---|---|
//! | `place` | who is whose parent |
//! | `summary` | what a subtree can do |
//! | `search` | searches of this node, and those of others on their way |
//!
//! A child tells its parent what its subtree can do when that has changed, and each parent tells its children what the
//! whole tree can do; both are told again now and then, in case a message was lost with a connection.
//!
//! *Departures.* The paper tells the parent periodically; what nodes can do seldom changes, so it is told at a change,
//! and the period is only for repair. It begins a search with a random walk, to spread searches; owners of jobs are
//! random nodes here, and searches visit children in random order.

mod message;
mod place;
mod search;
mod summary;

pub use message::{BRANCHES_MAX, Message, Over, WANTED_MAX, Walk};
pub use search::VISITS;
pub use summary::Summary;

use crate::address::Contact;
use crate::capability::{Candidate, Capability};
use crate::circle::{Place, Point};
use crate::ids::NodeId;
use crate::protocol::{Cx, Input, InputOf, Protocol};
use crate::ticket::Ticket;
use crate::time::Time;
use search::Search;
use std::collections::BTreeMap;
use std::time::Duration;

/// Time between two looks at what has to be told. Our choice: with 10 levels, a change is known everywhere in half a
/// minute, and many changes at once are one message.
const PERIOD: Duration = Duration::from_secs(2);

/// Time after which the same is told again, and a parent looked up again. Our choice: 5 messages a minute and child.
const REPAIR: Duration = Duration::from_secs(30);

/// Time after which a child that has told nothing is none any more: three that were lost.
const LAPSE: Duration = Duration::from_secs(100);

/// Children of a node. Our choice: three times the most that were seen with 10,000 nodes; others wait.
const CHILDREN: usize = 64;

/// A node's place in the tree, and its subtree.
#[derive(Debug, Default)]
pub struct RnTree {
    place: Option<Place>,
    own: Option<Capability>,
    /// Guests of this node that run something, which are found here.
    guests: BTreeMap<NodeId, Capability>,
    parent: Parent,
    children: BTreeMap<NodeId, Child>,
    /// Summary of the whole tree, as the parent told it.
    whole: Option<Summary>,
    /// Nodes of it that were said last.
    nodes: u32,
    told: Told,
    searches: BTreeMap<u64, Search>,
}

impl Place {
    fn rounded(&self) -> Point {
        place::rounded(self.range.after, self.range.upto)
    }

    fn above(&self) -> Option<Point> {
        place::above(self.rounded())
    }
}

#[derive(Debug, Default)]
struct Parent {
    contact: Option<Contact>,
    /// The lookup of this number is under way.
    asked: Option<u64>,
    last: u64,
    /// When it was looked up last.
    at: Time,
}

#[derive(Debug)]
struct Child {
    contact: Contact,
    rounded: Point,
    summary: Summary,
    heard: Time,
}

/// Words that others were told last, and when.
#[derive(Debug, Default)]
struct Told {
    parent: Option<Summary>,
    parent_at: Time,
    children: Option<Summary>,
    children_at: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    Period,
    Search(u64),
}

#[derive(Clone, Debug)]
pub enum Command {
    /// This node's place on the ring has changed; none: it has none.
    Place(Option<Place>),
    /// Capability of this node; none: it runs nothing.
    Own(Option<Capability>),
    /// Capability of a guest of this node; none: it runs nothing, or is none any more.
    Guest { guest: NodeId, capability: Option<Capability> },
    /// The owner of the point that a lookup of this number asked for.
    Located { number: u64, owner: Option<Contact> },
    /// Looks for so many nodes that cover these needs.
    Find { ticket: Ticket, needs: Capability, wanted: u16 },
}

#[derive(Clone, Debug)]
pub enum Event {
    Lookup {
        number: u64,
        key: Point,
    },
    Found {
        ticket: Ticket,
        found: Vec<Candidate>,
        visited: u16,
    },
    /// The tree has so many nodes that run something, as far as this one has heard.
    Nodes(u32),
}

type Rcx<'a> = Cx<'a, RnTree>;

impl Protocol for RnTree {
    type Message = Message;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, input: InputOf<Self>, cx: &mut Rcx<'_>) {
        match input {
            Input::Up(peer) => self.up(peer),
            Input::Down(peer) => self.gone(peer),
            Input::Unreachable(peer) => self.gone(peer),
            Input::Command(Command::Place(place)) => self.stand(place, cx),
            Input::Command(Command::Own(own)) => self.own = own,
            Input::Command(Command::Guest { guest, capability }) => {
                match capability {
                    Some(capability) => self.guests.insert(guest, capability),
                    None => self.guests.remove(&guest),
                };
            }
            Input::Command(Command::Located { number, owner }) => self.located(number, owner, cx),
            Input::Command(Command::Find { ticket, needs, wanted }) => self.find(ticket, needs, wanted, cx),
            Input::Message { from, message: Message::Child { contact, rounded, summary } } => {
                self.child(from, contact, rounded, summary, cx);
            }
            Input::Message { from, message: Message::NotParent } => self.not_parent(from, cx),
            Input::Message { from, message: Message::Whole(whole) } => self.hear_whole(from, whole, cx),
            Input::Message { from, message: Message::Walk(walk) } => self.walk(from, *walk, cx),
            Input::Message { message: Message::Over(over), .. } => self.over(*over, cx),
            Input::Timer(Timer::Period) => self.period(cx),
            Input::Timer(Timer::Search(id)) => self.search_lost(id, cx),
        }
    }

    fn check_invariants(&self) {
        assert!(self.children.len() <= CHILDREN, "children are bounded");
        assert!(self.searches.len() <= search::SEARCHES, "searches are bounded");
        assert!(self.place.is_some() || self.children.is_empty(), "who has no place has no subtree");
    }
}

impl RnTree {
    /// Summary of this node, its guests and all below; none while it has no place.
    pub fn subtree(&self) -> Option<Summary> {
        let place = self.place?;
        let mut all = self.own.map_or_else(Summary::default, |own| Summary::of(place.contact.id, own));
        self.guests.iter().for_each(|(guest, capability)| all.add(&Summary::of(*guest, *capability)));
        self.children.values().for_each(|child| all.add(&child.summary));
        Some(all)
    }

    /// Summary of the whole tree, as far as this node has heard.
    pub fn whole(&self) -> Option<Summary> {
        match self.is_root() {
            true => self.subtree(),
            false => self.whole.clone(),
        }
    }

    pub fn is_root(&self) -> bool {
        self.place.is_some_and(|place| place.above().is_none())
    }

    pub fn parent(&self) -> Option<NodeId> {
        self.parent.contact.map(|parent| parent.id)
    }

    pub fn children(&self) -> impl Iterator<Item = NodeId> {
        self.children.keys().copied()
    }

    fn stand(&mut self, place: Option<Place>, cx: &mut Rcx<'_>) {
        if self.place == place {
            return;
        }
        let above = |place: Option<Place>| place.and_then(|place| place.above());
        let moved = above(self.place) != above(place) || self.place.is_none();
        self.place = place;
        let Some(place) = place else {
            self.leave_parent(cx);
            self.children.clear();
            (self.whole, self.told) = (None, Told::default());
            return cx.cancel_timer(Timer::Period);
        };
        // Children above which another node stands now find it by themselves.
        self.children.retain(|_, child| owns_above(place, child.rounded));
        if moved {
            self.leave_parent(cx);
            self.look_up_parent(cx);
        }
        if !cx.timer_is_set(Timer::Period) {
            // Nodes that start together do not tell together.
            let after = Duration::from_micros(cx.rng.below(PERIOD.as_micros() as u64));
            cx.set_timer(Timer::Period, after);
        }
    }

    fn leave_parent(&mut self, cx: &mut Rcx<'_>) {
        if let Some(parent) = self.parent.contact.take() {
            cx.release(parent.id);
        }
        (self.parent.asked, self.told.parent) = (None, None);
    }

    fn look_up_parent(&mut self, cx: &mut Rcx<'_>) {
        let Some(key) = self.place.and_then(|place| place.above()) else { return };
        self.parent.last += 1;
        (self.parent.asked, self.parent.at) = (Some(self.parent.last), cx.now);
        cx.emit(Event::Lookup { number: self.parent.last, key });
    }

    fn located(&mut self, number: u64, owner: Option<Contact>, cx: &mut Rcx<'_>) {
        if self.parent.asked != Some(number) {
            return;
        }
        self.parent.asked = None;
        let Some(owner) = owner.filter(|owner| owner.id != cx.me) else { return };
        if self.parent.contact != Some(owner) {
            self.leave_parent(cx);
            self.parent.contact = Some(owner);
            cx.hold(owner);
            self.tell_parent(cx);
        }
    }

    /// The parent has forgotten this child while it was gone.
    fn up(&mut self, peer: NodeId) {
        if self.parent() == Some(peer) {
            self.told.parent = None;
        }
    }

    fn gone(&mut self, peer: NodeId) {
        self.children.remove(&peer);
        if self.parent() == Some(peer) {
            // Another node may own its point by now; the next look asks.
            (self.told.parent, self.parent.at) = (None, Time::ZERO);
        }
    }

    fn not_parent(&mut self, from: NodeId, cx: &mut Rcx<'_>) {
        if self.parent() == Some(from) {
            // The ring has changed a moment ago: it is asked again at the next look.
            self.leave_parent(cx);
            self.parent.at = Time::ZERO;
        }
    }

    fn child(&mut self, from: NodeId, contact: Contact, rounded: Point, summary: Summary, cx: &mut Rcx<'_>) {
        if contact.id != from || !summary.is_valid() {
            return cx.fault(from, "tells a summary that no subtree has".into());
        }
        let room = self.children.len() < CHILDREN || self.children.contains_key(&from);
        if !room || !self.place.is_some_and(|place| owns_above(place, rounded)) {
            self.children.remove(&from);
            return cx.send(from, Message::NotParent);
        }
        let is_new = self.children.insert(from, Child { contact, rounded, summary, heard: cx.now }).is_none();
        if let Some(whole) = self.whole().filter(|_| is_new) {
            cx.send(from, Message::Whole(whole));
        }
    }

    fn hear_whole(&mut self, from: NodeId, whole: Summary, cx: &mut Rcx<'_>) {
        if !whole.is_valid() {
            return cx.fault(from, "tells a summary that no tree has".into());
        }
        // A former parent may not know yet that it is none.
        if self.parent() == Some(from) {
            self.say_nodes(whole.nodes(), cx);
            self.whole = Some(whole);
        }
    }

    fn say_nodes(&mut self, nodes: u32, cx: &mut Rcx<'_>) {
        if std::mem::replace(&mut self.nodes, nodes) != nodes {
            cx.emit(Event::Nodes(nodes));
        }
    }

    /// Tells what has changed, or has not been told for long.
    fn period(&mut self, cx: &mut Rcx<'_>) {
        if self.place.is_none() {
            return;
        }
        cx.set_timer(Timer::Period, PERIOD);
        self.children.retain(|_, child| cx.now.since(child.heard) < LAPSE);
        if self.parent.asked.is_none() && cx.now.since(self.parent.at) >= REPAIR {
            self.look_up_parent(cx);
        }
        self.tell_parent(cx);
        self.tell_children(cx);
    }

    fn tell_parent(&mut self, cx: &mut Rcx<'_>) {
        let (Some(parent), Some(place)) = (self.parent.contact, self.place) else { return };
        let Some(summary) = self.subtree() else { return };
        if self.told.parent.as_ref() == Some(&summary) && cx.now.since(self.told.parent_at) < REPAIR {
            return;
        }
        (self.told.parent, self.told.parent_at) = (Some(summary.clone()), cx.now);
        let message = Message::Child { contact: place.contact, rounded: place.rounded(), summary };
        cx.send_to(parent, message);
    }

    fn tell_children(&mut self, cx: &mut Rcx<'_>) {
        let Some(whole) = self.whole() else { return };
        self.say_nodes(whole.nodes(), cx);
        if self.told.children.as_ref() == Some(&whole) && cx.now.since(self.told.children_at) < REPAIR {
            return;
        }
        for child in self.children.keys() {
            cx.send(*child, Message::Whole(whole.clone()));
        }
        (self.told.children, self.told.children_at) = (Some(whole), cx.now);
    }
}

/// Whether the point above this one is owned from that place.
fn owns_above(place: Place, rounded: Point) -> bool {
    place::above(rounded).is_some_and(|above| place.range.contains(above))
}
