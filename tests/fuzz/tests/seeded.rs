//! Every target over its corpus, and over bytes from fixed seeds: what libFuzzer does, without it.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::fs;
use std::path::Path;

/// Times as many runs: `MANYHANDS_RUNS=100 cargo test -p fuzz --release`.
fn times() -> u64 {
    std::env::var("MANYHANDS_RUNS").ok().and_then(|n| n.parse().ok()).unwrap_or(1)
}

/// Says which input it was if the target panics.
struct Told(String);

impl Drop for Told {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("it was {}", self.0);
        }
    }
}

fn corpus(name: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new("corpus").join(name);
    let entries = fs::read_dir(&folder).expect("a corpus").flatten();
    let mut all: Vec<(String, Vec<u8>)> = entries
        .map(|entry| (entry.path().display().to_string(), fs::read(entry.path()).expect("readable")))
        .collect();
    all.sort();
    assert!(all.len() > 10, "{} is where the corpus is looked for", folder.display());
    all
}

/// Half of them a seed's own bytes, half an entry of the corpus with a few changed.
fn bytes(seed: u64, corpus: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut bytes = if seed.is_multiple_of(2) {
        let mut bytes = vec![0; 8 + random.next_u64() as usize % 600];
        random.fill_bytes(&mut bytes);
        // Lengths and choices are drawn from small numbers too.
        let small = random.next_u32();
        bytes.iter_mut().enumerate().filter(|(i, _)| small >> (i % 32) & 1 == 1).for_each(|(_, b)| *b &= 15);
        bytes
    } else {
        corpus[random.next_u64() as usize % corpus.len()].1.clone()
    };
    for _ in 0..random.next_u32() % 8 {
        let at = random.next_u64() as usize % bytes.len().max(1);
        match (random.next_u32() % 4, bytes.get_mut(at)) {
            (0, _) => bytes.truncate(at),
            (1, _) => bytes.insert(at.min(bytes.len()), random.next_u32() as u8),
            (2, Some(byte)) => *byte ^= 1 << (random.next_u32() % 8),
            (_, Some(byte)) => *byte = random.next_u32() as u8,
            (_, None) => {}
        }
    }
    bytes
}

fn all(name: &str, runs: u64, target: fn(&[u8])) {
    let corpus = corpus(name);
    for (path, bytes) in &corpus {
        let told = Told(path.clone());
        target(bytes);
        drop(told);
    }
    for seed in 0..runs * times() {
        let told = Told(format!("seed {seed} of {name}"));
        target(&bytes(seed, &corpus));
        drop(told);
    }
}

#[test]
fn whatever_claims_to_be_a_snapshot_is_refused_or_true() {
    all("snapshot_open", 4_000, fuzz::snapshot_open);
}

#[test]
fn a_state_that_nobody_came_to_harms_its_own_task_only() {
    all("resume", 1_000, fuzz::resume);
}

#[test]
fn a_program_is_refused_or_becomes_a_valid_module() {
    all("instrument", 3_000, fuzz::instrument);
}
