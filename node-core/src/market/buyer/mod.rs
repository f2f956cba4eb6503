//! The buyer (paper `market`, section IV-A): finds who sells what a unit needs, at the price that the rule
//! gives, and checks what market operators say.
//!
//! | file | what it knows |
//! |---|---|
//! | `search` | one search: all markets that may have what is wanted say what it costs there |
//! | `choose` | who sells, of all of them, and at which price |
//! | `verify` | whether an answer is what the rule gives for what sellers signed |
//! | `sample` | now and then: what another copy of the market says, and whether something was hidden |
//! | `walk` | while somebody looks: from market to market, to see what there is |

mod choose;
mod sample;
mod search;
mod verify;
mod walk;

use crate::goods::Offer;
use crate::ticket::Ticket;
pub use verify::BadAnswer;
pub use walk::{Seen, Walked};

use super::config::MarketConfig;
use super::message::{Message, Take, ToBuyer, ToOwner, ToSeller};
use crate::address::{Address, Contact, Sender};
use crate::circle::{Located, Point, Range, RingId};
use crate::goods::NoDeal;
use crate::goods::Wanted;
use crate::goods::{Kind, Market};
use crate::ids::NodeId;
use crate::keys::Signed;
use crate::money::Price;
use crate::protocol::{Cx, Input, InputOf, Protocol};
use crate::time::{Time, Wall};
use crate::under_way::UnderWay;
use sample::Sample;
use search::Search;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use walk::Around;

/// Until a purchase is repeated, and how often. Our choice: a dial and an answer on a slow line.
const TAKE: Duration = Duration::from_secs(3);
const TAKES: u8 = 3;

/// Purchases at once; one more fails at once. Our choice: a large job's first wave.
const PURCHASES: usize = 4096;

#[derive(Debug)]
pub struct Buyer {
    config: Arc<MarketConfig>,
    wall: Wall,
    searches: BTreeMap<Ticket, Search>,
    samples: BTreeMap<u64, Sample>,
    purchases: BTreeMap<u64, Purchase>,
    /// Lookups under way, and for what.
    lookups: UnderWay<For>,
    /// Owners of markets, for the way into the processor overlay.
    entries: BTreeMap<Kind, Vec<Contact>>,
    around: Around,
}

/// Where a market is.
#[derive(Clone, Copy, Debug)]
struct Place {
    market: Market,
    owner: Contact,
    /// In the single overlay: the owner's part of the ring of nodes.
    range: Option<Range>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum For {
    Search(Ticket),
    Sample(u64),
    Walk,
}

#[derive(Debug)]
struct Purchase {
    asker: Ticket,
    seller: Address,
    take: Take,
    said: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// A search has waited or rested long enough.
    Search(Ticket),
    Sample(u64),
    Take(u64),
    /// A walk has waited or rested long enough, or the next one is due.
    Walk,
}

#[derive(Clone, Debug)]
pub enum Command {
    /// The driver's wall clock, milliseconds since 1970.
    WallClock(u64),
    /// The rules of the swarm, before anything is asked.
    Rules(Arc<MarketConfig>),
    /// Find sellers. Ends with [`Event::Found`] of this ticket.
    Ask {
        ticket: Ticket,
        wanted: Wanted,
    },
    /// Buy a unit that was found; ends with [`Event::Taken`] or [`Event::Gone`] of this ticket.
    Take {
        ticket: Ticket,
        offer: Offer,
        /// The bank's word that it is put aside, where there is a bank.
        receipt: Option<Signed>,
    },
    /// Somebody looks at the markets now; see [`Buyer::seen`].
    Look,
    /// A message of a seller that its relay has forwarded.
    Forwarded {
        sender: Sender,
        said: ToBuyer,
    },
    /// A relay says that a guest is not there.
    Gone {
        guest: NodeId,
        by: NodeId,
    },
    /// Results of [`Event::Lookup`]: `Found` or `NotFound`.
    Found {
        number: u64,
        found: Located,
    },
    NotFound {
        number: u64,
    },
}

/// Fault of a market operator; its score falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// Its answer is not what the rule gives for what sellers signed.
    Wrong(BadAnswer),
    /// It left out a seller that was listed there, lives, and is cheaper.
    Omitted { seller: NodeId, cost: Price },
    /// The ring of nodes says that the market is another's. Now and then that is a ring that moves.
    Usurper,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Look this up; answered by [`Command::Found`] or [`Command::NotFound`].
    Lookup {
        number: u64,
        ring: RingId,
        key: Point,
    },
    /// Members of this ring, for lookups of who is none.
    Know {
        ring: RingId,
        via: Vec<Contact>,
    },
    /// At most as many units as were asked for, the cheapest of all markets; and why there are not
    /// more. `hops`: messages toward the markets, lookups included. `entered`: it knew no market and
    /// had to find the entrance first.
    Found {
        ticket: Ticket,
        offers: Vec<Offer>,
        shortage: Option<NoDeal>,
        hops: u16,
        entered: bool,
    },
    Taken {
        ticket: Ticket,
    },
    /// The seller sells it no more, or is gone.
    Gone {
        ticket: Ticket,
    },
    Doubted {
        owner: NodeId,
        why: Doubt,
    },
    /// All markets of a kind were looked at.
    Looked,
}

type Bcx<'a> = Cx<'a, Buyer>;

impl Protocol for Buyer {
    type Message = Message;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, input: InputOf<Self>, cx: &mut Bcx<'_>) {
        match input {
            Input::Message { from, message: Message::ToBuyer(said) } => {
                self.message(Sender::direct(from), said, cx);
            }
            Input::Command(Command::Forwarded { sender, said }) => self.message(sender, said, cx),
            Input::Command(Command::Gone { guest, by }) => self.gone(guest, by, cx),
            Input::Timer(Timer::Search(asker)) => self.late(asker, cx),
            Input::Timer(Timer::Sample(number)) => self.sample_due(number, cx),
            Input::Timer(Timer::Take(ticket)) => self.say_take(ticket, cx),
            Input::Timer(Timer::Walk) => self.walk_on(cx),
            Input::Command(Command::Rules(config)) => self.config = config,
            Input::Command(Command::Look) => self.look(cx),
            Input::Command(Command::WallClock(ms)) => self.wall.told(ms, cx.now),
            Input::Command(Command::Ask { ticket, wanted }) => self.ask(ticket, wanted, cx),
            Input::Command(Command::Take { ticket, offer, receipt }) => self.buy(ticket, &offer, receipt, cx),
            Input::Command(Command::Found { number, found }) => match self.lookups.answered(number) {
                Some(For::Search(search)) => self.located(search, Some(found), cx),
                Some(For::Sample(sample)) => self.sample_located(sample, &found, cx),
                Some(For::Walk) => self.walk_located(Some(&found), cx),
                None => {}
            },
            Input::Command(Command::NotFound { number }) => match self.lookups.answered(number) {
                Some(For::Search(search)) => self.located(search, None, cx),
                Some(For::Sample(sample)) => drop(self.samples.remove(&sample)),
                Some(For::Walk) => self.walk_located(None, cx),
                None => {}
            },
            Input::Down(peer) | Input::Unreachable(peer) => self.down(peer, cx),
            // Nothing that the route gives a buyer, or nothing to be done.
            Input::Message { .. } | Input::Up(_) => {}
        }
    }

    fn check_invariants(&self) {
        assert!(self.searches.len() <= self.config.searches, "searches under way are bounded");
        let shown = self.seen(Time::ZERO).count();
        assert!(shown <= usize::from(Market::COUNT) * Kind::ALL.len(), "a market is shown once");
    }
}

impl Buyer {
    pub fn new(config: impl Into<Arc<MarketConfig>>) -> Buyer {
        Buyer {
            config: config.into(),
            wall: Wall::default(),
            searches: BTreeMap::new(),
            samples: BTreeMap::new(),
            purchases: BTreeMap::new(),
            lookups: UnderWay::default(),
            entries: BTreeMap::new(),
            around: Around::default(),
        }
    }

    fn message(&mut self, sender: Sender, message: ToBuyer, cx: &mut Bcx<'_>) {
        let from = sender.id;
        match message {
            ToBuyer::Answer(answer) => match self.samples.contains_key(&answer.ticket) {
                true => self.sample_answered(from, *answer, cx),
                false => self.answered(from, *answer, cx),
            },
            ToBuyer::Alive(alive) => self.sample_alive(sender, *alive, cx),
            ToBuyer::Entry { ticket, at, entrance } => {
                match self.walk_entered(from, ticket, &at, entrance, cx) {
                    true => {}
                    false => self.entry(from, ticket, &at, entrance, cx),
                }
            }
            ToBuyer::Taken { ticket } => self.taken(sender, ticket, true, cx),
            ToBuyer::Gone { ticket } => self.taken(sender, ticket, false, cx),
            ToBuyer::Summary { ticket, summary, next } => self.summed_up(from, ticket, summary, next, cx),
        }
    }

    fn look_up(&mut self, ring: RingId, key: Point, of: For, cx: &mut Bcx<'_>) {
        let number = self.lookups.ask(of);
        cx.emit(Event::Lookup { number, ring, key });
    }

    fn buy(&mut self, asker: Ticket, offer: &Offer, receipt: Option<Signed>, cx: &mut Bcx<'_>) {
        if self.purchases.len() >= PURCHASES {
            return cx.emit(Event::Gone { ticket: asker });
        }
        let ticket = cx.rng.u64();
        let Offer { seller, goods, capacity, price, .. } = *offer;
        let take =
            Take { ticket, kind: goods.kind, number: offer.number, units: 1, capacity, price, receipt };
        self.purchases.insert(ticket, Purchase { asker, seller, take, said: 0 });
        self.say_take(ticket, cx);
    }

    /// Again, until the seller answers.
    fn say_take(&mut self, ticket: u64, cx: &mut Bcx<'_>) {
        let Some(purchase) = self.purchases.get_mut(&ticket) else { return };
        if purchase.said >= TAKES {
            let asker = purchase.asker;
            self.purchases.remove(&ticket);
            return cx.emit(Event::Gone { ticket: asker });
        }
        purchase.said += 1;
        cx.set_timer(Timer::Take(ticket), TAKE);
        let (seller, take) = (purchase.seller, purchase.take.clone());
        to_seller(seller, ToSeller::Take(Box::new(take)), cx);
    }

    fn taken(&mut self, sender: Sender, ticket: u64, sold: bool, cx: &mut Bcx<'_>) {
        let Some(purchase) = self.purchases.get(&ticket).filter(|it| it.seller.is_of(sender, cx.me)) else {
            return;
        };
        let asker = purchase.asker;
        self.purchases.remove(&ticket);
        cx.cancel_timer(Timer::Take(ticket));
        cx.emit(if sold { Event::Taken { ticket: asker } } else { Event::Gone { ticket: asker } });
    }

    /// Nothing is bought of a guest that its relay does not have.
    fn gone(&mut self, guest: NodeId, by: NodeId, cx: &mut Bcx<'_>) {
        let its = |seller: &Address| seller.id == guest && seller.relay().is_some_and(|relay| relay.id == by);
        let all = self.purchases.iter().filter(|(_, purchase)| its(&purchase.seller));
        let over: Vec<u64> = all.map(|(ticket, _)| *ticket).collect();
        let sender = Sender { id: guest, by: (by != cx.me).then_some(by) };
        over.into_iter().for_each(|ticket| self.taken(sender, ticket, false, cx));
    }

    fn down(&mut self, peer: NodeId, cx: &mut Bcx<'_>) {
        for entries in self.entries.values_mut() {
            entries.retain(|contact| contact.id != peer);
        }
        self.asked_in_vain(peer, cx);
        self.looked_in_vain(peer, cx);
    }
}

fn to_seller(to: Address, message: ToSeller, cx: &mut Bcx<'_>) {
    cx.send_to(to, Message::ToSeller(message));
}

fn to_owner(to: &Contact, message: ToOwner, cx: &mut Bcx<'_>) {
    cx.send_to(*to, Message::ToOwner(message));
}
