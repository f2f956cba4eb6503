//! The seller of a node, among the other machines. A node that cannot be dialled sells by way of the gateway
//! that it has dialled, its host: all messages of its seller go there.

use super::Node;
use super::alarms::Part;
use super::config::MarketPart;
use super::host::{Host, NodeEvent};
use super::overlays;
use super::route;
use crate::address::Contact;
use crate::goods::Goods;
use crate::goods::Kind;
use crate::ids::NodeId;
use crate::ledger;
use crate::market::guest::{ToGuest, ToHost, Word};
use crate::market::seller::{self, Seller};
use crate::node::message::Message;
use crate::protocol::{Effect, Input, InputOf, Machine, Rng};
use crate::work::runner;

pub(super) struct Stall {
    pub(super) seller: Machine<Seller>,
    /// Node by way of which the seller sells; `None` if it sells by itself.
    host: Option<NodeId>,
    /// Slots that the donor sells; `spare`: how many are free for sale.
    goods: Option<Goods>,
    spare: u32,
}

impl Stall {
    pub(super) fn new(part: &MarketPart, seed: &[u8; 32]) -> Stall {
        let seller = Seller::new(part.config.clone(), part.secret.clone());
        Stall { seller: Machine::new(seller, Rng::fork(seed, "seller")), host: None, goods: None, spare: 0 }
    }
}

impl Node {
    /// Goods that this node sells now.
    pub fn selling(&self) -> impl Iterator<Item = Goods> + '_ {
        let seller = self.overlays.stall().map(|stall| stall.seller.state());
        Kind::ALL.into_iter().filter_map(move |kind| seller?.sells(kind)).map(|(goods, _)| goods)
    }

    /// Whether a market has confirmed that slots of this node are listed there.
    pub fn is_listed(&self) -> bool {
        let stall = self.overlays.stall();
        stall.is_some_and(|stall| stall.seller.state().listed_at(Kind::Cycles).is_some())
    }

    /// The gateway by way of which this node sells, if nobody can dial it.
    pub fn hosted_by(&self) -> Option<NodeId> {
        self.overlays.stall()?.host
    }

    pub(super) fn tell_seller(&mut self, command: seller::Command) {
        self.seller_step(Input::Command(command));
    }

    pub(super) fn seller_step(&mut self, input: InputOf<Seller>) {
        if self.overlays.stall().is_some() {
            self.steps.push_back(route::Step::Overlay(overlays::Step::Seller(input)));
        }
    }

    /// This is the swarm's bank: what is sold is sold to whom it holds credit for.
    pub(super) fn sell_by_receipts_of(&mut self, bank: NodeId) {
        self.push(route::Step::Runner, runner::Command::Bank(bank));
        self.tell_seller(seller::Command::Bank(bank));
    }

    /// Sets the goods that the donor sells from now on. Slots are offered as far as they are free.
    pub(super) fn sell(&mut self, goods: Goods) {
        let Some(stall) = self.overlays.stall_mut() else { return };
        if goods.kind != Kind::Cycles {
            return self.tell_seller(seller::Command::Offer(goods));
        }
        stall.goods = Some(goods);
        self.offer_slots(false);
    }

    /// So many slots are free, and promised to nobody.
    pub(super) fn of_spare(&mut self, spare: u32, at_once: bool) {
        let Some(stall) = self.overlays.stall_mut() else { return };
        stall.spare = spare;
        self.offer_slots(at_once);
    }

    fn offer_slots(&mut self, at_once: bool) {
        let Some(stall) = self.overlays.stall() else { return };
        let Some(goods) = stall.goods else { return };
        let spare = u16::try_from(stall.spare).unwrap_or(u16::MAX);
        let goods = Goods { units: goods.units.min(spare), ..goods };
        self.tell_seller(match at_once {
            true => seller::Command::Offer(goods),
            false => seller::Command::Have(goods),
        });
    }

    pub(super) fn seller_input(&mut self, input: InputOf<Seller>, host: &mut impl Host) {
        let (now, me) = (self.now, self.me);
        let Some(stall) = self.overlays.stall_mut() else { return };
        let (effects, by) = (stall.seller.step(me, now, input), stall.host);
        self.alarms.set(Part::Overlays, self.overlays.deadline());
        let Some(by) = by else { return self.follow_seller(effects, host) };
        for effect in effects {
            match effect {
                Effect::Send { to, message } => {
                    if let Some(word) = Word::of(message) {
                        self.tell_host(by, ToHost::Say { to, word }, host);
                    }
                }
                Effect::Emit(seller::Event::Lookup { number, key, .. }) => {
                    self.tell_host(by, ToHost::Locate { number, key }, host);
                }
                Effect::Emit(event) => self.of_seller(event, host),
                Effect::Fault { peer, fault } => self.fault(peer, fault, host),
                Effect::Trouble(what) => host.event(NodeEvent::Trouble { what }),
                // The host does.
                Effect::Reach(_) | Effect::Hold(_) | Effect::Release(_) => {}
            }
        }
    }

    fn tell_host(&mut self, to: NodeId, message: ToHost, host: &mut impl Host) {
        self.send(to, Message::ToHost(message), host);
    }

    pub(super) fn of_seller(&mut self, event: seller::Event, host: &mut impl Host) {
        use seller::Event;
        match event {
            Event::Sold { buyer, kind, units, capacity, price, .. } => {
                if kind == Kind::Cycles {
                    let sold = runner::Command::Sold { owner: buyer, slots: units.into(), price };
                    self.push(route::Step::Runner, sold);
                }
                self.space_sold(kind, buyer, capacity);
                host.event(NodeEvent::Sold { buyer, units, capacity, price });
            }
            Event::Lookup { number, ring, key } => self.seller_looks_up(number, ring, key),
            // Its own records tell; it is tried again either way.
            Event::Listed { .. } | Event::Unlisted { .. } => host.event(NodeEvent::WorkChanged),
        }
    }

    /// From the gateway by way of which this node sells, or will.
    pub(super) fn heard_as_guest(&mut self, from: NodeId, message: ToGuest, host: &mut impl Host) {
        let can_be_dialled = self.contact().is_some();
        let Some(stall) = self.overlays.stall_mut().filter(|_| !can_be_dialled) else { return };
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
                self.tell_seller(seller::Command::Hosted { at, scheme });
                host.event(NodeEvent::WorkChanged);
            }
            ToGuest::Owner { number, owner: Some(owner) } => {
                self.tell_seller(seller::Command::Found { number, owner });
            }
            ToGuest::Owner { number, owner: None } => self.tell_seller(seller::Command::NotFound { number }),
            ToGuest::Heard { from, what } => {
                let message = crate::market::Message::ToSeller(what);
                self.seller_step(Input::Message { from, message });
            }
            ToGuest::Balance(balance) => host.event(NodeEvent::Balance(balance)),
        }
    }

    /// Others can dial this node: it needs nobody to sell by way of.
    #[cfg(feature = "roles")]
    pub(super) fn sell_for_oneself(&mut self) {
        let Some(stall) = self.overlays.stall_mut() else { return };
        if stall.host.take().is_some() {
            self.tell_seller(seller::Command::Alone);
        }
    }

    /// A peer is gone.
    pub(super) fn host_lost(&mut self, peer: NodeId) {
        let Some(stall) = self.overlays.stall_mut() else { return };
        if stall.host == Some(peer) {
            stall.host = None;
            self.tell_seller(seller::Command::Alone);
        }
    }

    /// Asks what is on this node's account, by way of its host.
    pub(super) fn ask_balance(&mut self, host: &mut impl Host) {
        let (Some(part), Some(by)) = (&self.config.market, self.hosted_by()) else { return };
        let leave = ledger::may_read(&part.secret);
        self.tell_host(by, ToHost::Balance(leave), host);
    }
}
