//! The owner's side: units that the ring has here are placed, watched and written down as a gateway
//! does with its own; their results wait here until their origin has written them down.

use super::acts::{Adopted, Step};
use super::content::{Content, content_of};
use super::room::{NotAdopted, weight_of};
use super::{ATTEMPTS_MAX, Act, Delegated, Delegation, Described, Message, Part, View};
use crate::address::Address;
use crate::content::{BlobRef, NotFetched};
use crate::ids::{JobId, NodeId, UnitId};
use crate::time::Time;
use crate::work::message::Report;
use crate::work::spec::{Find, JobSpec, OwnedBy, Units};
use crate::work::weight::of_template;
use std::collections::{BTreeMap, BTreeSet};

/// Highest ownership epoch that is accepted for a unit that is not known here. Our choice: far above any real one,
/// and far below overflow.
const EPOCH_MAX: u32 = 1 << 30;

/// How many owners, or placements, one message may be ahead of what is known. Our choice: who was cut off
/// for an hour is not; and nobody makes a number so large that no later one is.
const AHEAD: u32 = 64;

/// `told`, limited to the range from `known` to [`AHEAD`] above it.
pub(super) fn later(known: u32, told: u32) -> u32 {
    told.min(known.saturating_add(AHEAD)).max(known)
}

/// Units of another gateway's job.
#[derive(Debug)]
pub(super) struct Ownership {
    pub(super) origin: Address,
    pub(super) units: BTreeMap<u32, Own>,
    /// Bytes of the description that the units share.
    pub(super) weight: u64,
    content: Content,
}

/// A unit of another gateway that this node owns.
#[derive(Debug)]
pub(super) struct Own {
    pub(super) epoch: u32,
    /// Where it runs, as far as is known.
    pub(super) runner: Option<Address>,
    /// The node that brought it.
    pub(super) by: NodeId,
    /// Bytes of its own description.
    pub(super) weight: u64,
}

impl Delegation {
    /// Whether the unit's job is another gateway's, and may be placed.
    pub fn is_here(&self, job: JobId) -> bool {
        self.owned.get(&job).is_none_or(|owned| owned.content.is_here())
    }

    /// From an origin: own these.
    pub(super) fn entrusted(
        &mut self,
        from: NodeId,
        job: JobId,
        part: Part,
        units: impl Iterator<Item = Delegated>,
        view: &View<'_>,
    ) {
        if part.origin.id != from || from == view.me {
            return self.acts.push(Act::Fault(from, "entrusted units that are not its own".into()));
        }
        self.forget_claims_of_others(job, &part, view);
        let (mut refused, mut known) = (Vec::new(), Vec::new());
        let mut reason = NotAdopted::Moved;
        let mut room = self.room_of(&part, from, view);
        for delegated in units {
            let unit = UnitId { job, index: delegated.index };
            let origin = self.origin_of_job(job, view).unwrap_or(from);
            if origin == from && self.own(unit).is_some() && !self.shows_keys(unit, &delegated, view) {
                // Another brought it under keys that are not its own.
                self.leave(unit, view);
            }
            if origin != from {
                reason = NotAdopted::OtherOrigin;
                refused.push(unit.index);
            } else if self.ends.tell_again(unit) {
                // It has ended here, and its origin hears so below.
            } else if let Some(own) = self.own_mut(unit) {
                own.epoch = later(own.epoch, delegated.epoch);
                known.push(unit);
            } else if !self.is_mine(unit) || view.jobs.is_own(job) {
                refused.push(unit.index);
            } else if let Err(why) = self.may_adopt(&mut room, job, &part, &delegated, view) {
                reason = why;
                refused.push(unit.index);
            } else {
                self.adopt(job, &part, delegated, from, view);
            }
        }
        self.next(Step::TellOrigin(job, known));
        self.next(Step::TellResults);
        if !refused.is_empty() {
            self.say(part.origin, Message::Refused { job, units: refused, reason: reason.to_string() });
        }
    }

    /// The job's origin speaks. Whatever others have brought of the job counts only as far as it agrees.
    fn forget_claims_of_others(&mut self, job: JobId, part: &Part, view: &View<'_>) {
        if view.jobs.is_own(job) {
            return;
        }
        if let Some(owned) = self.owned.get(&job).filter(|owned| owned.origin.id == part.origin.id) {
            if view.jobs.part(job, Address::of(view.me, self.me)).is_some_and(|known| !known.runs_as(part)) {
                let units: Vec<u32> = owned.units.keys().copied().collect();
                units.into_iter().for_each(|index| self.leave(UnitId { job, index }, view));
                self.parts.entry(job).and_modify(|known| *known = part.clone());
            }
        } else if !self.owned.contains_key(&job)
            && self.parts.get(&job).is_some_and(|known| known.origin.id != part.origin.id)
            && !self.ends.has_job(job)
        {
            // Only copies name another origin, and anybody can tell of copies.
            let copies: Vec<UnitId> = self.replicas.of_job(job).map(|(unit, _)| *unit).collect();
            copies.into_iter().for_each(|unit| self.forget_replica(unit));
        }
    }

    pub(super) fn own_mut(&mut self, unit: UnitId) -> Option<&mut Own> {
        self.owned.get_mut(&unit.job)?.units.get_mut(&unit.index)
    }

    pub(super) fn own(&self, unit: UnitId) -> Option<&Own> {
        self.owned.get(&unit.job)?.units.get(&unit.index)
    }

    /// All units that this node owns for others.
    pub(super) fn all_owned(&self) -> Vec<UnitId> {
        let of = |(job, owned): (&JobId, &Ownership)| {
            let job = *job;
            owned.units.keys().map(move |index| UnitId { job, index: *index }).collect::<Vec<_>>()
        };
        self.owned.iter().flat_map(of).collect()
    }

    /// This node owns the unit from now on, which `by` brought.
    pub(super) fn adopt(
        &mut self,
        id: JobId,
        part: &Part,
        delegated: Delegated,
        by: NodeId,
        view: &View<'_>,
    ) {
        let unit = UnitId { job: id, index: delegated.index };
        let before = self.replicas.remove(&unit);
        // A copy from who did not know the unit's keys is nobody's account.
        let before = before.filter(|replica| replica.delegated.has_keys_of(&delegated));
        // The newer of two accounts counts; a runner that one of them knows is asked.
        let (mut delegated, previous) = match before {
            Some(replica) => {
                let (owner, epoch) = (replica.owner(), later(replica.delegated.epoch, delegated.epoch));
                let runner = replica.delegated.runner.or(delegated.runner);
                let believed = delegated.attempts <= later(replica.delegated.attempts, delegated.attempts);
                let delegated = match believed && delegated.age() > replica.delegated.age() {
                    true => Delegated { epoch, ..delegated },
                    false => Delegated { epoch, runner, ..replica.delegated },
                };
                (delegated, Some(owner))
            }
            None => (Delegated { epoch: delegated.epoch.min(EPOCH_MAX), ..delegated }, None),
        };
        self.forget_part(id);
        delegated.epoch = delegated.epoch.saturating_add(1);
        let content = content_of(part, &delegated);
        let weight = weight_of(&delegated);
        let Delegated { index, spec, key, grants, epoch, attempts, runner, mut record, held } = delegated;
        record.iter_mut().for_each(|record| record.at = view.now);
        let is_new = !self.owned.contains_key(&id);
        let owned = self.owned.entry(id).or_insert_with(|| Ownership {
            origin: part.origin,
            units: BTreeMap::new(),
            weight: of_template(&part.template),
            content: Content::default(),
        });
        owned.units.insert(index, Own { epoch, runner, by, weight });
        *self.brought.entry(by).or_default() += 1;
        let is_held = held.is_some();
        self.acts.push(Act::Adopt(Box::new(Adopted {
            unit,
            part: is_new.then(|| part.clone()),
            described: Described { spec, key, grants },
            attempts: attempts.min(ATTEMPTS_MAX),
            record,
            held,
        })));
        if let Some(runner) = runner.filter(|_| !is_held) {
            self.claim(unit, runner, view);
        }
        self.get_content(id, content);
        self.acts.push(Act::Write(unit));
        if let Some(previous) = previous.filter(|previous| *previous != view.me) {
            self.next(Step::Show(previous, unit));
        }
        self.acts.extend([Act::Touch(id), Act::Look]);
    }

    /// Sends the unit's record to its previous owner, which has a copy from now on.
    pub(super) fn show(&mut self, to: NodeId, unit: UnitId, view: &View<'_>) {
        let (Some(delegated), Some(part)) = (self.delegated_of(unit, view), self.part_of(unit.job, view))
        else {
            return;
        };
        let owned = Message::Owned { job: unit.job, part: Box::new(part), units: vec![delegated] };
        self.say(Address::here(to), owned);
    }

    /// The unit leaves this node's table, since it is over or another owns it now; its row stays. A result that
    /// comes here all the same goes to the origin from here.
    pub(super) fn leave(&mut self, unit: UnitId, view: &View<'_>) {
        self.claims.remove(&unit);
        let Some(owned) = self.owned.get_mut(&unit.job) else { return };
        let Some(own) = owned.units.remove(&unit.index) else { return };
        if let Some(count) = self.brought.get_mut(&own.by) {
            *count -= 1;
            if *count == 0 {
                self.brought.remove(&own.by);
            }
        }
        self.acts.push(Act::Leave(unit));
        match owned.units.is_empty() {
            true => self.drop_ownership(unit.job, view),
            false => self.acts.push(Act::Touch(unit.job)),
        }
    }

    fn drop_ownership(&mut self, job: JobId, view: &View<'_>) {
        let part = self.part_of(job, view);
        let Some(owned) = self.owned.remove(&job) else { return };
        self.acts.push(Act::Drop(job));
        self.acts.extend(owned.content.tickets().map(Act::Release));
        if self.replicas.of_job(job).next().is_some() || self.ends.has_job(job) {
            self.parts.extend(part.map(|part| (job, part)));
        }
    }

    /// Fetches the units' content, so that runners find it here.
    fn get_content(&mut self, job: JobId, blobs: BTreeSet<BlobRef>) {
        let Some(owned) = self.owned.get_mut(&job) else { return };
        owned.content.ask();
        let runners = owned.units.values().filter_map(|own| own.runner);
        let sources: Vec<Address> = std::iter::once(owned.origin).chain(runners.take(4)).collect();
        let from = sources.iter().map(|source| source.id).chain(self.successors()).collect();
        self.acts.extend(sources.into_iter().map(Act::Reach));
        self.acts.push(Act::Fetch { job, blobs, from });
    }

    /// Content of the job's units was asked for under this ticket.
    pub fn asked(&mut self, job: JobId, ticket: u64) {
        match self.owned.get_mut(&job) {
            Some(owned) => owned.content.asked(ticket),
            None => self.acts.push(Act::Release(ticket)),
        }
    }

    /// Content is here that was asked for under the ticket, or could not be had.
    pub fn content_here(
        &mut self,
        job: JobId,
        (ticket, blobs): (u64, BTreeSet<BlobRef>),
        result: Result<(), NotFetched>,
        now: Time,
    ) {
        let Some(owned) = self.owned.get_mut(&job) else { return };
        if !owned.content.came(ticket, result.is_err().then_some(blobs), now) {
            return;
        }
        if let Err(error) = result {
            let short = format!("its owner could not get its content: {error}");
            self.acts.push(Act::Short(job, short));
        }
        self.look_into(job, now);
        self.acts.push(Act::Look);
    }

    /// Asks again for content that could not be had, and has programs looked into again that were refused.
    pub(super) fn want_content(&mut self, view: &View<'_>) {
        let missing = |(job, owned): (&JobId, &mut Ownership)| Some((*job, owned.content.missing(view.now)?));
        let again: Vec<_> = self.owned.iter_mut().filter_map(missing).collect();
        again.into_iter().for_each(|(job, blobs)| self.get_content(job, blobs));
        let refused = self.owned.iter().filter(|(_, owned)| owned.content.is_unfit());
        let refused: Vec<JobId> = refused.map(|(job, _)| *job).collect();
        refused.into_iter().for_each(|job| self.look_into(job, view.now));
    }

    /// Has the program of another gateway's units looked into, if it is here.
    fn look_into(&mut self, job: JobId, now: Time) {
        if self.owned.get_mut(&job).is_some_and(|owned| owned.content.looks_into(now)) {
            self.acts.push(Act::Inspect(job));
        }
    }

    /// The program of another gateway's units can run, or cannot. `false` if none of them is owned here.
    pub fn looked_into(&mut self, job: JobId, fit: bool, now: Time) -> bool {
        let owned = self.owned.get_mut(&job);
        owned.map(|owned| owned.content.looked_into(fit, now)).is_some()
    }

    /// A unit of the job has run.
    pub fn runs(&mut self, job: JobId) {
        if let Some(owned) = self.owned.get_mut(&job) {
            owned.content.runs();
        }
    }

    /// The result of a unit of another gateway's job is durable here: it goes to the origin.
    pub fn ended(&mut self, report: &Report, view: &View<'_>) {
        let Some(origin) = self.part_of(report.unit.job, view).map(|part| part.origin) else { return };
        self.keep_end(report.clone(), origin, view.now);
        self.next(Step::TellResults);
    }

    /// Result of a unit of another gateway's job that is durable here.
    pub fn end(&self, unit: UnitId) -> Option<&Report> {
        self.ends.get(unit)
    }

    pub(super) fn keep_end(&mut self, report: Report, origin: Address, now: Time) {
        let unit = report.unit;
        if self.ends.keep(report, origin, now) {
            // Nobody needs the content once the origin has it.
            self.acts.push(Act::Keep(unit));
        }
    }

    /// The outputs of the unit that has ended here are kept under this ticket.
    pub fn kept(&mut self, unit: UnitId, ticket: u64) {
        if !self.ends.kept(unit, ticket) {
            self.acts.push(Act::Release(ticket));
        }
    }

    pub(super) fn tell_results(&mut self, now: Time) {
        for unit in self.ends.old(now) {
            self.next(Step::Release(unit));
        }
        for (origin, results) in self.ends.due(now) {
            self.say(origin, Message::Results(results));
        }
    }

    /// Nobody needs the unit any more: says its origin, or an owner of what has a copy here.
    pub(super) fn over(&mut self, from: NodeId, unit: UnitId, view: &View<'_>) {
        let origin = self.origin_of_job(unit.job, view);
        let owner = self.replicas.get(&unit).map(|replica| replica.owner());
        let owned = self.own(unit).is_some();
        if !view.jobs.is_own(unit.job) && (origin == Some(from) || (owner == Some(from) && !owned)) {
            self.release(unit);
        }
    }

    /// The unit is over: nothing of it stays.
    pub(super) fn release(&mut self, unit: UnitId) {
        let end = self.ends.remove(unit);
        let ended = end.is_some();
        self.acts.extend(end.flatten().map(Act::Release));
        let copy = self.replicas.remove(&unit);
        let owned = self.own(unit).is_some();
        if owned {
            self.acts.push(Act::Recall(unit));
            for successor in self.share.replicas().to_vec() {
                self.say(successor, Message::Over(vec![unit]));
            }
        }
        let written = ended || copy.is_some_and(|copy| copy.written);
        self.next(Step::Gone { unit, owned, written });
    }

    /// A unit that is over leaves, with its row.
    pub(super) fn gone(&mut self, unit: UnitId, owned: bool, written: bool, view: &View<'_>) {
        if owned {
            self.leave(unit, view);
        }
        let last = self.forget_part(unit.job) && self.written.contains(&unit.job);
        if owned || written || last {
            self.acts.push(Act::Write(unit));
        }
    }

    /// Forgets the shared description of a job's units with the last of them here.
    pub(super) fn forget_part(&mut self, job: JobId) -> bool {
        let copies = self.replicas.of_job(job).next().is_some();
        !copies && !self.ends.has_job(job) && self.parts.remove(&job).is_some()
    }
}

/// A specification of what units of another gateway's job share, with these units.
pub fn spec_of(part: &Part, units: Units) -> JobSpec {
    JobSpec {
        name: part.name.clone(),
        template: part.template.clone(),
        units,
        priority: part.priority,
        max_retries: part.max_retries,
        find: if part.requires.is_some() { Find::Fitting } else { Find::Nearest },
        requires: part.requires.clone().unwrap_or_default(),
        owner: OwnedBy::Gateway,
    }
}
