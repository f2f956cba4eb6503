//! Files under `/swarm`: opened once, one system call a read and a write.

use crate::{Error, MESSAGE_MAX, Result};
use serde::{Serialize, de::DeserializeOwned};
use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};

/// Descriptors that stay open. Our choice: a team of 16 has two for each member, and a task may have 1024.
const OPEN_MAX: usize = 32;

/// Room for a message that is read: most are shorter, and the buffer is part of each snapshot.
const FIRST_ROOM: usize = 16 << 10;

/// Room for the longest message, and the line before it that says from which thread.
const MOST_ROOM: usize = MESSAGE_MAX + 16;

/// Error numbers of WASI preview 1, as `docs/task-api.md` gives them.
pub(crate) mod errno {
    pub(crate) const TOO_BIG: i32 = 1;
    pub(crate) const AGAIN: i32 = 6;
    pub(crate) const BUSY: i32 = 10;
    pub(crate) const QUOTA: i32 = 19;
    pub(crate) const INVALID: i32 = 28;
    pub(crate) const MESSAGE_SIZE: i32 = 35;
    pub(crate) const NO_SPACE: i32 = 51;
}

/// Way of opening a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Read,
    /// A read waits for no other thread.
    Try,
    Write,
    Both,
}

thread_local! {
    /// Those that stay open, the one used last at the end.
    static OPEN: RefCell<Vec<(String, Mode, File)>> = const { RefCell::new(Vec::new()) };
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Opens a file for good; `path` is its path below `/swarm`.
pub(crate) fn open(path: &str, mode: Mode) -> Result<File> {
    let (read, write) = (mode != Mode::Write, matches!(mode, Mode::Write | Mode::Both));
    let opened = OpenOptions::new().read(read).write(write).open(format!("/swarm/{path}"));
    let file = opened.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound if File::open("/swarm/version").is_err() => Error::NoThread,
        _ => failed(path, error),
    })?;
    if mode == Mode::Try {
        no_waiting(&file).map_err(|error| failed(path, error))?;
    }
    Ok(file)
}

/// Lets a function use a file that stays open.
pub(crate) fn with<T>(path: &str, mode: Mode, use_it: impl FnOnce(&mut File) -> Result<T>) -> Result<T> {
    OPEN.with_borrow_mut(|open_files| {
        let place = open_files.iter().position(|(name, its, _)| name == path && *its == mode);
        let mut entry = match place {
            Some(place) => open_files.remove(place),
            None => (path.to_string(), mode, open(path, mode)?),
        };
        let done = use_it(&mut entry.2);
        if open_files.len() == OPEN_MAX {
            open_files.remove(0);
        }
        open_files.push(entry);
        done
    })
}

/// Writes all bytes by one call. The error is that of the file.
pub(crate) fn write(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    match file.write(bytes)? {
        written if written == bytes.len() => Ok(()),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}

/// Reads what one call gives: a message or a value, whole. The error is that of the file.
pub(crate) fn read<T>(file: &mut File, take: impl FnOnce(&[u8]) -> T) -> io::Result<T> {
    BUFFER.with_borrow_mut(|buffer| {
        if buffer.is_empty() {
            buffer.resize(FIRST_ROOM, 0);
        }
        let length = match file.read(buffer) {
            Err(error) if is(&error, errno::MESSAGE_SIZE) && buffer.len() < MOST_ROOM => {
                buffer.resize(MOST_ROOM, 0);
                file.read(buffer)?
            }
            length => length?,
        };
        Ok(take(&buffer[..length]))
    })
}

/// Contents of a file that says the same as long as it is open.
pub(crate) fn text(path: &str) -> Result<String> {
    let mut text = String::new();
    open(path, Mode::Read)?.read_to_string(&mut text).map_err(|error| failed(path, error))?;
    Ok(text)
}

/// A decimal number, and maybe a line break after it.
pub(crate) fn number(path: &str, text: &str) -> Result<u32> {
    text.trim_end().parse().map_err(|_| Error::Format { path: format!("/swarm/{path}") })
}

/// The first line without its break, and what follows; none: there is no line break.
pub(crate) fn split_line(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    Some((std::str::from_utf8(&bytes[..end]).ok()?, &bytes[end + 1..]))
}

pub(crate) fn is(error: &io::Error, errno: i32) -> bool {
    error.raw_os_error() == Some(errno)
}

pub(crate) fn failed(path: &str, error: io::Error) -> Error {
    Error::File { path: format!("/swarm/{path}"), error }
}

/// Fails if something is longer than it may be.
pub(crate) fn check(what: &'static str, bytes: usize, most: usize) -> Result<()> {
    if bytes <= most { Ok(()) } else { Err(Error::TooLong { what, bytes, most }) }
}

pub(crate) fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>> {
    rmp_serde::to_vec(value).map_err(Error::Encode)
}

/// `what` names where the bytes are from.
pub(crate) fn decode<T: DeserializeOwned>(what: impl FnOnce() -> String, bytes: &[u8]) -> Result<T> {
    rmp_serde::from_slice(bytes).map_err(|error| Error::Decode { what: what(), error })
}

/// Sets `O_NONBLOCK`. `std` does so by [`std::os`]'s extension for WASI only, which is not stable; `fcntl` is in the
/// libc that it links anyway.
#[cfg(not(windows))]
fn no_waiting(file: &File) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    unsafe extern "C" {
        fn fcntl(descriptor: i32, command: i32, ...) -> i32;
    }
    /// `F_SETFL` and `O_NONBLOCK` of wasi-libc.
    const SET_FLAGS: i32 = 4;
    const NO_WAITING: i32 = 4;
    // SAFETY: the descriptor is open, and this command takes one `int`.
    match unsafe { fcntl(file.as_raw_fd(), SET_FLAGS, NO_WAITING) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// No program is built for these systems and run as a thread.
#[cfg(windows)]
fn no_waiting(_: &File) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::{check, decode, encode, number, split_line};
    use crate::Error;

    #[test]
    fn a_line_is_split_off_once() {
        assert_eq!(split_line(b"3\nfour\nfive"), Some(("3", &b"four\nfive"[..])));
        assert_eq!(split_line(b"exit 0\n"), Some(("exit 0", &b""[..])));
        assert_eq!(split_line(b"no line"), None);
    }

    #[test]
    fn numbers_are_decimal_lines() {
        assert_eq!(number("self", "12\n").ok(), Some(12));
        assert!(matches!(number("self", "x\n"), Err(Error::Format { path }) if path == "/swarm/self"));
    }

    #[test]
    fn a_value_comes_back_as_it_was_and_as_no_other_type() {
        let bytes = encode(&(7u32, vec![0.5f64, -0.0], Some("text"))).expect("it has a form");
        let back: (u32, Vec<f64>, Option<String>) = decode(String::new, &bytes).expect("its own type");
        assert_eq!(back, (7, vec![0.5, -0.0], Some("text".into())));
        let other = decode::<Vec<String>>(|| "a message of thread 3".into(), &bytes).unwrap_err();
        assert!(other.to_string().starts_with("a message of thread 3 is of another type"), "{other}");
        assert_eq!(encode(&()).map(|bytes| bytes.len()).ok(), Some(1), "no value is an empty message");
    }

    #[test]
    fn a_limit_is_inclusive() {
        assert!(check("a message", 4, 4).is_ok());
        let long = check("a message", 5, 4).unwrap_err();
        assert_eq!(long.to_string(), "a message has 5 bytes, and 4 is the most: send it in parts");
    }
}
