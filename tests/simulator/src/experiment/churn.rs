//! Effects of faults: how much is found meanwhile, and how long until all is well again.

use super::Watch;
use super::ask::Ask;
use super::session;
use super::stage::{Idle, Stage};
use crate::report::{Report, Row};
use crate::scenario::{Churn, Fault, Scenario, Share, What};
use node_core::Time;
use node_core::discovery::nearest::{NearestConfig, Way};
use std::time::Duration;

/// How long a request may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Slots found are kept for their lease, and known to be free again a little later.
const LEASE: Duration = Duration::from_secs(20);

pub(super) fn run(scenario: &Scenario, part: &Churn, report: &mut Report, watch: &mut dyn Watch) {
    let (m, k) = (scenario.tree.m.0 as u8, scenario.k());
    for fault in &part.fault {
        let mut stage = Stage::grown(scenario, NearestConfig::new(Way::Ours), m, k, report, watch);
        // A node that hears late that another is gone may take it for a liar; that must not go on.
        stage.faults_are_violations = false;
        let mut tried = Tried::default();
        let tasks = ((stage.world.nodes.len() as f64 * part.asked.0) as u32).max(1);
        let hit = strike(&mut stage, fault);
        let every = Duration::from_micros(part.ask_every_s.seconds_as_micros().max(1_000_000));
        let start = stage.world.now;
        while stage.world.now < hit {
            let next = stage.world.now + every;
            tried.ask(&mut stage, tasks);
            watch.say(&format!("{}: {} s, {tried:?}", fault.name, stage.world.now.since(start).as_secs()));
            stage.run_to(next, &mut Idle);
            stage.note_all(stage.check(false), &fault.name);
        }
        mend(&mut stage, fault);
        let within = Duration::from_micros(fault.within_s.seconds_as_micros());
        let settled = stage.settle(within, &mut Idle);
        if settled.is_none() {
            stage.note_all(stage.check(true), &format!("{}: not settled", fault.name));
        }
        stage.run_for(LEASE, &mut Idle);
        tried.ask(&mut stage, tasks);
        let outside = stage.outside() as u64;
        watch.say(&format!("{}: settled {settled:?}, {} blamed", fault.name, stage.faults));
        report.rows.push(
            Row::default()
                .with("fault", fault.name.as_str())
                .with("asked", tried.asked)
                .with("found_fraction", tried.fraction())
                .with("settled_s", settled.map(|time| time.as_secs_f64()))
                .with("outside", outside),
        );
        stage.close(report);
    }
}

/// Requests so far, against what was there to be found.
#[derive(Debug, Default)]
struct Tried {
    asked: u64,
    there: u64,
    found: u64,
    queries: u64,
}

impl Tried {
    fn ask(&mut self, stage: &mut Stage, tasks: u32) {
        // Slots of nodes that live all the while: who dies meanwhile need not be found.
        let before = free(stage);
        let origin = stage.some_leaf();
        self.queries += 1;
        let mut ask = Ask::new(stage, origin, self.queries, tasks);
        ask.finish(stage, PATIENCE);
        if !stage.world.lives(origin) {
            // Nobody wants to know any more.
            return;
        }
        let found = ask.found.unwrap_or(0);
        let still = before.iter().filter(|(at, _)| stage.world.lives(*at)).map(|(_, n)| u64::from(*n)).sum();
        self.asked += u64::from(tasks);
        self.there += u64::from(tasks).min(still);
        self.found += u64::from(found).min(u64::from(tasks).min(still));
    }

    fn fraction(&self) -> f64 {
        if self.there == 0 { 1.0 } else { self.found as f64 / self.there as f64 }
    }
}

/// Free slots of living nodes that are in the tree.
fn free(stage: &Stage) -> Vec<(usize, u32)> {
    let places = stage.world.nodes.iter().enumerate();
    let living = places.filter(|(_, place)| !place.is_frozen() && place.is_dialable());
    living.filter_map(|(at, place)| Some((at, place.node.as_ref()?.branch()?.free))).collect()
}

/// Lets the fault begin; says when it is over.
fn strike(stage: &mut Stage, fault: &Fault) -> Time {
    let mut over = stage.world.now + Duration::from_micros(fault.for_s.seconds_as_micros());
    for at in some(stage, fault.die) {
        stage.world.crash(at);
    }
    for at in some(stage, fault.freeze) {
        stage.world.freeze(at);
    }
    let apart = some(stage, fault.part);
    if !apart.is_empty() {
        stage.world.part(&apart);
    }
    if let Some(time) = fault.sessions_min {
        let time = Duration::from_micros(time.minutes_as_micros());
        session::begin(stage, time);
        over = over.max(stage.world.now + time);
    }
    let start = stage.world.now;
    for event in &fault.trace {
        let at = start + Duration::from_micros(event.at_s.seconds_as_micros());
        over = over.max(at);
        if (event.node.0 as usize) < stage.world.nodes.len() {
            stage.trace_at(at, event.node.0 as usize, event.what);
        }
    }
    over
}

/// The fault ends: frozen nodes go on, parts find each other.
fn mend(stage: &mut Stage, fault: &Fault) {
    stage.sessions = None;
    if fault.part.0 > 0.0 {
        stage.world.heal();
        // Their drivers come to a gateway again.
        for at in 0..stage.world.nodes.len() {
            stage.come_back(at);
        }
    }
    let frozen: Vec<usize> =
        (0..stage.world.nodes.len()).filter(|at| stage.world.nodes[*at].is_frozen()).collect();
    for at in frozen {
        stage.world.thaw(at);
        stage.come_back(at);
    }
}

/// So many nodes, none of them a gateway.
fn some(stage: &mut Stage, share: Share) -> Vec<usize> {
    let mut all: Vec<usize> = (stage.gateways..stage.world.nodes.len()).collect();
    let count = (all.len() as f64 * share.0).round() as usize;
    stage.rng.shuffle(&mut all);
    all.truncate(count);
    all
}

/// Does to a node what an event of a trace says.
pub(super) fn act(stage: &mut Stage, at: usize, what: What) {
    match what {
        What::Join => stage.start(at),
        What::Leave => session::leave(stage, at),
        What::Crash => stage.world.crash(at),
        What::Freeze => stage.world.freeze(at),
        What::Thaw => stage.world.thaw(at),
    }
}
