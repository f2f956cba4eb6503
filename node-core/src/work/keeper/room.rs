//! Room for checkpoints: what is given to whom, and what of it is for sale.

use super::{Keeper, OWNERS, Owner, PARTS, Timer};
use crate::ids::NodeId;
use crate::protocol::Cx;
use crate::work::keeper::Event;
use crate::work::message::Keep;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long space that was sold is kept free for its buyer. Our choice: four of the usual intervals. What
/// has come by then stays, and is what is paid for; what has not is seldom needed.
pub(super) const SOLD: Duration = Duration::from_secs(120);

/// Sales at a time for which space is kept free; meanwhile no more is for sale. Our choice: of the smallest
/// size all that a node gives by default would be 16 times as many.
pub(super) const SALES: usize = 1024;

/// The space for sale is announced in such parts of all that is given, so that not each checkpoint is news. Our
/// choice: by default a task's usual memory.
const PARTS_SOLD: u64 = 64;

/// The part of its room that a gateway keeps for units of its own. Our choice: a fourth; others have more keepers.
const OWN: u64 = 4;

/// Why a checkpoint is not kept. Its sender gets the words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotKept {
    #[error("this is no checkpoint")]
    Unreadable,
    #[error("it keeps checkpoints for {OWNERS} owners, its bound")]
    Owners,
    #[error("it keeps checkpoints of {0} units, its bound")]
    Units(usize),
    #[error("it keeps checkpoints of {0} units for one owner, its bound")]
    UnitsOfOwner(usize),
    #[error("it is larger than {0} bytes, which the unit's owner allows")]
    Large(u64),
    #[error("it keeps {taken} bytes of checkpoints and has room for {given}")]
    Full { taken: u64, given: u64 },
    #[error("it keeps {kept} bytes for this owner and gives each owner {given}")]
    FullOfOwner { kept: u64, given: u64 },
}

impl Keeper {
    /// Bytes that it gives to this owner and others together. What this node owns itself finds room in any case.
    fn given_to(&self, owner: Option<NodeId>, me: NodeId) -> u64 {
        let given = self.config.limits.kept_bytes;
        let is_owner = self.owners.get(&me).is_some_and(|own| own.connected);
        if is_owner && owner != Some(me) { given - given / OWN } else { given }
    }

    /// Bytes that are taken if this owner has `bytes`. Each other owner counts with the larger of two numbers:
    /// bytes kept for it, and bytes kept free for it.
    fn taken(&self, owner: Option<NodeId>, bytes: u64) -> u64 {
        let mut free: BTreeMap<NodeId, u64> = BTreeMap::new();
        for (buyer, bytes, _) in self.sold.iter().filter(|(buyer, ..)| Some(*buyer) != owner) {
            let its = free.entry(*buyer).or_default();
            *its = its.saturating_add(*bytes);
        }
        let had = |node: &NodeId| self.owners.get(node).map_or(0, |owner| owner.bytes);
        let free = free.iter().map(|(buyer, bytes)| bytes.saturating_sub(had(buyer)));
        let others = self.bytes - owner.map_or(0, |owner| had(&owner));
        free.fold(others.saturating_add(bytes), u64::saturating_add)
    }

    pub(super) fn sold_is_free(&mut self, cx: &mut Cx<'_, Self>) {
        while self.sold.front().is_some_and(|(.., until)| *until <= cx.now) {
            self.sold.pop_front();
        }
        if let Some((.., until)) = self.sold.front() {
            cx.set_timer(Timer::Sold, until.since(cx.now));
        }
    }

    /// Says what can be sold, when that has changed.
    pub(super) fn tell_room(&mut self, cx: &mut Cx<'_, Self>) {
        let given = self.given_to(None, cx.me);
        let part = (given / PARTS_SOLD).max(1);
        let can = self.sold.len() < SALES && self.units.len() < self.config.limits.kept_units;
        let room = match can {
            true => given.saturating_sub(self.taken(None, 0)) / part * part,
            false => 0,
        };
        if std::mem::replace(&mut self.told, room) != room {
            cx.emit(Event::Room(room));
        }
    }

    pub(super) fn check(&self, from: NodeId, keep: &Keep, me: NodeId) -> Result<(), NotKept> {
        let Keep { unit, owner, parts, relayed, .. } = keep;
        let limits = &self.config.limits;
        let twice = parts.iter().enumerate().any(|(at, part)| parts[..at].contains(part));
        if parts.is_empty() || parts.len() > PARTS || twice || (*relayed && from != *owner) {
            return Err(NotKept::Unreadable);
        }
        let nobody = Owner::default();
        let known = self.owners.get(owner);
        if known.is_none() && self.owners.len() >= OWNERS && self.idle_owner().is_none() {
            return Err(NotKept::Owners);
        }
        let known = known.unwrap_or(&nobody);
        if !self.units.contains_key(&(*unit, *owner)) {
            self.check_units(known.units, *owner == me)?;
        }
        let bound = self.units.get(&(*unit, *owner)).map_or(u64::MAX, |kept| kept.terms.part_bytes);
        if from != *owner && parts.iter().any(|part| part.len > bound) {
            return Err(NotKept::Large(bound));
        }
        let bytes = parts.iter().map(|part| part.len).fold(0, u64::saturating_add);
        let full = |has: u64, bound: u64| has.checked_add(bytes).is_none_or(|sum| sum > bound);
        let taken = self.taken(Some(*owner), known.bytes);
        let given = self.given_to(Some(*owner), me);
        if full(taken, given) {
            return Err(NotKept::Full { taken, given });
        }
        let bought = self.sold.iter().filter(|(buyer, ..)| buyer == owner).map(|(_, bytes, _)| *bytes);
        let bought = bought.fold(0, u64::saturating_add);
        if full(known.bytes, limits.kept_bytes_per_owner.max(bought)) {
            return Err(NotKept::FullOfOwner { kept: known.bytes, given: limits.kept_bytes_per_owner });
        }
        Ok(())
    }

    /// Whether one more unit is kept for an owner that has so many. Others leave room for what this node owns
    /// itself, and one leaves room for the next.
    fn check_units(&self, its: usize, own: bool) -> Result<(), NotKept> {
        let most = self.config.limits.kept_units;
        if !own && self.units.len() >= most {
            return Err(NotKept::Units(most));
        }
        let most = if own { most } else { most.div_ceil(2) };
        if its >= most {
            return Err(NotKept::UnitsOfOwner(most));
        }
        Ok(())
    }
}
