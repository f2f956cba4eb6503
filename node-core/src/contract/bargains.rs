//! Bargains: sales on their way from an offer to a settlement. First the bank holds what a sale may cost at
//! most, then its sellers are asked for the goods, and in the end what was used is paid.
//!
//! A sale has a *leg* for each of its sellers. It is made when the seller of the first leg has sold: the runner
//! of a unit, the keeper of a file. Further legs (space for a unit's checkpoints) may fail.
//!
//! A bargain is forgotten when it is made or has failed. If it fails after the bank held credit, its buyer returns
//! that by a settlement with nothing used. All answers are known by their tickets.

use super::{Order, Outcome, Refusal, Sale, Settled, Settlements};
use crate::goods::Offer;
use crate::keys::Signed;
use std::collections::BTreeMap;

/// Bargains under way, each with what its buyer wants it for. The caller bounds their number.
#[derive(Debug)]
pub struct Bargains<W> {
    by_sale: BTreeMap<Sale, Bargain<W>>,
    /// Questions without an answer, by ticket.
    asked: BTreeMap<u64, Asked>,
    pub settlements: Settlements,
    last: u64,
}

#[derive(Debug)]
pub struct Bargain<W> {
    pub purpose: W,
    pub legs: Vec<Leg>,
    /// The bank's, for the sellers.
    pub receipt: Option<Signed>,
    /// Ticket of the order to hold, and of the question to each leg's seller.
    hold: u64,
    takes: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Leg {
    pub offer: Offer,
    /// `None`: its seller has not answered.
    pub sold: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Hold(Sale),
    Leg(Sale, usize),
    Settlement(Sale),
}

/// Consequence of an answer.
#[derive(Debug)]
pub enum Step<W> {
    /// Nobody waits for it any more, or there is more to wait for.
    Nothing,
    /// Ask these sellers, each by its ticket, and show them the receipt.
    Take {
        takes: Vec<(u64, Offer)>,
        receipt: Option<Signed>,
    },
    /// The bank holds nothing.
    NotHeld(Sale, Bargain<W>, Refusal),
    /// The seller of the first leg has not sold. The bank holds credit.
    NotSold(Sale, Bargain<W>),
    /// The first leg is sold, and further ones are not answered. [`Bargains::enough`] does without them.
    Waits(Sale),
    Made(Sale, Bargain<W>),
    /// A settlement was answered.
    Settled(Sale, Settled),
}

impl<W> Default for Bargains<W> {
    fn default() -> Self {
        let (by_sale, asked) = (BTreeMap::new(), BTreeMap::new());
        Bargains { by_sale, asked, settlements: Settlements::default(), last: 0 }
    }
}

impl<W> Bargains<W> {
    /// How many are neither made nor failed.
    pub fn len(&self) -> usize {
        self.by_sale.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_sale.is_empty() && self.settlements.is_empty()
    }

    /// Begins a bargain about these offers, one a leg, at least one. Returns the ticket by which the bank is to hold
    /// what it may cost. A sale has one bargain: a second one takes the place of the first.
    pub fn begin(&mut self, sale: Sale, offers: Vec<Offer>, purpose: W) -> u64 {
        self.end(sale);
        let hold = self.ask(Asked::Hold(sale));
        let legs = offers.into_iter().map(|offer| Leg { offer, sold: None }).collect();
        self.by_sale.insert(sale, Bargain { purpose, legs, receipt: None, hold, takes: Vec::new() });
        hold
    }

    /// Whether the bank holds credit for it and its sellers are asked.
    pub fn is_held(&self, sale: Sale) -> bool {
        self.by_sale.get(&sale).is_some_and(|bargain| !bargain.takes.is_empty())
    }

    /// Forgets a bargain; later answers to it are nothing.
    pub fn end(&mut self, sale: Sale) -> Option<Bargain<W>> {
        let bargain = self.by_sale.remove(&sale)?;
        for ticket in bargain.takes.iter().chain([&bargain.hold]) {
            self.asked.remove(ticket);
        }
        Some(bargain)
    }

    /// Ends a bargain whose first leg is sold, whatever its other sellers would have answered.
    pub fn enough(&mut self, sale: Sale) -> Option<Bargain<W>> {
        let first = self.by_sale.get(&sale)?.legs.first()?;
        if first.sold == Some(true) { self.end(sale) } else { None }
    }

    /// Orders a settlement that pays for so much of each payment leg, by its ticket; `None` if one is under way.
    pub fn settle(&mut self, sale: Sale, used: Vec<u64>) -> Option<(u64, Order)> {
        let order = self.settlements.begin(sale, used)?;
        Some((self.ask(Asked::Settlement(sale)), order))
    }

    /// Settlements that the bank's client had no room for, to be ordered again by their tickets.
    pub fn settle_again(&mut self) -> Vec<(u64, Order)> {
        let orders = self.settlements.again();
        orders.into_iter().map(|(sale, order)| (self.ask(Asked::Settlement(sale)), order)).collect()
    }

    /// Takes the bank's answer to an order.
    pub fn ordered(&mut self, ticket: u64, outcome: Outcome, receipt: Option<Signed>) -> Step<W> {
        let sale = match self.asked.get(&ticket) {
            Some(Asked::Hold(sale)) => *sale,
            Some(Asked::Settlement(sale)) => {
                let sale = *sale;
                self.asked.remove(&ticket);
                return Step::Settled(sale, self.settlements.answered(sale, outcome));
            }
            Some(Asked::Leg(..)) | None => return Step::Nothing,
        };
        self.asked.remove(&ticket);
        if let Err(refusal) = outcome {
            return self.end(sale).map_or(Step::Nothing, |bargain| Step::NotHeld(sale, bargain, refusal));
        }
        let legs = self.by_sale.get(&sale).map_or(0, |bargain| bargain.legs.len());
        let tickets: Vec<u64> = (0..legs).map(|leg| self.ask(Asked::Leg(sale, leg))).collect();
        let Some(bargain) = self.by_sale.get_mut(&sale) else { return Step::Nothing };
        let takes = tickets.iter().copied().zip(bargain.legs.iter().map(|leg| leg.offer)).collect();
        (bargain.receipt, bargain.takes) = (receipt.clone(), tickets);
        Step::Take { takes, receipt }
    }

    /// Takes a seller's answer.
    pub fn taken(&mut self, ticket: u64, sold: bool) -> Step<W> {
        let Some(Asked::Leg(sale, at)) = self.asked.get(&ticket).copied() else { return Step::Nothing };
        self.asked.remove(&ticket);
        let Some(bargain) = self.by_sale.get_mut(&sale) else { return Step::Nothing };
        if let Some(leg) = bargain.legs.get_mut(at) {
            leg.sold = Some(sold);
        }
        let all = bargain.legs.iter().all(|leg| leg.sold.is_some());
        let end: fn(Sale, Bargain<W>) -> Step<W> = match bargain.legs.first().and_then(|leg| leg.sold) {
            Some(false) => Step::NotSold,
            Some(true) if all => Step::Made,
            Some(true) => return Step::Waits(sale),
            None => return Step::Nothing,
        };
        self.end(sale).map_or(Step::Nothing, |bargain| end(sale, bargain))
    }

    fn ask(&mut self, what: Asked) -> u64 {
        self.last += 1;
        self.asked.insert(self.last, what);
        self.last
    }

    /// Checks what holds between two answers, for the invariants of the caller.
    pub fn check(&self) {
        for asked in self.asked.values() {
            let known = match asked {
                Asked::Hold(sale) | Asked::Leg(sale, _) => self.by_sale.contains_key(sale),
                Asked::Settlement(sale) => self.settlements.is_under_way(*sale),
            };
            assert!(known, "questions are about what is under way");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Address;
    use crate::goods::{Goods, Kind, Market};
    use crate::ids::{JobId, NodeId, UnitId};
    use crate::money::{Micro, Price};
    use crate::platform::Platform;
    use crate::protocol::Rng;
    use std::collections::BTreeSet;

    fn sale(index: u32) -> Sale {
        Sale { unit: UnitId { job: JobId([1; 16]), index }, number: 1, kind: Kind::Cycles }
    }

    fn offer(seller: u8) -> Offer {
        let market = Market::first(Kind::Cycles, 0).expect("the lowest market");
        let (kind, capacity, price, engine) = (Kind::Cycles, Market::LEAST, Price(1), Platform::Native);
        let goods = Goods { kind, capacity, units: 1, minutes: 1, cost: price, engine, memory_mib: 64 };
        let seller = Address::here(NodeId([seller; 32]));
        let owner = NodeId([9; 32]);
        Offer { seller, goods, number: 1, capacity, price, market, owner, payoff: Micro::ZERO }
    }

    fn takes<W: std::fmt::Debug>(step: Step<W>) -> Vec<u64> {
        match step {
            Step::Take { takes, .. } => takes.into_iter().map(|(ticket, _)| ticket).collect(),
            step => panic!("sellers are to be asked, not: {step:?}"),
        }
    }

    #[test]
    fn a_seller_is_asked_when_the_bank_holds_what_it_may_cost() {
        let mut bargains = Bargains::default();
        let hold = bargains.begin(sale(1), vec![offer(1)], "a unit");
        assert!(!bargains.is_held(sale(1)));
        let asked = takes(bargains.ordered(hold, Ok(()), None));
        assert!(bargains.is_held(sale(1)));
        assert!(matches!(bargains.taken(asked[0], true), Step::Made(made, _) if made == sale(1)));
        assert!(bargains.is_empty());
    }

    #[test]
    fn where_the_bank_refuses_nobody_is_asked() {
        let mut bargains = Bargains::default();
        let hold = bargains.begin(sale(1), vec![offer(1)], ());
        let step = bargains.ordered(hold, Err(Refusal::NoAccount), None);
        assert!(matches!(step, Step::NotHeld(_, _, Refusal::NoAccount)));
        assert!(matches!(bargains.ordered(hold, Ok(()), None), Step::Nothing), "one answer a question");
    }

    #[test]
    fn a_sale_is_made_without_its_further_legs_and_never_without_its_first() {
        let mut bargains = Bargains::default();
        let hold = bargains.begin(sale(1), vec![offer(1), offer(2)], ());
        let asked = takes(bargains.ordered(hold, Ok(()), None));
        assert!(bargains.enough(sale(1)).is_none(), "the first seller has not answered");
        assert!(matches!(bargains.taken(asked[0], true), Step::Waits(_)));
        let made = bargains.enough(sale(1)).expect("the first leg is sold");
        assert_eq!(made.legs[1].sold, None);
        assert!(matches!(bargains.taken(asked[1], true), Step::Nothing), "too late");

        let hold = bargains.begin(sale(2), vec![offer(1), offer(2)], ());
        let asked = takes(bargains.ordered(hold, Ok(()), None));
        assert!(matches!(bargains.taken(asked[1], true), Step::Nothing));
        assert!(matches!(bargains.taken(asked[0], false), Step::NotSold(..)));
    }

    #[test]
    fn answers_to_a_bargain_that_was_ended_are_nothing() {
        let mut bargains = Bargains::default();
        let hold = bargains.begin(sale(1), vec![offer(1)], ());
        assert!(bargains.end(sale(1)).is_some());
        assert!(matches!(bargains.ordered(hold, Ok(()), None), Step::Nothing));
        bargains.check();
    }

    /// Banks and sellers that answer late, in any order or never, and a buyer that loses patience: whatever the bank
    /// holds is paid or returned, once, and no seller is asked for what is not held.
    #[test]
    fn all_credit_that_is_held_is_settled_once() {
        for seed in 0..500u32 {
            let mut world = World { rng: Rng::fork(&[3; 32], &seed.to_string()), ..World::default() };
            for _ in 0..300 {
                world.step();
                world.bargains.check();
            }
            world.come_to_rest();
        }
    }

    enum Question {
        Hold(Sale),
        Take(Sale),
        Settle(Sale),
    }

    struct World {
        rng: Rng,
        bargains: Bargains<u32>,
        questions: BTreeMap<u64, Question>,
        /// Sales that the bank holds credit for, and those that it has settled.
        held: BTreeSet<Sale>,
        settled: BTreeSet<Sale>,
        next: u32,
    }

    impl Default for World {
        fn default() -> Self {
            World {
                rng: Rng::fork(&[3; 32], ""),
                bargains: Bargains::default(),
                questions: BTreeMap::new(),
                held: BTreeSet::new(),
                settled: BTreeSet::new(),
                next: 0,
            }
        }
    }

    impl World {
        fn step(&mut self) {
            match self.rng.below(5) {
                0 if self.bargains.len() < 8 => {
                    self.next += 1;
                    let legs = 1 + self.rng.below(2) as u8;
                    let offers = (1..=legs).map(offer).collect();
                    let ticket = self.bargains.begin(sale(self.next), offers, self.next);
                    self.questions.insert(ticket, Question::Hold(sale(self.next)));
                }
                1 => {
                    let again = self.bargains.settle_again();
                    self.settle(again);
                }
                2 if self.rng.below(4) == 0 => {
                    let impatient = sale(1 + self.rng.below(u64::from(self.next.max(1))) as u32);
                    if self.bargains.end(impatient).is_some() {
                        self.over(impatient);
                    }
                }
                _ => self.answer(),
            }
        }

        /// A bank carries orders out in turn; sellers and answers have no order.
        fn answer(&mut self) {
            let bank = self.questions.iter().find(|(_, question)| !matches!(question, Question::Take(_)));
            let seller = self.questions.iter().find(|(_, question)| matches!(question, Question::Take(_)));
            let chosen = if self.rng.below(2) == 0 { bank.or(seller) } else { seller.or(bank) };
            let Some(ticket) = chosen.map(|(ticket, _)| *ticket) else { return };
            let step = match self.questions.remove(&ticket) {
                Some(Question::Hold(sale)) => match self.rng.below(4) {
                    0 => self.bargains.ordered(ticket, Err(Refusal::NoAccount), None),
                    _ => {
                        assert!(!self.settled.contains(&sale), "nothing is held after the end");
                        self.held.insert(sale);
                        self.bargains.ordered(ticket, Ok(()), None)
                    }
                },
                Some(Question::Take(sale)) => {
                    let sold = self.rng.below(3) > 0;
                    if self.bargains.is_held(sale) {
                        assert!(self.held.contains(&sale), "nobody sells without credit that is held");
                    }
                    self.bargains.taken(ticket, sold)
                }
                Some(Question::Settle(sale)) => match self.rng.below(3) {
                    0 => self.bargains.ordered(ticket, Err(Refusal::Full), None),
                    _ => {
                        let outcome = if self.held.remove(&sale) { Ok(()) } else { Err(Refusal::Over) };
                        self.settled.insert(sale);
                        self.bargains.ordered(ticket, outcome, None)
                    }
                },
                None => return,
            };
            self.follow(step);
        }

        fn follow(&mut self, step: Step<u32>) {
            match step {
                Step::Take { takes, .. } => {
                    let sale = takes.first().and_then(|(first, _)| match self.bargains.asked.get(first) {
                        Some(Asked::Leg(sale, 0)) => Some(*sale),
                        _ => None,
                    });
                    let sale = sale.expect("the first leg is asked for first");
                    self.questions
                        .extend(takes.into_iter().map(|(ticket, _)| (ticket, Question::Take(sale))));
                }
                Step::Waits(sale) => {
                    if self.bargains.enough(sale).is_some() {
                        self.over(sale);
                    }
                }
                Step::Made(sale, _) | Step::NotSold(sale, _) => self.over(sale),
                Step::NotHeld(..) | Step::Nothing => {}
                Step::Settled(sale, outcome) => {
                    assert!(outcome != Settled::Over || !self.held.contains(&sale));
                }
            }
        }

        fn over(&mut self, sale: Sale) {
            let order = self.bargains.settle(sale, Vec::new());
            assert!(order.is_some(), "a bargain ends once");
            self.settle(order);
        }

        fn settle(&mut self, orders: impl IntoIterator<Item = (u64, Order)>) {
            for (ticket, order) in orders {
                let sale = order.sale().expect("it settles a sale");
                assert!(self.questions.insert(ticket, Question::Settle(sale)).is_none());
            }
        }

        /// Nothing new begins, and all questions are answered.
        fn come_to_rest(&mut self) {
            let open: Vec<Sale> = (1..=self.next).map(sale).collect();
            for sale in open {
                if self.bargains.end(sale).is_some() {
                    self.over(sale);
                }
            }
            for _ in 0..10_000 {
                let again = self.bargains.settle_again();
                self.settle(again);
                self.answer();
            }
            assert!(self.bargains.is_empty() && self.questions.is_empty());
            assert!(self.held.is_empty(), "all that was held came back or was paid");
        }
    }
}
