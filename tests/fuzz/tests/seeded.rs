//! Every target over its corpus, and over bytes from fixed seeds: what libFuzzer does, without it.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Instant;

/// Times as many runs: `MANYHANDS_RUNS=100 cargo test -p fuzz --release`. With `MANYHANDS_CASES` each target
/// has so many, and says how fast it was.
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

fn all<T>(name: &str, runs: u64, target: fn(&[u8]) -> T) {
    let corpus = corpus(name);
    for (path, bytes) in &corpus {
        let told = Told(path.clone());
        target(bytes);
        drop(told);
    }
    let number = |name| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let (first, cases) = (number("MANYHANDS_FIRST").unwrap_or(0), number("MANYHANDS_CASES"));
    let began = Instant::now();
    let last = first + cases.unwrap_or(runs * times());
    for seed in first..last {
        let told = Told(format!("seed {seed} of {name}"));
        target(&bytes(seed, &corpus));
        drop(told);
        let done = seed + 1 - first;
        if cases.is_some() && (done.is_multiple_of(1_000_000) || seed + 1 == last) {
            let each = done as f64 / began.elapsed().as_secs_f64();
            println!("{name}: {done} cases, {each:.0} a second");
        }
    }
}

/// A target whose way through its input shows by a number.
type Shows = fn(&[u8]) -> u64;

/// Those whose corpus [`a_corpus_is_made`].
const MADE: [(&str, Shows); 5] = [
    ("frames", fuzz::frames),
    ("wire", fuzz::wire),
    ("node", fuzz::node),
    ("listings", fuzz::listings),
    ("records", fuzz::records),
];

/// Writes the corpus of each of [`MADE`] again: of each way that seeds take, the shortest input.
/// `cargo test -p fuzz --test seeded -- --ignored`.
#[test]
#[ignore = "it writes into the repository"]
fn a_corpus_is_made() {
    /// Entries of one, and bytes of an entry.
    const ENTRIES: usize = 40;
    const LONGEST: u64 = 300;
    for (name, target) in MADE {
        let mut ways = BTreeMap::<u64, Vec<u8>>::new();
        for seed in 0..4_000 {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
            let mut bytes = vec![0; 8 + (random.next_u64() % LONGEST) as usize];
            random.fill_bytes(&mut bytes);
            let kept = ways.entry(target(&bytes)).or_insert_with(|| bytes.clone());
            if bytes.len() < kept.len() {
                *kept = bytes;
            }
        }
        let mut entries: Vec<Vec<u8>> = ways.into_values().collect();
        // A target that shows few ways has more of its inputs.
        for seed in 0.. {
            if entries.len() >= ENTRIES.min(12) {
                break;
            }
            let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
            let mut bytes = vec![0; 20 * (1 + seed as usize)];
            random.fill_bytes(&mut bytes);
            entries.push(bytes);
        }
        entries.truncate(ENTRIES);
        entries.sort_by_key(Vec::len);
        let folder = Path::new("corpus").join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        for (n, entry) in entries.iter().enumerate() {
            fs::write(folder.join(format!("{n:02}")), entry).expect("written");
        }
    }
}

#[test]
fn a_stream_is_read_frame_by_frame_wherever_it_is_cut() {
    all("frames", 4_000, fuzz::frames);
}

#[test]
fn a_frame_is_refused_in_words_or_is_a_message_that_comes_back() {
    all("wire", 20_000, fuzz::wire);
}

#[test]
fn whatever_peers_say_a_node_goes_on_and_stays_within_bounds() {
    all("node", 1_500, fuzz::node);
}

#[test]
fn what_is_signed_is_worth_no_more_than_it_says() {
    all("listings", 4_000, fuzz::listings);
}

#[test]
fn a_node_begins_on_any_disk() {
    all("records", 600, fuzz::records);
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
