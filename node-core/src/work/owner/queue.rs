//! Units of a job that wait, over time: what its owner remembers of its queue, in this life of the node.

use std::time::Duration;

/// Steps that are remembered of one job. Our choice: as many as a plot on a phone can show.
const STEPS: usize = 64;

/// Time between two steps at first. Our choice: shorter waits are not seen in a plot that lasts for more than a minute.
const EVERY: Duration = Duration::from_secs(1);

/// Steps, each of which lasts until the next. When there are too many, every second one goes, and those that follow are
/// twice as far apart.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// When, in milliseconds since 1970, and how many units waited from then on.
    steps: Vec<(u64, u32)>,
    /// Times that they were thinned out.
    thinned: u32,
}

impl Queue {
    /// Takes down how many units wait now.
    pub(super) fn record(&mut self, now_ms: u64, waiting: u32) {
        let every = (EVERY.as_millis() as u64).saturating_mul(1 << self.thinned.min(40));
        let is_first = self.steps.len() <= 1;
        match self.steps.last_mut() {
            Some((_, last)) if *last == waiting => {}
            // The end of the wait is never put off: it would look longer than it was.
            Some((at, last)) if !is_first && now_ms < at.saturating_add(every) => *last = waiting,
            _ => self.steps.push((now_ms, waiting)),
        }
        if self.steps.len() > STEPS {
            let mut at = 0;
            // The first one stays, and so does the newest.
            self.steps.retain(|_| {
                at += 1;
                at % 2 == 1
            });
            self.thinned += 1;
        }
    }

    pub(super) fn steps(&self) -> &[(u64, u32)] {
        &self.steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_waits_for_long_is_remembered_in_few_steps_from_its_beginning_to_its_end() {
        let mut queue = Queue::default();
        for s in 0..=10_000u32 {
            queue.record(u64::from(s) * 1000, 10_000 - s);
            assert!(queue.steps().len() <= STEPS);
        }
        let steps = queue.steps();
        assert_eq!((steps.first(), steps.last().map(|(_, waiting)| *waiting)), (Some(&(0, 10_000)), Some(0)));
        assert!(steps.len() > STEPS / 3, "{} steps", steps.len());
        let off = |(at, waiting): &(u64, u32)| (10_000 - at / 1000).abs_diff(u64::from(*waiting));
        assert!(steps.iter().map(off).max() < Some(600), "each is about right: {steps:?}");
    }

    #[test]
    fn what_does_not_change_takes_no_room_and_the_first_units_are_seen_to_go() {
        let mut queue = Queue::default();
        for (ms, waiting) in [(0, 5), (1, 5), (2, 3), (3, 2), (900, 2), (1100, 0), (5000, 0)] {
            queue.record(ms, waiting);
        }
        assert_eq!(queue.steps(), [(0, 5), (2, 2), (1100, 0)]);
    }
}
