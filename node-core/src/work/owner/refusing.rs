//! Programs that nodes refuse. A refused unit is not tried again: each further node would have to compile
//! the program, which may be made to cost it a minute and gigabytes. After two nodes refused it, the job's
//! waiting units are held, until a unit of the job shows that the program runs somewhere.

use crate::ids::NodeId;
use std::collections::BTreeSet;

/// Native nodes that refuse a program before its job is held. Our choice: one may be short of memory or slow.
const NODES: usize = 2;

/// Nodes that refused a job's program.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    by: BTreeSet<NodeId>,
    /// The last words of such a node, for people.
    why: String,
    /// Why this node, which owns units of it for another gateway, found that no node can run it.
    pub(super) unfit: Option<String>,
    /// A unit has run somewhere: those who refuse speak for themselves.
    pub(super) runs: bool,
}

impl Refusals {
    /// One more native node refused the program.
    pub(super) fn refused(&mut self, by: NodeId, why: String) {
        if self.by.len() < NODES {
            self.by.insert(by);
        }
        self.why = why;
    }

    /// Whether units of the job are placed nowhere.
    pub(super) fn bars(&self) -> bool {
        !self.runs && (self.by.len() >= NODES || self.unfit.is_some())
    }

    /// Behind "unit 7".
    pub(super) fn reason(&self) -> String {
        match &self.unfit {
            Some(why) => format!("is set aside by its owner: {why}"),
            None => format!(
                "is set aside: {NODES} nodes refused the job's program, the last of them because {}; it is \
                 placed once another unit of the job has run",
                self.why
            ),
        }
    }
}
