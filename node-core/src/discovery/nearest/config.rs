//! Which way the finder works, and how long it waits for what.

use crate::bounds::GUESTS;
use std::time::Duration;

/// The finder's way: the paper's or ours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// As paper `tree` says, for comparison.
    Paper,
    /// With all of [`Changes`].
    #[default]
    Ours,
}

/// Value that a parent takes for a child's free count (paper `tree`, section 4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// The largest power of two not above the value told: the paper's choice.
    #[default]
    Conservative,
    /// The value told.
    Optimistic,
}

/// Modifications of the paper, each of which can be measured on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changes {
    /// Modification: a value told stands for a range. Requests are served by its lower bound,
    /// then by its upper; a part that was refused goes back to who gave it and corrects its
    /// count. Rounding down at every level hides free nodes: all free and five levels, a root
    /// node sees 17 % of its branch.
    pub ranges: bool,
    /// Modification: a request that is too large for the branches next to it goes straight to
    /// the lowest ancestor that may hold it, in place of one level a hop.
    pub straight: bool,
    /// Modification: answers are gathered on the way back. Ten thousand takers that answer
    /// singly take a home line of 1 Mbps ten seconds.
    pub gather: bool,
    /// Modification: nothing is said that the other can know. Who gave a task away counts it
    /// himself; a leaf that takes one says nothing; power is told in steps; hops only beside
    /// other news; an empty tree is not asked again at once.
    pub quiet: bool,
}

impl Changes {
    pub const NONE: Changes = Changes { ranges: false, straight: false, gather: false, quiet: false };
    pub const ALL: Changes = Changes { ranges: true, straight: true, gather: true, quiet: true };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NearestConfig {
    pub way: Way,
    /// Without effect where `changes.ranges` replaces it.
    pub policy: Policy,
    /// Follows from `way`; experiments set single ones. `quiet` needs `ranges` and `gather`.
    pub changes: Changes,
    /// How long a slot that was found is kept for who asked. Our choice: a dial and a grant on
    /// a bad line.
    pub lease: Duration,
    /// Added to the lease for each task of the whole request: what a place in a list takes on
    /// a line of 1 Mbps with all that goes around it, three times.
    pub lease_a_task: Duration,
    /// The longest lease. Our choice: a request for a hundred thousand.
    pub lease_max: Duration,
    /// How long the origin waits for all answers. Our choice: ten hops there and back, and
    /// some; a node on the way waits for three quarters of what the node before it does, so
    /// that inner answers come in time. The time for long lists is added as for the lease.
    pub patience: Duration,
    /// A taker repeats an answer that was not acknowledged (the paper's way). Our choice: five
    /// times there and back.
    pub again: Duration,
    /// How often it does so before it gives the slot up. Our choice.
    pub tries: u8,
    /// A changed number of declared slots is told so late: many nodes join at a time.
    pub settle: Duration,
    /// Modification (`quiet`): a count that moves without reaching or leaving zero is told at
    /// most so often, times the node's level. The paper tells at once what crosses a power of
    /// two. Our choice: nearly no message in a second at the root.
    pub pace: Duration,
    /// The whole state is told again so often, against what was lost. Paper: none; our choice.
    pub refresh: Duration,
    /// How long a parent of leaves does not ask above again when that had nothing left; four times
    /// as long each level, up to `dry_max`, and twice when it is so again. Our choice: near the
    /// leaves slots come and go in that time, and at the root four times as many ask.
    pub dry: Duration,
    pub dry_max: Duration,
    /// Requests in hand at a time; more are refused. Our choice: 400 KB.
    pub pending: usize,
    /// Queries of this node's own at a time; more are answered with nothing.
    pub queries: usize,
    /// Slots that a node may declare, its guests' included; more is a fault. Our choice: twice as many
    /// as all guests of a gateway can have with 64 slots each.
    pub slots_a_node: u32,
    /// Guests of a gateway that are counted in its branch; the slots of one more are not.
    pub guests: usize,
    /// Whether guests run this machine themselves, and hear of what they are given. Pages do not;
    /// what nobody comes for then counts as free again after its lease.
    pub guests_hear: bool,
    /// Whether slots of guests serve others than their gateway: by data channels, or by circuits that it relays.
    pub relays: bool,
}

impl NearestConfig {
    pub fn new(way: Way) -> Self {
        NearestConfig {
            way,
            policy: Policy::default(),
            changes: match way {
                Way::Paper => Changes::NONE,
                Way::Ours => Changes::ALL,
            },
            lease: Duration::from_secs(5),
            lease_a_task: Duration::from_micros(1500),
            lease_max: Duration::from_secs(60),
            patience: Duration::from_secs(10),
            again: Duration::from_secs(2),
            tries: 3,
            settle: Duration::from_secs(5),
            pace: Duration::from_secs(1),
            refresh: Duration::from_secs(60),
            dry: Duration::from_millis(250),
            dry_max: Duration::from_secs(8),
            pending: 1024,
            queries: 64,
            slots_a_node: 1 << 19,
            guests: GUESTS,
            guests_hear: false,
            relays: true,
        }
    }

    /// Whether counts are announced sparingly. That takes all three changes: a count that is not announced is
    /// known only to a node that counts the tasks it gave, and those that came back.
    pub(super) fn quiet(&self) -> bool {
        self.changes.quiet && self.changes.ranges && self.changes.gather
    }

    /// The most slots of a branch with so many levels below its top.
    pub(super) fn slots_of_branch(&self, level: u8) -> u32 {
        // A group has at most 2 * 255 members.
        (0..level.min(8)).fold(self.slots_a_node, |slots, _| slots.saturating_mul(511))
    }

    /// How long a slot is kept for a request of this size.
    pub(super) fn lease_for(&self, asked: u32) -> Duration {
        (self.lease + self.lease_a_task.saturating_mul(asked)).min(self.lease_max)
    }

    /// How long a node of this level does not ask above again.
    pub(super) fn dry_at(&self, level: u8) -> Duration {
        (self.dry * (1 << (2 * level.clamp(1, 8) - 2))).min(self.dry_max)
    }

    /// How long whoever is `hops` from the origin waits for those behind it.
    pub(super) fn patience_at(&self, hops: u8, asked: u32, for_needs: bool) -> Duration {
        // A search for something rare may have to try branch after branch.
        let mut wait = self.patience * if for_needs { 3 } else { 1 };
        for _ in 0..hops.min(16) {
            wait = wait * 3 / 4;
        }
        // Lists travel to the origin alone, so only it has to wait for long ones.
        if hops == 0 { wait + self.lease_a_task.saturating_mul(asked).min(self.lease_max * 2) } else { wait }
    }
}

impl Default for NearestConfig {
    fn default() -> Self {
        NearestConfig::new(Way::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_nearer_to_the_origin_waits_longer_by_more_than_two_hops() {
        let config = NearestConfig::default();
        for hops in 0..6 {
            let more = config.patience_at(hops, 1, false) - config.patience_at(hops + 1, 1, false);
            assert!(more > Duration::from_millis(400), "{hops}: {more:?}");
        }
    }

    #[test]
    fn who_stands_higher_asks_above_in_vain_less_often() {
        let config = NearestConfig::default();
        let after = [0, 1, 2, 3, 8, u8::MAX].map(|level| config.dry_at(level).as_millis());
        assert_eq!(after, [250, 250, 1000, 4000, 8000, 8000]);
    }

    #[test]
    fn a_lease_grows_with_the_request_up_to_a_bound() {
        let config = NearestConfig::default();
        assert_eq!(config.lease_for(0), config.lease);
        assert!(config.lease_for(10_000) > Duration::from_secs(10));
        assert_eq!(config.lease_for(u32::MAX), config.lease_max);
    }
}
