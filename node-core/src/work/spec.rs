//! Jobs as submitters describe them, and the results that come back.

use crate::content::BlobRef;
use crate::content::Data;
use crate::content::NamedData;
use crate::ids::NodeId;
use crate::money::Micro;
use crate::progress::Journey;
use crate::requires::Requires;
use sandbox::{End, Limits};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A submitted bundle: one program, what all its units share, and what tells them apart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSpec {
    pub name: String,
    pub template: Template,
    pub units: Units,
    /// Higher first; 0 is usual.
    pub priority: i32,
    /// How often a unit is run again after it trapped or exited non-zero. 0 by default:
    /// the host is deterministic, so the same input fails the same way.
    pub max_retries: u32,
    /// Which finder places the units.
    pub find: Find,
    /// Node or nodes that own the job's units.
    #[serde(default)]
    pub owner: OwnedBy,
    /// Requirements on nodes; of meaning with [`Find::Fitting`] alone.
    #[serde(default)]
    pub requires: Box<Requires>,
}

impl JobSpec {
    /// Bytes of content within a job's units, all together; more has to be blobs. Our choice: four
    /// thousand of the largest inputs that a request may carry, and an owner holds it in memory.
    pub const INLINE_MAX: usize = 16 << 20;

    /// Every blob that the units need.
    pub fn blobs(&self) -> BTreeSet<BlobRef> {
        let mut blobs: BTreeSet<BlobRef> = self.template.blobs().into_iter().collect();
        if let Units::List(units) = &self.units {
            blobs.extend(units.iter().flat_map(UnitSpec::blobs));
        }
        blobs
    }
}

impl Template {
    /// Every blob that all units need, each once, in the order of their ids.
    pub fn blobs(&self) -> Vec<BlobRef> {
        let data = std::iter::once(&self.stdin).chain(self.files.iter().map(|file| &file.data));
        each_once(std::iter::once(self.program).chain(data.filter_map(Data::blob)))
    }
}

impl UnitSpec {
    /// Every blob that this unit needs beside the template's, each once, in the order of their ids.
    pub fn blobs(&self) -> Vec<BlobRef> {
        let data = self.stdin.iter().chain(self.files.iter().map(|file| &file.data));
        each_once(data.filter_map(Data::blob))
    }
}

fn each_once(blobs: impl Iterator<Item = BlobRef>) -> Vec<BlobRef> {
    blobs.collect::<BTreeSet<BlobRef>>().into_iter().collect()
}

impl UnitResult {
    /// Every blob that the result refers to, in the order of its parts. One may come twice.
    pub fn blobs(&self) -> impl Iterator<Item = BlobRef> + '_ {
        let files = self.files.iter().map(|file| &file.data);
        [&self.stdout, &self.stderr].into_iter().chain(files).filter_map(Data::blob)
    }
}

/// Description that the units of a job share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Template {
    pub program: BlobRef,
    /// In a sweep, `{}` stands for the unit's number.
    pub arguments: Vec<String>,
    pub environment: Vec<(String, String)>,
    pub stdin: Data,
    pub files: Vec<NamedData>,
    pub limits: Limits,
    /// Whether results have the same bits in every engine, NaNs included; this costs speed.
    #[serde(default)]
    pub bit_exact: bool,
    #[serde(default)]
    pub checkpoint: CheckpointEvery,
    #[serde(default)]
    pub on_loss: OnLoss,
    /// Set if the job is a virtual computer: its one unit begins others, as threads of it.
    #[serde(default)]
    pub threads: Option<Threads>,
}

/// Wish of a job that is a virtual computer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Threads {
    /// Workers that its program is told of.
    pub workers: u32,
}

/// How much of a unit's work may be lost with its runner, microseconds; 0: all of it, no checkpoint
/// is taken. A costly snapshot makes it longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CheckpointEvery(pub u64);

impl CheckpointEvery {
    pub const NEVER: CheckpointEvery = CheckpointEvery(0);

    pub fn duration(self) -> Option<std::time::Duration> {
        (self != Self::NEVER).then(|| std::time::Duration::from_micros(self.0))
    }
}

impl Default for CheckpointEvery {
    /// Our choice: what a person does not mind to wait for again.
    fn default() -> Self {
        CheckpointEvery(30_000_000)
    }
}

/// Treatment of a unit whose runner has gone silent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnLoss {
    /// It goes on elsewhere, from its newest checkpoint.
    #[default]
    Recover,
    /// So only after this time, microseconds, unless the runner comes back.
    Wait(u64),
}

/// The units of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Units {
    /// `count` units, `{}` being `first`, `first + 1`, …
    Sweep { first: u64, count: u32 },
    /// Units that differ in any way.
    List(Vec<UnitSpec>),
}

impl Units {
    pub const ONE: Units = Units::Sweep { first: 0, count: 1 };

    pub fn count(&self) -> u32 {
        match self {
            Units::Sweep { count, .. } => *count,
            Units::List(units) => units.len() as u32,
        }
    }
}

/// Description of one unit, beside the job's template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitSpec {
    /// In place of the template's.
    pub arguments: Option<Vec<String>>,
    /// In place of the template's.
    pub stdin: Option<Data>,
    /// Beside the template's.
    pub files: Vec<NamedData>,
}

/// Owner of a job's units: it finds places, holds leases and records checkpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OwnedBy {
    /// The gateway that took the job.
    #[default]
    Gateway,
    /// The successor of each unit's id on the ring (paper `match`); the gateway keeps the job's record
    /// and its results.
    Ring,
}

/// The finders, by the word a job uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Find {
    /// Nodes that are connected to the owner and have room; if they are too few, others by the tree.
    #[default]
    // Records and peers of earlier builds say it so.
    #[serde(alias = "Connected")]
    Nearest,
    /// The cheapest sellers in the markets; the job's owner pays.
    Cheapest(Terms),
    /// Nodes that have what the job requires: whichever is free first takes a unit.
    Fitting,
}

/// Bid limits of a job that buys its places. Its units need a fuel limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// The most that a unit may cost, all legs together.
    pub max_price: Micro,
    /// The most that the whole job may; none: as much as its units.
    pub max_price_job: Option<Micro>,
    /// Least speed, fuel a second; 0: any.
    pub min_speed: u64,
}

impl Find {
    pub fn terms(&self) -> Option<Terms> {
        match self {
            Find::Nearest | Find::Fitting => None,
            Find::Cheapest(terms) => Some(*terms),
        }
    }
}

/// A finished unit, as the owner keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitResult {
    pub end: End,
    pub stdout: Data,
    pub stderr: Data,
    pub files: Vec<NamedData>,
    pub cpu_us: u64,
    pub runner: NodeId,
    /// How often the unit was placed before it ended.
    pub attempts: u32,
    /// Used from its first instruction on, wherever it ran; 0 of a program that does not count.
    #[serde(default)]
    pub fuel: u64,
    /// The way that it took, if it had checkpoints or moved; else its runner did it all.
    #[serde(default)]
    pub journey: Option<Box<Journey>>,
    /// Cost of the unit's places in micro-credits, all payment legs together; 0 for gifts.
    #[serde(default)]
    pub paid: Micro,
}
