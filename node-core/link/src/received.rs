//! Messages that a driver has received for a [`crate::Pipe`] and that the link has not read.

use std::collections::VecDeque;

/// Bytes of them. Nothing makes the sender of a WebSocket or a data channel wait; the windows of streams do, and who
/// ignores those is disconnected. Our choice: more than the streams of a connection have as windows.
const BYTES: usize = 64 << 20;

/// Messages of these, since each takes some memory of its own. Our choice: sixteen times the full ones that fit.
const MESSAGES: usize = 1 << 16;

/// Reason why a message is not taken: its sender has to be disconnected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the peer sends faster than this node reads: {} MiB or {MESSAGES} messages wait", BYTES >> 20)]
pub struct Flooded;

/// Messages in the order in which they came, read as one stream of bytes.
#[derive(Debug, Default)]
pub struct Received {
    messages: VecDeque<Vec<u8>>,
    /// Bytes read of the first one.
    read: usize,
    bytes: usize,
}

impl Received {
    /// Takes one message; an empty one says nothing.
    pub fn push(&mut self, message: Vec<u8>) -> Result<(), Flooded> {
        if message.is_empty() {
            return Ok(());
        }
        if self.bytes + message.len() > BYTES || self.messages.len() >= MESSAGES {
            return Err(Flooded);
        }
        self.bytes += message.len();
        self.messages.push_back(message);
        Ok(())
    }

    /// The next bytes; none if all are read.
    pub fn next(&self) -> Option<&[u8]> {
        self.messages.front().and_then(|first| first.get(self.read..))
    }

    /// Takes this many bytes of [`Received::next`] for read.
    pub fn consume(&mut self, bytes: usize) {
        let Some(first) = self.messages.front() else { return };
        let bytes = bytes.min(first.len() - self.read);
        self.read += bytes;
        self.bytes -= bytes;
        if self.read == first.len() {
            self.messages.pop_front();
            self.read = 0;
        }
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_one_stream() {
        let mut received = Received::default();
        for message in [b"ab".as_slice(), b"", b"cde"] {
            received.push(message.to_vec()).unwrap();
        }
        let mut read = Vec::new();
        while let Some(&[next, ..]) = received.next() {
            read.push(next);
            received.consume(1);
        }
        assert_eq!((read.as_slice(), received.bytes), (b"abcde".as_slice(), 0));
        received.consume(1);
        assert_eq!(received.next(), None);
    }

    #[test]
    fn a_flood_of_small_messages_is_refused_as_one_of_bytes_is() {
        let mut small = Received::default();
        for _ in 0..MESSAGES {
            small.push(vec![0]).unwrap();
        }
        assert_eq!(small.push(vec![0]), Err(Flooded));
        small.consume(1);
        assert_eq!(small.push(vec![0]), Ok(()), "one is read");

        let mut large = Received::default();
        large.push(vec![0; BYTES]).unwrap();
        assert_eq!(large.push(vec![0]), Err(Flooded));
        large.consume(1);
        assert_eq!(large.push(vec![0]), Ok(()), "one byte is read");
        large.clear();
        assert_eq!((large.bytes, large.next()), (0, None));
    }
}
