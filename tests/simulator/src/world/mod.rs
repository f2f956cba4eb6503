//! The world: nodes, links between them, and one heap of what happens next.
//!
//! A node is named by its index; its id carries the index in its first bytes, so that neither
//! way needs a table. Everything that happens to a node is one call of [`node_core::Node::drive`],
//! and every call goes into the trace.

mod channels;
mod circuits;
mod fault;
mod link;
mod pages;
mod places;
mod slab;
mod story;
mod wishes;

pub use link::Link;
pub use places::id_of;
pub use story::{echo, ended};

use crate::disk::Disk;
use crate::engine::{Engine, Program, Ran};
use crate::liar::{Liar, Said};
use crate::meter::Meter;
use crate::network::{BACKLOG, Line, Network};
use crate::queue::{Queue, What};
use crate::rng::Rng;
use crate::trace::Trace;
use bytes::Bytes;
use node_core::address::{Contact, Ip};
use node_core::node::message::Message;
use node_core::overlay::circuits::CircuitId;
use node_core::overlay::signalling::SessionId;
use node_core::{Channel, Config, EngineReply, Node, NodeEvent, NodeId, NodeInput, StorageReply, Time};
use places::index_in;
use slab::Slab;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use wishes::Wishes;

/// Frames of one kind.
#[derive(Clone, Debug, Default)]
pub struct Sent {
    pub frames: u64,
    pub bytes: u64,
    /// Frames to each node.
    pub to: BTreeMap<usize, u64>,
}

pub struct World {
    pub now: Time,
    pub seed: u64,
    /// For whoever tells the story. The world itself draws from generators of its own.
    pub rng: Rng,
    net_rng: Rng,
    node_rng: Rng,
    queue: Queue,
    slab: Slab<Event>,
    pub nodes: Vec<Place>,
    pub network: Network,
    pub program: Program,
    /// Events that the nodes told, as far as `keep` wants them.
    pub told: Vec<(Time, usize, NodeEvent)>,
    pub keep: fn(&NodeEvent) -> bool,
    /// Connections that were closed: by which node, to whom, and why.
    pub closed: Vec<(usize, NodeId, String)>,
    /// Contacts that were dialled back: when, and by which node.
    pub probed: Vec<(Time, usize, Contact)>,
    /// Actions of engines: when, and at which node.
    pub ran: Vec<(Time, usize, Ran)>,
    pub frames: u64,
    pub bytes: u64,
    /// Frames for which a line had no room.
    pub dropped: u64,
    /// Calls of a node.
    pub events: u64,
    /// Messages and bytes of each node, while somebody counts.
    pub meter: Option<Meter>,
    /// Frames of each kind that were sent, while somebody counts.
    pub kinds: Option<BTreeMap<(String, String), Sent>>,
    /// Nodes that lie to others.
    pub liars: BTreeMap<usize, Liar>,
    /// By index. Most frames need no more of the node at their other end, and its memory is far away.
    ids: Vec<NodeId>,
    /// Indices of nodes whose ids are those of keys.
    keyed: BTreeMap<NodeId, usize>,
    /// Dials of pages: a page's driver has no way to do that.
    pub refused_dials: usize,
    /// Gateways that had no room, by page.
    pages_tried: BTreeMap<u32, Vec<NodeId>>,
    trace: Trace,
    wishes: Wishes,
    /// Ends of data channels that are being opened.
    ends: channels::Ends,
    /// Ends of circuits, by node.
    streams: circuits::Streams,
    /// Events that befell frozen nodes meanwhile, by node.
    held: BTreeMap<u32, Vec<Event>>,
    /// Counts links.
    epoch: u32,
    /// Frames to this node travel with the handshake.
    greeting: Option<u32>,
    /// Nodes that are added after this go on, slowly, when one input makes more steps than their bound;
    /// otherwise that is a panic.
    pub overruns_wait: bool,
}

/// A node and what surrounds it.
pub struct Place {
    pub id: NodeId,
    pub node: Option<Node>,
    pub config: Arc<Config>,
    pub disk: Disk,
    pub engine: Engine,
    links: Vec<Link>,
    line: Line,
    /// The node's own deadline.
    wake: Time,
    /// The earliest wake-up in the heap; later ones are stale.
    armed: Time,
    /// Counts lives: what belonged to an earlier one is dropped.
    life: u32,
    /// Speed of its engine, million instructions a second.
    pub mips: u32,
    /// Where it is seen from.
    pub ip: Ip,
    /// Behind a wall: nobody can connect to it, whatever it says.
    pub unreachable: bool,
    /// Its network knows no IPv6: it dials none of its addresses.
    pub v4_only: bool,
    /// The machine that it runs on; nodes of one machine see each other at 127.0.0.1.
    pub machine: u32,
    pub region: u8,
    /// Bandwidth of the node's own line, bits a second; 0 for what all have.
    pub bandwidth: u64,
    /// Which part of a network that fell apart.
    part: u8,
    /// Neither hears nor acts, but does not know it: a laptop's lid, a stopped process.
    frozen: bool,
}

enum Event {
    /// `queued`: it has waited for the addressee's line already.
    Frame {
        to: u32,
        from: u32,
        epoch: u32,
        channel: Channel,
        queued: bool,
        bytes: Bytes,
    },
    Input {
        at: u32,
        life: u32,
        input: Box<NodeInput>,
    },
    /// A link breaks; `severed`: only if nothing has healed meanwhile.
    Cut {
        a: u32,
        b: u32,
        epoch: u32,
        severed: bool,
    },
    /// A node notices that a link is gone.
    Gone {
        at: u32,
        life: u32,
        peer: u32,
        epoch: u32,
    },
    /// A dialled connection stands, or not.
    Dialled {
        from: u32,
        to: u32,
        life: u32,
        ip: Ip,
    },
    /// A dial-back has got there, or not.
    Probed {
        from: u32,
        to: u32,
        life: u32,
        number: u64,
        ip: Ip,
    },
    Unreachable {
        from: u32,
        life: u32,
        peer: NodeId,
    },
    /// The checks of two ends of a data channel have got through, or not.
    Pierced {
        session: SessionId,
        a: u32,
        b: u32,
    },
    /// The connection on a circuit says that it is there, and sees whether the other end does.
    Beat {
        at: u32,
        life: u32,
        circuit: CircuitId,
    },
    /// A page comes to another gateway.
    Visits {
        page: u32,
        to: u32,
        life: u32,
    },
}

/// Never.
const NEVER: Time = Time(u64::MAX);

/// Outcome of the next event in the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It happened to a node, or turned out to be void.
    Done,
    /// The call that [`World::call_at`] asked for.
    Call(u32),
}

impl World {
    pub fn seed(seed: u64) -> World {
        World {
            now: Time::ZERO,
            seed,
            rng: Rng::fork(seed, 1),
            net_rng: Rng::fork(seed, 2),
            node_rng: Rng::fork(seed, 3),
            queue: Queue::default(),
            slab: Slab::default(),
            nodes: Vec::new(),
            network: Network::default(),
            program: echo,
            told: Vec::new(),
            keep: |_| true,
            closed: Vec::new(),
            probed: Vec::new(),
            ran: Vec::new(),
            frames: 0,
            bytes: 0,
            dropped: 0,
            events: 0,
            meter: None,
            kinds: None,
            liars: BTreeMap::new(),
            ids: Vec::new(),
            keyed: BTreeMap::new(),
            refused_dials: 0,
            pages_tried: BTreeMap::new(),
            trace: Trace::default(),
            wishes: Wishes::default(),
            ends: Default::default(),
            streams: Default::default(),
            held: BTreeMap::new(),
            epoch: 0,
            greeting: None,
            overruns_wait: false,
        }
    }

    /// The hash of everything that has happened so far.
    pub fn trace_hash(&self) -> u64 {
        self.trace.hash()
    }

    /// When the next thing happens.
    pub fn next_at(&mut self) -> Option<Time> {
        self.queue.next_at()
    }

    /// Events that lie ahead.
    pub fn ahead(&self) -> usize {
        self.queue.len()
    }

    /// [`World::next`] gives `token` back at that time.
    pub fn call_at(&mut self, at: Time, token: u32) {
        self.queue.push(at.max(self.now), What::Call(token));
    }

    fn after(&mut self, micros: u64, event: Event) {
        self.event_at(self.now + Duration::from_micros(micros), event);
    }

    fn event_at(&mut self, at: Time, event: Event) {
        let entry = self.slab.insert(event);
        self.queue.push(at, What::Slab(entry));
    }

    /// Gives one input to a node, and sees to everything it asks for.
    pub fn drive(&mut self, at: usize, input: NodeInput) {
        let place = &mut self.nodes[at];
        let Some(node) = &mut place.node else { return };
        self.events += 1;
        self.trace.number(self.now.0);
        match &input {
            NodeInput::Received { from, channel, bytes } => {
                self.trace.number((at as u64) << 32 | u64::from(index_in(*from)));
                self.trace.number(*channel as u64 + 1);
                self.trace.bytes(bytes);
            }
            NodeInput::Wake => self.trace.number((at as u64) << 32),
            NodeInput::Connected { peer, .. } => {
                self.trace.number((at as u64) << 32 | 1 << 25);
                self.trace.number(u64::from(index_in(*peer)));
            }
            // As text these would be four times as long.
            NodeInput::Storage(StorageReply::Blob { token, bytes }) => {
                self.trace.number((at as u64) << 32 | 1 << 26);
                self.trace.number(token.0);
                self.trace.bytes(bytes);
            }
            NodeInput::Engine(EngineReply::Snapshot { run, taken: Ok(taken), stopped }) => {
                self.trace.number((at as u64) << 32 | 1 << 27 | u64::from(*stopped));
                self.trace.number(run.0);
                self.trace.bytes(&taken.bytes);
            }
            other => {
                // Rare, and all of it is plain data.
                self.trace.number((at as u64) << 32 | 1 << 24);
                self.trace.bytes(format!("{other:?}").as_bytes());
            }
        }
        let mut wishes = std::mem::take(&mut self.wishes);
        node.drive(self.now, input, &mut wishes);
        self.fulfil(at, &mut wishes);
        self.wishes = wishes;
    }

    fn fulfil(&mut self, at: usize, wishes: &mut Wishes) {
        let place = &mut self.nodes[at];
        let life = place.life;
        if let Some(wake) = wishes.wake.take() {
            place.wake = wake.unwrap_or(NEVER);
            self.arm(at);
        }
        for request in wishes.storage.drain(..) {
            let delay = self.net_rng.between(200, 5_000) + self.nodes[at].disk.slow;
            if let Some(reply) = self.nodes[at].disk.take(request) {
                self.answer(at, life, delay, NodeInput::Storage(reply));
            }
        }
        if !wishes.engine.is_empty() {
            for request in wishes.engine.drain(..) {
                let replies = self.nodes[at].engine.request(self.now, request);
                self.engine_answers(at, life, replies);
            }
            self.run_engine(at);
        }
        for contact in wishes.dials.drain(..) {
            self.dial(at, contact);
        }
        for (number, contact) in wishes.probes.drain(..) {
            self.probe(at, number, contact);
        }
        for request in wishes.channels.drain(..) {
            self.data_channel(at, request);
        }
        for request in wishes.circuits.drain(..) {
            self.circuit(at, request);
        }
        for (to, channel, bytes) in wishes.frames.drain(..) {
            match self.liars.get_mut(&at).map_or(Said::Truly, |liar| liar.says(channel, &bytes)) {
                Said::Truly => self.send(at, to, channel, bytes),
                Said::Instead(message) => self.tell(at, to, &message),
                Said::Nothing => {}
            }
        }
        for (peer, reason) in wishes.close.drain(..) {
            self.close(at, peer, reason);
        }
        if !wishes.events.is_empty() && self.nodes[at].is_page() {
            wishes.events.iter().for_each(|event| self.page_told(at, event));
        }
        let keep = self.keep;
        let told = wishes.events.drain(..).filter(keep);
        self.told.extend(told.map(|event| (self.now, at, event)));
    }

    /// Sends a message that the node itself did not.
    pub fn tell(&mut self, at: usize, to: NodeId, message: &Message) {
        let bytes = message.encode().expect("what stories tell fits a frame");
        self.send(at, to, message.channel(), bytes);
    }

    fn answer(&mut self, at: usize, life: u32, delay: u64, input: NodeInput) {
        self.after(delay, Event::Input { at: at as u32, life, input: Box::new(input) });
    }

    /// Puts the node's deadline into the heap if nothing earlier stands there for it.
    fn arm(&mut self, at: usize) {
        let place = &mut self.nodes[at];
        if place.wake < place.armed {
            place.armed = place.wake.max(self.now);
            self.queue.push(place.armed, What::Wake(at as u32));
        }
    }

    fn run_engine(&mut self, at: usize) {
        let (now, program) = (self.now, self.program);
        let Place { engine, disk, life, mips, .. } = &mut self.nodes[at];
        let life = *life;
        let replies = engine.start_next(now, disk, program, *mips);
        self.engine_answers(at, life, replies);
    }

    fn engine_answers(&mut self, at: usize, life: u32, replies: Vec<(EngineReply, Time)>) {
        for (reply, end) in replies {
            self.answer(at, life, end.since(self.now).as_micros() as u64, NodeInput::Engine(reply));
        }
        self.account(at);
    }

    /// Takes what an engine did into the accounts.
    fn account(&mut self, at: usize) {
        let log = std::mem::take(&mut self.nodes[at].engine.log);
        self.ran.extend(log.into_iter().map(|ran| (self.now, at, ran)));
    }

    /// The next thing in the heap; `None` if it is empty.
    #[allow(clippy::should_implement_trait)] // it is no iterator, the world changes in between
    pub fn next(&mut self) -> Option<Step> {
        let (time, what) = self.queue.pop()?;
        self.now = time;
        match what {
            What::Wake(at) => self.wake(at as usize),
            What::Slab(entry) => {
                let event = self.slab.take(entry);
                self.happen(event);
            }
            What::Call(token) => return Some(Step::Call(token)),
        }
        Some(Step::Done)
    }

    fn wake(&mut self, at: usize) {
        let place = &mut self.nodes[at];
        // Another wake-up came in before it.
        if place.armed != self.now {
            return;
        }
        place.armed = NEVER;
        if place.frozen || place.node.is_none() {
            return;
        }
        if place.wake <= self.now {
            // The node tells its next deadline only if that is another.
            place.wake = NEVER;
            self.drive(at, NodeInput::Wake);
        } else {
            self.arm(at);
        }
    }

    fn happen(&mut self, event: Event) {
        if !self.held.is_empty()
            && let Some(at) = event.addressee()
            && let Some(held) = self.held.get_mut(&at)
        {
            return held.push(event);
        }
        match event {
            Event::Frame { to, from, epoch, channel, queued, bytes } => {
                let Some(link) = self.nodes[to as usize].link(from) else { return };
                if link.epoch != epoch || link.dead {
                    return;
                }
                let place = &mut self.nodes[to as usize];
                let took = if queued { 0 } else { self.network.on_the_line(place.bandwidth, bytes.len()) };
                if took > 0 {
                    let line = &mut place.line;
                    // It came in while it was sent; it waits only for what others sent.
                    let done = (line.down + Duration::from_micros(took)).max(self.now);
                    if done.since(self.now) > BACKLOG {
                        self.dropped += 1;
                        return;
                    }
                    line.down = done;
                    if done > self.now {
                        let event = Event::Frame { to, from, epoch, channel, queued: true, bytes };
                        return self.event_at(done, event);
                    }
                }
                if let Some(meter) = &mut self.meter {
                    meter.count(to as usize, &bytes);
                }
                let from = self.ids[from as usize];
                let to = to as usize;
                let lies = self.liars.get_mut(&to).map(|liar| liar.hears(channel, &bytes));
                self.drive(to, NodeInput::Received { from, channel, bytes });
                lies.into_iter().flatten().for_each(|message| self.tell(to, from, &message));
            }
            Event::Input { at, life, input } => {
                let place = &mut self.nodes[at as usize];
                if place.life != life || place.node.is_none() {
                    return;
                }
                match &*input {
                    NodeInput::Storage(reply) => place.disk.sync(reply),
                    NodeInput::Engine(reply) if !place.engine.is_over(self.now, reply) => return,
                    _ => {}
                }
                let engine = matches!(*input, NodeInput::Engine(_));
                self.account(at as usize);
                self.drive(at as usize, *input);
                if engine {
                    self.run_engine(at as usize);
                }
            }
            Event::Cut { a, b, epoch, severed } => self.cut_link(a, b, epoch, severed),
            Event::Gone { at, life, peer, epoch } => self.gone(at, life, peer, epoch),
            Event::Dialled { from, to, life, ip } => self.dialled(from, to, life, ip),
            Event::Probed { from, to, life, number, ip } => self.probed(from, to, life, number, ip),
            Event::Unreachable { from, life, peer } => self.unreachable(from, life, peer),
            Event::Pierced { session, a, b } => self.pierced(session, a, b),
            Event::Beat { at, life, circuit } => self.beat(at, life, circuit),
            Event::Visits { page, to, life } => self.visits(page, to, life),
        }
    }

    /// One event; false if there is none.
    pub fn step(&mut self) -> bool {
        self.next().is_some()
    }

    pub fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        while self.next_at().is_some_and(|at| at <= end) {
            self.step();
        }
        self.now = end;
    }

    /// Runs until `done`; fails the story if that takes longer than `patience` of its time.
    pub fn run_until(&mut self, patience: Duration, what: &str, done: impl Fn(&World) -> bool) {
        let end = self.now + patience;
        while !done(self) {
            assert!(self.step(), "seed {}: nothing happens any more, but not yet: {what}", self.seed);
            assert!(
                self.now <= end,
                "seed {}: after {patience:?} still not: {what}\n{}",
                self.seed,
                self.report()
            );
        }
    }
}

impl Event {
    /// Node that the event befalls, if a frozen node would miss it.
    fn addressee(&self) -> Option<u32> {
        match self {
            Event::Frame { to, .. } => Some(*to),
            Event::Input { at, .. } | Event::Gone { at, .. } | Event::Beat { at, .. } => Some(*at),
            Event::Unreachable { from, .. } => Some(*from),
            // Nobody answers the handshake; see `dialled`.
            Event::Dialled { .. }
            | Event::Probed { .. }
            | Event::Pierced { .. }
            | Event::Visits { .. }
            | Event::Cut { .. } => None,
        }
    }
}
