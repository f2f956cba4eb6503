//! Markets that this node owns. They have members on rings of their own; the ring knows nothing of them.

use crate::address::Sender;
use crate::circle::RingId;
use crate::ids::NodeId;
use crate::market::owner::{Command, Event, Owner, OwnerView};
use crate::market::{MarketConfig, Message, ToOwner};
use crate::node::Node;
use crate::node::config::Config;
use crate::node::host::{Host, NodeEvent};
use crate::node::notes::{Note, Reply};
use crate::node::table::Service;
use crate::overlay::ring::{self, Ring};
use crate::protocol::{Input, InputOf};
use crate::ticket::ServiceId;
use crate::wire::Framed;

impl Framed for Message {
    fn service(&self) -> ServiceId {
        match self {
            Message::ToOwner(_) => ServiceId::MarketOwner,
            Message::ToSeller(_) => ServiceId::Seller,
            Message::ToBuyer(_) => ServiceId::Buyer,
        }
    }
}

impl Service for Owner {
    const ID: ServiceId = ServiceId::MarketOwner;
    const NAME: &'static str = "market owner";
    type Beside = ();

    fn open(config: &Config) -> Option<Self> {
        config.market.as_ref().map(|part| Owner::new(part.config.clone()))
    }

    fn on_input(_: &mut Node, input: &InputOf<Self>, host: &mut dyn Host) {
        let said = match input {
            Input::Message { message: Message::ToOwner(said), .. } => said,
            Input::Command(Command::Forwarded { said, .. }) => said,
            _ => return,
        };
        if matches!(said, ToOwner::List(_) | ToOwner::Withdraw { .. } | ToOwner::Copy(_)) {
            host.event(NodeEvent::MarketChanged);
        }
    }

    fn on_note(node: &mut Node, note: &Note<'_>, _: &mut dyn Host) {
        match *note {
            Note::Down(_) | Note::Unreachable(_) => node.ended::<Self>(note),
            Note::Clock(ms) => node.tell::<Self>(Command::WallClock(ms)),
            Note::Me(me) => node.tell::<Self>(Command::Me(me)),
            Note::Learnt(_) => node.rules().into_iter().for_each(|it| node.tell::<Self>(Command::Rules(it))),
            Note::Keys(keys) => node.tell::<Self>(Command::Keys(keys.clone())),
            Note::Ring(ring::Event::Joined(member)) if member.ring != RingId::NODES => {
                node.tell::<Self>(Command::Joined(*member));
            }
            Note::Ring(ring::Event::Refused { member, .. }) if member.ring != RingId::NODES => {
                node.tell::<Self>(Command::Refused(*member));
            }
            Note::Ring(ring::Event::Left(member)) if member.ring != RingId::NODES => {
                node.tell::<Self>(Command::Left(*member));
            }
            _ => {}
        }
    }

    fn on_forwarded(node: &mut Node, sender: Sender, message: Message) {
        if let Message::ToOwner(said @ (ToOwner::List(_) | ToOwner::Withdraw { .. } | ToOwner::Alive(_))) =
            message
        {
            node.tell::<Self>(Command::Forwarded { sender, said });
        }
    }

    fn on_gone(node: &mut Node, guest: NodeId, by: NodeId) {
        node.tell::<Self>(Command::Gone { guest, by });
    }

    fn on_reply(node: &mut Node, number: u64, reply: Reply, _: &mut dyn Host) {
        if let Reply::Located(found) = reply {
            node.tell::<Self>(match found {
                Ok(found) => Command::Found { number, found },
                Err(_) => Command::NotFound { number },
            });
        }
    }

    fn on_event(node: &mut Node, event: Event, host: &mut dyn Host) {
        match event {
            Event::Lookup { number, ring, key } => {
                node.look_up(ServiceId::MarketOwner.ticket(number), ring, key, host);
            }
            Event::Join { member, via } => {
                let via = node.enter_by(&via, host);
                if let Some(me) = node.contact() {
                    node.tell::<Ring>(ring::Command::Join { member, me, via });
                }
            }
            Event::Leave(member) => node.tell::<Ring>(ring::Command::Leave(member)),
            Event::Know { ring, via } => node.know_ring(ring, &via, host),
        }
    }
}

impl Node {
    /// Markets that this node owns, or has copies of; none if its swarm has no markets.
    pub fn markets(&self) -> Option<OwnerView<'_>> {
        self.state::<Owner>().map(Owner::view)
    }

    /// The rules of its markets; none if its swarm has none.
    pub fn market_config(&self) -> Option<&MarketConfig> {
        self.config.market.as_ref().map(|part| &*part.config)
    }

    /// The rules of its markets, for a machine.
    pub(super) fn rules(&self) -> Option<std::sync::Arc<MarketConfig>> {
        self.config.market.as_ref().map(|part| part.config.clone())
    }
}
