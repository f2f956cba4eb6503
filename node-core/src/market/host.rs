//! The host: carries what its guests sell to the markets, and what is said to them back.
//!
//! It decides nothing about their stock. For a guest that has gone it answers itself, so that nobody
//! waits, and it lets a guest speak only to market owners that it has looked up for it and to who has
//! asked.

use super::config::MarketConfig;
use super::guest::{Message, ToGuest, ToHost, Word};
use super::message::{self, Alive, Prober, ToBuyer, ToSeller};
use crate::address::Contact;
use crate::bounds::GUESTS;
use crate::circle::Point;
use crate::ids::NodeId;
use crate::keys::Signed;
use crate::money::Micro;
use crate::protocol::{Cx, Input, InputOf, Protocol};
use crate::time::Time;
use crate::under_way::UnderWay;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Lookups of one guest at once; of more, the oldest is forgotten. Our choice: one a kind of goods.
const LOOKUPS: usize = 3;

/// Market owners to which a guest may speak. Our choice: where it is listed, and where it was.
const OWNERS: usize = 4;

/// Nodes that have asked a guest, and may be answered. Our choice: a market operator with its copies, and
/// buyers.
const ASKERS: usize = 16;

/// Between two questions of a guest for its balance. Our choice: what an eye follows.
const BALANCE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct Host {
    config: Arc<MarketConfig>,
    me: Option<Contact>,
    guests: BTreeMap<NodeId, Guest>,
    /// By guest and the guest's own number.
    lookups: UnderWay<(NodeId, u64)>,
}

#[derive(Debug, Default)]
struct Guest {
    owners: VecDeque<Contact>,
    askers: VecDeque<NodeId>,
    /// Its numbers of lookups under way.
    lookups: VecDeque<u64>,
    asked_balance: Option<Time>,
}

#[derive(Clone, Debug)]
pub enum Command {
    /// The rules of the swarm, before anybody is a guest.
    Rules(Arc<MarketConfig>),
    /// Where others dial this node; nobody is its guest before.
    Me(Contact),
    /// A node is connected that nobody can dial.
    Guest(NodeId),
    /// From a market owner or a buyer to a guest.
    ForGuest { from: NodeId, guest: NodeId, what: ToSeller },
    /// Answers [`Event::Lookup`].
    Found { number: u64, owner: Option<Contact> },
    /// Balance of a guest, as the bank states it.
    Balance { of: NodeId, balance: Micro },
}

#[derive(Clone, Debug)]
pub enum Event {
    /// Look this up on the ring of nodes; answered by [`Command::Found`].
    Lookup {
        number: u64,
        key: Point,
    },
    Say {
        to: NodeId,
        message: message::Message,
    },
    /// Show this to the bank; answered by [`Command::Balance`].
    Balance(Signed),
}

type Hcx<'a> = Cx<'a, Host>;

impl Protocol for Host {
    type Message = Message;
    type Timer = ();
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, input: InputOf<Self>, cx: &mut Hcx<'_>) {
        match input {
            Input::Message { from, message: Message::ToHost(message) } => self.heard(from, message, cx),
            Input::Command(Command::Rules(config)) => self.config = config,
            Input::Command(Command::Me(me)) => {
                if self.me.replace(me) != Some(me) {
                    self.guests.keys().for_each(|guest| self.welcome(*guest, cx));
                }
            }
            Input::Command(Command::Guest(guest)) => {
                // One more gives, and sells nothing.
                if self.guests.len() < GUESTS {
                    self.guests.insert(guest, Guest::default());
                    self.welcome(guest, cx);
                }
            }
            Input::Command(Command::ForGuest { from, guest, what }) => self.pass(from, guest, what, cx),
            Input::Command(Command::Found { number, owner }) => self.found(number, owner, cx),
            Input::Command(Command::Balance { of, balance }) => {
                if self.guests.contains_key(&of) {
                    cx.send(of, Message::ToGuest(ToGuest::Balance(balance)));
                }
            }
            Input::Down(peer) | Input::Unreachable(peer) => {
                self.guests.remove(&peer);
                self.lookups.retain(|(guest, _)| *guest != peer);
            }
            // Nothing that the route gives a host, or nothing to be done.
            Input::Message { .. } | Input::Up(_) | Input::Timer(()) => {}
        }
    }

    fn check_invariants(&self) {
        assert!(self.guests.len() <= GUESTS, "guests are bounded");
        assert!(self.lookups.len() <= GUESTS * LOOKUPS, "lookups under way are bounded");
    }
}

impl Host {
    pub fn new(config: impl Into<Arc<MarketConfig>>) -> Host {
        Host {
            config: config.into(),
            me: None,
            guests: BTreeMap::new(),
            lookups: UnderWay::new(GUESTS * LOOKUPS),
        }
    }

    fn welcome(&self, guest: NodeId, cx: &mut Hcx<'_>) {
        if let Some(at) = self.me {
            cx.send(guest, Message::ToGuest(ToGuest::Host { at, scheme: self.config.scheme }));
        }
    }

    fn heard(&mut self, from: NodeId, message: ToHost, cx: &mut Hcx<'_>) {
        let Some(guest) = self.guests.get_mut(&from) else { return };
        match message {
            ToHost::Locate { number, key } => {
                guest.lookups.retain(|other| *other != number);
                if let Some(oldest) = keep(&mut guest.lookups, number, LOOKUPS) {
                    self.lookups.forget((from, oldest));
                }
                cx.emit(Event::Lookup { number: self.lookups.ask((from, number)), key });
            }
            ToHost::Say { to, word } => say(from, guest, to, word, cx),
            ToHost::Balance(leave) => {
                let soon = guest.asked_balance.is_some_and(|at| cx.now.since(at) < BALANCE);
                if leave.by == from && !soon {
                    guest.asked_balance = Some(cx.now);
                    cx.emit(Event::Balance(leave));
                }
            }
        }
    }

    fn found(&mut self, number: u64, owner: Option<Contact>, cx: &mut Hcx<'_>) {
        let Some((id, its)) = self.lookups.answered(number) else { return };
        let Some(guest) = self.guests.get_mut(&id) else { return };
        guest.lookups.retain(|of| *of != its);
        if let Some(owner) = owner {
            guest.owners.retain(|known| known.id != owner.id);
            keep(&mut guest.owners, owner, OWNERS);
        }
        cx.send(id, Message::ToGuest(ToGuest::Owner { number: its, owner }));
    }

    fn pass(&mut self, from: NodeId, id: NodeId, what: ToSeller, cx: &mut Hcx<'_>) {
        // A guest runs units of who is connected to it: of its host.
        let reaches = !matches!(what, ToSeller::Take(_)) || from == cx.me;
        if let Some(guest) = self.guests.get_mut(&id).filter(|_| reaches) {
            guest.askers.retain(|asker| *asker != from);
            keep(&mut guest.askers, from, ASKERS);
            return cx.send(id, Message::ToGuest(ToGuest::Heard { from, what }));
        }
        let nothing = |ticket| Box::new(Alive { ticket, listing: None, listed: None, probed: Vec::new() });
        let word = match what {
            ToSeller::Probe { ticket, by: Prober::Owner, .. } => Word::Alive(nothing(ticket)),
            ToSeller::Probe { ticket, by: Prober::Buyer, .. } => Word::AliveToBuyer(nothing(ticket)),
            ToSeller::Take(take) => Word::Gone { ticket: take.ticket },
            ToSeller::Listed { .. } | ToSeller::Refused { .. } => return,
        };
        carry(id, from, word, cx);
    }
}

/// Carries a guest's word to a node that the guest may speak to; drops it otherwise.
fn say(id: NodeId, guest: &Guest, to: NodeId, word: Word, cx: &mut Hcx<'_>) {
    if let Some(owner) = guest.owners.iter().find(|owner| owner.id == to) {
        cx.reach(*owner);
    } else if !guest.askers.contains(&to) {
        return;
    }
    carry(id, to, word, cx);
}

fn carry(guest: NodeId, to: NodeId, word: Word, cx: &mut Hcx<'_>) {
    let message = match word {
        Word::AliveToBuyer(alive) => message::Message::ToBuyer(ToBuyer::Alive(alive)),
        Word::Taken { ticket } => message::Message::ToBuyer(ToBuyer::Taken { ticket }),
        Word::Gone { ticket } => message::Message::ToBuyer(ToBuyer::Gone { ticket }),
        word => message::Message::OfGuest { guest, word: Box::new(word) },
    };
    cx.emit(Event::Say { to, message });
}

/// The newest `most`.
/// Gives what had to make room for it.
fn keep<T>(list: &mut VecDeque<T>, one: T, most: usize) -> Option<T> {
    let oldest = if list.len() >= most { list.pop_front() } else { None };
    list.push_back(one);
    oldest
}
