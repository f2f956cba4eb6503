//! One answer: who would sell is asked whether it is alive and able, until winners and second are.
//!
//! Buyers are served in the order in which they ask: winners are held for the first as soon as it
//! asks, however long probing takes.

use super::super::listing::Listing;
use super::super::message::{
    Alive, Answer, Entry, Outcome, Prober, Purpose, Query, Sale, Stock, ToBuyer, ToSeller,
};
use super::super::pricing::{Bid, Deal};
use super::{Ocx, Owner, Timer, fault, to_buyer, to_seller};
use crate::address::Sender;
use crate::goods::Goods;
use crate::goods::NoDeal;
use crate::goods::UNITS;
use crate::goods::{Kind, Market};
use crate::ids::NodeId;
use crate::keys::Signed;
use crate::money::Price;
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug)]
pub(super) struct Session {
    buyer: NodeId,
    query: Query,
    until: Time,
    /// Those that answered: what they sell, and how they signed it.
    alive: BTreeMap<NodeId, (Goods, Signed)>,
    /// Those that were asked, and until when they may answer.
    asked: BTreeMap<NodeId, Time>,
    dead: BTreeSet<NodeId>,
}

impl Session {
    /// It answers by a copy of another's market.
    fn is_copy(&self) -> bool {
        self.query.purpose == Purpose::Copy
    }
}

/// Units of a seller that were named to a buyer.
#[derive(Debug)]
pub(super) struct Held {
    ticket: u64,
    units: u16,
    pub price: Price,
    pub until: Time,
}

/// Next step of a session.
enum Step {
    Over(Outcome),
    /// These have to be asked.
    Ask(Vec<NodeId>),
    Wait,
}

impl Owner {
    pub(super) fn query(&mut self, from: NodeId, query: Query, cx: &mut Ocx<'_>) {
        let (market, wanted) = (query.market, &query.wanted);
        let sane = market.is_valid() && market.kind == wanted.kind && (1..=UNITS).contains(&wanted.units);
        if !sane {
            return fault(from, "asks for what no market has", cx);
        }
        let its = self.sessions.values().filter(|session| session.buyer == from).count();
        let there = match query.purpose {
            Purpose::Copy => self.books.contains_key(&market),
            Purpose::Costs | Purpose::Sale | Purpose::Second => self.mine.contains(&market),
        };
        let at_once = if !there {
            Some(Outcome::NotMine)
        } else if query.purpose == Purpose::Costs {
            Some(Outcome::Costs(self.costs(from, &query, cx.now)))
        } else {
            let busy = self.sessions.len() >= self.config.answers || its >= self.config.per_buyer;
            busy.then_some(Outcome::Busy)
        };
        if let Some(what) = at_once {
            let next = self.next_of_mine(market);
            let answer = Answer { ticket: query.ticket, market, what, next };
            return to_buyer(from, ToBuyer::Answer(Box::new(answer)), cx);
        }
        let session = Session {
            buyer: from,
            query,
            until: cx.now + self.config.answer,
            alive: BTreeMap::new(),
            asked: BTreeMap::new(),
            dead: BTreeSet::new(),
        };
        let ticket = cx.rng.u64();
        self.sessions.insert(ticket, session);
        self.advance(ticket, cx);
    }

    /// Goes on with an answer: asks who has to be asked, or gives it.
    pub(super) fn advance(&mut self, ticket: u64, cx: &mut Ocx<'_>) {
        let Some(session) = self.sessions.get_mut(&ticket) else { return };
        let market = session.query.market;
        let silent = session.asked.iter().filter(|(_, until)| **until <= cx.now).map(|(seller, _)| *seller);
        let silent: Vec<NodeId> = silent.collect();
        for seller in &silent {
            session.asked.remove(seller);
            session.dead.insert(*seller);
        }
        if !session.is_copy() {
            silent.into_iter().for_each(|seller| self.strike(market, seller, cx));
        }
        match self.step(ticket, cx) {
            Step::Over(what) => self.finish(ticket, what, cx),
            Step::Ask(sellers) => {
                let until = cx.now + self.config.probe;
                for seller in sellers {
                    let table = self.books.get(&market).map(|book| &book.table);
                    let Some(address) = table.and_then(|table| table.address(seller)) else { continue };
                    if let Some(session) = self.sessions.get_mut(&ticket) {
                        session.asked.insert(seller, until);
                    }
                    let probe = ToSeller::Probe { kind: market.kind, ticket, by: Prober::Owner };
                    to_seller(address, probe, cx);
                }
                self.wait(ticket, cx);
            }
            Step::Wait => self.wait(ticket, cx),
        }
    }

    fn wait(&self, ticket: u64, cx: &mut Ocx<'_>) {
        let Some(session) = self.sessions.get(&ticket) else { return };
        let first = session.asked.values().min().copied().unwrap_or(session.until).min(session.until);
        cx.set_timer(Timer::Answer(ticket), first.since(cx.now));
    }

    fn step(&mut self, ticket: u64, cx: &mut Ocx<'_>) -> Step {
        let Some(session) = self.sessions.get(&ticket) else { return Step::Wait };
        let late = session.until <= cx.now;
        let out = |id: &NodeId| session.dead.contains(id) || late && !session.alive.contains_key(id);
        let bids = self.bids(Some(ticket), (session.buyer, &session.query), out, cx.now);
        let deals = match session.query.purpose {
            Purpose::Second if bids.is_empty() => Err(NoDeal::NoSeller),
            Purpose::Second => Ok(Vec::new()),
            _ => self.config.rule.deals(&session.query.wanted.ask(), self.config.delta, &bids),
        };
        let deals = match deals {
            Ok(deals) => deals,
            Err(none) => {
                self.release(session.query.market.kind, ticket);
                return Step::Over(Outcome::None(none));
            }
        };
        let mut winners: Vec<NodeId> = deals.iter().map(|deal| deal.seller).collect();
        winners.sort_unstable();
        winners.dedup();
        let rest = bids.iter().filter(|bid| winners.binary_search(&bid.seller).is_err());
        let second = rest.min_by_key(|bid| bid.cost).map(|bid| bid.seller);
        let named = winners.iter().copied().chain(second);
        // A seller that has listed anew since it answered is asked again.
        let table = self.books.get(&session.query.market).map(|book| &book.table);
        let stands = |seller: &NodeId| {
            let entry = table.and_then(|table| table.get(*seller));
            let said = session.alive.get(seller).map(|(goods, _)| *goods);
            entry.is_some_and(|entry| said == Some(entry.goods(session.query.market.kind)))
        };
        let missing: Vec<NodeId> = named.filter(|seller| !stands(seller)).collect();
        if missing.is_empty() {
            let signed = |seller: &NodeId| session.alive.get(seller).map(|(_, signed)| signed.clone());
            let sale = Sale {
                winners: winners.iter().filter_map(signed).collect(),
                second: second.and_then(|seller| signed(&seller)),
                highest: bids.iter().map(|bid| bid.cost).max().unwrap_or_default(),
                deals,
            };
            self.hold(ticket, &sale.deals, cx.now + self.config.hold);
            return Step::Over(Outcome::Sale(sale));
        }
        let ask: Vec<NodeId> = missing.into_iter().filter(|it| !session.asked.contains_key(it)).collect();
        let until = session.until + self.config.hold;
        self.hold(ticket, &deals, until);
        if ask.is_empty() { Step::Wait } else { Step::Ask(ask) }
    }

    /// Those who could sell to this buyer now, but for those who are `out`. What is held for another answer
    /// than `ticket` is not there.
    fn bids(
        &self,
        ticket: Option<u64>,
        (buyer, query): (NodeId, &Query),
        out: impl Fn(&NodeId) -> bool,
        now: Time,
    ) -> Vec<Bid> {
        let Query { market, wanted, purpose, .. } = query;
        let Some(book) = self.books.get(market) else { return Vec::new() };
        // Few are held, and most markets are large.
        let of_kind = (market.kind, NodeId([0; 32]))..=(market.kind, NodeId([0xff; 32]));
        let held: BTreeMap<NodeId, u16> = match purpose {
            Purpose::Copy => BTreeMap::new(),
            Purpose::Costs | Purpose::Sale | Purpose::Second => {
                self.held.range(of_kind).map(|((_, id), held)| (*id, units(held, ticket, now))).collect()
            }
        };
        let free = |entry: &Entry| {
            let id = entry.seller.id;
            // Space of its own helps nobody who looks for space elsewhere.
            if out(&id) || market.kind.divides() && id == buyer {
                return 0;
            }
            if book.table.guest(id).is_some_and(|guest| !guest.sells_to(buyer)) {
                return 0;
            }
            entry.units.saturating_sub(held.get(&id).copied().unwrap_or(0))
        };
        book.table.bids(market.kind, wanted, self.config.rule, free)
    }

    /// Costs of the cheapest sellers. The list is so short that every asker gets it at once.
    fn costs(&self, buyer: NodeId, query: &Query, now: Time) -> Vec<Stock> {
        let mut costs: Vec<(NodeId, Stock)> = Vec::new();
        for bid in self.bids(None, (buyer, query), |_| false, now) {
            match costs.last_mut().filter(|(seller, _)| *seller == bid.seller) {
                Some((_, stock)) => stock.units += 1,
                None => costs.push((bid.seller, Stock { cost: bid.cost, units: 1 })),
            }
        }
        costs.truncate(usize::from(query.wanted.units) + 1);
        costs.into_iter().map(|(_, stock)| stock).collect()
    }

    /// Holds what is sold to one buyer back from the next.
    fn hold(&mut self, ticket: u64, deals: &[Deal], until: Time) {
        let Some(session) = self.sessions.get(&ticket) else { return };
        let (kind, copy) = (session.query.market.kind, session.is_copy());
        if copy {
            return;
        }
        self.release(kind, ticket);
        for deal in deals {
            let held = self.held.entry((kind, deal.seller)).or_default();
            match held.iter_mut().find(|held| held.ticket == ticket) {
                Some(held) => held.units += 1,
                None => held.push(Held { ticket, units: 1, price: deal.price, until }),
            }
        }
    }

    fn release(&mut self, kind: Kind, ticket: u64) {
        self.held.retain(|(of, _), held| {
            if *of == kind {
                held.retain(|held| held.ticket != ticket);
            }
            !held.is_empty()
        });
    }

    fn finish(&mut self, ticket: u64, what: Outcome, cx: &mut Ocx<'_>) {
        cx.cancel_timer(Timer::Answer(ticket));
        let Some(session) = self.sessions.remove(&ticket) else { return };
        let Query { ticket, market, .. } = session.query;
        let answer = Answer { ticket, market, what, next: self.next_of_mine(market) };
        to_buyer(session.buyer, ToBuyer::Answer(Box::new(answer)), cx);
    }

    pub(super) fn next_of_mine(&self, market: Market) -> Option<Market> {
        let after = self.books.range(market..).skip_while(|(other, _)| **other == market);
        let same = after.take_while(|(other, _)| other.kind == market.kind);
        let mut sells = same.filter(|(other, book)| self.mine.contains(other) && !book.table.is_empty());
        sells.next().map(|(other, _)| *other)
    }

    /// A seller answers a probe.
    pub(super) fn alive(&mut self, sender: Sender, alive: Alive, cx: &mut Ocx<'_>) {
        let (ticket, seller) = (alive.ticket, sender.id);
        let session = self.sessions.get_mut(&ticket);
        let Some(session) = session.filter(|session| session.asked.contains_key(&seller)) else {
            return self.alive_late(sender, alive, cx);
        };
        let (market, copy) = (session.query.market, session.is_copy());
        let address = self.books.get(&market).and_then(|book| book.table.address(seller));
        if !address.is_some_and(|address| address.is_of(sender, cx.me)) {
            return;
        }
        session.asked.remove(&seller);
        let now_ms = self.wall.now(cx.now);
        let opened = alive.listing.filter(|signed| signed.by == seller).and_then(|signed| {
            let (at, listing) = Listing::open(&signed, self.config.rule, now_ms).ok()?;
            (at == market).then_some((signed, listing))
        });
        let is_there = |listing: &Listing| Some(listing.seller.best()) == address;
        // A seller that is reached in another way now lists itself again.
        let moved = opened.as_ref().is_some_and(|(_, listing)| !is_there(listing));
        let good = opened.filter(|(_, listing)| is_there(listing));
        match good {
            Some((signed, listing)) => {
                session.alive.insert(seller, (listing.goods, signed));
                let changed = self
                    .books
                    .get(&market)
                    .and_then(|book| book.table.get(seller))
                    .is_none_or(|entry| entry.goods(market.kind) != listing.goods);
                if copy && changed {
                    // A copy may be a second old; what it says wrongly does not count.
                    session.dead.insert(seller);
                }
                if !copy {
                    self.renew(market, &listing, cx);
                }
            }
            None => {
                session.dead.insert(seller);
                if !copy && !moved {
                    self.strike(market, seller, cx);
                }
            }
        }
        self.advance(ticket, cx);
    }

    /// A seller that was purged for its silence, and answers after all, need not wait until it lists again.
    fn alive_late(&mut self, sender: Sender, alive: Alive, cx: &mut Ocx<'_>) {
        let now_ms = self.wall.now(cx.now);
        let signed = alive.listing.filter(|signed| signed.by == sender.id);
        let opened = signed.and_then(|signed| Listing::open(&signed, self.config.rule, now_ms).ok());
        let Some((market, listing)) = opened.filter(|(_, it)| it.seller.is_of(sender, cx.me)) else { return };
        if self.take_up(market, &listing, cx).is_ok() {
            let listed = ToSeller::Listed { kind: market.kind, number: listing.number };
            super::list::answer(sender, listed, cx);
        }
    }

    /// A peer is gone, or cannot be reached, and so are its guests.
    pub(super) fn probed_in_vain(&mut self, peer: NodeId, cx: &mut Ocx<'_>) {
        self.not_probed(|seller, relay| seller == peer || relay == Some(peer), cx);
    }

    /// A relay says that a guest is not there: of its own it may say so.
    pub(super) fn gone(&mut self, guest: NodeId, by: NodeId, cx: &mut Ocx<'_>) {
        self.not_probed(|seller, relay| seller == guest && relay == Some(by), cx);
    }

    /// Those do not answer, of whose id and relay this is so.
    fn not_probed(&mut self, is_gone: impl Fn(NodeId, Option<NodeId>) -> bool, cx: &mut Ocx<'_>) {
        let books = &self.books;
        let waits = self.sessions.iter_mut().filter_map(|(ticket, session)| {
            let table = books.get(&session.query.market).map(|book| &book.table);
            let its = |seller| {
                is_gone(seller, table.and_then(|table| table.guest(seller)).map(|guest| guest.relay))
            };
            let asked = session.asked.iter_mut().filter(|(seller, _)| its(**seller));
            let untils = asked.map(|(_, until)| *until = cx.now);
            (untils.count() > 0).then_some(*ticket)
        });
        let waits: Vec<u64> = waits.collect();
        waits.into_iter().for_each(|ticket| self.advance(ticket, cx));
    }
}

/// Units that are named in other answers than this.
fn units(held: &[Held], ticket: Option<u64>, now: Time) -> u16 {
    let others = held.iter().filter(|held| Some(held.ticket) != ticket && held.until > now);
    others.map(|held| held.units).fold(0, u16::saturating_add)
}
