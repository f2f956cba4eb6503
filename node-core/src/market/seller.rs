//! The seller (paper `market`, sections IV-A and V-A): lists what a node has at the market for it, lists it
//! again and again, says that it is alive, and sells.
//!
//! The seller is the one truth about what it has: market operators name it, and it says whether that is
//! still for sale. What was sold is de-listed, and what is left is listed under a higher number.

use super::config::MarketConfig;
use super::listing::{Guest, Listing};
use super::message::{Alive, Message, Prober, Take, ToBuyer, ToOwner, ToSeller, Unlisted};
use crate::address::{Address, Contact, Sender};
use crate::circle::{Point, RingId};
use crate::contract::{Receipt, Sale};
use crate::goods::Goods;
use crate::goods::{Kind, Market};
use crate::ids::NodeId;
use crate::keys::{Secret, Signed};
use crate::money::Price;
use crate::protocol::{Cx, Input, InputOf, Protocol};
use crate::time::{Time, Wall};
use crate::under_way::UnderWay;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Until a seller that found no market tries again. Our choice: the ring mends within seconds.
const AGAIN: Duration = Duration::from_secs(2);

/// Sales that are remembered, so that a repeated purchase is the same. Our choice: more than are under
/// way at once.
const SALES: usize = 256;

/// Receipts that are remembered, so that each buys once. Our choice: the dearest machine's sales of an hour, and a
/// credit that was given back buys nothing again within it.
const USED: usize = 1024;

/// Market operators that are remembered to have asked. Our choice: one and its copies, and the next one.
const PROBERS: usize = 8;

#[derive(Debug)]
pub struct Seller {
    config: Arc<MarketConfig>,
    secret: Secret,
    wall: Option<Wall>,
    me: Option<Address>,
    stock: BTreeMap<Kind, Box<Stock>>,
    /// The last number that was used.
    number: u64,
    /// Lookups under way.
    lookups: UnderWay<Kind>,
    sales: VecDeque<(NodeId, u64)>,
    /// The swarm's bank, whose receipts count.
    bank: Option<NodeId>,
    /// Receipts that something was sold for.
    used: VecDeque<(NodeId, Sale, Kind)>,
    /// Goods of each kind that will be for sale in a moment.
    there: BTreeMap<Kind, Goods>,
}

/// Goods of one kind that are for sale.
#[derive(Debug)]
struct Stock {
    goods: Goods,
    /// All numbers from here on were of the same terms.
    since: u64,
    number: u64,
    signed: Option<Signed>,
    /// Where it was listed last.
    at: Option<(Market, Contact)>,
    /// Market operator that has confirmed the listing, and since when without a break.
    listed: Option<(NodeId, Time)>,
    probed: Vec<(NodeId, Time)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    Relist(Kind),
    /// Goods of [`Command::Have`] have been known for long enough to be listed.
    Have(Kind),
}

#[derive(Clone, Debug)]
pub enum Command {
    /// The driver's wall clock, milliseconds since 1970; nothing is listed before.
    WallClock(u64),
    /// The rules of the swarm, before anything is listed.
    Rules(Arc<MarketConfig>),
    /// The bank of the swarm: from now on nothing is sold but to whom it holds credit for.
    Bank(NodeId),
    /// How others reach this node; `None`: not at all, and nothing is listed.
    Me(Option<Address>),
    /// A message that a relay has forwarded.
    Forwarded {
        sender: Sender,
        said: ToSeller,
    },
    /// This is for sale from now on, in place of all of its kind that was. No units: nothing.
    Offer(Goods),
    /// As `Offer`, for goods that come and go, such as free slots: less is for sale at once, more after a
    /// moment, so that nothing is listed for each task that ends.
    Have(Goods),
    /// Results of [`Event::Lookup`]: `Found` or `NotFound`.
    Found {
        number: u64,
        owner: Contact,
    },
    NotFound {
        number: u64,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Look this up; answered by [`Command::Found`] or [`Command::NotFound`].
    Lookup {
        number: u64,
        ring: RingId,
        key: Point,
    },
    Listed {
        kind: Kind,
        market: Market,
        number: u64,
        owner: NodeId,
    },
    /// It is tried again after a while all the same.
    Unlisted {
        kind: Kind,
        number: u64,
        why: Unlisted,
    },
    /// A part was bought. Of what can be divided, `capacity` of one unit; else so many units.
    Sold {
        buyer: NodeId,
        kind: Kind,
        number: u64,
        units: u16,
        capacity: u64,
        price: Price,
    },
}

type Scx<'a> = Cx<'a, Seller>;

impl Protocol for Seller {
    type Message = Message;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, input: InputOf<Self>, cx: &mut Scx<'_>) {
        match input {
            Input::Message { from, message: Message::ToSeller(said) } => {
                self.message(Sender::direct(from), said, cx);
            }
            Input::Command(Command::Forwarded { sender, said }) => self.message(sender, said, cx),
            Input::Timer(Timer::Relist(kind)) => self.list(kind, cx),
            Input::Command(Command::WallClock(ms)) => {
                let first = self.wall.is_none();
                self.wall.get_or_insert_default().told(ms, cx.now);
                if first {
                    self.list_all(cx);
                }
            }
            Input::Command(Command::Rules(config)) => self.config = config,
            Input::Command(Command::Bank(bank)) => self.bank = Some(bank),
            Input::Command(Command::Me(me)) => {
                let before = std::mem::replace(&mut self.me, me);
                match me {
                    Some(_) if before == me => {}
                    Some(_) => self.list_all(cx),
                    None => self.unlist(cx),
                }
            }
            Input::Command(Command::Offer(goods)) => {
                self.there.remove(&goods.kind);
                cx.cancel_timer(Timer::Have(goods.kind));
                self.offer(goods, cx);
            }
            Input::Command(Command::Have(goods)) => self.have(goods, cx),
            Input::Timer(Timer::Have(kind)) => {
                if let Some(goods) = self.there.remove(&kind) {
                    self.offer(goods, cx);
                }
            }
            Input::Command(Command::Found { number, owner }) => self.found(number, owner, cx),
            Input::Command(Command::NotFound { number }) => {
                if let Some(kind) = self.lookups.answered(number) {
                    cx.set_timer(Timer::Relist(kind), AGAIN);
                }
            }
            Input::Down(peer) | Input::Unreachable(peer) => self.owner_down(peer, cx),
            // Nothing that the route gives a seller, or nothing to be done.
            Input::Message { .. } | Input::Up(_) => {}
        }
    }

    fn check_invariants(&self) {
        for stock in self.stock.values() {
            assert!(stock.goods.units > 0, "what is sold out is not kept");
            assert!(stock.since <= stock.number && stock.number <= self.number, "numbers grow");
        }
    }
}

impl Seller {
    /// `secret` is the node's own.
    pub fn new(config: impl Into<Arc<MarketConfig>>, secret: Secret) -> Seller {
        Seller {
            config: config.into(),
            secret,
            wall: None,
            me: None,
            stock: BTreeMap::new(),
            number: 0,
            lookups: UnderWay::new(Kind::ALL.len()),
            sales: VecDeque::new(),
            bank: None,
            used: VecDeque::new(),
            there: BTreeMap::new(),
        }
    }

    /// Goods of a kind that are for sale, and the number of their listing; `None` if there are none.
    pub fn sells(&self, kind: Kind) -> Option<(Goods, u64)> {
        self.stock.get(&kind).map(|stock| (stock.goods, stock.number))
    }

    /// Market operator that has confirmed the listing; `None` if none has.
    pub fn listed_at(&self, kind: Kind) -> Option<NodeId> {
        self.stock.get(&kind)?.listed.map(|(owner, _)| owner)
    }

    fn message(&mut self, sender: Sender, message: ToSeller, cx: &mut Scx<'_>) {
        let from = sender.id;
        match message {
            ToSeller::Listed { kind, number } => {
                let stock = self.stock.get_mut(&kind);
                let Some(stock) = stock.filter(|stock| stock.number == number && stock.is_at(from)) else {
                    return;
                };
                if stock.listed.is_none_or(|(owner, _)| owner != from) {
                    stock.listed = Some((from, cx.now));
                }
                if let Some((market, _)) = stock.at {
                    cx.emit(Event::Listed { kind, market, number, owner: from });
                }
            }
            ToSeller::Refused { kind, number, why } => {
                let stock = self.stock.get_mut(&kind);
                let Some(stock) = stock.filter(|stock| stock.number == number && stock.is_at(from)) else {
                    return;
                };
                stock.listed = None;
                if why == Unlisted::NotMine {
                    cx.set_timer(Timer::Relist(kind), AGAIN);
                }
                cx.emit(Event::Unlisted { kind, number, why });
            }
            ToSeller::Probe { kind, ticket, by } => self.probe(sender, kind, ticket, by, cx),
            ToSeller::Take(take) => self.take(sender, *take, cx),
        }
    }

    fn list_all(&mut self, cx: &mut Scx<'_>) {
        let kinds: Vec<Kind> = self.stock.keys().copied().collect();
        kinds.into_iter().for_each(|kind| self.list(kind, cx));
    }

    /// Nobody reaches this node any more.
    fn unlist(&mut self, cx: &mut Scx<'_>) {
        self.lookups.retain(|_| false);
        for (kind, stock) in &mut self.stock {
            (stock.at, stock.listed) = (None, None);
            cx.cancel_timer(Timer::Relist(*kind));
        }
    }

    fn offer(&mut self, goods: Goods, cx: &mut Scx<'_>) {
        let kind = goods.kind;
        if goods.units == 0 || goods.market().is_none() {
            return self.close(kind, cx);
        }
        let number = self.next_number(cx.now);
        let at = self.stock.remove(&kind).and_then(|old| old.at);
        let stock =
            Stock { goods, since: number, number, signed: None, at, listed: None, probed: Vec::new() };
        self.stock.insert(kind, Box::new(stock));
        self.list(kind, cx);
    }

    fn have(&mut self, goods: Goods, cx: &mut Scx<'_>) {
        let kind = goods.kind;
        let listed = self.stock.get_mut(&kind).map(|stock| &mut stock.goods);
        if listed.as_deref().map_or(goods.units == 0, |listed| *listed == goods) {
            self.there.remove(&kind);
            return cx.cancel_timer(Timer::Have(kind));
        }
        match listed {
            Some(_) if goods.units == 0 => self.close(kind, cx),
            // The listing says more until it is replaced; whoever comes for that finds less.
            Some(listed) => listed.units = listed.units.min(goods.units),
            None => {}
        }
        if self.there.insert(kind, goods).is_none() {
            cx.set_timer(Timer::Have(kind), self.config.gather);
        }
    }

    /// Questions of the market operator may have been lost meanwhile, and the seller purged for its silence:
    /// it does not count as listed until the operator confirms it again.
    fn owner_down(&mut self, peer: NodeId, cx: &mut Scx<'_>) {
        for (kind, stock) in self.stock.iter_mut().filter(|(_, stock)| stock.is_at(peer)) {
            stock.listed = None;
            // Not all sellers of a market at once.
            let apart = Duration::from_micros(cx.rng.below(AGAIN.as_micros() as u64));
            cx.set_timer_by(Timer::Relist(*kind), AGAIN + apart);
        }
    }

    /// Nothing of this kind is for sale any more.
    fn close(&mut self, kind: Kind, cx: &mut Scx<'_>) {
        cx.cancel_timer(Timer::Relist(kind));
        if let Some(Stock { at: Some((market, owner)), number, .. }) = self.stock.remove(&kind).map(|it| *it)
        {
            to_owner(&owner, ToOwner::Withdraw { market, number }, cx);
        }
    }

    /// Also after a restart, as far as the wall clock grows.
    fn next_number(&mut self, now: Time) -> u64 {
        let wall = self.wall.map_or(0, |wall| wall.now(now));
        self.number = self.number.saturating_add(1).max(wall);
        self.number
    }

    /// Lists under a new number, wherever the market is now.
    fn list(&mut self, kind: Kind, cx: &mut Scx<'_>) {
        let Some(market) = self.sign(kind, cx) else { return };
        let Some(stock) = self.stock.get_mut(&kind) else { return };
        if let Some((old, owner)) = stock.at.filter(|(old, _)| *old != market) {
            stock.at = None;
            stock.listed = None;
            to_owner(&owner, ToOwner::Withdraw { market: old, number: stock.number }, cx);
        }
        let number = self.lookups.ask(kind);
        let key = market.key(self.config.scheme);
        cx.emit(Event::Lookup { number, ring: RingId::NODES, key });
        // Not all at once.
        let relist = self.config.relist;
        let early = cx.rng.below(relist.as_micros() as u64 / 10);
        cx.set_timer(Timer::Relist(kind), relist - Duration::from_micros(early));
    }

    fn sign(&mut self, kind: Kind, cx: &mut Scx<'_>) -> Option<Market> {
        let (wall, seller) = (self.wall?, self.me?);
        let number = self.next_number(cx.now);
        let stock = self.stock.get_mut(&kind)?;
        let expires_ms = wall.now(cx.now) + self.config.purge.as_millis() as u64;
        stock.number = number;
        let listing = Listing { seller, goods: stock.goods, number, expires_ms };
        stock.signed = Some(listing.sign(&self.secret));
        stock.goods.market()
    }

    fn found(&mut self, number: u64, owner: Contact, cx: &mut Scx<'_>) {
        let Some(kind) = self.lookups.answered(number) else { return };
        let Some(stock) = self.stock.get_mut(&kind) else { return };
        let Some(market) = stock.goods.market() else { return };
        if !stock.is_at(owner.id) {
            stock.listed = None;
        }
        stock.at = Some((market, owner));
        stock.say(cx);
    }

    /// Whether it is for sale, and what else is known of it.
    fn probe(&mut self, sender: Sender, kind: Kind, ticket: u64, by: Prober, cx: &mut Scx<'_>) {
        let from = sender.id;
        // A buyer that was told of another seller meanwhile asks a little later: after that answer, and
        // its sample.
        let hold = self.config.hold + 5 * self.config.answer;
        let mut alive = Alive { ticket, listing: None, listed: None, probed: Vec::new() };
        if let Some(stock) = self.stock.get_mut(&kind) {
            stock.probed.retain(|(_, at)| cx.now.since(*at) < hold);
            alive.listing = stock.signed.clone();
            alive.listed = stock.listed.map(|(owner, at)| (owner, cx.now.since(at).as_secs() as u32));
            alive.probed = stock.probed.iter().map(|(who, _)| *who).collect();
            if by == Prober::Owner {
                stock.probed.retain(|(who, _)| *who != from);
                if stock.probed.len() >= PROBERS {
                    stock.probed.remove(0);
                }
                stock.probed.push((from, cx.now));
            }
        }
        let alive = Box::new(alive);
        let answer = match by {
            Prober::Owner => Message::ToOwner(ToOwner::Alive(alive)),
            Prober::Buyer => Message::ToBuyer(ToBuyer::Alive(alive)),
        };
        cx.answer(sender, answer);
    }

    /// Sells, if it has not done so: no unit is sold twice, under whatever number.
    fn take(&mut self, sender: Sender, take: Take, cx: &mut Scx<'_>) {
        let Take { ticket, kind, number, units, capacity, price, .. } = take;
        let from = sender.id;
        if self.sales.contains(&(from, ticket)) {
            return cx.answer(sender, Message::ToBuyer(ToBuyer::Taken { ticket }));
        }
        // Only who connects to this node can give it units.
        let reached = match self.me.as_ref().and_then(Guest::of) {
            Some(guest) => guest.sells_to(from) && (guest.channels || sender.by.is_none()),
            None => sender.by.is_none(),
        };
        let paid = reached.then(|| self.paid_by(from, &take, cx.me).ok()).flatten();
        let Some(sale) = paid else {
            return cx.answer(sender, Message::ToBuyer(ToBuyer::Gone { ticket }));
        };
        let stock = self.stock.get_mut(&kind).filter(|stock| {
            (stock.since..=stock.number).contains(&number)
                && (1..=stock.goods.units).contains(&units)
                && (1..=stock.goods.capacity).contains(&capacity)
                && price >= stock.goods.cost
        });
        let Some(stock) = stock else {
            return cx.answer(sender, Message::ToBuyer(ToBuyer::Gone { ticket }));
        };
        let left = match kind.divides() {
            true => Goods { capacity: stock.goods.capacity - capacity, ..stock.goods },
            false => Goods { units: stock.goods.units - units, ..stock.goods },
        };
        stock.goods = left;
        if self.sales.len() >= SALES {
            self.sales.pop_front();
        }
        self.sales.push_back((from, ticket));
        if let Some(sale) = sale {
            if self.used.len() >= USED {
                self.used.pop_front();
            }
            self.used.push_back((from, sale, kind));
        }
        cx.answer(sender, Message::ToBuyer(ToBuyer::Taken { ticket }));
        cx.emit(Event::Sold { buyer: from, kind, number, units, capacity, price });
        if left.units == 0 || left.market().is_none() {
            return self.close(kind, cx);
        }
        let same = stock.at.is_some_and(|(market, _)| Some(market) == left.market());
        if !same {
            return self.list_anew(kind, cx);
        }
        if self.sign(kind, cx).is_some()
            && let Some(stock) = self.stock.get_mut(&kind)
        {
            // Smaller ones are other terms.
            if kind.divides() {
                stock.since = stock.number;
            }
            stock.say(cx);
        }
    }

    /// The sale for which the bank holds the buyer's credit; `None`: nobody has to pay. Else whoever asks would
    /// keep slots from others, and have files kept, for nothing.
    fn paid_by(&self, buyer: NodeId, take: &Take, me: NodeId) -> Result<Option<Sale>, ()> {
        let Some(bank) = self.bank.filter(|_| buyer != me && take.price > Price(0)) else { return Ok(None) };
        let receipt = take.receipt.as_ref().and_then(|signed| Receipt::open(signed, bank)).ok_or(())?;
        let its = receipt.owner == buyer
            && take.units == 1
            && receipt.is_for(take.kind, me, take.price, take.capacity);
        let used = self.used.contains(&(buyer, receipt.sale, take.kind));
        if its && !used { Ok(Some(receipt.sale)) } else { Err(()) }
    }

    fn list_anew(&mut self, kind: Kind, cx: &mut Scx<'_>) {
        self.list(kind, cx);
        if let Some(stock) = self.stock.get_mut(&kind) {
            stock.since = stock.number;
        }
    }
}

impl Stock {
    fn is_at(&self, owner: NodeId) -> bool {
        self.at.is_some_and(|(_, at)| at.id == owner)
    }

    /// Sends the listing to where the market is.
    fn say(&self, cx: &mut Scx<'_>) {
        if let (Some((_, owner)), Some(signed)) = (&self.at, &self.signed) {
            to_owner(owner, ToOwner::List(Box::new(signed.clone())), cx);
        }
    }
}

fn to_owner(to: &Contact, message: ToOwner, cx: &mut Scx<'_>) {
    cx.send_to(*to, Message::ToOwner(message));
}
