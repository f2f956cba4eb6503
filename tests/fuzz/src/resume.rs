//! A state that nobody ever came to: who ran a task before can write down anything, seal it with
//! the unit's key, and give it the right root.

use crate::bend::Bend;
use crate::edit::{Edit, apply, overwrite};
use crate::engine::Interpreted;
use crate::forge::Parts;
use crate::gauge::within;
use crate::stage::{KEY, MEMORY, OUTPUT, Stage, stage};
use arbitrary::{Arbitrary, Unstructured};
use sandbox::snapshot::{NotOpened, Recorder, State, seal};
use sandbox::wasi::Halt;
use sandbox::{Limit, NotStarted, Outcome, Running, Slice};

#[derive(Arbitrary, Debug)]
struct Input {
    program: bool,
    point: u8,
    /// Written down as the difference from another.
    relative: bool,
    slices: [u16; 6],
    /// Few, mostly: what is all wrong is refused at once.
    changes: Vec<Change>,
}

#[derive(Arbitrary, Debug)]
enum Change {
    Fuel(u64),
    Depth(i32),
    MemoryPages(u16),
    /// Bytes more or less, or anywhere at all.
    TopBy(i16),
    Top(u32),
    Global(u8, u128),
    Frame(Edit),
    Memory(Edit),
    Host(Bend),
    HostBytes(Edit),
}

const MOST_CHANGES: usize = 12;

/// Most bytes that a run may hold here: the program's memory in the interpreter, in the state and in the
/// source of its snapshot, each twice while it is copied or has changed; its output and the index of that;
/// and the interpreter's stacks.
fn bound(stage: &Stage, host: usize) -> usize {
    let memory = MEMORY as usize + ((stage.layout.frame_pages as usize) << 16);
    memory * 8 + OUTPUT as usize * 8 + host * 64 + (48 << 20)
}

pub fn resume(data: &[u8]) {
    let Ok(input) = Input::arbitrary(&mut Unstructured::new(data)) else { return };
    let stage = stage(input.program);
    let honest = &stage.parts[usize::from(input.point) % stage.parts.len()];
    let forged = forge(stage, honest, &input);
    let base = input.relative.then_some(&stage.parts[0]);
    let host = forged.host.len();
    within(bound(stage, host), || {
        let first = base.unwrap_or(&forged).bytes(None);
        let mut whole = seal(&KEY, first.clone());
        let mut relative = base.map(|base| seal(&KEY, forged.bytes(Some(base))));
        let state = match State::open(&KEY, &mut whole, relative.as_deref_mut(), &stage.origin) {
            Ok(state) => state,
            Err(NotOpened::Seal(bad)) => panic!("rightly sealed, and refused: {bad}"),
            Err(NotOpened::Snapshot(_)) => return,
        };
        let checked = state.check().expect("its root is right");
        match stage.resume(&state) {
            Ok(running) => {
                let recorder = Recorder::resumed(state, checked, whole.len());
                go_on(stage, running, recorder, first, &input.slices);
            }
            Err(NotStarted::Snapshot(_)) => {}
            Err(other) => panic!("a bad snapshot is blamed, and nothing else: {other:?}"),
        }
    });
    stage.is_as_it_was();
}

fn forge(stage: &Stage, honest: &Parts, input: &Input) -> Parts {
    let mut forged = honest.clone();
    for change in input.changes.iter().take(MOST_CHANGES) {
        change.apply(stage, honest, &mut forged);
    }
    forged
}

impl Change {
    fn apply(&self, stage: &Stage, honest: &Parts, forged: &mut Parts) {
        let frames = (honest.memory_pages - stage.layout.frame_pages) << 16;
        match self {
            Change::Fuel(fuel) => forged.fuel = *fuel,
            Change::Depth(depth) => forged.depth = *depth,
            Change::MemoryPages(pages) => forged.memory_pages = u32::from(*pages) % 64,
            Change::TopBy(more) => forged.top = forged.top.saturating_add_signed((*more).into()),
            Change::Top(top) => forged.top = top % (MEMORY as u32 * 2),
            Change::Global(which, bits) => {
                let count = forged.globals.len();
                if let Some((kind, old)) = forged.globals.get_mut(usize::from(*which) % (count + 1)) {
                    *old = *bits;
                    // Another type is refused.
                    *kind = if *which == u8::MAX { 0x7f } else { *kind };
                }
            }
            Change::Frame(edit) => {
                forged.change(frames, honest.top, |bytes| overwrite(std::slice::from_ref(edit), bytes));
            }
            Change::Memory(edit) => {
                forged.change(0, frames, |bytes| overwrite(std::slice::from_ref(edit), bytes));
            }
            Change::Host(bend) => {
                // The host's state may not be a value any more, after earlier changes byte by byte.
                if let Ok(mut value) = rmpv::decode::read_value(&mut &forged.host[..]) {
                    bend.apply(&mut value);
                    forged.host.clear();
                    rmpv::encode::write_value(&mut forged.host, &value).expect("into memory");
                }
            }
            Change::HostBytes(edit) => apply(std::slice::from_ref(edit), &mut forged.host),
        }
    }
}

/// Runs it a few slices, writes it down between them as any other, and takes what it leaves.
fn go_on(
    stage: &Stage,
    mut running: Running<Interpreted>,
    mut recorder: Recorder,
    mut base: Vec<u8>,
    slices: &[u16],
) {
    for fuel in slices {
        match running.slice((*fuel).into()) {
            Slice::Yielded | Slice::Waits => {}
            Slice::Ended(halt) => return left(running.finish(halt, 0)),
            Slice::Broken(why) => panic!("the engine is to blame: {why}"),
        }
        let captured = recorder.capture(&mut running).expect("suspended");
        let taken = recorder.encode(captured);
        let state = if taken.base.is_some() {
            State::read(&base, &stage.origin).and_then(|base| base.relative(&taken.bytes, &stage.origin))
        } else {
            base = taken.bytes;
            State::read(&base, &stage.origin)
        };
        let state = state.unwrap_or_else(|bad| panic!("what goes on cannot be written down: {bad}"));
        assert_eq!((state.root(), state.check().is_ok()), (taken.root, true));
    }
    left(running.finish(Halt::Limit(Limit::Fuel(0)), 0));
}

/// Checks that the outcome for the owner stays within a task's limits.
fn left(outcome: Outcome) {
    let files: usize = outcome.files.iter().map(|file| file.data.len()).sum();
    let given = 5000;
    assert!(outcome.stdout.len() + outcome.stderr.len() + files <= OUTPUT as usize + given);
    for file in &outcome.files {
        assert!(file.path.len() <= 4096, "a path of {} bytes", file.path.len());
    }
}
