//! The finder on the markets: the cheapest nodes that can run something, bought.
//!
//! For each unit, in this order, so that nobody works unpaid and nobody pays for what it has not
//! got: ask the market who sells ([`Event::Quote`]), have the bank put aside what the sale may cost
//! at most ([`Event::Order`]), buy of the seller ([`Event::Buy`]). What was put aside for a place that
//! somebody else was faster to buy comes back.
//!
//! It keeps nothing: the terms of a sale are the owner's to write down. What is under way when a
//! node stops lies at the bank, which lists it to the next life ([`crate::ledger::client`]).

use super::{Bargain, Bought, Missed, Purchase};
use crate::keys::Signed;
use crate::ledger::{Goods, Order, Outcome, Sale, Term};
use crate::market::buyer::Offer;
use crate::market::commodity::Kind;
use crate::market::money::Micro;
use crate::market::pricing::NoDeal;
use crate::market::{UNITS, Wanted};
use crate::protocol::{Cx, Input, InputOf, Protocol};
use std::collections::BTreeMap;

/// Sales under way at once; what is asked for beyond is told to wait. Our choice: what buyer and bank
/// take at once, too.
const SALES: usize = 4096;

/// How long a place has to be idle, minutes. Our choice: any. A unit that outlives its place goes on
/// elsewhere.
const MINUTES: u16 = 1;

#[derive(Debug, Default)]
pub struct Cheapest {
    asked: BTreeMap<u64, Purchase>,
    /// By ticket.
    sales: BTreeMap<u64, Under>,
    next: u64,
}

/// A sale under way.
#[derive(Debug)]
struct Under {
    sale: Sale,
    offer: Offer,
    bargain: Bargain,
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
    Buy { ticket: u64, offer: Offer },
    Bought(Bought),
}

impl Protocol for Cheapest {
    type Message = ();
    type Timer = ();
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, input: InputOf<Self>, cx: &mut Cx<'_, Self>) {
        match input {
            Input::Command(Command::Purchase(purchase)) => self.ask(purchase, cx),
            Input::Command(Command::Quoted { number, offers, shortage }) => {
                self.quoted(number, &offers, shortage, cx);
            }
            Input::Command(Command::Ordered { ticket, outcome, receipt }) => {
                self.ordered(ticket, outcome, receipt, cx);
            }
            Input::Command(Command::Taken { ticket, taken }) => self.taken(ticket, taken, cx),
            Input::Message { .. } | Input::Up(_) | Input::Down(_) | Input::Timer(()) => {}
        }
    }

    fn check_invariants(&self) {
        assert!(self.sales.len() <= SALES, "sales under way are bounded");
    }
}

impl Cheapest {
    fn ask(&mut self, mut purchase: Purchase, cx: &mut Cx<'_, Self>) {
        let asked: usize = self.asked.values().map(|purchase| purchase.sales.len()).sum();
        let room = SALES.saturating_sub(self.sales.len() + asked).min(UNITS.into());
        let over = purchase.sales.split_off(room.min(purchase.sales.len()));
        for sale in over {
            miss(sale, "many places are being bought already; it is next".into(), false, cx);
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
        let Some(Purchase { sales, fuel, most, .. }) = self.asked.remove(&number) else { return };
        let mut offers = offers.iter();
        for sale in sales {
            match offers.next().map(|offer| (offer, Term::of(offer, Goods::Cycles))) {
                Some((offer, term)) => self.hold(sale, offer, term, (fuel, most), cx),
                None => {
                    let why = shortage.unwrap_or(NoDeal::NoSeller).to_string();
                    miss(sale, why, false, cx);
                }
            }
        }
    }

    fn hold(
        &mut self,
        sale: Sale,
        offer: &Offer,
        term: Term,
        (fuel, most): (u64, Micro),
        cx: &mut Cx<'_, Self>,
    ) {
        // The buyer checked it already; what is spent is checked where it is spent.
        let Some(held) = term.most(fuel).filter(|held| *held <= most) else {
            let why = format!("the cheapest costs more than the {most} credits that it may");
            return miss(sale, why, true, cx);
        };
        let ticket = self.ticket();
        let terms = vec![term.clone()];
        let bargain = Bargain { seller: offer.seller, term, fuel, held, receipt: None };
        self.sales.insert(ticket, Under { sale, offer: *offer, bargain });
        cx.emit(Event::Order { ticket, order: Order::Hold { sale, payer: cx.me, fuel, terms } });
    }

    fn ordered(&mut self, ticket: u64, outcome: Outcome, receipt: Option<Signed>, cx: &mut Cx<'_, Self>) {
        // Not one that was given back.
        let Some(under) = self.sales.get_mut(&ticket) else { return };
        match outcome {
            Ok(()) => {
                under.bargain.receipt = receipt;
                cx.emit(Event::Buy { ticket, offer: under.offer });
            }
            Err(refusal) => {
                let Some(Under { sale, .. }) = self.sales.remove(&ticket) else { return };
                miss(sale, format!("the bank puts nothing aside for it: {refusal}"), true, cx);
            }
        }
    }

    fn taken(&mut self, ticket: u64, taken: bool, cx: &mut Cx<'_, Self>) {
        let Some(Under { sale, bargain, .. }) = self.sales.remove(&ticket) else { return };
        if taken {
            return cx.emit(Event::Bought(Bought { sale, place: Ok(bargain) }));
        }
        let why = format!("{} has just sold it to somebody else, or is gone", bargain.seller.id.short());
        let ticket = self.ticket();
        cx.emit(Event::Order { ticket, order: sale.settle(0) });
        miss(sale, why, true, cx);
    }
}

fn miss(sale: Sale, why: String, named: bool, cx: &mut Cx<'_, Cheapest>) {
    cx.emit(Event::Bought(Bought { sale, place: Err(Missed { why, named }) }));
}
