//! Space that is bought for files: what the bank holds for it, and what is paid in the end.
//!
//! One keeper of one file for a term is one sale. It is written down before the bank hears of it, so that
//! a later life knows of all that may be held; and how much of it is due is written down before it is
//! settled, so that it is settled alike however often owner or bank stop in between. Due is what the keeper
//! has proved ([`Space`]), and each proof is written down.
//!
//! The most that a file may cost holds for a *period*. All space that is bought in a period is bought until a
//! term after its beginning, so that the keepers there are and those that went share what one term of all
//! copies may cost. When a quarter of the term is left the next period begins, and counts anew.
//!
//! Table `Files`: content id and big-endian number of the sale → [`Row`].

use super::{Event, File, Ocx, Owner, TICK, Timer};
use crate::contract::{Bargain, Bargains, Holding, Outcome, Sale, Settled, Space, Step};
use crate::disk::{Table, Write};
use crate::goods::Kind;
use crate::goods::Offer;
use crate::ids::{BlobId, JobId, UnitId};
use crate::keys::Signed;
use crate::money::Micro;
use crate::time::Time;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Sales that are not settled; one more waits. Our choice: of each file that a node may own its usual
/// copies, twice.
const SALES: usize = 25_000;

/// How long the bank may take to put something aside; then somebody is asked to give the space. Our
/// choice: a restart.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
pub(super) struct Deals {
    by_sale: BTreeMap<Sale, Deal>,
    /// Each of one leg, for a search ([`super::place::Ask`]).
    bargains: Bargains<u64>,
    /// All that an earlier life bought has been read.
    ready: bool,
    /// Holds that the bank named before all rows were read.
    listed: Vec<Holding>,
}

#[derive(Debug)]
struct Deal {
    row: Row,
    held: Micro,
    dirty: bool,
    /// The last commit that has its row.
    ticket: u64,
    stage: Stage,
}

/// Row that is written for a sale.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Row {
    file: BlobId,
    space: Space,
    /// Beginning of the period in which it was bought, milliseconds since 1970.
    period_ms: u64,
    /// Its keeper had all of the file, and was paid for from then on.
    kept: bool,
    /// Byte-seconds to be paid, once it is over.
    used: Option<u64>,
}

#[derive(Debug)]
enum Stage {
    /// Not written down, or not put aside yet: for this search, until then.
    Buying(u64, Box<Offer>, Time),
    Open,
    /// Over. It is settled as soon as that is written down.
    Ended,
}

/// Cost of a file until now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Spent {
    /// In all.
    pub paid: Micro,
    /// When the period began, milliseconds since 1970, and what was paid of what was bought in it.
    period_ms: u64,
    in_period: Micro,
}

impl Deal {
    fn write(&self, sale: Sale) -> Write {
        // Plain data: rmp cannot fail on it.
        let value = rmp_serde::to_vec(&self.row).map(Bytes::from).ok();
        Write { table: Table::Files, key: key(self.row.file, sale), value }
    }

    fn is_over(&self) -> bool {
        self.row.used.is_some()
    }

    fn is_buying(&self) -> bool {
        matches!(self.stage, Stage::Buying(..))
    }
}

fn key(file: BlobId, sale: Sale) -> Vec<u8> {
    [&file.0[..], &sale.unit.index.to_be_bytes()].concat()
}

/// Space of one keeper: half of a content id tells files apart as well as all of it, and `index` is the number that the
/// owner chose.
pub(super) fn sale_of(file: BlobId, index: u32) -> Sale {
    let job = JobId(std::array::from_fn(|at| file.0[at]));
    Sale { unit: UnitId { job, index }, number: 0, kind: Kind::Files }
}

impl Deals {
    fn of(&self, file: BlobId) -> impl DoubleEndedIterator<Item = (&Sale, &Deal)> {
        self.by_sale.range(sale_of(file, 0)..=sale_of(file, u32::MAX))
    }

    /// Credit that the bank holds for a file: of one period, or in all.
    pub(super) fn held(&self, file: BlobId, period_ms: Option<u64>) -> Micro {
        let its = self.of(file).map(|(_, deal)| deal).filter(|deal| !deal.is_over());
        let its = its.filter(|deal| period_ms.is_none_or(|period| period == deal.row.period_ms));
        its.fold(Micro::ZERO, |sum, deal| sum.plus(deal.held).unwrap_or(Micro::MAX))
    }

    /// Credit due to a keeper by now, the market operator's part included.
    pub(super) fn due(&self, sale: Sale) -> Micro {
        let row = self.by_sale.get(&sale).map(|deal| &deal.row).filter(|row| row.kept);
        row.map_or(Micro::ZERO, |row| row.space.cost(row.space.used()))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_sale.is_empty() && self.bargains.is_empty()
    }

    pub(super) fn check(&self) {
        assert!(self.by_sale.len() <= SALES, "sales are bounded");
        self.bargains.check();
    }

    /// The rows of a file that have changed, as part of this commit.
    pub(super) fn take_writes(&mut self, file: BlobId, ticket: u64) -> Vec<Write> {
        let its = self.by_sale.range_mut(sale_of(file, 0)..=sale_of(file, u32::MAX));
        let dirty = its.filter(|(_, deal)| deal.dirty);
        let write = |(sale, deal): (&Sale, &mut Deal)| {
            (deal.dirty, deal.ticket) = (false, ticket);
            deal.write(*sale)
        };
        dirty.map(write).collect()
    }

    fn change(&mut self, sale: Sale) -> Option<&mut Row> {
        let deal = self.by_sale.get_mut(&sale).filter(|deal| !deal.is_over())?;
        deal.dirty = true;
        Some(&mut deal.row)
    }

    /// The keeper has all of it, as it says.
    pub(super) fn kept(&mut self, sale: Sale, now_ms: u64) {
        if let Some(row) = self.change(sale) {
            row.kept = true;
            row.space.begins(now_ms);
        }
    }

    pub(super) fn proved(&mut self, sale: Sale, now_ms: u64) {
        if let Some(row) = self.change(sale).filter(|row| row.kept) {
            row.space.proved(now_ms);
        }
    }

    /// Continues the sale `earlier` of a keeper with its next term.
    pub(super) fn follows(&mut self, next: Sale, earlier: Sale) {
        let earlier = self.by_sale.get(&earlier).filter(|deal| deal.row.kept && !deal.is_over());
        let Some(space) = earlier.map(|deal| deal.row.space.clone()) else { return };
        if let Some(row) = self.change(next) {
            row.kept = true;
            row.space.follows(&space);
        }
    }
}

impl Owner {
    /// Most that all copies of the file may cost for a term.
    pub(super) fn may_cost(&self, file: &File) -> Micro {
        let usual = || {
            let quantity = file.space().saturating_mul(self.config.term.as_secs());
            let copy = self.config.most.of(quantity).round_up().unwrap_or(Micro::MAX);
            Micro(copy.0.saturating_mul(file.record.copies.into()).min(Micro::MAX.0))
        };
        file.record.max_price.unwrap_or_else(usual)
    }

    /// For how long space is bought for the file now, and what of the price that it may have is left.
    pub(super) fn budget(&mut self, id: BlobId, now_ms: u64) -> Option<(Duration, Micro)> {
        let term = self.config.term.as_millis() as u64;
        let most = self.may_cost(self.files.get(&id)?);
        let spent = &mut self.files.get_mut(&id)?.record.spent;
        if now_ms >= spent.period_ms.saturating_add(term - term / 4) {
            (spent.period_ms, spent.in_period) = (now_ms, Micro::ZERO);
        }
        let (period, paid) = (spent.period_ms, spent.in_period);
        let bound = paid.plus(self.deals.held(id, Some(period))).unwrap_or(Micro::MAX);
        let rest = period.saturating_add(term).saturating_sub(now_ms);
        Some((Duration::from_millis(rest), most.minus(bound).unwrap_or_default()))
    }

    /// Why nothing can be bought for the file now.
    pub(super) fn cannot_buy(&self, id: BlobId) -> Option<&'static str> {
        if !self.deals.ready {
            return Some("what was bought before is not read yet");
        }
        if self.deals.of(id).any(|(_, deal)| deal.is_over()) {
            return Some("the bank has not settled yet what was bought before");
        }
        let full = self.deals.by_sale.len() + usize::from(self.config.copies) > SALES;
        full.then_some("space is bought for as many files as this node can look after")
    }

    /// A sale that is being made for this search. It is ordered at the bank when it is written down.
    pub(super) fn begin_deal(&mut self, id: BlobId, ask: u64, offer: Offer, space: Space, cx: &Ocx<'_>) {
        let (Some(held), Some(file)) = (space.held(), self.files.get(&id)) else { return };
        let period_ms = file.record.spent.period_ms;
        let last = self.deals.of(id).next_back().map_or(0, |(sale, _)| sale.unit.index);
        let row = Row { file: id, space, period_ms, kept: false, used: None };
        let stage = Stage::Buying(ask, Box::new(offer), cx.now + PATIENCE);
        let deal = Deal { row, held, dirty: true, ticket: 0, stage };
        // No name comes twice, also of a sale that is over and forgotten: a seller sells once for each.
        let seconds = u32::try_from(self.wall.now(cx.now) / 1000).unwrap_or(u32::MAX);
        self.deals.by_sale.insert(sale_of(id, last.saturating_add(1).max(seconds)), deal);
    }

    /// Writes down what has changed of a file's sales alone.
    pub(super) fn write_deals(&mut self, id: BlobId, cx: &mut Ocx<'_>) {
        let ticket = self.number();
        let writes = self.deals.take_writes(id, ticket);
        if !writes.is_empty() {
            cx.emit(Event::Commit { ticket, writes });
        }
    }

    /// A commit is durable, or has failed.
    pub(super) fn deals_written(&mut self, ticket: u64, durable: bool, cx: &mut Ocx<'_>) {
        let its = self.deals.by_sale.iter().filter(|(_, deal)| deal.ticket == ticket && ticket > 0);
        let sales: Vec<Sale> = its.map(|(sale, _)| *sale).collect();
        for sale in sales {
            let Some(deal) = self.deals.by_sale.get_mut(&sale) else { continue };
            deal.ticket = 0;
            match (&deal.stage, durable) {
                (Stage::Buying(ask, offer, _), true) => {
                    let order = deal.row.space.hold(sale, cx.me);
                    let ticket = self.deals.bargains.begin(sale, vec![**offer], *ask);
                    cx.emit(Event::Order { ticket, order });
                }
                (Stage::Buying(..), false) => self.not_bought(sale, "it cannot be written down", cx),
                (Stage::Ended, true) => self.settle(sale, cx),
                // At the next look.
                (_, false) => deal.dirty = true,
                (Stage::Open, true) => {}
            }
        }
    }

    fn settle(&mut self, sale: Sale, cx: &mut Ocx<'_>) {
        let Some(deal) = self.deals.by_sale.get(&sale) else { return };
        let used = vec![deal.row.used.unwrap_or_default()];
        if let Some((ticket, order)) = self.deals.bargains.settle(sale, used) {
            cx.emit(Event::Order { ticket, order });
        }
    }

    /// The bank has carried a settlement out, or never will; or it is ordered again at the next look.
    fn settled(&mut self, sale: Sale, settled: Settled, cx: &mut Ocx<'_>) {
        match settled {
            Settled::Later => return cx.set_timer_by(Timer::Tick, TICK),
            Settled::Over => {}
            Settled::Refused(refusal) => {
                let file = self.deals.by_sale.get(&sale).map(|deal| deal.row.file.to_string());
                let file = file.as_deref().unwrap_or("that this node does not own any more");
                cx.trouble(format!("the bank does not settle space for the file {file}: {refusal}"));
            }
        }
        self.forget(sale, cx);
    }

    /// The bank has answered.
    pub(super) fn ordered(
        &mut self,
        ticket: u64,
        outcome: Outcome,
        receipt: Option<Signed>,
        cx: &mut Ocx<'_>,
    ) {
        let step = self.deals.bargains.ordered(ticket, outcome, receipt);
        self.follow(step, cx);
    }

    /// The seller has sold it, or not.
    pub(super) fn taken(&mut self, number: u64, taken: bool, cx: &mut Ocx<'_>) {
        let step = self.deals.bargains.taken(number, taken);
        self.follow(step, cx);
    }

    fn follow(&mut self, step: Step<u64>, cx: &mut Ocx<'_>) {
        match step {
            Step::Take { takes, receipt } => {
                for (number, offer) in takes {
                    let (offer, receipt) = (Box::new(offer), receipt.clone());
                    cx.emit(Event::Take { number, offer, receipt });
                }
            }
            Step::NotHeld(sale, _, refusal) => {
                self.not_bought(sale, &format!("the bank puts nothing aside for it: {refusal}"), cx);
            }
            Step::NotSold(sale, _) => self.not_bought(sale, "it was just sold to somebody else", cx),
            Step::Made(sale, bargain) => self.made(sale, &bargain, cx),
            Step::Settled(sale, settled) => self.settled(sale, settled, cx),
            // It has one leg.
            Step::Waits(_) | Step::Nothing => {}
        }
    }

    fn forget(&mut self, sale: Sale, cx: &mut Ocx<'_>) {
        let Some(deal) = self.deals.by_sale.remove(&sale) else { return };
        let ticket = self.number();
        let row = Write { value: None, ..deal.write(sale) };
        cx.emit(Event::Commit { ticket, writes: vec![row] });
    }

    /// It is bought.
    fn made(&mut self, sale: Sale, bargain: &Bargain<u64>, cx: &mut Ocx<'_>) {
        let Some(deal) = self.deals.by_sale.get_mut(&sale).filter(|deal| deal.is_buying()) else { return };
        deal.stage = Stage::Open;
        let (file, period_ms) = (deal.row.file, deal.row.period_ms);
        let until_ms = period_ms.saturating_add(self.config.term.as_millis() as u64);
        for leg in &bargain.legs {
            // Only those that can be dialled were chosen.
            if let Some(keeper) = leg.offer.seller.contact() {
                self.engage(file, keeper, Some((sale, leg.offer.price)), until_ms, cx);
            }
        }
        self.one_less(bargain.purpose, None, cx);
    }

    /// Ends a failed purchase: credit that may be held for it comes back, and another keeper is asked.
    fn not_bought(&mut self, sale: Sale, why: &str, cx: &mut Ocx<'_>) {
        let stage = self.deals.by_sale.get(&sale).map(|deal| &deal.stage);
        let Some(Stage::Buying(ask, ..)) = stage else { return };
        let (ask, why) = (*ask, why.to_string());
        self.deals.bargains.end(sale);
        self.end_deal(sale);
        self.write_deals_of(sale, cx);
        self.one_less(ask, Some(why), cx);
    }

    fn write_deals_of(&mut self, sale: Sale, cx: &mut Ocx<'_>) {
        if let Some(file) = self.deals.by_sale.get(&sale).map(|deal| deal.row.file) {
            self.write_deals(file, cx);
        }
    }

    /// It is over, and what was proved is due. The caller writes it down with the file.
    pub(super) fn end_deal(&mut self, sale: Sale) {
        let Some(deal) = self.deals.by_sale.get_mut(&sale).filter(|deal| !deal.is_over()) else { return };
        let used = if deal.row.kept { deal.row.space.used() } else { 0 };
        let paid = deal.row.space.cost(used);
        deal.row.used = Some(used);
        (deal.dirty, deal.stage) = (true, Stage::Ended);
        if let Some(file) = self.files.get_mut(&deal.row.file) {
            file.record.spent.add(paid, deal.row.period_ms);
        }
    }

    /// All of a file that is removed.
    pub(super) fn end_deals(&mut self, id: BlobId, cx: &mut Ocx<'_>) {
        let sales: Vec<Sale> = self.deals.of(id).map(|(sale, _)| *sale).collect();
        sales.into_iter().for_each(|sale| self.end_deal(sale));
        self.write_deals(id, cx);
    }

    /// Now and then: what could not be written or ordered, and a bank that is silent.
    pub(super) fn look_at_deals(&mut self, cx: &mut Ocx<'_>) {
        let mut dirty: Vec<BlobId> = Vec::new();
        let mut late = Vec::new();
        for (sale, deal) in &self.deals.by_sale {
            if deal.dirty && deal.ticket == 0 && dirty.last() != Some(&deal.row.file) {
                dirty.push(deal.row.file);
            }
            let taking = || self.deals.bargains.is_held(*sale);
            if matches!(deal.stage, Stage::Buying(.., until) if until <= cx.now) && !taking() {
                late.push(*sale);
            }
        }
        dirty.into_iter().for_each(|file| self.write_deals(file, cx));
        late.into_iter().for_each(|sale| self.not_bought(sale, "the bank does not answer", cx));
        for (ticket, order) in self.deals.bargains.settle_again() {
            cx.emit(Event::Order { ticket, order });
        }
    }

    pub(super) fn restore_deal(&mut self, key: &[u8], value: &Bytes, cx: &mut Ocx<'_>) {
        let index = key.get(32..).and_then(|index| Some(u32::from_be_bytes(index.try_into().ok()?)));
        let row = sandbox::unpack::from_slice::<Row>(value).ok();
        let (Some(index), Some(row)) = (index, row.filter(|row| key.starts_with(&row.file.0))) else {
            return cx.trouble(
                "space that was bought for a file cannot be read; the bank gives it back after a while"
                    .into(),
            );
        };
        let held = row.space.held().unwrap_or_default();
        let deal = Deal { held, dirty: false, ticket: 0, stage: Stage::Open, row };
        self.deals.by_sale.insert(sale_of(deal.row.file, index), deal);
    }

    /// All has been read: what nobody keeps by it is over.
    pub(super) fn deals_restored(&mut self, cx: &mut Ocx<'_>) {
        self.deals.ready = true;
        let sales: Vec<Sale> = self.deals.by_sale.keys().copied().collect();
        for sale in sales {
            let Some(deal) = self.deals.by_sale.get(&sale) else { continue };
            let holders = self.files.get(&deal.row.file).into_iter().flat_map(|file| file.holders.values());
            if deal.is_over() {
                self.settle(sale, cx);
            } else if holders.into_iter().all(|holder| holder.sale != Some(sale)) {
                self.end_deal(sale);
                self.write_deals_of(sale, cx);
            }
        }
        let listed = std::mem::take(&mut self.deals.listed);
        self.give_back(&listed, cx);
    }

    /// Takes the bank's list of holds, which an earlier life ordered.
    pub(super) fn bank_holds(&mut self, held: Vec<Holding>, cx: &mut Ocx<'_>) {
        let files = held.into_iter().filter(|holding| holding.sale.kind == Kind::Files);
        match self.deals.ready {
            true => self.give_back(&files.collect::<Vec<_>>(), cx),
            false => self.deals.listed.extend(files),
        }
    }

    /// Has the holds returned in full whose sales are not known.
    fn give_back(&mut self, held: &[Holding], cx: &mut Ocx<'_>) {
        let is_known = |sale| self.deals.by_sale.contains_key(&sale);
        for sale in self.deals.bargains.settlements.unknown(held, is_known) {
            if let Some((ticket, order)) = self.deals.bargains.settle(sale, Vec::new()) {
                cx.emit(Event::Order { ticket, order });
            }
        }
    }
}

impl Spent {
    fn add(&mut self, paid: Micro, period_ms: u64) {
        self.paid = self.paid.plus(paid).unwrap_or(Micro::MAX);
        if period_ms == self.period_ms {
            self.in_period = self.in_period.plus(paid).unwrap_or(Micro::MAX);
        }
    }
}
