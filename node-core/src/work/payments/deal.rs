//! Purchases for the units of one job, and what they may cost.

use crate::address::Address;
use crate::contract::{Sale, Term};
use crate::disk::{Table, Write};
use crate::finding::StorageLease;
use crate::goods::Kind;
use crate::ids::{NodeId, UnitId};
use crate::keys::Signed;
use crate::money::{Micro, Price};
use crate::progress::{Checkpoint, Span};
use crate::time::Time;
use crate::work::rows::{encode, unit_key};
use crate::work::spec::JobSpec;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Purchases of a job.
#[derive(Debug)]
pub struct Deals {
    /// The whole job may cost no more.
    pub most: Micro,
    /// For places that were settled.
    pub paid: Micro,
    /// Credit that the bank holds for places that are not settled.
    pub held: Micro,
    /// Places are being bought for these.
    pub(super) buying: BTreeSet<u32>,
    pub(super) by_unit: BTreeMap<u32, Deal>,
    /// Nothing is asked for before.
    pub(super) not_before: Time,
    /// A market has named a seller in vain, and names it to nobody until then.
    pub(super) named: bool,
}

/// Purchases of one unit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Deal {
    /// Paid for places that it had before.
    pub(super) before: Micro,
    /// Its sales so far; each has a number of its own at the bank, as long as there are any.
    pub(super) sales: u32,
    /// How often it had been placed, with the last one.
    pub(super) attempts: u32,
    /// Its place, until that is settled.
    pub(super) place: Option<Place>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Place {
    pub(super) term: Term,
    pub(super) held: Micro,
    /// The fuel that the unit had used when it was bought, and how much more it may.
    pub(super) from: u64,
    pub(super) fuel: u64,
    /// How much was used of it, once that is known: it is to be settled.
    pub(super) used: Option<u64>,
    /// Receipt of the bank for the seller.
    #[serde(default)]
    pub(super) receipt: Option<Signed>,
    /// Space for its checkpoints: the hold's second term.
    #[serde(default)]
    pub(super) storage: Option<Box<StorageLease>>,
}

impl Place {
    /// Fuel by which the seller brought on a unit with these spans.
    pub(super) fn used(&self, spans: &[Span]) -> u64 {
        let its = spans.iter().filter(|span| span.runner == self.term.to);
        let used = its.map(|span| span.to.saturating_sub(span.from.max(self.from)));
        used.fold(0u64, u64::saturating_add).min(self.fuel)
    }

    /// Quantities to pay for, in the order of the hold's payment legs.
    pub(super) fn legs(&self, used: u64) -> Vec<u64> {
        std::iter::once(used).chain(self.storage.iter().map(|storage| storage.space.used())).collect()
    }

    pub(super) fn cost(&self, used: u64) -> Micro {
        let space = self.storage.iter().map(|storage| storage.space.term.clone());
        let terms: Vec<Term> = std::iter::once(self.term.clone()).chain(space).collect();
        Term::cost_of(self.fuel, &terms, &self.legs(used)).unwrap_or_default()
    }
}

impl Deal {
    pub(super) fn sale(&self, unit: UnitId) -> Sale {
        Sale { unit, number: self.sales, kind: Kind::Cycles }
    }

    pub(super) fn write(unit: UnitId, deal: Option<&Deal>) -> Write {
        let key = unit_key(unit);
        Write { table: Table::Deals, key, value: deal.map(encode) }
    }
}

impl Deals {
    /// If the job buys its places.
    pub(super) fn of(spec: &JobSpec) -> Option<Deals> {
        let terms = spec.find.terms()?;
        let units = u128::from(terms.max_price.0) * u128::from(spec.units.count());
        let all = Micro(u64::try_from(units).unwrap_or(Micro::MAX.0).min(Micro::MAX.0));
        Some(Deals {
            most: terms.max_price_job.map_or(all, |most| most.min(all)),
            paid: Micro::ZERO,
            held: Micro::ZERO,
            buying: BTreeSet::new(),
            by_unit: BTreeMap::new(),
            not_before: Time::default(),
            named: false,
        })
    }

    pub fn is_buying(&self, index: u32) -> bool {
        self.buying.contains(&index)
    }

    /// At which this node has sold a place to the unit.
    pub fn price(&self, index: u32, seller: NodeId) -> Option<Price> {
        self.sold(index, seller).map(|place| place.term.price)
    }

    /// Receipt of the bank for that node.
    pub fn receipt(&self, index: u32, seller: NodeId) -> Option<&Signed> {
        self.sold(index, seller)?.receipt.as_ref()
    }

    pub(super) fn sold(&self, index: u32, seller: NodeId) -> Option<&Place> {
        self.by_unit.get(&index)?.place.as_ref().filter(|place| place.term.to == seller)
    }

    /// That of a place that is not to be settled yet.
    pub(super) fn storage_mut(&mut self, index: u32, seller: NodeId) -> Option<&mut StorageLease> {
        let place = self.by_unit.get_mut(&index)?.place.as_mut()?;
        (place.term.to == seller && place.used.is_none()).then_some(place.storage.as_deref_mut())?
    }

    /// Whether somebody is paid for the unit's checkpoints, and its place is not to be settled yet.
    pub fn is_kept(&self, index: u32) -> bool {
        let place = self.by_unit.get(&index).and_then(|deal| deal.place.as_ref());
        place.is_some_and(|place| place.used.is_none() && place.storage.is_some())
    }

    pub fn pay(&mut self, paid: Micro) {
        self.paid = self.paid.plus(paid).unwrap_or(Micro::MAX);
    }

    pub(super) fn left(&self) -> Micro {
        let bound = self.paid.plus(self.held).unwrap_or(Micro::MAX);
        self.most.minus(bound).unwrap_or_default()
    }

    pub(super) fn put(&mut self, index: u32, place: Place) {
        self.held = self.held.plus(place.held).unwrap_or(Micro::MAX);
        self.by_unit.entry(index).or_default().place = Some(place);
    }

    pub(super) fn take(&mut self, index: u32) -> Option<Place> {
        let place = self.by_unit.get_mut(&index)?.place.take()?;
        self.held = self.held.minus(place.held).unwrap_or_default();
        Some(place)
    }

    /// Keeper that has sold space for the unit's checkpoints, together with the unit's place at `runner`.
    pub fn keeper(&self, index: u32, runner: NodeId) -> Option<Address> {
        let at = self.sold(index, runner)?.storage.as_ref()?.at?;
        Some(at.into())
    }

    /// These have a checkpoint that was taken there.
    pub fn kept(
        &mut self,
        index: u32,
        runner: NodeId,
        checkpoint: &Checkpoint,
        keepers: &[NodeId],
        now_ms: u64,
    ) {
        let Some(StorageLease { space, at: Some(at) }) = self.storage_mut(index, runner) else { return };
        if keepers.contains(&at.id) {
            let bytes = checkpoint.parts().iter().map(|part| part.len).fold(0, u64::saturating_add);
            space.holds(bytes, now_ms);
        }
    }
}
