//! Jobs that come in: whether they may, and which ended ones are forgotten for them.

use super::job::{Job, Phase, weight_of};
use crate::bounds::Bounds;
use crate::disk::{Table, Write};
use crate::ids::{JobId, NodeId, UnitId};
use crate::work::rows::{self, EndRecord, JobRecord};
use crate::work::spec::{JobSpec, OwnedBy};
use crate::work::submission;
use std::collections::BTreeMap;

/// Why a gateway does not take a job.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotTaken {
    #[error(transparent)]
    Unfit(#[from] submission::Unfit),
    #[error("this node is on no ring that could own the units; leave `owner` out")]
    NoRing,
    #[error(
        "a job that buys its places is owned by the node that takes it, which has the budget; use owner = \"ring\" without \
         a price, or leave `owner` out"
    )]
    RingBuysNothing,
    #[error(
        "this gateway takes no jobs from {0}; submit through its page or API, or ask its operator to start it \
         with --submitter {0}"
    )]
    Stranger(NodeId),
    #[error(
        "a job that buys its places is paid by the gateway that takes it; submit it at a node of your own, \
         whose account pays"
    )]
    Buys,
    #[error("the node has {0} unfinished jobs, its bound; try later")]
    Jobs(usize),
    #[error(
        "the job needs {needs_kib} KiB of the node's memory, which keeps {most_mib} MiB for all jobs and has \
         not as much left; wait until others have ended, or cancel some"
    )]
    Memory { needs_kib: u64, most_mib: u64 },
}

/// Whether a gateway with these bounds takes the job.
///
/// # Errors
/// [`NotTaken`] says why not.
pub(super) fn check_spec(spec: &JobSpec, limits: &Bounds) -> Result<(), NotTaken> {
    submission::check(spec, limits)?;
    if spec.owner == OwnedBy::Ring {
        if limits.delegated_units == 0 {
            return Err(NotTaken::NoRing);
        }
        if spec.find.terms().is_some() {
            return Err(NotTaken::RingBuysNothing);
        }
    }
    Ok(())
}

/// Whether this client may give jobs to this node: the node itself, and whom its operator let in. Each
/// pays from its own account, so that only the node itself gives it jobs that buy.
///
/// # Errors
/// [`NotTaken`] says why not.
pub(super) fn check_client(
    client: NodeId,
    spec: &JobSpec,
    me: NodeId,
    submitters: &BTreeMap<NodeId, u16>,
) -> Result<(), NotTaken> {
    if client == me {
        return Ok(());
    }
    if !submitters.contains_key(&client) {
        return Err(NotTaken::Stranger(client));
    }
    if spec.find.terms().is_some() {
        return Err(NotTaken::Buys);
    }
    Ok(())
}

/// Jobs to forget so that there is room for one more, those that ended first; none if that does not suffice.
/// Units of other gateways have bounds of their own.
///
/// # Errors
/// [`NotTaken`] says why there is no room.
pub(super) fn to_forget(
    jobs: &BTreeMap<JobId, Job>,
    spec: &JobSpec,
    limits: &Bounds,
) -> Result<Vec<JobId>, NotTaken> {
    let new = weight_of(spec);
    let is_over = |job: &Job| matches!(job.phase, Phase::Over { .. });
    let (count, bytes) = held(jobs, |job| !is_over(job));
    if count >= limits.jobs {
        return Err(NotTaken::Jobs(count));
    }
    if bytes.saturating_add(new) > limits.jobs_bytes {
        return Err(NotTaken::Memory { needs_kib: new >> 10, most_mib: limits.jobs_bytes >> 20 });
    }
    let mut ended: Vec<(&JobId, &Job)> = jobs.iter().filter(|(_, job)| is_over(job)).collect();
    ended.sort_by_key(|(id, job)| (job.ended_ms, **id));
    let (mut count, mut bytes) = held(jobs, |_| true);
    let needed = ended.into_iter().take_while(|(_, job)| {
        let is_full = count >= limits.jobs || bytes.saturating_add(new) > limits.jobs_bytes;
        (count, bytes) = (count.saturating_sub(1), bytes.saturating_sub(job.weight));
        is_full
    });
    Ok(needed.map(|(id, _)| *id).collect())
}

/// Number of this node's own jobs, and bytes of memory that they take.
fn held(jobs: &BTreeMap<JobId, Job>, which: impl Fn(&Job) -> bool) -> (usize, u64) {
    let own = jobs.values().filter(|job| job.is_own() && which(job));
    own.fold((0, 0), |(jobs, bytes), job| (jobs + 1, bytes.saturating_add(job.weight)))
}

/// Rows of a job that is forgotten; `ended`: units that have a result.
pub(super) fn rows_to_forget(id: JobId, job: &Job, ended: impl Iterator<Item = u32>) -> Vec<Write> {
    let record = JobRecord { spec: job.spec.clone(), client: job.client, submitted_ms: 0, secret: [0; 32] };
    let end = EndRecord { cancelled: false, ended_ms: 0 };
    let of_job = [rows::job_write(id, &record), rows::end_write(id, &end)];
    let keys = of_job.into_iter().map(|write| (write.table, write.key));
    let results = ended.map(|index| (Table::Results, rows::unit_key(UnitId { job: id, index })));
    keys.chain(results).map(|(table, key)| Write { table, key, value: None }).collect()
}
