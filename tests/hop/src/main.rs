//! The native side of `tests/browser/hop.test.mjs`.
//!
//! ```text
//! hop make FOLDER COUNT SEED > batch    programs, and snapshots of them for a browser to go on from
//! hop finish FOLDER < back              goes on from what the browser made of them, to the end
//! ```
//! `make` runs each program undisturbed and keeps what it came to in FOLDER; `finish` compares.

mod program;
mod run;
#[path = "../../../native/src/engine/slot/wasm.rs"]
#[expect(dead_code, reason = "what else a slot needs of it")]
mod wasm;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use node_core::BlobId;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use run::{Ended, KEY, Ready, slice, taken, task};
use sandbox::snapshot::{Recorder, State, seal};
use sandbox::wasi::Halt;
use sandbox::{End, Outcome};
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::path::Path;
use web_driver::slot::{Answer, From, Job, Shot, decode, decode_answers, encode, encode_tasks};

/// About as much as each program does, units of fuel: a browser's turn uses some ten millions.
const WORK: u64 = 200_000_000;

/// Rounds that a program is tried with first.
const TRIED: u32 = 64;

/// Places in each program that a browser goes on from.
const HOPS: usize = 3;

/// Bytes in JSON.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
struct Text(String);

impl Text {
    fn of(bytes: &[u8]) -> Text {
        Text(BASE64_STANDARD.encode(bytes))
    }

    fn bytes(&self) -> Vec<u8> {
        BASE64_STANDARD.decode(&self.0).expect("base64")
    }
}

/// A program for the browser.
#[derive(Serialize)]
struct Sent {
    seed: u64,
    form: Text,
    program: Text,
    /// One task, at several places.
    tasks: Vec<Text>,
}

/// Result of one task in the browser.
#[derive(Deserialize)]
struct Back {
    seed: u64,
    hop: usize,
    /// It was suspended, or it ended there.
    shot: Option<Text>,
    sealed: Option<Text>,
    answers: Option<Text>,
}

/// Outcome of a program that is left alone, and where its hops begin.
#[derive(Serialize, Deserialize)]
struct Known {
    seed: u64,
    bit_exact: bool,
    rounds: u32,
    alone: Ended,
    /// Sealed and whole, one for each hop.
    bases: Vec<Vec<u8>>,
    /// Fuel at which the browser goes on.
    began: Vec<u64>,
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match &args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["make", folder, count, seed] => {
            make(Path::new(folder), count.parse().expect("a count"), seed.parse().expect("a seed"));
        }
        ["finish", folder] => finish(Path::new(folder)),
        _ => panic!("hop make FOLDER COUNT SEED, or hop finish FOLDER"),
    }
}

fn make(folder: &Path, count: usize, first: u64) {
    let made: Vec<(Sent, Known)> = (first..).filter_map(one).take(count).collect();
    let (sent, known): (Vec<Sent>, Vec<Known>) = made.into_iter().unzip();
    let known = encode("what is known", &known).expect("writable");
    std::fs::write(folder.join("known"), known).expect("a folder to write to");
    println!("{}", serde_json::to_string(&sent).expect("writable"));
}

/// The program of a seed, unless it cannot be suspended or does next to nothing.
fn one(seed: u64) -> Option<(Sent, Known)> {
    let program = program::program(seed)?;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    // Arithmetic of vectors of floats is refused then.
    let exact = seed.is_multiple_of(2).then(|| Ready::of(&program, true)).flatten();
    let mut ready = exact.or_else(|| Ready::of(&program, false))?;
    let mut tried = ready.start(&task(TRIED, seed));
    // Some run into the end that every function of theirs has.
    let Some(Halt::Exit(0)) = slice(&mut tried, 1 << 40) else { return None };
    let rounds = TRIED.max((u64::from(TRIED) * WORK / tried.fuel().max(1)).min(1 << 26) as u32);
    let task = task(rounds, seed);

    let mut running = ready.start(&task);
    let halt = slice(&mut running, 1 << 40)?;
    let alone = ready.ended(running, halt);
    if alone.outcome.fuel < WORK / 4 || !alone.outcome.end.is_success() {
        return None;
    }
    let (mut bases, mut began) = (Vec::new(), Vec::new());
    let mut tasks = Vec::new();
    for hop in 0..HOPS {
        let mut running = ready.start(&task);
        if slice(&mut running, random.next_u64() % (alone.outcome.fuel / 2)).is_some() {
            return None;
        }
        let mut recorder = ready.recorder();
        let mut newest = taken(&mut recorder, &mut running);
        let whole = seal(&KEY.0, newest.bytes.clone());
        // Some go on from what is relative to something else.
        let further = hop == 1 && slice(&mut running, 1 + random.next_u64() % 100_000).is_none();
        if further {
            newest = taken(&mut recorder, &mut running);
        }
        let id = BlobId::of(&whole);
        let (bytes, base) = if newest.base.is_some() {
            (seal(&KEY.0, newest.bytes), Some(whole.clone().into()))
        } else {
            (whole.clone(), None)
        };
        let from = From { bytes: bytes.into(), base, is_held: false, whole: id, root: newest.root };
        let job = Job { run: hop as u64 + 1, task: task.clone(), key: KEY, from: Some(from), ahead: false };
        tasks.push(Text::of(&encode_tasks(&[job]).expect("writable")));
        bases.push(whole);
        began.push(newest.fuel);
    }
    let form = Text::of(&encode("a form", &ready.form).expect("writable"));
    let sent = Sent { seed, form, program: Text::of(&program), tasks };
    Some((sent, Known { seed, bit_exact: ready.form.bit_exact, rounds, alone, bases, began }))
}

/// Totals of all hops.
#[derive(Default, Serialize)]
struct Tally {
    programs: usize,
    bit_exact: usize,
    /// Programs that both of wasmer's compilers take.
    both: usize,
    /// Resumed in the browser, suspended there, and ended in wasmer.
    hops: usize,
    /// Ended in the browser.
    ended: usize,
    /// Fuel that the browser used before it was suspended.
    fuel: u64,
}

fn finish(folder: &Path) {
    let known = std::fs::read(folder.join("known")).expect("what make left");
    let known: Vec<Known> = decode("what make left", &known).expect("readable");
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).expect("text");
    let back: Vec<Back> = serde_json::from_str(&text).expect("what the browser made of it");
    let mut tally = Tally::default();
    for known in &known {
        let back = back.iter().filter(|back| back.seed == known.seed);
        compare(known, back, &mut tally);
    }
    println!("{}", serde_json::to_string(&tally).expect("writable"));
}

fn compare<'b>(known: &Known, back: impl Iterator<Item = &'b Back>, tally: &mut Tally) {
    let Known { seed, bit_exact, rounds, alone, bases, began } = known;
    let program = program::program(*seed).expect("it was made before");
    let mut ready = Ready::of(&program, *bit_exact).expect("it was made ready before");
    let task = task(*rounds, *seed);
    tally.programs += 1;
    tally.bit_exact += usize::from(*bit_exact);
    tally.both += usize::from(ready.compilers() == 2);
    let mut states = Vec::new();
    for back in back {
        if let Some(answers) = &back.answers {
            let answers = decode_answers(&answers.bytes()).expect("answers");
            let [Answer::Ended(outcome)] = &answers[..] else { panic!("seed {seed}: {answers:?}") };
            let outcome = Outcome { cpu_us: 0, ..outcome.clone() };
            assert_eq!(outcome, alone.outcome, "seed {seed}, hop {}: it ended otherwise", back.hop);
            tally.ended += 1;
            continue;
        }
        let part = |part: &Option<Text>| part.as_ref().expect("an answer, or a snapshot").bytes();
        let shot: Shot = decode("a shot", &part(&back.shot)).expect("readable");
        let Shot::Taken { id, base, root, fuel, .. } = shot else { panic!("seed {seed}: {shot:?}") };
        let mut whole = bases[back.hop].clone();
        assert!(base.is_none_or(|base| base == BlobId::of(&whole)), "seed {seed}: of another base");
        let mut newest = part(&back.sealed);
        assert_eq!(id, BlobId::of(&newest), "seed {seed}: under another name");
        let origin = ready.form.origin();
        let state = match base {
            None => State::open(&KEY.0, &mut newest, None, &origin),
            Some(_) => State::open(&KEY.0, &mut whole, Some(&mut newest), &origin),
        };
        let state = state.unwrap_or_else(|bad| panic!("seed {seed}, hop {}: {bad}", back.hop));
        let checked = state.check().unwrap_or_else(|bad| panic!("seed {seed}, hop {}: {bad}", back.hop));
        assert_eq!((state.root(), state.fuel()), (root, fuel));
        states.push((fuel, back.hop, state, checked));
    }
    // One that stays where it is comes by the same states.
    states.sort_by_key(|(fuel, ..)| *fuel);
    let mut straight = ready.start(&task);
    for (fuel, hop, state, checked) in states {
        let what = format!("seed {seed}, hop {hop}, fuel {fuel}");
        if straight.fuel() < fuel {
            // It stops where more has been used than it was given.
            let given = fuel - straight.fuel() - 1;
            let halt = slice(&mut straight, given);
            assert!(halt.is_none(), "{what}: there is no such place");
        }
        assert_eq!(straight.fuel(), fuel, "{what}: it cannot be suspended there");
        let here = taken(&mut ready.recorder(), &mut straight);
        assert_eq!(here.root, state.root(), "{what}: V8 came to another state");

        let mut running = ready.resume(hop, &state, &task);
        let mut recorder = Recorder::resumed(state, checked, bases[hop].len());
        let mut ended = slice(&mut running, (alone.outcome.fuel - fuel) / 2);
        if ended.is_none() {
            let again = taken(&mut recorder, &mut running);
            let whole = taken(&mut ready.recorder(), &mut running);
            assert_eq!(again.root, whole.root, "{what}: a state has one root");
            let state = State::read(&whole.bytes, &ready.form.origin()).expect("its own snapshot");
            running = ready.resume(hop + 1, &state, &task);
            ended = slice(&mut running, 1 << 40);
        }
        let ended = ready.ended(running, ended.expect("its end"));
        assert!(ended.outcome.end == End::Exited(0) && ended == *alone, "{what}: it ended otherwise");
        tally.hops += 1;
        tally.fuel += fuel - began[hop];
    }
}
