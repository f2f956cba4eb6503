//! What a node knows of the tree, as plain data: for checkers and for people.

use super::{Link, Placement, Range, Tree};
use crate::ids::NodeId;
use crate::overlay::contact::Contact;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeView {
    /// None before it was told to join.
    pub me: Option<Contact>,
    /// In the tree: it has a father or is in the root group.
    pub joined: bool,
    pub level: u8,
    pub father: Option<Contact>,
    /// Of the group that it is in.
    pub epoch: u64,
    /// The range of its branch as its father wrote it; none for a leaf.
    pub range: Option<Range>,
    /// The other members of its group, in order.
    pub siblings: Vec<Contact>,
    /// At most k to each side at its level, the nearest first.
    pub predecessors: Vec<Contact>,
    pub successors: Vec<Contact>,
    /// In order, each with its range; none for leaves and for those that have to move.
    pub children: Vec<(Contact, Option<Range>)>,
    /// Children whose connection is lost and whose place is kept.
    pub missing: Vec<NodeId>,
    /// Of the group of children.
    pub children_epoch: u64,
    /// For members of the root group.
    pub root: Option<RootView>,
    /// From the grandfather up.
    pub ancestors: Vec<Contact>,
    /// Nothing is asked for, moved or given up.
    pub settled: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootView {
    pub coordinator: NodeId,
    pub term: u64,
    pub epoch: u64,
    /// All of them, in order, with their ranges.
    pub members: Vec<(Contact, Option<Range>)>,
}

impl Tree {
    pub fn view(&self) -> TreeView {
        let key = self.key();
        let id = self.me.map(|me| me.id);
        let (siblings, level): (Vec<Contact>, Vec<Contact>) = match self.root() {
            Some(root) => {
                let all = root.group.members.iter().map(|m| m.contact).filter(|c| Some(c.id) != id);
                let all: Vec<Contact> = all.collect();
                (all.clone(), all)
            }
            None => {
                let brothers = self.near.iter().filter(|c| self.upper.group.contains(c.key()));
                (brothers.copied().collect(), self.near.clone())
            }
        };
        let k = self.config.k();
        let at = level.partition_point(|c| c.key() < key);
        TreeView {
            me: self.me,
            joined: self.placed(),
            level: self.level,
            father: self.father(),
            epoch: match &self.link {
                Link::None => 0,
                Link::Child { epoch, .. } => *epoch,
                Link::Root(root) => root.group.epoch,
            },
            range: self.range,
            siblings,
            predecessors: level.iter().take(at).rev().take(k).copied().collect(),
            successors: level.iter().skip(at).take(k).copied().collect(),
            children: self.children(),
            missing: self
                .kids
                .iter()
                .flat_map(|k| &k.group.members)
                .filter(|m| m.missing.is_some())
                .map(|m| m.id())
                .collect(),
            children_epoch: self.kids.as_ref().map_or(0, |k| k.group.epoch),
            root: self.root().map(|root| RootView {
                coordinator: root.writer,
                term: root.term,
                epoch: root.group.epoch,
                members: (0..root.group.members.len())
                    .filter_map(|i| {
                        Some((root.group.members.get(i)?.contact, root.group.range_of(i, &Range::ALL)))
                    })
                    .collect(),
            }),
            ancestors: self.upper.ancestors.clone(),
            settled: self.asking.is_none() && self.freed.is_none() && !self.leaving,
        }
    }

    fn children(&self) -> Vec<(Contact, Option<Range>)> {
        let Some(kids) = &self.kids else { return Vec::new() };
        let range = self.range.unwrap_or_else(|| self.no_range());
        let of = |i: usize| kids.group.range_of(i, &range).filter(|_| !kids.group.leaves);
        kids.group.members.iter().enumerate().map(|(i, m)| (m.contact, of(i))).collect()
    }

    /// What discovery is told.
    pub(super) fn placement(&self) -> Placement {
        let id = self.me.map(|me| me.id);
        let kids = self.kids.iter().flat_map(|k| &k.group.members);
        let peers = self.root().into_iter().flat_map(|r| &r.group.members);
        Placement {
            joined: self.placed(),
            level: self.level,
            father: self.father(),
            ancestors: self.father().map(|_| self.upper.ancestors.clone()).unwrap_or_default(),
            peers: peers.map(|m| m.contact).filter(|c| Some(c.id) != id).collect(),
            children: kids.filter(|m| m.missing.is_none()).map(|m| m.contact).collect(),
        }
    }

    /// Bytes of memory that this state takes, roughly.
    pub fn memory(&self) -> usize {
        use std::mem::size_of;
        let contact = size_of::<Contact>();
        let contacts = self.near.capacity() + self.upper.ancestors.capacity() + self.upper.uncles.capacity();
        let member = size_of::<super::group::Member>();
        let kids = self.kids.as_ref().map_or(0, |k| {
            let cousins: usize = k.left.iter().chain(&k.right).map(|s| s.kids.capacity()).sum();
            size_of::<super::Kids>()
                + k.group.members.capacity() * member
                + cousins * contact
                + k.log.capacity() * 40
        });
        let root = self.root().map_or(0, |r| size_of::<super::Root>() + r.group.members.capacity() * member);
        size_of::<Tree>()
            + contacts * contact
            + self.up.capacity() * 32
            + self.via.capacity() * 32
            + kids
            + root
    }
}
