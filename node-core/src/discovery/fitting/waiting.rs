//! Jobs of this node that wait: they are marked where idle nodes look, and given to who claims them. The owner alone
//! decides who gets a unit, so that each runs once.

use super::message::{Claim, Mark, Message, Share, ToMeeting, ToNode};
use super::{Asks, Event, Fcx, Fitting, Timer, room};
use crate::address::{Address, Contact};
use crate::capability::Candidate;
use crate::ids::{JobId, NodeId};
use crate::requires::{Binding, SLOTS_MAX};
use crate::time::Time;
use std::time::Duration;

/// Jobs of one node that wait at once. Our choice: all that a gateway runs at once; others wait for one to end.
pub(crate) const JOBS: usize = 4096;

/// Time after which a job that still waits is marked again, in case its meeting nodes are gone.
const RENEW: Duration = Duration::from_secs(600);

/// Pause until capable nodes are searched for again where none was found; each further one is twice as long, and no longer
/// than [`RENEW`]. Our choice: a tree that forms knows its nodes after half a minute.
const SEARCH: Duration = Duration::from_secs(10);

/// Share of capable nodes, millionths, below which a job is marked at capable nodes too. Our choice, of a dozen
/// settings that were tried in a model: a node that idles seldom looks where a scarce job is marked.
const SCARCE: u32 = 300_000;

/// Capable nodes at which a scarce job is marked, and one that less than a tenth can run. Our choice: with 16
/// for all the hardest workload waited no less, and took 5 messages a job more.
const MARKED: u16 = 8;
const MARKED_RARE: u16 = 16;
const RARE: u32 = 100_000;

/// Age that a job gains for each factor of e by which fewer nodes can run it. Our choice, of 60 and 200 s.
pub(super) const SCARCITY_MS: f64 = 60_000.0;

/// Time within which changes of shares are told together. Our choice: nodes that begin to idle at once are some dozens.
const TELL: Duration = Duration::from_secs(2);

/// A job that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    asks: Asks,
    /// Units without a place.
    units: u32,
    /// Since when it waits here, and its age then.
    since: Time,
    before: Duration,
    /// Where it is marked: at these meeting points, and at these nodes.
    meetings: Vec<u8>,
    capable: Vec<Contact>,
    /// When capable nodes may be searched for again, and the pause until the next time.
    search_at: Time,
    pause: Duration,
    /// Millionths of the nodes that searches have found: no estimate is believed that says less.
    found: u32,
}

impl Waiting {
    pub(super) fn asks(&self) -> &Asks {
        &self.asks
    }

    pub(super) fn capable(&self) -> &[Contact] {
        &self.capable
    }

    /// Whether it is marked at that meeting point.
    pub(super) fn is_marked_at(&self, meeting: u8) -> bool {
        self.meetings.contains(&meeting)
    }

    fn mark(&self, job: JobId, owner: Contact, meeting: Option<u8>, share: Share, now: Time) -> Mark {
        let age = self.before + now.since(self.since);
        let age_ms = u32::try_from(age.as_millis()).unwrap_or(u32::MAX);
        let (needs, bonus_ms) = (self.asks.needs, bonus_ms(self.asks.share));
        let words = self.asks.requires.numbers();
        Mark { meeting, owner, job, needs, words, units: self.units, age_ms, bonus_ms, share, room_ms: 0 }
    }
}

/// Capable nodes at which a scarce job is marked.
fn wanted(share: u32) -> u16 {
    if share < RARE { MARKED_RARE } else { MARKED }
}

/// Age that a job gains if this many millionths of the nodes can run it.
pub(super) fn bonus_ms(share: u32) -> u32 {
    (SCARCITY_MS * (1e6 / f64::from(share.clamp(1, 1_000_000))).ln()) as u32
}

impl Fitting {
    /// Has units of a job wait.
    pub(super) fn want(&mut self, job: JobId, asks: Asks, units: u32, cx: &mut Fcx<'_>) {
        if let Some(waiting) = self.waiting.get_mut(&job) {
            waiting.units = units;
            // Nodes have come that cannot run it, or some that can have gone.
            let is_scarce_now = asks.share < SCARCE && waiting.asks.share >= SCARCE;
            let is_unknown = waiting.capable.is_empty() && cx.now >= waiting.search_at;
            let share = asks.share.min(waiting.asks.share).max(waiting.found);
            (waiting.asks.nodes, waiting.asks.share) = (asks.nodes, share);
            if self.binds_early() {
                return;
            }
            if is_scarce_now {
                self.mark(job, cx);
            }
            if is_scarce_now || is_unknown {
                self.mark_if_scarce(job, cx);
            }
            return;
        }
        if asks.share > 0 {
            self.make_place(cx);
        }
        let full = self.waiting.len() >= JOBS;
        if full || self.me.is_none() {
            return cx.emit(Event::NotMarked { job, full });
        }
        let meetings = self.meetings.draw(cx);
        self.count_marked(&meetings, true);
        self.shares.begin(asks.submitter, asks.weight);
        let (since, before) = (cx.now, asks.age);
        let waiting = Waiting {
            asks,
            units,
            since,
            before,
            meetings,
            capable: Vec::new(),
            search_at: cx.now,
            pause: SEARCH,
            found: 0,
        };
        self.waiting.insert(job, waiting);
        if self.binds_early() {
            return self.bind_early(job, cx);
        }
        self.mark(job, cx);
        self.mark_if_scarce(job, cx);
    }

    /// Where as many jobs wait as may, one that no node can run gives its place up.
    fn make_place(&mut self, cx: &mut Fcx<'_>) {
        let is_full = self.waiting.len() >= JOBS;
        let mut none_can = self.waiting.iter().filter(|(_, waiting)| is_full && waiting.asks.share == 0);
        if let Some(job) = none_can.next().map(|(job, _)| *job) {
            self.unmark(job, cx);
            cx.emit(Event::NotMarked { job, full: true });
        }
    }

    /// Marks the job at nodes that can run it, if those are few; else idle nodes find it.
    fn mark_if_scarce(&mut self, job: JobId, cx: &mut Fcx<'_>) {
        let Some(waiting) = self.waiting.get_mut(&job).filter(|waiting| waiting.asks.share < SCARCE) else {
            return;
        };
        waiting.search_at = cx.now + waiting.pause;
        waiting.pause = (waiting.pause * 2).min(RENEW);
        let (needs, able) = (waiting.asks.needs, waiting.asks.able() as usize);
        let wanted = wanted(waiting.asks.share);
        match self.known.draw(&needs, (usize::from(wanted), able), cx) {
            Some(capable) => self.mark_with(job, capable, cx),
            None => {
                let number = self.searches.ask(job);
                cx.emit(Event::Search { number, job, needs, wanted });
            }
        }
    }

    /// Other meeting points are in use: jobs are marked there that no idle node would find.
    pub(super) fn mark_in_use(&mut self, cx: &mut Fcx<'_>) {
        let is_found = |job: &Waiting| job.meetings.iter().all(|meeting| self.meetings.uses(*meeting));
        let lost: Vec<JobId> =
            self.waiting.iter().filter(|(_, waiting)| !is_found(waiting)).map(|(job, _)| *job).collect();
        for job in lost {
            let now = self.meetings.draw(cx);
            let Some(waiting) = self.waiting.get_mut(&job) else { continue };
            let before = std::mem::replace(&mut waiting.meetings, now.clone());
            self.count_marked(&before, false);
            self.count_marked(&now, true);
            for meeting in before.into_iter().filter(|meeting| !now.contains(meeting)) {
                self.meetings.send(meeting, ToMeeting::Unmark { job }, cx);
            }
            self.mark(job, cx);
        }
    }

    /// Marks the job at its meeting nodes.
    pub(super) fn mark(&mut self, job: JobId, cx: &mut Fcx<'_>) {
        let Some(waiting) = self.waiting.get(&job) else { return };
        for meeting in waiting.meetings.clone() {
            self.mark_at(job, meeting, cx);
        }
        self.hold_meetings(cx);
        cx.set_timer(Timer::Renew(job), RENEW);
    }

    fn count_marked(&mut self, meetings: &[u8], more: bool) {
        for meeting in meetings {
            if let Some(jobs) = self.marked.get_mut(usize::from(*meeting)) {
                *jobs = if more { *jobs + 1 } else { jobs.saturating_sub(1) };
            }
        }
    }

    pub(super) fn mark_at(&mut self, job: JobId, meeting: u8, cx: &mut Fcx<'_>) {
        let (Some(me), Some(waiting)) = (self.me, self.waiting.get(&job)) else { return };
        let share = self.shares.of(waiting.asks.submitter);
        let mark = waiting.mark(job, me, Some(meeting), share, cx.now);
        self.meetings.send(meeting, ToMeeting::Mark(mark), cx);
    }

    /// These nodes can run the job: it is marked there too.
    pub(super) fn capable(&mut self, number: u64, found: &[Candidate], searched: bool, cx: &mut Fcx<'_>) {
        let Some(job) = self.searches.answered(number) else { return };
        for one in found {
            self.known.remember(*one, cx.now);
        }
        let at: Vec<Address> = found.iter().map(|one| one.at).collect();
        if self.binds_early() {
            return self.choose(job, &at, cx);
        }
        let Some(waiting) = self.waiting.get_mut(&job) else { return };
        let Asks { nodes, share, .. } = waiting.asks;
        let are_all = searched && found.len() < usize::from(wanted(share));
        let those = (found.len() as f64 / f64::from(nodes.max(1)) * 1e6).min(1e6) as u32;
        waiting.found = waiting.found.max(those);
        // All of them say more than an estimate, and some of them that there are as many.
        waiting.asks.share = if are_all && nodes > 0 { those } else { share.max(those) };
        let has_changed = waiting.asks.share != share;
        self.mark_with(job, at, cx);
        if has_changed {
            self.mark(job, cx);
        }
    }

    /// Marks the job at nodes that can run it; for a guest, at its gateway.
    pub(super) fn mark_with(&mut self, job: JobId, capable: Vec<Address>, cx: &mut Fcx<'_>) {
        let (Some(me), Some(waiting)) = (self.me, self.waiting.get_mut(&job)) else { return };
        waiting.capable = capable.iter().filter_map(Address::first_hop).collect();
        waiting.capable.sort_unstable();
        waiting.capable.dedup();
        let share = self.shares.of(waiting.asks.submitter);
        let mark = waiting.mark(job, me, None, share, cx.now);
        // First come first served.
        let alone = Mark { bonus_ms: 0, share: Share { running: None, ..share }, ..mark };
        let is_early = self.binding != Binding::Pull;
        let mut order = waiting.capable.clone();
        cx.rng.shuffle(&mut order);
        for (place, contact) in (0..).zip(order) {
            let mark = if is_early { alone } else { Mark { room_ms: room::after(place), ..mark } };
            cx.send_to(contact, Message::ToMeeting(ToMeeting::Mark(mark)));
        }
    }

    /// No unit of the job waits any more.
    pub(super) fn unmark(&mut self, job: JobId, cx: &mut Fcx<'_>) {
        let Some(waiting) = self.waiting.remove(&job) else { return };
        cx.cancel_timer(Timer::Renew(job));
        self.choices.remove(&job);
        self.shares.end(waiting.asks.submitter);
        self.count_marked(&waiting.meetings, false);
        self.hold_meetings(cx);
        for meeting in waiting.meetings {
            self.meetings.send(meeting, ToMeeting::Unmark { job }, cx);
        }
        for contact in waiting.capable {
            cx.send_to(contact, Message::ToMeeting(ToMeeting::Unmark { job }));
        }
    }

    /// Meeting nodes are told of shares in a moment, if one has changed.
    pub(super) fn tell_shares_soon(&mut self, cx: &mut Fcx<'_>) {
        if self.shares.has_news() {
            cx.set_timer_by(Timer::Shares, TELL);
        }
    }

    pub(super) fn tell_shares(&mut self, cx: &mut Fcx<'_>) {
        let shares = self.shares.take_news();
        if shares.is_empty() {
            return;
        }
        let marked = (0u8..).zip(self.marked).filter(|(_, jobs)| *jobs > 0);
        for (meeting, _) in marked {
            self.meetings.send(meeting, ToMeeting::Shares { shares: shares.clone() }, cx);
        }
        self.tell_shares_soon(cx);
    }

    /// A node that has claimed units of the job does not take them: it waits for them no longer, and leaves the job alone.
    pub(super) fn turned_away(&mut self, job: JobId, node: NodeId, cx: &mut Fcx<'_>) {
        if let Some(hop) = self.known.at(node).and_then(|at| at.first_hop()) {
            cx.send_to(hop, Message::ToNode(ToNode::Unfit { job, node }));
        }
    }

    /// A node has slots free for a job.
    pub(super) fn claimed(&mut self, from: NodeId, claim: &Claim, cx: &mut Fcx<'_>) {
        let job = claim.job;
        let node = claim.at.id;
        if claim.at.first_hop().is_none_or(|hop| hop.id != from) {
            return cx.fault(from, "claims a job for another node".into());
        }
        if let Err(why) = claim.stated.check() {
            return cx.fault(from, format!("states what no node may: {why}"));
        }
        self.known.remember(Candidate { at: claim.at, capability: claim.stated.capability }, cx.now);
        let mut given = (0, 0, None, 0);
        if let Some(waiting) = self.waiting.get_mut(&job) {
            let asks = &waiting.asks;
            // It was told of the job before its donor took something back, or another word of it has the bit of one
            // that is asked for.
            if !claim.stated.satisfies(&asks.needs, &asks.requires) {
                return cx.send(from, Message::ToNode(ToNode::Unfit { job, node }));
            }
            let share = self.shares.of(waiting.asks.submitter);
            let is_outdone = share.running.is_some_and(|running| running > claim.most);
            let units = if is_outdone { 0 } else { claim.slots.min(waiting.units).min(SLOTS_MAX) };
            waiting.units -= units;
            self.shares.add(waiting.asks.submitter, units);
            let bonus_ms = bonus_ms(waiting.asks.share);
            given = (units, waiting.units, Some(self.shares.of(waiting.asks.submitter)), bonus_ms);
        }
        let (units, left, share, bonus_ms) = given;
        cx.send(from, Message::ToNode(ToNode::Given { job, node, units, left, share, bonus_ms }));
        if units > 0 {
            cx.emit(Event::Claimed { job, node: claim.at, units });
            self.tell_shares_soon(cx);
        }
        if let Some(waiting) = self.waiting.get_mut(&job).filter(|waiting| waiting.units == 0) {
            // It is told by the answer.
            waiting.capable.retain(|contact| contact.id != from);
            self.unmark(job, cx);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fewer_can_run_a_job_the_older_it_counts() {
        assert_eq!((bonus_ms(1_000_000), bonus_ms(500_000), bonus_ms(1000)), (0, 41_588, 414_465));
        assert_eq!((bonus_ms(0), bonus_ms(2_000_000)), (bonus_ms(1), 0), "whatever was estimated");
    }
}
