//! Finding one's place (paper `chord`, section 4.5; *join* of paper `zave`): the owner of one's own point
//! is the successor, and its list with it at the head is the list of successors.

use super::lookup::Purpose;
use super::member::{Member, Phase};
use super::message::{Event, Mode, Refusal, Timer};
use super::{Rcx, Ring};
use crate::address::Contact;
use crate::circle::{Located, Peer};
use crate::circle::{MemberId, Point, RingId};
use crate::ids::NodeId;
use std::time::Duration;

impl Ring {
    pub(super) fn join(&mut self, id: MemberId, me: Contact, via: Vec<NodeId>, cx: &mut Rcx<'_>) {
        let refusal = if id.ring == RingId::NODES && id.point != Point::of_node(me.id) {
            Some(Refusal::NotItsPoint)
        } else if self.members.contains_key(&id) {
            Some(Refusal::Taken(me))
        } else {
            (self.members.len() >= self.config.members).then_some(Refusal::Full)
        };
        if let Some(why) = refusal {
            return cx.emit(Event::Refused { member: id, why });
        }
        let first = via.is_empty() && self.mine_in(id.ring).next().is_none();
        self.via.insert(id.ring, via);
        let mut member = Member::new(id, me, cx.now);
        if first {
            member.stand_alone();
            cx.emit(Event::Joined(id));
        }
        self.members.insert(id, Box::new(member));
        self.touched = true;
        if !first {
            self.seek(id, None, cx);
        }
    }

    /// Looks for the place of a member. A `hint` is somebody near it.
    pub(super) fn seek(&mut self, id: MemberId, hint: Option<Peer>, cx: &mut Rcx<'_>) {
        let Some(member) = self.members.get(&id) else { return };
        // One that is alone may look for the ring of others.
        if !matches!(member.phase, Phase::Seeking { .. }) && !member.is_alone() {
            return;
        }
        let place = Purpose::Place(id);
        if !self.lookups.values().any(|lookup| lookup.purpose == place) {
            self.look(id.ring, id.point, place, Mode::Iterative, hint, cx);
        }
    }

    /// The owner of a member's own point has answered.
    pub(super) fn placed(&mut self, id: MemberId, found: &Located, cx: &mut Rcx<'_>) {
        let (now, r) = (cx.now, self.config.r());
        let Some(member) = self.members.get_mut(&id) else { return };
        let owner = found.owner;
        let alone = member.is_alone();
        if !matches!(member.phase, Phase::Seeking { .. }) && !alone || alone && owner.point == id.point {
            return;
        }
        if owner.point == id.point {
            self.members.remove(&id);
            self.touched = true;
            return cx.emit(Event::Refused { member: id, why: Refusal::Taken(owner.contact) });
        }
        let links = &self.links;
        let gone = |peer: &Peer| links.is_gone(MemberId { ring: id.ring, point: peer.point }, now);
        member.astray(now);
        member.follow(owner, &found.replicas, r, gone);
        member.phase = Phase::Asking;
        member.other = Some(owner.contact);
        self.touched = true;
        self.beat(id, cx);
    }

    /// Nobody said where it belongs, or somebody else got there first: after a while, again.
    pub(super) fn seek_again(&mut self, id: MemberId, cx: &mut Rcx<'_>) {
        let alone = self.config.alone;
        let Some(member) = self.members.get_mut(&id) else { return };
        let Phase::Seeking { tries, begun } = &mut member.phase else { return };
        *tries += 1;
        let nobody = member.succ.is_empty() && member.fingers.is_empty();
        if nobody && cx.now.since(*begun) > alone {
            member.stand_alone();
            self.touched = true;
            return cx.emit(Event::Joined(id));
        }
        let most = 250 << (*tries).min(5);
        let wait = most / 2 + cx.rng.below(most / 2);
        cx.set_timer(Timer::Seek(id), Duration::from_millis(wait));
    }

    /// Others have been heard of.
    pub(super) fn know(&mut self, ring: RingId, via: Vec<NodeId>, anchors: bool, cx: &mut Rcx<'_>) {
        let alone = self.mine_in(ring).find(|member| member.is_alone()).map(|member| member.id);
        let some = !via.is_empty();
        self.via.insert(ring, via);
        if some && let Some(id) = alone {
            self.seek(id, None, cx);
        } else if some && anchors {
            self.anchored(ring, cx);
        }
    }

    /// A member without any other is outside, and looks for the others.
    pub(super) fn lost(&mut self, id: MemberId, cx: &mut Rcx<'_>) {
        let Some(member) = self.members.get_mut(&id) else { return };
        member.astray(cx.now);
        self.touched = true;
        let wait = Duration::from_millis(cx.rng.below(300));
        cx.set_timer(Timer::Seek(id), wait);
    }
}
