//! Room for units of other gateways: how many, of which home, brought by which node, and how much memory
//! their descriptions take. Their number is bounded ([`crate::bounds::Bounds::delegated_units`]), and one of
//! them may have a description of a MiB.

use super::owned::{content_of, spec_of};
use super::{Delegated, Owner, Part};
use crate::circle::Point;
use crate::content::BlobRef;
use crate::ids::{JobId, NodeId, UnitId};
use crate::work::delegated::point_of;
use crate::work::spec::Units;
use crate::work::submission;
use crate::work::weight::{of_template, of_unit};

/// Bytes of descriptions. Our choice: 1,000 units of files' names and arguments of 64 KiB each; a gateway
/// whose units find no room on the ring keeps them.
const DESCRIPTIONS: u64 = 64 << 20;

/// Bytes of descriptions of units that one node brought. Our choice: another node finds room.
const OF_ONE: u64 = DESCRIPTIONS / 2;

/// A description below this is not weighed: the number of units bounds it, to as many bytes again.
const LIGHT: u64 = 2 << 10;

const NO_ROOM: &str = "descriptions of units take as much of its memory as they may";

/// Room for units of one home that one node brings, and why those of this job find none.
pub(super) struct Room {
    by: NodeId,
    all: usize,
    its: usize,
    unfit: Option<String>,
}

fn of_delegated(delegated: &Delegated) -> u64 {
    delegated.spec.as_ref().map_or(0, of_unit)
}

impl Owner {
    /// Units owned for others, those that ended included until their homes know.
    pub(super) fn owned_count(&self) -> usize {
        let jobs = self.jobs.values().filter_map(|job| job.delegated.as_ref());
        jobs.map(|delegated| delegated.delegation.len()).sum::<usize>() + self.delegation.ended.len()
    }

    /// Units of this home that are owned here and have not ended.
    fn owned_of(&self, home: NodeId) -> usize {
        let its = self.jobs.values().filter_map(|job| job.delegated.as_ref());
        its.filter(|delegated| delegated.home.id == home).map(|delegated| delegated.delegation.len()).sum()
    }

    /// Counts the room for units of this home that `by` brings: whoever names ever new homes has one share.
    pub(super) fn room_of(&self, part: &Part, by: NodeId) -> Room {
        let most = self.config.limits.delegated_units;
        let brought = self.delegation.brought.get(&by).copied().unwrap_or_default();
        Room {
            by,
            all: most.saturating_sub(self.owned_count()),
            // Another home finds room.
            its: most.div_ceil(2).saturating_sub(self.owned_of(part.home.id).max(brought)),
            unfit: submission::check(&spec_of(part, Units::ONE), &self.config.limits)
                .err()
                .map(|unfit| unfit.to_string()),
        }
    }

    /// Whether one more unit may be owned here, whoever brings it; counts it, too.
    ///
    /// # Errors
    /// Says why not.
    pub(super) fn may_adopt(
        &self,
        room: &mut Room,
        job: JobId,
        part: &Part,
        delegated: &Delegated,
    ) -> Result<(), String> {
        if let Some(why) = room.unfit.clone().or_else(|| self.unfit(part, delegated)) {
            return Err(why);
        }
        if room.all == 0 {
            return Err("it owns as many units as it may".into());
        }
        if room.its == 0 {
            return Err("it owns as many of this gateway's units as it may".into());
        }
        if !self.has_room_for(room.by, job, part, delegated) {
            return Err(NO_ROOM.into());
        }
        (room.all, room.its) = (room.all - 1, room.its - 1);
        Ok(())
    }

    fn unfit(&self, part: &Part, delegated: &Delegated) -> Option<String> {
        let large = |blob: &BlobRef| blob.len > self.config.limits.blob_bytes;
        if content_of(part, delegated).iter().any(large) {
            return Some("a blob is larger than it takes".into());
        }
        let unfit =
            delegated.spec.as_ref().and_then(|spec| submission::check_unit(&part.template, spec).err());
        unfit.map(|unfit| unfit.to_string())
    }

    /// Whether the node may say of a unit that nobody here knows that it is this node's now: its home, and
    /// members that owned it or had a copy as far as the ring shows here. These stand between the unit and
    /// this node, which came after them, or follow this node.
    pub(super) fn may_hand_over(&self, node: NodeId, unit: UnitId, part: &Part) -> bool {
        let before = |me| Point::of_node(node).is_between(point_of(unit), me);
        node == part.home.id
            || self.delegation.following.contains(&node)
            || self.delegation.share.range().is_some_and(|arc| before(arc.upto))
    }

    /// Whether a copy of one more unit may be kept that this node tells.
    pub(super) fn may_copy(&self, by: NodeId, job: JobId, part: &Part, delegated: &Delegated) -> bool {
        let copies = &self.delegation.replicas;
        let most = self.config.limits.delegated_units;
        // Each of as many owners finds room.
        copies.len() < most.saturating_mul(super::REPLICAS)
            && copies.count_of(by) < most
            && self.has_room_for(by, job, part, delegated)
    }

    /// Whether the description of a unit that this node brings has room here.
    pub(super) fn has_room_for(&self, by: NodeId, job: JobId, part: &Part, delegated: &Delegated) -> bool {
        let known = |job: &JobId| self.jobs.contains_key(job) || self.delegation.parts.contains_key(job);
        let of_part = if known(&job) { 0 } else { of_template(&part.template) };
        let new = of_part + of_delegated(delegated);
        if new < LIGHT {
            return true;
        }
        let (all, its) = self.descriptions(by);
        new.saturating_add(all) <= DESCRIPTIONS && new.saturating_add(its) <= OF_ONE
    }

    /// Bytes of all descriptions, and of those that this node brought.
    fn descriptions(&self, by: NodeId) -> (u64, u64) {
        let (mut all, mut its) = (0u64, 0u64);
        let mut add = |bytes: u64, brought: bool| {
            all += bytes;
            its += if brought { bytes } else { 0 };
        };
        for job in self.jobs.values() {
            let Some(ownership) = &job.delegated else { continue };
            let first = ownership.by.values().next() == Some(&by);
            add(of_template(&job.spec.template), first);
            for (index, delegated) in &ownership.delegation {
                add(of_delegated(delegated), ownership.by.get(index) == Some(&by));
            }
        }
        for (job, part) in &self.delegation.parts {
            let first = self.delegation.replicas.of_job(*job).next();
            add(of_template(&part.template), first.is_some_and(|(_, copy)| copy.owner() == by));
        }
        for (_, copy) in self.delegation.replicas.iter() {
            add(of_delegated(&copy.delegated), copy.owner() == by);
            if let Some((next, delegated, part)) = copy.next.as_deref() {
                add(of_delegated(delegated) + of_template(&part.template), *next == by);
            }
        }
        (all, its)
    }
}
