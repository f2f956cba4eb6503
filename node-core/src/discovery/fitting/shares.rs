//! Submitters of the jobs of this node that wait, and how many of their units run. A job counts as having waited the less
//! the more of its submitter's units run, so that each submitter has its share whether it has ten jobs or ten thousand.
//!
//! Paper `match` leaves fairness among submitters to future work (section 5). Ours is that of an instant: units that run
//! now count, those of yesterday do not. So nobody keeps books, and who comes new has its share at once.

use super::message::Share;
use crate::ids::NodeId;
use std::collections::BTreeMap;

/// Words of one message on shares. Our choice: a few KiB; the others are told with the next.
pub(super) const TOLD: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Shares {
    of: BTreeMap<NodeId, Submitter>,
    /// Units that run for each submitter.
    running: BTreeMap<NodeId, u32>,
    next: u32,
}

#[derive(Debug)]
struct Submitter {
    number: u32,
    weight: u16,
    /// Jobs of it that wait.
    jobs: u32,
    /// Share that meeting nodes know of.
    told: u32,
}

impl Shares {
    /// A job of the submitter begins to wait.
    pub(super) fn begin(&mut self, submitter: NodeId, weight: u16) {
        let next = self.next;
        let entry = self.of.entry(submitter);
        let new = || Submitter { number: next, weight, jobs: 0, told: 0 };
        let one = entry.or_insert_with(new);
        one.jobs += 1;
        one.weight = weight;
        if one.number == next {
            self.next = next.wrapping_add(1);
        }
    }

    /// A job of the submitter waits no more.
    pub(super) fn end(&mut self, submitter: NodeId) {
        if let Some(one) = self.of.get_mut(&submitter) {
            one.jobs = one.jobs.saturating_sub(1);
            if one.jobs == 0 {
                self.of.remove(&submitter);
            }
        }
    }

    /// Units that run for each submitter; none for those that are not named.
    pub(super) fn count(&mut self, running: BTreeMap<NodeId, u32>) {
        self.running = running;
    }

    /// More units run for it soon.
    pub(super) fn add(&mut self, submitter: NodeId, units: u32) {
        let running = self.running.entry(submitter).or_default();
        *running = running.saturating_add(units);
    }

    pub(super) fn running(&self, submitter: NodeId) -> u32 {
        self.running.get(&submitter).copied().unwrap_or_default()
    }

    pub(super) fn of(&self, submitter: NodeId) -> Share {
        let one = self.of.get(&submitter);
        let (number, weight) = one.map_or((u32::MAX, 1), |one| (one.number, one.weight));
        Share { submitter: number, running: Some(per_weight(self.running(submitter), weight)) }
    }

    /// Shares of which meeting nodes know too little or too much; they are told now.
    pub(super) fn take_news(&mut self) -> Vec<Share> {
        let Shares { of, running, .. } = self;
        let changed = of.iter_mut().filter_map(|(submitter, one)| {
            let now = per_weight(running.get(submitter).copied().unwrap_or_default(), one.weight);
            has_changed(one.told, now).then(|| {
                one.told = now;
                Share { submitter: one.number, running: Some(now) }
            })
        });
        changed.take(TOLD).collect()
    }

    /// Whether meeting nodes know of a share too little or too much.
    pub(super) fn has_news(&self) -> bool {
        let mut all = self.of.iter();
        all.any(|(submitter, one)| has_changed(one.told, per_weight(self.running(*submitter), one.weight)))
    }

    pub(super) fn check(&self, waiting: usize) {
        let jobs: u32 = self.of.values().map(|one| one.jobs).sum();
        assert_eq!(jobs as usize, waiting, "jobs that wait are those of their submitters");
    }
}

/// Thousandths of units for each part of the weight.
fn per_weight(units: u32, weight: u16) -> u32 {
    u32::try_from(u64::from(units) * 1000 / u64::from(weight.max(1))).unwrap_or(u32::MAX)
}

/// Whether a job would count as having waited an eighth more or less. Our choice: submitters with as many units each
/// seldom differ by more, and a busy one costs a message in a few seconds.
fn has_changed(told: u32, now: u32) -> bool {
    let (told, now) = (u64::from(told) + 1000, u64::from(now) + 1000);
    told.abs_diff(now) * 8 >= told.max(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(at: u8) -> NodeId {
        NodeId([at; 32])
    }

    #[test]
    fn whoever_has_twice_the_weight_has_the_same_share_with_twice_the_units() {
        let mut shares = Shares::default();
        shares.begin(node(1), 1);
        shares.begin(node(2), 2);
        shares.begin(node(2), 2);
        shares.count([(node(1), 3), (node(2), 6)].into());
        assert_eq!(shares.of(node(1)), Share { submitter: 0, running: Some(3000) });
        assert_eq!(shares.of(node(2)), Share { submitter: 1, running: Some(3000) });
        shares.add(node(2), 4);
        assert_eq!(shares.of(node(2)).running, Some(5000));
        shares.end(node(2));
        shares.check(2);
        shares.end(node(2));
        shares.begin(node(2), 1);
        assert_eq!(
            shares.of(node(2)),
            Share { submitter: 2, running: Some(10_000) },
            "marks of before are others"
        );
    }

    #[test]
    fn a_share_is_told_when_it_has_changed_by_an_eighth() {
        let mut shares = Shares::default();
        shares.begin(node(1), 1);
        assert!(!shares.has_news() && shares.take_news().is_empty(), "none is what meeting nodes think");
        shares.count([(node(1), 99), (node(7), 5)].into());
        assert!(shares.has_news());
        assert_eq!(shares.take_news(), [Share { submitter: 0, running: Some(99_000) }]);
        shares.add(node(1), 12);
        assert!(!shares.has_news());
        shares.add(node(1), 4);
        assert_eq!(shares.take_news(), [Share { submitter: 0, running: Some(115_000) }]);
        shares.count(BTreeMap::new());
        assert_eq!(shares.take_news(), [Share { submitter: 0, running: Some(0) }]);
    }
}
