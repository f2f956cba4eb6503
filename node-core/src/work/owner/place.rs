//! Places for waiting units: ask the finder, grant what it found.

use super::{Event, Owner, Timer};
use crate::discovery::{Found, Needs, Query};
use crate::ids::{JobId, NodeId, UnitId};
use crate::protocol::Cx;
use crate::work::message::{Batch, ToRunner, UnitGrant};
use crate::work::spec::{Data, Template, UnitSpec, Units};

/// Bytes of units in one grant. Our choice: half a frame, so that an estimate may be wrong.
const GRANT_BYTES: usize = 512 << 10;

impl Owner {
    /// Asks for places for every job with waiting units: higher priority first, within one
    /// priority in turns, beginning behind the job that was served last.
    pub(super) fn look(&mut self, cx: &mut Cx<'_, Self>) {
        if !self.is_ready() || self.active.is_empty() {
            return;
        }
        cx.set_timer_by(Timer::Look, super::LOOK_AGAIN);
        let mut order: Vec<(i32, bool, JobId)> = self
            .active
            .iter()
            .filter_map(|id| {
                let job = self.jobs.get(id).filter(|job| !job.asking)?;
                let had_its_turn = self.last_served.is_some_and(|last| *id <= last);
                Some((-job.spec.priority, had_its_turn, *id))
            })
            .collect();
        order.sort_unstable();
        for (_, _, id) in order {
            let Some(job) = self.jobs.get_mut(&id) else { continue };
            job.asking = true;
            let (units, memory_bytes) = (job.waiting(), job.spec.template.limits.memory_bytes);
            let query = self.next_ticket;
            self.next_ticket += 1;
            self.queries.insert(query, id);
            let needs = Needs { memory_bytes, ..Needs::default() };
            cx.emit(Event::Find(Query { id: query, units, needs }));
        }
    }

    pub(super) fn found(&mut self, found: Found, cx: &mut Cx<'_, Self>) {
        let Some(id) = self.queries.remove(&found.query) else { return };
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.asking = false;
        if !job.is_active() {
            return;
        }
        if found.shortage.is_some() {
            job.shortage = found.shortage;
        }
        if !found.places.is_empty() {
            self.last_served = Some(id);
        }
        for place in found.places {
            self.grant(place.node, id, place.units, cx);
        }
        self.touch(id, cx);
    }

    /// Gives `runner` up to `units` waiting units of the job, in as many messages as needed.
    fn grant(&mut self, runner: NodeId, id: JobId, mut units: u32, cx: &mut Cx<'_, Self>) {
        while units > 0 {
            let Some(job) = self.jobs.get_mut(&id) else { return };
            let mut size = size_of(&job.spec.template);
            let mut granted = Vec::new();
            while units > 0 && size < GRANT_BYTES {
                let Some(index) = job.place_next(runner) else { break };
                units -= 1;
                let spec = match &job.spec.units {
                    Units::Sweep { .. } => None,
                    Units::List(list) => list.get(index as usize).cloned(),
                };
                size += 12 + spec.as_ref().map_or(0, size_of_unit);
                let attempt = job.slot(index).map_or(1, |s| s.attempts);
                granted.push(UnitGrant { index, attempt, spec });
            }
            if granted.is_empty() {
                return;
            }
            let batch = Batch {
                job: id,
                name: job.spec.name.clone(),
                template: job.spec.template.clone(),
                sweep_first: match job.spec.units {
                    Units::Sweep { first, .. } => Some(first),
                    Units::List(_) => None,
                },
                units: granted,
            };
            let held = self.lease_of(runner, cx);
            for unit in &batch.units {
                held.add(UnitId { job: id, index: unit.index });
            }
            let lease = held.granted();
            Self::to_runner(runner, ToRunner::Grant { lease, batches: vec![batch] }, cx);
        }
    }
}

fn size_of(template: &Template) -> usize {
    let strings: usize = template.arguments.iter().map(|s| s.len() + 5).sum();
    let environment: usize = template.environment.iter().map(|(k, v)| k.len() + v.len() + 10).sum();
    let files: usize = template.files.iter().map(|f| f.path.len() + size_of_data(&f.data)).sum();
    256 + strings + environment + files + size_of_data(&template.stdin)
}

fn size_of_unit(unit: &UnitSpec) -> usize {
    let arguments: usize = unit.arguments.iter().flatten().map(|s| s.len() + 5).sum();
    let files: usize = unit.files.iter().map(|f| f.path.len() + size_of_data(&f.data)).sum();
    arguments + files + unit.stdin.as_ref().map_or(0, size_of_data)
}

/// Encoded size, generously.
fn size_of_data(data: &Data) -> usize {
    64 + match data {
        Data::Inline(bytes) => bytes.len(),
        Data::Blob(_) => 0,
    }
}
