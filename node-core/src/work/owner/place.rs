//! Places for waiting units: ask the finder, grant what it found.

use super::{Event, Owner, Timer};
use crate::content::Data;
use crate::finding::{Found, Needs, Query, Queue};
use crate::ids::{JobId, NodeId, UnitId};
use crate::protocol::Cx;
use crate::ticket::ServiceId;
use crate::work::book::Units;
use crate::work::message::{ToRunner, UnitGrant};
use crate::work::spec::Template;

/// Bytes of units in one grant. Our choice: half a frame, so that an estimate may be wrong.
const GRANT_BYTES: usize = 512 << 10;

impl Owner {
    /// Asks for places for every job with waiting units. This node's own jobs go before units that it owns
    /// for other gateways, whose priorities their gateways choose; then higher priority first, within one
    /// priority in turns, beginning behind the job that was served last.
    pub(super) fn look(&mut self, cx: &mut Cx<'_, Self>) {
        if !self.is_ready() || self.active.is_empty() {
            return;
        }
        cx.set_timer_by(Timer::Look, super::LOOK_AGAIN);
        let mut order: Vec<(bool, i32, bool, JobId)> = self
            .active
            .iter()
            .filter_map(|id| {
                let job = self.jobs.get(id)?;
                // Units are not placed before their content is here: runners would not find it.
                if !self.delegation.is_here(*id) {
                    return None;
                }
                let had_its_turn = self.last_served.is_some_and(|last| *id <= last);
                Some((!job.is_own(), -job.spec.priority, had_its_turn, *id))
            })
            .collect();
        order.sort_unstable();
        for (_, _, _, id) in order {
            if self.payments.of(id).is_some() {
                self.buy(id, cx);
                continue;
            }
            let Some(job) = self.jobs.get_mut(&id) else { continue };
            let (units, memory_bytes) = (self.book.open(id), job.spec.template.limits.memory_bytes);
            let ended = self.book.units(id).map_or(0, Units::ended);
            let query = self.next_ticket;
            // While the swarm is searched for it, what nodes at hand have is used all the same.
            let swarm = job.asking.is_none();
            if swarm {
                job.asking = Some(query);
            }
            self.next_ticket += 1;
            self.queries.insert(query, id);
            let without = job.avoided.nodes(cx.now);
            let needs = Needs { memory_bytes, ..Needs::default() };
            let queue = match (job.is_short(ended), job.nowhere) {
                (true, _) => Queue::Yes,
                // In its turn it goes before larger jobs that would use all credit.
                (false, true) => Queue::One,
                (false, false) => Queue::No,
            };
            cx.emit(Event::Find(Query {
                ticket: ServiceId::Owner.ticket(query),
                units,
                needs,
                queue,
                swarm,
                without,
            }));
        }
    }

    pub(super) fn found(&mut self, found: Found, cx: &mut Cx<'_, Self>) {
        let Some(id) = self.queries.remove(&found.ticket.number) else { return };
        let Some(job) = self.jobs.get_mut(&id) else {
            found.places.iter().for_each(|place| Self::unused(place.node.id, place.units, cx));
            return;
        };
        if job.asking == Some(found.ticket.number) {
            job.asking = None;
            job.nowhere = found.places.is_empty() && found.shortage.is_some();
        }
        if !job.is_active() {
            found.places.iter().for_each(|place| Self::unused(place.node.id, place.units, cx));
            return;
        }
        if let Some(shortage) = found.shortage {
            job.shortage = Some(job.avoided.shortage(shortage, cx.now));
        }
        if !found.places.is_empty() {
            self.last_served = Some(id);
        }
        for place in found.places {
            let unused = self.grant(place.node.id, id, place.units, cx);
            Self::unused(place.node.id, unused, cx);
        }
        self.touch(id, cx);
    }

    /// Places that were found and not used are credit again.
    fn unused(node: NodeId, units: u32, cx: &mut Cx<'_, Self>) {
        if units > 0 {
            cx.emit(Event::Unused { node, units });
        }
    }

    /// Gives `runner` up to `units` waiting units of the job, in as many messages as needed. Returns
    /// how many places are left over.
    fn grant(&mut self, runner: NodeId, id: JobId, mut units: u32, cx: &mut Cx<'_, Self>) -> u32 {
        while units > 0 {
            let Some(job) = self.jobs.get_mut(&id) else { return units };
            // A search of the swarm knows nothing of it, or began before.
            if job.avoided.contains(runner, cx.now) {
                return units;
            }
            let mut size = size_of(&job.spec.template);
            let mut granted = Vec::new();
            while units > 0 && size < GRANT_BYTES {
                let Some((index, _)) = self.book.place_next(id, runner) else { break };
                // One that has to wait for its checkpoint leaves its place to the next.
                if let Some(grant) = self.begin(UnitId { job: id, index }, runner, cx) {
                    units -= 1;
                    size += size_of_unit(&grant);
                    granted.push(grant);
                }
            }
            if granted.is_empty() {
                return units;
            }
            self.send_grant(runner, id, granted, cx);
        }
        0
    }

    /// Keepers of the job's units at `from` are of no use, or too few.
    pub(super) fn need_keepers(
        &mut self,
        from: NodeId,
        id: JobId,
        lost: &[(NodeId, String)],
        cx: &mut Cx<'_, Self>,
    ) {
        if self.book.has_job(from, id) {
            self.nodes.cool(from, lost.iter().map(|(keeper, _)| *keeper), cx.now);
            let keepers = self.nodes.keepers_for(id, from, cx);
            Self::to_runner(from, ToRunner::Keepers { job: id, keepers }, cx);
        }
    }

    /// Tells the runner of units that are placed there.
    pub(super) fn send_grant(
        &mut self,
        runner: NodeId,
        id: JobId,
        mut units: Vec<UnitGrant>,
        cx: &mut Cx<'_, Self>,
    ) {
        for grant in &mut units {
            grant.keeper = grant.keeper.filter(|keeper| self.nodes.can_keep(runner, keeper.id, cx));
        }
        let keepers = match self.jobs.get(&id).and_then(|job| job.spec.template.checkpoint.duration()) {
            Some(_) => self.nodes.keepers_for(id, runner, cx),
            None => Vec::new(),
        };
        let Some(job) = self.jobs.get(&id) else { return };
        let paused: Vec<u32> =
            units.iter().map(|unit| unit.index).filter(|index| job.paused.contains(index)).collect();
        let batch = job.batch(id, keepers, units);
        let placed: Vec<UnitId> =
            batch.units.iter().map(|unit| UnitId { job: id, index: unit.index }).collect();
        let lease = self.lease_of(runner, cx).granted();
        placed.iter().for_each(|unit| self.book.grant(*unit, runner));
        Self::to_runner(runner, ToRunner::Grant { lease, batches: vec![batch] }, cx);
        for index in paused {
            let unit = UnitId { job: id, index };
            Self::to_runner(runner, ToRunner::Pause { unit, paused: true }, cx);
        }
        self.delegate(cx, |it, _| it.name_successors(runner, &placed));
    }
}

fn size_of(template: &Template) -> usize {
    let strings: usize = template.arguments.iter().map(|s| s.len() + 5).sum();
    let environment: usize = template.environment.iter().map(|(k, v)| k.len() + v.len() + 10).sum();
    let files: usize = template.files.iter().map(|f| f.path.len() + size_of_data(&f.data)).sum();
    256 + strings + environment + files + size_of_data(&template.stdin)
}

fn size_of_unit(grant: &UnitGrant) -> usize {
    // Names and sizes of two blobs and their sources, if it goes on from somewhere.
    let resume = grant.resume.as_ref().map_or(0, |resume| 300 + 120 * resume.sources.len());
    // A signature, two ids, and what it is about.
    let resume = resume + grant.receipt.as_ref().map_or(0, |receipt| 110 + receipt.body.len());
    let resume = resume + grant.keeper.map_or(0, |_| 120);
    let Some(unit) = &grant.spec else { return KEY + resume };
    let arguments: usize = unit.arguments.iter().flatten().map(|s| s.len() + 5).sum();
    let files: usize = unit.files.iter().map(|f| f.path.len() + size_of_data(&f.data)).sum();
    KEY + resume + arguments + files + unit.stdin.as_ref().map_or(0, size_of_data)
}

/// A unit's key, number and attempt, encoded.
const KEY: usize = 80;

/// Encoded size, generously.
fn size_of_data(data: &Data) -> usize {
    64 + match data {
        Data::Inline(bytes) => bytes.len(),
        Data::Blob(_) => 0,
    }
}
