//! Refusals, and the words for them.

use crate::driver::{options, wasm};
use sandbox::instrument::{Refusal, instrument};

fn refusal(text: &str) -> Refusal {
    instrument(&wasm(text), &options()).expect_err("it should be refused")
}

#[track_caller]
fn assert_says(text: &str, parts: &[&str]) {
    let said = refusal(text).to_string();
    for part in parts {
        assert!(said.contains(part), "{said:?} does not say {part:?}");
    }
}

#[test]
fn instructions_are_named_with_their_function() {
    let table = "(table 2 funcref) (elem (i32.const 0) func 0) (elem $e func 0) (memory 1) (data $d \"x\")";
    let in_body = |body: &str| format!("(module {table} (func) (func $culprit {body}))");
    for (body, name) in [
        ("data.drop $d", "data.drop"),
        ("elem.drop $e", "elem.drop"),
        ("(table.set (i32.const 0) (ref.func 0))", "table.set"),
        ("(drop (table.grow (ref.null func) (i32.const 0)))", "table.grow"),
        ("(table.fill (i32.const 0) (ref.null func) (i32.const 0))", "table.fill"),
        ("(table.copy (i32.const 0) (i32.const 0) (i32.const 0))", "table.copy"),
        ("(table.init $e (i32.const 0) (i32.const 0) (i32.const 0))", "table.init"),
        ("return_call 0", "return_call"),
        ("(drop (i32.atomic.load (i32.const 0)))", "i32.atomic.load"),
        ("(drop (i32.atomic.rmw.add (i32.const 0) (i32.const 0)))", "i32.atomic.rmw.add"),
        ("atomic.fence", "atomic.fence"),
        (
            "(drop (i8x16.relaxed_swizzle (v128.const i64x2 0 0) (v128.const i64x2 0 0)))",
            "i8x16.relaxed_swizzle",
        ),
        ("(drop (ref.func 0)) (call_ref 0 (ref.func 0))", "call_ref"),
        ("(drop (i64.add128 (i64.const 0) (i64.const 0) (i64.const 0) (i64.const 0))) drop", "add128"),
    ] {
        assert_says(&in_body(body), &[name, "function 1", "\"culprit\"", "; "]);
    }
}

#[test]
fn what_is_no_instruction_is_named_too() {
    assert_says("(module (import \"env\" \"m\" (memory 1)))", &["an imported memory", "\"m\""]);
    assert_says("(module (import \"env\" \"t\" (table 1 funcref)))", &["an imported table"]);
    assert_says("(module (import \"env\" \"g\" (global (mut i32))))", &["an imported mutable global"]);
    assert_says("(module (memory i64 1))", &["64-bit memory"]);
    assert_says("(module (memory 1 2 shared))", &["shared memory"]);
    assert_says("(module (memory 1) (memory 1))", &["several memories"]);
    assert_says("(module (tag))", &["exception"]);
    assert_says("(module (global (mut funcref) (ref.null func)))", &["mutable global", "reference"]);
    assert_says("(module (memory 1) (export \"manyhands.state\" (memory 0)))", &["manyhands.state"]);
    assert_says("(module (type (struct)))", &["garbage"]);
    assert_says("(module (memory 65))", &["65 pages", "4 pages more"]);
}

#[test]
fn a_reference_that_would_have_to_move_is_refused_and_others_are_not() {
    let text = |body: &str| {
        format!(
            "(module (table 1 funcref) (func $loops (loop (br_if 0 (i32.const 0))))
               (func $holds (export \"run\") (local $r funcref) {body}))"
        )
    };
    let held = "(local.set $r (table.get (i32.const 0))) (call $loops) (drop (ref.is_null (local.get $r)))";
    assert_says(&text(held), &["\"holds\"", "reference"]);
    let used = "(call $loops) (local.set $r (table.get (i32.const 0))) (drop (ref.is_null (local.get $r)))";
    assert!(instrument(&wasm(&text(used)), &options()).is_ok());
}

#[test]
fn nesting_has_an_end() {
    let deep = |depth: usize| {
        let (open, close) = ("(loop ".repeat(depth), ")".repeat(depth));
        format!("(module (func $deep {open} {close}))")
    };
    assert!(instrument(&wasm(&deep(400)), &options()).is_ok());
    assert_says(&deep(3000), &["nests its blocks too deep", "\"deep\""]);
}

#[test]
fn a_function_that_would_grow_beyond_all_engines_is_refused_soon() {
    let locals = "(local i64)".repeat(3000);
    let calls = "(call $loops)".repeat(5000);
    let uses: String = (0..3000).map(|i| format!("(drop (local.get {i}))")).collect();
    let text =
        format!("(module (func $loops (loop (br_if 0 (i32.const 0)))) (func $wide {locals} {calls} {uses}))");
    assert_says(&text, &["\"wide\"", "split it"]);
}

#[test]
fn damaged_modules_are_invalid() {
    for bytes in [&b""[..], b"\0asm", b"\0asm\x01\0\0\0\x01\x7f", b"#!/bin/sh"] {
        assert!(matches!(instrument(bytes, &options()), Err(Refusal::Invalid(_))));
    }
}
