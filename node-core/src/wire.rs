//! The wire format: one envelope a frame.
//!
//! A frame is the version byte and a MessagePack body. Its length is bounded by
//! [`MAX_FRAME`], its depth by the types. A version that is not ours is named, not guessed at.

use crate::channel::Channel;
use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Longest frame, bytes. Our choice: what a node can hold for each of 10,000 peers
/// for a moment, and blobs go in chunks anyway.
pub const MAX_FRAME: usize = 1 << 20;

/// Characters that are said of a bad frame: the decoder quotes what the peer wrote, up to a MiB. Our choice:
/// a line of a log.
const SAID: usize = 200;

/// The version of everything below; the first byte of each frame.
pub const VERSION: u8 = 13;

/// Content of a frame.
pub trait Framed: Serialize + DeserializeOwned {
    /// The stream that it belongs on.
    fn channel(&self) -> Channel;
}

/// Why a frame was not understood; a fault of the peer that sent it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    #[error("sent an empty frame")]
    Empty,
    #[error("sent a frame of {0} bytes; {MAX_FRAME} are allowed")]
    TooLong(usize),
    #[error(
        "speaks version {0} of the protocol and this node version {VERSION}; the older of the two needs an update"
    )]
    Version(u8),
    #[error("sent a frame that is not a message: {0}")]
    Garbage(String),
    #[error("sent a message on the wrong channel")]
    WrongChannel,
}

/// The frame of a message, or `None` if it would be longer than [`MAX_FRAME`]: our bug, since
/// every machine keeps its messages below it.
pub fn encode(message: &impl Framed) -> Option<Bytes> {
    let mut frame = Vec::with_capacity(256);
    frame.push(VERSION);
    rmp_serde::encode::write(&mut frame, message).ok()?;
    (frame.len() <= MAX_FRAME).then(|| Bytes::from(frame.into_boxed_slice()))
}

/// The message in a frame from a peer.
///
/// # Errors
/// The frame is too long, of another version, no message, or came on another channel than its message
/// belongs on.
pub fn decode<M: Framed>(frame: &[u8], channel: Channel) -> Result<M, WireError> {
    if frame.len() > MAX_FRAME {
        return Err(WireError::TooLong(frame.len()));
    }
    let (version, body) = frame.split_first().ok_or(WireError::Empty)?;
    if *version != VERSION {
        return Err(WireError::Version(*version));
    }
    // The decoder that records are read with, so that a page does not load two.
    let mut decoder = rmp_serde::Deserializer::from_read_ref(body);
    // Our deepest message has 12 levels; a peer's must not eat the stack.
    decoder.set_max_depth(32);
    let message = M::deserialize(&mut decoder)
        .map_err(|e| WireError::Garbage(e.to_string().chars().take(SAID).collect()))?;
    if !at_the_end(&mut decoder) {
        return Err(WireError::Garbage("something follows the message".into()));
    }
    if message.channel() != channel {
        return Err(WireError::WrongChannel);
    }
    Ok(message)
}

/// Whether nothing is left to decode.
fn at_the_end<'a>(decoder: &mut rmp_serde::Deserializer<rmp_serde::decode::ReadRefReader<'a, [u8]>>) -> bool {
    use rmp_serde::decode::Error::InvalidMarkerRead;
    let next = serde::de::IgnoredAny::deserialize(decoder);
    matches!(next, Err(InvalidMarkerRead(e)) if e.kind() == std::io::ErrorKind::UnexpectedEof)
}
