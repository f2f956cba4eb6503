//! Groups above 2m (section 5.1).
//!
//! A half of the children gets a parent of its own, a leaf *from that half*, so that its range
//! has it. Modification: if a sibling has room, the bound between the two is moved instead. It
//! keeps groups fuller, which makes the tree lower, above all when nodes come in sorted order
//! (a split of 2m + 1 leaves two groups of m behind, which nobody joins any more).

use super::balance::Sibling;
use super::group::after;
use super::message::{Message, RequestLeaf};
use super::{Key, Range, Tcx, Tree};
use crate::ids::NodeId;
use crate::time::Time;
use std::time::Duration;

/// A half that is merged again within that time did not last. Our choice: a few times what a
/// merge and a split take.
const LASTS: Duration = Duration::from_secs(60);

impl Tree {
    pub(super) fn too_many(&mut self, count: usize, cx: &mut Tcx<'_>) {
        let m = self.config.m();
        let room = 2 * m - (m / 2).max(1);
        let mut siblings = self.siblings();
        if siblings.len() < self.siblings_there().count()
            && count <= 2 * m + m.div_ceil(2)
            && self.ask_siblings(cx)
        {
            return;
        }
        siblings.sort_by_key(|b| b.count);
        for sibling in siblings.into_iter().filter(|b| b.count <= room) {
            let give = (count - sibling.count) / 2;
            if self.give(sibling, give, count - 2 * m, cx) {
                return;
            }
        }
        self.split(cx);
    }

    /// Asks for a bound that gives `count` children, or as many as can be, but not below
    /// `least`, to a sibling. The node's own key must stay on its side.
    pub(super) fn give(&self, to: Sibling, count: usize, least: usize, cx: &mut Tcx<'_>) -> bool {
        let (Some(children), Some(range), key) = (&self.children, self.range, self.key()) else {
            return false;
        };
        let members = children.group.members.get(children.group.inside(&range)).unwrap_or_default();
        // Where the range of a child begins; that of a leaf is its key.
        let begin = |i: usize| members.get(i).map(|m| if children.group.leaves { m.key() } else { m.lo });
        let (bound, given) = if to.left {
            let most = members.iter().filter(|m| m.key() < key).count().min(count);
            let fits = |n: &usize| {
                *n < members.len() && begin(*n).is_some_and(|b| children.group.leaves || b <= key)
            };
            let Some(n) = (1..=most).rev().find(fits) else { return false };
            (begin(n).map(|b| b.min(key)), n)
        } else {
            let most = members.iter().filter(|m| m.key() > key).count().min(count);
            let fits = |n: &usize| *n < members.len() && begin(members.len() - n).is_some_and(|b| b > key);
            let Some(n) = (1..=most).rev().find(fits) else { return false };
            (begin(members.len() - n), n)
        };
        let Some(bound) = bound.filter(|_| given >= least.max(1)) else { return false };
        self.ask_writer(Message::Redistribute { with: to.contact.id, bound }, cx);
        true
    }

    /// The writer of two parents side by side moves the bound between them.
    pub(super) fn redistribute(&mut self, from: NodeId, with: NodeId, bound: Key, cx: &mut Tcx<'_>) {
        let range = self.range;
        if let (Some(children), Some(range)) = (&mut self.children, range)
            && children.group.get(from).is_some()
        {
            if children.group.redistribute(from, with, bound, &range) {
                let epoch = self.next_epoch(cx.now);
                self.bounds_written(epoch, cx);
            }
            return;
        }
        if self.root().is_some_and(|r| r.writer == cx.me && r.group.get(from).is_some())
            && let Some(root) = self.root_mut()
            && root.group.redistribute(from, with, bound, &Range::ALL)
        {
            self.root_written(cx);
        }
    }

    /// New bounds of children: those concerned hear of it at once.
    pub(super) fn bounds_written(&mut self, epoch: u64, cx: &mut Tcx<'_>) {
        if let Some(children) = &mut self.children {
            children.group.epoch = epoch;
        }
        self.tell_ranges(cx);
        self.tell_soon(cx);
    }

    /// Looks for a parent for one half: it asks the writer for its place by itself.
    fn split(&mut self, cx: &mut Tcx<'_>) {
        let (Some(range), key, Some(to)) = (self.range, self.key(), self.writer()) else { return };
        let Some(children) = &self.children else { return };
        let members = children.group.members.get(children.group.inside(&range)).unwrap_or_default();
        // If the last half did not last, that was for who came from where: not again so.
        let again = children.split > Time::ZERO && cx.now.since(children.split) < LASTS;
        let any = again.then(|| cx.rng.u64());
        let m = self.config.m();
        let half = match any {
            Some(any) if members.len() > 2 * m => m + (any >> 32) as usize % (members.len() - 2 * m + 1),
            _ => members.len() / 2,
        };
        let Some(middle) = members.get(half) else { return };
        let bound = if children.group.leaves { middle.key() } else { middle.lo };
        // The bound may as well be just behind its own key, if the upper half begins there.
        let behind =
            any.is_some_and(|any| any & 1 << 20 != 0) && !children.group.leaves && key < middle.key();
        let bound = if behind { bound.max(after(key)) } else { bound };
        let claim = if key < bound {
            Range { lo: bound, hi: range.hi }
        } else if children.group.leaves {
            // The new parent is one of the lower half, which so needs one more.
            let Some(next) = members.get(half + 1) else { return };
            Range { lo: range.lo, hi: Some(next.key().min(key)) }
        } else {
            Range { lo: range.lo, hi: Some(bound) }
        };
        let request = RequestLeaf { level: self.level, claim, for_: cx.me, to };
        if let Some(leaf) = self.leaf_for(&claim, any) {
            self.send(leaf, Message::RequestLeaf(Box::new(request)), cx);
        }
        if let Some(children) = &mut self.children {
            children.split = cx.now;
        }
    }
}

impl Tree {
    /// The sibling that is `contact`.
    pub(super) fn sibling(&self, id: NodeId) -> Option<Sibling> {
        self.siblings().into_iter().find(|b| b.contact.id == id)
    }
}
