//! Failures, and what was lost on the wire.
//!
//! Liveness is the connection's: a parent hears that a child is gone and the other way round. A
//! leaf is forgotten at once. The place of an inner node is kept a while: its orphans ask for it,
//! and a leaf of theirs gets it, so that its branch stays whole.

use super::group::Member;
use super::message::{Message, Timer};
use super::{Contact, Link, Tcx, Tree};
use crate::ids::NodeId;
use std::time::Duration;

impl Tree {
    pub(super) fn down(&mut self, peer: NodeId, cx: &mut Tcx<'_>) {
        if self.parent().is_some_and(|f| f.id == peer) {
            self.orphaned(cx);
        } else if self.asking.as_ref().is_some_and(|a| a.asked == Some(peer)) {
            // The next one, at once.
            let jitter = cx.rng.below(100);
            cx.set_timer(Timer::Join, Duration::from_millis(jitter));
        }
        if self.children.as_ref().is_some_and(|k| k.group.get(peer).is_some()) {
            self.child_down(peer, cx);
        }
        self.root_down(peer, cx);
        if let Some(root) = self.root_mut() {
            root.earlier.retain(|c| c.id != peer);
        }
    }

    /// Without a parent: the branch looks for another one by itself.
    pub(super) fn orphaned(&mut self, cx: &mut Tcx<'_>) {
        self.link = Link::None;
        self.lost = cx.now;
        self.changed = true;
        if self.freed.is_some() {
            return;
        }
        // One that is being asked already goes on.
        if self.asking.as_ref().is_some_and(|a| a.for_.is_none() && a.level == self.level) {
            return;
        }
        let jitter = cx.rng.below(300);
        self.seek_after(Duration::from_millis(jitter), cx);
    }

    fn seek_after(&mut self, wait: Duration, cx: &mut Tcx<'_>) {
        let ticket = cx.rng.u64() as u32;
        let claim = self.range.filter(|_| self.level > 0);
        self.asking = Some(Box::new(super::Asking {
            ticket,
            level: self.level,
            claim,
            for_: None,
            hint: None,
            tries: 0,
            asked: None,
            too_tall: 0,
        }));
        cx.set_timer(Timer::Join, wait);
    }

    fn child_down(&mut self, peer: NodeId, cx: &mut Tcx<'_>) {
        let Some(children) = &mut self.children else { return };
        if children.group.leaves || self.freed.is_some() {
            return self.drop_child(peer, cx);
        }
        if let Some(child) = children.group.get_mut(peer)
            && child.missing.is_none()
        {
            child.missing = Some(cx.now);
            child.asked = crate::time::Time::ZERO;
        }
        cx.set_timer_by(Timer::Vacancy, self.config.vacancy);
    }

    /// A child is not one any more.
    pub(super) fn drop_child(&mut self, peer: NodeId, cx: &mut Tcx<'_>) {
        let Some(range) = self.range.or_else(|| self.freed.map(|_| self.no_range())) else { return };
        let Some(children) = &mut self.children else { return };
        if children.group.remove(peer, &range).is_some() {
            self.note_gone(peer, cx);
            self.release(peer, cx);
            if self.freed.is_some() {
                self.balance(cx);
            }
            cx.set_timer_by(Timer::Balance, self.config.balance);
        }
    }

    /// The empty range of who gave up its place.
    pub(super) fn no_range(&self) -> super::Range {
        super::Range { lo: self.key(), hi: Some(self.key()) }
    }

    /// Places that nobody asked for: whole branches died. Their neighbours take the ranges.
    pub(super) fn vacancies(&mut self, cx: &mut Tcx<'_>) {
        let (now, wait) = (cx.now, self.config.vacancy);
        let children = self.children.iter().flat_map(|k| &k.group.members);
        let (gone, kept): (Vec<&Member>, Vec<&Member>) =
            children.filter(|m| m.missing.is_some()).partition(|m| m.given_up(now, wait));
        let kept = !kept.is_empty();
        let gone: Vec<NodeId> = gone.into_iter().map(|m| m.id()).collect();
        for id in gone {
            self.drop_child(id, cx);
        }
        if self.root_vacancies(cx) || kept {
            cx.set_timer(Timer::Vacancy, wait / 4);
        }
    }

    /// The slow refresh: with jitter, so that a swarm that started together does not beat
    /// together.
    pub(super) fn arm_refresh(&mut self, cx: &mut Tcx<'_>) {
        let period = self.config.refresh.as_micros() as u64;
        let wait = period * 3 / 4 + cx.rng.below(period / 2 + 1);
        cx.set_timer(Timer::Refresh, Duration::from_micros(wait));
    }

    pub(super) fn refresh(&mut self, cx: &mut Tcx<'_>) {
        let epoch = match &self.link {
            Link::Child { epoch, .. } => *epoch,
            Link::Root(root) => root.group.epoch,
            Link::None => 0,
        };
        self.refresh_now(epoch, cx);
        let wait = self.config.refresh * 5 / 2;
        let now = cx.now;
        let mut silent = Vec::new();
        if let Some(children) = &mut self.children {
            for side in children.left.iter_mut().chain(&mut children.right) {
                side.sent = 0;
            }
            for child in children.group.members.iter_mut().filter(|m| m.missing.is_none()) {
                if now.since(child.heard) > wait {
                    // Perhaps it left and the message was lost: then it says so again.
                    child.heard = now;
                    silent.push(child.id());
                }
            }
            cx.set_timer_by(Timer::Updates, self.config.updates);
            cx.set_timer_by(Timer::Balance, self.config.balance);
        }
        for id in silent {
            if let Some(child) = self.children.as_mut().and_then(|k| k.group.get_mut(id)) {
                child.told = 0;
            }
            cx.set_timer_by(Timer::Tell, self.config.tell);
        }
        self.root_refresh(wait, cx);
        self.arm_refresh(cx);
    }

    /// Tells the writer of this node's group what it knows; an epoch of 0 asks for everything.
    pub(super) fn refresh_now(&mut self, epoch: u64, cx: &mut Tcx<'_>) {
        let count = u16::try_from(self.child_count()).unwrap_or(u16::MAX);
        if let Some(writer) = self.writer().filter(|w| w.id != cx.me) {
            self.send(writer, Message::Refresh { epoch, level: self.level, count }, cx);
        }
    }

    pub(super) fn refreshed(&mut self, from: NodeId, epoch: u64, level: u8, _count: u16, cx: &mut Tcx<'_>) {
        let now = cx.now;
        if self.level.checked_sub(1) == Some(level)
            && let Some(children) = &mut self.children
            && let Some(child) = children.group.get_mut(from)
        {
            child.heard = now;
            child.missing = None;
            if epoch < child.told {
                child.told = epoch;
                child.range_told = false;
                child.upper_told = false;
                cx.set_timer_by(Timer::Tell, self.config.tell / 4);
            }
            if let Some(into) = self.freed {
                cx.send(from, Message::Move { via: Some(into), epoch: children.group.epoch });
            }
            return;
        }
        if self.level == level && self.root_refreshed(from, epoch, cx) {
            return;
        }
        cx.send(from, Message::NotMine { into: None });
    }

    /// The writer of this node's group does not have it in there.
    pub(super) fn not_mine(&mut self, from: NodeId, into: Option<Contact>, cx: &mut Tcx<'_>) {
        let Some(writer) = self.writer() else { return self.answers(from, false, cx) };
        if writer.id != from || from == cx.me {
            return;
        }
        if let Some(claim) = self.root_mut().and_then(|r| r.claim.take()) {
            return self.take_record(claim.record, cx);
        }
        match into {
            Some(into) if self.level > 0 && into.id != cx.me => self.give_up_place(into, cx),
            _ => {
                self.asking = None;
                self.orphaned(cx);
            }
        }
    }

    /// A child says that this node is not its parent.
    pub(super) fn left_by(&mut self, from: NodeId, epoch: u64, root: bool, cx: &mut Tcx<'_>) {
        if root {
            return self.root_left_by(from, epoch, cx);
        }
        let known = self.children.as_ref().and_then(|k| k.group.get(from)).map(|m| m.since);
        if known.is_some_and(|since| epoch >= since) {
            self.drop_child(from, cx);
        }
    }

    /// Children outside of the range look for another parent.
    pub(super) fn move_strangers(&mut self, cx: &mut Tcx<'_>) {
        let range = match (self.freed, self.range) {
            (Some(_), _) => self.no_range(),
            (None, Some(range)) => range,
            (None, None) => return,
        };
        let Some(children) = &self.children else { return };
        let strangers: Vec<Contact> =
            children.group.members.iter().filter(|m| !range.contains(m.key())).map(|m| m.contact).collect();
        let now = children.group.epoch;
        for child in strangers {
            let via = self.freed.or_else(|| self.toward(child)).or_else(|| self.writer());
            self.send(child, Message::Move { via, epoch: now }, cx);
        }
    }

    /// The node at this level that most likely has the key of a child that has to go.
    fn toward(&self, child: Contact) -> Option<Contact> {
        let (left, right) = self.beside();
        if child.key() < self.key() {
            let below = self.near.iter().rev().find(|c| c.key() <= child.key());
            return if self.root().is_some() { left } else { below.copied().or(left) };
        }
        let below = self.near.iter().rev().find(|c| c.key() <= child.key() && c.key() > self.key());
        if self.root().is_some() { right } else { below.copied().or(right) }
    }

    pub(super) fn moved(&mut self, from: NodeId, via: Option<Contact>, epoch: u64, cx: &mut Tcx<'_>) {
        match &self.link {
            Link::Child { parent, .. } if parent.id == from => match via {
                None => {
                    self.asking = None;
                    self.orphaned(cx);
                }
                Some(via) => {
                    let busy = self.asking.as_ref().is_some_and(|a| a.for_.is_some() || a.hint == Some(via));
                    if !busy && via.id != cx.me {
                        self.seek(self.level, None, Some(via), cx);
                    }
                }
            },
            // It has gone already; what said so was lost.
            Link::Child { .. } | Link::Root(_) => cx.send(from, Message::Leave { epoch, root: false }),
            Link::None => {}
        }
    }
}
