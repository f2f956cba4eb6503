//! Jobs of this node that wait: they are marked where idle nodes look, and given to who claims them. The owner alone
//! decides who gets a unit, so that each runs once.

use super::meetings::Meetings;
use super::message::{Mark, Message, ToMeeting, ToNode};
use super::{Event, Fcx, Fitting, Timer};
use crate::address::Contact;
use crate::capability::{Candidate, Capability};
use crate::ids::{JobId, NodeId};
use crate::time::Time;
use std::time::Duration;

/// Jobs of one node that wait at once. Our choice: all that a gateway runs at once; others wait for one to end.
pub(super) const JOBS: usize = 4096;

/// Time after which a job that still waits is marked again, in case its meeting nodes are gone.
const RENEW: Duration = Duration::from_secs(300);

/// Share of capable nodes, thousandths, below which a job is marked at capable nodes too. Our choice, of a dozen
/// settings that were tried in a model: a node that idles seldom looks where a scarce job is marked.
const SCARCE: u16 = 300;

/// Capable nodes at which a scarce job is marked. Our choice: with 8 the hardest workload waits 1 % longer.
const MARKED: u16 = 16;

/// Age that a job gains for each factor of e by which fewer nodes can run it. Our choice, of 60 and 200 s.
const SCARCITY_MS: f64 = 60_000.0;

/// A job that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    needs: Capability,
    /// Units without a place.
    units: u32,
    since: Time,
    bonus_ms: u32,
    /// Where it is marked.
    meetings: Vec<u8>,
}

impl Waiting {
    fn mark(&self, job: JobId, owner: Contact, now: Time) -> Mark {
        let age_ms = u32::try_from(now.since(self.since).as_millis()).unwrap_or(u32::MAX);
        Mark { owner, job, needs: self.needs, units: self.units, age_ms, bonus_ms: self.bonus_ms }
    }
}

/// Age that a job gains if this many thousandths of the nodes can run it.
fn bonus_ms(share: u16) -> u32 {
    (SCARCITY_MS * (1000.0 / f64::from(share.clamp(1, 1000))).ln()) as u32
}

impl Fitting {
    /// Has units of a job wait; `share`: thousandths of the nodes that can run them.
    pub(super) fn want(&mut self, job: JobId, needs: Capability, units: u32, share: u16, cx: &mut Fcx<'_>) {
        if units == 0 {
            return self.unmark(job, cx);
        }
        if let Some(waiting) = self.waiting.get_mut(&job) {
            waiting.units = units;
            return;
        }
        if self.waiting.len() >= JOBS || self.me.is_none() {
            return cx.emit(Event::NotMarked { job });
        }
        let meetings = Meetings::draw(&[], cx);
        let waiting = Waiting { needs, units, since: cx.now, bonus_ms: bonus_ms(share), meetings };
        self.waiting.insert(job, waiting);
        self.mark(job, cx);
        if share < SCARCE {
            let number = self.searches.ask(job);
            cx.emit(Event::Search { number, needs, wanted: MARKED });
        }
    }

    /// Marks the job at its meeting nodes.
    pub(super) fn mark(&mut self, job: JobId, cx: &mut Fcx<'_>) {
        let (Some(me), Some(waiting)) = (self.me, self.waiting.get(&job)) else { return };
        let mark = waiting.mark(job, me, cx.now);
        for at in &waiting.meetings {
            self.meetings.send(*at, ToMeeting::Mark(mark), cx);
        }
        cx.set_timer(Timer::Renew(job), RENEW);
    }

    /// These nodes can run the job: it is marked there too.
    pub(super) fn capable(&mut self, number: u64, found: &[Candidate], cx: &mut Fcx<'_>) {
        let Some(job) = self.searches.answered(number) else { return };
        let (Some(me), Some(waiting)) = (self.me, self.waiting.get(&job)) else { return };
        let mark = waiting.mark(job, me, cx.now);
        for one in found {
            cx.send_to(one.contact, Message::ToMeeting(ToMeeting::Mark(mark)));
        }
    }

    fn unmark(&mut self, job: JobId, cx: &mut Fcx<'_>) {
        let Some(waiting) = self.waiting.remove(&job) else { return };
        cx.cancel_timer(Timer::Renew(job));
        for at in waiting.meetings {
            self.meetings.send(at, ToMeeting::Unmark { job }, cx);
        }
        // Capable nodes find out when they claim it.
    }

    /// A node has slots free for the job.
    pub(super) fn claimed(
        &mut self,
        from: NodeId,
        job: JobId,
        (at, capability, slots): (Contact, Capability, u32),
        cx: &mut Fcx<'_>,
    ) {
        if at.id != from {
            return cx.fault(from, "claims a job for another node".into());
        }
        let waiting = self.waiting.get_mut(&job);
        if waiting.as_ref().is_some_and(|waiting| !capability.covers(&waiting.needs)) {
            cx.fault(from, "claims a job that it cannot run".into());
            return cx.send(from, Message::ToNode(ToNode::Given { job, units: 0, left: 0 }));
        }
        let (units, left) = waiting.map_or((0, 0), |waiting| {
            let units = slots.min(waiting.units);
            waiting.units -= units;
            (units, waiting.units)
        });
        cx.send(from, Message::ToNode(ToNode::Given { job, units, left }));
        if units > 0 {
            cx.emit(Event::Claimed { job, node: at, units });
        }
        if self.waiting.get(&job).is_some_and(|waiting| waiting.units == 0) {
            self.unmark(job, cx);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fewer_can_run_a_job_the_older_it_counts() {
        assert_eq!((bonus_ms(1000), bonus_ms(500), bonus_ms(1)), (0, 41_588, 414_465));
        assert_eq!((bonus_ms(0), bonus_ms(2000)), (bonus_ms(1), 0), "whatever was estimated");
    }
}
