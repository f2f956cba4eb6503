//! State of a branch: a few bytes.

use crate::finding::Needs;
use crate::platform::Platform;
use serde::{Deserialize, Serialize};

/// Hops to a free slot where there is none.
pub const NOWHERE: u8 = u8::MAX;

/// A branch in a few bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Free slots, at least and at most. The same in the paper's way.
    pub low: u32,
    pub high: u32,
    /// Declared slots.
    pub slots: u32,
    /// The fastest node with a free slot.
    pub power: u32,
    /// To the nearest free slot, from the branch's top; [`NOWHERE`] without one.
    pub hops: u8,
    /// The largest memory of a unit, as a power of two.
    pub memory: u8,
    /// Modification: declared slots by the memory of their units: below 512 MiB, below 1 GiB and so
    /// on by powers of two, 32 GiB and more last. Whoever looks for what is rare knows how much of
    /// it a branch may have, and need not ask branch after branch.
    pub sizes: [u32; SIZES],
    /// A bit for each platform that is there, and one for branches that are more than a node.
    pub kinds: u8,
    /// A leaf's: how long it is usually at work once it was taken, in eighths of a second;
    /// [`UNUSUAL`] if that is long or not known.
    pub usual: u8,
}

/// Classes of memory. Our choice: what donors have; a message has a byte or two for each.
pub const SIZES: usize = 8;

/// No usual time of work.
pub const UNUSUAL: u8 = u8::MAX;

impl State {
    pub(super) fn of_node(free: u32, slots: u32, power: u32, memory: u64, platform: Platform) -> State {
        let class = size_class(memory);
        State {
            low: free,
            high: free,
            slots,
            power: if free > 0 { power } else { 0 },
            hops: if free > 0 { 0 } else { NOWHERE },
            memory: memory.checked_ilog2().unwrap_or(0) as u8,
            sizes: std::array::from_fn(|i| if i == class { slots } else { 0 }),
            kinds: if slots > 0 { kind(platform) } else { 0 },
            usual: UNUSUAL,
        }
    }

    /// Fault of a state that no correct node announces; `None` if there is none.
    pub(super) fn impossible(&self) -> Option<String> {
        if self.low > self.high {
            return Some(format!("tells of at least {} and at most {} free slots", self.low, self.high));
        }
        if self.high > self.slots {
            return Some(format!("tells of {} free slots of {}", self.high, self.slots));
        }
        let sized = self.sizes.iter().fold(0u32, |sum, n| sum.saturating_add(*n));
        if sized > self.slots {
            return Some(format!("tells of the memory of {sized} slots of {}", self.slots));
        }
        if (self.high == 0) != (self.hops == NOWHERE) || self.memory > 63 {
            return Some("tells of free slots that are nowhere".into());
        }
        None
    }

    /// Whether a node of this branch may meet the needs. Memory and power are told in steps, so
    /// the upper end of the step counts.
    pub(super) fn may_meet(&self, needs: &Needs) -> bool {
        let memory = needs.memory_bytes.checked_ilog2().unwrap_or(0) as u8;
        self.memory >= memory
            && needs.platform.is_none_or(|p| self.kinds & kind(p) != 0)
            && (needs.power == 0 || step(self.power) >= step(needs.power))
    }

    /// Declared slots with so much memory or, at the end of a step, a little less.
    pub(super) fn sized_for(&self, memory: u64) -> u32 {
        self.sizes.iter().skip(size_class(memory)).fold(0, |sum, n| sum.saturating_add(*n))
    }

    /// Just one node.
    pub(super) fn is_leaf(&self) -> bool {
        self.kinds & BRANCHED == 0
    }

    pub(super) fn join(&mut self, other: State) {
        self.low = self.low.saturating_add(other.low);
        self.high = self.high.saturating_add(other.high);
        self.slots = self.slots.saturating_add(other.slots);
        if other.high > 0 {
            self.power = self.power.max(other.power);
            self.hops = self.hops.min(other.hops.saturating_add(1).min(NOWHERE - 1));
        }
        self.memory = self.memory.max(other.memory);
        for (size, more) in self.sizes.iter_mut().zip(other.sizes) {
            *size = size.saturating_add(more);
        }
        self.kinds |= other.kinds | BRANCHED;
    }
}

/// In `kinds`: there is somebody below.
const BRANCHED: u8 = 0x80;

fn size_class(memory: u64) -> usize {
    (memory.checked_ilog2().unwrap_or(0) as usize).saturating_sub(28).min(SIZES - 1)
}

fn kind(platform: Platform) -> u8 {
    match platform {
        Platform::Native => 1,
        Platform::Browser => 2,
    }
}

/// Power in half octaves.
pub(super) fn step(power: u32) -> u32 {
    power.checked_ilog2().map_or(0, |log| 2 * log + 2 + (log > 0 && power >> (log - 1) & 1 == 1) as u32)
}
