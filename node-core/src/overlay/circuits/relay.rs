//! The circuit relay: passes on what the ends of circuits write, and shares its rate between them.
//!
//! Data are passed on at once. The relay sets the pace by the room that receivers give: it holds that back while its
//! rate is used up, and gives it out in turns, one node after the other, whichever number of circuits each has.
//! A slow receiver gives none, and its sender waits.

use super::message::{Message, PIECE, Piece, Refusal, ToEnd, ToRelay, WINDOW, cost};
use crate::ids::NodeId;
use crate::protocol::{Cx, Input, InputOf, Protocol};
use crate::rates::Rates;
use crate::ticket::ServiceId;
use crate::time::Time;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Circuits of all nodes. Our choice: windows of 256 MiB if all fill them at once.
pub const CIRCUITS: usize = 512;

/// Circuits of one node: a guest's flood leaves room for others. Our choice: a gateway that buys a hundred guests of
/// this relay at once has them.
pub(super) const EACH: usize = 128;

/// Circuits that one node may open at once, and until it may open one more.
const BURST: u32 = EACH as u32;
const AGAIN: Duration = Duration::from_millis(100);

/// Room that one node is given in its turn: the longest piece.
const TURN: u32 = cost(PIECE);

/// Nodes that owe; of more nothing is written down. Our choice: as many as a gateway has guests.
const DEBTS: usize = 4096;

/// Stands among the circuits of a node for what it owes.
const DEBT: u64 = 0;

/// Time whose rate may be saved up while nobody needs it. Our choice: what keeps the line busy between two wakes.
const SAVED: Duration = Duration::from_millis(100);

/// Between two looks at what the rate leaves. Our choice: short beside a round trip, and a hundred wakes a second.
const LOOK: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub struct CircuitRelay {
    /// Bytes a second, all circuits together; 0: none are opened.
    rate: u64,
    circuits: BTreeMap<u64, Circuit>,
    last: u64,
    opens: Rates,
    /// Room that may be given out now, and as of when.
    left: u64,
    at: Time,
    /// Nodes whose circuits are to have room, and circuits of each, both in their turn.
    turns: VecDeque<NodeId>,
    waiting: BTreeMap<NodeId, VecDeque<u64>>,
    /// Bytes that nodes have sent on circuits that have ended, and for which the rate has yet to make up. Until then they
    /// have no new circuit, whose windows would be free.
    debts: BTreeMap<NodeId, u64>,
    /// Bytes passed on since the start.
    passed: u64,
}

#[derive(Debug)]
struct Circuit {
    /// First, who has opened it.
    ends: [NodeId; 2],
    /// The other one has said something on it.
    taken: bool,
    /// From each of them to the other.
    flows: [Flow; 2],
}

/// One direction. The three numbers make up the window.
#[derive(Debug)]
struct Flow {
    /// Bytes that its sender may still send, as [`cost`] has them.
    open: u32,
    /// Those that were passed on, and are not read.
    unread: u32,
    /// Those that were read, and of which the sender does not know.
    held: u32,
}

#[derive(Clone, Copy, Debug)]
pub enum Command {
    /// The donor gives so many bytes a second.
    Rate(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The rate leaves something again.
    Look,
}

type Rcx<'a> = Cx<'a, CircuitRelay>;

impl Protocol for CircuitRelay {
    type Message = Message;
    type Timer = Timer;
    type Command = Command;
    type Event = std::convert::Infallible;

    fn handle(&mut self, input: InputOf<Self>, cx: &mut Rcx<'_>) {
        match input {
            Input::Message { from, message: Message::ToRelay(ToRelay::Open { to }) } => {
                self.open(from, to, cx)
            }
            Input::Message { from, message: Message::ToRelay(ToRelay::On { circuit, piece }) } => {
                self.piece(from, circuit, piece, cx);
            }
            Input::Command(Command::Rate(rate)) => {
                self.rate = rate;
                if rate == 0 {
                    let all: Vec<u64> = self.circuits.keys().copied().collect();
                    all.into_iter().for_each(|circuit| self.close(circuit, None, cx));
                    self.turns.clear();
                    self.waiting.clear();
                    self.debts.clear();
                }
            }
            Input::Timer(Timer::Look) => self.deal(cx),
            Input::Down(peer) | Input::Unreachable(peer) => {
                let its = self.circuits.iter().filter(|(_, it)| it.ends.contains(&peer));
                let its: Vec<u64> = its.map(|(circuit, _)| *circuit).collect();
                its.into_iter().for_each(|circuit| self.close(circuit, Some(peer), cx));
            }
            // Nothing that the route gives a relay, or nothing to be done.
            Input::Message { .. } | Input::Up(_) => {}
        }
    }

    fn check_invariants(&self) {
        assert!(self.circuits.len() <= CIRCUITS, "circuits are bounded");
        for circuit in self.circuits.values() {
            for flow in &circuit.flows {
                assert_eq!(flow.open + flow.unread + flow.held, WINDOW, "a window is a window");
            }
        }
        assert!(self.turns.len() == self.waiting.len(), "each node that waits has one turn");
        assert!(self.debts.len() <= DEBTS, "debts are bounded");
        assert!(self.debts.keys().all(|node| self.waiting.contains_key(node)), "who owes has a turn");
    }
}

impl CircuitRelay {
    /// `rate`: bytes a second.
    pub fn new(rate: u64) -> CircuitRelay {
        CircuitRelay {
            rate,
            circuits: BTreeMap::new(),
            last: 0,
            opens: Rates::new(BURST, AGAIN),
            left: 0,
            at: Time::ZERO,
            turns: VecDeque::new(),
            waiting: BTreeMap::new(),
            debts: BTreeMap::new(),
            passed: 0,
        }
    }

    /// Circuits that stand.
    pub fn len(&self) -> usize {
        self.circuits.len()
    }

    pub fn is_empty(&self) -> bool {
        self.circuits.is_empty()
    }

    /// Bytes that were passed on since the start.
    pub fn passed(&self) -> u64 {
        self.passed
    }

    fn open(&mut self, from: NodeId, to: NodeId, cx: &mut Rcx<'_>) {
        if from == to || to == cx.me {
            return cx.fault(from, "asked for a circuit to itself or to the relay".into());
        }
        let of = |node: NodeId| self.circuits.values().filter(|it| it.ends.contains(&node)).count();
        let standing = self.circuits.iter().find(|(_, it)| it.ends.contains(&from) && it.ends.contains(&to));
        let standing = standing.map(|(circuit, it)| (*circuit, it.ends[0] == from || it.taken));
        let why_not = match () {
            // Both have asked for one, and the other was first: this one hears of it.
            () if standing.is_some_and(|(_, lost)| !lost) => return,
            () if self.rate == 0 => Some(Refusal::NotRelaying),
            () if !self.opens.take(from, cx.now) => Some(Refusal::Full),
            () if self.debts.contains_key(&from) || self.debts.contains_key(&to) => Some(Refusal::Full),
            () if standing.is_some() => None,
            () if of(from) >= EACH || of(to) >= EACH => Some(Refusal::Full),
            () if self.circuits.len() >= CIRCUITS && self.in_the_way_of(from, cx).is_none() => {
                Some(Refusal::Full)
            }
            () if !cx.peers.get(to).is_some_and(|it| it.speaks.has(ServiceId::Circuits)) => {
                Some(Refusal::NotHere)
            }
            () => None,
        };
        if let Some(why) = why_not {
            return cx.send(from, Message::ToEnd(ToEnd::Refused { to, why }));
        }
        if self.circuits.len() >= CIRCUITS && standing.is_none() {
            self.in_the_way_of(from, cx).into_iter().for_each(|circuit| self.close(circuit, None, cx));
        }
        // It has lost the one that it had: a frame was dropped on the way.
        standing.into_iter().for_each(|(circuit, _)| self.close(circuit, Some(from), cx));
        self.last += 1;
        let circuit = self.last;
        let flow = || Flow { open: WINDOW, unread: 0, held: 0 };
        self.circuits.insert(circuit, Circuit { ends: [from, to], taken: false, flows: [flow(), flow()] });
        cx.send(to, Message::ToEnd(ToEnd::Incoming { circuit, from }));
        cx.send(from, Message::ToEnd(ToEnd::Opened { circuit, to }));
    }

    /// The circuit that gives way to one that this node opens, if all are taken: the youngest of the network that has
    /// opened the most.
    fn in_the_way_of(&self, opener: NodeId, cx: &Rcx<'_>) -> Option<u64> {
        let held = self.circuits.iter().map(|(circuit, it)| (it.ends[0], *circuit));
        cx.peers.crowding(held, opener).pop()
    }

    fn piece(&mut self, from: NodeId, circuit: u64, piece: Piece, cx: &mut Rcx<'_>) {
        // It may have been closed meanwhile.
        let Some(Circuit { ends, taken, flows }) = self.circuits.get_mut(&circuit) else { return };
        let [opener, other] = *ends;
        let [out, back] = flows;
        let (to, sends, reads) = match from {
            from if from == opener => (other, out, back),
            from if from == other => (opener, back, out),
            _ => return cx.fault(from, "wrote on a circuit of others".into()),
        };
        *taken |= from == other;
        match piece {
            Piece::Data(bytes) => {
                let costs = cost(bytes.len());
                if bytes.is_empty() || bytes.len() > PIECE || costs > sends.open {
                    cx.fault(
                        from,
                        format!("wrote {} bytes on a circuit; it had room for {}", bytes.len(), sends.open),
                    );
                    return self.close(circuit, None, cx);
                }
                sends.open -= costs;
                sends.unread += costs;
                self.passed += bytes.len() as u64;
                cx.send(to, Message::ToEnd(ToEnd::On { circuit, piece: Piece::Data(bytes) }));
            }
            Piece::Room(room) => {
                if room > reads.unread {
                    cx.fault(
                        from,
                        format!("has read {room} bytes of a circuit that had brought {}", reads.unread),
                    );
                    return self.close(circuit, None, cx);
                }
                if room == 0 {
                    return;
                }
                reads.unread -= room;
                let is_new = reads.held == 0;
                reads.held += room;
                if is_new {
                    self.wait(to, circuit);
                }
                self.deal(cx);
            }
            Piece::Close => self.close(circuit, Some(from), cx),
        }
    }

    /// Ends it; `by` knows already.
    fn close(&mut self, circuit: u64, by: Option<NodeId>, cx: &mut Rcx<'_>) {
        let Some(ended) = self.circuits.remove(&circuit) else { return };
        for end in ended.ends.into_iter().filter(|end| Some(*end) != by) {
            cx.send(end, Message::ToEnd(ToEnd::On { circuit, piece: Piece::Close }));
        }
        for (end, flow) in ended.ends.into_iter().zip(ended.flows) {
            self.owes(end, (flow.unread + flow.held).into());
        }
        self.deal(cx);
    }

    /// The node has sent so much of which it does not know that it was read.
    fn owes(&mut self, sender: NodeId, bytes: u64) {
        let is_new = !self.debts.contains_key(&sender);
        if bytes == 0 || self.rate == 0 || is_new && self.debts.len() >= DEBTS {
            return;
        }
        *self.debts.entry(sender).or_default() += bytes;
        if is_new {
            self.wait(sender, DEBT);
        }
    }

    /// There is room for what the node sends on the circuit.
    fn wait(&mut self, sender: NodeId, circuit: u64) {
        let its = self.waiting.entry(sender).or_default();
        if its.is_empty() {
            self.turns.push_back(sender);
        }
        its.push_back(circuit);
    }

    /// Gives out room as far as the rate goes.
    fn deal(&mut self, cx: &mut Rcx<'_>) {
        let gained = u128::from(self.rate) * cx.now.since(self.at).as_micros() / 1_000_000;
        if gained > 0 {
            let most = (self.rate / (1000 / SAVED.as_millis() as u64)).max(TURN.into());
            self.left = self.left.saturating_add(u64::try_from(gained).unwrap_or(u64::MAX)).min(most);
            self.at = cx.now;
        }
        while self.left >= u64::from(TURN)
            && let Some(sender) = self.turns.pop_front()
        {
            let Some(mut its) = self.waiting.remove(&sender) else { continue };
            if let Some(circuit) = its.pop_front()
                && let Some(room) = self.give(sender, circuit)
            {
                let (room, is_all) = room;
                self.left -= u64::from(room);
                if !is_all {
                    its.push_back(circuit);
                }
                if circuit != DEBT {
                    cx.send(sender, Message::ToEnd(ToEnd::On { circuit, piece: Piece::Room(room) }));
                }
            }
            if !its.is_empty() {
                self.waiting.insert(sender, its);
                self.turns.push_back(sender);
            }
        }
        if !self.turns.is_empty() {
            cx.set_timer_by(Timer::Look, LOOK);
        }
    }

    /// Room for what the node sends on a circuit, and whether that was all. `None`: it has been closed.
    fn give(&mut self, sender: NodeId, circuit: u64) -> Option<(u32, bool)> {
        if circuit == DEBT {
            let debt = self.debts.get_mut(&sender)?;
            let paid = (*debt).min(TURN.into());
            *debt -= paid;
            let is_all = *debt == 0;
            if is_all {
                self.debts.remove(&sender);
            }
            return Some((paid as u32, is_all));
        }
        let circuit = self.circuits.get_mut(&circuit)?;
        let [opener, _] = circuit.ends;
        let [out, back] = &mut circuit.flows;
        let flow = if sender == opener { out } else { back };
        let room = flow.held.min(TURN);
        flow.held -= room;
        flow.open += room;
        Some((room, flow.held == 0))
    }
}
