//! Lies of a slot about its snapshots, for tests: what machine code that got out of a program could tell the
//! node instead of the truth.

use super::super::wire::{FromSlot, SlotSnapshot};
use super::desk::{Ask, Desk};
use super::files::receive;
use std::io::{Seek, Write};
use std::time::{Duration, Instant};

/// A task whose first argument begins so lies when it is asked for a snapshot; how, is what follows.
pub(in crate::engine) const LIE: &str = "lie about a snapshot: ";

/// Content of its snapshots.
pub(in crate::engine) const CONTENT: &[u8] = b"what it has written until it says that it is done";

/// The time for which it writes on after it has said that it is done.
const LATER: Duration = Duration::from_millis(500);

pub(super) fn lie(run: u64, how: &str, desk: &Desk) -> FromSlot {
    let said = CONTENT.len() as u64;
    let tell = |written: u64, stopped: bool| {
        let (relative, root, fuel, pause_us) = (false, [0; 32], 1, 0);
        let taken = Ok(SlotSnapshot { written: Ok(written), relative, root, fuel, pause_us, marks: None });
        FromSlot::Snapshot { run, taken, stopped }
    };
    // Its test waits for this.
    desk.note(&FromSlot::Resumed(run));
    if how == "unasked" {
        desk.note(&tell(said, false));
    }
    let written = || {
        let mut file = receive().expect("a file");
        file.write_all(CONTENT).expect("a file that can be written");
        file
    };
    loop {
        desk.sleep(None);
        let stop = match desk.asked() {
            Some(Ask::Snapshot { stop }) => stop,
            Some(Ask::Kill) => return FromSlot::Killed(run),
            _ => continue,
        };
        let answer = match how {
            "longer" => {
                drop(written());
                tell(said + 1, stop)
            }
            "shorter" => {
                drop(written());
                tell(said - 1, stop)
            }
            "nothing" => tell(said, stop),
            "empty" => tell(0, stop),
            "endless" => tell(u64::MAX, stop),
            "twice" => {
                drop(written());
                desk.note(&tell(said, false));
                tell(said, stop)
            }
            "relative" => {
                drop(written());
                let (root, fuel, pause_us) = ([0; 32], 1, 0);
                let taken =
                    Ok(SlotSnapshot { written: Ok(said), relative: true, root, fuel, pause_us, marks: None });
                FromSlot::Snapshot { run, taken, stopped: stop }
            }
            "later" => {
                let mut file = written();
                desk.note(&tell(said, false));
                let began = Instant::now();
                let mut other = 0u8;
                while began.elapsed() < LATER {
                    other = other.wrapping_add(1);
                    file.rewind().expect("a file");
                    file.write_all(&[other; CONTENT.len()]).expect("a file that can be written");
                }
                continue;
            }
            _ => {
                drop(written());
                tell(said, stop)
            }
        };
        if stop {
            return answer;
        }
        desk.note(&answer);
    }
}
