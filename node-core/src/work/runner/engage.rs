//! For whom this node works: where a finder of the whole swarm leads to it, only owners that it
//! led here are offered room, so that one slot is not promised twice.

use super::declined::Declined;
use super::owners::OwnerState;
use super::{Event, Runner, Timer};
use crate::contract::{Receipt, Sale};
use crate::ids::{NodeId, UnitId};
use crate::money::Price;
use crate::protocol::Cx;
use crate::time::Time;
use crate::work::message::{Batch, UnitGrant};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// An owner whose units have all ended here may send more for so long. Our choice: the pause
/// between two jobs of a script; afterwards it finds this node again, or another.
const LINGER: Duration = Duration::from_secs(1);

/// Owners that may have reserved slots at once. Our choice: more than a node has slots; one more is turned away by its first grant.
const OWNERS: usize = 256;

/// How long what was bought is kept for its buyer. Our choice: a dial and a grant on a slow line.
const SOLD: Duration = Duration::from_secs(10);

/// Places of one owner that are kept; more are sold all the same. Our choice: what it buys at once.
const PLACES: usize = 128;

/// Sales that are remembered, so that a receipt counts once. Our choice: more than one owner buys within
/// minutes.
const USED: usize = 1024;

/// Slots, how many of them are busy for whom, and how many are kept for a scarce job.
#[derive(Clone, Debug, PartialEq)]
struct Load {
    slots: u32,
    busy: Vec<(NodeId, u32)>,
    room: u32,
}

#[derive(Debug, Default)]
pub(super) struct Engaged {
    pub(super) findable: bool,
    /// Slots that were found, and until when they are held for whom.
    reserved: BTreeMap<NodeId, (u32, Time)>,
    /// Until when a slot is kept for a scarce job.
    pub(super) room: Option<Time>,
    /// Slots that count as busy without a unit (experiments).
    occupied: BTreeMap<NodeId, u32>,
    /// The bank whose receipts count; `None`: this swarm has no bank that is known.
    pub(super) bank: Option<NodeId>,
    /// Places sold, by buyer, for which no unit has come: the price, and until when each is kept.
    sold: BTreeMap<NodeId, VecDeque<(Price, Time)>>,
    /// Sales for which a unit has come.
    used: VecDeque<(NodeId, Sale)>,
    /// A unit that is paid for has ended since its slot was told of.
    pub(super) paid_ended: bool,
    /// Load that was last announced. `spare`: free slots last announced.
    told: Option<Load>,
    spare: Option<u32>,
}

impl Engaged {
    pub(super) fn occupy(&mut self, owner: NodeId, slots: u32) {
        if slots == 0 {
            self.occupied.remove(&owner);
        } else if self.occupied.len() < OWNERS {
            self.occupied.insert(owner, slots);
        }
    }

    /// Whether the owner is given credit.
    pub(super) fn takes(&self, owner: NodeId, owner_state: &OwnerState, (me, now): (NodeId, Time)) -> bool {
        let comes = self.reserved.contains_key(&owner) || self.sold.contains_key(&owner);
        !self.findable || owner == me || owner_state.units > 0 || now < owner_state.lingers || comes
    }

    pub(super) fn new(bank: Option<NodeId>) -> Engaged {
        Engaged { bank, ..Engaged::default() }
    }

    /// At which price a unit's place was sold, as its owner says and the bank has signed. Whoever says
    /// that it pays, and has put nothing aside, gets nothing.
    fn price(
        &self,
        owner: NodeId,
        unit: UnitId,
        grant: &UnitGrant,
        fuel: u64,
        (me, now): (NodeId, Time),
    ) -> Result<Price, Declined> {
        let said = grant.price;
        let sold = || self.sold.get(&owner).into_iter().flatten().filter(|(_, until)| *until > now);
        let other = sold().next().is_some() && sold().all(|(price, _)| *price != said);
        let Some(bank) = self.bank.filter(|_| owner != me) else {
            return Ok(if self.has_sold(owner, said) || owner == me { said } else { Price(0) });
        };
        let fuel = fuel.saturating_sub(grant.resume.as_ref().map_or(0, |from| from.checkpoint.snapshot.fuel));
        let receipt = grant.receipt.as_ref().and_then(|signed| Receipt::open(signed, bank));
        let fits = |it: &Receipt| {
            (it.owner, it.sale.unit, it.to, it.price) == (owner, unit, me, said) && it.fuel >= fuel
        };
        match receipt {
            None => Err(Declined::NoReceipt),
            Some(receipt) if !fits(&receipt) => Err(Declined::OtherReceipt),
            Some(receipt) if self.used.contains(&(owner, receipt.sale)) => Err(Declined::UsedReceipt),
            Some(_) if other => Err(Declined::Price),
            Some(_) => Ok(said),
        }
    }

    fn has_sold(&self, owner: NodeId, price: Price) -> bool {
        self.sold.get(&owner).is_some_and(|places| places.iter().any(|(at, _)| *at == price))
    }

    /// Whether a slot is kept for a scarce job that somebody is to claim.
    pub(super) fn has_room(&self, now: Time) -> bool {
        self.room.is_some_and(|until| until > now)
    }

    /// Slots of `room` that are not kept for other owners.
    pub(super) fn left_for(&self, owner: NodeId, room: u32, now: Time) -> u32 {
        let others = self.reserved.iter().filter(|(of, (_, until))| **of != owner && *until > now);
        let sold = self.sold.keys().filter(|of| **of != owner).map(|of| self.kept(*of, now));
        let others = others.map(|(_, (slots, _))| slots).sum::<u32>() + sold.sum::<u32>();
        room.saturating_sub(others + u32::from(self.has_room(now)))
    }

    /// Places that the owner has bought, and that are kept for it.
    fn kept(&self, owner: NodeId, now: Time) -> u32 {
        let places = self.sold.get(&owner).into_iter().flatten();
        places.filter(|(_, until)| *until > now).count() as u32
    }
}

impl Runner {
    pub(super) fn reserved(&mut self, owner: NodeId, slots: u32, until: Time, cx: &mut Cx<'_, Self>) {
        if self.engaged.reserved.len() >= OWNERS && !self.engaged.reserved.contains_key(&owner) {
            return;
        }
        let now = cx.now;
        let kept = self.engaged.reserved.entry(owner).or_insert((0, until));
        let earlier = if kept.1 > now { kept.0 } else { 0 };
        *kept = (earlier.saturating_add(slots), kept.1.max(until));
        cx.set_timer(Timer::Disengage(owner), until.since(cx.now) + LINGER);
    }

    /// An owner has bought so many slots.
    pub(super) fn sold(&mut self, owner: NodeId, slots: u32, price: Price, cx: &mut Cx<'_, Self>) {
        let sold = &mut self.engaged.sold;
        sold.values_mut().for_each(|places| places.retain(|(_, until)| *until > cx.now));
        sold.retain(|_, places| !places.is_empty());
        if sold.len() >= OWNERS && !sold.contains_key(&owner) {
            return;
        }
        let places = sold.entry(owner).or_default();
        let room = PLACES.saturating_sub(places.len()).min(slots as usize);
        places.extend(std::iter::repeat_n((price, cx.now + SOLD), room));
        cx.set_timer_by(Timer::Disengage(owner), SOLD + LINGER);
    }

    /// At which price the units of a batch are run here, the least of all; or why they are not.
    pub(super) fn price_of(
        &self,
        owner: NodeId,
        batch: &Batch,
        cx: &Cx<'_, Self>,
    ) -> Result<Price, Declined> {
        let fuel = batch.template.limits.fuel;
        let price = |grant: &UnitGrant| {
            let unit = UnitId { job: batch.job, index: grant.index };
            match self.units.get(&unit) {
                // It has come before.
                Some(known) if known.owner == owner => Ok(known.price),
                _ => self.engaged.price(owner, unit, grant, fuel, (cx.me, cx.now)),
            }
        };
        let paid = batch.units.iter().filter(|grant| grant.price > Price(0));
        let prices = paid.map(price).collect::<Result<Vec<_>, _>>()?;
        let gifts = prices.len() < batch.units.len();
        Ok(prices.into_iter().min().filter(|_| !gifts).unwrap_or_default())
    }

    /// The unit has come for which a place was sold, at this price.
    pub(super) fn use_up(&mut self, owner: NodeId, grant: &UnitGrant, me: NodeId) -> Price {
        let engaged = &mut self.engaged;
        let price = grant.price;
        if price == Price(0) || (engaged.bank.is_none() && owner != me && !engaged.has_sold(owner, price)) {
            return Price(0);
        }
        if let Some(places) = engaged.sold.get_mut(&owner)
            && let Some(at) = places.iter().position(|(at, _)| *at == price)
        {
            places.remove(at);
        }
        engaged.sold.retain(|_, places| !places.is_empty());
        let signed = grant.receipt.as_ref().zip(engaged.bank);
        if let Some(receipt) = signed.and_then(|(signed, bank)| Receipt::open(signed, bank)) {
            if engaged.used.len() >= USED {
                engaged.used.pop_front();
            }
            engaged.used.push_back((owner, receipt.sale));
        }
        price
    }

    /// Time to see whether the owner still has work here.
    pub(super) fn disengage(&mut self, owner: NodeId, cx: &mut Cx<'_, Self>) {
        let owner_state = self.owners.get(&owner);
        let works =
            owner_state.is_some_and(|owner_state| owner_state.units > 0 || cx.now < owner_state.lingers);
        let engaged = &mut self.engaged;
        let reserved = engaged.reserved.get(&owner).is_some_and(|(_, until)| *until > cx.now);
        if works || reserved || engaged.kept(owner, cx.now) > 0 {
            cx.set_timer(Timer::Disengage(owner), LINGER);
        } else {
            engaged.reserved.remove(&owner);
            engaged.sold.remove(&owner);
        }
    }

    /// So many units of the owner have come: what was reserved for them is theirs, and counts as busy.
    pub(super) fn arrived(&mut self, owner: NodeId, units: usize) {
        self.released(owner, u32::try_from(units).unwrap_or(u32::MAX));
    }

    /// It has found other slots.
    pub(super) fn released(&mut self, owner: NodeId, slots: u32) {
        let reserved = &mut self.engaged.reserved;
        if let Some((kept, _)) = reserved.get_mut(&owner) {
            *kept = kept.saturating_sub(slots);
            reserved.retain(|_, (kept, _)| *kept > 0);
        }
    }

    /// The last unit of this owner here has gone: more may come at once.
    pub(super) fn linger(&mut self, owner: NodeId, cx: &mut Cx<'_, Self>) {
        if self.engaged.findable
            && let Some(owner_state) = self.owners.get_mut(&owner)
        {
            owner_state.lingers = cx.now + LINGER;
            cx.set_timer_by(Timer::Disengage(owner), LINGER);
        }
    }

    /// Tells the finder, if it is news.
    pub(super) fn tell_load(&mut self, cx: &mut Cx<'_, Self>) {
        let slots = if self.is_closed() { 0 } else { self.slots };
        let mut busy = Vec::new();
        // A full runner takes nothing before its results are acknowledged.
        let full = self.units.len() >= self.config.limits.held_units as usize;
        for (owner, owner_state) in &self.owners {
            let wanted =
                if full { owner_state.units - owner_state.suspended } else { owner_state.unfinished() };
            let units = wanted.min(slots);
            if units > 0 {
                busy.push((*owner, units));
            }
        }
        for (owner, occupied) in &self.engaged.occupied {
            match busy.iter_mut().find(|(busy, _)| busy == owner) {
                Some((_, units)) => *units = units.saturating_add(*occupied).min(slots),
                None => busy.push((*owner, (*occupied).min(slots))),
            }
        }
        // Slots reserved for an owner count as taken until its units come.
        let mut taken: BTreeMap<NodeId, u32> = busy.iter().copied().collect();
        for (owner, (reserved, until)) in &self.engaged.reserved {
            let its = taken.entry(*owner).or_default();
            if *until > cx.now {
                *its = its.saturating_add(*reserved);
            }
        }
        for owner in self.engaged.sold.keys() {
            *taken.entry(*owner).or_default() += self.engaged.kept(*owner, cx.now);
        }
        let room = u32::from(self.engaged.has_room(cx.now));
        let taken = taken.values().fold(room, |sum, slots| sum.saturating_add(*slots));
        // Gifts fill the slots that are kept for them first. Slots that gifts take beyond those are for sale,
        // if they are free again soon: paid work goes first then.
        let gifts: u32 = self
            .owners
            .values()
            .map(|owner_state| owner_state.gifts.min(owner_state.unfinished()).min(slots))
            .sum();
        let kept = self.terms.kept_for_gifts(slots);
        let yields = if self.pace.is_quick() { gifts.saturating_sub(kept) } else { 0 };
        let spare = (slots + yields).saturating_sub(taken.saturating_add(kept.saturating_sub(gifts)));
        let spare = spare.min(slots);
        let before = self.engaged.spare.replace(spare);
        if before != Some(spare) {
            let more = before.is_some_and(|before| spare > before);
            let at_once = more && std::mem::take(&mut self.engaged.paid_ended);
            cx.emit(Event::Spare { slots: spare, at_once });
        }
        // A finder that nothing is paid through leads nobody here who would be sent away.
        let slots = if self.terms.takes_gifts() { slots } else { 0 };
        let load = Load { slots, busy, room };
        if self.engaged.told.as_ref() != Some(&load) {
            let Load { slots, busy, room } = load.clone();
            self.engaged.told = Some(load);
            cx.emit(Event::Load { slots, busy, room });
        }
    }
}
