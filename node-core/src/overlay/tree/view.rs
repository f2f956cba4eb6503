//! A node's knowledge of the tree: for checkers and for people.

use super::group::Member;
use super::{Link, Range, Root, Tree};
use crate::address::Contact;
use crate::ids::NodeId;
use crate::placement::Placement;

/// A look at a node's part of the tree. It copies nothing: checkers take a million at a time.
#[derive(Clone, Copy)]
pub struct TreeView<'a>(&'a Tree);

/// The root group as one of its members knows it.
#[derive(Clone, Copy)]
pub struct RootView<'a>(&'a Root);

impl<'a> TreeView<'a> {
    /// None before it was told to join.
    pub fn me(self) -> Option<Contact> {
        self.0.me
    }

    /// In the tree: it has a parent or is in the root group.
    pub fn joined(self) -> bool {
        self.0.placed()
    }

    pub fn level(self) -> u8 {
        self.0.level
    }

    pub fn parent(self) -> Option<Contact> {
        self.0.parent()
    }

    /// Epoch of the group that it is in; 0 outside the tree.
    pub fn epoch(self) -> u64 {
        match &self.0.link {
            Link::None => 0,
            Link::Child { epoch, .. } => *epoch,
            Link::Root(root) => root.group.epoch,
        }
    }

    /// The range of its branch as its parent wrote it; none for a leaf.
    pub fn range(self) -> Option<Range> {
        self.0.range
    }

    /// The other members of its group, in order.
    pub fn siblings(self) -> impl Iterator<Item = Contact> + 'a {
        let group = match self.0.root() {
            Some(_) => Range::ALL,
            None => self.0.upper.group,
        };
        let me = self.0.key();
        self.known().filter(move |c| group.contains(c.key()) && c.key() != me)
    }

    /// At most k before it at its level, the nearest first.
    pub fn predecessors(self) -> impl Iterator<Item = Contact> + 'a {
        let me = self.0.key();
        self.known().rev().skip_while(move |c| c.key() >= me).take(self.0.config.k())
    }

    /// At most k behind it at its level, the nearest first.
    pub fn successors(self) -> impl Iterator<Item = Contact> + 'a {
        let me = self.0.key();
        self.known().skip_while(move |c| c.key() <= me).take(self.0.config.k())
    }

    /// Members that it knows at its level, in order.
    fn known(self) -> impl DoubleEndedIterator<Item = Contact> + 'a {
        let root: &[Member] = self.0.root().map_or(&[], |root| &root.group.members);
        let near: &[Contact] = if self.0.root().is_some() { &[] } else { &self.0.near };
        root.iter().map(|m| m.contact).chain(near.iter().copied())
    }

    /// In order, each with its range; none for leaves and for those that have to move.
    pub fn children(self) -> impl Iterator<Item = (Contact, Option<Range>)> + 'a {
        let range = self.0.range.unwrap_or_else(|| self.0.no_range());
        self.0.children.iter().flat_map(move |children| children.group.with_ranges(range))
    }

    /// Children whose connection is lost and whose place is kept.
    pub fn missing(self) -> impl Iterator<Item = NodeId> + 'a {
        let members = self.0.children.iter().flat_map(|children| &children.group.members);
        members.filter(|m| m.missing.is_some()).map(|m| m.id())
    }

    /// Epoch of the group of children; 0 for a leaf.
    pub fn children_epoch(self) -> u64 {
        self.0.children.as_ref().map_or(0, |children| children.group.epoch)
    }

    /// For members of the root group.
    pub fn root(self) -> Option<RootView<'a>> {
        self.0.root().map(RootView)
    }

    /// From the grandparent up.
    pub fn ancestors(self) -> &'a [Contact] {
        &self.0.upper.ancestors
    }

    /// Nothing is asked for, moved or given up.
    pub fn settled(self) -> bool {
        self.0.asking.is_none() && self.0.freed.is_none() && !self.0.leaving
    }
}

impl<'a> RootView<'a> {
    pub fn coordinator(self) -> NodeId {
        self.0.writer
    }

    pub fn term(self) -> u64 {
        self.0.term
    }

    /// All of them, in order, with their ranges.
    pub fn members(self) -> impl Iterator<Item = (Contact, Option<Range>)> + 'a {
        self.0.group.with_ranges(Range::ALL)
    }
}

impl Tree {
    pub fn view(&self) -> TreeView<'_> {
        TreeView(self)
    }

    /// Placement for discovery.
    pub(super) fn placement(&self) -> Placement {
        let id = self.me.map(|me| me.id);
        let children = self.children.iter().flat_map(|k| &k.group.members);
        let peers = self.root().into_iter().flat_map(|r| &r.group.members);
        Placement {
            joined: self.placed(),
            level: self.level,
            parent: self.parent(),
            ancestors: self.parent().map(|_| self.upper.ancestors.clone()).unwrap_or_default(),
            peers: peers.map(|m| m.contact).filter(|c| Some(c.id) != id).collect(),
            children: children.filter(|m| m.missing.is_none()).map(|m| m.contact).collect(),
        }
    }

    /// Bytes of memory that this state takes, roughly.
    pub fn memory(&self) -> usize {
        use std::mem::size_of;
        let contact = size_of::<Contact>();
        let contacts =
            self.near.capacity() + self.upper.ancestors.capacity() + self.upper.parent_siblings.capacity();
        let member = size_of::<super::group::Member>();
        let children = self.children.as_ref().map_or(0, |k| {
            let neighbours: usize = k.left.iter().chain(&k.right).map(|s| s.children.capacity()).sum();
            size_of::<super::Children>()
                + k.group.members.capacity() * member
                + neighbours * contact
                + k.log.capacity() * 40
        });
        let root = self.root().map_or(0, |r| size_of::<super::Root>() + r.group.members.capacity() * member);
        size_of::<Tree>()
            + contacts * contact
            + self.up.capacity() * 32
            + self.via.capacity() * 32
            + children
            + root
    }
}
