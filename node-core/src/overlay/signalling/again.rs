//! The way back from a relay: to a peer that is connected by way of one, a channel is tried again, ever later. Once it is
//! open, its connection takes the other one's place ([`crate::channel::Carrier::Relay`]).

use super::{Role, Scx, Signalling, Timer, Way, limits};
use crate::address::Address;
use crate::channel::Carrier;
use crate::ids::NodeId;

impl Signalling {
    /// The peer is connected by way of a relay, and no channel to it is being opened.
    pub(super) fn try_again_later(&self, peer: NodeId, cx: &mut Scx<'_>) {
        let pause = self.backoff.left(peer, cx.now).max(limits::PAUSES.first);
        cx.set_timer(Timer::Again(peer), pause);
    }

    pub(super) fn try_again(&mut self, peer: NodeId, cx: &mut Scx<'_>) {
        if self.refuses || !is_relayed(peer, cx) {
            return;
        }
        if self.sessions.contains_key(&peer) || self.sessions.len() >= self.most {
            return self.try_again_later(peer, cx);
        }
        // The connection that there is carries what the two say of it.
        let id = Self::new_id(cx);
        self.begin(peer, id, Way::To(Address::here(peer)), (Role::Offers, None), cx);
    }
}

/// Whether the peer is connected, and by way of a relay.
pub(super) fn is_relayed(peer: NodeId, cx: &Scx<'_>) -> bool {
    cx.peers.connection(peer).is_some_and(|it| it.over == Carrier::Relay)
}
