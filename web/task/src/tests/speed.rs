//! Cost of slices and snapshots. Printed; `cargo test --profile web` shows the figures of a page.

use super::world::{World, job};
use crate::engine::{BrowserEngine, now_ms};
use sandbox::instrument::Tuning;
use sandbox::module::{Form, prepare};
use sandbox::{Engine, Limits, Running, Slice, Task};
use wasm_bindgen_test::*;

/// Unoptimised code is for showing that it works.
const MIB: u32 = if cfg!(debug_assertions) { 4 } else { 64 };

/// Fills its memory with noise, then writes to one page in a hundred for ever.
fn busy(mib: u32) -> Vec<u8> {
    let text = format!(
        r#"(module (memory (export "memory") {pages})
        (func $noise (local $at i32) (local $x i64)
            (local.set $x (i64.const 88172645463325252))
            (loop $l
                (local.set $x (i64.xor (local.get $x) (i64.shl (local.get $x) (i64.const 13))))
                (local.set $x (i64.xor (local.get $x) (i64.shr_u (local.get $x) (i64.const 7))))
                (i64.store (local.get $at) (local.get $x))
                (br_if $l (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const 64))) (i32.const {bytes})))))
        (func (export "_start") (local $at i32) (local $n i64)
            (call $noise)
            (loop $l
                (i64.store (local.get $at) (local.tee $n (i64.add (local.get $n) (i64.const 1))))
                (local.set $at (i32.add (local.get $at) (i32.const 409600)))
                (if (i32.ge_u (local.get $at) (i32.const {bytes})) (then (local.set $at (i32.const 0))))
                (br $l))))"#,
        pages = mib * 16,
        bytes = mib << 20
    );
    wat::parse_str(&text).unwrap_or_else(|e| panic!("{e}"))
}

#[wasm_bindgen_test]
fn a_task_stands_still_for_milliseconds_while_it_is_written_down() {
    let mut world = World::with_memory(&busy(MIB), u64::from(MIB + 1) << 20);
    world.queue(&[job(1, Task::default())]);
    let began = now_ms();
    while now_ms() - began < 1_000.0 {
        assert_eq!(world.slot.turn().expect("a turn"), 0.0);
    }
    let mut tell = |what: &str| {
        let began = now_ms();
        let taken = world.snapshot(1, false);
        let all = now_ms() - began;
        for _ in 0..5 {
            world.slot.turn().expect("a turn");
        }
        console_log!(
            "{what} of {MIB} MiB: paused {:.1} ms, {all:.1} ms in all, {} bytes",
            taken.pause_us as f64 / 1000.0,
            taken.bytes.len()
        );
        taken
    };
    assert!(tell("a whole snapshot").base.is_none());
    for _ in 0..4 {
        let taken = tell("1 % since the last whole one");
        assert!(taken.base.is_some());
        // Ten times what an optimised build takes on a quiet machine.
        assert!(taken.pause_us < 1_000_000, "{} µs", taken.pause_us);
    }
}

#[wasm_bindgen_test]
fn slices_cost_little() {
    let text = r#"(module (memory (export "memory") 1)
        (func $deep (param $n i32) (result i32) (local $i i32)
            (if (local.get $n) (then (return (call $deep (i32.sub (local.get $n) (i32.const 1))))))
            (loop $l (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 200000000))))
            (local.get $i))
        (func (export "_start") (drop (call $deep (i32.const 30)))))"#;
    let program = wat::parse_str(text).expect("a program");
    let prepared = prepare(&program, &Limits::default(), Tuning::V8, Form::default()).expect("fit to run");
    let mut engine = BrowserEngine::new().expect("an engine");
    let module = engine.compile(&prepared).expect("compiled");
    let mut time = |slice: u64| {
        let layout = prepared.layout.clone().ok();
        let mut running = Running::start(&mut engine, &module, layout, &Task::default()).expect("started");
        let (began, mut slices) = (now_ms(), 0);
        while running.slice(slice) == Slice::Yielded {
            slices += 1;
        }
        (now_ms() - began, slices)
    };
    let (mut whole, mut sliced, mut slices) = (f64::MAX, f64::MAX, 0);
    for _ in 0..3 {
        whole = whole.min(time(u64::MAX).0);
        let (ms, n) = time(1_000_000);
        (sliced, slices) = (sliced.min(ms), n);
    }
    let each = (sliced - whole) * 1000.0 / f64::from(slices);
    console_log!(
        "{whole:.0} ms at a stretch, {sliced:.0} ms in {slices} slices 32 calls deep: {each:.1} µs each"
    );
    assert!(slices > 100);
}
