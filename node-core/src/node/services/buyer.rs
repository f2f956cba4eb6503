//! Buys in the markets, for other services and for the driver.

use crate::address::Sender;
use crate::goods::Kind;
use crate::ids::NodeId;
use crate::market::buyer::{Buyer, Command, Doubt, Event, Seen, Walked};
use crate::market::{Message, ToBuyer};
use crate::node::Node;
use crate::node::config::Config;
use crate::node::host::{self, Host, NodeEvent};
use crate::node::notes::{Note, Reply};
use crate::node::table::Service;
use crate::ticket::ServiceId;
use crate::time::Time;

impl Service for Buyer {
    const ID: ServiceId = ServiceId::Buyer;
    const NAME: &'static str = "buyer";
    type Beside = ();

    fn open(config: &Config) -> Option<Self> {
        config.market.as_ref().map(|part| Buyer::new(part.config.clone()))
    }

    fn on_note(node: &mut Node, note: &Note<'_>, _: &mut dyn Host) {
        match *note {
            Note::Down(_) | Note::Unreachable(_) => node.ended::<Self>(note),
            Note::Clock(ms) => node.tell::<Self>(Command::WallClock(ms)),
            Note::Learnt(_) => node.rules().into_iter().for_each(|it| node.tell::<Self>(Command::Rules(it))),
            _ => {}
        }
    }

    fn on_forwarded(node: &mut Node, sender: Sender, message: Message) {
        if let Message::ToBuyer(said @ (ToBuyer::Alive(_) | ToBuyer::Taken { .. } | ToBuyer::Gone { .. })) =
            message
        {
            node.tell::<Self>(Command::Forwarded { sender, said });
        }
    }

    fn on_gone(node: &mut Node, guest: NodeId, by: NodeId) {
        node.tell::<Self>(Command::Gone { guest, by });
    }

    fn on_command(node: &mut Node, command: host::Command, _: &mut dyn Host) {
        let ticket = |number| ServiceId::Driver.ticket(number);
        node.tell::<Self>(match command {
            host::Command::Quote { number, wanted } => Command::Ask { ticket: ticket(number), wanted },
            host::Command::LookAround => Command::Look,
            host::Command::Buy { number, offer } => {
                Command::Take { ticket: ticket(number), offer, receipt: None }
            }
            _ => return,
        });
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
                node.look_up(ServiceId::Buyer.ticket(number), ring, key, host);
            }
            Event::Know { ring, via } => node.know_ring(ring, &via, host),
            Event::Found { ticket, offers, shortage, hops, .. } => {
                node.answer(ticket, Reply::Quoted { offers, shortage, hops }, host);
            }
            Event::Taken { ticket } => node.answer(ticket, Reply::Taken(true), host),
            Event::Gone { ticket } => node.answer(ticket, Reply::Taken(false), host),
            Event::Looked => host.event(NodeEvent::MarketChanged),
            Event::Doubted { owner, why } => match why {
                Doubt::Wrong(what) => node.fault(owner, format!("answered for a market: {what}"), host),
                Doubt::Omitted { seller, .. } => {
                    let fault = format!("left {} out, which sells for less", seller.short());
                    node.fault(owner, fault, host);
                }
                // Now and then that is a ring that moves.
                Doubt::Usurper => {}
            },
        }
    }
}

impl Node {
    /// Markets of other nodes that [`host::Command::LookAround`] has seen.
    pub fn seen_markets(&self, now: Time) -> impl Iterator<Item = Seen<'_>> {
        self.state::<Buyer>().into_iter().flat_map(move |buyer| buyer.seen(now))
    }

    pub fn walked(&self, kind: Kind) -> Option<Walked> {
        self.state::<Buyer>()?.walked(kind)
    }
}
