//! Programs in a few lines, one for each thing that can stand where a task is suspended.

use crate::driver::{FOREVER, check, check_short, made, raw, sliced, wasm};
use sandbox::instrument::layout::state;
use wasmi::Val;

fn i32s(values: &[i32]) -> Vec<Val> {
    values.iter().map(|value| Val::I32(*value)).collect()
}

#[track_caller]
fn runs(text: &str, args: &[i32], result: &str) -> crate::driver::Ran {
    let ran = check(text, &i32s(args));
    assert_eq!(ran.done.end, Ok(vec![result.to_string()]));
    ran
}

#[test]
fn a_loop() {
    runs(
        r#"(module (func (export "run") (param $n i32) (result i32) (local $sum i32)
            (loop $again
                (local.set $sum (i32.add (local.get $sum) (local.get $n)))
                (br_if $again (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
            (local.get $sum)))"#,
        &[100],
        "i32 5050",
    );
}

#[test]
fn loops_in_loops_with_work_between() {
    runs(
        r#"(module (func (export "run") (param $n i32) (result i32) (local $i i32) (local $j i32) (local $sum i32)
            (block $done
                (loop $outer
                    (br_if $done (i32.ge_s (local.get $i) (local.get $n)))
                    (local.set $j (i32.const 0))
                    (loop $inner
                        (local.set $sum (i32.add (i32.mul (local.get $sum) (i32.const 3)) (local.get $j)))
                        (if (i32.and (local.get $sum) (i32.const 1))
                            (then (local.set $sum (i32.sub (local.get $sum) (local.get $i)))))
                        (br_if $inner (i32.lt_s (local.tee $j (i32.add (local.get $j) (i32.const 1))) (local.get $i))))
                    (local.set $i (i32.add (local.get $i) (i32.const 1)))
                    (br_if $done (i32.eq (local.get $sum) (i32.const 123456789)))
                    (br $outer)))
            (local.get $sum)))"#,
        &[12],
        "i32 -1169474502",
    );
}

#[test]
fn recursion_direct() {
    runs(
        r#"(module (func $fib (export "run") (param $n i32) (result i32)
            (if (result i32) (i32.lt_s (local.get $n) (i32.const 2))
                (then (local.get $n))
                (else (i32.add
                    (call $fib (i32.sub (local.get $n) (i32.const 1)))
                    (call $fib (i32.sub (local.get $n) (i32.const 2))))))))"#,
        &[13],
        "i32 233",
    );
}

#[test]
fn recursion_of_two_functions() {
    runs(
        r#"(module
            (func $even (export "run") (param i32) (result i32)
                (if (result i32) (i32.eqz (local.get 0))
                    (then (i32.const 1))
                    (else (call $odd (i32.sub (local.get 0) (i32.const 1))))))
            (func $odd (param i32) (result i32)
                (if (result i32) (i32.eqz (local.get 0))
                    (then (i32.const 0))
                    (else (call $even (i32.sub (local.get 0) (i32.const 1)))))))"#,
        &[101],
        "i32 0",
    );
}

#[test]
fn recursion_through_a_table() {
    runs(
        r#"(module (table funcref (elem $down $double)) (type $t (func (param i32) (result i32)))
            (func $down (type $t)
                (if (result i32) (i32.eqz (local.get 0))
                    (then (i32.const 1))
                    (else (i32.add (local.get 0) (call_indirect (type $t)
                        (i32.sub (local.get 0) (i32.const 1))
                        (i32.and (local.get 0) (i32.const 1)))))))
            (func $double (type $t)
                (i32.mul (i32.const 2) (call_indirect (type $t) (local.get 0) (i32.const 0))))
            (func (export "run") (param i32) (result i32)
                (call_indirect (type $t) (local.get 0) (i32.const 1))))"#,
        &[9],
        "i32 438",
    );
}

#[test]
fn a_function_pointer_is_remembered() {
    runs(
        r#"(module (table funcref (elem $a $b $c)) (type $t (func (param i32) (result i32)))
            (func $spin (param i32) (result i32) (local $i i32)
                (loop $l (br_if $l (i32.lt_s (local.tee $i (i32.add (local.get $i) (i32.const 1))) (local.get 0))))
                (local.get $i))
            (func $a (type $t) (call $spin (local.get 0)))
            (func $b (type $t) (i32.add (i32.const 100) (call $spin (local.get 0))))
            (func $c (type $t) (i32.mul (i32.const 7) (call $spin (local.get 0))))
            (func (export "run") (param $n i32) (result i32) (local $sum i32)
                (loop $l
                    (local.set $sum (i32.add
                        (i32.mul (local.get $sum) (i32.const 5))
                        (call_indirect (type $t) (i32.const 4) (i32.rem_u (local.get $n) (i32.const 3)))))
                    (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
                (local.get $sum)))"#,
        &[10],
        "i32 208543344",
    );
}

#[test]
fn a_switch_pays_for_the_case_it_takes() {
    let text =
        r#"(module (func (export "run") (param $which i32) (result i32) (local $i i32) (local $sum i32)
        (loop $again
            (block $next (block $long (block $middle (block $short
                (br_table $short $middle $long (local.get $which)))
                (local.set $sum (i32.add (local.get $sum) (i32.const 1)))
                (br $next))
                (local.set $sum (i32.add (i32.mul (local.get $sum) (i32.const 3)) (i32.const 1)))
                (br $next))
                LONG)
            (br_if $again (i32.lt_s (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 50))))
        (local.get $sum)))"#
            .replace("LONG", &"(local.set $sum (i32.xor (local.get $sum) (i32.const 77)))".repeat(200));
    let fuel = |which| check(&text, &i32s(&[which])).fuel;
    let (short, middle, long) = (fuel(0), fuel(1), fuel(2));
    assert_eq!(middle - short, 2 * 50);
    // Six operators of the short case against 800 of the long one.
    assert_eq!(long - short, (800 - 5) * 50);
    assert!(short < 1000, "{short}");
}

#[test]
fn blocks_and_functions_with_several_values() {
    runs(
        r#"(module
            (func $pair (param i32) (result i32 i64 f32)
                (loop (br_if 0 (i32.const 0)))
                (local.get 0) (i64.const 5) (f32.const 1.5))
            (func (export "run") (param i32) (result i32) (local $x i64) (local $f f32)
                (i32.const 1000)
                (i32.const 3) (local.get 0)
                (block (param i32 i32) (result i32 i64)
                    (call $pair)
                    (local.set $f)
                    (local.set $x)
                    (i32.add)
                    (local.get $x)
                    (br_if 0 (i32.gt_s (local.get 0) (i32.const 50)))
                    (drop)
                    (call $pair (i32.const 9))
                    (drop) (drop)
                    (i32.add)
                    (i64.const 7))
                (i32.wrap_i64)
                (i32.add) (i32.add)))"#,
        &[20],
        "i32 1039",
    );
}

#[test]
fn loops_with_parameters_and_results() {
    runs(
        r#"(module (func $id (param i32) (result i32) (loop (br_if 0 (i32.const 0))) (local.get 0))
            (func (export "run") (param $n i32) (result i32)
            (i32.const 100000)
            (i32.const 0) (local.get $n)
            (block $out (param i32 i32) (result i32 i32)
            (loop $l (param i32 i32) (result i32 i32)
                (local.set $n)
                (i32.add (call $id (local.get $n)))
                (i32.sub (local.get $n) (i32.const 1))
                (local.tee $n)
                (br_if $l (i32.gt_s (local.get $n) (i32.const 4)))
                (br_table $out $l $out (i32.eq (local.get $n) (i32.const 3)))))
            (i32.add) (i32.add)))"#,
        &[20],
        "i32 100204",
    );
}

#[test]
fn calls_in_the_middle_of_expressions() {
    runs(
        r#"(module (import "env" "log" (func $log (param i32)))
            (func $spin (param i32) (result i32) (local $i i32)
                (loop $l (br_if $l (i32.lt_s (local.tee $i (i32.add (local.get $i) (i32.const 1))) (local.get 0))))
                (call $log (local.get $i)) (local.get $i))
            (func (export "run") (param $x i32) (result i32)
                (i32.add
                    (i32.mul (local.get $x) (i32.const 3))
                    (i32.sub
                        (call $spin (i32.add (call $spin (i32.const 2)) (call $spin (local.get $x))))
                        (if (result i32) (call $spin (i32.const 1))
                            (then (i32.add (i32.const 5) (call $spin (i32.const 4))))
                            (else (i32.const 8)))))))"#,
        &[3],
        "i32 5",
    );
}

#[test]
fn floats_and_vectors_in_locals_and_globals() {
    let ran = check(
        r#"(module (global $f (mut f32) (f32.const 1)) (global $d (mut f64) (f64.const 1)) (global $v (mut v128) (v128.const i64x2 1 2))
            (func $spin (loop (br_if 0 (i32.const 0))))
            (func (export "run") (param $n i32) (result f32 f64 v128) (local $x f32) (local $y f64) (local $z v128)
                (local.set $x (f32.const nan:0x200001))
                (local.set $z (v128.const i64x2 7 -1))
                (loop $l
                    (call $spin)
                    (local.set $y (f64.add (local.get $y) (f64.const 0.1)))
                    (global.set $f (f32.mul (global.get $f) (f32.const 1.25)))
                    (call $spin)
                    (global.set $d (f64.sub (global.get $d) (local.get $y)))
                    (local.set $z (i64x2.add (local.get $z) (global.get $v)))
                    (global.set $v (i64x2.add (local.get $z) (v128.const i64x2 3 9)))
                    (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
                (f32.copysign (global.get $f) (local.get $x)) (f64.add (global.get $d) (local.get $y)) (local.get $z)))"#,
        &i32s(&[10]),
    );
    assert_eq!(ran.done.globals.len(), 3);
}

#[test]
fn memory_that_grows_is_where_it_was() {
    runs(
        r#"(module (memory (export "memory") 1)
            (func $spin (loop (br_if 0 (i32.const 0))))
            (func (export "run") (param $n i32) (result i32) (local $at i32) (local $sum i32)
                (loop $l
                    (call $spin)
                    (i32.store (local.tee $at (i32.sub (i32.shl (memory.size) (i32.const 16)) (i32.const 4))) (local.get $n))
                    ;; The old size, as allocators use it: what lies there is zero.
                    (local.set $at (i32.shl (memory.grow (i32.const 2)) (i32.const 16)))
                    (call $spin)
                    (local.set $sum (i32.add (local.get $sum) (i32.load (local.get $at))))
                    (local.set $sum (i32.add (local.get $sum) (i32.load (i32.sub (local.get $at) (i32.const 4)))))
                    (i32.store (local.get $at) (i32.const 1000))
                    (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
                (i32.add (i32.mul (local.get $sum) (i32.const 100)) (memory.size))))"#,
        &[20],
        "i32 21041",
    );
}

#[test]
fn memory_ends_where_it_ended() {
    let text = r#"(module (memory (export "memory") 2 5)
        (func (export "run") (result i32)
            (loop (br_if 0 (i32.const 0)))
            (i32.add (i32.mul (memory.grow (i32.const 4)) (i32.const 100)) (memory.grow (i32.const 3)))))"#;
    runs(text, &[], "i32 -98");
    // The host's limit counts as the program's own.
    let text = text
        .replace("2 5", "2 500")
        .replace("(i32.const 4)", "(i32.const 63)")
        .replace("(i32.const 3)", "(i32.const 62)");
    assert_eq!(sliced(&made(&wasm(&text)), "run", &[], 1, 0).done.end, Ok(vec!["i32 -98".into()]));
}

#[test]
fn bulk_operations_are_charged_by_their_size() {
    let text = r#"(module (memory (export "memory") 4) (data $d "0123456789")
        (func (export "run") (param $n i32) (result i32)
            (memory.init $d (i32.const 0) (i32.const 0) (i32.const 10))
            (memory.fill (i32.const 16) (i32.const 65) (local.get $n))
            (memory.copy (i32.const 20) (i32.const 0) (local.get $n))
            (i32.load (i32.const 24))))"#;
    let fuel = |n| check_short(text, &i32s(&[n])).fuel;
    assert_eq!(fuel(64_016) - fuel(16), 2 * 64_000 / 16);
}

#[test]
fn growing_memory_is_charged_by_its_size() {
    let text = r#"(module (memory (export "memory") 1)
        (func (export "run") (param $n i32) (result i32) (memory.grow (local.get $n))))"#;
    let fuel = |n| check_short(text, &i32s(&[n])).fuel;
    assert_eq!(fuel(11) - fuel(1), 10 * 4096);
    assert_eq!(fuel(-1), fuel(0), "what fails costs nothing more");
}

#[test]
fn a_start_function_is_run_by_the_host() {
    let text = r#"(module (memory (export "memory") 1) (global $g (mut i32) (i32.const 1))
        (func $start (local $i i32)
            (loop $l
                (global.set $g (i32.mul (global.get $g) (i32.const 3)))
                (i32.store (i32.const 8) (global.get $g))
                (br_if $l (i32.lt_s (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 9)))))
        (start $start)
        (func (export "run") (result i32) (loop (br_if 0 (i32.const 0))) (i32.add (i32.load (i32.const 8)) (global.get $g))))"#;
    runs(text, &[], "i32 39366");
    assert_eq!(made(&wasm(text)).layout.start.as_deref(), Some("manyhands.start"));
}

#[test]
fn a_module_without_memory_gets_one() {
    let made = made(&wasm(r#"(module (func (export "run") (loop (br_if 0 (i32.const 0)))))"#));
    assert_eq!(made.layout.memory, "manyhands.memory");
    assert!(sliced(&made, "run", &[], 0, 0).suspended > 0);
}

#[test]
fn recursion_that_is_too_deep_traps_and_says_so() {
    let text = r#"(module (func $down (export "run") (param i32) (result i32)
        (if (result i32) (local.get 0)
            (then (i32.add (i32.const 1) (call $down (i32.sub (local.get 0) (i32.const 1)))))
            (else (i32.const 0)))))"#;
    let made = made(&wasm(text));
    assert_eq!(sliced(&made, "run", &i32s(&[1000]), FOREVER, 0).done.end, Ok(vec!["i32 1000".into()]));
    let whole = sliced(&made, "run", &i32s(&[1_000_000]), FOREVER, 0);
    assert_eq!(whole.done.end, Err("UnreachableCodeReached".into()));
    assert_eq!(whole.state, state::TOO_DEEP);
    // The trap comes at that call wherever the task was suspended.
    let moved = sliced(&made, "run", &i32s(&[1_000_000]), 5_000, 0);
    assert_eq!((moved.state, moved.fuel), (whole.state, whole.fuel));
}

#[test]
fn the_depth_is_that_of_the_call_and_not_of_the_past() {
    runs(
        r#"(module
            (func $down (param i32) (result i32)
                (if (result i32) (local.get 0)
                    (then (i32.add (i32.const 1) (call $down (i32.sub (local.get 0) (i32.const 1)))))
                    (else (i32.const 0))))
            (func (export "run") (param $n i32) (result i32) (local $sum i32)
                (loop $l
                    (local.set $sum (i32.add (local.get $sum) (call $down (i32.const 200))))
                    (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
                (local.get $sum)))"#,
        &[100],
        "i32 20000",
    );
}

#[test]
fn a_frame_area_that_is_full_traps_and_says_so() {
    let values = 800;
    let locals = "(local v128)".repeat(values);
    let sets: String = (1..=values).map(|i| format!("(local.set {i} (i32x4.splat (local.get 0)))")).collect();
    let uses: String = (1..=values).map(|i| format!("(drop (local.get {i}))")).collect();
    let text = format!(
        r#"(module (func $down (export "run") (param i32) {locals} {sets}
            (if (local.get 0) (then (call $down (i32.sub (local.get 0) (i32.const 1))))) {uses}))"#
    );
    let made = made(&wasm(&text));
    assert!(sliced(&made, "run", &i32s(&[10]), 3000, 0).done.end.is_ok());
    assert!(sliced(&made, "run", &i32s(&[60]), FOREVER, 0).done.end.is_ok());
    let ran = sliced(&made, "run", &i32s(&[60]), 120_000, 0);
    assert_eq!((ran.done.end, ran.state), (Err("UnreachableCodeReached".into()), state::FRAMES_FULL));
}

#[test]
fn what_nothing_reaches_may_look_like_anything() {
    runs(
        r#"(module (func $spin (result i32) (loop (br_if 0 (i32.const 0))) (i32.const 4))
            (func (export "run") (param i32) (result i32)
                (block $out (result i32)
                    (block (result i32)
                        (br $out (i32.add (call $spin) (local.get 0)))
                        (call $spin) (loop (result i32) (call $spin) (br 0)) (i32.add) (drop)
                        (if (result i32) (then (unreachable)) (else (call $spin) (return))))
                    (drop)
                    (return (call $spin))
                    (i32.add (unreachable)))
                (loop (br_if 0 (i32.const 0)))
                (if (i32.eqz (local.get 0)) (then (return (i32.const 0)) (drop (call $spin))) (else (drop (call $spin))))))"#,
        &[3],
        "i32 7",
    );
}

#[test]
fn a_host_call_that_waits_is_asked_again() {
    let text = r#"(module (import "env" "wait" (func $wait (param i32) (result i32)))
        (func $ask (param i32) (result i32) (i32.add (i32.const 1) (call $wait (i32.mul (local.get 0) (i32.const 3)))))
        (func (export "run") (param $n i32) (result i32) (local $sum i32)
            (loop $l
                (local.set $sum (i32.add (local.get $sum) (call $ask (local.get $n))))
                (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
            (local.get $sum)))"#;
    let whole = runs(text, &[5], "i32 95");
    let made = made(&wasm(text));
    for (slice, waits) in [(FOREVER, 3), (1, 2), (40, 7)] {
        let ran = sliced(&made, "run", &i32s(&[5]), slice, waits);
        assert_eq!(ran.done, whole.done, "slices of {slice}, {waits} waits");
        assert!(ran.suspended >= waits as usize);
    }
}

#[test]
fn the_host_sees_the_fuel_that_is_left() {
    let text = r#"(module (import "env" "fuel" (func $fuel (result i64)))
        (func $ask (result i64) (call $fuel))
        (func (export "run") (result i64) (local $i i32) (local $before i64)
            (local.set $before (call $ask))
            (loop $l (br_if $l (i32.lt_s (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 100))))
            (i64.sub (local.get $before) (call $ask))))"#;
    let made = made(&wasm(text));
    let ran = sliced(&made, "run", &[], FOREVER, 0);
    let Ok(end) = ran.done.end else { panic!("{:?}", ran.done.end) };
    let used: i64 = end[0].trim_start_matches("i64 ").parse().unwrap();
    assert!((600..900).contains(&used), "{used}");
}

#[test]
fn work_without_loops_is_charged_and_suspended_too() {
    // Sixteen calls of sixteen calls of …: 16^4 times the innermost.
    let mut text = String::from(
        "(module (global $g (mut i32) (i32.const 0)) (func $f0 (global.set $g (i32.add (global.get $g) (i32.const 1))))",
    );
    for i in 1..=4 {
        text += &format!("(func $f{i} {})", format!("(call $f{})", i - 1).repeat(16));
    }
    text += r#"(func (export "run") (result i32) (call $f4) (global.get $g)))"#;
    let ran = runs(&text, &[], "i32 65536");
    assert!(ran.fuel > 65_536 * 4);
    assert!(sliced(&made(&wasm(&text)), "run", &[], 1000, 0).suspended > 100);
}

#[test]
fn traps_come_where_they_came() {
    for (body, words) in [
        ("(drop (i32.div_u (i32.const 1) (i32.const 0)))", "IntegerDivisionByZero"),
        ("(unreachable)", "UnreachableCodeReached"),
        ("(drop (i32.load (i32.const -4)))", "MemoryOutOfBounds"),
    ] {
        let text = format!(
            r#"(module (memory (export "memory") 1) (func (export "run") (local $i i32)
                (loop $l (br_if $l (i32.lt_s (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 30))))
                {body}))"#
        );
        assert_eq!(raw(&wasm(&text), "run", &[]).end, Err(words.into()));
        let made = made(&wasm(&text));
        for slice in [FOREVER, 0, 9] {
            assert_eq!(sliced(&made, "run", &[], slice, 0).done.end, Err(words.into()));
        }
    }
}

#[test]
fn a_pass_gives_the_same_bytes_twice_and_goes_on_from_nothing() {
    let program = wasm("(module)");
    assert_eq!(made(&program), made(&program));
    assert!(made(&program).layout.globals.is_empty());
}
