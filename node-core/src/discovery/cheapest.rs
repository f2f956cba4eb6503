//! The finder on the markets: the cheapest nodes that can run something, bought.
//!
//! For each unit, in this order, so that nobody works unpaid and nobody pays for what it has not
//! got: ask the market who sells ([`Event::Quote`]), have the bank put aside what the sale may cost
//! at most ([`Event::Order`]), buy of the seller ([`Event::Buy`]). What was put aside for a place that
//! somebody else was faster to buy comes back.
//!
//! A unit that takes checkpoints may have somebody paid for keeping them. With a part of what its place
//! leaves of what the unit may cost, space is asked for, too, put aside in the same hold, and bought at the
//! same time of another node than runs it. It is never waited for long: where nobody sells any, or it costs
//! too much, the place is bought without, and the owner draws keepers by lot.
//!
//! It keeps nothing: the terms of a sale are the owner's to write down, and credit that is held in vain is the owner's
//! to return ([`Missed::held`]). What is under way when a node stops lies at the bank, which lists it to the node's
//! next run ([`crate::ledger::client`]).

use crate::contract::{Bargain, Bargains, Goods, Order, Outcome, Refusal, Sale, Space, Step, Term};
use crate::finding::{Bought, Missed, Purchase, PurchasedSlot, StorageLease};
use crate::goods::Kind;
use crate::goods::NoDeal;
use crate::goods::Offer;
use crate::goods::{UNITS, Wanted};
use crate::keys::Signed;
use crate::money::Micro;
use crate::protocol::{Cx, Input, InputOf, Protocol};
use crate::time::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// Sales under way at once; what is asked for beyond is told to wait. Our choice: what buyer and bank
/// take at once, too.
const SALES: usize = 4096;

/// How long a place has to be idle, minutes. Our choice: any. A unit that outlives its place goes on
/// elsewhere.
const MINUTES: u16 = 1;

/// How long a market of space may take, and who sells there. Our choice: such a market waits 3 s for a seller
/// that is gone, and that of the places keeps them for 10.
const MARKET: Duration = Duration::from_secs(5);
const SELLER: Duration = Duration::from_secs(2);

/// Space is bought for twice as long as the fuel takes, and for so long at least. Our choice: a unit is
/// paused or moved now and then, and what is not used costs nothing.
const SLACK: u64 = 2;
const LEAST: u64 = 600;

/// It may cost this part of what a unit may. Our choice: others keep checkpoints for nothing, and a market
/// with few sellers sells at whatever it may cost.
const PART: u64 = 10;

/// Where nobody sold as much, it is not asked for again for so long. Our choice: what a seller takes to
/// list again.
const NOBODY: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub struct Cheapest {
    asked: BTreeMap<u64, Purchase>,
    /// With places, and space asked for.
    furnished: BTreeMap<u64, Furnished>,
    /// Their first leg is the place, the second one space for checkpoints.
    bargains: Bargains<PurchasedSlot>,
    /// So many bytes nobody sold, until then.
    nobody: Option<(u64, Time)>,
    next: u64,
}

/// Sales for which there are places.
#[derive(Debug)]
struct Furnished {
    places: Vec<(Sale, Offer)>,
    fuel: u64,
    most: Micro,
    /// Space for the checkpoints of each unit, bytes.
    bytes: u64,
    time: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The time for a market of space is over.
    Market(u64),
    /// The time for a seller of space is over: this sale's.
    StorageLease(Sale),
}

#[derive(Clone, Debug)]
pub enum Command {
    /// Buy these. Answered by one [`Event::Bought`] for each of its units.
    Purchase(Purchase),
    /// Answers [`Event::Quote`].
    Quoted { number: u64, offers: Vec<Offer>, shortage: Option<NoDeal> },
    /// Answers [`Event::Order`].
    Ordered { ticket: u64, outcome: Outcome, receipt: Option<Signed> },
    /// Answers [`Event::Buy`].
    Taken { ticket: u64, taken: bool },
}

#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    Quote { number: u64, wanted: Wanted },
    Order { ticket: u64, order: Order },
    Buy { ticket: u64, offer: Offer, receipt: Option<Signed> },
    Bought(Bought),
}

impl Protocol for Cheapest {
    type Message = ();
    type Timer = Timer;
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, input: InputOf<Self>, cx: &mut Cx<'_, Self>) {
        match input {
            Input::Command(Command::Purchase(purchase)) => self.ask(purchase, cx),
            Input::Command(Command::Quoted { number, offers, shortage }) => {
                self.quoted(number, &offers, shortage, cx);
            }
            Input::Command(Command::Ordered { ticket, outcome, receipt }) => {
                let step = self.bargains.ordered(ticket, outcome, receipt);
                self.follow(step, cx);
            }
            Input::Command(Command::Taken { ticket, taken }) => {
                let step = self.bargains.taken(ticket, taken);
                self.follow(step, cx);
            }
            Input::Timer(Timer::Market(number)) => self.space_quoted(number, &[], None, cx),
            Input::Timer(Timer::StorageLease(sale)) => {
                if let Some(bargain) = self.bargains.enough(sale) {
                    self.made(sale, bargain, cx);
                }
            }
            Input::Message { .. } | Input::Up(_) | Input::Down(_) | Input::Unreachable(_) => {}
        }
    }

    fn check_invariants(&self) {
        let furnished: usize = self.furnished.values().map(|it| it.places.len()).sum();
        assert!(self.bargains.len() + furnished <= SALES, "sales under way are bounded");
        self.bargains.check();
    }
}

impl Furnished {
    /// Most that space may cost: a part of the most that a unit costs, and no more than the dearest of the
    /// places leaves.
    fn left(&self) -> Micro {
        let cost = |(_, offer): &(Sale, Offer)| Term::of(offer, Goods::Cycles).most(self.fuel);
        let dearest = self.places.iter().map(|place| cost(place).unwrap_or(Micro::MAX)).max();
        let left = self.most.minus(dearest.unwrap_or(Micro::MAX)).unwrap_or_default();
        left.min(Micro(self.most.0 / PART))
    }

    fn wanted(&self, cx: &mut Cx<'_, Cheapest>) -> Wanted {
        let seconds = self.time.as_secs();
        Wanted {
            kind: Kind::Checkpoints,
            capacity: self.bytes,
            minutes: MINUTES,
            memory_mib: 0,
            engine: None,
            // Neither a unit's runner nor this node keeps its checkpoints; both may be named.
            units: u16::try_from(self.places.len() + 2).unwrap_or(UNITS).min(UNITS),
            quantity: self.bytes.saturating_mul(seconds),
            most: self.left(),
            tie: cx.rng.u64(),
        }
    }
}

impl Cheapest {
    fn ask(&mut self, mut purchase: Purchase, cx: &mut Cx<'_, Self>) {
        let asked: usize = self.asked.values().map(|purchase| purchase.sales.len()).sum();
        let furnished: usize = self.furnished.values().map(|it| it.places.len()).sum();
        let room = SALES.saturating_sub(self.bargains.len() + asked + furnished).min(UNITS.into());
        let over = purchase.sales.split_off(room.min(purchase.sales.len()));
        for sale in over {
            miss(sale, "many places are being bought already; it is next".into(), cx);
        }
        if purchase.sales.is_empty() {
            return;
        }
        let wanted = Wanted {
            kind: Kind::Cycles,
            capacity: purchase.min_speed,
            minutes: MINUTES,
            memory_mib: u32::try_from(purchase.memory_bytes.div_ceil(1 << 20)).unwrap_or(u32::MAX),
            engine: None,
            units: purchase.sales.len() as u16,
            quantity: purchase.fuel,
            most: purchase.most,
            tie: cx.rng.u64(),
        };
        let number = self.ticket();
        self.asked.insert(number, purchase);
        cx.emit(Event::Quote { number, wanted });
    }

    fn ticket(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn quoted(&mut self, number: u64, offers: &[Offer], shortage: Option<NoDeal>, cx: &mut Cx<'_, Self>) {
        let Some(purchase) = self.asked.remove(&number) else {
            return self.space_quoted(number, offers, shortage, cx);
        };
        let Purchase { mut sales, fuel, most, checkpoints, .. } = purchase;
        for sale in sales.split_off(offers.len().min(sales.len())) {
            miss(sale, shortage.unwrap_or(NoDeal::NoSeller).to_string(), cx);
        }
        let places: Vec<(Sale, Offer)> = sales.into_iter().zip(offers.iter().copied()).collect();
        let Some(slowest) = places.iter().map(|(_, offer)| offer.goods.capacity.max(1)).min() else { return };
        let seconds = fuel / slowest;
        let (bytes, every) = checkpoints.unwrap_or_default();
        let time = Duration::from_secs(seconds.saturating_mul(SLACK).max(LEAST));
        let furnished = Furnished { places, fuel, most, bytes, time };
        // A unit that has ended before its first checkpoint needs nobody who keeps it.
        let needed = bytes > 0 && seconds >= every.as_secs();
        let known = self.nobody.is_some_and(|(least, until)| bytes >= least && cx.now < until);
        let wanted = (needed && !known).then(|| furnished.wanted(cx)).filter(|it| it.most > Micro::ZERO);
        let number = self.ticket();
        self.furnished.insert(number, furnished);
        match wanted {
            Some(wanted) => {
                cx.set_timer(Timer::Market(number), MARKET);
                cx.emit(Event::Quote { number, wanted });
            }
            None => self.furnish(number, &[], cx),
        }
    }

    /// Takes the offers of space for checkpoints, if there are any.
    fn space_quoted(
        &mut self,
        number: u64,
        offers: &[Offer],
        shortage: Option<NoDeal>,
        cx: &mut Cx<'_, Self>,
    ) {
        let Some(furnished) = self.furnished.get(&number) else { return };
        cx.cancel_timer(Timer::Market(number));
        if offers.is_empty() && !matches!(shortage, Some(NoDeal::TooDear { .. })) {
            self.nobody = Some((furnished.bytes, cx.now + NOBODY));
        }
        self.furnish(number, offers, cx);
    }

    /// Has what the places may cost put aside, and space for the checkpoints of as many as there is.
    fn furnish(&mut self, number: u64, offers: &[Offer], cx: &mut Cx<'_, Self>) {
        let Some(Furnished { places, fuel, most, bytes, time }) = self.furnished.remove(&number) else {
            return;
        };
        // Guests of this node reach nobody else.
        let can_keep = |offer: &Offer| offer.seller.id != cx.me && offer.seller.contact().is_some();
        let mut free: Vec<Offer> = offers.iter().copied().filter(can_keep).collect();
        for (sale, offer) in places {
            // A runner does not keep the checkpoints of its own unit.
            let other = free.iter().position(|space| space.seller.id != offer.seller.id);
            let space = other.map(|at| free.swap_remove(at));
            let space = space.map(|offer| (offer, Space::of(&offer, bytes, time)));
            self.hold(sale, &offer, space, (fuel, most), cx);
        }
    }

    fn hold(
        &mut self,
        sale: Sale,
        offer: &Offer,
        space: Option<(Offer, Space)>,
        (fuel, limit): (u64, Micro),
        cx: &mut Cx<'_, Self>,
    ) {
        let term = Term::of(offer, Goods::Cycles);
        let held = |terms: &[Term]| Term::most_of(fuel, terms).filter(|held| *held <= limit);
        let both = space.and_then(|(offer, space)| {
            let terms = vec![term.clone(), space.term.clone()];
            Some((held(&terms)?, terms, Some((offer, space))))
        });
        let alone = || Some((held(std::slice::from_ref(&term))?, vec![term.clone()], None));
        // The buyer checked it already; what is spent is checked where it is spent.
        let Some((held, terms, space)) = both.or_else(alone) else {
            let why = format!("the cheapest costs more than the {limit} credits that it may");
            return named(sale, why, false, cx);
        };
        let (space, storage) =
            space.map(|(offer, space)| (offer, Box::new(StorageLease { space, at: None }))).unzip();
        let purchased = PurchasedSlot { seller: offer.seller, term, fuel, held, receipt: None, storage };
        let offers = [*offer].into_iter().chain(space).collect();
        let ticket = self.bargains.begin(sale, offers, purchased);
        cx.emit(Event::Order { ticket, order: Order::Hold { sale, payer: cx.me, fuel, terms } });
    }

    fn follow(&mut self, step: Step<PurchasedSlot>, cx: &mut Cx<'_, Self>) {
        match step {
            Step::Take { takes, receipt } => {
                for (ticket, offer) in takes {
                    cx.emit(Event::Buy { ticket, offer, receipt: receipt.clone() });
                }
            }
            Step::NotHeld(sale, Bargain { purpose, legs, .. }, refusal) => {
                let too_much = matches!(refusal, Refusal::NoFunds { .. } | Refusal::NotAllowed { .. });
                match legs[..] {
                    // It may do for the place.
                    [place, _] if too_much => {
                        self.hold(sale, &place.offer, None, (purpose.fuel, purpose.held), cx);
                    }
                    _ => named(sale, format!("the bank puts nothing aside for it: {refusal}"), false, cx),
                }
            }
            Step::NotSold(sale, Bargain { purpose, .. }) => {
                let seller = purpose.seller.id.short();
                named(sale, format!("{seller} has just sold it to somebody else, or is gone"), true, cx);
            }
            Step::Waits(sale) => cx.set_timer(Timer::StorageLease(sale), SELLER),
            Step::Made(sale, bargain) => self.made(sale, bargain, cx),
            Step::Settled(..) | Step::Nothing => {}
        }
    }

    /// The place is bought, with space for its checkpoints if that was sold in time.
    fn made(&mut self, sale: Sale, bargain: Bargain<PurchasedSlot>, cx: &mut Cx<'_, Self>) {
        cx.cancel_timer(Timer::StorageLease(sale));
        let Bargain { mut purpose, legs, receipt, .. } = bargain;
        purpose.receipt = receipt;
        if let (Some(storage), Some(space)) = (&mut purpose.storage, legs.get(1)) {
            storage.at = space.offer.seller.contact().filter(|_| space.sold == Some(true));
        }
        cx.emit(Event::Bought(Bought { sale, place: Ok(purpose) }));
    }
}

/// No market has named a seller.
fn miss(sale: Sale, why: String, cx: &mut Cx<'_, Cheapest>) {
    cx.emit(Event::Bought(Bought { sale, place: Err(Missed { why, named: false, held: false }) }));
}

/// A market has named a seller, in vain.
fn named(sale: Sale, why: String, held: bool, cx: &mut Cx<'_, Cheapest>) {
    cx.emit(Event::Bought(Bought { sale, place: Err(Missed { why, named: true, held }) }));
}
