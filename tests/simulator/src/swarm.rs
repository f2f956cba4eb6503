//! Many seeds: a small network whose size, lines, sorts of nodes and faults are all drawn from
//! the seed. First safety under faults, then the faults stop and all must be well again.

use crate::experiment::{Play, Stage};
use crate::network::{Latency, Mischief};
use crate::rng::Rng;
use crate::scenario::Scenario;
use crate::{market, ring};
use node_core::discovery::nearest::{NearestConfig, Policy, Way};
use node_core::finding::Needs;
use node_core::{Command, NodeEvent, NodeInput};
use std::time::Duration;

/// Kinds of faults. A seed leaves some of them out altogether, so that others are seen alone.
const KINDS: u64 = 9;

/// Kind of network whose lives a seed tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum Of {
    /// Whole nodes, their tree and what is found in it.
    Tree,
    /// Rings of machines without the node around them.
    Ring,
    /// Markets on such rings.
    Market,
}

impl Of {
    pub const ALL: [Of; 3] = [Of::Tree, Of::Ring, Of::Market];

    /// One life; an error in words, or a panic, if anything was not as it must be.
    pub fn live(self, seed: u64) -> Result<(), String> {
        match self {
            Of::Tree => live(seed),
            Of::Ring => {
                ring::life::live(seed);
                Ok(())
            }
            Of::Market => {
                market::life::live(seed);
                Ok(())
            }
        }
    }
}

/// One life of a network; an error in words if anything was not as it must be.
pub fn live(seed: u64) -> Result<(), String> {
    let mut life = Life::new(seed);
    life.stage.grow(life.joins_per_s);
    life.safety();
    life.liveness()
}

struct Life {
    rng: Rng,
    stage: Stage,
    joins_per_s: u64,
    kinds: Vec<u64>,
    asked: Asked,
}

/// Requests under way, and answers that no correct network gives.
#[derive(Default)]
struct Asked {
    units: Vec<u32>,
    answered: usize,
    found: Vec<u32>,
    wrong: Vec<String>,
}

impl Play for Asked {
    fn told(&mut self, stage: &mut Stage, at: usize, event: NodeEvent) {
        if let NodeEvent::Reserved { .. } = event
            && let Some(view) = stage.world.nodes[at].node.as_ref().and_then(|node| node.branch())
            && view.reserved > view.slots
        {
            self.wrong.push(format!("node {at} keeps {} slots of {}", view.reserved, view.slots));
        }
        let NodeEvent::Found { number, places, .. } = event else { return };
        let Some(asked) = self.units.get(number as usize).copied() else {
            return self.wrong.push(format!("node {at} has the answer to a question of nobody"));
        };
        let units: u64 = places.iter().map(|place| u64::from(place.units)).sum();
        if units > u64::from(asked) {
            self.wrong.push(format!("node {at} asked for {asked} and found {units}"));
        }
        for place in &places {
            let slots = stage.world.find(place.node.id).map_or(0, |at| stage.world.nodes[at].config.slots);
            if place.units > slots {
                self.wrong.push(format!("{} places on a node of {slots} slots", place.units));
            }
        }
        self.answered += 1;
        self.found.push(units as u32);
    }
}

impl Life {
    fn new(seed: u64) -> Life {
        let mut rng = Rng::fork(seed, 200);
        let m = rng.between(2, 8);
        let k = rng.between(m.div_ceil(2), m);
        let nodes = match rng.below(4) {
            0 => rng.between(2, 12),
            1 | 2 => rng.between(10, 80),
            _ => rng.between(60, 250),
        };
        let text = format!(
            "about = ''\nnodes = {nodes}\n[tree]\nm = {m}\nk = {k}\n[discovery]\nways = []\nasked = []"
        );
        let scenario = Scenario::read(&text).expect("a scenario of one's own making is in order");
        let way = if rng.below(3) == 0 { Way::Paper } else { Way::Ours };
        let mut nearest = NearestConfig::new(way);
        if rng.below(4) == 0 {
            nearest.policy = Policy::Optimistic;
        }
        if way == Way::Ours && rng.below(3) == 0 {
            // Each modification has to work without the others.
            nearest.changes.straight = rng.below(2) == 0;
            nearest.changes.quiet = rng.below(2) == 0;
        }
        let mut stage = Stage::new(&scenario, seed, nearest, m as u8, k as u8);
        // Races look like lies when nodes come and go; what may be lied about is tested elsewhere.
        stage.faults_are_violations = false;
        let network = &mut stage.world.network;
        network.latency = match rng.below(3) {
            0 => Latency::Constant(rng.between(1_000, 300_000)),
            1 => Latency::Uniform(1_000, rng.between(2_000, 400_000)),
            _ => {
                let near = rng.between(1_000, 20_000);
                let far = rng.between(30_000, 250_000);
                Latency::Regions { between: vec![vec![near, far], vec![far, near]], jitter: near }
            }
        };
        network.bandwidth = if rng.below(2) == 0 { 0 } else { rng.between(200_000, 20_000_000) };
        network.dial_hops = rng.below(3) as f64;
        network.notice = (1_000, rng.between(10_000, 9_000_000));
        network.keepalive = Some((5_000_000, 10_000_000));
        network.dial_timeout = (1_000_000, rng.between(1_000_000, 6_000_000));
        network.mischief_of = vec!["Tree".into(), "Nearest".into()];
        for place in &mut stage.world.nodes {
            place.region = rng.below(2) as u8;
            let mut config = node_core::Config::clone(&place.config);
            config.slots = rng.below(4) as u32;
            place.config = config.into();
        }
        let kinds = (0..KINDS).filter(|_| rng.below(2) == 0).collect();
        let joins_per_s = rng.between(2, 200);
        Life { rng, stage, joins_per_s, kinds, asked: Asked::default() }
    }

    fn nodes(&self) -> u64 {
        self.stage.world.nodes.len() as u64
    }

    fn somebody(&mut self) -> usize {
        self.rng.below(self.nodes()) as usize
    }

    /// Faults, one after the other; what must hold at any time is looked at after each.
    fn safety(&mut self) {
        for _ in 0..self.rng.below(20) {
            let Some(kind) = self.rng.one_of(&self.kinds).copied() else { break };
            self.fault(kind);
            if self.rng.below(2) == 0 {
                self.ask();
            }
            let pause = match self.rng.below(4) {
                0 => 0,
                1 => self.rng.below(500),
                2 => self.rng.below(5_000),
                _ => self.rng.below(40_000),
            };
            self.stage.run_for(Duration::from_millis(pause), &mut self.asked);
            let wrong = self.stage.check(false);
            self.stage.note_all(wrong, &format!("after a fault of kind {kind}"));
        }
    }

    fn fault(&mut self, kind: u64) {
        let at = self.somebody();
        match kind {
            0 => self.stage.world.crash(at),
            1 => {
                // Many at once.
                for _ in 0..self.rng.below(self.nodes() / 2 + 1) {
                    let at = self.somebody();
                    self.stage.world.crash(at);
                }
            }
            2 => {
                if self.stage.world.lives(at) && !self.stage.world.nodes[at].is_frozen() {
                    self.stage.world.freeze(at);
                }
            }
            3 => {
                let mut part: Vec<usize> = (0..self.nodes() as usize).collect();
                self.rng.shuffle(&mut part);
                part.truncate(part.len() / 2);
                self.stage.world.part(&part);
            }
            4 => {
                let to = self.somebody();
                self.stage.world.cut_one_way(at, to);
            }
            5 => {
                self.stage.world.network.mischief = Mischief {
                    loss: self.rng.unit() * 0.1,
                    duplication: self.rng.unit() * 0.1,
                    reordering: self.rng.unit() * 0.2,
                    late: 3_000_000,
                };
            }
            6 => {
                // A connection breaks, and both live on.
                let peers = self.stage.world.peers(at);
                if let Some(peer) = self.rng.one_of(&peers) {
                    self.stage.world.cut(at, *peer);
                }
            }
            7 => {
                // Nodes that died come again, in the middle of it all.
                for at in 0..self.nodes() as usize {
                    if !self.stage.world.lives(at) && self.rng.below(2) == 0 {
                        self.stage.start(at);
                    }
                }
            }
            _ => {
                if self.stage.world.lives(at) {
                    self.stage.world.drive(at, NodeInput::Command(Command::Drain));
                    self.stage.run_for(Duration::from_millis(300), &mut self.asked);
                    self.stage.world.kill(at);
                }
            }
        }
    }

    fn ask(&mut self) {
        let at = self.somebody();
        if !self.stage.world.lives(at) || self.stage.world.nodes[at].is_frozen() {
            return;
        }
        let units = match self.rng.below(6) {
            0 => 0,
            1 => u32::MAX,
            _ => self.rng.below(2 * self.nodes() + 2) as u32,
        };
        let id = self.asked.units.len() as u64;
        self.asked.units.push(units);
        let find = Command::Find { number: id, units, needs: Needs::default() };
        self.stage.world.drive(at, NodeInput::Command(find));
    }

    /// The faults stop: everybody is in the tree again, and what is free is found.
    fn liveness(mut self) -> Result<(), String> {
        let stage = &mut self.stage;
        stage.world.heal();
        stage.world.network.mischief = Mischief::default();
        for at in 0..stage.world.nodes.len() {
            if stage.world.nodes[at].is_frozen() {
                stage.world.thaw(at);
            }
            if !stage.world.lives(at) {
                stage.start(at);
            }
            stage.come_back(at);
        }
        let settled = stage.settle(Duration::from_secs(400), &mut self.asked);
        if settled.is_none() {
            let wrong = stage.check(true);
            stage.note_all(wrong, "400 s after the last fault");
        }
        // Leases end, and what is free is told. In the paper's way, which does not know how large
        // the network is, a request for everything is repeated three times before it is given up.
        stage.run_for(Duration::from_secs(600), &mut self.asked);
        let free: u32 =
            stage.world.nodes.iter().filter_map(|p| p.node.as_ref()?.branch()).map(|it| it.free).sum();
        let all: u32 = stage.world.nodes.iter().map(|place| place.config.slots).sum();
        if free != all {
            let held = |at: usize| stage.world.nodes[at].node.as_ref().and_then(|node| node.branch());
            let held = (0..stage.world.nodes.len()).filter_map(|at| Some((at, held(at)?)));
            let held = held.filter(|(_, view)| view.free != view.slots || view.reserved > 0);
            let held: Vec<String> = held.map(|(at, v)| format!("{at}: {} of {}", v.free, v.slots)).collect();
            stage.note(format!("{free} slots are free of {all} when nobody works: {}", held.join(", ")));
        }
        let ours = stage.nearest.changes.ranges;
        let at = stage.some_leaf();
        let id = self.asked.units.len() as u64;
        self.asked.units.push(all);
        let find = Command::Find { number: id, units: all, needs: Needs::default() };
        let before = self.asked.found.len();
        stage.world.drive(at, NodeInput::Command(find));
        stage.run_for(Duration::from_secs(90), &mut self.asked);
        match self.asked.found.get(before) {
            None => stage.note("a request in a quiet network was never answered".into()),
            // The paper's own way hides free slots by rounding down.
            Some(found) if ours && *found < all => {
                stage.note(format!("{found} of {all} free slots were found in a quiet network"));
            }
            Some(_) => {}
        }
        let mut wrong = std::mem::take(&mut self.stage.violations);
        wrong.append(&mut self.asked.wrong);
        match wrong.is_empty() {
            true => Ok(()),
            false => Err(wrong.into_iter().take(5).collect::<Vec<_>>().join("; ")),
        }
    }
}
