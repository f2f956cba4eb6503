//! Effects of a machine's input on their way: messages to peers, events to other machines, and requests to the
//! node itself, which every machine may make.

use super::Node;
use super::host::{Host, NodeEvent};
use super::message::Message;
use super::route::Step;
use crate::address::Contact;
use crate::ids::NodeId;
use crate::overlay::neighbours;
use crate::protocol::{Effect, Protocol};
use crate::ticket::ServiceId;
use std::collections::BTreeMap;

/// Connections that are to last, and for whom: one bit a service.
#[derive(Debug, Default)]
pub(super) struct Holds(BTreeMap<NodeId, u32>);

impl Holds {
    pub(super) fn hold(&mut self, of: ServiceId, peer: NodeId) {
        *self.0.entry(peer).or_default() |= 1 << of as u32;
    }

    /// Whether nobody holds the connection any more.
    fn release(&mut self, of: ServiceId, peer: NodeId) -> bool {
        let Some(by) = self.0.get_mut(&peer) else { return true };
        *by &= !(1 << of as u32);
        let is_free = *by == 0;
        if is_free {
            self.0.remove(&peer);
        }
        is_free
    }
}

impl Node {
    /// Sees to what came of an input of a machine, in order.
    pub(super) fn follow<P: Protocol, H: Host>(
        &mut self,
        of: ServiceId,
        effects: Vec<Effect<P>>,
        wrap: fn(P::Message) -> Message,
        told: fn(&mut Node, P::Event, &mut H),
        host: &mut H,
    ) {
        for effect in effects {
            match effect {
                Effect::Send { to, message } => self.send(to, wrap(message), host),
                Effect::Emit(event) => told(self, event, host),
                Effect::Fault { peer, fault } => self.fault(peer, fault, host),
                Effect::Reach(contact) => self.reach(contact, true, host),
                Effect::Hold(contact) => self.hold(of, contact, host),
                Effect::Release(peer) => self.release(of, peer),
                Effect::Trouble(what) => host.event(NodeEvent::Trouble { what }),
            }
        }
    }

    /// Connects to a peer on which an overlay counts.
    fn hold(&mut self, of: ServiceId, contact: Contact, host: &mut impl Host) {
        self.holds.hold(of, contact.id);
        self.dials.needed(contact.id);
        self.push(Step::Neighbours, neighbours::Command::Spare(contact.id, false));
        self.reach(contact, false, host);
    }

    /// An overlay does not count on a connection any more.
    fn release(&mut self, of: ServiceId, peer: NodeId) {
        if self.holds.release(of, peer) {
            self.push(Step::Neighbours, neighbours::Command::Spare(peer, true));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_free_when_the_last_overlay_lets_go() {
        let (mut holds, peer) = (Holds::default(), NodeId([1; 32]));
        holds.hold(ServiceId::Tree, peer);
        holds.hold(ServiceId::Tree, peer);
        holds.hold(ServiceId::Ring, peer);
        assert!(!holds.release(ServiceId::Tree, peer));
        assert!(holds.release(ServiceId::Ring, peer));
        assert!(holds.release(ServiceId::Ring, peer), "nobody held it");
    }
}
