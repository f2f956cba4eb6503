//! Units that the ring has nodes own, among the other machines.

use super::Node;
use super::route;
use crate::circle::{Point, RingId};
use crate::overlay::ring;
use crate::ticket::ServiceId;
use crate::work::owner;
use crate::work::owner::delegation::OfRing;

impl Node {
    pub(super) fn delegated_told(&mut self, told: OfRing) {
        if self.config.limits.delegated_units > 0 {
            self.push(route::Step::Owner, owner::Command::Ring(told));
        }
    }

    /// Looks up the owner of a unit.
    pub(super) fn locate_owner(&mut self, number: u64, key: Point) {
        if self.overlays.circle.is_none() {
            return self.delegated_told(OfRing::Located { number, found: None });
        }
        self.look_up(ServiceId::Owner.ticket(number), RingId::NODES, key);
    }

    /// Passes changes of this node's place on the ring to the job owner.
    pub(super) fn ring_told_delegation(&mut self, event: &ring::Event) {
        use ring::Event;
        self.delegated_told(match event {
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
