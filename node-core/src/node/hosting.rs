//! A gateway among its guests: what they sell goes through it.

use super::Node;
use super::host::Host;
use super::message;
use super::overlays;
use super::route;
use crate::address::Dialable;
use crate::ids::NodeId;
use crate::ledger::{self, ToBank};
use crate::market::guest::{Message, ToHost};
use crate::market::host::{self as hosting, Host as Hosting};
use crate::money::Micro;
use crate::protocol::{Input, InputOf};
use crate::ticket::ServiceId;

impl Node {
    fn hosting_step(&mut self, input: InputOf<Hosting>) {
        if self.config.gateway && self.overlays.trade.is_some() {
            self.steps.push_back(route::Step::Overlay(overlays::Step::Hosting(input)));
        }
    }

    pub(super) fn tell_hosting(&mut self, command: hosting::Command) {
        self.hosting_step(Input::Command(command));
    }

    pub(super) fn hosting_message(&mut self, from: NodeId, message: ToHost) {
        self.hosting_step(Input::Message { from, message: Message::ToHost(message) });
    }

    /// A peer has introduced itself, or says whether it can be dialled.
    pub(super) fn hosting_met(&mut self, peer: NodeId) {
        match self.neighbours.state().get(peer) {
            Some(known) if known.dialable == Dialable::No && !known.gateway => {
                self.tell_hosting(hosting::Command::Guest(peer));
            }
            _ => self.hosting_lost(peer),
        }
    }

    pub(super) fn hosting_lost(&mut self, peer: NodeId) {
        self.hosting_step(Input::Down(peer));
    }

    pub(super) fn guest_balance(&mut self, of: NodeId, balance: Micro) {
        self.tell_hosting(hosting::Command::Balance { of, balance });
    }

    pub(super) fn hosting_input(&mut self, input: InputOf<Hosting>, host: &mut impl Host) {
        let (now, me) = (self.now, self.me);
        let Some(trade) = &mut self.overlays.trade else { return };
        let effects = trade.hosting.step(me, now, input);
        self.follow(ServiceId::Hosting, effects, wrap, Node::of_hosting, host);
    }

    fn of_hosting(&mut self, event: hosting::Event, host: &mut impl Host) {
        use hosting::Event;
        match event {
            Event::Lookup { number, key } => self.guest_looks_up(number, key),
            Event::Say { to, message } => self.send(to, message::Message::Market(message), host),
            Event::Balance(leave) => {
                if let Some(bank) = self.bank() {
                    let message = ledger::Message::ToBank(ToBank::Balance(leave));
                    self.send(bank, message::Message::Ledger(message), host);
                }
            }
        }
    }
}

fn wrap(message: Message) -> message::Message {
    match message {
        Message::ToHost(message) => message::Message::ToHost(message),
        Message::ToGuest(message) => message::Message::ToGuest(message),
    }
}
