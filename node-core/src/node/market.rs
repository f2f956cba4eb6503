//! Markets among the other machines: a node owns some and buys; what it sells is in `stall`. They look things up on the
//! ring and have members on rings of their own; the ring knows nothing of them.

use super::Node;
use super::alarms::Part;
use super::config::MarketPart;
use super::host::{Host, NodeEvent};
use super::overlays;
use super::route;
use super::stall::Stall;
use crate::address::Contact;
use crate::circle::{Located, Point, RingId};
use crate::discovery::cheapest::{self, Cheapest};
use crate::files;
use crate::finding::{Bought, Missed, Purchase};
use crate::goods::Kind;
use crate::ids::NodeId;
use crate::market::MarketConfig;
use crate::market::buyer::{self, Buyer, Doubt, Seen, Walked};
use crate::market::host::{self as hosting, Host as Hosting};
use crate::market::owner::{self, Owner, OwnerView};
use crate::market::seller::{self, Seller};
use crate::node::message::Message;
use crate::overlay::ring;
use crate::protocol::{Effect, Input, InputOf, Machine, Rng};
use crate::ticket::{ServiceId, Ticket};
use crate::time::Time;
use crate::work::owner as owner_of_jobs;

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
        // `due()` pops a timer: ask each machine only after the ones before it returned `None`, or a timer due
        // at the same instant is lost.
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

    /// Markets of other nodes that [`Command::LookAround`] has seen.
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
                let effects = trade.owner.step(me, now, input);
                self.follow(ServiceId::MarketOwner, effects, Message::Market, Node::of_market_owner, host);
            }
            Step::Buyer(input) => {
                let effects = trade.buyer.step(me, now, input);
                self.follow(ServiceId::Buyer, effects, Message::Market, Node::of_buyer, host);
            }
            Step::Cheapest(input) => {
                for effect in trade.cheapest.step(me, now, input) {
                    // It speaks to nobody but the machines of this node.
                    if let Effect::Emit(event) = effect {
                        self.of_cheapest(event, host);
                    }
                }
            }
        }
        self.alarms.set(Part::Overlays, self.overlays.deadline());
    }

    pub(super) fn seller_looks_up(&mut self, number: u64, ring: RingId, key: Point) {
        self.look_up(ServiceId::Seller.ticket(number), ring, key);
    }

    /// Without a host the seller speaks for itself.
    pub(super) fn follow_seller(&mut self, effects: Vec<Effect<Seller>>, host: &mut impl Host) {
        self.follow(ServiceId::Seller, effects, Message::Market, Node::of_seller, host);
    }

    pub(super) fn guest_looks_up(&mut self, number: u64, key: Point) {
        self.look_up(ServiceId::Hosting.ticket(number), RingId::NODES, key);
    }

    fn market_via(&mut self, ring: RingId, via: &[Contact]) {
        let via = via.iter().map(|contact| contact.id).collect();
        self.ring_command(ring::Command::Know { ring, via, anchors: false });
    }

    fn of_market_owner(&mut self, event: owner::Event, _: &mut impl Host) {
        use owner::Event;
        match event {
            Event::Lookup { number, ring, key } => {
                self.look_up(ServiceId::MarketOwner.ticket(number), ring, key)
            }
            Event::Join { member, via } => {
                let via = via.iter().map(|contact| contact.id).collect();
                self.join_market(member, via);
            }
            Event::Leave(member) => self.ring_command(ring::Command::Leave(member)),
            Event::Know { ring, via } => self.market_via(ring, &via),
        }
    }

    fn of_buyer(&mut self, event: buyer::Event, host: &mut impl Host) {
        use buyer::Event;
        match event {
            Event::Lookup { number, ring, key } => self.look_up(ServiceId::Buyer.ticket(number), ring, key),
            Event::Know { ring, via } => self.market_via(ring, &via),
            Event::Found { ticket: Ticket { of, number }, offers, shortage, hops, .. } => match of {
                ServiceId::Cheapest => {
                    self.tell_cheapest(cheapest::Command::Quoted { number, offers, shortage });
                }
                ServiceId::Files => self.space_offered(number, offers, shortage),
                _ => host.event(NodeEvent::Quoted { number, offers, shortage, hops }),
            },
            Event::Taken { ticket } => self.bought(ticket, true, host),
            Event::Gone { ticket } => self.bought(ticket, false, host),
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
                self.tell_buyer(buyer::Command::Ask { ticket: ServiceId::Cheapest.ticket(number), wanted });
            }
            Event::Order { ticket, order } => self.order_of_finder(ticket, order),
            Event::Buy { ticket, offer, receipt } => {
                let ticket = ServiceId::Cheapest.ticket(ticket);
                self.tell_buyer(buyer::Command::Take { ticket, offer, receipt });
            }
            Event::Bought(bought) => {
                if let Ok(bargain) = &bought.place {
                    self.reach(bargain.seller, true, host);
                }
                self.push(route::Step::Owner, owner_of_jobs::Command::Bought(bought));
            }
        }
    }

    /// Passes changes of this node's places on the ring to its markets.
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

    /// A seller has sold what was asked for, or has not.
    fn bought(&mut self, ticket: Ticket, taken: bool, host: &mut impl Host) {
        let Ticket { of, number } = ticket;
        match of {
            ServiceId::Cheapest => self.tell_cheapest(cheapest::Command::Taken { ticket: number, taken }),
            ServiceId::Files => self.tell_files(files::owner::Command::Taken { number, taken }),
            _ => host.event(NodeEvent::Bought { number, taken }),
        }
    }

    /// A lookup of a machine of the markets has ended.
    pub(super) fn market_located(&mut self, of: ServiceId, number: u64, found: Option<Located>) {
        match of {
            ServiceId::MarketOwner => self.tell_owner(match found {
                Some(found) => owner::Command::Found { number, found },
                None => owner::Command::NotFound { number },
            }),
            ServiceId::Hosting => {
                let owner = found.map(|found| found.owner.contact);
                self.tell_hosting(hosting::Command::Found { number, owner });
            }
            ServiceId::Seller => self.tell_seller(match found {
                Some(found) => seller::Command::Found { number, owner: found.owner.contact },
                None => seller::Command::NotFound { number },
            }),
            _ => self.tell_buyer(match found {
                Some(found) => buyer::Command::Found { number, found },
                None => buyer::Command::NotFound { number },
            }),
        }
    }
}
