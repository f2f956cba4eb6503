//! New roots: a level more when the root group has more than 2k members, one less when a lone
//! root has fewer than 2k children (section 5.1), the first root of all, and the last of two.

use super::group::{Group, Member};
use super::message::{Join, Message, Record, RequestLeaf, Timer, Welcome};
use super::{Contact, Link, Range, Root, Tcx, Tree};
use crate::address::Key;
use crate::ids::NodeId;
use crate::time::Time;
use std::time::Duration;

/// Places that a new root remembers of before, to look for another root there.
const EARLIER_MAX: usize = 24;

impl Tree {
    /// Grows or shrinks the tree at the top, by the size of the root group; coordinator only.
    pub(super) fn balance_root(&mut self, cx: &mut Tcx<'_>) {
        let (k, count, level, now) = (self.config.k(), self.child_count(), self.level, cx.now);
        let (Some(root), Some(to)) = (self.root(), self.me) else { return };
        self.reach_peers(cx);
        if root.writer != cx.me {
            return;
        }
        if root.promoted.is_some() {
            return self.doubt_promotion(cx);
        }
        let members = root.group.members.len();
        if members > 2 * k {
            // A leaf becomes the root above; it comes and takes the place by itself.
            let request = RequestLeaf { level: level + 1, claim: Range::ALL, for_: cx.me, to };
            let leaf = if level == 0 {
                let others = root.group.members.iter().filter(|m| m.id() != cx.me && m.missing.is_none());
                others.map(|m| m.contact).nth(members / 2)
            } else {
                self.leaf_for(&Range::ALL, None)
            };
            if let Some(leaf) = leaf {
                self.send(leaf, Message::RequestLeaf(Box::new(request)), cx);
            }
            cx.set_timer_by(Timer::Balance, self.config.balance);
        } else if members == 1 && level > 0 && count < 2 * k && !self.leaving {
            let settle = self.config.settle;
            let Some(root) = self.root_mut() else { return };
            if root.stays == Time::ZERO {
                root.stays = now + settle;
            }
            if now >= root.stays {
                self.collapse(cx);
            }
            cx.set_timer_by(Timer::Balance, self.config.balance);
        } else if let Some(root) = self.root_mut() {
            root.stays = Time::ZERO;
        }
    }

    /// The promoted root may never have taken its place, or may have lost it. The members that are still here
    /// go on without it, and find it as another root if it is one.
    fn doubt_promotion(&mut self, cx: &mut Tcx<'_>) {
        let (now, patience) = (cx.now, self.config.promotion);
        let Some(root) = self.root_mut() else { return };
        if root.stays == Time::ZERO {
            root.stays = now + patience;
        }
        if now >= root.stays {
            root.stays = Time::ZERO;
            if let Some(promoted) = root.promoted.take() {
                root.earlier.insert(0, promoted);
                root.earlier.truncate(EARLIER_MAX);
            }
            self.asking = None;
            self.root_written(cx);
        }
        cx.set_timer_by(Timer::Balance, self.config.balance);
    }

    /// A leaf comes to be the root above this root group.
    pub(super) fn root_promoted(&mut self, join: Join, cx: &mut Tcx<'_>) {
        let (k, level) = (self.config.k(), self.level);
        let epoch = self.next_epoch(cx.now);
        let Some(root) = self.root_mut() else { return };
        let again = root.promoted.is_some_and(|c| c.id == join.who.id);
        if !again && (root.promoted.is_some() || root.group.members.len() <= 2 * k) {
            return;
        }
        let term = root.term + 1;
        if level == 0 {
            root.group.remove(join.who.id, &Range::ALL);
        }
        root.promoted = Some(join.who);
        root.stays = Time::ZERO;
        let record = Record {
            term,
            epoch,
            level: level + 1,
            writer: join.who.id,
            members: vec![(join.who, Key::FIRST)],
            promoted: None,
        };
        let Some(from) = self.me else { return };
        let welcome =
            Welcome { from, ticket: join.ticket, level: join.level, epoch, range: None, root: Some(record) };
        self.send(join.who, Message::Welcome(Box::new(welcome)), cx);
        self.root_written(cx);
    }

    /// Begins a tree, or goes on with what is left of one: this branch is the root.
    pub(super) fn promote_self(&mut self, cx: &mut Tcx<'_>) {
        let Some(me) = self.me else { return };
        let epoch = self.next_epoch(cx.now);
        let above = self.upper.parent_siblings.iter().chain(&self.near).chain(&self.upper.ancestors);
        let earlier: Vec<Contact> = above.take(EARLIER_MAX).copied().collect();
        let mut group = Group { epoch, leaves: self.level == 0, members: Vec::new() };
        group.members.push(Member::new(me, Key::FIRST, epoch, cx.now));
        self.asking = None;
        cx.cancel_timer(Timer::Join);
        self.link = Link::Root(Box::new(Root {
            term: 1,
            writer: me.id,
            promoted: None,
            group,
            nonce: 0,
            earlier,
            // Its siblings have to find it before it may take itself for too small.
            stays: cx.now + 2 * self.config.dissolve,
            claim: None,
            successor_root: None,
        }));
        self.near = Vec::new();
        self.upper = super::Upper { group: Range::ALL, ancestors: Vec::new(), parent_siblings: Vec::new() };
        self.changed = true;
        self.root_written(cx);
        self.arm_refresh(cx);
        cx.set_timer(Timer::Probe, self.config.probe / 4);
    }

    /// A lone root with too few children gives way to them and joins again as a leaf.
    fn collapse(&mut self, cx: &mut Tcx<'_>) {
        let epoch = self.next_epoch(cx.now);
        let (Some(root), Some(children)) = (self.root(), &self.children) else { return };
        let term = root.term + 1;
        let successors: Vec<&Member> =
            children.group.members.iter().filter(|m| m.missing.is_none()).collect();
        let Some(first) = successors.first() else {
            // No child is left: this node is the tree, a leaf.
            self.become_leaf(cx);
            return self.promote_self(cx);
        };
        let hint = first.contact;
        let mut members: Vec<(Contact, Key)> = successors.iter().map(|m| (m.contact, m.lo)).collect();
        if let Some((_, lo)) = members.first_mut() {
            *lo = Key::FIRST;
        }
        let record = Record { term, epoch, level: self.level - 1, writer: hint.id, members, promoted: None };
        for (member, _) in &record.members {
            self.send(*member, Message::Root(Box::new(record.clone())), cx);
        }
        // Children that are missing look for their places by themselves.
        self.children = None;
        self.link = Link::None;
        self.level = 0;
        self.range = None;
        self.freed = None;
        self.changed = true;
        self.lost = cx.now;
        self.near = record.members.iter().map(|(c, _)| *c).collect();
        self.seek(0, None, Some(hint), cx);
    }

    /// Looks for another root, by way of whoever may know one.
    pub(super) fn probe(&mut self, cx: &mut Tcx<'_>) {
        let (Some(me), level) = (self.me, self.level) else { return };
        let period = self.config.probe;
        let nonce = cx.rng.u64() | 1;
        let Some(root) = self.root_mut() else { return };
        if root.writer != cx.me {
            return;
        }
        root.nonce = nonce;
        let probe = Message::Probe { root: me, level, term: root.term, nonce };
        let count = root.earlier.len() as u64;
        let earlier = root.earlier.get(cx.rng.below(count) as usize).copied();
        let via = self.via.get(cx.rng.below(self.via.len() as u64) as usize).copied();
        if let Some(contact) = earlier.filter(|c| c.id != cx.me) {
            self.send(contact, probe.clone(), cx);
        }
        if let Some(id) = via.filter(|id| *id != cx.me) {
            cx.send(id, probe);
        }
        let jitter = cx.rng.below(period.as_micros() as u64 / 4 + 1);
        cx.set_timer(Timer::Probe, period + Duration::from_micros(jitter));
    }

    pub(super) fn probed(
        &mut self,
        from: NodeId,
        root: Contact,
        level: u8,
        term: u64,
        nonce: u64,
        cx: &mut Tcx<'_>,
    ) {
        if root.id == cx.me || self.parent().is_some_and(|f| f.id == from) {
            return;
        }
        let Some(writer) = self.writer() else { return };
        if writer.id != cx.me {
            return self.send(writer, Message::Probe { root, level, term, nonce }, cx);
        }
        let (Some(me), Some(mine)) = (self.me, self.root()) else { return };
        if mine.promoted.is_some() {
            return;
        }
        // The taller tree stays: it can take the branches of the other one in.
        let key = |c: Contact| std::cmp::Reverse(c.key());
        if (self.level, mine.term, key(me)) > (level, term, key(root)) {
            return self.send(root, Message::Found { root: me, nonce }, cx);
        }
        // The other one answers this itself, if it is a root still.
        let nonce = match mine.nonce {
            0 => cx.rng.u64() | 1,
            nonce => nonce,
        };
        let (level, term) = (self.level, mine.term);
        if let Some(mine) = self.root_mut() {
            mine.nonce = nonce;
        }
        self.send(root, Message::Probe { root: me, level, term, nonce }, cx);
    }

    /// There is another root, before which this one gives way: all members join there.
    pub(super) fn found(&mut self, from: NodeId, other: Contact, nonce: u64, cx: &mut Tcx<'_>) {
        let Some(root) = self.root_mut() else { return };
        let asked = root.nonce != 0 && root.nonce == nonce && root.writer == cx.me;
        if from != other.id || !asked || root.promoted.is_some() {
            return;
        }
        root.promoted = Some(other);
        root.stays = Time::ZERO;
        root.nonce = 0;
        self.root_written(cx);
    }
}
