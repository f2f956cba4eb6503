//! Views for people: plain data, no protocol state.

use crate::channel::Carrier;
use crate::ids::NodeId;
use crate::platform::Platform;

/// A node as this one sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeView {
    pub id: NodeId,
    pub name: String,
    pub platform: Platform,
    pub gateway: bool,
    /// Others cannot dial it, as far as is known: a page, a node behind a wall, or one that no peer
    /// has dialled back yet.
    pub guest: bool,
    /// The carrier of this node's connection to it; none to itself.
    pub over: Option<Carrier>,
    /// The node that relays this connection, if one does.
    pub via: Option<NodeId>,
    /// This very node.
    pub me: bool,
    pub slots: u32,
    /// Slots without work at the node's last word.
    pub free: u32,
    /// Units it holds for this owner.
    pub held: u32,
    pub units_done: u64,
    /// Processor time it gave to this owner's units, microseconds.
    pub cpu_us: u64,
    /// Microseconds since it was last heard of.
    pub silent_us: u64,
}
