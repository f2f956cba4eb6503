//! One search: from market to market, upward, until there is enough, nothing is above, or time is over.

use super::super::commodity::{Kind, Market, Scheme};
use super::super::message::{Answer, Entrance, Outcome, Query, Sale, ToOwner, UNITS, Wanted};
use super::super::money::Micro;
use super::super::pricing::{Bid, Deal, NoDeal, Rule};
use super::known::Place;
use super::verify::verify;
use super::{Bcx, Buyer, Doubt, Event, For, Offer, Timer, to_owner};
use crate::ids::NodeId;
use crate::overlay::contact::Contact;
use crate::overlay::ring::{Located, MemberId, Point, RingId};
use crate::time::Time;
use std::collections::BTreeSet;
use std::time::Duration;

/// Until a search tries again what was in vain. Our choice: what a ring needs to move on.
const REST: Duration = Duration::from_millis(500);

/// For a lookup: after that the ways in that are known count for none. Our choice: four of its steps that
/// fail.
const LOOKUP: Duration = Duration::from_secs(8);

/// What a market owner has beyond its own patience: the way there, with a dial, and back.
const WAY: Duration = Duration::from_secs(2);

/// Ways into the processor overlay that are remembered. Our choice: all of them dead at once is rare.
const ENTRIES: usize = 4;

#[derive(Debug)]
pub(super) struct Search {
    /// Units: those that are still wanted.
    wanted: Wanted,
    /// The lowest market that was not asked yet.
    next: Market,
    until: Time,
    hops: u16,
    entered: bool,
    found: Vec<Offer>,
    /// Of space: all bids of the markets that have answered, winners and seconds.
    pool: Option<Vec<Bid>>,
    /// Markets that have answered.
    asked: BTreeSet<Market>,
    shortage: NoDeal,
    step: Step,
}

#[derive(Debug)]
enum Step {
    Rest,
    /// Where is the entrance?
    Entrance,
    /// It was asked for markets.
    Entry {
        ticket: u64,
        at: NodeId,
    },
    /// Where is the market?
    Market,
    /// The market was asked; `known` from before.
    Query {
        ticket: u64,
        place: Place,
        known: bool,
    },
}

impl Search {
    /// Whether no further market has to be asked. Of space one seller more than is wanted has to be found,
    /// whose cost is the price.
    fn is_over(&self) -> bool {
        match &self.pool {
            Some(pool) => pool.len() > usize::from(self.wanted.units),
            None => self.wanted.units == 0,
        }
    }

    /// What a market is asked for: of space one unit more, since this node may be named itself.
    fn asks(&self) -> Wanted {
        let units = self.wanted.units.saturating_add(self.pool.is_some().into());
        Wanted { units: units.min(UNITS), ..self.wanted }
    }

    /// What a market names.
    fn take_up(&mut self, me: NodeId, sale: &Sale, mut offers: Vec<Offer>, longest: Time) {
        match &mut self.pool {
            Some(pool) => {
                pool.extend(
                    offers.iter().map(|offer| Bid { seller: offer.seller.id, cost: offer.goods.cost }),
                );
                // Its cost is the price, or above what may be paid, which is the price then.
                let second = sale.second.as_ref().zip(offers.first());
                pool.extend(second.map(|(second, offer)| Bid { seller: second.by, cost: offer.price }));
                pool.retain(|bid| bid.seller != me);
                offers.retain(|offer| offer.seller.id != me);
            }
            None => self.wanted.units = self.wanted.units.saturating_sub(offers.len() as u16),
        }
        self.found.extend(offers);
        if self.found.len() >= usize::from(self.wanted.units) {
            self.until = self.until.min(longest);
        }
    }

    /// What is bought of what was found. Of space, the rule decides among the sellers of all markets.
    fn offers(&mut self, rule: Rule, delta: Micro) -> Vec<Offer> {
        let found = std::mem::take(&mut self.found);
        let Some(pool) = &self.pool else { return found };
        let deals = rule.deals(&self.wanted.ask(), delta, pool).unwrap_or_default();
        let priced = |deal: Deal| {
            let offer = found.iter().find(|offer| offer.seller.id == deal.seller)?;
            Some(Offer { price: deal.price, payoff: deal.payoff, ..*offer })
        };
        let offers: Vec<Offer> = deals.into_iter().filter_map(priced).collect();
        self.wanted.units = self.wanted.units.saturating_sub(offers.len() as u16);
        offers
    }
}

impl Buyer {
    pub(super) fn ask(&mut self, number: u64, wanted: Wanted, cx: &mut Bcx<'_>) {
        let next = Market::first(wanted.kind, wanted.capacity);
        let full = self.searches.len() >= self.config.searches || self.searches.contains_key(&number);
        let Some(next) = next.filter(|_| !full && wanted.units > 0) else {
            let (offers, shortage) = (Vec::new(), Some(NoDeal::NoSeller));
            return cx.emit(Event::Found { number, offers, shortage, hops: 0, entered: false });
        };
        // Who has more space than another can sell as much of it: all sell one good, though how much is
        // left of it lists each in a market of its own. Max-min pays by the bids of one market.
        let pools = wanted.kind.divides() && self.config.rule == Rule::ReverseVickrey;
        let search = Search {
            wanted,
            pool: pools.then(Vec::new),
            next,
            until: cx.now + self.config.search,
            hops: 0,
            entered: false,
            found: Vec::new(),
            asked: BTreeSet::new(),
            shortage: NoDeal::NoSeller,
            step: Step::Rest,
        };
        self.searches.insert(number, search);
        self.go(number, cx);
    }

    /// To the next market.
    fn go(&mut self, number: u64, cx: &mut Bcx<'_>) {
        let Some(search) = self.searches.get_mut(&number) else { return };
        if search.until <= cx.now {
            return self.end(number, cx);
        }
        let next = search.next;
        cx.set_timer(Timer::Search(number), LOOKUP.min(search.until.since(cx.now)));
        if let Some(place) = self.known.of(next, cx.now, self.config.remember) {
            // The ring may have moved: which other markets are its owner's too is looked up anew.
            return self.query(number, Place { range: None, ..place }, true, cx);
        }
        let (inside, ring, key) = self.way(next, cx);
        if let Some(search) = self.searches.get_mut(&number) {
            search.step = if inside { Step::Market } else { Step::Entrance };
        }
        self.look_up(ring, key, For::Search(number), cx);
    }

    /// What to look up: the market, or the entrance to those of its kind if no way in is known.
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
    pub(super) fn located(&mut self, number: u64, found: Option<Located>, cx: &mut Bcx<'_>) {
        let Some(search) = self.searches.get_mut(&number) else { return };
        let kind = search.next.kind;
        let Some(found) = found else {
            // The ways in that are known lead nowhere.
            self.entries.remove(&kind);
            return self.rest(number, cx);
        };
        search.hops = search.hops.saturating_add(found.hops.into());
        let owner = found.owner.contact;
        match search.step {
            Step::Entrance => {
                let ticket = cx.rng.u64();
                search.entered = true;
                search.hops += u16::from(owner.id != cx.me);
                search.step = Step::Entry { ticket, at: owner.id };
                cx.set_timer(Timer::Search(number), self.config.probe);
                to_owner(&owner, ToOwner::Enter { kind, ticket }, cx);
            }
            Step::Market if self.config.scheme == Scheme::Single => {
                let (market, range) = (search.next, Some(found.range()));
                let place = Place { market, from: market.index, owner, range };
                self.known.add(place, cx.now, self.config.known);
                self.query(number, place, false, cx);
            }
            Step::Market => {
                let key = search.next.member().point;
                let market = Market::of_member(MemberId { ring: kind.ring(), point: found.owner.point });
                match market.filter(|_| !found.wraps(key)) {
                    Some(market) => {
                        let place = Place { market, from: search.next.index, owner, range: None };
                        self.known.add(place, cx.now, self.config.known);
                        self.query(number, place, false, cx);
                    }
                    // None is above: the ring goes over the top (paper 002: it must not wrap).
                    None => self.end(number, cx),
                }
            }
            _ => {}
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
        let Some(number) = self.searches.iter().find(|(_, search)| waits(search)).map(|(number, _)| *number)
        else {
            return;
        };
        let Some(search) = self.searches.get(&number) else { return };
        let kind = search.next.kind;
        if at.is_empty() {
            // Checkpoints are kept for nothing, too: nobody waits for such a market to open.
            return match (kind, entrance) {
                (Kind::Checkpoints, Entrance::Listening | Entrance::Open) => self.end(number, cx),
                _ => self.rest(number, cx),
            };
        }
        self.enter(kind, at);
        self.go(number, cx);
    }

    pub(super) fn enter(&mut self, kind: Kind, at: &[Contact]) {
        self.entries.insert(kind, at.iter().take(ENTRIES).copied().collect());
    }

    fn query(&mut self, number: u64, place: Place, known: bool, cx: &mut Bcx<'_>) {
        let Some(search) = self.searches.get_mut(&number) else { return };
        if search.asked.contains(&place.market) {
            return self.onward(number, place, None, cx);
        }
        let ticket = cx.rng.u64();
        let wanted = search.asks();
        search.hops += u16::from(place.owner.id != cx.me);
        search.step = Step::Query { ticket, place, known };
        cx.set_timer(Timer::Search(number), self.config.answer + WAY);
        let query = Query { ticket, market: place.market, wanted, copy: false };
        to_owner(&place.owner, ToOwner::Query(Box::new(query)), cx);
    }

    pub(super) fn answered(&mut self, from: NodeId, answer: Answer, cx: &mut Bcx<'_>) {
        let at = self.searches.iter().find_map(|(number, search)| match search.step {
            Step::Query { ticket, place, known } if ticket == answer.ticket && place.owner.id == from => {
                Some((*number, place, known))
            }
            _ => None,
        });
        let Some((number, place, known)) = at else { return };
        let now_ms = self.wall.now(cx.now);
        let Some(search) = self.searches.get_mut(&number) else { return };
        let asked = search.asks();
        match answer.what {
            Outcome::NotMine | Outcome::Busy => {
                self.known.forget(from);
                return self.rest(number, cx);
            }
            Outcome::Sale(sale) => {
                match verify(&self.config, place.market, &asked, &sale, (cx.me, from), now_ms) {
                    Ok(offers) => {
                        let dearest = offers.iter().map(|offer| offer.goods.cost).max();
                        let named = offers.iter().map(|offer| offer.seller.id).collect();
                        // Who was named first is held for us no longer than that.
                        search.take_up(cx.me, &sale, offers, cx.now + self.config.hold);
                        self.maybe_sample(place, asked, named, dearest, cx);
                    }
                    Err(why) => {
                        cx.emit(Event::Doubted { owner: from, why: Doubt::Wrong(why) });
                    }
                }
            }
            Outcome::None(why) => {
                if why != NoDeal::NoSeller {
                    search.shortage = why;
                }
                self.maybe_sample(place, asked, Vec::new(), None, cx);
            }
        }
        let Some(search) = self.searches.get_mut(&number) else { return };
        search.asked.insert(place.market);
        if known && !search.is_over() && self.config.scheme == Scheme::Processor {
            // Since it was used, a nearer market may have opened.
            self.known.forget(from);
            return self.go(number, cx);
        }
        self.onward(number, place, answer.next, cx);
    }

    /// After a market: to the next one above, unless there is enough.
    fn onward(&mut self, number: u64, place: Place, next: Option<Market>, cx: &mut Bcx<'_>) {
        let scheme = self.config.scheme;
        let Some(search) = self.searches.get_mut(&number) else { return };
        if search.is_over() {
            return self.end(number, cx);
        }
        // In the single overlay one node owns several markets in a row, and says which have sellers.
        let its = |market: &Market| {
            scheme == Scheme::Single && place.range.is_some_and(|range| range.contains(market.key(scheme)))
        };
        let next = next.filter(|next| next.kind == place.market.kind && *next > place.market && its(next));
        if let Some(market) = next.filter(|market| market.is_valid()) {
            search.next = market;
            let place = Place { market, from: market.index, ..place };
            self.known.add(place, cx.now, self.config.known);
            return self.query(number, place, false, cx);
        }
        match std::iter::successors(place.market.next(), |market| market.next()).find(|market| !its(market)) {
            Some(market) => {
                search.next = market;
                self.go(number, cx);
            }
            None => self.end(number, cx),
        }
    }

    /// In vain; the same again after a while.
    fn rest(&mut self, number: u64, cx: &mut Bcx<'_>) {
        let Some(search) = self.searches.get_mut(&number) else { return };
        search.step = Step::Rest;
        cx.set_timer(Timer::Search(number), REST.min(search.until.since(cx.now)));
    }

    /// It has waited or rested long enough.
    pub(super) fn late(&mut self, number: u64, cx: &mut Bcx<'_>) {
        let Some(search) = self.searches.get(&number) else { return };
        match search.step {
            Step::Query { place, .. } => self.known.forget(place.owner.id),
            // Who was a member may be none any more, and does not know who is.
            Step::Market => drop(self.entries.remove(&search.next.kind)),
            Step::Rest | Step::Entrance | Step::Entry { .. } => {}
        }
        self.lookups.retain(|_, of| *of != For::Search(number));
        self.go(number, cx);
    }

    pub(super) fn asked_in_vain(&mut self, peer: NodeId, cx: &mut Bcx<'_>) {
        let asked = self.searches.iter().filter(|(_, search)| match search.step {
            Step::Query { place, .. } => place.owner.id == peer,
            Step::Entry { at, .. } => at == peer,
            _ => false,
        });
        let asked: Vec<u64> = asked.map(|(number, _)| *number).collect();
        asked.into_iter().for_each(|number| self.rest(number, cx));
    }

    fn end(&mut self, number: u64, cx: &mut Bcx<'_>) {
        let Some(mut search) = self.searches.remove(&number) else { return };
        cx.cancel_timer(Timer::Search(number));
        self.lookups.retain(|_, of| *of != For::Search(number));
        let offers = search.offers(self.config.rule, self.config.delta);
        let Search { hops, entered, wanted, shortage, .. } = search;
        let shortage = (wanted.units > 0).then_some(shortage);
        cx.emit(Event::Found { number, offers, shortage, hops, entered });
    }
}
