//! Checkpoints that a node leaves for its own next life: a page that is loaded again is the same node, and goes
//! on from where its units stood when it went.
//!
//! The newest checkpoint of each unit that runs here is written down with the number of the unit's grant,
//! bounded in bytes, the oldest dropped first. It says nothing about whether the unit is still wanted: the next
//! life asks the owner, as a runner does that was cut off, and the owner's next grant decides where the unit
//! goes on.

use super::{Event, Runner, Ticket, Timer};
use crate::address::Address;
use crate::content::{BlobRef, NotFetched};
use crate::disk::{Table, Write};
use crate::ids::{JobId, NodeId, UnitId};
use crate::progress::{Checkpoint, Made};
use crate::protocol::Cx;
use crate::work::message::{Returned, UnitGrant};
use crate::work::proof::GrantProof;
use bytes::Bytes;
use litemap::LiteMap;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Between two questions to owners. Our choice: as between requests to keepers; an owner that
/// starts needs a few seconds before it can answer.
const ASK: Duration = Duration::from_secs(3);

/// An owner that has not answered by then has gone for good, as far as this node's room goes. Our
/// choice: a machine restarts in less, and units that wait for a runner say minutes.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

#[derive(Debug, Default)]
pub(super) struct Left {
    /// Records on the disk.
    written: LiteMap<UnitId, Box<Record>>,
    /// Units of an earlier life, until the owner has said what becomes of each.
    found: LiteMap<UnitId, Box<Found>>,
    age: u64,
    commits: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Record {
    owner: NodeId,
    /// The newest grant's.
    attempt: u32,
    proof: GrantProof,
    /// A higher one was written later.
    age: u64,
    made: Made,
}

#[derive(Debug)]
struct Found {
    owner: NodeId,
    attempt: u32,
    proof: GrantProof,
    made: Made,
    ticket: u64,
    here: bool,
}

/// A new grant of a unit of which an earlier life left a checkpoint.
pub(super) struct Again {
    attempt: u32,
    proof: GrantProof,
    from: Option<Checkpoint>,
}

impl Again {
    pub(super) fn of(grant: &UnitGrant) -> Again {
        let from = grant.resume.as_ref().map(|resume| resume.checkpoint);
        Again { attempt: grant.attempt, proof: grant.proof, from }
    }
}

impl Record {
    fn bytes(&self) -> u64 {
        self.made.checkpoint.parts().iter().map(|part| part.len).fold(0, u64::saturating_add)
    }

    fn write(&self) -> Write {
        // All fields encode; an empty value would be dropped as unreadable.
        let value = rmp_serde::to_vec(self).unwrap_or_default();
        Write { table: Table::Left, key: key_of(self.made.unit), value: Some(value.into()) }
    }
}

/// The blobs that a value of the table [`Table::Left`] refers to: a disk that has no room for all
/// blobs keeps these.
pub fn blobs_of(value: &[u8]) -> Vec<BlobRef> {
    sandbox::unpack::from_slice::<Record>(value)
        .map(|record| record.made.checkpoint.parts())
        .unwrap_or_default()
}

fn key_of(unit: UnitId) -> Vec<u8> {
    [&unit.job.0[..], &unit.index.to_be_bytes()].concat()
}

fn unit_of(key: &[u8]) -> Option<UnitId> {
    let (job, index) = key.split_at_checked(16)?;
    Some(UnitId { job: JobId(job.try_into().ok()?), index: u32::from_be_bytes(index.try_into().ok()?) })
}

impl Left {
    pub(super) fn bytes(&self) -> u64 {
        self.written.values().map(|record| record.bytes()).fold(0, u64::saturating_add)
    }

    fn commit(&mut self, writes: Vec<Write>, cx: &mut Cx<'_, Runner>) {
        self.commits += 1;
        cx.emit(Event::Commit { ticket: self.commits, writes });
    }

    fn drop_written(&mut self, id: UnitId, cx: &mut Cx<'_, Runner>) {
        if self.written.remove(&id).is_some() {
            self.commit(vec![gone(key_of(id))], cx);
        }
    }
}

fn gone(key: Vec<u8>) -> Write {
    Write { table: Table::Left, key, value: None }
}

impl Runner {
    /// Writes down where the unit stands.
    pub(super) fn leave(&mut self, id: UnitId, cx: &mut Cx<'_, Self>) {
        let bound = self.config.limits.left_bytes;
        let Some(unit) = self.units.get(&id).filter(|_| bound > 0) else { return };
        let Some(made) = unit.made(id) else { return };
        self.left.age += 1;
        // The owner knows the checkpoint's keepers.
        let made = Made { kept: Vec::new(), ..made };
        let (owner, attempt, proof) = (unit.owner, unit.attempt, unit.proof);
        let record = Record { owner, attempt, proof, age: self.left.age, made };
        if record.bytes() > bound {
            return self.left.drop_written(id, cx);
        }
        let mut writes = vec![record.write()];
        self.left.written.insert(id, Box::new(record));
        while self.left.bytes() > bound {
            let oldest = self.left.written.iter().min_by_key(|(_, record)| record.age);
            let Some(oldest) = oldest.map(|(id, _)| *id) else { break };
            self.left.written.remove(&oldest);
            writes.push(gone(key_of(oldest)));
        }
        self.left.commit(writes, cx);
    }

    pub(super) fn leave_nothing(&mut self, id: UnitId, cx: &mut Cx<'_, Self>) {
        self.left.drop_written(id, cx);
    }

    /// From the disk, at start.
    pub(super) fn restore(&mut self, entries: Vec<(Vec<u8>, Bytes)>, cx: &mut Cx<'_, Self>) {
        let mut bad = Vec::new();
        for (key, value) in entries {
            let record = sandbox::unpack::from_slice::<Box<Record>>(&value).ok();
            let Some((id, record)) = unit_of(&key).zip(record).filter(|(id, r)| r.made.unit == *id) else {
                bad.push(gone(key));
                continue;
            };
            self.left.age = self.left.age.max(record.age);
            // It has been given again already, or there is less room than there was.
            if self.units.contains_key(&id)
                || self.left.bytes().saturating_add(record.bytes()) > self.config.limits.left_bytes
            {
                bad.push(gone(key));
                continue;
            }
            let record = self.pin(id, record, cx);
            self.left.written.insert(id, record);
        }
        if !bad.is_empty() {
            self.left.commit(bad, cx);
        }
    }

    /// Keeps what is left of the unit until the owner has said what becomes of it.
    fn pin(&mut self, id: UnitId, record: Box<Record>, cx: &mut Cx<'_, Self>) -> Box<Record> {
        let ticket = self.ticket(Ticket::Left(id));
        let blobs = record.made.checkpoint.parts();
        let Record { owner, attempt, proof, made, .. } = (*record).clone();
        self.left.found.insert(id, Box::new(Found { owner, attempt, proof, made, ticket, here: false }));
        cx.set_timer(Timer::LeftOver, PATIENCE);
        // It is here; should the disk have lost a part, the owner often keeps it.
        let from = vec![Address::here(owner)];
        cx.emit(Event::FetchSnapshot { ticket, blobs, from });
        record
    }

    /// The unit goes, but nobody else has got what it stopped with.
    pub(super) fn remove_and_leave(&mut self, id: UnitId, cx: &mut Cx<'_, Self>) {
        let record = self.left.written.remove(&id);
        // Pinned before the unit lets go of it.
        let pinned = record.map(|record| self.pin(id, record, cx));
        self.remove(id, cx);
        if let Some(record) = pinned {
            self.left.written.insert(id, record);
        }
    }

    /// The checkpoint that was left of the unit is on the disk, or not.
    pub(super) fn left_came(&mut self, id: UnitId, result: Result<(), NotFetched>, cx: &mut Cx<'_, Self>) {
        let Some(found) = self.left.found.get_mut(&id) else { return };
        if result.is_err() {
            self.take_found(id, cx);
            return self.left.drop_written(id, cx);
        }
        found.here = true;
        cx.set_timer_by(Timer::Left, Duration::ZERO);
    }

    pub(super) fn ask_after_left(&mut self, cx: &mut Cx<'_, Self>) {
        if self.left.found.is_empty() {
            return;
        }
        let owners: Vec<NodeId> =
            self.owners.iter().filter(|(_, owner_state)| owner_state.connected).map(|(id, _)| *id).collect();
        owners.into_iter().for_each(|owner| self.ask_after(owner, 0, cx));
        cx.set_timer(Timer::Left, ASK);
    }

    /// Whether an earlier life has left something of this owner's units.
    pub(super) fn left_of(&self, owner: NodeId) -> bool {
        self.left.found.values().any(|found| found.owner == owner)
    }

    /// Units of an earlier life to ask the owner about; none while this node takes no units.
    pub(super) fn left_for(&self, owner: NodeId) -> impl Iterator<Item = Returned> + '_ {
        let takes = self.slots > 0 && !self.is_closed();
        let its =
            self.left.found.iter().filter(move |(_, found)| takes && found.here && found.owner == owner);
        its.map(|(id, found)| {
            let Found { attempt, proof, made, .. } = &**found;
            Returned { unit: *id, attempt: *attempt, proof: *proof, made: Some(made.clone()) }
        })
    }

    /// The unit was granted here: it goes on from what was left of it, or from what is newer.
    pub(super) fn left_again(&mut self, id: UnitId, again: Again, cx: &mut Cx<'_, Self>) {
        if let Some(found) = self.take_found(id, cx)
            && again.from != Some(found.made.checkpoint)
        {
            return self.left.drop_written(id, cx);
        }
        // A next life asks by the number of the newest grant.
        let Some(record) = self.left.written.get_mut(&id) else { return };
        if record.attempt != again.attempt {
            (record.attempt, record.proof) = (again.attempt, again.proof);
            let write = record.write();
            self.left.commit(vec![write], cx);
        }
    }

    /// The owner does not want it from here.
    pub(super) fn left_unwanted(&mut self, from: NodeId, id: UnitId, cx: &mut Cx<'_, Self>) {
        if self.left.found.get(&id).is_some_and(|found| found.owner == from) {
            self.take_found(id, cx);
            self.left.drop_written(id, cx);
        }
    }

    /// Nobody has asked for the rest.
    pub(super) fn left_over(&mut self, cx: &mut Cx<'_, Self>) {
        let rest: Vec<UnitId> = self.left.found.keys().copied().collect();
        for id in rest {
            self.take_found(id, cx);
            self.left.drop_written(id, cx);
        }
    }

    fn take_found(&mut self, id: UnitId, cx: &mut Cx<'_, Self>) -> Option<Box<Found>> {
        let found = self.left.found.remove(&id)?;
        self.tickets.remove(&found.ticket);
        cx.emit(Event::ReleaseSnapshot { ticket: found.ticket });
        Some(found)
    }
}
