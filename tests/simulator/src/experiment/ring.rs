//! How many hops a lookup on the ring takes, and how many are right while members come and go.
//!
//! A hop is a message that carries a question toward the owner, from the asker on, the one to the
//! owner included; its answer is none. Questions in vain count as well. A lookup is right if the
//! owner that it names owned the key at some moment between question and answer; one without an
//! answer is not.

use super::Watch;
use super::session::{draw, draw_rest, shape};
use crate::network::Latency;
use crate::report::{Report, Row};
use crate::ring::{Conditions, Rings};
use crate::scenario::{RingPart, RingSessions, Scenario};
use node_core::circle::{Point, RingId};
use node_core::overlay::ring::{Command, Mode, RingConfig};
use std::collections::BTreeMap;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Lookups that are under way at once, of different askers. Our choice: they do not disturb each
/// other, and rings at rest would otherwise be asked for hours.
const AT_ONCE: u64 = 1000;

/// Until all fingers of a grown ring have been looked at.
const REST: Duration = Duration::from_secs(240);

/// Time over which upkeep is counted: each finger once, each stabilize message dozens of times.
const UPKEEP: Duration = Duration::from_secs(150);

const MODES: [(Mode, &str); 2] = [(Mode::Iterative, "iterative"), (Mode::Recursive, "recursive")];

pub(super) fn run(scenario: &Scenario, part: &RingPart, report: &mut Report, watch: &mut dyn Watch) {
    let most = scenario.nodes.0 as usize;
    let mut sizes: Vec<usize> =
        part.sizes.iter().map(|size| size.0 as usize).filter(|n| *n <= most).collect();
    if sizes.is_empty() {
        sizes.push(most);
    }
    for nodes in sizes {
        at_peace(scenario, part, nodes, report, watch);
    }
    if let Some(sessions) = &part.sessions {
        with_sessions(scenario, sessions, report, watch);
    }
}

pub(super) fn conditions(scenario: &Scenario) -> Conditions {
    let (network, defaults) = (scenario.network(), Conditions::default());
    let millis = |(low, high): (u64, u64)| (low / 1000, high / 1000);
    let latency = match network.latency {
        Latency::Constant(micros) => millis((micros, micros)),
        Latency::Uniform(low, high) => millis((low, high)),
        Latency::Regions { .. } => defaults.latency,
    };
    Conditions {
        latency,
        dial_hops: network.dial_hops.round() as u64,
        dial_timeout: millis(network.dial_timeout),
        notice: millis(network.notice),
        keepalive: network.keepalive.map_or(defaults.keepalive, millis),
        ..defaults
    }
}

/// Totals of some lookups.
#[derive(Default)]
struct Tally {
    hops: Vec<u8>,
    took: Vec<Duration>,
    asked: u64,
    right: u64,
}

impl Tally {
    fn add(&mut self, asked: &crate::ring::Asked) {
        self.asked += 1;
        self.right += u64::from(asked.is_right());
        if let (Some(hops), Some((end, _))) = (asked.hops(), &asked.end) {
            self.hops.push(hops);
            self.took.push(end.since(asked.at));
        }
    }

    fn row(mut self, way: &str, keys: &str, nodes: usize, sessions: &str) -> Row {
        self.hops.sort_unstable();
        self.took.sort_unstable();
        let count = self.hops.len().max(1);
        let mean = self.hops.iter().map(|hops| f64::from(*hops)).sum::<f64>() / count as f64;
        let took = self.took.iter().map(Duration::as_secs_f64).sum::<f64>() / count as f64;
        let p99 = count * 99 / 100;
        let allowed = if keys == "used" { 1.5 } else { (nodes as f64).log2() / 2.0 };
        Row::default()
            .with("nodes", nodes as u64)
            .with("way", way)
            .with("keys", keys)
            .with("sessions", sessions)
            .with("lookups", self.asked)
            .with("hops_mean", mean)
            .with("hops_p99", u64::from(self.hops.get(p99).copied().unwrap_or(0)))
            .with("hops_target", allowed)
            .with("correct_fraction", self.right as f64 / self.asked.max(1) as f64)
            .with("took_s_mean", took)
            .with("took_s_p99", self.took.get(p99).map(Duration::as_secs_f64))
    }
}

/// A ring in which nobody comes or goes.
fn at_peace(scenario: &Scenario, part: &RingPart, nodes: usize, report: &mut Report, watch: &mut dyn Watch) {
    let config = RingConfig::default();
    let grows = nodes <= part.grown_to.0 as usize;
    let mut rings = match grows {
        true => Rings::new(report.seed, config),
        false => Rings::at_rest(report.seed, config, nodes),
    };
    rings.conditions = conditions(scenario);
    let mut upkeep = None;
    if grows {
        rings.grow(nodes, scenario.tree.joins_per_s.0.min(100));
        rings.run(REST);
        let wrong = rings.check(RingId::NODES, true);
        report.violations.extend(wrong.into_iter().take(100));
        let before = rings.bytes;
        rings.weigh = true;
        rings.run(UPKEEP);
        upkeep = Some((rings.bytes - before) as f64 / nodes as f64 / UPKEEP.as_secs_f64());
        rings.weigh = false;
    }
    let state = rings.memory().0 as u64;
    watch.say(&format!("{nodes} nodes are a ring, {state} bytes each, {} events", rings.happened));
    for (mode, way) in MODES {
        let mut asked: Vec<(usize, Point)> = Vec::new();
        for keys in ["fresh", "used"] {
            let (mut tally, bytes) = (Tally::default(), rings.bytes);
            rings.weigh = true;
            let mut done = 0;
            while done < part.lookups.0 {
                let some = AT_ONCE.min(part.lookups.0 - done).min(nodes as u64);
                let numbers: Vec<u64> = (0..some)
                    .map(|i| {
                        let (by, key) = match keys {
                            "used" => asked[(done + i) as usize],
                            _ => (rings.rng.below(nodes as u64) as usize, some_key(&mut rings)),
                        };
                        if keys == "fresh" {
                            asked.push((by, key));
                        }
                        rings.ask(by, RingId::NODES, key, mode)
                    })
                    .collect();
                rings.finish();
                for number in numbers {
                    if let Some(asked) = rings.lookups.remove(&number) {
                        tally.add(&asked);
                    }
                }
                done += some;
            }
            rings.weigh = false;
            // In a grown ring beats go on meanwhile; what is counted there is no lookup's.
            let each = (rings.bytes - bytes) as f64 / part.lookups.0 as f64;
            watch.say(&format!("{nodes} nodes, {way}, {keys}: {} of {} right", tally.right, tally.asked));
            let row = tally
                .row(way, keys, nodes, if grows { "none" } else { "none, begun at rest" })
                .with("lookup_bytes", (!grows).then_some(each))
                .with("upkeep_bytes_s", upkeep)
                .with("state_bytes", state);
            report.rows.push(row);
        }
    }
    close(&rings, report);
}

fn some_key(rings: &mut Rings) -> Point {
    Point(u128::from(rings.rng.u64()) << 64 | u128::from(rings.rng.u64()))
}

fn close(rings: &Rings, report: &mut Report) {
    report.events += rings.happened;
    report.trace_hash = report.trace_hash.rotate_left(1) ^ rings.trace.hash();
    let faults = rings.faults.iter().map(|(who, fault)| format!("{who:?} is blamed: {fault}"));
    report.violations.extend(faults.take(100));
}

/// A member's session begins or ends; its process ends; somebody asks.
const TURN: u32 = 0x1000_0000;
const END: u32 = 0x2000_0000;
const ASK: u32 = 0x3000_0000;
const KIND: u32 = 0xf000_0000;

/// Keys that one asker uses again and again.
const OWN_KEYS: usize = 8;

/// Donors with sessions; the first node is the gateway by which all join, and stays.
fn with_sessions(scenario: &Scenario, part: &RingSessions, report: &mut Report, watch: &mut dyn Watch) {
    let nodes = part.nodes.0.min(scenario.nodes.0) as usize;
    let mut rings = Rings::new(report.seed, RingConfig::default());
    rings.conditions = conditions(scenario);
    rings.grow(nodes, scenario.tree.joins_per_s.0.min(100));
    rings.run(REST);
    let minutes = |time: crate::scenario::Time| Duration::from_micros(time.minutes_as_micros());
    let (median, away) = (minutes(part.session.median_min), minutes(part.session.away_min));
    let shape = shape(&part.session);
    let end = rings.now + minutes(part.for_min);
    for n in 1..nodes {
        let rest = draw_rest(median, shape, &mut rings.rng);
        rings.call_at(rings.now + rest, TURN | n as u32);
    }
    rings.call_at(rings.now + SECOND, ASK);
    let every = SECOND / part.lookups_per_s.0 as u32;
    // Which of the rows each lookup is for; and keys that an asker has used.
    let mut rows: BTreeMap<u64, (usize, bool)> = BTreeMap::new();
    let mut used: BTreeMap<usize, Vec<Point>> = BTreeMap::new();
    let (mut turns, mut members, mut samples, mut next) = (0u64, 0, 0u64, 0);
    let before = rings.bytes;
    rings.weigh = true;
    while let Some(token) = rings.run_to_call(end) {
        let n = (token & !KIND) as usize;
        match token & KIND {
            TURN => {
                turns += 1;
                used.remove(&n);
                let stays = turn(&mut rings, n, part.session.polite.0);
                let (median, shape) = if stays { (median, shape) } else { (away, 1.0) };
                let time = draw(median, shape, &mut rings.rng);
                rings.call_at(rings.now + time, TURN | n as u32);
            }
            END if rings.lives(n) && rings.view(n).is_some_and(|view| view.members().count() == 0) => {
                rings.kill(n);
            }
            ASK => {
                rings.call_at(rings.now + every, ASK);
                let by = rings.rng.below(nodes as u64) as usize;
                if rings.owner(rings.member(by)) != Some(by) {
                    continue;
                }
                next += 1;
                let own = used.entry(by).or_default();
                let again = own.len() >= OWN_KEYS || !own.is_empty() && next % 2 == 0;
                let key = match again {
                    true => own[rings.rng.below(own.len() as u64) as usize],
                    false => some_key(&mut rings),
                };
                if !again {
                    own.push(key);
                }
                let way = next / 2 % 2;
                let number = rings.ask(by, RingId::NODES, key, MODES[way].0);
                rows.insert(number, (way, again));
                samples += 1;
                members += rings.in_order(RingId::NODES).len() as u64;
                if next % 10_000 == 0 {
                    let two = rings.check(RingId::NODES, false).into_iter();
                    report.violations.extend(two.take(10));
                }
            }
            _ => {}
        }
    }
    rings.weigh = false;
    let each = (rings.bytes - before) as f64 / nodes as f64 / minutes(part.for_min).as_secs_f64();
    rings.finish();
    let mean = (members / samples.max(1)) as usize;
    watch.say(&format!("{turns} sessions began or ended, {mean} of {nodes} nodes were there in the mean"));
    let mut tallies: BTreeMap<(usize, bool), Tally> = BTreeMap::new();
    for (number, row) in rows {
        // Lookups of nodes that died are not in here: nobody has a use for their answers.
        if let Some(asked) = rings.lookups.get(&number) {
            if !asked.is_right() {
                watch.say(&format!("not right: {asked:?}"));
            }
            tallies.entry(row).or_default().add(asked);
        }
    }
    let state = rings.memory().0 as u64;
    for ((way, again), tally) in tallies {
        let keys = if again { "used" } else { "fresh" };
        let median = format!("{} min", part.session.median_min.0);
        let row = tally
            .row(MODES[way].1, keys, nodes, &median)
            .with("lookup_bytes", None::<f64>)
            .with("upkeep_bytes_s", each)
            .with("state_bytes", state);
        report.rows.push(row);
    }
    close(&rings, report);
}

/// Takes the node away if it is there, with a word or without; otherwise lets it come. Gives whether it is
/// there now.
fn turn(rings: &mut Rings, n: usize, polite: f64) -> bool {
    if !rings.lives(n) {
        rings.start(n);
        rings.enter(n);
        return true;
    }
    if rings.rng.chance(polite) {
        let member = rings.member(n);
        rings.command(n, Command::Leave(member));
        // Three times it tells its neighbours, if need be.
        for wait in [1, 6] {
            rings.call_at(rings.now + wait * SECOND, END | n as u32);
        }
    } else {
        rings.kill(n);
    }
    false
}
