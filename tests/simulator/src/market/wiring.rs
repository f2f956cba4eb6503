//! Where the machines of a node meet, as `node/route` lets them.

use super::{End, Markets};
use node_core::NodeId;
use node_core::market::Message;
use node_core::market::buyer::{self, Buyer};
use node_core::market::owner::{self, Owner};
use node_core::market::seller::{self, Seller};
use node_core::overlay::contact::Contact;
use node_core::overlay::ring::{Command, Event, Located, Mode, Point, RingId};
use node_core::protocol::{Effect, Input, InputOf};

/// Whose lookup a number is: above all numbers that the stories use.
const OWNER: u64 = 1 << 60;
const SELLER: u64 = 2 << 60;
const BUYER: u64 = 3 << 60;
const WHO: u64 = 3 << 60;

impl Markets {
    pub(super) fn step_owner(&mut self, n: usize, input: InputOf<Owner>) {
        let (me, now) = (self.nodes[n].contact.id, self.now);
        for effect in self.nodes[n].above.owner.step(me, now, input) {
            match effect {
                Effect::Send { to, message } => self.speak(n, to, message),
                Effect::Emit(event) => self.owner_says(n, event),
            }
        }
        self.arm(n);
    }

    pub(super) fn step_seller(&mut self, n: usize, input: InputOf<Seller>) {
        let (me, now) = (self.nodes[n].contact.id, self.now);
        for effect in self.nodes[n].above.seller.step(me, now, input) {
            match effect {
                Effect::Send { to, message } => self.speak(n, to, message),
                Effect::Emit(event) => self.seller_says(n, event),
            }
        }
        self.arm(n);
    }

    pub(super) fn step_buyer(&mut self, n: usize, input: InputOf<Buyer>) {
        let (me, now) = (self.nodes[n].contact.id, self.now);
        for effect in self.nodes[n].above.buyer.step(me, now, input) {
            match effect {
                Effect::Send { to, message } => self.speak(n, to, message),
                Effect::Emit(event) => self.buyer_says(n, event),
            }
        }
        self.arm(n);
    }

    fn speak(&mut self, n: usize, to: NodeId, message: Message) {
        if let Some(to) = self.find(to) {
            self.say_above(n, to, message);
        }
    }

    fn reach(&mut self, n: usize, contact: &Contact) {
        if let Some(to) = self.find(contact.id) {
            self.dial(n, to);
        }
    }

    fn look_up(&mut self, n: usize, number: u64, ring: RingId, key: Point) {
        self.command(n, Command::Lookup { number, ring, key, mode: Mode::Recursive });
    }

    fn know(&mut self, n: usize, ring: RingId, via: &[Contact]) {
        let via = via.iter().map(|contact| contact.id).collect();
        self.command(n, Command::Know { ring, via, anchors: false });
    }

    fn owner_says(&mut self, n: usize, event: owner::Event) {
        match event {
            owner::Event::Reach(contact) => self.reach(n, &contact),
            owner::Event::Lookup { number, ring, key } => self.look_up(n, OWNER | number, ring, key),
            owner::Event::Join { member, via } => {
                let me = self.nodes[n].contact;
                let via = via.iter().map(|contact| contact.id).collect();
                self.command(n, Command::Join { member, me, via });
            }
            owner::Event::Leave(member) => self.command(n, Command::Leave(member)),
            owner::Event::Know { ring, via } => self.know(n, ring, &via),
            owner::Event::Fault { peer, fault } => self.faults.push((peer, fault)),
        }
    }

    fn seller_says(&mut self, n: usize, event: seller::Event) {
        match event {
            seller::Event::Reach(contact) => self.reach(n, &contact),
            seller::Event::Lookup { number, ring, key } => self.look_up(n, SELLER | number, ring, key),
            seller::Event::Sold { kind, units, capacity, price, .. } => {
                let Some((goods, sold)) = self.shared.stock.get_mut(&(n, kind)) else { return };
                *sold += if kind.divides() { capacity } else { u64::from(units) };
                let most = if kind.divides() { goods.capacity } else { u64::from(goods.units) };
                if *sold > most {
                    self.shared.wrong.push(format!("{n} sold {sold} of {most}"));
                }
                if price < goods.cost {
                    self.shared.wrong.push(format!("{n} sold below its cost"));
                }
            }
            seller::Event::Unlisted { why, .. } => self.shared.refusals.push((n, why)),
            seller::Event::Listed { .. } => {}
        }
    }

    fn buyer_says(&mut self, n: usize, event: buyer::Event) {
        match event {
            buyer::Event::Reach(contact) => self.reach(n, &contact),
            buyer::Event::Lookup { number, ring, key } => self.look_up(n, BUYER | number, ring, key),
            buyer::Event::Know { ring, via } => self.know(n, ring, &via),
            buyer::Event::Found { number, offers, shortage, hops, entered } => {
                let there = |id| self.find(id).is_some_and(|at| self.lives(at) && !self.is_frozen(at));
                let dead = offers.iter().filter(|offer| !there(offer.seller.id)).count();
                let at = self.now;
                let Some(asked) = self.shared.asked.get_mut(&number) else { return };
                let wanted = &asked.wanted;
                let sound = offers.len() <= usize::from(wanted.units)
                    && offers.iter().all(|offer| {
                        let cost = offer.price.of(wanted.quantity).round_up();
                        let sum = cost.and_then(|cost| cost.plus(offer.payoff));
                        offer.price >= offer.goods.cost
                            && offer.goods.capacity >= wanted.capacity
                            && sum.is_some_and(|sum| sum <= wanted.most)
                    });
                asked.end = Some(End { at, offers, shortage, hops, entered, dead });
                if !sound {
                    self.shared.wrong.push(format!("{n} was offered what it did not ask for: {number}"));
                }
            }
            buyer::Event::Taken { number } => drop(self.shared.bought.insert(number, true)),
            buyer::Event::Gone { number } => drop(self.shared.bought.insert(number, false)),
            buyer::Event::Looked => {}
            buyer::Event::Doubted { owner, why } => self.shared.doubts.push((n, owner, why)),
        }
    }

    pub(super) fn ring_says(&mut self, n: usize, event: &Event) {
        let command = match event {
            Event::Found { number, found } => return self.found(n, *number, Some(found.clone())),
            Event::Failed { number, .. } => return self.found(n, *number, None),
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
        self.step_owner(n, Input::Command(command));
    }

    fn found(&mut self, n: usize, number: u64, found: Option<Located>) {
        let (who, number) = (number & WHO, number & !WHO);
        match who {
            OWNER => {
                let command = match found {
                    Some(found) => owner::Command::Found { number, found },
                    None => owner::Command::NotFound { number },
                };
                self.step_owner(n, Input::Command(command));
            }
            SELLER => {
                let command = match found {
                    Some(found) => seller::Command::Found { number, owner: found.owner.contact },
                    None => seller::Command::NotFound { number },
                };
                self.step_seller(n, Input::Command(command));
            }
            BUYER => {
                let command = match found {
                    Some(found) => buyer::Command::Found { number, found },
                    None => buyer::Command::NotFound { number },
                };
                self.step_buyer(n, Input::Command(command));
            }
            _ => {}
        }
    }
}
