//! Guests of many gateways: whether all of their slots are found, how owners are connected to them, what they cost
//! their gateways, and when they are back after these have died.

use super::Watch;
use super::ask::Ask;
use super::stage::{Idle, Stage};
use crate::meter::Meter;
use crate::report::{Report, Row};
use crate::scenario::{GuestsPart, Scenario};
use node_core::address::Address;
use node_core::discovery::nearest::{NearestConfig, Way};
use node_core::overlay::dialback::Standing;
use node_core::{Carrier, Command, NodeInput, Time};
use std::time::Duration;

/// Until all gateways have said what they have.
const REST: Duration = Duration::from_secs(180);

/// Time in which messages at rest are counted.
const COUNTED: u64 = 60;

/// A search for everything may take so long, and so may a connection, and the way back.
const PATIENCE: Duration = Duration::from_secs(180);

/// Between two looks. Our choice: shorter than what it measures, a round trip.
const LOOK: Duration = Duration::from_millis(100);

/// Pairs that are connected each second.
const PAIRS_A_SECOND: u64 = 50;

pub(super) fn run(scenario: &Scenario, part: &GuestsPart, report: &mut Report, watch: &mut dyn Watch) {
    let nearest = NearestConfig { relays: true, ..NearestConfig::new(Way::Ours) };
    let (m, k) = (scenario.tree.m.0 as u8, scenario.k());
    let mut stage = Stage::grown(scenario, nearest, m, k, report, watch);
    stage.world.network.walled = part.walled.0;
    stage.run_for(REST, &mut Idle);
    let guests: Vec<usize> =
        (0..stage.world.nodes.len()).filter(|at| !stage.world.nodes[*at].is_dialable()).collect();
    watch.say(&format!("{} guests at {} gateways", guests.len(), stage.gateways));
    let load = load(&mut stage);
    let found = find_all(&mut stage, watch);
    stage.run_for(REST, &mut Idle);
    let reached = reach(&mut stage, &guests, part, watch);
    let back = die(&mut stage, &guests, part, watch);
    let row = Row::default()
        .with("guests", guests.len() as u64)
        .with("asked", found.0)
        .with("found", found.1)
        .with("direct", reached.direct)
        .with("relayed", reached.relayed)
        .with("neither", reached.neither)
        .with("direct_s", quantile(&reached.direct_s, 0.5))
        .with("relayed_s", quantile(&reached.relayed_s, 0.5))
        .with("slowest_s", quantile(&[reached.direct_s, reached.relayed_s].concat(), 1.0))
        .with("gateway_msg_s", load[0].0)
        .with("gateway_kb_s", load[0].1)
        .with("member_msg_s", load[1].0)
        .with("member_kb_s", load[1].1)
        .with("orphans", back.orphans)
        .with("back_s", quantile(&back.after_s, 0.5))
        .with("back_99_s", quantile(&back.after_s, 0.99))
        .with("last_back_s", quantile(&back.after_s, 1.0));
    report.rows.push(row);
    stage.close(report);
}

fn quantile(of: &[f64], share: f64) -> Option<f64> {
    let mut all = of.to_vec();
    all.sort_by(f64::total_cmp);
    let last = all.len().checked_sub(1)?;
    all.get((last as f64 * share).round() as usize).copied()
}

/// Messages and kilobytes a second, sent and received, of a gateway and of a member that has no guests.
fn load(stage: &mut Stage) -> [(f64, f64); 2] {
    let nodes = stage.world.nodes.len();
    stage.world.meter = Some(Meter::new(nodes));
    stage.run_for(Duration::from_secs(COUNTED), &mut Idle);
    let meter = stage.world.meter.take().unwrap_or_default();
    let members: Vec<usize> =
        (stage.gateways..nodes).filter(|at| stage.world.nodes[*at].is_dialable()).collect();
    [(0..stage.gateways).collect(), members].map(|of: Vec<usize>| {
        let all = of.iter().filter_map(|at| meter.nodes.get(*at)).map(|tally| tally.all());
        let (messages, bytes) = all.fold((0, 0), |sum, (messages, bytes)| (sum.0 + messages, sum.1 + bytes));
        let by = (of.len().max(1) as u64 * COUNTED) as f64;
        (messages as f64 / by, bytes as f64 / 1e3 / by)
    })
}

/// One request for every slot that there is: how many that are, and how many were found.
fn find_all(stage: &mut Stage, watch: &mut dyn Watch) -> (u64, u64) {
    let slots: u32 = stage.world.nodes.iter().map(|place| place.config.slots).sum();
    let origin = stage.some_leaf();
    let mut ask = Ask::new(stage, origin, 1, slots);
    ask.finish(stage, PATIENCE);
    watch.say(&format!("{slots} slots asked for, {:?} found", ask.found));
    (u64::from(slots), u64::from(ask.found.unwrap_or(0)))
}

#[derive(Default)]
struct Reached {
    direct: u64,
    relayed: u64,
    neither: u64,
    direct_s: Vec<f64>,
    relayed_s: Vec<f64>,
}

/// Has gateways connect to guests of others.
fn reach(stage: &mut Stage, guests: &[usize], part: &GuestsPart, watch: &mut dyn Watch) -> Reached {
    let mut reached = Reached::default();
    let mut under_way: Vec<(usize, usize, Time)> = Vec::new();
    let mut left = part.pairs.0;
    let mut next = stage.world.now;
    while left > 0 || !under_way.is_empty() {
        while left > 0 && next <= stage.world.now {
            left -= 1;
            next = next + Duration::from_micros(1_000_000 / PAIRS_A_SECOND);
            let owner = stage.rng.below(stage.gateways as u64) as usize;
            let guest = guests[stage.rng.below(guests.len() as u64) as usize];
            let relay = stage.world.nodes[guest].node.as_ref().and_then(|node| node.relay());
            let relay = relay.and_then(|relay| stage.world.find(relay));
            let standing = relay.and_then(|relay| Some(stage.world.nodes[relay].node.as_ref()?.standing()));
            let Some(Standing::Member(at)) = standing else { continue };
            if relay == Some(owner) || stage.world.connected(owner, guest) {
                continue;
            }
            let to = Address::guest(stage.world.nodes[guest].id, at).with_channels(true);
            under_way.push((owner, guest, stage.world.now));
            stage.world.drive(owner, NodeInput::Command(Command::Connect(to)));
        }
        stage.run_for(LOOK, &mut Idle);
        let (world, now) = (&stage.world, stage.world.now);
        under_way.retain(|(owner, guest, since)| {
            let took = now.since(*since);
            match over(world, *owner, *guest) {
                Some(Carrier::Relay) => {
                    reached.relayed += 1;
                    reached.relayed_s.push(took.as_secs_f64());
                }
                Some(_) => {
                    reached.direct += 1;
                    reached.direct_s.push(took.as_secs_f64());
                }
                None if took > PATIENCE / 6 => reached.neither += 1,
                None => return true,
            }
            false
        });
    }
    watch.say(&format!(
        "{} pairs directly, {} by way of a relay, {} not at all",
        reached.direct, reached.relayed, reached.neither
    ));
    reached
}

/// The carrier of the connection between the two.
fn over(world: &crate::world::World, owner: usize, guest: usize) -> Option<Carrier> {
    match (world.connected_straight(owner, guest), world.relayed(owner, guest)) {
        (true, _) => Some(Carrier::DataChannel),
        (false, true) => Some(Carrier::Relay),
        (false, false) => None,
    }
}

#[derive(Default)]
struct Back {
    orphans: u64,
    after_s: Vec<f64>,
}

/// Gateways die at once; their guests are back when another is their relay and connected to them.
fn die(stage: &mut Stage, guests: &[usize], part: &GuestsPart, watch: &mut dyn Watch) -> Back {
    let dead: Vec<usize> = (1..stage.gateways).rev().take(part.die.0 as usize).collect();
    let relay = |stage: &Stage, guest: usize| {
        let relay = stage.world.nodes[guest].node.as_ref()?.relay()?;
        stage.world.find(relay)
    };
    let mut orphans: Vec<usize> = Vec::new();
    for guest in guests {
        if relay(stage, *guest).is_some_and(|relay| dead.contains(&relay)) {
            orphans.push(*guest);
        }
    }
    dead.iter().for_each(|gateway| stage.world.kill(*gateway));
    let began = stage.world.now;
    let mut back = Back { orphans: orphans.len() as u64, ..Back::default() };
    while !orphans.is_empty() && stage.world.now.since(began) < PATIENCE {
        stage.run_for(LOOK, &mut Idle);
        let after = stage.world.now.since(began).as_secs_f64();
        orphans.retain(|guest| {
            let its = relay(stage, *guest);
            let is_back = its.is_some_and(|its| !dead.contains(&its) && stage.world.connected(its, *guest));
            if is_back {
                back.after_s.push(after);
            }
            !is_back
        });
    }
    watch.say(&format!("{} guests lost their gateway, {} are not back", back.orphans, orphans.len()));
    back
}
