//! Small changes of bytes.

use arbitrary::Arbitrary;

/// One change; places are taken modulo the length.
#[derive(Arbitrary, Clone, Debug)]
pub(crate) enum Edit {
    Byte(u32, u8),
    Word(u32, u32),
    Long(u32, u64),
    Cut(u32, u16),
    Insert(u32, u16, u8),
    /// Puts what lies here there.
    Copy(u32, u32, u16),
}

/// More would only be slow.
const MOST: usize = 32;

pub(crate) fn apply(edits: &[Edit], bytes: &mut Vec<u8>) {
    edits.iter().take(MOST).for_each(|edit| edit.apply(bytes));
}

/// Like [`apply`], for bytes whose length has to stay as it is.
pub(crate) fn overwrite(edits: &[Edit], bytes: &mut [u8]) {
    for edit in edits.iter().take(MOST) {
        match *edit {
            Edit::Byte(at, byte) => put(bytes, at, &[byte]),
            Edit::Word(at, word) => put(bytes, at, &word.to_le_bytes()),
            Edit::Long(at, long) => put(bytes, at, &long.to_le_bytes()),
            Edit::Cut(at, len) => put(bytes, at, &vec![0; len.into()]),
            Edit::Insert(at, len, byte) => put(bytes, at, &vec![byte; len.into()]),
            Edit::Copy(from, to, len) => {
                let from = place(bytes, from);
                let part = bytes[from..].iter().copied().take(len.into()).collect::<Vec<u8>>();
                put(bytes, to, &part);
            }
        }
    }
}

fn place(bytes: &[u8], at: u32) -> usize {
    at as usize % bytes.len().max(1)
}

fn put(bytes: &mut [u8], at: u32, new: &[u8]) {
    let at = place(bytes, at);
    bytes[at..].iter_mut().zip(new).for_each(|(old, new)| *old = *new);
}

impl Edit {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match *self {
            Edit::Cut(at, len) => {
                let at = place(bytes, at);
                let end = bytes.len().min(at + usize::from(len));
                bytes.drain(at..end);
            }
            Edit::Insert(at, len, byte) => {
                let at = place(bytes, at);
                bytes.splice(at..at, vec![byte; len.into()]);
            }
            _ => overwrite(std::slice::from_ref(self), bytes),
        }
    }
}
