//! Rows that an owner on the ring writes. Table `Delegated`: job id → the description that its units share; job id
//! and big-endian index → the unit, as replicas have it; job id, index and `r` → its result, until its origin
//! has it.

use super::copies::Replica;
use super::{Act, Delegated, Delegation, Part, View};
use crate::address::Address;
use crate::disk::{Table, Write};
use crate::ids::{JobId, NodeId, UnitId};
use crate::work::book::State;
use crate::work::message::Report;
use crate::work::rows::{encode, unit_key, unit_write};
use bytes::Bytes;

/// A row that was read.
enum Row {
    Part(JobId, Part),
    Delegated(JobId, Delegated),
    Result(Report),
}

fn read(key: &[u8], value: &[u8]) -> Option<Row> {
    let (job, rest) = key.split_at_checked(16)?;
    let job = JobId(job.try_into().ok()?);
    Some(match rest.len() {
        0 => Row::Part(job, sandbox::unpack::from_slice(value).ok()?),
        4 => Row::Delegated(job, sandbox::unpack::from_slice(value).ok()?),
        _ => {
            let index = u32::from_be_bytes(rest.first_chunk().copied()?);
            let report: Report = sandbox::unpack::from_slice(value).ok()?;
            (report.unit == UnitId { job, index }).then_some(Row::Result(report))?
        }
    })
}

fn write(key: Vec<u8>, value: Option<Bytes>) -> Write {
    Write { table: Table::Delegated, key, value }
}

fn part_write(job: JobId, part: Option<&Part>) -> Write {
    write(job.0.to_vec(), part.map(encode))
}

fn delegated_write(unit: UnitId, delegated: Option<&Delegated>) -> Write {
    write(unit_key(unit), delegated.map(encode))
}

/// Row of a unit's result, until its origin has it.
pub fn end_write(unit: UnitId, report: Option<&Report>) -> Write {
    write([&unit_key(unit)[..], b"r"].concat(), report.map(encode))
}

pub(super) fn size_of(delegated: &Delegated) -> usize {
    encode(delegated).len()
}

impl Delegation {
    /// Origin of the job, if it is known here.
    pub(super) fn origin_of_job(&self, job: JobId, view: &View<'_>) -> Option<NodeId> {
        if view.jobs.is_own(job) {
            return Some(view.me);
        }
        let owned = self.owned.get(&job).map(|owned| owned.origin.id);
        owned.or_else(|| self.parts.get(&job).map(|part| part.origin.id))
    }

    pub(super) fn part_of(&self, job: JobId, view: &View<'_>) -> Option<Part> {
        let known = view.jobs.part(job, Address::of(view.me, self.me));
        known.or_else(|| self.parts.get(&job).cloned())
    }

    /// Whether nothing here needs the job's shared description.
    pub(super) fn is_spare(&self, job: JobId, view: &View<'_>) -> bool {
        !view.jobs.is_own(job) && !self.owned.contains_key(&job) && !self.parts.contains_key(&job)
    }

    pub(super) fn epoch_of(&self, unit: UnitId) -> Option<u32> {
        let owned = self.own(unit).map(|own| own.epoch);
        owned.or_else(|| self.origins.get(&unit.job).map(|ring| ring.epoch(unit.index)))
    }

    /// The unit as others are told of it; `None` if it is neither owned here nor of a job of this node.
    pub(super) fn delegated_of(&self, unit: UnitId, view: &View<'_>) -> Option<Delegated> {
        let stands = view.book.unit(unit)?;
        let (key, grants) = view.jobs.keys(unit)?;
        let runner = match stands.state {
            State::Placed => view.book.runner(unit).map(|node| {
                let mine = self.me.filter(|me| me.id == node);
                Address::of(node, mine.or_else(|| view.peers.contact(node)))
            }),
            State::Away => self.own(unit).and_then(|own| own.runner),
            _ => None,
        };
        let units = view.book.units(unit.job).filter(|_| stands.state == State::Held);
        let reason = units.and_then(|units| units.reason(unit.index));
        Some(Delegated {
            index: unit.index,
            spec: view.jobs.unit_spec(unit),
            key,
            grants,
            epoch: self.epoch_of(unit)?,
            attempts: stands.attempts,
            runner,
            record: view.jobs.record(unit).cloned().map(Box::new),
            held: reason.map(str::to_owned),
        })
    }

    /// Rows to write for a unit that is none of this node's own jobs, as it stands.
    pub fn rows(&mut self, unit: UnitId, view: &View<'_>) -> Vec<Write> {
        let Some(delegated) = self.delegated_of(unit, view) else { return self.rows_of_nothing(unit, view) };
        if let Some(own) = self.own_mut(unit) {
            own.runner = delegated.runner;
        }
        let first = self.written.insert(unit.job);
        let part = self.part_of(unit.job, view).filter(|_| first);
        let part = part.map(|part| part_write(unit.job, Some(&part)));
        part.into_iter().chain([delegated_write(unit, Some(&delegated))]).collect()
    }

    /// The unit is not this node's any more. Of what another owns, the row is as good as a copy.
    fn rows_of_nothing(&mut self, unit: UnitId, view: &View<'_>) -> Vec<Write> {
        let written = self.replicas.get(&unit).is_some_and(|copy| copy.written);
        if written || self.ends.contains(unit) {
            return Vec::new();
        }
        let id = unit.job;
        let part = (self.is_spare(id, view) && self.written.remove(&id)).then(|| part_write(id, None));
        let rows = [unit_write(unit, None), delegated_write(unit, None), end_write(unit, None)];
        rows.into_iter().chain(part).collect()
    }

    /// Entries of the table of delegated units. A unit that an earlier life owned is a copy until the ring names
    /// its owner.
    pub fn restore(&mut self, entries: &[(Vec<u8>, Bytes)], view: &View<'_>) {
        for (key, value) in entries {
            match read(key, value) {
                Some(Row::Part(job, part)) => {
                    self.written.insert(job);
                    self.parts.insert(job, part);
                }
                Some(Row::Delegated(job, delegated)) => {
                    let unit = UnitId { job, index: delegated.index };
                    if self.parts.contains_key(&job) {
                        self.replicas.insert(unit, Replica::new(view.me, delegated, true, view.now));
                    }
                }
                Some(Row::Result(report)) => {
                    if let Some(origin) = self.parts.get(&report.unit.job).map(|part| part.origin) {
                        self.keep_end(report, origin, view.now);
                    }
                }
                None => self.acts.push(Act::Trouble(
                    "what this node owned for others cannot be read and is left as it is; was it written by a newer version?"
                        .into(),
                )),
            }
        }
    }
}
