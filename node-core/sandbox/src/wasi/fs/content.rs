//! Bytes of a file: shared with the job while nobody writes to them, then the task's own.

use super::super::errno::Done;
use super::super::output::Output;
use bytes::{Bytes, BytesMut};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in super::super) enum Content {
    /// As it came; costs the task nothing.
    Given(#[serde(skip)] Bytes),
    /// Written by the task; all of it counts as output.
    Own(BytesMut),
}

impl Content {
    /// A new file, or one cut to nothing.
    pub(super) const EMPTY: Content = Content::Given(Bytes::new());

    pub(in super::super) fn len(&self) -> u64 {
        self.as_slice().len() as u64
    }

    /// Bytes of the output account that the content holds.
    pub(super) fn charged(&self) -> u64 {
        match self {
            Content::Given(_) => 0,
            Content::Own(bytes) => bytes.len() as u64,
        }
    }

    /// Bytes from offset `at` on; empty beyond the end.
    pub(in super::super) fn from(&self, at: u64) -> &[u8] {
        usize::try_from(at).ok().and_then(|at| self.as_slice().get(at..)).unwrap_or(&[])
    }

    /// Gives it `size` bytes, booking what that costs first.
    pub(super) fn resize(&mut self, size: u64, output: &mut Output) -> Done<&mut [u8]> {
        let charged = self.charged();
        if size > charged {
            output.charge(size - charged)?;
        } else {
            output.release(charged - size);
        }
        // Booked against a limit that memory can hold, so it fits a usize.
        let size = size as usize;
        if let Content::Given(bytes) = self {
            let kept = &bytes[..bytes.len().min(size)];
            let mut own = BytesMut::with_capacity(size);
            own.extend_from_slice(kept);
            *self = Content::Own(own);
        }
        match self {
            Content::Own(bytes) => {
                bytes.resize(size, 0);
                Ok(bytes)
            }
            Content::Given(_) => Ok(&mut []),
        }
    }

    pub(super) fn into_bytes(self) -> Bytes {
        match self {
            Content::Given(bytes) => bytes,
            Content::Own(bytes) => bytes.freeze(),
        }
    }

    fn as_slice(&self) -> &[u8] {
        match self {
            Content::Given(bytes) => bytes,
            Content::Own(bytes) => bytes,
        }
    }
}
