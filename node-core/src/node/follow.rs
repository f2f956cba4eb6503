//! Effects of a machine's input on their way: messages to peers, events to other machines, and requests to the
//! node itself, which every machine may make.

use super::Node;
use super::host::{Host, NodeEvent};
use super::notes::Note;
use super::table::Service;
use crate::address::{Address, Contact, Sender};
use crate::channel::Channel;
use crate::ids::NodeId;
use crate::overlay::circuits::ends::Circuits;
use crate::overlay::guests::{self, LONGEST, ToRelay};
use crate::overlay::neighbours::{self, Neighbours};
use crate::overlay::signalling::{self, Signalling};
use crate::platform::Platform;
use crate::protocol::Effect;
use crate::ticket::ServiceId;
use crate::wire::{self, Framed};
use litemap::LiteMap;

/// Connections that are to last, and for whom: one bit a service.
#[derive(Debug, Default)]
pub(super) struct Holds(LiteMap<NodeId, u64>);

impl Holds {
    pub(super) fn hold(&mut self, of: ServiceId, peer: NodeId) {
        let by = self.0.get(&peer).copied().unwrap_or_default();
        self.0.insert(peer, by | 1 << of as u8);
    }

    pub(super) fn has(&self, peer: NodeId) -> bool {
        self.0.contains_key(&peer)
    }

    /// Whether nobody holds the connection any more.
    fn release(&mut self, of: ServiceId, peer: NodeId) -> bool {
        let Some(by) = self.0.get_mut(&peer) else { return true };
        *by &= !(1 << of as u8);
        let is_free = *by == 0;
        if is_free {
            self.0.remove(&peer);
        }
        is_free
    }
}

impl Node {
    /// Sees to what came of an input of a machine, in order.
    pub(super) fn follow<S: Service>(&mut self, effects: Vec<Effect<S>>, host: &mut dyn Host) {
        for effect in effects {
            match effect {
                Effect::Send { to, message } => match self.way(S::ID, to) {
                    Some(by) => self.forward(by, to, message, host),
                    None => self.send(to, message, host),
                },
                Effect::Forward { by, to, message } => self.forward(by, to, message, host),
                Effect::Emit(event) => S::on_event(self, event, host),
                Effect::Fault { peer, fault } => self.fault(peer, fault, host),
                // The relay reaches whom it forwards to.
                Effect::Reach(contact) if self.way(S::ID, contact.id).is_some() => {}
                Effect::Reach(contact) => self.reach(contact, true, host),
                Effect::Hold(contact) => self.hold(S::ID, contact, host),
                Effect::Release(peer) => self.release(S::ID, peer),
                Effect::Trouble(what) => host.event(NodeEvent::Trouble { what }),
            }
        }
    }

    /// The relay by way of which a guest's seller speaks to a node, so that all take its word by the same way.
    fn way(&self, of: ServiceId, to: NodeId) -> Option<NodeId> {
        // First, since each message of each service comes by here.
        if of != ServiceId::Seller {
            return None;
        }
        self.relay().filter(|relay| to != *relay && to != self.me)
    }

    /// Has the relay `by` give a message to a node. This node's own guest gets it straight.
    fn forward<M: Framed + Send + 'static>(
        &mut self,
        by: NodeId,
        to: NodeId,
        message: M,
        host: &mut dyn Host,
    ) {
        if by == self.me {
            return match self.peers().is_connected(to) {
                true => self.send(to, message, host),
                false => self.gone(to, by),
            };
        }
        let frame = wire::encode(message.service(), &message).filter(|frame| frame.len() <= LONGEST);
        match frame {
            Some(frame) => self.send(by, guests::Message::ToRelay(ToRelay::Forward { to, frame }), host),
            None => host.event(NodeEvent::Trouble {
                what: format!(
                    "a message to {} was longer than a relay forwards, {LONGEST} bytes, and was not sent; please \
                     report this",
                    to.short()
                ),
            }),
        }
    }

    /// A message for a guest of `by` cannot be delivered.
    pub(super) fn gone(&mut self, guest: NodeId, by: NodeId) {
        self.each_service(|node, row| (row.on_gone)(node, guest, by));
    }

    /// A frame has come that another node forwarded. What is wrong with it is nobody's fault: a relay does not read
    /// what it forwards, and who it says has written it may not have.
    pub(super) fn forwarded(&mut self, sender: Sender, frame: &[u8]) {
        let Ok((service, body)) = wire::open(frame, Channel::Control) else { return };
        if let Some(row) = ServiceId::of(service).and_then(|service| self.row(service)) {
            (row.forwarded)(self, sender, body);
        }
    }

    /// Connects to a peer unless that is done or under way.
    pub(super) fn reach(&mut self, contact: Contact, spare: bool, host: &mut dyn Host) {
        let (peer, now, me) = (contact.id, self.now, self.contact());
        let under_way = self.dials.as_ref().is_none_or(|dials| dials.is_under_way(peer));
        if peer == self.me || under_way || self.peers().is_connected(peer) {
            return;
        }
        if self.config.platform == Platform::Browser {
            return self.reach_from_page(peer, spare, host);
        }
        // A contact at this node's own address is one that is out of date: to dial it is to dial oneself.
        let gone = me.is_some_and(|me| (me.ip, me.port) == (contact.ip, contact.port));
        let nearest = self.peers().nearest().into_iter().chain(me.map(|me| me.ip.scope())).min();
        let Some(dials) = &mut self.dials else { return };
        match !gone && dials.begin(contact, spare, nearest, now) {
            true => host.dial(contact),
            false => self.note(Note::Unreachable(peer), host),
        }
    }

    /// A page dials nobody: its gateway carries what makes a data channel, or is the relay.
    fn reach_from_page(&mut self, peer: NodeId, spare: bool, host: &mut dyn Host) {
        let Some(relay) = self.relay_contact() else { return self.note(Note::Unreachable(peer), host) };
        self.reach_for_now(&Address::guest(peer, relay).with_channels(true), host);
        if let Some(dials) = self.dials.as_mut().filter(|_| !spare) {
            dials.needed(peer);
        }
    }

    /// Connects to a node, by a data channel if it cannot be dialled; nobody counts on the connection.
    pub(super) fn reach_for_now(&mut self, address: &Address, host: &mut dyn Host) {
        if let Some(contact) = address.contact() {
            return self.reach(contact, true, host);
        }
        let peer = address.id;
        let under_way = self.dials.as_ref().is_some_and(|dials| dials.is_under_way(peer));
        let (signals, circuits) = (self.has::<Signalling>(), self.has::<Circuits>());
        if peer == self.me
            || !address.has_channels()
            || !signals && !circuits
            || under_way
            || self.peers().is_connected(peer)
        {
            return;
        }
        // A page keeps nothing for peers that are not there.
        match self.dials.as_mut().is_none_or(|dials| dials.begin_channel(peer)) {
            true if signals => self.tell::<Signalling>(signalling::Command::Connect(*address)),
            true => self.connect_by_relay(peer, address.relay(), signalling::NotOpened::NoDriver, host),
            false => self.note(Note::Unreachable(peer), host),
        }
    }

    /// Connects to a peer on which an overlay counts.
    pub(super) fn hold(&mut self, of: ServiceId, contact: Contact, host: &mut dyn Host) {
        self.holds.hold(of, contact.id);
        if let Some(dials) = &mut self.dials {
            dials.needed(contact.id);
        }
        self.tell::<Neighbours>(neighbours::Command::Spare(contact.id, false));
        self.reach(contact, false, host);
    }

    /// An overlay does not count on a connection any more.
    pub(super) fn release(&mut self, of: ServiceId, peer: NodeId) {
        if self.holds.release(of, peer) {
            self.tell::<Neighbours>(neighbours::Command::Spare(peer, true));
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
