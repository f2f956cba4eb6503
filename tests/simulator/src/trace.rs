//! The trace of a run in one number: two runs of a seed are the same event for event if their
//! hashes are.

/// A hash that is fed with everything that happens. Not for enemies: the run is our own.
#[derive(Clone, Copy, Debug)]
pub struct Trace(u64);

impl Default for Trace {
    fn default() -> Self {
        Trace(0x6d61_6e79_6861_6e64)
    }
}

impl Trace {
    pub fn number(&mut self, number: u64) {
        let x = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = x ^ (x >> 29);
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.number(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.number(u64::from_le_bytes(last) ^ (bytes.len() as u64) << 56);
    }

    pub fn hash(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_and_its_place_count() {
        let hash = |parts: &[&[u8]]| {
            let mut trace = Trace::default();
            parts.iter().for_each(|part| trace.bytes(part));
            trace.hash()
        };
        let all =
            [hash(&[b"abcdefghi"]), hash(&[b"abcdefgh", b"i"]), hash(&[b"abcdefgi"]), hash(&[b"bacdefghi"])];
        assert!((0..4).all(|i| (0..i).all(|j| all[i] != all[j])));
        assert_eq!(hash(&[b"abc"]), hash(&[b"abc"]));
    }
}
