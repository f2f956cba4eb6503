//! Markets that were used before: the next buyer of a like capacity asks there at once.

use super::super::commodity::Market;
use crate::ids::NodeId;
use crate::overlay::contact::Contact;
use crate::overlay::ring::Range;
use crate::time::Time;
use std::time::Duration;

/// Where a market is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub market: Market,
    /// It was the nearest for all capacities from this index on.
    pub from: u8,
    pub owner: Contact,
    /// In the single overlay: what of the ring of nodes is the owner's.
    pub range: Option<Range>,
}

#[derive(Debug, Default)]
pub(super) struct Known(Vec<(Place, Time)>);

impl Known {
    /// The market for this capacity. What was learned too long ago is forgotten.
    pub(super) fn of(&mut self, market: Market, now: Time, remember: Duration) -> Option<Place> {
        self.0.retain(|(_, since)| now.since(*since) < remember);
        let fits = |place: &&(Place, Time)| {
            let place = &place.0;
            place.market.kind == market.kind && (place.from..=place.market.index).contains(&market.index)
        };
        self.0.iter().find(fits).map(|(place, _)| *place)
    }

    /// Of more than `most` the one learned first is forgotten.
    pub(super) fn add(&mut self, place: Place, now: Time, most: usize) {
        self.0.retain(|(old, _)| old.market != place.market);
        if self.0.len() >= most && !self.0.is_empty() {
            self.0.remove(0);
        }
        self.0.push((place, now));
    }

    pub(super) fn forget(&mut self, owner: NodeId) {
        self.0.retain(|(place, _)| place.owner.id != owner);
    }
}
