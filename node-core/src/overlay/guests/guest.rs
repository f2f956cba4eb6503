//! The guest: knows which gateway speaks for this node, if nobody can dial it, and hears what was forwarded, to it
//! or from others' guests.

use super::message::{Message, OWNERS, ToGuest, ToRelay};
use crate::address::{Contact, Sender};
use crate::circle::Point;
use crate::ids::NodeId;
use crate::keys::Signed;
use crate::money::Micro;
use crate::protocol::{Cx, Input, InputOf, Protocol};
use crate::requires::{SLOTS_MAX, Stated};
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
    /// In the order in which they came; the first one's is the relay.
    offers: Vec<Offer>,
    lookups: UnderWay<Ticket>,
    /// Second gateways that this node was to connect to, as long as they are that or the relay.
    held: Vec<NodeId>,
    /// Statement of what this node can do; none if it runs no jobs with requirements.
    stated: Option<Stated>,
    /// Its slots, and how many are busy for whom.
    load: (u32, Vec<(NodeId, u32)>),
}

/// A gateway that has offered to be the relay.
#[derive(Debug)]
struct Offer {
    at: Contact,
    /// The gateway that it named, to be the next relay; it counts once this one is the relay.
    second: Option<Contact>,
}

#[derive(Clone, Debug)]
pub enum Command {
    /// Others can dial this node.
    Dialled,
    /// Nobody can.
    NotDialled,
    /// Nothing was heard of this node for some seconds: as a relay it comes after all others.
    Quiet(NodeId),
    /// This node can do so much from now on.
    States(Stated),
    /// Slots of this node, and how many are busy for whom.
    Load(u32, Vec<(NodeId, u32)>),
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
    /// Connect to this gateway, by way of the relay if it cannot be dialled from here.
    Second {
        at: Contact,
        relay: Contact,
    },
    /// The connection to this gateway is not needed any more: it is neither the relay nor the second gateway.
    Release(NodeId),
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
            Input::Command(Command::Dialled) => self.change(|guest| guest.dialled = true, cx),
            Input::Command(Command::NotDialled) => self.change(|guest| guest.dialled = false, cx),
            // If it speaks again, it is as good as the others.
            Input::Command(Command::Quiet(peer)) => {
                self.change(|guest| guest.offers.sort_by_key(|offer| offer.at.id == peer), cx);
            }
            Input::Command(Command::States(stated)) => {
                // A node that takes no part states nothing from the beginning.
                if self.stated.is_some() && self.stated.replace(stated) != self.stated {
                    self.relay().into_iter().for_each(|relay| self.tell_choice(relay.id, cx));
                }
            }
            Input::Command(Command::Load(slots, busy)) => {
                self.load = (slots, busy);
                self.relay().into_iter().for_each(|relay| self.tell_load(relay.id, cx));
            }
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
                self.change(|guest| guest.offers.retain(|offer| offer.at.id != peer), cx);
            }
            // Nothing that the route gives a guest, or nothing to be done.
            Input::Message { .. } | Input::Up(_) | Input::Timer(()) => {}
        }
    }
}

impl Default for Guest {
    fn default() -> Guest {
        Guest {
            dialled: false,
            offers: Vec::new(),
            lookups: UnderWay::new(LOOKUPS),
            held: Vec::new(),
            stated: None,
            load: Default::default(),
        }
    }
}

impl Guest {
    /// The part of a node that states this to its relay.
    pub fn new(stated: Option<Stated>) -> Guest {
        Guest { stated, ..Guest::default() }
    }

    /// The gateway that speaks for this node; `None` if others can dial it, or none has offered to.
    pub fn relay(&self) -> Option<Contact> {
        self.offers.first().map(|offer| offer.at).filter(|_| !self.dialled)
    }

    /// Whether the node is to be the relay after this node's.
    pub fn is_second(&self, peer: NodeId) -> bool {
        let second = self.relay().and_then(|_| self.offers.first()?.second);
        second.is_some_and(|at| at.id == peer)
    }

    /// Changes what is known of relays, and says so if this node's is another one then.
    fn change(&mut self, change: impl FnOnce(&mut Guest), cx: &mut Gcx<'_>) {
        let before = self.relay();
        change(self);
        let relay = self.relay();
        if relay.map(|relay| relay.id) != before.map(|before| before.id) {
            self.lookups.retain(|_| false);
            let there = |at: &Contact| self.offers.iter().any(|offer| offer.at.id == at.id);
            for at in [before, relay].into_iter().flatten().filter(there) {
                self.tell_choice(at.id, cx);
            }
        }
        if relay != before {
            cx.emit(Event::Relay(relay));
            self.turn_to_second(cx);
        }
    }

    fn tell_choice(&self, to: NodeId, cx: &mut Gcx<'_>) {
        let relay = self.is_relay(to);
        let stated = self.stated.clone().filter(|_| relay);
        cx.send(to, Message::ToRelay(ToRelay::Chosen { relay, stated }));
        if relay {
            self.tell_load(to, cx);
        }
    }

    fn tell_load(&self, to: NodeId, cx: &mut Gcx<'_>) {
        if self.stated.is_some() {
            let (mut slots, mut busy) = self.load.clone();
            busy.truncate(OWNERS);
            slots = slots.min(SLOTS_MAX);
            cx.send(to, Message::ToRelay(ToRelay::Load { slots, busy }));
        }
    }

    /// Has the second gateway connected that the relay has named, and lets go of earlier ones.
    fn turn_to_second(&mut self, cx: &mut Gcx<'_>) {
        let relay = self.relay();
        let second = relay.and_then(|_| self.offers.first()?.second);
        let needed = |peer: &NodeId| [relay, second].into_iter().flatten().any(|at| at.id == *peer);
        self.held.iter().filter(|peer| !needed(peer)).for_each(|peer| cx.emit(Event::Release(*peer)));
        self.held.retain(needed);
        if let (Some(at), Some(relay)) = (second, relay) {
            if !self.held.contains(&at.id) {
                self.held.push(at.id);
            }
            cx.emit(Event::Second { at, relay });
        }
    }

    fn message(&mut self, from: NodeId, message: ToGuest, cx: &mut Gcx<'_>) {
        match message {
            ToGuest::Relay(at) => {
                // It speaks for the address that it has itself.
                let offer = Contact { id: from, ..at };
                let was_relay = self.is_relay(from);
                self.change(|guest| guest.offered(offer), cx);
                // It may have forgotten, or is not the first.
                if was_relay == self.is_relay(from) {
                    self.tell_choice(from, cx);
                }
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
                if let Some(offer) = self.offers.iter_mut().find(|offer| offer.at.id == from) {
                    offer.second = Some(at);
                }
                if self.is_relay(from) {
                    self.turn_to_second(cx);
                }
            }
            ToGuest::Owner { .. } | ToGuest::Balance(_) | ToGuest::Second(_) => {}
        }
    }

    fn offered(&mut self, at: Contact) {
        let full = self.offers.len() >= OFFERS;
        match self.offers.iter_mut().find(|known| known.at.id == at.id) {
            Some(known) => known.at = at,
            None if full => {}
            None => self.offers.push(Offer { at, second: None }),
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
    const CARL: NodeId = NodeId([3; 32]);

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

    /// Second gateways that were to be connected, and true; those that are not needed any more, and false.
    fn seconds(machine: &mut Machine<Guest>, input: InputOf<Guest>) -> Vec<(NodeId, bool)> {
        let second = |effect| match effect {
            Effect::Emit(Event::Second { at, .. }) => Some((at.id, true)),
            Effect::Emit(Event::Release(peer)) => Some((peer, false)),
            _ => None,
        };
        machine.step(NodeId([7; 32]), Time::ZERO, input).into_iter().filter_map(second).collect()
    }

    #[test]
    fn the_relay_alone_names_the_second_gateway() {
        let mut machine = Machine::new(Guest::default(), Rng::from_seed([0; 32]));
        let mut named = |from: NodeId, message: ToGuest| {
            seconds(&mut machine, Input::Message { from, message: Message::ToGuest(message) })
        };
        assert_eq!(named(ADA, ToGuest::Second(contact(BOB))), [], "it is no relay yet");
        named(ADA, ToGuest::Relay(contact(ADA)));
        named(BOB, ToGuest::Relay(contact(BOB)));
        assert_eq!(named(BOB, ToGuest::Second(contact(CARL))), [], "it is not the relay");
        assert_eq!(named(ADA, ToGuest::Second(contact(ADA))), []);
        assert_eq!(named(ADA, ToGuest::Second(contact(NodeId([7; 32])))), []);
        assert_eq!(named(ADA, ToGuest::Second(contact(BOB))), [(BOB, true)]);
        assert_eq!(named(ADA, ToGuest::Second(contact(BOB))), [(BOB, true)], "said again, it is tried again");
        assert_eq!(named(ADA, ToGuest::Second(contact(CARL))), [(BOB, false), (CARL, true)]);
    }

    #[test]
    fn a_new_relay_has_named_the_next_second_gateway_before() {
        let mut machine = Machine::new(Guest::default(), Rng::from_seed([0; 32]));
        let says =
            |from: NodeId, message: ToGuest| Input::Message { from, message: Message::ToGuest(message) };
        seconds(&mut machine, says(ADA, ToGuest::Relay(contact(ADA))));
        assert_eq!(seconds(&mut machine, says(ADA, ToGuest::Second(contact(BOB)))), [(BOB, true)]);
        seconds(&mut machine, says(BOB, ToGuest::Relay(contact(BOB))));
        seconds(&mut machine, says(BOB, ToGuest::Second(contact(CARL))));
        assert_eq!(seconds(&mut machine, Input::Down(ADA)), [(CARL, true)], "Bob is the relay, and needed");
        seconds(&mut machine, says(CARL, ToGuest::Relay(contact(CARL))));
        assert_eq!(seconds(&mut machine, Input::Down(BOB)), [(BOB, false)], "Carl has named nobody");
        assert_eq!(seconds(&mut machine, Input::Command(Command::Dialled)), [(CARL, false)]);
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

    #[test]
    fn a_relay_that_falls_silent_gives_way_to_the_next_and_is_kept_as_another() {
        let machine = Machine::new(Guest::default(), Rng::from_seed([0; 32]));
        let mut story = Story(machine, Vec::new(), Vec::new());
        story.hear(ADA, ToGuest::Relay(contact(ADA)));
        story.step(Input::Command(Command::Quiet(ADA)));
        assert_eq!(story.1, [Some(ADA)], "there is no other");
        story.hear(BOB, ToGuest::Relay(contact(BOB)));
        story.step(Input::Command(Command::Quiet(BOB)));
        assert_eq!(story.1, [Some(ADA)], "it is not the relay");
        story.step(Input::Command(Command::Quiet(ADA)));
        assert_eq!(story.1[1..], [Some(BOB)]);
        story.step(Input::Down(BOB));
        assert_eq!(story.1[2..], [Some(ADA)]);
    }
}
