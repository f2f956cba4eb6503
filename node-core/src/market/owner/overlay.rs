//! The processor overlay: each market that has sellers is a member of a second ring, at the point of
//! its capacity (paper 002, section IV-A 2).
//!
//! *Addition:* the paper says nothing about how a market or a buyer finds a first member. Here the owner
//! of one well-known point on the ring of nodes is the *entrance*: owners of markets tell it that they
//! are there, it names some of them to others, and says who may be the first. What it knows is never
//! older than a few of these words. A new entrance is told by the one before it, and if that one is dead
//! it first listens; that of a node that is alone on its ring knows that nobody is there.
//! Overlays that grew apart all the same are merged: who does not find the member with the lowest id
//! in its own overlay leaves it, and joins that one's.

use super::super::commodity::{Kind, Market, Scheme};
use super::super::message::{Message, ToBuyer, ToOwner};
use super::{Book, Event, Ocx, Owner, Timer, fault, reach, to_buyer, to_owner};
use crate::ids::NodeId;
use crate::overlay::contact::Contact;
use crate::overlay::ring::{Located, MemberId, Point, RingId};
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Whether a market is a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Not before then again.
    Out(Time),
    Joining(Time),
    In,
    Leaving,
}

impl Default for Stage {
    fn default() -> Self {
        Stage::Out(Time::ZERO)
    }
}

impl Stage {
    pub(super) fn is_out(self) -> bool {
        matches!(self, Stage::Out(_))
    }
}

/// Until a market that found its point taken tries again. Our choice: its last owner leaves meanwhile.
const AGAIN: Duration = Duration::from_secs(5);

/// How long somebody is the first before another may be. Our choice: joining, and a word.
const FIRST: Duration = Duration::from_secs(30);

/// Until somebody who is outside asks the entrance again. Our choice: a swarm that begins does not feel
/// it, and there is one of them a market.
const OUTSIDE: Duration = Duration::from_secs(2);

/// Owners of markets that an entrance knows; the one heard of longest ago gives way. Our choice: four
/// times as many as there are markets.
const KNOWN: usize = 4 * Market::COUNT as usize;

/// How many it names. Our choice: all of them dead at once is rare.
const NAMES: usize = 4;

/// Lookups in vain, of a member that must be there, until an overlay is left. Our choice: one may fall
/// into a moment in which a range is nobody's.
const APART: u8 = 3;

/// What a lookup is for.
#[derive(Clone, Copy, Debug)]
pub(super) enum For {
    Entrance(Kind),
    /// Whether this node holds this market, in our overlay as well.
    Same(Market, NodeId),
}

/// What the entrance knows.
#[derive(Debug)]
pub(super) struct Door {
    since: Time,
    /// It need not listen first.
    open: bool,
    /// Whose it is, once it is not this node's any more.
    next: Option<NodeId>,
    known: BTreeMap<NodeId, Known>,
    first: Option<(NodeId, Time)>,
}

#[derive(Debug)]
struct Known {
    contact: Contact,
    /// The markets with which it is a member, a bit each.
    markets: u64,
    heard: Time,
    /// Its connection has ended since; it may be dead.
    doubtful: bool,
}

impl Door {
    pub(super) fn new(now: Time) -> Door {
        Door { since: now, open: false, next: None, known: BTreeMap::new(), first: None }
    }

    /// To who is next. From then on that one says who may be the first.
    fn hand_over(&mut self, kind: Kind, cx: &mut Ocx<'_>) {
        let Some(next) = self.next else { return };
        let open = std::mem::take(&mut self.open);
        let members = self.known.values().filter(|known| known.markets != 0 && !known.doubtful);
        let members = members.map(|known| (known.contact, known.markets)).collect();
        cx.send(next, Message::ToOwner(ToOwner::Door { kind, open, members }));
    }

    fn told(&mut self, open: bool, members: &[(Contact, u64)], now: Time) {
        self.open |= open;
        for (contact, markets) in members.iter().take(KNOWN.saturating_sub(self.known.len())) {
            let known = Known { contact: *contact, markets: *markets, heard: now, doubtful: false };
            self.known.entry(contact.id).or_insert(known);
        }
    }
}

impl Book {
    fn leave(&mut self, market: Market, cx: &mut Ocx<'_>) {
        self.stage = Stage::Leaving;
        cx.emit(Event::Leave(market.member()));
    }
}

impl Owner {
    /// Lets markets join that have sellers, and leave that have none or another owner.
    pub(super) fn keep_overlay(&mut self, cx: &mut Ocx<'_>) {
        if self.config.scheme != Scheme::Processor || self.me.is_none() {
            return;
        }
        let (mut wants, mut within) = (BTreeSet::new(), BTreeSet::new());
        for (market, book) in &mut self.books {
            let mine = self.mine.contains(market);
            book.empty_since = if book.table.is_empty() { book.empty_since.or(Some(cx.now)) } else { None };
            let deserted = book.empty_since.is_some_and(|since| cx.now.since(since) >= self.config.empty);
            match book.stage {
                Stage::Out(again) if mine && !book.table.is_empty() && cx.now >= again => {
                    wants.insert(market.kind);
                }
                Stage::In if mine && !deserted => {
                    within.insert(market.kind);
                }
                Stage::In if !mine || deserted => book.leave(*market, cx),
                // By way of whom it was to join is gone.
                Stage::Joining(since) if !mine || deserted || cx.now.since(since) >= FIRST => {
                    book.leave(*market, cx);
                }
                _ => {}
            }
        }
        wants.intersection(&within).for_each(|kind| self.enter_overlay(*kind, &[], cx));
        if (!wants.is_empty() || !within.is_empty()) && cx.now >= self.register {
            self.register = cx.now + self.config.register;
            for kind in wants.union(&within) {
                self.look_up(RingId::NODES, kind.entrance(), For::Entrance(*kind), cx);
            }
        }
    }

    fn look_up(&mut self, ring: RingId, key: Point, of: For, cx: &mut Ocx<'_>) {
        self.next_lookup += 1;
        if self.lookups.len() > 4 * Kind::ALL.len() {
            self.lookups.pop_first();
        }
        self.lookups.insert(self.next_lookup, of);
        cx.emit(Event::Lookup { number: self.next_lookup, ring, key });
    }

    fn enter_overlay(&mut self, kind: Kind, via: &[Contact], cx: &mut Ocx<'_>) {
        via.iter().for_each(|contact| reach(contact, cx));
        for (market, book) in self.books.iter_mut().filter(|(market, _)| market.kind == kind) {
            if let Stage::Out(again) = book.stage
                && cx.now >= again
                && self.mine.contains(market)
                && !book.table.is_empty()
            {
                book.stage = Stage::Joining(cx.now);
                cx.emit(Event::Join { member: market.member(), via: via.to_vec() });
            }
        }
    }

    pub(super) fn joined(&mut self, member: MemberId, cx: &mut Ocx<'_>) {
        let Some(book) = Market::of_member(member).and_then(|market| self.books.get_mut(&market)) else {
            return cx.emit(Event::Leave(member));
        };
        match book.stage {
            Stage::Joining(_) => {
                book.stage = Stage::In;
                // The entrance hears of it.
                self.register = cx.now;
                self.keep_overlay(cx);
            }
            Stage::Leaving | Stage::Out(_) => cx.emit(Event::Leave(member)),
            Stage::In => {}
        }
    }

    pub(super) fn refused(&mut self, member: MemberId, cx: &mut Ocx<'_>) {
        if let Some(book) = Market::of_member(member).and_then(|market| self.books.get_mut(&market)) {
            book.stage = Stage::Out(cx.now + AGAIN);
        }
    }

    pub(super) fn left(&mut self, member: MemberId, cx: &mut Ocx<'_>) {
        if let Some(book) = Market::of_member(member).and_then(|market| self.books.get_mut(&market)) {
            book.stage = Stage::default();
        }
        self.keep_overlay(cx);
    }

    pub(super) fn located(&mut self, number: u64, found: &Located, cx: &mut Ocx<'_>) {
        match self.lookups.remove(&number) {
            Some(For::Entrance(kind)) => self.register_at(kind, found.owner.contact, cx),
            Some(For::Same(market, holder)) => {
                let here = self.books.get(&market).is_some_and(|book| book.stage == Stage::In);
                let apart = self.apart.entry(market.kind).or_default();
                *apart = if found.owner.id() == holder || here { 0 } else { *apart + 1 };
                if *apart >= APART {
                    *apart = 0;
                    for (market, book) in self.books.range_mut(of_kind(market.kind)) {
                        if book.stage == Stage::In {
                            book.leave(*market, cx);
                        }
                    }
                }
            }
            None => {}
        }
    }

    pub(super) fn not_located(&mut self, number: u64, cx: &mut Ocx<'_>) {
        if let Some(For::Entrance(_)) = self.lookups.remove(&number) {
            self.register = self.register.min(cx.now + OUTSIDE);
            cx.set_timer_by(Timer::Sweep, OUTSIDE);
        }
    }

    fn register_at(&mut self, kind: Kind, entrance: Contact, cx: &mut Ocx<'_>) {
        let Some(me) = self.me else { return };
        let within = self.books.range(of_kind(kind)).filter(|(_, book)| book.stage == Stage::In);
        let markets = within.fold(0, |bits, (market, _)| bits | 1 << market.index);
        self.entrances.insert(kind, entrance.id);
        to_owner(&entrance, ToOwner::Here { kind, me, markets }, cx);
    }

    /// An owner of markets is there; at the entrance.
    pub(super) fn here(&mut self, from: NodeId, kind: Kind, me: Contact, markets: u64, cx: &mut Ocx<'_>) {
        if me.id != from {
            return fault(from, "speaks for another market owner", cx);
        }
        let (at, lowest) = self.names(kind, Some(from), cx);
        let mut first = false;
        if let Some(door) = self.doors.get_mut(&kind) {
            if door.known.len() >= KNOWN && !door.known.contains_key(&from) {
                let oldest = door.known.iter().min_by_key(|(_, known)| known.heard).map(|(id, _)| *id);
                oldest.map(|id| door.known.remove(&id));
            }
            let known = Known { contact: me, markets, heard: cx.now, doubtful: false };
            door.known.insert(from, known);
            let members = door.known.values().any(|known| known.markets != 0);
            let taken = door.first.is_some_and(|(who, at)| who != from && cx.now.since(at) < FIRST);
            let listened = door.open || cx.now.since(door.since) >= self.config.open;
            if !members && listened && !taken {
                door.first = Some((from, cx.now));
                first = true;
            }
        }
        to_owner(&me, ToOwner::Others { kind, at, lowest, first }, cx);
    }

    /// Some members, but not this one; the lowest is the first, and a market of it.
    fn names(&mut self, kind: Kind, but: Option<NodeId>, cx: &mut Ocx<'_>) -> (Vec<Contact>, Option<Market>) {
        let fresh = 3 * self.config.register;
        let Some(door) = self.doors.get_mut(&kind) else { return (Vec::new(), None) };
        door.known.retain(|_, known| cx.now.since(known.heard) < fresh);
        let members = door.known.values().filter(|known| known.markets != 0 && !known.doubtful);
        let members: Vec<&Known> = members.filter(|known| Some(known.contact.id) != but).collect();
        let Some((lowest, others)) = members.split_first() else { return (Vec::new(), None) };
        let from = cx.rng.below(others.len() as u64) as usize;
        let some = others.iter().cycle().skip(from).take((NAMES - 1).min(others.len()));
        let names = [lowest].into_iter().chain(some).map(|known| known.contact).collect();
        (names, Some(Market { kind, index: lowest.markets.trailing_zeros() as u8 }))
    }

    /// A connection has ended. Who is there all the same says so soon.
    pub(super) fn unnamed(&mut self, peer: NodeId) {
        for door in self.doors.values_mut() {
            if let Some(known) = door.known.get_mut(&peer) {
                known.doubtful = true;
            }
        }
    }

    pub(super) fn others(
        &mut self,
        from: NodeId,
        kind: Kind,
        at: Vec<Contact>,
        lowest: Option<Market>,
        first: bool,
        cx: &mut Ocx<'_>,
    ) {
        if self.entrances.get(&kind) != Some(&from) || at.len() > NAMES {
            return;
        }
        if let (Some(holder), Some(market)) = (at.first(), lowest) {
            cx.emit(Event::Know { ring: kind.ring(), via: at.clone() });
            let within = self.books.range(of_kind(kind)).any(|(_, book)| book.stage == Stage::In);
            // Who is lower itself is joined by the others.
            if within && holder.id < cx.me && market.kind == kind && market.is_valid() {
                let member = market.member();
                self.look_up(member.ring, member.point, For::Same(market, holder.id), cx);
            }
        }
        if first || !at.is_empty() {
            self.enter_overlay(kind, &at, cx);
        } else if self.books.range(of_kind(kind)).all(|(_, book)| book.stage.is_out()) {
            self.register = self.register.min(cx.now + OUTSIDE);
            cx.set_timer_by(Timer::Sweep, OUTSIDE);
        }
    }

    /// The entrance is this node's from now on.
    pub(super) fn gain_door(&mut self, kind: Kind, alone: bool, now: Time) {
        let told = self.left_doors.remove(&kind).filter(|door| now.since(door.since) < FIRST);
        let door = told.unwrap_or_else(|| Door::new(now));
        self.doors.entry(kind).or_insert(Door { since: now, open: door.open || alone, next: None, ..door });
    }

    /// It is another's, who is told what this one knew.
    pub(super) fn lose_door(&mut self, kind: Kind, next: Option<NodeId>, cx: &mut Ocx<'_>) {
        let Some(mut door) = self.doors.remove(&kind) else { return };
        door.open |= cx.now.since(door.since) >= self.config.open;
        (door.since, door.next) = (cx.now, next.filter(|next| *next != cx.me));
        door.hand_over(kind, cx);
        self.left_doors.insert(kind, door);
    }

    /// What an entrance before this one knew.
    pub(super) fn handed(&mut self, kind: Kind, open: bool, members: &[(Contact, u64)], cx: &mut Ocx<'_>) {
        if let Some(door) = self.doors.get_mut(&kind) {
            return door.told(open, members, cx.now);
        }
        // It comes before this node is the entrance, or when that is another already.
        let door = self.left_doors.entry(kind).or_insert_with(|| Door::new(cx.now));
        door.since = cx.now;
        door.told(open, members, cx.now);
        door.hand_over(kind, cx);
    }

    pub(super) fn enter(&mut self, from: NodeId, kind: Kind, ticket: u64, cx: &mut Ocx<'_>) {
        let (at, _) = self.names(kind, None, cx);
        let heard = |door: &Door| door.open || cx.now.since(door.since) >= self.config.open;
        let open = self.doors.get(&kind).is_some_and(heard);
        to_buyer(from, ToBuyer::Entry { ticket, at, open }, cx);
    }
}

fn of_kind(kind: Kind) -> std::ops::RangeInclusive<Market> {
    Market { kind, index: 0 }..=Market { kind, index: u8::MAX }
}
