//! Room for scarce jobs: where all nodes that can run a job are busy, one of them hands on a unit that more nodes could
//! run. It goes on elsewhere from where it stood, and the slot is free for the job that waits.
//!
//! No paper has this: a job that runs stays where it is in `match`, since it could not be moved.

use super::message::{Line, Mark};
use super::waiting::{SCARCITY_MS, bonus_ms};
use super::{Event, Fcx, Fitting, Timer};
use crate::ids::{JobId, NodeId};
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Time after which the first capable node makes room, and then the next. Our choice: where one idles, it claims the job
/// within a second or two.
const AFTER_MS: u32 = 2000;

/// Longest such time that a node heeds. Our choice: more than as many nodes as a job is marked at take.
const MOST_MS: u32 = 60_000;

/// Time after which a node looks again whether it can make room. Our choice: a unit that was handed on has gone, and what
/// took its slot runs.
const AGAIN: Duration = Duration::from_secs(10);

/// How much scarcer a job is than those whose units make room for it, milliseconds of age: a factor of e. Our choice: to
/// move a unit takes seconds, and it waits again where nobody idles.
const STEP_MS: u32 = SCARCITY_MS as u32;

/// Age of a job when it was claimed beyond which others like it seem to wait. Our choice: who finds an idle node has
/// claimed within that.
const QUEUED_MS: u32 = 10_000;

/// Jobs that run here whose scarcity is remembered. Our choice: more than most nodes have slots; units of a job that was
/// forgotten count as those that any node can run.
const JOBS: usize = 256;

/// When the node at that place makes room for a job that is marked there.
pub(super) fn after(place: u32) -> u32 {
    place.saturating_add(1).saturating_mul(AFTER_MS)
}

/// State of a job when it was claimed.
#[derive(Clone, Copy, Debug)]
struct Taken {
    bonus_ms: u32,
    /// Age and scarcity.
    waited_ms: u32,
    at: Time,
}

impl Taken {
    /// Whether its units make room for that job, which counts as having waited so long.
    fn yields_to(&self, bonus_ms: u32, waited_ms: u64, now: Time) -> bool {
        let is_scarcer = self.bonus_ms.saturating_add(STEP_MS) <= bonus_ms;
        // Where jobs queue, it would have gone first by then.
        let age_ms = u64::from(self.waited_ms) + now.since(self.at).as_millis() as u64;
        let queued = self.waited_ms.saturating_sub(self.bonus_ms) > QUEUED_MS;
        is_scarcer && (!queued || age_ms < waited_ms)
    }
}

/// Jobs of which a node has units.
#[derive(Debug, Default)]
pub(super) struct Scarcities(BTreeMap<JobId, Taken>);

impl Scarcities {
    /// Units of this job are on their way. Those of the one that came longest ago have gone, if there are too many.
    pub(super) fn put(&mut self, line: &Line, bonus_ms: u32, now: Time) {
        if self.0.len() >= JOBS && !self.0.contains_key(&line.job) {
            let oldest = self.0.iter().min_by_key(|(job, taken)| (taken.at, **job)).map(|(job, _)| *job);
            self.0.retain(|job, _| Some(*job) != oldest);
        }
        let waited_ms = line.waited_ms.max(bonus_ms);
        self.0.insert(line.job, Taken { bonus_ms, waited_ms, at: now });
    }

    /// Jobs that make no room for one of that scarcity.
    fn stay(&self, bonus_ms: u32, waited_ms: u64, now: Time) -> BTreeSet<JobId> {
        let stays = self.0.iter().filter(|(_, taken)| !taken.yields_to(bonus_ms, waited_ms, now));
        stays.map(|(job, _)| *job).collect()
    }

    pub(super) fn check(&self) {
        assert!(self.0.len() <= JOBS, "jobs whose scarcity is known are bounded");
    }
}

impl Fitting {
    /// The job is marked here, as a node that can run it: if it still is by then, this node makes room.
    pub(super) fn room_later(&mut self, mark: &Mark, cx: &mut Fcx<'_>) {
        if mark.meeting.is_none() && (1..=MOST_MS).contains(&mark.room_ms) {
            let after = Duration::from_millis(u64::from(mark.room_ms));
            cx.set_timer(Timer::Room(mark.owner.id, mark.job), after);
        }
    }

    /// A job that is marked here waits for a slot of this node, unless one is free or on its way: how many nodes can run
    /// it is not for its owner to say.
    pub(super) fn look_for_room(&mut self, owner: NodeId, job: JobId, cx: &mut Fcx<'_>) {
        let able = self.own.able(cx.now);
        let Some(needs) = self.marks.needs_of(owner, job, &able) else { return };
        cx.set_timer(Timer::Room(owner, job), AGAIN);
        if self.own.is_full() {
            cx.emit(Event::Room { owner, job, needs });
        }
    }

    /// Units make room for it if few nodes can run it: millionths `share`, as this node knows.
    pub(super) fn make_room(&mut self, owner: NodeId, job: JobId, share: u32, cx: &mut Fcx<'_>) {
        let Some(since) = self.marks.since(owner, job) else { return };
        let bonus_ms = bonus_ms(share);
        if bonus_ms >= STEP_MS {
            let waited_ms = u64::try_from(super::marks::millis(cx.now) - since).unwrap_or_default();
            cx.emit(Event::MakeRoom { stay: self.scarcities.stay(bonus_ms, waited_ms, cx.now) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::{Contact, Ip};
    use crate::discovery::fitting::Share;

    fn line(at: u16, waited_ms: u32) -> Line {
        let owner = Contact { ip: Ip([1; 16]), id: NodeId([1; 32]), port: 1 };
        Line { owner, job: job(at), waited_ms, share: Share { submitter: 0, running: None } }
    }

    fn job(at: u16) -> JobId {
        let mut id = [0; 16];
        id[..2].copy_from_slice(&at.to_be_bytes());
        JobId(id)
    }

    const NOW: Time = Time(1_000_000_000);

    #[test]
    fn units_of_jobs_that_are_nearly_as_scarce_stay() {
        let mut known = Scarcities::default();
        for (at, bonus) in [(1, 0), (2, 50_000), (3, 90_000)] {
            known.put(&line(at, bonus), bonus, NOW);
        }
        assert_eq!(known.stay(120_000, 120_000, NOW), [job(3)].into());
        assert_eq!(known.stay(60_000, 60_000, NOW), [job(2), job(3)].into());
    }

    #[test]
    fn where_jobs_queue_the_one_that_counts_as_older_goes_first() {
        let mut known = Scarcities::default();
        known.put(&line(1, 100_000), 0, NOW);
        let later = NOW + Duration::from_secs(50);
        assert_eq!(known.stay(120_000, 140_000, later), [job(1)].into());
        assert!(known.stay(120_000, 160_000, later).is_empty());
    }

    #[test]
    fn the_job_that_came_longest_ago_is_forgotten() {
        let mut known = Scarcities::default();
        for at in 0..300u16 {
            known.put(&line(at, 90_000), 90_000, NOW + Duration::from_secs(u64::from(at)));
            known.check();
        }
        let stay = known.stay(0, 0, NOW);
        assert!(stay.len() == JOBS && stay.contains(&job(299)) && !stay.contains(&job(43)));
    }
}
