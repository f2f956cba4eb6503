//! Ends of circuits at this node: asks a relay for one, and gives its stream of bytes to the driver, which puts a
//! connection on it.

use super::message::{CircuitId, Message, Piece, Refusal, ToEnd, ToRelay, WINDOW, cost};
use crate::address::Contact;
use crate::channel::Carrier;
use crate::ids::NodeId;
use crate::protocol::{Cx, Input, InputOf, Protocol};
use crate::rates::Rates;
use crate::ticket::ServiceId;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::time::Duration;

/// Ends at once. Our choice: as many as a relay gives one node.
pub const ENDS: usize = 128;

/// Ends that one relay may have brought unasked: a hostile one leaves room for others, and for this node's own.
const BROUGHT: usize = ENDS / 2;

/// Ends that others cannot use up, whichever relays bring them. Our choice: a quarter.
const OWN: usize = ENDS / 4;

/// Until a relay has answered. Our choice: three round trips around the world, and a dial to it before.
const ANSWER: Duration = Duration::from_secs(5);

/// Until the connection on a circuit stands.
const CONNECT: Duration = Duration::from_secs(10);

/// Circuits that one relay may bring at once, and until it may bring one more. Our choice: a hundred buyers of a guest
/// find it within seconds, and a relay that brings them without end costs ten handshakes a second.
const BURST: u32 = BROUGHT as u32;
const AGAIN: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub struct Circuits {
    /// Peers to which circuits were asked for, and of which relay.
    asked: BTreeMap<NodeId, NodeId>,
    ends: BTreeMap<CircuitId, End>,
    rates: Rates,
    /// Wishes of this node that ended with a connection by way of a relay.
    connected: u64,
}

#[derive(Debug)]
struct End {
    peer: NodeId,
    /// This node wanted it, and hears if nothing comes of it.
    wanted: bool,
    /// It has come unasked.
    brought: bool,
    /// The peer has been connected since it stands.
    up: bool,
    /// Bytes that this node, and the peer, may still send, as [`cost`] has them.
    room: u32,
    comes: u32,
}

#[derive(Clone, Debug)]
pub enum Command {
    /// Connect to this node by way of that relay, unless it is connected. Ends with a connection, or with
    /// [`Event::NotOpened`].
    Connect {
        peer: NodeId,
        relay: Contact,
    },
    Reply(Reply),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Request(Request),
    NotOpened { peer: NodeId, why: NotOpened },
}

/// Which end puts the connection on the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Dials,
    Answers,
}

/// Wishes to the driver, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Here is a stream to this peer, on which [`WINDOW`] may be written: put a connection on it.
    Open { circuit: CircuitId, peer: NodeId, role: Role },
    /// Bytes have come.
    Bytes(CircuitId, Bytes),
    /// So much more may be written, as [`cost`] has it.
    Room(CircuitId, u32),
    /// The stream has ended.
    Close(CircuitId),
}

/// Word of the driver on a stream, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A piece was written. As much as there is room for.
    Bytes(CircuitId, Bytes),
    /// So much was read, as [`cost`] has it.
    Read(CircuitId, u32),
    /// It was closed here.
    Closed(CircuitId),
}

/// Why there is no circuit; the words follow "the node has no circuit to the peer:".
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotOpened {
    #[error("it has as many circuits as it may; it is tried later")]
    Full,
    #[error("the relay does not answer")]
    Unanswered,
    #[error("the relay is gone")]
    Gone,
    #[error("the peer does not answer by way of the relay, or is another node")]
    Unproven,
    #[error("the relay says that {0}")]
    Refused(Refusal),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The relay should have answered for this peer.
    Answer(NodeId),
    /// The connection on this circuit should stand.
    Connect(CircuitId),
}

type Ccx<'a> = Cx<'a, Circuits>;

impl Protocol for Circuits {
    type Message = Message;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, input: InputOf<Self>, cx: &mut Ccx<'_>) {
        match input {
            Input::Command(Command::Connect { peer, relay }) => self.connect(peer, relay, cx),
            Input::Command(Command::Reply(reply)) => self.reply(reply, cx),
            Input::Message { from, message: Message::ToEnd(message) } => self.message(from, message, cx),
            Input::Timer(Timer::Answer(peer)) => self.not_asked(peer, NotOpened::Unanswered, cx),
            Input::Timer(Timer::Connect(circuit)) => {
                if self.ends.get(&circuit).is_some_and(|end| !cx.peers.is_connected(end.peer)) {
                    self.close(circuit, NotOpened::Unproven, cx);
                }
            }
            Input::Up(peer) => {
                self.asked.remove(&peer);
                cx.cancel_timer(Timer::Answer(peer));
                let over = cx.peers.connection(peer).map(|it| it.over);
                for end in self.ends.values_mut().filter(|end| end.peer == peer && !end.up) {
                    end.up = true;
                    self.connected += u64::from(end.wanted && over == Some(Carrier::Relay));
                }
            }
            Input::Down(peer) => self.gone(peer, true, cx),
            Input::Unreachable(peer) => self.gone(peer, false, cx),
            // Nothing that the route gives an end.
            Input::Message { .. } => {}
        }
    }

    fn check_invariants(&self) {
        assert!(self.ends.len() + self.asked.len() <= ENDS, "ends are bounded");
        for end in self.ends.values() {
            assert!(end.room <= WINDOW && end.comes <= WINDOW, "a window is a window");
        }
    }
}

impl Default for Circuits {
    fn default() -> Circuits {
        Circuits {
            asked: BTreeMap::new(),
            ends: BTreeMap::new(),
            rates: Rates::new(BURST, AGAIN),
            connected: 0,
        }
    }
}

impl Circuits {
    /// The relay by way of which a peer has just been connected.
    pub fn brings(&self, peer: NodeId) -> Option<NodeId> {
        let its = || self.ends.iter().filter(|(_, end)| end.peer == peer);
        its().find(|(_, end)| !end.up).or_else(|| its().next()).map(|(circuit, _)| circuit.relay)
    }

    /// Nodes that this one wanted to connect to since its start, and did by way of a relay.
    pub fn connected(&self) -> u64 {
        self.connected
    }

    fn connect(&mut self, peer: NodeId, relay: Contact, cx: &mut Ccx<'_>) {
        let has = self.asked.contains_key(&peer) || cx.peers.is_connected(peer);
        if peer == cx.me || has {
            return;
        }
        // One that was up carries a connection that has ended, of which this machine has yet to hear.
        // A circuit that another relay brought may be made up.
        let its = |(circuit, end): &(&CircuitId, &mut End)| {
            circuit.relay == relay.id && end.peer == peer && !end.up
        };
        if let Some((_, end)) = self.ends.iter_mut().find(its) {
            end.wanted = true;
            return;
        }
        if self.ends.len() + self.asked.len() >= ENDS {
            return cx.emit(Event::NotOpened { peer, why: NotOpened::Full });
        }
        self.asked.insert(peer, relay.id);
        cx.set_timer(Timer::Answer(peer), ANSWER);
        cx.send_to(relay, Message::ToRelay(ToRelay::Open { to: peer }));
    }

    fn message(&mut self, relay: NodeId, message: ToEnd, cx: &mut Ccx<'_>) {
        match message {
            ToEnd::Opened { circuit: number, to } => {
                let circuit = CircuitId { relay, number };
                // It was not waited for any longer, or another way was faster.
                if self.asked.get(&to) != Some(&relay) || self.ends.contains_key(&circuit) {
                    return Self::say(circuit, Piece::Close, cx);
                }
                self.forget_asked(to, cx);
                self.begin(circuit, to, (Role::Dials, true), cx);
            }
            ToEnd::Refused { to, why } => {
                if self.asked.get(&to) == Some(&relay) {
                    self.not_asked(to, NotOpened::Refused(why), cx);
                }
            }
            ToEnd::Incoming { circuit: number, from } => self.incoming(CircuitId { relay, number }, from, cx),
            ToEnd::On { circuit: number, piece } => self.piece(CircuitId { relay, number }, piece, cx),
        }
    }

    fn incoming(&mut self, circuit: CircuitId, from: NodeId, cx: &mut Ccx<'_>) {
        let brought = || self.ends.iter().filter(|(_, end)| end.brought);
        let its = brought().filter(|(id, _)| id.relay == circuit.relay).count();
        // This node has asked the same relay for that one, and has it so. One of another relay may be made up.
        let wanted = self.asked.get(&from) == Some(&circuit.relay);
        let is_full = self.ends.len() + self.asked.len() >= ENDS + usize::from(wanted)
            || its >= BROUGHT
            || !wanted && brought().count() >= ENDS - OWN;
        let is_relay = cx.peers.get(circuit.relay).is_some_and(|it| it.speaks.has(ServiceId::CircuitRelay));
        let is_too_often = !self.rates.take(circuit.relay, cx.now);
        if from == cx.me || is_full || is_too_often || !is_relay || self.ends.contains_key(&circuit) {
            return Self::say(circuit, Piece::Close, cx);
        }
        if wanted {
            self.forget_asked(from, cx);
        }
        self.begin(circuit, from, (Role::Answers, wanted), cx);
    }

    fn begin(&mut self, circuit: CircuitId, peer: NodeId, (role, wanted): (Role, bool), cx: &mut Ccx<'_>) {
        let brought = role == Role::Answers;
        let end = End { peer, wanted, brought, up: false, room: WINDOW, comes: WINDOW };
        self.ends.insert(circuit, end);
        cx.set_timer(Timer::Connect(circuit), CONNECT);
        cx.emit(Event::Request(Request::Open { circuit, peer, role }));
    }

    fn piece(&mut self, circuit: CircuitId, piece: Piece, cx: &mut Ccx<'_>) {
        // It may have been closed meanwhile.
        let Some(end) = self.ends.get_mut(&circuit) else { return };
        match piece {
            Piece::Data(bytes) => {
                let costs = cost(bytes.len());
                if bytes.is_empty() || costs > end.comes {
                    cx.fault(
                        circuit.relay,
                        format!(
                            "passed on {} bytes of a circuit that had room for {}",
                            bytes.len(),
                            end.comes
                        ),
                    );
                    return self.close(circuit, NotOpened::Gone, cx);
                }
                end.comes -= costs;
                cx.emit(Event::Request(Request::Bytes(circuit, bytes)));
            }
            Piece::Room(room) => {
                if room > WINDOW - end.room {
                    cx.fault(circuit.relay, "gave more room on a circuit than was used".into());
                    return self.close(circuit, NotOpened::Gone, cx);
                }
                end.room += room;
                cx.emit(Event::Request(Request::Room(circuit, room)));
            }
            Piece::Close => {
                cx.emit(Event::Request(Request::Close(circuit)));
                self.end(circuit, NotOpened::Unproven, cx);
            }
        }
    }

    fn reply(&mut self, reply: Reply, cx: &mut Ccx<'_>) {
        let (Reply::Bytes(circuit, _) | Reply::Read(circuit, _) | Reply::Closed(circuit)) = reply;
        let Some(end) = self.ends.get_mut(&circuit) else { return };
        match reply {
            Reply::Bytes(_, bytes) => {
                end.room = end.room.saturating_sub(cost(bytes.len()));
                Self::say(circuit, Piece::Data(bytes), cx);
            }
            Reply::Read(_, read) => {
                end.comes = (end.comes + read).min(WINDOW);
                Self::say(circuit, Piece::Room(read), cx);
            }
            Reply::Closed(_) => {
                Self::say(circuit, Piece::Close, cx);
                self.end(circuit, NotOpened::Unproven, cx);
            }
        }
    }

    /// A node is gone, and with it all circuits that it relays and those on which it `was_up`; a new one may have come
    /// in place of these before this node hears of their end. Or it did not prove who it is on one.
    fn gone(&mut self, peer: NodeId, was_up: bool, cx: &mut Ccx<'_>) {
        let asked: Vec<NodeId> =
            self.asked.iter().filter(|(_, relay)| **relay == peer).map(|(peer, _)| *peer).collect();
        asked.into_iter().for_each(|of| self.not_asked(of, NotOpened::Gone, cx));
        let is_over = |(circuit, end): (&CircuitId, &End)| {
            (circuit.relay == peer || end.peer == peer && end.up == was_up).then_some(*circuit)
        };
        let over: Vec<CircuitId> = self.ends.iter().filter_map(is_over).collect();
        for circuit in over {
            self.close(circuit, NotOpened::Gone, cx);
        }
    }

    /// Gives it up, at both sides.
    fn close(&mut self, circuit: CircuitId, why: NotOpened, cx: &mut Ccx<'_>) {
        cx.emit(Event::Request(Request::Close(circuit)));
        Self::say(circuit, Piece::Close, cx);
        self.end(circuit, why, cx);
    }

    fn end(&mut self, circuit: CircuitId, why: NotOpened, cx: &mut Ccx<'_>) {
        cx.cancel_timer(Timer::Connect(circuit));
        let Some(end) = self.ends.remove(&circuit) else { return };
        if end.wanted && !end.up && !cx.peers.is_connected(end.peer) {
            cx.emit(Event::NotOpened { peer: end.peer, why });
        }
    }

    /// No circuit comes of what was asked for.
    fn not_asked(&mut self, peer: NodeId, why: NotOpened, cx: &mut Ccx<'_>) {
        if self.forget_asked(peer, cx) {
            cx.emit(Event::NotOpened { peer, why });
        }
    }

    fn forget_asked(&mut self, peer: NodeId, cx: &mut Ccx<'_>) -> bool {
        cx.cancel_timer(Timer::Answer(peer));
        self.asked.remove(&peer).is_some()
    }

    fn say(circuit: CircuitId, piece: Piece, cx: &mut Ccx<'_>) {
        cx.send(circuit.relay, Message::ToRelay(ToRelay::On { circuit: circuit.number, piece }));
    }
}
