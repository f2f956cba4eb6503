//! Dial-back: whether others can dial this node, and at which address.
//!
//! A node is dialable only after a peer has opened a new connection to it, as in libp2p's AutoNAT
//! v2. The node asks a peer to dial it back at the address that the peer sees it at; the peer
//! answers whether the node itself (its key is part of the handshake) was there. Until that is
//! confirmed the node is a guest. A dialable node is asked about again every 10 minutes or so.
//!
//! An address counts only if it is as wide as the swarm: a node that answers at 127.0.0.1 is
//! dialable while all members are on one machine, and a guest as soon as one is elsewhere.
//!
//! | file | content |
//! |---|---|
//! | `ask` | the node's own addresses: which are confirmed, whom to ask next |
//! | `serve` | dialling others back, within bounds |
//! | `standing` | the result: unknown, guest (and why), or member at an address |
//!
//! Bounds against misuse as an amplifier or a scanner: a peer is dialled only at the IP address
//! that its connection comes from, once at a time and not more often than every second; at most
//! 8 dials are under way to one address, and 48 in all; the dial ends with the handshake, and
//! the answer is only whether the peer's own key was there.

mod ask;
mod serve;
mod standing;

pub use standing::{Standing, Why};

use crate::address::{Contact, Dialable, Ip, Scope};
use crate::ids::NodeId;
use crate::protocol::{Cx, Input, InputOf, Protocol};
use crate::time::Time;
use ask::Candidate;
use litemap::LiteMap;
use serde::{Deserialize, Serialize};
use serve::Serving;
use std::time::Duration;

/// How long the founder of a swarm waits for a peer to reach it before it begins at its own address. Our
/// choice: members that were there before it restarted are back by then, and have a tree and a ring.
const ALONE: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// Dial the sender at this TCP port, at the IP address that its connection comes from.
    Ask { nonce: u64, port: u16 },
    /// The result; `nonce` is the one of the question.
    Answer { nonce: u64, outcome: Outcome },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The asker answered at that IP address.
    Reached(Ip),
    NotReached(Ip),
    /// Too many are asking, or the asker asks too often: later, or somebody else.
    Busy,
    /// This node does not see the asker's IP address.
    Unable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// A candidate is to be asked about, or an answer is overdue.
    Look,
    /// The founder of a swarm has waited long enough for somebody who sees it.
    Alone,
}

#[derive(Clone, Debug)]
pub enum Command {
    /// The node has started.
    Start,
    /// A peer has introduced itself.
    Met(Met),
    /// A peer says that it can be dialled there, or not.
    Dialable { peer: NodeId, dialable: Dialable },
    /// The answer to [`Event::Probe`].
    Probed { number: u64, reached: bool },
}

/// A peer that has introduced itself.
#[derive(Clone, Copy, Debug)]
pub struct Met {
    pub peer: NodeId,
    /// The IP address that this node sees the peer at.
    pub ip: Option<Ip>,
    /// The IP address that the peer sees this node at.
    pub seen: Option<Ip>,
    /// Whether the peer can dial; pages cannot.
    pub dials: bool,
    pub gateway: bool,
    /// This node was told to connect to it.
    pub joined: bool,
    pub dialable: Dialable,
}

#[derive(Clone, Debug)]
pub enum Event {
    /// Dial the contact once, on a connection of its own, beside any other; answered by
    /// [`Command::Probed`].
    Probe { number: u64, contact: Contact },
    /// The node's standing is another from now on.
    Standing(Standing),
}

/// Port and addresses that a node listens on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Listening {
    /// TCP; `None` if the node only dials.
    pub port: Option<u16>,
    pub loopback_only: bool,
    /// Own address at which a gateway that founds a swarm begins if it is alone. Nobody depends on it yet, so
    /// nobody has to confirm it. `None` on other nodes.
    pub first: Option<Ip>,
    pub gateway: bool,
}

#[derive(Debug)]
pub struct DialBack {
    listening: Listening,
    /// Most nodes have a few: a `LiteMap` takes a fifth of the memory of a `BTreeMap`.
    peers: LiteMap<NodeId, Peer>,
    candidates: Vec<Candidate>,
    standing: Standing,
    serving: Serving,
    /// Peers that show the swarm to be as wide as that, by [`Scope`].
    wide: [u32; 3],
    /// How wide an address has to be.
    width: Scope,
    /// Connected gateways.
    gateways: u32,
}

#[derive(Debug)]
struct Peer {
    ip: Option<Ip>,
    seen: Option<Ip>,
    dials: bool,
    gateway: bool,
    joined: bool,
    dialable: Dialable,
    /// This node has dialled it back there.
    reached: Option<Ip>,
    /// The scope that it is counted under.
    counted: Option<Scope>,
    /// When it last had this node dial it back.
    served: Option<Time>,
    /// When this node last asked it.
    asked: Option<Time>,
}

type Dcx<'a> = Cx<'a, DialBack>;

impl Protocol for DialBack {
    type Message = Message;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, input: InputOf<Self>, cx: &mut Dcx<'_>) {
        match input {
            Input::Command(Command::Start) => {
                if self.listening.first.is_some() {
                    cx.set_timer(Timer::Alone, ALONE);
                }
            }
            Input::Timer(Timer::Alone) => self.found(cx),
            Input::Command(Command::Met(met)) => self.met(met, cx),
            Input::Command(Command::Dialable { peer, dialable }) => {
                if let Some(known) = self.peers.get_mut(&peer) {
                    known.dialable = dialable;
                    self.count(peer);
                    self.decide(cx);
                }
            }
            Input::Command(Command::Probed { number, reached }) => self.probed(number, reached, cx),
            Input::Message { from, message: Message::Ask { nonce, port } } => {
                self.asked_by(from, nonce, port, cx);
            }
            Input::Message { from, message: Message::Answer { nonce, outcome } } => {
                self.answered(from, nonce, outcome, cx);
            }
            Input::Timer(Timer::Look) => self.look(cx),
            Input::Down(peer) | Input::Unreachable(peer) => self.down(peer, cx),
            Input::Up(_) => {}
        }
    }

    fn check_invariants(&self) {
        assert!(self.candidates.len() <= ask::CANDIDATES, "addresses are bounded");
        assert!(self.serving.len() <= serve::UNDER_WAY, "dials under way are bounded");
        let counted = self.peers.values().filter(|peer| peer.counted.is_some()).count();
        assert_eq!(counted, self.wide.iter().sum::<u32>() as usize, "each peer is counted once");
    }
}

impl DialBack {
    pub fn new(listening: Listening) -> DialBack {
        DialBack {
            listening,
            peers: LiteMap::new(),
            candidates: Vec::new(),
            standing: if listening.port.is_none() { Standing::Guest(Why::NoPort) } else { Standing::Unknown },
            serving: Serving::default(),
            wide: [0; 3],
            width: Scope::Machine,
            gateways: 0,
        }
    }

    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// Nobody sees the founder of a swarm: it begins at its own address.
    fn found(&mut self, cx: &mut Dcx<'_>) {
        let Listening { port: Some(port), first: Some(ip), .. } = self.listening else { return };
        if self.standing == Standing::Unknown {
            self.standing = Standing::Member(Contact { ip, id: cx.me, port });
            cx.emit(Event::Standing(self.standing));
        }
        self.decide(cx);
    }

    fn met(&mut self, met: Met, cx: &mut Dcx<'_>) {
        let Met { peer, ip, seen, dials, gateway, joined, dialable } = met;
        if !dials && !gateway {
            return;
        }
        let (counted, served, asked, reached) = (None, None, None, None);
        self.forget(peer);
        self.gateways += u32::from(gateway);
        let known = Peer { ip, seen, dials, gateway, joined, dialable, reached, counted, served, asked };
        self.peers.insert(peer, known);
        self.count(peer);
        self.seen_by(peer, cx);
        self.decide(cx);
    }

    fn down(&mut self, peer: NodeId, cx: &mut Dcx<'_>) {
        self.forget(peer);
        self.unanswered_by(peer, cx);
        self.decide(cx);
    }

    fn forget(&mut self, peer: NodeId) {
        let Some(known) = self.peers.remove(&peer) else { return };
        self.gateways -= u32::from(known.gateway);
        if let Some(scope) = known.counted {
            self.wide[scope as usize] -= 1;
        }
    }

    /// Counts the peer under the scope that it shows the swarm to have: that of the address of a gateway which this
    /// node was told to join, and that of a member which it has itself dialled back. Nobody else is believed: a
    /// wide address that is made up would make guests of all members of a narrow swarm.
    fn count(&mut self, peer: NodeId) {
        let Some(known) = self.peers.get_mut(&peer) else { return };
        let gateway =
            known.dialable.contact().filter(|_| known.gateway && known.joined).map(|contact| contact.ip);
        let scope = known.reached.into_iter().chain(gateway).map(Ip::scope).max();
        if let Some(old) = std::mem::replace(&mut known.counted, scope) {
            self.wide[old as usize] -= 1;
        }
        if let Some(scope) = scope {
            self.wide[scope as usize] += 1;
        }
    }

    /// How wide an address has to be for the members of this swarm.
    fn needed(&self) -> Scope {
        let is_there = |scope: &Scope| self.wide[*scope as usize] > 0;
        [Scope::World, Scope::Site].into_iter().find(is_there).unwrap_or(Scope::Machine)
    }
}
