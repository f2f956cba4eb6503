//! A node's branch, for people, checkers and the dashboard.

use super::Nearest;
use super::branch::Entry;
use crate::ids::NodeId;

/// A node's knowledge of free slots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BranchView {
    pub joined: bool,
    pub level: u8,
    /// The node's own.
    pub slots: u32,
    pub free: u32,
    pub reserved: u32,
    /// The whole branch, as this node knows it: free at least and at most, declared.
    pub branch_low: u32,
    pub branch_high: u32,
    pub branch_slots: u32,
    /// Declared slots of the whole network, as far as known; 0: not known.
    pub network_slots: u32,
    /// Guests among them.
    pub children: Vec<BranchLine>,
    /// The other branches of the root group.
    pub peers: Vec<BranchLine>,
    /// Requests in hand: own ones, and parts of others'.
    pub queries: usize,
    pub pending: usize,
}

/// A branch beside or below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BranchLine {
    pub node: NodeId,
    pub guest: bool,
    /// Free, at least and at most, as stored.
    pub low: u32,
    pub high: u32,
    pub slots: u32,
    pub power: u32,
    pub hops: u8,
    pub refusals: u8,
}

impl Entry {
    fn line(&self) -> BranchLine {
        BranchLine {
            node: self.contact.id,
            guest: self.guest,
            low: self.bounds.low,
            high: self.bounds.high,
            slots: self.state.slots,
            power: self.state.power,
            hops: self.state.hops,
            refusals: self.refusals,
        }
    }
}

impl Nearest {
    pub fn view(&self) -> BranchView {
        let state = self.state();
        BranchView {
            joined: self.joined,
            level: self.level,
            slots: self.own_slots.slots(),
            free: self.own_slots.free(),
            reserved: self.own_slots.reserved(),
            branch_low: state.low,
            branch_high: state.high,
            branch_slots: state.slots,
            network_slots: self.network(),
            children: self.branch.children.iter().map(Entry::line).collect(),
            peers: self.branch.peers.iter().map(|p| p.entry.line()).collect(),
            queries: self.queries.len(),
            pending: self.pending.len(),
        }
    }
}
