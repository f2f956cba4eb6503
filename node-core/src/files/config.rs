//! Sizes and times of files.

use crate::money::Price;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilesConfig {
    /// Space given to others' files, bytes; 0: none.
    pub bytes: u64,
    /// Most of these bytes for one owner.
    pub bytes_per_owner: u64,
    /// Files kept for others; one more is refused. Our choice: a list of them fits a message.
    pub kept: usize,
    /// Whether space is given for nothing, too.
    pub gift: bool,
    /// This node's cost of space, where space is sold.
    pub cost: Price,
    /// For how long space is given or bought, at most. Our choice: who goes away for good costs two
    /// days of space, and owners ask again long before.
    pub term: Duration,
    /// Most that a byte-second may cost this node as a file owner; above, it asks for gifts. Our choice:
    /// about a credit for a GiB and a day.
    pub most: Price,
    /// Files that this node owns; one more is refused.
    pub owned: usize,
    /// Copies of one file at most. Our choice: where they are fits one record.
    pub copies: u8,
    /// Between two proofs of one keeper, on average. Our choice: a loss is found within ten minutes,
    /// for reading 4 MiB.
    pub audit: Duration,
    /// How long after its connection broke a keeper is asked whether it is there. Our choice: a
    /// restart.
    pub grace: Duration,
    /// How long a keeper may take to answer, and to pull one chunk.
    pub answer: Duration,
    pub pull: Duration,
    /// Until more space is looked for when there was too little.
    pub again: Duration,
}

impl Default for FilesConfig {
    fn default() -> Self {
        FilesConfig {
            bytes: 0,
            bytes_per_owner: 0,
            kept: 10_000,
            gift: true,
            cost: Price(1),
            term: Duration::from_secs(2 * 24 * 3600),
            most: Price(12),
            owned: 4_000,
            copies: 8,
            audit: Duration::from_secs(600),
            grace: Duration::from_secs(30),
            answer: Duration::from_secs(10),
            pull: Duration::from_secs(120),
            again: Duration::from_secs(30),
        }
    }
}

impl FilesConfig {
    /// Settings of a node that gives `bytes` of its disk.
    pub fn giving(bytes: u64) -> FilesConfig {
        // As with checkpoints: a second owner finds room.
        FilesConfig { bytes, bytes_per_owner: bytes / 4 * 3, ..FilesConfig::default() }
    }
}
