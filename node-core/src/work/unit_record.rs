//! How far a unit has come, as its owner writes it down: its newest checkpoint, the one before it, and who has
//! them. Pure.

use crate::ids::NodeId;
use crate::platform::Platform;
use crate::progress::{Checkpoint, Journey, SPANS_MAX, Version};
use crate::time::Time;
use sandbox::swarm::Marks;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Runners that could not go on from a checkpoint until it counts as bad. Our choice: one may be
/// at fault itself, or lie.
const DOUBTS: u8 = 2;

/// Holders of one checkpoint that are remembered. Our choice: two keepers, the runner, and some that had it before.
const HOLDERS_MAX: usize = 8;

/// Where a unit stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitRecord {
    pub(crate) newest: Option<Held>,
    pub(crate) older: Option<Held>,
    pub(crate) journey: Journey,
    pub(crate) attempts: u32,
    /// When the newest was noted.
    #[serde(skip)]
    pub(crate) at: Time,
    /// Fuel a millisecond, of late.
    #[serde(skip)]
    pub(crate) rate: u64,
    /// Since when nobody is here who keeps any of it.
    #[serde(skip)]
    pub(crate) missing: Option<Time>,
    /// The second keeper that the owner has asked itself, and how often in vain so far.
    #[serde(skip)]
    pub(crate) asked: Option<(NodeId, u8)>,
}

impl UnitRecord {
    /// Forgets what is more than a correct node keeps: the record came from another.
    pub(crate) fn bound(&mut self) {
        let helds = [&mut self.newest, &mut self.older];
        helds.into_iter().flatten().for_each(|held| held.holders.truncate(HOLDERS_MAX));
        if self.journey.spans.len() > SPANS_MAX {
            self.journey.spans.truncate(SPANS_MAX);
            self.journey.merged = true;
        }
    }
}

/// A checkpoint and who has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    pub(crate) checkpoint: Checkpoint,
    /// Runner that made the checkpoint.
    pub(crate) runner: NodeId,
    pub(crate) holders: Vec<NodeId>,
    /// Runners that could not go on from it.
    pub(crate) doubts: u8,
    /// Set of a thread: messages and questions that it covers.
    #[serde(default)]
    pub(crate) marks: Option<Box<Marks>>,
}

/// News that a checkpoint is to a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noted {
    /// It is known, with all its holders.
    Nothing,
    /// Others have it as well.
    Holders,
    /// It is the newest.
    Newest,
}

/// A checkpoint as its runner told it.
#[derive(Clone, Debug)]
pub struct Told<'a> {
    pub runner: NodeId,
    pub platform: Platform,
    pub checkpoint: Checkpoint,
    /// The fuel that the unit had used where this runner took it over.
    pub began: u64,
    pub holders: &'a [NodeId],
    pub marks: Option<Box<Marks>>,
}

impl Held {
    pub(super) fn add(&mut self, holders: &[NodeId]) -> bool {
        let before = self.holders.len();
        for holder in holders {
            if !self.holders.contains(holder) && self.holders.len() < HOLDERS_MAX {
                self.holders.push(*holder);
            }
        }
        self.holders.len() > before
    }

    /// Whether anybody but its runner has it.
    pub(super) fn is_kept(&self) -> bool {
        self.holders.iter().any(|holder| *holder != self.runner)
    }
}

impl UnitRecord {
    /// Checkpoints to go on from, the newest first.
    pub(super) fn all(&self) -> impl Iterator<Item = &Held> {
        self.newest.iter().chain(&self.older)
    }

    /// Takes a checkpoint in. `every`: the time between two of the unit's.
    pub(super) fn note(&mut self, told: Told<'_>, every: Duration, now: Time) -> Noted {
        let Told { runner, platform, checkpoint, began, holders, marks } = told;
        let Checkpoint { version, snapshot } = checkpoint;
        if let Some(newest) = self.newest.as_mut().filter(|newest| newest.checkpoint == checkpoint) {
            return if newest.add(holders) { Noted::Holders } else { Noted::Nothing };
        }
        if self.newest.as_ref().is_some_and(|newest| newest.checkpoint.version >= version) {
            return Noted::Nothing;
        }
        let mut held = Held { checkpoint, runner, holders: Vec::new(), doubts: 0, marks };
        held.add(holders);
        if let Some(before) = self.newest.replace(held) {
            // None is taken before its time: what comes together was only told together.
            let passed = now.since(self.at).max(every).as_millis().max(1) as u64;
            self.rate = snapshot.fuel.saturating_sub(before.checkpoint.snapshot.fuel) / passed;
            // A checkpoint that only its runner has is gone with the runner: better an older one that is
            // kept.
            if before.is_kept() || self.older.as_ref().is_none_or(|older| !older.is_kept()) {
                self.older = Some(before);
            }
        }
        self.journey.ran(runner, platform, began, snapshot.fuel);
        self.journey.checkpoints = self.journey.checkpoints.saturating_add(1);
        self.at = now;
        Noted::Newest
    }

    /// Keepers of this checkpoint that were not known as such: a repeated statement proves nothing.
    pub(super) fn new_keepers(&self, checkpoint: &Checkpoint, kept: &[NodeId]) -> Vec<NodeId> {
        let known = match &self.newest {
            Some(held) if held.checkpoint.version > checkpoint.version => return Vec::new(),
            Some(held) if held.checkpoint == *checkpoint => &held.holders[..],
            _ => &[],
        };
        kept.iter().copied().filter(|keeper| !known.contains(keeper)).collect()
    }

    /// The unit could not go on from this checkpoint. It is given up after [`DOUBTS`] of these.
    pub(super) fn doubt(&mut self, version: Version) {
        let held = self.newest.iter_mut().chain(&mut self.older);
        for held in held.filter(|held| held.checkpoint.version == version) {
            held.doubts = held.doubts.saturating_add(1);
        }
        let bad = |held: &Option<Held>| held.as_ref().is_some_and(|held| held.doubts >= DOUBTS);
        if bad(&self.older) {
            self.older = None;
        }
        if bad(&self.newest) {
            self.give_up_newest();
        }
    }

    /// The checkpoint before it is the newest now.
    pub(super) fn give_up_newest(&mut self) {
        let Some(bad) = self.newest.take() else { return };
        self.newest = self.older.take();
        let fuel = self.newest.as_ref().map_or(0, |held| held.checkpoint.snapshot.fuel);
        let lost = bad.checkpoint.snapshot.fuel.saturating_sub(fuel);
        self.journey.lost_fuel = self.journey.lost_fuel.saturating_add(lost);
        self.journey.cut(fuel);
    }

    /// The unit was lost with its runner; what it had done since the newest checkpoint is an estimate, of no more
    /// than the time between two.
    pub(super) fn lost(&mut self, every: Duration, now: Time) {
        let passed = now.since(self.at).min(every).as_millis() as u64;
        let lost = self.rate.saturating_mul(passed);
        self.journey.lost_fuel = self.journey.lost_fuel.saturating_add(lost);
    }

    /// Keepers that have any of it, and the runners that made it and still have it, for each checkpoint.
    pub(super) fn holders(&self) -> (Vec<NodeId>, Vec<NodeId>) {
        let (mut keepers, mut runners) = (Vec::new(), Vec::new());
        for held in self.all() {
            for holder in &held.holders {
                if *holder == held.runner { runners.push(*holder) } else { keepers.push(*holder) }
            }
        }
        (keepers, runners)
    }
}
