//! Urgency of jobs that wait: whose turn it is. Of two submitters whose shares differ by no more than chance makes them, the
//! one whose job has waited longer goes first; beyond, a job counts as having waited the less, the larger the share of its
//! submitter is beside the least of those that are compared.

use super::message::Line;
use std::cmp::Reverse;

/// Time that a job gains for each factor of e by which its submitter's share is smaller, milliseconds. Our choice, as
/// for scarcity: of jobs that came at the same time it decides, and of others seldom.
const GAIN_MS: f64 = 60_000.0;

/// Standard deviations of a share that are taken for chance. Our choice: of ten equal submitters the least and the largest
/// share are about three apart, and to neglect them all would let small shares differ by a factor of 4.
const CHANCE: f64 = 2.0;

/// A share as it is compared: with one unit more.
fn units(running: u32) -> f64 {
    f64::from(running) / 1000.0 + 1.0
}

/// Shares of jobs that are compared.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scale {
    least: u32,
    /// Share of a submitter of which none is known lately.
    usual: u32,
}

impl Scale {
    pub(super) fn of(shares: impl Iterator<Item = Option<u32>>) -> Scale {
        let mut known: Vec<u32> = shares.flatten().collect();
        known.sort_unstable();
        let at = |place: usize| known.get(place).copied().unwrap_or_default();
        Scale { least: at(0), usual: at(known.len() / 2) }
    }

    /// Urgency of a job that has waited so long, and whose submitter has that share.
    pub(super) fn urgency(self, waited_ms: u32, running: Option<u32>) -> i64 {
        let (mine, least) = (units(running.unwrap_or(self.usual)), units(self.least));
        // A count that is drawn has a deviation of its root.
        let chance = 1.0 + CHANCE / least.sqrt();
        let beyond = (mine / least / chance).max(1.0);
        (f64::from(waited_ms) / beyond - GAIN_MS * mine.ln()) as i64
    }
}

/// Sorts lines, the most urgent first.
pub(super) fn sort(lines: &mut [Line]) {
    let scale = Scale::of(lines.iter().map(|line| line.share.running));
    let urgency = |line: &Line| scale.urgency(line.waited_ms, line.share.running);
    lines.sort_unstable_by_key(|line| (Reverse(urgency(line)), line.owner.id, line.job));
}

/// Largest share with which the first of two jobs is as urgent as the second.
pub(super) fn most(first: &Line, second: &Line) -> u32 {
    let Some(next) = second.share.running else { return u32::MAX };
    let is_first = |running: u32| {
        let scale = Scale { least: next.min(running), usual: next };
        scale.urgency(first.waited_ms, Some(running)) >= scale.urgency(second.waited_ms, Some(next))
    };
    let (mut low, mut high) = (0, u32::MAX);
    while low < high {
        let middle = high - (high - low) / 2;
        if is_first(middle) { low = middle } else { high = middle - 1 }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::{Contact, Ip};
    use crate::discovery::fitting::Share;
    use crate::ids::{JobId, NodeId};

    fn line(job: u8, waited_s: u32, units: u32) -> Line {
        let owner = Contact { ip: Ip([1; 16]), id: NodeId([1; 32]), port: 1 };
        let share = Share { submitter: job.into(), running: Some(units * 1000) };
        Line { owner, job: JobId([job; 16]), waited_ms: waited_s * 1000, share }
    }

    fn order(lines: &[Line]) -> Vec<u8> {
        let mut lines = lines.to_vec();
        sort(&mut lines);
        lines.iter().map(|line| line.job.0[0]).collect()
    }

    #[test]
    fn of_shares_that_chance_made_the_oldest_job_goes_first_and_of_others_the_smaller_share() {
        assert_eq!(order(&[line(1, 900, 90), line(2, 1000, 105), line(3, 950, 100)]), [2, 3, 1]);
        assert_eq!(order(&[line(1, 9000, 990), line(2, 10, 0)]), [2, 1], "one with nothing has its turn");
        assert_eq!(order(&[line(1, 9000, 990), line(2, 10, 9)]), [2, 1], "and so has its tenth unit");
        assert_eq!(order(&[line(1, 500, 7), line(2, 500, 2)]), [2, 1], "of the same age");
        assert_eq!(order(&[line(1, 2000, 4), line(2, 10, 0)]), [1, 2], "nobody starves");
        let of_old = |line: Line| Line { share: Share { running: None, ..line.share }, ..line };
        let lines = [of_old(line(1, 990, 0)), line(2, 1000, 100), line(3, 980, 105)];
        assert_eq!(order(&lines), [2, 1, 3], "a share that is not known is taken for the usual one");
    }

    #[test]
    fn a_claim_holds_up_to_the_share_with_which_the_next_job_would_be_as_urgent() {
        for (first, second) in [(line(1, 100, 0), line(2, 100, 5)), (line(1, 900, 10), line(2, 10, 0))] {
            let most = most(&first, &second);
            let with = |running| Line { share: Share { running: Some(running), ..first.share }, ..first };
            assert_eq!(order(&[with(most.saturating_sub(2000)), second]), [1, 2], "up to {most}");
            assert_eq!(order(&[with(most + 2000), second]), [2, 1], "beyond {most}");
        }
    }
}
