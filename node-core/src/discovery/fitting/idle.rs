//! Free slots of one node: it looks for jobs that wait, and claims the best at its owner. A gateway looks for its guests,
//! too, whom nobody can tell anything but by way of it.

use super::message::{Ability, Claim, Line, Mark, Message, SKIPPED, Share, ToMeeting, ToOwner, short};
use super::{Event, Fcx, Fitting, Timer, marks, urgency};
use crate::address::{Address, Contact};
use crate::ids::{JobId, NodeId};
use crate::requires::{GuestSlots, Stated};
use crate::time::Time;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Time for which the meeting nodes' answers are waited for. Our choice: two round trips around the world, and a dial.
const ANSWERS: Duration = Duration::from_secs(3);

/// Time for which an owner's answer to a claim is waited for. Our choice: likewise, to a node that is new to this one.
const CLAIM: Duration = Duration::from_secs(5);

/// Time after which a node that found nothing looks elsewhere.
const AGAIN: Duration = Duration::from_secs(60);

/// Time for which slots are kept for an owner that has accepted a claim. Our choice: to send the units.
const KEPT: Duration = Duration::from_secs(30);

/// Time for which a node leaves a job alone whose owner found it unfit. Our choice: donors seldom change what they give.
const UNFIT: Duration = Duration::from_secs(600);

/// Claims of one look that may be turned down since another job is more urgent. Our choice: shares that are two seconds
/// old are corrected by the first.
const OUTDONE: u32 = 2;

/// Looks one after the other whose jobs were all gone, until the node waits before the next. Our choice: a few round
/// trips.
const IN_VAIN: u32 = 4;

/// Likewise, with a job that the node skips from then on. Our choice: as many as it skips.
const UNFIT_LOOKS: u32 = SKIPPED as u32;

/// Marks that a node goes through before it looks again. Our choice: most often the first one is still there.
const LINES: usize = 32;

/// Slots of a node.
#[derive(Debug, Default)]
pub(super) struct Idle {
    /// Others reach the node there; none: it is this node, and nobody dials it.
    at: Option<Address>,
    stated: Stated,
    slots: u32,
    busy: BTreeMap<NodeId, u32>,
    /// Slots kept for owners whose units are on their way.
    kept: BTreeMap<NodeId, u32>,
    /// Jobs of which this node had units, and of which more waited then.
    known: Vec<(Line, Time)>,
    /// The last jobs whose owners found this node unfit, and when.
    unfit: VecDeque<(NodeId, JobId, Time)>,
    look: Option<Look>,
    /// Meeting points where this node is parked, and until when.
    parked: BTreeMap<u8, Time>,
    /// Looks one after the other whose jobs were all gone, and those with one that is skipped since.
    in_vain: (u32, u32),
    /// Jobs that were gone in them.
    gone: Vec<JobId>,
}

/// A look for jobs.
#[derive(Debug, Default)]
struct Look {
    /// Meeting points of which no answer has come.
    waits: Vec<u8>,
    lines: Vec<Line>,
    /// The claim under way.
    claimed: Option<Line>,
    /// A job was gone when this node claimed it, or is skipped since.
    in_vain: bool,
    unfit: bool,
    /// Claims that were turned down since another job is more urgent.
    outdone: u32,
}

impl Look {
    fn sort(&mut self) {
        urgency::sort(&mut self.lines);
    }
}

impl Idle {
    pub(super) fn of(stated: Stated) -> Idle {
        Idle { stated, ..Idle::default() }
    }

    /// Slots that are busy, or kept for units that come.
    pub(super) fn taken(&self) -> u32 {
        let taken = self.busy.values().chain(self.kept.values());
        // A guest may state anything.
        taken.fold(0, |sum, slots| sum.saturating_add(*slots))
    }

    /// Looks that were in vain count no more.
    fn succeeded(&mut self) {
        (self.in_vain, self.gone) = ((0, 0), Vec::new());
    }

    /// Jobs that it can run now.
    pub(super) fn able(&self, now: Time) -> Ability {
        let unfit = self.unfit.iter().filter(|(.., since)| now.since(*since) < UNFIT);
        // A look that follows some that were in vain is to have it parked.
        let gone = self.gone.iter().filter(|_| self.in_vain.0 > IN_VAIN);
        let skip = unfit.map(|(_, job, _)| job).chain(gone).take(SKIPPED).map(|job| short(*job)).collect();
        let words = Some(self.stated.properties.numbers());
        Ability { capability: self.stated.capability, words, skip }
    }

    /// Whether units run in all of its slots, and none is on its way.
    pub(super) fn is_full(&self) -> bool {
        self.slots > 0 && self.free() == 0 && self.kept.is_empty()
    }

    fn free(&self) -> u32 {
        self.slots.saturating_sub(self.taken())
    }

    /// Takes the number of slots, and how many are busy for whom. Slots that were kept for units that have come since are
    /// kept no more.
    fn load(&mut self, slots: u32, busy: BTreeMap<NodeId, u32>) {
        for (owner, kept) in &mut self.kept {
            let before = self.busy.get(owner).copied().unwrap_or_default();
            let now = busy.get(owner).copied().unwrap_or_default();
            *kept = kept.saturating_sub(now.saturating_sub(before));
        }
        self.kept.retain(|_, kept| *kept > 0);
        (self.slots, self.busy) = (slots, busy);
    }

    /// Adds jobs to those that may be claimed.
    fn add(&mut self, lines: Vec<Line>, now: Time) {
        let Some(look) = &mut self.look else { return };
        self.unfit.retain(|(.., since)| now.since(*since) < UNFIT);
        for line in lines {
            let job = (line.owner.id, line.job);
            let is_unfit = self.unfit.iter().any(|(owner, unfit, _)| (*owner, *unfit) == job);
            let known = look.lines.iter_mut().find(|known| (known.owner.id, known.job) == job);
            match known {
                // The newer word knows its share better.
                Some(known) => *known = line,
                // It was parked, or asked, before it skipped that job.
                None if is_unfit => look.unfit = true,
                None => look.lines.push(line),
            }
        }
        look.sort();
        look.lines.truncate(LINES);
    }

    /// Whether it has asked everywhere, and waits for a job that it can run.
    fn waits_for(&self, mark: &Mark, now: Time) -> bool {
        let has_asked = self.look.as_ref().is_some_and(|look| look.waits.is_empty());
        has_asked && self.free() > 0 && self.able(now).runs(mark.job, &mark.needs, &mark.words)
    }

    /// Jobs that it knows of are urgent by this share from now on.
    pub(super) fn share(&mut self, owner: NodeId, share: Share) {
        let looked = self.look.iter_mut().flat_map(|look| &mut look.lines);
        let lines = looked.chain(self.known.iter_mut().map(|(line, _)| line));
        let of = |line: &&mut Line| (line.owner.id, line.share.submitter) == (owner, share.submitter);
        lines.filter(of).for_each(|line| line.share = share);
        if let Some(look) = &mut self.look {
            look.sort();
        }
    }

    /// Ends the claim of this job, which is answered; none if no such claim is under way.
    fn answered(&mut self, owner: NodeId, job: JobId) -> Option<Line> {
        let look = self.look.as_mut()?;
        look.claimed.take_if(|line| (line.owner.id, line.job) == (owner, job))
    }
}

impl Fitting {
    fn idle(&mut self, who: NodeId, cx: &Fcx<'_>) -> Option<&mut Idle> {
        if who == cx.me { Some(&mut self.own) } else { self.guests.get_mut(&who) }
    }

    /// Slots of this node, and how many are busy for whom.
    pub(super) fn load(&mut self, slots: u32, busy: &[(NodeId, u32)], cx: &mut Fcx<'_>) {
        self.own.load(slots, busy.iter().copied().collect());
        self.look_if_idle(cx.me, cx);
    }

    /// Others dial this node there, and reach its guests by way of it.
    pub(super) fn at(&mut self, me: Option<Contact>, cx: &mut Fcx<'_>) {
        let before = std::mem::replace(&mut self.me, me);
        self.own.at = me.map(Address::from);
        if before != me {
            // They are told to it again.
            let guests: Vec<NodeId> = self.guests.keys().copied().collect();
            guests.into_iter().for_each(|guest| self.guest(guest, None, cx));
        }
        self.look_if_idle(cx.me, cx);
    }

    /// This node can do so much from now on.
    pub(super) fn able(&mut self, stated: Stated, cx: &mut Fcx<'_>) {
        self.states(cx.me, stated, cx);
    }

    /// An idle node that can do something else looks anew: there may be jobs that it could not run before, and it is parked
    /// where others know it as it was.
    fn states(&mut self, who: NodeId, stated: Stated, cx: &mut Fcx<'_>) {
        let Some(idle) = self.idle(who, cx) else { return };
        if std::mem::replace(&mut idle.stated, stated.clone()) != stated {
            self.look_again(who, cx);
        }
    }

    /// The donor's terms are others: jobs that were none for this node may be.
    pub(super) fn on_other_terms(&mut self, cx: &mut Fcx<'_>) {
        self.own.unfit.clear();
        self.look_again(cx.me, cx);
    }

    fn look_again(&mut self, who: NodeId, cx: &mut Fcx<'_>) {
        self.end_look(who, cx);
        self.look_if_idle(who, cx);
    }

    /// A guest of this node has these slots; none: it is a guest of this node no more.
    pub(super) fn guest(&mut self, guest: NodeId, slots: Option<GuestSlots>, cx: &mut Fcx<'_>) {
        let (Some(GuestSlots { stated, slots, busy }), Some(me)) = (slots, self.me) else {
            self.end_look(guest, cx);
            cx.cancel_timer(Timer::Look(guest));
            if let Some(idle) = self.guests.remove(&guest) {
                idle.kept.keys().for_each(|owner| cx.cancel_timer(Timer::Kept(guest, *owner)));
            }
            return;
        };
        let idle = self.guests.entry(guest).or_insert_with(|| Idle::of(stated.clone()));
        idle.at = Some(Address::guest(guest, me).with_channels(true));
        idle.load(slots, busy.into_iter().collect());
        self.states(guest, stated, cx);
        self.look_if_idle(guest, cx);
    }

    /// All look anew: they would find jobs elsewhere by now.
    pub(super) fn look_anew(&mut self, cx: &mut Fcx<'_>) {
        let all: Vec<NodeId> = std::iter::once(cx.me).chain(self.guests.keys().copied()).collect();
        all.into_iter().for_each(|who| self.look_again(who, cx));
    }

    /// Ends the look for jobs, unless a claim is under way: the owner's answer says how many slots it takes.
    fn end_look(&mut self, who: NodeId, cx: &mut Fcx<'_>) {
        let Some(idle) = self.idle(who, cx) else { return };
        let Some(look) = idle.look.take_if(|look| look.claimed.is_none()) else { return };
        let parked = std::mem::take(&mut idle.parked).into_iter().filter(|(_, until)| *until > cx.now);
        let at: Vec<u8> = parked.map(|(meeting, _)| meeting).chain(look.waits).collect();
        cx.cancel_timer(Timer::Look(who));
        for meeting in at {
            self.meetings.send(meeting, ToMeeting::Leave { node: who }, cx);
        }
    }

    /// Looks for jobs if a slot is free, and no more if none is.
    pub(super) fn look_if_idle(&mut self, who: NodeId, cx: &mut Fcx<'_>) {
        let (marks, now) = (&self.marks, cx.now);
        let idle = if who == cx.me { Some(&mut self.own) } else { self.guests.get_mut(&who) };
        let Some((idle, at)) = idle.and_then(|idle| idle.at.map(|at| (idle, at))) else { return };
        if idle.free() == 0 {
            return self.end_look(who, cx);
        }
        if idle.look.is_some() {
            return;
        }
        let able = idle.able(now);
        let mut lines = marks.best_for(&able, now);
        lines.extend(idle.known.drain(..).map(|(line, since)| line.after(now.since(since))));
        let meetings = self.meetings.draw(cx);
        idle.look = Some(Look { waits: meetings.clone(), ..Look::default() });
        idle.add(lines, now);
        for meeting in meetings {
            self.meetings.send(meeting, ToMeeting::Seek { meeting, at, able: able.clone() }, cx);
        }
        cx.set_timer(Timer::Look(who), ANSWERS);
        if self.binds_early() {
            self.claim(who, cx);
        }
    }

    /// A meeting node knows of these jobs, now or some time after it was asked for `who`.
    pub(super) fn told(
        &mut self,
        from: NodeId,
        (meeting, who): (u8, NodeId),
        lines: Vec<Line>,
        cx: &mut Fcx<'_>,
    ) {
        if lines.len() > marks::LINES {
            return cx.fault(from, "names more jobs than an answer has".into());
        }
        let now = cx.now;
        let Some(idle) = self.idle(who, cx) else { return };
        let Some(look) = &mut idle.look else { return };
        look.waits.retain(|waits| *waits != meeting);
        match lines.is_empty() {
            true => idle.parked.insert(meeting, now + marks::LEAVES),
            false => idle.parked.remove(&meeting),
        };
        self.lines(who, lines, cx);
    }

    fn lines(&mut self, who: NodeId, lines: Vec<Line>, cx: &mut Fcx<'_>) {
        let now = cx.now;
        let Some(idle) = self.idle(who, cx) else { return };
        idle.add(lines, now);
        if idle.look.as_ref().is_some_and(|look| look.waits.is_empty()) {
            self.claim(who, cx);
        }
    }

    /// Asks at the meeting point again, whose owner turned out to be another.
    pub(super) fn seek_again(&mut self, meeting: u8, cx: &mut Fcx<'_>) {
        for idle in std::iter::once(&self.own).chain(self.guests.values()) {
            let (Some(at), Some(look)) = (idle.at, &idle.look) else { continue };
            if look.waits.contains(&meeting) || idle.parked.contains_key(&meeting) {
                let able = idle.able(cx.now);
                self.meetings.send(meeting, ToMeeting::Seek { meeting, at, able }, cx);
            }
        }
    }

    /// A job is marked at this node, which may idle itself, or its guests may.
    pub(super) fn marked_here(&mut self, line: Line, mark: &Mark, cx: &mut Fcx<'_>) {
        let waits = |idle: &Idle| idle.waits_for(mark, cx.now);
        let guests = self.guests.iter().filter(|(_, idle)| waits(idle)).map(|(node, _)| *node);
        let first = if waits(&self.own) { Some(cx.me) } else { guests.min() };
        if let Some(who) = first {
            self.lines(who, vec![line], cx);
        }
    }

    /// Claims the best of the jobs that are known, with all free slots.
    fn claim(&mut self, who: NodeId, cx: &mut Fcx<'_>) {
        let Some(idle) = self.idle(who, cx) else { return };
        let slots = idle.free();
        let (Some(at), Some(look)) = (idle.at, &mut idle.look) else { return };
        if look.claimed.is_some() || slots == 0 {
            return;
        }
        if look.lines.is_empty() {
            let (in_vain, unfit) = &mut idle.in_vain;
            let looks = match (look.unfit, look.in_vain) {
                (true, _) if *unfit < UNFIT_LOOKS => Some(unfit),
                (_, true) if *in_vain <= IN_VAIN => Some(in_vain),
                _ => None,
            };
            if let Some(looks) = looks {
                // It is parked nowhere, and there are jobs.
                *looks += 1;
                idle.look = None;
                return self.look_if_idle(who, cx);
            }
            idle.succeeded();
            cx.set_timer(Timer::Look(who), AGAIN);
            return;
        }
        let line = look.lines.remove(0);
        look.claimed = Some(line);
        let Line { owner, job, .. } = line;
        let of = |line: &Line| (line.owner.id, line.share.submitter);
        let next = look.lines.iter().find(|other| of(other) != of(&line));
        let most = match next.filter(|_| look.outdone < OUTDONE) {
            Some(next) => urgency::most(&line, next),
            None => u32::MAX,
        };
        let claim = Claim { job, at, stated: idle.stated.clone(), slots, most };
        cx.set_timer(Timer::Look(who), CLAIM);
        cx.send_to(owner, Message::ToOwner(ToOwner::Claim(claim)));
    }

    /// The owner's answer to a claim: units that it gives, and how many are left.
    pub(super) fn given(
        &mut self,
        from: NodeId,
        (job, who): (JobId, NodeId),
        (units, left, share): (u32, u32, Option<Share>),
        bonus_ms: u32,
        cx: &mut Fcx<'_>,
    ) {
        let (is_own, now) = (who == cx.me, cx.now);
        let Some(idle) = self.idle(who, cx) else { return };
        let free = idle.free();
        let Some(line) = idle.answered(from, job) else { return };
        let look = idle.look.as_mut().filter(|look| look.outdone < OUTDONE);
        if let (0, 1.., Some(look)) = (units, left, look) {
            look.outdone += 1;
            look.lines.push(Line { share: share.unwrap_or(line.share), ..line });
            look.sort();
            return self.go_on(who, cx);
        }
        // An owner that gives nothing to a claim without a bound has nothing.
        if units > 0 && left > 0 && idle.known.len() < LINES {
            idle.known.push((line, now));
        }
        let units = units.min(free);
        if units > 0 {
            idle.succeeded();
            *idle.kept.entry(from).or_default() += units;
            cx.set_timer(Timer::Kept(who, from), KEPT);
            if is_own {
                self.scarcities.put(&line, bonus_ms, now);
                cx.emit(Event::Reserved { owner: from, slots: units, until: now + KEPT });
            }
        } else if let Some(look) = &mut idle.look {
            look.in_vain = true;
            if idle.gone.len() < LINES {
                idle.gone.push(job);
            }
        }
        if left == 0 {
            self.marks.remove(from, job);
        }
        self.go_on(who, cx);
    }

    /// Claims the next job, or ends its look.
    fn go_on(&mut self, who: NodeId, cx: &mut Fcx<'_>) {
        match self.idle(who, cx).map(|idle| (idle.free(), idle.look.is_some())) {
            None => {}
            Some((0, _) | (_, false)) => self.look_if_idle(who, cx),
            Some(_) => self.claim(who, cx),
        }
    }

    /// The owner's answer to a claim: the node has not what the job requires; or, later, it took none of the units that
    /// it was given.
    pub(super) fn unfit(&mut self, from: NodeId, job: JobId, who: NodeId, cx: &mut Fcx<'_>) {
        let (is_own, now) = (who == cx.me, cx.now);
        let Some(idle) = self.idle(who, cx) else { return };
        idle.unfit.push_back((from, job, now));
        idle.known.retain(|(line, _)| (line.owner.id, line.job) != (from, job));
        if idle.answered(from, job).is_none()
            && let Some(slots) = idle.kept.remove(&from)
        {
            cx.cancel_timer(Timer::Kept(who, from));
            if is_own {
                cx.emit(Event::Released { owner: from, slots });
            }
        } else if let Some(look) = &mut idle.look {
            look.unfit = true;
        }
        if idle.unfit.len() > SKIPPED {
            idle.unfit.pop_front();
        }
        self.go_on(who, cx);
    }

    /// Answers have not come, or nothing was found for a while.
    pub(super) fn look_late(&mut self, who: NodeId, cx: &mut Fcx<'_>) {
        let Some(idle) = self.idle(who, cx) else { return };
        let Some(look) = &mut idle.look else { return };
        if let Some(line) = look.claimed.take() {
            self.marks.remove(line.owner.id, line.job);
            return self.claim(who, cx);
        }
        if !look.waits.is_empty() || !look.lines.is_empty() {
            look.waits.clear();
            return self.claim(who, cx);
        }
        // It stays parked where it was until they forget it, and looks elsewhere.
        idle.look = None;
        self.look_if_idle(who, cx);
    }

    /// The units that slots were kept for have not come.
    pub(super) fn kept_over(&mut self, who: NodeId, owner: NodeId, cx: &mut Fcx<'_>) {
        if let Some(idle) = self.idle(who, cx) {
            idle.kept.remove(&owner);
            self.look_if_idle(who, cx);
        }
    }

    /// The owner of claimed jobs cannot be reached.
    pub(super) fn owner_gone(&mut self, owner: NodeId, cx: &mut Fcx<'_>) {
        self.marks.forget(owner);
        let mut waits = Vec::new();
        for (who, idle) in std::iter::once((&cx.me, &mut self.own)).chain(&mut self.guests) {
            idle.known.retain(|(line, _)| line.owner.id != owner);
            let Some(look) = &mut idle.look else { continue };
            look.lines.retain(|line| line.owner.id != owner);
            if look.claimed.take_if(|line| line.owner.id == owner).is_some() {
                waits.push(*who);
            }
        }
        waits.into_iter().for_each(|who| self.claim(who, cx));
    }

    pub(super) fn check_idle(&self) {
        for idle in std::iter::once(&self.own).chain(self.guests.values()) {
            assert!(idle.look.as_ref().is_none_or(|look| look.lines.len() <= LINES), "lines are bounded");
        }
    }
}
