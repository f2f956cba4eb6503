//! Messages between nodes of the tree, and commands and events between tree and node.

use super::range::Range;
use crate::address::{Contact, Key};
use crate::ids::NodeId;
use crate::placement::Placement;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// Routed by key to the parent at `level + 1`, or into the root group.
    Join(Box<Join>),
    /// To who joined: its new parent, or the root group that it is in now.
    Welcome(Box<Welcome>),
    /// The root is not above the level of who asked with this ticket.
    TooTall { ticket: u32 },
    /// From parent to child.
    Tell(Box<Tell>),
    /// From child to parent, or from a member of the root group to its coordinator: still
    /// here, this is what I know, and this many children are mine.
    Refresh { epoch: u64, level: u8, count: u16 },
    /// To who takes the sender for its parent and is wrong, or asks it for a place while it has
    /// none itself. `into` has its branch now.
    NotMine { into: Option<Contact> },
    /// To who takes the sender for its child, or for a member of its root group, and is wrong, or
    /// soon will be: it knew this epoch.
    Leave { epoch: u64, root: bool },
    /// From an inner node that wants to go: its place is vacant as soon as another takes it.
    Resign { epoch: u64 },
    /// To a child that lies outside of its parent's range; without `via`, to one whose parent
    /// gives up its place. It finds a new parent by itself.
    Move { via: Option<Contact>, epoch: u64 },
    /// Between parents side by side: the children next to the other.
    Update(Box<NeighbourUpdate>),
    /// Wanted from this branch: a leaf with a key in the range to take a place at a level.
    RequestLeaf(Box<RequestLeaf>),
    /// Child to parent: let the bound between me and `with` be this.
    Redistribute { with: NodeId, bound: Key },
    /// Child to parent: let `into`, which is next to me, have my range.
    Merge { into: NodeId },
    /// Between parents side by side: I have too few; give some of yours.
    Underflow { count: u16 },
    /// From the coordinator of the root group to its members.
    Root(Box<Record>),
    /// From the coordinator to the member that is to be it from now on.
    Abdicate(Box<Record>),
    /// From a coordinator, routed up: is there another root?
    Probe { root: Contact, level: u8, term: u64, nonce: u64 },
    /// The answer of a root before which the asking one gives way.
    Found { root: Contact, nonce: u64 },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Join {
    pub who: Contact,
    /// The level where it belongs: 0 unless it brings a branch.
    pub level: u8,
    /// The range that its branch had, or should get.
    pub claim: Option<Range>,
    /// It is a leaf that takes a place at `level` because of this node: one that splits, died
    /// or leaves, or the coordinator of a root group that needs a root above.
    pub for_: Option<NodeId>,
    /// The answer carries it back.
    pub ticket: u32,
    pub hops: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    pub from: Contact,
    pub ticket: u32,
    pub level: u8,
    pub epoch: u64,
    /// The range of the one who joined; none for leaves.
    pub range: Option<Range>,
    pub root: Option<Record>,
}

/// Changes for a child since epoch `base`; everything if `base` is 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tell {
    pub epoch: u64,
    pub base: u64,
    /// Range of the child's branch.
    pub range: Option<Range>,
    /// Siblings, and neighbours with other parents.
    pub add: Vec<Contact>,
    pub drop: Vec<NodeId>,
    pub upper: Option<Upper>,
}

/// Nodes and range above a group of siblings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upper {
    /// The parent's range: of nodes at the level, siblings lie in it.
    pub group: Range,
    /// From the grandparent up to a member of the root group, nearest first.
    pub ancestors: Vec<Contact>,
    /// The parent's neighbours at its level.
    pub parent_siblings: Vec<Contact>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NeighbourUpdate {
    pub from: Contact,
    pub level: u8,
    /// How many children it has.
    pub count: u16,
    /// Those nearest to the addressee, at most k.
    pub children: Vec<Contact>,
    /// The sender does not have the addressee's.
    pub want: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestLeaf {
    pub level: u8,
    pub claim: Range,
    pub for_: NodeId,
    /// Contact of the node that gives the place.
    pub to: Contact,
}

/// The root group as its coordinator wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub term: u64,
    pub epoch: u64,
    pub level: u8,
    pub writer: NodeId,
    /// The members with the lower bounds of their ranges, in order.
    pub members: Vec<(Contact, Key)>,
    /// The group gives way to this node: all of them join there.
    pub promoted: Option<Contact>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Ask again to be let in.
    Join,
    /// Tell the children what changed.
    Tell,
    /// Tell the parents beside this one.
    Updates,
    /// Tell the parent that this child is still there.
    Refresh,
    /// Look at the size of one's group.
    Balance,
    /// Look for places whose holders are gone for good.
    Vacancy,
    /// The coordinator is gone.
    Elect,
    /// Look for another root.
    Probe,
    /// Tell the root group who has come.
    Record,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Take part, as `me`, by way of peers that are connected and may be in the tree. Without
    /// any this node is the tree.
    Join { me: Contact, via: Vec<NodeId> },
    /// The swarm's m, which this node did not know; before it takes part.
    Degree(u8),
    /// Hand over and go; ends with [`Event::Left`].
    Leave,
    /// Peers to ask when all references are lost.
    Via(Vec<NodeId>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Where this node is now, told whole at every change.
    Placed(Box<Placement>),
    Left,
}
