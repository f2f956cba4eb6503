//! On which terms this node works: whether its donor gives anything now, and what of it to whom.

use super::declined::Declined;
use super::{Runner, Timer};
use crate::ids::NodeId;
use crate::money::Price;
use crate::protocol::Cx;
use crate::trust::policy::{Asking, Policy, Rejection};
use crate::work::spec::Template;
use sandbox::Limits;
use std::sync::Arc;
use std::time::Duration;

/// An owner of which no unit is taken is offered nothing for so long. Our choice: an offer has no room
/// for all terms, so the owner tries again, and this makes it a message in a while. Where one job alone
/// is not taken, the owner keeps it away for as long (`owner/avoid.rs`), and its other jobs run here.
pub(super) const REFUSED_FOR: Duration = Duration::from_secs(10);

/// An owner whose unit failed here by no fault of its own is offered nothing for so long. Our choice:
/// units that fail do not go round at the speed of the wire, and a good slot hardly idles.
pub(super) const FAILED: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(super) struct Terms {
    /// The donor gives nothing now, and may again.
    pub(super) withheld: bool,
    /// Memory that one unit may have, bytes.
    pub(super) memory_bytes: u64,
    /// Policy that says whose work is taken; `None`: everybody's.
    policy: Option<Arc<Policy>>,
}

impl Terms {
    pub(super) fn new(memory_bytes: u64) -> Terms {
        Terms { withheld: false, memory_bytes, policy: None }
    }

    /// Whether anything is done for nothing.
    pub(super) fn takes_gifts(&self) -> bool {
        self.policy.as_ref().is_none_or(|policy| policy.min_price == 0)
    }

    /// Slots of so many that are not sold.
    pub(super) fn kept_for_gifts(&self, slots: u32) -> u32 {
        self.policy.as_ref().map_or(0, |policy| policy.kept_for_gifts(slots))
    }

    /// Whether a gift goes before what pays this much, when so many of those that run are gifts, and
    /// gifts have had this share of the time.
    pub(super) fn gift_first(&self, price: Price, (gifts, all): (u32, u32), had_pct: f64) -> bool {
        let policy = self.policy.as_ref().filter(|policy| had_pct <= policy.gift_share_pct);
        policy.is_some_and(|policy| policy.goes_first(0, price.0, gifts, all))
    }

    /// Whether anything of this owner's is taken. Its own work needs no leave of the node itself.
    pub(super) fn work_for(&self, owner: NodeId, me: NodeId) -> bool {
        // The least that can be asked for.
        let least = Limits { time_us: 0, memory_bytes: 0, ..Limits::default() };
        self.admit(owner, me, &least, Price(0)).is_ok()
    }

    /// Why a unit of `template` is not taken from this owner at this price. An owner stands for those
    /// who submit to it.
    pub(super) fn rejects(
        &self,
        owner: NodeId,
        me: NodeId,
        template: &Template,
        price: Price,
    ) -> Option<Declined> {
        if template.limits.memory_bytes > self.memory_bytes {
            return Some(Declined::Memory);
        }
        // A unit's output is held in memory beside its own, and its owner alone says how much it may be.
        let output = self.memory_bytes.max(Limits::default().output_bytes);
        if template.limits.output_bytes > output {
            return Some(Declined::Output(output));
        }
        self.admit(owner, me, &template.limits, price).err().map(Declined::Policy)
    }

    fn admit(&self, submitter: NodeId, me: NodeId, limits: &Limits, price: Price) -> Result<(), Rejection> {
        let Some(policy) = self.policy.as_ref().filter(|_| submitter != me) else { return Ok(()) };
        let Limits { time_us, memory_bytes, .. } = *limits;
        // Where a peer is, the driver knows; it refuses those that are not to be heard at all.
        let asking = Asking { submitter, from: None, price: price.0, time_us, memory_bytes };
        policy.admit(&asking)
    }
}

impl Runner {
    /// Gives nothing more and hands on what is here, or gives again.
    pub(super) fn set_donating(&mut self, lends: bool, cx: &mut Cx<'_, Self>) {
        if self.terms.withheld != lends {
            return;
        }
        self.terms.withheld = !lends;
        if !lends && !self.draining {
            self.hand_on(cx);
        } else if lends && !self.draining {
            cx.cancel_timer(Timer::Drained);
        }
        Self::changed(cx);
    }

    /// Sets new terms; units that were taken on earlier terms are kept.
    pub(super) fn set_terms(&mut self, memory_bytes: u64, policy: Arc<Policy>, cx: &mut Cx<'_, Self>) {
        self.terms.memory_bytes = memory_bytes.min(self.config.memory_bytes);
        self.terms.policy = Some(policy);
        for (_, owner_state) in self.owners.iter_mut() {
            owner_state.refused = false;
        }
        Self::changed(cx);
    }

    /// It is offered nothing for a while.
    pub(super) fn turn_away(&mut self, owner: NodeId, time: Duration, cx: &mut Cx<'_, Self>) {
        let Some(owner_state) = self.owners.get_mut(&owner) else { return };
        // A longer time that runs already stays.
        if !owner_state.refused || time >= REFUSED_FOR {
            owner_state.refused = true;
            cx.set_timer(Timer::TurnedAway(owner), time);
        }
    }

    pub(super) fn welcome_again(&mut self, owner: NodeId) {
        if let Some(owner_state) = self.owners.get_mut(&owner) {
            owner_state.refused = false;
        }
    }
}
