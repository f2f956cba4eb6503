//! Liveness: no slot idles for long while a unit that it may run waits.
//!
//! A slot *idles* while its node lives, gives it, has no run for it in its engine, and has no unit
//! whose content is still being fetched. A unit *waits at its owner* while it has no place, and *in a
//! queue* while a runner has it and runs others before it. It is a violation
//!
//! - if a slot idles for more than [`AT_OWNER`] while units wait at their owners all that time;
//! - if a slot idles for more than [`IN_QUEUE`] while one other node has units in its queue all that time.
//!
//! All units here may run in all slots. The watch looks at the world every [`LOOK`], and counts a
//! slot as idle between two looks only if no run has begun at its node.

use crate::engine::Ran;
use crate::network::Latency;
use crate::rng::Rng;
use crate::world::{World, echo};
use node_core::ids::JobId;
use node_core::overlay::tree::TreeConfig;
use node_core::{Config, NodeEvent, Time};
use sandbox::{Outcome, Task};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A second, in virtual time.
pub const AT_OWNER: Duration = Duration::from_secs(1);

/// A second until the unit is handed back, and one until it has another place.
pub const IN_QUEUE: Duration = Duration::from_secs(2);

const LOOK: Duration = Duration::from_millis(50);

/// Looks at a world now and then.
#[derive(Default)]
pub struct Watch {
    /// Entries of the world's accounts that have been read.
    read: usize,
    /// Since when a slot of the node has idled.
    idle: BTreeMap<usize, Time>,
    /// Since when units have waited at their owners.
    waiting: Option<Time>,
    /// Since when the node has had units in its queue.
    queued: BTreeMap<usize, Time>,
}

impl Watch {
    /// Runs the world until `end`, or until `done`. An error in words at the first violation.
    pub fn run_until(
        &mut self,
        world: &mut World,
        end: Time,
        done: impl Fn(&World) -> bool,
    ) -> Result<(), String> {
        while world.now < end && !done(world) {
            world.run_for(LOOK);
            self.look(world)?;
        }
        Ok(())
    }

    fn look(&mut self, world: &World) -> Result<(), String> {
        for (time, at, ran) in &world.ran[self.read..] {
            if matches!(ran, Ran::Began { .. }) {
                self.idle.insert(*at, *time);
            }
        }
        self.read = world.ran.len();
        let now = world.now;
        let mut waits = false;
        for (at, place) in world.nodes.iter().enumerate() {
            let Some(node) = place.node.as_ref().filter(|_| !place.is_frozen()) else {
                self.idle.remove(&at);
                self.queued.remove(&at);
                continue;
            };
            waits |= node.jobs().iter().any(|job| !job.state.is_over() && job.waiting > 0);
            let work = node.work(now);
            let slots = work.slots as usize;
            let queued = work.queued as usize + place.engine.queued();
            match queued == 0 && place.engine.running() < slots {
                true => _ = self.idle.entry(at).or_insert(now),
                false => _ = self.idle.remove(&at),
            }
            match queued > 0 && place.engine.running() >= slots {
                true => _ = self.queued.entry(at).or_insert(now),
                false => _ = self.queued.remove(&at),
            }
        }
        self.waiting = waits.then(|| self.waiting.unwrap_or(now));
        for (at, idle) in &self.idle {
            let both = |since: &Time| now.since(*since.max(idle));
            if let Some(time) = self.waiting.as_ref().map(both).filter(|time| *time > AT_OWNER) {
                return Err(format!(
                    "{now:?}: a slot of node {at} has idled for {time:?} while units wait; {}",
                    describe(world)
                ));
            }
            let other = self.queued.iter().find(|(_, since)| both(since) > IN_QUEUE);
            if let Some((other, since)) = other {
                let time = both(since);
                return Err(format!(
                    "{now:?}: a slot of node {at} has idled for {time:?} while units queue at node {other}; {}",
                    describe(world)
                ));
            }
        }
        Ok(())
    }
}

/// Jobs, and what their owner knows of the nodes beside what they do.
fn describe(world: &World) -> String {
    let Some(node) = &world.nodes[0].node else { return String::new() };
    let jobs = node.jobs().into_iter().filter(|job| !job.state.is_over());
    let jobs: Vec<String> =
        jobs.map(|job| format!("{} wait, {} placed: {}", job.waiting, job.placed, job.reason)).collect();
    let nodes = node.nodes(world.now).into_iter().filter_map(|view| {
        let at = world.find(view.id)?;
        let work = world.nodes[at].node.as_ref()?.work(world.now);
        let running = world.nodes[at].engine.running();
        Some(format!(
            "node {at}: {} slots, {} free, {} held, of which {running} run and {} are queued",
            view.slots, view.free, view.held, work.queued
        ))
    });
    format!("{jobs:#?} {:#?}", nodes.collect::<Vec<_>>())
}

/// Lengths of units, microseconds, from the shortest tasks to minutes.
const LENGTHS: [u64; 9] = [20, 200, 1_000, 17_000, 100_000, 700_000, 5_000_000, 60_000_000, 180_000_000];

/// Takes as long as its environment says. `MIX`: 15 of 16 units take a hundredth of that.
fn takes(task: &Task) -> (Duration, Outcome) {
    let number = |name: &str| {
        let value = task.environment.iter().find(|(key, _)| key == name).map(|(_, value)| value);
        value.and_then(|value| value.parse::<u64>().ok())
    };
    let long = number("US").unwrap_or(1_000);
    let short = number("MIX").is_some() && task.arguments[0].parse::<u64>().is_ok_and(|n| n % 16 != 0);
    let us = if short { long.div_ceil(100) } else { long };
    (Duration::from_micros(us), Outcome { cpu_us: us, ..echo(task).1 })
}

/// One life of a whole swarm with a tree: jobs of units of all lengths, on lines and disks that the
/// seed draws. An error in words if a slot idled while units waited, or a job did not end.
pub fn live(seed: u64) -> Result<(), String> {
    let mut rng = Rng::fork(seed, 300);
    let mut world = World::seed(seed).with(takes);
    world.keep = |event| matches!(event, NodeEvent::PeerFault { .. } | NodeEvent::Trouble { .. });
    let tree = Arc::new(TreeConfig { m: 2, k: 2, ..TreeConfig::default() });
    let workers = rng.between(1, 9) as usize;
    let mut config = Config { port: Some(4001), tree, ..Config::default() };
    // Small tables are full sooner, and cost less to look at.
    config.limits_mut().held_units = rng.between(16, 256) as u32;
    let slots = if rng.chance(0.3) { 1 } else { 0 };
    world.add(Config { gateway: true, slots, ..config.clone() });
    for at in 1..=workers {
        let port = if rng.chance(0.2) { None } else { config.port };
        let slots = rng.between(1, 4) as u32;
        world.add(Config { slots, port, name: format!("worker {at}"), ..config.clone() });
        world.connect(0, at);
        world.run_for(Duration::from_millis(rng.between(0, 300)));
    }
    world.run_for(Duration::from_secs(60));
    let near = rng.between(50, 5_000);
    world.network.latency = Latency::Uniform(near, near + rng.between(50, 50_000));
    for place in &mut world.nodes {
        place.disk.slow = if rng.chance(0.5) { rng.between(0, 200_000) } else { 0 };
    }

    let mut watch = Watch::default();
    let mut jobs: Vec<(JobId, u32)> = Vec::new();
    for _ in 0..rng.between(1, 6) {
        let us = LENGTHS[rng.below(LENGTHS.len() as u64) as usize];
        // Seconds of work at most, but a few units of each length.
        let most = (4_000_000 / us).clamp(6, 500);
        let count = rng.between(1, most) as u32;
        let mut spec = world.sweep(0, count);
        spec.template.environment = vec![("US".into(), us.to_string())];
        if us > 20 && rng.chance(0.3) {
            spec.template.environment.push(("MIX".into(), "1".into()));
        }
        spec.priority = rng.below(2) as i32;
        jobs.push((world.submit(0, spec), count));
        let pause = match rng.below(3) {
            0 => 0,
            1 => rng.below(1_000),
            _ => rng.below(10_000),
        };
        let end = world.now + Duration::from_millis(pause);
        watch.run_until(&mut world, end, |_| false)?;
    }
    let end = world.now + Duration::from_secs(3_600);
    watch.run_until(&mut world, end, |w| jobs.iter().all(|(job, _)| w.is_over(*job)))?;
    for (job, count) in jobs {
        if !world.is_over(job) {
            return Err(format!("after an hour a job has not ended: {:?}", world.job(job)));
        }
        world.assert_all_right(job, count);
        let lost = world.job(job).map_or(0, |job| job.lost_placements);
        if lost > 0 {
            return Err(format!("{lost} placements were lost though nobody failed"));
        }
    }
    Ok(())
}
