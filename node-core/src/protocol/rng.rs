/// The node's randomness: blake3 of a counter, keyed with a seed, so that a run can be repeated
/// from the seed alone on every platform.
#[derive(Clone)]
pub struct Rng {
    key: [u8; 32],
    drawn: u64,
}

impl Rng {
    pub fn from_seed(seed: [u8; 32]) -> Self {
        Rng { key: seed, drawn: 0 }
    }

    /// An independent generator for one part of the node.
    pub fn fork(seed: &[u8; 32], part: &str) -> Self {
        Rng::from_seed(*blake3::keyed_hash(seed, part.as_bytes()).as_bytes())
    }

    pub fn u64(&mut self) -> u64 {
        let hash = blake3::keyed_hash(&self.key, &self.drawn.to_le_bytes());
        self.drawn += 1;
        let (first, _) = hash.as_bytes().split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
        u64::from_le_bytes(*first)
    }

    /// Uniform in `0..bound`; 0 for a bound of 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The bias of a 128-bit product is under bound / 2^64.
        ((u128::from(self.u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Puts these into a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at as u64 + 1) as usize);
        }
    }
}
impl std::fmt::Debug for Rng {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Rng")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_the_whole_future_and_parts_are_independent() {
        let draw = |mut r: Rng| [r.u64(), r.u64(), r.below(10)];
        assert_eq!(draw(Rng::from_seed([7; 32])), draw(Rng::from_seed([7; 32])));
        assert_ne!(draw(Rng::from_seed([7; 32])), draw(Rng::from_seed([8; 32])));
        assert_ne!(draw(Rng::fork(&[7; 32], "owner")), draw(Rng::fork(&[7; 32], "runner")));
        assert!((0..1000).all(|seed| Rng::fork(&[seed as u8; 32], "x").below(3) < 3));
    }
}
