//! Where the tree has put a node: what discovery needs to know of it, and no more.

use crate::address::Contact;

/// A node's neighbourhood in the tree, told whole at every change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// Whether the node is in the tree at all.
    pub joined: bool,
    /// Levels below: 0 for a leaf.
    pub level: u8,
    /// None in the root group, and outside the tree.
    pub parent: Option<Contact>,
    /// From the grandparent up to a member of the root group, nearest first.
    pub ancestors: Vec<Contact>,
    /// The other members of the root group, for its members only.
    pub peers: Vec<Contact>,
    pub children: Vec<Contact>,
}
