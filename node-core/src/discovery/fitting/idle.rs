//! A node with free slots: it looks for jobs that wait, and claims the best at its owner.

use super::message::{Claim, Line, Message, ToMeeting, ToOwner};
use super::{Event, Fcx, Fitting, Timer, marks};
use crate::capability::Capability;
use crate::ids::{JobId, NodeId};
use crate::requires::Properties;
use crate::time::Time;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Time for which the meeting nodes' answers are waited for. Our choice: two round trips around the world, and a dial.
const ANSWERS: Duration = Duration::from_secs(3);

/// Time for which an owner's answer to a claim is waited for. Our choice: likewise, to a node that is new to this one.
const CLAIM: Duration = Duration::from_secs(5);

/// Time after which a node that found nothing looks elsewhere.
const AGAIN: Duration = Duration::from_secs(60);

/// Time for which slots are kept for an owner that has accepted a claim. Our choice: to send the units.
const KEPT: Duration = Duration::from_secs(30);

/// Looks one after the other whose jobs were all gone, until the node waits before the next. Our choice: a few round
/// trips.
const IN_VAIN: u32 = 4;

/// Marks that a node goes through before it looks again. Our choice: most often the first one is still there.
const LINES: usize = 32;

/// Slots of this node.
#[derive(Debug, Default)]
pub(super) struct Idle {
    capability: Capability,
    properties: Arc<Properties>,
    slots: u32,
    busy: BTreeMap<NodeId, u32>,
    /// Slots kept for owners whose units are on their way.
    kept: BTreeMap<NodeId, u32>,
    /// Jobs of which this node had units, and of which more waited then.
    known: Vec<(Line, Time)>,
    /// The last jobs whose owners found this node unfit.
    unfit: VecDeque<(NodeId, JobId)>,
    look: Option<Look>,
    /// Meeting points where this node is parked, and until when.
    parked: BTreeMap<u8, Time>,
    /// Looks one after the other whose jobs were all gone.
    in_vain: u32,
}

/// A look for jobs.
#[derive(Debug, Default)]
struct Look {
    /// Meeting points of which no answer has come.
    waits: Vec<u8>,
    lines: Vec<Line>,
    /// The claim under way.
    claimed: Option<Line>,
    /// A job was gone when this node claimed it.
    in_vain: bool,
}

impl Idle {
    pub(super) fn new(capability: Capability, properties: Arc<Properties>) -> Idle {
        Idle { capability, properties, ..Idle::default() }
    }

    fn free(&self) -> u32 {
        let taken: u32 = self.busy.values().chain(self.kept.values()).sum();
        self.slots.saturating_sub(taken)
    }
}

impl Fitting {
    /// Slots of this node, and how many are busy for whom.
    pub(super) fn load(&mut self, slots: u32, busy: &[(NodeId, u32)], cx: &mut Fcx<'_>) {
        let idle = &mut self.idle;
        let busy: BTreeMap<NodeId, u32> = busy.iter().copied().collect();
        for (owner, kept) in &mut idle.kept {
            let before = idle.busy.get(owner).copied().unwrap_or_default();
            let now = busy.get(owner).copied().unwrap_or_default();
            // Units that were waited for have come.
            *kept = kept.saturating_sub(now.saturating_sub(before));
        }
        idle.kept.retain(|_, kept| *kept > 0);
        (idle.slots, idle.busy) = (slots, busy);
        self.look_if_idle(cx);
    }

    /// This node can do so much from now on. An idle one looks anew: there may be jobs that it could not run before, and
    /// it is parked where others know it as it was.
    pub(super) fn able(&mut self, capability: Capability, cx: &mut Fcx<'_>) {
        let before = std::mem::replace(&mut self.idle.capability, capability);
        if before != capability {
            self.end_look(cx);
            self.look_if_idle(cx);
        }
    }

    /// Ends the look for jobs, unless a claim is under way: the owner's answer says how many slots it takes.
    pub(super) fn end_look(&mut self, cx: &mut Fcx<'_>) {
        let Some(look) = self.idle.look.take_if(|look| look.claimed.is_none()) else { return };
        cx.cancel_timer(Timer::Look);
        let (parked, now) = (std::mem::take(&mut self.idle.parked), cx.now);
        let parked = parked.into_iter().filter(|(_, until)| *until > now);
        for meeting in parked.map(|(meeting, _)| meeting).chain(look.waits) {
            self.meetings.send(meeting, ToMeeting::Leave, cx);
        }
    }

    /// Looks for jobs if a slot is free, and no more if none is.
    pub(super) fn look_if_idle(&mut self, cx: &mut Fcx<'_>) {
        let Some(contact) = self.me else { return };
        if self.idle.free() == 0 {
            return self.end_look(cx);
        }
        if self.idle.look.is_some() {
            return;
        }
        let capability = self.idle.capability;
        let mut lines = self.marks.best_for(&capability, cx.now);
        lines.extend(self.idle.known.drain(..).map(|(line, since)| line.after(cx.now.since(since))));
        let at = self.meetings.draw(cx);
        for meeting in at.iter().copied() {
            self.meetings.send(meeting, ToMeeting::Seek { meeting, contact, capability }, cx);
        }
        self.idle.look = Some(Look { waits: at, ..Look::default() });
        self.add(lines);
        cx.set_timer(Timer::Look, ANSWERS);
    }

    /// A meeting node knows of these jobs, now or some time after it was asked.
    pub(super) fn told(&mut self, from: NodeId, meeting: u8, lines: Vec<Line>, cx: &mut Fcx<'_>) {
        if lines.len() > marks::LINES {
            return cx.fault(from, "names more jobs than an answer has".into());
        }
        let Some(look) = &mut self.idle.look else { return };
        look.waits.retain(|waits| *waits != meeting);
        match lines.is_empty() {
            true => self.idle.parked.insert(meeting, cx.now + marks::LEAVES),
            false => self.idle.parked.remove(&meeting),
        };
        self.lines(lines, cx);
    }

    fn lines(&mut self, lines: Vec<Line>, cx: &mut Fcx<'_>) {
        self.add(lines);
        if self.idle.look.as_ref().is_some_and(|look| look.waits.is_empty()) {
            self.claim(cx);
        }
    }

    /// Asks at the meeting point again, whose owner turned out to be another.
    pub(super) fn seek_again(&mut self, meeting: u8, cx: &mut Fcx<'_>) {
        let (Some(contact), Some(look)) = (self.me, &self.idle.look) else { return };
        if look.waits.contains(&meeting) || self.idle.parked.contains_key(&meeting) {
            let capability = self.idle.capability;
            self.meetings.send(meeting, ToMeeting::Seek { meeting, contact, capability }, cx);
        }
    }

    /// Adds jobs to those that may be claimed.
    fn add(&mut self, lines: Vec<Line>) {
        let Some(look) = &mut self.idle.look else { return };
        for line in lines {
            if self.idle.unfit.contains(&(line.owner.id, line.job)) {
                continue;
            }
            if !look.lines.iter().any(|known| (known.owner.id, known.job) == (line.owner.id, line.job)) {
                look.lines.push(line);
            }
        }
        look.lines.sort_unstable_by_key(|line| (std::cmp::Reverse(line.score), line.owner.id, line.job));
        look.lines.truncate(LINES);
    }

    /// A job is marked at this node, which may idle itself.
    pub(super) fn marked_here(&mut self, line: Line, needs: &Capability, cx: &mut Fcx<'_>) {
        let waits = self.idle.look.as_ref().is_some_and(|look| look.waits.is_empty());
        if waits && self.idle.free() > 0 && self.idle.capability.covers(needs) {
            self.lines(vec![line], cx);
        }
    }

    /// Claims the best of the jobs that are known, with all free slots.
    fn claim(&mut self, cx: &mut Fcx<'_>) {
        let (slots, capability) = (self.idle.free(), self.idle.capability);
        let (Some(at), Some(look)) = (self.me, &mut self.idle.look) else { return };
        if look.claimed.is_some() || slots == 0 {
            return;
        }
        if look.lines.is_empty() {
            if look.in_vain && self.idle.in_vain < IN_VAIN {
                // It is parked nowhere, and there are jobs.
                self.idle.in_vain += 1;
                self.idle.look = None;
                return self.look_if_idle(cx);
            }
            self.idle.in_vain = 0;
            return cx.set_timer(Timer::Look, AGAIN);
        }
        let line = look.lines.remove(0);
        look.claimed = Some(line);
        let Line { owner, job, .. } = line;
        cx.set_timer(Timer::Look, CLAIM);
        let properties = Box::new(Properties::clone(&self.idle.properties));
        let claim = Claim { job, at, capability, properties, slots };
        cx.send_to(owner, Message::ToOwner(ToOwner::Claim(claim)));
    }

    /// The owner's answer to a claim: units that it gives, and how many are left.
    pub(super) fn given(&mut self, from: NodeId, job: JobId, (units, left): (u32, u32), cx: &mut Fcx<'_>) {
        let free = self.idle.free();
        let Some(look) = &mut self.idle.look else { return };
        let Some(line) = look.claimed.take_if(|line| (line.owner.id, line.job) == (from, job)) else {
            return;
        };
        if left == 0 {
            self.marks.remove(from, job);
        } else if self.idle.known.len() < LINES {
            self.idle.known.push((line, cx.now));
        }
        let units = units.min(free);
        look.in_vain |= units == 0;
        if units > 0 {
            self.idle.in_vain = 0;
            *self.idle.kept.entry(from).or_default() += units;
            cx.set_timer(Timer::Kept(from), KEPT);
            cx.emit(Event::Reserved { owner: from, slots: units, until: cx.now + KEPT });
        }
        match self.idle.free() {
            0 => self.look_if_idle(cx),
            _ => self.claim(cx),
        }
    }

    /// The owner's answer to a claim: this node has not what the job requires.
    pub(super) fn unfit(&mut self, from: NodeId, job: JobId, cx: &mut Fcx<'_>) {
        let Some(look) = &mut self.idle.look else { return };
        if look.claimed.take_if(|line| (line.owner.id, line.job) == (from, job)).is_none() {
            return;
        }
        look.in_vain = true;
        self.idle.unfit.push_back((from, job));
        if self.idle.unfit.len() > LINES {
            self.idle.unfit.pop_front();
        }
        match self.idle.free() {
            0 => self.look_if_idle(cx),
            _ => self.claim(cx),
        }
    }

    /// Answers have not come, or nothing was found for a while.
    pub(super) fn look_late(&mut self, cx: &mut Fcx<'_>) {
        let Some(look) = &mut self.idle.look else { return };
        if let Some(line) = look.claimed.take() {
            self.marks.remove(line.owner.id, line.job);
            return self.claim(cx);
        }
        if !look.waits.is_empty() || !look.lines.is_empty() {
            look.waits.clear();
            return self.claim(cx);
        }
        // It stays parked where it was until they forget it, and looks elsewhere.
        self.idle.look = None;
        self.look_if_idle(cx);
    }

    /// The units that slots were kept for have not come.
    pub(super) fn kept_over(&mut self, owner: NodeId, cx: &mut Fcx<'_>) {
        self.idle.kept.remove(&owner);
        self.look_if_idle(cx);
    }

    /// The owner of a claimed job cannot be reached.
    pub(super) fn owner_gone(&mut self, owner: NodeId, cx: &mut Fcx<'_>) {
        self.marks.forget(owner);
        self.idle.known.retain(|(line, _)| line.owner.id != owner);
        let Some(look) = &mut self.idle.look else { return };
        look.lines.retain(|line| line.owner.id != owner);
        if look.claimed.is_some_and(|line| line.owner.id == owner) {
            look.claimed = None;
            self.claim(cx);
        }
    }

    pub(super) fn check_idle(&self) {
        assert!(self.idle.look.as_ref().is_none_or(|look| look.lines.len() <= LINES), "lines are bounded");
    }
}
