//! Valid programs that cost a compiler far more than their bytes: refused in words, once, and nobody else
//! is delayed.

use super::super::compiler::shop::{Shop, ShopOptions};
use super::super::compiler::{Bounds, Turn, Unchecked, check};
use super::super::wire::{Known, NotCompiled};
use super::launcher;
use super::priority::slow_to_compile;
use super::support::{PATIENCE, World};
use node_core::EngineReply;
use sandbox::End;
use sandbox::module::Form;
use std::sync::mpsc;

/// A program of 25 KB that takes hundreds of megabytes: loops that each may change all locals.
fn memory_bomb() -> Vec<u8> {
    let locals = 1000;
    let set: String = (0..locals).map(|local| format!("(local.set {local} (i64.const 7))")).collect();
    let used: String = (0..locals).map(|local| format!("(drop (local.get {local}))")).collect();
    let loops = "(loop (br_if 0 (i32.wrap_i64 (local.get 0))))".repeat(2000);
    let text = format!(
        r#"(module (memory (export "memory") 1)
            (func (export "_start") (local {}) {set} {loops} {used}))"#,
        "i64 ".repeat(locals)
    );
    wat::parse_str(text).unwrap()
}

#[track_caller]
fn refusal(world: &mut World, program: &[u8]) -> String {
    match world.end(world.program(program)) {
        End::Refused(why) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_program_that_takes_too_much_memory_to_compile_is_refused_and_those_behind_it_run() {
    let mut world = World::with_bounds(Bounds { memory: 160 << 20, ..Bounds::default() });
    assert_eq!(world.end(world.hello()), End::Exited(0), "it is enough for others");
    let why = refusal(&mut world, &memory_bomb());
    assert!(why.contains("160 MiB of memory") && why.contains("-Os"), "{why}");
    assert_eq!(world.end(world.hello()), End::Exited(0));
}

/// As its units come, one after the other, and two at once.
#[test]
fn a_program_that_ended_its_compiler_is_not_compiled_again() {
    let world = World::new(0);
    let program = world.program(&memory_bomb()).program;
    let mut shop = Shop::open(ShopOptions {
        launcher: launcher(),
        blob_dir: world.path().join("blobs"),
        cache_dir: world.path().join("cache"),
        background: false,
        bounds: Bounds { memory: 160 << 20, ..Bounds::default() },
    });
    let known = Known { program, pages: 100, form: Form::default() };
    assert_eq!(shop.ask(known, 0, 10), None);
    assert_eq!(shop.ask(known, 1, 11), None);
    let (told, over) = mpsc::channel();
    shop.begin(|| {
        let told = told.clone();
        Box::new(move |known, result| drop(told.send((known, result))))
    });
    let (of, result) = over.recv_timeout(PATIENCE).unwrap();
    let refused = result.clone().unwrap_err();
    assert!(matches!(&refused, NotCompiled::Refused(why) if why.contains("160 MiB")), "{refused:?}");
    assert_eq!(shop.over(of, &result), [(0, 10), (1, 11)], "both are told");
    assert_eq!(shop.ask(known, 0, 12), Some(refused.clone()));
    // With another limit of memory it is the program that it was.
    assert_eq!(shop.compile(Known { pages: 101, ..known }), Err(refused));
    assert_eq!(shop.begun(), 1);
}

#[test]
fn a_program_that_takes_too_long_to_compile_is_refused() {
    let bounds = Bounds { cpu_s: 1, cpu_s_per_mib: 0, ..Bounds::default() };
    let mut world = World::with_bounds(bounds);
    let task = slow_to_compile(&world);
    match world.end(task) {
        End::Refused(why) => assert!(why.contains("more than 1 s of processor time"), "{why}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_program_beyond_the_engines_limits_is_refused_and_those_behind_it_run() {
    let mut world = World::new(1);
    let globals = "(global i32 (i32.const 7))".repeat(1_000_000);
    let text = format!(r#"(module (memory (export "memory") 1) {globals} (func (export "_start")))"#);
    let why = refusal(&mut world, &wat::parse_str(text).unwrap());
    assert!(why.contains("globals count"), "{why}");
    assert_eq!(world.end(world.hello()), End::Exited(0));
}

#[test]
fn one_program_that_takes_its_minute_does_not_hold_up_another() {
    let mut world = World::new(2);
    world.run(1, slow_to_compile(&world));
    world.run(2, world.hello());
    let (first, reply) = world.any();
    assert_eq!(first, 2, "{reply:?}");
    assert!(matches!(reply, EngineReply::Ended { .. }), "{reply:?}");
    world.kill(1);
    world.silent();
}

/// As at an upload: 8 MB of types.
#[test]
fn a_program_that_takes_too_much_memory_to_check_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (good, bad) = (folder.path().join("good"), folder.path().join("bad"));
    let many = "i64 ".repeat(1000);
    let types = format!("(type (func (param {many}) (result {many})))");
    let start = r#"(memory (export "memory") 3) (func (export "_start"))"#;
    let module = |types: &str| wat::parse_str(format!("(module {types} {start})")).unwrap();
    std::fs::write(&good, module(&types)).unwrap();
    std::fs::write(&bad, module(&types.repeat(4000))).unwrap();
    let bounds = Bounds { memory: 64 << 20, ..Bounds::default() };
    assert_eq!(check(&Turn::wait(), &launcher(), &good, &bounds), Ok(3 * 65_536));
    match check(&Turn::wait(), &launcher(), &bad, &bounds) {
        Err(Unchecked::Refused(why)) => assert!(why.contains("64 MiB of memory"), "{why}"),
        other => panic!("{other:?}"),
    }
    let nowhere = folder.path().join("nowhere");
    assert!(matches!(check(&Turn::wait(), &launcher(), &nowhere, &bounds), Err(Unchecked::Broken(_))));
}
