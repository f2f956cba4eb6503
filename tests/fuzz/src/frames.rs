//! The bytes of a stream, cut anywhere: lengths, frames, heartbeats.

use crate::frame::{ReadEnd, Reader, Writer};
use crate::gauge::within;
use arbitrary::{Arbitrary, Unstructured};
use bytes::Bytes;
use futures::{AsyncRead, AsyncWrite};
use node_core::wire::MAX_FRAME;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    kind: Kind<'a>,
    /// How much comes at a time; 0: nothing yet.
    portions: Vec<u16>,
}

#[derive(Arbitrary, Debug)]
enum Kind<'a> {
    Anything(&'a [u8]),
    /// Frames of these lengths, and what follows them.
    Frames(Vec<u16>, &'a [u8]),
    /// A header that says so much, and so many bytes of it.
    Says(u32, u32),
    /// Heartbeats without end.
    Beats(u16),
}

/// The bound of a reader: a frame, and a portion of the next while the first is copied.
const BOUND: usize = 3 * MAX_FRAME + (1 << 20);

/// A stream that gives and takes in portions.
struct Portions<'a> {
    bytes: &'a [u8],
    portions: Vec<u16>,
    next: usize,
    written: Vec<u8>,
}

impl<'a> Portions<'a> {
    fn new(bytes: &'a [u8], portions: &[u16]) -> Portions<'a> {
        Portions { bytes, portions: portions.to_vec(), next: 0, written: Vec::new() }
    }

    /// How much goes now; `None`: nothing yet. Never nothing for ever.
    fn portion(&mut self) -> Option<usize> {
        let portion = self.portions.get(self.next).copied();
        self.next += 1;
        match portion {
            Some(0) => None,
            Some(some) => Some(some.into()),
            None => Some(usize::MAX),
        }
    }
}

impl AsyncRead for Portions<'_> {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        let Some(portion) = self.portion() else { return Poll::Pending };
        let count = portion.min(into.len()).min(self.bytes.len());
        let (now, later) = self.bytes.split_at(count);
        into[..count].copy_from_slice(now);
        self.bytes = later;
        Poll::Ready(Ok(count))
    }
}

impl AsyncWrite for Portions<'_> {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Some(portion) = self.portion() else { return Poll::Pending };
        let count = portion.min(bytes.len());
        self.written.extend(&bytes[..count]);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

pub fn frames(data: &[u8]) -> u64 {
    let Ok(input) = Input::arbitrary(&mut Unstructured::new(data)) else { return 0 };
    let (kind, bytes) = match &input.kind {
        Kind::Anything(bytes) => (1, bytes.to_vec()),
        Kind::Frames(lengths, rest) => {
            let frame = |len: &u16| [&u32::from(*len).to_be_bytes()[..], &vec![7; (*len).into()]].concat();
            let mut all: Vec<u8> = lengths.iter().take(16).flat_map(frame).collect();
            all.extend(*rest);
            (2, all)
        }
        Kind::Says(len, count) => {
            let len = len % (2 * MAX_FRAME as u32);
            let mut all = len.to_be_bytes().to_vec();
            all.resize(4 + *count as usize % (MAX_FRAME + MAX_FRAME / 4), 7);
            (3, all)
        }
        Kind::Beats(count) => (4, vec![0; 4 * usize::from(*count)]),
    };
    let (read, end) = within(BOUND + bytes.len(), || read_all(&bytes, &input.portions));
    let (expected, clean) = reference(&bytes);
    assert_eq!(read, expected);
    assert_eq!(matches!(end, ReadEnd::Clean), clean, "{end:?}");
    let written = within(BOUND + 2 * bytes.len(), || write_all(&read, &input.portions));
    assert_eq!(read_all(&written, &[]).0, read, "what was read is written as it was");
    kind * 2 + u64::from(clean)
}

fn read_all(bytes: &[u8], portions: &[u16]) -> (Vec<Bytes>, ReadEnd) {
    let mut reader = Reader::new(Portions::new(bytes, portions));
    let mut cx = Context::from_waker(Waker::noop());
    let mut frames = Vec::new();
    loop {
        match reader.poll_frame(&mut cx) {
            Poll::Ready(Ok(frame)) => frames.push(frame),
            Poll::Ready(Err(end)) => return (frames, end),
            Poll::Pending => {}
        }
    }
}

fn write_all(frames: &[Bytes], portions: &[u16]) -> Vec<u8> {
    let mut stream = pin!(Portions::new(&[], portions));
    let mut writer = Writer::new(stream.as_mut());
    let mut cx = Context::from_waker(Waker::noop());
    frames.iter().for_each(|frame| writer.add(frame.clone()));
    while writer.poll_write(&mut cx).is_pending() {}
    assert!(writer.is_idle());
    drop(writer);
    std::mem::take(&mut stream.written)
}

/// The frames in these bytes as anybody would read them, and whether they end between two.
fn reference(mut bytes: &[u8]) -> (Vec<Bytes>, bool) {
    let mut frames = Vec::new();
    loop {
        let Some((header, rest)) = bytes.split_first_chunk::<4>() else { return (frames, bytes.is_empty()) };
        let len = u32::from_be_bytes(*header) as usize;
        if len > MAX_FRAME || rest.len() < len {
            return (frames, false);
        }
        if len > 0 {
            frames.push(Bytes::copy_from_slice(&rest[..len]));
        }
        bytes = &rest[len..];
    }
}
