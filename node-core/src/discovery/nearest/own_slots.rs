//! A node's own slots, as the tree is told of them. The runner's word on what is busy comes first;
//! reservations are added until their units come, so that two requests never get the same slot.

use super::state::State;
use crate::finding::Needs;
use crate::ids::NodeId;
use crate::platform::Platform;
use crate::time::Time;

/// The runner's statement about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    pub slots: u32,
    /// Slots at work, by owner.
    pub busy: Vec<(NodeId, u32)>,
    /// Speed of a slot, in MIPS or what compares to them.
    pub power: u32,
    /// Memory that one unit may have, bytes.
    pub memory_bytes: u64,
    pub platform: Platform,
}

/// Slots of one owner.
#[derive(Clone, Debug)]
struct Held {
    owner: NodeId,
    busy: u32,
    /// Reserved, and no unit has come for them yet.
    expected: u32,
    until: Time,
}

#[derive(Clone, Debug)]
pub(super) struct OwnSlots {
    slots: u32,
    power: u32,
    memory_bytes: u64,
    platform: Platform,
    held: Vec<Held>,
}

impl Default for OwnSlots {
    fn default() -> Self {
        OwnSlots { slots: 0, power: 0, memory_bytes: 0, platform: Platform::Native, held: Vec::new() }
    }
}

impl OwnSlots {
    pub(super) fn free(&self) -> u32 {
        let held = self.held.iter().fold(0u32, |n, h| n.saturating_add(h.busy).saturating_add(h.expected));
        self.slots.saturating_sub(held)
    }

    pub(super) fn slots(&self) -> u32 {
        self.slots
    }

    /// Slots that wait for their units.
    pub(super) fn reserved(&self) -> u32 {
        self.held.iter().fold(0, |n: u32, h| n.saturating_add(h.expected))
    }

    /// The node as a branch of its own.
    pub(super) fn state(&self) -> State {
        State::of_node(self.free(), self.slots, self.power, self.memory_bytes, self.platform)
    }

    /// Takes what the runner says. A unit more of an owner than before ends a reservation of
    /// that owner.
    pub(super) fn load(&mut self, load: Load) {
        self.slots = load.slots;
        self.power = load.power;
        self.memory_bytes = load.memory_bytes;
        self.platform = load.platform;
        let count = |owner: NodeId| {
            let of_it = load.busy.iter().filter(|(o, _)| *o == owner);
            of_it.fold(0u32, |n, (_, busy)| n.saturating_add(*busy))
        };
        for held in &mut self.held {
            let busy = count(held.owner);
            held.expected = held.expected.saturating_sub(busy.saturating_sub(held.busy));
            held.busy = busy;
        }
        for (owner, _) in &load.busy {
            if !self.held.iter().any(|h| h.owner == *owner) {
                let busy = count(*owner);
                self.held.push(Held { owner: *owner, busy, expected: 0, until: Time::ZERO });
            }
        }
        if self.slots == 0 {
            // Nothing can come any more.
            self.held.iter_mut().for_each(|held| held.expected = 0);
        }
        self.tidy();
    }

    /// Whether a unit with these needs could run here.
    pub(super) fn meets(&self, needs: &Needs) -> bool {
        self.memory_bytes >= needs.memory_bytes
            && self.power >= needs.power
            && needs.platform.is_none_or(|p| p == self.platform)
    }

    /// Keeps up to `wanted` slots for `owner` until then; says how many.
    pub(super) fn reserve(&mut self, owner: NodeId, wanted: u32, needs: &Needs, until: Time) -> u32 {
        if !self.meets(needs) {
            return 0;
        }
        let taken = wanted.min(self.free());
        if taken == 0 {
            return 0;
        }
        match self.held.iter_mut().find(|h| h.owner == owner) {
            Some(held) => {
                held.expected += taken;
                held.until = held.until.max(until);
            }
            None => self.held.push(Held { owner, busy: 0, expected: taken, until }),
        }
        taken
    }

    /// The owner does not need so many after all.
    pub(super) fn release(&mut self, owner: NodeId, slots: u32) {
        if let Some(held) = self.held.iter_mut().find(|h| h.owner == owner) {
            held.expected = held.expected.saturating_sub(slots);
        }
        self.tidy();
    }

    /// Ends the reservations whose time is over.
    pub(super) fn expire(&mut self, now: Time) {
        for held in &mut self.held {
            if held.until <= now {
                held.expected = 0;
            }
        }
        self.tidy();
    }

    /// When the next reservation ends.
    pub(super) fn next_end(&self) -> Option<Time> {
        self.held.iter().filter(|h| h.expected > 0).map(|h| h.until).min()
    }

    fn tidy(&mut self) {
        self.held.retain(|h| h.busy > 0 || h.expected > 0);
        if self.held.is_empty() {
            self.held = Vec::new();
        }
    }

    pub(super) fn check(&self) {
        let expected = self.held.iter().filter(|h| h.expected > 0).count();
        assert!(expected == 0 || self.next_end().is_some(), "a reservation without an end");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(n: u8) -> NodeId {
        NodeId([n; 32])
    }

    fn load(slots: u32, busy: &[(u8, u32)]) -> Load {
        let busy = busy.iter().map(|(n, b)| (node(*n), *b)).collect();
        Load { slots, busy, power: 2000, memory_bytes: 1 << 30, platform: Platform::Native }
    }

    fn own_slots(slots: u32) -> OwnSlots {
        let mut own_slots = OwnSlots::default();
        own_slots.load(load(slots, &[]));
        own_slots
    }

    #[test]
    fn two_requests_never_get_the_same_slot() {
        let mut own_slots = own_slots(3);
        assert_eq!(own_slots.reserve(node(1), 2, &Needs::default(), Time(10)), 2);
        assert_eq!(own_slots.reserve(node(2), 2, &Needs::default(), Time(10)), 1);
        assert_eq!(own_slots.reserve(node(1), 1, &Needs::default(), Time(10)), 0);
    }

    #[test]
    fn a_reservation_ends_with_its_units_and_no_slot_counts_twice() {
        let mut own_slots = own_slots(4);
        own_slots.load(load(4, &[(1, 1)]));
        own_slots.reserve(node(1), 2, &Needs::default(), Time(10));
        assert_eq!(own_slots.free(), 1, "one is at work and two are expected");
        own_slots.load(load(4, &[(1, 2)]));
        assert_eq!(own_slots.free(), 1, "one of the two has come");
        own_slots.load(load(4, &[(1, 3)]));
        assert_eq!((own_slots.free(), own_slots.reserved()), (1, 0));
        own_slots.load(load(4, &[]));
        assert_eq!(own_slots.free(), 4);
    }

    #[test]
    fn what_nobody_comes_for_is_free_again_after_the_lease() {
        let mut own_slots = own_slots(2);
        own_slots.reserve(node(1), 2, &Needs::default(), Time(10));
        own_slots.expire(Time(9));
        assert_eq!((own_slots.free(), own_slots.next_end()), (0, Some(Time(10))));
        own_slots.expire(Time(10));
        assert_eq!((own_slots.free(), own_slots.next_end()), (2, None));
    }

    #[test]
    fn more_work_than_slots_is_no_free_slot_and_no_overflow() {
        let mut own_slots = own_slots(2);
        own_slots.load(load(1, &[(1, u32::MAX), (2, 7)]));
        assert_eq!(own_slots.free(), 0);
        assert_eq!(own_slots.reserve(node(3), 1, &Needs::default(), Time(1)), 0);
    }

    #[test]
    fn needs_that_the_node_does_not_meet_get_nothing() {
        let mut own_slots = own_slots(2);
        let refused = [
            Needs { memory_bytes: (1 << 30) + 1, ..Needs::default() },
            Needs { platform: Some(Platform::Browser), ..Needs::default() },
            Needs { power: 2001, ..Needs::default() },
        ];
        for needs in refused {
            assert_eq!(own_slots.reserve(node(1), 1, &needs, Time(1)), 0, "{needs:?}");
        }
        let met = Needs { memory_bytes: 1 << 30, platform: Some(Platform::Native), power: 2000 };
        assert_eq!(own_slots.reserve(node(1), 1, &met, Time(1)), 1);
    }
}
