//! Messages by which jobs with requirements and nodes that can run them meet.

use crate::address::Contact;
use crate::capability::Capability;
use crate::ids::JobId;
use serde::{Deserialize, Serialize};
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    ToMeeting(ToMeeting),
    ToNode(ToNode),
    ToOwner(ToOwner),
}

/// To a meeting node, or to a node with which marks are left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToMeeting {
    /// A job of the sender waits.
    Mark(Mark),
    /// It waits no more.
    Unmark { job: JobId },
    /// The sender has a free slot: which jobs wait that it can run? If none does, it is parked.
    Seek { contact: Contact, capability: Capability },
    /// The sender has no free slot any more.
    Leave,
}

/// To a node with a free slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToNode {
    /// Jobs that it can run, the best first. Empty: none waits, and the node is parked.
    Lines(Vec<Line>),
    /// From the owner, to a claim: so many units are on their way, and so many more wait.
    Given { job: JobId, units: u32, left: u32 },
}

/// To the owner of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToOwner {
    /// The sender has so many slots free for units of this job.
    Claim { job: JobId, at: Contact, capability: Capability, slots: u32 },
}

/// Mark of a job whose units wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    pub owner: Contact,
    pub job: JobId,
    pub needs: Capability,
    /// Units that wait.
    pub units: u32,
    /// How long its oldest unit has waited.
    pub age_ms: u32,
    /// How much older it counts, since few nodes can run it.
    pub bonus_ms: u32,
}

/// A mark as a node with a free slot is told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    pub owner: Contact,
    pub job: JobId,
    /// Age and scarcity, milliseconds.
    pub score: u32,
}

impl Line {
    /// The mark after so long: it has aged.
    pub(super) fn after(self, time: Duration) -> Line {
        let more = u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
        Line { score: self.score.saturating_add(more), ..self }
    }
}
