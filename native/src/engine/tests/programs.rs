//! Programs, from their input to their outcome.

use super::support::{World, rust};
use node_core::content::{Data, NamedData};
use sandbox::{End, File};

#[test]
fn hello() {
    let mut world = World::new(1);
    world.run(1, world.hello());
    let outcome = world.outcome(1);
    assert_eq!((outcome.end, &outcome.stdout[..]), (End::Exited(0), &b"hello\n"[..]));
}

#[test]
fn a_program_exits_with_its_code() {
    let mut world = World::new(1);
    assert_eq!(world.end(world.task("(call $exit (i32.const 42))", "")), End::Exited(42));
}

#[test]
fn traps_are_told_in_words_that_hold_for_every_engine() {
    let mut world = World::new(1);
    let cases = [
        ("unreachable", "", "unreachable"),
        ("(drop (i32.load (i32.const -4)))", "", "memory out of bounds"),
        ("(drop (i32.div_u (i32.const 1) (i32.const 0)))", "", "divided an integer by zero"),
        ("(drop (i32.div_s (i32.const 0x80000000) (i32.const -1)))", "", "overflowed"),
        ("(drop (i32.trunc_f32_s (f32.const nan)))", "", "fits no integer"),
        ("(call_indirect (i32.const 0))", "(table 1 funcref)", "points to nothing"),
        ("(call_indirect (i32.const 7))", "(table 1 funcref)", "table out of bounds"),
        (
            "(call_indirect (param i64) (i64.const 1) (i32.const 0))",
            "(table funcref (elem $f)) (func $f)",
            "signature",
        ),
        ("(call $deep)", "(func $deep (call $deep) (call $deep))", "call stack"),
        ("", "(data (i32.const 100000000) \"ab\")", "memory out of bounds"),
    ];
    for (body, more, words) in cases {
        match world.end(world.task(body, more)) {
            End::Trapped(said) => assert!(said.contains(words), "{body}: {said}"),
            other => panic!("{body}: {other:?}"),
        }
    }
}

#[test]
fn a_program_that_cannot_run_is_refused_and_names_why() {
    let mut world = World::new(1);
    match world.end(world.task("", r#"(func $f) (table 2000000 funcref)"#)) {
        End::Refused(why) => assert!(why.contains("2000000"), "{why}"),
        other => panic!("{other:?}"),
    }
    match world.end(world.program(b"\x7fELF...")) {
        End::Refused(why) => assert!(why.contains("Linux program"), "{why}"),
        other => panic!("{other:?}"),
    }
    let bad = node_core::EngineTask { arguments: vec!["a\0b".into()], ..world.hello() };
    assert!(matches!(world.end(bad), End::Refused(_)));
}

#[test]
fn a_start_function_may_call_the_host() {
    let mut world = World::new(1);
    assert_eq!(
        world.end(world.task("", "(func $begin (call $exit (i32.const 3))) (start $begin)")),
        End::Exited(3)
    );
}

/// A program in Rust that uses its world, std and all.
const WORLDLY: &str = r#"
use std::io::{Read, Write, Seek, SeekFrom};
use std::fs;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    println!("{arguments:?} {:?}", std::env::var("MOOD"));

    let mut input = String::new();
    std::io::stdin().read_to_string(&mut input).unwrap();
    println!("stdin has {} bytes: {}...", input.len(), &input[..5]);

    println!("{}", fs::read_to_string("data/in.txt").unwrap());
    println!("{}", fs::read_to_string("/data/in.txt").unwrap().len());

    fs::create_dir_all("out/deep").unwrap();
    fs::write("out/deep/new.txt", "new").unwrap();
    fs::copy("data/in.txt", "out/copy.txt").unwrap();
    fs::rename("out/copy.txt", "out/moved.txt").unwrap();
    let mut file = fs::OpenOptions::new().read(true).write(true).open("data/in.txt").unwrap();
    file.seek(SeekFrom::End(0)).unwrap();
    write!(file, " and more").unwrap();
    let mut names: Vec<_> = fs::read_dir("out").unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    println!("{names:?}");
    fs::create_dir_all("gone/a/b").unwrap();
    fs::write("gone/a/x", "x").unwrap();
    fs::write("gone/a/b/y", "y").unwrap();
    fs::remove_dir_all("gone").unwrap();
    println!("{:?}", fs::metadata("gone").unwrap_err().kind());
    println!("{:?}", fs::read("../outside").is_err());

    let began = std::time::Instant::now();
    std::thread::sleep(std::time::Duration::from_secs(3600));
    println!("slept {} s", began.elapsed().as_secs());
    println!("{}", std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() / 86400);

    let map: std::collections::HashMap<i32, i32> = (0..8).map(|i| (i, i)).collect();
    println!("{:?}", map.keys().collect::<Vec<_>>());
    println!("{}", std::thread::Builder::new().spawn(|| ()).is_err());
    println!("{}", std::net::TcpStream::connect("127.0.0.1:1").is_err());
    eprintln!("to stderr");
    std::process::exit(7);
}
"#;

#[test]
fn a_rust_program_finds_the_world_that_its_author_expects() {
    let mut world = World::new(2);
    let wasm = rust(WORLDLY, world.path());
    let mut task = world.program(&wasm);
    task.arguments = vec!["one".into(), "two words".into()];
    task.environment = vec![("MOOD".into(), "good".into())];
    // More than a pipe takes, so it goes by in several pieces.
    task.stdin = Data::Inline("stdin".repeat(100_000).into());
    let file = Data::Blob(world.store(b"from a blob"));
    task.files = vec![NamedData { path: "data/in.txt".into(), data: file }];
    world.run(1, task.clone());
    world.run(2, task);
    let outcome = world.outcome(1);
    let stdout = String::from_utf8(outcome.stdout.to_vec()).unwrap();
    let stderr = String::from_utf8(outcome.stderr.to_vec()).unwrap();
    assert_eq!(outcome.end, End::Exited(7), "{stdout}\n{stderr}");
    let lines: Vec<&str> = stdout.lines().collect();
    let keys = lines[10];
    let expected = [
        r#"["task", "one", "two words"] Ok("good")"#,
        "stdin has 500000 bytes: stdin...",
        "from a blob",
        "11",
        r#"["deep", "moved.txt"]"#,
        "NotFound",
        "true",
        "slept 3600 s",
        "18262",
    ];
    assert_eq!(lines[..9], expected);
    assert_eq!(keys.len(), lines[9].len() - 20, "{stdout}");
    assert_eq!(stderr, "to stderr\n");
    let file = |path: &str, data: &str| File { path: path.into(), data: data.to_string().into() };
    assert_eq!(
        outcome.files,
        [
            file("data/in.txt", "from a blob and more"),
            file("out/deep/new.txt", "new"),
            file("out/moved.txt", "from a blob"),
        ]
    );
    let again = world.outcome(2);
    assert_eq!((again.stdout, again.files), (outcome.stdout, outcome.files), "and the same one every time");
}

#[test]
fn a_panic_is_a_trap_that_left_its_message() {
    let mut world = World::new(1);
    let wasm = rust(
        r#"fn main() { let v: Vec<i32> = vec![]; println!("{}", v[std::env::args().count()]); }"#,
        world.path(),
    );
    world.run(1, world.program(&wasm));
    let outcome = world.outcome(1);
    assert!(matches!(outcome.end, End::Trapped(_)), "{:?}", outcome.end);
    assert!(String::from_utf8_lossy(&outcome.stderr).contains("index out of bounds"));
}

#[test]
fn large_outputs_come_back_whole() {
    let mut world = World::new(1);
    let source = r#"use std::io::Write; fn main() {
        let line: Vec<u8> = (0..=255).collect();
        for _ in 0..40_000 { std::io::stdout().write_all(&line).unwrap(); }
        std::fs::write("big", vec![7; 3_000_000]).unwrap();
    }"#;
    world.run(1, world.program(&rust(source, world.path())));
    world.run(2, world.hello());
    let outcome = world.outcome(1);
    assert_eq!(outcome.end, End::Exited(0));
    assert_eq!(outcome.stdout.len(), 256 * 40_000);
    assert!(outcome.stdout.chunks(256).all(|line| line.iter().copied().eq(0..=255)));
    assert_eq!(outcome.files[0].data.len(), 3_000_000);
    assert_eq!(world.outcome(2).end, End::Exited(0));
}
