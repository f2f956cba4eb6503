//! Messages by which jobs with requirements and nodes that can run them meet.

use crate::address::{Address, Contact};
use crate::capability::Capability;
use crate::ids::{JobId, NodeId};
use crate::requires::{LABELS_MAX, Numbers, Stated};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Jobs that a node skips, which is told with each of its questions. Our choice: 300 bytes, and more than one donor's
/// terms keep away from a node.
pub(super) const SKIPPED: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    ToMeeting(ToMeeting),
    ToNode(ToNode),
    ToOwner(ToOwner),
    /// The sender does not own this meeting point.
    NotHere {
        meeting: u8,
    },
}

/// To a meeting node, or to a node with which marks are left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToMeeting {
    /// A job of the sender waits.
    Mark(Mark),
    /// It waits no more.
    Unmark { job: JobId },
    /// The sender, or a guest of it, has a free slot: which jobs wait that it can run? If none does, it is parked.
    Seek { meeting: u8, at: Address, able: Ability },
    /// It has no free slot any more.
    Leave { node: NodeId },
    /// Early binding: how many jobs are before this one, if it came now?
    Ask { job: JobId },
    /// Shares of submitters whose jobs the sender has marked have changed.
    Shares { shares: Vec<Share> },
}

/// Jobs that an idle node can run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ability {
    pub capability: Capability,
    /// Its words by number; none: their bits have to do.
    pub words: Option<Vec<u32>>,
    /// Beginnings of ids of jobs that are none for it all the same.
    pub skip: Vec<u32>,
}

/// Beginning of a job's id.
pub(super) fn short(job: JobId) -> u32 {
    job.0.first_chunk().map_or(0, |first| u32::from_le_bytes(*first))
}

impl Ability {
    /// Whether no correct node sends more.
    pub fn is_bounded(&self) -> bool {
        let words = self.words.as_ref().map_or(0, Vec::len);
        words <= LABELS_MAX + 2 && self.skip.len() <= SKIPPED
    }

    pub(super) fn runs(&self, job: JobId, needs: &Capability, words: &Numbers) -> bool {
        let has = |word: &u32| *word == 0 || self.words.as_ref().is_none_or(|words| words.contains(word));
        self.capability.covers(needs) && words.iter().all(has) && !self.skip.contains(&short(job))
    }
}

/// To a node with a free slot, or the gateway whose guest it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToNode {
    /// Jobs that it can run, the best first: those that wait, or one that has come since. Empty: none waits, and the
    /// node is parked.
    Lines { meeting: u8, node: NodeId, lines: Vec<Line> },
    /// From the owner, to a claim: so many units are on their way, and so many more wait. None of a job that it does not
    /// know has a share. `bonus_ms`: how much older it counts, since few nodes can run it.
    Given { job: JobId, node: NodeId, units: u32, left: u32, share: Option<Share>, bonus_ms: u32 },
    /// From the owner, to a claim: the node has not what the job requires, though it seemed so.
    Unfit { job: JobId, node: NodeId },
}

/// To the owner of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToOwner {
    /// The sender, or a guest of it, has slots free for units of this job.
    Claim(Claim),
    /// Answers [`ToMeeting::Ask`].
    Queue { job: JobId, length: u32 },
}

/// A node's wish for units of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    pub job: JobId,
    pub at: Address,
    pub stated: Stated,
    /// Slots that are free for it.
    pub slots: u32,
    /// Greatest running share of the submitter with which this job is the most urgent that the sender knows of.
    pub most: u32,
}

/// Mark of a job whose units wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Meeting point at which it is left; none: with a node that can run the job.
    pub meeting: Option<u8>,
    pub owner: Contact,
    pub job: JobId,
    pub needs: Capability,
    /// Its words by number; 0: none.
    pub words: Numbers,
    /// Units that wait.
    pub units: u32,
    /// How long its oldest unit has waited.
    pub age_ms: u32,
    /// How much older it counts, since few nodes can run it.
    pub bonus_ms: u32,
    pub share: Share,
    /// If it still is marked after this time, the node hands on a unit that more nodes could run; 0: it does not.
    pub room_ms: u32,
}

/// Part of the swarm that the submitter of a job has already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Number of the submitter at the job's owner.
    pub submitter: u32,
    /// Thousandths of units that run for it, for each part of its weight; none: not known lately.
    pub running: Option<u32>,
}

/// A mark as a node with a free slot is told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    pub owner: Contact,
    pub job: JobId,
    /// Age and scarcity, milliseconds.
    pub waited_ms: u32,
    pub share: Share,
}

impl Line {
    /// The mark after so long: it has aged.
    pub(super) fn after(self, time: Duration) -> Line {
        let more = u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
        Line { waited_ms: self.waited_ms.saturating_add(more), ..self }
    }
}
