//! A network of finders on a tree that is given: a heap of messages and one seed. There are no
//! nodes around the machines and no tree machine below them.

use node_core::NodeId;
use node_core::Time;
use node_core::address::{Contact, Ip};
use node_core::discovery::nearest::{Command, Event, Load, Message, Nearest, NearestConfig, Timer};
use node_core::finding::{Found, Needs, Query, Queue};
use node_core::placement::Placement;
use node_core::platform::Platform;
use node_core::protocol::{Effect, Input, Machine, Rng};
use node_core::ticket::ServiceId;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

type In = Input<Message, Timer, Command>;

enum What {
    /// On the receiver's line.
    Arrive {
        to: usize,
        from: usize,
        message: Message,
        bytes: u64,
    },
    Deliver {
        to: usize,
        from: usize,
        message: Message,
    },
    Wake(usize),
    Do {
        to: usize,
        command: Command,
    },
    Down {
        at: usize,
        peer: usize,
    },
    /// A unit of this owner starts, or ends, on a node.
    Start {
        at: usize,
        owner: NodeId,
        lasts: Duration,
    },
    End {
        at: usize,
        owner: NodeId,
    },
}

struct Due {
    at: Time,
    seq: u64,
    what: What,
}

impl PartialEq for Due {
    fn eq(&self, other: &Due) -> bool {
        (self.at, self.seq) == (other.at, other.seq)
    }
}
impl Eq for Due {}
impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Due) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Due {
    fn cmp(&self, other: &Due) -> std::cmp::Ordering {
        (self.at, self.seq).cmp(&(other.at, other.seq))
    }
}

/// A node as the tests see it.
pub(crate) struct At {
    pub machine: Machine<Nearest>,
    pub contact: Contact,
    pub level: u8,
    pub placement: Placement,
    pub load: Load,
    pub dead: bool,
    wake: Option<Time>,
    up_free: Time,
    down_free: Time,
    /// Messages sent and received, upkeep apart.
    pub messages: u64,
    pub bytes: u64,
    pub upkeep: u64,
}

/// A slot kept for somebody.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reserved {
    pub at: Time,
    pub node: usize,
    pub slots: u32,
    pub hops: u8,
}

#[derive(Clone, Copy, Default)]
pub(crate) struct Faults {
    /// In a thousand messages.
    pub lost: u64,
    pub twice: u64,
    pub late: u64,
}

pub(crate) struct Net {
    pub now: Time,
    pub nodes: Vec<At>,
    heap: BinaryHeap<Reverse<Due>>,
    seq: u64,
    rng: Rng,
    pub latency: Duration,
    /// Bits a second of every node's line; 0: without bound.
    pub line: u64,
    pub faults: Faults,
    pub reserved: Vec<Reserved>,
    pub found: Vec<(Time, usize, Found)>,
    pub faulty: Vec<(usize, NodeId, String)>,
    pub sent: u64,
    pub kinds: BTreeMap<&'static str, u64>,
    pub asks: Vec<(Time, usize)>,
    queries: u64,
    /// Units come at once for what is kept, and run so long in the mean.
    pub work: Option<Duration>,
}

pub(crate) fn index(id: NodeId) -> usize {
    let (start, _) = id.0.split_first_chunk::<8>().unwrap();
    u64::from_be_bytes(*start) as usize
}

pub(crate) fn contact(i: usize) -> Contact {
    let mut id = *blake3::hash(&(i as u64).to_be_bytes()).as_bytes();
    id[..8].copy_from_slice(&(i as u64).to_be_bytes());
    let ip = std::net::Ipv4Addr::from(0x0a00_0000 + i as u32);
    Contact { ip: Ip::from(std::net::IpAddr::V4(ip)), id: NodeId(id), port: 4001 }
}

pub(crate) fn load(slots: u32) -> Load {
    Load { slots, busy: vec![], power: 2000, memory_bytes: 2 << 30, platform: Platform::Native }
}

impl Net {
    /// `n` nodes in a tree whose root group has the level `top`, with groups as random joins
    /// make them (10 to 18 members of at most 20 for m = 10).
    pub(crate) fn new(seed: u64, n: usize, m: u64, top: u8, config: NearestConfig) -> Net {
        let mut rng = Rng::from_seed(*blake3::hash(&seed.to_be_bytes()).as_bytes());
        let mut places: Vec<Placement> = vec![Placement::default(); n];
        let mut next = 0;
        let mut roots = Vec::new();
        while next < n {
            if let Some(root) = branch(top, m, &mut next, &mut rng, &mut places) {
                roots.push(root);
            }
        }
        for &root in &roots {
            places[root].peers = roots.iter().filter(|r| **r != root).map(|r| contact(*r)).collect();
            down(root, None, &[], &mut places);
        }
        let nodes = places.into_iter().enumerate().map(|(i, placement)| At {
            machine: Machine::new(Nearest::new(config), Rng::fork(&[seed as u8; 32], &i.to_string())),
            contact: contact(i),
            level: placement.level,
            placement,
            load: load(1),
            dead: false,
            wake: None,
            up_free: Time::ZERO,
            down_free: Time::ZERO,
            messages: 0,
            bytes: 0,
            upkeep: 0,
        });
        let mut net = Net {
            now: Time::ZERO,
            nodes: nodes.collect(),
            heap: BinaryHeap::new(),
            seq: 0,
            rng,
            latency: Duration::from_millis(200),
            line: 0,
            faults: Faults::default(),
            reserved: Vec::new(),
            found: Vec::new(),
            faulty: Vec::new(),
            sent: 0,
            kinds: BTreeMap::new(),
            asks: Vec::new(),
            queries: 0,
            work: None,
        };
        for i in 0..n {
            let (me, load, placement) =
                (net.nodes[i].contact, net.nodes[i].load.clone(), net.nodes[i].placement.clone());
            net.step(i, Input::Command(Command::Me(me)));
            net.step(i, Input::Command(Command::Load(load)));
            net.step(i, Input::Command(Command::Placed(placement)));
        }
        net
    }

    /// As above, after all that waits has been told.
    pub(crate) fn settled(seed: u64, n: usize, m: u64, top: u8, config: NearestConfig) -> Net {
        let mut net = Net::new(seed, n, m, top, config);
        net.run_for(Duration::from_secs(45));
        net.forget();
        net
    }

    /// Forgets all counts.
    pub(crate) fn forget(&mut self) {
        for node in &mut self.nodes {
            (node.messages, node.bytes, node.upkeep) = (0, 0, 0);
        }
        self.sent = 0;
        self.kinds.clear();
        self.reserved.clear();
        self.found.clear();
        self.asks.clear();
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.rng.below(n)
    }

    fn push(&mut self, at: Time, what: What) {
        self.seq += 1;
        self.heap.push(Reverse(Due { at, seq: self.seq, what }));
    }

    pub(crate) fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        while self.heap.peek().is_some_and(|d| d.0.at <= end) {
            let Some(Reverse(due)) = self.heap.pop() else { break };
            self.now = due.at;
            self.happen(due.what);
        }
        self.now = end;
    }

    fn happen(&mut self, what: What) {
        match what {
            What::Arrive { to, from, message, bytes } => {
                let at = self.now.max(self.nodes[to].down_free) + self.takes(bytes);
                self.nodes[to].down_free = at;
                self.push(at, What::Deliver { to, from, message });
            }
            What::Deliver { to, from, message } => {
                let node = &mut self.nodes[to];
                if node.dead {
                    let at = self.now + Duration::from_secs(1);
                    return self.push(at, What::Down { at: from, peer: to });
                }
                if message.is_upkeep() {
                    node.upkeep += 1;
                } else {
                    node.messages += 1;
                }
                let from = self.nodes[from].contact.id;
                self.step(to, Input::Message { from, message });
            }
            What::Wake(at) => {
                if self.nodes[at].wake == Some(self.now) {
                    self.nodes[at].wake = None;
                    while let Some(timer) = self.nodes[at].machine.due(self.now) {
                        self.step(at, Input::Timer(timer));
                    }
                    self.wake(at);
                }
            }
            What::Do { to, command } => self.step(to, Input::Command(command)),
            What::Down { at, peer } => {
                let peer = self.nodes[peer].contact.id;
                self.step(at, Input::Down(peer));
            }
            What::Start { at, owner, lasts } => {
                self.change(at, owner, 1);
                self.push(self.now + lasts, What::End { at, owner });
            }
            What::End { at, owner } => self.change(at, owner, -1),
        }
    }

    fn change(&mut self, at: usize, owner: NodeId, by: i32) {
        let node = &mut self.nodes[at];
        match node.load.busy.iter_mut().find(|(o, _)| *o == owner) {
            Some((_, n)) => *n = n.saturating_add_signed(by),
            None if by > 0 => node.load.busy.push((owner, by as u32)),
            None => {}
        }
        node.load.busy.retain(|(_, n)| *n > 0);
        let load = node.load.clone();
        self.step(at, Input::Command(Command::Load(load)));
    }

    fn takes(&self, bytes: u64) -> Duration {
        (bytes * 8_000_000).checked_div(self.line).map_or(Duration::ZERO, Duration::from_micros)
    }

    pub(crate) fn step(&mut self, at: usize, input: In) {
        if self.nodes[at].dead {
            return;
        }
        for effect in self.nodes[at].machine.step(contact(at).id, self.now, input) {
            match effect {
                Effect::Send { to, message } => self.send(at, index(to), message),
                Effect::Emit(event) => self.told(at, event),
                Effect::Fault { peer, fault } => self.faulty.push((at, peer, fault)),
                // All nodes of the net are connected.
                Effect::Reach(_)
                | Effect::Hold(_)
                | Effect::Release(_)
                | Effect::Forward { .. }
                | Effect::Trouble(_) => {}
            }
        }
        self.wake(at);
    }

    fn wake(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        let deadline = node.machine.deadline();
        if let Some(deadline) = deadline
            && node.wake.is_none_or(|w| deadline < w)
        {
            node.wake = Some(deadline);
            self.push(deadline, What::Wake(at));
        }
    }

    fn send(&mut self, from: usize, to: usize, message: Message) {
        // Version byte and envelope of the wire, and the message.
        let bytes = 11 + rmp_serde::to_vec(&message).unwrap().len() as u64;
        self.sent += 1;
        *self.kinds.entry(name(&message)).or_default() += 1;
        let node = &mut self.nodes[from];
        node.bytes += bytes;
        if message.is_upkeep() {
            node.upkeep += 1;
        } else {
            node.messages += 1;
        }
        let left = self.now.max(self.nodes[from].up_free) + self.takes(bytes);
        self.nodes[from].up_free = left;
        let Faults { lost, twice, late } = self.faults;
        let draw = |rng: &mut Rng, of: u64| of > 0 && rng.below(1000) < of;
        let copies = if draw(&mut self.rng, lost) { 0 } else { 1 + u64::from(draw(&mut self.rng, twice)) };
        for _ in 0..copies {
            let more = if draw(&mut self.rng, late) { self.rng.below(1_000_000) } else { 0 };
            let at = left + self.latency + Duration::from_micros(more);
            let message = message.clone();
            self.push(at, What::Arrive { to, from, message, bytes });
        }
    }

    fn told(&mut self, at: usize, event: Event) {
        match event {
            Event::Found(found) => {
                self.found.push((self.now, at, found));
            }
            Event::Reserved { for_owner, slots, hops, .. } => {
                let reserved = Reserved { at: self.now, node: at, slots, hops };
                self.reserved.push(reserved);
                if let Some(lasts) = self.work {
                    for _ in 0..slots {
                        // Exponential, by its inverse.
                        let u = (self.rng.below(1 << 30) + 1) as f64 / (1u64 << 30) as f64;
                        let what = What::Start { at, owner: for_owner.id, lasts: lasts.mul_f64(-u.ln()) };
                        self.push(self.now, what);
                    }
                }
            }
            Event::Released { .. } | Event::Changed => {}
        }
    }

    pub(crate) fn find(&mut self, at: usize, units: u32) -> u64 {
        self.find_with(at, units, Needs::default())
    }

    pub(crate) fn find_with(&mut self, at: usize, units: u32, needs: Needs) -> u64 {
        self.queries += 1;
        let id = self.queries;
        self.asks.push((self.now, at));
        self.step(
            at,
            Input::Command(Command::Find(Query {
                ticket: ServiceId::Owner.ticket(id),
                units,
                needs,
                queue: Queue::No,
                swarm: true,
                without: Default::default(),
            })),
        );
        id
    }

    pub(crate) fn find_at(&mut self, time: Time, to: usize, units: u32) {
        self.queries += 1;
        let command = Command::Find(Query {
            ticket: ServiceId::Owner.ticket(self.queries),
            units,
            needs: Needs::default(),
            queue: Queue::No,
            swarm: true,
            without: Default::default(),
        });
        self.push(time, What::Do { to, command });
    }

    pub(crate) fn answer(&self, query: u64) -> Option<&Found> {
        self.found.iter().map(|(_, _, f)| f).find(|f| f.ticket.number == query)
    }

    /// Finds, and waits for the answer: how many places.
    pub(crate) fn places(&mut self, at: usize, units: u32) -> u32 {
        let query = self.find(at, units);
        for _ in 0..120 {
            if self.answer(query).is_some() {
                break;
            }
            self.run_for(Duration::from_secs(1));
        }
        self.answer(query).expect("a query is answered").places.iter().map(|p| p.units).sum()
    }

    /// Dies; those that are connected to it hear of it within 10 s.
    pub(crate) fn kill(&mut self, at: usize) {
        self.nodes[at].dead = true;
        let placement = &self.nodes[at].placement;
        let near: Vec<usize> = (placement.parent.iter().chain(&placement.children).chain(&placement.peers))
            .map(|c| index(c.id))
            .collect();
        for node in near {
            let after = Duration::from_micros(self.rng.below(10_000_000));
            self.push(self.now + after, What::Down { at: node, peer: at });
        }
    }

    pub(crate) fn leaf(&self) -> usize {
        let middle = self.nodes.len() / 2;
        (middle..).find(|i| self.nodes[*i].level == 0).unwrap()
    }
}

fn name(message: &Message) -> &'static str {
    match message {
        Message::Status(s) if s.refresh => "refresh",
        Message::Status(_) => "status",
        Message::Above(_) => "above",
        Message::Ask(_) => "ask",
        Message::Answer(_) => "answer",
        Message::Refuse(_) => "refuse",
        Message::Gone(_) => "gone",
        Message::Places(_) => "places",
        Message::Taken(_) => "taken",
        Message::Ack(_) => "ack",
        Message::NotFound(_) => "not_found",
        Message::Reserve(_) => "reserve",
        Message::Release(_) => "release",
    }
}

fn take(level: u8, next: &mut usize, places: &mut [Placement]) -> Option<usize> {
    let i = *next;
    let place = places.get_mut(i)?;
    *next += 1;
    place.joined = true;
    place.level = level;
    Some(i)
}

/// Makes a branch of the nodes that are left, in their order, its top first.
fn branch(level: u8, m: u64, next: &mut usize, rng: &mut Rng, places: &mut [Placement]) -> Option<usize> {
    if level == 0 {
        return take(level, next, places);
    }
    let members = m + rng.below(m / 2) + rng.below(m / 2);
    let top = take(level, next, places)?;
    let children: Vec<usize> = (0..members).map_while(|_| branch(level - 1, m, next, rng, places)).collect();
    places[top].children = children.into_iter().map(contact).collect();
    Some(top)
}

fn down(at: usize, parent: Option<usize>, above: &[usize], places: &mut [Placement]) {
    places[at].parent = parent.map(contact);
    places[at].ancestors = above.iter().rev().map(|i| contact(*i)).collect();
    let mut line = above.to_vec();
    line.extend(parent);
    for child in places[at].children.clone() {
        down(index(child.id), Some(at), &line, places);
    }
}
