//! A task is suspended all the time, and comes to what it comes to undisturbed.

use crate::engine::{Interpreted, Interpreter};
use sandbox::instrument::Tuning;
use sandbox::module::{Form, Prepared, prepare};
use sandbox::snapshot::{Ahead, Encoded, Origin, Recorder, State, open, seal};
use sandbox::{End, Engine, File, Limit, Limits, Outcome, Pace, Running, Slice, Task, run_task};

/// Reads half of its input, writes it to a file, computes, reads the rest; floats, vectors and
/// a global of each type are under way all the while.
pub(crate) const PROGRAM: &str = include_str!("program.wat");

pub(crate) fn task() -> Task {
    Task {
        stdin: "01234567abcdefgh".into(),
        files: vec![File { path: "in/a".into(), data: vec![9; 5000].into() }],
        limits: Limits { memory_bytes: 20 << 16, ..Limits::default() },
        seed: 3,
        ..Task::default()
    }
}

pub(crate) fn origin(task: &Task) -> Origin {
    Origin { program: [7; 32], memory_limit: task.limits.memory_bytes, bit_exact: false }
}

pub(crate) struct Made {
    pub(crate) prepared: Prepared,
    pub(crate) engine: Interpreter,
    pub(crate) module: wasmi::Module,
}

pub(crate) fn made(text: &str, task: &Task) -> Made {
    let prepared = prepare(
        &wat::parse_str(text).expect("the test's program"),
        &task.limits,
        Tuning::Wasmer,
        Form { threads: task.thread.is_some(), ..Form::default() },
    )
    .unwrap();
    let mut engine = Interpreter::with_fuel(1 << 40);
    let module = engine.compile(&prepared).unwrap();
    Made { prepared, engine, module }
}

impl Made {
    pub(crate) fn start(&mut self, task: &Task) -> Running<Interpreted> {
        let layout = self.prepared.layout.clone().ok();
        Running::start(&mut self.engine, &self.module, layout, task).unwrap()
    }

    pub(crate) fn resume(&mut self, state: &State, task: &Task) -> Running<Interpreted> {
        let layout = self.prepared.layout.clone().unwrap();
        state.resume(&mut self.engine, &self.module, &layout, task).unwrap()
    }

    /// A task that will come, with the whole snapshot that its state will be relative to.
    pub(crate) fn ahead(&mut self, whole: &[u8], task: &Task) -> Ahead<Interpreted> {
        let layout = self.prepared.layout.clone().unwrap();
        let state = State::read(whole, &origin(task)).unwrap();
        Ahead::new(&mut self.engine, &self.module, &layout, task, state, whole.len()).unwrap()
    }

    fn undisturbed(&mut self, task: &Task) -> Outcome {
        let layout = self.prepared.layout.clone().ok();
        run_task(&mut self.engine, &self.module, layout, task).unwrap()
    }
}

/// A snapshot of a task that is suspended.
pub(crate) fn taken(recorder: &mut Recorder, running: &mut Running<Interpreted>) -> Encoded {
    let captured = recorder.capture(running).unwrap();
    recorder.encode(captured)
}

#[test]
fn a_task_in_slices_ends_as_one_that_is_left_alone_and_uses_the_same_fuel() {
    let task = task();
    let mut made = made(PROGRAM, &task);
    let alone = made.undisturbed(&task);
    assert_eq!(alone.end, End::Exited(0));
    assert_eq!(alone.files[0].data, "01234567abcdefgh");
    assert!(alone.fuel > 10_000, "{}", alone.fuel);
    for slice in [1, 100, 1001, 50_000] {
        let mut running = made.start(&task);
        let mut slices = 0;
        let halt = loop {
            match running.slice(slice) {
                Slice::Yielded => slices += 1,
                Slice::Ended(halt) => break halt,
                Slice::Broken(why) => panic!("{why}"),
                Slice::Waits => panic!("it is no thread"),
            }
        };
        assert!(slices as u64 >= alone.fuel / slice / 100, "{slices} slices of {slice}");
        assert_eq!(running.finish(halt, 0), alone, "slices of {slice}");
    }
}

#[test]
fn a_task_that_is_moved_at_every_slice_ends_the_same() {
    let task = task();
    let mut made = made(PROGRAM, &task);
    let alone = made.undisturbed(&task);
    let key = [5; 32];
    for slice in [97, 1009, 20_011] {
        let mut running = made.start(&task);
        let mut recorder = Recorder::new(origin(&task));
        let mut stayed = Vec::new();
        let mut base: Option<Vec<u8>> = None;
        let mut n = 0;
        let halt = loop {
            n += 1;
            match running.slice(slice) {
                Slice::Ended(halt) => break halt,
                Slice::Broken(why) => panic!("{why}"),
                Slice::Waits => panic!("it is no thread"),
                Slice::Yielded => {}
            }
            let snapshot = taken(&mut recorder, &mut running);
            let mut sealed = seal(&key, snapshot.bytes.clone());
            let bytes = open(&key, &mut sealed).unwrap().to_vec();
            assert_eq!(bytes, snapshot.bytes);
            if n % 2 == 1 {
                // The base of a relative snapshot is placed before the snapshot comes.
                let whole = base.take().filter(|_| snapshot.base.is_some());
                let relative = whole.as_ref().map(|_| &bytes[..]);
                let whole = whole.as_ref().unwrap_or(&bytes);
                let ahead = made.ahead(whole, &task);
                (running, recorder) = ahead.go_on(relative, &snapshot.root, &task).unwrap();
                assert_eq!(running.fuel(), snapshot.fuel);
                base = Some(whole.clone());
                stayed.push((snapshot.fuel, snapshot.root));
                continue;
            }
            let state = match (&snapshot.base, &base) {
                (None, _) => State::read(&bytes, &origin(&task)).unwrap(),
                (Some(_), Some(base)) => {
                    let base = State::read(base, &origin(&task)).unwrap();
                    base.relative(&bytes, &origin(&task)).unwrap()
                }
                (Some(_), None) => panic!("relative to nothing"),
            };
            assert_eq!((state.root(), state.fuel()), (snapshot.root, running.fuel()));
            running = made.resume(&state, &task);
            let whole = match base.take().filter(|_| snapshot.base.is_some()) {
                Some(base) => base,
                None => bytes,
            };
            let checked = state.check().unwrap();
            recorder = Recorder::resumed(state, checked, whole.len());
            base = Some(whole);
            stayed.push((snapshot.fuel, snapshot.root));
        };
        assert_eq!(running.finish(halt, 0), alone, "moved each {slice}");
        assert!(stayed.len() > 1);

        // One that stays where it is has the same roots at the same fuel.
        let mut running = made.start(&task);
        let mut recorder = Recorder::new(origin(&task));
        for (fuel, root) in stayed {
            assert_eq!(running.slice(slice), Slice::Yielded);
            let snapshot = taken(&mut recorder, &mut running);
            assert_eq!((snapshot.fuel, snapshot.root), (fuel, root));
        }
    }
}

#[test]
fn a_snapshot_relative_to_another_is_small() {
    let task = task();
    let mut made = made(PROGRAM, &task);
    let mut running = made.start(&task);
    let mut recorder = Recorder::new(origin(&task));
    assert_eq!(running.slice(5_000), Slice::Yielded);
    let first = taken(&mut recorder, &mut running);
    assert_eq!(running.slice(10), Slice::Yielded);
    let second = taken(&mut recorder, &mut running);
    assert_eq!((first.base, second.base), (None, Some(first.root)));
    assert!(second.bytes.len() < first.bytes.len() / 2, "{} of {}", second.bytes.len(), first.bytes.len());
}

#[test]
fn a_limit_of_fuel_ends_a_task_at_the_same_instruction_however_it_is_sliced() {
    let limits = Limits { fuel: 9_000, ..task().limits };
    let task = Task { limits, ..task() };
    let mut made = made(PROGRAM, &task);
    let alone = made.undisturbed(&task);
    assert_eq!(alone.end, End::LimitReached(Limit::Fuel(9_000)));
    assert!((9_000..9_200).contains(&alone.fuel), "{}", alone.fuel);
    let mut running = made.start(&task);
    let halt = loop {
        match running.slice(70) {
            Slice::Ended(halt) => break halt,
            _ => continue,
        }
    };
    assert_eq!(running.finish(halt, 0), alone);
}

#[test]
fn a_program_that_cannot_be_suspended_says_why_and_runs_to_its_end() {
    let text = r#"(module (memory (export "memory") 1) (elem declare func $f)
        (func $f) (func $hold (result i32) (local $r funcref) (local.set $r (ref.func $f))
            (loop $l (br_if $l (i32.const 0))) (ref.is_null (local.get $r)))
        (func (export "_start") (drop (call $hold))))"#;
    let task = task();
    let mut made = made(text, &task);
    let why = made.prepared.layout.clone().unwrap_err();
    assert!(why.contains("reference"), "{why}");
    let mut running = made.start(&task);
    assert!(Recorder::new(origin(&task)).capture(&mut running).is_err());
    assert_eq!(running.slice(1), Slice::Ended(sandbox::wasi::Halt::Exit(0)));
}

#[test]
fn slices_find_their_length() {
    let mut pace = Pace::new(5_000);
    for _ in 0..20 {
        // A machine that does 300 units a microsecond.
        pace.took(pace.fuel() / 300);
    }
    assert!((1_400_000..1_600_000).contains(&pace.fuel()), "{}", pace.fuel());
    pace.took(10_000_000);
    assert!(pace.fuel() < 1_600_000 / 1000, "a machine that became slow is asked for less at once");
}

/// Fuel and root at the first polls of the program, the same in every engine: the browser's tests
/// read them too. A change of the pass or of the format that is meant replaces them, with a new
/// `INSTRUMENT_VERSION`.
const GOLDEN: &str = include_str!("golden.txt");

#[test]
fn states_have_the_roots_that_every_engine_gives_them() {
    let task = task();
    let mut made = made(PROGRAM, &task);
    let mut running = made.start(&task);
    let mut recorder = Recorder::new(origin(&task));
    let mut found = String::new();
    while running.slice(9_000) == Slice::Yielded {
        let Encoded { root, fuel, .. } = taken(&mut recorder, &mut running);
        let root: String = root.iter().map(|byte| format!("{byte:02x}")).collect();
        found += &format!("{fuel} {root}\n");
    }
    assert_eq!(found, GOLDEN);
}
