//! Values in parts: a value may be longer than a message.
//!
//! A part begins with a byte: 1 if another follows, 0 if not. All parts together are the number of the call, 4 bytes,
//! little endian, and the value in MessagePack.

use crate::MESSAGE_MAX;

/// Bytes of a value in one message.
const PART: usize = MESSAGE_MAX - 1;

const LAST: u8 = 0;
const MORE: u8 = 1;

/// A value with the number of its call in front.
pub(super) fn head(call: u32, value: &[u8]) -> Vec<u8> {
    [&call.to_le_bytes(), value].concat()
}

/// Messages of a value; `bytes` is not empty.
pub(super) fn split(bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let last = bytes.len().saturating_sub(1) / PART;
    let mark = move |number| if number == last { LAST } else { MORE };
    bytes.chunks(PART).enumerate().map(move |(number, part)| [&[mark(number)], part].concat())
}

/// A value of which some parts have come.
#[derive(Default)]
pub(super) struct Value {
    bytes: Vec<u8>,
    is_broken: bool,
}

impl Value {
    /// Takes the next message; true: it was the last one.
    pub(super) fn add(&mut self, message: &[u8]) -> bool {
        let Some((&mark @ (LAST | MORE), part)) = message.split_first() else {
            self.is_broken = true;
            return true;
        };
        self.bytes.extend_from_slice(part);
        mark == LAST
    }

    /// Number of the call, and the value; none: the messages were no parts.
    pub(super) fn open(&self) -> Option<(u32, &[u8])> {
        let (call, value) = self.bytes.split_first_chunk().filter(|_| !self.is_broken)?;
        Some((u32::from_le_bytes(*call), value))
    }
}

#[cfg(test)]
mod tests {
    use super::{PART, Value, head, split};
    use crate::MESSAGE_MAX;

    #[test]
    fn a_value_of_any_length_comes_back_in_as_few_messages_as_can_be() {
        for (length, messages) in [(1, 1), (PART - 4, 1), (PART - 3, 2), (2 * PART - 4, 2), (2 * PART, 3)] {
            let bytes: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let (mut value, mut sent) = (Value::default(), Vec::new());
            for message in split(&head(7, &bytes)) {
                assert!(message.len() <= MESSAGE_MAX);
                sent.push(value.add(&message));
            }
            assert_eq!(sent.len(), messages, "{length} bytes");
            assert!(sent.iter().enumerate().all(|(at, is_last)| *is_last == (at + 1 == messages)));
            assert_eq!(value.open(), Some((7, &bytes[..])));
        }
    }

    #[test]
    fn other_messages_are_no_value() {
        for message in [&b"hello"[..], b"", b"\x00abc"] {
            let mut value = Value::default();
            assert!(value.add(message));
            assert_eq!(value.open(), None, "{message:?}");
        }
    }
}
