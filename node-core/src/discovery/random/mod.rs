//! The random finder: a walk from peer to peer that takes the free slots which it meets. It knows nothing and
//! costs nothing between requests. No swarm uses it; it is what other finders are compared with, and the
//! example of `docs/hacking.md`.

mod message;

pub use message::{Message, Walk};

use crate::address::Contact;
use crate::finding::{Found, Needs, Place, Query};
use crate::ids::NodeId;
use crate::platform::Platform;
use crate::protocol::{Cx, Input, InputOf, Protocol};
use crate::ticket::{ServiceId, Ticket};
use crate::time::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// Nodes that a walk comes to at most. Our choice: several times what a tree of a million nodes needs.
const HOPS: u8 = 64;

/// After so long the origin takes what it has. Our choice: a walk over slow lines.
const PATIENCE: Duration = Duration::from_secs(60);

/// Time for which slots are kept for an origin. Our choice: to dial the node and send the units.
const KEPT: Duration = Duration::from_secs(30);

/// Searches of one node, and origins for which slots are kept. Our choice: a few kilobytes; further requests
/// find nothing.
const MOST: usize = 256;

/// Slots of this node.
#[derive(Clone, Copy, Debug)]
pub struct Slots {
    pub free: u32,
    pub memory_bytes: u64,
    pub platform: Platform,
    pub power: u32,
}

#[derive(Debug, Default)]
pub struct Random {
    me: Option<Contact>,
    slots: Option<Slots>,
    searches: BTreeMap<u64, Search>,
    /// Slots that are kept, by origin.
    kept: BTreeMap<NodeId, u32>,
}

#[derive(Debug)]
struct Search {
    ticket: Ticket,
    missing: u32,
    places: Vec<Place>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    Search(u64),
    Kept(NodeId),
}

#[derive(Clone, Debug)]
pub enum Command {
    /// Others dial this node there; `None`: nobody does, and it asks for nothing and offers nothing.
    Me(Option<Contact>),
    Slots(Slots),
    Find(Query),
}

#[derive(Clone, Debug)]
pub enum Event {
    Found(Found),
    Reserved { owner: NodeId, slots: u32, until: Time, hops: u8 },
}

type Rcx<'a> = Cx<'a, Random>;

impl Protocol for Random {
    type Message = Message;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, input: InputOf<Self>, cx: &mut Rcx<'_>) {
        match input {
            Input::Up(_) | Input::Down(_) | Input::Unreachable(_) => {}
            Input::Command(Command::Me(me)) => self.me = me,
            Input::Command(Command::Slots(slots)) => self.slots = Some(slots),
            Input::Command(Command::Find(query)) => self.find(query, cx),
            Input::Message { from, message: Message::Walk(walk) } => self.walk(Some(from), walk, cx),
            Input::Message { from, message: Message::Here { id, at, slots, .. } } if at.id == from => {
                self.here(id, at, slots, cx);
            }
            Input::Message { message: Message::Over { id }, .. } => self.over(id, cx),
            Input::Message { from, message: Message::Here { .. } } => {
                cx.fault(from, "offers slots of another node".into());
            }
            Input::Timer(Timer::Search(id)) => self.over(id, cx),
            Input::Timer(Timer::Kept(owner)) => drop(self.kept.remove(&owner)),
        }
    }

    fn check_invariants(&self) {
        assert!(self.searches.len() <= MOST, "searches are bounded");
        assert!(self.kept.len() <= MOST, "origins are bounded");
    }
}

impl Slots {
    fn suit(&self, needs: &Needs) -> bool {
        self.memory_bytes >= needs.memory_bytes
            && self.power >= needs.power
            && needs.platform.is_none_or(|platform| platform == self.platform)
    }
}

impl Random {
    fn find(&mut self, query: Query, cx: &mut Rcx<'_>) {
        let Query { ticket, units, needs, .. } = query;
        let Some(origin) = self.me.filter(|_| self.searches.len() < MOST) else {
            let shortage = Some("this node cannot be dialled, or searches for too much already".into());
            return cx.emit(Event::Found(Found { ticket, places: Vec::new(), shortage }));
        };
        // Drawn, so that nobody who was not asked ends it.
        let id = cx.rng.below(u64::MAX);
        self.searches.insert(id, Search { ticket, missing: units, places: Vec::new() });
        cx.set_timer(Timer::Search(id), PATIENCE);
        self.walk(None, Walk { id, origin, tasks: units, needs, hops: 0 }, cx);
    }

    /// Takes what is free here, and sends the rest on.
    fn walk(&mut self, from: Option<NodeId>, mut walk: Walk, cx: &mut Rcx<'_>) {
        let origin = walk.origin;
        let slots = self.slots.filter(|slots| slots.suit(&walk.needs)).map_or(0, |slots| slots.free);
        let kept: u32 = self.kept.values().sum();
        let given = slots.saturating_sub(kept).min(walk.tasks);
        let known = self.kept.contains_key(&origin.id) || self.kept.len() < MOST;
        if let Some(at) = self.me.filter(|_| given > 0 && known) {
            let until = cx.now + KEPT;
            *self.kept.entry(origin.id).or_default() += given;
            cx.set_timer(Timer::Kept(origin.id), KEPT);
            cx.emit(Event::Reserved { owner: origin.id, slots: given, until, hops: walk.hops });
            cx.send_to(origin, Message::Here { id: walk.id, at, slots: given, hops: walk.hops });
            walk.tasks -= given;
        }
        walk.hops = walk.hops.saturating_add(1);
        let next = self.next(from, cx).filter(|_| walk.tasks > 0 && walk.hops < HOPS);
        match next {
            Some(next) => cx.send(next, Message::Walk(walk)),
            None if walk.tasks > 0 => cx.send_to(origin, Message::Over { id: walk.id }),
            // The origin counts.
            None => {}
        }
    }

    /// Any peer, but back only if there is no other.
    fn next(&self, from: Option<NodeId>, cx: &mut Rcx<'_>) -> Option<NodeId> {
        // Pages have no such finder.
        let others = cx.peers.with(ServiceId::Random).filter(|peer| Some(*peer) != from);
        let count = others.clone().count() as u64;
        match count {
            0 => from,
            _ => others.clone().nth(cx.rng.below(count) as usize),
        }
    }

    fn here(&mut self, id: u64, at: Contact, slots: u32, cx: &mut Rcx<'_>) {
        let Some(search) = self.searches.get_mut(&id) else { return };
        let units = slots.min(search.missing);
        if units > 0 {
            search.places.push(Place { node: at.into(), units });
            search.missing -= units;
        }
        if search.missing == 0 {
            self.over(id, cx);
        }
    }

    fn over(&mut self, id: u64, cx: &mut Rcx<'_>) {
        let Some(Search { ticket, missing, places }) = self.searches.remove(&id) else { return };
        cx.cancel_timer(Timer::Search(id));
        let shortage = (missing > 0).then(|| "a random walk met no more free slots".into());
        cx.emit(Event::Found(Found { ticket, places, shortage }));
    }
}
