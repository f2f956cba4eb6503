//! Messages between client, job owner, runner and keeper.

use super::spec::{JobSpec, Template, UnitResult, UnitSpec};
use crate::address::Address;
use crate::content::BlobRef;
use crate::engine::SealKey;
use crate::ids::{JobId, NodeId, UnitId};
use crate::keys::Signed;
use crate::money::Price;
use crate::progress::{Made, Resume, Version};
use crate::work::delegated;
use crate::work::proof::GrantProof;
use sandbox::swarm::{Choice, Letter, Said};
use serde::{Deserialize, Serialize};

/// Names a period in which a runner holds units of an owner. A larger one replaces it.
pub type Lease = u64;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    ToOwner(ToOwner),
    ToRunner(ToRunner),
    ToClient(ToClient),
    ToKeeper(ToKeeper),
    /// Between origin, owner and successors of units on the ring.
    Delegated(delegated::Message),
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
    /// Units that the runner will not run, with the reason for people.
    Decline { lease: Lease, units: Vec<UnitId>, cause: Cause, reason: String },
    /// Units that found no free slot here for longer than a queue of short units lasts. The sender
    /// is not to blame, and neither are they.
    NotBegun { lease: Lease, units: Vec<UnitId> },
    /// The runner has these units from another owner, as far as it knows. If the ring names the sender
    /// of the grant now, it claims them.
    OfAnother { lease: Lease, units: Vec<UnitId> },
    /// Checkpoints that keepers have. Repeated until recorded.
    Checkpoints { made: Vec<Made> },
    /// The unit does not run here any more: it was asked to stop, or the node goes away. `made`
    /// lies here until the owner says that it can be forgotten; none: it had not begun, or it goes
    /// on from what is recorded. `attempt` is the grant's: a repetition may cross the next.
    Suspended { lease: Lease, attempt: u32, unit: UnitId, made: Option<Made> },
    /// The unit cannot be suspended and runs on.
    Immobile { unit: UnitId, reason: String },
    /// The answer to `Prepare`: all is here, or why it cannot be. `unreached`: because no source could be reached.
    Prepared { unit: UnitId, error: Option<String>, unreached: bool },
    /// The checkpoint that the unit goes on from is at the runner.
    Resumed { unit: UnitId },
    /// It executes again.
    Running { unit: UnitId },
    /// The unit cannot go on from this checkpoint; it is not the unit's fault. `unreached`: no source could be
    /// reached.
    Unusable { lease: Lease, unit: UnitId, version: Version, reason: String, unreached: bool },
    /// Units of a lease that was lost, or of an earlier life of the node, with the number of their
    /// grant and their newest checkpoints: are they still wanted here?
    Returned { units: Vec<Returned> },
    /// These keepers of the job's units here do not answer or refuse, with the reasons; fewer than
    /// there should be are left.
    NeedKeepers { job: JobId, lost: Vec<(NodeId, String)> },
    /// From a keeper, to what the owner itself asked it to keep.
    Kept { unit: UnitId, version: Version },
    /// From a keeper, now and then: what it keeps, so that it can be told what has ended.
    Holding { units: Vec<UnitId> },
    /// From a node that this runner asks to keep a checkpoint: does it run the unit, in that attempt?
    /// Answered by `Granted`.
    IsGranted { unit: UnitId, runner: NodeId, attempt: u32 },
    /// Word of the thread that this unit is.
    Said { unit: UnitId, attempt: u32, said: Box<Said> },
}

/// Cause for which a runner declined units, as their owner deals with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// The runner takes no unit of the owner's now, of whatever job.
    Node,
    /// The runner does not take such units. Those of other jobs it may.
    Job,
    /// The runner would have run them, and could not.
    Failed,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    pub unit: UnitId,
    /// The grant under which `result.runner` ran it, and its proof.
    pub attempt: u32,
    pub proof: GrantProof,
    /// The fuel that the unit had used where this runner took it over.
    pub began: u64,
    pub result: UnitResult,
}

/// A unit that was granted to the sender, whose lease has been lost or which began anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Returned {
    pub unit: UnitId,
    /// The newest grant's, with its proof.
    pub attempt: u32,
    pub proof: GrantProof,
    /// `None` if it has no checkpoint here.
    pub made: Option<Made>,
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
    /// The report does not count yet: the owner is still reading its records; too many reports or blobs are under
    /// way; the content did not come; the disk failed; or another result of the unit is being written down. Repeat
    /// it in a while.
    NotWritten {
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
    /// A unit that runs elsewhere will come here: get its job's content, and the whole snapshot that
    /// its state will be relative to. Answered by `Prepared`; forgotten when the unit has come, with
    /// `NotComing`, or after a while.
    Prepare {
        batch: Box<Batch>,
        whole: BlobRef,
        sources: Vec<Address>,
    },
    /// A unit that was prepared for will not come.
    NotComing {
        unit: UnitId,
    },
    /// Stop this unit and say where it stands; answered by `Suspended` or `Immobile`, or by its
    /// result.
    Suspend {
        unit: UnitId,
    },
    /// Give it no more fuel, or fuel again.
    Pause {
        unit: UnitId,
        paused: bool,
    },
    /// These have come for the thread that the unit is.
    Letters {
        unit: UnitId,
        attempt: u32,
        letters: Vec<Letter>,
    },
    /// Take a checkpoint of the unit before its time: others wait for what it covers.
    Checkpoint {
        unit: UnitId,
    },
    /// These units are in good hands elsewhere, or have ended.
    Forget {
        units: Vec<UnitId>,
    },
    /// These checkpoints are written down.
    Recorded {
        units: Vec<(UnitId, Version)>,
    },
    /// Nodes that keep the checkpoints of the job's units from now on.
    Keepers {
        job: JobId,
        keepers: Vec<Address>,
    },
    /// From a keeper: it has the checkpoint.
    Kept {
        unit: UnitId,
        version: Version,
    },
    /// From a keeper: it is getting the checkpoint, or asks the unit's owner first.
    Keeping {
        unit: UnitId,
        version: Version,
    },
    /// From a keeper: it will not have it.
    KeepRefused {
        unit: UnitId,
        version: Version,
        reason: String,
    },
    /// From the units' owner, which the ring chose, or from their origin: who may own them next, under
    /// which epoch it is owned now.
    Successors {
        units: Vec<(UnitId, u32)>,
        origin: NodeId,
        successors: Vec<NodeId>,
    },
    /// From a successor, or from the origin: it owns these units now, under a higher epoch.
    Claim {
        units: Vec<(UnitId, u32)>,
        origin: NodeId,
        successors: Vec<NodeId>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToKeeper {
    /// Get the parts of this checkpoint from the sender and keep them for the unit's owner, if that says
    /// that the sender runs the unit. Repeating it is harmless.
    Keep(Keep),
    /// From the owner, or the unit's origin: these units need no checkpoints any more.
    Drop { units: Vec<UnitId> },
    /// From the owner: what it says of a runner that wants checkpoints of the unit kept; `None`: it does not run
    /// there.
    Granted { unit: UnitId, runner: NodeId, attempt: u32, terms: Option<KeepTerms> },
}

/// How checkpoints of a unit are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeepTerms {
    /// Origin of the job; it may drop what earlier owners on the ring left at the keeper.
    pub origin: NodeId,
    /// No part of one is larger, bytes.
    pub part_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keep {
    pub unit: UnitId,
    /// Owner that granted the unit to the sender; the checkpoint takes room of this owner.
    pub owner: NodeId,
    /// Origin of the job; read only if the sender is the owner itself.
    pub origin: NodeId,
    pub version: Version,
    pub parts: Vec<BlobRef>,
    /// The owner passes it on for a runner that nobody else can reach, and wants the answer.
    pub relayed: bool,
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
    /// Nodes that keep the checkpoints of these units.
    pub keepers: Vec<Address>,
    pub units: Vec<UnitGrant>,
    /// Origin of the job; `None` if it is the sender.
    pub origin: Option<NodeId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitGrant {
    pub index: u32,
    /// Counted from 1.
    pub attempt: u32,
    /// Shown with what the runner says of the unit later.
    pub proof: GrantProof,
    pub spec: Option<UnitSpec>,
    /// Key with which the unit's snapshots are sealed.
    pub key: SealKey,
    /// Where it goes on; none: at its first instruction.
    pub resume: Option<Box<Resume>>,
    /// At which the runner has sold the place; 0: it is a gift.
    pub price: Price,
    /// The bank's word that it holds that, if it is no gift.
    pub receipt: Option<Signed>,
    /// Keeper that is paid for the unit's checkpoints; it comes before the keepers of all units.
    pub keeper: Option<Address>,
    /// Reads of the thread that it is, each with the number under which it was told.
    #[serde(default)]
    pub choices: Vec<(u64, Choice)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToClient {
    Accepted {
        job: JobId,
    },
    Refused {
        job: JobId,
        reason: String,
    },
    Ended {
        job: JobId,
    },
    /// The job is well formed, and could not be written down. Nothing of it is left.
    NotStored {
        job: JobId,
        reason: String,
    },
}
