//! Tasks that are sliced, paused, written down, and go on elsewhere.

use super::world::{FORM, KEY, Said, World, from, job};
use super::{FD_WRITE, import, print, program};
use crate::engine::{BrowserEngine, now_ms};
use crate::instance::BrowserInstance;
use js_sys::WebAssembly;
use sandbox::instrument::{Options, Tuning};
use sandbox::module::{Form, Prepared, prepare};
use sandbox::snapshot::{Recorder, State, open, seal};
use sandbox::{
    End, Engine, File, Instance, Limit, Limits, NotStarted, Outcome, Running, Slice, Task, run_task,
};
use wasm_bindgen_test::*;
use web_driver::slot::{Answer, From, Job};

/// The program of the sandbox's own tests, and what their interpreter makes of it.
const PROGRAM: &str = include_str!("../../../../node-core/sandbox/tests/mobility/program.wat");
const GOLDEN: &str = include_str!("../../../../node-core/sandbox/tests/mobility/golden.txt");

fn task() -> Task {
    Task {
        stdin: "01234567abcdefgh".into(),
        files: vec![File { path: "in/a".into(), data: vec![9; 5000].into() }],
        limits: Limits { memory_bytes: FORM.memory_bytes, ..Limits::default() },
        seed: 3,
        ..Task::default()
    }
}

struct Made {
    engine: BrowserEngine,
    prepared: Prepared,
    module: WebAssembly::Module,
}

impl Made {
    fn of(text: &str) -> Made {
        let program = wat::parse_str(text).expect("the test's program");
        let prepared = prepare(&program, &task().limits, Tuning::V8, Form::default()).expect("fit to run");
        let mut engine = BrowserEngine::new().expect("an engine");
        let module = engine.compile(&prepared).expect("compiled");
        Made { engine, prepared, module }
    }

    fn start(&mut self, task: &Task) -> Running<BrowserInstance> {
        let layout = self.prepared.layout.clone().expect("a layout");
        Running::start(&mut self.engine, &self.module, Some(layout), task).expect("started")
    }

    fn resume(&mut self, state: &State, task: &Task) -> Result<Running<BrowserInstance>, NotStarted> {
        let layout = self.prepared.layout.clone().expect("a layout");
        state.resume(&mut self.engine, &self.module, &layout, task)
    }

    fn undisturbed(&mut self, task: &Task) -> Outcome {
        let layout = self.prepared.layout.clone().expect("a layout");
        run_task(&mut self.engine, &self.module, Some(layout), task).expect("an outcome")
    }
}

fn state_of(recorder: &mut Recorder, running: &mut Running<BrowserInstance>) -> State {
    let captured = recorder.capture(running).expect("suspended");
    let bytes = recorder.encode(captured).bytes;
    let state = State::read(&bytes, &FORM.origin()).expect("a snapshot");
    state.check().expect("the right root");
    state
}

#[wasm_bindgen_test]
fn slices_of_any_length_end_as_one_does_with_the_same_fuel() {
    let mut made = Made::of(PROGRAM);
    let alone = made.undisturbed(&task());
    assert_eq!(alone.end, End::Exited(0));
    assert!(alone.fuel > 10_000, "{}", alone.fuel);
    for slice in [1, 101, 50_000] {
        let mut running = made.start(&task());
        let halt = loop {
            match running.slice(slice) {
                Slice::Yielded => {}
                Slice::Ended(halt) => break halt,
                Slice::Broken(why) => panic!("{why}"),
                Slice::Waits => panic!("it is no thread"),
            }
        };
        assert_eq!(running.finish(halt, 0), alone, "slices of {slice}");
    }
}

#[wasm_bindgen_test]
fn states_have_the_roots_that_other_engines_give_them() {
    let mut made = Made::of(PROGRAM);
    let mut running = made.start(&task());
    let mut found = String::new();
    while running.slice(9_000) == Slice::Yielded {
        let state = state_of(&mut Recorder::new(FORM.origin()), &mut running);
        let root: String = state.root().iter().map(|byte| format!("{byte:02x}")).collect();
        found += &format!("{} {root}\n", state.fuel());
    }
    assert_eq!(found, GOLDEN);
}

#[wasm_bindgen_test]
fn a_task_that_is_moved_at_every_slice_ends_the_same() {
    let mut made = Made::of(PROGRAM);
    let alone = made.undisturbed(&task());
    let mut running = made.start(&task());
    let halt = loop {
        match running.slice(1_009) {
            Slice::Ended(halt) => break halt,
            Slice::Broken(why) => panic!("{why}"),
            Slice::Waits => panic!("it is no thread"),
            Slice::Yielded => {}
        }
        let state = state_of(&mut Recorder::new(FORM.origin()), &mut running);
        running = made.resume(&state, &task()).expect("resumed");
    };
    assert_eq!(running.finish(halt, 0), alone);
}

/// Writes its globals to stdout after a while.
const GLOBALS: &str = r#"(module
    (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
    (memory (export "memory") 1)
    (global $a (mut i32) (i32.const 0)) (global $b (mut i64) (i64.const 0))
    (global $c (mut f32) (f32.const 0)) (global $d (mut f64) (f64.const 0))
    (global $e (mut v128) (v128.const i64x2 0 0))
    (data (i32.const 0) "\40\00\00\00\28\00\00\00")
    (func $wait (local $i i32)
        (loop $l (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 1000)))))
    (func (export "_start")
        (global.set $a (i32.const -5)) (global.set $b (i64.const -9223372036854775807))
        (global.set $c (f32.reinterpret_i32 (i32.const 0xffa00001)))
        (global.set $d (f64.reinterpret_i64 (i64.const 0x7ff4000000000123)))
        (global.set $e (v128.const i32x4 0xffa00001 2 0x80000003 4))
        (call $wait)
        (i32.store (i32.const 64) (global.get $a)) (i64.store (i32.const 68) (global.get $b))
        (f32.store (i32.const 76) (global.get $c)) (f64.store (i32.const 80) (global.get $d))
        (v128.store (i32.const 88) (global.get $e))
        (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 48)))))"#;

#[wasm_bindgen_test]
fn globals_of_every_type_move_bit_by_bit() {
    let mut made = Made::of(GLOBALS);
    let mut running = made.start(&task());
    assert_eq!(running.slice(500), Slice::Yielded);
    let state = state_of(&mut Recorder::new(FORM.origin()), &mut running);
    let mut resumed = made.resume(&state, &task()).expect("resumed");
    let layout = made.prepared.layout.clone().expect("a layout");
    let bits: Vec<u128> = layout.globals.iter().map(|slot| resumed.instance_mut().global(slot)).collect();
    let vector = 0xffa0_0001 | 2 << 32 | 0x8000_0003 << 64 | 4 << 96;
    assert_eq!(bits, [0xffff_fffb, 0x8000_0000_0000_0001, 0xffa0_0001, 0x7ff4_0000_0000_0123, vector]);
    let Slice::Ended(halt) = resumed.slice(1 << 40) else { panic!("it goes on") };
    let wanted: Vec<u8> =
        [&bits[0].to_le_bytes()[..4], &bits[1].to_le_bytes()[..8], &bits[2].to_le_bytes()[..4]]
            .into_iter()
            .chain([&bits[3].to_le_bytes()[..8], &bits[4].to_le_bytes()[..]])
            .flatten()
            .copied()
            .collect();
    assert_eq!(resumed.finish(halt, 0).stdout, wanted);
}

/// Computes for a second or so and prints what it came to.
fn long() -> Vec<u8> {
    let start = format!(
        "(local $i i32) (local $h i64)
         (loop $l
            (local.set $h (i64.mul (i64.xor (local.get $h) (i64.extend_i32_u (local.get $i))) (i64.const 1099511628211)))
            (i64.store (i32.add (i32.const 4096) (i32.and (local.get $i) (i32.const 0xfff8))) (local.get $h))
            (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 100000000))))
         (i64.store (i32.const 100) (local.get $h)) {}",
        print(100, 8)
    );
    program(&import("fd_write", FD_WRITE), &format!("{start} (drop (memory.grow (i32.const 1)))"))
}

fn endless() -> Vec<u8> {
    program("", "(loop $l (i32.store (i32.const 8) (i32.const 1)) br $l)")
}

fn brief() -> Task {
    Task { limits: Limits { fuel: 1_000, ..Limits::default() }, ..Task::default() }
}

fn ended(answer: &Answer) -> &Outcome {
    match answer {
        Answer::Ended(outcome) => outcome,
        other => panic!("{other:?}"),
    }
}

#[wasm_bindgen_test]
fn a_long_task_moves_to_another_worker_and_on() {
    let mut first = World::with(&long());
    first.queue(&[job(1, Task::default())]);
    first.go_on();
    let answer = first.answer();
    let alone = ended(&answer);
    assert_eq!(alone.end, End::Exited(0));

    first.queue(&[job(2, Task::default())]);
    assert_eq!(first.slot.turn().expect("a turn"), 0.0, "it comes back by itself");
    let whole = first.snapshot(2, false);
    assert!(whole.base.is_none() && whole.fuel > 0 && whole.fuel < alone.fuel);
    first.slot.turn().expect("a turn");
    let relative = first.snapshot(2, true);
    assert_eq!(first.slot.turn().expect("a turn"), -1.0, "it is over there");

    let mut second = first.sibling();
    second.queue(&[Job { from: Some(from(&relative, Some(&whole))), ..job(3, Task::default()) }]);
    second.slot.turn().expect("a turn");
    let third_from = second.snapshot(3, true);
    assert_eq!(third_from.base, relative.base, "the base that it began from serves on");
    // The base of that snapshot comes before the snapshot.
    let mut third = first.sibling();
    third.queue(&[Job { from: Some(from(&whole, None)), ahead: true, ..job(4, Task::default()) }]);
    third.go_on();
    assert_eq!(third.answer(), Answer::Prepared);
    let from = From { base: None, is_held: true, ..from(&third_from, Some(&whole)) };
    third.queue(&[Job { from: Some(from), ..job(5, Task::default()) }]);
    third.go_on();
    let answer = third.answer();
    let moved = ended(&answer);
    assert_eq!((&moved.stdout, moved.fuel, &moved.end), (&alone.stdout, alone.fuel, &alone.end));
    assert!(moved.cpu_us > 0);
}

#[wasm_bindgen_test]
fn what_has_not_begun_has_no_snapshot_but_where_it_began() {
    let mut world = World::with(&endless());
    world.queue(&[job(1, Task::default()), job(2, Task::default())]);
    world.slot.turn().expect("a turn");
    world.slot.snapshot(2.0, false).expect("obeyed");
    world.slot.snapshot(2.0, true).expect("obeyed");
    let none = |stopped| Said::Snapshot { run: 2, taken: Err(node_core::NoSnapshot::NotBegun), stopped };
    assert_eq!(world.take(), [none(false), none(true)]);
    world.slot.snapshot(9.0, true).expect("of a run that is not there");
    assert_eq!(world.take(), []);
}

#[wasm_bindgen_test]
fn a_kill_ends_the_task_and_not_the_worker() {
    let mut world = World::with(&endless());
    world.queue(&[job(1, Task::default()), job(2, Task::default()), job(3, brief())]);
    world.slot.turn().expect("a turn");
    world.slot.kill(2.0).expect("obeyed");
    world.slot.kill(1.0).expect("obeyed");
    world.slot.kill(1.0).expect("once is enough");
    assert_eq!(world.take(), [Said::Gone(vec![2]), Said::Gone(vec![1])]);
    world.go_on();
    assert_eq!(ended(&world.answer()).end, End::LimitReached(Limit::Fuel(1_000)));
}

#[wasm_bindgen_test]
fn a_paused_task_waits_and_gives_those_behind_it_back() {
    let mut world = World::with(&long());
    world.queue(&[job(1, Task::default()), job(2, Task::default())]);
    world.slot.turn().expect("a turn");
    world.slot.pause(1.0, true).expect("obeyed");
    assert_eq!(world.take(), [Said::Gone(vec![2])]);
    for _ in 0..3 {
        assert_eq!(world.slot.turn().expect("a turn"), -1.0);
    }
    let (before, after) = (world.snapshot(1, false), world.snapshot(1, false));
    assert_eq!((before.fuel, before.root), (after.fuel, after.root), "it stands still");
    world.slot.pause(1.0, false).expect("obeyed");
    world.go_on();
    assert_eq!(ended(&world.answer()).end, End::Exited(0));
}

#[wasm_bindgen_test]
fn a_task_whose_time_is_up_ends_with_what_it_had() {
    let endless = program(
        &import("fd_write", FD_WRITE),
        &format!("{} (loop $l (i32.store (i32.const 8) (i32.const 1)) br $l)", print(100, 4)),
    );
    let mut world = World::with(&endless);
    world.queue(&[job(1, Task::default())]);
    world.slot.turn().expect("a turn");
    world.slot.time_up(1.0).expect("obeyed");
    let answer = world.answer();
    let outcome = ended(&answer);
    assert_eq!(outcome.end, End::LimitReached(Limit::TimeUs(Limits::default().time_us)));
    assert!(outcome.stdout.len() == 4 && outcome.fuel > 0 && outcome.cpu_us > 0);
}

#[wasm_bindgen_test]
fn turns_are_short_and_a_share_makes_rests() {
    let mut world = World::with(&endless());
    world.queue(&[job(1, Task::default())]);
    let began = now_ms();
    for _ in 0..20 {
        assert_eq!(world.slot.turn().expect("a turn"), 0.0);
    }
    let mean = (now_ms() - began) / 20.0;
    console_log!("a turn of a long task: {mean:.1} ms");
    assert!(mean < 40.0, "an order would wait for {mean} ms");
    world.slot.share(25.0);
    let began = now_ms();
    let rest = world.slot.turn().expect("a turn");
    let turn = now_ms() - began;
    assert!(rest > turn && rest < turn * 5.0 + 2.0, "{rest} after {turn}");
    let early = world.slot.turn().expect("a turn");
    assert!(early > 0.0 && early <= rest, "it rests though it was asked");
}

#[wasm_bindgen_test]
fn a_program_that_cannot_be_suspended_runs_to_its_end_in_one_turn() {
    let text = r#"(module (memory (export "memory") 1) (elem declare func $f)
        (func $f) (func $hold (result i32) (local $r funcref) (local.set $r (ref.func $f))
            (loop $l (br_if $l (i32.const 0))) (ref.is_null (local.get $r)))
        (func (export "_start") (drop (call $hold))))"#;
    let mut world = World::with(&wat::parse_str(text).expect("a program"));
    world.queue(&[job(1, Task::default()), job(2, Task::default())]);
    world.go_on();
    let answers = world.take().into_iter().map(|said| match said {
        Said::Answers(answers) => answers.len(),
        other => panic!("{other:?}"),
    });
    assert_eq!(answers.sum::<usize>(), 2);
    let from = From {
        bytes: seal(&KEY.0, vec![1]).into(),
        base: None,
        is_held: false,
        whole: FORM.program,
        root: [0; 32],
    };
    world.queue(&[Job { from: Some(from), ..job(3, Task::default()) }]);
    world.go_on();
    assert!(matches!(world.answer(), Answer::Unusable(why) if why.starts_with("its snapshot")));
}

#[wasm_bindgen_test]
fn a_hostile_snapshot_is_refused_or_harms_its_own_task_only() {
    let mut world = World::with(&long());
    world.queue(&[job(1, Task::default())]);
    world.slot.turn().expect("a turn");
    let whole = world.snapshot(1, false);
    world.slot.turn().expect("a turn");
    let relative = world.snapshot(1, true);
    let good = from(&relative, Some(&whole));
    let mut sealed = whole.bytes.to_vec();
    let plain = open(&KEY.0, &mut sealed).expect("its own key").to_vec();
    let of = |bytes: Vec<u8>| From {
        bytes: bytes.into(),
        base: None,
        is_held: false,
        whole: good.whole,
        root: whole.root,
    };
    let mut flipped = plain.clone();
    flipped[plain.len() / 2] ^= 1;
    let mut bad = vec![
        of(plain.clone()),
        of(seal(&[6; 32], plain.clone())),
        of(whole.bytes[..whole.bytes.len() - 1].to_vec()),
        of(Vec::new()),
        of(seal(&KEY.0, plain[..plain.len() - 1].to_vec())),
        of(seal(&KEY.0, flipped)),
        From { root: [1; 32], ..of(whole.bytes.to_vec()) },
        From { base: None, ..good.clone() },
        From { base: Some(relative.bytes.clone()), ..good.clone() },
    ];
    for from in bad.drain(..) {
        world.queue(&[Job { from: Some(from), ..job(2, Task::default()) }]);
        world.go_on();
        match world.answer() {
            Answer::Unusable(why) => assert!(why.starts_with("its snapshot cannot be used: "), "{why}"),
            other => panic!("{other:?}"),
        }
    }

    // A previous runner can forge any state with the right hash.
    let mut made = Made::of(PROGRAM);
    for spoil in 0..60_u32 {
        let mut running = made.start(&task());
        assert_eq!(running.slice(9_000), Slice::Yielded);
        let instance = running.instance_mut();
        let frames = instance.memory_bytes() - u64::from(Options::default().frame_pages) * 65_536;
        let wild = spoil.wrapping_mul(0x9e37_79b9).to_le_bytes();
        instance.write_memory(frames + u64::from(spoil) * 4, &wild).expect("within");
        let state = state_of(&mut Recorder::new(FORM.origin()), &mut running);
        let Ok(mut forged) = made.resume(&state, &task()) else { continue };
        for _ in 0..50 {
            if forged.slice(1_000) != Slice::Yielded {
                break;
            }
        }
    }
    world.queue(&[Job { from: Some(good), ..job(4, Task::default()) }]);
    world.go_on();
    assert_eq!(ended(&world.answer()).end, End::Exited(0), "the slot is as good as before");
}
