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

/// Lookups at once; of more, the oldest is not answered. Our choice: as many as a relay sees to.
const LOOKUPS: usize = 3;

#[derive(Debug)]
pub struct Guest {
    /// Others can dial this node: it needs no relay.
    dialled: bool,
    relay: Option<Contact>,
    lookups: UnderWay<Ticket>,
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
            Input::Command(Command::Dialled) => {
                self.dialled = true;
                self.leave(|_| true, cx);
            }
            Input::Command(Command::NotDialled) => self.dialled = false,
            Input::Command(Command::Locate { ticket, key }) => match self.relay {
                Some(relay) => {
                    let number = self.lookups.ask(ticket);
                    cx.send(relay.id, Message::ToRelay(ToRelay::Locate { number, key }));
                }
                None => cx.emit(Event::Located { ticket, owner: None }),
            },
            Input::Command(Command::Balance(leave)) => {
                if let Some(relay) = self.relay {
                    cx.send(relay.id, Message::ToRelay(ToRelay::Balance(leave)));
                }
            }
            Input::Down(peer) | Input::Unreachable(peer) => self.leave(|relay| relay == peer, cx),
            // Nothing that the route gives a guest, or nothing to be done.
            Input::Message { .. } | Input::Up(_) | Input::Timer(()) => {}
        }
    }
}

impl Default for Guest {
    fn default() -> Guest {
        Guest { dialled: false, relay: None, lookups: UnderWay::new(LOOKUPS) }
    }
}

impl Guest {
    /// The gateway that speaks for this node; `None` if others can dial it, or none has offered to.
    pub fn relay(&self) -> Option<Contact> {
        self.relay
    }

    fn message(&mut self, from: NodeId, message: ToGuest, cx: &mut Gcx<'_>) {
        match message {
            ToGuest::Relay(at) => {
                // It speaks for the address that it has itself.
                let relay = Contact { id: from, ..at };
                let its = self.relay.is_none_or(|relay| relay.id == from);
                if its && !self.dialled && self.relay.replace(relay) != Some(relay) {
                    cx.emit(Event::Relay(Some(relay)));
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
            ToGuest::Owner { .. } | ToGuest::Balance(_) => {}
        }
    }

    fn is_relay(&self, peer: NodeId) -> bool {
        self.relay.is_some_and(|relay| relay.id == peer)
    }

    fn leave(&mut self, gone: impl FnOnce(NodeId) -> bool, cx: &mut Gcx<'_>) {
        if self.relay.take_if(|relay| gone(relay.id)).is_some() {
            self.lookups.retain(|_| false);
            cx.emit(Event::Relay(None));
        }
    }
}
