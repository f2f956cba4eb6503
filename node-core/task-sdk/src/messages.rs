//! Messages between threads: one write and one read each, and no other bytes than those of the value.

use crate::files::{self, Mode, errno};
use crate::{Error, MESSAGE_MAX, Result, Thread};
use serde::{Serialize, de::DeserializeOwned};

/// Outcome of a read that waits for no other thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received<T> {
    /// A message was there.
    Message(T),
    /// None is there yet.
    Nothing,
    /// The thread has ended, and all of its messages were read.
    Ended,
}

/// Sends a value as MessagePack. Messages between two threads keep their order; those to a thread that has ended go
/// nowhere. Waits while 1 MiB of this thread's messages are on their way.
///
/// # Errors
/// [`Error::Encode`], or [`Error::TooLong`] above [`MESSAGE_MAX`].
pub fn send<T: Serialize + ?Sized>(to: Thread, value: &T) -> Result<()> {
    send_bytes(to, &files::encode(value)?)
}

/// Sends 1 to [`MESSAGE_MAX`] bytes, as [`send`].
///
/// # Errors
/// [`Error::Empty`] or [`Error::TooLong`].
pub fn send_bytes(to: Thread, message: &[u8]) -> Result<()> {
    if message.is_empty() {
        return Err(Error::Empty);
    }
    files::check("a message", message.len(), MESSAGE_MAX)?;
    let path = format!("to/{}", to.0);
    files::with(&path, Mode::Write, |file| {
        files::write(file, message).map_err(|error| files::failed(&path, error))
    })
}

/// Waits for the next message of a thread; `None` if the thread has ended and all of its messages were read.
///
/// # Errors
/// [`Error::Decode`]: the message is read, and lost.
pub fn recv<T: DeserializeOwned>(from: Thread) -> Result<Option<T>> {
    recv_bytes(from)?.map(|message| decoded(from, &message)).transpose()
}

/// Waits for the next message of a thread, as [`recv`].
///
/// # Errors
/// [`Error::File`] only.
pub fn recv_bytes(from: Thread) -> Result<Option<Vec<u8>>> {
    Ok(match read(&format!("from/{}", from.0), Mode::Read)? {
        Received::Message(message) => Some(message),
        Received::Nothing | Received::Ended => None,
    })
}

/// Waits for the message of any thread that comes first. The end of a thread is no message: if all others have ended,
/// this waits for ever.
///
/// # Errors
/// [`Error::Decode`]: the message is read, and lost.
pub fn recv_any<T: DeserializeOwned>() -> Result<(Thread, T)> {
    let (from, message) = recv_any_bytes()?;
    Ok((from, decoded(from, &message)?))
}

/// Waits for the message of any thread that comes first, as [`recv_any`].
///
/// # Errors
/// [`Error::File`] and [`Error::Format`] only.
pub fn recv_any_bytes() -> Result<(Thread, Vec<u8>)> {
    match read(ANY, Mode::Read)? {
        Received::Message(message) => labelled(message),
        Received::Nothing | Received::Ended => Err(bad_label()),
    }
}

/// The next message of a thread, if one is there.
///
/// # Errors
/// [`Error::Decode`]: the message is read, and lost.
pub fn try_recv<T: DeserializeOwned>(from: Thread) -> Result<Received<T>> {
    Ok(match try_recv_bytes(from)? {
        Received::Message(message) => Received::Message(decoded(from, &message)?),
        Received::Nothing => Received::Nothing,
        Received::Ended => Received::Ended,
    })
}

/// The next message of a thread, if one is there.
///
/// # Errors
/// [`Error::File`] only.
pub fn try_recv_bytes(from: Thread) -> Result<Received<Vec<u8>>> {
    read(&format!("from/{}", from.0), Mode::Try)
}

/// The message of any thread that came first; `None` if none is there.
///
/// # Errors
/// [`Error::Decode`]: the message is read, and lost.
pub fn try_recv_any<T: DeserializeOwned>() -> Result<Option<(Thread, T)>> {
    let Some((from, message)) = try_recv_any_bytes()? else { return Ok(None) };
    Ok(Some((from, decoded(from, &message)?)))
}

/// The message of any thread that came first; `None` if none is there.
///
/// # Errors
/// [`Error::File`] and [`Error::Format`] only.
pub fn try_recv_any_bytes() -> Result<Option<(Thread, Vec<u8>)>> {
    match read(ANY, Mode::Try)? {
        Received::Message(message) => labelled(message).map(Some),
        Received::Nothing | Received::Ended => Ok(None),
    }
}

const ANY: &str = "from/any";

fn read(path: &str, mode: Mode) -> Result<Received<Vec<u8>>> {
    files::with(path, mode, |file| match files::read(file, <[u8]>::to_vec) {
        Ok(message) if message.is_empty() => Ok(Received::Ended),
        Ok(message) => Ok(Received::Message(message)),
        Err(error) if mode == Mode::Try && files::is(&error, errno::AGAIN) => Ok(Received::Nothing),
        Err(error) => Err(files::failed(path, error)),
    })
}

/// Takes the line off that says which thread sent a message.
fn labelled(mut message: Vec<u8>) -> Result<(Thread, Vec<u8>)> {
    let (line, rest) = files::split_line(&message).ok_or_else(bad_label)?;
    let from = files::number(ANY, line)?;
    let start = message.len() - rest.len();
    message.drain(..start);
    Ok((Thread(from), message))
}

fn bad_label() -> Error {
    Error::Format { path: format!("/swarm/{ANY}") }
}

fn decoded<T: DeserializeOwned>(from: Thread, message: &[u8]) -> Result<T> {
    files::decode(|| format!("a message of thread {}", from.0), message)
}

#[cfg(test)]
mod tests {
    use super::{labelled, send_bytes};
    use crate::{Error, MESSAGE_MAX, Thread};

    #[test]
    fn the_label_of_a_message_is_its_first_line() {
        assert_eq!(labelled(b"12\na\nb".to_vec()).ok(), Some((Thread(12), b"a\nb".to_vec())));
        assert!(matches!(labelled(b"a\nb".to_vec()), Err(Error::Format { .. })));
        assert!(matches!(labelled(b"12".to_vec()), Err(Error::Format { .. })));
    }

    #[test]
    fn what_cannot_be_a_message_is_not_written() {
        assert!(matches!(send_bytes(Thread(1), b""), Err(Error::Empty)));
        assert!(matches!(send_bytes(Thread(1), &vec![0; MESSAGE_MAX + 1]), Err(Error::TooLong { .. })));
        assert!(matches!(send_bytes(Thread(1), b"x"), Err(Error::NoThread)));
    }
}
