//! Nodes of which an owner knows what they can do, from their claims and from searches: a job that few can run is marked
//! at some of them, and no search is needed.

use super::Fcx;
use crate::address::Address;
use crate::capability::{Candidate, Capability};
use crate::ids::NodeId;
use crate::time::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// Nodes that are remembered. Our choice: 100 KB; of 1,024 drawn ones 16 can run what a sixtieth of all can.
const KNOWN: usize = 1024;

/// Time for which a node is remembered. Our choice: what it can do changes when its donor wants it, seldom.
const REMEMBERED: Duration = Duration::from_secs(3600);

/// Known nodes for each one wanted that are enough, however many more there may be. Our choice: what is remembered is not
/// more than four times that.
const ENOUGH: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Known {
    nodes: BTreeMap<NodeId, (Candidate, Time)>,
}

impl Known {
    /// A node can do this. It takes the place of the one that was heard of longest ago, if there is none.
    pub(super) fn remember(&mut self, one: Candidate, now: Time) {
        self.nodes.insert(one.at.id, (one, now));
        if self.nodes.len() > KNOWN {
            let oldest = self.nodes.iter().min_by_key(|(node, (_, heard))| (*heard, **node));
            if let Some(oldest) = oldest.map(|(node, _)| *node) {
                self.nodes.remove(&oldest);
            }
        }
    }

    /// Where the node is reached, if it is known.
    pub(super) fn at(&self, node: NodeId) -> Option<Address> {
        self.nodes.get(&node).map(|(one, _)| one.at)
    }

    /// A node cannot be reached: it is gone, and so are its guests.
    pub(super) fn forget(&mut self, node: NodeId) {
        self.nodes.retain(|_, (one, _)| one.at.first_hop().is_some_and(|hop| hop.id != node));
    }

    /// Draws `wanted` known nodes that can run this, of `of` that there may be; none if a search is to find others. A search
    /// is the more seldom the more are known: without any, nodes that seldom claim stay unknown.
    pub(super) fn draw(
        &self,
        needs: &Capability,
        (wanted, of): (usize, usize),
        cx: &mut Fcx<'_>,
    ) -> Option<Vec<Address>> {
        let fresh = self.nodes.values().filter(|(_, heard)| cx.now.since(*heard) < REMEMBERED);
        let capable = fresh.map(|(one, _)| one).filter(|one| one.capability.covers(needs));
        let mut all: Vec<Address> = capable.map(|one| one.at).collect();
        let enough = of.min(ENOUGH * wanted) as u64;
        if all.len() < wanted || (all.len() as u64) < cx.rng.below(enough.max(1)) {
            return None;
        }
        cx.rng.shuffle(&mut all);
        all.truncate(wanted);
        Some(all)
    }

    pub(super) fn check(&self) {
        assert!(self.nodes.len() <= KNOWN, "known nodes are bounded");
    }
}
