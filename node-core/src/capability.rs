//! Capabilities of nodes, as far as jobs may ask for them.

use crate::address::Address;
use serde::{Deserialize, Serialize};

/// Capabilities of a node; also the least that a job asks of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Capability {
    /// Memory that a unit may have, MiB.
    pub memory: u32,
    /// Speed of a slot, in the unit of a node's own power.
    pub speed: u32,
    /// Space on disk that a unit may have, MiB.
    pub disk: u32,
    pub words: Words,
}

impl Capability {
    /// Its resources that are compared by size.
    pub fn sizes(&self) -> [u32; 3] {
        [self.memory, self.speed, self.disk]
    }

    /// Whether a node with these capabilities has all that is asked for. Of words that is a guess which errs to yes.
    pub fn covers(&self, needs: &Capability) -> bool {
        self.sizes().iter().zip(needs.sizes()).all(|(has, need)| *has >= need) && self.words.has(needs.words)
    }

    /// The least that covers all that either covers.
    pub fn join(&self, other: &Capability) -> Capability {
        Capability {
            memory: self.memory.max(other.memory),
            speed: self.speed.max(other.speed),
            disk: self.disk.max(other.disk),
            words: self.words.with(other.words),
        }
    }
}

/// A node that can run something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    pub at: Address,
    pub capability: Capability,
}

/// Words that hold for a node, as `platform = native` or a label of its donor: a set in 64 bits, one bit a word. A word
/// that is in it is found in it; one that is not may be, if another has the same bit. The node itself compares the
/// words when it is given work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Words(pub u64);

/// A word, for whom one of 64 bits is too little: another has the same number once in 4 billion. Never 0.
pub fn number_of(key: &str, value: &str) -> u32 {
    let hash = hash_of(key, value);
    u32::from_le_bytes([hash[1], hash[2], hash[3], hash[4]]).max(1)
}

fn hash_of(key: &str, value: &str) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key("manyhands 2026-11 word of a capability");
    // The length keeps `a = bc` and `ab = c` apart.
    hasher.update(&(key.len() as u64).to_le_bytes()).update(key.as_bytes()).update(value.as_bytes());
    *hasher.finalize().as_bytes()
}

impl Words {
    pub const NONE: Words = Words(0);

    pub fn of(key: &str, value: &str) -> Words {
        Words(1 << (hash_of(key, value)[0] % 64))
    }

    pub fn with(self, other: Words) -> Words {
        Words(self.0 | other.0)
    }

    pub fn has(self, all: Words) -> bool {
        self.0 & all.0 == all.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_all_that_is_asked_for_covers_it() {
        let linux = Words::of("os", "linux");
        let node =
            Capability { memory: 100, speed: 20, disk: 0, words: linux.with(Words::of("site", "vienna")) };
        let asks = |memory, speed, words| Capability { memory, speed, disk: 0, words };
        assert!(node.covers(&asks(100, 20, linux)) && node.covers(&Capability::default()));
        assert!(!node.covers(&asks(101, 0, Words::NONE)) && !node.covers(&asks(0, 21, Words::NONE)));
        assert!(!node.covers(&asks(0, 0, Words::of("os", "macos"))));
        let other = asks(50, 30, Words::of("os", "macos"));
        let both = node.join(&other);
        assert!(both.covers(&node) && both.covers(&other) && !node.covers(&both));
    }

    #[test]
    fn a_word_is_its_key_and_its_value() {
        assert_eq!(Words::of("os", "linux"), Words::of("os", "linux"));
        let same = |at: &u32| Words::of(&format!("os{at}"), "1") == Words::of("os", &format!("{at}1"));
        assert!((0..100).filter(same).count() < 10, "some share a bit");
        let all = (0..1000).fold(Words::NONE, |all, at| all.with(Words::of("site", &at.to_string())));
        assert_eq!(all.0, u64::MAX, "all bits are used");
    }
}
