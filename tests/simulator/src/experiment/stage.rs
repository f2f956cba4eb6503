//! A network on the stage: it is grown node by node, and checked as a whole.

use super::Watch;
use super::session::Sessions;
use super::whole::Shared;
use crate::report::Report;
use crate::rng::Rng;
use crate::scenario::{Kind, Order, Scenario, WayName, What};
use crate::world::{Step, World};
use node_core::address::{Ip, Scope};
use node_core::discovery::nearest::NearestConfig;
use node_core::overlay::tree::{TreeConfig, TreeView, check};
use node_core::platform::Platform;
use node_core::ticket::ServiceId;
use node_core::{Config, NodeEvent, Time};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

/// Violations that are kept in words.
const KEPT: usize = 100;

/// Reactions of an experiment to events.
pub trait Play {
    /// A node told something.
    fn told(&mut self, stage: &mut Stage, at: usize, event: NodeEvent);
    /// The experiment's own time has come; see [`Stage::call_at`].
    fn call(&mut self, _stage: &mut Stage, _token: u32) {}
}

/// Nothing.
pub(super) struct Idle;

impl Play for Idle {
    fn told(&mut self, _: &mut Stage, _: usize, _: NodeEvent) {}
}

pub struct Stage {
    pub world: World,
    pub rng: Rng,
    pub m: u8,
    pub k: u8,
    pub nearest: NearestConfig,
    pub gateways: usize,
    /// Kind of each node, by index into the scenario's population.
    pub kinds: Vec<u8>,
    pub population: Vec<Kind>,
    /// Set while sessions come and go.
    pub sessions: Option<Sessions>,
    pub violations: Vec<String>,
    /// Faults of peers that were told, in a network where nobody is a liar.
    pub faults: u64,
    /// The first of those faults, in words: who blames whom, and for what.
    pub said: Vec<String>,
    /// Whether such faults are violations. Nothing reads this field.
    pub faults_are_violations: bool,
}

/// Tokens of the stage itself: a kind in the upper bits, a node in the lower ones.
const KIND: u32 = 0xf000_0000;
const START: u32 = 0x1000_0000;
const RECONNECT: u32 = 0x2000_0000;
const SESSION: u32 = 0x3000_0000;
const END: u32 = 0x4000_0000;
/// An event of a trace; the lower bits name node and event.
const TRACE: u32 = 0x5000_0000;
/// Everybody looks for a gateway.
const TENDING: u32 = 0x6000_0000;
const WHATS: [What; 5] = [What::Join, What::Leave, What::Crash, What::Freeze, What::Thaw];

/// Whatever is below belongs to the experiment.
const MINE: u32 = 0x1000_0000;

/// How often drivers look whether they still have a gateway. Our choice: what natives do.
const TEND: Duration = Duration::from_secs(10);

/// The finder of all nodes, and how the one in the tree is set.
#[derive(Clone, Copy, Debug)]
pub struct Finder {
    pub nearest: NearestConfig,
    pub service: ServiceId,
}

impl From<NearestConfig> for Finder {
    fn from(nearest: NearestConfig) -> Finder {
        Finder { nearest, service: ServiceId::Nearest }
    }
}

impl From<WayName> for Finder {
    fn from(way: WayName) -> Finder {
        Finder { nearest: NearestConfig::new(way.way()), service: way.finder() }
    }
}

impl Stage {
    /// A stage with all places and nobody on it yet.
    pub fn new(scenario: &Scenario, seed: u64, finder: impl Into<Finder>, m: u8, k: u8) -> Stage {
        let Finder { nearest, service } = finder.into();
        let nodes = scenario.nodes.0 as usize;
        let mut world = World::seed(seed);
        world.network = scenario.network();
        world.keep = |event| {
            use NodeEvent::{Found, PeerFault, Reserved};
            matches!(event, Found { .. } | Reserved { .. } | PeerFault { .. })
        };
        let mut rng = Rng::fork(seed, 100);
        let mut stage = Stage {
            gateways: scenario.guests.as_ref().map_or(1, |part| part.gateways.0 as usize),
            kinds: Vec::with_capacity(nodes),
            population: scenario.population.clone(),
            sessions: None,
            violations: Vec::new(),
            faults: 0,
            said: Vec::new(),
            faults_are_violations: true,
            m,
            k,
            nearest,
            rng: Rng::fork(seed, 101),
            world,
        };
        let tree = TreeConfig { k, ..TreeConfig::of(m) };
        let mut config = Config {
            port: Some(4001),
            tree: tree.into(),
            nearest: nearest.into(),
            finder: service,
            ..Config::default()
        };
        config.limits_mut().overrun_panics = true;
        let connects = scenario.guests.is_some();
        let services = scenario.whole.then(|| Shared::new(connects));
        if services.is_some() {
            Shared::bound(&mut config);
        }
        let mut configs: Vec<(u64, Arc<Config>)> = Vec::new();
        stage.world.nodes.reserve_exact(nodes);
        for (at, ip) in addresses(nodes, scenario.tree.order, &mut rng).into_iter().enumerate() {
            let gateway = at < stage.gateways;
            // Gateways are of the first kind that is always there for everybody.
            let servers = |kind: &Kind| !kind.hidden && kind.session.is_none();
            let kind = match gateway {
                true => scenario.population.iter().position(servers),
                false => scenario.draw_kind(&mut rng),
            };
            let of = kind.and_then(|kind| scenario.population.get(kind));
            let mips = of.and_then(|kind| kind.mips).map(|mips| mips.draw(&mut rng) as u32);
            // The others join the first.
            let founds = at == 0;
            let key = u64::from(gateway)
                | u64::from(founds) << 15
                | (kind.unwrap_or(0) as u64) << 1
                | u64::from(mips.unwrap_or(0)) << 16;
            let shared = match configs.iter().find(|(known, _)| *known == key) {
                Some((_, shared)) => shared.clone(),
                None => {
                    let mut config = Config { gateway, founds, ..config.clone() };
                    if gateway {
                        // Everybody comes to it first, and stays.
                        config.limits_mut().peers = config.limits.peers.max(nodes);
                    }
                    if let Some(mips) = mips {
                        config.power = mips;
                    }
                    if let Some(kind) = of {
                        config.slots = kind.slots.0 as u32;
                        config.platform = if kind.browser { Platform::Browser } else { Platform::Native };
                        config.port = config.port.filter(|_| !kind.hidden);
                    }
                    let shared = Arc::new(config);
                    if configs.len() < 4096 {
                        configs.push((key, shared.clone()));
                    }
                    shared
                }
            };
            match &services {
                Some(services) => {
                    let (whole, secret) = services.whole(at, &shared);
                    stage.world.place_keyed(Arc::new(whole), &secret);
                }
                None => drop(stage.world.place(shared)),
            }
            let place = &mut stage.world.nodes[at];
            place.ip = ip;
            place.region = of.map_or(0, |kind| kind.region.0 as u8);
            place.mips = mips.unwrap_or(place.mips);
            place.bandwidth = of.and_then(|kind| kind.bandwidth_kbps).map_or(0, |kbps| kbps.0 * 1000);
            stage.kinds.push(kind.unwrap_or(0) as u8);
        }
        stage
    }

    /// A network that has grown and come to rest.
    pub fn grown(
        scenario: &Scenario,
        finder: impl Into<Finder>,
        m: u8,
        k: u8,
        report: &mut Report,
        watch: &mut dyn Watch,
    ) -> Stage {
        let before = watch.resident();
        let mut stage = Stage::new(scenario, report.seed, finder, m, k);
        // Nobody comes to a network by the thousands a minute, all through one home line.
        stage.world.network.wide = true;
        stage.grow(scenario.tree.joins_per_s.0);
        watch.say(&format!(
            "{} nodes, m = {m}: all started after {} s, {} events",
            stage.world.nodes.len(),
            stage.world.now.0 / 1_000_000,
            stage.world.events
        ));
        let took = stage.settle(Duration::from_secs(600), &mut Idle);
        let bytes = watch.resident().saturating_sub(before) as f64 / stage.world.nodes.len() as f64;
        report.bytes_per_node = report.bytes_per_node.max(bytes);
        match took {
            Some(took) => {
                watch.say(&format!("the tree stands, {} s later; {bytes:.0} bytes a node", took.as_secs()))
            }
            None => stage.note_all(stage.check(true), "the tree does not come to rest"),
        }
        stage.world.network.wide = false;
        stage
    }

    /// Starts all nodes one after the other.
    pub fn grow(&mut self, joins_per_s: u64) {
        let nodes = self.world.nodes.len();
        let pause = Duration::from_micros(1_000_000 / joins_per_s.max(1));
        let mut at = self.world.now;
        self.world.call_at(at, TENDING);
        for node in 0..nodes {
            self.world.call_at(at, START | node as u32);
            // The first has to be somebody before others come to it.
            at = at + if node == 0 { Duration::from_secs(3) } else { pause };
        }
        self.run_to(at + pause, &mut Idle);
    }

    /// Asks for a call of [`Play::call`]; the token must be small.
    pub fn call_at(&mut self, at: Time, token: u32) {
        assert!(token < MINE, "a token of the experiment is below {MINE}");
        self.world.call_at(at, token);
    }

    pub(super) fn session_at(&mut self, at: Time, node: usize) {
        self.world.call_at(at, SESSION | node as u32);
    }

    pub(super) fn end_at(&mut self, at: Time, node: usize) {
        self.world.call_at(at, END | node as u32);
    }

    pub(super) fn trace_at(&mut self, at: Time, node: usize, what: What) {
        let what = WHATS.iter().position(|known| *known == what).unwrap_or(0);
        self.world.call_at(at, TRACE | (node * WHATS.len() + what) as u32);
    }

    /// Runs until then.
    pub fn run_to(&mut self, end: Time, play: &mut impl Play) {
        while self.world.next_at().is_some_and(|at| at <= end) {
            self.step(play);
        }
        self.world.now = self.world.now.max(end);
    }

    pub fn run_for(&mut self, time: Duration, play: &mut impl Play) {
        self.run_to(self.world.now + time, play);
    }

    fn step(&mut self, play: &mut impl Play) {
        if let Some(Step::Call(token)) = self.world.next() {
            let node = (token & !KIND) as usize;
            match token & KIND {
                START => self.start(node),
                RECONNECT => self.reconnect(node),
                TENDING => self.tend(),
                TRACE => super::churn::act(self, node / WHATS.len(), WHATS[node % WHATS.len()]),
                END => self.world.kill(node),
                SESSION => super::session::turn(self, node),
                _ => play.call(self, token),
            }
        }
        if !self.world.told.is_empty() {
            for (_, at, event) in std::mem::take(&mut self.world.told) {
                if let NodeEvent::PeerFault { peer, fault } = &event {
                    self.faults += 1;
                    let (now, peer) = (self.world.now.0 / 1_000_000, self.world.find(*peer));
                    if self.said.len() < KEPT {
                        self.said.push(format!("{now} s: node {at} blames node {peer:?}: it {fault}"));
                    }
                }
                play.told(self, at, event);
            }
        }
    }

    /// A node comes, and goes to a gateway first.
    pub fn start(&mut self, at: usize) {
        if !self.world.lives(at) {
            self.world.start(at);
        }
        self.reconnect(at);
    }

    /// Sees to it that a node has a connection to a gateway, as its driver does.
    fn reconnect(&mut self, at: usize) {
        if at == 0 || !self.world.lives(at) {
            return;
        }
        let to = match at < self.gateways {
            true => 0,
            false => self.rng.below(self.gateways.min(at) as u64) as usize,
        };
        if self.world.reaches(at, to) {
            self.world.connect(at, to);
        } else {
            let again = self.world.now + Duration::from_secs(5);
            self.world.call_at(again, RECONNECT | at as u32);
        }
    }

    fn tend(&mut self) {
        for at in self.gateways..self.world.nodes.len() {
            if self.world.lives(at) && !self.world.nodes[at].is_frozen() {
                self.come_back(at);
            }
        }
        self.world.call_at(self.world.now + TEND, TENDING);
    }

    /// A node whose gateway is out of reach goes to another, or to the same again.
    pub fn come_back(&mut self, at: usize) {
        let gateways = 0..self.gateways;
        if !gateways.into_iter().any(|gateway| gateway != at && self.world.connected(at, gateway)) {
            self.reconnect(at);
        }
    }

    pub fn note(&mut self, violation: String) {
        if self.violations.len() < KEPT {
            self.violations.push(violation);
        }
    }

    pub fn note_all(&mut self, wrong: Vec<String>, when: &str) {
        let at = self.world.now.0 / 1_000_000;
        wrong.into_iter().take(KEPT).for_each(|w| self.note(format!("{at} s, {when}: {w}")));
    }

    /// Views of the tree of all living dialable nodes.
    pub fn views(&self) -> Vec<TreeView<'_>> {
        let living = self.world.nodes.iter().filter(|place| place.is_dialable() && !place.is_frozen());
        living.filter_map(|place| place.node.as_ref()?.tree()).collect()
    }

    /// Errors of the tree, in words.
    pub fn check(&self, strict: bool) -> Vec<String> {
        check::check(&self.views(), self.m, self.k, strict)
    }

    /// Living nodes that should be in the tree and are not.
    pub fn outside(&self) -> usize {
        self.views().iter().filter(|view| !view.joined()).count()
    }

    /// Runs until nothing is wrong any more: how long that took. The loose checks hold all along.
    pub fn settle(&mut self, within: Duration, play: &mut impl Play) -> Option<Duration> {
        let start = self.world.now;
        // Looking at a large network takes as long as some seconds of its life.
        let pause = Duration::from_secs(match self.world.nodes.len() {
            0..=20_000 => 1,
            20_001..=200_000 => 5,
            _ => 10,
        });
        while self.world.now.since(start) <= within {
            // One look at each is enough as long as somebody is still on the way.
            let rests = |view: &TreeView<'_>| view.joined() && view.settled();
            if self.views().iter().all(rests) && self.check(true).is_empty() {
                return Some(self.world.now.since(start));
            }
            self.note_all(self.check(false), "on the way");
            self.run_for(pause, play);
        }
        None
    }

    /// Moves what was seen into the report.
    pub fn close(self, report: &mut Report) {
        report.events += self.world.events;
        // One number for all networks of the run.
        report.trace_hash = report.trace_hash.rotate_left(1) ^ self.world.trace_hash();
        report.violations.extend(self.violations);
    }

    /// A living node that is a leaf of the tree.
    pub fn some_leaf(&mut self) -> usize {
        let nodes = self.world.nodes.len() as u64;
        for _ in 0..1000 {
            let at = self.rng.below(nodes) as usize;
            let place = &self.world.nodes[at];
            let leaf = |node: &node_core::Node| node.tree().is_some_and(|it| it.joined() && it.level() == 0);
            if place.is_dialable() && !place.is_frozen() && place.node.as_ref().is_some_and(leaf) {
                return at;
            }
        }
        0
    }
}

/// Where the nodes are: one in eight has an IPv6 address, and nobody's is private, since everybody
/// dials everybody.
fn addresses(nodes: usize, order: Order, rng: &mut Rng) -> Vec<Ip> {
    let mut all: Vec<Ip> = (0..nodes)
        .map(|_| {
            let n = rng.u64();
            let v4 = |n: u32| Ip::from(IpAddr::V4(Ipv4Addr::from(n)));
            let some = 0x0100_0000 + ((n >> 16) as u32) % 0xde00_0000;
            match n % 8 {
                0 => Ip::from(IpAddr::V6(Ipv6Addr::from(u128::from(0x2001_u16) << 112 | u128::from(n)))),
                _ if v4(some).scope() == Scope::World => v4(some),
                _ => v4(20 << 24 | some & 0xff_ffff),
            }
        })
        .collect();
    match order {
        Order::Random => {}
        Order::Ascending => all.sort(),
        Order::Descending => all.sort_by(|a, b| b.cmp(a)),
    }
    all
}
