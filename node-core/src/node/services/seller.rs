//! The seller of a node. A node that cannot be dialled sells by way of the gateway that it has dialled, its
//! host: all messages of its seller go there.

use crate::address::Contact;
use crate::goods::{Goods, Kind};
use crate::ids::NodeId;
use crate::ledger;
use crate::market::Message;
use crate::market::guest::{self, AtSeller, ToGuest, ToHost, Word};
use crate::market::seller::{Command, Event, Seller};
use crate::node::Node;
use crate::node::config::Config;
use crate::node::host::{self, Host, NodeEvent};
use crate::node::notes::{Note, Reply};
use crate::node::table::Service;
use crate::protocol::{Effect, Input};
use crate::ticket::ServiceId;
use crate::wire::{self, WireError};
use crate::work::runner::{self, Runner};

#[derive(Default)]
pub(in crate::node) struct Stall {
    /// Node by way of which the seller sells; `None` if it sells by itself.
    host: Option<NodeId>,
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
            Note::Down(peer) | Note::Unreachable(peer) => {
                node.ended::<Self>(note);
                node.without_host(|host| host == peer);
            }
            Note::Clock(ms) => node.tell::<Self>(Command::WallClock(ms)),
            // Others can dial this node: it needs nobody to sell by way of.
            Note::Me(me) => {
                node.without_host(|_| true);
                node.tell::<Self>(Command::Me(me));
            }
            // Its host will welcome it.
            Note::Guest => node.tell::<Self>(Command::Alone),
            Note::Bank(bank) => node.tell::<Self>(Command::Bank(bank)),
            Note::Learnt(_) => node.rules().into_iter().for_each(|it| node.tell::<Self>(Command::Rules(it))),
            _ => {}
        }
    }

    fn on_command(node: &mut Node, command: host::Command, host: &mut dyn Host) {
        match command {
            host::Command::Sell(goods) => node.sell(goods),
            host::Command::Balance => node.ask_balance(host),
            _ => {}
        }
    }

    fn on_reply(node: &mut Node, number: u64, reply: Reply, _: &mut dyn Host) {
        if let Reply::Located(found) = reply {
            node.tell::<Self>(match found {
                Ok(found) => Command::Found { number, owner: found.owner.contact },
                Err(_) => Command::NotFound { number },
            });
        }
    }

    fn receive(node: &mut Node, from: NodeId, body: &[u8], host: &mut dyn Host) -> Result<(), WireError> {
        match wire::read(body)? {
            AtSeller::ToSeller(what) => Self::deliver(node, from, Message::ToSeller(what), host),
            AtSeller::ToGuest(what) => node.heard_as_guest(from, what, host),
        }
        Ok(())
    }

    /// Without a host the seller speaks for itself.
    fn follow(node: &mut Node, effects: Vec<Effect<Self>>, host: &mut dyn Host) {
        let Some(by) = node.hosted_by() else { return node.follow(effects, host) };
        for effect in effects {
            match effect {
                Effect::Send { to, message } => {
                    if let Some(word) = Word::of(message) {
                        node.tell_host(by, ToHost::Say { to, word }, host);
                    }
                }
                Effect::Emit(Event::Lookup { number, key, .. }) => {
                    node.tell_host(by, ToHost::Locate { number, key }, host);
                }
                Effect::Emit(event) => Self::on_event(node, event, host),
                Effect::Fault { peer, fault } => node.fault(peer, fault, host),
                Effect::Trouble(what) => host.event(NodeEvent::Trouble { what }),
                // The host does.
                Effect::Reach(_) | Effect::Hold(_) | Effect::Release(_) => {}
            }
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
                node.look_up(ServiceId::Seller.ticket(number), ring, key, host);
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

    /// The gateway by way of which this node sells, if nobody can dial it.
    pub fn hosted_by(&self) -> Option<NodeId> {
        self.beside::<Seller>()?.host
    }

    fn without_host(&mut self, gone: impl FnOnce(NodeId) -> bool) {
        let Some(stall) = self.beside_mut::<Seller>() else { return };
        if stall.host.take_if(|host| gone(*host)).is_some() {
            self.tell::<Seller>(Command::Alone);
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

    fn tell_host(&mut self, to: NodeId, message: ToHost, host: &mut dyn Host) {
        self.send(to, guest::Message::ToHost(message), host);
    }

    /// From the gateway by way of which this node sells, or will.
    fn heard_as_guest(&mut self, from: NodeId, message: ToGuest, host: &mut dyn Host) {
        let can_be_dialled = self.contact().is_some();
        let Some(stall) = self.beside_mut::<Seller>().filter(|_| !can_be_dialled) else { return };
        if let (ToGuest::Host { .. }, None) = (&message, stall.host) {
            stall.host = Some(from);
        }
        if stall.host != Some(from) {
            return;
        }
        match message {
            // It speaks for the address that it has itself.
            ToGuest::Host { at, scheme } => {
                let at = Contact { id: from, ..at };
                self.tell::<Seller>(Command::Hosted { at, scheme });
                host.event(NodeEvent::WorkChanged);
            }
            ToGuest::Owner { number, owner: Some(owner) } => {
                self.tell::<Seller>(Command::Found { number, owner });
            }
            ToGuest::Owner { number, owner: None } => self.tell::<Seller>(Command::NotFound { number }),
            ToGuest::Heard { from, what } => {
                self.give::<Seller>(Input::Message { from, message: Message::ToSeller(what) });
            }
            ToGuest::Balance(balance) => host.event(NodeEvent::Balance(balance)),
        }
    }

    /// Asks what is on this node's account, by way of its host.
    fn ask_balance(&mut self, host: &mut dyn Host) {
        let (Some(part), Some(by)) = (&self.config.market, self.hosted_by()) else { return };
        let leave = ledger::may_read(&part.secret);
        self.tell_host(by, ToHost::Balance(leave), host);
    }
}
