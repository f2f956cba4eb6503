//! Beats: *stabilize* and *notify* of paper `chord` in one message, and *rectify* of paper `zave` where it
//! arrives.

use super::member::{Phase, Pred, digest, is_in_line, is_in_order};
use super::message::{Around, Beat, Event, Message, Timer};
use super::{Rcx, Ring, fault};
use crate::circle::Peer;
use crate::circle::{MemberId, Point};
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
        let (silence, late) = (self.config.silence, self.config.late);
        let stood_still = cx.now.since(member.due) > late;
        if let Some(pred) = member.pred.as_mut().filter(|_| stood_still) {
            // It could not be heard.
            pred.heard = cx.now;
        }
        if member.pred.is_some_and(|pred| !pred.gone && cx.now.since(pred.heard) > silence) {
            self.lose_predecessor(id, cx);
        }
        let Some(member) = self.members.get_mut(&id) else { return };
        if member.forget_between(cx.now) {
            self.touched = true;
        }
        if member.succ.is_empty() {
            return;
        }
        if member.unanswered >= VAIN {
            return self.lose_successor(id, cx);
        }
        if member.unanswered == 0 {
            member.asked = cx.now;
        }
        member.unanswered += 1;
        member.beat_after(self.config.answer, cx);
        self.say_beat(id, cx);
    }

    fn say_beat(&mut self, id: MemberId, cx: &mut Rcx<'_>) {
        let Some(member) = self.members.get_mut(&id) else { return };
        let Some(first) = member.succ.first() else { return };
        let line = member.line(self.config.r());
        member.line_sent = (first.point, digest(line.iter()).max(1));
        let line = (member.line_sent != member.line_known).then_some(line);
        let to = MemberId { ring: id.ring, point: first.point };
        let beat = Beat { to, from: member.peer(), seen: member.seen, line };
        self.links.send(&first.contact, Message::Beat(Box::new(beat)), cx);
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
        if beat.line.as_ref().is_some_and(|line| !is_in_line(other, line, self.config.r())) {
            return fault(from, "says that members are before it that cannot be", cx);
        }
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
        let changes = takes && old.is_none_or(|old| old.peer != peer || old.gone);
        // A predecessor with an empty predecessor list gets this member's list.
        let knows_nobody = takes && beat.line.as_ref().is_some_and(Vec::is_empty);
        if takes {
            let line = member.line(self.config.r());
            member.pred = Some(Pred { peer, heard: cx.now, gone: false, left: false });
            self.touched |= changes;
            member.follows(&peer, old.map(|old| old.peer), beat.line, line);
            if member.after != member.begins() {
                // Nearer than the old one: a part of the range is its. Further off: the range of
                // who is gone is ours, and so are its records if it left them.
                let nearer = old.is_none_or(|old| peer.point.is_between(old.peer.point, id.point));
                let taker = old.filter(|old| old.left).map(|old| old.peer.contact);
                member.other = if nearer { Some(peer.contact) } else { taker };
                member.after = member.begins();
                self.touched = true;
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
        let line = if knows_nobody { member.behind.clone() } else { Vec::new() };
        if takes && beat.seen == member.digest() && line.is_empty() {
            cx.send(from, Message::Same { to: other, from: id.point });
        } else {
            self.tell_line(id, &peer, line, cx);
        }
        // The previous predecessor has a nearer successor now.
        if let Some(old) = old.filter(|old| takes && !old.gone && old.peer.point != peer.point) {
            self.tell_around(id, &old.peer, cx);
        }
        if second {
            self.beat(id, cx);
        } else if changes {
            self.say_line(id, cx);
        }
        if takes {
            self.ask_between(id, cx);
        }
    }

    /// Tells a member what is around this one.
    pub(super) fn tell_around(&mut self, id: MemberId, to: &Peer, cx: &mut Rcx<'_>) {
        self.tell_line(id, to, Vec::new(), cx);
    }

    fn tell_line(&mut self, id: MemberId, to: &Peer, line: Vec<Peer>, cx: &mut Rcx<'_>) {
        let Some(member) = self.members.get(&id) else { return };
        let around = Around {
            to: MemberId { ring: id.ring, point: to.point },
            from: member.peer(),
            before: member.before(),
            list: member.succ.clone(),
            line,
        };
        self.links.send(&to.contact, Message::Around(Box::new(around)), cx);
    }

    /// Something has changed around this member.
    pub(super) fn news(&mut self, id: MemberId, cx: &mut Rcx<'_>) {
        let Some(member) = self.members.get_mut(&id).filter(|member| member.is_in()) else { return };
        if std::mem::take(&mut member.has_news)
            && let Some(pred) = member.before()
        {
            self.tell_around(id, &pred, cx);
        }
        self.say_line(id, cx);
    }

    /// The successor is to know whom to wait for if this member dies.
    fn say_line(&mut self, id: MemberId, cx: &mut Rcx<'_>) {
        let Some(member) = self.members.get(&id).filter(|member| member.is_in()) else { return };
        let Some(first) = member.succ.first() else { return };
        let now = (first.point, digest(member.line(self.config.r()).iter()).max(1));
        if member.line_known != now && member.line_sent != now {
            self.say_beat(id, cx);
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
        if !self.is_successor(from, id, around.from.point) {
            return;
        }
        let Around { from: first, before, list, line, .. } = around;
        if first.id() != from {
            return fault(from, "speaks for another member", cx);
        }
        let ring = id.ring;
        let it = MemberId { ring, point: first.point };
        let stands = |peer: Peer| peer.fits(ring) && peer.point != it.point;
        let lies = before.is_some_and(|before| !stands(before)) || !is_in_line(id, &line, r);
        if lies || !is_in_order(it, &list, r) {
            fault(from, "sent a list of successors that is none", cx);
            return self.lose_successor(id, cx);
        }
        let links = &self.links;
        let gone = |peer: &Peer| links.is_gone(MemberId { ring, point: peer.point }, now);
        let Some(member) = self.members.get_mut(&id) else { return };
        let me = member.peer();
        // A member that was given up for its silence and is connected may just have restarted.
        let nearer = before.filter(|before| {
            let it = MemberId { ring, point: before.point };
            let back = cx.peers.knows(before.id()) && !links.has_left(it, now);
            before.point.is_between(id.point, first.point) && (!gone(before) || back)
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
        let all = member.follow(first, &list, r, gone);
        // A member that was left out may live after all: ask for the whole list again.
        member.seen = if all { digest([first].iter().chain(&before).chain(&list)).max(1) } else { 0 };
        self.touched = true;
        if before.is_some_and(|before| before.point == me.point && before.id() == me.id()) {
            member.learns(line);
            self.ask_between(id, cx);
            return self.acknowledged(id, cx);
        }
        let asked = std::mem::take(&mut member.unanswered) > 0;
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
            None if asked => member.beat_after(self.config.urgent, cx),
            None => {}
        }
    }

    /// The successor takes this member for its predecessor.
    fn acknowledged(&mut self, id: MemberId, cx: &mut Rcx<'_>) {
        let Some(member) = self.members.get_mut(&id) else { return };
        if member.unanswered == 0 {
            // News; whoever was not asked has not heard that this member lives.
            return;
        }
        member.acked = Some(member.asked);
        member.shaken = false;
        member.unanswered = 0;
        member.line_known = member.line_sent;
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
