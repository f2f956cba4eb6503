//! Dial-back: whether others can dial this node, from which its place in the swarm follows.

use crate::node::Node;
use crate::node::config::Config;
use crate::node::host::Host;
use crate::node::membership::Membership;
use crate::node::notes::Note;
use crate::node::table::Service;
use crate::overlay::dialback::{Command, DialBack, Event, Listening, Message, Met, Standing, Why};
use crate::platform::Platform;
use crate::ticket::ServiceId;
use crate::wire::Framed;

impl Framed for Message {
    fn service(&self) -> ServiceId {
        ServiceId::DialBack
    }
}

impl Service for DialBack {
    const ID: ServiceId = ServiceId::DialBack;
    const NAME: &'static str = "dial back";
    type Beside = Membership;

    fn open(config: &Config) -> Option<Self> {
        let Config { port, loopback_only, first_ip, gateway, .. } = *config;
        Some(DialBack::new(Listening { port, loopback_only, first: first_ip, gateway }))
    }

    fn start(node: &mut Node, _: &mut dyn Host) {
        node.tell::<Self>(Command::Start);
    }

    fn on_note(node: &mut Node, note: &Note<'_>, host: &mut dyn Host) {
        match *note {
            Note::Up(up) => {
                let platform = node.peers().get(up.peer).map(|known| known.platform);
                node.tell::<Self>(Command::Met(Met {
                    peer: up.peer,
                    ip: up.ip,
                    seen: up.seen,
                    dials: platform == Some(Platform::Native),
                    gateway: up.gateway,
                    joined: up.joined,
                    dialable: up.dialable,
                }));
                node.know_ways(up.gateway);
            }
            Note::Dialable { peer, dialable } => {
                node.tell::<Self>(Command::Dialable { peer, dialable });
                let gateway = node.peers().get(peer).is_some_and(|known| known.gateway);
                node.know_ways(gateway);
            }
            Note::Down(_) | Note::Unreachable(_) => node.ended::<Self>(note),
            Note::Probed { number, reached } => node.tell::<Self>(Command::Probed { number, reached }),
            Note::Learnt(_) => node.enter(host),
            Note::Ring(event) => node.ring_left(event),
            Note::Drain => node.end(),
            _ => {}
        }
    }

    fn on_event(node: &mut Node, event: Event, host: &mut dyn Host) {
        match event {
            Event::Probe { number, contact } => host.probe(number, contact),
            Event::Standing(standing) => node.stands(standing, host),
        }
    }
}

impl Node {
    /// Whether this node is a member or a guest, and why.
    pub fn standing(&self) -> Standing {
        self.state::<DialBack>().map_or(Standing::Guest(Why::NoPort), DialBack::standing)
    }
}
