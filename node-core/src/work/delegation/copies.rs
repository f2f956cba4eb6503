//! Copies of units that other nodes own, counted by the node that told them.

use super::{Delegated, Part};
use crate::ids::{JobId, NodeId, UnitId};
use crate::time::Time;
use std::collections::BTreeMap;

/// A unit that another node owns, as that node said last.
#[derive(Debug)]
pub(super) struct Replica {
    pub(super) delegated: Delegated,
    owner: NodeId,
    pub(super) heard: Time,
    /// It has a row here: this node owned it once.
    pub(super) written: bool,
    /// Another node that says it owns the unit, and its message, until the ring has been asked.
    pub(super) next: Option<Box<(NodeId, Delegated, Part)>>,
}

impl Replica {
    pub(super) fn new(owner: NodeId, delegated: Delegated, written: bool, heard: Time) -> Replica {
        Replica { delegated, owner, heard, written, next: None }
    }

    pub(super) fn owner(&self) -> NodeId {
        self.owner
    }
}

#[derive(Debug, Default)]
pub(super) struct Copies {
    all: BTreeMap<UnitId, Replica>,
    by: BTreeMap<NodeId, usize>,
}

impl Copies {
    pub(super) fn get(&self, unit: &UnitId) -> Option<&Replica> {
        self.all.get(unit)
    }

    pub(super) fn get_mut(&mut self, unit: &UnitId) -> Option<&mut Replica> {
        self.all.get_mut(unit)
    }

    pub(super) fn contains_key(&self, unit: &UnitId) -> bool {
        self.all.contains_key(unit)
    }

    pub(super) fn insert(&mut self, unit: UnitId, copy: Replica) {
        self.remove(&unit);
        *self.by.entry(copy.owner).or_default() += 1;
        self.all.insert(unit, copy);
    }

    pub(super) fn remove(&mut self, unit: &UnitId) -> Option<Replica> {
        let copy = self.all.remove(unit)?;
        if let Some(count) = self.by.get_mut(&copy.owner) {
            *count -= 1;
            if *count == 0 {
                self.by.remove(&copy.owner);
            }
        }
        Some(copy)
    }

    /// The newest word of the unit's owner, or of the next one.
    pub(super) fn told(&mut self, unit: UnitId, owner: NodeId, delegated: Delegated, now: Time) {
        if let Some(copy) = self.remove(&unit) {
            self.insert(unit, Replica { owner, delegated, heard: now, ..copy });
        }
    }

    /// How many this node told.
    pub(super) fn count_of(&self, node: NodeId) -> usize {
        self.by.get(&node).copied().unwrap_or_default()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&UnitId, &Replica)> {
        self.all.iter()
    }

    pub(super) fn of_job(&self, job: JobId) -> impl Iterator<Item = (&UnitId, &Replica)> {
        self.all.range(UnitId { job, index: 0 }..=UnitId { job, index: u32::MAX })
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}
