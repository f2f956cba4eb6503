//! Deaths. A dial in vain is one. A connection that ends is none yet: if it was held it is dialled
//! again, so that a line that breaks gives nobody's place away; if not it may end for any reason.
//!
//! Only the ring's own dials count: anybody may name a false address of a member to another service.

use super::member::{Member, Phase};
use super::{Rcx, Ring};
use crate::circle::MemberId;
use crate::circle::Peer;
use crate::ids::NodeId;

impl Ring {
    pub(super) fn down(&mut self, peer: NodeId, cx: &mut Rcx<'_>) {
        let dialled = self.links.dialled.contains(&peer);
        self.links.dialled.retain(|id| *id != peer);
        if dialled {
            self.known.forget_node(peer);
        }
        let ids: Vec<MemberId> = self.members.keys().copied().collect();
        for id in ids {
            match dialled {
                true => self.died(id, peer, cx),
                false => self.cut_off(id, peer, cx),
            }
        }
        self.lost_by_lookups(peer, cx);
    }

    /// A connection has ended. Neighbours in the ring die together when a region does, so that
    /// those behind a successor are dialled in the same time.
    fn cut_off(&mut self, id: MemberId, node: NodeId, cx: &mut Rcx<'_>) {
        let Some(member) = self.members.get_mut(&id) else { return };
        if member.succ.first().is_some_and(|first| first.id() == node) {
            member.line_known.1 = 0;
            for peer in &member.succ {
                self.links.reach(&peer.contact, cx);
            }
        }
        if let Some(pred) = member.before().filter(|pred| pred.id() == node) {
            self.links.reach(&pred.contact, cx);
        }
        self.ask_again(id, node, cx);
    }

    /// A node is dead; what that means for a member.
    fn died(&mut self, id: MemberId, node: NodeId, cx: &mut Rcx<'_>) {
        let until = cx.now + self.config.gone;
        let Some(member) = self.members.get_mut(&id) else { return };
        let is_dead = |peer: &Peer| peer.id() == node;
        member.fingers.retain(|finger| !is_dead(&finger.peer));
        let behind = member.succ.iter().skip(1).filter(|peer| is_dead(peer));
        let points: Vec<_> = behind.map(|peer| peer.point).collect();
        if !points.is_empty() {
            for point in &points {
                self.links.bury(MemberId { ring: id.ring, point: *point }, node, until);
            }
            member.succ.retain(|peer| !points.contains(&peer.point));
            member.seen = 0;
            self.touched = true;
        }
        member.behind.retain(|peer| !is_dead(peer));
        let first = member.succ.first().is_some_and(is_dead);
        self.not_between(id, node, None, cx);
        let Some(member) = self.members.get(&id) else { return };
        if member.before().is_some_and(|pred| is_dead(&pred)) {
            self.lose_predecessor(id, cx);
        }
        if first {
            self.lose_successor(id, cx);
        }
    }

    /// The predecessor is dead. Its range is ours as soon as the one before it comes
    /// (*rectify* of paper `zave`); who has come already is told that it may.
    pub(super) fn lose_predecessor(&mut self, id: MemberId, cx: &mut Rcx<'_>) {
        let until = cx.now + self.config.gone;
        let Some(member) = self.members.get_mut(&id) else { return };
        let Some(pred) = &mut member.pred else { return };
        pred.gone = true;
        self.links.bury(MemberId { ring: id.ring, point: pred.peer.point }, pred.peer.id(), until);
        self.touched = true;
        let waits = member.waits.take();
        self.inherit(id, cx);
        if let Some(waits) = waits {
            self.tell_around(id, &waits, cx);
        }
    }

    /// The first successor is dead: the next one is.
    pub(super) fn lose_successor(&mut self, id: MemberId, cx: &mut Rcx<'_>) {
        let until = cx.now + self.config.gone;
        let Some(member) = self.members.get_mut(&id) else { return };
        if member.succ.is_empty() {
            return;
        }
        let dead = member.succ.remove(0);
        self.links.bury(MemberId { ring: id.ring, point: dead.point }, dead.id(), until);
        self.known.forget(id.ring, dead.point);
        member.fingers.retain(|finger| finger.peer.point != dead.point);
        member.seen = 0;
        member.shaken = true;
        member.unanswered = 0;
        self.touched = true;
        if member.succ.is_empty() || !member.is_in() {
            return self.exhausted(id, cx);
        }
        for peer in &member.succ {
            self.links.reach(&peer.contact, cx);
        }
        self.beat(id, cx);
    }

    /// No successor is left.
    pub(super) fn exhausted(&mut self, id: MemberId, cx: &mut Rcx<'_>) {
        let Some(member) = self.members.get_mut(&id) else { return };
        self.touched = true;
        if matches!(member.phase, Phase::Leaving { .. }) {
            // Nobody is left to be told.
            return self.gone(id, cx);
        }
        match member.before() {
            // They were all; once around is the predecessor.
            Some(pred) if member.is_in() && member.whole => {
                member.succ.push(pred);
                self.beat(id, cx);
            }
            None if member.is_in() && member.whole => Member::stand_alone(member),
            _ => self.lost(id, cx),
        }
    }
}
