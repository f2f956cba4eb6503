//! Places that are bought: for which units, on which terms, and what is paid for them.
//!
//! One runner of a unit is one sale. When the unit has ended there, or goes on elsewhere, its sale is
//! settled: for the fuel up to the result, or up to the newest checkpoint that was recorded. What was
//! paid for earlier places of a unit is taken off what its next one may cost.
//!
//! Table `Deals`: the unit's key → [`Deal`], from the first purchase on until the last is settled. So
//! each sale is settled once, however often owner or bank stop in between; and what the bank holds
//! without a row (the owner stopped before it was written) is given back.

use super::job::Job;
use super::{Event, Owner, Pending, Timer, keeping};
use crate::contract::{Holding, Outcome, Refusal, Sale, Term};
use crate::disk::{Table, Write};
use crate::finding::{Bargain, Bought, Purchase, Shelf};
use crate::goods::Kind;
use crate::ids::{JobId, NodeId, UnitId};
use crate::keys::Signed;
use crate::money::{Micro, Price};
use crate::progress::Span;
use crate::protocol::Cx;
use crate::time::Time;
use crate::work::book::State;
use crate::work::message::Report;
use crate::work::spec::{JobSpec, UnitResult};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Units for which places are bought at once. Our choice: what one answer of a market names.
const AT_ONCE: u64 = 128;

/// Until a job that was sold nothing asks again. Our choice: sellers list what has become free within
/// a second, and at once what was paid for.
const AGAIN: Duration = Duration::from_secs(1);

/// Until a job asks again for which a market named sellers that it did not buy from. Longer than a market keeps
/// what it named ([`crate::market::MarketConfig::hold`]), or the job would be in its own way.
const NAMED: Duration = Duration::from_secs(11);

/// Until settlements are ordered again for which too many orders waited. Our choice: the bank does
/// thousands in that time.
const FULL: Duration = Duration::from_secs(5);

/// Purchases of a job.
#[derive(Debug)]
pub(super) struct Deals {
    /// The whole job may cost no more.
    pub(super) most: Micro,
    /// For places that were settled.
    pub(super) paid: Micro,
    /// Credit that the bank holds for places that are not settled.
    pub(super) held: Micro,
    /// Places are being bought for these.
    buying: BTreeSet<u32>,
    by_unit: BTreeMap<u32, Deal>,
    /// Nothing is asked for before.
    not_before: Time,
}

/// Purchases of one unit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Deal {
    /// Paid for places that it had before.
    before: Micro,
    /// Its sales so far; each has a number of its own at the bank, as long as there are any.
    sales: u32,
    /// How often it had been placed, with the last one.
    attempts: u32,
    /// Its place, until that is settled.
    place: Option<Place>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Place {
    term: Term,
    held: Micro,
    /// The fuel that the unit had used when it was bought, and how much more it may.
    from: u64,
    fuel: u64,
    /// How much was used of it, once that is known: it is to be settled.
    used: Option<u64>,
    /// Receipt of the bank for the seller.
    #[serde(default)]
    receipt: Option<Signed>,
    /// Space for its checkpoints: the hold's second term.
    #[serde(default)]
    pub(super) shelf: Option<Box<Shelf>>,
}

impl Place {
    /// Fuel by which the seller brought on a unit with these spans.
    fn used(&self, spans: &[Span]) -> u64 {
        let its = spans.iter().filter(|span| span.runner == self.term.to);
        let used = its.map(|span| span.to.saturating_sub(span.from.max(self.from)));
        used.fold(0u64, u64::saturating_add).min(self.fuel)
    }

    /// Quantities to pay for, in the order of the hold's payment legs.
    fn legs(&self, used: u64) -> Vec<u64> {
        std::iter::once(used).chain(self.shelf.iter().map(|shelf| shelf.space.used())).collect()
    }

    fn cost(&self, used: u64) -> Micro {
        let space = self.shelf.iter().map(|shelf| shelf.space.term.clone());
        let terms: Vec<Term> = std::iter::once(self.term.clone()).chain(space).collect();
        Term::cost_of(self.fuel, &terms, &self.legs(used)).unwrap_or_default()
    }
}

impl Deal {
    fn sale(&self, unit: UnitId) -> Sale {
        Sale { unit, number: self.sales, kind: Kind::Cycles }
    }

    fn write(unit: UnitId, deal: Option<&Deal>) -> Write {
        let key = super::record::result_id(unit.job, unit.index);
        Write { table: Table::Deals, key, value: deal.map(super::record::encode) }
    }
}

impl Deals {
    /// If the job buys its places.
    pub(super) fn of(spec: &JobSpec) -> Option<Box<Deals>> {
        let terms = spec.find.terms()?;
        let units = u128::from(terms.max_price.0) * u128::from(spec.units.count());
        let all = Micro(u64::try_from(units).unwrap_or(Micro::MAX.0).min(Micro::MAX.0));
        Some(Box::new(Deals {
            most: terms.max_price_job.map_or(all, |most| most.min(all)),
            paid: Micro::ZERO,
            held: Micro::ZERO,
            buying: BTreeSet::new(),
            by_unit: BTreeMap::new(),
            not_before: Time::default(),
        }))
    }

    pub(super) fn is_buying(&self, index: u32) -> bool {
        self.buying.contains(&index)
    }

    /// At which this node has sold a place to the unit.
    pub(super) fn price(&self, index: u32, seller: NodeId) -> Option<Price> {
        self.sold(index, seller).map(|place| place.term.price)
    }

    /// Receipt of the bank for that node.
    pub(super) fn receipt(&self, index: u32, seller: NodeId) -> Option<&Signed> {
        self.sold(index, seller)?.receipt.as_ref()
    }

    pub(super) fn sold(&self, index: u32, seller: NodeId) -> Option<&Place> {
        self.by_unit.get(&index)?.place.as_ref().filter(|place| place.term.to == seller)
    }

    /// That of a place that is not to be settled yet.
    pub(super) fn shelf_mut(&mut self, index: u32, seller: NodeId) -> Option<&mut Shelf> {
        let place = self.by_unit.get_mut(&index)?.place.as_mut()?;
        (place.term.to == seller && place.used.is_none()).then_some(place.shelf.as_deref_mut())?
    }

    /// Whether somebody is paid for the unit's checkpoints, and its place is not to be settled yet.
    pub(super) fn is_kept(&self, index: u32) -> bool {
        let place = self.by_unit.get(&index).and_then(|deal| deal.place.as_ref());
        place.is_some_and(|place| place.used.is_none() && place.shelf.is_some())
    }

    pub(super) fn pay(&mut self, paid: Micro) {
        self.paid = self.paid.plus(paid).unwrap_or(Micro::MAX);
    }

    fn left(&self) -> Micro {
        let bound = self.paid.plus(self.held).unwrap_or(Micro::MAX);
        self.most.minus(bound).unwrap_or_default()
    }

    fn put(&mut self, index: u32, place: Place) {
        self.held = self.held.plus(place.held).unwrap_or(Micro::MAX);
        self.by_unit.entry(index).or_default().place = Some(place);
    }

    fn take(&mut self, index: u32) -> Option<Place> {
        let place = self.by_unit.get_mut(&index)?.place.take()?;
        self.held = self.held.minus(place.held).unwrap_or_default();
        Some(place)
    }
}

impl Owner {
    fn deals(&mut self, id: JobId) -> Option<&mut Deals> {
        self.jobs.get_mut(&id)?.deals.as_deref_mut()
    }

    /// Buys places for the job's waiting units: as many at once as it can pay whatever they cost.
    pub(super) fn buy(&mut self, id: JobId, cx: &mut Cx<'_, Self>) {
        let now = cx.now;
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let Some(find) = job.spec.find.terms() else { return };
        let Some(deals) = job.deals.as_mut().filter(|d| d.buying.is_empty() && d.not_before <= now) else {
            return;
        };
        deals.not_before = now + AGAIN;
        let mut sales = Vec::new();
        let (mut fuel, mut most) = (job.spec.template.limits.fuel, Micro::ZERO);
        let mut to_settle = None;
        while let Some(index) = self.book.next_waiting(id) {
            let Some(deals) = &mut job.deals else { break };
            let known = deals.by_unit.get(&index);
            let has_place = known.is_some_and(|deal| deal.place.is_some());
            let began = job.records.get(&index).and_then(|record| record.newest.as_ref());
            let alone = has_place || began.is_some() || known.is_some_and(|deal| deal.before > Micro::ZERO);
            let full = sales.len() as u64 >= (deals.left().0 / find.max_price.0).clamp(1, AT_ONCE);
            if full || (alone && !sales.is_empty()) {
                break;
            }
            if has_place {
                // The last runner is settled with first: then it is known what is left.
                to_settle = Some(index);
                break;
            }
            let before = known.map_or(Micro::ZERO, |deal| deal.before);
            most = find.max_price.minus(before).unwrap_or_default().min(deals.left());
            fuel -= began.map_or(0, |held| held.checkpoint.snapshot.fuel).min(fuel);
            let deal = deals.by_unit.entry(index).or_default();
            deal.sales += 1;
            let unit = UnitId { job: id, index };
            sales.push(deal.sale(unit));
            deals.buying.insert(index);
            self.book.wait(unit);
            if alone {
                break;
            }
        }
        if let Some(index) = to_settle {
            self.settle_now(UnitId { job: id, index }, cx);
            if let Some(deals) = self.deals(id) {
                deals.not_before = now;
            }
            return self.buy(id, cx);
        }
        let Some(job) = self.jobs.get(&id).filter(|_| !sales.is_empty()) else { return };
        let (memory_bytes, min_speed) = (job.spec.template.limits.memory_bytes, find.min_speed);
        let checkpoints = keeping::needs(&job.spec.template);
        cx.emit(Event::Purchase(Purchase { sales, memory_bytes, min_speed, fuel, most, checkpoints }));
        self.touch(id, cx);
    }

    /// A place was bought for a unit, or not.
    pub(super) fn bought(&mut self, bought: Bought, cx: &mut Cx<'_, Self>) {
        let Bought { sale, place } = bought;
        let UnitId { job: id, index } = sale.unit;
        let now = cx.now;
        let Some(job) = self.jobs.get_mut(&id).filter(|job| job.is_active()) else {
            return self.give_back(sale, place.is_ok(), cx);
        };
        let Some(stands) = self.book.unit(sale.unit) else { return };
        let began = job.records.get(&index).and_then(|record| record.newest.as_ref());
        let from = began.map_or(0, |held| held.checkpoint.snapshot.fuel);
        let Some(deals) = &mut job.deals else { return };
        if !deals.buying.remove(&index) {
            return self.give_back(sale, place.is_ok(), cx);
        }
        if stands.state != State::Away {
            // An earlier runner of it was faster to come back.
            return self.give_back(sale, place.is_ok(), cx);
        }
        let place = place.map(|Bargain { seller, term, fuel, held, receipt, shelf }| {
            deals.not_before = now;
            shelf.as_ref().and_then(|shelf| shelf.at).into_iter().for_each(|at| cx.reach(at));
            deals.put(index, Place { term, held, from, fuel, used: None, receipt, shelf });
            seller
        });
        if let (Ok(_), Some(deal)) = (&place, deals.by_unit.get_mut(&index)) {
            deal.attempts = stands.attempts + 1;
        }
        self.book.end_wait(sale.unit);
        match place {
            Ok(seller) => {
                self.book.place(sale.unit, seller.id);
                self.write_deal(sale.unit, cx);
                cx.emit(Event::Placed { node: seller.id });
                if let Some(grant) = self.begin(sale.unit, seller.id, cx) {
                    self.send_grant(seller.id, id, vec![grant], cx);
                }
            }
            Err(missed) => {
                job.shortage = Some(missed.why);
                if let Some(deals) = job.deals.as_mut().filter(|_| missed.named) {
                    deals.not_before = now + NAMED;
                }
            }
        }
        self.touch(id, cx);
    }

    /// Writes the cost of the unit's places into the report of its end.
    pub(super) fn price(&mut self, report: &mut Report) {
        let UnitId { job, index } = report.unit;
        let Some(deal) = self.deals(job).and_then(|deals| deals.by_unit.get_mut(&index)) else { return };
        let UnitResult { runner, fuel, .. } = report.result;
        report.result.paid = deal.before;
        if let Some(place) = &mut deal.place {
            let used = match &report.result.journey {
                Some(journey) => place.used(&journey.spans),
                None if runner == place.term.to => fuel.min(place.fuel),
                None => 0,
            };
            report.result.paid = deal.before.plus(place.cost(used)).unwrap_or(Micro::MAX);
            place.used = Some(used);
        }
    }

    /// Row for the commit of the unit's result.
    pub(super) fn deal_write(&self, unit: UnitId) -> Option<Write> {
        let deals = self.jobs.get(&unit.job)?.deals.as_ref()?;
        Some(Deal::write(unit, Some(deals.by_unit.get(&unit.index)?)))
    }

    /// Its result could not be written down: as if it had not come.
    pub(super) fn not_priced(&mut self, unit: UnitId) {
        let deal = self.deals(unit.job).and_then(|deals| deals.by_unit.get_mut(&unit.index));
        if let Some(place) = deal.and_then(|deal| deal.place.as_mut()) {
            place.used = None;
        }
    }

    /// The result is durable.
    pub(super) fn settle_result(&mut self, unit: UnitId, cx: &mut Cx<'_, Self>) {
        if let Some(deals) = self.deals(unit.job) {
            // The result includes what was paid before.
            let before = deals.by_unit.get(&unit.index).map_or(Micro::ZERO, |deal| deal.before);
            deals.paid = deals.paid.minus(before).unwrap_or_default();
            let place = deals.take(unit.index);
            let sale = deals.by_unit.remove(&unit.index).map(|deal| deal.sale(unit));
            match (sale, place.and_then(|place| Some(place.legs(place.used?)))) {
                (Some(sale), Some(used)) => self.settle(sale, used, cx),
                (Some(_), None) => self.drop_deal(unit, cx),
                (None, _) => {}
            }
        }
    }

    /// The unit will not go on there: its seller gets what is its own, and the rest comes back.
    pub(super) fn settle_now(&mut self, unit: UnitId, cx: &mut Cx<'_, Self>) {
        let UnitId { job: id, index } = unit;
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let Job { deals: Some(deals), records, .. } = job else { return };
        let spans = records.get(&index).map_or(&[][..], |record| &record.journey.spans);
        let Some(deal) = deals.by_unit.get_mut(&index) else { return };
        let sale = deal.sale(unit);
        let Some(place) = &mut deal.place else { return };
        let used = place.used(spans);
        let (paid, legs) = (place.cost(used), place.legs(used));
        deal.before = deal.before.plus(paid).unwrap_or(Micro::MAX);
        place.used = Some(used);
        deals.pay(paid);
        // The next life has to know it, too.
        self.write_deal(unit, cx);
        if let Some(deals) = self.deals(id) {
            deals.take(index);
        }
        self.settle(sale, legs, cx);
    }

    /// All that a job has not settled, which is over.
    pub(super) fn settle_all(&mut self, id: JobId, cx: &mut Cx<'_, Self>) {
        let Some(deals) = self.deals(id) else { return };
        let units: Vec<u32> = deals.by_unit.keys().copied().collect();
        for index in units {
            let unit = UnitId { job: id, index };
            self.settle_now(unit, cx);
            if let Some(deals) = self.deals(id) {
                deals.by_unit.remove(&index);
            }
        }
    }

    fn settle(&mut self, sale: Sale, used: Vec<u64>, cx: &mut Cx<'_, Self>) {
        let order = sale.settle(&used);
        let ticket = self.ticket(Pending::Settlement(sale, used));
        cx.emit(Event::Settle { ticket, order });
    }

    fn give_back(&mut self, sale: Sale, any: bool, cx: &mut Cx<'_, Self>) {
        if any {
            self.settle(sale, Vec::new(), cx);
        }
    }

    /// The bank has done so, or never will.
    pub(super) fn settled(&mut self, ticket: u64, outcome: Outcome, cx: &mut Cx<'_, Self>) {
        let Some(Pending::Settlement(sale, used)) = self.pending.remove(&ticket) else { return };
        match outcome {
            Ok(()) | Err(Refusal::Over) => {}
            Err(Refusal::Full) => {
                self.late.push((sale, used));
                return cx.set_timer_by(Timer::Settle, FULL);
            }
            Err(refusal) => {
                cx.trouble(format!("the bank does not settle what was bought for {}: {refusal}", sale.unit))
            }
        }
        let known = self.deals(sale.unit.job).and_then(|deals| deals.by_unit.get(&sale.unit.index));
        match known {
            None => self.drop_deal(sale.unit, cx),
            // It is not to be settled in the next life again.
            Some(deal) if deal.place.is_none() => self.write_deal(sale.unit, cx),
            Some(_) => {}
        }
    }

    /// Those for which too much waited are tried again.
    pub(super) fn settle_late(&mut self, cx: &mut Cx<'_, Self>) {
        for (sale, used) in std::mem::take(&mut self.late) {
            self.settle(sale, used, cx);
        }
    }

    fn write_deal(&mut self, unit: UnitId, cx: &mut Cx<'_, Self>) {
        if let Some(write) = self.deal_write(unit) {
            let ticket = self.ticket(Pending::Deal);
            cx.emit(Event::Commit { ticket, writes: vec![write] });
        }
    }

    fn drop_deal(&mut self, unit: UnitId, cx: &mut Cx<'_, Self>) {
        let ticket = self.ticket(Pending::Deal);
        cx.emit(Event::Commit { ticket, writes: vec![Deal::write(unit, None)] });
    }

    /// Gives back holds of an earlier life whose purchase had not been completed. Completed purchases are
    /// written down.
    pub(super) fn bank_holds(&mut self, held: Vec<Holding>, cx: &mut Cx<'_, Self>) {
        if !self.ready {
            return self.bank_held.extend(held);
        }
        for Holding { sale, .. } in held {
            let deal = self.deals(sale.unit.job).and_then(|deals| deals.by_unit.get(&sale.unit.index));
            let bought = deal.is_some_and(|deal| deal.place.is_some() && deal.sale(sale.unit) == sale);
            let settling =
                || self.pending.values().any(|p| matches!(p, Pending::Settlement(s, _) if *s == sale));
            if !bought && !settling() {
                self.give_back(sale, true, cx);
            }
        }
    }

    pub(super) fn restore_deals(&mut self, entries: &[(Vec<u8>, Bytes)], cx: &mut Cx<'_, Self>) {
        for (key, value) in entries {
            let Some(unit) = super::record::result_key(key) else { continue };
            let Some(job) = self.jobs.get_mut(&unit.job).filter(|job| job.deals.is_some()) else { continue };
            let Ok(mut deal) = rmp_serde::from_slice::<Deal>(value) else {
                cx.trouble(format!(
                    "what was bought for {unit} cannot be read; the bank gives it back after a while"
                ));
                continue;
            };
            let active = job.is_active();
            let Some(stands) = self.book.unit(unit) else { continue };
            self.book.attempted(unit, deal.attempts);
            let Some(deals) = &mut job.deals else { continue };
            if !stands.state.has_ended() {
                deals.pay(deal.before);
            }
            let place = deal.place.take();
            let runs = active && place.as_ref().is_some_and(|place| place.used.is_none());
            deals.by_unit.insert(unit.index, deal);
            if let Some(place) = place {
                deals.put(unit.index, place);
            }
            if runs && stands.state == State::Waiting {
                // Its runner has likely gone on, and will say so.
                self.wait_for(unit, self.config.timing.lease, cx);
            }
        }
    }

    /// All has been read: what had ended before is settled.
    pub(super) fn settle_ended(&mut self, cx: &mut Cx<'_, Self>) {
        let mut ended = Vec::new();
        for (id, job) in &self.jobs {
            for (index, deal) in job.deals.iter().flat_map(|deals| &deals.by_unit) {
                let used = deal.place.as_ref().and_then(|place| Some(place.legs(place.used?)));
                let unit = UnitId { job: *id, index: *index };
                let over = !job.is_active() || self.book.state(unit).is_some_and(State::has_ended);
                if over || used.is_some() {
                    ended.push((unit, deal.sale(unit), used, over));
                }
            }
        }
        for (unit, sale, used, over) in ended {
            if let Some(deals) = self.deals(unit.job) {
                deals.take(unit.index);
                if over {
                    deals.by_unit.remove(&unit.index);
                }
            }
            self.settle(sale, used.unwrap_or_default(), cx);
        }
        let held = std::mem::take(&mut self.bank_held);
        self.bank_holds(held, cx);
    }
}
