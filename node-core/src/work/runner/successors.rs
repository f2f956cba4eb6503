//! Units whose owner was the ring's choice get another when that one is lost, or when the ring moves.
//!
//! The owner names the nodes that may own its units next; the job's origin does, should owner and replicas be
//! lost at once. Claims of other nodes are ignored. The unit runs on meanwhile.

use super::owners::OwnerState;
use super::{Runner, Timer, UnitState};
use crate::ids::{NodeId, UnitId};
use crate::money::Price;
use crate::protocol::Cx;
use crate::work::message::Report;

/// Successors that are remembered: an owner's, and whom its origin named.
const REPLICAS_MAX: usize = 8;

#[derive(Debug)]
pub(super) struct Succession {
    pub(super) origin: NodeId,
    successors: Vec<NodeId>,
    epoch: u32,
}

impl Runner {
    /// A peer that is no gateway may be an owner that was away.
    pub(super) fn peer_up(&mut self, peer: NodeId, cx: &mut Cx<'_, Self>) {
        let left = self.left_of(peer) && !self.owners.contains_key(&peer);
        if left || self.owners.get(&peer).is_some_and(|owner_state| !owner_state.connected) {
            self.owner_up(peer, cx);
        }
    }

    /// The unit's owner is the ring's choice; who may be the next is told in a moment.
    pub(super) fn has_origin(&mut self, id: UnitId, origin: Option<NodeId>) {
        let (Some(unit), Some(origin)) = (self.units.get_mut(&id), origin) else { return };
        unit.delegated
            .get_or_insert_with(|| Box::new(Succession { origin, successors: Vec::new(), epoch: 0 }));
    }

    /// Sets the nodes that may own these units next.
    pub(super) fn successors_named(
        &mut self,
        from: NodeId,
        units: &[(UnitId, u32)],
        origin: NodeId,
        successors: &[NodeId],
    ) {
        for (id, epoch) in units {
            let Some(unit) = self.units.get_mut(id) else { continue };
            let first = REPLICAS_MAX.min(successors.len());
            match &mut unit.delegated {
                // Nodes that the origin names come before those that the owner named.
                Some(known) if known.origin == from && unit.owner != from => {
                    known.successors.retain(|successor| !successors.contains(successor));
                    known.successors.splice(0..0, successors[..first].iter().copied());
                    known.successors.truncate(REPLICAS_MAX);
                }
                known if unit.owner == from => {
                    let origin = known.as_ref().map_or(origin, |known| known.origin);
                    *known = Some(Box::new(Succession {
                        origin,
                        successors: successors[..first].to_vec(),
                        epoch: *epoch,
                    }));
                }
                _ => {}
            }
        }
    }

    /// Somebody owns these units now, it says.
    pub(super) fn claimed(
        &mut self,
        from: NodeId,
        units: &[(UnitId, u32)],
        origin: NodeId,
        successors: &[NodeId],
        cx: &mut Cx<'_, Self>,
    ) {
        let may = |id: &UnitId, epoch: u32| {
            let Some(unit) = self.units.get(id) else { return false };
            let Some(known) = unit.delegated.as_ref().filter(|known| known.origin == origin) else {
                return false;
            };
            unit.owner != from
                && epoch > known.epoch
                && (known.successors.contains(&from) || known.origin == from)
        };
        let taken: Vec<(UnitId, u32)> = units.iter().copied().filter(|(id, epoch)| may(id, *epoch)).collect();
        if taken.is_empty() {
            return;
        }
        for (id, _) in &taken {
            self.change_owner(*id, from, cx);
        }
        self.successors_named(from, &taken, origin, successors);
        self.report_all(from, cx);
        self.ask_after(from, 0, cx);
        if self.owners.get(&from).is_some_and(|owner_state| owner_state.units > 0) {
            cx.set_timer_by(Timer::Heartbeat(from), self.config.timing.heartbeat);
        }
    }

    /// The unit is that owner's from now on; what has not begun, it places anew.
    fn change_owner(&mut self, id: UnitId, to: NodeId, cx: &mut Cx<'_, Self>) {
        let Some(unit) = self.units.get_mut(&id) else { return };
        if matches!(unit.state, UnitState::Fetching | UnitState::Ready { .. }) {
            return self.remove(id, cx);
        }
        let (from, suspended) = (unit.owner, u32::from(matches!(unit.state, UnitState::Suspended)));
        let gift = u32::from(unit.price == Price(0));
        // Lease 0 is none: the new owner is asked what it wants of the unit.
        (unit.owner, unit.lease) = (to, 0);
        let mut moved: Vec<Report> = Vec::new();
        if let Some(owner_state) = self.owners.get_mut(&from) {
            owner_state.units -= 1;
            owner_state.gifts -= gift;
            owner_state.suspended -= suspended;
            moved = owner_state.outbox.remove(id);
        }
        let owner_state = self.owners.entry(to).or_insert_with(|| Box::new(OwnerState::default()));
        owner_state.connected = true;
        owner_state.units += 1;
        owner_state.gifts += gift;
        owner_state.suspended += suspended;
        owner_state.outbox.extend(moved);
        self.report(from, cx);
        Self::changed(cx);
    }
}
