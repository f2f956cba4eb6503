//! Which programs are compiled, and which are only loaded.

use super::super::super::compiler::Bounds;
use super::super::super::compiler::shop::{Shop, ShopOptions};
use super::super::super::tests::launcher;
use super::super::cache::Cache;
use super::super::wasm::{Compiler, WasmerEngine};
use super::*;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Barrier};
use tempfile::TempDir;

struct Folder {
    dir: TempDir,
    program: BlobId,
}

impl Folder {
    fn new() -> Folder {
        Folder::of(r#"(module (memory (export "memory") 1) (func (export "_start")))"#)
    }

    fn of(text: &str) -> Folder {
        let dir = tempfile::tempdir().unwrap();
        let wasm = wat::parse_str(text).unwrap();
        let program = BlobId::of(&wasm);
        let path = dir.path().join("blobs").join(&program.to_string()[..2]);
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join(program.to_string()), wasm).unwrap();
        Folder { dir, program }
    }

    fn cache(&self) -> std::path::PathBuf {
        self.dir.path().join("cache")
    }

    /// A fresh slot's programs, and the node that compiles for it.
    fn modules(&self) -> (Modules, Arc<Shop>) {
        let engine = WasmerEngine::new(Compiler::Cranelift);
        let shop = Arc::new(Shop::open(ShopOptions {
            launcher: launcher(),
            blob_dir: self.dir.path().join("blobs"),
            cache_dir: self.cache(),
            background: false,
            bounds: Bounds::default(),
        }));
        let cache = Cache::new(shop.cache_dir().to_owned());
        let asked = shop.clone();
        let ask = Box::new(move |_, known| asked.compile(known));
        (Modules::new(LoadThread::start(cache, false, engine, ask).unwrap()), shop)
    }

    /// Counts for a fresh slot that gets the program: how often the slot says that it prepares, and how many
    /// programs its node compiles for it.
    fn slot(&self, limits: &Limits) -> (u32, u32) {
        let (mut modules, shop) = self.modules();
        let noted = std::cell::Cell::new(0);
        let note = |begins| noted.set(noted.get() + u32::from(begins));
        for _ in 0..3 {
            assert!(modules.get(1, self.program, limits, Form::default(), &note).is_ok());
        }
        (noted.get(), shop.begun())
    }

    fn code(&self) -> std::path::PathBuf {
        let mut files =
            fs::read_dir(self.cache().join("modules")).unwrap().map(|entry| entry.unwrap().path());
        files.find(|path| path.extension().is_some_and(|e| e == "code")).expect("a compiled program")
    }
}

#[test]
fn a_program_is_compiled_once_and_then_loaded() {
    let folder = Folder::new();
    assert_eq!(folder.slot(&Limits::default()), (1, 1));
    assert_eq!(folder.slot(&Limits::default()), (1, 0), "a new slot finds it on disk");
}

#[test]
fn another_memory_limit_is_another_program() {
    let folder = Folder::new();
    folder.slot(&Limits::default());
    let other = Limits { memory_bytes: 1 << 20, ..Limits::default() };
    assert_eq!(folder.slot(&other), (1, 1));
    let same = Limits { output_bytes: 1, time_us: 1, ..Limits::default() };
    assert_eq!(folder.slot(&same), (1, 0), "the other limits are not written into it");
}

#[test]
fn a_damaged_file_is_made_anew() {
    let folder = Folder::new();
    folder.slot(&Limits::default());
    let good = fs::read(folder.code()).unwrap();
    let mut flipped = good.clone();
    flipped[good.len() / 2] ^= 1;
    for bad in [&flipped[..], &good[..good.len() - 1], &good[..10], b"", b"#!/bin/sh"] {
        fs::write(folder.code(), bad).unwrap();
        assert_eq!(folder.slot(&Limits::default()), (1, 1), "{} bytes", bad.len());
        assert_eq!(folder.slot(&Limits::default()), (1, 0), "and is good again");
    }
}

#[test]
fn slots_that_want_the_same_program_at_once_compile_it_once() {
    let functions: String = (0..2000)
        .map(|i| format!("(func (param i64) (result i64) (i64.mul (local.get 0) (i64.const {i})))"))
        .collect();
    let folder =
        Folder::of(&format!(r#"(module (memory (export "memory") 1) (func (export "_start")) {functions})"#));
    let together = Barrier::new(4);
    let compiled: u32 = std::thread::scope(|scope| {
        let slot = || {
            together.wait();
            folder.slot(&Limits::default()).1
        };
        let slots: Vec<_> = (0..4).map(|_| scope.spawn(slot)).collect();
        slots.into_iter().map(|slot| slot.join().unwrap()).sum()
    });
    assert_eq!(compiled, 1);
}

#[test]
fn a_folder_that_others_can_write_to_is_not_trusted() {
    let folder = Folder::new();
    folder.slot(&Limits::default());
    fs::set_permissions(folder.cache().join("modules"), fs::Permissions::from_mode(0o777)).unwrap();
    assert_eq!(folder.slot(&Limits::default()), (1, 1));
}

#[test]
fn a_cache_that_cannot_be_made_costs_only_time() {
    let folder = Folder::new();
    fs::write(folder.cache(), "a file where the folder should be").unwrap();
    assert_eq!(folder.slot(&Limits::default()), (1, 1));
    assert_eq!(folder.slot(&Limits::default()), (1, 1));
}

#[test]
fn the_cache_is_for_the_user_alone() {
    let folder = Folder::new();
    folder.slot(&Limits::default());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o077;
    assert_eq!(mode(&folder.cache().join("modules")), 0);
    assert_eq!(mode(&folder.code()), 0);
}

#[test]
fn a_refusal_is_remembered() {
    let folder = Folder::of("(module)");
    let (mut modules, _) = folder.modules();
    let noted = std::cell::Cell::new(0);
    let note = |begins| noted.set(noted.get() + u32::from(begins));
    for _ in 0..3 {
        match modules.get(1, folder.program, &Limits::default(), Form::default(), &note) {
            Err(NotCompiled::Refused(why)) => assert!(why.contains("_start"), "{why}"),
            _ => panic!("it should be refused"),
        }
    }
    assert_eq!(noted.get(), 1);
}
