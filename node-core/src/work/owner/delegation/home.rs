//! The home of a job: looks up who owns which of its units, entrusts them, and hears how they do.
//!
//! The home believes whom the ring names. Whoever else says that it owns a unit makes it look again.

use super::{AT_ONCE, Delegated, Owner};
use crate::address::Address;
use crate::address::Contact;
use crate::circle::{Located, Point};
use crate::ids::{JobId, NodeId, UnitId};
use crate::money::Micro;
use crate::protocol::Cx;
use crate::time::Time;
use crate::work::book::State;
use crate::work::delegated::{Message, point_of};
use crate::work::message::{Report, ToRunner};
use crate::work::owner::Job;
use crate::work::owner::moving::ATTEMPTS_MAX;
use crate::work::owner::results::Unfit;
use std::collections::BTreeMap;
use std::time::Duration;

/// Units that a home has out at a time; the next follow as these end. Our choice: a few for each slot
/// of a swarm of a thousand, and 2 MB of state.
const OUT_MAX: usize = 4096;

/// Until a node that was asked to own a unit and has not answered is asked again; after [`TRIES`] requests the
/// ring is asked anew.
const ANSWER: Duration = Duration::from_secs(5);
const TRIES: u8 = 3;

/// An owner of which nothing was heard for so long is looked up again. Our choice: three of its words,
/// and longer tha successors need to take over.
const SILENT: Duration = Duration::from_secs(30);

/// After a lookup in vain, or a refusal.
const REST: Duration = Duration::from_secs(2);

/// Characters of a reason that are kept.
const REASON: usize = 300;

/// The units of a job that others own, as its home knows.
#[derive(Debug, Default)]
pub(in crate::work::owner) struct OnRing {
    /// Those from here on have not been looked up yet.
    next: u32,
    out: BTreeMap<u32, Out>,
    /// Those that the ring has at the home itself, and their terms.
    mine: BTreeMap<u32, u32>,
}

#[derive(Debug)]
pub(in crate::work::owner) struct Out {
    stage: Stage,
    /// When it was asked or heard last, or is to be looked up.
    at: Time,
    point: Point,
    owner: Option<Contact>,
    term: u32,
    pub(in crate::work::owner) runner: Option<Address>,
    pub(in crate::work::owner) held: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Its owner is to be looked up.
    Unknown,
    Asked(u8),
    Owned,
}

impl OnRing {
    pub(in crate::work::owner) fn is_out(&self, index: u32) -> bool {
        self.out.contains_key(&index)
    }

    pub(in crate::work::owner) fn of(&self, index: u32) -> Option<&Out> {
        self.out.get(&index)
    }

    pub(in crate::work::owner) fn term(&self, index: u32) -> u32 {
        let mine = self.mine.get(&index).copied();
        mine.or_else(|| self.out.get(&index).map(|out| out.term)).unwrap_or_default()
    }

    /// The home owns the unit under a new term.
    pub(super) fn next_term(&mut self, index: u32) {
        if let Some(term) = self.mine.get_mut(&index) {
            *term = term.saturating_add(1);
        }
    }

    /// Units that run somewhere.
    pub(in crate::work::owner) fn placed(&self) -> u32 {
        self.out.values().filter(|out| out.runner.is_some()).count() as u32
    }

    /// Units that their owners do not place any more, and why.
    pub(in crate::work::owner) fn held(&self) -> impl Iterator<Item = (u32, &str)> {
        self.out.iter().filter_map(|(index, out)| Some((*index, out.held.as_deref()?)))
    }
}

impl Out {
    fn new(unit: UnitId, now: Time) -> Out {
        let point = point_of(unit);
        Out { stage: Stage::Unknown, at: now, point, owner: None, term: 0, runner: None, held: None }
    }

    /// Owner of the unit, as far as is known.
    pub(in crate::work::owner) fn owner(&self) -> Option<NodeId> {
        self.owner.map(|owner| owner.id).filter(|_| self.stage == Stage::Owned)
    }

    fn is_of(&self, node: NodeId) -> bool {
        self.owner.is_some_and(|owner| owner.id == node)
    }
}

impl Owner {
    /// Sees to it that every unit on the ring has an owner.
    pub(super) fn find_owners(&mut self, cx: &mut Cx<'_, Self>) {
        let now = cx.now;
        let ours = self.jobs.iter().filter(|(_, job)| job.is_active() && job.ring.is_some());
        let ids: Vec<JobId> = ours.map(|(id, _)| *id).collect();
        let mut out: usize =
            self.jobs.values().filter_map(|job| job.ring.as_ref()).map(|ring| ring.out.len()).sum();
        let (mut again, mut unknown) = (Vec::new(), Vec::new());
        for id in ids {
            let Some(job) = self.jobs.get_mut(&id) else { continue };
            let Some(mut ring) = job.ring.take() else { continue };
            while out < OUT_MAX && ring.next < self.book.len(id) {
                let index = ring.next;
                ring.next += 1;
                let unit = UnitId { job: id, index };
                if self.book.state(unit) == Some(State::Elsewhere) && !ring.is_out(index) {
                    ring.out.insert(index, Out::new(unit, now));
                    out += 1;
                }
            }
            for (index, out) in &mut ring.out {
                let unit = UnitId { job: id, index: *index };
                let silent = now.since(out.at);
                match out.stage {
                    Stage::Owned if silent >= SILENT => (out.stage, out.at) = (Stage::Unknown, now),
                    Stage::Asked(TRIES) if silent >= ANSWER => (out.stage, out.at) = (Stage::Unknown, now),
                    Stage::Asked(tries) if silent >= ANSWER => {
                        (out.stage, out.at) = (Stage::Asked(tries + 1), now);
                        again.extend(out.owner.map(|owner| (unit, owner)));
                    }
                    _ => {}
                }
                if out.stage == Stage::Unknown && out.at <= now {
                    unknown.push(unit);
                }
            }
            job.ring = Some(ring);
        }
        self.entrust(again, cx);
        unknown
            .into_iter()
            .take_while(|unit| self.locate(*unit, cx) || self.delegation.lookups.len() < super::LOOKUPS)
            .count();
    }

    /// All units whose owner is not known and that are on the same arc are entrusted to it.
    pub(super) fn home_located(&mut self, unit: UnitId, found: Option<Located>, cx: &mut Cx<'_, Self>) {
        let now = cx.now;
        let alone = self.is_alone(now);
        let found = found.filter(|found| found.owner.contact.id != cx.me || !alone);
        let (mut mine, mut others) = (Vec::new(), Vec::new());
        for (id, job) in self.jobs.iter_mut().filter(|(_, job)| job.is_active()) {
            let Some(ring) = &mut job.ring else { continue };
            for (index, out) in ring.out.iter_mut().filter(|(_, out)| out.stage == Stage::Unknown) {
                let of = UnitId { job: *id, index: *index };
                match &found {
                    Some(found) if found.range().contains(out.point) => {
                        let owner = found.owner.contact;
                        (out.stage, out.at, out.owner) = (Stage::Asked(1), now, Some(owner));
                        if owner.id == cx.me { mine.push(of) } else { others.push((of, owner)) }
                    }
                    None if of == unit => out.at = now + REST,
                    _ => {}
                }
            }
        }
        mine.into_iter().for_each(|unit| self.come_home(unit, None, cx));
        self.entrust(others, cx);
        self.look(cx);
    }

    fn entrust(&mut self, units: Vec<(UnitId, Contact)>, cx: &mut Cx<'_, Self>) {
        let mut by_owner: BTreeMap<(JobId, NodeId), (Contact, Vec<Delegated>)> = BTreeMap::new();
        for (unit, owner) in units {
            let Some(mut delegated) = self.delegated_of(unit, cx) else { continue };
            delegated.runner = self.out(unit).and_then(|out| out.runner);
            if let Some(runner) = delegated.runner {
                self.vouch(unit, runner, owner.id, cx);
            }
            by_owner.entry((unit.job, owner.id)).or_insert((owner, Vec::new())).1.push(delegated);
        }
        for ((job, _), (owner, delegation)) in by_owner {
            let Some(part) = self.part_of(job, cx.me) else { continue };
            Self::in_parts(delegation, |units| {
                Self::say(owner, Message::Entrust { job, part: Box::new(part.clone()), units }, cx);
            });
        }
    }

    /// Owner and successors may all be lost: the runner is told by the home whom to believe.
    fn vouch(&self, unit: UnitId, runner: Address, owner: NodeId, cx: &mut Cx<'_, Self>) {
        cx.reach(runner);
        let term = self.term_of(unit).unwrap_or_default();
        let successors =
            ToRunner::Successors { units: vec![(unit, term)], home: cx.me, successors: vec![owner] };
        Self::to_runner(runner.id, successors, cx);
    }

    fn out(&self, unit: UnitId) -> Option<&Out> {
        self.jobs.get(&unit.job)?.ring.as_ref()?.out.get(&unit.index)
    }

    fn out_mut(&mut self, unit: UnitId) -> Option<&mut Out> {
        self.jobs.get_mut(&unit.job)?.ring.as_mut()?.out.get_mut(&unit.index)
    }

    /// The ring has the unit here: the home owns it as any gateway does its units.
    pub(super) fn come_home(&mut self, unit: UnitId, delegated: Option<&Delegated>, cx: &mut Cx<'_, Self>) {
        let Some(job) = self.jobs.get_mut(&unit.job).filter(|job| job.is_active()) else { return };
        if self.book.state(unit) != Some(State::Elsewhere) {
            return;
        }
        let Some(ring) = &mut job.ring else { return };
        let out = ring.out.remove(&unit.index);
        let known = out.as_ref().map_or(0, |out| out.term);
        ring.mine
            .insert(unit.index, known.max(delegated.map_or(0, |delegated| delegated.term)).saturating_add(1));
        let runner = delegated.and_then(|delegated| delegated.runner).or(out.and_then(|out| out.runner));
        self.book.come_home(unit);
        if let Some(delegated) = delegated {
            self.believe(unit, delegated, cx);
        }
        if let Some(runner) = runner {
            self.claim(unit, runner, cx);
        }
        self.touch(unit.job, cx);
    }

    /// Keeps the owner's record of the unit here, too.
    fn believe(&mut self, unit: UnitId, delegated: &Delegated, cx: &mut Cx<'_, Self>) {
        let known = self.delegated_of(unit, cx).map(|delegated| delegated.age());
        let Some(job) = self.jobs.get_mut(&unit.job) else { return };
        let attempts = delegated.attempts.min(ATTEMPTS_MAX);
        self.book.attempted(unit, attempts);
        let newer = known.is_none_or(|known| known <= delegated.age())
            && job.records.get(&unit.index) != delegated.record.as_ref();
        if let Some(record) = delegated.record.clone().filter(|_| newer) {
            job.records.insert(unit.index, record);
            self.write_record(unit, cx);
        }
    }

    /// From who owns units of this node's, or says so.
    pub(super) fn home_told(
        &mut self,
        from: NodeId,
        job: JobId,
        units: Vec<Delegated>,
        cx: &mut Cx<'_, Self>,
    ) {
        let mut over = Vec::new();
        for delegated in units.into_iter().take(AT_ONCE) {
            let unit = UnitId { job, index: delegated.index };
            let shown = self.shows_keys(unit, &delegated);
            match self.word_of(from, unit, (delegated.term, shown), cx) {
                ClaimVerdict::Owner => {
                    let mut claimed = None;
                    if let Some(out) = self.out_mut(unit) {
                        claimed = delegated.runner.filter(|_| delegated.term > out.term);
                        (out.term, out.runner) = (delegated.term, delegated.runner);
                        out.held = delegated.held.as_ref().map(|why| why.chars().take(REASON).collect());
                    }
                    if let Some(runner) = claimed {
                        self.vouch(unit, runner, from, cx);
                    }
                    self.believe(unit, &delegated, cx);
                }
                ClaimVerdict::Over => over.push(unit),
                ClaimVerdict::Mine if shown => self.tell_handed_off(from, unit, cx),
                ClaimVerdict::Mine | ClaimVerdict::Doubt => {}
            }
        }
        self.tell_over(from, over, cx);
        self.touch(job, cx);
    }

    /// From an owner: it lives.
    pub(super) fn lives(&mut self, from: NodeId, job: JobId, units: Vec<(u32, u32)>, cx: &mut Cx<'_, Self>) {
        let mut over = Vec::new();
        for (index, term) in units {
            let unit = UnitId { job, index };
            match self.word_of(from, unit, (term, false), cx) {
                ClaimVerdict::Over => over.push(unit),
                // It will show whether it knows the unit's keys when it tells more of it.
                ClaimVerdict::Mine | ClaimVerdict::Owner | ClaimVerdict::Doubt => {}
            }
        }
        self.tell_over(from, over, cx);
    }

    pub(in crate::work::owner) fn tell_over(&self, to: NodeId, units: Vec<UnitId>, cx: &mut Cx<'_, Self>) {
        if !units.is_empty() {
            Self::say(Address::here(to), Message::Over(units), cx);
        }
    }

    /// Judges the statement of `from` that it owns a unit. `shown`: the sender has shown that it knows the
    /// unit's keys.
    fn word_of(
        &mut self,
        from: NodeId,
        unit: UnitId,
        (term, shown): (u32, bool),
        cx: &mut Cx<'_, Self>,
    ) -> ClaimVerdict {
        let Some(job) = self.jobs.get_mut(&unit.job) else { return ClaimVerdict::Over };
        if job.delegated.is_some() {
            return ClaimVerdict::Doubt;
        }
        let state = self.book.state(unit).filter(|_| job.is_active());
        match state {
            None | Some(State::Done | State::Failed) => return ClaimVerdict::Over,
            Some(State::Storing) => return ClaimVerdict::Doubt,
            Some(State::Elsewhere) => {}
            Some(_) => return ClaimVerdict::Mine,
        }
        let Some(ring) = &mut job.ring else { return ClaimVerdict::Over };
        if ring.out.len() >= OUT_MAX && !ring.is_out(unit.index) {
            // Its turn comes; until then nobody fills the table by naming units.
            return ClaimVerdict::Doubt;
        }
        let out = ring.out.entry(unit.index).or_insert_with(|| Out::new(unit, cx.now));
        if out.is_of(from) && term >= out.term {
            (out.stage, out.at) = (Stage::Owned, cx.now);
            return ClaimVerdict::Owner;
        }
        if out.stage == Stage::Owned && term <= out.term {
            return ClaimVerdict::Over;
        }
        // The ring may have moved: whom it names now is asked, if a new owner says so, and not whoever knows the
        // job's id.
        if out.stage != Stage::Unknown && shown {
            (out.stage, out.at) = (Stage::Unknown, cx.now);
        }
        ClaimVerdict::Doubt
    }

    /// The node that was asked does not own these units.
    pub(super) fn not_taken(
        &mut self,
        from: NodeId,
        id: JobId,
        units: &[u32],
        reason: &str,
        cx: &mut Cx<'_, Self>,
    ) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let Some(ring) = &mut job.ring else { return };
        for index in units {
            if let Some(out) =
                ring.out.get_mut(index).filter(|out| out.is_of(from) && out.stage != Stage::Unknown)
            {
                (out.stage, out.at) = (Stage::Unknown, cx.now + REST);
            }
        }
        let reason: String = reason.chars().take(REASON).collect();
        job.shortage = Some(format!("{} does not own them: {reason}", from.short()));
    }

    /// How units ended.
    pub(super) fn delegated_results(&mut self, from: NodeId, results: Vec<Report>, cx: &mut Cx<'_, Self>) {
        let (mut over, mut good) = (Vec::new(), Vec::new());
        for mut report in results {
            let unit = report.unit;
            match self.check_report(&report) {
                // Unknown, or over: the owner need not keep it.
                Ok(()) | Err(Unfit::Over) => {}
                Err(Unfit::Fault(why)) => {
                    cx.fault(from, format!("brought a result of {unit}: {why}"));
                    continue;
                }
            }
            // A job that is not on the ring has no other owner, and who ran a unit reports it itself.
            let ours = |job: &&mut Job| job.is_active() && job.delegated.is_none() && job.ring.is_some();
            let job = self.jobs.get_mut(&unit.job).filter(ours);
            let Some((job, state)) = job.zip(self.book.state(unit)) else {
                over.push(unit);
                continue;
            };
            match state {
                State::Done | State::Failed => {
                    job.duplicates += 1;
                    over.push(unit);
                }
                State::Storing => {}
                // It stays as it is until the content is here.
                _ => {
                    // Units on the ring buy nothing.
                    report.result.paid = Micro::ZERO;
                    report.result.attempts = report.result.attempts.min(ATTEMPTS_MAX);
                    if report.result.journey.is_none() {
                        // The unit's last owner may have known of no checkpoint.
                        report.result.journey = self.journey_of(&report, cx);
                    }
                    good.push(report);
                }
            }
        }
        self.tell_over(from, over, cx);
        self.take_results(from, good, cx);
    }

    /// The result is durable: whoever else still owns the unit need not.
    pub(in crate::work::owner) fn out_over(&mut self, from: NodeId, unit: UnitId, cx: &mut Cx<'_, Self>) {
        let Some(ring) = self.jobs.get_mut(&unit.job).and_then(|job| job.ring.as_mut()) else { return };
        ring.mine.remove(&unit.index);
        let out = ring.out.remove(&unit.index);
        if let Some(owner) = out.and_then(|out| out.owner).filter(|owner| owner.id != from) {
            Self::say(owner, Message::Over(vec![unit]), cx);
        }
    }

    /// The job is over: nobody needs to own its units any more.
    pub(in crate::work::owner) fn recall(&mut self, id: JobId, cx: &mut Cx<'_, Self>) {
        let Some(ring) = self.jobs.get_mut(&id).and_then(|job| job.ring.as_mut()) else { return };
        let mut by_owner: BTreeMap<NodeId, (Contact, Vec<UnitId>)> = BTreeMap::new();
        for (index, out) in std::mem::take(&mut ring.out) {
            if let Some(owner) = out.owner {
                by_owner.entry(owner.id).or_insert((owner, Vec::new())).1.push(UnitId { job: id, index });
            }
        }
        for (owner, units) in by_owner.into_values() {
            Self::say(owner, Message::Over(units), cx);
        }
    }

    /// The ring gave this node an arc on which units of its own jobs are.
    pub(super) fn own_on_arc(&mut self, cx: &mut Cx<'_, Self>) {
        let Some(arc) = self.delegation.share.range() else { return };
        let mut mine = Vec::new();
        for (id, job) in self.jobs.iter().filter(|(_, job)| job.is_active()) {
            let out = job.ring.iter().flat_map(|ring| &ring.out);
            let here = out.filter(|(_, out)| arc.contains(out.point) && out.owner.is_some());
            mine.extend(here.map(|(index, _)| UnitId { job: *id, index: *index }));
        }
        mine.into_iter().for_each(|unit| self.come_home(unit, None, cx));
    }
}

/// Verdict of the origin on a node's statement that it owns a unit.
enum ClaimVerdict {
    Owner,
    /// Nobody needs it any more, or another owns it.
    Over,
    /// This node owns it itself.
    Mine,
    /// It will turn out.
    Doubt,
}
