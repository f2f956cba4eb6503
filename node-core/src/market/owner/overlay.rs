//! The processor overlay: each market that has sellers is a member of a second ring, at the point of
//! its capacity (paper `market`, section IV-A 2).
//!
//! *Addition:* overlays that grew apart are merged: who does not find the member with the lowest id, of
//! which the entrance (`entrance`) tells, in its own overlay leaves it, and joins that one's.

use super::super::message::{Entrance, ToOwner};
use super::entrance::NAMES;
use super::{Book, Event, Ocx, Owner, Timer, to_owner};
use crate::address::Contact;
use crate::circle::{Located, MemberId, Point, RingId};
use crate::goods::{Kind, Market, Scheme};
use crate::ids::NodeId;
use crate::time::Time;
use std::collections::BTreeSet;
use std::time::Duration;

/// Whether a market is a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Not before then again.
    Out(Time),
    /// `first`: the rendezvous node has said that this node may be the first member. Otherwise the market
    /// joins by way of members that may leave meanwhile.
    Joining {
        since: Time,
        first: bool,
    },
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
const AGAIN: Duration = Duration::from_secs(2);

/// How long somebody is the first before another may be. Our choice: joining, and a word.
pub(super) const FIRST: Duration = Duration::from_secs(30);

/// Until somebody who is outside, or not inside yet, asks the entrance again. Our choice: a swarm that
/// begins does not feel it, and there is one of them a market.
const OUTSIDE: Duration = Duration::from_secs(2);

/// Until an entrance is looked up again that had moved. Our choice: what the ring needs to know it.
pub(super) const MOVED: Duration = Duration::from_millis(500);

/// Lookups in vain, of a member that must be there, until an overlay is left. Our choice: one may fall
/// into a moment in which a range is nobody's.
const APART: u8 = 3;

/// State of this node that it tells the rendezvous of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    /// The markets with which this node is a member, a bit each.
    markets: u64,
    /// A market of this node has sellers and is not a member.
    wants: bool,
}

/// State that the rendezvous was told, and when it is told again.
#[derive(Debug, Default)]
pub(super) struct Registered {
    said: State,
    due: Time,
    /// The rendezvous may not have received it.
    lost: bool,
}

/// Use of a lookup's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum For {
    Entrance(Kind),
    /// Whether this node holds this market, in our overlay as well.
    Same(Market, NodeId),
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
                Stage::Joining { since, .. } if !mine || deserted || cx.now.since(since) >= FIRST => {
                    book.leave(*market, cx);
                }
                _ => {}
            }
        }
        wants.intersection(&within).for_each(|kind| self.enter_overlay(*kind, &[], false, cx));
        Kind::ALL.into_iter().for_each(|kind| self.register(kind, cx));
    }

    /// Tells the entrance that this node is there. Of what has changed it hears at once, since others
    /// join by way of whom it names.
    fn register(&mut self, kind: Kind, cx: &mut Ocx<'_>) {
        let state = self.state(kind);
        let State { markets, wants } = state;
        let outside = wants && markets == 0;
        let again = if outside { OUTSIDE } else { self.config.register };
        if outside {
            cx.set_timer_by(Timer::Sweep, OUTSIDE);
        }
        let told = self.registered.entry(kind).or_default();
        if told.lost && cx.now < told.due {
            cx.set_timer_by(Timer::Sweep, told.due.since(cx.now));
        }
        let due = (wants || markets != 0 || told.lost) && cx.now >= told.due;
        if due || told.said != state {
            *told = Registered { said: state, due: cx.now + again, lost: false };
            self.look_up(RingId::NODES, kind.entrance(), For::Entrance(kind), cx);
        }
    }

    fn state(&self, kind: Kind) -> State {
        let mut state = State::default();
        for (market, book) in self.books.range(of_kind(kind)) {
            match book.stage {
                Stage::In => state.markets |= 1 << market.index,
                Stage::Out(_) | Stage::Joining { .. } => {
                    state.wants |= self.mine.contains(market) && !book.table.is_empty();
                }
                Stage::Leaving => {}
            }
        }
        state
    }

    fn look_up(&mut self, ring: RingId, key: Point, of: For, cx: &mut Ocx<'_>) {
        let number = self.lookups.ask(of);
        cx.emit(Event::Lookup { number, ring, key });
    }

    fn enter_overlay(&mut self, kind: Kind, via: &[Contact], first: bool, cx: &mut Ocx<'_>) {
        via.iter().for_each(|contact| cx.reach(*contact));
        for (market, book) in self.books.iter_mut().filter(|(market, _)| market.kind == kind) {
            if let Stage::Out(again) = book.stage
                && cx.now >= again
                && self.mine.contains(market)
                && !book.table.is_empty()
            {
                book.stage = Stage::Joining { since: cx.now, first };
                cx.emit(Event::Join { member: market.member(), via: via.to_vec() });
            }
        }
    }

    pub(super) fn joined(&mut self, member: MemberId, cx: &mut Ocx<'_>) {
        let Some(book) = Market::of_member(member).and_then(|market| self.books.get_mut(&market)) else {
            return cx.emit(Event::Leave(member));
        };
        match book.stage {
            Stage::Joining { .. } => {
                book.stage = Stage::In;
                self.keep_overlay(cx);
            }
            Stage::Leaving | Stage::Out(_) => cx.emit(Event::Leave(member)),
            Stage::In => {}
        }
    }

    pub(super) fn refused(&mut self, member: MemberId, cx: &mut Ocx<'_>) {
        if let Some(book) = Market::of_member(member).and_then(|market| self.books.get_mut(&market)) {
            book.stage = Stage::Out(cx.now + AGAIN);
            cx.set_timer_by(Timer::Sweep, AGAIN);
        }
    }

    pub(super) fn left(&mut self, member: MemberId, cx: &mut Ocx<'_>) {
        let Some(market) = Market::of_member(member) else { return };
        if let Some(book) = self.books.get_mut(&market) {
            book.stage = Stage::default();
        }
        // One registration serves all markets of the kind that leave together: the last one sends it.
        // Should another `Left` fail to come, the next sweep registers.
        let mut of_kind = self.books.range(of_kind(market.kind));
        if of_kind.any(|(_, book)| book.stage == Stage::Leaving) {
            return;
        }
        // A market that has left may have to join again.
        self.registered.entry(market.kind).or_default().due = cx.now;
        self.keep_overlay(cx);
    }

    pub(super) fn located(&mut self, number: u64, found: &Located, cx: &mut Ocx<'_>) {
        match self.lookups.answered(number) {
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
        if let Some(For::Entrance(kind)) = self.lookups.answered(number) {
            self.register_again(kind, OUTSIDE, cx);
        }
    }

    /// The last message to the rendezvous, or its answer, may be lost.
    pub(super) fn entrance_down(&mut self, peer: NodeId, cx: &mut Ocx<'_>) {
        for kind in Kind::ALL {
            if self.entrances.get(&kind) == Some(&peer) {
                self.register_again(kind, MOVED, cx);
            }
        }
    }

    /// The entrance has not heard it.
    pub(super) fn register_again(&mut self, kind: Kind, after: Duration, cx: &mut Ocx<'_>) {
        let told = self.registered.entry(kind).or_default();
        *told = Registered { due: told.due.min(cx.now + after), lost: true, ..*told };
        cx.set_timer_by(Timer::Sweep, after);
    }

    fn register_at(&mut self, kind: Kind, entrance: Contact, cx: &mut Ocx<'_>) {
        let Some(me) = self.me else { return };
        let state = self.state(kind);
        self.registered.entry(kind).or_default().said = state;
        self.entrances.insert(kind, entrance.id);
        self.tell_entrance(kind, entrance.id, cx);
        let State { markets, wants } = state;
        to_owner(&entrance, ToOwner::Here { kind, me, markets, wants }, cx);
    }

    pub(super) fn others(
        &mut self,
        from: NodeId,
        kind: Kind,
        at: Vec<Contact>,
        lowest: Option<Market>,
        (entrance, first): (Entrance, bool),
        cx: &mut Ocx<'_>,
    ) {
        if self.entrances.get(&kind) != Some(&from) || at.len() > NAMES {
            return;
        }
        if entrance == Entrance::Elsewhere {
            return self.register_again(kind, MOVED, cx);
        }
        if let (Some(holder), Some(market)) = (at.first(), lowest) {
            cx.emit(Event::Know { ring: kind.ring(), via: at.clone() });
            let within = self.books.range(of_kind(kind)).any(|(_, book)| book.stage == Stage::In);
            // A node with a lower id than the holder's is joined by the others.
            if within && holder.id < cx.me && market.kind == kind && market.is_valid() {
                let member = market.member();
                self.look_up(member.ring, member.point, For::Same(market, holder.id), cx);
            }
        }
        if first {
            // The members by way of which these markets were to join have left. A market that joins as the
            // first stays: if it left because the same answer comes twice, it would ask again at once, and
            // a node that is its own rendezvous would never come to an end.
            for (market, book) in self.books.range_mut(of_kind(kind)) {
                if matches!(book.stage, Stage::Joining { first: false, .. }) {
                    book.leave(*market, cx);
                }
            }
        }
        if first || !at.is_empty() {
            self.enter_overlay(kind, &at, first, cx);
        }
    }
}

fn of_kind(kind: Kind) -> std::ops::RangeInclusive<Market> {
    Market { kind, index: 0 }..=Market { kind, index: u8::MAX }
}
