//! Load of nodes while the network is busy (paper `tree`, tables 1 and 2).

use super::Watch;
use super::stage::{Play, Stage};
use crate::meter::Meter;
use crate::report::{Report, Row};
use crate::scenario::{Activity, Range, Scenario, Traffic, WayName};
use node_core::finding::Needs;
use node_core::{Command, NodeEvent, NodeId, NodeInput, Time};
use std::collections::BTreeMap;
use std::time::Duration;

const A_SECOND: Duration = Duration::from_secs(1);

pub(super) fn run(scenario: &Scenario, part: &Traffic, report: &mut Report, watch: &mut dyn Watch) {
    for m in &part.m {
        for way in &part.ways {
            let mut stage = grown(scenario, *way, m.0 as u8, report, watch);
            let mut work = Work::default();
            for activity in &part.activity {
                let loads = measure(&mut stage, &mut work, part, activity, *activity.requests.get_ref());
                watch.say(&format!("{} {} m = {}: {loads:?}", way.name(), activity.name, m.0));
                for (place, load) in [("root", &loads.root), ("leaf", &loads.leaf)] {
                    report.rows.push(load.row(way.name(), &activity.name, m.0, loads.height, place));
                }
            }
            stage.close(report);
        }
    }
}

fn grown(scenario: &Scenario, way: WayName, m: u8, report: &mut Report, watch: &mut dyn Watch) -> Stage {
    // k stands beside m in the same proportion.
    let k = (u64::from(scenario.k()) * u64::from(m) / scenario.tree.m.0).clamp(1, 64) as u8;
    Stage::grown(scenario, way, m, k, report, watch)
}

/// By bisection on the logarithm: the load grows with the rate.
pub(super) fn calibrate(scenario: &Scenario, seed: u64, watch: &mut dyn Watch) -> Vec<(String, f64)> {
    let Some(part) = &scenario.traffic else { return Vec::new() };
    let mut rates = Vec::new();
    for activity in &part.activity {
        let Some(wanted) = activity.leaf_mean else { continue };
        let mut report = Report { seed, ..Report::default() };
        let mut stage = grown(scenario, WayName::Paper, scenario.tree.m.0 as u8, &mut report, watch);
        // Around the rate that stands there; ten halvings leave a two hundredth of its logarithm.
        let rate = *activity.requests.get_ref();
        let mut work = Work::default();
        let (mut low, mut high) = (rate / 8.0, rate * 8.0);
        for _ in 0..10 {
            let rate = (low * high).sqrt();
            let load = measure(&mut stage, &mut work, part, activity, rate);
            watch.say(&format!("{}: {rate:.4} requests: {load:?}", activity.name));
            if load.leaf.mean < wanted {
                low = rate;
            } else {
                high = rate;
            }
        }
        rates.push((activity.name.clone(), (low * high).sqrt()));
    }
    rates
}

/// Load of nodes of one sort: messages and bytes a second.
#[derive(Clone, Debug, Default)]
pub(super) struct Load {
    pub(super) mean: f64,
    /// In the second in which they had most, on the average of all of them.
    max: f64,
    /// Most messages of one node in a second.
    peak: f64,
    bytes_mean: f64,
    bytes_max: f64,
    upkeep_mean: f64,
    upkeep_bytes: f64,
    seconds: u64,
}

impl Load {
    fn row(&self, way: &str, activity: &str, m: u64, height: u64, place: &str) -> Row {
        Row::default()
            .with("way", way)
            .with("activity", activity)
            .with("m", m)
            .with("height", height)
            .with("where", place)
            .with("load_mean", self.mean)
            .with("load_max", self.max)
            .with("bytes_mean", self.bytes_mean)
            .with("bytes_max", self.bytes_max)
            .with("load_peak", self.peak)
            .with("upkeep_mean", self.upkeep_mean)
            .with("upkeep_bytes_mean", self.upkeep_bytes)
    }

    /// Adds a second.
    fn add(&mut self, meter: &Meter, nodes: &[u32]) {
        let share = 1.0 / nodes.len().max(1) as f64;
        let (mut sum, mut bytes) = (0.0, 0.0);
        for at in nodes {
            let tally = meter.nodes[*at as usize];
            sum += f64::from(tally.messages);
            bytes += f64::from(tally.bytes);
            self.peak = self.peak.max(f64::from(tally.messages));
            self.upkeep_mean += f64::from(tally.upkeep_messages) * share;
            self.upkeep_bytes += f64::from(tally.upkeep_bytes) * share;
        }
        self.mean += sum * share;
        self.bytes_mean += bytes * share;
        self.max = self.max.max(sum * share);
        self.bytes_max = self.bytes_max.max(bytes * share);
        self.seconds += 1;
    }

    fn end(&mut self) {
        let seconds = self.seconds.max(1) as f64;
        for sum in [&mut self.mean, &mut self.bytes_mean, &mut self.upkeep_mean, &mut self.upkeep_bytes] {
            *sum /= seconds;
        }
    }
}

#[derive(Debug)]
pub(super) struct Loads {
    height: u64,
    root: Load,
    pub(super) leaf: Load,
    /// Slots at work a node, on the average.
    #[allow(dead_code)] // read through Debug, by people
    busy: f64,
    #[allow(dead_code)]
    asked: u64,
    #[allow(dead_code)]
    found: u64,
}

/// Lets the network work for a while, and counts.
fn measure(stage: &mut Stage, work: &mut Work, part: &Traffic, activity: &Activity, requests: f64) -> Loads {
    work.begin(stage, activity, requests);
    let warm = Duration::from_micros(part.warm_s.seconds_as_micros());
    stage.run_for(warm, work);
    let (mut root, mut leaf) = (Load::default(), Load::default());
    let (roots, leaves, height) = sorts(stage);
    (work.asked, work.found) = (0, 0);
    let mut busy = 0.0;
    for _ in 0..part.count_s.0 {
        stage.world.meter = Some(Meter::new(stage.world.nodes.len()));
        stage.run_for(A_SECOND, work);
        let meter = stage.world.meter.take().unwrap_or_default();
        root.add(&meter, &roots);
        leaf.add(&meter, &leaves);
        busy += work.busy as f64;
    }
    root.end();
    leaf.end();
    let busy = busy / part.count_s.0 as f64 / stage.world.nodes.len() as f64;
    let (asked, found) = (work.asked, work.found);
    // All slots come free again before the next activity.
    work.rate = 0.0;
    stage.run_for(Duration::from_secs(180), work);
    Loads { height, root, leaf, busy, asked, found }
}

/// Members of the root group, leaves, and how many levels there are.
fn sorts(stage: &Stage) -> (Vec<u32>, Vec<u32>, u64) {
    let (mut roots, mut leaves, mut height) = (Vec::new(), Vec::new(), 0);
    for (at, place) in stage.world.nodes.iter().enumerate() {
        let Some(view) = place.node.as_ref().and_then(|node| node.tree()).filter(|view| view.joined()) else {
            continue;
        };
        height = height.max(u64::from(view.level()) + 1);
        if view.root().is_some() {
            roots.push(at as u32);
        } else if view.level() == 0 {
            leaves.push(at as u32);
        }
    }
    (roots, leaves, height)
}

/// Requests from random nodes; as soon as slots are found they are at work (paper `tree`,
/// section 6). One of these lasts as long as its network: what it began, it ends.
#[derive(Default)]
struct Work {
    /// Requests a second in the whole network.
    rate: f64,
    /// Tasks of a request, and how long each takes.
    of: Option<(Range, Range)>,
    query: u64,
    busy: u64,
    asked: u64,
    found: u64,
    /// Tasks at work, in rooms that are used again: where, whose, how many.
    at_work: Vec<(u32, NodeId, u32)>,
    free: Vec<u32>,
    /// Slots at work, by node and owner.
    held: BTreeMap<(u32, NodeId), u32>,
}

/// The next request is due.
const REQUEST: u32 = 0;
/// The tasks in a room end: the token is this plus the room's number.
const END: u32 = 1;

impl Work {
    fn begin(&mut self, stage: &mut Stage, activity: &Activity, requests: f64) {
        self.rate = requests * stage.world.nodes.len() as f64;
        self.of = Some((activity.tasks, activity.task_s));
        self.next(stage);
    }

    /// Requests come as independent people's do.
    fn next(&mut self, stage: &mut Stage) {
        if self.rate > 0.0 {
            let pause = -stage.rng.unit().ln() / self.rate;
            let at = stage.world.now + Duration::from_secs_f64(pause);
            stage.call_at(at, REQUEST);
        }
    }

    /// Tells a node that it has so many slots more at work for this owner, or less.
    fn occupy(&mut self, stage: &mut Stage, at: u32, owner: NodeId, change: i64) {
        let held = self.held.entry((at, owner)).or_default();
        *held = held.saturating_add_signed(change as i32);
        let slots = *held;
        if slots == 0 {
            self.held.remove(&(at, owner));
        }
        self.busy = self.busy.saturating_add_signed(change);
        stage.world.drive(at as usize, NodeInput::Command(Command::Occupy { owner, slots }));
    }
}

impl Play for Work {
    fn told(&mut self, stage: &mut Stage, at: usize, event: NodeEvent) {
        match event {
            NodeEvent::Reserved { owner, slots, .. } => {
                let entry = (at as u32, owner, slots);
                let room = match self.free.pop() {
                    Some(room) => {
                        self.at_work[room as usize] = entry;
                        room
                    }
                    None => {
                        self.at_work.push(entry);
                        self.at_work.len() as u32 - 1
                    }
                };
                self.occupy(stage, at as u32, owner, i64::from(slots));
                let time = self.of.map_or(0, |(_, task)| task.draw_seconds(&mut stage.rng));
                let time = Duration::from_micros(time);
                let end: Time = stage.world.now + time;
                stage.call_at(end, END + room);
            }
            NodeEvent::Found { places, .. } => self.found += u64::from(super::ask::sum(&places)),
            _ => {}
        }
    }

    fn call(&mut self, stage: &mut Stage, token: u32) {
        if token == REQUEST {
            self.query += 1;
            if self.rate <= 0.0 {
                return;
            }
            let units = self.of.map_or(0, |(tasks, _)| tasks.draw(&mut stage.rng)) as u32;
            let at = stage.rng.below(stage.world.nodes.len() as u64) as usize;
            self.asked += u64::from(units);
            stage.world.drive(
                at,
                NodeInput::Command(Command::Find { number: self.query, units, needs: Needs::default() }),
            );
            return self.next(stage);
        }
        let room = token - END;
        let (at, owner, slots) = self.at_work[room as usize];
        self.free.push(room);
        self.occupy(stage, at, owner, -i64::from(slots));
    }
}
