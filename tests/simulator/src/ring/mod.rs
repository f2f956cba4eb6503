//! Rings of machines without the node around them: a heap of events, one seed.
//!
//! Each [`Ring`] has the connections and delays that a node would give it. Used by the core's own
//! stories and by the experiment that measures lookups. [`Rings`] has nothing else in it; other
//! machines may stand on the ring ([`Above`]), as markets do.

mod events;
pub mod life;

use crate::rng::Rng;
use crate::trace::Trace;
use node_core::NodeId;
use node_core::address::{Contact, Ip};
use node_core::circle::{Located, MemberId, Peer, Point, RingId};
use node_core::overlay::ring::check::check;
use node_core::overlay::ring::{Command, Event, Failure, Message, Mode, Ring, RingConfig, RingView};
use node_core::peers::Peers;
use node_core::protocol::{Input, Machine, Rng as NodeRng};
use node_core::ticket::ServiceId;
use node_core::time::Time;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Conditions for frames and connections. Pairs are a range to draw from, milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Conditions {
    pub latency: (u64, u64),
    /// Time that a new connection takes before it carries anything, in latencies.
    pub dial_hops: u64,
    /// Until it is known that nobody is there.
    pub dial_timeout: (u64, u64),
    /// Until a connected peer's death is noticed.
    pub notice: (u64, u64),
    /// Until a peer that is silent is taken for dead.
    pub keepalive: (u64, u64),
    /// Messages lost and doubled, of a thousand. A loss breaks the connection.
    pub loss: u64,
    pub double: u64,
}

impl Default for Conditions {
    fn default() -> Self {
        Conditions {
            latency: (20, 180),
            dial_hops: 2,
            dial_timeout: (1_000, 5_000),
            notice: (200, 10_000),
            keepalive: (7_000, 10_000),
            loss: 0,
            double: 0,
        }
    }
}

/// State of a lookup.
#[derive(Clone, Debug)]
pub struct Asked {
    pub by: usize,
    pub ring: RingId,
    pub key: Point,
    pub at: Time,
    /// Owners that were right at some time since it was asked.
    right: Vec<Point>,
    /// Time and result of its end; `None` while it goes on.
    pub end: Option<(Time, Result<Located, Failure>)>,
}

impl Asked {
    /// Whether the owner named was the owner at some moment between question and answer.
    pub fn is_right(&self) -> bool {
        let found = self.end.as_ref().and_then(|(_, result)| result.as_ref().ok());
        found.is_some_and(|found| self.right.contains(&found.owner.point))
    }

    pub fn hops(&self) -> Option<u8> {
        Some(self.end.as_ref()?.1.as_ref().ok()?.hops)
    }
}

/// Protocols above the ring in each node.
pub trait Above: Sized {
    type Message: Clone + serde::Serialize;
    /// State that all nodes have in common.
    type Shared: Default;

    /// The `n`-th node, and its id.
    fn place(seed: [u8; 32], n: usize) -> (NodeId, Self);
    /// Its process begins anew.
    fn start(stack: &mut Stack<Self>, n: usize);
    fn handle(stack: &mut Stack<Self>, n: usize, heard: Heard<Self::Message>);
    /// The node's ring says something.
    fn told(stack: &mut Stack<Self>, n: usize, event: &Event);
    /// Timers that are due.
    fn fire(stack: &mut Stack<Self>, n: usize);
    fn deadline(&self) -> Option<Time>;
}

pub enum Heard<M> {
    Message(NodeId, M),
    Up(NodeId),
    Down(NodeId),
}

/// Nothing.
impl Above for () {
    type Message = ();
    type Shared = ();

    fn place(mut seed: [u8; 32], n: usize) -> (NodeId, ()) {
        seed[24..].copy_from_slice(&(n as u64).to_be_bytes());
        (NodeId(seed), ())
    }
    fn start(_: &mut Rings, _: usize) {}
    fn handle(_: &mut Rings, _: usize, _: Heard<()>) {}
    fn told(_: &mut Rings, _: usize, _: &Event) {}
    fn fire(_: &mut Rings, _: usize) {}
    fn deadline(&self) -> Option<Time> {
        None
    }
}

pub struct Place<X: Above> {
    pub contact: Contact,
    pub machine: Option<Machine<Ring>>,
    /// Its connections, as it has heard of them.
    peers: Peers,
    pub above: X,
    wake: Option<Time>,
    /// Nothing reaches it and its timers wait.
    frozen: bool,
    /// It has no machine, and says this to whatever is said to it.
    lie: Option<Lie<X>>,
}

/// Reaction of a hostile node (the second) to a message of a node (the third).
pub type Lie<X = ()> = fn(&mut Stack<X>, usize, usize, &Message);

/// Message that is on its way between two nodes.
#[derive(Clone)]
enum Says<M> {
    Ring(Message),
    Above(M),
}

enum What<M> {
    Message(usize, NodeId, Box<Says<M>>),
    /// It hears that a peer is gone.
    Down(usize, NodeId),
    Wake(usize),
    /// The dialling of the second by the first ends.
    Dialled(usize, usize),
    /// The experiment's own.
    Call(u32),
}

struct At<M>(Time, u64, What<M>);

impl<M> PartialEq for At<M> {
    fn eq(&self, other: &Self) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}
impl<M> Eq for At<M> {}
impl<M> PartialOrd for At<M> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<M> Ord for At<M> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

/// Rings alone.
pub type Rings = Stack<()>;

pub struct Stack<X: Above> {
    /// Seed of this life; failures name it.
    pub seed: u64,
    pub nodes: Vec<Place<X>>,
    pub shared: X::Shared,
    pub now: Time,
    pub conditions: Conditions,
    pub rng: Rng,
    pub lookups: BTreeMap<u64, Asked>,
    /// Nodes that were blamed, and for what.
    pub faults: Vec<(NodeId, String)>,
    /// Everything that was told upward except what is counted elsewhere, if somebody listens.
    pub events: Vec<(usize, Event)>,
    pub listen: bool,
    /// Trace of the events so far; `happened` counts them.
    pub trace: Trace,
    pub happened: u64,
    /// Number of events at this moment.
    at_once: u64,
    pub messages: u64,
    pub bytes: u64,
    /// Longest message.
    pub longest: usize,
    /// Count bytes, too.
    pub weigh: bool,
    config: Arc<RingConfig>,
    ids: BTreeMap<NodeId, usize>,
    /// Members that own something.
    owners: BTreeMap<MemberId, usize>,
    open: BTreeSet<u64>,
    heap: BinaryHeap<Reverse<At<X::Message>>>,
    number: u64,
    asked: u64,
    links: BTreeSet<(usize, usize)>,
    /// Connections that ended, at this end of them, which has not heard of it yet.
    broken: BTreeSet<(usize, usize)>,
    dialling: BTreeMap<(usize, usize), Vec<Says<X::Message>>>,
    last: BTreeMap<(usize, usize), Time>,
}

impl<X: Above> Stack<X> {
    pub fn new(seed: u64, config: RingConfig) -> Self {
        Stack {
            seed,
            nodes: Vec::new(),
            shared: X::Shared::default(),
            now: Time(1_000_000),
            conditions: Conditions::default(),
            rng: Rng::fork(seed, 200),
            lookups: BTreeMap::new(),
            faults: Vec::new(),
            events: Vec::new(),
            listen: false,
            trace: Trace::default(),
            happened: 0,
            at_once: 0,
            messages: 0,
            bytes: 0,
            longest: 0,
            weigh: false,
            config: Arc::new(config),
            ids: BTreeMap::new(),
            owners: BTreeMap::new(),
            open: BTreeSet::new(),
            heap: BinaryHeap::new(),
            number: 0,
            asked: 0,
            links: BTreeSet::new(),
            broken: BTreeSet::new(),
            dialling: BTreeMap::new(),
            last: BTreeMap::new(),
        }
    }

    /// A ring of so many nodes, a few joining at a time, quiet.
    pub fn grown(seed: u64, config: RingConfig, count: usize) -> Self {
        let mut rings = Self::new(seed, config);
        rings.grow(count, 200);
        rings.settle(120 * SECOND);
        rings
    }

    /// A ring of so many nodes as it is at rest; nobody beats in it.
    pub fn at_rest(seed: u64, config: RingConfig, count: usize) -> Self {
        let mut rings = Self::new(seed, config);
        rings.rest(count);
        rings
    }

    /// So many nodes, all at once, as they are in a ring at rest.
    pub fn rest(&mut self, count: usize) {
        for _ in 0..count {
            self.place();
        }
        let peer =
            |place: &Place<X>| Peer { point: Point::of_node(place.contact.id), contact: place.contact };
        let mut all: Vec<Peer> = self.nodes.iter().map(peer).collect();
        all.sort_unstable();
        for (at, peer) in all.iter().enumerate() {
            let ring = Ring::at_rest(self.config.clone(), &all, at, RingId::NODES);
            let node = self.ids[&peer.id()];
            let seed = self.rng.seed();
            self.nodes[node].machine = Some(Machine::new(ring, NodeRng::from_seed(seed)));
            self.owners.insert(MemberId { ring: RingId::NODES, point: peer.point }, node);
        }
    }

    /// More nodes, at most so many a second, and no more at once than there are.
    pub fn grow(&mut self, count: usize, per_s: u64) {
        for _ in 0..count {
            self.join();
            let pace = (1000 / per_s).max(2000 / (1 + self.nodes.len() as u64));
            self.run(Duration::from_millis(pace));
        }
    }

    /// A node that is connected to nobody and in no ring.
    pub fn place(&mut self) -> usize {
        let n = self.nodes.len();
        let (id, above) = X::place(self.rng.seed(), n);
        let ip = Ip::from(std::net::IpAddr::from((self.rng.u64() as u32).to_be_bytes()));
        let contact = Contact { ip, id, port: 4001 };
        self.ids.insert(contact.id, n);
        self.nodes.push(Place {
            contact,
            machine: None,
            peers: Peers::new(),
            above,
            wake: None,
            frozen: false,
            lie: None,
        });
        self.start(n);
        n
    }

    /// Its process begins anew. Connections that its peers still believe in are gone.
    pub fn start(&mut self, n: usize) {
        for peer in self.peers(n) {
            self.links.remove(&pair(n, peer));
            self.break_at(peer, n);
        }
        let seed = self.rng.seed();
        let machine = Machine::new(Ring::new(self.config.clone()), NodeRng::from_seed(seed));
        self.nodes[n].machine = Some(machine);
        self.nodes[n].peers = Peers::new();
        self.nodes[n].wake = None;
        self.nodes[n].frozen = false;
        self.nodes[n].lie = None;
        X::start(self, n);
    }

    /// From here on it says what it likes. Its connections and its place stay.
    pub fn corrupt(&mut self, n: usize, lie: Lie<X>) {
        self.nodes[n].machine = None;
        self.nodes[n].lie = Some(lie);
    }

    /// One more node on the ring of nodes, by way of the first that lives.
    pub fn join(&mut self) -> usize {
        let n = self.place();
        self.enter(n);
        n
    }

    /// That node joins the ring of nodes.
    pub fn enter(&mut self, n: usize) {
        let me = self.nodes[n].contact;
        let member = MemberId::of_node(me.id);
        let first = (0..self.nodes.len()).find(|i| *i != n && self.lives(*i));
        let via = first.map(|i| self.nodes[i].contact.id).into_iter().collect();
        self.command(n, Command::Join { member, me, via });
    }

    pub fn lives(&self, n: usize) -> bool {
        self.nodes[n].machine.is_some()
    }

    pub fn alive(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|i| self.lives(*i)).collect()
    }

    /// Its member on the ring of nodes.
    pub fn member(&self, n: usize) -> MemberId {
        MemberId::of_node(self.nodes[n].contact.id)
    }

    /// The node whose member that is.
    pub fn owner(&self, member: MemberId) -> Option<usize> {
        self.owners.get(&member).copied()
    }

    pub fn find(&self, id: NodeId) -> Option<usize> {
        self.ids.get(&id).copied()
    }

    /// Nodes in the order of their members on a ring.
    pub fn in_order(&self, ring: RingId) -> Vec<usize> {
        self.owners.iter().filter(|(id, _)| id.ring == ring).map(|(_, n)| *n).collect()
    }

    /// Owner of a key, as somebody sees it who knows all; `None` if the ring has no members.
    pub fn right(&self, ring: RingId, key: Point) -> Option<Point> {
        let from = |point| MemberId { ring, point };
        let mut behind = self.owners.range(from(key)..=from(Point(u128::MAX)));
        let mut all = self.owners.range(from(Point(0))..=from(Point(u128::MAX)));
        behind.next().or_else(|| all.next()).map(|(id, _)| id.point)
    }

    pub fn views(&self) -> Vec<RingView<'_>> {
        self.nodes.iter().filter_map(|n| Some(n.machine.as_ref()?.state().view())).collect()
    }

    pub fn view(&self, n: usize) -> Option<RingView<'_>> {
        Some(self.nodes[n].machine.as_ref()?.state().view())
    }

    pub fn check(&self, ring: RingId, strict: bool) -> Vec<String> {
        let awake = self.nodes.iter().filter(|n| !n.frozen);
        let views: Vec<_> = awake.filter_map(|n| Some(n.machine.as_ref()?.state().view())).collect();
        check(&views, ring, self.now, usize::from(self.config.successors), strict)
    }

    /// Mean and most bytes of memory of a node.
    pub fn memory(&self) -> (usize, usize) {
        let all: Vec<usize> =
            self.nodes.iter().filter_map(|n| Some(n.machine.as_ref()?.state().memory())).collect();
        (all.iter().sum::<usize>() / all.len().max(1), all.into_iter().max().unwrap_or(0))
    }

    pub fn command(&mut self, n: usize, command: Command) {
        self.step(n, Input::Command(command));
    }

    /// One message, as if that node had sent it.
    pub fn say(&mut self, from: usize, to: usize, message: Message) {
        self.send(from, to, Says::Ring(message));
    }

    /// Sends a message of the protocol above the ring.
    pub fn say_above(&mut self, from: usize, to: usize, message: X::Message) {
        self.send(from, to, Says::Above(message));
    }

    /// Lets a node look a key up; returns the lookup's number.
    pub fn ask(&mut self, by: usize, ring: RingId, key: Point, mode: Mode) -> u64 {
        self.asked += 1;
        let number = self.asked;
        let right = self.right(ring, key).into_iter().collect();
        self.lookups.insert(number, Asked { by, ring, key, at: self.now, right, end: None });
        self.open.insert(number);
        self.command(by, Command::Lookup { ticket: ServiceId::Driver.ticket(number), ring, key, mode });
        number
    }

    /// Runs until these lookups have ended.
    pub fn finish(&mut self) {
        while !self.open.is_empty() && self.heap.peek().is_some() {
            self.one();
        }
    }

    /// Dead without a word.
    pub fn kill(&mut self, n: usize) {
        self.nodes[n].machine = None;
        self.owners.retain(|_, at| *at != n);
        self.changed();
        let orphans: Vec<u64> =
            self.open.iter().copied().filter(|number| self.lookups[number].by == n).collect();
        for number in orphans {
            self.open.remove(&number);
            self.lookups.remove(&number);
        }
        for peer in self.peers(n) {
            self.notice(peer, n);
        }
    }

    /// Nothing reaches it and it does nothing; its peers notice as if it were dead.
    pub fn freeze(&mut self, n: usize) {
        self.nodes[n].frozen = true;
        for peer in self.peers(n) {
            self.notice(peer, n);
        }
    }

    pub fn thaw(&mut self, n: usize) {
        self.nodes[n].frozen = false;
        for peer in self.peers(n) {
            // Now the node hears of connections that were broken off meanwhile.
            self.links.remove(&pair(n, peer));
            let id = self.nodes[peer].contact.id;
            self.push(Duration::ZERO, What::Down(n, id));
        }
        self.nodes[n].wake = None;
        self.arm(n);
    }

    /// A connection ends, for whatever reason, and both ends hear of it.
    pub fn cut_link(&mut self, a: usize, b: usize) {
        if self.links.remove(&pair(a, b)) {
            self.break_at(a, b);
            self.break_at(b, a);
        }
    }

    /// This end hears that its connection to the other has ended: in a moment, or when it has a new one.
    fn break_at(&mut self, at: usize, other: usize) {
        self.broken.insert((at, other));
        let after = self.draw(self.conditions.latency);
        let id = self.nodes[other].contact.id;
        self.push(after, What::Down(at, id));
    }

    pub fn is_frozen(&self, n: usize) -> bool {
        self.nodes[n].frozen
    }

    pub fn links(&self) -> usize {
        self.links.len()
    }

    fn peers(&self, n: usize) -> Vec<usize> {
        let all = self.links.iter().filter(|(a, b)| *a == n || *b == n);
        all.map(|(a, b)| if *a == n { *b } else { *a }).collect()
    }

    fn notice(&mut self, at: usize, gone: usize) {
        let range = if self.lives(gone) { self.conditions.keepalive } else { self.conditions.notice };
        let after = self.draw(range);
        let id = self.nodes[gone].contact.id;
        self.push(after, What::Down(at, id));
    }

    fn draw(&mut self, (low, high): (u64, u64)) -> Duration {
        Duration::from_micros(self.rng.between(low * 1000, high * 1000))
    }

    pub fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.next_at().is_some_and(|at| at <= end) {
            self.one();
        }
        self.now = end;
    }

    /// Runs, and checks after each event that no key has two owners and all is one ring.
    pub fn run_checked(&mut self, ring: RingId, time: Duration) {
        let end = self.now + time;
        while self.next_at().is_some_and(|at| at <= end) {
            self.one();
            assert_eq!(self.check(ring, false), Vec::<String>::new());
        }
        self.now = end;
    }

    /// Runs until the experiment's own time comes, and says which; none at the end.
    pub fn run_to_call(&mut self, end: Time) -> Option<u32> {
        while self.next_at().is_some_and(|at| at <= end) {
            if let Some(token) = self.one() {
                return Some(token);
            }
        }
        self.now = self.now.max(end);
        None
    }

    pub fn call_at(&mut self, at: Time, token: u32) {
        let after = at.since(self.now);
        self.push(after, What::Call(token));
    }

    fn next_at(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse(at)| at.0)
    }

    /// Runs until the ring of nodes is the ideal one, at most so long; says how long it took. On
    /// the way it must be one ring, and no key may have two owners.
    pub fn settle(&mut self, within: Duration) -> Duration {
        self.settle_ring(RingId::NODES, within)
    }

    /// Like [`settle`](Self::settle), after more losses than lists can bear: members leave the ring and come
    /// back.
    pub fn heal(&mut self, within: Duration) -> Duration {
        let begun = self.now;
        while !self.check(RingId::NODES, true).is_empty() && self.now.since(begun) < within {
            self.run(SECOND);
            let wrong = self.check(RingId::NODES, false);
            let two = wrong.iter().any(|wrong| wrong.contains("both owned"));
            assert!(!two, "seed {}: {wrong:?}", self.seed);
        }
        self.now.since(begun) + self.settle(Duration::ZERO)
    }

    pub fn settle_ring(&mut self, ring: RingId, within: Duration) -> Duration {
        let begun = self.now;
        loop {
            let wrong = self.check(ring, true);
            if wrong.is_empty() {
                return self.now.since(begun);
            }
            let some = wrong[..wrong.len().min(12)].join("\n");
            let (seed, count) = (self.seed, wrong.len());
            assert!(self.now.since(begun) < within, "seed {seed}: {count} wrong after {within:?}:\n{some}");
            self.run(SECOND);
            assert_eq!(self.check(ring, false), Vec::<String>::new(), "seed {seed}");
        }
    }
}

fn pair(a: usize, b: usize) -> (usize, usize) {
    (a.min(b), a.max(b))
}
