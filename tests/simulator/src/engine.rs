//! An engine: as many runs at once as it has slots, the rest in order.

use crate::disk::Disk;
use bytes::Bytes;
use node_core::content::BlobRef;
use node_core::content::{Data, NamedData};
use node_core::engine::NotRunnable;
use node_core::{
    BlobId, EngineReply, EngineRequest, EngineTask, NoSnapshot, RunId, SealKey, SnapshotRef, Taken, Time,
};
use sandbox::{File, Outcome, Task};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Work of a task in the engines of a world: how long it takes on a node of [`MIPS`], and how it ends.
pub type Program = fn(&Task) -> (Duration, Outcome);

/// Speed of a node that nothing else is said of, million instructions a second (paper `tree`,
/// section 6).
pub const MIPS: u32 = 2_000;

/// How long so much fuel lasts on a node of [`MIPS`]: one instruction a unit.
pub fn fuel(units: u64) -> Duration {
    Duration::from_micros(units / u64::from(MIPS))
}

/// After so long a run comes to a poll, where it can be stopped.
pub const SLICE: Duration = Duration::from_millis(2);

/// The words for a blob that is no program.
pub const UNFIT: &str = "is not a WebAssembly module";

/// The words for a program that a compiler gives up.
pub const REFUSED: &str = "takes its compiler more than a minute";

/// How long an engine compiles a program before it refuses it.
const LOOKING: Duration = Duration::from_millis(300);

/// How long an engine takes to get ready for a task that will come.
const PREPARING: Duration = Duration::from_millis(20);

/// How long it takes to check a program that others brought.
const CHECKING: Duration = Duration::from_millis(500);

/// How long a task stands still for a snapshot.
const PAUSE: Duration = Duration::from_millis(1);

/// Every so many snapshots of a run one is whole.
const WHOLE_EVERY: u32 = 4;

/// A run as told to whoever keeps accounts: which unit, and the fuel that it had used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    /// `argument`: the first of the task's, if it is a number.
    Began {
        unit: u64,
        fuel: u64,
        argument: Option<u64>,
    },
    /// With the node.
    Lost {
        unit: u64,
        fuel: u64,
    },
    /// Suspended.
    Stopped {
        unit: u64,
        fuel: u64,
    },
    /// Nobody wanted it any more.
    Killed {
        unit: u64,
        fuel: u64,
    },
    Ended {
        unit: u64,
        fuel: u64,
    },
}

pub struct Engine {
    slots: u32,
    /// Fails at every run, as a machine does that is out of memory.
    pub broken: bool,
    /// Programs at which it fails every time, and at no other.
    pub poison: BTreeSet<BlobId>,
    /// Programs that it refuses, once it has looked into them for [`LOOKING`].
    pub refuses: BTreeSet<BlobId>,
    /// Blobs that are no programs.
    pub unfit: BTreeSet<BlobId>,
    /// Its programs cannot be suspended.
    pub immobile: bool,
    /// Its snapshots are not what they say.
    pub rubbish: bool,
    /// Bytes of a whole snapshot, and of one that is relative to it.
    pub snapshot_bytes: (usize, usize),
    queue: VecDeque<(RunId, EngineTask)>,
    running: BTreeMap<RunId, Run>,
    /// Runs that are being prepared.
    preparing: BTreeSet<RunId>,
    pub log: Vec<Ran>,
}

impl Default for Engine {
    fn default() -> Self {
        Engine {
            slots: 0,
            broken: false,
            poison: BTreeSet::new(),
            refuses: BTreeSet::new(),
            unfit: BTreeSet::new(),
            immobile: false,
            rubbish: false,
            snapshot_bytes: (2000, 200),
            queue: VecDeque::new(),
            running: BTreeMap::new(),
            preparing: BTreeSet::new(),
            log: Vec::new(),
        }
    }
}

/// A task under way: its fuel runs off with the node's speed.
struct Run {
    unit: u64,
    key: SealKey,
    mips: u64,
    /// It had used `fuel` at that time.
    at: Time,
    fuel: u64,
    began: u64,
    total: u64,
    paused: bool,
    stopping: bool,
    /// The last whole snapshot.
    base: Option<BlobId>,
    taken: u32,
    outcome: Outcome,
}

impl Run {
    fn fuel_at(&self, now: Time) -> u64 {
        let ran = if self.paused { 0 } else { now.since(self.at).as_micros() as u64 * self.mips };
        (self.fuel + ran).min(self.total)
    }

    fn end(&self) -> Time {
        self.at + Duration::from_micros((self.total - self.fuel).div_ceil(self.mips))
    }
}

impl Engine {
    /// Takes a request; the replies to come, and when.
    pub fn request(&mut self, now: Time, request: EngineRequest) -> Vec<(EngineReply, Time)> {
        match request {
            EngineRequest::Run { run, task } => self.queue.push_back((run, task)),
            EngineRequest::Prepare { run, .. } => {
                self.preparing.insert(run);
                let reply = match self.broken {
                    true => EngineReply::Broken { run, error: "out of memory".into() },
                    false => EngineReply::Prepared { run },
                };
                return vec![(reply, now + PREPARING)];
            }
            EngineRequest::Kill { run } => {
                if let Some(run) = self.running.remove(&run) {
                    self.log.push(Ran::Killed { unit: run.unit, fuel: run.fuel_at(now) });
                }
                self.queue.retain(|(queued, _)| *queued != run);
                self.preparing.remove(&run);
            }
            EngineRequest::Slots(slots) => self.slots = slots,
            EngineRequest::Inspect { number, program, .. } => {
                let result = if self.unfit.contains(&program) {
                    Err(NotRunnable::Refused(UNFIT.into()))
                } else {
                    Ok(())
                };
                return vec![(EngineReply::Inspected { number, result }, now + CHECKING)];
            }
            // No run here is a thread.
            EngineRequest::Letters { .. } => {}
            EngineRequest::Snapshot { run, stop } => return self.snapshot(now, run, stop),
            EngineRequest::Pause { run: id, paused } => {
                let Some(run) = self.running.get_mut(&id).filter(|run| run.paused != paused) else {
                    return Vec::new();
                };
                (run.fuel, run.at, run.paused) = (run.fuel_at(now), now, paused);
                return self.ends(id);
            }
        }
        Vec::new()
    }

    /// When the run will end, as it stands.
    fn ends(&self, id: RunId) -> Vec<(EngineReply, Time)> {
        let run = self.running.get(&id).filter(|run| !run.paused);
        run.map(|run| (EngineReply::Ended { run: id, outcome: run.outcome.clone() }, run.end()))
            .into_iter()
            .collect()
    }

    fn snapshot(&mut self, now: Time, id: RunId, stop: bool) -> Vec<(EngineReply, Time)> {
        let queued = self.queue.len();
        if stop {
            self.queue.retain(|(queued, _)| *queued != id);
        }
        let was_queued = self.queue.len() < queued || self.queue.iter().any(|(queued, _)| *queued == id);
        let none = |why, stopped| vec![(EngineReply::Snapshot { run: id, taken: Err(why), stopped }, now)];
        if was_queued {
            return none(NoSnapshot::NotBegun, stop);
        }
        let Some(run) = self.running.get_mut(&id) else { return Vec::new() };
        if self.immobile {
            return none(NoSnapshot::Immobile("this program is not instrumented".into()), false);
        }
        let poll = now + SLICE;
        if run.stopping || (!run.paused && run.end() <= poll) {
            // It ends first.
            return Vec::new();
        }
        (run.fuel, run.at, run.stopping) = (run.fuel_at(poll), poll + PAUSE, stop);
        let base = run.base.filter(|_| !run.taken.is_multiple_of(WHOLE_EVERY));
        run.taken += 1;
        let bytes =
            seal(run, base, if base.is_some() { self.snapshot_bytes.1 } else { self.snapshot_bytes.0 });
        if base.is_none() {
            run.base = Some(BlobId::of(&bytes));
        }
        let pause_us = PAUSE.as_micros() as u64;
        let bytes = if self.rubbish { bytes.slice(..bytes.len() - 1) } else { bytes };
        let blob = BlobRef::of(&bytes);
        let taken = Taken {
            blob,
            base,
            root: root(run.unit, run.fuel),
            fuel: run.fuel,
            bytes,
            pause_us,
            marks: None,
        };
        let mut replies = vec![(EngineReply::Snapshot { run: id, taken: Ok(taken), stopped: stop }, run.at)];
        if !stop {
            replies.extend(self.ends(id));
        }
        replies
    }

    /// Starts what has room on a node of that speed: the replies to come, and when.
    pub fn start_next(
        &mut self,
        now: Time,
        disk: &Disk,
        program: Program,
        mips: u32,
    ) -> Vec<(EngineReply, Time)> {
        let mut started = Vec::new();
        while self.running.len() < self.slots as usize {
            let Some((id, task)) = self.queue.pop_front() else { break };
            let (unit, key, from) = (unit_of(&task), task.key, task.from);
            let poisoned = self.poison.contains(&task.program);
            let refused = self.refuses.contains(&task.program);
            let task =
                if self.broken || poisoned { Err("no memory is left".into()) } else { resolve(task, disk) };
            let began = task.and_then(|task| Ok((task, open(unit, key, from, disk)?)));
            let (began, reply) = match began {
                Ok((task, fuel)) => {
                    let (time, mut outcome) = match refused {
                        true => (LOOKING, Outcome::of(sandbox::End::Refused(REFUSED.into()))),
                        false => program(&task),
                    };
                    outcome.fuel = time.as_micros() as u64 * u64::from(MIPS);
                    let argument = task.arguments.first().and_then(|first| first.parse().ok());
                    self.log.push(Ran::Began { unit, fuel, argument });
                    let base = from.map(|from| from.base.unwrap_or(from.blob).id);
                    let (total, mips) = (outcome.fuel.max(fuel), u64::from(mips.max(1)));
                    let (paused, stopping) = (false, false);
                    let taken = u32::from(base.is_some());
                    (
                        Run {
                            unit,
                            key,
                            mips,
                            at: now,
                            fuel,
                            began: fuel,
                            total,
                            paused,
                            stopping,
                            base,
                            taken,
                            outcome,
                        },
                        None,
                    )
                }
                Err(error) => {
                    let outcome = Outcome::of(sandbox::End::Exited(0));
                    let (paused, stopping, base) = (true, false, None);
                    let (fuel, total, taken) = (0, 0, 0);
                    let run = Run {
                        unit,
                        key,
                        mips: 1,
                        at: now,
                        fuel,
                        began: 0,
                        total,
                        paused,
                        stopping,
                        base,
                        taken,
                        outcome,
                    };
                    (run, Some((EngineReply::Broken { run: id, error }, now)))
                }
            };
            self.running.insert(id, began);
            if from.is_some() && reply.is_none() {
                started.push((EngineReply::Resumed { run: id }, now));
            }
            match reply {
                Some(reply) => started.push(reply),
                None => started.extend(self.ends(id)),
            }
        }
        started
    }

    /// Whether the reply still holds when its time has come.
    pub fn is_over(&mut self, now: Time, reply: &EngineReply) -> bool {
        match reply {
            EngineReply::Ended { run: id, .. } => {
                let due =
                    self.running.get(id).is_some_and(|run| !run.paused && !run.stopping && run.end() <= now);
                if due && let Some(run) = self.running.remove(id) {
                    self.log.push(Ran::Ended { unit: run.unit, fuel: run.total });
                }
                due
            }
            EngineReply::Broken { run, .. } => {
                self.running.remove(run).is_some() || self.preparing.remove(run)
            }
            EngineReply::Prepared { run } => self.preparing.remove(run),
            EngineReply::Resumed { run } => self.running.contains_key(run),
            EngineReply::Inspected { .. } | EngineReply::Said { .. } => true,
            EngineReply::Snapshot { run: id, taken, stopped } => {
                let Some(run) = self.running.get(id) else { return taken.is_err() };
                if *stopped {
                    self.log.push(Ran::Stopped { unit: run.unit, fuel: run.fuel });
                    self.running.remove(id);
                }
                true
            }
        }
    }

    /// The node ends, and what runs with it.
    pub fn end(&mut self, now: Time) {
        for run in std::mem::take(&mut self.running).into_values() {
            self.log.push(Ran::Lost { unit: run.unit, fuel: run.fuel_at(now) });
        }
    }

    /// Runs under way.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Runs that wait for a slot.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// The runs at work: the unit, the fuel with which it began here, and the fuel that it has used.
    pub fn runs(&self, now: Time) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        self.running.values().map(move |run| (run.unit, run.began, run.fuel_at(now)))
    }
}

/// A number for the unit, the same wherever it runs.
fn unit_of(task: &EngineTask) -> u64 {
    let text = format!(
        "{:?}",
        (task.program, &task.arguments, &task.environment, &task.stdin, &task.files, task.seed)
    );
    u64::from_le_bytes(std::array::from_fn(|i| BlobId::of(text.as_bytes()).0[i]))
}

fn root(unit: u64, fuel: u64) -> [u8; 32] {
    BlobId::of(&[unit.to_le_bytes(), fuel.to_le_bytes()].concat()).0
}

/// Bytes before the padding: a seal, the unit, its fuel, and the base.
const HEAD: usize = 32 + 8 + 8 + 32;

fn seal(run: &Run, base: Option<BlobId>, len: usize) -> Bytes {
    let mut body =
        [&run.unit.to_le_bytes()[..], &run.fuel.to_le_bytes(), &base.map_or([0; 32], |b| b.0)].concat();
    body.extend((0..len.saturating_sub(HEAD) as u64).map(|i| (i ^ run.fuel ^ (i >> 7)) as u8));
    let seal = BlobId::of(&[&run.key.0[..], &body].concat());
    [&seal.0[..], &body].concat().into()
}

/// The fuel with which the task goes on, if all that it goes on from is what it should be.
fn open(unit: u64, key: SealKey, from: Option<SnapshotRef>, disk: &Disk) -> Result<u64, String> {
    let Some(from) = from else { return Ok(0) };
    let read = |id: BlobId| -> Result<(u64, BlobId), String> {
        let bytes = disk.blob(id).ok_or("the snapshot is refused: it is missing")?;
        let (seal, body) = bytes.split_at_checked(32).ok_or("the snapshot is refused: it is truncated")?;
        if BlobId::of(&[&key.0[..], body].concat()).0 != seal {
            return Err("the snapshot is refused: it is not sealed with the unit's key".into());
        }
        let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| body[at + i]));
        if number(0) != unit {
            return Err("the snapshot is refused: it is another unit's".into());
        }
        Ok((number(8), BlobId(std::array::from_fn(|i| body[16 + i]))))
    };
    let (fuel, base) = read(from.blob.id)?;
    if base != from.base.map_or(BlobId([0; 32]), |base| base.id) {
        return Err("the snapshot is refused: its base is another".into());
    }
    if let Some(base) = from.base
        && read(base.id)?.1 != BlobId([0; 32])
    {
        return Err("the snapshot is refused: its base is not whole".into());
    }
    match fuel == from.fuel && root(unit, fuel) == from.root {
        true => Ok(fuel),
        false => Err("the snapshot is refused: it is not the state that was announced".into()),
    }
}

fn resolve(task: EngineTask, disk: &Disk) -> Result<Task, String> {
    let bytes = |data: Data| -> Result<Bytes, String> {
        match data {
            Data::Inline(bytes) => Ok(bytes),
            Data::Blob(blob) => disk.blob(blob.id).cloned().ok_or(format!("blob {} is missing", blob.id)),
        }
    };
    disk.blob(task.program).ok_or("the program is missing")?;
    let file = |named: NamedData| Ok::<_, String>(File { path: named.path, data: bytes(named.data)? });
    Ok(Task {
        arguments: task.arguments,
        environment: task.environment,
        stdin: bytes(task.stdin)?,
        files: task.files.into_iter().map(file).collect::<Result<_, _>>()?,
        limits: task.limits,
        seed: task.seed,
        thread: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_of_twice_the_speed_takes_half_the_time() {
        let program = Bytes::from_static(b"p");
        let mut disk = Disk::default();
        disk.put_blob(BlobId::of(&program), program.clone());
        let mut engine = Engine::default();
        engine.request(Time(0), EngineRequest::Slots(1));
        let task = |program| EngineTask {
            program,
            arguments: vec![],
            environment: vec![],
            stdin: Data::EMPTY,
            files: vec![],
            limits: Default::default(),
            seed: 0,
            bit_exact: false,
            key: Default::default(),
            from: None,
            thread: None,
        };
        for run in 0..2 {
            engine.request(Time(0), EngineRequest::Run { run: RunId(run), task: task(BlobId::of(&program)) });
        }
        let work: Program = |_| (fuel(20_000_000), Outcome::of(sandbox::End::Exited(0)));
        let started = engine.start_next(Time(5), &disk, work, 2 * MIPS);
        assert_eq!(started.len(), 1, "one slot");
        assert_eq!(started[0].1, Time(5_005));
        let over = |engine: &mut Engine| engine.is_over(Time(5_005), &started[0].0);
        assert!(over(&mut engine) && !over(&mut engine));
        assert_eq!(engine.start_next(Time(5_005), &disk, work, MIPS)[0].1, Time(15_005));
    }
}
