//! The owner's side: units that the ring has here are placed, watched and written down as a gateway
//! does with its own; their results wait here until their home has written them down.

use super::program::Checked;
use super::{BYTES, Delegated, Owner, Part};
use crate::address::Address;
use crate::content::{BlobRef, Data};
use crate::ids::{JobId, NodeId, UnitId};
use crate::protocol::Cx;
use crate::time::Time;
use crate::work::book::{self, Placement};
use crate::work::message::{Report, ToRunner};
use crate::work::owner::job::{Job, Phase};
use crate::work::owner::moving::ATTEMPTS_MAX;
use crate::work::owner::{Event, Pending};
use crate::work::rows::encode;
use crate::work::spec::{Find, JobSpec, OwnedBy, UnitSpec, Units};

use crate::work::delegated::Message;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Between two tries to bring a result home, or content here. Our choice: as runners do.
const AGAIN: Duration = Duration::from_secs(3);

/// A home that has not taken a result for so long has gone for good. Our choice: a gateway is mended
/// within a week, or never.
const WAIT: Duration = Duration::from_secs(7 * 24 * 3600);

/// Terms that are believed of who has no other standing.
const TERM_MAX: u32 = 1 << 30;

/// How many owners, or placements, one word may be ahead of what is known. Our choice: who was cut off
/// for an hour is not; and nobody makes a number so large that no later one is.
const AHEAD: u32 = 64;

/// `told`, limited to the range from `known` to [`AHEAD`] above it.
pub(super) fn later(known: u32, told: u32) -> u32 {
    told.min(known.saturating_add(AHEAD)).max(known)
}

/// Units of another gateway's job.
#[derive(Debug)]
pub(in crate::work::owner) struct Ownership {
    pub(super) home: Address,
    pub(in crate::work::owner) sweep_first: Option<u64>,
    pub(super) delegation: BTreeMap<u32, Delegated>,
    /// The nodes that brought them.
    pub(super) by: BTreeMap<u32, NodeId>,
    pub(super) program: Checked,
    /// Tickets of content that has not come.
    asked: BTreeSet<u64>,
    /// Tickets of content that is kept here until the job is over.
    tickets: BTreeSet<u64>,
    /// Blobs that could not be had, and when to ask for them again.
    missing: Option<(BTreeSet<BlobRef>, Time)>,
}

impl Ownership {
    pub(in crate::work::owner) fn of(&self, index: u32) -> Option<&Delegated> {
        self.delegation.get(&index)
    }

    pub(super) fn of_mut(&mut self, index: u32) -> Option<&mut Delegated> {
        self.delegation.get_mut(&index)
    }

    pub(in crate::work::owner) fn home(&self) -> NodeId {
        self.home.id
    }

    /// Whether what its units need is here.
    pub(super) fn has_content(&self) -> bool {
        self.asked.is_empty() && self.missing.is_none()
    }

    /// One of them has run.
    pub(in crate::work::owner) fn runs(&mut self) {
        self.program = Checked::Fit;
    }

    /// Whether they may be placed.
    pub(in crate::work::owner) fn is_here(&self) -> bool {
        self.has_content() && self.program == Checked::Fit
    }
}

/// How a unit ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) report: Report,
    home: Address,
    since: Time,
    told: Option<Time>,
    /// Its outputs are kept here under this ticket.
    ticket: Option<u64>,
}

/// Results on their way to one home.
struct Bundle {
    home: Address,
    size: usize,
    results: Vec<Report>,
}

impl Owner {
    /// From a home: own these.
    pub(super) fn entrusted(
        &mut self,
        from: NodeId,
        job: JobId,
        part: Part,
        units: Vec<Delegated>,
        cx: &mut Cx<'_, Self>,
    ) {
        if part.home.id != from || from == cx.me {
            return cx.fault(from, "entrusted units that are not its own".into());
        }
        let (mut refused, mut known) = (Vec::new(), Vec::new());
        let mut reason = String::from("the ring has moved");
        let mut room = self.room_of(&part, from);
        for delegated in units {
            let unit = UnitId { job, index: delegated.index };
            let home = self.part_of(job, cx.me).map_or(from, |part| part.home.id);
            if home != from {
                reason = "another gateway has a job of this name".into();
                refused.push(unit.index);
            } else if let Some(ended) = self.delegation.ended.get_mut(&unit) {
                ended.told = None;
            } else if let Some(own) = self.own_mut(unit) {
                own.term = later(own.term, delegated.term);
                known.push(unit);
            } else if !self.is_mine(unit) || self.jobs.get(&job).is_some_and(|job| job.delegated.is_none()) {
                refused.push(unit.index);
            } else if let Err(why) = self.may_adopt(&mut room, job, &part, &delegated) {
                reason = why;
                refused.push(unit.index);
            } else {
                self.adopt(job, &part, delegated, from, cx);
            }
        }
        self.tell_home(job, &known, cx);
        self.tell_results(cx);
        if !refused.is_empty() {
            let refused = Message::Refused { job, units: refused, reason };
            Self::say(part.home, refused, cx);
        }
    }

    pub(super) fn own_mut(&mut self, unit: UnitId) -> Option<&mut Delegated> {
        self.jobs.get_mut(&unit.job)?.delegated.as_mut()?.of_mut(unit.index)
    }

    /// This node owns the unit from now on, which `by` brought.
    pub(super) fn adopt(
        &mut self,
        id: JobId,
        part: &Part,
        delegated: Delegated,
        by: NodeId,
        cx: &mut Cx<'_, Self>,
    ) {
        let unit = UnitId { job: id, index: delegated.index };
        let before = self.delegation.replicas.remove(&unit);
        // A copy from who did not know the unit's keys is nobody's account.
        let before = before.filter(|replica| replica.delegated.has_keys_of(&delegated));
        // The newer of two accounts counts; a runner that one of them knows is asked.
        let (mut delegated, previous) = match before {
            Some(replica) => {
                let (owner, term) = (replica.owner(), later(replica.delegated.term, delegated.term));
                let runner = replica.delegated.runner.or(delegated.runner);
                let believed = delegated.attempts <= later(replica.delegated.attempts, delegated.attempts);
                let delegated = match believed && delegated.age() > replica.delegated.age() {
                    true => Delegated { term, ..delegated },
                    false => Delegated { term, runner, ..replica.delegated },
                };
                (delegated, Some(owner))
            }
            None => (Delegated { term: delegated.term.min(TERM_MAX), ..delegated }, None),
        };
        self.forget_part(id);
        delegated.term = delegated.term.saturating_add(1);
        delegated.attempts = delegated.attempts.min(ATTEMPTS_MAX);
        let job = self.jobs.entry(id).or_insert_with(|| guarded(part));
        self.book.add(unit, delegated.attempts);
        if let Some(mut record) = delegated.record.take() {
            record.at = cx.now;
            job.records.insert(delegated.index, record);
        }
        let (runner, held) = (delegated.runner, delegated.held.clone());
        let content = content_of(part, &delegated);
        if let Some(ownership) = &mut job.delegated {
            ownership.delegation.insert(delegated.index, delegated);
            ownership.by.insert(unit.index, by);
            *self.delegation.brought.entry(by).or_default() += 1;
        }
        match (held, runner) {
            (Some(why), _) => self.book.hold(unit, why, false),
            (None, Some(runner)) => self.claim(unit, runner, cx),
            (None, None) => {}
        }
        self.get_content(id, content, cx);
        self.write_record(unit, cx);
        if let Some(previous) = previous.filter(|previous| *previous != cx.me) {
            self.tell_handed_off(previous, unit, cx);
        }
        self.touch(id, cx);
        self.look(cx);
    }

    /// Sends the unit's record to its previous owner, which has a copy from now on.
    pub(super) fn tell_handed_off(&self, to: NodeId, unit: UnitId, cx: &mut Cx<'_, Self>) {
        let (Some(delegated), Some(part)) = (self.delegated_of(unit, cx), self.part_of(unit.job, cx.me))
        else {
            return;
        };
        let owned = Message::Owned { job: unit.job, part: Box::new(part), units: vec![delegated] };
        Self::say(Address::here(to), owned, cx);
    }

    /// Another owns it now. What of it ends here all the same goes home from here.
    pub(super) fn hand_off(&mut self, unit: UnitId, cx: &mut Cx<'_, Self>) {
        self.leave(unit, cx);
    }

    /// The unit leaves this node's table; its row stays.
    fn leave(&mut self, unit: UnitId, cx: &mut Cx<'_, Self>) {
        self.moves.forget(unit);
        self.delegation.claims.remove(&unit);
        let Some(job) = self.jobs.get_mut(&unit.job) else { return };
        let Some(ownership) = &mut job.delegated else { return };
        ownership.delegation.remove(&unit.index);
        if let Some(by) = ownership.by.remove(&unit.index)
            && let Some(count) = self.delegation.brought.get_mut(&by)
        {
            *count -= 1;
            if *count == 0 {
                self.delegation.brought.remove(&by);
            }
        }
        job.drop_delegated(unit.index);
        self.book.remove(unit);
        if self.book.units(unit.job).is_none_or(book::Units::is_empty) {
            self.drop_ownership(unit.job, cx);
        } else {
            self.touch(unit.job, cx);
        }
    }

    fn drop_ownership(&mut self, id: JobId, cx: &mut Cx<'_, Self>) {
        let Some(job) = self.jobs.remove(&id) else { return };
        self.book.forget(id);
        self.active.remove(&id);
        self.changed.remove(&id);
        for ticket in
            job.delegated.iter().flat_map(|delegated| delegated.tickets.iter().chain(&delegated.asked))
        {
            self.pending.remove(ticket);
            cx.emit(Event::ReleasePassing { ticket: *ticket });
        }
        let copies = self.delegation.replicas.of_job(id).next().is_some();
        if copies || self.delegation.ended.keys().any(|unit| unit.job == id) {
            let me = Address::here(cx.me);
            self.delegation.parts.insert(id, job.part(me));
        }
    }

    /// Fetches the units' content, so that runners find it here.
    fn get_content(&mut self, id: JobId, blobs: BTreeSet<BlobRef>, cx: &mut Cx<'_, Self>) {
        let ticket = self.ticket(Pending::Content(id, blobs.clone()));
        let Some(ownership) = self.jobs.get_mut(&id).and_then(|job| job.delegated.as_mut()) else { return };
        ownership.asked.insert(ticket);
        let runners = ownership.delegation.values().filter_map(|delegated| delegated.runner);
        let mut from: Vec<NodeId> = Vec::new();
        for source in std::iter::once(ownership.home).chain(runners.take(4)) {
            cx.reach(source);
            from.push(source.id);
        }
        from.extend(self.successors());
        cx.emit(Event::FetchPassing { ticket, blobs: blobs.into_iter().collect(), from });
    }

    pub(in crate::work::owner) fn content_here(
        &mut self,
        id: JobId,
        (ticket, blobs): (u64, BTreeSet<BlobRef>),
        result: Result<(), String>,
        cx: &mut Cx<'_, Self>,
    ) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let Some(ownership) = &mut job.delegated else { return };
        if !ownership.asked.remove(&ticket) {
            return;
        }
        match result {
            Ok(()) => drop(ownership.tickets.insert(ticket)),
            Err(error) => {
                let missing = &mut ownership.missing.get_or_insert((BTreeSet::new(), cx.now)).0;
                missing.extend(blobs);
                job.shortage = Some(format!("its owner could not get its content: {error}"));
            }
        }
        self.look_into(id, cx);
        self.look(cx);
    }

    pub(super) fn want_content(&mut self, cx: &mut Cx<'_, Self>) {
        let mut again = Vec::new();
        for (id, job) in &mut self.jobs {
            let Some(ownership) = &mut job.delegated else { continue };
            if let Some((blobs, _)) = ownership.missing.take_if(|(_, since)| cx.now.since(*since) >= AGAIN) {
                again.push((*id, blobs));
            }
        }
        again.into_iter().for_each(|(id, blobs)| self.get_content(id, blobs, cx));
        self.look_into_again(cx);
    }

    /// The result of a unit is durable here: it goes home.
    pub(in crate::work::owner) fn delegated_ended(&mut self, report: &Report, cx: &mut Cx<'_, Self>) {
        let Some(part) = self.part_of(report.unit.job, cx.me) else { return };
        self.keep_end(report.clone(), part.home, cx);
        self.tell_results(cx);
        self.wake(cx);
    }

    /// Whether a result of a unit of another gateway's job is durable here.
    pub(in crate::work::owner) fn has_ended_here(&self, unit: UnitId) -> bool {
        self.delegation.ended.contains_key(&unit)
    }

    fn keep_end(&mut self, report: Report, home: Address, cx: &mut Cx<'_, Self>) {
        if self.has_ended_here(report.unit) {
            // The first counts; its content is what is kept.
            return;
        }
        let blobs: Vec<BlobRef> = crate::work::owner::coming::blobs_of(&report.result).collect();
        let ticket = (!blobs.is_empty()).then(|| self.ticket(Pending::Kept));
        if let Some(ticket) = ticket {
            // Nobody needs the content once the origin has it.
            cx.emit(Event::FetchPassing { ticket, blobs, from: vec![report.result.runner] });
        }
        let unit = report.unit;
        let ended = Ended { report, home, since: cx.now, told: None, ticket };
        self.delegation.ended.insert(unit, ended);
    }

    /// An earlier life has this to bring home.
    pub(super) fn restore_end(&mut self, report: Report, cx: &mut Cx<'_, Self>) {
        if let Some(part) = self.delegation.parts.get(&report.unit.job) {
            let home = part.home;
            self.keep_end(report, home, cx);
        }
    }

    pub(super) fn tell_results(&mut self, cx: &mut Cx<'_, Self>) {
        let now = cx.now;
        let old: Vec<UnitId> = self
            .delegation
            .ended
            .iter()
            .filter(|(_, end)| now.since(end.since) >= WAIT)
            .map(|(unit, _)| *unit)
            .collect();
        old.into_iter().for_each(|unit| self.release(unit, cx));
        let mut by_home: BTreeMap<NodeId, Bundle> = BTreeMap::new();
        for ended in self.delegation.ended.values_mut() {
            if ended.told.is_some_and(|told| now.since(told) < AGAIN) {
                continue;
            }
            let bundle = by_home.entry(ended.home.id);
            let bundle = bundle.or_insert_with(|| Bundle { home: ended.home, size: 0, results: Vec::new() });
            if bundle.size < BYTES {
                ended.told = Some(now);
                bundle.size += encode(&ended.report).len();
                bundle.results.push(ended.report.clone());
            }
        }
        for Bundle { home, results, .. } in by_home.into_values() {
            Self::say(home, Message::Results(results), cx);
        }
    }

    /// Nobody needs these any more: says their home, or an owner of what has a copy here.
    pub(super) fn delegated_over(&mut self, from: NodeId, units: &[UnitId], cx: &mut Cx<'_, Self>) {
        for unit in units {
            let home = self.part_of(unit.job, cx.me).map(|part| part.home.id);
            let is_own = self.jobs.get(&unit.job).is_some_and(|job| job.delegated.is_none());
            let owner = self.delegation.replicas.get(unit).map(|replica| replica.owner());
            let owned = self.own_mut(*unit).is_some();
            if !is_own && (home == Some(from) || (owner == Some(from) && !owned)) {
                self.release(*unit, cx);
            }
        }
    }

    /// The unit is over: nothing of it stays.
    fn release(&mut self, unit: UnitId, cx: &mut Cx<'_, Self>) {
        let end = self.delegation.ended.remove(&unit);
        let ended = end.is_some();
        if let Some(ticket) = end.and_then(|end| end.ticket) {
            self.pending.remove(&ticket);
            cx.emit(Event::ReleasePassing { ticket });
        }
        let copy = self.delegation.replicas.remove(&unit);
        let owned = self.own_mut(unit).is_some();
        if owned {
            for Placement { runner, .. } in self.book.take_all(unit) {
                Self::to_runner(runner, ToRunner::Forget { units: vec![unit] }, cx);
            }
            self.drop_record(unit, cx);
            for successor in self.delegation.share.replicas().to_vec() {
                Self::say(successor, Message::Over(vec![unit]), cx);
            }
            self.leave(unit, cx);
        }
        let last = self.forget_part(unit.job) && self.delegation.written.contains(&unit.job);
        if owned || ended || last || copy.is_some_and(|copy| copy.written) {
            self.write_record(unit, cx);
        }
    }

    /// Forgets the shared description of a job's units with the last of them here.
    pub(super) fn forget_part(&mut self, job: JobId) -> bool {
        let range = UnitId { job, index: 0 }..=UnitId { job, index: u32::MAX };
        let copies = self.delegation.replicas.of_job(job).next().is_some();
        let ends = self.delegation.ended.range(range).next().is_some();
        !copies && !ends && self.delegation.parts.remove(&job).is_some()
    }
}

/// A specification of what units of another gateway's job share, with these units.
pub(super) fn spec_of(part: &Part, units: Units) -> JobSpec {
    JobSpec {
        name: part.name.clone(),
        template: part.template.clone(),
        units,
        priority: part.priority,
        max_retries: part.max_retries,
        find: Find::Nearest,
        owner: OwnedBy::Gateway,
    }
}

/// A job of another gateway, without units yet.
fn guarded(part: &Part) -> Job {
    let spec = spec_of(part, Units::List(Vec::new()));
    let mut job = Job::new(spec, part.home.id, 0, [0; 32]);
    job.phase = Phase::Active;
    job.delegated = Some(Box::new(Ownership {
        home: part.home,
        sweep_first: part.sweep_first,
        delegation: BTreeMap::new(),
        by: BTreeMap::new(),
        program: Checked::Not,
        asked: BTreeSet::new(),
        tickets: BTreeSet::new(),
        missing: None,
    }));
    job
}

/// Blobs without which a unit cannot be run.
pub(super) fn content_of(part: &Part, delegated: &Delegated) -> BTreeSet<BlobRef> {
    let template = &part.template;
    let of_unit = |spec: &UnitSpec| -> Vec<BlobRef> {
        let files = spec.files.iter().filter_map(|file| file.data.blob());
        spec.stdin.iter().filter_map(Data::blob).chain(files).collect()
    };
    let shared = template.files.iter().filter_map(|file| file.data.blob());
    let own = delegated.spec.iter().flat_map(of_unit);
    std::iter::once(template.program).chain(template.stdin.blob()).chain(shared).chain(own).collect()
}
