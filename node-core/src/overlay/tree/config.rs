//! Sizes and times of the tree.

use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeConfig {
    /// Groups hold between m and 2m siblings (paper `tree`, section 5). 10 is the paper's best.
    pub m: u8,
    /// References to each side at the level; m/2 ≤ k ≤ m. Our choice: m, as many as survive
    /// half of all nodes dying.
    pub k: u8,
    /// How long a parent of leaves gathers changes before it tells its children, an eighth of it
    /// after a pause. Our choice: short beside the life of a node, long beside a burst of joins.
    pub tell: Duration,
    /// How long it gathers them before it tells the parents beside it, in the same way. Our
    /// choice: neighbours with other parents are needed for repair only.
    pub updates: Duration,
    /// Until a request is repeated, at first. Our choice: an up and a down of a deep tree.
    pub retry: Duration,
    /// Slow refresh from child to parent, which repairs what was lost (section 4 asks for one).
    pub refresh: Duration,
    /// Until a group out of bounds is looked at again. Our choice: a few hops.
    pub balance: Duration,
    /// How long a place of a dead inner node is kept for its orphans. Our choice: as long as a
    /// death may take to be noticed, less what the parent itself needed.
    pub vacancy: Duration,
    /// How long a lone root stays below 2k children before it gives way. Our choice, so that a
    /// tree of about 2k does not flap.
    pub settle: Duration,
    /// How long a root group waits to be taken in by the root that it gave way to. Our choice:
    /// several repetitions of the request.
    pub promotion: Duration,
    /// How long orphans of a lone root look for a new one before the first promotes itself.
    pub successor_root: Duration,
    /// How long a branch without a parent looks for one before it falls apart.
    pub dissolve: Duration,
    /// How long a node that reaches nobody in the tree waits before it begins one of its own.
    pub alone: Duration,
    /// How often a root looks for another one, to end a split of the whole.
    pub probe: Duration,
}

impl Default for TreeConfig {
    fn default() -> Self {
        TreeConfig {
            m: 10,
            k: 10,
            tell: Duration::from_secs(1),
            updates: Duration::from_secs(2),
            retry: Duration::from_secs(2),
            refresh: Duration::from_secs(60),
            balance: Duration::from_secs(2),
            vacancy: Duration::from_secs(8),
            settle: Duration::from_secs(6),
            promotion: Duration::from_secs(12),
            successor_root: Duration::from_secs(6),
            dissolve: Duration::from_secs(25),
            alone: Duration::from_secs(90),
            probe: Duration::from_secs(20),
        }
    }
}

impl TreeConfig {
    /// The paper's sizes for this m, with k = m.
    pub fn of(m: u8) -> Self {
        TreeConfig { m, k: m, ..TreeConfig::default() }
    }

    pub(super) fn m(&self) -> usize {
        usize::from(self.m.max(2))
    }

    pub(super) fn k(&self) -> usize {
        usize::from(self.k).clamp(1, self.m())
    }

    /// Most members of a group at any time: above 2m it is being split, and who comes while
    /// that lasts is let in up to here and asked to try again beyond.
    pub(super) fn members_max(&self) -> usize {
        6 * self.m() + 2
    }
}
