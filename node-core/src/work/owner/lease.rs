//! Leases: one a runner.

use crate::work::message::Lease;
use std::collections::BTreeSet;

/// The lease of one runner.
#[derive(Debug)]
pub(super) struct Held {
    lease: Lease,
    /// Grants sent under the lease. The runner's heartbeat says how many it has received.
    pub(super) grants: u64,
    /// Reports from it on their way to the disk, by sequence number.
    pub(super) reports: BTreeSet<u64>,
    /// It has listed its units before it saw the last grant: the number it had seen.
    pub(super) behind: Option<u64>,
}

impl Held {
    pub(super) fn new(lease: Lease) -> Held {
        Held { lease, grants: 0, reports: BTreeSet::new(), behind: None }
    }

    pub(super) fn lease(&self) -> Lease {
        self.lease
    }

    /// Counts one more grant, and returns the lease that it is sent under.
    pub(super) fn granted(&mut self) -> Lease {
        self.grants = self.grants.saturating_add(1);
        self.lease
    }
}
