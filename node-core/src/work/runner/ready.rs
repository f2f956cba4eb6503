//! Units that can run, in the order in which they do: paid work first, and of that what pays more; but
//! while both wait, gifts have the share that the donor keeps for them.

use super::Runner;
use crate::engine::RunId;
use crate::ids::UnitId;
use crate::money::Price;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Time after which what was shared out counts half. Our choice: longer than most units, and short
/// enough that a donor sees a change of its policy.
const DAY_US: u64 = 24 * 3_600_000_000;

#[derive(Debug, Default)]
pub(super) struct Ready {
    /// In the order in which they became able to run; gifts at 0.
    by_price: BTreeMap<Price, VecDeque<UnitId>>,
    /// Time that each kind ran while the other waited, microseconds.
    gifts_us: u64,
    paid_us: u64,
    /// Runs that were chosen between the two; whether a gift.
    chosen: BTreeMap<RunId, bool>,
}

impl Ready {
    pub(super) fn push(&mut self, unit: UnitId, price: Price) {
        self.by_price.entry(price).or_default().push_back(unit);
    }

    pub(super) fn remove(&mut self, unit: UnitId, price: Price) {
        if let Some(queue) = self.by_price.get_mut(&price) {
            queue.retain(|ready| *ready != unit);
        }
        self.by_price.retain(|_, queue| !queue.is_empty());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_price.is_empty()
    }

    pub(super) fn all(&self) -> Vec<UnitId> {
        self.by_price.values().rev().flatten().copied().collect()
    }

    /// Those that nobody pays for.
    pub(super) fn gifts(&self) -> impl Iterator<Item = UnitId> + '_ {
        self.by_price.get(&Price(0)).into_iter().flatten().copied()
    }

    /// The highest price, if gifts wait as well.
    fn contested(&self) -> Option<Price> {
        let (dearest, _) = self.by_price.last_key_value().filter(|(price, _)| **price > Price(0))?;
        self.by_price.contains_key(&Price(0)).then_some(*dearest)
    }

    fn pop(&mut self, gift: bool) -> Option<UnitId> {
        let mut queue = if gift { self.by_price.first_entry() } else { self.by_price.last_entry() }?;
        let unit = queue.get_mut().pop_front();
        if queue.get().is_empty() {
            queue.remove();
        }
        unit
    }

    /// Percent of the shared time that gifts have had.
    fn share_pct(&self) -> f64 {
        100.0 * self.gifts_us as f64 / (self.gifts_us + self.paid_us).max(1) as f64
    }

    /// A run has ended that took a slot for so long.
    pub(super) fn ended(&mut self, run: RunId, took: Duration) {
        let Some(gift) = self.chosen.remove(&run) else { return };
        let had = if gift { &mut self.gifts_us } else { &mut self.paid_us };
        *had = had.saturating_add(took.as_micros() as u64);
        if self.gifts_us.saturating_add(self.paid_us) > DAY_US {
            (self.gifts_us, self.paid_us) = (self.gifts_us / 2, self.paid_us / 2);
        }
    }
}

impl Runner {
    /// The unit that runs next, under this number.
    pub(super) fn next_ready(&mut self, run: RunId, depth: usize) -> Option<UnitId> {
        let Some(dearest) = self.ready.contested() else { return self.ready.pop(false) };
        let is_gift = |id: &&UnitId| self.units.get(*id).is_some_and(|unit| unit.price == Price(0));
        let gifts = self.runs.values().filter(is_gift).count() as u32;
        let gift = self.terms.gift_first(dearest, (gifts, depth as u32), self.ready.share_pct());
        // Those that ended without a result count for nothing.
        self.ready.chosen.retain(|run, _| self.runs.contains_key(run));
        self.ready.chosen.insert(run, gift);
        self.ready.pop(gift)
    }
}
