//! What client, owner and runner say to each other.

use super::spec::{JobSpec, Template, UnitResult, UnitSpec};
use crate::ids::{JobId, UnitId};
use serde::{Deserialize, Serialize};

/// Names a period in which a runner holds units of an owner. A larger one replaces it.
pub type Lease = u64;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    ToOwner(ToOwner),
    ToRunner(ToRunner),
    ToClient(ToClient),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToOwner {
    /// From a client. Repeating it is harmless.
    Submit { job: JobId, spec: Box<JobSpec> },
    /// From the client that submitted it.
    Cancel { job: JobId },
    /// From a runner: it lives. `grants` counts the grants received under the lease; now and
    /// then, and after a reconnection, `units` lists all that it holds, results that were not
    /// acknowledged included, so that what was lost on the wire is placed again.
    Heartbeat { lease: Lease, grants: u64, units: Option<Vec<(JobId, Vec<u32>)>> },
    /// Finished units, whatever lease they were given under. Repeated until acknowledged.
    Report { seq: u64, results: Vec<Report> },
    /// Units that the runner will not run, with the reason for people; `tried`: it would have,
    /// but could not.
    Decline { lease: Lease, units: Vec<UnitId>, reason: String, tried: bool },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    pub unit: UnitId,
    pub result: UnitResult,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToRunner {
    Grant {
        lease: Lease,
        batches: Vec<Batch>,
    },
    /// The results of this report are durable; forget them.
    Ack {
        seq: u64,
    },
    /// The lease is over and its units are placed elsewhere. What has ended may be reported.
    LeaseOver {
        lease: Lease,
    },
    /// Nobody wants the units of this job any more.
    Revoke {
        job: JobId,
    },
}

/// Units of one job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    pub job: JobId,
    /// The job's name, for the donor.
    pub name: String,
    pub template: Template,
    /// `{}` is this plus the unit's index, if the job is a sweep.
    pub sweep_first: Option<u64>,
    pub units: Vec<UnitGrant>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitGrant {
    pub index: u32,
    /// Counted from 1.
    pub attempt: u32,
    pub spec: Option<UnitSpec>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToClient {
    Accepted { job: JobId },
    Refused { job: JobId, reason: String },
    Ended { job: JobId },
}
