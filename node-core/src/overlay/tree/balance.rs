//! Keeping groups between m and 2m: what a father does about its own group. All it can do is
//! ask the writer of its own group for other bounds; the answer is the change.

use super::message::{Event, Message, Timer};
use super::{Contact, Link, Range, Tcx, Tree};

/// One of the two fathers next to this one, in the same group.
#[derive(Clone, Copy)]
pub(super) struct Brother {
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
        let again = self.balance_kids(cx);
        let strangers = match (&self.kids, self.range) {
            (Some(kids), Some(range)) => kids.group.members.len() > kids.group.inside(&range).len(),
            _ => false,
        };
        if again || strangers || self.leaving {
            cx.set_timer_by(Timer::Balance, self.config.balance);
        }
    }

    /// Says whether it has to be looked at again.
    fn balance_kids(&mut self, cx: &mut Tcx<'_>) -> bool {
        let (m, count) = (self.config.m(), self.kid_count());
        let lone = self.is_lone_root();
        let placed = self.placed();
        let Some(kids) = &mut self.kids else { return false };
        if count >= m || lone {
            kids.thin = None;
            kids.thinned = 0;
        }
        if count <= 2 * m {
            kids.asked = false;
        }
        if count <= 2 * m && (count >= m || lone) || !placed {
            return false;
        }
        if cx.now < kids.rest {
            return true;
        }
        if count > 2 * m {
            kids.rest = cx.now + self.config.balance;
            self.too_many(count, cx);
            return true;
        }
        // Below m: orphans of a dead father come one by one, and a new half fills up; wait.
        let since = *kids.thin.get_or_insert(cx.now);
        if cx.now.since(since) >= self.config.balance {
            kids.rest = cx.now + self.config.balance;
            self.too_few(count, cx);
        }
        true
    }

    pub(super) fn is_lone_root(&self) -> bool {
        self.root().is_some_and(|r| r.group.members.len() == 1)
    }

    /// The fathers next to this one that have the same father, and whether each is to the left.
    pub(super) fn brothers_there(&self) -> impl Iterator<Item = (Contact, bool)> {
        let (left, right) = self.beside();
        let group = if self.root().is_some() { Range::ALL } else { self.upper.group };
        let both = [(left, true), (right, false)].into_iter();
        both.filter_map(|(contact, left)| Some((contact?, left)))
            .filter(move |(c, _)| group.contains(c.key()))
    }

    /// Those of them that have said how many children they have.
    pub(super) fn brothers(&self) -> Vec<Brother> {
        let Some(kids) = &self.kids else { return Vec::new() };
        self.brothers_there()
            .filter_map(|(contact, left)| {
                let side = if left { &kids.left } else { &kids.right };
                let side = side.as_ref().filter(|s| s.id == contact.id && s.known)?;
                Some(Brother { contact, count: usize::from(side.count), left })
            })
            .collect()
    }

    /// Asks how many children they have, who have not said so yet. False if that was done.
    pub(super) fn ask_brothers(&mut self, cx: &mut Tcx<'_>) -> bool {
        let Some(kids) = self.kids.as_mut().filter(|k| !k.asked) else { return false };
        kids.asked = true;
        cx.set_timer_by(Timer::Edges, self.config.edges / 8);
        true
    }

    /// Its place was given up; once the children are gone it starts again as a leaf.
    fn leave_branch(&mut self, cx: &mut Tcx<'_>) {
        let left = self.kids.as_ref().is_some_and(|k| !k.group.members.is_empty());
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
