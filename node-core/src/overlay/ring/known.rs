//! Owners that were looked up before: a key that one of them owned is asked of it first, and it
//! alone says whether it still does.

use crate::circle::{Located, Peer};
use crate::circle::{Point, Range, RingId};
use crate::ids::NodeId;
use crate::time::Time;

#[derive(Debug, Default)]
pub(super) struct Known(Vec<Entry>);

#[derive(Debug)]
struct Entry {
    ring: RingId,
    range: Range,
    owner: Peer,
    used: Time,
}

impl Known {
    /// Remembers an owner; of more than `most` the least recently used is forgotten.
    pub(super) fn add(&mut self, ring: RingId, found: &Located, now: Time, most: usize) {
        let point = found.owner.point;
        self.0.retain(|entry| (entry.ring, entry.owner.point) != (ring, point));
        if self.0.len() >= most
            && let Some(oldest) = (0..self.0.len()).min_by_key(|at| self.0[*at].used)
        {
            self.0.swap_remove(oldest);
        }
        if self.0.len() < most {
            self.0.push(Entry { ring, range: found.range(), owner: found.owner, used: now });
        }
    }

    /// Owner of the key by an earlier answer; `None` if no answer is kept.
    pub(super) fn owner(&mut self, ring: RingId, key: Point, now: Time) -> Option<Peer> {
        let holds = |entry: &&mut Entry| entry.ring == ring && entry.range.contains(key);
        // Ranges of different times may overlap; the nearest owner is the newest.
        let entry = self.0.iter_mut().filter(holds).min_by_key(|entry| key.to(entry.owner.point))?;
        entry.used = now;
        Some(entry.owner)
    }

    pub(super) fn forget(&mut self, ring: RingId, point: Point) {
        self.0.retain(|entry| (entry.ring, entry.owner.point) != (ring, point));
    }

    pub(super) fn forget_node(&mut self, id: NodeId) {
        self.0.retain(|entry| entry.owner.id() != id);
    }

    pub(super) fn memory(&self) -> usize {
        self.0.capacity() * size_of::<Entry>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::{Contact, Ip};

    fn found(after: u128, upto: u128) -> Located {
        let contact = Contact { ip: Ip([0; 16]), id: NodeId([upto as u8; 32]), port: 1 };
        let owner = Peer { point: Point(upto), contact };
        Located { owner, after: Point(after), replicas: Vec::new(), hops: 3 }
    }

    #[test]
    fn a_key_in_a_known_range_has_a_known_owner_and_the_least_used_is_forgotten() {
        let ring = RingId(0);
        let mut known = Known::default();
        known.add(ring, &found(10, 20), Time(1), 2);
        known.add(ring, &found(30, 40), Time(2), 2);
        let owner = |known: &mut Known, key, now| known.owner(ring, Point(key), Time(now)).map(|p| p.point.0);
        assert_eq!(owner(&mut known, 15, 3), Some(20));
        assert_eq!((owner(&mut known, 25, 3), known.owner(RingId(1), Point(15), Time(3))), (None, None));
        known.add(ring, &found(50, 60), Time(4), 2);
        assert_eq!(
            (owner(&mut known, 35, 5), owner(&mut known, 20, 5), owner(&mut known, 55, 5)),
            (None, Some(20), Some(60))
        );
        known.forget(ring, Point(20));
        assert_eq!(owner(&mut known, 20, 6), None);
    }
}
