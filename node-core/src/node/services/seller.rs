//! The seller of a node.

use crate::address::{Address, Dialable, Sender};
use crate::goods::{Goods, Kind};
use crate::ledger;
use crate::market::Message;
use crate::market::seller::{Command, Event, Seller};
use crate::node::Node;
use crate::node::config::Config;
use crate::node::host::{self, Host, NodeEvent};
use crate::node::notes::{Note, Reply};
use crate::node::table::Service;
use crate::overlay::guests::guest::{self, Guest};
use crate::overlay::signalling::Signalling;
use crate::ticket::ServiceId;
use crate::work::runner::{self, Runner};

#[derive(Default)]
pub(in crate::node) struct Stall {
    /// Slots that the donor sells; `spare`: how many are free for sale.
    goods: Option<Goods>,
    spare: u32,
}

impl Service for Seller {
    const ID: ServiceId = ServiceId::Seller;
    const NAME: &'static str = "seller";
    type Beside = Stall;

    fn open(config: &Config) -> Option<Self> {
        config.market.as_ref().map(|part| Seller::new(part.config.clone(), part.secret.clone()))
    }

    fn on_note(node: &mut Node, note: &Note<'_>, _: &mut dyn Host) {
        match *note {
            Note::Down(_) | Note::Unreachable(_) => node.ended::<Self>(note),
            Note::Clock(ms) => node.tell::<Self>(Command::WallClock(ms)),
            Note::Me(me) => node.tell::<Self>(Command::Me(Some(me.into()))),
            Note::Guest => node.tell::<Self>(Command::Me(None)),
            Note::Relay(_) | Note::Standing => {
                let channels = node.state::<Signalling>().is_some_and(Signalling::is_open);
                node.sell_as_guest(channels);
            }
            Note::Bank(bank) => node.tell::<Self>(Command::Bank(bank)),
            Note::Learnt(_) => node.rules().into_iter().for_each(|it| node.tell::<Self>(Command::Rules(it))),
            _ => {}
        }
    }

    fn on_command(node: &mut Node, command: host::Command, _: &mut dyn Host) {
        match command {
            host::Command::Sell(goods) => node.sell(goods),
            host::Command::Balance => node.ask_balance(),
            _ => {}
        }
    }

    fn on_reply(node: &mut Node, number: u64, reply: Reply, _: &mut dyn Host) {
        let owner = match reply {
            Reply::Located(found) => found.ok().map(|found| found.owner.contact),
            Reply::Owner(owner) => owner,
            _ => return,
        };
        node.tell::<Self>(match owner {
            Some(owner) => Command::Found { number, owner },
            None => Command::NotFound { number },
        });
    }

    fn on_forwarded(node: &mut Node, sender: Sender, message: Message) {
        // Others speak to a guest by way of its relay alone, which may have been another a moment ago.
        if let (Message::ToSeller(said), true) = (message, sender.by == node.relay()) {
            node.tell::<Self>(Command::Forwarded { sender, said });
        }
    }

    fn on_event(node: &mut Node, event: Event, host: &mut dyn Host) {
        match event {
            Event::Sold { buyer, kind, units, capacity, price, .. } => {
                if kind == Kind::Cycles {
                    node.tell::<Runner>(runner::Command::Sold { owner: buyer, slots: units.into(), price });
                }
                node.note(Note::Sold { kind, buyer, capacity }, host);
                host.event(NodeEvent::Sold { buyer, units, capacity, price });
            }
            Event::Lookup { number, ring, key } => {
                let ticket = ServiceId::Seller.ticket(number);
                // A guest's relay forwards only to nodes that it has looked up itself.
                match node.contact().is_some() {
                    true => node.look_up(ticket, ring, key, host),
                    false => node.tell::<Guest>(guest::Command::Locate { ticket, key }),
                }
            }
            // Its own records tell; it is tried again either way.
            Event::Listed { .. } | Event::Unlisted { .. } => host.event(NodeEvent::WorkChanged),
        }
    }
}

impl Node {
    /// Goods that this node sells now.
    pub fn selling(&self) -> impl Iterator<Item = Goods> + '_ {
        let seller = self.state::<Seller>();
        Kind::ALL.into_iter().filter_map(move |kind| seller?.sells(kind)).map(|(goods, _)| goods)
    }

    /// Whether a market has confirmed that slots of this node are listed there.
    pub fn is_listed(&self) -> bool {
        self.state::<Seller>().is_some_and(|seller| seller.listed_at(Kind::Cycles).is_some())
    }

    /// Sells as the guest of its relay: to others than its gateway, too, if it has `channels`, or if that passes on what
    /// they and this node write. Not before peers have found that they cannot dial it: those that they can are members
    /// in a moment, and are listed once.
    pub(super) fn sell_as_guest(&mut self, channels: bool) {
        if self.standing().dialable() == Dialable::No {
            let relay = self.relay_contact();
            let connects = channels || relay.is_some_and(|relay| self.has_circuits_by(relay.id));
            let me = relay.map(|relay| Address::guest(self.me, relay).with_channels(connects));
            self.tell::<Seller>(Command::Me(me));
        }
    }

    /// Sets the goods that the donor sells from now on. Slots are offered as far as they are free.
    fn sell(&mut self, goods: Goods) {
        if goods.kind != Kind::Cycles {
            return self.tell::<Seller>(Command::Offer(goods));
        }
        if let Some(stall) = self.beside_mut::<Seller>() {
            stall.goods = Some(goods);
            self.offer_slots(false);
        }
    }

    /// The runner has another number of slots that are free and promised to nobody.
    pub(super) fn of_spare(&mut self, spare: u32, at_once: bool) {
        if let Some(stall) = self.beside_mut::<Seller>() {
            stall.spare = spare;
            self.offer_slots(at_once);
        }
    }

    fn offer_slots(&mut self, at_once: bool) {
        let Some(stall) = self.beside::<Seller>() else { return };
        let Some(goods) = stall.goods else { return };
        let spare = u16::try_from(stall.spare).unwrap_or(u16::MAX);
        let goods = Goods { units: goods.units.min(spare), ..goods };
        self.tell::<Seller>(match at_once {
            true => Command::Offer(goods),
            false => Command::Have(goods),
        });
    }

    /// Asks what is on this node's account, by way of its relay.
    fn ask_balance(&mut self) {
        if let Some(part) = &self.config.market {
            let leave = ledger::may_read(&part.secret);
            self.tell::<Guest>(guest::Command::Balance(leave));
        }
    }
}
