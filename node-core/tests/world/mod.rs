//! A small world for stories: nodes, links with latency, storage that forgets what was not
//! synced, engines that take their time. One seed gives everything, and it is printed when a
//! story fails.
#![allow(dead_code)] // each story uses its part

mod disk;
mod engine;

use bytes::Bytes;
use disk::Disk;
use engine::Engine;
use node_core::node::config::Platform;
use node_core::node::snapshot::JobView;
use node_core::overlay::contact::Contact;
use node_core::protocol::Rng;
use node_core::work::spec::{BlobRef, Data, Find, JobSpec, Template, UnitResult, Units};
use node_core::{
    BlobId, Channel, Command, Config, EngineRequest, Host, JobId, Node, NodeEvent, NodeId, NodeInput,
    StorageRequest, Time,
};
use sandbox::{Limits, Task};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What the engines of the world make of a task: how long it takes, and how it ends.
pub(crate) type Program = fn(&Task) -> (Duration, sandbox::Outcome);

pub(crate) struct World {
    pub now: Time,
    pub seed: u64,
    pub rng: Rng,
    events: BTreeMap<(Time, u64), Event>,
    sequence: u64,
    pub nodes: Vec<Place>,
    /// Pairs that are connected, the smaller index first, and when each direction last delivered.
    links: BTreeMap<(usize, usize), Link>,
    pub latency: (u64, u64),
    pub program: Program,
    pub told: Vec<(Time, usize, NodeEvent)>,
    /// Who closed the connection to whom, and why.
    pub closed: Vec<(usize, NodeId, String)>,
    pub frames: u64,
}

pub(crate) struct Place {
    pub id: NodeId,
    pub config: Config,
    pub node: Option<Node>,
    pub disk: Disk,
    engine: Engine,
    /// Counts lives: what belonged to an earlier one is dropped.
    life: u32,
    /// Neither hears nor acts, but does not know it: a laptop's lid, a stopped process.
    pub frozen: bool,
    wake: Option<Time>,
}

#[derive(Default)]
struct Link {
    epoch: u64,
    last: BTreeMap<(usize, Channel), Time>,
}

enum Event {
    Frame { to: usize, from: usize, epoch: u64, channel: Channel, bytes: Bytes },
    Wake { at: usize, life: u32 },
    Input { at: usize, life: u32, input: Box<NodeInput> },
    Cut { a: usize, b: usize, epoch: u64 },
    Gone { at: usize, life: u32, peer: NodeId },
}

/// What a node asked for in one drive.
#[derive(Default)]
struct Wishes {
    frames: Vec<(NodeId, Channel, Bytes)>,
    close: Vec<(NodeId, String)>,
    dial: Vec<Contact>,
    wake: Option<Option<Time>>,
    storage: Vec<StorageRequest>,
    engine: Vec<EngineRequest>,
    events: Vec<NodeEvent>,
}

impl Host for Wishes {
    fn transmit(&mut self, to: NodeId, channel: Channel, bytes: Bytes) {
        self.frames.push((to, channel, bytes));
    }
    fn dial(&mut self, contact: Contact) {
        self.dial.push(contact);
    }
    fn disconnect(&mut self, peer: NodeId, reason: &str) {
        self.close.push((peer, reason.into()));
    }
    fn wake_at(&mut self, at: Option<Time>) {
        self.wake = Some(at);
    }
    fn storage(&mut self, request: StorageRequest) {
        self.storage.push(request);
    }
    fn engine(&mut self, request: EngineRequest) {
        self.engine.push(request);
    }
    fn event(&mut self, event: NodeEvent) {
        self.events.push(event);
    }
}

/// Echoes its arguments after 20 ms.
pub(crate) fn echo(task: &Task) -> (Duration, sandbox::Outcome) {
    let stdout = Bytes::from(task.arguments.join(" "));
    (Duration::from_millis(20), sandbox::Outcome { stdout, cpu_us: 20_000, ..ended(0) })
}

pub(crate) fn ended(code: u32) -> sandbox::Outcome {
    sandbox::Outcome::of(sandbox::End::Exited(code))
}

impl World {
    pub(crate) fn seed(seed: u64) -> World {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        World {
            now: Time::ZERO,
            seed,
            rng: Rng::from_seed(bytes),
            events: BTreeMap::new(),
            sequence: 0,
            nodes: Vec::new(),
            links: BTreeMap::new(),
            latency: (1_000, 40_000),
            program: echo,
            told: Vec::new(),
            closed: Vec::new(),
            frames: 0,
        }
    }

    /// A gateway without slots is node 0; `workers` of them follow, connected to it.
    pub(crate) fn swarm(mut self, workers: usize, slots: u32) -> World {
        self.add(Config { gateway: true, slots: 0, name: "gateway".into(), ..Config::default() });
        for n in 0..workers {
            let platform = if n % 2 == 0 { Platform::Native } else { Platform::Browser };
            self.add(Config { slots, platform, name: format!("worker {n}"), ..Config::default() });
            self.connect(0, n + 1);
        }
        self.run_until(Duration::from_secs(1), "the gateway has read its disk", |w| w.node(0).is_ready());
        self
    }

    pub(crate) fn with(mut self, program: Program) -> World {
        self.program = program;
        self
    }

    pub(crate) fn add(&mut self, config: Config) -> usize {
        let at = self.nodes.len();
        let mut id = [at as u8; 32];
        id[0] = (at >> 8) as u8;
        self.nodes.push(Place {
            id: NodeId(id),
            config,
            node: None,
            disk: Disk::default(),
            engine: Engine::default(),
            life: 0,
            frozen: false,
            wake: None,
        });
        self.start(at);
        at
    }

    /// (Re)starts a node with what its disk has kept.
    pub(crate) fn start(&mut self, at: usize) {
        let seed = std::array::from_fn(|_| self.rng.u64() as u8);
        let place = &mut self.nodes[at];
        place.life += 1;
        place.engine = Engine::default();
        place.node = Some(Node::new(place.id, place.config.clone(), seed, self.now));
        let blobs = place.disk.blobs().collect();
        self.drive(at, NodeInput::WallClock(1_700_000_000_000 + self.now.0 / 1000));
        self.drive(at, NodeInput::Command(Command::BlobsStored(blobs)));
    }

    /// Ends a node without a word. What was not synced is lost.
    pub(crate) fn crash(&mut self, at: usize) {
        self.nodes[at].node = None;
        self.nodes[at].disk.forget_unsynced();
        let peers: Vec<usize> = self.peers(at);
        peers.into_iter().for_each(|peer| self.cut(at, peer));
    }

    pub(crate) fn peers(&self, at: usize) -> Vec<usize> {
        let other = |&(a, b): &(usize, usize)| (a == at).then_some(b).or((b == at).then_some(a));
        self.links.keys().filter_map(other).collect()
    }

    pub(crate) fn connect(&mut self, a: usize, b: usize) {
        let key = (a.min(b), a.max(b));
        if self.links.contains_key(&key) || self.nodes[a].node.is_none() || self.nodes[b].node.is_none() {
            return;
        }
        self.sequence += 1;
        self.links.insert(key, Link { epoch: self.sequence, last: BTreeMap::new() });
        let (ida, idb) = (self.nodes[a].id, self.nodes[b].id);
        self.drive(a, NodeInput::Connected { peer: idb, ip: None });
        self.drive(b, NodeInput::Connected { peer: ida, ip: None });
    }

    /// Breaks a connection; both sides hear of it a little later, frames under way are lost.
    pub(crate) fn cut(&mut self, a: usize, b: usize) {
        if self.links.remove(&(a.min(b), a.max(b))).is_some() {
            for (at, peer) in [(a, b), (b, a)] {
                let (life, peer) = (self.nodes[at].life, self.nodes[peer].id);
                self.after(1_000, Event::Gone { at, life, peer });
            }
        }
    }

    fn after(&mut self, micros: u64, event: Event) {
        let at = self.now + Duration::from_micros(micros);
        self.sequence += 1;
        self.events.insert((at, self.sequence), event);
    }

    pub(crate) fn index(&self, id: NodeId) -> usize {
        usize::from(id.0[0]) << 8 | usize::from(id.0[1])
    }

    pub(crate) fn drive(&mut self, at: usize, input: NodeInput) {
        let mut wishes = Wishes::default();
        let place = &mut self.nodes[at];
        let Some(node) = &mut place.node else { return };
        node.drive(self.now, input, &mut wishes);
        let life = place.life;
        if let Some(wake) = wishes.wake {
            place.wake = wake;
            if let Some(time) = wake {
                self.after(time.since(self.now).as_micros() as u64, Event::Wake { at, life });
            }
        }
        for request in wishes.storage {
            let delay = 200 + self.rng.below(5_000);
            if let Some(reply) = self.nodes[at].disk.take(request) {
                self.after(delay, Event::Input { at, life, input: Box::new(NodeInput::Storage(reply)) });
            }
        }
        for request in wishes.engine {
            self.nodes[at].engine.request(request);
        }
        self.run_engine(at);
        for (to, channel, bytes) in wishes.frames {
            self.send(at, to, channel, bytes);
        }
        for (peer, reason) in wishes.close {
            self.closed.push((at, peer, reason));
            // What is queued for the peer goes first.
            let peer = self.index(peer);
            let Some(link) = self.links.get(&(at.min(peer), at.max(peer))) else { continue };
            let sent = link.last.iter().filter(|((from, _), _)| *from == at).map(|(_, time)| *time).max();
            let epoch = link.epoch;
            let delay = sent.unwrap_or(self.now).since(self.now).as_micros() as u64 + 1;
            self.after(delay, Event::Cut { a: at, b: peer, epoch });
        }
        self.told.extend(wishes.events.into_iter().map(|event| (self.now, at, event)));
    }

    fn run_engine(&mut self, at: usize) {
        let (now, program) = (self.now, self.program);
        let Place { engine, disk, life, .. } = &mut self.nodes[at];
        let life = *life;
        let started = engine.start_next(now, disk, program);
        for (run, end) in started {
            self.after(
                end.since(now).as_micros() as u64,
                Event::Input { at, life, input: Box::new(NodeInput::Engine(run)) },
            );
        }
    }

    fn send(&mut self, from: usize, to: NodeId, channel: Channel, bytes: Bytes) {
        let to = self.index(to);
        let spread = self.latency.1 - self.latency.0;
        let delay = self.latency.0 + self.rng.below(spread.max(1));
        let Some(link) = self.links.get_mut(&(from.min(to), from.max(to))) else { return };
        self.frames += 1;
        let last = link.last.entry((from, channel)).or_default();
        *last = (self.now + Duration::from_micros(delay)).max(*last);
        let (at, epoch) = (*last, link.epoch);
        self.sequence += 1;
        self.events.insert((at, self.sequence), Event::Frame { to, from, epoch, channel, bytes });
    }

    /// One event; false if there is none.
    pub(crate) fn step(&mut self) -> bool {
        let Some(((time, _), event)) = self.events.pop_first() else { return false };
        self.now = time;
        let current = |place: &Place, life: u32| place.life == life && place.node.is_some();
        match event {
            Event::Frame { to, from, epoch, channel, bytes } => {
                let alive = self.links.get(&(from.min(to), from.max(to))).is_some_and(|l| l.epoch == epoch);
                if alive && !self.nodes[to].frozen {
                    let from = self.nodes[from].id;
                    self.drive(to, NodeInput::Received { from, channel, bytes });
                }
            }
            Event::Wake { at, life } => {
                let place = &self.nodes[at];
                if current(place, life) && !place.frozen && place.wake.is_some_and(|w| w <= self.now) {
                    self.drive(at, NodeInput::Wake);
                }
            }
            Event::Input { at, life, input } => {
                if current(&self.nodes[at], life) && !self.nodes[at].frozen {
                    match *input {
                        NodeInput::Storage(reply) => {
                            let reply = self.nodes[at].disk.sync(reply);
                            self.drive(at, NodeInput::Storage(reply));
                        }
                        NodeInput::Engine(reply) => {
                            if self.nodes[at].engine.is_over(&reply) {
                                self.drive(at, NodeInput::Engine(reply));
                            }
                        }
                        input => self.drive(at, input),
                    }
                }
            }
            Event::Cut { a, b, epoch } => {
                if self.links.get(&(a.min(b), a.max(b))).is_some_and(|link| link.epoch == epoch) {
                    self.cut(a, b);
                }
            }
            Event::Gone { at, life, peer } => {
                let still = self.links.contains_key(&{
                    let peer = self.index(peer);
                    (at.min(peer), at.max(peer))
                });
                if current(&self.nodes[at], life) && !still {
                    let input = NodeInput::Disconnected { peer, reason: "the link broke".into() };
                    self.drive(at, input);
                }
            }
        }
        true
    }

    pub(crate) fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        while self.events.first_key_value().is_some_and(|((at, _), _)| *at <= end) {
            self.step();
        }
        self.now = end;
    }

    /// Runs until `done`; fails the story if that takes longer than `patience` of its time.
    pub(crate) fn run_until(&mut self, patience: Duration, what: &str, done: impl Fn(&World) -> bool) {
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

    /// Breaks a node's engine, or mends it.
    pub(crate) fn break_engine(&mut self, at: usize, broken: bool) {
        self.nodes[at].engine.broken = broken;
    }

    pub(crate) fn freeze(&mut self, at: usize) {
        self.nodes[at].frozen = true;
    }

    pub(crate) fn node(&self, at: usize) -> &Node {
        self.nodes[at].node.as_ref().expect("the node lives")
    }

    /// Puts content into a node's storage, as an upload does.
    pub(crate) fn upload(&mut self, at: usize, bytes: &[u8]) -> BlobRef {
        let blob = BlobRef { id: BlobId::of(bytes), len: bytes.len() as u64 };
        self.nodes[at].disk.put_blob(blob.id, Bytes::copy_from_slice(bytes));
        self.drive(at, NodeInput::Command(Command::BlobsStored(vec![(blob.id, blob.len)])));
        blob
    }

    /// A job of `count` units of the world's program, argument `{}`.
    pub(crate) fn sweep(&mut self, at: usize, count: u32) -> JobSpec {
        let program = self.upload(at, b"a program");
        JobSpec {
            name: "story".into(),
            template: Template {
                program,
                arguments: vec!["{}".into()],
                environment: vec![],
                stdin: Data::EMPTY,
                files: vec![],
                limits: Limits::default(),
            },
            units: Units::Sweep { first: 0, count },
            priority: 0,
            max_retries: 0,
            find: Find::default(),
        }
    }

    pub(crate) fn submit(&mut self, at: usize, spec: JobSpec) -> JobId {
        let job = JobId(std::array::from_fn(|_| self.rng.u64() as u8));
        self.drive(at, NodeInput::Command(Command::Submit { job, spec }));
        job
    }

    /// The job at its owner, node 0.
    pub(crate) fn job(&self, job: JobId) -> Option<JobView> {
        self.nodes[0].node.as_ref()?.job(job)
    }

    pub(crate) fn is_over(&self, job: JobId) -> bool {
        self.job(job).is_some_and(|job| job.state.is_over())
    }

    pub(crate) fn refusal(&self, id: JobId) -> Option<String> {
        self.told.iter().find_map(|(_, _, event)| match event {
            NodeEvent::JobRefused { job, reason } if *job == id => Some(reason.clone()),
            _ => None,
        })
    }

    pub(crate) fn faults(&self, at: usize) -> Vec<String> {
        let fault = |(_, node, event): &(Time, usize, NodeEvent)| match event {
            NodeEvent::PeerFault { fault, .. } if *node == at => Some(fault.clone()),
            _ => None,
        };
        self.told.iter().filter_map(fault).collect()
    }

    /// What the owner's disk holds of the job: exactly what a restart would find.
    pub(crate) fn results(&self, job: JobId) -> BTreeMap<u32, UnitResult> {
        self.nodes[0].disk.results(job)
    }

    /// The claim of most stories: each unit once, with the right output.
    pub(crate) fn assert_all_right(&self, job: JobId, count: u32) {
        let results = self.results(job);
        let indices: BTreeSet<u32> = results.keys().copied().collect();
        assert_eq!(indices, (0..count).collect(), "seed {}: none missing", self.seed);
        for (index, result) in results {
            let Data::Inline(stdout) = result.stdout else { panic!("seed {}: echo is short", self.seed) };
            assert_eq!(stdout, index.to_string(), "seed {}: unit {index}", self.seed);
        }
        let view = self.job(job).expect("the owner knows it");
        let counted: u64 = view.by_node.iter().map(|(_, units, _)| units).sum();
        assert_eq!(counted, u64::from(count), "seed {}: none counted twice", self.seed);
    }

    fn report(&self) -> String {
        let jobs = self.nodes[0].node.as_ref().map(|node| node.jobs()).unwrap_or_default();
        format!("{jobs:#?}\n{:#?}", self.told.iter().rev().take(12).collect::<Vec<_>>())
    }
}
