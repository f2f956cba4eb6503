//! One search: all markets that may have what is wanted say what it costs there, and those that matter
//! are asked to sell (`choose`).
//!
//! *Departure:* paper `market` (section IV-A) buys in the nearest market at or above the capacity that is
//! wanted, and takes the second price of that one. A faster seller can do all that a slower one can, and
//! prices are of 10^9 fuel, so that capacity above what is wanted costs a buyer nothing. Sellers differ
//! in speed; by the paper's rule most of them would stand alone in their range, and sell at the buyer's
//! maximum while others sell for less. So cycles are one good, as space is.
//!
//! A search costs a lookup and two messages for each market that has sellers, of which there are at most
//! [`Market::COUNT`]. In the processor overlay a lookup also names the markets behind the one that it
//! finds. In the single overlay each owner of a part of the range has to be looked up.

use super::super::message::{Answer, Entrance, Outcome, Purpose, Query, Stock, ToOwner};
use super::choose::{Leg, Open};
use super::verify::{BadAnswer, verify};
use super::{Bcx, Buyer, Doubt, Event, For, Place, Timer, to_owner};
use crate::address::Contact;
use crate::circle::{Located, MemberId, Point, RingId};
use crate::goods::NoDeal;
use crate::goods::{Kind, Market, Scheme};
use crate::goods::{UNITS, Wanted};
use crate::ids::NodeId;
use crate::ticket::Ticket;
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Until a search tries again what was in vain. Our choice: what a ring needs to move on.
const REST: Duration = Duration::from_millis(500);

/// For a lookup: after that the ways in that are known count for none. Our choice: four of its steps that
/// fail.
const LOOKUP: Duration = Duration::from_secs(8);

/// Time for a market operator beyond its own patience: the way there, with a dial, and back.
const WAY: Duration = Duration::from_secs(2);

/// How long further markets are waited for once a seller is known; nothing is held meanwhile. Our choice: the
/// time in which the death of a market's owner is noticed. After that its sellers are left out, as are those
/// of the parts of a large single overlay that were not reached.
const COMPARE: Duration = Duration::from_secs(10);

/// How long a buyer of cycles looks for a first market when the entrance knows of none. Our choice: a swarm
/// that begins has one by then, and a job that is told so soon asks again a second later.
const NOBODY: Duration = Duration::from_secs(4);

/// Ways into the processor overlay that are remembered. Our choice: all of them dead at once is rare.
const ENTRIES: usize = 4;

#[derive(Debug)]
pub(super) struct Search {
    pub wanted: Wanted,
    /// Lookups have to begin at these markets.
    todo: BTreeSet<Market>,
    /// All markets below this index have been listed.
    upto: u8,
    step: Step,
    step_until: Time,
    begun: Time,
    /// A market of the kind was heard of, in this search or before.
    heard: bool,
    until: Time,
    /// Set when the first seller is known.
    compare_until: Option<Time>,
    /// Markets are not looked for any more; those that matter are asked to sell.
    choosing: bool,
    hops: u16,
    entered: bool,
    pub legs: BTreeMap<Market, Leg>,
    pub shortage: Option<NoDeal>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Idle,
    Rest,
    /// Where is the entrance?
    Entrance,
    /// It was asked for markets.
    Entry {
        ticket: u64,
        at: NodeId,
    },
    /// Where is this market?
    Market(Market),
}

impl Search {
    fn is_open(&self) -> bool {
        self.legs.values().any(|leg| leg.open.is_some())
    }

    /// All from the market that was looked up to this index are listed.
    fn listed(&mut self, market: Market, end: u8) {
        self.todo.remove(&market);
        self.step = Step::Idle;
        if end > self.upto {
            self.upto = end;
            self.todo.extend(Some(Market { index: end, ..market }).filter(|next| next.is_valid()));
        }
    }

    /// The owner of a market does not answer, or is another now.
    fn again(&mut self, market: Market, now: Time) {
        self.legs.remove(&market);
        self.todo.insert(market);
        if matches!(self.step, Step::Idle) {
            (self.step, self.step_until) = (Step::Rest, now + REST);
        }
    }

    fn deadline(&self) -> Time {
        let open = self.legs.values().filter_map(|leg| leg.open.as_ref()).map(|open| open.until);
        let step = (!matches!(self.step, Step::Idle)).then_some(self.step_until);
        let compare = self.compare_until.filter(|_| !self.choosing);
        open.chain(step).chain(compare).fold(self.until, Time::min)
    }
}

impl Buyer {
    pub(super) fn ask(&mut self, asker: Ticket, wanted: Wanted, cx: &mut Bcx<'_>) {
        let next = Market::first(wanted.kind, wanted.capacity);
        let full = self.searches.len() >= self.config.searches || self.searches.contains_key(&asker);
        let Some(next) = next.filter(|_| !full && (1..=UNITS).contains(&wanted.units)) else {
            let (offers, shortage) = (Vec::new(), Some(NoDeal::NoSeller));
            return cx.emit(Event::Found { ticket: asker, offers, shortage, hops: 0, entered: false });
        };
        let search = Search {
            wanted,
            todo: BTreeSet::from([next]),
            upto: next.index,
            step: Step::Idle,
            step_until: cx.now,
            begun: cx.now,
            heard: self.entries.get(&wanted.kind).is_some_and(|via| !via.is_empty()),
            until: cx.now + self.config.search,
            compare_until: None,
            choosing: false,
            hops: 0,
            entered: false,
            legs: BTreeMap::new(),
            shortage: None,
        };
        self.searches.insert(asker, search);
        self.go(asker, cx);
    }

    /// To the next market that has to be looked up.
    fn go(&mut self, asker: Ticket, cx: &mut Bcx<'_>) {
        let Some(search) = self.searches.get_mut(&asker) else { return };
        search.step = Step::Idle;
        let Some(next) = search.todo.first().copied().filter(|_| !search.choosing) else {
            return self.advance(asker, cx);
        };
        if search.until <= cx.now {
            return self.end(asker, cx);
        }
        let (inside, ring, key) = self.way(next, cx);
        if let Some(search) = self.searches.get_mut(&asker) {
            search.step = if inside { Step::Market(next) } else { Step::Entrance };
            search.step_until = cx.now + LOOKUP;
        }
        self.look_up(ring, key, For::Search(asker), cx);
        self.advance(asker, cx);
    }

    /// Ring and point to look up: the market (`true`), or the rendezvous of its kind if no way in is known.
    pub(super) fn way(&self, market: Market, cx: &mut Bcx<'_>) -> (bool, RingId, Point) {
        if self.config.scheme == Scheme::Single {
            return (true, RingId::NODES, market.key(Scheme::Single));
        }
        let ring = market.kind.ring();
        match self.entries.get(&market.kind).filter(|via| !via.is_empty()) {
            Some(via) => {
                cx.emit(Event::Know { ring, via: via.clone() });
                (true, ring, market.member().point)
            }
            None => (false, RingId::NODES, market.kind.entrance()),
        }
    }

    /// A lookup has ended.
    pub(super) fn located(&mut self, asker: Ticket, found: Option<Located>, cx: &mut Bcx<'_>) {
        let Some(search) = self.searches.get_mut(&asker) else { return };
        let kind = search.wanted.kind;
        let Some(found) = found else {
            // The ways in that are known lead nowhere.
            self.entries.remove(&kind);
            return self.rest(asker, cx);
        };
        search.hops = search.hops.saturating_add(found.hops.into());
        match search.step {
            Step::Entrance => {
                let owner = found.owner.contact;
                let ticket = cx.rng.u64();
                search.entered = true;
                search.hops = search.hops.saturating_add((owner.id != cx.me).into());
                search.step = Step::Entry { ticket, at: owner.id };
                search.step_until = cx.now + self.config.probe;
                to_owner(&owner, ToOwner::Enter { kind, ticket }, cx);
                self.advance(asker, cx);
            }
            Step::Market(market) => {
                let (places, end) = match self.config.scheme {
                    Scheme::Single => of_range(market, &found),
                    Scheme::Processor => of_overlay(market, &found),
                };
                search.listed(market, end);
                for place in places {
                    self.ask_costs(asker, place, cx);
                }
                self.go(asker, cx);
            }
            Step::Idle | Step::Rest | Step::Entry { .. } => {}
        }
    }

    pub(super) fn entry(
        &mut self,
        from: NodeId,
        ticket: u64,
        at: &[Contact],
        entrance: Entrance,
        cx: &mut Bcx<'_>,
    ) {
        let waits = |search: &Search| matches!(search.step, Step::Entry { ticket: t, at } if t == ticket && at == from);
        let Some((asker, search)) = self.searches.iter().find(|(_, search)| waits(search)) else { return };
        let (asker, kind, new) = (*asker, search.wanted.kind, !search.heard);
        let nobody_yet = new && cx.now.since(search.begun) >= NOBODY;
        if at.is_empty() {
            let nobody = match (kind, entrance) {
                (_, Entrance::Elsewhere) => false,
                // Checkpoints are kept for nothing, too: nobody waits for such a market to open.
                (Kind::Checkpoints, _) => true,
                (Kind::Cycles, Entrance::Open) => nobody_yet,
                _ => false,
            };
            return if nobody { self.end(asker, cx) } else { self.rest(asker, cx) };
        }
        self.enter(kind, at);
        self.go(asker, cx);
    }

    pub(super) fn enter(&mut self, kind: Kind, at: &[Contact]) {
        self.entries.insert(kind, at.iter().take(ENTRIES).copied().collect());
    }

    /// Asks a market what its sellers cost, unless it has been asked.
    fn ask_costs(&mut self, asker: Ticket, place: Place, cx: &mut Bcx<'_>) {
        let Some(search) = self.searches.get_mut(&asker) else { return };
        if search.legs.contains_key(&place.market) {
            return;
        }
        search.legs.insert(place.market, Leg::new(place));
        search.heard = true;
        let units = search.wanted.units;
        self.query(asker, place.market, (Purpose::Costs, units), WAY, cx);
    }

    fn query(
        &mut self,
        asker: Ticket,
        market: Market,
        (purpose, units): (Purpose, u16),
        patience: Duration,
        cx: &mut Bcx<'_>,
    ) {
        let Some(search) = self.searches.get_mut(&asker) else { return };
        let Some(leg) = search.legs.get_mut(&market) else { return };
        let ticket = cx.rng.u64();
        leg.open = Some(Open { ticket, until: cx.now + patience, purpose, units });
        let owner = leg.place.owner;
        search.hops = search.hops.saturating_add((owner.id != cx.me).into());
        let wanted = Wanted { units, ..search.wanted };
        to_owner(&owner, ToOwner::Query(Box::new(Query { ticket, market, wanted, purpose })), cx);
    }

    pub(super) fn answered(&mut self, from: NodeId, answer: Answer, cx: &mut Bcx<'_>) {
        let Answer { ticket, market, what, next } = answer;
        let its = |search: &Search| {
            let leg = search.legs.get(&market).filter(|leg| leg.place.owner.id == from);
            leg.and_then(|leg| leg.open.as_ref()).is_some_and(|open| open.ticket == ticket)
        };
        let Some((asker, search)) = self.searches.iter_mut().find(|(_, search)| its(search)) else { return };
        let asker = *asker;
        let Some(leg) = search.legs.get_mut(&market) else { return };
        let Some(Open { purpose, units, .. }) = leg.open.take() else { return };
        let (place, wanted) = (leg.place, Wanted { units, ..search.wanted });
        match (purpose, what) {
            (Purpose::Costs, Outcome::Costs(stock)) if is_sound(&stock, units) => {
                if !stock.is_empty() {
                    search.compare_until.get_or_insert(cx.now + COMPARE);
                }
                leg.rest = stock;
                self.ask_next(asker, place, next, cx);
            }
            (Purpose::Costs, Outcome::NotMine | Outcome::Busy) => search.again(market, cx.now),
            (Purpose::Sale | Purpose::Second, Outcome::Sale(sale)) => {
                let (config, now_ms) = (&self.config, self.wall.now(cx.now));
                let sells = purpose == Purpose::Sale;
                match verify(config, market, (&wanted, sells), &sale, (cx.me, from), now_ms) {
                    Ok((offers, second)) => {
                        let dearest = offers.iter().map(|offer| offer.goods.cost).max();
                        let named = offers.iter().map(|offer| offer.seller.id).collect();
                        leg.named(offers, second, units);
                        if sells {
                            self.maybe_sample(place, wanted, named, dearest, cx);
                        }
                    }
                    Err(why) => {
                        leg.has_nothing();
                        cx.emit(Event::Doubted { owner: from, why: Doubt::Wrong(why) });
                    }
                }
            }
            (Purpose::Sale | Purpose::Second, Outcome::None(why)) => {
                leg.has_nothing();
                search.short(why);
            }
            (Purpose::Sale | Purpose::Second, Outcome::NotMine | Outcome::Busy) => leg.has_nothing(),
            _ => {
                leg.has_nothing();
                cx.emit(Event::Doubted { owner: from, why: Doubt::Wrong(BadAnswer::Question) });
            }
        }
        self.advance(asker, cx);
    }

    /// In the single overlay one node owns several markets in a row, and says which of them have sellers.
    fn ask_next(&mut self, asker: Ticket, place: Place, next: Option<Market>, cx: &mut Bcx<'_>) {
        let its = |market: &Market| {
            let inside = place.range.is_some_and(|range| range.contains(market.key(Scheme::Single)));
            market.is_valid() && market.kind == place.market.kind && *market > place.market && inside
        };
        if let Some(market) = next.filter(its) {
            self.ask_costs(asker, Place { market, ..place }, cx);
        }
    }

    /// Goes on once nothing is waited for: asks those markets to sell that matter, or ends.
    fn advance(&mut self, asker: Ticket, cx: &mut Bcx<'_>) {
        let (rule, delta) = (self.config.rule, self.config.delta);
        let Some(search) = self.searches.get_mut(&asker) else { return };
        if search.until <= cx.now {
            return self.end(asker, cx);
        }
        if !search.choosing {
            let all = search.todo.is_empty() && !search.is_open();
            let enough = search.compare_until.is_some_and(|until| until <= cx.now);
            if !all && !enough {
                return self.wait(asker, cx);
            }
            self.begin_choice(asker, cx);
        }
        let Some(search) = self.searches.get(&asker) else { return };
        if search.is_open() {
            return self.wait(asker, cx);
        }
        let needs = search.needs(rule, delta);
        if needs.is_empty() {
            return self.end(asker, cx);
        }
        for (market, purpose, units) in needs {
            self.query(asker, market, (purpose, units), self.config.answer + WAY, cx);
        }
        self.wait(asker, cx);
    }

    /// No further market is looked for. The sellers that are named from now on are held for this buyer, and
    /// half of that time is left for the bank and the purchase.
    fn begin_choice(&mut self, asker: Ticket, cx: &mut Bcx<'_>) {
        self.lookups.forget(For::Search(asker));
        let Some(search) = self.searches.get_mut(&asker) else { return };
        search.choosing = true;
        search.step = Step::Idle;
        search.until = search.until.min(cx.now + self.config.hold / 2);
        search.legs.values_mut().for_each(|leg| leg.open = None);
        // A market whose owner hides sellers is perhaps not asked to sell, so one of all is looked at.
        let at = cx.rng.below(search.legs.len() as u64) as usize;
        if let Some(leg) = search.legs.values().nth(at) {
            let (place, wanted, cheapest) = (leg.place, search.wanted, leg.rest.first());
            let cheapest = cheapest.map(|stock| stock.cost);
            self.maybe_sample(place, wanted, Vec::new(), cheapest, cx);
        }
    }

    fn wait(&self, asker: Ticket, cx: &mut Bcx<'_>) {
        if let Some(search) = self.searches.get(&asker) {
            cx.set_timer(Timer::Search(asker), search.deadline().since(cx.now));
        }
    }

    /// In vain; the same again after a while.
    fn rest(&mut self, asker: Ticket, cx: &mut Bcx<'_>) {
        let Some(search) = self.searches.get_mut(&asker) else { return };
        (search.step, search.step_until) = (Step::Rest, cx.now + REST);
        self.advance(asker, cx);
    }

    /// Something has waited or rested long enough.
    pub(super) fn late(&mut self, asker: Ticket, cx: &mut Bcx<'_>) {
        let Some(search) = self.searches.get_mut(&asker) else { return };
        let late = |leg: &Leg| leg.open.as_ref().is_some_and(|open| open.until <= cx.now);
        let silent: Vec<Market> =
            search.legs.iter().filter(|(_, leg)| late(leg)).map(|(market, _)| *market).collect();
        silent.into_iter().for_each(|market| search.in_vain(market, cx.now));
        if matches!(search.step, Step::Idle) || search.step_until > cx.now {
            return self.advance(asker, cx);
        }
        if matches!(search.step, Step::Market(_)) {
            // A node that was a member may be none any more, and does not know who is.
            self.entries.remove(&search.wanted.kind);
        }
        self.lookups.forget(For::Search(asker));
        self.go(asker, cx);
    }

    pub(super) fn asked_in_vain(&mut self, peer: NodeId, cx: &mut Bcx<'_>) {
        let mut touched = Vec::new();
        for (asker, search) in &mut self.searches {
            let asked = |leg: &Leg| leg.open.is_some() && leg.place.owner.id == peer;
            let asked: Vec<Market> =
                search.legs.iter().filter(|(_, leg)| asked(leg)).map(|(market, _)| *market).collect();
            let enters = matches!(search.step, Step::Entry { at, .. } if at == peer);
            if enters {
                (search.step, search.step_until) = (Step::Rest, cx.now + REST);
            }
            if enters || !asked.is_empty() {
                touched.push(*asker);
            }
            asked.into_iter().for_each(|market| search.in_vain(market, cx.now));
        }
        touched.into_iter().for_each(|asker| self.advance(asker, cx));
    }

    fn end(&mut self, asker: Ticket, cx: &mut Bcx<'_>) {
        let Some(mut search) = self.searches.remove(&asker) else { return };
        cx.cancel_timer(Timer::Search(asker));
        self.lookups.forget(For::Search(asker));
        let offers = search.offers(self.config.rule, self.config.delta);
        let short = offers.len() < usize::from(search.wanted.units);
        let shortage = short.then(|| search.why(self.config.rule, self.config.delta));
        let Search { hops, entered, .. } = search;
        cx.emit(Event::Found { ticket: asker, offers, shortage, hops, entered });
    }
}

impl Search {
    /// A market was asked and does not answer.
    fn in_vain(&mut self, market: Market, now: Time) {
        if !self.choosing {
            return self.again(market, now);
        }
        if let Some(leg) = self.legs.get_mut(&market) {
            leg.open = None;
            leg.has_nothing();
        }
    }
}

/// Whether an answer about costs can be one.
fn is_sound(stock: &[Stock], units: u16) -> bool {
    stock.len() <= usize::from(units) + 1
        && stock.is_sorted_by_key(|stock| stock.cost)
        && stock.iter().all(|stock| stock.units > 0)
}

/// In the single overlay: the market that was looked up, and the first index that is another's.
fn of_range(market: Market, found: &Located) -> (Vec<Place>, u8) {
    let range = found.range();
    let its = |market: &Market| range.contains(market.key(Scheme::Single));
    let next = std::iter::successors(market.next(), |market| market.next()).find(|market| !its(market));
    let place = Place { market, owner: found.owner.contact, range: Some(range) };
    (vec![place], next.map_or(Market::COUNT, |next| next.index))
}

/// In the processor overlay: the nearest market, those behind it in order, and the first index of which
/// nothing is known.
fn of_overlay(market: Market, found: &Located) -> (Vec<Place>, u8) {
    let mut places: Vec<Place> = Vec::new();
    let mut from = market.member().point;
    for peer in std::iter::once(&found.owner).chain(&found.replicas) {
        // The ring goes over its top and must not begin again (paper `market`): none is above.
        let above = peer.point >= from;
        let there = Market::of_member(MemberId { ring: market.kind.ring(), point: peer.point });
        let Some(there) = there.filter(|_| above) else { return (places, Market::COUNT) };
        places.push(Place { market: there, owner: peer.contact, range: None });
        let Some(next) = there.next() else { return (places, Market::COUNT) };
        from = next.member().point;
    }
    let end = places.last().map_or(Market::COUNT, |last| last.market.index + 1);
    (places, end)
}
