//! For whom this node works: where a finder of the whole swarm leads to it, only owners that it
//! led here are offered room, so that one slot is not promised twice.

use super::{Event, Runner, Timer};
use crate::ids::NodeId;
use crate::market::money::Price;
use crate::protocol::Cx;
use crate::time::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// An owner whose units have all ended here may send more for so long. Our choice: the pause
/// between two jobs of a script; afterwards it finds this node again, or another.
const LINGER: Duration = Duration::from_secs(1);

/// Owners that may have reserved slots at once; one more is turned away by its first grant.
const OWNERS: usize = 256;

/// How long what was bought is kept for its buyer. Our choice: a dial and a grant on a slow line.
const SOLD: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(super) struct Engaged {
    pub(super) findable: bool,
    /// Slots that were found, and until when they are held for whom.
    reserved: BTreeMap<NodeId, (u32, Time)>,
    /// Slots that count as busy without a unit (experiments).
    occupied: BTreeMap<NodeId, u32>,
    /// At which price each owner bought last.
    bought: BTreeMap<NodeId, Price>,
    /// What was last told of the load, and of what is free.
    told: Option<(u32, Vec<(NodeId, u32)>)>,
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

    /// Whether the owner is offered room.
    pub(super) fn takes(&self, owner: NodeId, me: NodeId, units: u32) -> bool {
        !self.findable || owner == me || units > 0 || self.reserved.contains_key(&owner)
    }

    /// At which price the owner has bought, if it says that it has: no more than it paid.
    pub(super) fn price(&self, owner: NodeId, said: Price) -> Price {
        self.bought.get(&owner).map_or(Price(0), |price| said.min(*price))
    }

    /// What of `room` is not reserved for others.
    pub(super) fn left_for(&self, owner: NodeId, room: u32, now: Time) -> u32 {
        let others = self.reserved.iter().filter(|(of, (_, until))| **of != owner && *until > now);
        room.saturating_sub(others.map(|(_, (slots, _))| slots).sum())
    }
}

impl Runner {
    pub(super) fn reserved(&mut self, owner: NodeId, slots: u32, until: Time, cx: &mut Cx<'_, Self>) {
        if self.engaged.reserved.len() >= OWNERS && !self.engaged.reserved.contains_key(&owner) {
            return;
        }
        self.engaged.reserved.insert(owner, (slots, until));
        cx.set_timer(Timer::Disengage(owner), until.since(cx.now) + LINGER);
    }

    /// An owner has bought so many slots.
    pub(super) fn sold(&mut self, owner: NodeId, slots: u32, price: Price, cx: &mut Cx<'_, Self>) {
        let bought = &mut self.engaged.bought;
        if bought.len() >= OWNERS && !bought.contains_key(&owner) {
            // Who has nothing here any more can be forgotten.
            bought.retain(|owner, _| self.owners.get(owner).is_some_and(|ledger| ledger.units > 0));
        }
        if bought.len() < OWNERS {
            bought.insert(owner, price);
        }
        let kept = self.engaged.reserved.get(&owner).filter(|(_, until)| *until > cx.now);
        let busy = self.owners.get(&owner).map_or(0, |ledger| ledger.busy());
        let slots = slots + kept.map_or(busy, |(slots, _)| *slots);
        self.reserved(owner, slots, cx.now + SOLD, cx);
    }

    /// Time to see whether the owner still has work here.
    pub(super) fn disengage(&mut self, owner: NodeId, cx: &mut Cx<'_, Self>) {
        if self.owners.get(&owner).is_some_and(|ledger| ledger.units > 0) {
            cx.set_timer(Timer::Disengage(owner), LINGER);
        } else {
            self.engaged.reserved.remove(&owner);
        }
    }

    /// Tells the finder, if it is news.
    pub(super) fn tell_load(&mut self, cx: &mut Cx<'_, Self>) {
        let slots = if self.is_closed() { 0 } else { self.slots };
        let mut busy = Vec::new();
        for (owner, ledger) in &self.owners {
            let units = ledger.busy().min(slots);
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
        // What is reserved is an owner's, and so is what it has begun to use of it.
        let mut taken: BTreeMap<NodeId, u32> = busy.iter().copied().collect();
        for (owner, (reserved, until)) in &self.engaged.reserved {
            let its = taken.entry(*owner).or_default();
            if *until > cx.now {
                *its = (*its).max(*reserved);
            }
        }
        let spare = slots.saturating_sub(taken.values().fold(0u32, |sum, slots| sum.saturating_add(*slots)));
        if self.engaged.spare.replace(spare) != Some(spare) {
            cx.emit(Event::Spare(spare));
        }
        // A finder that nothing is paid through leads nobody here who would be sent away.
        let slots = if self.terms.takes_gifts() { slots } else { 0 };
        let load = Some((slots, busy));
        if load != self.engaged.told {
            self.engaged.told.clone_from(&load);
            if let Some((slots, busy)) = load {
                cx.emit(Event::Load { slots, busy });
            }
        }
    }
}
