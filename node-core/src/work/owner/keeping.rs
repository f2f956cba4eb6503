//! Space for checkpoints that was bought with a unit's place. Who has sold it is named to the unit's
//! runner before the keepers that were drawn, and is paid with the place: for what it kept, from the first
//! checkpoint that it has until the last. That it has one, the runner says, which is none the richer for
//! it; of what a page runs, the keeper itself.

use super::Owner;
use super::deals::Deals;
use crate::address::Address;
use crate::disk::Write;
use crate::finding::Shelf;
use crate::goods::Market;
use crate::ids::{NodeId, UnitId};
use crate::progress::Checkpoint;
use crate::protocol::Cx;
use crate::time::Time;
use crate::work::spec::Template;

/// Most bytes that a unit's checkpoints take, and how often it is to have one; `None` if it is to have none. A
/// snapshot holds no more than the unit's memory; with its base it may be twice that, and its keeper sees
/// whether it has room.
pub(super) fn needs(template: &Template) -> Option<(u64, std::time::Duration)> {
    Some((template.limits.memory_bytes.max(Market::LEAST), template.checkpoint.duration()?))
}

impl Deals {
    /// Keeper that has sold space for the unit's checkpoints, together with the unit's place at `runner`.
    pub(super) fn keeper(&self, index: u32, runner: NodeId) -> Option<Address> {
        let at = self.sold(index, runner)?.shelf.as_ref()?.at?;
        Some(at.into())
    }

    /// These have a checkpoint that was taken there.
    pub(super) fn kept(
        &mut self,
        index: u32,
        runner: NodeId,
        checkpoint: &Checkpoint,
        keepers: &[NodeId],
        now_ms: u64,
    ) {
        let Some(Shelf { space, at: Some(at) }) = self.shelf_mut(index, runner) else { return };
        if keepers.contains(&at.id) {
            let bytes = checkpoint.parts().iter().map(|part| part.len).fold(0, u64::saturating_add);
            space.holds(bytes, now_ms);
        }
    }
}

impl Owner {
    /// Whether the runner can use this keeper.
    pub(super) fn can_keep(&self, runner: NodeId, keeper: NodeId, now: Time) -> bool {
        !self.gets_all_from_here(runner) && !self.is_cooling(runner, keeper, now)
    }

    /// Milliseconds since 1970; 0 until the driver has told the time.
    pub(super) fn wall_now(&self, now: Time) -> u64 {
        self.wall.map_or(0, |wall| wall.now(now))
    }

    /// To whom this node passes on what a page's unit has come to.
    pub(super) fn second_keeper(&self, unit: UnitId, page: NodeId, cx: &Cx<'_, Self>) -> Option<NodeId> {
        let deals = self.jobs.get(&unit.job).and_then(|job| job.deals.as_deref());
        let bought = deals.and_then(|deals| deals.keeper(unit.index, page)).map(|source| source.id);
        let bought = bought.filter(|keeper| self.nodes.contains_key(keeper));
        bought.or_else(|| self.best_keepers(unit.job, page, cx).first().map(|best| best.id))
    }

    /// Row of the pay of the unit's keeper, for the commit of the checkpoint's record that proves it: a later
    /// life goes on from there.
    pub(super) fn shelf_write(&self, unit: UnitId) -> Option<Write> {
        let deals = self.jobs.get(&unit.job)?.deals.as_deref()?;
        deals.is_kept(unit.index).then(|| self.deal_write(unit))?
    }
}
