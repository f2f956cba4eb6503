//! NaNs whose bits differ between engines, and every place where that could be seen.

use crate::driver::{FOREVER, Made, options, raw, sliced, wasm};
use sandbox::instrument::{Options, instrument};
use wasmi::Val;

fn exact(program: &[u8]) -> Made {
    let made = Made::of(program, &Options { bit_exact: true, ..options() });
    made.unwrap_or_else(|refusal| panic!("refused: {refusal}"))
}

/// A program whose argument is the payload of a NaN that it calculates with, as an engine might
/// make one: what `show` does with `$x` (f64) and `$y` (f32) must not depend on it.
fn program(show: &str) -> Vec<u8> {
    wasm(&format!(
        r#"(module (memory (export "memory") 1) (global $g (mut f64) (f64.const 0)) (global $h (mut f32) (f32.const 0))
            (func $spin (loop (br_if 0 (i32.const 0))))
            (func $id (param f64) (result f64) (call $spin) (local.get 0))
            (func $show (param $x f64) (param $y f32) (result f64) {show})
            (func (export "run") (param $bits i64) (result f64) (local $x f64) (local $y f32)
                (local.set $x (f64.add (f64.reinterpret_i64 (local.get $bits)) (f64.const 1)))
                (local.set $y (f32.demote_f64 (local.get $x)))
                (call $show (local.get $x) (local.get $y))))"#
    ))
}

#[test]
fn no_bits_of_a_nan_can_be_seen() {
    let places = [
        ("stored", "(f64.store (i32.const 8) (local.get $x)) (f32.store (i32.const 16) (local.get $y)) (f64.const 0)"),
        (
            "taken for integers",
            "(i64.store (i32.const 8) (i64.reinterpret_f64 (local.get $x)))
             (i32.store (i32.const 16) (i32.reinterpret_f32 (local.get $y))) (f64.const 0)",
        ),
        ("a sign", "(f64.copysign (f64.const 3) (local.get $x)) (drop (f32.copysign (f32.const 3) (local.get $y)))"),
        ("in globals", "(global.set $g (local.get $x)) (global.set $h (local.get $y)) (f64.const 0)"),
        ("returned to the host", "(local.get $x)"),
        ("in an operand across a call", "(f64.neg (f64.add (local.get $x) (call $id (local.get $x))))"),
        (
            "in a vector",
            "(v128.store (i32.const 8) (f64x2.splat (local.get $x)))
             (v128.store (i32.const 32) (f32x4.replace_lane 2 (f32x4.splat (f32.const 1)) (local.get $y))) (f64.const 0)",
        ),
    ];
    let payloads =
        [0x7ff8_0000_0000_0000_u64, 0xfff8_0000_0000_0000, 0x7ff8_0000_00de_ad00, 0xffff_1234_5678_9abc];
    for (what, show) in places {
        let program = program(show);
        let made = exact(&program);
        let runs = payloads.map(|bits| {
            let args = [Val::I64(bits as i64)];
            let whole = sliced(&made, "run", &args, FOREVER, 0);
            let moved = sliced(&made, "run", &args, 0, 0);
            assert_eq!(whole.done, moved.done, "{what}: moved");
            (whole.done, whole.fuel)
        });
        assert!(runs.iter().all(|run| *run == runs[0]), "{what}");
        // The test would show something: without, the interpreter does let the bits through.
        let seen = payloads.map(|bits| raw(&program, "run", &[Val::I64(bits as i64)]));
        let is_global = what == "in globals";
        assert!(is_global || seen.iter().any(|run| *run != seen[0]), "{what}: seen nowhere");
    }
}

#[test]
fn numbers_stay_what_they_are() {
    let program = program(
        "(f64.store (i32.const 8) (local.get $x)) (f32.store (i32.const 16) (local.get $y))
         (global.set $g (local.get $x)) (f64.copysign (local.get $x) (f64.promote_f32 (local.get $y)))",
    );
    for x in [0.0_f64, -0.0, 1.5, -3.25, f64::INFINITY, f64::NEG_INFINITY, f64::MIN_POSITIVE] {
        let args = [Val::I64(x.to_bits() as i64)];
        let done = sliced(&exact(&program), "run", &args, 1, 0).done;
        let plain = raw(&program, "run", &args);
        assert_eq!((done.end, done.memory), (plain.end, plain.memory), "{x}");
    }
}

#[test]
fn vectors_that_calculate_with_floats_are_refused() {
    let program = wasm(
        r#"(module (func (export "run") (result v128) (f64x2.mul (v128.const f64x2 1 2) (v128.const f64x2 3 4))))"#,
    );
    let refusal = instrument(&program, &Options { bit_exact: true, ..options() }).unwrap_err().to_string();
    assert!(refusal.contains("f64x2.mul") && refusal.contains("bit_exact"), "{refusal}");
    assert!(instrument(&program, &options()).is_ok());
}
