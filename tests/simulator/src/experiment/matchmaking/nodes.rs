//! A workload among the product's own nodes: gateways that own the jobs, and runners that find them.

use super::Watch;
use super::play::Play;
use super::sessions::Sessions;
use crate::matchmaking::Outcome;
use crate::matchmaking::workload::{RESOURCES, Vector, Workload, can};
use crate::report::Report;
use crate::rng::Rng;
use crate::scenario::{Scenario, Session};
use crate::world::{Sent, Step, World, ended};
use node_core::keys::Secret;
use node_core::requires::{Binding, Matchmaking, Properties, Requires};
use node_core::work::spec::{CheckpointEvery, Find, JobSpec};
use node_core::work::view::JobState;
use node_core::{Config, JobId, NodeEvent, Time};
use sandbox::{Limits, Task};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Runners of one gateway. Our choice: submitters are many, and fewer than who runs their jobs.
const A_GATEWAY: usize = 100;

/// From the last join until the trees stand and all nodes know them.
const REST: Duration = Duration::from_secs(300);

/// Time after the last job in which messages at rest are counted.
const COUNTED: Duration = Duration::from_secs(120);

/// All jobs end within this, or some never will. Our choice: five times the worst of the central schedulers.
const PATIENCE: Duration = Duration::from_secs(20_000);

/// Until the last results have reached their owners, and those are back: a result that was lost with its node is
/// computed again.
const LAST: Duration = Duration::from_secs(3600);

/// Time between two checkpoints where nodes come and go.
const CHECKPOINT: Duration = Duration::from_secs(30);

/// Memory and disk of one unit of a workload's resource: 100 of them fit what a unit may have.
const UNIT_BYTES: u64 = 16 << 20;

/// By what nodes find each other, and when they bind jobs.
type Way = (Matchmaking, Binding);

/// Messages of all nodes, by protocol and kind.
type Kinds = BTreeMap<(String, String), Sent>;

/// The workload's fate, and the messages that its jobs took beyond what nodes at rest send. Owners of the jobs are given, or
/// drawn among the gateways.
pub(super) fn run(
    scenario: &Scenario,
    workload: &Workload,
    (owners, way): (Option<&[usize]>, Way),
    report: &mut Report,
    watch: &mut dyn Watch,
) -> (Outcome, f64) {
    let mut swarm = Swarm::grown(scenario, workload, (owners, way), report.seed);
    swarm.world.kinds = Some(Kinds::new());
    let outcome = swarm.play(watch);
    let took = swarm.world.now.since(swarm.began).as_secs_f64();
    let kinds = swarm.world.kinds.replace(Kinds::new()).unwrap_or_default();
    // By then all know where jobs and nodes meet, so this is the ring's own upkeep.
    swarm.world.run_for(COUNTED);
    let at_rest = swarm.world.kinds.take().unwrap_or_default();
    swarm.check();
    for ((protocol, kind), sent) in &kinds {
        watch
            .say(&format!("{protocol} {kind}: {:.2} a job", sent.frames as f64 / workload.jobs.len() as f64));
    }
    let all = swarm.world.nodes.len() as f64 * COUNTED.as_secs_f64();
    let (mean, most) = load(&kinds, swarm.world.nodes.len());
    watch.say(&format!(
        "messages of the finder: {:.2} a second to a node, {:.2} to the busiest",
        mean / took,
        most / took
    ));
    for ((protocol, kind), Sent { frames, bytes, .. }) in &at_rest {
        let (frames, bytes) = (*frames as f64 / all, *bytes as f64 / all);
        watch.say(&format!(
            "{protocol} {kind}: {frames:.3} messages and {bytes:.1} bytes a node and second at rest"
        ));
    }
    let looked_up = sum(&kinds, is_lookup) - sum(&at_rest, is_lookup) * took / COUNTED.as_secs_f64();
    report.events += swarm.world.events;
    report.trace_hash = report.trace_hash.rotate_left(1) ^ swarm.world.trace_hash();
    report.violations.extend(swarm.wrong);
    (outcome, sum(&kinds, is_finding) + looked_up.max(0.0))
}

/// Messages by which jobs and nodes find each other, idle nodes' looks included.
fn is_finding(of: &str, kind: &str) -> bool {
    of == "Fitting" || (of == "RnTree" || of == "Can") && ["Walk", "Over", "Steal"].contains(&kind)
}

/// Messages of the finder to a node in the mean, and to the one that got the most.
fn load(kinds: &Kinds, nodes: usize) -> (f64, f64) {
    let mut to = vec![0; nodes];
    for (_, sent) in kinds.iter().filter(|((of, kind), _)| is_finding(of, kind)) {
        sent.to.iter().for_each(|(node, frames)| to[*node] += frames);
    }
    (to.iter().sum::<u64>() as f64 / nodes as f64, to.iter().max().copied().unwrap_or_default() as f64)
}

fn is_lookup(of: &str, kind: &str) -> bool {
    of == "Ring" && ["Find", "Next", "Mine"].contains(&kind)
}

fn sum(kinds: &Kinds, counts: fn(&str, &str) -> bool) -> f64 {
    kinds.iter().filter(|((of, kind), _)| counts(of, kind)).map(|(_, sent)| sent.frames as f64).sum()
}

struct Swarm<'a> {
    world: World,
    workload: &'a Workload,
    owners: Option<&'a [usize]>,
    /// Any node owns jobs, and not gateways alone.
    anywhere: bool,
    session: Option<&'a Session>,
    gateways: usize,
    began: Time,
    /// Jobs that some node can run, and those that were submitted, with their owners.
    jobs: usize,
    submitted: Vec<(JobId, usize)>,
    wrong: Vec<String>,
}

fn config(of: Option<&Vector>, at: usize) -> Config {
    let [memory, speed, disk] = of.copied().unwrap_or([0; RESOURCES]);
    let properties = Properties { disk_bytes: u64::from(disk) * UNIT_BYTES, ..Properties::default() };
    let mut config = Config {
        gateway: of.is_none(),
        founds: at == 0,
        slots: u32::from(of.is_some()),
        port: Some(4001),
        memory_bytes: u64::from(memory) * UNIT_BYTES,
        power: speed,
        properties: Arc::new(properties),
        ring: Some(Arc::default()),
        ..Config::default()
    };
    config.limits_mut().overrun_panics = true;
    config
}

fn secret(at: usize) -> Secret {
    let mut bytes = [2; 32];
    bytes[..8].copy_from_slice(&(at as u64).to_be_bytes());
    Secret::from_bytes(&bytes)
}

/// Runs for as many microseconds as its second argument says.
fn program(task: &Task) -> (Duration, sandbox::Outcome) {
    let micros = task.arguments.get(1).and_then(|it| it.parse().ok()).unwrap_or(1);
    (Duration::from_micros(micros), sandbox::Outcome { cpu_us: micros, ..ended(0) })
}

impl<'a> Swarm<'a> {
    fn grown(
        scenario: &'a Scenario,
        workload: &'a Workload,
        (owners, (matchmaking, binding)): (Option<&'a [usize]>, Way),
        seed: u64,
    ) -> Swarm<'a> {
        let mut world = World::seed(seed).with(program);
        world.network = scenario.network();
        world.keep = |event| matches!(event, NodeEvent::PeerFault { .. } | NodeEvent::JobRefused { .. });
        let drawn = workload.nodes.len().div_ceil(A_GATEWAY);
        let named = owners.into_iter().flatten().max();
        let gateways = named.map_or(drawn, |last| last + 1);
        // The hash of a job's id names its owner there.
        let anywhere = (matchmaking, binding) == (Matchmaking::RnTree, Binding::Early);
        let of = (0..gateways).map(|_| None).chain(workload.nodes.iter().map(Some));
        for (at, of) in of.enumerate() {
            let config = Config { matchmaking, binding, submits: anywhere, ..config(of, at) };
            world.add_keyed(config, &secret(at));
            if at > 0 {
                world.connect(at, if at < gateways { 0 } else { at % gateways });
            }
            world.run_for(Duration::from_micros(1_000_000 / scenario.tree.joins_per_s.0.max(1)));
        }
        world.run_for(REST);
        let session = scenario.matchmaking.as_ref().and_then(|part| part.session.as_ref());
        Swarm {
            began: world.now,
            world,
            workload,
            owners,
            anywhere,
            session,
            gateways,
            jobs: 0,
            submitted: Vec::new(),
            wrong: Vec::new(),
        }
    }

    fn play(&mut self, watch: &mut dyn Watch) -> Outcome {
        self.began = self.world.now;
        let mut rng = Rng::fork(self.world.seed, 300);
        let first = if self.anywhere { self.world.nodes.len() } else { self.gateways };
        let specs: Vec<JobSpec> = (0..first).map(|at| self.world.sweep(at, 1)).collect();
        let tokens = self.workload.jobs.len() as u32;
        let mut sessions = self.session.map(|session| Sessions::begin(session, tokens, &mut self.world));
        let mut play = Play::new(self.workload, self.gateways, self.began, sessions.is_some());
        for (token, job) in self.workload.jobs.iter().enumerate() {
            // In small swarms no node may have what a class of jobs needs; central schedulers pass over it, too.
            if !self.workload.nodes.iter().any(|node| can(node, &job.needs)) {
                continue;
            }
            self.jobs += 1;
            self.world.call_at(self.began + Duration::from_micros(job.arrival_us), token as u32);
        }
        let end = self.began + PATIENCE;
        while play.over < self.jobs && self.world.now < end {
            match self.world.next() {
                Some(Step::Call(token)) => {
                    if sessions.as_mut().is_some_and(|it| it.called(token, &mut self.world)) {
                        continue;
                    }
                    let named = self.owners.and_then(|owners| owners.get(token as usize).copied());
                    let drawn = named.unwrap_or_else(|| rng.below(specs.len() as u64) as usize);
                    // A client whose gateway is away submits at another.
                    let owner = if self.world.lives(drawn) { drawn } else { 0 };
                    let job = self.submit(token as usize, owner, &specs[owner]);
                    self.submitted.push((job, owner));
                }
                Some(Step::Done) => {}
                None => break,
            }
            for (time, at, ran) in std::mem::take(&mut self.world.ran) {
                play.ran(time, at, ran);
            }
        }
        play.tell(watch);
        if let Some(sessions) = sessions {
            watch.say(&format!("{} sessions have ended", sessions.ended));
        }
        self.wrong.append(&mut play.wrong);
        for (time, at, event) in std::mem::take(&mut self.world.told).into_iter().take(5) {
            let after = time.since(Time::ZERO).as_secs();
            watch.say(&format!("{after} s: node {at} tells {event:?}"));
        }
        play.outcome
    }

    /// All jobs have ended well, say their owners.
    fn check(&mut self) {
        let away: Vec<usize> = (0..self.gateways).filter(|at| !self.world.lives(*at)).collect();
        for at in away {
            self.world.start(at);
            self.world.connect(at, 0);
        }
        let is_done = |(job, owner): &(JobId, usize), world: &World| {
            let node = world.lives(*owner).then(|| world.node(*owner));
            node.and_then(|node| node.job(*job)).is_some_and(|job| job.state == JobState::Done)
        };
        let end = self.world.now + LAST;
        let mut done = 0;
        while done < self.jobs && self.world.now < end {
            self.world.run_for(Duration::from_secs(60));
            done = self.submitted.iter().filter(|it| is_done(it, &self.world)).count();
        }
        if done < self.jobs {
            self.wrong.push(format!("{} jobs have not ended", self.jobs - done));
        }
    }

    fn submit(&mut self, job: usize, owner: usize, spec: &JobSpec) -> JobId {
        let of = &self.workload.jobs[job];
        let [memory, speed, disk] = of.needs.map(u64::from);
        let requires =
            Requires { speed: speed * 1_000_000, disk_bytes: disk * UNIT_BYTES, ..Requires::default() };
        let mut spec = JobSpec { find: Find::Fitting, requires: Box::new(requires), ..spec.clone() };
        let template = &mut spec.template;
        template.arguments = vec![job.to_string(), of.run_us.to_string()];
        template.limits = Limits { memory_bytes: (memory * UNIT_BYTES).max(1 << 20), ..template.limits };
        let every = if self.session.is_some() { CHECKPOINT } else { Duration::ZERO };
        template.checkpoint = CheckpointEvery(every.as_micros() as u64);
        self.world.submit(owner, spec)
    }
}
