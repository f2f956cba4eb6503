//! Places that are bought: for which units, on which terms, and what is paid for them. Pure: it asks for rows and
//! settlements ([`Act`]), and others see to them.
//!
//! One runner of a unit is one sale. When the unit has ended there, or goes on elsewhere, its sale is settled: for
//! the fuel up to the result, or up to the newest checkpoint that was recorded. What was paid for earlier places of
//! a unit is taken off what its next one may cost.
//!
//! Table `Deals`: the unit's key → [`Deal`], from the first purchase on until the last is settled. So each sale is
//! settled once, however often owner or bank stop in between; and what the bank holds without a row (the owner
//! stopped before it was written) is given back.

mod deal;
#[cfg(test)]
mod tests;

pub use deal::{Deal, Deals, Place};

use super::book::{Book, State, Unit};
use super::message::Report;
use super::spec::{JobSpec, Template, UnitResult};
use super::unit_record::UnitRecord;
use crate::address::Address;
use crate::contract::{Holding, Order, Outcome, Sale, Settled, Settlements};
use crate::disk::Write;
use crate::finding::{Bought, Missed, Purchase, PurchasedSlot};
use crate::goods::Market;
use crate::ids::{JobId, NodeId, UnitId};
use crate::money::Micro;
use crate::progress::{Checkpoint, Span};
use crate::time::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// Units for which places are bought at once. Our choice: what one answer of a market names.
const AT_ONCE: u64 = 128;

/// Until a job that was sold nothing asks again. Our choice: sellers list what has become free within
/// a second, and at once what was paid for.
const AGAIN: Duration = Duration::from_secs(1);

/// Until a job asks again one of whose places has become free. Our choice: the seller hears that the result is
/// durable, and lists the slot again.
const FREED: Duration = Duration::from_millis(200);

/// Until a job asks again for which a market named sellers that it did not buy from. Longer than a market keeps
/// what it named ([`crate::market::MarketConfig::hold`]), or the job would be in its own way.
const NAMED: Duration = Duration::from_secs(11);

/// Purchases of all jobs that buy their places.
#[derive(Debug, Default)]
pub struct Payments {
    jobs: BTreeMap<JobId, Deals>,
    settlements: Settlements,
    acts: Vec<Act>,
}

/// A thing that others are to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// Write this row; nobody waits for it.
    Write(Write),
    /// Have the bank pay for so much of a place, and of space for checkpoints. Answered by [`Payments::settled`].
    Settle(Sale, Order),
}

/// A place that was bought for a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sold {
    pub seller: Address,
    /// Seller of the space for the unit's checkpoints, if anybody sold some.
    pub keeper: Option<Address>,
}

/// Most bytes that a unit's checkpoints take, and how often it is to have one; `None` if it is to have none. A
/// snapshot holds no more than the unit's memory; with its base it may be twice that, and its keeper sees
/// whether it has room.
fn space_for(template: &Template) -> Option<(u64, Duration)> {
    Some((template.limits.memory_bytes.max(Market::LEAST), template.checkpoint.duration()?))
}

/// The fuel that the unit had used at its newest checkpoint, if it has one.
fn began(records: &BTreeMap<u32, Box<UnitRecord>>, index: u32) -> Option<u64> {
    let newest = records.get(&index)?.newest.as_ref()?;
    Some(newest.checkpoint.snapshot.fuel)
}

impl Payments {
    /// A job that may buy its places.
    pub fn begin(&mut self, job: JobId, spec: &JobSpec) {
        self.jobs.extend(Deals::of(spec).map(|deals| (job, deals)));
    }

    pub fn forget(&mut self, job: JobId) {
        self.jobs.remove(&job);
    }

    /// Purchases of the job, if it buys its places.
    pub fn of(&self, job: JobId) -> Option<&Deals> {
        self.jobs.get(&job)
    }

    /// Returns what others are to do since the last call, in order.
    pub fn acts(&mut self) -> Vec<Act> {
        std::mem::take(&mut self.acts)
    }

    fn deal(&self, unit: UnitId) -> Option<&Deal> {
        self.jobs.get(&unit.job)?.by_unit.get(&unit.index)
    }

    fn deal_mut(&mut self, unit: UnitId) -> Option<&mut Deal> {
        self.jobs.get_mut(&unit.job)?.by_unit.get_mut(&unit.index)
    }

    /// Places to buy for the job's waiting units: as many at once as it can pay whatever they cost. No other
    /// place is sought for these units. None while others are being bought, or too soon after the last.
    pub fn wish(
        &mut self,
        id: JobId,
        spec: &JobSpec,
        records: &BTreeMap<u32, Box<UnitRecord>>,
        book: &mut Book,
        now: Time,
    ) -> Option<Purchase> {
        let find = spec.find.terms()?;
        let deals = self.jobs.get_mut(&id).filter(|d| d.buying.is_empty() && d.not_before <= now)?;
        (deals.not_before, deals.named) = (now + AGAIN, false);
        let mut sales = Vec::new();
        let (mut fuel, mut most) = (spec.template.limits.fuel, Micro::ZERO);
        while let Some(index) = book.next_waiting(id) {
            let unit = UnitId { job: id, index };
            let deals = self.jobs.get_mut(&id)?;
            let known = deals.by_unit.get(&index);
            let has_place = known.is_some_and(|deal| deal.place.is_some());
            let began = began(records, index);
            let alone = has_place || began.is_some() || known.is_some_and(|deal| deal.before > Micro::ZERO);
            let full = sales.len() as u64 >= (deals.left().0 / find.max_price.0.max(1)).clamp(1, AT_ONCE);
            if full || (alone && !sales.is_empty()) {
                break;
            }
            if has_place {
                // The last runner is settled with first: then it is known what is left.
                let spans = records.get(&index).map_or(&[][..], |record| &record.journey.spans);
                self.settle_now(unit, spans);
                continue;
            }
            let before = known.map_or(Micro::ZERO, |deal| deal.before);
            most = find.max_price.minus(before).unwrap_or_default().min(deals.left());
            fuel -= began.unwrap_or_default().min(fuel);
            let deal = deals.by_unit.entry(index).or_default();
            deal.sales += 1;
            sales.push(deal.sale(unit));
            deals.buying.insert(index);
            book.wait(unit);
            if alone {
                break;
            }
        }
        let (memory_bytes, min_speed) = (spec.template.limits.memory_bytes, find.min_speed);
        let checkpoints = space_for(&spec.template);
        (!sales.is_empty()).then_some(Purchase { sales, memory_bytes, min_speed, fuel, most, checkpoints })
    }

    /// A place was bought for a unit, or not. `stands`: how the unit stands, if its job is not over; `records`: of
    /// its job.
    ///
    /// # Errors
    /// [`Missed`] says why none was bought.
    pub fn bought(
        &mut self,
        bought: Bought,
        stands: Option<Unit>,
        records: &BTreeMap<u32, Box<UnitRecord>>,
        now: Time,
    ) -> Option<Result<Sold, Missed>> {
        let Bought { sale, place } = bought;
        if place.as_ref().is_err_and(|missed| missed.held) {
            self.give_back(sale);
        }
        let UnitId { job, index } = sale.unit;
        let deals = self.jobs.get_mut(&job);
        let is_wanted = deals.is_some_and(|deals| deals.buying.remove(&index));
        // An earlier runner of it may have been faster to come back.
        let waits = stands.filter(|unit| is_wanted && unit.state == State::Away);
        let (Some(unit), Some(deals)) = (waits, self.jobs.get_mut(&job)) else {
            if place.is_ok() {
                self.give_back(sale);
            }
            return None;
        };
        let PurchasedSlot { seller, term, fuel, held, receipt, storage } = match place {
            Ok(purchased) => purchased,
            Err(missed) => {
                if missed.named {
                    (deals.not_before, deals.named) = (now + NAMED, true);
                }
                return Some(Err(missed));
            }
        };
        deals.not_before = now;
        let keeper = storage.as_ref().and_then(|storage| storage.at).map(Address::from);
        let from = began(records, index).unwrap_or_default();
        deals.put(index, Place { term, held, from, fuel, used: None, receipt, storage });
        if let Some(deal) = deals.by_unit.get_mut(&index) {
            deal.attempts = unit.attempts + 1;
        }
        self.write(sale.unit);
        Some(Ok(Sold { seller, keeper }))
    }

    /// These have a checkpoint of the unit that was taken at `runner`.
    pub fn kept(
        &mut self,
        unit: UnitId,
        runner: NodeId,
        checkpoint: &Checkpoint,
        keepers: &[NodeId],
        now_ms: u64,
    ) {
        if let Some(deals) = self.jobs.get_mut(&unit.job) {
            deals.kept(unit.index, runner, checkpoint, keepers, now_ms);
        }
    }

    /// Keeper that has sold space for the unit's checkpoints, together with the unit's place at `runner`.
    pub fn keeper(&self, unit: UnitId, runner: NodeId) -> Option<Address> {
        self.of(unit.job)?.keeper(unit.index, runner)
    }

    /// Writes the cost of the unit's places into the report of its end.
    pub fn price(&mut self, report: &mut Report) {
        let Some(deal) = self.deal_mut(report.unit) else { return };
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

    /// Row for the commit of the unit's result, or of the record of a checkpoint.
    pub fn row(&self, unit: UnitId) -> Option<Write> {
        self.deal(unit).map(|deal| Deal::write(unit, Some(deal)))
    }

    /// Row of the pay of the unit's keeper, for the commit of the checkpoint's record that proves it: a later
    /// life goes on from there.
    pub fn storage_row(&self, unit: UnitId) -> Option<Write> {
        self.of(unit.job)?.is_kept(unit.index).then(|| self.row(unit))?
    }

    /// Its result could not be written down: as if it had not come.
    pub fn not_priced(&mut self, unit: UnitId) {
        if let Some(place) = self.deal_mut(unit).and_then(|deal| deal.place.as_mut()) {
            place.used = None;
        }
    }

    /// The result is durable, and names what was paid for all places of the unit.
    pub fn count(&mut self, job: JobId, paid: Micro) {
        if let Some(deals) = self.jobs.get_mut(&job) {
            deals.pay(paid);
        }
    }

    /// When the job may buy, unless it is buying.
    pub fn asks_at(&self, job: JobId) -> Option<Time> {
        self.of(job).filter(|deals| deals.buying.is_empty()).map(|deals| deals.not_before)
    }

    /// The result is durable, and counted: the place is free.
    pub fn settle_result(&mut self, unit: UnitId, now: Time) {
        let Some(deals) = self.jobs.get_mut(&unit.job) else { return };
        if !deals.named {
            deals.not_before = deals.not_before.min(now + FREED);
        }
        // The result includes what was paid before.
        let before = deals.by_unit.get(&unit.index).map_or(Micro::ZERO, |deal| deal.before);
        deals.paid = deals.paid.minus(before).unwrap_or_default();
        let place = deals.take(unit.index);
        let sale = deals.by_unit.remove(&unit.index).map(|deal| deal.sale(unit));
        match (sale, place.and_then(|place| Some(place.legs(place.used?)))) {
            (Some(sale), Some(used)) => self.settle(sale, used),
            (Some(_), None) => self.acts.push(Act::Write(Deal::write(unit, None))),
            (None, _) => {}
        }
    }

    /// The unit, which has come so far, will not go on there: its seller gets what is its own, and the rest comes
    /// back.
    fn settle_now(&mut self, unit: UnitId, spans: &[Span]) {
        let Some(deal) = self.deal_mut(unit) else { return };
        let sale = deal.sale(unit);
        let Some(place) = &mut deal.place else { return };
        let used = place.used(spans);
        let (paid, legs) = (place.cost(used), place.legs(used));
        deal.before = deal.before.plus(paid).unwrap_or(Micro::MAX);
        place.used = Some(used);
        self.count(unit.job, paid);
        // The next life has to know it, too.
        self.write(unit);
        if let Some(deals) = self.jobs.get_mut(&unit.job) {
            deals.take(unit.index);
        }
        self.settle(sale, legs);
    }

    /// All that a job has not settled, which is over.
    pub fn settle_all(&mut self, id: JobId, records: &BTreeMap<u32, Box<UnitRecord>>) {
        let Some(deals) = self.jobs.get(&id) else { return };
        let units: Vec<u32> = deals.by_unit.keys().copied().collect();
        for index in units {
            let spans = records.get(&index).map_or(&[][..], |record| &record.journey.spans);
            self.settle_now(UnitId { job: id, index }, spans);
            if let Some(deals) = self.jobs.get_mut(&id) {
                deals.by_unit.remove(&index);
            }
        }
    }

    fn settle(&mut self, sale: Sale, used: Vec<u64>) {
        self.acts.extend(self.settlements.begin(sale, used).map(|order| Act::Settle(sale, order)));
    }

    fn give_back(&mut self, sale: Sale) {
        self.settle(sale, Vec::new());
    }

    /// The bank has done so, or not yet, or never will.
    pub fn settled(&mut self, sale: Sale, outcome: Outcome) -> Settled {
        let settled = self.settlements.answered(sale, outcome);
        match self.deal(sale.unit) {
            _ if settled == Settled::Later => {}
            None => self.acts.push(Act::Write(Deal::write(sale.unit, None))),
            // It is not to be settled in the next life again.
            Some(deal) if deal.place.is_none() => self.write(sale.unit),
            Some(_) => {}
        }
        settled
    }

    /// Those for which too much waited at the bank are ordered again.
    pub fn again(&mut self) {
        self.acts.extend(self.settlements.again().into_iter().map(|(sale, order)| Act::Settle(sale, order)));
    }

    fn write(&mut self, unit: UnitId) {
        self.acts.extend(self.row(unit).map(Act::Write));
    }

    /// Gives back holds of an earlier life whose purchase had not been completed. Completed purchases are
    /// written down.
    pub fn bank_holds(&mut self, held: Vec<Holding>) {
        let bought = |sale: Sale| {
            let deal = self.deal(sale.unit);
            deal.is_some_and(|deal| deal.place.is_some() && deal.sale(sale.unit) == sale)
        };
        let unknown = self.settlements.unknown(&held, bought);
        unknown.into_iter().for_each(|sale| self.give_back(sale));
    }

    /// A row of an earlier life. `ended`: the unit had. Returns how often the unit had been placed, and whether it
    /// has likely gone on at its runner.
    pub fn restore(&mut self, unit: UnitId, mut deal: Deal, ended: bool) -> Option<(u32, bool)> {
        let deals = self.jobs.get_mut(&unit.job)?;
        if !ended {
            deals.pay(deal.before);
        }
        let (attempts, place) = (deal.attempts, deal.place.take());
        let runs = place.as_ref().is_some_and(|place| place.used.is_none());
        deals.by_unit.insert(unit.index, deal);
        if let Some(place) = place {
            deals.put(unit.index, place);
        }
        Some((attempts, runs))
    }

    /// All has been read: what had ended before is settled. `is_over`: whether a unit has ended, or its job.
    pub fn settle_ended(&mut self, is_over: impl Fn(UnitId) -> bool) {
        let mut ended = Vec::new();
        for (job, deals) in &self.jobs {
            for (index, deal) in &deals.by_unit {
                let unit = UnitId { job: *job, index: *index };
                let used = deal.place.as_ref().and_then(|place| Some(place.legs(place.used?)));
                let over = is_over(unit);
                if over || used.is_some() {
                    ended.push((unit, deal.sale(unit), used, over));
                }
            }
        }
        for (unit, sale, used, over) in ended {
            if let Some(deals) = self.jobs.get_mut(&unit.job) {
                deals.take(unit.index);
                if over {
                    deals.by_unit.remove(&unit.index);
                }
            }
            self.settle(sale, used.unwrap_or_default());
        }
    }
}
