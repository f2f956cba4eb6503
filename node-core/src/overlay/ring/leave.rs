//! Going of one's own accord (paper `chord`, section 4.6.2): both neighbours are told, and what
//! the member owned waits for nobody's death.

use super::member::Phase;
use super::message::{Event, Leave, Message, Timer};
use super::{Rcx, Ring, fault, member};
use crate::circle::Peer;
use crate::circle::{MemberId, Point};
use crate::ids::NodeId;

/// How often the neighbours are told; who does not hear it notices a death.
const TOLD: u8 = 3;

impl Ring {
    pub(super) fn leave(&mut self, id: MemberId, cx: &mut Rcx<'_>) {
        let Some(member) = self.members.get_mut(&id) else { return };
        if matches!(member.phase, Phase::Leaving { .. }) {
            return;
        }
        // From here on it answers for nothing; the successor does as soon as the predecessor has
        // come to it.
        let first = member.succ.first().copied().filter(|_| member.is_in());
        member.other = first.map(|first| first.contact);
        member.phase = Phase::Leaving { told: 0 };
        member.after = None;
        self.touched = true;
        cx.cancel_timer(Timer::Fix(id));
        cx.cancel_timer(Timer::Seek(id));
        match first {
            Some(_) => self.say_leave(id, cx),
            None => self.gone(id, cx),
        }
    }

    pub(super) fn say_leave(&mut self, id: MemberId, cx: &mut Rcx<'_>) {
        let Some(member) = self.members.get_mut(&id) else { return };
        let Phase::Leaving { told } = &mut member.phase else { return };
        *told += 1;
        if *told > TOLD {
            return self.gone(id, cx);
        }
        let (first, list) = (member.succ.first().copied(), member.succ.clone());
        let pred = member.before().filter(|pred| Some(pred.point) != first.map(|first| first.point));
        let say = |to: &Peer| {
            let to = MemberId { ring: id.ring, point: to.point };
            Message::Leave(Box::new(Leave { to, from: id.point, list: list.clone() }))
        };
        member.beat_after(self.config.answer, cx);
        for neighbour in first.iter().chain(&pred) {
            self.links.send(&neighbour.contact, say(neighbour), cx);
        }
    }

    pub(super) fn gone(&mut self, id: MemberId, cx: &mut Rcx<'_>) {
        if let Some(mut member) = self.members.remove(&id) {
            super::tell(&mut member, self.config.r(), self.config.news, cx);
            cx.cancel_timer(Timer::Beat(id));
            cx.cancel_timer(Timer::News(id));
            cx.cancel_timer(Timer::Sight(id));
            let ours = |lookup: &super::Lookup| lookup.purpose.is_of(id);
            let tickets: Vec<u64> =
                self.lookups.iter().filter(|(_, lookup)| ours(lookup)).map(|(ticket, _)| *ticket).collect();
            for ticket in tickets {
                self.lookups.remove(&ticket);
                cx.cancel_timer(Timer::Lookup(ticket));
            }
            self.touched = true;
            cx.emit(Event::Left(id));
        }
    }

    /// A neighbour leaves.
    pub(super) fn left(&mut self, from: NodeId, leave: Leave, cx: &mut Rcx<'_>) {
        let (id, now, r) = (leave.to, cx.now, self.config.r());
        let it = MemberId { ring: id.ring, point: leave.from };
        if !member::is_in_order(it, &leave.list, r) {
            return fault(from, "sent a list of successors that is none", cx);
        }
        cx.send(from, Message::Bye { to: it, from: id.point });
        let until = now + self.config.gone;
        let Some(member) = self.members.get_mut(&id) else { return };
        let is_it = |peer: &Peer| peer.point == it.point && peer.id() == from;
        member.fingers.retain(|finger| !is_it(&finger.peer));
        let pred = member.before().is_some_and(|pred| is_it(&pred));
        let place = member.succ.iter().position(is_it);
        if !pred && place.is_none() {
            return;
        }
        self.links.bid_farewell(it, from, until);
        self.touched = true;
        if let Some(place) = place {
            member.succ.remove(place);
            member.seen = 0;
        }
        if pred && let Some(pred) = &mut member.pred {
            pred.left = true;
        }
        if place == Some(0) {
            let links = &self.links;
            let gone = |peer: &Peer| links.is_gone(MemberId { ring: id.ring, point: peer.point }, now);
            // Its successors are ours; we may be the last of them.
            if let Some((first, rest)) = leave.list.split_first()
                && first.point != id.point
                && !gone(first)
            {
                let whole = member.whole;
                member.follow(*first, rest, r, gone);
                member.whole |= whole;
            }
            member.unanswered = 0;
        }
        if pred {
            self.lose_predecessor(id, cx);
        }
        let Some(member) = self.members.get(&id) else { return };
        if member.succ.is_empty() {
            self.exhausted(id, cx);
        } else if place == Some(0) {
            self.beat(id, cx);
        }
    }

    /// Somebody is no member, or has heard that this one leaves.
    pub(super) fn bye(&mut self, from: NodeId, id: MemberId, point: Point, cx: &mut Rcx<'_>) {
        let Some(member) = self.members.get_mut(&id) else { return };
        let first = member.succ.first().is_some_and(|first| first.point == point && first.id() == from);
        if !first {
            return self.not_between(id, from, Some(point), cx);
        }
        match member.phase {
            Phase::Leaving { .. } if first => self.gone(id, cx),
            Phase::Asking | Phase::In if first => {
                // It is no member, so it is not before this one either.
                if member.before().is_some_and(|pred| pred.point == point && pred.id() == from) {
                    self.lose_predecessor(id, cx);
                }
                self.lose_successor(id, cx);
            }
            _ => {}
        }
    }
}
