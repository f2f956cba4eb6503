//! Messages of the Rendezvous Node Tree.

use super::summary::Summary;
use crate::address::Contact;
use crate::capability::{Candidate, Capability};
use crate::circle::Point;
use crate::ids::NodeId;
use serde::{Deserialize, Serialize};

/// Capable nodes that one search looks for at most. Our choice: the marks of a scarce job are at 16.
pub const WANTED_MAX: u16 = 64;

/// Branches that a search keeps for later. Our choice: seven levels of nodes with 18 others beside the branch.
pub const BRANCHES_MAX: usize = 128;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// From a child, when its subtree has changed, and now and then: who it is, where, and what its subtree can do.
    Child { contact: Contact, rounded: Point, summary: Summary },
    /// To who took the sender for its parent: another node owns the point above it.
    NotParent,
    /// From the parent: the whole tree.
    Whole(Summary),
    /// A search on its way.
    Walk(Box<Walk>),
    /// To the origin of a search, which is over.
    Over(Box<Over>),
}

/// A search for nodes that cover some needs, handed from node to node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Walk {
    /// Drawn by the origin.
    pub id: u64,
    pub origin: Contact,
    pub needs: Capability,
    /// Nodes that are looked for.
    pub wanted: u16,
    /// Nodes that it came to.
    pub visited: u16,
    pub found: Vec<Candidate>,
    /// Nodes whose subtrees are searched next, the last one first.
    pub branches: Vec<Contact>,
    /// Parent of the root of the subtree that is searched, and that root, which the parent passes over.
    pub above: Option<(Contact, NodeId)>,
    /// The receiver has the subtree of this child behind it, and is the root of what is searched now.
    pub behind: Option<NodeId>,
}

/// Outcome of a search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Over {
    pub id: u64,
    pub found: Vec<Candidate>,
    pub visited: u16,
}

impl Walk {
    /// Whether a correct node could have sent it.
    pub fn is_valid(&self) -> bool {
        (1..=WANTED_MAX).contains(&self.wanted)
            && self.found.len() < usize::from(self.wanted)
            && self.branches.len() <= BRANCHES_MAX
    }
}
