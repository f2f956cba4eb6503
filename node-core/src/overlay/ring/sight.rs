//! Whether a member is on the ring that it should be on. A swarm that was cut in two has two
//! rings, each of them whole; Chord says nothing of it, and no member could find out from its
//! neighbours. So one that meets an anchor again asks there for its own place, and if others own
//! it there, joins them (our addition).

use super::lookup::Purpose;
use super::message::{Mode, Timer};
use super::{Rcx, Ring};
use crate::circle::Located;
use crate::circle::{MemberId, RingId};
use std::time::Duration;

/// Until it is asked, and asked again. Our choice: a member that has just been lost to its
/// neighbours and comes back by itself has done so by then.
const FIRST: Duration = Duration::from_secs(3);
const AGAIN: Duration = Duration::from_secs(10);

/// Between looks in a ring at peace, when a connection may have outlived what cut the swarm. Our
/// choice: a gateway of 10,000 nodes is asked 33 times a second, one message each.
const PEACE: Duration = Duration::from_secs(300);

/// How often in a row others must be seen in its place.
const UNSEEN: u8 = 2;

impl Ring {
    /// Anchors have been met: their ring is the ring.
    pub(super) fn anchored(&mut self, ring: RingId, cx: &mut Rcx<'_>) {
        let ids: Vec<MemberId> = self.members.keys().copied().filter(|id| id.ring == ring).collect();
        for id in ids {
            let after = FIRST + Duration::from_micros(cx.rng.below(FIRST.as_micros() as u64));
            cx.set_timer(Timer::Sight(id), after);
        }
    }

    pub(super) fn sight(&mut self, id: MemberId, cx: &mut Rcx<'_>) {
        let sight = Purpose::Sight(id);
        let early = Duration::from_micros(cx.rng.below(PEACE.as_micros() as u64 / 5));
        cx.set_timer(Timer::Sight(id), PEACE - early);
        let settled = self.members.get(&id).is_some_and(|member| member.is_in() && !member.is_alone());
        if settled && !self.lookups.values().any(|lookup| lookup.purpose == sight) {
            self.look(id.ring, id.point, sight, Mode::Iterative, None, cx);
        }
    }

    /// Others over there know this member.
    pub(super) fn in_sight(&mut self, id: MemberId) {
        if let Some(member) = self.members.get_mut(&id) {
            member.unseen = 0;
        }
    }

    /// Somebody over there owns the point where this member stands.
    pub(super) fn out_of_sight(&mut self, id: MemberId, found: &Located, cx: &mut Rcx<'_>) {
        let Some(member) = self.members.get_mut(&id).filter(|member| member.is_in()) else { return };
        if found.owner.point == id.point {
            member.unseen = 0;
            return;
        }
        member.unseen += 1;
        if member.unseen < UNSEEN {
            return cx.set_timer(Timer::Sight(id), AGAIN);
        }
        member.unseen = 0;
        member.astray(cx.now);
        self.touched = true;
        self.placed(id, found, cx);
    }
}
