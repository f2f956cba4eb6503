//! Checkpoints: snapshots of running units, stored where their runner's end does not reach them.
//!
//! The runner takes a snapshot now and then and offers it to two *keepers*, who pull it. The owner's record names the newest one that is kept, and the one before it; when
//! the runner is lost, the unit goes on from there. The snapshots are sealed with a key that owner
//! and runner have, so a keeper holds bytes that mean nothing to it. What is taken, kept and
//! resumed is decided by runner and owner; here is what they share.

mod journey;

pub(crate) use journey::SPANS_MAX;
pub use journey::{Journey, Span};

use crate::address::Address;
use crate::content::BlobRef;
use crate::engine::SnapshotRef;
use crate::ids::{NodeId, UnitId};
use sandbox::swarm::Marks;
use serde::{Deserialize, Serialize};

/// Names a checkpoint of a unit: a later placement's are newer, and so is a higher number. Never
/// a clock's time, which two nodes do not share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Version {
    /// Which placement of the unit, counted from 1.
    pub attempt: u32,
    /// Counted from 1.
    pub number: u32,
}

/// A snapshot and its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    pub version: Version,
    pub snapshot: SnapshotRef,
}

impl Checkpoint {
    /// All that is needed to go on from it, the base last.
    pub fn parts(&self) -> Vec<BlobRef> {
        std::iter::once(self.snapshot.blob).chain(self.snapshot.base).collect()
    }
}

/// A checkpoint as its runner reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    pub unit: UnitId,
    pub checkpoint: Checkpoint,
    /// The fuel that the unit had used where this runner took it over.
    pub began: u64,
    /// Keepers that said that they have it.
    pub kept: Vec<NodeId>,
    /// Set of a thread: messages and questions that it covers.
    #[serde(default)]
    pub marks: Option<Box<Marks>>,
}

/// Where a unit goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume {
    pub checkpoint: Checkpoint,
    /// Nodes that have its parts, the best first.
    pub sources: Vec<Address>,
}

/// Keepers that a unit has. Our choice, after paper `market`'s replicas: one may be lost at the same
/// time as the runner.
pub const KEEPERS: usize = 2;
