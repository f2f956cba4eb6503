//! The task's memory through typed arrays.

use js_sys::{DataView, Uint8Array, WebAssembly};
use sandbox::{GuestMemory, OutOfBounds};
use wasm_bindgen::{JsCast, JsValue};

/// Views of a memory that may grow between two host calls, but not during one.
pub(crate) struct TaskMemory {
    memory: WebAssembly::Memory,
    buffer: JsValue,
    bytes: Uint8Array,
    words: DataView,
    size: u64,
}

impl TaskMemory {
    pub(crate) fn new(memory: WebAssembly::Memory) -> Self {
        let buffer = memory.buffer();
        let bytes = Uint8Array::new(&buffer);
        let words = DataView::new(buffer.unchecked_ref(), 0, bytes.length() as usize);
        // The length of 4 GiB does not fit a u32; no array is that long in any browser yet.
        let size = bytes.length().into();
        TaskMemory { memory, buffer, bytes, words, size }
    }

    /// To be called at the beginning of a host call. Growing detaches the old buffer, whose
    /// views then have length zero.
    pub(crate) fn refresh(&mut self) {
        if self.bytes.length() == 0 {
            *self = TaskMemory::new(self.memory.clone());
        }
    }

    fn check(&self, at: u32, len: usize) -> Result<(), OutOfBounds> {
        if u64::from(at) + len as u64 <= self.size { Ok(()) } else { Err(OutOfBounds) }
    }

    fn view(&self, at: u32, len: usize) -> Uint8Array {
        Uint8Array::new_with_byte_offset_and_length(&self.buffer, at, len as u32)
    }

    fn word(&self, at: u32) -> [u8; 4] {
        self.words.get_uint32_endian(at as usize, true).to_le_bytes()
    }

    fn put_word(&self, at: u32, word: [u8; 4]) {
        self.words.set_uint32_endian(at as usize, u32::from_le_bytes(word), true);
    }
}

/// Pointers, lengths and counts, which most accesses are, go without a view of their own.
impl GuestMemory for TaskMemory {
    fn size(&self) -> u64 {
        self.size
    }

    fn read(&self, at: u32, into: &mut [u8]) -> Result<(), OutOfBounds> {
        self.check(at, into.len())?;
        match into.len() {
            0 => {}
            4 => into.copy_from_slice(&self.word(at)),
            8 => {
                into[..4].copy_from_slice(&self.word(at));
                into[4..].copy_from_slice(&self.word(at + 4));
            }
            len => self.view(at, len).copy_to(into),
        }
        Ok(())
    }

    fn write(&mut self, at: u32, from: &[u8]) -> Result<(), OutOfBounds> {
        self.check(at, from.len())?;
        match *from {
            [] => {}
            [a, b, c, d] => self.put_word(at, [a, b, c, d]),
            [a, b, c, d, e, f, g, h] => {
                self.put_word(at, [a, b, c, d]);
                self.put_word(at + 4, [e, f, g, h]);
            }
            _ => self.view(at, from.len()).copy_from(from),
        }
        Ok(())
    }
}
