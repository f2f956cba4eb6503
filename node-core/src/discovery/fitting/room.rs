//! Room for scarce jobs: where all nodes that can run a job are busy, one of them hands on a unit that more nodes could
//! run. It goes on elsewhere from where it stood, and the slot is free for the job that waits.
//!
//! No paper has this: a job that runs stays where it is in `match`, since it could not be moved.

use super::message::Mark;
use super::waiting::SCARCITY_MS;
use super::{Event, Fcx, Fitting, Timer};
use crate::ids::{JobId, NodeId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Time after which the first capable node makes room, and then the next. Our choice: where one idles, it claims the job
/// within a second or two.
const AFTER_MS: u32 = 2000;

/// Longest such time that a node heeds. Our choice: more than as many nodes as a job is marked at take.
const MOST_MS: u32 = 60_000;

/// How much scarcer a job is than those whose units make room for it, milliseconds of age: a factor of e. Our choice: to
/// move a unit takes seconds, and it waits again where nobody idles.
const STEP_MS: u32 = SCARCITY_MS as u32;

/// Jobs that run here whose scarcity is remembered. Our choice: more than most nodes have slots; units of a job that was
/// forgotten count as those that any node can run.
const JOBS: usize = 256;

/// When the node at that place makes room for a job that is marked there.
pub(super) fn after(place: u32) -> u32 {
    place.saturating_add(1).saturating_mul(AFTER_MS)
}

/// Scarcity of the jobs of which a node has units, by owner and job.
#[derive(Debug, Default)]
pub(super) struct Scarcities(BTreeMap<(NodeId, JobId), u32>);

impl Scarcities {
    /// Units of this job are on their way.
    pub(super) fn put(&mut self, job: (NodeId, JobId), bonus_ms: u32) {
        if self.0.len() >= JOBS && !self.0.contains_key(&job) {
            let least = self.0.iter().min_by_key(|(job, bonus)| (**bonus, **job)).map(|(job, _)| *job);
            self.0.retain(|job, _| Some(*job) != least);
        }
        self.0.insert(job, bonus_ms);
    }

    /// Forgets jobs of owners that have nothing here.
    pub(super) fn retain(&mut self, has: impl Fn(NodeId) -> bool) {
        self.0.retain(|(owner, _), _| has(*owner));
    }

    /// Jobs that make no room for one of that scarcity.
    fn stay(&self, bonus_ms: u32) -> BTreeSet<(NodeId, JobId)> {
        let stays = |own: u32| own.saturating_add(STEP_MS) > bonus_ms;
        self.0.iter().filter(|(_, bonus)| stays(**bonus)).map(|(job, _)| *job).collect()
    }

    pub(super) fn check(&self) {
        assert!(self.0.len() <= JOBS, "jobs whose scarcity is known are bounded");
    }
}

impl Fitting {
    /// The job is marked here, as a node that can run it: if nobody has claimed it by then, this node makes room.
    pub(super) fn room_later(&mut self, mark: &Mark, cx: &mut Fcx<'_>) {
        if mark.meeting.is_none() && (1..=MOST_MS).contains(&mark.room_ms) {
            let after = Duration::from_millis(u64::from(mark.room_ms));
            cx.set_timer(Timer::Room(mark.owner.id, mark.job), after);
        }
    }

    /// A job that is marked here waits for a slot of this node.
    pub(super) fn make_room(&mut self, owner: NodeId, job: JobId, cx: &mut Fcx<'_>) {
        let Some(bonus_ms) = self.marks.bonus_of(owner, job, self.own.capability()) else { return };
        if bonus_ms >= STEP_MS && self.own.is_full() {
            cx.emit(Event::MakeRoom { stay: self.own.scarcities.stay(bonus_ms) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_jobs_that_are_nearly_as_scarce_stay() {
        let job = |at: u8| (NodeId([at; 32]), JobId([at; 16]));
        let mut known = Scarcities::default();
        for (at, bonus) in [(1, 0), (2, 50_000), (3, 90_000)] {
            known.put(job(at), bonus);
        }
        assert_eq!(known.stay(120_000), [job(3)].into());
        assert_eq!(known.stay(60_000), [job(2), job(3)].into());
        known.retain(|owner| owner != NodeId([3; 32]));
        assert!(known.stay(120_000).is_empty());
        (0..=255).for_each(|at| known.put(job(at), 1_000_000 + u32::from(at)));
        known.put((NodeId([7; 32]), JobId([0; 16])), 500_000);
        known.check();
        assert_eq!(known.stay(0).len(), JOBS, "the least scarce one has gone");
    }
}
