//! Neighbours: peers that are connected and have introduced themselves.
//!
//! Nothing else is said before both have said [`Hello`]; a gateway may ask for an invite.

use crate::ids::NodeId;
use crate::node::config::Platform;
use crate::overlay::contact::{Contact, Ip, port_for};
use crate::protocol::{Cx, Input, InputOf, Protocol};
use crate::time::Time;
use litemap::LiteMap;
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
}

/// Who a peer says it is; its id is proven by the connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    pub name: String,
    pub platform: Platform,
    /// Owns jobs.
    pub gateway: bool,
    pub invite: Option<String>,
    /// Where it takes connections, TCP; none if it only dials.
    pub port: Option<u16>,
    /// Where the addressee is seen from, which it cannot know itself.
    pub seen: Option<Ip>,
}

#[derive(Debug)]
pub struct Neighbours {
    me: Hello,
    /// Takes connections from this machine only.
    loopback_only: bool,
    /// Who joins has to show this word.
    invite: Option<String>,
    peers_max: usize,
    peers: LiteMap<NodeId, Peer>,
    gone: VecDeque<(NodeId, String)>,
}

/// What is kept of a peer's introduction.
#[derive(Debug)]
pub struct Known {
    pub name: Box<str>,
    pub platform: Platform,
    pub gateway: bool,
    pub port: Option<u16>,
}

#[derive(Debug)]
struct Peer {
    hello: Option<Known>,
    /// Where it is seen.
    ip: Option<Ip>,
    heard: Time,
    /// This node has no use for the connection.
    spare: bool,
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
    },
    Disconnected(NodeId),
    /// Anything came from it.
    Heard(NodeId),
    /// Whether this node has a lasting use for the connection. Until told otherwise it has.
    Spare(NodeId, bool),
}

#[derive(Clone, Debug)]
pub enum Event {
    Up {
        peer: NodeId,
        gateway: bool,
        /// Where this node is seen from by the peer.
        seen: Option<Ip>,
        /// Where others can dial it, if they can.
        contact: Option<Contact>,
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
    Fault {
        peer: NodeId,
        fault: String,
    },
}

impl Protocol for Neighbours {
    type Message = Message;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, input: InputOf<Self>, cx: &mut Cx<'_, Self>) {
        match input {
            Input::Command(Command::Connected { peer, ip }) => self.connected(peer, ip, cx),
            Input::Command(Command::Disconnected(peer)) => {
                if let Some(known) = self.peers.remove(&peer) {
                    if let Some(hello) = known.hello {
                        self.gone(peer, hello.name.into());
                    }
                    cx.emit(Event::Down { peer });
                }
            }
            Input::Command(Command::Heard(peer)) => {
                // Who has not introduced itself is as silent as before.
                if let Some(known) = self.peers.get_mut(&peer).filter(|peer| peer.hello.is_some()) {
                    known.heard = cx.now;
                }
            }
            Input::Command(Command::Spare(peer, spare)) => {
                if let Some(known) = self.peers.get_mut(&peer) {
                    known.spare = spare;
                    if spare {
                        cx.set_timer_by(Timer::Tidy, SPARE);
                    }
                }
            }
            Input::Timer(Timer::Tidy) => self.tidy(cx),
            Input::Message { from, message: Message::Hello(hello) } => self.hello(from, hello, cx),
            Input::Message { from, message: Message::Rejected { mut reason } } => {
                truncate(&mut reason, 500);
                cx.emit(Event::Rejected { peer: from, reason });
            }
            Input::Timer(Timer::Patience) => self.lose_patience(cx),
            Input::Up(_) | Input::Down(_) => {}
        }
    }
}

impl Neighbours {
    pub fn new(mut me: Hello, loopback_only: bool, invite: Option<String>, peers_max: usize) -> Neighbours {
        truncate(&mut me.name, TEXT_MAX);
        Neighbours { me, loopback_only, invite, peers_max, peers: LiteMap::new(), gone: VecDeque::new() }
    }

    fn connected(&mut self, peer: NodeId, ip: Option<Ip>, cx: &mut Cx<'_, Self>) {
        if self.peers.len() >= self.peers_max && !self.peers.contains_key(&peer) {
            return self.reject(
                peer,
                format!("the node has {} peers, its bound; try later", self.peers_max),
                cx,
            );
        }
        self.peers.insert(peer, Peer { hello: None, ip, heard: cx.now, spare: false });
        cx.set_timer_by(Timer::Patience, PATIENCE);
        let port = port_for(self.me.port, self.loopback_only, ip);
        cx.send(peer, Message::Hello(Hello { seen: ip, port, ..self.me.clone() }));
    }

    fn hello(&mut self, from: NodeId, mut hello: Hello, cx: &mut Cx<'_, Self>) {
        let Some(peer) = self.peers.get_mut(&from) else { return };
        if peer.hello.is_some() {
            return cx.emit(Event::Fault { peer: from, fault: "introduced itself twice".into() });
        }
        if let Some(invite) = &self.invite
            && hello.invite.as_ref() != Some(invite)
        {
            self.peers.remove(&from);
            let reason = match hello.invite {
                None => "this swarm takes invited nodes only; join with --invite WORD",
                Some(_) => "the invite is not the one of this swarm; ask its operator for it",
            };
            return self.reject(from, reason.into(), cx);
        }
        truncate(&mut hello.name, TEXT_MAX);
        let Hello { name, platform, gateway, port, seen, .. } = hello;
        peer.hello = Some(Known { name: name.into(), platform, gateway, port });
        let contact = peer.ip.zip(port).map(|(ip, port)| Contact { ip, id: from, port });
        cx.emit(Event::Up { peer: from, gateway, seen, contact });
    }

    /// Closes the connections of those who do not say who they are.
    fn lose_patience(&mut self, cx: &mut Cx<'_, Self>) {
        let strangers = self.peers.iter().filter(|(_, peer)| peer.hello.is_none());
        let mut next = None;
        for (peer, stranger) in strangers {
            let left = PATIENCE.saturating_sub(cx.now.since(stranger.heard));
            if left.is_zero() {
                let reason = format!("it did not introduce itself within {} s", PATIENCE.as_secs());
                cx.emit(Event::Close { peer: *peer, reason });
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
        for (peer, known) in &self.peers {
            if !known.spare || self.me.gateway || known.hello.as_ref().is_some_and(|hello| hello.gateway) {
                continue;
            }
            if cx.now.since(known.heard) >= SPARE {
                cx.emit(Event::Close {
                    peer: *peer,
                    reason: "neither side has a use for the connection".into(),
                });
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
        cx.emit(Event::Close { peer, reason });
    }

    /// Whether the peer has introduced itself.
    pub fn knows(&self, peer: NodeId) -> bool {
        self.get(peer).is_some()
    }

    pub fn get(&self, peer: NodeId) -> Option<&Known> {
        self.peers.get(&peer)?.hello.as_ref()
    }

    /// Whether a connection stands, introduced or not.
    pub fn is_connected(&self, peer: NodeId) -> bool {
        self.peers.contains_key(&peer)
    }

    pub fn all(&self) -> impl Iterator<Item = (NodeId, &Known, Time)> {
        self.peers.iter().filter_map(|(id, p)| Some((*id, p.hello.as_ref()?, p.heard)))
    }

    /// Names of nodes that left, the last first.
    pub fn names_of_the_gone(&self) -> impl Iterator<Item = (NodeId, &str)> {
        self.gone.iter().map(|(id, name)| (*id, name.as_str()))
    }
}

/// Cuts a peer's text to a bound, at a character's edge.
fn truncate(text: &mut String, bytes: usize) {
    if text.len() > bytes {
        let end = (0..=bytes).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
        text.truncate(end);
    }
}
