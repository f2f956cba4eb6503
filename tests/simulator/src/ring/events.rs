//! Course of events: inputs arrive, timers fire, dials end, and the machines' messages are sent on.

use super::{Above, At, Heard, Says, Stack, What, pair};
use node_core::address::Dialable;
use node_core::circle::Located;
use node_core::overlay::ring::{Event, Failure, Ring};
use node_core::peers::{Known, Peer};
use node_core::protocol::{Effect, Input, InputOf};
use node_core::ticket::Services;
use node_core::time::Time;
use node_core::{NodeId, Platform};
use std::cmp::Reverse;
use std::time::Duration;

/// So much at one moment is without end: networks of 100,000 nodes have less to do at once.
const STANDSTILL: u64 = 10_000_000;

impl<X: Above> Stack<X> {
    pub(super) fn one(&mut self) -> Option<u32> {
        let Reverse(At(time, _, what)) = self.heap.pop()?;
        self.at_once = if time > self.now { 0 } else { self.at_once + 1 };
        assert!(
            self.at_once < STANDSTILL,
            "seed {}: messages go to and fro, and time stands still",
            self.seed
        );
        self.now = time;
        self.happened += 1;
        self.trace.number(time.0);
        match what {
            What::Call(token) => return Some(token),
            What::Message(to, from, says) => {
                if !self.nodes[to].frozen {
                    match *says {
                        Says::Ring(message) => self.step(to, Input::Message { from, message }),
                        Says::Above(message) => self.heard(to, Heard::Message(from, message)),
                    }
                }
            }
            What::Down(to, id) => {
                let peer = self.ids[&id];
                if !self.is_there(peer) {
                    self.links.remove(&pair(to, peer));
                } else if !self.broken.contains(&(to, peer)) && self.links.contains(&pair(to, peer)) {
                    // It has heard of it with the connection that it has now.
                    return None;
                }
                self.broken.remove(&(to, peer));
                if !self.nodes[to].frozen {
                    self.down(to, id);
                }
            }
            What::Wake(n) => {
                if self.nodes[n].wake.is_some_and(|at| at <= self.now) {
                    self.nodes[n].wake = None;
                }
                if self.nodes[n].frozen {
                    return None;
                }
                while let Some(timer) = self.nodes[n].machine.as_mut().and_then(|m| m.due(time)) {
                    self.step(n, Input::Timer(timer));
                }
                if self.lives(n) {
                    X::fire(self, n);
                }
                self.arm(n);
            }
            What::Dialled(from, to) => {
                let waiting = self.dialling.remove(&(from, to)).unwrap_or_default();
                if !self.is_there(from) {
                    return None;
                }
                let (a, b) = (self.nodes[from].contact.id, self.nodes[to].contact.id);
                if !self.is_there(to) {
                    self.step(from, Input::Unreachable(b));
                    self.heard(from, Heard::Down(b));
                    return None;
                }
                if self.links.insert(pair(from, to)) {
                    for (n, other, peer) in [(from, to, b), (to, from, a)] {
                        if self.broken.remove(&(n, other)) {
                            self.down(n, peer);
                        }
                        self.step(n, Input::Up(peer));
                        self.heard(n, Heard::Up(peer));
                    }
                }
                for message in waiting {
                    self.transmit(from, to, message);
                }
                // Messages that waited for the other node's dial wait no longer.
                if let Some(waiting) = self.dialling.get_mut(&(to, from)) {
                    for message in std::mem::take(waiting) {
                        self.transmit(to, from, message);
                    }
                }
            }
        }
        None
    }

    /// A node hears that another one cannot be reached, though its ring has not dialled it.
    pub fn said_to_be_away(&mut self, n: usize, peer: usize) {
        if !self.links.contains(&pair(n, peer)) {
            let id = self.nodes[peer].contact.id;
            self.step(n, Input::Unreachable(id));
        }
    }

    fn down(&mut self, n: usize, peer: NodeId) {
        self.step(n, Input::Down(peer));
        self.heard(n, Heard::Down(peer));
    }

    fn heard(&mut self, n: usize, heard: Heard<X::Message>) {
        if self.lives(n) {
            X::handle(self, n, heard);
            self.arm(n);
        }
    }

    pub(super) fn is_there(&self, n: usize) -> bool {
        (self.nodes[n].machine.is_some() || self.nodes[n].lie.is_some()) && !self.nodes[n].frozen
    }

    pub(super) fn push(&mut self, after: Duration, what: What<X::Message>) {
        self.number += 1;
        self.heap.push(Reverse(At(self.now + after, self.number, what)));
    }

    pub(super) fn step(&mut self, n: usize, input: InputOf<Ring>) {
        self.trace.number(n as u64);
        if let Some(lie) = self.nodes[n].lie {
            if let Input::Message { from, message } = &input
                && let Some(from) = self.find(*from)
            {
                lie(self, n, from, message);
            }
            return;
        }
        let (now, me) = (self.now, self.nodes[n].contact.id);
        let place = &mut self.nodes[n];
        let Some(machine) = place.machine.as_mut() else { return };
        match input {
            Input::Up(peer) => place.peers.insert(peer, introduced(now)),
            Input::Down(peer) => drop(place.peers.remove(peer)),
            _ => {}
        }
        for effect in machine.step_among(&place.peers, me, now, input) {
            match effect {
                Effect::Send { to, message } => {
                    if let Some(to) = self.find(to) {
                        self.send(n, to, Says::Ring(message));
                    }
                }
                Effect::Emit(event) => self.emitted(n, event),
                Effect::Reach(contact) | Effect::Hold(contact) => {
                    if let Some(to) = self.find(contact.id) {
                        self.dial(n, to);
                    }
                }
                Effect::Fault { peer, fault } => self.faults.push((peer, fault)),
                Effect::Forward { .. } | Effect::Release(_) | Effect::Trouble(_) => {}
            }
        }
        self.arm(n);
    }

    pub(super) fn emitted(&mut self, n: usize, event: Event) {
        match &event {
            Event::Gained { member, .. } => {
                self.owners.insert(*member, n);
                self.changed();
            }
            Event::Lost { member, .. } => {
                let owns = self.view(n).is_some_and(|view| {
                    view.members().any(|view| view.id() == *member && view.range().is_some())
                });
                if !owns && self.owners.get(member) == Some(&n) {
                    self.owners.remove(member);
                }
                self.changed();
            }
            Event::Found { ticket, found } => self.ended(ticket.number, Ok(found.clone())),
            Event::Failed { ticket, why } => self.ended(ticket.number, Err(*why)),
            _ => {}
        }
        X::told(self, n, &event);
        if self.listen {
            self.events.push((n, event));
        }
    }

    pub(super) fn ended(&mut self, number: u64, result: Result<Located, Failure>) {
        self.open.remove(&number);
        if let Some(asked) = self.lookups.get_mut(&number) {
            asked.end = Some((self.now, result));
        }
    }

    /// Owners have changed.
    pub(super) fn changed(&mut self) {
        let open: Vec<u64> = self.open.iter().copied().collect();
        for number in open {
            let (ring, key) = (self.lookups[&number].ring, self.lookups[&number].key);
            let right = self.right(ring, key);
            if let Some(asked) = self.lookups.get_mut(&number) {
                asked.right.extend(right.filter(|point| !asked.right.contains(point)));
            }
        }
    }

    pub(crate) fn arm(&mut self, n: usize) {
        let node = &mut self.nodes[n];
        let Some(machine) = &node.machine else { return };
        let Some(at) = machine.deadline().into_iter().chain(node.above.deadline()).min() else { return };
        if node.wake.is_none_or(|old| at < old) {
            node.wake = Some(at);
            let after = at.since(self.now);
            self.push(after, What::Wake(n));
        }
    }

    pub(crate) fn dial(&mut self, from: usize, to: usize) {
        if from == to || self.links.contains(&pair(from, to)) || self.dialling.contains_key(&(from, to)) {
            return;
        }
        self.dialling.insert((from, to), Vec::new());
        let wait = match self.is_there(to) {
            true => self.draw(self.conditions.latency) * self.conditions.dial_hops as u32,
            false => self.draw(self.conditions.dial_timeout),
        };
        self.push(wait, What::Dialled(from, to));
    }

    pub(super) fn send(&mut self, from: usize, to: usize, message: Says<X::Message>) {
        if from != to {
            self.messages += 1;
            if self.weigh {
                let bytes = match &message {
                    Says::Ring(message) => rmp_serde::to_vec(message),
                    Says::Above(message) => rmp_serde::to_vec(message),
                };
                let bytes = bytes.map_or(0, |bytes| bytes.len());
                self.bytes += bytes as u64;
                self.longest = self.longest.max(bytes);
            }
            if !self.links.contains(&pair(from, to)) {
                // Peers to ask are kept connected by the node above.
                self.dial(from, to);
                if let Some(waiting) = self.dialling.get_mut(&(from, to)) {
                    waiting.push(message);
                }
                return;
            }
        }
        self.transmit(from, to, message);
    }

    pub(super) fn transmit(&mut self, from: usize, to: usize, message: Says<X::Message>) {
        let id = self.nodes[from].contact.id;
        let input = |message| What::Message(to, id, Box::new(message));
        if from == to {
            return self.push(Duration::ZERO, input(message));
        }
        if self.rng.below(1000) < self.conditions.loss {
            return self.cut_link(from, to);
        }
        let copies = if self.rng.below(1000) < self.conditions.double { 2 } else { 1 };
        for _ in 0..copies {
            // In order on a connection.
            let at = self.now + self.draw(self.conditions.latency);
            let last = self.last.entry((from, to)).or_insert(Time::ZERO);
            *last = at.max(*last);
            let after = last.since(self.now);
            self.push(after, input(message.clone()));
        }
    }
}

/// A peer that has introduced itself; of what it said the ring needs nothing.
fn introduced(now: Time) -> Peer {
    let known = Known {
        name: "".into(),
        platform: Platform::Native,
        gateway: false,
        dialable: Dialable::Unknown,
        speaks: Services::default(),
        web: None,
    };
    Peer { hello: Some(known), ..Peer::new(None, now) }
}
