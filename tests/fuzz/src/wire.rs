//! A frame's bytes, as a peer sends them.

use crate::bend::Bend;
use crate::edit::{Edit, apply};
use crate::gauge::within;
use crate::golden::{bent, comes_back, frame_of, golden};
use arbitrary::{Arbitrary, Unstructured};
use node_core::wire::{MAX_FRAME, VERSION, WireError};
use node_core::{Channel, Message};

#[derive(Arbitrary, Debug)]
enum Kind<'a> {
    Anything(&'a [u8]),
    /// Behind the version, for a service.
    Body(u8, &'a [u8]),
    Changed(u16, Vec<Edit>),
    Bent(u16, Vec<Bend>),
    /// Cut at a place, where a list, a map, a text or bytes of this length are said to follow.
    Claims(u16, u16, Claim, u32),
    /// So many lists, each in the one before.
    Deep(u8, u16, bool),
    /// One byte, again and again, behind the beginning of a true frame.
    Endless(u16, u16, u8, u32),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Claim {
    List,
    Map,
    Text,
    Bytes,
    Extension,
}

/// Bytes that decoding may hold for each byte of a frame: the largest element of a list, which a peer
/// can write in one byte, twice over while the list grows.
const EACH: usize = 1024;

/// The bound in any case: serde believes a list's length up to a MiB, in each of the lists that
/// lie in each other.
const ALWAYS: usize = 12 << 20;

/// Longest text about a bad frame: it goes into logs and to people.
const SAID: usize = 1000;

/// Which kind it was, and what came of it.
pub fn wire(data: &[u8]) -> u64 {
    let Ok(kind) = Kind::arbitrary(&mut Unstructured::new(data)) else { return 0 };
    let (kind, frame) = match kind {
        Kind::Anything(bytes) => (1, bytes.to_vec()),
        Kind::Body(to, bytes) => (2, [&[VERSION, service(to)], bytes].concat()),
        Kind::Changed(which, edits) => {
            let mut frame = golden(which).frame.clone();
            apply(&edits, &mut frame);
            (3, frame)
        }
        Kind::Bent(which, bends) => {
            (4, frame_of(golden(which).service, &bent(golden(which).value.clone(), &bends)))
        }
        Kind::Claims(which, at, claim, len) => (5, claims(&golden(which).frame, at, claim, len)),
        Kind::Deep(to, len, map) => {
            (6, [vec![VERSION, service(to)], vec![if map { 0x81 } else { 0x91 }; len.into()]].concat())
        }
        Kind::Endless(which, at, byte, len) => {
            let frame = &golden(which).frame;
            let mut frame = frame[..usize::from(at) % frame.len()].to_vec();
            frame.resize(frame.len() + len as usize % (MAX_FRAME / 8), byte);
            (7, frame)
        }
    };
    let mut came = 0;
    for channel in [Channel::Control, Channel::Blob] {
        let bound = frame.len() * EACH + ALWAYS;
        match within(bound, || Message::decode(&frame, channel)) {
            Ok(message) => {
                comes_back(&message, frame.len());
                came = 1;
            }
            Err(WireError::WrongChannel) => {}
            Err(error) => {
                let said = error.to_string();
                assert!(said.len() <= SAID, "{} bytes are said of a bad frame", said.len());
            }
        }
    }
    kind * 2 + came
}

/// Most numbers are none of a service.
fn service(number: u8) -> u8 {
    number % 32
}

fn claims(frame: &[u8], at: u16, claim: Claim, len: u32) -> Vec<u8> {
    let mut claimed = frame[..usize::from(at) % frame.len()].to_vec();
    claimed.push(match claim {
        Claim::List => 0xdd,
        Claim::Map => 0xdf,
        Claim::Text => 0xdb,
        Claim::Bytes => 0xc6,
        Claim::Extension => 0xc9,
    });
    // Most of them beyond what a frame can hold.
    claimed.extend(len.rotate_right(8).to_be_bytes());
    claimed.extend(&frame[usize::from(at) % frame.len()..]);
    claimed
}
