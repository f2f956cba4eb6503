//! The world's own randomness: small and fast, since every message draws from it.

/// xoshiro256** (paper `xoshiro`), seeded through SplitMix64. The nodes keep the core's
/// generator, seeded from this one.
#[derive(Clone, Debug)]
pub struct Rng {
    s: [u64; 4],
}

impl Rng {
    pub fn new(seed: u64) -> Rng {
        let mut x = seed;
        Rng { s: std::array::from_fn(|_| splitmix(&mut x)) }
    }

    /// An independent generator for one part of the run, so that a part which draws more does
    /// not change what another part draws.
    pub fn fork(seed: u64, part: u64) -> Rng {
        let mut x = seed;
        let first = splitmix(&mut x);
        Rng::new(first ^ part.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    pub fn u64(&mut self) -> u64 {
        let s = &mut self.s;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Uniform in `0..bound`; 0 for a bound of 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Uniform in `low..=high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// Uniform in `0..1`, never 0.
    pub fn unit(&mut self) -> f64 {
        ((self.u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// True with this chance.
    pub fn chance(&mut self, chance: f64) -> bool {
        chance > 0.0 && self.unit() < chance
    }

    /// One of these, if there are any.
    pub fn one_of<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        of.get(self.below(of.len() as u64) as usize)
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }

    /// A seed for a node.
    pub fn seed(&mut self) -> [u8; 32] {
        let mut seed = [0; 32];
        for part in seed.chunks_exact_mut(8) {
            part.copy_from_slice(&self.u64().to_le_bytes());
        }
        seed
    }
}

pub(crate) fn splitmix(x: &mut u64) -> u64 {
    *x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *x;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_stay_within_their_bounds_and_repeat_from_the_seed() {
        let draw = |seed| {
            let mut rng = Rng::new(seed);
            (0..1000).map(|_| rng.between(3, 9)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        let all = draw(7);
        assert!((3..=9).all(|n| all.contains(&n)) && all.iter().all(|n| (3..=9).contains(n)));
        assert_eq!(Rng::new(1).below(0), 0);
        assert!((0..1000).map(|s| Rng::new(s).unit()).all(|u| u > 0.0 && u < 1.0));
    }

    #[test]
    fn forks_are_independent_of_each_other() {
        assert_ne!(Rng::fork(7, 1).u64(), Rng::fork(7, 2).u64());
        assert_ne!(Rng::fork(7, 1).u64(), Rng::fork(8, 1).u64());
    }
}
