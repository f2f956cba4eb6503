//! Signalling: connections to nodes that nobody can dial, by data channels.

use crate::address::Sender;
use crate::ids::NodeId;
use crate::node::Node;
use crate::node::config::Config;
use crate::node::host::{self, Host};
use crate::node::notes::Note;
use crate::node::table::Service;
use crate::overlay::signalling::{Command, Event, Message, Outcomes, SERVERS_SESSIONS, SESSIONS, Signalling};
use crate::platform::Platform;
use crate::protocol::Input;
use crate::ticket::ServiceId;
use crate::wire::Framed;

impl Framed for Message {
    fn service(&self) -> ServiceId {
        ServiceId::Signalling
    }
}

impl Service for Signalling {
    const ID: ServiceId = ServiceId::Signalling;
    const NAME: &'static str = "signalling";
    type Beside = ();

    fn open(config: &Config) -> Option<Self> {
        let most = match config.platform {
            Platform::Browser => SESSIONS,
            Platform::Native => SERVERS_SESSIONS,
        };
        config.signalling.clone().map(|secret| Signalling::new(secret, most))
    }

    fn on_command(node: &mut Node, command: host::Command, _: &mut dyn Host) {
        if let host::Command::Connect(to) = command {
            node.tell::<Self>(Command::Connect(to));
        }
    }

    fn on_note(node: &mut Node, note: &Note<'_>, _: &mut dyn Host) {
        match note {
            Note::Up(up) => node.give::<Self>(Input::Up(up.peer)),
            Note::Down(_) | Note::Unreachable(_) => node.ended::<Self>(note),
            _ => {}
        }
    }

    fn on_forwarded(node: &mut Node, sender: Sender, message: Message) {
        node.tell::<Self>(Command::Forwarded(sender, message));
    }

    fn on_gone(node: &mut Node, guest: NodeId, by: NodeId) {
        node.tell::<Self>(Command::Gone { peer: guest, by });
    }

    fn on_event(node: &mut Node, event: Event, host: &mut dyn Host) {
        match event {
            Event::Request(request) => host.data_channel(request),
            Event::Slow { peer, relay } => node.connect_by_relay_as_well(peer, relay),
            Event::NotOpened { peer, relay, why } => node.connect_by_relay(peer, relay, why, host),
        }
    }
}

impl Node {
    /// How this node's attempts at data channels ended, if it can have any.
    pub fn data_channels(&self) -> Option<Outcomes> {
        self.state::<Signalling>().map(Signalling::outcomes)
    }

    /// The donor's word on direct connections with strangers. A guest sells to whom it lets in.
    pub(super) fn connects_directly(&mut self, may: bool) {
        if self.state::<Signalling>().is_some_and(|state| state.is_open() != may) {
            self.tell::<Signalling>(Command::Refuse(!may));
            self.sell_as_guest(may);
        }
    }
}
