//! Beats: Chord's *stabilise* and *notify* in one message, and Zave's *rectify* where it arrives.

use super::member::{Phase, Pred, digest, is_in_order};
use super::message::{Around, Beat, Event, Message, Peer, Timer};
use super::{MemberId, Point, Rcx, Ring, fault};
use crate::ids::NodeId;
use std::time::Duration;

/// Beats in vain until a successor is given up.
const VAIN: u8 = 3;

impl Ring {
    /// Tells the successor that this member is there; and finds the predecessor dead if it was
    /// silent for too long.
    pub(super) fn beat(&mut self, id: MemberId, cx: &mut Rcx<'_>) {
        let Some(member) = self.members.get_mut(&id) else { return };
        match member.phase {
            Phase::Seeking { .. } => return,
            Phase::Leaving { .. } => return self.say_leave(id, cx),
            Phase::Asking | Phase::In => {}
        }
        let silence = self.config.silence;
        if member.pred.is_some_and(|pred| !pred.gone && cx.now.since(pred.heard) > silence) {
            self.lose_predecessor(id, cx);
        }
        let Some(member) = self.members.get_mut(&id) else { return };
        let Some(first) = member.succ.first().copied() else { return };
        if member.unanswered >= VAIN {
            return self.lose_successor(id, cx);
        }
        member.unanswered += 1;
        let to = MemberId { ring: id.ring, point: first.point };
        let beat = Beat { to, from: member.peer(), seen: member.seen };
        self.links.send(&first.contact, Message::Beat(Box::new(beat)), cx);
        member.beat_after(self.config.answer, cx);
    }

    /// Somebody takes this member for its successor.
    pub(super) fn beaten(&mut self, from: NodeId, beat: Beat, cx: &mut Rcx<'_>) {
        let (id, peer) = (beat.to, beat.from);
        if peer.id() != from {
            return fault(from, "speaks for another member", cx);
        }
        if !peer.fits(id.ring) || peer.point == id.point {
            return fault(from, "stands where it may not", cx);
        }
        let other = MemberId { ring: id.ring, point: peer.point };
        let place = self.members.get_mut(&id).filter(|m| matches!(m.phase, Phase::Asking | Phase::In));
        let Some(member) = place else {
            return cx.send(from, Message::Bye { to: other, from: id.point });
        };
        self.links.unbury(other);
        let old = member.pred;
        // To who has just begun anew, this may have been on its way to its former life.
        let stale = old.is_none() && !member.is_alone() && beat.seen != 0 && beat.seen != member.digest();
        let takes = !stale
            && old.is_none_or(|old| {
                old.gone || old.peer.point == peer.point || peer.point.is_between(old.peer.point, id.point)
            });
        if takes {
            member.pred = Some(Pred { peer, heard: cx.now, gone: false, left: false });
            if old.is_none_or(|old| old.peer != peer || old.gone) {
                self.touched = true;
            }
            if member.after != Some(peer.point) {
                // Nearer than the old one: a part of the range is its. Further off: the range of
                // who is gone is ours, and so are its records if it left them.
                let nearer = old.is_none_or(|old| peer.point.is_between(old.peer.point, id.point));
                let heir = old.filter(|old| old.left).map(|old| old.peer.contact);
                member.other = if nearer { Some(peer.contact) } else { heir };
                member.after = Some(peer.point);
            }
            if member.waits.is_some_and(|waits| waits.point == peer.point) {
                member.waits = None;
            }
        } else if !stale {
            member.waits = Some(peer);
        }
        let second = member.is_alone();
        if second {
            member.succ.push(peer);
            member.acked = Some(cx.now);
        }
        if takes && beat.seen == member.digest() {
            cx.send(from, Message::Same { to: other, from: id.point });
        } else {
            self.tell_around(id, &peer, cx);
        }
        // Who was the predecessor until now has a better successor.
        if let Some(old) = old.filter(|old| takes && !old.gone && old.peer.point != peer.point) {
            self.tell_around(id, &old.peer, cx);
        }
        if second {
            self.beat(id, cx);
        }
    }

    /// Tells a member what is around this one.
    pub(super) fn tell_around(&mut self, id: MemberId, to: &Peer, cx: &mut Rcx<'_>) {
        let Some(member) = self.members.get(&id) else { return };
        let around = Around {
            to: MemberId { ring: id.ring, point: to.point },
            from: id.point,
            before: member.before(),
            list: member.succ.clone(),
        };
        self.links.send(&to.contact, Message::Around(Box::new(around)), cx);
    }

    /// Something has changed around this member.
    pub(super) fn news(&mut self, id: MemberId, cx: &mut Rcx<'_>) {
        let Some(member) = self.members.get(&id).filter(|member| member.is_in()) else { return };
        if let Some(pred) = member.before() {
            self.tell_around(id, &pred, cx);
        }
    }

    /// Whether this is from the successor of a member that speaks with it.
    fn is_successor(&self, from: NodeId, id: MemberId, point: Point) -> bool {
        let member = self.members.get(&id).filter(|m| matches!(m.phase, Phase::Asking | Phase::In));
        let first = member.and_then(|member| member.succ.first());
        first.is_some_and(|first| first.point == point && first.id() == from)
    }

    pub(super) fn same(&mut self, from: NodeId, id: MemberId, point: Point, cx: &mut Rcx<'_>) {
        if self.is_successor(from, id, point) {
            self.acknowledged(id, cx);
        }
    }

    pub(super) fn around(&mut self, from: NodeId, around: Around, cx: &mut Rcx<'_>) {
        let (id, r, now) = (around.to, self.config.r(), cx.now);
        if !self.is_successor(from, id, around.from) {
            return;
        }
        let Around { before, list, .. } = around;
        let ring = id.ring;
        let it = MemberId { ring, point: around.from };
        let stands = |peer: Peer| peer.fits(ring) && peer.point != it.point;
        if !is_in_order(it, &list, r) || before.is_some_and(|before| !stands(before)) {
            fault(from, "sent a list of successors that is none", cx);
            return self.lose_successor(id, cx);
        }
        let links = &self.links;
        let gone = |peer: &Peer| links.is_gone(MemberId { ring, point: peer.point }, now);
        let Some(member) = self.members.get_mut(&id) else { return };
        let Some(first) = member.succ.first().copied() else { return };
        let me = member.peer();
        // Who was given up for its silence and is connected has perhaps just begun anew.
        let nearer = before.filter(|before| {
            before.point.is_between(id.point, first.point) && (!gone(before) || links.is_up(before.id()))
        });
        if member.phase == Phase::Asking
            && let Some(nearer) = nearer
        {
            // Somebody else got there first; how many more, its range tells.
            member.astray(now);
            self.touched = true;
            self.links.unbury(MemberId { ring, point: nearer.point });
            return self.seek_again(id, cx);
        }
        member.unanswered = 0;
        let all = member.follow(first, &list, r, gone);
        // Who was left out may live after all: the list is wanted again.
        member.seen = if all { digest(before.iter().chain(&list)).max(1) } else { 0 };
        self.touched = true;
        if before.is_some_and(|before| before.point == me.point && before.id() == me.id()) {
            return self.acknowledged(id, cx);
        }
        match nearer {
            Some(nearer) => {
                self.links.unbury(MemberId { ring, point: nearer.point });
                member.succ.insert(0, nearer);
                if member.succ.len() > r {
                    member.succ.truncate(r);
                    member.whole = false;
                }
                member.seen = 0;
                self.beat(id, cx);
            }
            None => member.beat_after(self.config.urgent, cx),
        }
    }

    /// The successor takes this member for its predecessor.
    fn acknowledged(&mut self, id: MemberId, cx: &mut Rcx<'_>) {
        let Some(member) = self.members.get_mut(&id) else { return };
        member.acked = Some(cx.now);
        member.shaken = false;
        member.unanswered = 0;
        if member.phase == Phase::Asking {
            member.phase = Phase::In;
            member.since = cx.now;
            self.touched = true;
            cx.emit(Event::Joined(id));
            let soon = cx.rng.below(250);
            cx.set_timer(Timer::Fix(id), Duration::from_millis(soon));
        }
        // Not all at once.
        let beat = self.config.beat;
        let early = cx.rng.below(beat.as_micros() as u64 / 5);
        member.beat_after(beat - Duration::from_micros(early), cx);
    }
}
