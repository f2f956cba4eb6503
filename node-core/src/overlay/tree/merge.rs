//! Groups below m (section 5.1): children come from a sibling, or the two groups become one.
//!
//! In a merge the parent of the small group is freed and joins again as a leaf.

use super::message::{Message, Timer};
use super::{Range, Tcx, Tree};
use crate::ids::NodeId;

impl Tree {
    pub(super) fn too_few(&mut self, count: usize, cx: &mut Tcx<'_>) {
        let m = self.config.m();
        let mut siblings = self.siblings();
        if siblings.is_empty() {
            // They have not said how many they have, or there are none.
            return cx.set_timer_by(Timer::Updates, self.config.updates / 8);
        }
        siblings.sort_by_key(|b| b.count);
        let tries = self.children.as_mut().map_or(0, |children| {
            children.underflows = children.underflows.saturating_add(1);
            usize::from(children.underflows)
        });
        let Some(smallest) = siblings.first() else { return };
        // One place is left for this node itself, which may come as a leaf of that very group.
        if count + smallest.count < 2 * m {
            return self.ask_writer(Message::Merge { into: smallest.contact.id }, cx);
        }
        // First the largest, then the other, is asked to give some; if the bound cannot be moved
        // since its own key is in the way, all go over, and the large group splits.
        if let Some(rich) = siblings.iter().rev().nth(tries - 1).filter(|b| b.count > m) {
            let count = u16::try_from(count).unwrap_or(u16::MAX);
            return self.send(rich.contact, Message::Underflow { count }, cx);
        }
        self.ask_writer(Message::Merge { into: smallest.contact.id }, cx);
    }

    pub(super) fn on_underflow(&mut self, from: NodeId, count: u16, cx: &mut Tcx<'_>) {
        let (m, mine, count) = (self.config.m(), self.child_count(), usize::from(count));
        let Some(sibling) = self.sibling(from) else { return };
        if mine <= m || count >= mine {
            return;
        }
        let give = ((mine - count) / 2).min(mine - m);
        self.give(sibling, give, 1, cx);
    }

    /// The writer gives the range of one parent to the one beside it.
    pub(super) fn merge(&mut self, from: NodeId, into: NodeId, cx: &mut Tcx<'_>) {
        let range = self.range;
        if let (Some(children), Some(range)) = (&mut self.children, range)
            && children.group.get(from).is_some()
        {
            let Some(to) = children.group.get(into).filter(|m| m.missing.is_none()).map(|m| m.contact) else {
                return;
            };
            if children.group.merge(from, into, &range) {
                self.note_gone(from, cx);
                cx.send(from, Message::NotMine { into: Some(to) });
                self.release(from, cx);
                self.look_at_size(cx);
            }
            return;
        }
        if self.root().is_some_and(|r| r.writer == cx.me && r.group.get(from).is_some())
            && let Some(root) = self.root_mut()
        {
            // The coordinator keeps its own place: the other one is freed.
            let (from, into) = if from == cx.me { (into, from) } else { (from, into) };
            let Some(to) = root.group.get(into).filter(|m| m.missing.is_none()).map(|m| m.contact) else {
                return;
            };
            if root.group.merge(from, into, &Range::ALL) {
                self.root_written(cx);
                cx.send(from, Message::NotMine { into: Some(to) });
                self.look_at_size(cx);
            }
        }
    }
}
