//! Copies of what others own, and how ownership follows the ring: whoever comes to have the point of
//! a unit owns it, from the copy that it has or from what it is handed.
//!
//! Ownership moves with the ring, so that a lookup always names the owner and the successors are always the
//! next on it. It costs a message and a word to the runner, which runs on.

use super::copies::Replica;
use super::owned::later;
use super::{AT_ONCE, Delegated, Owner, Part};
use crate::address::Address;
use crate::address::Contact;
use crate::circle::Range;
use crate::ids::{JobId, NodeId, UnitId};
use crate::protocol::Cx;
use crate::time::Time;
use crate::work::book::State;
use crate::work::delegated::{Message, point_of};
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

/// A copy of which its owner has said nothing for so long is looked up. Our choice: two of its words
/// and a half.
const ORPHAN: Duration = Duration::from_secs(150);

/// Its home has so long to say that it is over.
const ASKED: Duration = Duration::from_secs(20);

/// A copy is forgotten after this silence. Our choice: a day, as keepers do with checkpoints.
const SILENCE: Duration = Duration::from_secs(24 * 3600);

/// Units that are looked up to be handed on, at a time.
const STRAYS: usize = 4;

impl Owner {
    /// Whether another owns the unit, or will, and this node knows of it.
    pub(in crate::work::owner) fn has_copy(&self, unit: UnitId) -> bool {
        self.delegation.replicas.contains_key(&unit)
    }

    /// The copy's key, template and attempts, by which the unit's owner would check its results.
    pub(in crate::work::owner) fn copy_of(&self, unit: UnitId) -> Option<(GrantKey, &Template, u32)> {
        let delegated = &self.delegation.replicas.get(&unit)?.delegated;
        let guarded = || self.jobs.get(&unit.job).map(|job| &job.spec.template);
        let template = self.delegation.parts.get(&unit.job).map(|part| &part.template).or_else(guarded)?;
        Some((delegated.grants, template, delegated.attempts))
    }

    /// The copy's record.
    pub(in crate::work::owner) fn copied_record(&self, unit: UnitId) -> Option<&UnitRecord> {
        self.delegation.replicas.get(&unit)?.delegated.record.as_deref()
    }

    pub(super) fn gained(&mut self, range: Range, from: Option<Contact>, cx: &mut Cx<'_, Self>) {
        self.delegation.share.gained(range);
        let whole = self.delegation.share.is_whole();
        self.delegation.alone = whole.then(|| self.delegation.alone.unwrap_or(cx.now));
        let wait = match from {
            _ if whole => ALONE,
            Some(from) if from.id != cx.me => SETTLE,
            _ => Duration::ZERO,
        };
        self.delegation.settled_at = Some(cx.now + wait);
        if wait.is_zero() {
            self.settle_arc(cx);
        }
    }

    /// Owns the copies on the arc, once its previous owner has had time to hand over the units on it.
    pub(super) fn settle_arc(&mut self, cx: &mut Cx<'_, Self>) {
        if !self.is_ready() || self.delegation.settled_at.take_if(|at| *at <= cx.now).is_none() {
            return;
        }
        self.own_on_arc(cx);
        let now = cx.now;
        let early = |copy: &Replica| copy.owner() == cx.me && now.since(copy.heard) < RETURN;
        let mine = self.delegation.replicas.iter().filter(|(unit, _)| self.is_mine(**unit));
        let (later, mine): (Vec<_>, Vec<_>) = mine.partition(|(_, copy)| early(copy));
        let mine: Vec<UnitId> = mine.into_iter().map(|(unit, _)| *unit).collect();
        if let Some(last) = later.iter().map(|(_, copy)| copy.heard + RETURN).max() {
            self.delegation.settled_at = Some(last);
        }
        mine.into_iter().for_each(|unit| self.inherit(unit, cx));
    }

    /// Owns the unit from the copy here.
    fn inherit(&mut self, unit: UnitId, cx: &mut Cx<'_, Self>) {
        if self.delegation.ended.contains_key(&unit)
            || self.owned_count() >= self.config.limits.delegated_units
        {
            return;
        }
        let Some(part) = self.delegation.parts.get(&unit.job).cloned() else { return };
        let Some(replica) = self.delegation.replicas.get(&unit) else { return };
        if replica.owner() == part.home.id {
            return;
        }
        // A node that claimed the unit meanwhile may have the later record.
        let (by, delegated) = match &replica.next {
            Some(next) if next.1.has_keys_of(&replica.delegated) => (next.0, next.1.clone()),
            _ => (replica.owner(), replica.delegated.clone()),
        };
        // A unit that an earlier life of this node owned needs no permission.
        let may = by == cx.me || {
            let mut room = self.room_of(&part, by);
            self.may_hand_over(by, unit, &part)
                && self.may_adopt(&mut room, unit.job, &part, &delegated).is_ok()
        };
        if !may {
            // Its home, asked after a while, entrusts it to whom the ring names.
            return;
        }
        self.adopt(unit.job, &part, delegated, by, cx);
        if by != cx.me {
            self.tell_handed_off(by, unit, cx);
        }
    }

    /// Whether all units seem to be this node's, and may not be.
    pub(super) fn is_alone(&self, now: Time) -> bool {
        self.delegation.alone.is_some_and(|since| now.since(since) < ALONE)
    }

    pub(super) fn lost(&mut self, range: Range, to: Option<Contact>, cx: &mut Cx<'_, Self>) {
        self.delegation.alone = None;
        self.delegation.share.lost(range);
        if let Some(to) = to.filter(|to| to.id != cx.me) {
            let misplaced: Vec<UnitId> =
                self.all_delegated().into_iter().filter(|unit| range.contains(point_of(*unit))).collect();
            self.hand_to(&to, &misplaced, cx);
        }
    }

    /// Units that belong elsewhere by now, and copies of which nobody speaks, are looked up.
    pub(super) fn hand_on_misplaced(&mut self, cx: &mut Cx<'_, Self>) {
        if self.delegation.share.range().is_none() {
            return;
        }
        let owned = self.all_delegated().into_iter().filter(|unit| !self.is_mine(*unit));
        // Its home is asked first: it may be over.
        let now = cx.now;
        let silent = |copy: &Replica, time| now.since(copy.heard) >= time;
        for (unit, copy) in self.delegation.replicas.iter().filter(|(_, copy)| silent(copy, ORPHAN)) {
            if let Some(part) = self.delegation.parts.get(&unit.job) {
                let lives = Message::Lives { job: unit.job, units: vec![(unit.index, copy.delegated.term)] };
                Self::say(part.home, lives, cx);
            }
        }
        let silent = self.delegation.replicas.iter().filter(|(_, copy)| silent(copy, ORPHAN + ASKED));
        let misplaced: Vec<UnitId> = owned.chain(silent.map(|(unit, _)| *unit)).take(STRAYS).collect();
        for unit in misplaced {
            self.locate(unit, cx);
        }
    }

    pub(super) fn misplaced_located(&mut self, unit: UnitId, owner: Contact, cx: &mut Cx<'_, Self>) {
        if owner.id == cx.me {
            self.inherit(unit, cx);
            if let Some(replica) = self.delegation.replicas.get_mut(&unit) {
                replica.heard = cx.now;
            }
            return;
        }
        self.believe_ring(unit, owner.id, cx.now);
        if self.delegation.replicas.get(&unit).is_some_and(|copy| cx.now.since(copy.heard) < ORPHAN) {
            return;
        }
        self.hand_to(&owner, &[unit], cx);
        // The next time it is another's turn.
        if let Some(replica) = self.delegation.replicas.get_mut(&unit) {
            replica.heard = cx.now;
        }
    }

    fn hand_to(&self, to: &Contact, units: &[UnitId], cx: &mut Cx<'_, Self>) {
        // It may follow this node nowhere on the ring: runners are told of it.
        for unit in units {
            let runner = self.book.last_runner(*unit);
            let (Some(runner), Some(home), Some(term)) =
                (runner, self.home_of(*unit, cx.me), self.term_of(*unit))
            else {
                continue;
            };
            let successors = std::iter::once(to.id).chain(self.successors()).collect();
            Self::to_runner(
                runner,
                ToRunner::Successors { units: vec![(*unit, term)], home, successors },
                cx,
            );
        }
        for (job, delegation) in self.by_job(units, cx) {
            let Some(part) = self.part_of(job, cx.me) else { continue };
            Self::in_parts(delegation, |units| {
                Self::say(to, Message::Handed { job, part: Box::new(part.clone()), units }, cx);
            });
        }
    }

    /// The units as others are told of them, those that have ended left out.
    fn by_job(&self, units: &[UnitId], cx: &Cx<'_, Self>) -> BTreeMap<JobId, Vec<Delegated>> {
        let mut by_job: BTreeMap<JobId, Vec<Delegated>> = BTreeMap::new();
        for unit in units.iter().filter(|unit| !self.delegation.ended.contains_key(unit)) {
            let copy = || self.delegation.replicas.get(unit).map(|replica| replica.delegated.clone());
            if let Some(delegated) = self.delegated_of(*unit, cx).or_else(copy) {
                by_job.entry(unit.job).or_default().push(delegated);
            }
        }
        by_job
    }

    /// Tells successors and homes of units what is written down of them.
    pub(in crate::work::owner) fn tell_successors(&mut self, units: &[UnitId], cx: &mut Cx<'_, Self>) {
        if !self.has_delegated() {
            return;
        }
        let delegation: Vec<UnitId> = units
            .iter()
            .copied()
            .filter(|unit| self.jobs.get(&unit.job).is_some_and(|job| job.delegated.is_some()))
            .collect();
        let successors = self.delegation.share.replicas().to_vec();
        for (job, delegation) in self.by_job(&delegation, cx) {
            let Some(part) = self.part_of(job, cx.me) else { continue };
            Self::in_parts(delegation, |units| {
                let owned = Message::Owned { job, part: Box::new(part.clone()), units };
                successors
                    .iter()
                    .filter(|successor| successor.id != part.home.id)
                    .for_each(|successor| Self::say(successor, owned.clone(), cx));
                Self::say(part.home, owned, cx);
            });
        }
    }

    /// The home asked again: it has not heard.
    pub(super) fn tell_home(&self, job: JobId, units: &[UnitId], cx: &mut Cx<'_, Self>) {
        let Some(part) = self.part_of(job, cx.me) else { return };
        for (job, delegation) in self.by_job(units, cx) {
            Self::in_parts(delegation, |units| {
                Self::say(part.home, Message::Owned { job, part: Box::new(part.clone()), units }, cx);
            });
        }
    }

    /// Tells all homes that this node lives, and what it owns.
    pub(super) fn tell_homes(&self, cx: &mut Cx<'_, Self>) {
        for (id, job) in &self.jobs {
            let Some(ownership) = &job.delegated else { continue };
            let units: Vec<(u32, u32)> =
                ownership.delegation.iter().map(|(index, delegated)| (*index, delegated.term)).collect();
            for units in units.chunks(AT_ONCE * 16) {
                Self::say(ownership.home, Message::Lives { job: *id, units: units.to_vec() }, cx);
            }
        }
    }

    /// Whether a word about a unit comes from who was told its keys: its home, an owner, a successor. Runners and
    /// keepers know its name as well, and must neither take it over nor be told its keys.
    pub(super) fn shows_keys(&self, unit: UnitId, delegated: &Delegated) -> bool {
        let known = self.jobs.get(&unit.job).filter(|_| self.book.unit(unit).is_some());
        known.is_some_and(|job| {
            (job.key(unit.index), job.grants(unit.index)) == (delegated.key, delegated.grants)
        })
    }

    /// Somebody says that it owns these.
    pub(super) fn owned(
        &mut self,
        from: NodeId,
        job: JobId,
        part: Part,
        units: Vec<Delegated>,
        cx: &mut Cx<'_, Self>,
    ) {
        if self.jobs.get(&job).is_some_and(|job| job.delegated.is_none()) || part.home.id == cx.me {
            return self.home_told(from, job, units, cx);
        }
        for delegated in units.into_iter().take(AT_ONCE) {
            let unit = UnitId { job, index: delegated.index };
            let mine = self.is_mine(unit);
            let home = self.part_of(job, cx.me).map(|part| part.home.id);
            let shown = self.shows_keys(unit, &delegated);
            if let Some(own) = self.own_mut(unit) {
                let higher = (delegated.term, from) > (own.term, cx.me);
                // A unit that the origin owns is nobody else's. An owner that the ring does not name gives way.
                if home == Some(from) || (higher && !mine && shown) {
                    self.hand_off(unit, cx);
                    self.copy(from, unit, &part, delegated, true, cx);
                } else if !higher && shown {
                    self.tell_handed_off(from, unit, cx);
                }
            } else {
                self.copy(from, unit, &part, delegated, false, cx);
            }
        }
    }

    fn copy(
        &mut self,
        from: NodeId,
        unit: UnitId,
        part: &Part,
        delegated: Delegated,
        written: bool,
        cx: &mut Cx<'_, Self>,
    ) {
        let same =
            self.delegation.replicas.get(&unit).is_some_and(|known| known.delegated.spec == delegated.spec);
        if !same && !self.has_room_for(from, unit.job, part, &delegated) {
            // Others have one.
            return;
        }
        if let Some(known) = self.delegation.replicas.get_mut(&unit) {
            let home = self.delegation.parts.get(&unit.job).map(|part| part.home.id);
            if known.owner() == from || home == Some(from) {
                self.delegation.replicas.told(unit, from, delegated, cx.now);
            } else if (delegated.term, from) > (known.delegated.term, known.owner()) || known.owner() == cx.me
            {
                // Another than before: the ring says whether it is so.
                known.next = Some(Box::new((from, delegated, part.clone())));
                self.locate(unit, cx);
            }
            return;
        }
        if !self.may_copy(from, unit.job, part, &delegated) {
            // Others have one.
            return;
        }
        self.delegation.replicas.insert(unit, Replica::new(from, delegated, written, cx.now));
        self.delegation.parts.entry(unit.job).or_insert_with(|| part.clone());
    }

    /// Accepts a claim that waits, if its sender is the owner that the ring names, or the origin.
    fn believe_ring(&mut self, unit: UnitId, owner: NodeId, now: Time) {
        let Some(known) = self.delegation.replicas.get_mut(&unit) else { return };
        let Some((from, delegated, part)) = known.next.take().map(|next| *next) else { return };
        if from == owner
            || from == part.home.id && self.delegation.parts.get(&unit.job).is_some_and(|p| p.home.id == from)
        {
            self.delegation.replicas.told(unit, from, delegated, now);
            self.delegation.parts.insert(unit.job, part);
        }
    }

    /// Somebody that owned these, or has a copy, says that they are this node's now.
    pub(super) fn handed(
        &mut self,
        from: NodeId,
        job: JobId,
        part: Part,
        units: Vec<Delegated>,
        cx: &mut Cx<'_, Self>,
    ) {
        let home = self.jobs.get(&job).is_some_and(|job| job.delegated.is_none());
        let mut room = self.room_of(&part, from);
        for delegated in units.into_iter().take(AT_ONCE) {
            let unit = UnitId { job, index: delegated.index };
            let known = home || self.own_mut(unit).is_some();
            if known && !self.shows_keys(unit, &delegated) {
                let fault = format!("handed on {unit}, whose keys it does not know");
                cx.fault(from, fault);
                continue;
            }
            if !self.is_mine(unit) {
                if !home && self.own_mut(unit).is_none() {
                    // It may be soon.
                    self.copy(from, unit, &part, delegated, false, cx);
                }
                continue;
            }
            if home {
                self.come_home(unit, Some(&delegated), cx);
                let over = self.state_of(unit).is_none_or(State::has_ended);
                match over {
                    true => Self::say(Address::here(from), Message::Over(vec![unit]), cx),
                    false => self.tell_handed_off(from, unit, cx),
                }
            } else if self.delegation.ended.contains_key(&unit) {
                // It has ended here; its home will say so.
            } else if let Some(own) = self.own_mut(unit) {
                own.term = later(own.term, delegated.term.saturating_add(1));
                self.write_record(unit, cx);
                self.tell_handed_off(from, unit, cx);
            } else if part.home.id != cx.me
                && self.may_hand_over(from, unit, &part)
                && self.may_adopt(&mut room, job, &part, &delegated).is_ok()
            {
                self.adopt(job, &part, delegated, from, cx);
                self.tell_handed_off(from, unit, cx);
            }
        }
    }

    /// A unit that an earlier life owned is a copy until the ring names its owner.
    pub(super) fn restore_one(&mut self, job: JobId, delegated: Delegated, cx: &mut Cx<'_, Self>) {
        let unit = UnitId { job, index: delegated.index };
        if self.delegation.parts.contains_key(&job) {
            self.delegation.replicas.insert(unit, Replica::new(cx.me, delegated, true, cx.now));
        }
    }

    pub(super) fn forget_old_replicas(&mut self, cx: &mut Cx<'_, Self>) {
        // The row of a job's shared description stays a little longer than its units.
        let written: Vec<JobId> = self.delegation.written.iter().copied().collect();
        for job in written {
            self.forget_part(job);
        }
        let spare = |job: &JobId| !self.jobs.contains_key(job) && !self.delegation.parts.contains_key(job);
        let spare: Vec<JobId> = self.delegation.written.iter().copied().filter(spare).collect();
        spare.into_iter().for_each(|job| self.write_record(UnitId { job, index: 0 }, cx));
        let old = |copy: &Replica| cx.now.since(copy.heard) >= SILENCE;
        let old: Vec<(UnitId, bool)> = self
            .delegation
            .replicas
            .iter()
            .filter(|(_, copy)| old(copy))
            .map(|(unit, copy)| (*unit, copy.written))
            .collect();
        for (unit, written) in old {
            self.delegation.replicas.remove(&unit);
            self.forget_part(unit.job);
            if written {
                self.write_record(unit, cx);
            }
        }
    }
}
