//! Rows that an owner on the ring writes. Table `Delegated`: job id → the description that its units share; job id
//! and big-endian index → the unit, as replicas have it; job id, index and `r` → its result, until its origin
//! has it.

use super::owned::Ownership;
use super::{Delegated, Owner, Part};
use crate::address::Address;
use crate::disk::{Table, Write};
use crate::ids::{JobId, NodeId, UnitId};
use crate::protocol::Cx;
use crate::work::book::State;
use crate::work::message::Report;
use crate::work::owner::job::Job;
use crate::work::rows::{self, encode, unit_key};
use bytes::Bytes;

/// A row that was read.
pub(super) enum Row {
    Part(JobId, Part),
    Delegated(JobId, Delegated),
    Result(Report),
}

pub(super) fn read(key: &[u8], value: &[u8]) -> Option<Row> {
    let (job, rest) = key.split_at_checked(16)?;
    let job = JobId(job.try_into().ok()?);
    Some(match rest.len() {
        0 => Row::Part(job, rmp_serde::from_slice(value).ok()?),
        4 => Row::Delegated(job, rmp_serde::from_slice(value).ok()?),
        _ => {
            let index = u32::from_be_bytes(rest.first_chunk().copied()?);
            let report: Report = rmp_serde::from_slice(value).ok()?;
            (report.unit == UnitId { job, index }).then_some(Row::Result(report))?
        }
    })
}

fn write(key: Vec<u8>, value: Option<Bytes>) -> Write {
    Write { table: Table::Delegated, key, value }
}

pub(super) fn part_write(job: JobId, part: Option<&Part>) -> Write {
    write(job.0.to_vec(), part.map(encode))
}

pub(super) fn delegated_write(unit: UnitId, delegated: Option<&Delegated>) -> Write {
    write(unit_key(unit), delegated.map(encode))
}

pub(super) fn end_write(unit: UnitId, report: Option<&Report>) -> Write {
    write([&unit_key(unit)[..], b"r"].concat(), report.map(encode))
}

pub(super) fn size_of(delegated: &Delegated) -> usize {
    encode(delegated).len()
}

impl Job {
    /// Description that the job's units share, for others; `me`: the origin, if it is this node.
    pub(super) fn part(&self, me: Address) -> Part {
        Part {
            home: self.delegated.as_ref().map_or(me, |delegated| delegated.home),
            name: self.spec.name.clone(),
            template: self.spec.template.clone(),
            sweep_first: self.sweep_first(),
            priority: self.spec.priority,
            max_retries: self.spec.max_retries,
        }
    }
}

impl Owner {
    fn myself(&self, me: NodeId) -> Address {
        Address::of(me, self.delegation.me)
    }

    pub(super) fn part_of(&self, job: JobId, me: NodeId) -> Option<Part> {
        let known = self.jobs.get(&job).map(|job| job.part(self.myself(me)));
        known.or_else(|| self.delegation.parts.get(&job).cloned())
    }

    pub(super) fn term_of(&self, unit: UnitId) -> Option<u32> {
        let job = self.jobs.get(&unit.job)?;
        let delegated = job.delegated.as_ref().and_then(|delegated| Some(delegated.of(unit.index)?.term));
        delegated.or_else(|| job.ring.as_ref().map(|ring| ring.term(unit.index)))
    }

    /// The unit as others are told of it.
    pub(super) fn delegated_of(&self, unit: UnitId, cx: &Cx<'_, Self>) -> Option<Delegated> {
        let job = self.jobs.get(&unit.job)?;
        let stands = self.book.unit(unit)?;
        let known = job.delegated.as_ref().and_then(|delegated| delegated.of(unit.index)?.runner);
        let runner = match stands.state {
            State::Placed => self.book.runner(unit).map(|node| {
                let contact = if Some(node) == self.delegation.me.map(|me| me.id) {
                    self.delegation.me
                } else {
                    cx.peers.contact(node)
                };
                Address::of(node, contact)
            }),
            State::Away => known,
            _ => None,
        };
        let units = self.book.units(unit.job).filter(|_| stands.state == State::Held);
        let reason = units.and_then(|units| units.reason(unit.index));
        Some(Delegated {
            index: unit.index,
            spec: job.unit_spec(unit.index),
            key: job.key(unit.index),
            grants: job.grants(unit.index),
            term: self.term_of(unit)?,
            attempts: stands.attempts,
            runner,
            record: job.records.get(&unit.index).cloned(),
            held: reason.map(str::to_owned),
        })
    }

    /// All units that this node owns for others.
    pub(super) fn all_delegated(&self) -> Vec<UnitId> {
        let jobs = self.jobs.iter().filter_map(|(id, job)| Some((id, job.delegated.as_ref()?)));
        jobs.flat_map(|(job, delegated)| delegated.indices().map(|index| UnitId { job: *job, index }))
            .collect()
    }

    /// Rows to write for a unit whose record changed.
    pub(in crate::work::owner) fn rows_of(&mut self, unit: UnitId, cx: &Cx<'_, Self>) -> Vec<Write> {
        if self.jobs.get(&unit.job).is_some_and(|job| job.delegated.is_none()) {
            return vec![rows::unit_write(unit, self.record(unit))];
        }
        let Some(delegated) = self.delegated_of(unit, cx) else { return self.rows_of_nothing(unit) };
        let job = self.jobs.get_mut(&unit.job);
        if let Some(known) = job.and_then(|job| job.delegated.as_mut()?.of_mut(unit.index)) {
            known.runner = delegated.runner;
        }
        let first = self.delegation.written.insert(unit.job);
        let part = self.part_of(unit.job, cx.me).filter(|_| first);
        let part = part.map(|part| part_write(unit.job, Some(&part)));
        part.into_iter().chain([delegated_write(unit, Some(&delegated))]).collect()
    }

    /// The unit is not this node's any more. Of what another owns, the row is as good as a copy.
    fn rows_of_nothing(&mut self, unit: UnitId) -> Vec<Write> {
        let written = self.delegation.replicas.get(&unit).is_some_and(|copy| copy.written);
        if written || self.delegation.ended.contains_key(&unit) {
            return Vec::new();
        }
        let id = unit.job;
        let spare = !self.jobs.contains_key(&id) && !self.delegation.parts.contains_key(&id);
        let part = (spare && self.delegation.written.remove(&id)).then(|| part_write(id, None));
        let rows = [rows::unit_write(unit, None), delegated_write(unit, None), end_write(unit, None)];
        rows.into_iter().chain(part).collect()
    }

    /// Row to write for a unit that has ended.
    pub(in crate::work::owner) fn row_of_result(&self, report: &Report) -> Write {
        match self.jobs.get(&report.unit.job) {
            Some(job) if job.delegated.is_none() => rows::result_write(report.unit, &report.result),
            _ => end_write(report.unit, Some(report)),
        }
    }

    /// Entries of the table of delegation.
    pub(in crate::work::owner) fn restore_delegated(
        &mut self,
        entries: &[(Vec<u8>, Bytes)],
        cx: &mut Cx<'_, Self>,
    ) {
        for (key, value) in entries {
            match read(key, value) {
                Some(Row::Part(job, part)) => {
                    self.delegation.written.insert(job);
                    self.delegation.parts.insert(job, part);
                }
                Some(Row::Delegated(job, delegated)) => self.restore_one(job, delegated, cx),
                Some(Row::Result(report)) => self.restore_end(report, cx),
                None => cx.trouble("what this node owned for others cannot be read and is left as it is; was it written by a newer version?".into()),
            }
        }
    }
}

impl Ownership {
    pub(super) fn indices(&self) -> impl Iterator<Item = u32> + '_ {
        self.delegation.keys().copied()
    }
}
