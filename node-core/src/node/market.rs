//! Markets among the other machines: a node owns some and buys; what it sells is in `stall`. They look things up on the
//! ring and have members on rings of their own; the ring knows nothing of them.

use super::Node;
use super::alarms::Part;
use super::config::MarketPart;
use super::host::{Host, NodeEvent};
use super::overlays;
use super::route;
use super::stall::Stall;
use crate::discovery::cheapest::{self, Cheapest};
use crate::discovery::{Bought, Missed, Purchase};
use crate::ids::NodeId;
use crate::market::MarketConfig;
use crate::market::buyer::{self, Buyer, Doubt, Seen, Walked};
use crate::market::commodity::Kind;
use crate::market::host::{self as hosting, Host as Hosting};
use crate::market::owner::{self, Owner, OwnerView};
use crate::market::seller;
use crate::overlay::contact::Contact;
use crate::overlay::ring::{self, Located, Mode, Point, RingId};
use crate::protocol::{Effect, Input, InputOf, Machine, Rng};
use crate::time::Time;
use crate::wire::Message;
use crate::work::owner as owner_of_jobs;

/// Whose lookup a number is; the two highest bits. None of them: the driver's.
const OF_OWNER: u64 = 1 << 62;
const OF_SELLER: u64 = 2 << 62;
const OF_BUYER: u64 = 3 << 62;
/// Beside [`OF_SELLER`]: of a guest.
const OF_GUEST: u64 = OF_SELLER | 1 << 60;
const WHO: u64 = 3 << 62;

/// A question or a purchase of the finder's. Those of files have the next bit; else it is the driver's.
const OF_FINDER: u64 = 1 << 63;

/// A node's part of all markets, if its swarm has some.
pub(super) struct Trade {
    owner: Machine<Owner>,
    pub(super) stall: Stall,
    /// A gateway sells for those whom nobody can dial.
    pub(super) hosting: Machine<Hosting>,
    buyer: Machine<Buyer>,
    /// Buys for the jobs of this node.
    cheapest: Machine<Cheapest>,
}

#[derive(Debug)]
pub(super) enum Step {
    Owner(InputOf<Owner>),
    Buyer(InputOf<Buyer>),
    Cheapest(InputOf<Cheapest>),
}

impl Step {
    pub(super) fn machine(&self) -> &'static str {
        match self {
            Step::Owner(_) => "market owner",
            Step::Buyer(_) => "buyer",
            Step::Cheapest(_) => "finder in the markets",
        }
    }
}

impl Trade {
    pub(super) fn new(part: &MarketPart, seed: &[u8; 32]) -> Box<Trade> {
        let rng = |part| Rng::fork(seed, part);
        let config = || part.config.clone();
        Box::new(Trade {
            owner: Machine::new(Owner::new(config()), rng("market owner")),
            stall: Stall::new(part, seed),
            hosting: Machine::new(Hosting::new(config()), rng("hosting")),
            buyer: Machine::new(Buyer::new(config()), rng("buyer")),
            cheapest: Machine::new(Cheapest::default(), rng("cheapest")),
        })
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        let finder = self.cheapest.deadline();
        let all = [self.owner.deadline(), self.stall.seller.deadline(), self.buyer.deadline(), finder];
        all.into_iter().flatten().min()
    }

    pub(super) fn due(&mut self, now: Time) -> Option<overlays::Step> {
        let market = overlays::Step::Market;
        let seller = self.stall.seller.due(now).map(|t| overlays::Step::Seller(Input::Timer(t)));
        // Who is asked gives its timer away, so each only when those before it had none.
        seller
            .or_else(|| self.owner.due(now).map(|t| market(Step::Owner(Input::Timer(t)))))
            .or_else(|| self.buyer.due(now).map(|t| market(Step::Buyer(Input::Timer(t)))))
            .or_else(|| self.cheapest.due(now).map(|t| market(Step::Cheapest(Input::Timer(t)))))
    }
}

impl Node {
    /// Markets that this node owns, or has copies of; none if its swarm has no markets.
    pub fn markets(&self) -> Option<OwnerView<'_>> {
        self.overlays.trade.as_ref().map(|trade| trade.owner.state().view())
    }

    /// The rules of its markets; none if its swarm has none.
    pub fn market_config(&self) -> Option<&MarketConfig> {
        self.config.market.as_ref().map(|part| &*part.config)
    }

    /// What was seen of markets that this node has not itself, by [`Command::LookAround`].
    ///
    /// [`Command::LookAround`]: super::host::Command::LookAround
    pub fn seen_markets(&self, now: Time) -> impl Iterator<Item = Seen<'_>> {
        self.overlays.trade.iter().flat_map(move |trade| trade.buyer.state().seen(now))
    }

    pub fn walked(&self, kind: Kind) -> Option<Walked> {
        self.overlays.trade.as_ref()?.buyer.state().walked(kind)
    }

    fn trade(&mut self, step: Step) {
        if self.overlays.trade.is_some() {
            self.steps.push_back(route::Step::Overlay(overlays::Step::Market(step)));
        }
    }

    fn tell_owner(&mut self, command: owner::Command) {
        self.trade(Step::Owner(Input::Command(command)));
    }

    pub(super) fn tell_buyer(&mut self, command: buyer::Command) {
        self.trade(Step::Buyer(Input::Command(command)));
    }

    pub(super) fn market_clock(&mut self, ms: u64) {
        self.tell_owner(owner::Command::WallClock(ms));
        self.tell_seller(seller::Command::WallClock(ms));
        self.tell_buyer(buyer::Command::WallClock(ms));
    }

    /// The swarm's rules have become known.
    pub(super) fn market_learnt(&mut self) {
        let Some(config) = self.config.market.as_ref().map(|part| part.config.clone()) else { return };
        self.tell_owner(owner::Command::Rules(config.clone()));
        self.tell_seller(seller::Command::Rules(config.clone()));
        self.tell_buyer(buyer::Command::Rules(config.clone()));
        self.tell_hosting(hosting::Command::Rules(config));
    }

    pub(super) fn market_me(&mut self, me: Contact) {
        self.tell_owner(owner::Command::Me(me));
        self.tell_seller(seller::Command::Me(me));
        self.tell_hosting(hosting::Command::Me(me));
    }

    pub(super) fn market_lost(&mut self, peer: NodeId) {
        self.trade(Step::Owner(Input::Down(peer)));
        self.seller_step(Input::Down(peer));
        self.trade(Step::Buyer(Input::Down(peer)));
        self.hosting_lost(peer);
        self.host_lost(peer);
    }

    pub(super) fn tell_cheapest(&mut self, command: cheapest::Command) {
        self.trade(Step::Cheapest(Input::Command(command)));
    }

    /// Buys places for units of this node's jobs.
    pub(super) fn purchase(&mut self, purchase: Purchase) {
        if self.overlays.trade.is_some() && self.money.is_some() {
            return self.tell_cheapest(cheapest::Command::Purchase(purchase));
        }
        for sale in purchase.sales {
            let why = "this swarm has no markets or no bank, so nothing can be bought; submit the job without \
                       `find = \"cheapest\"`";
            let bought = Bought { sale, place: Err(Missed { why: why.into(), named: false }) };
            self.push(route::Step::Owner, owner_of_jobs::Command::Bought(bought));
        }
    }

    pub(super) fn market_message(&mut self, from: NodeId, message: crate::market::Message) {
        use crate::market::Message;
        match message {
            Message::ToOwner(_) | Message::OfGuest { .. } => {
                self.trade(Step::Owner(Input::Message { from, message }));
            }
            Message::ToSeller(_) => self.seller_step(Input::Message { from, message }),
            Message::ToBuyer(_) => self.trade(Step::Buyer(Input::Message { from, message })),
            Message::ForGuest { guest, what } => {
                self.tell_hosting(hosting::Command::ForGuest { from, guest, what: *what });
            }
        }
    }

    pub(super) fn market_step(&mut self, step: Step, host: &mut impl Host) {
        let (now, me) = (self.now, self.me);
        let Some(trade) = &mut self.overlays.trade else { return };
        match step {
            Step::Owner(input) => {
                use crate::market::{Message::ToOwner, ToOwner as Said};
                let told =
                    |said: &Said| matches!(said, Said::List(_) | Said::Withdraw { .. } | Said::Copy(_));
                if matches!(&input, Input::Message { message: ToOwner(said), .. } if told(said)) {
                    host.event(NodeEvent::MarketChanged);
                }
                for effect in trade.owner.step(me, now, input) {
                    match effect {
                        Effect::Send { to, message } => self.send(to, Message::Market(message), host),
                        Effect::Emit(event) => self.of_market_owner(event, host),
                    }
                }
            }
            Step::Buyer(input) => {
                for effect in trade.buyer.step(me, now, input) {
                    match effect {
                        Effect::Send { to, message } => self.send(to, Message::Market(message), host),
                        Effect::Emit(event) => self.of_buyer(event, host),
                    }
                }
            }
            Step::Cheapest(input) => {
                for effect in trade.cheapest.step(me, now, input) {
                    if let Effect::Emit(event) = effect {
                        self.of_cheapest(event, host);
                    }
                }
            }
        }
        self.alarms.set(Part::Overlays, self.overlays.deadline());
    }

    fn market_lookup(&mut self, number: u64, ring: RingId, key: Point) {
        let mode = Mode::Recursive;
        self.ring_command(ring::Command::Lookup { number, ring, key, mode });
    }

    pub(super) fn seller_looks_up(&mut self, number: u64, ring: RingId, key: Point) {
        self.market_lookup(OF_SELLER | number, ring, key);
    }

    pub(super) fn seller_says(&mut self, to: NodeId, message: crate::market::Message, host: &mut impl Host) {
        self.send(to, Message::Market(message), host);
    }

    pub(super) fn guest_looks_up(&mut self, number: u64, key: Point) {
        self.market_lookup(OF_GUEST | number, RingId::NODES, key);
    }

    fn market_via(&mut self, ring: RingId, via: &[Contact]) {
        let via = via.iter().map(|contact| contact.id).collect();
        self.ring_command(ring::Command::Know { ring, via, anchors: false });
    }

    fn of_market_owner(&mut self, event: owner::Event, host: &mut impl Host) {
        use owner::Event;
        match event {
            Event::Reach(contact) => self.reach(contact, true, host),
            Event::Lookup { number, ring, key } => self.market_lookup(OF_OWNER | number, ring, key),
            Event::Join { member, via } => {
                let via = via.iter().map(|contact| contact.id).collect();
                self.join_market(member, via);
            }
            Event::Leave(member) => self.ring_command(ring::Command::Leave(member)),
            Event::Know { ring, via } => self.market_via(ring, &via),
            Event::Fault { peer, fault } => self.fault(peer, fault, host),
        }
    }

    fn of_buyer(&mut self, event: buyer::Event, host: &mut impl Host) {
        use buyer::Event;
        let Some(event) = self.space_bought(event) else { return };
        match event {
            Event::Reach(contact) => self.reach(contact, true, host),
            Event::Lookup { number, ring, key } => self.market_lookup(OF_BUYER | number, ring, key),
            Event::Know { ring, via } => self.market_via(ring, &via),
            Event::Found { number, offers, shortage, .. } if number & OF_FINDER != 0 => {
                let number = number & !OF_FINDER;
                self.tell_cheapest(cheapest::Command::Quoted { number, offers, shortage });
            }
            Event::Taken { number } if number & OF_FINDER != 0 => {
                let ticket = number & !OF_FINDER;
                self.tell_cheapest(cheapest::Command::Taken { ticket, taken: true });
            }
            Event::Gone { number } if number & OF_FINDER != 0 => {
                let ticket = number & !OF_FINDER;
                self.tell_cheapest(cheapest::Command::Taken { ticket, taken: false });
            }
            Event::Found { number, offers, shortage, hops, .. } => {
                host.event(NodeEvent::Quoted { number, offers, shortage, hops });
            }
            Event::Taken { number } => host.event(NodeEvent::Bought { number, taken: true }),
            Event::Gone { number } => host.event(NodeEvent::Bought { number, taken: false }),
            Event::Looked => host.event(NodeEvent::MarketChanged),
            Event::Doubted { owner, why } => match why {
                Doubt::Wrong(what) => self.fault(owner, format!("answered for a market: {what}"), host),
                Doubt::Omitted { seller, .. } => {
                    let fault = format!("left {} out, which sells for less", seller.short());
                    self.fault(owner, fault, host);
                }
                // Now and then that is a ring that moves.
                Doubt::Usurper => {}
            },
        }
    }

    fn of_cheapest(&mut self, event: cheapest::Event, host: &mut impl Host) {
        use cheapest::Event;
        match event {
            Event::Quote { number, wanted } => {
                self.tell_buyer(buyer::Command::Ask { number: OF_FINDER | number, wanted });
            }
            Event::Order { ticket, order } => self.order_of_finder(ticket, order),
            Event::Buy { ticket, offer } => {
                self.tell_buyer(buyer::Command::Take { number: OF_FINDER | ticket, offer });
            }
            Event::Bought(bought) => {
                if let Ok(bargain) = &bought.place {
                    self.reach(bargain.seller, true, host);
                }
                self.push(route::Step::Owner, owner_of_jobs::Command::Bought(bought));
            }
        }
    }

    /// What the ring says of this node's places, for its markets.
    pub(super) fn ring_told(&mut self, event: &ring::Event) {
        use ring::Event;
        if self.overlays.trade.is_none() {
            return;
        }
        let command = match event {
            Event::Gained { member, range, from } if member.ring == RingId::NODES => {
                owner::Command::Gained { range: *range, from: *from }
            }
            Event::Lost { member, range, to } if member.ring == RingId::NODES => {
                owner::Command::Lost { range: *range, to: *to }
            }
            Event::Successors { member, list } if member.ring == RingId::NODES => {
                owner::Command::Successors(list.iter().map(|peer| peer.contact).collect())
            }
            Event::Joined(member) if member.ring != RingId::NODES => owner::Command::Joined(*member),
            Event::Refused { member, .. } if member.ring != RingId::NODES => owner::Command::Refused(*member),
            Event::Left(member) if member.ring != RingId::NODES => owner::Command::Left(*member),
            _ => return,
        };
        self.tell_owner(command);
    }

    /// A lookup has ended. Whether it was one of a market's.
    pub(super) fn located(&mut self, number: u64, found: Option<&Located>) -> bool {
        let (who, number, found) = (number & WHO, number & !WHO, found.cloned());
        match who {
            OF_OWNER => self.tell_owner(match found {
                Some(found) => owner::Command::Found { number, found },
                None => owner::Command::NotFound { number },
            }),
            OF_SELLER if number & OF_GUEST != 0 => {
                let (number, owner) = (number & !OF_GUEST, found.map(|found| found.owner.contact));
                self.tell_hosting(hosting::Command::Found { number, owner });
            }
            OF_SELLER => self.tell_seller(match found {
                Some(found) => seller::Command::Found { number, owner: found.owner.contact },
                None => seller::Command::NotFound { number },
            }),
            OF_BUYER => self.tell_buyer(match found {
                Some(found) => buyer::Command::Found { number, found },
                None => buyer::Command::NotFound { number },
            }),
            _ => return false,
        }
        true
    }
}
