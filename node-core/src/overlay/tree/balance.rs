//! Keeping groups between m and 2m: what a parent does about its own group. All it can do is
//! ask the writer of its own group for other bounds; the answer is the change.

use super::message::{Event, Message, Timer};
use super::{Contact, Link, Range, Tcx, Tree};

/// One of the two parents next to this one, in the same group.
#[derive(Clone, Copy)]
pub(super) struct Sibling {
    pub(super) contact: Contact,
    pub(super) count: usize,
    pub(super) left: bool,
}

impl Tree {
    pub(super) fn balance(&mut self, cx: &mut Tcx<'_>) {
        if self.freed.is_some() {
            return self.leave_branch(cx);
        }
        if self.leaving && self.level > 0 {
            self.hand_over(cx);
        }
        self.move_strangers(cx);
        self.balance_root(cx);
        let again = self.balance_children(cx);
        let strangers = match (&self.children, self.range) {
            (Some(children), Some(range)) => {
                children.group.members.len() > children.group.inside(&range).len()
            }
            _ => false,
        };
        if again || strangers || self.leaving {
            cx.set_timer_by(Timer::Balance, self.config.balance);
        }
    }

    /// Says whether it has to be looked at again.
    fn balance_children(&mut self, cx: &mut Tcx<'_>) -> bool {
        let (m, count) = (self.config.m(), self.child_count());
        let lone = self.is_lone_root();
        let placed = self.placed();
        let Some(children) = &mut self.children else { return false };
        if count >= m || lone {
            children.underflow = None;
            children.underflows = 0;
        }
        if count <= 2 * m {
            children.asked = false;
        }
        if count <= 2 * m && (count >= m || lone) || !placed {
            return false;
        }
        if cx.now < children.rest {
            return true;
        }
        if count > 2 * m {
            children.rest = cx.now + self.config.balance;
            self.too_many(count, cx);
            return true;
        }
        // Below m: orphans of a dead parent come one by one, and a new half fills up; wait.
        let since = *children.underflow.get_or_insert(cx.now);
        if cx.now.since(since) >= self.config.balance {
            children.rest = cx.now + self.config.balance;
            self.too_few(count, cx);
        }
        true
    }

    pub(super) fn is_lone_root(&self) -> bool {
        self.root().is_some_and(|r| r.group.members.len() == 1)
    }

    /// The parents next to this one that have the same parent, and whether each is to the left.
    pub(super) fn siblings_there(&self) -> impl Iterator<Item = (Contact, bool)> {
        let (left, right) = self.beside();
        let group = if self.root().is_some() { Range::ALL } else { self.upper.group };
        let both = [(left, true), (right, false)].into_iter();
        both.filter_map(|(contact, left)| Some((contact?, left)))
            .filter(move |(c, _)| group.contains(c.key()))
    }

    /// Those of them that have said how many children they have.
    pub(super) fn siblings(&self) -> Vec<Sibling> {
        let Some(children) = &self.children else { return Vec::new() };
        self.siblings_there()
            .filter_map(|(contact, left)| {
                let side = if left { &children.left } else { &children.right };
                let side = side.as_ref().filter(|s| s.id == contact.id && s.known)?;
                Some(Sibling { contact, count: usize::from(side.count), left })
            })
            .collect()
    }

    /// Asks how many children they have, who have not said so yet. False if that was done.
    pub(super) fn ask_siblings(&mut self, cx: &mut Tcx<'_>) -> bool {
        let Some(children) = self.children.as_mut().filter(|k| !k.asked) else { return false };
        children.asked = true;
        cx.set_timer_by(Timer::Updates, self.config.updates / 8);
        true
    }

    /// Its place was given up; once the children are gone it starts again as a leaf.
    fn leave_branch(&mut self, cx: &mut Tcx<'_>) {
        let left = self.children.as_ref().is_some_and(|k| !k.group.members.is_empty());
        let patience = cx.now.since(self.lost) < 4 * self.config.balance;
        if left && patience {
            self.move_strangers(cx);
            return cx.set_timer_by(Timer::Balance, self.config.balance);
        }
        let hint = self.freed;
        if matches!(self.link, Link::None) {
            self.become_leaf(cx);
            self.lost = cx.now;
            if self.leaving {
                self.asking = None;
                return cx.emit(Event::Left);
            }
            self.seek(0, None, hint, cx);
        }
    }

    /// The place in the writer's group goes to another: so do all children.
    pub(super) fn give_up_place(&mut self, into: Contact, cx: &mut Tcx<'_>) {
        self.link = Link::None;
        self.range = None;
        self.freed = Some(into);
        self.asking = None;
        self.lost = cx.now;
        self.changed = true;
        if self.level == 0 {
            self.freed = None;
            return self.seek(0, None, Some(into), cx);
        }
        self.leave_branch(cx);
    }

    pub(super) fn ask_writer(&self, message: Message, cx: &mut Tcx<'_>) {
        if let Some(writer) = self.writer() {
            self.send(writer, message, cx);
        }
    }
}
