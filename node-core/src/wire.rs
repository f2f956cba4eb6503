//! The wire format: one message a frame.
//!
//! A frame is the version byte, the byte of the service that is to receive it ([`ServiceId`]), and a
//! MessagePack body. Its length is bounded by [`MAX_FRAME`], its depth by the types. A version that is not
//! ours is named, not guessed at. Who does not speak a service drops its frames, and nothing else.

use crate::channel::Channel;
use crate::ticket::ServiceId;
use bytes::Bytes;
use sandbox::unpack;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, Write};

/// Longest frame, bytes. Our choice: what a node can hold for each of 10,000 peers
/// for a moment, and blobs go in chunks anyway.
pub const MAX_FRAME: usize = 1 << 20;

/// Characters that are said of a bad frame: the decoder quotes what the peer wrote, up to a MiB. Our choice:
/// a line of a log.
const SAID: usize = 200;

/// The version of everything below; the first byte of each frame.
pub const VERSION: u8 = 24;

/// Content of a frame.
pub trait Framed: Serialize + DeserializeOwned {
    /// The service that is to receive it.
    fn service(&self) -> ServiceId;
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
    #[error("sent a message to a service that it is not for")]
    WrongService,
}

/// Bytes of a frame that are written without memory of their own. Our choice: most frames but content.
const SHORT: usize = 256;

/// A frame that is being written: short ones are copied once, when their length is known.
struct Writer {
    short: [u8; SHORT],
    len: usize,
    /// The whole frame, once it is longer than that.
    long: Vec<u8>,
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes).map(|()| bytes.len())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let end = self.len + bytes.len();
        if end > MAX_FRAME {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        match self.short.get_mut(self.len..end).filter(|_| self.long.is_empty()) {
            Some(room) => room.copy_from_slice(bytes),
            None => {
                if self.long.is_empty() {
                    self.long.extend_from_slice(self.short.get(..self.len).unwrap_or_default());
                }
                self.long.extend_from_slice(bytes);
            }
        }
        self.len = end;
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The frame of a message, or `None` if it would be longer than [`MAX_FRAME`]: our bug, since
/// every machine keeps its messages below it.
pub fn encode(to: ServiceId, body: &impl Serialize) -> Option<Bytes> {
    let mut frame = Writer { short: [0; SHORT], len: 0, long: Vec::new() };
    frame.write_all(&[VERSION, to as u8]).ok()?;
    rmp_serde::encode::write(&mut frame, body).ok()?;
    Some(match frame.long.is_empty() {
        true => Bytes::copy_from_slice(frame.short.get(..frame.len)?),
        false => Bytes::from(frame.long.into_boxed_slice()),
    })
}

/// The number of the service that a frame from a peer is for, and its body.
///
/// # Errors
/// The frame is too long, of another version, or came on another channel than its service's.
pub fn open(frame: &[u8], channel: Channel) -> Result<(u8, &[u8]), WireError> {
    if frame.len() > MAX_FRAME {
        return Err(WireError::TooLong(frame.len()));
    }
    match frame {
        [] => Err(WireError::Empty),
        [VERSION, service, body @ ..] => match ServiceId::of(*service) {
            Some(known) if known.channel() != channel => Err(WireError::WrongChannel),
            _ => Ok((*service, body)),
        },
        [VERSION] => Err(WireError::Garbage("it names no service".into())),
        [version, ..] => Err(WireError::Version(*version)),
    }
}

/// The message of a body.
///
/// # Errors
/// It is no such message, or more follows it.
pub fn read<M: DeserializeOwned>(body: &[u8]) -> Result<M, WireError> {
    unpack::from_slice(body).map_err(|e| WireError::Garbage(e.to_string().chars().take(SAID).collect()))
}
