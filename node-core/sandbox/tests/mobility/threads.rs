//! Threads that talk: each waits in the middle of its program, and may be moved there.

use crate::engine::Interpreted;
use crate::stories::{Made, made, origin, taken};
use sandbox::snapshot::{Recorder, State};
use sandbox::swarm::{Ask, Thread};
use sandbox::wasi::Halt;
use sandbox::{Instance, Limits, Outcome, Running, Slice, Task};

/// Two threads send a text to and fro, and each adds a letter of its own.
const PROGRAM: &str = include_str!("threads.wat");

fn task(number: u32) -> Task {
    let limits = Limits { memory_bytes: 20 << 16, ..Limits::default() };
    Task { thread: Some(Thread { number, workers: 2 }), limits, ..Task::default() }
}

struct One {
    task: Task,
    running: Running<Interpreted>,
    end: Option<Halt>,
    waited: u32,
}

/// Both of them in turns, in slices of so much fuel; those that wait are moved if `moves`.
fn play(slice: u64, moves: bool) -> Vec<(Outcome, u32)> {
    let mut made = made(PROGRAM, &task(0));
    assert!(made.prepared.layout.is_ok(), "{:?}", made.prepared.layout);
    let mut begin = |number| {
        let task = task(number);
        One { running: made.start(&task), task, end: None, waited: 0 }
    };
    let mut threads = [begin(0), begin(1)];
    for _ in 0..100_000 {
        let [a, b] = &mut threads;
        if a.end.is_some() && b.end.is_some() {
            return threads
                .into_iter()
                .map(|one| (one.running.finish(one.end.unwrap(), 0), one.waited))
                .collect();
        }
        step(&mut made, a, slice, moves);
        carry(a, b);
        step(&mut made, b, slice, moves);
        carry(b, a);
    }
    panic!("they do not end");
}

fn swarm(one: &mut One) -> &mut sandbox::swarm::Swarm {
    one.running.instance_mut().host().swarm().expect("it is a thread")
}

fn step(made: &mut Made, one: &mut One, slice: u64, moves: bool) {
    if one.end.is_some() || swarm(one).waits().is_some() {
        return;
    }
    match one.running.slice(slice) {
        Slice::Ended(halt) => one.end = Some(halt),
        Slice::Broken(why) => panic!("{why}"),
        Slice::Yielded => {}
        Slice::Waits => {
            one.waited += 1;
            if moves {
                let mut recorder = Recorder::new(origin(&one.task));
                let bytes = taken(&mut recorder, &mut one.running).bytes;
                let state = State::read(&bytes, &origin(&one.task)).unwrap();
                one.running = made.resume(&state, &one.task);
                // Another node may run it without knowing that it waits.
                assert_eq!(one.running.slice(slice), Slice::Waits);
            }
        }
    }
}

/// Messages of one arrive at the other; those that were received need not be kept.
fn carry(one: &mut One, other: &mut One) {
    for ask in swarm(one).asks() {
        if let Ask::Send { to, number, message, .. } = ask {
            let from = swarm(one).thread().number;
            assert_eq!(to, swarm(other).thread().number);
            if swarm(other).receive(from, number, message) {
                swarm(one).covered(to, number + 1);
            }
        }
    }
}

#[test]
fn threads_that_wait_go_on_where_they_were() {
    let alone = play(u64::MAX, false);
    let texts: Vec<&[u8]> = alone.iter().map(|(outcome, _)| &outcome.stdout[..]).collect();
    assert_eq!(texts, [&b"xbababababa"[..], b"xbabababab"]);
    assert!(alone.iter().all(|(outcome, waited)| outcome.end.is_success() && *waited >= 4), "{alone:?}");
    for slice in [1, 50, 1000, u64::MAX] {
        let moved = play(slice, true);
        let outcomes =
            |all: &[(Outcome, u32)]| all.iter().map(|(outcome, _)| outcome.clone()).collect::<Vec<_>>();
        assert_eq!(outcomes(&moved), outcomes(&alone), "slices of {slice}: fuel included");
    }
}
