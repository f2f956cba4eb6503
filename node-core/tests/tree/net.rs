//! A network of tree machines: a heap of events, one seed.

use node_core::NodeId;
use node_core::address::{Contact, Ip};
use node_core::overlay::tree::{Command, Event, Message, Tree, TreeConfig, TreeView, check};
use node_core::protocol::{Effect, Input, InputOf, Machine, Rng};
use node_core::time::Time;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Duration;

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// Faults of the network, in parts of a thousand; latency in milliseconds.
#[derive(Clone, Copy)]
pub(crate) struct Faults {
    pub(crate) loss: u64,
    pub(crate) double: u64,
    /// Messages overtake each other by up to so much.
    pub(crate) disorder_ms: u64,
    /// Until a death is noticed, at most.
    pub(crate) notice_ms: u64,
    pub(crate) latency_ms: u64,
}

impl Default for Faults {
    fn default() -> Self {
        Faults { loss: 0, double: 0, disorder_ms: 0, notice_ms: 10_000, latency_ms: 100 }
    }
}

enum What {
    Input(usize, Box<InputOf<Tree>>),
    Wake(usize),
    /// The dialling of the second by the first ends.
    Dialled(usize, usize),
}

struct At(Time, u64, What);

impl PartialEq for At {
    fn eq(&self, other: &Self) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}
impl Eq for At {}
impl PartialOrd for At {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for At {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

pub(crate) struct Node {
    pub(crate) contact: Contact,
    pub(crate) machine: Option<Machine<Tree>>,
    wake: Option<Time>,
}

pub(crate) struct Net {
    pub(crate) nodes: Vec<Node>,
    pub(crate) now: Time,
    pub(crate) faults: Faults,
    pub(crate) config: TreeConfig,
    pub(crate) rng: Rng,
    pub(crate) faulty: Vec<String>,
    pub(crate) left: Vec<usize>,
    pub(crate) messages: u64,
    pub(crate) sent: BTreeMap<&'static str, u64>,
    pub(crate) bytes: u64,
    ids: BTreeMap<NodeId, usize>,
    heap: BinaryHeap<Reverse<At>>,
    number: u64,
    links: BTreeSet<(usize, usize)>,
    dialling: BTreeMap<(usize, usize), Vec<Message>>,
    last: BTreeMap<(usize, usize), Time>,
    cut: Option<Vec<bool>>,
    /// Counts bytes, too.
    pub(crate) weigh: bool,
}

impl Net {
    pub(crate) fn new(seed: u64, config: TreeConfig) -> Net {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        Net {
            nodes: Vec::new(),
            now: Time(1_000_000),
            faults: Faults::default(),
            config,
            rng: Rng::from_seed(key),
            faulty: Vec::new(),
            left: Vec::new(),
            messages: 0,
            sent: BTreeMap::new(),
            bytes: 0,
            ids: BTreeMap::new(),
            heap: BinaryHeap::new(),
            number: 0,
            links: BTreeSet::new(),
            dialling: BTreeMap::new(),
            last: BTreeMap::new(),
            cut: None,
            weigh: false,
        }
    }

    /// A tree of so many nodes with addresses in random order, a few joining at a time, quiet.
    pub(crate) fn grown(seed: u64, m: u8, count: usize) -> Net {
        let mut net = Net::new(seed, TreeConfig::of(m));
        net.grow(count);
        net.settle(60 * SECOND);
        net
    }

    pub(crate) fn grow(&mut self, count: usize) {
        for i in 0..count {
            let address = self.rng.u64() as u32;
            self.add(address);
            let pace = 20 + 2000 / (1 + i as u64);
            self.run(Duration::from_millis(pace));
        }
    }

    /// One more node, which joins by way of the first that lives.
    pub(crate) fn add(&mut self, address: u32) -> usize {
        let n = self.nodes.len();
        let mut id = [0; 32];
        let random = self.rng.u64().to_be_bytes();
        id[..8].copy_from_slice(&random);
        id[24..].copy_from_slice(&(n as u64).to_be_bytes());
        let ip = Ip::from(std::net::IpAddr::from(address.to_be_bytes()));
        let contact = Contact { ip, id: NodeId(id), port: 4001 };
        let first = self.nodes.iter().find(|n| n.machine.is_some());
        let via: Vec<NodeId> = first.map(|n| n.contact.id).into_iter().collect();
        let mut seed = [7; 32];
        seed[..8].copy_from_slice(&self.rng.u64().to_le_bytes());
        let machine = Machine::new(Tree::new(self.config.clone()), Rng::from_seed(seed));
        self.ids.insert(contact.id, n);
        self.nodes.push(Node { contact, machine: Some(machine), wake: None });
        self.step(n, Input::Command(Command::Join { me: contact, via }));
        n
    }

    /// A node that takes no part in the tree.
    pub(crate) fn stranger(&mut self) -> usize {
        let one = self.add(0x0a00_0001);
        self.nodes[one].machine = None;
        self.run(60 * SECOND);
        self.settle(60 * SECOND);
        one
    }

    /// One message, as if that node had sent it.
    pub(crate) fn say(&mut self, from: usize, to: usize, message: Message) {
        let from = self.nodes[from].contact.id;
        self.step(to, Input::Message { from, message });
    }

    pub(crate) fn alive(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|i| self.nodes[*i].machine.is_some()).collect()
    }

    pub(crate) fn views(&self) -> Vec<TreeView<'_>> {
        self.nodes.iter().filter_map(|n| Some(n.machine.as_ref()?.state().view())).collect()
    }

    pub(crate) fn view(&self, i: usize) -> TreeView<'_> {
        self.nodes[i].machine.as_ref().expect("it lives").state().view()
    }

    /// Mean and maximum of the memory of a node at this level.
    pub(crate) fn memory(&self, level: u8) -> (usize, usize) {
        let all = self.nodes.iter().filter_map(|n| Some(n.machine.as_ref()?.state()));
        let all: Vec<usize> = all.filter(|t| t.view().level() == level).map(|t| t.memory()).collect();
        (all.iter().sum::<usize>() / all.len().max(1), all.into_iter().max().unwrap_or(0))
    }

    pub(crate) fn check(&self, strict: bool) -> Vec<String> {
        check::check(&self.views(), self.config.m, self.config.k, strict)
    }

    /// The sizes of groups by level, and who is outside: for a person.
    pub(crate) fn picture(&self) -> String {
        let mut levels: BTreeMap<u8, Vec<usize>> = BTreeMap::new();
        let mut outside = Vec::new();
        let mut root = Vec::new();
        for view in self.views() {
            if !view.joined() {
                outside.push((view.level(), view.children().count()));
            }
            if let Some(record) = view.root() {
                root.push((view.level(), record.members().count(), record.term()));
            }
            if view.level() > 0 {
                levels.entry(view.level()).or_default().push(view.children().count());
            }
        }
        format!("roots {root:?}, groups {levels:?}, outside {outside:?}")
    }

    pub(crate) fn command(&mut self, i: usize, command: Command) {
        self.step(i, Input::Command(command));
    }

    /// Dead without a word.
    pub(crate) fn kill(&mut self, i: usize) {
        self.nodes[i].machine = None;
        let peers: Vec<usize> = self.peers(i);
        for peer in peers {
            self.notice(peer, i);
        }
    }

    /// The connection breaks and both ends hear of it.
    pub(crate) fn cut_link(&mut self, a: usize, b: usize) {
        self.links.remove(&pair(a, b));
        self.notice(a, b);
        self.notice(b, a);
    }

    /// Nothing passes between the nodes marked and the others.
    pub(crate) fn partition(&mut self, side: Option<Vec<bool>>) {
        self.cut = side;
        let Some(side) = self.cut.clone() else { return };
        let broken: Vec<(usize, usize)> =
            self.links.iter().copied().filter(|(a, b)| side[*a] != side[*b]).collect();
        for (a, b) in broken {
            self.links.remove(&(a, b));
            self.notice(a, b);
            self.notice(b, a);
        }
    }

    fn apart(&self, a: usize, b: usize) -> bool {
        self.cut.as_ref().is_some_and(|side| side[a] != side[b])
    }

    fn peers(&self, i: usize) -> Vec<usize> {
        let all = self.links.iter().filter(|(a, b)| *a == i || *b == i);
        all.map(|(a, b)| if *a == i { *b } else { *a }).collect()
    }

    fn notice(&mut self, at: usize, gone: usize) {
        let after = Duration::from_millis(self.rng.below(self.faults.notice_ms + 1));
        let id = self.nodes[gone].contact.id;
        self.push(after, What::Input(at, Box::new(Input::Down(id))));
    }

    pub(crate) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.heap.peek().is_some_and(|Reverse(at)| at.0 <= end) {
            self.one();
        }
        self.now = end;
    }

    /// Runs until the strict check holds, at most so long; says how long it took.
    pub(crate) fn settle(&mut self, within: Duration) -> Duration {
        let begun = self.now;
        let mut wrong = self.check(true);
        while !wrong.is_empty() {
            if self.now.since(begun) >= within {
                let some = wrong[..wrong.len().min(20)].join("\n");
                panic!("{} wrong after {within:?}:\n{some}\n{}", wrong.len(), self.picture());
            }
            self.run(SECOND);
            let loose = self.check(false);
            assert_eq!(loose, Vec::<String>::new());
            wrong = self.check(true);
        }
        self.now.since(begun)
    }

    fn one(&mut self) {
        let Some(Reverse(At(time, _, what))) = self.heap.pop() else { return };
        self.now = time;
        match what {
            What::Input(to, input) => {
                if let Input::Down(peer) = &*input {
                    let peer = self.ids[peer];
                    if self.nodes[peer].machine.is_none() {
                        self.links.remove(&pair(to, peer));
                    } else if self.links.contains(&pair(to, peer)) {
                        // Connected again before it was noticed.
                        return;
                    }
                }
                self.step(to, *input);
            }
            What::Wake(i) => {
                if self.nodes[i].wake.is_some_and(|at| at <= self.now) {
                    self.nodes[i].wake = None;
                }
                while let Some(timer) = self.nodes[i].machine.as_mut().and_then(|m| m.due(time)) {
                    self.step(i, Input::Timer(timer));
                }
                self.arm(i);
            }
            What::Dialled(from, to) => {
                let waiting = self.dialling.remove(&(from, to)).unwrap_or_default();
                if self.nodes[from].machine.is_none() {
                    return;
                }
                let (a, b) = (self.nodes[from].contact.id, self.nodes[to].contact.id);
                if self.nodes[to].machine.is_none() || self.apart(from, to) {
                    return self.step(from, Input::Down(b));
                }
                if self.links.insert(pair(from, to)) {
                    self.step(from, Input::Up(b));
                    self.step(to, Input::Up(a));
                }
                for message in waiting {
                    self.transmit(from, to, message);
                }
            }
        }
    }

    fn push(&mut self, after: Duration, what: What) {
        self.number += 1;
        self.heap.push(Reverse(At(self.now + after, self.number, what)));
    }

    fn step(&mut self, i: usize, input: InputOf<Tree>) {
        let now = self.now;
        let me = self.nodes[i].contact.id;
        let Some(machine) = self.nodes[i].machine.as_mut() else { return };
        for effect in machine.step(me, now, input) {
            match effect {
                Effect::Send { to, message } => {
                    let Some(to) = self.ids.get(&to).copied() else { continue };
                    self.send(i, to, message);
                }
                Effect::Reach(contact) | Effect::Hold(contact) => {
                    if let Some(to) = self.ids.get(&contact.id).copied() {
                        self.dial(i, to);
                    }
                }
                Effect::Fault { peer, fault } => {
                    self.faulty.push(format!("{}: {fault}", peer.short()));
                }
                Effect::Emit(Event::Left) => self.left.push(i),
                Effect::Emit(Event::Placed(_))
                | Effect::Forward { .. }
                | Effect::Release(_)
                | Effect::Trouble(_) => {}
            }
        }
        self.arm(i);
    }

    fn arm(&mut self, i: usize) {
        let node = &mut self.nodes[i];
        let Some(at) = node.machine.as_ref().and_then(|m| m.deadline()) else { return };
        if node.wake.is_none_or(|old| at < old) {
            node.wake = Some(at);
            let after = at.since(self.now);
            self.push(after, What::Wake(i));
        }
    }

    fn dial(&mut self, from: usize, to: usize) {
        if from == to || self.links.contains(&pair(from, to)) || self.dialling.contains_key(&(from, to)) {
            return;
        }
        self.dialling.insert((from, to), Vec::new());
        let dead = self.nodes[to].machine.is_none() || self.apart(from, to);
        let wait = if dead { self.rng.below(self.faults.notice_ms + 1) } else { self.faults.latency_ms };
        self.push(Duration::from_millis(wait), What::Dialled(from, to));
    }

    fn send(&mut self, from: usize, to: usize, message: Message) {
        self.messages += 1;
        *self.sent.entry(kind(&message)).or_default() += 1;
        if self.weigh {
            self.bytes += rmp_serde::to_vec(&message).map_or(0, |bytes| bytes.len() as u64);
        }
        if from != to && !self.links.contains(&pair(from, to)) {
            // Peers to ask are kept connected by the node above.
            self.dial(from, to);
            if let Some(waiting) = self.dialling.get_mut(&(from, to)) {
                waiting.push(message);
            }
            return;
        }
        self.transmit(from, to, message);
    }

    fn transmit(&mut self, from: usize, to: usize, message: Message) {
        let id = self.nodes[from].contact.id;
        if from == to {
            return self
                .push(Duration::ZERO, What::Input(to, Box::new(Input::Message { from: id, message })));
        }
        if self.rng.below(1000) < self.faults.loss {
            return;
        }
        let copies = if self.rng.below(1000) < self.faults.double { 2 } else { 1 };
        for _ in 0..copies {
            let disorder = self.faults.disorder_ms;
            let mut at =
                self.now + Duration::from_millis(self.faults.latency_ms + self.rng.below(disorder + 1));
            if disorder == 0 {
                // In order on a connection.
                let last = self.last.entry((from, to)).or_insert(Time::ZERO);
                at = at.max(*last);
                *last = at;
            }
            let input = Input::Message { from: id, message: message.clone() };
            let after = at.since(self.now);
            self.push(after, What::Input(to, Box::new(input)));
        }
    }
}

fn pair(a: usize, b: usize) -> (usize, usize) {
    (a.min(b), a.max(b))
}

fn kind(message: &Message) -> &'static str {
    match message {
        Message::Join(_) => "Join",
        Message::Welcome(_) => "Welcome",
        Message::TooTall { .. } => "TooTall",
        Message::Tell(_) => "Tell",
        Message::Refresh { .. } => "Refresh",
        Message::NotMine { .. } => "NotMine",
        Message::Leave { .. } => "Leave",
        Message::Resign { .. } => "Resign",
        Message::Move { .. } => "Move",
        Message::Update(_) => "Update",
        Message::RequestLeaf(_) => "RequestLeaf",
        Message::Redistribute { .. } => "Redistribute",
        Message::Merge { .. } => "Merge",
        Message::Underflow { .. } => "Underflow",
        Message::Root(_) => "Root",
        Message::Abdicate(_) => "Abdicate",
        Message::Probe { .. } => "Probe",
        Message::Found { .. } => "Found",
    }
}
