//! Jobs that wait, as people see them.

use super::{Asks, Fitting};
use crate::ids::{JobId, NodeId};
use std::time::Duration;

/// Standing of a job that waits for nodes that have what it requires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Nodes of the swarm that run something, and how many of them have what the job requires, as far as was known when
    /// it began to wait.
    pub nodes: u32,
    pub able: u32,
    /// Time from the job's submission until its units began to wait here.
    pub age: Duration,
    /// Meeting nodes where it is marked, as far as they are known.
    pub meetings: Vec<NodeId>,
    /// Units that run for its submitter, and the submitter's weight.
    pub running: u32,
    pub weight: u16,
    /// Nodes that can run it, or their gateways, where it is marked, too.
    pub capable: Vec<NodeId>,
}

impl Fitting {
    /// Standing of a job of this node; none if no unit of it waits.
    pub fn view(&self, job: JobId) -> Option<View> {
        let waiting = self.waiting.get(&job)?;
        let (nodes, able) = (waiting.asks().nodes, waiting.asks().able());
        let at = self.meetings.owners().filter(|(meeting, _)| waiting.is_marked_at(*meeting));
        let mut meetings: Vec<NodeId> = at.map(|(_, contact)| contact.id).collect();
        meetings.dedup();
        let capable = waiting.capable().iter().map(|contact| contact.id).collect();
        let Asks { submitter, weight, age, .. } = *waiting.asks();
        let running = self.shares.running(submitter);
        Some(View { nodes, able, age, meetings, running, weight, capable })
    }
}
