//! Going of one's own accord (section 5.1): a leaf says so, an inner node first finds a leaf of
//! its branch that takes its place.

use super::message::{Event, Message, RequestLeaf, Timer};
use super::{Link, Range, Tcx, Tree};
use crate::ids::NodeId;
use crate::time::Time;

impl Tree {
    pub(super) fn leave(&mut self, cx: &mut Tcx<'_>) {
        if !self.leaving {
            self.leaving = true;
            // How long it looks for a follower counts from here.
            self.lost = cx.now;
        }
        if self.level > 0 && self.placed() {
            self.hand_over(cx);
            return cx.set_timer_by(Timer::Balance, self.config.balance);
        }
        if self.freed.is_none() {
            self.go(cx);
        }
    }

    /// Out, whatever becomes of the children: they find a place as orphans.
    fn go(&mut self, cx: &mut Tcx<'_>) {
        if let Link::Root(root) = &self.link {
            let (writer, epoch) = (root.writer, root.group.epoch);
            if writer == cx.me {
                self.bequeath(cx);
            } else {
                cx.send(writer, Message::Leave { epoch, root: true });
            }
        }
        self.let_go(cx);
        self.near.clear();
        cx.cancel_timer(Timer::Join);
        cx.emit(Event::Left);
    }

    /// The coordinator goes: the record without it is the next one's.
    fn bequeath(&mut self, cx: &mut Tcx<'_>) {
        let epoch = self.next_epoch(cx.now);
        let me = cx.me;
        let Some(root) = self.root_mut() else { return };
        root.group.remove(me, &Range::ALL);
        root.group.epoch = epoch;
        root.term += 1;
        let Some(next) = root.group.members.iter().find(|m| m.missing.is_none()).map(|m| m.contact) else {
            return;
        };
        if let Some(mut record) = self.to_record() {
            record.writer = next.id;
            self.send(next, Message::Abdicate(Box::new(record)), cx);
        }
    }

    /// Looks for a leaf to take this node's place.
    pub(super) fn hand_over(&mut self, cx: &mut Tcx<'_>) {
        let lone = self.is_lone_root();
        if self.root().is_some_and(|r| r.writer == cx.me) && !lone {
            return self.abdicate(cx);
        }
        let leaf = self.range.and_then(|range| self.leaf_for(&range, None));
        let (Some(to), Some(claim), Some(leaf)) = (self.writer(), self.range, leaf) else {
            return self.go(cx);
        };
        if cx.now.since(self.lost) > self.config.dissolve {
            return self.go(cx);
        }
        if lone {
            // It writes its own place.
            let (now, me) = (cx.now, cx.me);
            if let Some(member) = self.root_mut().and_then(|r| r.group.get_mut(me)) {
                member.missing = Some(now);
                member.asked = now;
            }
        } else {
            let epoch = match &self.link {
                Link::Child { epoch, .. } => *epoch,
                Link::Root(root) => root.group.epoch,
                Link::None => 0,
            };
            self.send(to, Message::Resign { epoch }, cx);
        }
        let request = RequestLeaf { level: self.level, claim, for_: cx.me, to };
        self.send(leaf, Message::RequestLeaf(Box::new(request)), cx);
    }

    /// A member of a group that this node writes wants to go: its place is open.
    pub(super) fn resigned(&mut self, from: NodeId, _epoch: u64, cx: &mut Tcx<'_>) {
        let now = cx.now;
        let wait = self.config.dissolve;
        let open = |member: &mut super::group::Member| {
            member.missing = Some(now + wait);
            member.asked = Time(now.0.max(1));
        };
        if let Some(member) = self.children.as_mut().and_then(|k| k.group.get_mut(from)) {
            open(member);
        } else if let Some(root) = self.root_mut().filter(|r| r.writer == cx.me)
            && let Some(member) = root.group.get_mut(from)
        {
            open(member);
        }
        cx.set_timer_by(Timer::Vacancy, self.config.vacancy);
    }
}
