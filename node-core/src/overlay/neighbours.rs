//! Neighbours: peers that are connected and have introduced themselves.
//!
//! Nothing else is said before both have said [`Hello`]; a gateway may ask for an invite.

mod guests;
mod invites;

use crate::address::{Dialable, Ip};
use crate::channel::Carrier;
use crate::elsewhere::{Elsewhere, NAMED_MAX, Web};
use crate::ids::NodeId;
use crate::overlay::swarm::{Conflict, Swarm};
use crate::peers::{Known, Peer, Peers};
use crate::platform::Platform;
use crate::protocol::{Cx, Input, InputOf, Protocol};
use crate::ticket::Services;
use crate::time::Time;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::time::Duration;

/// How long a peer may take to introduce itself. Our choice: a slow phone's start-up, or a home
/// line that is full for most of a minute.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection that this node has no use for is closed after such a silence. Our choice: more
/// than two of the tree's refreshes, by which the other side would show that it has one.
const SPARE: Duration = Duration::from_secs(150);

/// Longest name and invite shown to others, bytes.
const TEXT_MAX: usize = 64;

/// Peers beyond the bound that are remembered until their connection is closed. Our choice: more than a
/// gateway hears of in that time.
const LEAVING_MAX: usize = 1024;

/// Names of nodes that left, for lists of who did what; the oldest goes first. Our choice: more
/// than one job's list shows.
const GONE_MAX: usize = 1024;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    Hello(Hello),
    /// The other may not take part.
    Rejected {
        reason: String,
    },
    /// The sender has as many peers as it takes, and names other gateways of the swarm.
    Full {
        gateways: Vec<Elsewhere>,
    },
    /// The sender has learnt settings of the swarm since it introduced itself.
    Swarm(Swarm),
    /// Whether and where the sender can be dialled has changed.
    Dialable(Dialable),
}

/// Introduction: a peer's statement about itself. Its id is proven by the connection, not by this message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    pub name: String,
    pub platform: Platform,
    /// Owns jobs.
    pub gateway: bool,
    pub invite: Option<String>,
    /// Whether and where others can dial it.
    pub dialable: Dialable,
    /// Where the addressee is seen from, which it cannot know itself.
    pub seen: Option<Ip>,
    /// Where pages connect to it, if it is a gateway.
    pub web: Option<Web>,
    /// Settings of the swarm, as far as it knows them.
    pub swarm: Swarm,
    /// Services that it has: it drops frames of others.
    pub speaks: Services,
}

/// How many peers a node takes.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    pub peers: usize,
    /// Most guests of a gateway; they count among `peers`.
    pub guests: usize,
}

/// A peer from which something has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hearing {
    Known,
    /// It was told that it cannot stay.
    Leaving,
    /// It has not introduced itself.
    Stranger,
}

#[derive(Debug)]
pub struct Neighbours {
    me: Hello,
    /// Word that a joining node has to show; `None` if everybody may join.
    invite: Option<String>,
    /// Wrong words that came lately.
    wrong: invites::Wrong,
    room: Room,
    /// The gateway that is dialled since another one has named it.
    joins: Option<NodeId>,
    /// The guest that gives way to the next peer that introduces itself, and which peer that is.
    yields: Option<(NodeId, NodeId)>,
    peers: Peers,
    gone: VecDeque<(NodeId, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Somebody may have taken too long to introduce itself.
    Patience,
    /// Look for connections that nobody uses.
    Tidy,
}

#[derive(Clone, Debug)]
pub enum Command {
    Connected {
        peer: NodeId,
        ip: Option<Ip>,
        /// This node was told to connect to it.
        joined: bool,
        over: Carrier,
        /// The relay of its circuit, if it is connected on one.
        via: Option<NodeId>,
    },
    /// A gateway that another one has named, and that is dialled in its place: its word on the swarm is believed.
    Joins(NodeId),
    Disconnected(NodeId),
    /// If the gateway is full when `to` introduces itself as a guest, this guest is sent elsewhere in its place.
    Yields {
        guest: NodeId,
        to: NodeId,
    },
    /// Whether this node has a lasting use for the connection. Until told otherwise it has.
    Spare(NodeId, bool),
    /// Whether and where this node can be dialled, from now on.
    Dialable(Dialable),
}

#[derive(Clone, Debug)]
pub enum Event {
    Up {
        peer: NodeId,
        gateway: bool,
        /// This node was told to connect to it.
        joined: bool,
        /// Where the peer is seen from by this node, and this node by the peer.
        ip: Option<Ip>,
        seen: Option<Ip>,
        /// Whether and where others can dial it.
        dialable: Dialable,
    },
    /// It says that this has changed.
    Dialable {
        peer: NodeId,
        dialable: Dialable,
    },
    /// Also of who has not introduced itself yet: what was said to it first may be lost all the same.
    Down {
        peer: NodeId,
    },
    /// The connection is to be closed.
    Close {
        peer: NodeId,
        reason: String,
    },
    Rejected {
        peer: NodeId,
        reason: String,
    },
    /// A peer has no room for this node, and names other gateways.
    Full {
        peer: NodeId,
        gateways: Vec<Elsewhere>,
    },
    /// This node has learnt settings of its swarm: all that it knows now.
    Learnt(Swarm),
}

impl Protocol for Neighbours {
    type Message = Message;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, input: InputOf<Self>, cx: &mut Cx<'_, Self>) {
        match input {
            Input::Command(Command::Connected { peer, ip, joined, over, via }) => {
                self.connected(peer, ip, (joined, over, via), cx);
            }
            Input::Command(Command::Joins(peer)) => self.joins = Some(peer),
            Input::Command(Command::Yields { guest, to }) => self.yields = Some((guest, to)),
            Input::Command(Command::Disconnected(peer)) => {
                if let Some(known) = self.peers.remove(peer) {
                    if let Some(hello) = known.hello {
                        self.gone(peer, hello.name.into());
                    }
                    cx.emit(Event::Down { peer });
                }
            }
            Input::Command(Command::Spare(peer, spare)) => {
                self.peers.change(peer, |peer| peer.spare = spare);
                if spare && self.peers.is_connected(peer) {
                    cx.set_timer_by(Timer::Tidy, SPARE);
                }
            }
            Input::Command(Command::Dialable(dialable)) => {
                self.me.dialable = dialable;
                // Each of them has heard this node's introduction.
                for (peer, _) in self.peers.connections().filter(|(_, peer)| !peer.leaving) {
                    cx.send(peer, Message::Dialable(dialable));
                }
            }
            Input::Timer(Timer::Tidy) => self.tidy(cx),
            Input::Message { from, message: Message::Hello(hello) } => self.hello(from, hello, cx),
            Input::Message { from, message: Message::Dialable(dialable) } => {
                self.dialable(from, dialable, cx);
            }
            Input::Message { from, message: Message::Rejected { mut reason } } => {
                truncate(&mut reason, 500);
                self.refused_by(from);
                cx.emit(Event::Rejected { peer: from, reason });
            }
            Input::Message { from, message: Message::Full { mut gateways } } => {
                gateways.truncate(NAMED_MAX);
                // Else whoever connects could have this node dial what it likes.
                let asked = self.peers.connection(from).is_some_and(|peer| peer.joined);
                self.refused_by(from);
                if asked {
                    cx.emit(Event::Full { peer: from, gateways });
                }
            }
            Input::Message { from, message: Message::Swarm(swarm) } => {
                if self.peers.knows(from) {
                    self.agree(from, &swarm, cx);
                }
            }
            Input::Timer(Timer::Patience) => self.lose_patience(cx),
            Input::Up(_) | Input::Down(_) | Input::Unreachable(_) => {}
        }
    }

    fn check_invariants(&self) {
        self.peers.check();
    }
}

impl Neighbours {
    pub fn new(mut me: Hello, invite: Option<String>, room: Room) -> Neighbours {
        truncate(&mut me.name, TEXT_MAX);
        let wrong = invites::Wrong::default();
        let (peers, gone) = (Peers::new(), VecDeque::new());
        Neighbours { me, invite, wrong, room, joins: None, yields: None, peers, gone }
    }

    /// Settings of the swarm, as far as this node knows them.
    pub fn swarm(&self) -> &Swarm {
        &self.me.swarm
    }

    /// The peer does not let this node in. Messages that it sends nevertheless are no faults.
    fn refused_by(&mut self, peer: NodeId) {
        self.peers.change(peer, |peer| peer.leaving = true);
    }

    fn connected(
        &mut self,
        peer: NodeId,
        ip: Option<Ip>,
        (joined, over, via): (bool, Carrier, Option<NodeId>),
        cx: &mut Cx<'_, Self>,
    ) {
        let joined = joined || self.joins.take_if(|named| *named == peer).is_some();
        let now = cx.now;
        let new = |leaving| Peer { leaving, joined, over, via, ..Peer::new(ip, now) };
        if self.peers.len() >= self.room.peers && !self.peers.is_connected(peer) {
            if self.peers.len() < self.room.peers + LEAVING_MAX {
                self.peers.insert(peer, new(true));
            }
            return self.send_elsewhere(peer, ip, cx);
        }
        self.peers.insert(peer, new(false));
        cx.set_timer_by(Timer::Patience, PATIENCE);
        cx.send(peer, Message::Hello(Hello { seen: ip, ..self.me.clone() }));
    }

    fn hello(&mut self, from: NodeId, mut hello: Hello, cx: &mut Cx<'_, Self>) {
        let yields = self.yields.take().filter(|(_, to)| *to == from).map(|(guest, _)| guest);
        let Some(peer) = self.peers.connection(from).filter(|peer| !peer.leaving) else { return };
        if peer.hello.is_some() {
            return cx.fault(from, "introduced itself twice".into());
        }
        if let Some(invite) = &self.invite {
            let reason = match &hello.invite {
                None => Some("this swarm takes invited nodes only; join with --invite WORD"),
                Some(_) if self.wrong.are_too_many(peer, cx.now) => Some(invites::TOO_MANY),
                Some(word) if word != invite => {
                    self.wrong.came(peer, cx.now);
                    Some("the invite is wrong, or was replaced since; ask the gateway's operator for it")
                }
                Some(_) => None,
            };
            if let Some(reason) = reason {
                return self.reject(from, reason.into(), cx);
            }
        }
        truncate(&mut hello.name, TEXT_MAX);
        let Hello { name, platform, gateway, dialable, seen, web, swarm, speaks, .. } = hello;
        let dialable = own(from, dialable, cx);
        let web = web.filter(|_| gateway).map(|web| web.checked().into());
        let known = Known { name: name.into(), platform, gateway, dialable, speaks, web };
        let ip = peer.ip;
        let is_full = self.me.gateway && known.is_guest() && self.peers.guests() >= self.room.guests;
        let yields = yields.filter(|guest| is_full && self.has_guest(*guest));
        if is_full && yields.is_none() {
            return self.send_elsewhere(from, ip, cx);
        }
        if !self.agree(from, &swarm, cx) {
            return;
        }
        if let Some(guest) = yields {
            let ip = self.peers.connection(guest).and_then(|peer| peer.ip);
            self.send_elsewhere(guest, ip, cx);
        }
        let Some(joined) = self.peers.connection(from).map(|peer| peer.joined) else { return };
        self.peers.change(from, |peer| peer.hello = Some(known));
        cx.emit(Event::Up { peer: from, gateway, joined, ip, seen, dialable });
    }

    fn dialable(&mut self, from: NodeId, dialable: Dialable, cx: &mut Cx<'_, Self>) {
        // A peer that was rejected, or has not introduced itself, is ignored.
        let Some(before) = self.peers.get(from).map(|hello| hello.dialable) else { return };
        let dialable = own(from, dialable, cx);
        if before != dialable {
            self.peers.change(from, |peer| {
                if let Some(hello) = &mut peer.hello {
                    hello.dialable = dialable;
                }
            });
            if self.peers.get(from).is_some_and(Known::is_guest)
                && self.me.gateway
                && self.peers.guests() > self.room.guests
            {
                let ip = self.peers.connection(from).and_then(|peer| peer.ip);
                return self.send_elsewhere(from, ip, cx);
            }
            cx.emit(Event::Dialable { peer: from, dialable });
        }
    }

    /// There is no room for this peer: it is told so, and where there may be some.
    fn send_elsewhere(&mut self, peer: NodeId, ip: Option<Ip>, cx: &mut Cx<'_, Self>) {
        // An address on this machine is no use to another one.
        let near = ip.is_none_or(Ip::is_loopback);
        let mut gateways: Vec<Elsewhere> = (self.peers.connections())
            .filter_map(|(_, peer)| {
                let hello = peer.hello.as_ref().filter(|hello| hello.gateway)?;
                let contact = hello.dialable.contact()?;
                Some(Elsewhere { contact, web: hello.web.as_deref().cloned() })
            })
            .filter(|it| near || !it.contact.ip.is_loopback())
            .collect();
        // Some of them at random, so that not all go to the same one.
        while gateways.len() > NAMED_MAX {
            gateways.swap_remove(cx.rng.below(gateways.len() as u64) as usize);
        }
        if !gateways.is_empty() {
            let first = cx.rng.below(gateways.len() as u64) as usize;
            gateways.rotate_left(first);
        }
        cx.send(peer, Message::Full { gateways });
        self.close(peer, "this node has as many peers as it takes".into(), cx);
    }

    /// Learns what a peer knows of the swarm. Returns false if the two are of different swarms: then
    /// they part.
    fn agree(&mut self, from: NodeId, theirs: &Swarm, cx: &mut Cx<'_, Self>) -> bool {
        if !theirs.is_possible() {
            cx.fault(from, "is set to a tree that cannot be built".into());
            return true;
        }
        if let Some(conflict) = self.me.swarm.conflict(theirs) {
            self.part(from, &conflict, cx);
            return false;
        }
        // Settings are remembered over restarts, so they are learnt only from a peer that this node was told
        // to join: a newcomer may be wrong, or lie.
        let joined = self.peers.connection(from).is_some_and(|peer| peer.joined);
        if joined && self.me.swarm.learn(theirs) {
            let swarm = self.me.swarm;
            cx.emit(Event::Learnt(swarm));
            // Those whose introduction is still on its way have heard this node's, which did not say it.
            let greeted = self.peers.connections().filter(|(id, peer)| *id != from && !peer.leaving);
            greeted.for_each(|(id, _)| cx.send(id, Message::Swarm(swarm)));
        }
        true
    }

    fn part(&mut self, peer: NodeId, conflict: &Conflict, cx: &mut Cx<'_, Self>) {
        cx.send(peer, Message::Rejected { reason: conflict.for_peer() });
        cx.emit(Event::Rejected { peer, reason: conflict.for_us() });
        self.close(peer, conflict.for_us(), cx);
    }

    /// Closes a connection. Late messages of a peer that was not let in are no faults.
    fn close(&mut self, peer: NodeId, reason: String, cx: &mut Cx<'_, Self>) {
        self.peers.change(peer, |peer| peer.leaving = true);
        cx.emit(Event::Close { peer, reason });
    }

    /// Closes the connections of those who do not say who they are.
    fn lose_patience(&mut self, cx: &mut Cx<'_, Self>) {
        let strangers = self.peers.connections().filter(|(_, peer)| peer.hello.is_none() && !peer.leaving);
        let mut next = None;
        for (peer, stranger) in strangers {
            let left = PATIENCE.saturating_sub(cx.now.since(stranger.heard));
            if left.is_zero() {
                let reason = format!("it did not introduce itself within {} s", PATIENCE.as_secs());
                cx.emit(Event::Close { peer, reason });
            } else {
                next = Some(next.map_or(left, |next: Duration| next.min(left)));
            }
        }
        if let Some(next) = next {
            // A crowd of strangers is looked through once a second at most.
            cx.set_timer(Timer::Patience, next.max(Duration::from_secs(1)));
        }
    }

    /// Closes what is spare and silent. Gateways keep what they have, and nodes their gateways.
    fn tidy(&mut self, cx: &mut Cx<'_, Self>) {
        let mut spare = false;
        for (peer, known) in self.peers.connections() {
            if !known.spare || self.me.gateway || known.hello.as_ref().is_some_and(|hello| hello.gateway) {
                continue;
            }
            if cx.now.since(known.heard) >= SPARE {
                cx.emit(Event::Close { peer, reason: "neither side has a use for the connection".into() });
            } else {
                spare = true;
            }
        }
        if spare {
            cx.set_timer_by(Timer::Tidy, SPARE);
        }
    }

    fn gone(&mut self, peer: NodeId, name: String) {
        if !name.is_empty() {
            self.gone.retain(|(known, _)| *known != peer);
            self.gone.truncate(GONE_MAX - 1);
            self.gone.push_front((peer, name));
        }
    }

    fn reject(&mut self, peer: NodeId, reason: String, cx: &mut Cx<'_, Self>) {
        cx.send(peer, Message::Rejected { reason: reason.clone() });
        self.close(peer, reason, cx);
    }

    /// Notes that something has come from a peer, and says whether it is heard. No input: it is asked for each
    /// frame, and nothing follows from it.
    pub fn hears(&mut self, peer: NodeId, now: Time) -> Hearing {
        match self.peers.heard(peer, now) {
            true => Hearing::Known,
            false if self.peers.is_leaving(peer) => Hearing::Leaving,
            // A peer that has not introduced itself still counts as silent.
            false => Hearing::Stranger,
        }
    }

    /// Connections of this node.
    pub fn peers(&self) -> &Peers {
        &self.peers
    }

    /// Names of nodes that left, the last first.
    pub fn names_of_the_gone(&self) -> impl Iterator<Item = (NodeId, &str)> {
        self.gone.iter().map(|(id, name)| (*id, name.as_str()))
    }
}

/// A peer speaks for its own address only.
fn own(from: NodeId, dialable: Dialable, cx: &mut Cx<'_, Neighbours>) -> Dialable {
    match dialable {
        Dialable::At(contact) if contact.id != from || contact.port == 0 => {
            let fault = "gave another node's address for its own".into();
            cx.fault(from, fault);
            Dialable::No
        }
        dialable => dialable,
    }
}

/// Cuts a peer's text to a bound, at a character's edge.
fn truncate(text: &mut String, bytes: usize) {
    if text.len() > bytes {
        let end = (0..=bytes).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
        text.truncate(end);
    }
}
