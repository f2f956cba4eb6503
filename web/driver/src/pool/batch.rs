//! Distribution of tasks to slots: how many each slot gets at a time.
//!
//! A message to a Worker and back costs a few tenths of a millisecond, so short tasks travel
//! in batches and are sent ahead. Long ones are not: a task that waits in one slot while
//! another is idle would be lost time.

use super::modules::{Module, ModuleId, State};
use super::slots::Phase;
use super::{Pool, Run, Slot, SlotId, World};
use crate::slot::{From, Job};
use bytes::Bytes;
use node_core::content::{BlobRef, Data, NamedData};
use node_core::{BlobId, EngineReply, RunId, SnapshotRef, Time};
use sandbox::{File, Task};

/// A slot is kept busy for this long ahead. Ours: a hundred times a message's way, and far
/// below what a person notices at Stop or a job at its end.
const HORIZON_US: u64 = 25_000;

/// Tasks in a slot at once, however short: the loss when a Worker ends stays small.
const MAX_AHEAD: u64 = 128;

/// Bytes of one batch, unless a single task is larger.
const MAX_BATCH_BYTES: usize = 4 << 20;

impl Module {
    /// How many tasks a slot should hold at most.
    fn ahead(&self) -> usize {
        match self.mean_us {
            0 => 1,
            mean => (HORIZON_US / mean).clamp(1, MAX_AHEAD) as usize,
        }
    }
}

impl Pool {
    /// Hands out what waits.
    pub(super) fn fill(&mut self, now: Time, world: &mut impl World) {
        while self.prepare_one(now, world) {}
        // A slot that holds the state that the next run goes on from is preferred; a slot that
        // holds another state is taken last.
        let first = self.modules.first_ready().and_then(|(_, run)| self.runs.get(&run)?.whole());
        let fits = |slot: &Slot| match slot.holds {
            None => 1,
            holds => {
                if holds == first {
                    0
                } else {
                    2
                }
            }
        };
        let mut open: Vec<(usize, u8, SlotId)> = self
            .slots
            .iter()
            .take(self.wanted)
            .filter_map(|(id, slot)| match &slot.phase {
                Phase::Running(held) if !held.iter().any(|run| self.is_paused(run)) => {
                    Some((held.len(), fits(slot), *id))
                }
                _ => None,
            })
            .collect();
        open.sort();
        // Nobody hoards what others could do as soon.
        let held: usize = open.iter().map(|(held, ..)| held).sum();
        let share = (held + self.modules.waiting()).div_ceil(open.len().max(1));
        for (.., id) in open {
            while self.top_up(now, id, share, world) {}
        }
    }

    /// Has an idle slot look at a program that none has looked at yet.
    fn prepare_one(&mut self, now: Time, world: &mut impl World) -> bool {
        let Some((module, _)) = self.modules.first_new() else { return false };
        let Some((id, slot)) = self.slots.iter_mut().take(self.wanted).find(|(_, slot)| slot.is_idle())
        else {
            return false;
        };
        let Some(entry) = self.modules.get_mut(module) else { return false };
        match world.blob(&entry.form.program) {
            Some(program) => {
                entry.state = State::Preparing;
                slot.phase = Phase::Preparing(module);
                slot.since = now;
                world.prepare(*id, module, program, &entry.form);
            }
            None => {
                let error =
                    format!("the program {} is not in this node's storage", entry.form.program.short());
                for run in self.modules.drain(module) {
                    self.runs.remove(&run);
                    world.reply(EngineReply::Broken { run, error: error.clone() });
                }
            }
        }
        true
    }

    /// Sends one batch to a slot, if it has room. Whether there may be more to send.
    fn top_up(&mut self, now: Time, id: SlotId, share: usize, world: &mut impl World) -> bool {
        let Some((module, first)) = self.modules.first_ready() else { return false };
        let (Some(slot), Some(entry)) = (self.slots.get(&id), self.modules.get(module)) else { return false };
        let Phase::Running(held) = &slot.phase else { return false };
        let is_alone = |run: &RunId| self.runs.get(run).is_some_and(|r| r.alone);
        let most = if is_alone(&first) { 1 } else { entry.ahead().min(share.max(1)) };
        // Topped up when half is done, to send fewer messages.
        if !held.is_empty() && (held.len() > most / 2 || held.iter().any(is_alone)) {
            return false;
        }
        self.send(now, id, module, most - held.len(), world);
        true
    }

    fn send(&mut self, now: Time, id: SlotId, module: ModuleId, room: usize, world: &mut impl World) {
        let mut tasks: Vec<Job> = Vec::with_capacity(room);
        let mut runs = Vec::with_capacity(room);
        let mut bytes = 0;
        let mut holds = self.slots.get(&id).and_then(|slot| slot.holds);
        while tasks.len() < room && bytes < MAX_BATCH_BYTES {
            let Some(run) = self.modules.peek(module) else { break };
            let Some(entry) = self.runs.get(&run) else {
                self.modules.pop(module);
                continue;
            };
            let alone = entry.alone;
            if alone && !tasks.is_empty() {
                break;
            }
            self.modules.pop(module);
            // A slot has one thing ready, for what comes next.
            match resolve(run, entry, holds.take(), world) {
                Ok(job) => {
                    bytes += size(&job);
                    tasks.push(job);
                    runs.push(run);
                }
                Err(error) => {
                    self.runs.remove(&run);
                    world.reply(EngineReply::Broken { run, error });
                }
            }
            if alone {
                break;
            }
        }
        let Some(Slot { phase: Phase::Running(held), since, knows, holds }) = self.slots.get_mut(&id) else {
            return;
        };
        if tasks.is_empty() {
            return;
        }
        *holds = None;
        if held.is_empty() {
            *since = now;
        }
        held.extend(&runs);
        for run in &runs {
            if let Some(run) = self.runs.get_mut(run) {
                run.slot = Some(id);
            }
        }
        if knows.insert(module) {
            world.teach(id, module);
        }
        if let Some(entry) = self.modules.get_mut(module) {
            entry.in_flight += runs.len();
        }
        world.run(id, module, &tasks);
    }
}

fn size(job: &Job) -> usize {
    let files: usize = job.task.files.iter().map(|f| f.data.len()).sum();
    let from =
        job.from.as_ref().map_or(0, |from| from.bytes.len() + from.base.as_ref().map_or(0, Bytes::len));
    job.task.stdin.len() + files + from
}

/// The task with all its content in hand.
/// `holds`: what lies ready in its slot.
fn resolve(run: RunId, entry: &Run, holds: Option<BlobId>, world: &impl World) -> Result<Job, String> {
    let Run { task, ahead, .. } = entry;
    let stored = |blob: &BlobRef, what: &str| {
        let missing = || format!("{what} ({}) is not in this node's storage", blob.id.short());
        world.blob(&blob.id).ok_or_else(missing)
    };
    let fetch = |data: &Data, what: &str| match data {
        Data::Inline(bytes) => Ok(bytes.clone()),
        Data::Blob(blob) => stored(blob, what),
    };
    let file = |file: &NamedData| {
        Ok(File { path: file.path.clone(), data: fetch(&file.data, &format!("the file {}", file.path))? })
    };
    // The texts name the snapshot: a failure of a unit that resumes is blamed on its checkpoint,
    // not on this node.
    let from = |from: &SnapshotRef| -> Result<From, String> {
        let is_held = from.base.is_some_and(|base| holds == Some(base.id));
        let sent = from.base.as_ref().filter(|_| !is_held);
        Ok(From {
            bytes: stored(&from.blob, "its snapshot")?,
            is_held,
            base: sent.map(|base| stored(base, "its snapshot's base")).transpose()?,
            whole: from.base.unwrap_or(from.blob).id,
            root: from.root,
        })
    };
    let content = Task {
        arguments: task.arguments.clone(),
        environment: task.environment.clone(),
        stdin: fetch(&task.stdin, "the standard input")?,
        files: task.files.iter().map(file).collect::<Result<_, String>>()?,
        limits: task.limits,
        seed: task.seed,
        thread: None,
    };
    let from = task.from.as_ref().map(from).transpose()?;
    Ok(Job { run: run.0, task: content, key: task.key, from, ahead: *ahead })
}
