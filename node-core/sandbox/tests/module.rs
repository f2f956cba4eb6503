//! Which programs are taken, what is written into them, and what people are told of the others.

use sandbox::Limits;
use sandbox::module::{PAGE, Refusal, inspect, limited};

fn wasm(text: &str) -> Vec<u8> {
    wat::parse_str(text).expect("the test's own module")
}

fn limits(pages: u64) -> Limits {
    Limits { memory_bytes: pages * PAGE, ..Limits::default() }
}

fn refusal(program: &[u8]) -> Refusal {
    inspect(program).expect_err("it should be refused")
}

fn words(program: &[u8]) -> String {
    refusal(program).to_string()
}

#[track_caller]
fn assert_says(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "{said:?} does not say {part:?}");
    }
}

/// A command with `memory`, and `more` in it.
fn command(memory: &str, more: &str) -> Vec<u8> {
    wasm(&format!(r#"(module (memory (export "memory") {memory}) (func (export "_start")) {more})"#))
}

#[test]
fn a_command_is_taken_and_described() {
    let program = wasm(
        r#"(module
            (import "wasi_snapshot_preview1" "fd_write" (func (param i32 i32 i32 i32) (result i32)))
            (import "wasi_snapshot_preview1" "proc_exit" (func (param i32)))
            (memory (export "memory") 2 9)
            (func (export "_start")))"#,
    );
    let found = inspect(&program).unwrap();
    assert_eq!(found.memory_bytes, 2 * PAGE);
    assert_eq!(found.memory_maximum, Some(9 * PAGE));
    assert_eq!(found.imports, ["fd_write", "proc_exit"]);
}

#[test]
fn the_memory_limit_is_written_into_the_program() {
    for (own, limit, written) in
        [("1", 16, "1 16"), ("1 9", 16, "1 9"), ("1 99", 16, "1 16"), ("16", 16, "16 16")]
    {
        let prepared = limited(&command(own, ""), &limits(limit)).unwrap();
        assert_eq!(prepared, command(written, ""), "memory {own} under a limit of {limit} pages");
    }
}

#[test]
fn a_limit_above_what_32_bits_address_is_no_problem() {
    let prepared =
        limited(&command("1", ""), &Limits { memory_bytes: u64::MAX, ..Limits::default() }).unwrap();
    assert_eq!(prepared, command("1 65536", ""));
}

#[test]
fn a_program_that_begins_above_the_limit_is_refused_with_both_numbers() {
    let error = limited(&command("17", ""), &limits(16)).unwrap_err();
    assert_eq!(error, Refusal::MemoryOverLimit { needs: 17 * PAGE, limit: 16 * PAGE });
    assert_says(&error.to_string(), &["1114112", "1048576", "memory_limit"]);
}

#[test]
fn tables_can_only_grow_to_their_share() {
    let prepared = limited(&command("1 1", "(table 3 funcref) (table 1 5 externref)"), &limits(16)).unwrap();
    assert_eq!(prepared, command("1 1", "(table 3 524288 funcref) (table 1 5 externref)"));
    let greedy = limited(&command("1 1", "(table 3 4000000000 funcref)"), &limits(16)).unwrap();
    assert_eq!(greedy, command("1 1", "(table 3 1048576 funcref)"));
    let huge = command("1", "(table 4000000000 funcref)");
    assert_says(&words(&huge), &["4000000000", "1048576"]);
}

#[test]
fn everything_but_the_limits_stays_as_it_was() {
    let body = r#"(table 1 1 funcref) (global (mut i64) (i64.const 7)) (elem (i32.const 0) 0)
        (data (i32.const 8) "data") (data "passive") (func memory.size drop)"#;
    let prepared = limited(&command("1 1", body), &limits(16)).unwrap();
    assert_eq!(prepared, command("1 1", body));
}

#[test]
fn debug_information_goes_and_names_stay() {
    let plain = command("1 1", "(func $named)");
    let fat =
        command("1 1", r#"(func $named) (@custom ".debug_info" "much") (@custom "producers" "someone")"#);
    let prepared = limited(&fat, &limits(16)).unwrap();
    assert_eq!(prepared, plain);
    assert!(String::from_utf8_lossy(&prepared).contains("named"));
}

#[test]
fn a_start_function_is_called_by_the_command_when_memory_stands() {
    let with_start = wasm(
        r#"(module (memory (export "memory") 1 1)
            (func (export "_start") (i32.store8 (i32.const 0) (i32.const 1)))
            (func (export "other"))
            (func (i32.store8 (i32.const 1) (i32.const 1)))
            (start 2))"#,
    );
    let without = wasm(
        r#"(module (memory (export "memory") 1 1)
            (func (i32.store8 (i32.const 0) (i32.const 1)))
            (func (export "other"))
            (func (i32.store8 (i32.const 1) (i32.const 1)))
            (func call 2 call 0)
            (export "_start" (func 3)))"#,
    );
    let prepared = limited(&with_start, &limits(16)).unwrap();
    let functions = |bytes: &[u8]| bytes.windows(6).any(|code| code == [0, 0x10, 2, 0x10, 0, 0x0b]);
    assert!(functions(&without), "the test looks for the right bytes");
    assert!(functions(&prepared), "a function that calls the start function, then the command");
    let again = limited(&prepared, &limits(16)).unwrap();
    assert_eq!(again, prepared, "and there is no start function left");
}

#[test]
fn each_import_that_is_not_offered_is_named() {
    let program = wasm(
        r#"(module
            (import "env" "fork" (func))
            (import "wasi_snapshot_preview1" "fd_write" (func (param i32 i32 i32 i32) (result i32)))
            (import "wasi_snapshot_preview1" "fd_read" (func (param i64) (result i32)))
            (import "env" "table" (table 1 funcref))
            (memory (export "memory") 1)
            (func (export "_start")))"#,
    );
    let said = words(&program);
    assert_says(&said, &["env.fork", "fd_read (with another signature", "env.table (a table)"]);
    assert!(!said.contains("fd_write"), "{said}");
}

#[test]
fn ten_thousand_bad_imports_with_long_names_make_a_readable_refusal() {
    let imports: String =
        (0..10_000).map(|i| format!("(import \"m\" \"{}{i}\" (func))", "x\\n".repeat(100))).collect();
    let said = words(&wasm(&format!("(module {imports})")));
    assert!(said.len() < 20_000, "{} bytes", said.len());
    assert_says(&said, &["and 9950 more", "\\n"]);
    assert!(!said.contains('\n'));
}

#[test]
fn imports_tell_how_the_program_was_built() {
    let import =
        |module: &str, name: &str| words(&wasm(&format!(r#"(module (import "{module}" "{name}" (func)))"#)));
    assert_says(&import("wbg", "__wbindgen_throw"), &["wasm-bindgen", "wasm32-wasip1"]);
    let page: String = (0..60).map(|i| format!("(import \"wbg\" \"__wbg_new_{i:016}\" (func))")).collect();
    let said = words(&wasm(&format!("(module {page})")));
    assert_says(&said, &["wbg.__wbg_new_", "and 58 more", "built for a web page with wasm-bindgen"]);
    assert!(said.len() < 250, "{said}");
    assert_says(&import("wasi_unstable", "fd_write"), &["older WASI"]);
    assert_says(&import("wasi:cli/environment@0.2.0", "get-arguments"), &["newer WASI"]);
    assert_says(&import("gojs", "runtime.wasmExit"), &["GOOS=wasip1"]);
    assert_says(&import("env", "emscripten_resize_heap"), &["Emscripten"]);
    assert_says(&import("wasi", "thread-spawn"), &["threads"]);
    assert_says(
        &words(&wasm(r#"(module (import "env" "memory" (memory 1)))"#)),
        &["env.memory", "--import-memory"],
    );
}

#[test]
fn what_is_no_command_is_told_what_it_lacks() {
    assert_says(&words(&wasm(r#"(module (memory (export "memory") 1))"#)), &["_start"]);
    let library = r#"(module (memory (export "memory") 1) (func (export "_initialize")))"#;
    assert_says(&words(&wasm(library)), &["_start", "library"]);
    assert_says(&words(&wasm(r#"(module (func (export "_start")))"#)), &["\"memory\""]);
    assert_says(&words(&wasm(r#"(module (memory 1) (func (export "_start")))"#)), &["\"memory\""]);
    let odd = r#"(module (memory (export "memory") 1) (func (export "_start") (param i32)))"#;
    assert_eq!(refusal(&wasm(odd)), Refusal::StartSignature);
}

#[test]
fn extensions_are_refused_by_name() {
    let feature = |program: &[u8]| match refusal(program) {
        Refusal::Feature { feature, .. } => feature,
        other => panic!("refused for another reason: {other}"),
    };
    assert_eq!(feature(&command("1 2 shared", "")), "threads or shared memory");
    assert_eq!(feature(&command("1", "(memory 1)")), "several memories");
    assert_eq!(feature(&command("i64 1", "")), "64-bit memory");
    assert_eq!(feature(&command("1", "(func $f return_call $f)")), "tail calls");
    assert_eq!(feature(&command("1", "(tag $t) (func throw $t)")), "exceptions");
    let relaxed = "(func (param v128 v128) (drop (i8x16.relaxed_swizzle (local.get 0) (local.get 1))))";
    assert_says(feature(&command("1", relaxed)), &["relaxed SIMD"]);
    let said = words(&command("1", "(func $f return_call $f)"));
    assert_says(&said, &["tail calls", "offset 0x", "-mno-tail-call"]);
}

#[test]
fn fixed_simd_and_bulk_memory_are_no_extensions() {
    let simd = "(func (result v128) (i32x4.add (v128.const i32x4 1 2 3 4) (v128.const i32x4 1 2 3 4)))";
    inspect(&command("1", simd)).unwrap();
    inspect(&command("1", "(func (memory.fill (i32.const 0) (i32.const 1) (i32.const 2)))")).unwrap();
}

#[test]
fn files_that_are_no_modules_are_recognised() {
    let cases: &[(&[u8], &str)] = &[
        (b"", "is empty"),
        (b"\x7fELF\x02\x01\x01", "Linux program"),
        (b"MZ\x90\x00", "Windows program"),
        (b"  (module (func))", "wat2wasm"),
        (b";; a comment\n(module)", "wat2wasm"),
        (b"import { add } from './add.js'", "JavaScript"),
        (b"#!/bin/sh\n", "script"),
        (b"PK\x03\x04....", "ZIP"),
        (b"<!DOCTYPE html>", "HTML"),
        ("Gr\u{fc}\u{df}e aus einer Datei".as_bytes(), "text that begins with \"Gr\u{fc}\u{df}e"),
        (b"\x01\x02\x03\x04\x05", "01 02 03 04"),
        (b"\0as", "00 61 73"),
        (b"\0asm", "ends after its first bytes"),
        (b"\0asm\x0d\0\x01\0", "component"),
        (b"\0asm\x07\0\0\0", "version 7"),
    ];
    for (bytes, said) in cases {
        assert_says(&words(bytes), &[said]);
    }
}

#[test]
fn a_module_that_is_cut_off_is_refused() {
    let program = command("1", "(func (drop (i32.const 5)))");
    for cut in 0..program.len() {
        inspect(&program[..cut]).expect_err("cut off");
    }
}

#[test]
fn no_change_of_bytes_makes_it_panic() {
    let program = command(
        "1 9",
        r#"(table 2 funcref) (func $f (drop (i32.const 5))) (data (i32.const 0) "abc") (start $f)"#,
    );
    for at in 0..program.len() {
        for change in [0, 1, 0x7f, 0x80, 0xff] {
            let mut program = program.clone();
            program[at] = change;
            // Whatever is still taken can be taken again once prepared.
            if let Ok(prepared) = limited(&program, &limits(64)) {
                inspect(&prepared).expect("what was prepared is valid");
            }
        }
    }
}
