//! Two honest programs, and snapshots of them from which everything hostile is made.

use crate::engine::{Interpreted, Interpreter};
use crate::forge::Parts;
use sandbox::instrument::{Layout, Tuning};
use sandbox::module::{Form, Prepared, prepare};
use sandbox::snapshot::{Origin, Recorder, State};
use sandbox::wasi::{FUNCTIONS, MODULE, Param};
use sandbox::{Engine, File, Limits, NotStarted, Outcome, Running, Slice, Task};
use std::fmt::Write;
use std::sync::{Arc, LazyLock};

pub(crate) const KEY: [u8; 32] = [3; 32];

/// Most memory of a task, frames aside, bytes.
pub(crate) const MEMORY: u64 = 20 << 16;

/// Most output of a task, bytes.
pub(crate) const OUTPUT: u64 = 256 << 10;

/// Most work of the interpreter in one slice, in its own units, which are about the pass's. It is far beyond
/// any slice here: a program that needs more has found a way around its polls.
const FUEL_A_CALL: u64 = 20_000_000;

/// Where the honest runs are written down, units of fuel.
const POINTS: [u64; 4] = [10, 700, 3_000, 9_000];

pub(crate) struct Stage {
    pub(crate) origin: Origin,
    pub(crate) task: Task,
    pub(crate) layout: Arc<Layout>,
    prepared: Prepared,
    engine: Interpreter,
    module: wasmi::Module,
    /// Whole snapshots, each further on.
    pub(crate) snapshots: Vec<Vec<u8>>,
    /// The last of these snapshots, relative to the one before.
    pub(crate) relative: Vec<u8>,
    pub(crate) parts: Vec<Parts>,
    /// Outcome of the task if it is left alone.
    alone: Outcome,
}

static STAGES: LazyLock<[Stage; 2]> = LazyLock::new(|| {
    let programs = [include_str!("../../../node-core/sandbox/tests/mobility/program.wat"), &caller()];
    programs.map(|text| Stage::of(&wat::parse_str(text).expect("a program")))
});

/// One of the two.
pub(crate) fn stage(which: bool) -> &'static Stage {
    &STAGES[usize::from(which)]
}

impl Stage {
    fn of(program: &[u8]) -> Stage {
        let task = Task {
            arguments: vec!["one".into(), "two".into()],
            stdin: "01234567abcdefgh".into(),
            files: vec![File { path: "in/a".into(), data: vec![9; 5000].into() }],
            limits: Limits { memory_bytes: MEMORY, output_bytes: OUTPUT, ..Limits::default() },
            seed: 3,
            ..Task::default()
        };
        let origin = Origin { program: blake3::hash(program).into(), memory_limit: MEMORY, bit_exact: false };
        let prepared = prepare(program, &task.limits, Tuning::Wasmer, Form::default()).expect("fit to run");
        let layout = prepared.layout.clone().expect("it can be suspended");
        let mut engine = Interpreter::with_fuel(FUEL_A_CALL);
        let module = engine.compile(&prepared).expect("compiled");
        let (snapshots, relative) = (Vec::new(), Vec::new());
        let alone = Outcome::of(sandbox::End::Exited(0));
        let parts = Vec::new();
        let mut stage =
            Stage { origin, task, layout, prepared, engine, module, snapshots, relative, parts, alone };
        stage.run();
        stage
    }

    /// Runs it, and writes it down now and then.
    fn run(&mut self) {
        let mut engine = self.engine.clone();
        let layout = self.prepared.layout.clone().ok();
        let mut running = Running::start(&mut engine, &self.module, layout, &self.task).expect("started");
        let mut recorder = Recorder::new(self.origin.clone());
        for (n, point) in POINTS.into_iter().enumerate() {
            let slice = running.slice(point - running.fuel().min(point));
            assert_eq!(slice, Slice::Yielded, "it lasts longer than {point}");
            if n + 1 == POINTS.len() {
                let captured = recorder.capture(&mut running).expect("suspended");
                let relative = recorder.encode(captured);
                assert!(relative.base.is_some());
                self.relative = relative.bytes;
            }
            recorder = Recorder::new(self.origin.clone());
            let captured = recorder.capture(&mut running).expect("suspended");
            self.snapshots.push(recorder.encode(captured).bytes);
        }
        self.parts = self.snapshots.iter().map(|bytes| Parts::of(bytes)).collect();
        let Slice::Ended(halt) = running.slice(1 << 40) else { panic!("it does not end") };
        self.alone = running.finish(halt, 0);
        // A snapshot that is forged without any change is equal to its source.
        let [.., before, last] = &self.parts[..] else { panic!("there are four") };
        let state = State::read(&before.bytes(None), &self.origin).expect("whole");
        let state = state.relative(&last.bytes(Some(before)), &self.origin).expect("relative");
        state.check().expect("its root is right");
        assert_eq!(state.root(), last.root());
    }

    pub(crate) fn resume(&self, state: &State) -> Result<Running<Interpreted>, NotStarted> {
        state.resume(&mut self.engine.clone(), &self.module, &self.layout, &self.task)
    }

    /// Nothing that happened to another task has changed this one.
    pub(crate) fn is_as_it_was(&self) {
        let state = State::read(&self.snapshots[1], &self.origin).expect("an honest snapshot");
        let mut running = self.resume(&state).expect("it goes on");
        let Slice::Ended(halt) = running.slice(1 << 40) else { panic!("it does not end") };
        assert!(running.finish(halt, 0) == self.alone, "an honest task ends differently");
    }
}

/// A call as the program below takes it from its memory.
struct Call(&'static str, &'static [u64]);

const PATHS: &str = "dirdir/fileother";

/// Files are made, written, moved and read; 1024 has paths, 1100 a buffer of 8 bytes at 1024.
const CALLS: &[Call] = &[
    Call("path_create_directory", &[3, 1024, 3]),
    Call("path_open", &[3, 0, 1027, 8, 1, 0x1fff_ffff, 0x1fff_ffff, 0, 1200]),
    Call("fd_write", &[4, 1100, 1, 1204]),
    Call("fd_write", &[1, 1100, 1, 1204]),
    Call("fd_seek", &[4, 2, 0, 1208]),
    Call("fd_read", &[0, 1108, 1, 1204]),
    Call("fd_pwrite", &[4, 1100, 1, 100, 1204]),
    Call("path_open", &[3, 0, 1024, 3, 2, 0x1fff_ffff, 0x1fff_ffff, 0, 1200]),
    Call("fd_readdir", &[3, 2048, 256, 0, 1204]),
    Call("path_rename", &[3, 1027, 8, 3, 1035, 5]),
    Call("path_filestat_get", &[3, 0, 1035, 5, 1300]),
    Call("random_get", &[1400, 16]),
    Call("clock_time_get", &[1, 0, 1416]),
    Call("fd_filestat_set_size", &[4, 3000]),
    Call("fd_close", &[5]),
    Call("args_get", &[1500, 1600]),
];

/// Rounds of all calls.
const ROUNDS: u32 = 12;

/// Bytes of a call in memory: the function's number, then its arguments.
const RECORD: usize = 128;

/// A program that calls whatever lies in its memory: who writes that decides what its host is
/// asked for.
fn caller() -> String {
    let mut text = String::from("(module\n");
    let mut cases = String::new();
    for function in FUNCTIONS {
        let name = function.name;
        let types = function.params.iter().map(|param| if *param == Param::I32 { "i32" } else { "i64" });
        let types: Vec<&str> = types.collect();
        let result = if function.returns { "(result i32)" } else { "" };
        let _ = writeln!(
            text,
            r#"(import "{MODULE}" "{name}" (func ${name} (param {}) {result}))"#,
            types.join(" ")
        );
        let arguments = types
            .iter()
            .enumerate()
            .map(|(i, ty)| format!("({ty}.load (i32.add (local.get $at) (i32.const {})))", 8 * (i + 1)));
        let arguments: String = arguments.collect();
        let end = if function.returns { "return" } else { "(return (i32.const 0))" };
        let _ = writeln!(cases, "(call ${name} {arguments}) {end})");
    }
    let labels: Vec<String> = (0..=FUNCTIONS.len()).map(|i| i.to_string()).collect();
    let data: String = CALLS.iter().flat_map(record).map(|byte| format!("\\{byte:02x}")).collect();
    let _ = writeln!(
        text,
        r#"(memory (export "memory") 2)
        (global $sum (mut i64) (i64.const 0)) (global $rate (mut f32) (f32.const 1))
        (data (i32.const 1024) "{PATHS}")
        (data (i32.const 1100) "\00\04\00\00\08\00\00\00\80\04\00\00\08\00\00\00")
        (data (i32.const 8192) "{data}")
        (func $do (param $at i32) (result i32)
          {blocks} (block (br_table {labels} (i32.load (local.get $at)))) {cases}
          (i32.const -1))
        (func $deep (param $n i32) (param $at i32) (result i64) (local $x f64) (local $v v128)
          (local.set $v (v128.load (local.get $at)))
          (local.set $x (f64.convert_i32_s (local.get $n)))
          (if (local.get $n) (then
            (return (i64.add (call $deep (i32.sub (local.get $n) (i32.const 1)) (local.get $at))
              (i64.add (i64.trunc_f64_s (local.get $x)) (i64x2.extract_lane 1 (local.get $v)))))))
          (i64.extend_i32_u (call $do (local.get $at))))
        (func (export "_start") (local $round i32) (local $i i32)
          (loop $rounds
            (local.set $i (i32.const 0))
            (loop $calls
              (global.set $rate (f32.mul (global.get $rate) (f32.const 1.01)))
              (global.set $sum (i64.add (i64.rotl (global.get $sum) (i64.const 7))
                (call $deep (i32.rem_u (local.get $i) (i32.const 5))
                  (i32.add (i32.const 8192) (i32.mul (local.get $i) (i32.const {RECORD}))))))
              (br_if $calls (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1)))
                (i32.const {count}))))
            (br_if $rounds (i32.lt_u (local.tee $round (i32.add (local.get $round) (i32.const 1)))
              (i32.const {ROUNDS}))))
          (i64.store (i32.const 1024) (global.get $sum))
          (drop (call $fd_write (i32.const 1) (i32.const 1100) (i32.const 1) (i32.const 1204)))))"#,
        blocks = "(block ".repeat(FUNCTIONS.len()),
        labels = labels.join(" "),
        count = CALLS.len(),
    );
    text
}

fn record(call: &Call) -> Vec<u8> {
    let number = FUNCTIONS.iter().position(|function| function.name == call.0).expect("of preview 1");
    let numbers = std::iter::once(number as u64).chain(call.1.iter().copied());
    let mut record: Vec<u8> = numbers.flat_map(u64::to_le_bytes).collect();
    record.resize(RECORD, 0);
    record
}
