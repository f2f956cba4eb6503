//! Chord: members on a circle of points, each the owner of what lies behind its predecessor
//! (paper `chord`). Paper `market` builds its markets on it.
//!
//! A [`Ring`] is a node's part of all rings: of the one of all nodes, and of any others, in which
//! it may have several members. A node without a member looks up through one that it is connected
//! to.
//!
//! | file | what it knows |
//! |---|---|
//! | `member` | one member: whom it knows, what it owns, which way a key is |
//! | `join` | finding one's place, and finding back to it |
//! | `stabilise` | beats: who is whose successor and predecessor, and since when |
//! | `failure` | deaths, and what is done about them |
//! | `takeover` | who may have a lease from a predecessor that is gone |
//! | `leave` | going of one's own accord |
//! | `sight` | whether one is on the right ring |
//! | `fingers` | members far away |
//! | `lookup` | one lookup, as a machine of its own |
//! | `ask`, `answer` | lookups of this node, and those of others |
//! | `known` | owners that were looked up before |
//! | `view`, `check` | for people and for checkers |
//!
//! # Who owns a key
//! Chord as first published can break (paper `zave`). We follow that paper's correction:
//! whole successor lists are taken over in one step, from a member that was asked for just that;
//! a better successor is taken only when it has answered; and a predecessor gives way to one
//! further off only when it is dead (her *rectify*). Beyond that, so that no key ever has two
//! owners:
//!
//! 1. *The successor decides.* A node that joins owns nothing until its successor has said that it
//!    is its predecessor (the successor has given the range up in the same step), and until its own
//!    predecessor has come to it. In between nobody owns the range, and lookups wait.
//! 2. *Only the owner answers a lookup*, whoever named it. What others know shortens the way, and
//!    may be as old as it likes.
//! 3. *Ownership is a lease*, renewed by each answer of the successor. A member that stood still or
//!    was cut off does not answer until its successor, or the next one, has confirmed it.
//!
//! 4. *A takeover asks first.* Each member tells its successor who is before it, and a successor tells
//!    who begins anew. Whoever was behind a dead predecessor, and is not known to who comes now, may
//!    have a lease from the dead: it is asked to look at its successor, and what it may own is taken
//!    only when it has come, is dead too, is no member, or has had a lease's time.
//!
//! Not closed: a member tells at once whom it took for its predecessor, but does not wait until its
//! successor has heard it, and the next ones hear it 0.3 s later each. So two may own a range, for
//! a lease at most, if a newcomer's successor dies together with its predecessor within the time of
//! a message, or with its next successors too within a second. It was not seen in 20,000 lives of
//! constant joins, deaths and restarts. What must not have two owners needs numbers of its own.
//!
//! Departures: her proof needs r + 1 members at any time. We begin with one; as long as there are
//! no more than r others, lists hold all of them, and who has lost all is alone. A list that loses
//! its dead becomes shorter for a moment, where she appends a placeholder. Who loses r successors
//! at once leaves, and joins again through its fingers. Two rings that grew apart become one when
//! their members meet an anchor, whose ring is the ring.

mod answer;
mod ask;
pub mod check;
mod config;
mod failure;
mod fingers;
mod join;
mod known;
mod leave;
mod lookup;
mod member;
mod message;
mod sight;
mod stabilise;
mod takeover;
mod view;

use crate::circle::MemberId;
use crate::circle::Point;
use crate::circle::Range;
use crate::circle::RingId;
pub use config::RingConfig;
pub use message::{
    Around, Beat, Come, Command, Event, Failure, Find, Leave, Message, Mine, Mode, NEXT_MAX, Next, Refusal,
    Timer,
};
pub use view::{MemberView, RingView};

use crate::address::Contact;
use crate::ids::NodeId;
use crate::protocol::{Cx, Input, InputOf, Protocol};
use known::Known;
use lookup::Lookup;
use member::{Links, Member, digest};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A node's part of all rings.
#[derive(Debug)]
pub struct Ring {
    config: Arc<RingConfig>,
    /// Mostly one, in a tree whose nodes have room for eleven.
    members: BTreeMap<MemberId, Box<Member>>,
    /// By ticket.
    lookups: BTreeMap<u64, Box<Lookup>>,
    known: Known,
    /// Connected peers that may be members.
    via: BTreeMap<RingId, Vec<NodeId>>,
    links: Links,
    /// Nodes whose connections are to last, in order.
    held: Vec<NodeId>,
    /// A member has changed since the node above was told.
    touched: bool,
}

type Rcx<'a> = Cx<'a, Ring>;

impl Protocol for Ring {
    type Message = Message;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, input: InputOf<Self>, cx: &mut Rcx<'_>) {
        match input {
            Input::Message { from, message } => self.message(from, message, cx),
            Input::Timer(Timer::Beat(id)) => self.beat(id, cx),
            Input::Timer(Timer::News(id)) => self.news(id, cx),
            Input::Timer(Timer::Seek(id)) => self.seek(id, None, cx),
            Input::Timer(Timer::Fix(id)) => self.fix(id, cx),
            Input::Timer(Timer::Lookup(ticket)) => self.late(ticket, cx),
            Input::Timer(Timer::Sight(id)) => self.sight(id, cx),
            Input::Command(Command::Join { member, me, via }) => self.join(member, me, via, cx),
            Input::Command(Command::Leave(id)) => self.leave(id, cx),
            Input::Command(Command::Lookup { ticket, ring, key, mode }) => {
                self.command(ticket, ring, key, mode, cx);
            }
            Input::Command(Command::Know { ring, via, anchors }) => self.know(ring, via, anchors, cx),
            Input::Up(peer) => self.links.up(peer),
            Input::Down(peer) | Input::Unreachable(peer) => self.down(peer, cx),
        }
        if self.touched {
            self.touched = false;
            let news = self.config.news;
            let r = self.config.r();
            self.members.values_mut().for_each(|member| tell(member, r, news, cx));
            self.hold(cx);
        }
    }

    fn check_invariants(&self) {
        for (id, member) in &self.members {
            assert!(
                member::is_in_order(*id, &member.succ, self.config.r()),
                "successors are in order, and no more than r: {member:?}"
            );
            assert!(member.fingers.windows(2).all(|two| two[0].bit < two[1].bit), "fingers are in order");
        }
    }
}

impl Ring {
    pub fn new(config: impl Into<Arc<RingConfig>>) -> Ring {
        Ring {
            config: config.into(),
            members: BTreeMap::new(),
            lookups: BTreeMap::new(),
            known: Known::default(),
            via: BTreeMap::new(),
            links: Links::default(),
            held: Vec::new(),
            touched: false,
        }
    }

    fn message(&mut self, from: NodeId, message: Message, cx: &mut Rcx<'_>) {
        match message {
            Message::Find(find) => self.find(from, *find, cx),
            Message::Next(next) => self.next(from, *next, cx),
            Message::Mine(mine) => self.mine(from, *mine, cx),
            Message::Beat(beat) => self.beaten(from, *beat, cx),
            Message::Come(come) => self.come(from, *come, cx),
            Message::Same { to, from: point } => self.same(from, to, point, cx),
            Message::Around(around) => self.around(from, *around, cx),
            Message::Leave(leave) => self.left(from, *leave, cx),
            Message::Bye { to, from: point } => self.bye(from, to, point, cx),
            Message::Ask { ring, key, ticket } => self.asked(from, ring, key, ticket, cx),
            Message::Told { ticket, found } => self.told(from, ticket, found.map(|found| *found), cx),
        }
    }

    /// Members of this node on a ring that have their place.
    fn mine_in(&self, ring: RingId) -> impl Iterator<Item = &Member> {
        let all = MemberId { ring, point: Point(0) }..=MemberId { ring, point: Point(u128::MAX) };
        self.members.range(all).map(|(_, member)| &**member).filter(|member| member.is_in())
    }

    /// Which of them is nearest before the key.
    fn nearest(&self, ring: RingId, key: Point) -> Option<&Member> {
        self.mine_in(ring).min_by_key(|member| member.point().to(key))
    }

    /// Tells which connections are to last: beats go over them, and their end is a death.
    fn hold(&mut self, cx: &mut Rcx<'_>) {
        let mut held: Vec<Contact> = Vec::new();
        for member in self.members.values() {
            let first =
                member.succ.first().filter(|_| !matches!(member.phase, member::Phase::Seeking { .. }));
            held.extend(first.copied().into_iter().chain(member.before()).map(|peer| peer.contact));
        }
        held.retain(|contact| contact.id != cx.me);
        held.sort_unstable_by_key(|contact| contact.id);
        held.dedup_by_key(|contact| contact.id);
        let before = std::mem::replace(&mut self.held, held.iter().map(|contact| contact.id).collect());
        for contact in held {
            if before.binary_search(&contact.id).is_err() {
                if !cx.peers.knows(contact.id) {
                    self.links.dial(contact.id);
                }
                cx.hold(contact);
            }
        }
        before.into_iter().filter(|id| self.held.binary_search(id).is_err()).for_each(|id| cx.release(id));
    }
}

impl Links {
    /// Sends to a node that may not be connected yet.
    fn send(&mut self, to: &Contact, message: Message, cx: &mut Rcx<'_>) {
        self.reach(to, cx);
        cx.send(to.id, message);
    }

    fn reach(&mut self, to: &Contact, cx: &mut Rcx<'_>) {
        if to.id != cx.me && !cx.peers.knows(to.id) {
            self.dial(to.id);
            cx.reach(*to);
        }
    }
}

/// Tells the node above what has changed for a member.
fn tell(member: &mut Member, r: usize, news: Duration, cx: &mut Rcx<'_>) {
    let (id, range) = (member.id, member.range());
    match (member.told, range) {
        (None, Some(range)) => {
            let from = member.succ.first().map(|first| first.contact);
            cx.emit(Event::Gained { member: id, range, from });
        }
        (Some(was), None) => cx.emit(Event::Lost { member: id, range: was, to: member.other }),
        (Some(was), Some(is)) if was.width() > is.width() => {
            let range = Range { after: was.after, upto: is.after };
            cx.emit(Event::Lost { member: id, range, to: member.other });
        }
        (Some(was), Some(is)) if was.width() < is.width() => {
            let range = Range { after: is.after, upto: was.after };
            cx.emit(Event::Gained { member: id, range, from: member.other });
        }
        _ => {}
    }
    member.told = range;
    member.other = None;
    let succ = digest(member.succ.iter());
    if member.is_in() && succ != member.told_succ {
        member.told_succ = succ;
        member.has_news = true;
        cx.emit(Event::Successors { member: id, list: member.succ.clone() });
        cx.set_timer_by(Timer::News(id), news);
    }
    let line = digest(member.line(r).iter());
    if member.is_in() && line != member.told_line {
        member.told_line = line;
        cx.set_timer_by(Timer::News(id), news);
    }
}

fn fault(peer: NodeId, fault: &str, cx: &mut Rcx<'_>) {
    cx.fault(peer, fault.to_string());
}
