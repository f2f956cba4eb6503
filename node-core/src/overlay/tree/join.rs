//! Being let in (section 5.1): a request goes up until a branch has the key, and down to the
//! parent at the right level, or ends in the root group.

use super::group::Member;
use super::message::{Join, Message, RequestLeaf, Welcome};
use super::{Link, Range, Tcx, Timer, Tree};
use crate::ids::NodeId;
use std::time::Duration;

/// Longest way of a request: up and down the deepest tree, and some more for bounds that are
/// just being moved.
pub(super) const HOPS_MAX: u8 = 48;

/// Nobody is asked again to take a place before so long.
const ASKED: Duration = Duration::from_secs(2);

impl Tree {
    pub(super) fn join(&mut self, from: NodeId, mut join: Join, cx: &mut Tcx<'_>) {
        if join.hops == 0 && from != join.who.id {
            return self.fault(from, "asked to be let in as another node", cx);
        }
        if join.hops >= HOPS_MAX || join.who.id == cx.me {
            return;
        }
        join.hops += 1;
        let key = join.who.key();
        if self.level > join.level
            && let Some(range) = self.range
            && range.contains(key)
        {
            return self.down_with(join, range, cx);
        }
        match &self.link {
            Link::Child { parent, .. } => {
                let parent = *parent;
                // A node that asks its own child for a parent asks the wrong one.
                if parent.id != join.who.id {
                    self.send(parent, Message::Join(Box::new(join)), cx);
                }
            }
            Link::Root(_) => self.at_root(join, cx),
            // Another one may know: whole neighbourhoods are outside when many died at once.
            Link::None if from == join.who.id => cx.send(from, Message::NotMine { into: None }),
            Link::None => {}
        }
    }

    fn down_with(&mut self, join: Join, range: Range, cx: &mut Tcx<'_>) {
        if self.level == join.level + 1 {
            return self.adopt(join, range, cx);
        }
        let key = join.who.key();
        let Some(children) = &self.children else { return };
        let Some(child) = children.group.covering(key, &range) else { return };
        match child.missing {
            // The node that had the vacant place is a leaf again.
            Some(_) if child.id() == join.who.id => self.drop_child(join.who.id, cx),
            Some(_) if self.level == join.level + 2 => {
                let id = child.id();
                self.offer_place(id, &join, cx);
            }
            Some(_) => {}
            // A branch that wants its own head to let it in has lost its way.
            None if child.id() == join.who.id => {}
            None => self.send(child.contact, Message::Join(Box::new(join)), cx),
        }
    }

    fn at_root(&mut self, join: Join, cx: &mut Tcx<'_>) {
        let Some(root) = self.root() else { return };
        if join.for_.is_some() && join.level == self.level + 1 && root.writer == cx.me {
            return self.root_promoted(join, cx);
        }
        if join.level > self.level {
            if join.for_.is_none() {
                self.send(join.who, Message::TooTall { ticket: join.ticket }, cx);
            } else if let Some(writer) = self.writer().filter(|w| w.id != cx.me) {
                self.send(writer, Message::Join(Box::new(join)), cx);
            }
            return;
        }
        let to = if join.level == self.level {
            if root.writer == cx.me {
                return self.seat(join, cx);
            }
            self.writer()
        } else {
            match root.group.covering(join.who.key(), &Range::ALL) {
                Some(member) if member.missing.is_none() => Some(member.contact),
                // The coordinator alone fills places.
                Some(member) if root.writer == cx.me => {
                    let (id, next) = (member.id(), self.level == join.level + 1);
                    return if next {
                        self.offer_place(id, &join, cx)
                    };
                }
                Some(_) => self.writer(),
                None => None,
            }
        };
        if let Some(to) = to.filter(|to| to.id != cx.me && to.id != join.who.id) {
            self.send(to, Message::Join(Box::new(join)), cx);
        }
    }

    /// The place of an inner node is vacant and one of its orphans asks: it, or a leaf of its
    /// branch, is to take the place.
    fn offer_place(&mut self, vacant: NodeId, join: &Join, cx: &mut Tcx<'_>) {
        if join.for_.is_some() {
            return;
        }
        let Some(me) = self.me else { return };
        // Which of this node's groups has the vacancy: its children's, or the root group.
        let (of_children, range) = match (&self.children, self.range) {
            (Some(children), Some(range)) if children.group.get(vacant).is_some() => (true, range),
            _ => (false, Range::ALL),
        };
        let level = if of_children { self.level - 1 } else { self.level };
        let group = match (&mut self.link, &mut self.children) {
            (_, Some(children)) if of_children => &mut children.group,
            (Link::Root(root), _) => &mut root.group,
            _ => return,
        };
        let Some(claim) = group.range_of_id(vacant, &range) else { return };
        let Some(member) = group.get_mut(vacant) else { return };
        if cx.now.since(member.asked) < ASKED && member.asked.0 > 0 {
            return;
        }
        member.asked = cx.now;
        self.send(
            join.who,
            Message::RequestLeaf(Box::new(RequestLeaf { level, claim, for_: vacant, to: me })),
            cx,
        );
    }

    /// Takes a child in.
    fn adopt(&mut self, join: Join, range: Range, cx: &mut Tcx<'_>) {
        if self.parent().is_some_and(|f| f.id == join.who.id) {
            return;
        }
        let (now, most) = (cx.now, self.config.members_max());
        let Some(children) = &mut self.children else { return };
        let member = Member::new(join.who, join.who.key(), 0, now);
        if let Some(for_) = join.for_ {
            // An answer that was lost is given again.
            if children.group.get(join.who.id).is_none()
                && !children.group.take_place(member, for_, join.claim, &range)
            {
                return;
            }
            self.place_taken(for_, &join, cx);
        } else if children.group.get(join.who.id).is_none() {
            if children.group.members.len() >= most {
                return;
            }
            children.group.insert(member, join.claim, &range);
        }
        let epoch = self.touched(join.who.id, cx);
        let Some(children) = &mut self.children else { return };
        let yours = children.group.range_of_id(join.who.id, &range).filter(|_| join.level > 0);
        let Some(known) = children.group.get_mut(join.who.id) else { return };
        known.since = epoch;
        known.heard = now;
        known.told = 0;
        known.upper_told = false;
        known.missing = None;
        // The key of who comes again from another address must not change under the order.
        if known.contact.key() == join.who.key() {
            known.contact = join.who;
        }
        self.welcome_to(&join, epoch, yours, cx);
        self.changed = true;
        self.look_at_size(cx);
    }

    fn welcome_to(&mut self, join: &Join, epoch: u64, range: Option<Range>, cx: &mut Tcx<'_>) {
        let Some(from) = self.me else { return };
        let welcome = Welcome { from, ticket: join.ticket, level: join.level, epoch, range, root: None };
        self.send(join.who, Message::Welcome(Box::new(welcome)), cx);
    }

    /// Takes a branch into the root group. Only its coordinator does.
    fn seat(&mut self, join: Join, cx: &mut Tcx<'_>) {
        // Leaves that come before there is a parent for them come again; each would be told of
        // all others.
        let most =
            if self.level == 0 { 2 * self.config.k() + self.config.m() } else { self.config.members_max() };
        let now = cx.now;
        let epoch = self.next_epoch(now);
        let Link::Root(root) = &mut self.link else { return };
        let member = Member::new(join.who, join.who.key(), epoch, now);
        let there = root.group.get(join.who.id).is_some_and(|m| m.missing.is_none());
        if there && root.promoted.is_some() {
            // It was on its way to the promoted root, which is not ready.
            return;
        }
        if let Some(for_) = join.for_ {
            if root.group.get(join.who.id).is_none()
                && !root.group.take_place(member, for_, join.claim, &Range::ALL)
            {
                return;
            }
            self.place_taken(for_, &join, cx);
        } else if root.group.get(join.who.id).is_none() {
            if root.group.members.len() >= most {
                return;
            }
            root.group.insert(member, join.claim, &Range::ALL);
        }
        let Link::Root(root) = &mut self.link else { return };
        root.group.epoch = epoch;
        if let Some(known) = root.group.get_mut(join.who.id) {
            known.missing = None;
            known.heard = now;
            known.since = epoch;
        }
        if join.for_ == Some(cx.me) && self.root().is_some_and(|r| r.group.get(cx.me).is_none()) {
            return self.succeeded(join, epoch, cx);
        }
        if !there {
            self.root_grew(cx);
        }
        let Some(from) = self.me else { return };
        let welcome = Welcome {
            from,
            ticket: join.ticket,
            level: join.level,
            epoch,
            range: None,
            root: self.to_record(),
        };
        self.send(join.who, Message::Welcome(Box::new(welcome)), cx);
        self.look_at_size(cx);
    }

    /// A leaf took this coordinator's own place, and writes the root group from now on.
    fn succeeded(&mut self, join: Join, epoch: u64, cx: &mut Tcx<'_>) {
        let Some(from) = self.me else { return };
        let Some(root) = self.root_mut() else { return };
        root.term += 1;
        root.writer = join.who.id;
        root.group.epoch = epoch;
        let root = self.to_record();
        let welcome = Welcome { from, ticket: join.ticket, level: join.level, epoch, range: None, root };
        self.send(join.who, Message::Welcome(Box::new(welcome)), cx);
        self.give_up_place(join.who, cx);
    }

    /// A leaf took a place. Who left it by its own wish is told that it may go.
    fn place_taken(&mut self, for_: NodeId, join: &Join, cx: &mut Tcx<'_>) {
        let kept = self.children.as_ref().is_some_and(|k| k.group.get(for_).is_some())
            || self.root().is_some_and(|r| r.group.get(for_).is_some());
        if !kept {
            self.note_gone(for_, cx);
            if for_ != cx.me {
                cx.send(for_, Message::NotMine { into: Some(join.who) });
            }
            self.release(for_, cx);
        }
    }

    /// Looks at once at a group that has become too large, else soon.
    pub(super) fn look_at_size(&mut self, cx: &mut Tcx<'_>) {
        let rest = self.children.as_ref().map_or(cx.now, |k| k.rest);
        if self.child_count() > 2 * self.config.m() && rest <= cx.now {
            return self.balance(cx);
        }
        cx.set_timer_by(Timer::Balance, self.config.balance);
    }
}
