//! Delegation and its surroundings: what it reads ([`View`]), and what others are to do for it ([`Act`]).

use super::{Described, Part};
use crate::address::Address;
use crate::bounds::Bounds;
use crate::circle::Point;
use crate::content::BlobRef;
use crate::engine::SealKey;
use crate::ids::{JobId, NodeId, UnitId};
use crate::peers::Peers;
use crate::time::Time;
use crate::work::book::Book;
use crate::work::delegated::Message;
use crate::work::message::ToRunner;
use crate::work::proof::GrantKey;
use crate::work::spec::UnitSpec;
use crate::work::unit_record::UnitRecord;
use std::collections::BTreeSet;

/// Jobs as far as delegation reads them: this node's own, and those of which it owns units for others.
pub trait Jobs {
    /// Whether it is this node's own job.
    fn is_own(&self, job: JobId) -> bool;

    /// Whether the job has been accepted, and is not over.
    fn is_active(&self, job: JobId) -> bool;

    /// Description that the units share; `me`: the origin, if the job is this node's own.
    fn part(&self, job: JobId, me: Address) -> Option<Part>;

    /// The unit's own description; `None` if the shared one says it all.
    fn unit_spec(&self, unit: UnitId) -> Option<UnitSpec>;

    /// `None` if the job is unknown. Units that the job does not have may have keys.
    fn keys(&self, unit: UnitId) -> Option<(SealKey, GrantKey)>;

    /// `None` if the unit has no checkpoint.
    fn record(&self, unit: UnitId) -> Option<&UnitRecord>;

    /// Why units of the job wait, as far as is known: a sentence for people.
    fn shortage(&self, job: JobId) -> Option<&str>;
}

/// All that delegation reads beside its own tables, as it is now.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub me: NodeId,
    pub now: Time,
    /// All that was kept from an earlier life has been read.
    pub ready: bool,
    pub jobs: &'a dyn Jobs,
    pub book: &'a Book,
    pub peers: &'a Peers,
    pub limits: &'a Bounds,
}

/// A thing that others are to do, before anything else happens and in the order of the list.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// Send this, and connect first if need be. Relays forward none of it.
    Say(Address, Message),
    /// Send this to a runner, and connect first if need be.
    Tell(Address, ToRunner),
    /// Connect to a node that has content.
    Reach(Address),
    Fault(NodeId, String),
    Trouble(String),
    /// Look up the owner of the key on the ring. Answered by [`super::OfRing::Located`].
    Locate {
        number: u64,
        key: Point,
    },
    /// The unit of another gateway is this node's to place from now on.
    Adopt(Box<Adopted>),
    /// The unit of another gateway is not this node's any more.
    Leave(UnitId),
    /// The last unit of another gateway's job has left.
    Drop(JobId),
    /// Take the unit, which is over, from its runners, and forget its checkpoints.
    Recall(UnitId),
    /// The unit of this node's own job is this node's to place.
    ComeBack(UnitId),
    /// The unit of this node's own job has been placed so often, and has come so far.
    Progress {
        unit: UnitId,
        attempts: u32,
        /// `None`: no further than is known.
        record: Option<Box<UnitRecord>>,
    },
    /// Place the unit nowhere for the time of a lease: its runner is asked to come.
    Wait(UnitId),
    /// Write down how the unit stands ([`super::Delegation::rows`]).
    Write(UnitId),
    /// Units of the job may have begun or ceased to wait.
    Touch(JobId),
    /// Look for places.
    Look,
    /// Units of the job wait for this reason, which is a sentence for people.
    Short(JobId, String),
    /// Bring content of another gateway's units here, from any of these nodes. Answered by
    /// [`super::Delegation::asked`], and later by [`super::Delegation::content_here`].
    Fetch {
        job: JobId,
        blobs: BTreeSet<BlobRef>,
        from: Vec<NodeId>,
    },
    /// Keep the outputs of a unit that has ended here ([`super::Delegation::end`]). Answered by
    /// [`super::Delegation::kept`], unless it has none.
    Keep(UnitId),
    /// Content is not needed any more that was asked for under this ticket.
    Release(u64),
    /// Say whether any node could run the program of another gateway's job. Answered by
    /// [`super::Delegation::looked_into`].
    Inspect(JobId),
    /// Have delegation go on with this ([`super::Delegation::go_on`]), and do what it asks for then, before the
    /// next act.
    Next(Next),
}

/// A unit of another gateway that this node comes to own.
#[derive(Clone, Debug, PartialEq)]
pub struct Adopted {
    pub unit: UnitId,
    /// Description that the units of its job share; `None` if this node owns others of them.
    pub part: Option<Part>,
    pub described: Described,
    pub attempts: u32,
    pub record: Option<Box<UnitRecord>>,
    /// Why it is not to be placed.
    pub held: Option<String>,
}

/// A step that waits until the acts before it are done, since it reads what they change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Next(pub(super) Step);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Settle,
    FindOwners,
    ClaimAgain,
    TellResults,
    WantContent,
    TellOrigins,
    HandOn,
    Refresh,
    /// Send how the unit stands to a node that owned it, or has a copy.
    Show(NodeId, UnitId),
    /// Tell the job's origin of units that it asked about.
    TellOrigin(JobId, Vec<UnitId>),
    /// This node says that nobody needs the unit any more.
    Over(NodeId, UnitId),
    /// Nothing of the unit stays.
    Release(UnitId),
    /// An owned unit is over and has been recalled; `written`: it has a row, although nothing is owned of it.
    Gone {
        unit: UnitId,
        owned: bool,
        written: bool,
    },
    /// A copy of which nothing has been heard for too long.
    Forget(UnitId),
}
