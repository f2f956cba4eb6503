//! Members that may have a lease from a predecessor that is gone (our addition).
//!
//! Each member tells its successor who is before it (its *line*, with its beats, when it changes),
//! so that a taker knows for whom a dead predecessor may have answered. It takes over what lies
//! behind them only when each of them has come, is dead too, says that it is no member, or has had
//! time enough for its lease to end.

use super::member::{Between, Member, Phase};
use super::message::{Come, Message};
use super::{Rcx, Ring, fault};
use crate::circle::Peer;
use crate::circle::{MemberId, Point};
use crate::ids::NodeId;
use crate::time::Time;

impl Member {
    /// Members that may own keys behind this member's range, the nearest first.
    pub(super) fn line(&self, r: usize) -> Vec<Peer> {
        let me = self.point();
        let between = self.between.iter().map(|between| between.peer);
        let mut line: Vec<Peer> = Vec::with_capacity(r);
        let mut last = me;
        for peer in between.chain(self.before()).chain(self.behind.iter().copied()) {
            if line.len() < r && peer.point.is_between(me, last) {
                last = peer.point;
                line.push(peer);
            }
        }
        line
    }

    /// A peer has become its predecessor, in place of `old`: who stands between them is still
    /// waited for. `line` was this member's own, and says more than a newcomer can.
    pub(super) fn follows(
        &mut self,
        peer: &Peer,
        old: Option<Peer>,
        behind: Option<Vec<Peer>>,
        line: Vec<Peer>,
    ) {
        let me = self.point();
        match behind.filter(|behind| !behind.is_empty()) {
            Some(behind) => self.behind = behind,
            None if old.is_none_or(|old| old.point != peer.point) => {
                self.behind = line;
                self.behind.retain(|other| other.point.is_between(me, peer.point));
            }
            None => {}
        }
        self.between.retain(|between| between.peer.point.is_between(peer.point, me));
        // The remaining entries are kept for long.
        self.between.shrink_to_fit();
        self.behind.shrink_to_fit();
    }

    /// Start of the member's range now that a predecessor has come. The range leaves out every part that
    /// others may own, and all that lies behind them, since they may know members that this one does not.
    pub(super) fn begins(&self) -> Option<Point> {
        let pred = self.before()?;
        match self.between.is_empty() {
            true => Some(pred.point),
            false => self.after.filter(|after| after.is_between(pred.point, self.point())),
        }
    }

    /// Its successor says who is before it. Only who knows nobody needs to be told.
    pub(super) fn learns(&mut self, line: Vec<Peer>) {
        let Some(first) = line.first() else { return };
        let (me, pred) = (self.point(), self.before());
        let (mut next, end) = (me, pred.map_or(me, |pred| pred.point));
        if self.between.is_empty() && first.point.is_between(end, me) {
            for peer in line.iter().filter(|peer| peer.point.is_between(end, me)) {
                self.between.push(Between { peer: *peer, next, until: None });
                next = peer.point;
            }
        }
        if pred.is_some() {
            if self.behind.is_empty() {
                self.behind = line;
                self.behind.retain(|peer| peer.point.is_between(me, end));
            }
            self.after = self.begins();
        }
    }

    /// Forgets those whose leases are over. Whether there were any.
    pub(super) fn forget_between(&mut self, now: Time) -> bool {
        let count = self.between.len();
        self.between.retain(|between| between.until.is_none_or(|until| now <= until));
        if self.between.len() < count && self.before().is_some() {
            self.after = self.begins();
        }
        self.between.len() < count
    }
}

impl Ring {
    /// The predecessor is gone: who was before it is asked to come.
    pub(super) fn inherit(&mut self, id: MemberId, cx: &mut Rcx<'_>) {
        let r = self.config.r();
        let Some(member) = self.members.get_mut(&id) else { return };
        let mut next = member.pred.map_or(id.point, |pred| pred.peer.point);
        for peer in std::mem::take(&mut member.behind) {
            if member.between.len() < r && peer.point.is_between(id.point, next) {
                member.between.push(Between { peer, next, until: None });
                next = peer.point;
            }
        }
        self.ask(id, 1, cx);
    }

    /// Those who are further on than who has come are asked, all of them.
    pub(super) fn ask_between(&mut self, id: MemberId, cx: &mut Rcx<'_>) {
        if self.members.get(&id).is_some_and(|member| member.before().is_some()) {
            self.ask(id, usize::MAX, cx);
        }
    }

    /// Asks the first so many, if they were not yet.
    fn ask(&mut self, id: MemberId, most: usize, cx: &mut Rcx<'_>) {
        let until = cx.now + self.config.lease;
        let Some(member) = self.members.get_mut(&id) else { return };
        let from = member.peer();
        for between in member.between.iter_mut().take(most) {
            if between.until.is_none() {
                between.until = Some(until);
                let to = MemberId { ring: id.ring, point: between.peer.point };
                let come = Come { to, from, next: between.next, passed: false };
                self.links.send(&between.peer.contact, Message::Come(Box::new(come)), cx);
            }
        }
    }

    /// Somebody may have lost who was between it and this member.
    pub(super) fn come(&mut self, from: NodeId, come: Come, cx: &mut Rcx<'_>) {
        let (id, taker) = (come.to, come.from);
        if !come.passed && taker.id() != from {
            return fault(from, "speaks for another member", cx);
        }
        if !taker.fits(id.ring) || taker.point == id.point {
            return fault(from, "stands where it may not", cx);
        }
        let it = MemberId { ring: id.ring, point: taker.point };
        let Some(member) = self.members.get(&id) else {
            return self.links.send(&taker.contact, Message::Bye { to: it, from: id.point }, cx);
        };
        match member.phase {
            Phase::In => {
                let first = member.succ.first().copied();
                let nearer = first.filter(|first| first.point.is_between(id.point, taker.point));
                match nearer.filter(|first| first.point != come.next) {
                    Some(first) => {
                        let to = MemberId { ring: id.ring, point: first.point };
                        let come = Message::Come(Box::new(Come { to, passed: true, ..come }));
                        self.links.send(&first.contact, come, cx);
                    }
                    // It comes when it has found its successor dead, too: one's word is not enough.
                    None if member.unanswered == 0 => self.beat(id, cx),
                    None => {}
                }
            }
            // It has no lease, but may get one from the dead.
            Phase::Asking if !member.succ.contains(&taker) => {}
            Phase::Asking => {
                self.links.send(&taker.contact, Message::Bye { to: it, from: id.point }, cx);
                self.lost(id, cx);
            }
            Phase::Seeking { .. } | Phase::Leaving { .. } => {
                self.links.send(&taker.contact, Message::Bye { to: it, from: id.point }, cx);
            }
        }
    }

    /// A node, or its member at this point, has no lease.
    pub(super) fn not_between(&mut self, id: MemberId, node: NodeId, point: Option<Point>, cx: &mut Rcx<'_>) {
        let Some(member) = self.members.get_mut(&id) else { return };
        let count = member.between.len();
        member.between.retain(|between| {
            between.peer.id() != node || point.is_some_and(|point| between.peer.point != point)
        });
        if member.between.len() == count {
            return;
        }
        if member.before().is_some() {
            member.after = member.begins();
        }
        self.touched = true;
        // A whole row may have died.
        self.ask(id, usize::MAX, cx);
    }

    /// The connection to somebody who was asked has ended.
    pub(super) fn ask_again(&mut self, id: MemberId, node: NodeId, cx: &mut Rcx<'_>) {
        let Some(member) = self.members.get_mut(&id) else { return };
        let mut any = false;
        for between in member.between.iter_mut().filter(|between| between.peer.id() == node) {
            any |= between.until.take().is_some();
        }
        if any {
            self.ask(id, usize::MAX, cx);
        }
    }
}
