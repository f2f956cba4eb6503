//! Circuits: connections by way of a third node, where there are no direct ones.

use crate::address::Contact;
use crate::ids::NodeId;
use crate::node::Node;
use crate::node::config::Config;
use crate::node::host::{Host, NodeEvent, NotConnected};
use crate::node::notes::Note;
use crate::node::table::Service;
use crate::overlay::circuits::Message;
use crate::overlay::circuits::ends::{Circuits, Command, Event};
use crate::overlay::guests::guest::Guest;
use crate::overlay::signalling::{self, Signalling};
use crate::peers::Known;
use crate::protocol::Input;
use crate::ticket::ServiceId;
use crate::wire::Framed;

impl Framed for Message {
    fn service(&self) -> ServiceId {
        match self {
            Message::ToRelay(_) => ServiceId::CircuitRelay,
            Message::ToEnd(_) => ServiceId::Circuits,
        }
    }
}

impl Service for Circuits {
    const ID: ServiceId = ServiceId::Circuits;
    const NAME: &'static str = "circuits";
    type Beside = ();

    fn open(config: &Config) -> Option<Self> {
        config.circuits.then(Circuits::default)
    }

    fn on_note(node: &mut Node, note: &Note<'_>, _: &mut dyn Host) {
        match note {
            Note::Up(up) => node.give::<Self>(Input::Up(up.peer)),
            Note::Down(_) | Note::Unreachable(_) => node.ended::<Self>(note),
            _ => {}
        }
    }

    fn on_event(node: &mut Node, event: Event, host: &mut dyn Host) {
        match event {
            Event::Request(request) => host.circuit(request),
            // A data channel still may open.
            Event::NotOpened { peer, .. } if node.opens_channel(peer) => {}
            Event::NotOpened { peer, why } => {
                node.not_reached(peer, host);
                host.event(NodeEvent::NotConnected { peer, why: NotConnected::Relayed(why) });
            }
        }
    }
}

impl Node {
    /// There is no data channel to a node that this one wanted to connect to: by way of the relay, then.
    pub(in crate::node) fn connect_by_relay(
        &mut self,
        peer: NodeId,
        relay: Option<Contact>,
        why: signalling::NotOpened,
        host: &mut dyn Host,
    ) {
        match relay.filter(|relay| self.may_relay(peer, *relay)) {
            // It was faster than the channel.
            _ if self.peers().is_connected(peer) => {}
            Some(relay) => self.tell::<Circuits>(Command::Connect { peer, relay }),
            None => {
                self.not_reached(peer, host);
                host.event(NodeEvent::NotConnected { peer, why: NotConnected::Direct(why) });
            }
        }
    }

    /// It takes long to open the data channel: the relay may be faster.
    pub(super) fn connect_by_relay_as_well(&mut self, peer: NodeId, relay: Option<Contact>) {
        if let Some(relay) = relay.filter(|relay| self.may_relay(peer, *relay)) {
            self.tell::<Circuits>(Command::Connect { peer, relay });
        }
    }

    /// A dial has come to nothing. The network of a node that is no member may have no way to that address, as one of
    /// IPv4 has none to IPv6: by way of its own relay, then, or of a gateway that it is connected to if it has none, as
    /// one that is a gateway itself. `false` if there is neither.
    pub(in crate::node) fn connect_by_own_relay(&mut self, peer: NodeId) -> bool {
        let relays = |it: &Known| it.speaks.has(ServiceId::CircuitRelay) && self.contact().is_none();
        let gateways = || self.peers().gateways().filter(|(_, it)| relays(it));
        let other = || gateways().find_map(|(_, it)| it.dialable.contact());
        let relay = self.relay_contact().or_else(other);
        let relay = relay.filter(|relay| relay.id != peer && self.may_relay(peer, *relay));
        let Some(relay) = relay.filter(|_| !self.peers().is_connected(peer)) else { return false };
        let now = self.now;
        let turned = self.dials.as_mut().is_some_and(|dials| dials.turn_to_relay(peer, now));
        if turned {
            self.tell::<Circuits>(Command::Connect { peer, relay });
        }
        turned
    }

    pub(in crate::node) fn opens_channel(&self, peer: NodeId) -> bool {
        self.state::<Signalling>().is_some_and(|signalling| signalling.is_opening(peer))
    }

    /// Whether to try it. A second gateway that is reached through the first is none when that has gone; it is reached
    /// so all the same if there is something to say to it.
    fn may_relay(&self, peer: NodeId, relay: Contact) -> bool {
        let is_spoken_to = self.dials.as_ref().is_some_and(|dials| dials.is_spoken_to(peer));
        let is_second = !is_spoken_to && self.state::<Guest>().is_some_and(|guest| guest.is_second(peer));
        let relays = self.peers().get(relay.id).is_none_or(|it| it.speaks.has(ServiceId::CircuitRelay));
        self.has::<Circuits>() && !is_second && relays && relay.id != self.me
    }

    /// Whether others connect to this node by way of its relay.
    pub(super) fn has_circuits_by(&self, relay: NodeId) -> bool {
        let relays = self.peers().get(relay).is_some_and(|it| it.speaks.has(ServiceId::CircuitRelay));
        self.has::<Circuits>() && relays
    }

    /// Nodes that this one wanted to connect to since its start, and did by way of a relay.
    pub fn relayed_connections(&self) -> u64 {
        self.state::<Circuits>().map_or(0, Circuits::connected)
    }

    /// The relay by way of which the peer is connected, if it is.
    pub(in crate::node) fn relayed_by(&self, peer: NodeId) -> Option<NodeId> {
        self.peers().connection(peer)?.via
    }
}
