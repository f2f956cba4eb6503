//! Where the machines of a node meet, as `node/services` lets them.

use super::{End, Markets};
use node_core::NodeId;
use node_core::address::Contact;
use node_core::circle::{Located, Point, RingId};
use node_core::market::Message;
use node_core::market::buyer::{self, Buyer};
use node_core::market::owner::{self, Owner};
use node_core::market::seller::{self, Seller};
use node_core::overlay::ring::{Command, Event, Mode};
use node_core::protocol::{Effect, Input, InputOf, Protocol};
use node_core::replicas::Keys;
use node_core::ticket::{ServiceId, Ticket};

impl Markets {
    pub(super) fn step_owner(&mut self, n: usize, input: InputOf<Owner>) {
        let (me, now) = (self.nodes[n].contact.id, self.now);
        let effects = self.nodes[n].above.owner.step(me, now, input);
        self.follow(n, effects, Markets::owner_says);
        self.arm(n);
    }

    pub(super) fn step_seller(&mut self, n: usize, input: InputOf<Seller>) {
        let (me, now) = (self.nodes[n].contact.id, self.now);
        let effects = self.nodes[n].above.seller.step(me, now, input);
        self.follow(n, effects, Markets::seller_says);
        self.arm(n);
    }

    pub(super) fn step_buyer(&mut self, n: usize, input: InputOf<Buyer>) {
        let (me, now) = (self.nodes[n].contact.id, self.now);
        let effects = self.nodes[n].above.buyer.step(me, now, input);
        self.follow(n, effects, Markets::buyer_says);
        self.arm(n);
    }

    fn follow<P: Protocol<Message = Message>>(
        &mut self,
        n: usize,
        effects: Vec<Effect<P>>,
        says: fn(&mut Markets, usize, P::Event),
    ) {
        for effect in effects {
            match effect {
                Effect::Send { to, message } => self.speak(n, to, message),
                Effect::Emit(event) => says(self, n, event),
                Effect::Reach(contact) | Effect::Hold(contact) => self.reach(n, &contact),
                Effect::Fault { peer, fault } => self.faults.push((peer, fault)),
                // Nobody is a guest here: that takes whole nodes.
                Effect::Forward { .. } | Effect::Release(_) | Effect::Trouble(_) => {}
            }
        }
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

    fn look_up(&mut self, n: usize, ticket: Ticket, ring: RingId, key: Point) {
        self.command(n, Command::Lookup { ticket, ring, key, mode: Mode::Recursive });
    }

    fn know(&mut self, n: usize, ring: RingId, via: &[Contact]) {
        let via = via.iter().map(|contact| contact.id).collect();
        self.command(n, Command::Know { ring, via, anchors: false });
    }

    fn owner_says(&mut self, n: usize, event: owner::Event) {
        match event {
            owner::Event::Lookup { number, ring, key } => {
                self.look_up(n, ServiceId::MarketOwner.ticket(number), ring, key)
            }
            owner::Event::Join { member, via } => {
                let me = self.nodes[n].contact;
                let via = via.iter().map(|contact| contact.id).collect();
                self.command(n, Command::Join { member, me, via });
            }
            owner::Event::Leave(member) => self.command(n, Command::Leave(member)),
            owner::Event::Know { ring, via } => self.know(n, ring, &via),
        }
    }

    fn seller_says(&mut self, n: usize, event: seller::Event) {
        match event {
            seller::Event::Lookup { number, ring, key } => {
                self.look_up(n, ServiceId::Seller.ticket(number), ring, key)
            }
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
            buyer::Event::Lookup { number, ring, key } => {
                self.look_up(n, ServiceId::Buyer.ticket(number), ring, key)
            }
            buyer::Event::Know { ring, via } => self.know(n, ring, &via),
            buyer::Event::Found { ticket: Ticket { number, .. }, offers, shortage, hops, entered } => {
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
            buyer::Event::Taken { ticket } => drop(self.shared.bought.insert(ticket.number, true)),
            buyer::Event::Gone { ticket } => drop(self.shared.bought.insert(ticket.number, false)),
            buyer::Event::Looked => {}
            buyer::Event::Doubted { owner, why } => self.shared.doubts.push((n, owner, why)),
        }
    }

    pub(super) fn ring_says(&mut self, n: usize, event: &Event) {
        let command = match event {
            Event::Found { ticket, found } => return self.found(n, *ticket, Some(found.clone())),
            Event::Failed { ticket, .. } => return self.found(n, *ticket, None),
            Event::Gained { member, range, from } if member.ring == RingId::NODES => {
                owner::Command::Keys(Keys::Gained { range: *range, from: *from })
            }
            Event::Lost { member, range, to } if member.ring == RingId::NODES => {
                owner::Command::Keys(Keys::Lost { range: *range, to: *to })
            }
            Event::Successors { member, list } if member.ring == RingId::NODES => {
                owner::Command::Keys(Keys::Successors(list.iter().map(|peer| peer.contact).collect()))
            }
            Event::Joined(member) if member.ring != RingId::NODES => owner::Command::Joined(*member),
            Event::Refused { member, .. } if member.ring != RingId::NODES => owner::Command::Refused(*member),
            Event::Left(member) if member.ring != RingId::NODES => owner::Command::Left(*member),
            _ => return,
        };
        self.step_owner(n, Input::Command(command));
    }

    fn found(&mut self, n: usize, ticket: Ticket, found: Option<Located>) {
        let Ticket { of, number } = ticket;
        match of {
            ServiceId::MarketOwner => {
                let command = match found {
                    Some(found) => owner::Command::Found { number, found },
                    None => owner::Command::NotFound { number },
                };
                self.step_owner(n, Input::Command(command));
            }
            ServiceId::Seller => {
                let command = match found {
                    Some(found) => seller::Command::Found { number, owner: found.owner.contact },
                    None => seller::Command::NotFound { number },
                };
                self.step_seller(n, Input::Command(command));
            }
            ServiceId::Buyer => {
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
