//! One unit, and one placement of it.

use crate::ids::NodeId;

/// How a unit stands with its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No node has it, and it may be placed.
    Waiting,
    /// One node or more has it.
    Placed,
    /// Its result is here and on its way to the disk.
    Storing,
    Done,
    Failed,
    Held,
    /// The owner waits for its runner, or for a node that keeps its checkpoint.
    Away,
    /// Another node owns it, or its owner is being looked up.
    Elsewhere,
}

impl State {
    /// How many there are.
    pub const COUNT: usize = State::Elsewhere as usize + 1;

    pub fn has_ended(self) -> bool {
        matches!(self, State::Done | State::Failed)
    }
}

/// One unit. Read by all; only the book changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    pub state: State,
    /// Placements that it is to have at a time.
    pub copies: u8,
    /// Placements that it has.
    pub placements: u8,
    /// Times that it ended badly.
    pub failures: u16,
    /// Times that it was lost with its runner, or failed there without a result.
    pub losses: u16,
    /// Placements so far. A placement's number is this count after it was added.
    pub attempts: u32,
    /// The newest attempt whose failure has counted; 0: none has.
    pub failed_attempt: u32,
    /// Held because the job's program is refused.
    pub barred: bool,
    /// Highest attempt for which the unit has already waited for the content of a result; 0: none.
    pub(super) awaited: u32,
    /// Index into the job's runners.
    pub(super) last: u32,
}

/// Index of no runner.
const NOBODY: u32 = u32::MAX;

impl Unit {
    pub(super) fn new(state: State, copies: u8, attempts: u32) -> Unit {
        Unit {
            state,
            copies: copies.max(1),
            placements: 0,
            failures: 0,
            losses: 0,
            attempts,
            failed_attempt: 0,
            barred: false,
            awaited: 0,
            last: NOBODY,
        }
    }

    /// Placements that are to be found for it now.
    pub fn lacks(&self) -> u8 {
        match self.state {
            State::Waiting | State::Placed => self.copies.saturating_sub(self.placements),
            _ => 0,
        }
    }
}

/// A unit at a runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    pub runner: NodeId,
    /// Number of the grant, counted from 1.
    pub attempt: u32,
    /// It is under the runner's lease. If not, what the unit goes on from is on its way to the owner, which passes
    /// it on.
    pub granted: bool,
    /// The runner gets what the unit goes on from.
    pub fetch: Option<Fetch>,
    /// Times that the content of its result did not come.
    pub(super) unsent: u8,
}

/// State that a unit goes on from, on its way to the runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// Under which the owner keeps it for the runner, if the runner gets it from there alone.
    pub ticket: Option<u64>,
    /// Others than the owner have it, and the runner was told of them.
    pub others: bool,
}

/// How a placed unit comes back without a result. The reasons are sentences for people.
#[derive(Clone, Copy, Debug)]
pub enum Back<'a> {
    /// Its runner has not begun it, or somebody wished it back.
    Unharmed,
    /// Its runner tried to run it and could not; the runner is there.
    Failed(&'a str),
    /// Its runner is gone.
    Lost(&'a str),
}
