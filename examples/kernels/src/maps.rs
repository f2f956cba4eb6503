//! Strings as keys of a tree map.

use std::collections::BTreeMap;

pub(crate) fn run(rounds: u32) -> i64 {
    let mut counts: BTreeMap<String, i64> = BTreeMap::new();
    let mut x = 99u32;
    for round in 0..rounds {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        *counts.entry(format!("k{}", x % 5000)).or_default() += i64::from(round);
    }
    counts.iter().fold(0, |sum: i64, (key, count)| sum.wrapping_mul(3) ^ count.wrapping_add(key.len() as i64))
}
