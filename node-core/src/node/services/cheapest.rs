//! The finder that buys places for units of this node's jobs.

use crate::discovery::cheapest::{Cheapest, Command, Event};
use crate::finding::{Bought, Missed, Purchase};
use crate::ledger::client as purse;
use crate::market::buyer::{self, Buyer};
use crate::node::Node;
use crate::node::config::Config;
use crate::node::host::Host;
use crate::node::notes::Reply;
use crate::node::table::Service;
use crate::ticket::ServiceId;
use crate::wire::Framed;
use crate::work::owner::{self, Owner};

/// It speaks to nobody but the services of this node.
impl Framed for () {
    fn service(&self) -> ServiceId {
        ServiceId::Driver
    }
}

impl Service for Cheapest {
    const ID: ServiceId = ServiceId::Cheapest;
    const NAME: &'static str = "cheapest";
    type Beside = ();

    fn open(config: &Config) -> Option<Self> {
        (config.market.is_some() && config.bank.is_some()).then(Cheapest::default)
    }

    fn on_reply(node: &mut Node, number: u64, reply: Reply, _: &mut dyn Host) {
        node.tell::<Self>(match reply {
            Reply::Quoted { offers, shortage, .. } => Command::Quoted { number, offers, shortage },
            Reply::Taken(taken) => Command::Taken { ticket: number, taken },
            Reply::Ordered { outcome, receipt } => Command::Ordered { ticket: number, outcome, receipt },
            _ => return,
        });
    }

    fn on_event(node: &mut Node, event: Event, host: &mut dyn Host) {
        let ticket = |number| ServiceId::Cheapest.ticket(number);
        match event {
            Event::Quote { number, wanted } => {
                node.tell::<Buyer>(buyer::Command::Ask { ticket: ticket(number), wanted });
            }
            Event::Order { ticket: number, order } => {
                node.tell::<purse::Client>(purse::Command::Order { ticket: ticket(number), order });
            }
            Event::Buy { ticket: number, offer, receipt } => {
                node.tell::<Buyer>(buyer::Command::Take { ticket: ticket(number), offer, receipt });
            }
            Event::Bought(bought) => {
                if let Ok(slot) = &bought.place {
                    node.reach_for_now(&slot.seller, host);
                }
                node.tell::<Owner>(owner::Command::Bought(bought));
            }
        }
    }
}

impl Node {
    /// Buys places for units of this node's jobs.
    pub(super) fn purchase(&mut self, purchase: Purchase) {
        if self.has::<Cheapest>() {
            return self.tell::<Cheapest>(Command::Purchase(purchase));
        }
        for sale in purchase.sales {
            let why = "this swarm has no markets or no bank, so nothing can be bought; submit the job without \
                       `find = \"cheapest\"`";
            let bought = Bought { sale, place: Err(Missed { why: why.into(), named: false, held: false }) };
            self.tell::<Owner>(owner::Command::Bought(bought));
        }
    }
}
