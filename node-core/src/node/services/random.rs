//! The random finder.

use crate::discovery::random::{Command, Event, Message, Random, Slots};
use crate::node::Node;
use crate::node::config::Config;
use crate::node::host::{Host, NodeEvent};
use crate::node::notes::Note;
use crate::node::table::{Find, Service};
use crate::ticket::ServiceId;
use crate::wire::Framed;
use crate::work::runner::{self, Runner};

impl Framed for Message {
    fn service(&self) -> ServiceId {
        ServiceId::Random
    }
}

impl Service for Random {
    const ID: ServiceId = ServiceId::Random;
    const NAME: &'static str = "random";
    type Beside = ();
    const FIND: Option<Find> = Some(|node, query| node.tell::<Self>(Command::Find(query)));

    fn open(config: &Config) -> Option<Self> {
        (config.finder == ServiceId::Random).then(Random::default)
    }

    fn on_note(node: &mut Node, note: &Note<'_>, _: &mut dyn Host) {
        match *note {
            Note::Me(me) => node.tell::<Self>(Command::Me(Some(me))),
            Note::Guest => node.tell::<Self>(Command::Me(None)),
            Note::Load { slots, busy, .. } => {
                let busy: u32 = busy.iter().map(|(_, slots)| *slots).sum();
                let config = &node.config;
                let slots = Slots {
                    free: slots.saturating_sub(busy),
                    memory_bytes: config.memory_bytes,
                    platform: config.platform,
                    power: config.power,
                };
                node.tell::<Self>(Command::Slots(slots));
            }
            _ => {}
        }
    }

    fn on_event(node: &mut Node, event: Event, host: &mut dyn Host) {
        match event {
            Event::Found(found) => node.found(found, host),
            Event::Reserved { owner, slots, until, hops } => {
                host.event(NodeEvent::Reserved { owner, slots, hops });
                node.tell::<Runner>(runner::Command::Reserved { owner, slots, until });
            }
        }
    }
}
