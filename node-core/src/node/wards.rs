//! Units that the ring has nodes own, among the other machines.

use super::Node;
use super::route;
use crate::overlay::ring::{self, Located, Mode, Point, RingId};
use crate::work::owner;
use crate::work::owner::wards::OfRing;

/// Lookups of units' owners, among those of records, of markets and of the driver.
const OF_WARDS: u64 = 3 << 60;

impl Node {
    pub(super) fn wards_told(&mut self, told: OfRing) {
        if self.config.limits.wards > 0 {
            self.push(route::Step::Owner, owner::Command::Ring(told));
        }
    }

    /// Whose is a unit?
    pub(super) fn locate_owner(&mut self, number: u64, key: Point) {
        if self.overlays.circle.is_none() {
            return self.wards_told(OfRing::Located { number, found: None });
        }
        let (number, mode) = (OF_WARDS | number, Mode::Recursive);
        self.ring_command(ring::Command::Lookup { number, ring: RingId::NODES, key, mode });
    }

    /// A lookup has ended. Whether it was one of a unit's.
    pub(super) fn ward_located(&mut self, number: u64, found: Option<&Located>) -> bool {
        let its = number >> 60 == OF_WARDS >> 60;
        if its {
            self.wards_told(OfRing::Located { number: number & !OF_WARDS, found: found.cloned() });
        }
        its
    }

    /// What the ring says of this node's place.
    pub(super) fn ring_told_wards(&mut self, event: &ring::Event) {
        use ring::Event;
        self.wards_told(match event {
            Event::Gained { member, range, from } if member.ring == RingId::NODES => {
                OfRing::Gained { range: *range, from: *from }
            }
            Event::Lost { member, range, to } if member.ring == RingId::NODES => {
                OfRing::Lost { range: *range, to: *to }
            }
            Event::Successors { member, list } if member.ring == RingId::NODES => {
                OfRing::Successors(list.iter().map(|peer| peer.contact).collect())
            }
            _ => return,
        });
    }
}
