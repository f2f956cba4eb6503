//! Submits jobs to gateways.

use crate::discovery::fitting::Fitting;
use crate::node::Node;
use crate::node::config::Config;
use crate::node::host::{self, Host, NodeEvent};
use crate::node::notes::Note;
use crate::node::table::Service;
use crate::overlay::dialback::Standing;
use crate::protocol::Input;
use crate::ticket::ServiceId;
use crate::work::client::{Client, Command, Event, NotAccepted};
use crate::work::spec::{Find, OwnedBy};

impl Service for Client {
    const ID: ServiceId = ServiceId::Client;
    const NAME: &'static str = "client";
    type Beside = ();

    fn open(config: &Config) -> Option<Self> {
        Some(Client::new(config.timing.retry, config.owns_jobs()))
    }

    fn on_note(node: &mut Node, note: &Note<'_>, _: &mut dyn Host) {
        match *note {
            Note::Up(up) if up.gateway => node.tell::<Self>(Command::OwnerUp),
            Note::Down(peer) => node.give::<Self>(Input::Down(peer)),
            _ => {}
        }
    }

    fn on_command(node: &mut Node, command: host::Command, host: &mut dyn Host) {
        node.tell::<Self>(match command {
            host::Command::Submit { job, spec } if spec.owner == OwnedBy::Ring && node.is_off_the_ring() => {
                return host.event(NodeEvent::JobRefused { job, why: NotAccepted::NotOnRing });
            }
            host::Command::Submit { job, spec }
                if spec.find == Find::Fitting && node.config.owns_jobs() && !node.has::<Fitting>() =>
            {
                return host.event(NodeEvent::JobRefused { job, why: NotAccepted::NoMatchmaking });
            }
            host::Command::Submit { job, spec } => Command::Submit { job, spec: Box::new(spec) },
            host::Command::Cancel { job } => Command::Cancel { job },
            _ => return,
        });
    }

    fn on_event(node: &mut Node, event: Event, host: &mut dyn Host) {
        match event {
            Event::Accepted(job) => host.event(NodeEvent::JobAccepted { job }),
            Event::Refused(job, why) => host.event(NodeEvent::JobRefused { job, why }),
            // This node's own owner has told already.
            Event::Ended(_) if node.config.owns_jobs() => {}
            Event::Ended(job) => host.event(NodeEvent::JobEnded { job }),
        }
    }
}

impl Node {
    /// Whether the swarm has a ring that could own units, and this node is none of its members, which it knows.
    fn is_off_the_ring(&self) -> bool {
        self.config.limits.delegated_units > 0 && matches!(self.standing(), Standing::Guest(_))
    }
}
