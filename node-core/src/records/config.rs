//! Sizes and times of records.

use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordsConfig {
    /// How long a record is good after it was signed. Our choice: whoever published a name may be
    /// away for a night without losing it.
    pub life: Duration,
    /// How often it is published again. Our choice: what was lost with its owner and all copies is
    /// back within that.
    pub refresh: Duration,
    /// When a change is said once more, in case that its keeper died before its copies had it. Our
    /// choice: by then a death has been noticed, and the ring has mended.
    pub confirm: Duration,
    /// Until it is tried again when nobody could be told. Our choice: the ring mends within seconds.
    pub again: Duration,
    /// How long one node may take to answer. Our choice: a dial and an answer on a slow line.
    pub answer: Duration,
    /// How many successors have a copy: r - 1 of them, with the owner r, survive any r - 1 losses at
    /// once. Our choice: as markets.
    pub copies: usize,
    /// How often copies are compared.
    pub compare: Duration,
    /// When they are compared after a neighbour came or went. Our choice: by then those that keep
    /// copies know who is before them, which they hear half a second later each.
    pub settle: Duration,
    /// After such a silence of its owner a copy is dropped. Our choice: ten comparisons, all of which
    /// the owner's successor would make as well.
    pub stale: Duration,
    /// Records on one node, copies included: one of its own arc takes the place of a copy, and a
    /// copy, or one more when all are its own, is refused. Our choice: 26 MB.
    pub records: usize,
    /// Records of one publisher. Our choice: a fifth, so that it takes five to fill a node.
    pub per_publisher: usize,
    /// Publishers of one key that several may publish. Our choice: a file that is kept by so many is
    /// found anyway.
    pub per_key: usize,
    /// Records that this node publishes; one more is refused. Our choice: what one gateway's owner puts away.
    pub published: usize,
    /// Questions of this node at once; one more fails at once.
    pub reads: usize,
}

impl Default for RecordsConfig {
    fn default() -> Self {
        RecordsConfig {
            life: Duration::from_secs(24 * 3600),
            refresh: Duration::from_secs(20 * 60),
            confirm: Duration::from_secs(60),
            again: Duration::from_secs(30),
            answer: Duration::from_secs(3),
            copies: 4,
            compare: Duration::from_secs(60),
            settle: Duration::from_secs(5),
            stale: Duration::from_secs(600),
            records: 20_000,
            per_publisher: 4_000,
            per_key: 8,
            published: 4_000,
            reads: 256,
        }
    }
}
