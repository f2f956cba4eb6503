//! Looking for a place, and taking it.

use super::group::Group;
use super::message::{Join, Message, RequestLeaf, Welcome};
use super::{Asking, Children, Contact, Link, Range, Tcx, Timer, Tree};
use crate::ids::NodeId;
use crate::time::Time;
use std::time::Duration;

/// Node to ask: by address, or over a standing connection.
enum Way {
    To(Contact),
    Via(NodeId),
}

impl Tree {
    pub(super) fn begin(&mut self, me: Contact, via: Vec<NodeId>, cx: &mut Tcx<'_>) {
        if me.id != cx.me {
            return;
        }
        self.via = via;
        self.leaving = false;
        let moved = self.me.is_some_and(|old| old.key() != me.key());
        self.me = Some(me);
        if moved && self.placed() {
            // Another address is another place.
            self.let_go(cx);
        }
        if self.placed() || self.asking.is_some() {
            return;
        }
        self.lost = cx.now;
        if self.via.is_empty() && self.near.is_empty() {
            return self.promote_self(cx);
        }
        self.seek(self.level, None, None, cx);
    }

    /// Asks for a place at `level`, with this branch.
    pub(super) fn seek(&mut self, level: u8, for_: Option<NodeId>, hint: Option<Contact>, cx: &mut Tcx<'_>) {
        let claim = self.range.filter(|_| level > 0);
        self.ask(level, claim, for_, hint, cx);
    }

    fn ask(
        &mut self,
        level: u8,
        claim: Option<Range>,
        for_: Option<NodeId>,
        hint: Option<Contact>,
        cx: &mut Tcx<'_>,
    ) {
        // Random, so that nobody can answer who was not asked.
        let ticket = cx.rng.u64() as u32;
        let asking = Asking { ticket, level, claim, for_, hint, tries: 0, asked: None, too_tall: 0 };
        self.asking = Some(Box::new(asking));
        self.ask_now(cx);
    }

    /// Asks the next of those who may know.
    pub(super) fn ask_now(&mut self, cx: &mut Tcx<'_>) {
        let Some(me) = self.me else { return };
        let Some(asking) = &self.asking else { return };
        let tries = asking.tries;
        let join = Join {
            who: me,
            level: asking.level,
            claim: asking.claim,
            for_: asking.for_,
            ticket: asking.ticket,
            hops: 0,
        };
        let way = match asking.hint {
            Some(hint) if tries < 2 => Some(Way::To(hint)),
            _ => self.way(tries, cx),
        };
        let asked = match way {
            Some(Way::To(contact)) => {
                self.send(contact, Message::Join(Box::new(join)), cx);
                Some(contact.id)
            }
            Some(Way::Via(id)) => {
                cx.send(id, Message::Join(Box::new(join)));
                Some(id)
            }
            None => None,
        };
        if let Some(asking) = &mut self.asking {
            asking.asked = asked;
            asking.tries = tries + 1;
        }
        let hope = asked.is_some_and(|id| self.is_up(id));
        self.wait_for_answer(hope, cx);
    }

    /// Until the next one is asked: sooner if no answer is to be hoped for from this one.
    fn wait_for_answer(&self, hope: bool, cx: &mut Tcx<'_>) {
        let Some(asking) = &self.asking else { return };
        // Slower with every round, and never in step with others in the same trouble.
        let factor = match asking.tries {
            0..=8 => 2,
            9..=16 => 4,
            _ => 8,
        };
        let retry = self.config.retry.as_micros() as u64;
        let mut wait = retry * factor / 2;
        // An orphan is let in by any of those that it has asked, however late. Who is to take a
        // certain place, or has one, gives up after a few tries, and must not be rash.
        if !hope && !self.placed() && asking.for_.is_none() {
            wait /= 4;
        }
        let jitter = cx.rng.below(wait / 4 + 1);
        cx.set_timer(Timer::Join, Duration::from_micros(wait + jitter));
    }

    /// The peer that was asked has connected and may answer; without `hope` it has said that it is outside,
    /// too.
    pub(super) fn answers(&self, peer: NodeId, hope: bool, cx: &mut Tcx<'_>) {
        if self.asking.as_ref().is_some_and(|a| a.asked == Some(peer)) {
            self.wait_for_answer(hope, cx);
        }
    }

    /// Those who may know a place, in turn: the parent while there is one, those above, those
    /// beside, and whoever is connected.
    fn way(&self, tries: u32, cx: &mut Tcx<'_>) -> Option<Way> {
        let me = cx.me;
        let mut ways: Vec<Way> = Vec::new();
        if let Some(writer) = self.writer() {
            ways.push(Way::To(writer));
        }
        let above = &self.upper;
        ways.extend(above.ancestors.first().map(|c| Way::To(*c)));
        ways.extend(above.parent_siblings.iter().map(|c| Way::To(*c)));
        ways.extend(above.ancestors.iter().skip(1).map(|c| Way::To(*c)));
        // Members beside this node are tried one at a time, so that the others have their turn.
        if !self.near.is_empty() {
            let at = match self.is_heir() {
                // Heirs ask the first of them, who will be the root.
                true => u64::from(tries) / 2 % (self.near.len() as u64),
                false => cx.rng.below(self.near.len() as u64),
            };
            ways.extend(self.near.get(at as usize).map(|c| Way::To(*c)));
        }
        if !self.via.is_empty() {
            let at = cx.rng.below(self.via.len() as u64) as usize;
            ways.extend(self.via.get(at).map(|id| Way::Via(*id)));
        }
        ways.retain(|way| match way {
            Way::To(contact) => contact.id != me,
            Way::Via(id) => *id != me,
        });
        let count = ways.len().max(1);
        ways.into_iter().nth(tries as usize % count)
    }

    /// An orphan of the root: nobody above is left who could take it in.
    pub(super) fn is_heir(&self) -> bool {
        !self.placed() && self.upper.ancestors.is_empty() && !self.near.is_empty()
    }

    /// The timer of a place that was asked for.
    pub(super) fn ask_again(&mut self, cx: &mut Tcx<'_>) {
        let Some(asking) = &self.asking else { return };
        let tries = asking.tries;
        if self.placed() {
            // It has a place. Who wanted it elsewhere will say so again.
            let promoted = self.root().is_some_and(|r| r.promoted.is_some());
            let enough = if asking.for_.is_some() { 2 } else { 3 };
            if tries >= enough && !promoted {
                self.asking = None;
                return;
            }
            return self.ask_now(cx);
        }
        if asking.for_.is_some() && tries >= 2 {
            // The place went to another.
            return self.seek(self.level, None, None, cx);
        }
        if !self.give_up_looking(cx) {
            self.ask_now(cx);
        }
    }

    /// Ends a long search without a parent, by becoming a root or by giving up the branch; `true` if it did
    /// either.
    fn give_up_looking(&mut self, cx: &mut Tcx<'_>) -> bool {
        let looked = cx.now.since(self.lost);
        let config = &self.config;
        if self.is_heir() {
            // The lowest of them becomes the root, the next one if that is dead too. A lone root
            // leaves successor roots at once; one of several may still be replaced by its peers.
            let siblings = self.near.iter().filter(|c| self.upper.group.contains(c.key()));
            let rank = siblings.filter(|c| c.key() < self.key()).count() as u32;
            let first = if self.upper.parent_siblings.is_empty() {
                config.successor_root
            } else {
                2 * config.successor_root
            };
            if looked >= first + rank * config.successor_root / 2 && self.freed.is_none() {
                self.promote_self(cx);
                return true;
            }
            return false;
        }
        if self.level > 0 {
            if looked >= config.dissolve {
                self.fall_apart(cx);
                return true;
            }
            return false;
        }
        // Without anybody to ask this node is the tree; with somebody it takes longer, and not
        // all of them at once.
        let alone = if self.via.is_empty() { config.dissolve } else { config.alone };
        let spread = self.key().id.0[0];
        if looked >= alone + alone * u32::from(spread) / 256 {
            self.promote_self(cx);
            return true;
        }
        false
    }

    /// Gives up the place and the branch: the children look for themselves, this node joins
    /// again as a leaf.
    pub(super) fn fall_apart(&mut self, cx: &mut Tcx<'_>) {
        self.let_go(cx);
        self.lost = cx.now;
        self.seek(0, None, None, cx);
    }

    /// Leaves everything that it stands in.
    pub(super) fn let_go(&mut self, cx: &mut Tcx<'_>) {
        if let Link::Child { parent, since, epoch } = self.link {
            cx.send(parent.id, Message::Leave { epoch: epoch.max(since), root: false });
            cx.release(parent.id);
        }
        self.link = Link::None;
        self.become_leaf(cx);
        self.asking = None;
        self.changed = true;
    }

    pub(super) fn become_leaf(&mut self, cx: &mut Tcx<'_>) {
        if let Some(children) = self.children.take() {
            for member in &children.group.members {
                cx.send(member.id(), Message::Move { via: None, epoch: children.group.epoch });
                cx.release(member.id());
            }
        }
        self.level = 0;
        self.range = None;
        self.freed = None;
        self.changed = true;
    }

    pub(super) fn welcome(&mut self, from: NodeId, welcome: Welcome, cx: &mut Tcx<'_>) {
        let Welcome { from: parent, ticket, level, epoch, range, root } = welcome;
        if parent.id != from {
            return self.fault(from, "welcomed as another node", cx);
        }
        let wanted = self.asking.as_ref().is_some_and(|a| a.ticket == ticket && a.level == level);
        if !wanted {
            match &mut self.link {
                Link::Child { parent, since, .. } if parent.id == from => *since = epoch.max(*since),
                _ if root.is_some() => {}
                _ => cx.send(from, Message::Leave { epoch, root: false }),
            }
            return;
        }
        let key = self.key();
        if root.is_none() && level > 0 && !range.is_some_and(|r| r.contains(key)) {
            return self.fault(from, "gave a range that does not have this node's key", cx);
        }
        if let Some(record) = &root
            && !self.acceptable(record)
        {
            return self.fault(from, "gave a place in a root group that has none", cx);
        }
        if level < self.level {
            return;
        }
        self.leave_behind(from, level, cx);
        self.asking = None;
        self.freed = None;
        if level > self.level || (level > 0 && self.children.is_none()) {
            self.level = level;
            let mut group = Group { leaves: level == 1, ..Group::default() };
            group.epoch = self.next_epoch(cx.now);
            let floor = group.epoch;
            self.children = Some(Box::new(Children {
                group,
                log: Vec::new(),
                floor,
                left: None,
                right: None,
                rest: Time::ZERO,
                underflow: None,
                underflows: 0,
                told: Time::ZERO,
                updated: Time::ZERO,
                split: Time::ZERO,
                asked: false,
            }));
            self.near.clear();
        }
        self.changed = true;
        match root {
            Some(record) => {
                let writes = record.writer == cx.me;
                self.enter_root(record, cx);
                if writes {
                    self.root_written(cx);
                }
            }
            None => {
                self.link = Link::Child { parent, since: epoch, epoch: 0 };
                self.reach(parent, cx);
                self.set_range(range, cx);
                self.upper_changed(cx);
            }
        }
        self.arm_refresh(cx);
        cx.set_timer_by(Timer::Balance, self.config.balance);
        if self.leaving {
            self.leave(cx);
        }
    }

    /// Tells those of the old place that this node has another now.
    fn leave_behind(&mut self, new: NodeId, level: u8, cx: &mut Tcx<'_>) {
        match std::mem::replace(&mut self.link, Link::None) {
            Link::Child { parent, since, epoch } if parent.id != new || level != self.level => {
                cx.send(parent.id, Message::Leave { epoch: epoch.max(since), root: false });
                self.release(parent.id, cx);
            }
            Link::Root(root) => {
                // The others, who are its siblings now or soon, are whom it can ask meanwhile.
                self.near = root.group.members.iter().map(|m| m.contact).filter(|c| c.id != cx.me).collect();
                for member in &root.group.members {
                    if member.id() != new {
                        self.release(member.id(), cx);
                    }
                }
                if root.promoted.is_none() && root.writer != cx.me && root.writer != new {
                    cx.send(root.writer, Message::Leave { epoch: root.group.epoch, root: true });
                }
                self.upper =
                    super::Upper { group: Range::ALL, ancestors: Vec::new(), parent_siblings: Vec::new() };
            }
            Link::Child { .. } | Link::None => {}
        }
    }

    /// A leaf of this branch is wanted for a place above.
    pub(super) fn on_request_leaf(&mut self, from: NodeId, request: RequestLeaf, cx: &mut Tcx<'_>) {
        let written = match self.writer() {
            Some(writer) => writer.id == from,
            None => request.to.id == from,
        };
        let passed_on = !written && self.level == 1 && self.sibling(from).is_some();
        if !(written || passed_on) || self.leaving || request.level <= self.level {
            return;
        }
        if self.level == 0 {
            let fits = request.claim.contains(self.key()) && request.for_ != cx.me;
            let busy = self.asking.as_ref().is_some_and(|a| a.for_.is_some());
            if fits && !busy && self.placed() | self.asking.is_some() {
                self.ask(request.level, Some(request.claim), Some(request.for_), Some(request.to), cx);
            }
            return;
        }
        if self.level == 1 && self.placed() && !passed_on && self.child_count() <= self.config.m() {
            // It cannot spare one, or it would be merged next and the place above not be needed.
            let spares = |b: &super::balance::Sibling| b.count > self.config.m();
            let rich = self
                .siblings()
                .into_iter()
                .filter(spares)
                .filter(|b| request.claim.contains(b.contact.key()));
            if let Some(rich) = rich.max_by_key(|b| b.count) {
                return self.send(rich.contact, Message::RequestLeaf(Box::new(request)), cx);
            }
        }
        let Some(child) = self.leaf_for(&request.claim, None) else { return };
        self.send(child, Message::RequestLeaf(Box::new(request)), cx);
    }

    /// The child whose branch gives a leaf with a key in the range: the one furthest from this
    /// node, so that much of the range stays on one side of it and bounds can be moved there; or
    /// one by the lot `any`.
    pub(super) fn leaf_for(&self, claim: &Range, any: Option<u64>) -> Option<Contact> {
        let children = self.children.as_ref()?;
        let fit = children.group.members.iter().filter(|m| m.missing.is_none() && claim.contains(m.key()));
        let key = self.key();
        let fit: Vec<Contact> = fit.map(|m| m.contact).collect();
        if let Some(any) = any {
            return fit.get((any % fit.len().max(1) as u64) as usize).copied();
        }
        match (fit.first(), fit.last()) {
            (Some(first), Some(last)) => Some(if first.key() > key { *last } else { *first }),
            _ => None,
        }
    }

    pub(super) fn too_tall(&mut self, _from: NodeId, ticket: u32, cx: &mut Tcx<'_>) {
        let Some(asking) = &mut self.asking else { return };
        if asking.ticket != ticket || self.level == 0 {
            return;
        }
        // A root may be about to grow; a lower one that stays cannot hold this branch.
        asking.too_tall += 1;
        if asking.too_tall >= 3 {
            self.fall_apart(cx);
        }
    }
}
