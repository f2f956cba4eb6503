//! Messages that relays forward to this node, and this node's own relay, if nobody can dial it.

use crate::address::{Address, Contact};
use crate::ids::NodeId;
use crate::node::Node;
use crate::node::able::Able;
use crate::node::config::Config;
use crate::node::host::{Host, NodeEvent};
use crate::node::notes::{Note, Reply};
use crate::node::table::Service;
use crate::overlay::guests::guest::{Command, Event, Guest};
use crate::overlay::guests::{Message, ToGuest};
use crate::overlay::signalling::{self, Signalling};
use crate::platform::Platform;
use crate::protocol::Input;
use crate::ticket::ServiceId;

impl Service for Guest {
    const ID: ServiceId = ServiceId::Guest;
    const NAME: &'static str = "guest";
    type Beside = ();

    fn open(config: &Config) -> Option<Self> {
        Some(Guest::new(config.may_match().then(|| Able::of(config).stated)))
    }

    fn on_note(node: &mut Node, note: &Note<'_>, _: &mut dyn Host) {
        match *note {
            Note::Down(_) | Note::Unreachable(_) => node.ended::<Self>(note),
            Note::Quiet(peer) => node.tell::<Self>(Command::Quiet(peer)),
            Note::Me(_) => node.tell::<Self>(Command::Dialled),
            Note::Guest => node.tell::<Self>(Command::NotDialled),
            Note::Load { slots, busy, .. } => node.tell::<Self>(Command::Load(slots, busy.to_vec())),
            Note::Able => {
                let stated = node.stated();
                node.tell::<Self>(Command::States(stated));
            }
            _ => {}
        }
    }

    /// Gateways alone are relays.
    fn deliver(node: &mut Node, from: NodeId, message: Message, _: &mut dyn Host) {
        let offers = matches!(message, Message::ToGuest(ToGuest::Relay(_)));
        if !offers || node.peers().get(from).is_some_and(|known| known.gateway) {
            node.give::<Self>(Input::Message { from, message });
        }
    }

    fn on_event(node: &mut Node, event: Event, host: &mut dyn Host) {
        match event {
            Event::Relay(by) => {
                node.note(Note::Relay(by), host);
                host.event(NodeEvent::WorkChanged);
            }
            Event::Located { ticket, owner } => node.answer(ticket, Reply::Owner(owner), host),
            Event::Forwarded { sender, frame } => node.forwarded(sender, &frame),
            Event::Gone { guest, by } => node.gone(guest, by),
            Event::Balance(balance) => host.event(NodeEvent::Balance(balance)),
            Event::Second { at, relay } => node.have_second(at, relay, host),
            Event::Release(gateway) => node.release(Self::ID, gateway),
        }
    }
}

impl Node {
    /// Connects to the gateway that is to be the relay after `relay`, if the donor lets others learn this node's
    /// address: a server dials it, a page opens a data channel.
    fn have_second(&mut self, at: Contact, relay: Contact, host: &mut dyn Host) {
        if self.dials.is_none() || self.config.platform == Platform::Browser {
            let address = Address::guest(at.id, relay).with_channels(true);
            return self.tell::<Signalling>(signalling::Command::Connect(address));
        }
        if self.state::<Signalling>().is_none_or(Signalling::is_open) {
            self.hold(ServiceId::Guest, at, host);
        }
    }

    /// The gateway that forwards what others say to this node, if nobody can dial it.
    pub fn relay(&self) -> Option<NodeId> {
        self.relay_contact().map(|relay| relay.id)
    }

    pub(in crate::node) fn relay_contact(&self) -> Option<Contact> {
        self.state::<Guest>()?.relay()
    }
}
