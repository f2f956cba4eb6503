//! Settings that the job owner, the runner and the keeper are created with.

use crate::bounds::{Bounds, Timing};
use crate::ids::NodeId;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct OwnerConfig {
    /// Takes jobs of its own; else it owns units of other gateways only.
    pub owns_jobs: bool,
    /// Content that no job needs may be forgotten here, so jobs say after a start what they need.
    pub pins: bool,
    /// Nodes that may submit jobs over the wire, beside this one, and the weight of each: of two submitters whose jobs
    /// wait, one with twice the weight has twice the units running. This node itself has a weight of 1 unless it is named.
    pub submitters: BTreeMap<NodeId, u16>,
    pub limits: Arc<Bounds>,
    pub timing: Arc<Timing>,
}

#[derive(Clone, Debug)]
pub struct RunnerConfig {
    /// Slots given at the start.
    pub slots: u32,
    /// Memory that one unit may have, bytes.
    pub memory_bytes: u64,
    /// The engine runs threads of virtual computers.
    pub runs_threads: bool,
    /// The bank whose receipts count, if it is known at the start.
    pub bank: Option<NodeId>,
    pub limits: Arc<Bounds>,
    pub timing: Arc<Timing>,
}

#[derive(Clone, Debug)]
pub struct KeeperConfig {
    pub limits: Arc<Bounds>,
}
