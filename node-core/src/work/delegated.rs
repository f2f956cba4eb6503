//! Units whose owner is the ring's choice: what is entrusted, and what origin, owner and successors say to
//! each other about it.
//!
//! A job's *origin* is the gateway that took it; it has the job's record and its results. The *owner*
//! of a unit is the successor of its point: it finds places, holds leases, records checkpoints. The
//! *successors* are the next members on the ring, who have a copy of what the owner has written down.

use super::bounds;
use super::message::Report;
use super::proof::GrantKey;
use super::spec::{Template, UnitSpec};
use super::submission::NAME_MAX;
use super::unit_record::UnitRecord;
use crate::address::Address;
use crate::circle::Point;
use crate::engine::SealKey;
use crate::ids::{JobId, UnitId};
use crate::requires::Requires;
use serde::{Deserialize, Serialize};

/// Successors of an owner. Our choice: as many as records have copies, so that the owner and three of them
/// may be lost at once.
pub const REPLICAS: usize = 4;

/// Where on the ring a unit's owner is looked for.
pub fn point_of(unit: UnitId) -> Point {
    Point::of_name(&[b"unit ", &unit.job.0[..], &unit.index.to_be_bytes()].concat())
}

/// Description that the units of a job share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    pub origin: Address,
    pub name: String,
    pub template: Template,
    pub sweep_first: Option<u64>,
    pub priority: i32,
    pub max_retries: u32,
    /// When the job was submitted, by the origin's clock: milliseconds since 1970, or 0 if it has none.
    pub submitted_ms: u64,
    /// Requirements on nodes, if the job is fitted to nodes.
    pub requires: Option<Box<Requires>>,
}

/// A unit, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delegated {
    pub index: u32,
    pub spec: Option<UnitSpec>,
    /// Key with which the unit's snapshots are sealed. The job's secret stays at the origin.
    pub key: SealKey,
    /// The key with which the owner makes and checks the proofs of its grants.
    pub grants: GrantKey,
    /// Ownership epoch: incremented whenever another node takes the unit over. Of two claims the higher epoch
    /// wins; ties go to the higher node id.
    pub epoch: u32,
    pub attempts: u32,
    /// Where it runs, as far as is known.
    pub runner: Option<Address>,
    pub record: Option<Box<UnitRecord>>,
    /// Why it is not placed any more.
    pub held: Option<String>,
}

impl Part {
    /// Whether units are run alike by both, on nodes of the same kind.
    pub fn runs_as(&self, other: &Part) -> bool {
        self.template == other.template
            && self.sweep_first == other.sweep_first
            && self.requires == other.requires
    }

    /// Whether its name and its requirements are no longer than those of a submission.
    pub fn is_bounded(&self) -> bool {
        let is_clear = |requires: &Requires| requires.check().is_ok();
        self.name.len() <= NAME_MAX && self.requires.as_deref().is_none_or(is_clear)
    }
}

impl Delegated {
    /// Without what is longer than any honest node tells: a receiver keeps thousands of these.
    pub fn bounded(mut self) -> Delegated {
        self.held = self.held.map(|why| bounds::reason(&why));
        self.record.iter_mut().for_each(|record| record.bound());
        self
    }

    /// Whether both are told by who knows the unit's keys, or by nobody who does.
    pub fn has_keys_of(&self, other: &Delegated) -> bool {
        (self.key, self.grants) == (other.key, other.grants)
    }

    /// How far its record is; of two copies the higher is the newer.
    pub fn age(&self) -> (u32, u32, u32) {
        let newest = self.record.as_ref().and_then(|record| record.newest.as_ref());
        let version = newest.map(|held| held.checkpoint.version).unwrap_or_default();
        (self.attempts, version.attempt, version.number)
    }
}

/// Messages between origin, owner and replicas of delegated units. Each may be repeated without harm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// From the origin to whom the ring names: own these. Answered by `Owned`, `Results` or `Refused`.
    Entrust { job: JobId, part: Box<Part>, units: Vec<Delegated> },
    /// To the origin: the sender does not own them, and why.
    Refused { job: JobId, units: Vec<u32>, reason: String },
    /// From the owner to its successors and to the origin: this is written down here.
    Owned { job: JobId, part: Box<Part>, units: Vec<Delegated> },
    /// From the owner to the origin, now and then: it lives, and owns these, with their epochs. A replica that has not
    /// heard from the owner for long sends it too, to be told [`Message::Over`] if nobody needs the unit. `waits`: why
    /// some of the job's units wait there, if any does.
    Lives { job: JobId, units: Vec<(u32, u32)>, waits: Option<String> },
    /// To who owns these now, from who did or has a copy.
    Handed { job: JobId, part: Box<Part>, units: Vec<Delegated> },
    /// To the origin: how units ended. Repeated until they are over.
    Results(Vec<Report>),
    /// From the origin to the owner, and from that one to its successors: nobody needs these any more.
    Over(Vec<UnitId>),
}
