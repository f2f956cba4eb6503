//! Room for units of other gateways: how many, of which origin, brought by which node, and how much memory
//! their descriptions take. Their number is bounded ([`crate::bounds::Bounds::delegated_units`]), and one of
//! them may have a description of a MiB.

use super::content::content_of;
use super::owned::spec_of;
use super::{Delegated, Delegation, Part, REPLICAS, View, point_of};
use crate::circle::Point;
use crate::content::BlobRef;
use crate::ids::{JobId, NodeId, UnitId};
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

/// Why a node does not own a unit for another; the words follow "the node does not own it:".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotAdopted {
    #[error("the ring has moved")]
    Moved,
    #[error("another gateway has a job of this name")]
    OtherOrigin,
    #[error("it owns as many units as it may")]
    Full,
    #[error("it owns as many of this gateway's units as it may")]
    FullOfOne,
    #[error("descriptions of units take as much of its memory as they may")]
    Descriptions,
    #[error("a blob is larger than it takes")]
    Blob,
    #[error(transparent)]
    Unfit(#[from] submission::Unfit),
}

/// Room for units of one origin that one node brings, and why those of this job find none.
pub(super) struct Room {
    pub(super) descriptions: Descriptions,
    all: usize,
    its: usize,
    unfit: Option<NotAdopted>,
}

/// Room for descriptions that one node brings in one message. What is here is weighed once a message, and only if
/// there is something to weigh: a message has hundreds of units, and a node may own thousands.
pub(super) struct Descriptions {
    by: NodeId,
    /// Bytes of all descriptions here, and of those that the node brought.
    known: Option<(u64, u64)>,
}

impl Descriptions {
    pub(super) fn of(by: NodeId) -> Descriptions {
        Descriptions { by, known: None }
    }

    pub(super) fn by(&self) -> NodeId {
        self.by
    }
}

/// Part of the room for units that results of mere copies may take, and the part of one runner: anybody can tell of
/// copies, and bring results of them. Our choice: most of the room is left for units that are owned here.
const LATE: usize = 4;
const LATE_OF_ONE: usize = 16;

/// Bytes of the unit's own description.
pub(super) fn weight_of(delegated: &Delegated) -> u64 {
    delegated.spec.as_ref().map_or(0, of_unit)
}

impl Delegation {
    /// Units owned for others, those that ended included until their origins know.
    pub(super) fn owned_count(&self) -> usize {
        self.owned.values().map(|owned| owned.units.len()).sum::<usize>() + self.ends.len()
    }

    /// Results of units with a mere copy here that may still come from this runner.
    pub fn room_for_late(&self, runner: NodeId, delegated_units: usize) -> usize {
        let all = (delegated_units / LATE).saturating_sub(self.ends.len());
        all.min((delegated_units / LATE_OF_ONE).max(1).saturating_sub(self.ends.of_runner(runner)))
    }

    /// Units of this origin that are owned here and have not ended.
    fn owned_of(&self, origin: NodeId) -> usize {
        let its = self.owned.values().filter(|owned| owned.origin.id == origin);
        its.map(|owned| owned.units.len()).sum()
    }

    /// Counts the room for units of this origin that `by` brings: whoever names ever new origins has one share.
    pub(super) fn room_of(&self, part: &Part, by: NodeId, view: &View<'_>) -> Room {
        let most = view.limits.delegated_units;
        let brought = self.brought.get(&by).copied().unwrap_or_default();
        Room {
            descriptions: Descriptions::of(by),
            all: most.saturating_sub(self.owned_count()),
            // Another origin finds room.
            its: most.div_ceil(2).saturating_sub(self.owned_of(part.origin.id).max(brought)),
            unfit: submission::check(&spec_of(part, Units::ONE), view.limits).err().map(NotAdopted::Unfit),
        }
    }

    /// Whether one more unit may be owned here, whoever brings it; counts it, too.
    ///
    /// # Errors
    /// [`NotAdopted`] says why not.
    pub(super) fn may_adopt(
        &self,
        room: &mut Room,
        job: JobId,
        part: &Part,
        delegated: &Delegated,
        view: &View<'_>,
    ) -> Result<(), NotAdopted> {
        if let Some(why) = room.unfit.clone().or_else(|| unfit(part, delegated, view.limits.blob_bytes)) {
            return Err(why);
        }
        if room.all == 0 {
            return Err(NotAdopted::Full);
        }
        if room.its == 0 {
            return Err(NotAdopted::FullOfOne);
        }
        if !self.has_room_for(&mut room.descriptions, job, part, delegated, view) {
            return Err(NotAdopted::Descriptions);
        }
        (room.all, room.its) = (room.all - 1, room.its - 1);
        Ok(())
    }

    /// Whether the node may say of a unit that nobody here knows that it is this node's now: its origin, and
    /// members that owned it or had a copy as far as the ring shows here. These stand between the unit and
    /// this node, which came after them, or follow this node.
    pub(super) fn may_hand_over(&self, node: NodeId, unit: UnitId, part: &Part) -> bool {
        let before = |me| Point::of_node(node).is_between(point_of(unit), me);
        node == part.origin.id
            || self.following.contains(&node)
            || self.share.range().is_some_and(|arc| before(arc.upto))
    }

    /// Whether a copy of one more unit may be kept that this node tells.
    pub(super) fn may_copy(&self, by: NodeId, view: &View<'_>) -> bool {
        let most = view.limits.delegated_units;
        // Each of as many owners finds room.
        self.replicas.len() < most.saturating_mul(REPLICAS) && self.replicas.count_of(by) < most
    }

    /// Whether the description of one more unit has room here; counts it, too.
    pub(super) fn has_room_for(
        &self,
        room: &mut Descriptions,
        job: JobId,
        part: &Part,
        delegated: &Delegated,
        view: &View<'_>,
    ) -> bool {
        let of_part = if self.is_spare(job, view) { of_template(&part.template) } else { 0 };
        let new = of_part + weight_of(delegated);
        if new < LIGHT {
            return true;
        }
        let by = room.by;
        let (all, its) = room.known.get_or_insert_with(|| self.descriptions(by));
        let has = new.saturating_add(*all) <= DESCRIPTIONS && new.saturating_add(*its) <= OF_ONE;
        if has {
            (*all, *its) = (*all + new, *its + new);
        }
        has
    }

    /// Bytes of all descriptions, and of those that this node brought.
    fn descriptions(&self, by: NodeId) -> (u64, u64) {
        let (mut all, mut its) = (0u64, 0u64);
        let mut add = |bytes: u64, brought: bool| {
            all += bytes;
            its += if brought { bytes } else { 0 };
        };
        for owned in self.owned.values() {
            add(owned.weight, owned.units.values().next().is_some_and(|first| first.by == by));
            for own in owned.units.values() {
                add(own.weight, own.by == by);
            }
        }
        for (job, part) in &self.parts {
            let first = self.replicas.of_job(*job).next();
            add(of_template(&part.template), first.is_some_and(|(_, copy)| copy.owner() == by));
        }
        for (_, copy) in self.replicas.iter() {
            add(weight_of(&copy.delegated), copy.owner() == by);
            if let Some((next, delegated, part)) = copy.next.as_deref() {
                add(weight_of(delegated) + of_template(&part.template), *next == by);
            }
        }
        (all, its)
    }
}

/// Why the unit may not be owned here, if so.
fn unfit(part: &Part, delegated: &Delegated, blob_bytes: u64) -> Option<NotAdopted> {
    let large = |blob: &BlobRef| blob.len > blob_bytes;
    if content_of(part, delegated).iter().any(large) {
        return Some(NotAdopted::Blob);
    }
    let unfit = delegated.spec.as_ref().and_then(|spec| submission::check_unit(&part.template, spec).err());
    unfit.map(NotAdopted::Unfit)
}
