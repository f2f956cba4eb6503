//! The task's memory through typed arrays.

use js_sys::{DataView, Uint8Array, WebAssembly};
use sandbox::{GuestMemory, OutOfBounds};
use wasm_bindgen::{JsCast, JsValue};

/// A memory that may grow between two host calls, but not during one.
pub(crate) struct TaskMemory {
    memory: WebAssembly::Memory,
    /// None until something is asked: a task that asks nothing is spared their making.
    views: Option<Views>,
}

struct Views {
    buffer: JsValue,
    bytes: Uint8Array,
    words: DataView,
    size: u64,
}

impl TaskMemory {
    pub(crate) fn new(memory: WebAssembly::Memory) -> Self {
        TaskMemory { memory, views: None }
    }

    /// To be called at the beginning of a host call. Growing detaches the old buffer, whose
    /// views then have length zero.
    pub(crate) fn refresh(&mut self) {
        if self.views.as_ref().is_none_or(|views| views.bytes.length() == 0) {
            self.views = Some(Views::of(&self.memory));
        }
    }

    /// The views, if such a range is there.
    fn checked(&self, at: u32, len: usize) -> Result<&Views, OutOfBounds> {
        let views = self.views.as_ref().ok_or(OutOfBounds)?;
        if u64::from(at) + len as u64 <= views.size { Ok(views) } else { Err(OutOfBounds) }
    }
}

impl Views {
    fn of(memory: &WebAssembly::Memory) -> Views {
        let buffer = memory.buffer();
        let bytes = Uint8Array::new(&buffer);
        let words = DataView::new(buffer.unchecked_ref(), 0, bytes.length() as usize);
        // The length of 4 GiB does not fit a u32; no array is that long in any browser yet.
        let size = bytes.length().into();
        Views { buffer, bytes, words, size }
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
        self.views.as_ref().map_or(0, |views| views.size)
    }

    fn read(&self, at: u32, into: &mut [u8]) -> Result<(), OutOfBounds> {
        let views = self.checked(at, into.len())?;
        match into.len() {
            0 => {}
            4 => into.copy_from_slice(&views.word(at)),
            8 => {
                into[..4].copy_from_slice(&views.word(at));
                into[4..].copy_from_slice(&views.word(at + 4));
            }
            len => views.view(at, len).copy_to(into),
        }
        Ok(())
    }

    fn write(&mut self, at: u32, from: &[u8]) -> Result<(), OutOfBounds> {
        let views = self.checked(at, from.len())?;
        match *from {
            [] => {}
            [a, b, c, d] => views.put_word(at, [a, b, c, d]),
            [a, b, c, d, e, f, g, h] => {
                views.put_word(at, [a, b, c, d]);
                views.put_word(at + 4, [e, f, g, h]);
            }
            _ => views.view(at, from.len()).copy_from(from),
        }
        Ok(())
    }
}
