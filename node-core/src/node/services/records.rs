//! Records on the ring.

use crate::circle::RingId;
use crate::ids::NodeId;
use crate::node::Node;
use crate::node::config::Config;
use crate::node::host::{self, Host, NodeEvent};
use crate::node::notes::{Note, Reply};
use crate::node::table::Service;
use crate::overlay::ring::MemberView;
use crate::protocol::{Input, InputOf};
use crate::records::{Command, Event, Message, Records};
use crate::ticket::ServiceId;
use crate::wire::Framed;

impl Framed for Message {
    fn service(&self) -> ServiceId {
        ServiceId::Records
    }
}

impl Service for Records {
    const ID: ServiceId = ServiceId::Records;
    const NAME: &'static str = "records";
    type Beside = ();

    fn open(config: &Config) -> Option<Self> {
        config.records.as_ref().map(|part| Records::new(part.config.clone(), part.secret.clone()))
    }

    /// Copies come from who says that the ring names it: the machine is told who is before this node.
    fn on_input(node: &mut Node, input: &InputOf<Self>, _: &mut dyn Host) {
        if let Input::Message { message: Message::Copies(_) | Message::Compare { .. }, .. } = input {
            let (now, me, before) = (node.now, node.me, node.before_on_the_ring());
            if let Some(seated) = Self::seated_mut(node) {
                // The answer is nothing.
                drop(seated.machine.step(me, now, Input::Command(Command::Predecessors(before))));
            }
        }
    }

    fn on_note(node: &mut Node, note: &Note<'_>, _: &mut dyn Host) {
        match *note {
            Note::Up(up) => node.give::<Self>(Input::Up(up.peer)),
            Note::Down(_) | Note::Unreachable(_) => node.ended::<Self>(note),
            Note::Clock(ms) => node.tell::<Self>(Command::WallClock(ms)),
            Note::Keys(keys) => node.tell::<Self>(Command::Keys(keys.clone())),
            _ => {}
        }
    }

    fn on_command(node: &mut Node, command: host::Command, _: &mut dyn Host) {
        node.tell::<Self>(match command {
            host::Command::Publish { number, key, value } => {
                Command::Publish { ticket: ServiceId::Driver.ticket(number), key, value }
            }
            host::Command::ReadRecord { number, key } => Command::Read { number, key },
            _ => return,
        });
    }

    fn on_reply(node: &mut Node, number: u64, reply: Reply, _: &mut dyn Host) {
        if let Reply::Located(found) = reply {
            node.tell::<Self>(Command::Located { number, found: found.ok() });
        }
    }

    fn on_event(node: &mut Node, event: Event, host: &mut dyn Host) {
        match event {
            Event::Lookup { number, key } => {
                node.look_up(ServiceId::Records.ticket(number), RingId::NODES, key, host);
            }
            Event::Published { ticket, refused } => node.answer(ticket, Reply::Published(refused), host),
            Event::Lost { key, refused } => host.event(NodeEvent::Unpublished { key, refused }),
            Event::Read { number, found } => host.event(NodeEvent::RecordRead { number, found }),
        }
    }
}

impl Node {
    /// Records that lie on this node; none if its swarm has none.
    pub fn records(&self) -> Option<&Records> {
        self.state()
    }

    /// The members before this node, the nearest first; nobody while it has no place on the ring.
    fn before_on_the_ring(&self) -> Vec<NodeId> {
        let mine = |member: &MemberView<'_>| member.id().ring == RingId::NODES && member.joined();
        let member = self.ring().and_then(|ring| ring.members().find(mine));
        member.map_or(Vec::new(), |member| member.line().iter().map(|peer| peer.contact.id).collect())
    }
}
