//! Words of peers to a whole node, in any order, whatever its role.

use crate::bend::Bend;
use crate::desk::{Desk, PEERS, State, cast};
use crate::edit::{Edit, apply};
use crate::gauge::within;
use crate::golden::{bent, cast as cast_in, frame_of, golden};
use arbitrary::{Arbitrary, Unstructured};
use node_core::{Channel, Message};
use std::time::Duration;

#[derive(Arbitrary, Debug)]
struct Input {
    state: u8,
    steps: Vec<Step>,
}

#[derive(Arbitrary, Debug)]
enum Step {
    /// A message of this kind, its nodes those that are there, so often.
    Says {
        who: u8,
        which: u16,
        cast: u8,
        bends: Vec<Bend>,
        times: u8,
    },
    /// Such a message with bytes changed.
    Changed {
        who: u8,
        which: u16,
        edits: Vec<Edit>,
    },
    Waits(u16),
    Ends(u8),
    Goes(u8),
    Comes(u8),
}

const MOST_STEPS: usize = 24;

/// A message that is said again is said at most so often.
const MOST_TIMES: u8 = 8;

/// The bound of a node's growth: for each byte that it is told, what that may become in its
/// tables and in answers on their way; and what it makes of a few messages and half a minute.
const EACH: usize = 1024;
const ALWAYS: usize = 24 << 20;

/// Frames sent for one that came, timers included: a list of a hundred is answered one by one.
const ANSWERS: u64 = 400;

pub fn node(data: &[u8]) -> u64 {
    let Ok(input) = Input::arbitrary(&mut Unstructured::new(data)) else { return 0 };
    let state = State::ALL[usize::from(input.state) % State::ALL.len()];
    let mut desk = Desk::new(state);
    let mut frames = Vec::new();
    for step in input.steps.iter().take(MOST_STEPS) {
        frames.push(match step {
            Step::Says { which, cast: first, bends, .. } => {
                let mut value = golden(*which).value.clone();
                cast_in(&mut value, cast(), *first);
                frame_of(golden(*which).service, &bent(value, bends))
            }
            Step::Changed { which, edits, .. } => {
                let mut frame = golden(*which).frame.clone();
                apply(edits, &mut frame);
                frame
            }
            _ => Vec::new(),
        });
    }
    let (mut told, mut heard) = (0, 0);
    for (step, frame) in input.steps.iter().zip(&frames) {
        if let Step::Says { times, .. } = step {
            told += frame.len() * usize::from(*times % MOST_TIMES);
        }
        told += frame.len();
    }
    let before = desk.around.frames;
    within(ALWAYS + told * EACH, || {
        for (step, frame) in input.steps.iter().zip(frames) {
            let frame = bytes::Bytes::from(frame);
            let on =
                if Message::decode(&frame, Channel::Blob).is_ok() { Channel::Blob } else { Channel::Control };
            match step {
                Step::Says { who, times, .. } => {
                    for _ in 0..=*times % MOST_TIMES {
                        heard += 1;
                        desk.hears(peer(*who), on, frame.clone());
                    }
                }
                Step::Changed { who, .. } => {
                    heard += 1;
                    desk.hears(peer(*who), on, frame);
                }
                Step::Waits(ms) => desk.wait(Duration::from_millis((*ms).into())),
                Step::Ends(how) => desk.ends(*how),
                Step::Goes(who) => desk.goes(peer(*who)),
                Step::Comes(who) => desk.comes(peer(*who)),
            }
        }
        desk.wait(Duration::from_secs(30));
    });
    let sent = desk.around.frames - before;
    assert!(sent <= ANSWERS * (heard + 10), "{sent} frames were sent for {heard}");
    assert!(desk.around.said <= 1000 * (heard + 100), "{} bytes are said of it", desk.around.said);
    let first = input.steps.first().map_or(0, |step| match step {
        Step::Says { which, .. } => u64::from(*which) % 64,
        _ => 64,
    });
    1 + u64::from(input.state) % 4 + 4 * first
}

fn peer(who: u8) -> usize {
    1 + usize::from(who) % PEERS
}
