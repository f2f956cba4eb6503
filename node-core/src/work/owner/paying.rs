//! Places that are bought for units, as the owner places what was bought, and has rows written and sales settled
//! (`work/payments`).

use super::{Event, Owner, Pending, Timer};
use crate::contract::{Holding, Outcome};
use crate::finding::Bought;
use crate::ids::{JobId, UnitId};
use crate::protocol::Cx;
use crate::work::book::State;
use crate::work::payments::{Act, Deal, Settled};
use crate::work::rows;
use bytes::Bytes;
use std::time::Duration;

/// Until settlements are ordered again for which too many orders waited. Our choice: the bank does
/// thousands in that time.
const FULL: Duration = Duration::from_secs(5);

impl Owner {
    /// Buys places for the job's waiting units.
    pub(super) fn buy(&mut self, id: JobId, cx: &mut Cx<'_, Self>) {
        let Some(job) = self.jobs.get(&id) else { return };
        let purchase = self.payments.wish(id, &job.spec, &job.records, &mut self.book, cx.now);
        if let Some(purchase) = purchase {
            cx.emit(Event::Purchase(purchase));
            self.touch(id, cx);
        }
    }

    /// A place was bought for a unit, or not.
    pub(super) fn bought(&mut self, bought: Bought, cx: &mut Cx<'_, Self>) {
        let unit = bought.sale.unit;
        let job = self.jobs.get_mut(&unit.job).filter(|job| job.is_active());
        let stands = self.book.unit(unit).filter(|_| job.is_some());
        let none = Default::default();
        let records = job.as_ref().map_or(&none, |job| &job.records);
        let Some(outcome) = self.payments.bought(bought, stands, records, cx.now) else { return };
        self.book.end_wait(unit);
        match outcome {
            Ok(sold) => {
                let seller = sold.seller.id;
                sold.keeper.into_iter().for_each(|keeper| cx.reach(keeper));
                self.book.place(unit, seller);
                cx.emit(Event::Placed { node: seller });
                if let Some(grant) = self.begin(unit, seller, cx) {
                    self.send_grant(seller, unit.job, vec![grant], cx);
                }
            }
            Err(why) => job.into_iter().for_each(|job| job.shortage = Some(why.why.clone())),
        }
        self.touch(unit.job, cx);
    }

    /// Has done what payments ask for.
    pub(super) fn act(&mut self, cx: &mut Cx<'_, Self>) {
        for act in self.payments.acts() {
            match act {
                Act::Write(write) => {
                    let ticket = self.ticket(Pending::Deal);
                    cx.emit(Event::Commit { ticket, writes: vec![write] });
                }
                Act::Settle(sale, used) => {
                    let order = sale.settle(&used);
                    let ticket = self.ticket(Pending::Settlement(sale, used));
                    cx.emit(Event::Settle { ticket, order });
                }
            }
        }
    }

    pub(super) fn settled(&mut self, ticket: u64, outcome: Outcome, cx: &mut Cx<'_, Self>) {
        let Some(Pending::Settlement(sale, used)) = self.pending.remove(&ticket) else { return };
        match self.payments.settled(sale, used, outcome) {
            Settled::Over => {}
            Settled::Later => cx.set_timer_by(Timer::Settle, FULL),
            Settled::Refused(refusal) => {
                cx.trouble(format!("the bank does not settle what was bought for {}: {refusal}", sale.unit));
            }
        }
    }

    /// Credit that the bank still holds for this node's sales.
    pub(super) fn bank_holds(&mut self, held: Vec<Holding>) {
        match self.ready {
            true => self.payments.bank_holds(held),
            // It is not known yet what was bought.
            false => self.bank_held.extend(held),
        }
    }

    pub(super) fn restore_deals(&mut self, entries: &[(Vec<u8>, Bytes)], cx: &mut Cx<'_, Self>) {
        for (key, value) in entries {
            let Some(unit) = rows::unit_of(key) else { continue };
            if self.payments.of(unit.job).is_none() {
                continue;
            }
            let Ok(deal) = rmp_serde::from_slice::<Deal>(value) else {
                cx.trouble(format!(
                    "what was bought for {unit} cannot be read; the bank gives it back after a while"
                ));
                continue;
            };
            let Some(stands) = self.book.unit(unit) else { continue };
            let Some((attempts, runs)) = self.payments.restore(unit, deal, stands.state.has_ended()) else {
                continue;
            };
            self.book.attempted(unit, attempts);
            if runs && self.state_of(unit) == Some(State::Waiting) {
                // Its runner has likely gone on, and will say so.
                self.wait_for(unit, self.config.timing.lease, cx);
            }
        }
    }

    /// All has been read: what had ended before is settled.
    pub(super) fn settle_ended(&mut self) {
        let (jobs, book) = (&self.jobs, &self.book);
        self.payments.settle_ended(|unit: UnitId| {
            let over = jobs.get(&unit.job).is_none_or(|job| !job.is_active());
            over || book.state(unit).is_some_and(State::has_ended)
        });
        let held = std::mem::take(&mut self.bank_held);
        self.payments.bank_holds(held);
    }
}
