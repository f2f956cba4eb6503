//! Jobs and units as people are shown them: plain data, no protocol state.

use crate::ids::{JobId, NodeId};
use crate::money::{Micro, Price};
use crate::progress::Span;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobState {
    /// No unit has been placed yet, or none is and some wait.
    Waiting,
    Running,
    /// All units ended well.
    Done,
    /// All units ended, some not well.
    Failed,
    Cancelled,
}

impl JobState {
    pub fn is_over(self) -> bool {
        matches!(self, JobState::Done | JobState::Failed | JobState::Cancelled)
    }
}

/// A job as its owner sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct JobView {
    pub id: JobId,
    pub name: String,
    pub state: JobState,
    /// Why it stands where it stands, in words.
    pub reason: String,
    pub units: u32,
    pub waiting: u32,
    /// On a runner, queued or running there.
    pub placed: u32,
    pub done: u32,
    pub failed: u32,
    pub held: u32,
    /// Results that came again for a unit that had ended, and were not counted.
    pub duplicates: u64,
    /// Placements lost with their runner; not those that came back from one that is there.
    pub lost_placements: u64,
    /// Processor time of counted results, microseconds.
    pub cpu_us: u64,
    /// Milliseconds since 1970.
    pub submitted_ms: u64,
    pub ended_ms: Option<u64>,
    /// Cost of the job; `None` unless it buys its places.
    pub cost: Option<CostView>,
    /// Work by node: (node, units, processor microseconds).
    pub by_node: Vec<(NodeId, u64, u64)>,
}

/// Cost of a job that buys its places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostView {
    pub most: Micro,
    /// Put aside at the bank for units that have not ended.
    pub held: Micro,
    pub paid: Micro,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitState {
    Waiting,
    Placed,
    Done,
    Failed,
    Held,
    Cancelled,
}

/// A unit as its owner sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct UnitView {
    pub index: u32,
    pub state: UnitState,
    pub reason: String,
    /// Runner that has the unit, or had it last.
    pub runner: Option<NodeId>,
    pub attempts: u32,
    /// At which its runner sold the place, while it is not settled; none of a gift.
    pub price: Option<Price>,
    /// It is given no fuel.
    pub paused: bool,
    /// Runners that produced the unit's state, in order, as far as checkpoints and its result tell. Empty if
    /// one runner ran the whole unit.
    pub journey: Vec<Span>,
    /// There were more runners than `journey` names.
    pub merged: bool,
    pub checkpoints: u32,
    /// Fuel that it is known to have used; more since.
    pub fuel: u64,
    /// Where it would go on if its runner was lost now.
    pub checkpoint_fuel: Option<u64>,
    /// Bytes of the newest checkpoint, without its base.
    pub checkpoint_bytes: Option<u64>,
    /// Nodes that have the newest checkpoint.
    pub keepers: Vec<NodeId>,
    /// Fuel that was used in vain, as far as it is known.
    pub lost_fuel: u64,
    /// Owner of the unit, if the ring names another node; else `None`.
    pub owner: Option<NodeId>,
}

/// A thread of a virtual computer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadView {
    /// Its number, which is its unit's index.
    pub number: u32,
    pub runner: Option<NodeId>,
    /// How it ended, in one line.
    pub end: Option<String>,
    /// Reason for which it waits, in words, as it said last.
    pub waits: Option<String>,
    /// It waits, and takes no slot.
    pub parked: bool,
}

/// A partial result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partial {
    /// Counted from 0, over all threads of the job.
    pub number: u64,
    pub thread: u32,
    /// When it came, milliseconds since 1970.
    pub at_ms: u64,
    pub result: Bytes,
}

/// Work of this node for others (the donate page).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkView {
    pub slots: u32,
    /// Handed over to the engine, at most one a slot counted.
    pub busy: u32,
    /// Waiting here for a slot or an input.
    pub queued: u32,
    pub units_done: u64,
    pub units_failed: u64,
    /// Processor time given since the start, microseconds.
    pub cpu_us: u64,
    /// The units in the engine: job, its name, index, microseconds since they were handed over.
    pub current: Vec<(JobId, String, u32, u64)>,
    /// Gateways that this node is connected to.
    pub gateways: Vec<NodeId>,
    /// Why nothing is done, when nothing is.
    pub idle_reason: Option<String>,
}
