//! Ends of circuits, as drivers have them: a connection on a stream of bytes that a third node passes on.
//!
//! In place of the handshake's cipher each piece has its number and a checksum: what a relay drops, reorders or changes
//! ends the connection, as it does with the cipher.

use super::{Event, World};
use bytes::Bytes;
use node_core::overlay::circuits::ends::{Reply, Request, Role};
use node_core::overlay::circuits::{CircuitId, PIECE, WINDOW, cost};
use node_core::{Carrier, Channel, NodeId, NodeInput, Time};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// By node and circuit.
pub(super) type Streams = BTreeMap<(u32, CircuitId), Stream>;

/// One end.
#[derive(Debug)]
pub(super) struct Stream {
    life: u32,
    role: Role,
    /// The node that should be at the other end, or is.
    peer: u32,
    /// Both have greeted each other.
    up: bool,
    /// Bytes that may still be written.
    room: u32,
    /// Bytes that wait for room, and those of a frame that has come in part.
    out: VecDeque<u8>,
    part: Vec<u8>,
    /// Pieces written, and come.
    written: u64,
    come: u64,
    heard: Time,
}

/// Number and checksum of a piece.
const SEAL: usize = 16;

/// Length and kind of a frame.
const HEAD: usize = 5;

/// Kinds of frames beside those of the two channels.
const GREETING: u8 = 2;
const BEAT: u8 = 3;

/// As `link::LinkOptions` has them.
const HEARTBEAT: Duration = Duration::from_millis(1_500);
const SILENCE: Duration = Duration::from_millis(7_500);

fn checksum(number: u64, bytes: &[u8]) -> u64 {
    // FNV-1a.
    let all = number.to_be_bytes();
    all.iter()
        .chain(bytes)
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

impl World {
    /// Whether this end takes the two to be connected by way of a relay.
    pub fn relayed(&self, at: usize, peer: usize) -> bool {
        self.stream_to(at, peer).is_some()
    }

    fn stream_to(&self, at: usize, peer: usize) -> Option<CircuitId> {
        let of = |byte, number| (at as u32, CircuitId { relay: NodeId([byte; 32]), number });
        let mut its = self.streams.range(of(0, 0)..=of(u8::MAX, u64::MAX));
        its.find(|(_, stream)| stream.up && stream.peer == peer as u32).map(|((_, circuit), _)| *circuit)
    }

    pub(super) fn circuit(&mut self, at: usize, request: Request) {
        let (node, life) = (at as u32, self.nodes[at].life);
        match request {
            Request::Open { circuit, peer, role } => {
                let Some(peer) = self.find(peer) else { return };
                let stream = Stream {
                    life,
                    role,
                    peer: peer as u32,
                    up: false,
                    room: WINDOW,
                    out: VecDeque::new(),
                    part: Vec::new(),
                    written: 0,
                    come: 0,
                    heard: self.now,
                };
                self.streams.insert((node, circuit), stream);
                if role == Role::Dials {
                    self.write(node, circuit, GREETING, &self.ids[at].0.clone());
                }
                self.after(HEARTBEAT.as_micros() as u64, Event::Beat { at: node, life, circuit });
            }
            Request::Bytes(circuit, bytes) => self.read(node, circuit, &bytes),
            Request::Room(circuit, room) => {
                if let Some(stream) = self.streams.get_mut(&(node, circuit)) {
                    stream.room += room;
                    self.flush(node, circuit);
                }
            }
            Request::Close(circuit) => self.ended(node, circuit),
        }
    }

    /// Word of the driver, which follows what it said before.
    fn reply(&mut self, node: u32, reply: Reply) {
        let life = self.nodes[node as usize].life;
        self.answer(node as usize, life, 1, NodeInput::Circuit(reply));
    }

    pub(super) fn write_relayed(&mut self, from: usize, to: usize, channel: Channel, bytes: &[u8]) {
        if let Some(circuit) = self.stream_to(from, to) {
            self.write(from as u32, circuit, channel as u8, bytes);
        }
    }

    pub(super) fn close_relayed(&mut self, at: usize, peer: usize) {
        if let Some(circuit) = self.stream_to(at, peer) {
            self.breaks(at as u32, circuit);
        }
    }

    /// A direct connection takes the place of one by way of a relay, at this end.
    pub(super) fn end_relayed(&mut self, at: usize, peer: usize) {
        let Some(circuit) = self.stream_to(at, peer) else { return };
        self.streams.remove(&(at as u32, circuit));
        let reason = "another connection to it took over".into();
        self.drive(at, NodeInput::Disconnected { peer: self.ids[peer], reason });
        self.reply(at as u32, Reply::Closed(circuit));
    }

    /// Its driver has died.
    pub(super) fn drop_streams(&mut self, at: usize) {
        self.streams.retain(|(node, _), _| *node != at as u32);
    }

    fn write(&mut self, node: u32, circuit: CircuitId, kind: u8, bytes: &[u8]) {
        let Some(stream) = self.streams.get_mut(&(node, circuit)) else { return };
        stream.out.extend((bytes.len() as u32).to_be_bytes());
        stream.out.push_back(kind);
        stream.out.extend(bytes);
        self.flush(node, circuit);
    }

    fn flush(&mut self, node: u32, circuit: CircuitId) {
        loop {
            let Some(stream) = self.streams.get_mut(&(node, circuit)) else { return };
            let most = (stream.room as usize).saturating_sub(cost(SEAL) as usize).min(PIECE - SEAL);
            let part: Vec<u8> = stream.out.drain(..most.min(stream.out.len())).collect();
            if part.is_empty() {
                return;
            }
            let number = stream.written;
            stream.written += 1;
            let piece = [&number.to_be_bytes()[..], &checksum(number, &part).to_be_bytes(), &part].concat();
            stream.room -= cost(piece.len());
            self.reply(node, Reply::Bytes(circuit, Bytes::from(piece)));
        }
    }

    fn read(&mut self, node: u32, circuit: CircuitId, piece: &[u8]) {
        let now = self.now;
        let Some(stream) = self.streams.get_mut(&(node, circuit)) else { return };
        let bytes = piece.get(SEAL..).unwrap_or_default();
        let number = stream.come;
        let seal = [number.to_be_bytes(), checksum(number, bytes).to_be_bytes()].concat();
        if !piece.starts_with(&seal) {
            return self.breaks(node, circuit);
        }
        stream.come += 1;
        stream.heard = now;
        stream.part.extend(bytes);
        let mut part = std::mem::take(&mut stream.part);
        let mut read = 0;
        while let Some(head) = part.get(read..read + HEAD) {
            let len = u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize;
            let kind = head[4];
            let Some(frame) = part.get(read + HEAD..read + HEAD + len) else { break };
            read += HEAD + len;
            let frame = Bytes::copy_from_slice(frame);
            self.frame_of(node, circuit, kind, frame);
        }
        part.drain(..read);
        if let Some(stream) = self.streams.get_mut(&(node, circuit)) {
            stream.part = part;
            self.reply(node, Reply::Read(circuit, cost(piece.len())));
        }
    }

    fn frame_of(&mut self, node: u32, circuit: CircuitId, kind: u8, bytes: Bytes) {
        let Some(stream) = self.streams.get(&(node, circuit)) else { return };
        let (peer, life) = (self.ids[stream.peer as usize], stream.life);
        let channel = match kind {
            GREETING => return self.greeted(node, circuit, &bytes),
            BEAT => return,
            0 => Channel::Control,
            _ => Channel::Blob,
        };
        if stream.up {
            let input = NodeInput::Received { from: peer, channel, bytes };
            self.answer(node as usize, life, 1, input);
        }
    }

    fn greeted(&mut self, node: u32, circuit: CircuitId, named: &[u8]) {
        let Some(peer) = named.try_into().ok().map(NodeId).and_then(|id| self.find(id)) else { return };
        // One that is connected otherwise needs none.
        if self.connected_straight(node as usize, peer) {
            return self.breaks(node, circuit);
        }
        let older = self.stream_to(node as usize, peer).filter(|older| *older != circuit);
        older.into_iter().for_each(|older| self.breaks(node, older));
        let Some(stream) = self.streams.get_mut(&(node, circuit)) else { return };
        if stream.role == Role::Dials && stream.peer != peer as u32 {
            return self.breaks(node, circuit);
        }
        (stream.peer, stream.up) = (peer as u32, true);
        let (life, answers) = (stream.life, stream.role == Role::Answers);
        if answers {
            self.write(node, circuit, GREETING, &self.ids[node as usize].0.clone());
        }
        let over = Carrier::Relay;
        let connected = NodeInput::Connected { peer: self.ids[peer], ip: None, joined: false, over };
        self.answer(node as usize, life, 1, connected);
    }

    pub(super) fn beat(&mut self, at: u32, life: u32, circuit: CircuitId) {
        let now = self.now;
        let Some(stream) = self.streams.get_mut(&(at, circuit)) else { return };
        if stream.life != life {
            return;
        }
        if now.since(stream.heard) > SILENCE {
            return self.breaks(at, circuit);
        }
        if stream.up {
            self.write(at, circuit, BEAT, &[]);
        }
        self.after(HEARTBEAT.as_micros() as u64, Event::Beat { at, life, circuit });
    }

    /// The connection ends at this end.
    fn breaks(&mut self, node: u32, circuit: CircuitId) {
        self.reply(node, Reply::Closed(circuit));
        self.ended(node, circuit);
    }

    fn ended(&mut self, node: u32, circuit: CircuitId) {
        let Some(stream) = self.streams.remove(&(node, circuit)) else { return };
        let peer = self.ids[stream.peer as usize];
        if stream.up {
            let gone = NodeInput::Disconnected { peer, reason: "the circuit has ended".into() };
            self.answer(node as usize, stream.life, 1, gone);
        }
    }
}
