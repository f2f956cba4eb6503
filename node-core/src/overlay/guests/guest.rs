//! The guest: knows which gateway speaks for this node, if nobody can dial it, and hears what was forwarded, to it
//! or from others' guests.

use super::message::{Message, ToGuest, ToRelay};
use crate::address::{Contact, Sender};
use crate::circle::Point;
use crate::ids::NodeId;
use crate::keys::Signed;
use crate::money::Micro;
use crate::protocol::{Cx, Input, InputOf, Protocol};
use crate::ticket::Ticket;
use crate::under_way::UnderWay;
use bytes::Bytes;

/// Gateways that are remembered to have offered. Our choice: a page dials one or two.
const OFFERS: usize = 4;

/// Lookups at once; of more, the oldest is not answered. Our choice: as many as a relay sees to.
const LOOKUPS: usize = 3;

#[derive(Debug)]
pub struct Guest {
    /// Others can dial this node: it needs no relay.
    dialled: bool,
    /// Gateways that offered to be the relay, in that order; the first one is.
    offers: Vec<Contact>,
    lookups: UnderWay<Ticket>,
    /// The gateway that the relay named last, to be the next one.
    second: Option<NodeId>,
}

#[derive(Clone, Debug)]
pub enum Command {
    /// Others can dial this node.
    Dialled,
    /// Nobody can.
    NotDialled,
    /// Ask the relay for the owner of this point; answered by [`Event::Located`].
    Locate { ticket: Ticket, key: Point },
    /// Ask the relay for what is on this node's account, with this leave.
    Balance(Signed),
}

#[derive(Clone, Debug)]
pub enum Event {
    /// This node has another relay, or none.
    Relay(Option<Contact>),
    Located {
        ticket: Ticket,
        owner: Option<Contact>,
    },
    /// A frame that somebody said, if the one who forwarded it is believed.
    Forwarded {
        sender: Sender,
        frame: Bytes,
    },
    /// `by` says that `guest` is not there.
    Gone {
        guest: NodeId,
        by: NodeId,
    },
    Balance(Micro),
    /// Connect to this gateway, by way of the relay if it cannot be dialled from here, in place of the one before.
    Second {
        at: Contact,
        relay: Contact,
        before: Option<NodeId>,
    },
}

type Gcx<'a> = Cx<'a, Guest>;

impl Protocol for Guest {
    type Message = Message;
    type Timer = ();
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, input: InputOf<Self>, cx: &mut Gcx<'_>) {
        match input {
            Input::Message { from, message: Message::ToGuest(message) } => self.message(from, message, cx),
            Input::Command(Command::Dialled) => self.now(|guest| guest.dialled = true, cx),
            Input::Command(Command::NotDialled) => self.now(|guest| guest.dialled = false, cx),
            Input::Command(Command::Locate { ticket, key }) => match self.relay() {
                Some(relay) => {
                    let number = self.lookups.ask(ticket);
                    cx.send(relay.id, Message::ToRelay(ToRelay::Locate { number, key }));
                }
                None => cx.emit(Event::Located { ticket, owner: None }),
            },
            Input::Command(Command::Balance(leave)) => {
                if let Some(relay) = self.relay() {
                    cx.send(relay.id, Message::ToRelay(ToRelay::Balance(leave)));
                }
            }
            Input::Down(peer) | Input::Unreachable(peer) => {
                self.now(|guest| guest.offers.retain(|offer| offer.id != peer), cx);
            }
            // Nothing that the route gives a guest, or nothing to be done.
            Input::Message { .. } | Input::Up(_) | Input::Timer(()) => {}
        }
    }
}

impl Default for Guest {
    fn default() -> Guest {
        Guest { dialled: false, offers: Vec::new(), lookups: UnderWay::new(LOOKUPS), second: None }
    }
}

impl Guest {
    /// The gateway that speaks for this node; `None` if others can dial it, or none has offered to.
    pub fn relay(&self) -> Option<Contact> {
        self.offers.first().copied().filter(|_| !self.dialled)
    }

    /// Changes what is known of relays, and says so if this node's is another one then.
    fn now(&mut self, change: impl FnOnce(&mut Guest), cx: &mut Gcx<'_>) {
        let before = self.relay();
        change(self);
        let relay = self.relay();
        if relay.map(|relay| relay.id) != before.map(|before| before.id) {
            self.lookups.retain(|_| false);
        }
        if relay != before {
            cx.emit(Event::Relay(relay));
        }
    }

    fn message(&mut self, from: NodeId, message: ToGuest, cx: &mut Gcx<'_>) {
        match message {
            ToGuest::Relay(at) => {
                // It speaks for the address that it has itself.
                let offer = Contact { id: from, ..at };
                self.now(|guest| guest.offered(offer), cx);
            }
            ToGuest::Forwarded { from: id, frame } => {
                cx.emit(Event::Forwarded { sender: Sender { id, by: Some(from) }, frame });
            }
            ToGuest::Gone(guest) => cx.emit(Event::Gone { guest, by: from }),
            ToGuest::Owner { number, owner } if self.is_relay(from) => {
                if let Some(ticket) = self.lookups.answered(number) {
                    cx.emit(Event::Located { ticket, owner });
                }
            }
            ToGuest::Balance(balance) if self.is_relay(from) => cx.emit(Event::Balance(balance)),
            ToGuest::Second(at) if at.id != cx.me && at.id != from => {
                if let Some(relay) = self.relay().filter(|relay| relay.id == from) {
                    let before = self.second.replace(at.id).filter(|before| *before != at.id);
                    cx.emit(Event::Second { at, relay, before });
                }
            }
            ToGuest::Owner { .. } | ToGuest::Balance(_) | ToGuest::Second(_) => {}
        }
    }

    fn offered(&mut self, offer: Contact) {
        let full = self.offers.len() >= OFFERS;
        match self.offers.iter_mut().find(|known| known.id == offer.id) {
            Some(known) => *known = offer,
            None if full => {}
            None => self.offers.push(offer),
        }
    }

    fn is_relay(&self, peer: NodeId) -> bool {
        self.relay().is_some_and(|relay| relay.id == peer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Ip;
    use crate::protocol::{Effect, Machine, Rng};
    use crate::ticket::ServiceId;
    use crate::time::Time;

    const ADA: NodeId = NodeId([1; 32]);
    const BOB: NodeId = NodeId([2; 32]);

    fn contact(id: NodeId) -> Contact {
        Contact { ip: Ip([9; 16]), id, port: 4001 }
    }

    /// The guest, and the relays that it had one after the other.
    struct Story(Machine<Guest>, Vec<Option<NodeId>>, Vec<Ticket>);

    impl Story {
        fn step(&mut self, input: InputOf<Guest>) {
            for effect in self.0.step(NodeId([7; 32]), Time::ZERO, input) {
                match effect {
                    Effect::Emit(Event::Relay(relay)) => self.1.push(relay.map(|relay| relay.id)),
                    Effect::Emit(Event::Located { ticket, .. }) => self.2.push(ticket),
                    _ => {}
                }
            }
        }

        fn hear(&mut self, from: NodeId, message: ToGuest) {
            self.step(Input::Message { from, message: Message::ToGuest(message) });
        }
    }

    #[test]
    fn the_relay_alone_names_the_second_gateway() {
        let mut machine = Machine::new(Guest::default(), Rng::from_seed([0; 32]));
        let mut named = |from: NodeId, message: ToGuest| -> Vec<(NodeId, Option<NodeId>)> {
            let input = Input::Message { from, message: Message::ToGuest(message) };
            let effects = machine.step(NodeId([7; 32]), Time::ZERO, input).into_iter();
            let second = |effect| match effect {
                Effect::Emit(Event::Second { at, before, .. }) => Some((at.id, before)),
                _ => None,
            };
            effects.filter_map(second).collect()
        };
        let carl = NodeId([3; 32]);
        assert_eq!(named(ADA, ToGuest::Second(contact(BOB))), [], "it is no relay yet");
        named(ADA, ToGuest::Relay(contact(ADA)));
        named(BOB, ToGuest::Relay(contact(BOB)));
        assert_eq!(named(BOB, ToGuest::Second(contact(carl))), [], "the second one names none");
        assert_eq!(named(ADA, ToGuest::Second(contact(ADA))), []);
        assert_eq!(named(ADA, ToGuest::Second(contact(NodeId([7; 32])))), []);
        assert_eq!(named(ADA, ToGuest::Second(contact(BOB))), [(BOB, None)]);
        assert_eq!(named(ADA, ToGuest::Second(contact(BOB))), [(BOB, None)], "said again, it is tried again");
        assert_eq!(named(ADA, ToGuest::Second(contact(carl))), [(carl, Some(BOB))]);
    }

    #[test]
    fn the_first_gateway_that_offers_is_the_relay_and_the_next_when_it_goes() {
        let machine = Machine::new(Guest::default(), Rng::from_seed([0; 32]));
        let mut story = Story(machine, Vec::new(), Vec::new());
        // Each says where it is; of another's address nothing is believed.
        story.hear(ADA, ToGuest::Relay(contact(BOB)));
        story.hear(BOB, ToGuest::Relay(contact(BOB)));
        assert_eq!(story.1, [Some(ADA)]);
        let ticket = |number| ServiceId::Seller.ticket(number);
        story.step(Input::Command(Command::Locate { ticket: ticket(1), key: Point(1) }));
        story.hear(BOB, ToGuest::Owner { number: 1, owner: None });
        assert_eq!(story.2, [], "it was not asked");
        story.step(Input::Down(ADA));
        assert_eq!(story.1, [Some(ADA), Some(BOB)]);
        story.hear(BOB, ToGuest::Owner { number: 1, owner: None });
        assert_eq!(story.2, [], "the question went with the relay");
        story.step(Input::Command(Command::Locate { ticket: ticket(2), key: Point(1) }));
        story.hear(BOB, ToGuest::Owner { number: 2, owner: None });
        assert_eq!(story.2, [ticket(2)]);
        story.step(Input::Command(Command::Dialled));
        story.step(Input::Command(Command::NotDialled));
        assert_eq!(story.1[2..], [None, Some(BOB)]);
        story.step(Input::Down(BOB));
        assert_eq!(story.1[4..], [None]);
    }
}
