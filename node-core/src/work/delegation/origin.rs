//! The origin of a job: looks up who owns which of its units, entrusts them, and hears how they do.
//!
//! The origin believes whom the ring names. Whoever else says that it owns a unit makes it look again.

use super::acts::Step;
use super::{Act, Delegated, Delegation, LIVES_MAX, Message, View, in_parts, point_of};
use crate::address::{Address, Contact};
use crate::circle::{Located, Point};
use crate::ids::{JobId, NodeId, UnitId};
use crate::time::Time;
use crate::work::book::State;
use crate::work::bounds;
use crate::work::message::ToRunner;
use std::collections::BTreeMap;
use std::time::Duration;

/// Units that an origin has out at a time; the next follow as these end. Our choice: a few for each slot
/// of a swarm of a thousand, and 2 MB of state.
const OUT_MAX: usize = 4096;

/// Until a node that was asked to own a unit and has not answered is asked again; after [`TRIES`] requests the
/// ring is asked anew. Our choice: an owner looks into a program for some seconds before it answers.
const ANSWER: Duration = Duration::from_secs(5);
const TRIES: u8 = 3;

/// An owner of which nothing was heard for so long is looked up again. Our choice: three times
/// [`LIVES`](super::LIVES), and longer than successors need to take over.
const SILENT: Duration = Duration::from_secs(30);

/// After a lookup in vain, or a refusal. Our choice: as long as the ring takes to notice a lost member.
const REST: Duration = Duration::from_secs(2);

/// The units of a job that others own, as its origin knows.
#[derive(Debug, Default)]
pub struct OnRing {
    /// Those from here on have not been looked up yet.
    next: u32,
    out: BTreeMap<u32, Out>,
    /// Those that the ring has at the origin itself, and their epochs.
    mine: BTreeMap<u32, u32>,
    /// The owner that said last that units wait, and why they do.
    waits: Option<(NodeId, String)>,
}

#[derive(Debug)]
pub struct Out {
    stage: Stage,
    /// When it was asked or heard last, or is to be looked up.
    at: Time,
    point: Point,
    owner: Option<Contact>,
    epoch: u32,
    pub runner: Option<Address>,
    pub held: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Its owner is to be looked up.
    Unknown,
    Asked(u8),
    Owned,
}

impl OnRing {
    pub fn is_out(&self, index: u32) -> bool {
        self.out.contains_key(&index)
    }

    pub fn of(&self, index: u32) -> Option<&Out> {
        self.out.get(&index)
    }

    pub fn epoch(&self, index: u32) -> u32 {
        let mine = self.mine.get(&index).copied();
        mine.or_else(|| self.out.get(&index).map(|out| out.epoch)).unwrap_or_default()
    }

    /// The origin owns the unit under a new epoch.
    pub(super) fn next_epoch(&mut self, index: u32) {
        if let Some(epoch) = self.mine.get_mut(&index) {
            *epoch = epoch.saturating_add(1);
        }
    }

    /// Units that run somewhere.
    pub fn placed(&self) -> u32 {
        self.out.values().filter(|out| out.runner.is_some()).count() as u32
    }

    /// Why units wait, as an owner of some says, and the owner.
    pub fn waits(&self) -> Option<(NodeId, &str)> {
        self.waits.as_ref().map(|(owner, why)| (*owner, why.as_str()))
    }

    /// Units that their owners do not place any more, and why.
    pub fn held(&self) -> impl Iterator<Item = (u32, &str)> {
        self.out.iter().filter_map(|(index, out)| Some((*index, out.held.as_deref()?)))
    }
}

impl Out {
    fn new(unit: UnitId, now: Time) -> Out {
        let point = point_of(unit);
        Out { stage: Stage::Unknown, at: now, point, owner: None, epoch: 0, runner: None, held: None }
    }

    /// Owner of the unit, as far as is known.
    pub fn owner(&self) -> Option<NodeId> {
        self.owner.map(|owner| owner.id).filter(|_| self.stage == Stage::Owned)
    }

    fn is_of(&self, node: NodeId) -> bool {
        self.owner.is_some_and(|owner| owner.id == node)
    }
}

impl Delegation {
    /// This node's own job begins: the ring names the owners of its units.
    pub fn begin(&mut self, job: JobId) {
        self.origins.insert(job, OnRing::default());
    }

    /// Nothing is left of this node's own job.
    pub fn forget(&mut self, job: JobId) {
        self.origins.remove(&job);
    }

    /// Owners of the units of this node's own job, if the ring names them.
    pub fn origin(&self, job: JobId) -> Option<&OnRing> {
        self.origins.get(&job)
    }

    /// Units that are out, of all jobs together.
    fn out_count(&self) -> usize {
        self.origins.values().map(|ring| ring.out.len()).sum()
    }

    /// Sees to it that every unit on the ring has an owner.
    pub(super) fn find_owners(&mut self, view: &View<'_>) {
        let now = view.now;
        let mut count = self.out_count();
        let (mut again, mut unknown) = (Vec::new(), Vec::new());
        for (id, ring) in self.origins.iter_mut().filter(|(id, _)| view.jobs.is_active(**id)) {
            while count < OUT_MAX && ring.next < view.book.len(*id) {
                let index = ring.next;
                ring.next += 1;
                let unit = UnitId { job: *id, index };
                if view.book.state(unit) == Some(State::Elsewhere) && !ring.is_out(index) {
                    ring.out.insert(index, Out::new(unit, now));
                    count += 1;
                }
            }
            for (index, out) in &mut ring.out {
                let unit = UnitId { job: *id, index: *index };
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
        }
        self.entrust(again, view);
        unknown
            .into_iter()
            .take_while(|unit| self.locate(*unit) || self.lookups.len() < super::LOOKUPS)
            .count();
    }

    /// All units whose owner is not known and that are on the same arc are entrusted to it.
    pub(super) fn origin_located(&mut self, unit: UnitId, found: Option<Located>, view: &View<'_>) {
        let now = view.now;
        let alone = self.is_alone(now);
        let found = found.filter(|found| found.owner.contact.id != view.me || !alone);
        let (mut mine, mut others) = (Vec::new(), Vec::new());
        for (id, ring) in self.origins.iter_mut().filter(|(id, _)| view.jobs.is_active(**id)) {
            for (index, out) in ring.out.iter_mut().filter(|(_, out)| out.stage == Stage::Unknown) {
                let of = UnitId { job: *id, index: *index };
                match &found {
                    Some(found) if found.range().contains(out.point) => {
                        let owner = found.owner.contact;
                        (out.stage, out.at, out.owner) = (Stage::Asked(1), now, Some(owner));
                        if owner.id == view.me { mine.push(of) } else { others.push((of, owner)) }
                    }
                    None if of == unit => out.at = now + REST,
                    _ => {}
                }
            }
        }
        mine.into_iter().for_each(|unit| self.come_back(unit, None, view));
        self.entrust(others, view);
        self.acts.push(Act::Look);
    }

    fn entrust(&mut self, units: Vec<(UnitId, Contact)>, view: &View<'_>) {
        let mut by_owner: BTreeMap<(JobId, NodeId), (Contact, Vec<Delegated>)> = BTreeMap::new();
        for (unit, owner) in units {
            let Some(mut delegated) = self.delegated_of(unit, view) else { continue };
            delegated.runner = self.out(unit).and_then(|out| out.runner);
            if let Some(runner) = delegated.runner {
                self.vouch(unit, runner, owner.id, view);
            }
            by_owner.entry((unit.job, owner.id)).or_insert((owner, Vec::new())).1.push(delegated);
        }
        for ((job, _), (owner, delegated)) in by_owner {
            let Some(part) = self.part_of(job, view) else { continue };
            in_parts(delegated, |units| {
                self.say(owner, Message::Entrust { job, part: Box::new(part.clone()), units });
            });
        }
    }

    /// Owner and successors may all be lost: the runner is told by the origin whom to believe.
    fn vouch(&mut self, unit: UnitId, runner: Address, owner: NodeId, view: &View<'_>) {
        let epoch = self.epoch_of(unit).unwrap_or_default();
        let successors =
            ToRunner::Successors { units: vec![(unit, epoch)], origin: view.me, successors: vec![owner] };
        self.acts.push(Act::Tell(runner, successors));
    }

    fn out(&self, unit: UnitId) -> Option<&Out> {
        self.origins.get(&unit.job)?.out.get(&unit.index)
    }

    fn out_mut(&mut self, unit: UnitId) -> Option<&mut Out> {
        self.origins.get_mut(&unit.job)?.out.get_mut(&unit.index)
    }

    /// The ring has the unit here: the origin owns it as any gateway does its units.
    pub(super) fn come_back(&mut self, unit: UnitId, delegated: Option<&Delegated>, view: &View<'_>) {
        if !view.jobs.is_active(unit.job) || view.book.state(unit) != Some(State::Elsewhere) {
            return;
        }
        let Some(ring) = self.origins.get_mut(&unit.job) else { return };
        if ring.mine.contains_key(&unit.index) {
            // It was named twice.
            return;
        }
        let out = ring.out.remove(&unit.index);
        let known = out.as_ref().map_or(0, |out| out.epoch);
        ring.mine.insert(
            unit.index,
            known.max(delegated.map_or(0, |delegated| delegated.epoch)).saturating_add(1),
        );
        let runner = delegated.and_then(|delegated| delegated.runner).or(out.and_then(|out| out.runner));
        self.acts.push(Act::ComeBack(unit));
        if let Some(delegated) = delegated {
            self.believe(unit, delegated, view);
        }
        if let Some(runner) = runner {
            self.claim(unit, runner, view);
        }
        self.acts.push(Act::Touch(unit.job));
    }

    /// Keeps the owner's record of the unit here, too.
    fn believe(&mut self, unit: UnitId, delegated: &Delegated, view: &View<'_>) {
        let known = self.delegated_of(unit, view).map(|delegated| delegated.age());
        let newer = known.is_none_or(|known| known <= delegated.age())
            && view.jobs.record(unit) != delegated.record.as_deref();
        let record = delegated.record.clone().filter(|_| newer);
        self.acts.push(Act::Progress { unit, attempts: delegated.attempts.min(super::ATTEMPTS_MAX), record });
    }

    /// From who owns units of this node's, or says so.
    pub(super) fn origin_told(
        &mut self,
        from: NodeId,
        job: JobId,
        units: impl Iterator<Item = Delegated>,
        view: &View<'_>,
    ) {
        let mut over = Vec::new();
        for delegated in units {
            let unit = UnitId { job, index: delegated.index };
            let shown = self.shows_keys(unit, &delegated, view);
            match self.verdict_on(from, unit, (delegated.epoch, shown), view) {
                ClaimVerdict::Owner => {
                    let mut claimed = None;
                    if let Some(out) = self.out_mut(unit) {
                        claimed = delegated.runner.filter(|_| delegated.epoch > out.epoch);
                        (out.epoch, out.runner) = (delegated.epoch, delegated.runner);
                        out.held = delegated.held.clone();
                    }
                    if let Some(runner) = claimed {
                        self.vouch(unit, runner, from, view);
                    }
                    self.believe(unit, &delegated, view);
                }
                ClaimVerdict::Over => over.push(unit),
                ClaimVerdict::Mine if shown => self.next(Step::Show(from, unit)),
                ClaimVerdict::Mine | ClaimVerdict::Doubt => {}
            }
        }
        self.tell_over(from, over);
        self.acts.push(Act::Touch(job));
    }

    /// From an owner: it lives.
    pub(super) fn lives(
        &mut self,
        from: NodeId,
        job: JobId,
        units: Vec<(u32, u32)>,
        waits: Option<String>,
        view: &View<'_>,
    ) {
        let (mut over, mut owns) = (Vec::new(), false);
        for (index, epoch) in units.into_iter().take(LIVES_MAX) {
            let unit = UnitId { job, index };
            match self.verdict_on(from, unit, (epoch, false), view) {
                ClaimVerdict::Over => over.push(unit),
                ClaimVerdict::Owner => owns = true,
                // It will show whether it knows the unit's keys when it tells more of it.
                ClaimVerdict::Mine | ClaimVerdict::Doubt => {}
            }
        }
        if let Some(ring) = self.origins.get_mut(&job).filter(|_| owns) {
            match waits {
                Some(why) => ring.waits = Some((from, bounds::reason(&why))),
                None => drop(ring.waits.take_if(|(owner, _)| *owner == from)),
            }
        }
        self.tell_over(from, over);
    }

    /// Nobody needs these units any more.
    pub fn tell_over(&mut self, to: NodeId, units: Vec<UnitId>) {
        if !units.is_empty() {
            self.say(Address::here(to), Message::Over(units));
        }
    }

    /// Judges the statement of `from` that it owns a unit. `shown`: the sender has shown that it knows the
    /// unit's keys.
    fn verdict_on(
        &mut self,
        from: NodeId,
        unit: UnitId,
        (epoch, shown): (u32, bool),
        view: &View<'_>,
    ) -> ClaimVerdict {
        if self.owned.contains_key(&unit.job) {
            return ClaimVerdict::Doubt;
        }
        match view.book.state(unit).filter(|_| view.jobs.is_active(unit.job)) {
            None | Some(State::Done | State::Failed) => return ClaimVerdict::Over,
            Some(State::Storing) => return ClaimVerdict::Doubt,
            Some(State::Elsewhere) => {}
            Some(_) => return ClaimVerdict::Mine,
        }
        let Some(ring) = self.origins.get(&unit.job) else { return ClaimVerdict::Over };
        if !ring.is_out(unit.index) && self.out_count() >= OUT_MAX {
            // Its turn comes; until then nobody fills the table by naming units.
            return ClaimVerdict::Doubt;
        }
        let Some(ring) = self.origins.get_mut(&unit.job) else { return ClaimVerdict::Over };
        let out = ring.out.entry(unit.index).or_insert_with(|| Out::new(unit, view.now));
        if out.is_of(from) && epoch >= out.epoch {
            (out.stage, out.at) = (Stage::Owned, view.now);
            return ClaimVerdict::Owner;
        }
        if out.stage == Stage::Owned && epoch <= out.epoch {
            return ClaimVerdict::Over;
        }
        // The ring may have moved: whom it names now is asked, if a new owner says so, and not whoever knows the
        // job's id.
        if out.stage != Stage::Unknown && shown {
            (out.stage, out.at) = (Stage::Unknown, view.now);
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
        view: &View<'_>,
    ) {
        let Some(ring) = self.origins.get_mut(&id) else { return };
        let mut was_asked = false;
        for index in units {
            if let Some(out) =
                ring.out.get_mut(index).filter(|out| out.is_of(from) && out.stage != Stage::Unknown)
            {
                (out.stage, out.at) = (Stage::Unknown, view.now + REST);
                was_asked = true;
            }
        }
        if !was_asked {
            return;
        }
        let reason = bounds::reason(reason);
        self.acts.push(Act::Short(id, format!("{} does not own them: {reason}", from.short())));
    }

    /// The result is durable: whoever else still owns the unit need not.
    pub fn out_over(&mut self, from: NodeId, unit: UnitId) {
        let Some(ring) = self.origins.get_mut(&unit.job) else { return };
        ring.mine.remove(&unit.index);
        let out = ring.out.remove(&unit.index);
        if let Some(owner) = out.and_then(|out| out.owner).filter(|owner| owner.id != from) {
            self.say(owner, Message::Over(vec![unit]));
        }
    }

    /// The job is over: nobody needs to own its units any more.
    pub fn recall(&mut self, job: JobId) {
        let Some(ring) = self.origins.get_mut(&job) else { return };
        let mut by_owner: BTreeMap<NodeId, (Contact, Vec<UnitId>)> = BTreeMap::new();
        for (index, out) in std::mem::take(&mut ring.out) {
            if let Some(owner) = out.owner {
                by_owner.entry(owner.id).or_insert((owner, Vec::new())).1.push(UnitId { job, index });
            }
        }
        for (owner, units) in by_owner.into_values() {
            self.say(owner, Message::Over(units));
        }
    }

    /// The ring gave this node an arc on which units of its own jobs are.
    pub(super) fn own_on_arc(&mut self, view: &View<'_>) {
        let Some(arc) = self.share.range() else { return };
        let mut mine = Vec::new();
        for (id, ring) in self.origins.iter().filter(|(id, _)| view.jobs.is_active(**id)) {
            let here = ring.out.iter().filter(|(_, out)| arc.contains(out.point) && out.owner.is_some());
            mine.extend(here.map(|(index, _)| UnitId { job: *id, index: *index }));
        }
        mine.into_iter().for_each(|unit| self.come_back(unit, None, view));
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
