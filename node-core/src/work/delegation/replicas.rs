//! Copies of what others own, and how ownership follows the ring: whoever comes to have the point of
//! a unit owns it, from the copy that it has or from what it is handed.
//!
//! Ownership moves with the ring, so that a lookup always names the owner and the successors are always the
//! next on it. It costs a message and a word to the runner, which runs on.

use super::acts::Step;
use super::copies::Replica;
use super::owned::later;
use super::room::Descriptions;
use super::{Act, Delegated, Delegation, LIVES_MAX, Message, Part, View, in_parts, point_of};
use crate::address::{Address, Contact};
use crate::circle::Range;
use crate::ids::{JobId, NodeId, UnitId};
use crate::time::Time;
use crate::work::book::State;
use crate::work::bounds;
use crate::work::message::ToRunner;
use crate::work::proof::GrantKey;
use crate::work::spec::Template;
use crate::work::unit_record::UnitRecord;
use std::collections::BTreeMap;
use std::time::Duration;

/// Time for the previous owner of an arc to hand over the units on it. Our choice: a dial and a message on a
/// slow line.
const SETTLE: Duration = Duration::from_secs(5);

/// Time for which a node that is a ring by itself does not own all units: it may have come before the others.
/// Our choice: what a swarm needs to come back after its gateway has restarted.
const ALONE: Duration = Duration::from_secs(30);

/// Time before this node owns a unit of its earlier life again: another node may own the unit by now, looks for
/// misplaced units twice in that time, and hands it over.
const RETURN: Duration = Duration::from_secs(25);

/// A copy of which its owner has said nothing for so long is looked up. Our choice: two and a half times
/// [`REFRESH`](super::REFRESH).
const ORPHAN: Duration = Duration::from_secs(150);

/// Its origin has so long to say that it is over. Our choice: longer than a reconnection.
const ASKED: Duration = Duration::from_secs(20);

/// A copy is forgotten after this silence. Our choice: a day, as keepers do with checkpoints.
const SILENCE: Duration = Duration::from_secs(24 * 3600);

/// Units that are looked up to be handed on, at a time. Our choice: a quarter of the lookups, which the node's own
/// jobs need as well.
const STRAYS: usize = 4;

impl Delegation {
    /// Whether another owns the unit, or will, and this node knows of it.
    pub fn has_copy(&self, unit: UnitId) -> bool {
        self.replicas.contains_key(&unit)
    }

    /// The copy's key, template and attempts, by which the unit's owner would check its results. `owned`: template
    /// of the job, if other units of it are owned here.
    pub fn copy_of<'a>(
        &'a self,
        unit: UnitId,
        owned: Option<&'a Template>,
    ) -> Option<(GrantKey, &'a Template, u32)> {
        let delegated = &self.replicas.get(&unit)?.delegated;
        let template = self.parts.get(&unit.job).map(|part| &part.template).or(owned)?;
        Some((delegated.grants, template, delegated.attempts))
    }

    /// The copy's record.
    pub fn copied_record(&self, unit: UnitId) -> Option<&UnitRecord> {
        self.replicas.get(&unit)?.delegated.record.as_deref()
    }

    pub(super) fn gained(&mut self, range: Range, from: Option<Contact>, view: &View<'_>) {
        self.share.gained(range);
        let whole = self.share.is_whole();
        self.alone = whole.then(|| self.alone.unwrap_or(view.now));
        let wait = match from {
            _ if whole => ALONE,
            Some(from) if from.id != view.me => SETTLE,
            _ => Duration::ZERO,
        };
        self.settled_at = Some(view.now + wait);
        if wait.is_zero() {
            self.settle_arc(view);
        }
    }

    /// Owns the copies on the arc, once its previous owner has had time to hand over the units on it.
    pub(super) fn settle_arc(&mut self, view: &View<'_>) {
        if !view.ready || self.settled_at.take_if(|at| *at <= view.now).is_none() {
            return;
        }
        self.own_on_arc(view);
        let now = view.now;
        let early = |copy: &Replica| copy.owner() == view.me && now.since(copy.heard) < RETURN;
        let mine = self.replicas.iter().filter(|(unit, _)| self.is_mine(**unit));
        let (later, mine): (Vec<_>, Vec<_>) = mine.partition(|(_, copy)| early(copy));
        let mine: Vec<UnitId> = mine.into_iter().map(|(unit, _)| *unit).collect();
        if let Some(last) = later.iter().map(|(_, copy)| copy.heard + RETURN).max() {
            self.settled_at = Some(last);
        }
        mine.into_iter().for_each(|unit| self.inherit(unit, view));
    }

    /// Owns the unit from the copy here.
    fn inherit(&mut self, unit: UnitId, view: &View<'_>) {
        if self.ends.contains(unit) || self.owned_count() >= view.limits.delegated_units {
            return;
        }
        let Some(part) = self.parts.get(&unit.job).cloned() else { return };
        let Some(replica) = self.replicas.get(&unit) else { return };
        if replica.owner() == part.origin.id {
            return;
        }
        // A node that claimed the unit meanwhile may have the later record.
        let (by, delegated) = match &replica.next {
            Some(next) if next.1.has_keys_of(&replica.delegated) => (next.0, next.1.clone()),
            _ => (replica.owner(), replica.delegated.clone()),
        };
        // A unit that an earlier life of this node owned needs no permission.
        let may = by == view.me || {
            let mut room = self.room_of(&part, by, view);
            self.may_hand_over(by, unit, &part)
                && self.may_adopt(&mut room, unit.job, &part, &delegated, view).is_ok()
        };
        if !may {
            // Its origin, asked after a while, entrusts it to whom the ring names.
            return;
        }
        self.adopt(unit.job, &part, delegated, by, view);
        if by != view.me {
            self.next(Step::Show(by, unit));
        }
    }

    /// Whether all units seem to be this node's, and may not be.
    pub(super) fn is_alone(&self, now: Time) -> bool {
        self.alone.is_some_and(|since| now.since(since) < ALONE)
    }

    pub(super) fn lost(&mut self, range: Range, to: Option<Contact>, view: &View<'_>) {
        self.alone = None;
        self.share.lost(range);
        if let Some(to) = to.filter(|to| to.id != view.me) {
            let misplaced: Vec<UnitId> =
                self.all_owned().into_iter().filter(|unit| range.contains(point_of(*unit))).collect();
            self.hand_to(&to, &misplaced, view);
        }
    }

    /// Units that belong elsewhere by now, and copies of which nobody speaks, are looked up.
    pub(super) fn hand_on_misplaced(&mut self, view: &View<'_>) {
        if self.share.range().is_none() {
            return;
        }
        let mut misplaced = self.all_owned();
        misplaced.retain(|unit| !self.is_mine(*unit));
        // Its origin is asked first: it may be over.
        let now = view.now;
        let silent = |copy: &Replica, time| now.since(copy.heard) >= time;
        for (unit, copy) in self.replicas.iter().filter(|(_, copy)| silent(copy, ORPHAN)) {
            if let Some(part) = self.parts.get(&unit.job) {
                let units = vec![(unit.index, copy.delegated.epoch)];
                let lives = Message::Lives { job: unit.job, units, waits: None };
                self.acts.push(Act::Say(part.origin, lives));
            }
        }
        let silent = self.replicas.iter().filter(|(_, copy)| silent(copy, ORPHAN + ASKED));
        misplaced.extend(silent.map(|(unit, _)| *unit).take(STRAYS));
        for unit in misplaced.into_iter().take(STRAYS) {
            self.locate(unit);
        }
    }

    pub(super) fn misplaced_located(&mut self, unit: UnitId, owner: Contact, view: &View<'_>) {
        if owner.id == view.me {
            self.inherit(unit, view);
            if let Some(replica) = self.replicas.get_mut(&unit) {
                replica.heard = view.now;
            }
            return;
        }
        self.believe_ring(unit, owner.id, view.now);
        if self.replicas.get(&unit).is_some_and(|copy| view.now.since(copy.heard) < ORPHAN) {
            return;
        }
        self.hand_to(&owner, &[unit], view);
        // The next time it is another's turn.
        if let Some(replica) = self.replicas.get_mut(&unit) {
            replica.heard = view.now;
        }
    }

    fn hand_to(&mut self, to: &Contact, units: &[UnitId], view: &View<'_>) {
        // It may follow this node nowhere on the ring: runners are told of it.
        for unit in units {
            let runner = view.book.last_runner(*unit);
            let (Some(runner), Some(origin), Some(epoch)) =
                (runner, self.origin_of(*unit, view.me), self.epoch_of(*unit))
            else {
                continue;
            };
            let successors = std::iter::once(to.id).chain(self.successors()).collect();
            let told = ToRunner::Successors { units: vec![(*unit, epoch)], origin, successors };
            self.acts.push(Act::Tell(Address::here(runner), told));
        }
        for (job, delegated) in self.by_job(units, view) {
            let Some(part) = self.part_of(job, view) else { continue };
            in_parts(delegated, |units| {
                self.say(to, Message::Handed { job, part: Box::new(part.clone()), units });
            });
        }
    }

    /// The units as others are told of them, those that have ended left out.
    fn by_job(&self, units: &[UnitId], view: &View<'_>) -> BTreeMap<JobId, Vec<Delegated>> {
        let mut by_job: BTreeMap<JobId, Vec<Delegated>> = BTreeMap::new();
        for unit in units.iter().filter(|unit| !self.ends.contains(**unit)) {
            let copy = || self.replicas.get(unit).map(|replica| replica.delegated.clone());
            if let Some(delegated) = self.delegated_of(*unit, view).or_else(copy) {
                by_job.entry(unit.job).or_default().push(delegated);
            }
        }
        by_job
    }

    /// Tells successors and origins of units what is written down of them.
    pub fn tell_successors(&mut self, units: &[UnitId], view: &View<'_>) {
        let owned: Vec<UnitId> =
            units.iter().copied().filter(|unit| self.owned.contains_key(&unit.job)).collect();
        let successors = self.share.replicas().to_vec();
        for (job, delegated) in self.by_job(&owned, view) {
            let Some(part) = self.part_of(job, view) else { continue };
            in_parts(delegated, |units| {
                let owned = Message::Owned { job, part: Box::new(part.clone()), units };
                successors
                    .iter()
                    .filter(|successor| successor.id != part.origin.id)
                    .for_each(|successor| self.say(successor, owned.clone()));
                self.say(part.origin, owned);
            });
        }
    }

    /// The origin asked again: it has not heard.
    pub(super) fn tell_origin(&mut self, job: JobId, units: &[UnitId], view: &View<'_>) {
        let Some(part) = self.part_of(job, view) else { return };
        for (job, mut delegated) in self.by_job(units, view) {
            // The origin has their descriptions.
            delegated.iter_mut().for_each(|delegated| delegated.spec = None);
            in_parts(delegated, |units| {
                self.say(part.origin, Message::Owned { job, part: Box::new(part.clone()), units });
            });
        }
    }

    /// Tells all origins that this node lives, and what it owns.
    pub(super) fn tell_origins(&mut self, view: &View<'_>) {
        for (id, owned) in &self.owned {
            let waits = view.jobs.shortage(*id).filter(|_| view.book.open(*id) > 0).map(bounds::reason);
            let units: Vec<(u32, u32)> = owned.units.iter().map(|(index, own)| (*index, own.epoch)).collect();
            for units in units.chunks(LIVES_MAX) {
                let lives = Message::Lives { job: *id, units: units.to_vec(), waits: waits.clone() };
                self.acts.push(Act::Say(owned.origin, lives));
            }
        }
    }

    /// Whether a message about a unit comes from a node that was told its keys: its origin, an owner, a successor.
    /// Runners and keepers know its name as well, and must neither take it over nor be told its keys.
    pub(super) fn shows_keys(&self, unit: UnitId, delegated: &Delegated, view: &View<'_>) -> bool {
        view.book.unit(unit).is_some() && view.jobs.keys(unit) == Some((delegated.key, delegated.grants))
    }

    /// Somebody says that it owns these.
    pub(super) fn told_owned(
        &mut self,
        from: NodeId,
        job: JobId,
        part: Part,
        units: impl Iterator<Item = Delegated>,
        view: &View<'_>,
    ) {
        if view.jobs.is_own(job) || part.origin.id == view.me {
            return self.origin_told(from, job, units, view);
        }
        let mut room = Descriptions::of(from);
        for delegated in units {
            let unit = UnitId { job, index: delegated.index };
            let mine = self.is_mine(unit);
            let origin = self.origin_of_job(job, view);
            let shown = self.shows_keys(unit, &delegated, view);
            if let Some(own) = self.own(unit) {
                let higher = (delegated.epoch, from) > (own.epoch, view.me);
                // A unit that the origin owns is nobody else's. An owner that the ring does not name gives way.
                if origin == Some(from) || (higher && !mine && shown) {
                    self.leave(unit, view);
                    self.copy(&mut room, unit, &part, delegated, true, view);
                } else if !higher && shown {
                    self.next(Step::Show(from, unit));
                }
            } else {
                self.copy(&mut room, unit, &part, delegated, false, view);
            }
        }
    }

    fn copy(
        &mut self,
        room: &mut Descriptions,
        unit: UnitId,
        part: &Part,
        delegated: Delegated,
        written: bool,
        view: &View<'_>,
    ) {
        let from = room.by();
        let same = self.replicas.get(&unit).is_some_and(|known| known.delegated.spec == delegated.spec);
        if !same && !self.has_room_for(room, unit.job, part, &delegated, view) {
            // Others have one.
            return;
        }
        if let Some(known) = self.replicas.get_mut(&unit) {
            let origin = self.parts.get(&unit.job).map(|part| part.origin.id);
            if known.owner() == from || origin == Some(from) {
                self.replicas.told(unit, from, delegated, view.now);
            } else if (delegated.epoch, from) > (known.delegated.epoch, known.owner())
                || known.owner() == view.me
            {
                // Another than before: the ring says whether it is so.
                known.next = Some(Box::new((from, delegated, part.clone())));
                self.locate(unit);
            }
            return;
        }
        if !self.may_copy(from, view) {
            // Others have one.
            return;
        }
        self.replicas.insert(unit, Replica::new(from, delegated, written, view.now));
        self.parts.entry(unit.job).or_insert_with(|| part.clone());
    }

    /// Accepts a claim that waits, if its sender is the owner that the ring names, or the origin.
    fn believe_ring(&mut self, unit: UnitId, owner: NodeId, now: Time) {
        let Some(known) = self.replicas.get_mut(&unit) else { return };
        let Some((from, delegated, part)) = known.next.take().map(|next| *next) else { return };
        if from == owner
            || from == part.origin.id && self.parts.get(&unit.job).is_some_and(|p| p.origin.id == from)
        {
            self.replicas.told(unit, from, delegated, now);
            self.parts.insert(unit.job, part);
        }
    }

    /// Somebody that owned these, or has a copy, says that they are this node's now.
    pub(super) fn handed(
        &mut self,
        from: NodeId,
        job: JobId,
        part: Part,
        units: impl Iterator<Item = Delegated>,
        view: &View<'_>,
    ) {
        let origin = view.jobs.is_own(job);
        let mut room = self.room_of(&part, from, view);
        for delegated in units {
            let unit = UnitId { job, index: delegated.index };
            let owned = self.own(unit).is_some();
            if (origin || owned) && !self.shows_keys(unit, &delegated, view) {
                // It may have the copy from a liar, and is not to blame. It need not keep it.
                self.tell_over(from, vec![unit]);
                continue;
            }
            if !self.is_mine(unit) {
                if !origin && !owned {
                    // It may be soon.
                    self.copy(&mut room.descriptions, unit, &part, delegated, false, view);
                }
                continue;
            }
            if origin {
                self.come_back(unit, Some(&delegated), view);
                let state = view.book.state(unit).filter(|_| view.jobs.is_active(job));
                match state.is_none_or(State::has_ended) {
                    true => self.say(Address::here(from), Message::Over(vec![unit])),
                    false => self.next(Step::Show(from, unit)),
                }
            } else if self.ends.contains(unit) {
                // It has ended here; its origin will say so.
            } else if let Some(own) = self.own_mut(unit) {
                own.epoch = later(own.epoch, delegated.epoch.saturating_add(1));
                self.acts.push(Act::Write(unit));
                self.next(Step::Show(from, unit));
            } else if part.origin.id != view.me
                && self.may_hand_over(from, unit, &part)
                && self.may_adopt(&mut room, job, &part, &delegated, view).is_ok()
            {
                self.adopt(job, &part, delegated, from, view);
                self.next(Step::Show(from, unit));
            }
        }
    }

    pub(super) fn forget_old_replicas(&mut self, view: &View<'_>) {
        // The row of a job's shared description stays a little longer than its units.
        let written: Vec<JobId> = self.written.iter().copied().collect();
        for job in written {
            self.forget_part(job);
        }
        let mut spare: Vec<JobId> = self.written.iter().copied().collect();
        spare.retain(|job| self.is_spare(*job, view));
        self.acts.extend(spare.into_iter().map(|job| Act::Write(UnitId { job, index: 0 })));
        let old = self.replicas.iter().filter(|(_, copy)| view.now.since(copy.heard) >= SILENCE);
        let old: Vec<UnitId> = old.map(|(unit, _)| *unit).collect();
        old.into_iter().for_each(|unit| self.next(Step::Forget(unit)));
    }

    pub(super) fn forget_replica(&mut self, unit: UnitId) {
        let copy = self.replicas.remove(&unit);
        self.forget_part(unit.job);
        if copy.is_some_and(|copy| copy.written) {
            self.acts.push(Act::Write(unit));
        }
    }
}
