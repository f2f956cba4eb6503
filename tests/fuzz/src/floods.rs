//! One peer says one kind of message again and again, each time about something else: what a node holds of
//! it is bounded, and so is what it says to it.

use crate::desk::{Desk, PEERS, State, cast};
use crate::gauge::held;
use crate::golden::{Golden, all, cast as cast_in, frame_of};
use bytes::Bytes;
use node_core::ticket::ServiceId;
use node_core::wire::MAX_FRAME;
use rmpv::Value;
use std::time::Duration;

/// Messages of a flood. A release build and `MANYHANDS_FLOOD=100000` see more tables full.
fn messages() -> u32 {
    std::env::var("MANYHANDS_FLOOD").ok().and_then(|n| n.parse().ok()).unwrap_or(600)
}

/// Bytes that one kind may make a node hold for good, and for each message of a flood up to the number at
/// which tables are full. The largest table that strangers fill has 10,000 entries.
const ALWAYS: isize = 1 << 20;
const EACH: isize = 8 << 10;
const FULL: isize = 12_000;

/// Bytes that a node may hold more at the end of a flood than in its middle, if tables were full by then. A table
/// that grows by 32 bytes a message is seen in a flood of 100,000.
const MORE: isize = 1 << 20;

/// Frames to anybody for one message, on average: an answer, and a word to each neighbour.
const ANSWERS: u64 = 8;

/// Dials for what one peer says of others, whatever it says: 32 a minute to each of the few addresses that
/// golden messages name.
const DIALS: u64 = 512;

/// Bytes to anybody for each byte: a request is short, and what it asks for is a whole chunk.
const BYTES: u64 = 64;

/// The part that differs in each message of a flood.
#[derive(Clone, Copy, Debug)]
enum Fresh {
    /// Names of jobs, content and nodes that are not here.
    Names,
    /// Numbers: tickets, indexes, versions, terms.
    Numbers,
    Both,
}

/// The `n`th message of a flood.
fn nth(golden: &Golden, fresh: Fresh, n: u32) -> Bytes {
    let mut value = golden.value.clone();
    cast_in(&mut value, cast(), 0);
    refresh(&mut value, fresh, n);
    frame_of(golden.service, &value).into()
}

fn refresh(value: &mut Value, fresh: Fresh, n: u32) {
    match value {
        Value::Binary(bytes) if !matches!(fresh, Fresh::Numbers) && matches!(bytes.len(), 16 | 32) => {
            bytes[4..8].copy_from_slice(&n.to_le_bytes());
        }
        Value::Integer(number) if !matches!(fresh, Fresh::Names) => {
            if let Some(number) = number.as_u64().filter(|number| *number < 1 << 20) {
                *value = (number + u64::from(n)).into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| refresh(item, fresh, n)),
        Value::Map(entries) => entries.iter_mut().for_each(|(_, item)| refresh(item, fresh, n)),
        _ => {}
    }
}

/// The cost of a flood.
struct Came {
    held: isize,
    /// Part of `held` that the second half of the flood added, bytes.
    late: isize,
    frames: u64,
    bytes: u64,
    told: u64,
    heard: u64,
    dialled: u64,
}

fn flood(state: State, golden: &Golden, fresh: Fresh, who: usize, count: u32) -> Came {
    let mut desk = Desk::new(state);
    let (frames, bytes) = (desk.around.frames, desk.around.bytes);
    let channel = golden.message.channel();
    let before = held();
    let (mut told, mut heard, mut middle) = (0, 0, before);
    for n in 0..count {
        if n == count / 2 {
            middle = held() - weight_of(desk.around.disk.clone());
        }
        let frame = nth(golden, fresh, n);
        told += frame.len() as u64;
        heard += 1;
        // A peer that was sent away comes again: a flood does not end with a connection.
        desk.comes(who);
        desk.hears(who, channel, frame);
        if n % 256 == 0 {
            desk.wait(Duration::from_millis(100));
        }
    }
    // The disk is the driver's; its bound is another.
    let disk = desk.around.disk.clone();
    let weight = weight_of(disk);
    let after = held() - weight;
    Came {
        held: after - before,
        late: after - middle,
        frames: desk.around.frames - frames,
        bytes: desk.around.bytes - bytes,
        told,
        heard,
        dialled: desk.around.dialled,
    }
}

/// Bytes of memory that a disk takes here.
fn weight_of(disk: simulator::disk::Disk) -> isize {
    let before = held();
    let copy = disk.clone();
    let weight = held() - before;
    drop((copy, disk));
    weight
}

#[test]
fn no_kind_of_message_fills_a_node_or_is_answered_beyond_measure() {
    let mut wrong = Vec::new();
    let count = messages();
    let only = std::env::var("MANYHANDS_KIND").ok();
    for (number, golden) in all().iter().enumerate() {
        let name = name_of(golden);
        if only.as_ref().is_some_and(|only| !name.contains(only)) {
            continue;
        }
        for state in [State::Gateway, State::Runner] {
            for fresh in [Fresh::Names, Fresh::Numbers, Fresh::Both] {
                // From a node that can be dialled: most protocols hear nobody else.
                let came = flood(state, golden, fresh, 2 + number % (PEERS - 1), count);
                let most = ALWAYS + EACH * FULL.min(came.heard as isize);
                let were_full = count as isize / 2 >= FULL;
                let line = format!(
                    "{name} to {state:?}, {fresh:?}: {} bytes held, {} of them late, {} frames, {} bytes sent, {} dialled for {} of {}",
                    came.held, came.late, came.frames, came.bytes, came.dialled, came.heard, came.told
                );
                if came.held > most
                    || (were_full && came.late > MORE)
                    || came.frames > ANSWERS * (came.heard + 100)
                    || came.dialled > DIALS
                    || came.bytes > BYTES * (came.told + (MAX_FRAME as u64))
                {
                    wrong.push(line.clone());
                }
                if std::env::var_os("MANYHANDS_FLOOD").is_some() {
                    println!("{line}");
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} floods:\n{}", wrong.len(), wrong.join("\n"));
}

/// `Owner ToOwner Submit`.
fn name_of(golden: &Golden) -> String {
    let mut name = ServiceId::of(golden.service).map_or_else(String::new, |service| format!("{service:?}"));
    let mut at = &golden.value;
    for _ in 0..4 {
        match at {
            Value::Map(entries) if entries.len() == 1 => {
                let (key, inner) = &entries[0];
                let Some(key) = key.as_str() else { break };
                name = format!("{name} {key}");
                at = inner;
            }
            Value::Array(items) if items.len() == 1 => at = &items[0],
            Value::String(word) => {
                name = format!("{name} {}", word.as_str().unwrap_or_default());
                break;
            }
            _ => break,
        }
    }
    name
}
