//! Snapshots from strangers: refused, or harmful to their own task only.

use crate::stories::{PROGRAM, made, origin, taken, task};
use sandbox::snapshot::{Ahead, BadSnapshot, Origin, Recorder, State, open, seal};
use sandbox::{NotStarted, Slice};

fn snapshots() -> (Vec<u8>, Vec<u8>) {
    let task = task();
    let mut made = made(PROGRAM, &task);
    let mut running = made.start(&task);
    let mut recorder = Recorder::new(origin(&task));
    assert_eq!(running.slice(9_000), Slice::Yielded);
    let whole = taken(&mut recorder, &mut running).bytes;
    assert_eq!(running.slice(100), Slice::Yielded);
    (whole, taken(&mut recorder, &mut running).bytes)
}

fn refusal(bytes: &[u8], origin: &Origin) -> BadSnapshot {
    match read(bytes, origin) {
        Ok(_) => panic!("it was taken for a snapshot"),
        Err(bad) => bad,
    }
}

fn read(bytes: &[u8], origin: &Origin) -> Result<State, BadSnapshot> {
    let state = State::read(bytes, origin)?;
    state.check()?;
    Ok(state)
}

#[test]
fn what_is_no_snapshot_of_this_program_is_refused_by_its_reason() {
    let (whole, relative) = snapshots();
    let origin = origin(&task());
    assert_eq!(refusal(b"", &origin), BadSnapshot::Magic);
    assert_eq!(refusal(b"nothing at all", &origin), BadSnapshot::Magic);
    assert_eq!(refusal(&whole, &Origin { program: [8; 32], ..origin.clone() }), BadSnapshot::OtherProgram);
    assert_eq!(refusal(&whole, &Origin { memory_limit: 1 << 20, ..origin.clone() }), BadSnapshot::OtherLimit);
    assert_eq!(refusal(&whole, &Origin { bit_exact: true, ..origin.clone() }), BadSnapshot::OtherLimit);
    assert_eq!(refusal(&relative, &origin), BadSnapshot::NeedsBase);
    let state = read(&whole, &origin).unwrap();
    assert_eq!(state.relative(&whole, &origin).err(), Some(BadSnapshot::OtherBase));
    for len in (0..whole.len()).step_by(7) {
        refusal(&whole[..len], &origin);
    }
    refusal(&[&whole[..], b"x"].concat(), &origin);
}

/// Without a seal, every bit is the attacker's: nothing panics, and nothing but the same state
/// passes for it.
#[test]
fn a_changed_bit_is_found() {
    let (whole, _) = snapshots();
    let origin = origin(&task());
    let root = read(&whole, &origin).unwrap().root();
    let mut found = 0;
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 1 << (at % 8);
        match read(&changed, &origin) {
            Err(_) => found += 1,
            Ok(state) => assert_eq!(state.root(), root),
        }
    }
    assert!(found > whole.len() * 9 / 10, "{found} of {}", whole.len());
}

#[test]
fn a_keeper_can_change_nothing() {
    let (whole, _) = snapshots();
    let sealed = seal(&[1; 32], whole.clone());
    assert_eq!(open(&[1; 32], &mut sealed.clone()).unwrap(), whole);
    assert!(open(&[2; 32], &mut sealed.clone()).is_err());
    for at in (0..sealed.len()).step_by(11) {
        let mut changed = sealed.clone();
        changed[at] ^= 4;
        assert!(open(&[1; 32], &mut changed).is_err(), "byte {at}");
    }
    assert!(open(&[1; 32], &mut sealed.clone()[..40]).is_err());
    assert!(!sealed.windows(8).any(|bytes| bytes == &whole[40..48]), "the content is not there to be read");
}

/// A state that lies ready is trusted no more than one that comes at once.
#[test]
fn what_came_ahead_goes_on_from_nothing_but_its_own() {
    let (whole, relative) = snapshots();
    let task = task();
    let mut made = made(PROGRAM, &task);
    let root =
        State::read(&whole, &origin(&task)).unwrap().relative(&relative, &origin(&task)).unwrap().root();
    let mut go_on =
        |relative: &[u8], root| made.ahead(&whole, &task).go_on(Some(relative), &root, &task).err();
    assert_eq!(go_on(&relative, root), None);
    assert!(go_on(&relative, [1; 32]).is_some(), "another state than its owner knows of");
    assert!(go_on(&whole, root).is_some(), "what is not relative to it");
    for at in 0..relative.len() {
        let mut changed = relative.clone();
        changed[at] ^= 1 << (at % 8);
        if let Some(why) = go_on(&changed, root) {
            assert!(matches!(why, NotStarted::Snapshot(_)), "{why:?}");
        }
    }
    // A base with a wrong hash is not placed at all.
    let mut bad = whole.clone();
    let end = bad.len() - 1;
    let layout = made.prepared.layout.clone().unwrap();
    for at in [end, end / 2, end / 3] {
        bad[at] ^= 1;
        if let Ok(state) = State::read(&bad, &origin(&task)) {
            let placed = Ahead::new(&mut made.engine, &made.module, &layout, &task, state, bad.len());
            assert!(matches!(placed.err(), Some(NotStarted::Snapshot(_))), "byte {at}");
        }
        bad[at] ^= 1;
    }
}

/// A previous runner of the task can write any state and give it the right hash: that harms no
/// other task.
#[test]
fn a_forged_state_harms_its_own_task_only() {
    let task = task();
    let mut made = made(PROGRAM, &task);
    for spoil in 0..400u32 {
        let mut running = made.start(&task);
        assert_eq!(running.slice(9_000), Slice::Yielded);
        let mut recorder = Recorder::new(origin(&task));
        spoiled(&mut running, spoil);
        let forged = taken(&mut recorder, &mut running).bytes;
        let state = read(&forged, &origin(&task)).unwrap();
        let layout = made.prepared.layout.clone().unwrap();
        match state.resume(&mut made.engine, &made.module, &layout, &task) {
            Ok(mut running) => {
                for _ in 0..100 {
                    if running.slice(1_000) != Slice::Yielded {
                        break;
                    }
                }
            }
            Err(NotStarted::Snapshot(_)) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
}

fn spoiled(running: &mut sandbox::Running<crate::engine::Interpreted>, n: u32) {
    use sandbox::{Control, Instance};
    let instance = running.instance_mut();
    let top = instance.control(Control::Top);
    let wild = i64::from(n.wrapping_mul(0x9e37_79b9));
    match n % 5 {
        0 => instance.set_control(Control::Top, top + i64::from(n) * 3 - 300),
        1 => instance.set_control(Control::Depth, wild as i32 as i64),
        // Anything in the frames.
        _ => {
            let len = 20 * 65_536 + 16 * 65_536;
            let size = instance.memory_bytes().min(len);
            let frames = size - 16 * 65_536;
            let at = frames + u64::from(n / 5) * 4 % (top as u64 - frames).max(4);
            instance.write_memory(at, &(wild as u32).to_le_bytes()).unwrap();
        }
    }
}
