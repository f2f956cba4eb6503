//! Moves of units that somebody asked for, and units whose runner, or who keeps their checkpoint, is waited for.

use crate::content::BlobRef;
use crate::finding::Offer;
use crate::ids::{NodeId, UnitId};
use crate::progress::Checkpoint;
use crate::time::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// A unit that was to move and has not by then stays where it is. Our choice: a gibibyte at
/// 300 Mbit/s.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// Moves under way at a time. Our choice: a node that drains has fewer units; one more move is refused.
pub(super) const MOVES_MAX: usize = 1000;

#[derive(Debug, Default)]
pub(super) struct Moves {
    /// Moves that somebody asked for.
    pub(super) wanted: BTreeMap<UnitId, Move>,
    /// Waited for until then.
    pub(super) away: BTreeMap<UnitId, Time>,
}

impl Moves {
    /// The unit is not this owner's any more.
    pub(super) fn forget(&mut self, unit: UnitId) {
        self.wanted.remove(&unit);
        self.away.remove(&unit);
    }

    pub(super) fn away(&self) -> impl Iterator<Item = UnitId> + '_ {
        self.away.keys().copied()
    }
}

/// A move that somebody asked for.
#[derive(Debug)]
pub(super) struct Move {
    pub(super) to: NodeId,
    /// It has failed by then.
    pub(super) until: Time,
    pub(super) stage: Stage,
    /// The ticket of what the goal gets through here.
    pub(super) relay: Option<u64>,
    /// The goal could not reach others that have it, and gets it through here.
    pub(super) again: bool,
    /// Its runner did not stop, and the unit was taken from it.
    pub(super) taken: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The goal gets ready; the unit runs.
    Preparing,
    /// Its runner was told to stop, then.
    Stopping(Time),
}

impl Move {
    pub(super) fn new(to: NodeId, until: Time) -> Move {
        Move { to, until, stage: Stage::Preparing, relay: None, again: false, taken: false }
    }
}

/// Why a unit is not moved.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotMoved {
    #[error("this gateway owns no such job")]
    NoJob,
    #[error("the job has no such unit")]
    NoUnit,
    #[error("its owner is on the ring, and moves it by itself alone")]
    Delegated,
    #[error("it is not running: only what runs can be moved")]
    NotRunning,
    #[error("it is being moved already")]
    Already,
    #[error("{MOVES_MAX} units are being moved already; try again in a moment")]
    Full,
    #[error("its runner is away; it goes on elsewhere if it stays so")]
    Away,
    #[error("it runs there already")]
    There,
    #[error("{} is not connected, or gives no slots", .0.short())]
    Unknown(NodeId),
    #[error("{node} cannot take it: {why}", node = .0.short(), why = .1)]
    NotAble(NodeId, NotAble),
    #[error("no other node has a free slot and the memory")]
    Nowhere,
}

/// Why a node can't take a unit.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotAble {
    #[error("it gives no slots now")]
    NoSlots,
    #[error("it gives a unit less memory than this one may use")]
    Memory,
    #[error("all its slots are busy")]
    Busy,
}

/// Node to which a unit is moved that runs at `from` and may use so much memory: `to`, or the one with most free
/// slots.
///
/// # Errors
/// [`NotMoved`] says why there is none.
pub(super) fn goal_of(
    to: Option<NodeId>,
    from: NodeId,
    others: &[(NodeId, Offer)],
    memory: u64,
) -> Result<NodeId, NotMoved> {
    let why_not = |offer: &Offer| match offer {
        _ if offer.slots == 0 => Some(NotAble::NoSlots),
        _ if offer.memory_bytes < memory => Some(NotAble::Memory),
        _ if offer.free == 0 => Some(NotAble::Busy),
        _ => None,
    };
    match to {
        Some(to) if to == from => Err(NotMoved::There),
        Some(to) => {
            let offer = others.iter().find(|(node, _)| *node == to);
            let (_, offer) = offer.ok_or(NotMoved::Unknown(to))?;
            why_not(offer).map_or(Ok(to), |why| Err(NotMoved::NotAble(to, why)))
        }
        None => {
            let able = others.iter().filter(|(node, offer)| *node != from && why_not(offer).is_none());
            let best = able.max_by_key(|(node, offer)| (offer.free, std::cmp::Reverse(*node)));
            best.map(|(to, _)| *to).ok_or(NotMoved::Nowhere)
        }
    }
}

/// The whole snapshot that the next one will be relative to.
pub(super) fn whole_of(checkpoint: &Checkpoint) -> BlobRef {
    checkpoint.snapshot.base.unwrap_or(checkpoint.snapshot.blob)
}
