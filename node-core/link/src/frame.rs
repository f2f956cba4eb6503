//! Frames on a stream: four bytes of big-endian length, then so many bytes.
//!
//! A length of zero is a heartbeat: it says that the peer lives and is not delivered.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures::{AsyncRead, AsyncWrite};
use node_core::wire::MAX_FRAME;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

const HEADER: usize = 4;
/// How much is read or written at once. Our choice: four of yamux's data frames.
const CHUNK: usize = 64 << 10;
/// The least room for a read, and what an idle reader keeps.
const ROOM: usize = 2 << 10;
/// Frames from here on are written from where they lie instead of being gathered.
const LARGE: usize = 8 << 10;

/// Why no more frames come.
#[derive(Debug)]
pub(crate) enum ReadEnd {
    /// Between two frames.
    Clean,
    /// Within a frame: `got` of `expected` bytes, header included.
    Truncated {
        got: usize,
        expected: usize,
    },
    Oversized {
        len: u32,
    },
    Io(io::Error),
}

/// Reads frames.
pub(crate) struct Reader<S> {
    stream: S,
    /// `filled` bytes that came, then room for more.
    buffer: BytesMut,
    filled: usize,
    /// How much room the next read gets: grows with what comes, so that an idle peer costs
    /// little memory and a busy one few calls.
    room: usize,
    /// Whether anything came since [`Reader::heard`] was asked.
    heard: bool,
    /// Whether anything came at all.
    begun: bool,
    /// Frames that were read whole, heartbeats included.
    frames: u64,
}

impl<S: AsyncRead + Unpin> Reader<S> {
    pub(crate) fn new(stream: S) -> Self {
        Reader {
            stream,
            buffer: BytesMut::new(),
            filled: 0,
            room: ROOM,
            heard: true,
            begun: false,
            frames: 0,
        }
    }

    /// Whether anything came since the last call.
    pub(crate) fn heard(&mut self) -> bool {
        std::mem::take(&mut self.heard)
    }

    /// Whether anything ever came.
    pub(crate) fn begun(&self) -> bool {
        self.begun
    }

    /// Bytes of a frame that has not come whole.
    pub(crate) fn part(&self) -> usize {
        self.filled
    }

    /// Frames that came whole so far.
    pub(crate) fn frames(&self) -> u64 {
        self.frames
    }

    /// The next frame that is not a heartbeat.
    pub(crate) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, ReadEnd>> {
        loop {
            match self.parse() {
                Ok(Some(frame)) if frame.is_empty() => continue,
                Ok(Some(frame)) => return Poll::Ready(Ok(frame)),
                Ok(None) => {}
                Err(end) => return Poll::Ready(Err(end)),
            }
            if self.buffer.len() - self.filled < self.room {
                self.buffer.truncate(self.filled);
                self.buffer.resize(self.filled + self.room, 0);
            }
            let read = Pin::new(&mut self.stream).poll_read(cx, &mut self.buffer[self.filled..]);
            match read {
                Poll::Pending => {
                    if self.filled == 0 && self.buffer.len() > ROOM {
                        self.buffer = BytesMut::new();
                        self.room = ROOM;
                    }
                    return Poll::Pending;
                }
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(self.ended())),
                Poll::Ready(Ok(n)) => {
                    self.filled += n;
                    (self.heard, self.begun) = (true, true);
                    if n >= self.room {
                        self.room = (2 * self.room).min(CHUNK);
                    }
                }
                Poll::Ready(Err(e)) => return Poll::Ready(Err(ReadEnd::Io(e))),
            }
        }
    }

    /// Takes a whole frame off the buffer.
    fn parse(&mut self) -> Result<Option<Bytes>, ReadEnd> {
        let Some(len) = self.announced() else { return Ok(None) };
        if len as usize > MAX_FRAME {
            return Err(ReadEnd::Oversized { len });
        }
        let whole = HEADER + len as usize;
        if self.filled < whole {
            return Ok(None);
        }
        self.filled -= whole;
        self.frames += 1;
        self.buffer.advance(HEADER);
        Ok(Some(self.buffer.split_to(len as usize).freeze()))
    }

    /// The length of the frame that has begun.
    fn announced(&self) -> Option<u32> {
        let header = self.buffer[..self.filled].first_chunk::<HEADER>()?;
        Some(u32::from_be_bytes(*header))
    }

    fn ended(&self) -> ReadEnd {
        let expected = HEADER + self.announced().unwrap_or(0) as usize;
        match self.filled {
            0 => ReadEnd::Clean,
            got => ReadEnd::Truncated { got, expected },
        }
    }
}

/// Writes frames, as many at once as are there, then flushes.
pub(crate) struct Writer<S> {
    stream: S,
    /// Headers and small frames, gathered.
    gathered: BytesMut,
    /// Bytes to write, in order, before `gathered`.
    ready: std::collections::VecDeque<Bytes>,
    unflushed: bool,
    /// Whether anything was written since [`Writer::wrote`] was asked.
    wrote: bool,
}

impl<S: AsyncWrite + Unpin> Writer<S> {
    pub(crate) fn new(stream: S) -> Self {
        Writer { stream, gathered: BytesMut::new(), ready: Default::default(), unflushed: false, wrote: true }
    }

    /// Whether anything was written since the last call.
    pub(crate) fn wrote(&mut self) -> bool {
        std::mem::take(&mut self.wrote)
    }

    /// Adds a frame to what is to be written.
    pub(crate) fn add(&mut self, frame: Bytes) {
        self.gathered.reserve(CHUNK.min(HEADER + frame.len()));
        self.gathered.put_u32(frame.len() as u32);
        if frame.len() < LARGE {
            self.gathered.put_slice(&frame);
        } else {
            self.ready.push_back(self.gathered.split().freeze());
            self.ready.push_back(frame);
        }
    }

    /// Whether everything added was handed to the stream.
    pub(crate) fn is_idle(&self) -> bool {
        self.ready.is_empty() && self.gathered.is_empty()
    }

    /// Writes until all is written, or the stream takes no more for now.
    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let Some(chunk) = self.ready.front_mut() else {
                if self.gathered.is_empty() {
                    return Poll::Ready(Ok(()));
                }
                self.ready.push_back(self.gathered.split().freeze());
                continue;
            };
            let n = futures::ready!(Pin::new(&mut self.stream).poll_write(cx, chunk))?;
            if n == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.wrote = true;
            self.unflushed = true;
            chunk.advance(n);
            if chunk.is_empty() {
                self.ready.pop_front();
            }
        }
    }

    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.unflushed {
            futures::ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Says that nothing more comes.
    pub(crate) fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_close(cx)
    }
}

/// How much to take from a queue at once.
pub(crate) const BATCH: usize = CHUNK;

#[cfg(test)]
mod tests {
    use super::*;
    use futures::future::poll_fn;
    use futures::io::Cursor;

    fn read_all(bytes: &[u8]) -> (Vec<Bytes>, ReadEnd) {
        let mut reader = Reader::new(Cursor::new(bytes.to_vec()));
        let mut frames = Vec::new();
        futures::executor::block_on(async {
            loop {
                match poll_fn(|cx| reader.poll_frame(cx)).await {
                    Ok(frame) => frames.push(frame),
                    Err(end) => return (frames, end),
                }
            }
        })
    }

    fn written(frames: &[Bytes]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        frames.iter().for_each(|f| writer.add(f.clone()));
        futures::executor::block_on(poll_fn(|cx| writer.poll_write(cx))).unwrap();
        assert!(writer.is_idle());
        out
    }

    #[test]
    fn frames_of_every_size_come_back_in_order() {
        let sizes =
            [1, 2, LARGE - 1, LARGE, LARGE + 1, CHUNK - 4, CHUNK, CHUNK + 1, MAX_FRAME, 1, 7, MAX_FRAME];
        let frames: Vec<Bytes> = (0u8..).zip(sizes).map(|(i, n)| Bytes::from(vec![i; n])).collect();
        let (read, end) = read_all(&written(&frames));
        assert_eq!(read, frames);
        assert!(matches!(end, ReadEnd::Clean), "{end:?}");
    }

    #[test]
    fn the_wire_format_is_a_length_and_the_bytes() {
        assert_eq!(written(&[Bytes::from_static(b"hi"), Bytes::new()]), b"\0\0\0\x02hi\0\0\0\0");
    }

    #[test]
    fn heartbeats_are_heard_and_not_delivered() {
        let (frames, end) = read_all(b"\0\0\0\0\0\0\0\x01x\0\0\0\0");
        assert_eq!(frames, [Bytes::from_static(b"x")]);
        assert!(matches!(end, ReadEnd::Clean), "{end:?}");
    }

    #[test]
    fn a_frame_above_the_limit_is_refused_by_its_header() {
        let header = (MAX_FRAME as u32 + 1).to_be_bytes();
        let (frames, end) = read_all(&header);
        assert!(frames.is_empty());
        assert!(matches!(end, ReadEnd::Oversized { len } if len as usize == MAX_FRAME + 1), "{end:?}");
    }

    #[test]
    fn a_stream_that_ends_within_a_frame_or_header_is_truncated() {
        for (bytes, expect) in [(&b"\0\0"[..], (2, 4)), (b"\0\0\0\x05abc", (7, 9))] {
            let (_, end) = read_all(bytes);
            assert!(
                matches!(end, ReadEnd::Truncated { got, expected } if (got, expected) == expect),
                "{end:?}"
            );
        }
    }
}
