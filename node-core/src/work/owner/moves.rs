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

/// Moves under way at a time.
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

/// Node to which a unit is moved that runs at `from` and may use so much memory: `to`, or the one with most free
/// slots.
///
/// # Errors
/// Says why there is none.
pub(super) fn goal_of(
    to: Option<NodeId>,
    from: NodeId,
    others: &[(NodeId, Offer)],
    memory: u64,
) -> Result<NodeId, String> {
    let why_not = |offer: &Offer| match offer {
        _ if offer.slots == 0 => Some("it gives no slots now"),
        _ if offer.memory_bytes < memory => Some("it gives a unit less memory than this one may use"),
        _ if offer.free == 0 => Some("all its slots are busy"),
        _ => None,
    };
    match to {
        Some(to) if to == from => Err("it runs there already".into()),
        Some(to) => {
            let offer = others.iter().find(|(node, _)| *node == to);
            let (_, offer) = offer.ok_or(format!("{} is not connected, or gives no slots", to.short()))?;
            why_not(offer).map_or(Ok(to), |why| Err(format!("{} cannot take it: {why}", to.short())))
        }
        None => {
            let able = others.iter().filter(|(node, offer)| *node != from && why_not(offer).is_none());
            let best = able.max_by_key(|(node, offer)| (offer.free, std::cmp::Reverse(*node)));
            best.map(|(to, _)| *to).ok_or("no other node has a free slot and the memory".into())
        }
    }
}

/// The whole snapshot that the next one will be relative to.
pub(super) fn whole_of(checkpoint: &Checkpoint) -> BlobRef {
    checkpoint.snapshot.base.unwrap_or(checkpoint.snapshot.blob)
}
