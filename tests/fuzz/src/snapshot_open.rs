//! Bytes that claim to be a snapshot.

use crate::edit::{Edit, apply};
use crate::forge::{head_of, with_head};
use crate::gauge::within;
use crate::stage::{KEY, MEMORY, Stage, stage};
use arbitrary::{Arbitrary, Unstructured};
use sandbox::snapshot::{BadSnapshot, NotOpened, Recorder, State, seal};

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    program: bool,
    kind: Kind<'a>,
}

#[derive(Arbitrary, Debug)]
enum Kind<'a> {
    /// As it comes from a keeper.
    Anything(&'a [u8]),
    /// A true one that a keeper changed.
    Changed(u8, Vec<Edit>),
    /// From here on by somebody who has the key.
    Sealed(&'a [u8]),
    Head(&'a [u8], &'a [u8]),
    Resealed(u8, Vec<Edit>),
    NewHead(u8, Vec<Edit>),
    Relative(Vec<Edit>),
    RelativeHead(Vec<Edit>),
}

/// Most bytes that reading may hold beyond the input: the state's memory and its changes, each at most what
/// the job allows with the frames; and the unpacked head, at most 255 to one, a few times over while it is
/// taken apart.
fn bound(bytes: usize, stage: &Stage) -> usize {
    let memory = MEMORY as usize + ((stage.layout.frame_pages as usize) << 16);
    // The last: hashes, a part of pages, and what is small.
    memory * 2 + bytes * 255 * 4 + (4 << 20)
}

pub fn snapshot_open(data: &[u8]) {
    let Ok(Input { program, kind }) = Input::arbitrary(&mut Unstructured::new(data)) else { return };
    let stage = stage(program);
    let snapshot = |which: u8| stage.snapshots[usize::from(which) % stage.snapshots.len()].clone();
    let edited = |mut bytes: Vec<u8>, edits: &[Edit]| {
        apply(edits, &mut bytes);
        bytes
    };
    let new_head = |bytes: &[u8], edits: &[Edit]| {
        let (head, pages) = head_of(bytes);
        with_head(&edited(head, edits), pages)
    };
    let sealed = |bytes: Vec<u8>| seal(&KEY, bytes);
    match kind {
        Kind::Anything(bytes) => is_refused(stage, bytes.to_vec()),
        Kind::Changed(which, edits) => {
            let whole = sealed(snapshot(which));
            let changed = edited(whole.clone(), &edits);
            if changed != whole {
                is_refused(stage, changed);
            }
        }
        Kind::Sealed(bytes) => read(stage, sealed(bytes.to_vec()), None),
        Kind::Head(head, pages) => read(stage, sealed(with_head(head, pages)), None),
        Kind::Resealed(which, edits) => read(stage, sealed(edited(snapshot(which), &edits)), None),
        Kind::NewHead(which, edits) => read(stage, sealed(new_head(&snapshot(which), &edits)), None),
        Kind::Relative(edits) => {
            read(stage, sealed(snapshot(2)), Some(sealed(edited(stage.relative.clone(), &edits))))
        }
        Kind::RelativeHead(edits) => {
            read(stage, sealed(snapshot(2)), Some(sealed(new_head(&stage.relative, &edits))))
        }
    }
}

fn is_refused(stage: &Stage, mut sealed: Vec<u8>) {
    let opened =
        within(bound(sealed.len(), stage), || State::open(&KEY, &mut sealed, None, &stage.origin).map(drop));
    assert!(matches!(opened, Err(NotOpened::Seal(_))), "what nobody sealed was opened");
}

/// As a runner does it.
fn read(stage: &Stage, mut whole: Vec<u8>, mut relative: Option<Vec<u8>>) {
    let bytes = whole.len() + relative.as_ref().map_or(0, Vec::len);
    within(bound(bytes, stage), || {
        let opened = State::open(&KEY, &mut whole, relative.as_deref_mut(), &stage.origin);
        let state = match opened {
            Ok(state) => state,
            Err(NotOpened::Seal(bad)) => panic!("rightly sealed, and refused: {bad}"),
            Err(NotOpened::Snapshot(_)) => return,
        };
        let checked = match state.check() {
            Ok(checked) => checked,
            Err(bad) => return assert_eq!(bad, BadSnapshot::Root),
        };
        // One that is still true, or whose change says nothing: a true state all the same.
        let root = state.root();
        let last = stage.parts.iter().position(|parts| parts.root() == root);
        assert!(last.is_some(), "a state that nobody came to has the root of one");
        drop(Recorder::resumed(state, checked, bytes));
    });
}
