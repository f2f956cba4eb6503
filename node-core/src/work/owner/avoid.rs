//! Runners that a job's units come back from: its next units go elsewhere for a while, and units of
//! other jobs go there as before.

use crate::ids::NodeId;
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How long a runner is avoided after its first failure; doubled by each that follows without a result.
/// Our choice: a disk may be full for a moment, and a unit is held after 8 losses.
const FIRST: Duration = Duration::from_millis(500);

/// The longest time. Our choice: a donor who sees to it has the job back the same hour.
const LONGEST: Duration = Duration::from_secs(600);

/// How long a runner is avoided that takes no such units. Our choice, the time for which a runner offers
/// nothing to an owner that it takes nothing from: terms change, and a grant in a while is cheap.
const DECLINED: Duration = Duration::from_secs(10);

/// Runners avoided at once. Our choice: more than a gateway has; 64 KiB for a job that all of them decline.
/// When the list is full the one that may be tried again soonest is forgotten.
const RUNNERS: usize = 1024;

/// The runners that one job avoids.
#[derive(Debug, Default)]
pub(super) struct Avoided {
    runners: BTreeMap<NodeId, Failing>,
    /// The last failure, as a sentence for people.
    why: String,
}

#[derive(Clone, Copy, Debug, Default)]
struct Failing {
    /// Failures since the last result from there.
    times: u32,
    until: Time,
}

impl Avoided {
    /// `runner` tried a unit of the job and could not run it.
    pub(super) fn failed(&mut self, runner: NodeId, why: &str, now: Time) {
        let times = self.runners.get(&runner).map_or(0, |failing| failing.times);
        let until = now + FIRST.saturating_mul(1 << times.min(16)).min(LONGEST);
        self.avoid(runner, Failing { times: times + 1, until }, why);
    }

    /// `runner` does not take such units.
    pub(super) fn declined(&mut self, runner: NodeId, why: &str, now: Time) {
        let known = self.runners.get(&runner).copied().unwrap_or_default();
        let until = known.until.max(now + DECLINED);
        self.avoid(runner, Failing { until, ..known }, why);
    }

    fn avoid(&mut self, runner: NodeId, how: Failing, why: &str) {
        why.clone_into(&mut self.why);
        if !self.runners.contains_key(&runner)
            && self.runners.len() >= RUNNERS
            && let Some(soonest) =
                self.runners.iter().min_by_key(|(_, failing)| failing.until).map(|(id, _)| *id)
        {
            self.runners.remove(&soonest);
        }
        self.runners.insert(runner, how);
    }

    /// A result of the job came from there.
    pub(super) fn ran_well(&mut self, runner: NodeId) {
        self.runners.remove(&runner);
    }

    pub(super) fn contains(&self, runner: NodeId, now: Time) -> bool {
        self.runners.get(&runner).is_some_and(|failing| failing.until > now)
    }

    /// Why its units wait, if the nodes that are not avoided have no places for them.
    pub(super) fn shortage(&self, of_others: String, now: Time) -> String {
        match self.runners.values().any(|failing| failing.until > now) {
            true => format!("{}; it is tried there again later; {of_others}", self.why),
            false => of_others,
        }
    }

    /// Those that are avoided now.
    pub(super) fn nodes(&self, now: Time) -> BTreeSet<NodeId> {
        self.runners.iter().filter(|(_, failing)| failing.until > now).map(|(id, _)| *id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NodeId = NodeId([1; 32]);

    #[test]
    fn each_failure_doubles_the_time_until_a_result_comes() {
        let mut avoided = Avoided::default();
        let mut until = |now: Time| {
            avoided.failed(A, "it failed", now);
            (0..).map(Duration::from_millis).find(|after| !avoided.contains(A, now + *after)).unwrap()
        };
        let waits: Vec<u128> = (0..4).map(|s| until(Time(s)).as_millis()).collect();
        assert_eq!(waits, [500, 1000, 2000, 4000]);
        avoided.ran_well(A);
        avoided.failed(A, "it failed", Time(0));
        assert!(!avoided.contains(A, Time(0) + FIRST));
    }

    #[test]
    fn a_runner_that_declines_is_tried_again_as_soon_each_time() {
        let mut avoided = Avoided::default();
        for start in [0, 60_000_000, 120_000_000].map(Time) {
            avoided.declined(A, "not for this task", start);
            assert!(avoided.contains(A, start + DECLINED - Duration::from_micros(1)));
            assert!(!avoided.contains(A, start + DECLINED));
        }
        (0..10).for_each(|_| avoided.failed(A, "it failed", Time(0)));
        avoided.declined(A, "not for this task", Time(0));
        assert!(avoided.contains(A, Time(0) + DECLINED), "the longer time stays");
    }

    #[test]
    fn the_list_is_bounded_and_forgets_the_one_that_may_be_tried_soonest() {
        let mut avoided = Avoided::default();
        let node = |n: usize| {
            let mut id = [0; 32];
            id[..8].copy_from_slice(&(n as u64).to_be_bytes());
            NodeId(id)
        };
        for n in 0..=RUNNERS {
            avoided.failed(node(n), "it failed", Time(n as u64));
        }
        let nodes = avoided.nodes(Time(0));
        assert_eq!(nodes.len(), RUNNERS);
        assert!(!nodes.contains(&node(0)) && nodes.contains(&node(RUNNERS)));
    }
}
