//! States that once did harm, or nearly.

use crate::forge::{head_of, with_head};
use crate::gauge::within;
use crate::stage::{KEY, Stage, stage};
use rmpv::Value;
use sandbox::instrument::FRAME_PAGES;
use sandbox::snapshot::{BadSnapshot, State, seal};
use sandbox::wasi::Halt;
use sandbox::{NotStarted, Outcome};

/// Outcome of a task whose host's state was bent; `Err` says why it is refused.
fn bent(stage: &Stage, bend: impl FnOnce(&mut [Value])) -> Result<Outcome, String> {
    let mut forged = stage.parts[1].clone();
    let mut value = rmpv::decode::read_value(&mut &forged.host[..]).expect("a true state");
    let Value::Array(parts) = &mut value else { panic!("{value}") };
    bend(parts);
    forged.host.clear();
    rmpv::encode::write_value(&mut forged.host, &value).expect("into memory");
    let mut whole = seal(&KEY, forged.bytes(None));
    let state = State::open(&KEY, &mut whole, None, &stage.origin).expect("a snapshot");
    state.check().expect("its root is right");
    match stage.resume(&state) {
        Ok(running) => Ok(running.finish(Halt::Exit(0), 0)),
        Err(NotStarted::Snapshot(why)) => Err(why),
        Err(other) => panic!("{other:?}"),
    }
}

/// The nodes of the file system, and the number of the next.
fn tree(parts: &mut [Value]) -> (&mut Vec<(Value, Value)>, &mut Value) {
    let [_, _, _, Value::Array(tree), _] = parts else { panic!("no state") };
    let [Value::Map(nodes), next] = &mut tree[..] else { panic!("no tree") };
    (nodes, next)
}

fn node(kind: Value, home: (u64, &str)) -> Value {
    let home = Value::Array(vec![home.0.into(), home.1.into()]);
    Value::Array(vec![kind, home, Value::Array(vec![0.into(), 0.into(), 0.into()])])
}

fn file(content: Value, given_as: Value) -> Value {
    Value::Map(vec![("File".into(), Value::Array(vec![content, given_as]))])
}

fn dir(names: Vec<(Value, Value)>) -> Value {
    Value::Map(vec![("Dir".into(), Value::Array(vec![Value::Map(names)]))])
}

/// Puts a node into the root directory.
fn hang(parts: &mut [Value], ino: u64, name: &str, kind: Value) {
    let (nodes, next) = tree(parts);
    nodes.push((ino.into(), node(kind, (1, name))));
    *next = (ino + 1).into();
    let Value::Array(root) = &mut nodes[0].1 else { panic!("no node") };
    let Value::Map(kind) = &mut root[0] else { panic!("no kind") };
    let Value::Array(names) = &mut kind[0].1 else { panic!("no directory") };
    let Value::Map(names) = &mut names[0] else { panic!("no names") };
    names.push((name.into(), ino.into()));
}

fn own() -> Value {
    file(Value::Map(vec![("Own".into(), vec![1_u8].into())]), Value::Nil)
}

#[test]
fn a_file_more_is_no_harm() {
    let outcome = bent(stage(true), |parts| hang(parts, 10, "more", own())).expect("taken");
    assert!(outcome.files.iter().any(|file| file.path == "more"));
}

/// Each path is a hundred kilobytes, and each file below would have been told with its own.
#[test]
fn a_tree_is_no_deeper_than_paths_are_long() {
    let name = "n".repeat(200);
    let why = within(64 << 20, || {
        bent(stage(true), |parts| {
            hang(parts, 100, "deep", dir(vec![(name.as_str().into(), 101.into())]));
            let (nodes, next) = tree(parts);
            for ino in 101..600 {
                nodes.push((
                    ino.into(),
                    node(dir(vec![(name.as_str().into(), (ino + 1).into())]), (ino - 1, &name)),
                ));
            }
            let names: Vec<String> = (0..2000).map(|n| n.to_string()).collect();
            let files = names.iter().zip(1000_u64..);
            let listed = files.clone().map(|(name, ino)| (name.as_str().into(), ino.into())).collect();
            nodes.push((600.into(), node(dir(listed), (599, &name))));
            nodes.extend(files.map(|(name, ino)| (ino.into(), node(own(), (600, name)))));
            *next = 9000.into();
        })
    });
    assert!(why.is_err_and(|why| why.contains("longer than paths may be")));
}

/// It costs the task nothing, since it was given it; a thousand of it would have been sent back.
#[test]
fn an_input_file_is_there_once() {
    let given = || file("Given".into(), "in/a".into());
    let why = bent(stage(true), |parts| hang(parts, 10, "again", given()));
    assert!(why.is_err_and(|why| why.contains("has it twice")));
}

#[test]
fn names_are_such_that_a_path_leads_there() {
    for name in ["", ".", "..", "../../etc/passwd", "/root", "dir/file", "a\0b"] {
        let why = bent(stage(true), |parts| hang(parts, 10, name, own()));
        assert!(why.is_err_and(|why| why.contains("lists what is not there")), "{name:?}");
    }
}

#[test]
fn numbers_of_files_do_not_run_out() {
    let why = bent(stage(true), |parts| *tree(parts).1 = u64::MAX.into());
    assert!(why.is_err_and(|why| why.contains("numbered wrongly")));
}

/// A few bytes that claim to be hundreds of megabytes are refused before any room is made for them.
#[test]
fn memory_that_its_job_does_not_allow_is_not_made() {
    let stage = stage(true);
    for (pages, is_allowed) in [(20 + FRAME_PAGES, true), (21 + FRAME_PAGES, false), (4_000, false)] {
        let mut forged = stage.parts[1].clone();
        (forged.memory_pages, forged.top) = (pages, pages << 16);
        let bytes = forged.bytes(None);
        let read = within(8 << 20, || State::read(&bytes, &stage.origin).map(drop));
        assert_eq!(read, if is_allowed { Ok(()) } else { Err(BadSnapshot::Pages) }, "{pages}");
    }
}

#[test]
fn a_state_has_one_form() {
    let stage = stage(true);
    let (mut head, pages) = head_of(&stage.snapshots[1]);
    let floats = 4 + 32 + 8;
    assert_eq!(head[floats], 0);
    head[floats] = 2;
    let read = State::read(&with_head(&head, pages), &stage.origin).map(drop);
    assert_eq!(read, Err(BadSnapshot::Damaged));
}
