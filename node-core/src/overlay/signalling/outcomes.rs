//! Counts of how sessions end, for operators. No peer and no address is kept.

use super::{NotOpened, Over};

/// Sessions of a node since its start, by how they ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// The channel carries a connection.
    pub opened: u64,
    /// The two found no way to each other: most likely two routers between them, or a wall.
    pub unreached: u64,
    /// The peer, or the node that forwards to it, said nothing.
    pub unanswered: u64,
    /// The peer did not want one, or had too many.
    pub refused: u64,
    /// One of the two could not make its end, or was not the node that it should be.
    pub failed: u64,
}

impl Outcomes {
    /// `heard`: the two had described their ends to each other.
    pub(super) fn count(&mut self, why: NotOpened, heard: bool) {
        let of = match why {
            NotOpened::Unreached => &mut self.unreached,
            // Its time was over first, or its driver failed: one cannot tell.
            NotOpened::Refused(Over::Failed) if heard => &mut self.unreached,
            NotOpened::Refused(Over::Failed) => &mut self.failed,
            NotOpened::Unanswered | NotOpened::Gone => &mut self.unanswered,
            NotOpened::Refused(_) => &mut self.refused,
            NotOpened::Unproven | NotOpened::Driver | NotOpened::NoDriver => &mut self.failed,
            // No session was begun.
            NotOpened::Unwanted | NotOpened::Busy | NotOpened::Early => return,
        };
        *of += 1;
    }
}
