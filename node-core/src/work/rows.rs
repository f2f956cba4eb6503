//! Rows that an owner writes: enough to go on after a crash.
//!
//! Table `Jobs`: job id → [`JobRecord`]; job id and `e` → [`EndRecord`], so that ending a job
//! does not write its units again; job id and `t` → the [`Carrier`] of its threads; job id, `u`
//! and big-endian number → [`Partial`]. Table `Results`: job id and big-endian index → the result.
//! Table `Checkpoints`: the same key → [`UnitRecord`], while the unit has a checkpoint.

use crate::content::BlobRef;
use crate::disk::{Table, Write};
use crate::ids::{JobId, NodeId, UnitId};
use crate::work::computer::Carrier;
use crate::work::spec::{JobSpec, UnitResult};
use crate::work::unit_record::UnitRecord;
use crate::work::view::Partial;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct JobRecord {
    pub(super) spec: JobSpec,
    pub(super) client: NodeId,
    pub(super) submitted_ms: u64,
    /// Secret from which the keys of the units' checkpoints are derived.
    pub(super) secret: [u8; 32],
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct EndRecord {
    pub(super) cancelled: bool,
    pub(super) ended_ms: u64,
}

/// The blobs that a value of the table [`Table::Jobs`] refers to.
pub fn blobs_of_job(value: &[u8]) -> Vec<BlobRef> {
    let record: Result<JobRecord, _> = sandbox::unpack::from_slice(value);
    record.map(|record| record.spec.blobs().into_iter().collect()).unwrap_or_default()
}

pub(super) fn encode<T: Serialize>(value: &T) -> Bytes {
    // Only types without maps or unsized sequences are written; rmp cannot fail on them.
    rmp_serde::to_vec(value).map(Bytes::from).unwrap_or_default()
}

pub(super) fn job_write(job: JobId, record: &JobRecord) -> Write {
    Write { table: Table::Jobs, key: job.0.to_vec(), value: Some(encode(record)) }
}

/// State of the threads of a job; none: it is over.
pub(super) fn threads_write(job: JobId, carrier: Option<&Carrier>) -> Write {
    Write { table: Table::Jobs, key: [&job.0[..], b"t"].concat(), value: carrier.map(encode) }
}

/// A partial result of a job; `value`: none if it is forgotten.
pub(super) fn partial_write(job: JobId, number: u64, value: Option<&Partial>) -> Write {
    let key = [&job.0[..], b"u", &number.to_be_bytes()].concat();
    Write { table: Table::Jobs, key, value: value.map(encode) }
}

pub(super) fn end_write(job: JobId, record: &EndRecord) -> Write {
    let key = [&job.0[..], b"e"].concat();
    Write { table: Table::Jobs, key, value: Some(encode(record)) }
}

pub(super) fn result_write(unit: UnitId, result: &UnitResult) -> Write {
    Write { table: Table::Results, key: unit_key(unit), value: Some(encode(result)) }
}

pub(super) fn unit_write(unit: UnitId, record: Option<&UnitRecord>) -> Write {
    Write { table: Table::Checkpoints, key: unit_key(unit), value: record.map(encode) }
}

/// The key of a unit's row, in any table.
pub(super) fn unit_key(unit: UnitId) -> Vec<u8> {
    [&unit.job.0[..], &unit.index.to_be_bytes()].concat()
}

/// Row of the table `Jobs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobRow {
    Job,
    End,
    Threads,
    /// A partial result.
    Partial,
}

/// A key of `Jobs`: the job, and which of its rows.
pub(super) fn job_key(key: &[u8]) -> Option<(JobId, JobRow)> {
    let (id, rest) = key.split_at_checked(16)?;
    let id = JobId(id.try_into().ok()?);
    match rest {
        [] => Some((id, JobRow::Job)),
        b"e" => Some((id, JobRow::End)),
        b"t" => Some((id, JobRow::Threads)),
        [b'u', ..] => Some((id, JobRow::Partial)),
        _ => None,
    }
}

/// The unit that a key names.
pub(super) fn unit_of(key: &[u8]) -> Option<UnitId> {
    let (id, index) = key.split_at_checked(16)?;
    Some(UnitId { job: JobId(id.try_into().ok()?), index: u32::from_be_bytes(index.try_into().ok()?) })
}
